"""Judges a scenario of a submission that the official HTTP client measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path, PurePath
from typing import Any

from mlperf_suite import rules
from mlperf_suite.benchmarks.catalog import find_benchmark
from mlperf_suite.benchmarks.prompts import in_template, load_tokenizer, with_objects
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    WAN,
    OfficialClientBenchmark,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.official_client_results.client_events import (
    RunEvents,
    read_events,
)
from mlperf_suite.features.endpoints.official_client_results.event_lines import Message
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
    AccuracyResults,
    AuditResult,
    Distribution,
    OfficialClientConfig,
    ResultSummary,
    read_typed,
    read_yaml_as,
)
from mlperf_suite.features.endpoints.rules.official_client_rules import OfficialClientFacts
from mlperf_suite.features.submission_check.scenario_folders import BenchmarkFolder, ScenarioFolder
from mlperf_suite.features.submission_check.submission_rules import PowerSupplyRating
from mlperf_suite.features.submission_check.tree_files import read_yaml, size_of
from mlperf_suite.judging.reading import read_json
from mlperf_suite.judging.verdict_group import (
    JudgedFigures,
    VerdictGroup,
    name_of,
    scenario_of,
    verdict_group,
)
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.results.schema import Percentiles, RepeatFigures

_AUDIT = "audit_"


@dataclass(frozen=True, slots=True)
class OfficialClientResult:
    """A scenario's folder of the official client, identified, and what its files have."""

    place: ScenarioFolder
    benchmark: OfficialClientBenchmark
    config: OfficialClientConfig | None
    summary: ResultSummary | None
    accuracy: AccuracyResults | None
    problems: tuple[str, ...]

    @property
    def round(self) -> Round | None:
        """The round that has the seeds of samples and schedule."""
        if self.config is None:
            return None
        runtime = self.config.settings.runtime
        seeds = (runtime.dataloader_random_seed, runtime.scheduler_random_seed)
        return next(
            (r for r in ROUNDS.values() if (r.sample_index_rng_seed, r.schedule_rng_seed) == seeds),
            None,
        )

    @property
    def runs(self) -> list[tuple[object, ...]]:
        """What two performance or accuracy runs do not share by chance, of those that were made."""
        runs = [result.run for result in (self.summary, self.accuracy) if result is not None]
        return [run for run in runs if run is not None]

    def judge(
        self, round_: Round, copies: tuple[str, ...] = (), tokenizer: Path | None = None
    ) -> VerdictGroup:
        """Judge it; `copies`: others that have the same run; `tokenizer`: the folder of one that
        may be the result's."""
        place = self.place
        measurements = place.measurements_file(place.folder)
        facts = OfficialClientFacts(
            division=place.division,
            submitter=place.submitter,
            name=place.benchmark,
            scenario=place.scenario,
            round=round_,
            benchmark=self.benchmark,
            config=self.config,
            summary=self.summary,
            accuracy=self.accuracy,
            problems=self.problems,
            events=events_of(place.folder, self.config, tokenizer),
            audits=_audits(place.folder / "audit"),
            missing_files=tuple(_missing(place)),
            system=read_json(place.system_file),
            measurements=read_json(measurements or place.folder / "measurements.json"),
            copies=copies,
            power_logs=(place.folder / "performance" / "power").exists(),
            nameplate=_power_supply_rating(place),
        )
        parts = (place.submitter, place.system, place.benchmark, place.scenario)
        name = name_of(place.division, *parts)
        benchmark = find_benchmark(self.benchmark.id)
        scenario = scenario_of(benchmark, self.benchmark.scenario)
        groups = [("performance", rules.judge(facts))]
        return verdict_group(name, round_, groups, benchmark, scenario, self._figures)

    @property
    def _figures(self) -> JudgedFigures:
        """What it measured; scores that are a number, by their data sets."""
        accuracy = self.accuracy.counted_scores if self.accuracy else []
        scores = {s.dataset_name: s.score for s in accuracy if isinstance(s.score, float)}
        summary = self.summary
        if summary is None:
            return JudgedFigures(scores=scores)
        times = (_percentiles_ms(of) for of in (summary.latency, summary.ttft, summary.tpot))
        latency, ttft, tpot = times
        rate, tokens = summary.qps, summary.tps
        performance = RepeatFigures(summary.complete, tokens, rate, rate, latency, ttft, tpot)
        return JudgedFigures(performance, scores)


def _percentiles_ms(distribution: Distribution) -> Percentiles:
    """The client's percentiles, in ns, by LoadGen's names."""
    found = ((p, distribution.percentiles.get(f"{p}.0")) for p in (50, 90, 99))
    return {f"p{p}": value / 1e6 for p, value in found if value is not None}


def official_client_results_of(
    place: BenchmarkFolder, names: Mapping[str, str]
) -> list[OfficialClientResult]:
    """The scenarios of a benchmark that the client measured. `names`: see model_mapping.json."""
    results = []
    for scenario in place.scenarios:
        name = names.get(place.benchmark, place.benchmark)
        benchmark = official_client_benchmark(name, scenario.scenario)
        if benchmark is not None and _is_of_client(scenario):
            results.append(_read(scenario, benchmark))
    return results


def _is_of_client(place: ScenarioFolder) -> bool:
    """Whether the official client measured it: any of its files, and no detail log where the
    official checker looks for one."""
    logs = (place.folder / "performance" / "run_1" / DETAIL, place.folder / "accuracy" / DETAIL)
    return any(map(Path.exists, _client_files(place))) and not any(map(Path.exists, logs))


def _client_files(place: ScenarioFolder) -> tuple[Path, Path, Path]:
    """config.yaml, result_summary.json and accuracy_results.json of the official client."""
    yml = place.folder / "config.yml"
    config = yml if yml.exists() else place.folder / "config.yaml"
    performance, accuracy = place.folder / "performance", place.folder / "accuracy"
    return config, performance / OFFICIAL_CLIENT_SUMMARY, accuracy / OFFICIAL_CLIENT_ACCURACY


def _read(place: ScenarioFolder, benchmark: OfficialClientBenchmark) -> OfficialClientResult:
    config_file, summary_file, accuracy_file = _client_files(place)
    config, fault = read_yaml_as(config_file, OfficialClientConfig)
    summary, no_summary = read_typed(summary_file, ResultSummary)
    accuracy, no_accuracy = read_typed(accuracy_file, AccuracyResults)
    problems = tuple(filter(None, (fault, no_summary, no_accuracy)))
    return OfficialClientResult(place, benchmark, config, summary, accuracy, problems)


def events_of(
    folder: Path, config: OfficialClientConfig | None = None, tokenizer: Path | None = None
) -> RunEvents | str | None:
    """The run's events, why they cannot be read, or None if the file is not there.

    Tokens are counted by the tokenizer that `config` names, from the folder `tokenizer` or the
    local cache of the Hugging Face hub, where either has it.
    """
    paths = (folder / "events.jsonl", folder / "performance" / "events.jsonl")
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return None
    place = _tokenizer_of(config, tokenizer)
    # Not before: the client's modules come with it.
    from mlperf_suite.features.servers.http_requests import TextCodec

    try:
        codec = None if place is None else TextCodec(str(place))
    # The library raises Exception itself for a file that it cannot read.
    except Exception:
        codec = None
    how = (codec.counts, codec.prompt, _ChatCounts(place)) if codec and place else ()
    events, problem = read_events(path, *how)
    return events or problem


def _tokenizer_of(config: OfficialClientConfig | None, tokenizer: Path | None) -> Path | None:
    """The folder of what the client counted with; None if it is not on this machine."""
    parameters = config.model_params if config is not None else {}
    name = parameters.get("tokenizer_name") or parameters.get("name")
    if not isinstance(name, str):
        return None
    # A name in an untrusted file leads to no file of this machine but those in the hub's cache.
    is_named = tokenizer is not None and PurePath(name).name.lower() == tokenizer.name.lower()
    return tokenizer if is_named else _cached(name)


@dataclass
class _ChatCounts:
    """Counts messages as the client does (token_metrics.py). `folder`: a tokenizer's."""

    folder: Path

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(str(self.folder))

    @cached_property
    def _empty(self) -> int:
        """The tokens of the template around an answer."""
        return self._tokens({"role": "assistant", "content": ""})

    def _tokens(self, message: Message) -> int:
        messages = [{"role": "user", "content": ""}, message]
        return len(in_template(messages, None, self._tokenizer, add_generation_prompt=False))

    def answer(self, message: Message) -> int | None:
        try:
            return max(0, self._tokens(with_objects(message)) - self._empty)
        # Whatever untrusted values are taken for.
        except Exception:
            return None

    def prompt(self, chat: Sequence[Any]) -> int | None:
        messages, tools, arguments, template, choice = chat
        try:
            options = (arguments or {}) | ({} if choice is None else {"tool_choice": choice})
            own = signature(self._tokenizer.apply_chat_template).parameters
            # An untrusted template could run without end, and padding fill the memory.
            if template is None and not own.keys() & options.keys():
                ready = [with_objects(message) for message in messages]
                return len(in_template(ready, tools, self._tokenizer, **options))
        # Whatever untrusted values are taken for.
        except Exception:
            return None
        return None


def _cached(name: str) -> Path | None:
    """The folder of a tokenizer in the hub's local cache."""
    from huggingface_hub import try_to_load_from_cache

    try:
        file = try_to_load_from_cache(name, "tokenizer.json")
    except ValueError:
        return None
    return Path(file).parent if isinstance(file, str) else None


def _power_supply_rating(place: ScenarioFolder) -> PowerSupplyRating | None:
    """The file of the system's power supplies; a power measurement is impossible here."""
    if not place.power_supply_file.exists():
        return None
    return PowerSupplyRating(*read_yaml(place.power_supply_file), counts=False)


def _missing(place: ScenarioFolder) -> Iterable[str]:
    paths = [*_client_files(place), place.folder / "measurements.json", place.folder / "README.md"]
    yield from (str(p.relative_to(place.folder)) for p in paths if size_of(p) == 0)
    if size_of(place.system_file) == 0:
        yield str(place.system_file.relative_to(place.submission))
    if not (place.submission / "src").is_dir():
        yield "src/"
    # The checker's required-acc-benchmark; nothing in it is judged.
    if place.benchmark == WAN and not (place.folder / "accuracy" / "videos").is_dir():
        yield "accuracy/videos/"


def _audits(folder: Path) -> dict[str, AuditResult | str]:
    """The audits in a folder by the names of their tests; of one that cannot be read, one line."""
    try:
        files = sorted(folder.glob(f"{_AUDIT}*.json"))
    except OSError:
        return {}
    read = {path.stem.removeprefix(_AUDIT): read_typed(path, AuditResult) for path in files}
    return {name: audit or problem for name, (audit, problem) in read.items()}
