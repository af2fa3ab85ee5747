"""Builds a package of the series MLPerf Endpoints from the official client's runs, and judges it.

Layout: endpoints_rules.md §8.1 of github.com/mlcommons/endpoints_policies. Nothing appears under
the requested folder unless the package is complete and every rule passes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mlperf_suite import __version__
from mlperf_suite.client_results.client_benchmarks import ClientBenchmark
from mlperf_suite.client_results.package_files import OF_A_POINT, SteadyState
from mlperf_suite.client_results.provisioned_power import ProvisionedPower, SystemPower
from mlperf_suite.client_results.series import (
    SEED_SETS,
    SERIES_MODELS,
    Regions,
    min_duration_s,
)
from mlperf_suite.errors import RefusedError, UsageError
from mlperf_suite.judging.packages import judge_package
from mlperf_suite.judging.tree import (
    CLIENT_ACCURACY,
    CLIENT_SUMMARY,
    POINT_YAML,
    SYSTEM_POWER,
    yaml_text,
)
from mlperf_suite.results.run_folder import write_json, write_whole
from mlperf_suite.secrets import scrub
from mlperf_suite.submission.client_points import ClientPoint, read_points
from mlperf_suite.submission.package_facts import PackageFacts, lacking_warmup, read_facts
from mlperf_suite.submission.point_events import (
    NO_WARMUP,
    PointEvents,
    known_of_warmup,
    read_point_events,
    token_counts,
)
from mlperf_suite.submission.texts import folder_name

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
_FOLDERS = ("organization", "submission_id", "implementation")
_NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class PackageRequest:
    """What to package. `facts`: submission.toml."""

    results: tuple[Path, ...]
    facts: Path
    out: Path


@dataclass(frozen=True, slots=True)
class Package:
    """A package that was built. `notes`: a line on each thing that was decided."""

    root: Path
    system: str
    model: str
    points: int
    rules_passed: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Curve:
    """The points by the numbers of their folders. `dedicated`: that of a dedicated Offline run."""

    model: ClientBenchmark
    points: Mapping[int, ClientPoint]
    c_max: int
    c_min_override: int | None
    dedicated: int | None

    @property
    def fixed(self) -> list[int]:
        return [number for number in self.points if number != self.dedicated]

    @property
    def highest_tps(self) -> float:
        return max(point.output_tps for point in self.points.values())

    def region(self, number: int) -> str:
        """What point.yaml calls a point's region; a dedicated Offline point is in none."""
        lowest = self.c_min_override or min(self.fixed)
        if number == self.dedicated:
            return "submitters_choice"
        return Regions.of(self.c_max, lowest).declared_as(number)

    def offline(self, number: int) -> str:
        if self.dedicated is None:
            return "elected" if number == self.c_max else "none"
        return "dedicated" if number == self.dedicated else "none"


def build_package(request: PackageRequest) -> Package:
    """Build <out>/<organization>/<submission id>.

    Raises UsageError for an invalid request, RefusedError with every reason, one line each, for
    results that cannot be packaged and facts that are missing.
    """
    out = request.out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {request.out}: already exists; choose a new folder")
    facts = read_facts(request.facts)
    points, reasons = read_points(request.results)
    reasons += [*facts.missing(), *_wrong(facts)]
    of_warmups = [line for p in points for line in lacking_warmup(facts, known_of_warmup(p))]
    reasons += dict.fromkeys(of_warmups)
    curve, of_points = (None, []) if reasons else _curve(points, facts)
    if curve is None:
        raise RefusedError(reasons + of_points)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        folder.chmod(0o755)
        writer = _Writer(folder / facts.text("organization"), facts, curve)
        writer.write()
        passed, failures = writer.judge()
        if failures:
            raise RefusedError(failures)
        if out.exists():
            out.rmdir()
        folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Package(
        root=request.out / writer.root.relative_to(folder),
        system=writer.system,
        model=curve.model.id,
        points=len(curve.points),
        rules_passed=passed,
        notes=tuple(writer.notes),
    )


def _wrong(facts: PackageFacts) -> list[str]:
    """What the facts say that cannot be."""
    lines = [
        f"{facts.path}: {name} {value}: allowed are letters, digits and . _ + - (it names a folder)"
        for name in _FOLDERS
        if (value := facts.text(name)) and not _NAME.fullmatch(value)
    ]
    benchmark = facts.text("benchmark")
    if benchmark and benchmark not in SERIES_MODELS:
        lines.append(f"{facts.path}: benchmark {benchmark}: one of {', '.join(SERIES_MODELS)}")
    for name in ("source", "docs", "tokenizer"):
        if (path := facts.text(name)) and not (facts.path.parent / path).is_dir():
            lines.append(f"{facts.path}: {name} {path}: no folder")
    return lines


def _curve(points: Sequence[ClientPoint], facts: PackageFacts) -> tuple[_Curve | None, list[str]]:
    """The points as a curve, or None and why they are none."""
    model = SERIES_MODELS[facts.text("benchmark")]
    by_number: dict[int, ClientPoint] = {}
    reasons, dedicated = [], None
    for point in points:
        number = point.concurrency
        if number is None:
            load = point.config.settings.load_pattern.type
            if load != "max_throughput":
                reasons.append(f"{point}: load {load}: a point has a fixed concurrency")
                continue
            # §5.7: a dedicated Offline run issues its whole data set at once.
            dedicated = number = model.samples
        if number in by_number:
            reasons.append(f"{point}: concurrency {number:,} is in {by_number[number]} too")
        by_number.setdefault(number, point)
    fixed = [number for number in by_number if number != dedicated]
    if not fixed:
        return None, [*reasons, "no point at a fixed concurrency"]
    system = facts.table("system")
    c_max = system.get("max_supported_concurrency", max(fixed))
    c_min = system.get("c_min_override")
    try:
        Regions.of(c_max, c_min or min(fixed))
    except (TypeError, ValueError) as error:
        reasons.append(f"{error}: a curve has a C_min of 1 to 32 and a higher C_max")
    curve = _Curve(model, dict(sorted(by_number.items())), c_max, c_min, dedicated)
    return (None if reasons else curve), reasons


def _judge(root: Path) -> tuple[int, list[str]]:
    """The number of rules that a package passes, and the others, one per line."""
    groups = judge_package(root)
    failures = [
        f"{group.name}: {v.rule}: found {v.found}, required {v.required}"
        for group in groups
        for v in group.verdicts
        if v.status == "failed"
    ]
    return sum(group.count("passed") for group in groups), failures


class _Writer:
    """Writes the files of one curve."""

    def __init__(
        self,
        home: Path,
        facts: PackageFacts,
        curve: _Curve,
    ) -> None:
        self.root = home / facts.text("submission_id")
        self.system = folder_name(str(facts.table("system")["system_name"]))
        self.notes: list[str] = []
        self._facts, self._curve = facts, curve
        self._source = f"src/{facts.text('implementation')}"
        self._events: dict[int, PointEvents] = {}

    def write(self) -> None:
        self._write_texts()
        self._read_events()
        results = self.root / "results" / self.system
        for number, point in self._curve.points.items():
            self._write_point(results / self._curve.model.id / f"r{number}", number, point)
        if self._facts.needs_power:
            write_json(results / SYSTEM_POWER, self._power())

    def judge(self) -> tuple[int, list[str]]:
        """Judge the package as it stands; the client's events, where there are any, too."""
        results = self.root / "results" / self.system / self._curve.model.id
        links = []
        for number, point in self._curve.points.items():
            if point.events_file is not None:
                links.append(results / f"r{number}" / "events.jsonl")
                links[-1].symlink_to(point.events_file)
        verdicts = _judge(self.root)
        for link in links:
            link.unlink()
        return verdicts

    def _read_events(self) -> None:
        """Compute what follows from each point's events.jsonl, and note it."""
        folder = self._facts.text("tokenizer")
        counts = token_counts(self._facts.path.parent / folder) if folder else None
        for number, point in self._curve.points.items():
            events = read_point_events(point, self._curve.model.samples, number, counts)
            self._events[number] = events
            if (state := events.steady_state) is not None:
                self.notes.append(f"r{number}: {_state_in_words(state)}")
        fixed = [number for number in self._curve.fixed if not self._events[number].block]
        if fixed:
            names = ", ".join(f"r{number}" for number in fixed)
            self.notes.append(
                f"{names}: no steady-state window, the whole run's figures count; it needs "
                "events.jsonl and `tokenizer`, the folder of tokenizer.json, in "
                f"{self._facts.path.name}"
            )

    def _warmup(self, number: int) -> dict[str, Any]:
        """The warm-up's block: counts from the events, the rest from the facts."""
        point, given = self._curve.points[number], self._facts.table("warmup")
        counted = self._events[number].warmup
        if counted.get("requests_issued"):
            return {**given, **counted}
        none = NO_WARMUP if "data_source" in known_of_warmup(point) else {}
        return {**none, **counted, **given}

    def _write_texts(self) -> None:
        """src/ and docs/: what the facts name, or a README.md that says what ran."""
        for name, place, text in (
            ("source", self._source, self._source_text()),
            ("docs", "docs", self._docs_text()),
        ):
            folder = self.root / place
            if path := self._facts.text(name):
                origin = self._facts.path.parent / path
                shutil.copytree(origin, folder, ignore=_NOT_COPIED, symlinks=True)
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "README.md").exists():
                write_whole(folder / "README.md", text)

    def _source_text(self) -> str:
        name = self._facts.text("implementation")
        return (
            f"# {name}\n\nWhat served {self._facts.text('benchmark')}. Put the changes that were "
            "made to it, and the code that is not public, into this folder.\n"
        )

    def _docs_text(self) -> str:
        versions = sorted({p.summary.version or "unknown" for p in self._curve.points.values()})
        return (
            f"# {self._facts.text('submission_id')}\n\nMeasured with the client inference-endpoint "
            f"{', '.join(versions)}; packaged with mlperf-suite {__version__}.\n"
        )

    def _write_point(self, folder: Path, number: int, point: ClientPoint) -> None:
        folder.mkdir(parents=True)
        write_whole(folder / POINT_YAML, yaml_text(self._point(number, point)))
        write_json(folder / "system_desc.json", self._description(number, point))
        _copy_text(point.config_file, folder / "config.yaml")
        shutil.copyfile(point.summary_file, folder / CLIENT_SUMMARY)
        if point.accuracy_file is not None:
            shutil.copyfile(point.accuracy_file, folder / CLIENT_ACCURACY)

    def _point(self, number: int, point: ClientPoint) -> dict[str, Any]:
        """point.yaml (§8.3)."""
        facts, load = self._facts, point.config.settings.load_pattern
        kinds = ("Accuracy", "Performance") if point.accuracy_file else ("Performance",)
        of_point = {n: v for n, v in facts.of_point(number).items() if n not in OF_A_POINT}
        nodes = [
            {"system_node_ensemble_id": node["system_node_ensemble_id"], "nodes": count}
            for node, count in self._nodes()
        ]
        return {
            "concurrency": number,
            "region": self._curve.region(number),
            "offline": self._curve.offline(number),
            "division": facts.text("division"),
            "max_supported_concurrency": self._curve.c_max,
            "model_name": self._curve.model.id,
            **{name: facts.text(name) for name in ("model_precision", "link_to_model")},
            "dataset": facts.text("dataset_name"),
            "dataset_name": facts.text("dataset_name"),
            "dataset_type": " + ".join(kinds),
            "dataset_link": facts.text("dataset_link"),
            "target_cohort": facts.text("target_cohort"),
            **self._seeds(point),
            "warmup": self._warmup(number),
            **self._events[number].block,
            "nodes_used": nodes,
            "shared_src": self._source,
            "shared_docs": "docs",
            **of_point,
        } | {
            "runtime_settings": {
                "load_pattern": load.type,
                "min_duration_ms": point.config.settings.runtime.min_duration_ms
                or int(1000 * min_duration_s(number)),
                **self._runtime(point),
            }
        }

    def _seeds(self, point: ClientPoint) -> dict[str, str]:
        """The set whose seeds the run had."""
        runtime = point.config.settings.runtime
        seeds = (runtime.scheduler_random_seed, runtime.dataloader_random_seed)
        for name, seed_set in SEED_SETS.items():
            ours = seed_set.seeds
            if seeds == (ours["scheduler_rng_seed"], ours["sample_index_rng_seed"]):
                return {"seed_set": name}
        return {"seed_set": "none"}

    def _runtime(self, point: ClientPoint) -> dict[str, Any]:
        """The seeds as the run had them; that of the model is the set's."""
        runtime = point.config.settings.runtime
        seed_set = SEED_SETS.get(self._seeds(point)["seed_set"])
        return {
            "runtime": {
                "scheduler_rng_seed": runtime.scheduler_random_seed,
                "sample_index_rng_seed": runtime.dataloader_random_seed,
                "model_seed": seed_set.seeds["model_seed"] if seed_set else None,
            }
        }

    def _nodes(self) -> list[tuple[dict[str, Any], int]]:
        """Each kind of node, numbered, and how many of them there are."""
        numbered = [
            {"system_node_ensemble_id": number, "number_of_nodes": 1, **node}
            for number, node in enumerate(self._facts.nodes, 1)
        ]
        return [(node, int(node["number_of_nodes"])) for node in numbered]

    def _description(self, number: int, point: ClientPoint) -> dict[str, Any]:
        """system_desc.json (§8.2)."""
        nodes = self._nodes()
        count = sum(count for _, count in nodes)
        of_point = self._facts.of_point(number)
        return {
            "division": self._facts.text("division"),
            "system_size": f"{count} node{'s' * (count != 1)}",
            "system_node_ensemble_count": len(nodes),
            "system_node_ensemble_total": count,
            "max_supported_concurrency": self._curve.c_max,
            **self._facts.table("system"),
            "node_types": [node for node, _ in nodes],
            "tps_utilization": round(point.output_tps / (self._curve.highest_tps or 1.0), 4),
            **{name: value for name, value in of_point.items() if name in OF_A_POINT},
        }

    def _power(self) -> dict[str, Any]:
        """system_power.json (appendix E) with the figures of E.5 computed."""
        given = self._facts.table("power")
        node_sets = [
            {
                "node_set_id": number,
                "system_node_ensemble_id": number,
                "nodes_provisioned": count,
                "power_method": "component_sum",
                **node_set,
            }
            for number, (node_set, (_, count)) in enumerate(
                zip(given["node_sets"], self._nodes(), strict=False), 1
            )
        ]
        content = {"system_desc_id": self.system, **given, "node_sets": node_sets}
        try:
            power = msgspec.convert(content, SystemPower)
        except msgspec.ValidationError as error:
            raise RefusedError([f"{self._facts.path}: [power]: {error}"]) from error
        ids = {node["system_node_ensemble_id"]: node for node, _ in self._nodes()}
        cores = {
            e: int(node["host_processor_core_count"])
            for e, node in ids.items()
            if "host_processor_core_count" in node
        }
        provisioned = ProvisionedPower(power, cores)
        if provisioned.faults:
            raise RefusedError([f"{self._facts.path}: [power]: {f}" for f in provisioned.faults])
        total_w = sum(provisioned.sets) + provisioned.switches_w
        return {
            **content,
            "computed": {"total_system_power_w": total_w},
            "provisioned_power_kw": provisioned.kw,
        }


def _state_in_words(state: SteadyState) -> str:
    window = state.window
    if state.status != "windowable":
        return f"no steady-state window ({state.status}, {state.verdict}), the whole run counts"
    first, last, time_s = window.super_pass_start, window.super_pass_end, window.duration_s
    words = "" if state.verdict == "STEADY STATE" else f", {state.verdict}"
    return f"steady state from super-pass {first} to {last}, {time_s:,.1f} s{words}"


def _copy_text(source: Path, target: Path) -> None:
    """Copy a file of the client, with what looks like a token or a key redacted."""
    write_whole(target, scrub(source.read_text(encoding="utf-8")))
