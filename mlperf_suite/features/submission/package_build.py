"""Builds a package of the series MLPerf Endpoints from the official client's runs, and judges it.

Layout: endpoints_rules.md §8.1 of github.com/mlcommons/endpoints_policies. Nothing appears under
the requested folder unless the package is complete and every rule passes.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.errors import RefusedError, UsageError
from mlperf_suite.features.endpoints.judging.packages import judge_package
from mlperf_suite.features.endpoints.official_client_results.series import SERIES_MODELS, Regions
from mlperf_suite.features.submission.evidence import failures_of
from mlperf_suite.features.submission.official_client_points import (
    OfficialClientPoint,
    linked,
    read_points,
    with_accuracy_of,
)
from mlperf_suite.features.submission.package_facts import PackageFacts, lacking_warmup, read_facts
from mlperf_suite.features.submission.package_writer import (
    PackageCurve,
    PackageWriter,
    known_of_warmup,
)
from mlperf_suite.results.run_folder import check_writable

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
_FOLDERS = ("organization", "submission_id", "implementation")


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


def build_package(request: PackageRequest) -> Package:
    """Build <out>/<organization>/<submission id>.

    Raises UsageError for an invalid request, RefusedError with every reason, one line each, for
    results that cannot be packaged and facts that are missing.
    """
    check_writable(request.out, "--out")
    out, facts = request.out.absolute(), read_facts(request.facts)
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
        writer = PackageWriter(folder / facts.text("organization"), facts, curve)
        _take_earlier_curves(request, writer.results.relative_to(folder), folder)
        writer.write()
        with linked(writer.client_events):
            groups = judge_package(writer.root)
        if failures := failures_of(groups):
            raise RefusedError(failures)
        _put_into_place(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Package(
        root=request.out / writer.root.relative_to(folder),
        system=writer.system,
        model=curve.model.id,
        points=len(curve.points),
        rules_passed=sum(group.count("passed") for group in groups),
        notes=tuple(writer.notes),
    )


def _take_earlier_curves(request: PackageRequest, curve: Path, folder: Path) -> None:
    """Copy the content of --out, if it is this submission's package and does not have the curve
    yet. `curve`: its path in --out. Raises UsageError for anything else there."""
    out = request.out
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    package = out.joinpath(*curve.parts[:2])
    if [path.name for path in out.iterdir()] != [curve.parts[0]] or not package.is_dir():
        raise UsageError(f"--out {out}: is not a package of {package.name}; choose a new folder")
    if (out / curve).exists():
        raise UsageError(f"--out {out}: already has {curve}; choose a new folder")
    shutil.copytree(out, folder, symlinks=True, dirs_exist_ok=True)


def _put_into_place(folder: Path, out: Path) -> None:
    """Replace what is at `out`, if anything, by the folder."""
    if not out.exists():
        folder.replace(out)
        return
    earlier = folder.with_name(f"{folder.name}.earlier")
    out.replace(earlier)
    folder.replace(out)
    shutil.rmtree(earlier, ignore_errors=True)


def _wrong(facts: PackageFacts) -> list[str]:
    """What the facts say that cannot be."""
    lines = [
        f"{facts.path}: {name} {facts.text(name)}: must contain only letters, digits and . _ + - "
        "(it names a folder)"
        for name in _FOLDERS
        if name in facts.content and not _NAME.fullmatch(facts.text(name))
    ]
    benchmark = facts.text("benchmark")
    if "benchmark" in facts.content and benchmark not in SERIES_MODELS:
        lines.append(f"{facts.path}: benchmark {benchmark}: one of {', '.join(SERIES_MODELS)}")
    for number, node in enumerate(facts.nodes, 1):
        for name in ("number_of_nodes", "host_processor_core_count"):
            if name in node and (type(node[name]) is not int or node[name] < 1):
                value = node[name]
                lines.append(f"{facts.path}: node_types, no. {number}: {name} {value}: no count")
    sets = facts.table("power").get("node_sets")
    if isinstance(sets, list) and len(sets) != len(facts.nodes):
        lines.append(
            f"{facts.path}: {len(sets)} [[power.node_sets]] and {len(facts.nodes)} "
            "[[system.node_types]]: one for each, in the same order"
        )
    for name in ("source", "docs", "tokenizer"):
        if (path := facts.text(name)) and not (facts.path.parent / path).is_dir():
            lines.append(f"{facts.path}: {name} {path}: no folder")
    return lines


def _curve(
    points: Sequence[OfficialClientPoint], facts: PackageFacts
) -> tuple[PackageCurve | None, list[str]]:
    """The points as a curve, or None and why they are none."""
    model = SERIES_MODELS[facts.text("benchmark")]
    by_number: dict[int, OfficialClientPoint] = {}
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
    by_number, counted_scores = _with_accuracy(by_number, facts)
    reasons += counted_scores
    curve = PackageCurve(model, dict(sorted(by_number.items())), c_max, c_min, dedicated)
    return (None if reasons else curve), reasons


def _with_accuracy(
    points: Mapping[int, OfficialClientPoint], facts: PackageFacts
) -> tuple[dict[int, OfficialClientPoint], list[str]]:
    """The points with the accuracy runs that the facts name, and why one cannot be taken."""
    result, reasons = dict(points), []
    for number, point in points.items():
        place = facts.accuracy_of_point(number)
        if isinstance(place, Path):
            scored = with_accuracy_of(point, place)
            if isinstance(scored, str):
                reasons.append(f"{facts.path}: [point.{number}] {scored}")
            else:
                result[number] = scored
        elif not place:
            result[number] = replace(point, accuracy_file=None, accuracy=None)
    return result, reasons
