"""What a report says, in order: valid? how fast? how accurate? what was run? what is wrong?

One view provides the words for report.md and report.html, so that the two cannot disagree. Figures
are summary.json's; what an older or foreign summary.json lacks is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.protocol import EndpointFigures, RemoteRun
from mlperf_suite.reports.energy import EnergyView, energy_view
from mlperf_suite.reports.replicas import node_rows, replica_notes, replica_rows
from mlperf_suite.results.bottlenecks import bottlenecks, percent
from mlperf_suite.results.peak import at_least
from mlperf_suite.results.schema import (
    PROFILED,
    AccuracyFigures,
    CachingFigures,
    Config,
    EarlyStopping,
    LifeFigures,
    Meta,
    PartFigures,
    PeakFigures,
    Percentiles,
    PerformanceFigures,
    PlanRow,
    ProfileFigures,
    RegressionFigures,
    Run,
    ScoreFigures,
    SlowRequest,
    Summary,
    WarmUpFigures,
)
from mlperf_suite.rules.verdict import Status, Verdict, in_words

Row = tuple[str, str]
_EARLY = (("latency", "latency"), ("TTFT", "ttft"), ("TPOT", "tpot"))
NOT_REPORTED = "not reported"
ENDPOINT_HEADER = (
    *("run", "endpoint", "requests", "tokens", "tokens/s", "TTFT p50, ms", "TTFT p99, ms"),
    *("latency p50, ms", "latency p99, ms", "cached tokens"),
)
CLIENT_HEADER = (
    *("run", "processes", "busiest, % of a core", "delay out p99, ms", "delay back p99, ms"),
    *("connections", "resent"),
)
TIME_HEAD = "Where the time goes"
NO_LIMIT = "No figure is so large that it limited the run."
SLOW_HEAD = "The slowest requests"
PART_HEADER = (*("part", "share", "mean, ms", "p50, ms", "p90, ms", "p99, ms", "most, ms"),)
SLOW_HEADER = ("sample", "issued, s", "latency, ms", "prompt tokens", "tokens", "cause")
CACHING_HEAD = "Caching audit (the suite's own, not MLPerf's)"
REMOTE_NOTE_OF_FILES = (
    "The engine is a server reached over HTTP. The hardware in summary.json and config.json is "
    "that of the client's machine, on which the suite ran; the server's is not known."
)
"""The head for a report that does not show hardware itself."""
REMOTE_NOTE = (
    "The engine is a server reached over HTTP. The hardware in this report is that of the client's "
    "machine, on which the suite ran; the server's is not known."
)


@dataclass(frozen=True, slots=True)
class View:
    """The parts of a report. `standing`: ok, bad or open, for the colour; the words say it too.

    `accuracy`: each score's name, value, unit and requirement. `caching`: the suite's own audit,
    under CACHING_HEAD. `plan`: each step, its estimate and the time it took. `remote`: whether the
    engine is an endpoint. `endpoints` and `clients`: rows under ENDPOINT_HEADER and CLIENT_HEADER
    for the runs on endpoints. `replicas` and `nodes`: rows under REPLICA_HEADER and NODE_HEADER,
    with `replica_notes`.
    """

    title: str
    label: str
    status: str
    standing: str
    valid: str
    headline: list[Row] = field(default_factory=list)
    speed: list[Row] = field(default_factory=list)
    percentiles: tuple[str, ...] = ()
    times: list[tuple[str, ...]] = field(default_factory=list)
    speed_notes: list[str] = field(default_factory=list)
    time: WhereTimeGoes | None = None
    projections: list[Row] = field(default_factory=list)
    energy: EnergyView | None = None
    profile: Profiled | None = None
    accuracy: list[tuple[str, str, str, str]] = field(default_factory=list)
    accuracy_note: str = ""
    caching: list[Row] = field(default_factory=list)
    regression: Regression | None = None
    remote: bool = False
    endpoints: list[tuple[str, ...]] = field(default_factory=list)
    clients: list[tuple[str, ...]] = field(default_factory=list)
    replicas: list[tuple[str, ...]] = field(default_factory=list)
    nodes: list[tuple[str, ...]] = field(default_factory=list)
    replica_notes: list[str] = field(default_factory=list)
    run: list[Row] = field(default_factory=list)
    engine: list[Row] = field(default_factory=list)
    system: list[Row] = field(default_factory=list)
    plan: list[tuple[str, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    rules: tuple[Verdict, ...] = ()
    files: list[str] = field(default_factory=list)

    @property
    def system_head(self) -> str:
        """The head of the report's hardware section."""
        return "The client's machine" if self.remote else "The system"


PROFILE_HEADER = ("operation", "calls", "own time, ms", "share, %")


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profiler's trace. `notes`: what it is and how to open it, a sentence each. `rows`: under
    PROFILE_HEADER, the operations that took longest, empty if the trace is not torch's."""

    notes: list[str]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class WhereTimeGoes:
    """Where the requests' time went. `limits`: a sentence for each, and the option that changes it.
    `figures`: name and share of what was not a limit. `parts`: rows under PART_HEADER. `slowest`:
    rows under SLOW_HEADER. `notes`: sentences about how it was measured."""

    limits: list[Row]
    figures: list[Row]
    parts: list[tuple[str, ...]]
    slowest: list[tuple[str, ...]]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Regression:
    """The regression gate's part. `rows`: metric, then, now, change with interval, verdict, source
    of the noise."""

    baseline: str
    rows: list[tuple[str, ...]]
    notes: list[str]


def shown(value: float | None, digits: int = 2) -> str:
    """A figure formatted as in every report."""
    return NOT_REPORTED if value is None else f"{value:,.{digits}f}"


def scenario_of(summary: Summary) -> Scenario | None:
    """The scenario of a summary, with its limits; None if it is not known."""
    benchmark = BENCHMARKS.get(summary.meta.benchmark or "")
    scenarios = benchmark.scenarios if benchmark else ()
    return next((s for s in scenarios if s.name == summary.meta.scenario), None)


def view_of(summary: Summary, config: Config | None = None) -> View:
    """The view of a run's summary.json. `config`: its config.json, if any."""
    meta, rules = summary.meta, summary.verdicts
    performance, accuracy = summary.run.performance, summary.run.accuracy
    standing, valid = _valid(summary)
    percentiles, times = _times(performance)
    words = [name or "?" for name in (meta.benchmark, meta.category, meta.scenario)]
    table, note = _accuracy(accuracy, rules)
    return View(
        title=" ".join(words),
        label=meta.label or "",
        # A green "complete" would look like a result.
        status=f"{meta.status}, profiled" if meta.profiler else meta.status,
        standing=standing,
        valid=valid,
        headline=[*_peak(summary.peak), *_headline(meta, performance)],
        speed=[*_peak(summary.peak), *_speed(performance)],
        percentiles=percentiles,
        times=times,
        speed_notes=_speed_notes(performance),
        time=_where_time_goes(summary, config),
        projections=[] if summary.no_result else _projections(meta, performance),
        energy=energy_view(summary.run),
        profile=_profile(summary.run.profile),
        accuracy=table,
        accuracy_note=note,
        caching=_caching(summary.run.caching),
        regression=_regression(summary.regression),
        remote=is_remote(summary.run, config),
        endpoints=_endpoints(summary.run),
        clients=_clients(summary.run.remote),
        replicas=replica_rows(summary.run.replicas),
        nodes=node_rows(summary.run.replicas),
        replica_notes=replica_notes(summary.run.replicas, summary.run.scaling),
        run=[*_run(meta, config or Config()), *_warm_ups(summary.run.warm_up)],
        engine=_engine(config),
        system=_rows(summary.system),
        plan=_plan(summary.plan),
        problems=[*_problems(meta, rules), *_lost(summary.regression)],
        rules=rules,
        files=[*summary.logs, *summary.plots],
    )


def _of_status(rules: Sequence[Verdict], status: Status) -> list[Verdict]:
    return [rule for rule in rules if rule.status == status]


def _valid(summary: Summary) -> tuple[str, str]:
    meta, rules = summary.meta, summary.verdicts
    failed = _of_status(rules, "failed")
    if meta.status == "failed":
        return "bad", f"No: the run failed. {meta.reason or ''}".strip()
    if failed:
        why = f" This run is {summary.no_result}." if summary.no_result else ""
        return "bad", f"No: {_count(len(failed), 'rule')} failed of {len(rules)}.{why}"
    if meta.profiler is not None:
        return "bad", f"No: {summary.no_result}. No rule is judged."
    if meta.status == "running" or not rules:
        return "open", "Unknown: the run has not finished, or no rule was judged."
    return _nothing_failed(meta, rules)


def _nothing_failed(meta: Meta, rules: Sequence[Verdict]) -> tuple[str, str]:
    held, unjudged = len(_of_status(rules, "passed")), len(_of_status(rules, "not judged"))
    shortened = len(_of_status(rules, "shortened"))
    if not (shortened or unjudged) and meta.profile != "smoke":
        return "ok", f"Yes: every one of {len(rules)} rules holds."
    words = f"No rule failed: {_count(held, 'rule')} of {len(rules)} passed"
    words += f", {unjudged} could not be judged" if unjudged else ""
    words += f", {shortened} were shortened" if shortened else ""
    return "open", words + (
        ". A smoke run is not an MLPerf result." if meta.profile == "smoke" else "."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _peak(peak: PeakFigures | None) -> list[Row]:
    if peak is None:
        return []
    why = at_least(peak) if peak.peak_qps is not None else ""
    value = shown(peak.peak_qps)
    return [("highest valid rate, queries/s", f"at least {value}: {why}" if why else value)]


def peak_line(peak: PeakFigures) -> str:
    """What a search for the highest valid rate found, in a sentence."""
    rate, runs = peak.peak_qps, _count(peak.runs, "run")
    if rate is None:
        return f"No rate was VALID in {runs}: see peak_qps.json."
    if why := at_least(peak):
        return (
            f"Highest valid rate: at least {rate:g} queries/s, confirmed at full length; {runs}: "
            f"{why}."
        )
    return f"Highest valid rate: {rate:g} queries/s, confirmed at full length; {runs}."


def named_times(performance: PerformanceFigures) -> list[tuple[str, Percentiles]]:
    """By name, the times in ms that LoadGen reports for this scenario."""
    named = (
        ("latency", performance.latency_ms),
        ("TTFT", performance.ttft_ms),
        ("TPOT", performance.tpot_ms),
    )
    return [(name, times) for name, times in named if times]


def _headline(meta: Meta, performance: PerformanceFigures | None) -> list[Row]:
    """The figures that readers look for first."""
    if performance is None:
        return []
    times = dict(named_times(performance))
    tiles: list[tuple[str, float | None]] = []
    if meta.scenario == "SingleStream":
        tiles.append(("latency p90, ms", times.get("latency", {}).get("p90")))
        name, estimates = early_stopping_estimates(performance)
        tiles.append((f"{name}, ms", estimates.get("latency")))
    tiles.append(("tokens/s", performance.tokens_per_sec))
    tiles.append(("samples/s", performance.samples_per_sec))
    tiles += [(f"{name} p99, ms", times.get(name, {}).get("p99")) for name in ("TTFT", "TPOT")]
    return [(name, shown(value)) for name, value in tiles if value is not None]


def _speed(performance: PerformanceFigures | None) -> list[Row]:
    if performance is None:
        return []
    rows = [
        ("LoadGen says", "VALID" if performance.valid else "INVALID"),
        ("tokens/s", shown(performance.tokens_per_sec)),
        ("samples/s", shown(performance.samples_per_sec)),
        ("new tokens", shown(performance.total_new_tokens, 0)),
        ("duration, s", shown(performance.duration_s)),
    ]
    target = performance.target_qps
    return rows if target is None else [*rows, ("target rate, queries/s", shown(target, 3))]


def _speed_notes(performance: PerformanceFigures | None) -> list[str]:
    if performance is None:
        return ["No performance result."]
    reported = dict(named_times(performance))
    missing = [name for name, _ in _EARLY if name not in reported]
    notes = []
    if missing:
        notes.append(f"LoadGen reports no {' and '.join(missing)} in this scenario.")
    if performance.invalid_reason:
        notes.append(f"LoadGen says INVALID: {performance.invalid_reason}")
    notes += early_stopping_lines(performance)
    early = performance.early_stopping
    if (
        early
        and "latency" in early_stopping_estimates(performance)[1]
        and not early.says.get("latency")
    ):
        notes.append(
            "LoadGen reports early stopping's estimates of TTFT and TPOT; that of the latency "
            "follows the same rule, from the requests as the system under test saw them."
        )
    if performance.repeats:
        again = ", ".join(shown(one.tokens_per_sec) for one in performance.repeats)
        notes.append(f"Repeats, tokens/s: {again}.")
    return notes


def _times(
    performance: PerformanceFigures | None,
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The column names, and each figure's values in ms at those percentiles.

    Early stopping's estimate follows the percentile that it estimates.
    """
    found = named_times(performance) if performance else []
    if performance is None or not found:
        return (), []
    names = list(found[0][1])
    rows = [[name, *(shown(values.get(p)) for p in names)] for name, values in found]
    column, estimates = early_stopping_estimates(performance)
    if estimates:
        place = next((i for i, p in enumerate(names, 1) if column.startswith(f"{p} ")), len(names))
        names.insert(place, column)
        for row in rows:
            row.insert(place + 1, shown(estimates.get(row[0])))
    return tuple(names), [tuple(row) for row in rows]


def early_stopping_estimates(performance: PerformanceFigures) -> tuple[str, dict[str, float]]:
    """The column name of early stopping's estimates, and the estimates in ms, by figure."""
    early = performance.early_stopping or EarlyStopping()
    found = {name: early.estimates_ms.get(key) for name, key in _EARLY}
    known = {name: value for name, value in found.items() if value is not None}
    return f"{_percentile(early)} by early stopping", known


def _percentile(early: EarlyStopping) -> str:
    return "percentile" if early.percentile is None else f"p{early.percentile:g}"


def early_stopping_lines(performance: PerformanceFigures) -> list[str]:
    """What LoadGen's early stopping says when it makes no estimate, a sentence each."""
    early = performance.early_stopping or EarlyStopping()
    lines = []
    for name, key in _EARLY:
        words = early.says.get(key)
        if words and early.estimates_ms.get(key) is None:
            lines.append(f"Early stopping of {name} at {_percentile(early)}: {words}")
    return lines


def _where_time_goes(summary: Summary, config: Config | None) -> WhereTimeGoes | None:
    performance = summary.run.performance
    if performance is None:
        return None
    engine = config.engine.settings if config and config.engine else None
    found = bottlenecks(performance, summary.run.remote.get("performance"), engine)
    life = performance.life
    if life is None and not found and not performance.untimed:
        return None
    untimed = [f"Not known of this run: {performance.untimed}."] if performance.untimed else []
    return WhereTimeGoes(
        [(one.sentence, one.option) for one in found if one.limits],
        [(one.name, f"{percent(one.share)} {one.of}") for one in found if not one.limits],
        [_part(one) for one in life.parts] if life else [],
        [_slow(one) for one in life.slowest] if life else [],
        _life_notes(life) if life else untimed,
    )


def _part(part: PartFigures) -> tuple[str, ...]:
    times = (part.mean_ms, part.p50_ms, part.p90_ms, part.p99_ms, part.most_ms)
    return (part.name, percent(part.share), *map(shown, times))


def _slow(one: SlowRequest) -> tuple[str, ...]:
    return (
        f"{one.sample:,}",
        shown(one.issued_s),
        shown(one.latency_ms),
        f"{one.prompt_tokens:,}",
        f"{one.tokens:,}",
        one.cause,
    )


def _life_notes(life: LifeFigures) -> list[str]:
    if not life.from_loadgen:
        return ["A life begins where LoadGen called the SUT: its log does not tell when it began."]
    if life.differs_ms is None:
        return ["A life begins where LoadGen begins to count its latency."]
    return [
        "The parts of a request add up to LoadGen's latency: over these "
        f"{_count(life.requests, 'request')} its least, mean, percentiles and most differ from "
        f"those of the sums by {life.differs_ms:.3f} ms at most."
    ]


def _projections(meta: Meta, performance: PerformanceFigures | None) -> list[Row]:
    """Figures extrapolated from the measured rate; none of them were measured."""
    rate = performance.samples_per_sec if performance else None
    if performance is None or not rate:
        return []
    rows = [
        ("requests per hour", shown(rate * 3600, 0)),
        ("requests per day", shown(rate * 86_400, 0)),
    ]
    if performance.tokens_per_sec:
        rows.append(("tokens per day", shown(performance.tokens_per_sec * 86_400, 0)))
    benchmark = BENCHMARKS.get(meta.benchmark or "")
    if benchmark:
        name = f"the full data set, {benchmark.samples:,} samples"
        rows.append((name, duration(benchmark.samples / rate)))
    return rows


def _profile(profile: ProfileFigures | None) -> Profiled | None:
    if profile is None:
        return None
    notes = [
        f"{PROFILED[0].upper()}{PROFILED[1:]}. The profiler ({profile.profiler}) was on for "
        f"{shown(profile.seconds, 1)} s, from LoadGen's start to its end, and slowed the engine "
        "down.",
        profile.opens,
    ]
    top = profile.operations
    if top is None:
        return Profiled(notes, [])
    if top.damaged:
        notes.append("A trace could not be read completely: the table shows what was read.")
    if top.operations:
        notes.append(
            f"The operations that took longest on the {top.where}, over all threads and processes, "
            f"each without the time of those that it called: {shown(top.total_ms, 0)} ms in all."
        )
    rows: list[tuple[str, ...]] = [
        (one.name, f"{one.calls:,}", shown(one.self_ms, 1), shown(one.share * 100, 1))
        for one in top.operations
    ]
    return Profiled(notes, rows)


def duration(seconds: float) -> str:
    """A duration in a suitable unit."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def score_value(score: ScoreFigures) -> str:
    """A score's value: percentages with four decimals, as in the rules; whole numbers whole."""
    return in_unit(score.value, score.unit)


def in_unit(value: float, unit: str) -> str:
    """A score or its limit, formatted as in every report, without its unit."""
    whole = unit != "%" and float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:,.4f}"


def _accuracy(
    accuracy: AccuracyFigures | None, rules: Sequence[Verdict]
) -> tuple[list[tuple[str, str, str, str]], str]:
    """The scores with a requirement, and a sentence with the others."""
    if accuracy is None:
        return [], "No accuracy result."
    required = {
        rule.rule: f"not judged: {rule.why}" if rule.status == "not judged" else rule.required
        for rule in rules
    }
    units = Counter(score.unit for score in accuracy.scores)
    rows, rest = [], []
    for score in accuracy.scores:
        wanted = required.get(f"accuracy_{score.name.lower()}") or _range(score)
        if wanted or score.is_percentage:
            value = score_value(score)
            rows.append((score.name, value, score.unit, wanted or "not judged"))
        else:
            said = f"{score_value(score)} {score.unit}".strip()
            rest.append(said if units[score.unit] == 1 else f"{score.name} {said}")
    return rows, f"{', '.join(rest)}." if rest else ""


def _caching(found: CachingFigures | None) -> list[Row]:
    """The caching audit: one sample repeated against samples never sent before."""
    if found is None:
        return []

    def percent(value: float | None) -> str:
        return "not known" if value is None else f"{value:.1%}"

    def range_of(times: Sequence[float]) -> str:
        if not times:
            return NOT_REPORTED
        return f"{shown(median(times), 1)} ({shown(min(times), 1)} to {shown(max(times), 1)})"

    counted = found.cached_tokens
    return [
        ("finding", found.finding),
        ("one sample over and over is faster by", percent(found.faster)),
        ("its 99% interval", f"{percent(found.low)} to {percent(found.high)}"),
        ("a block of samples never seen, ms", range_of(found.mix_ms)),
        ("a block of one sample over and over, ms", range_of(found.same_ms)),
        ("pairs of blocks", shown(len(found.mix_ms), 0)),
        ("samples of a block, at once", shown(found.at_once, 0)),
        ("each prompt and answer, tokens", f"{found.prompt_tokens}, {found.answer_tokens}"),
        ("the sample's index", str(found.sample)),
        ("prompt tokens from a cache", "not counted" if counted is None else shown(counted, 0)),
    ]


def _range(score: ScoreFigures) -> str:
    """The requirement on a score, in words; empty if there is none."""
    low, high = (None if v is None else in_unit(v, score.unit) for v in (score.low, score.high))
    if low is None:
        return "" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _regression(found: RegressionFigures | None) -> Regression | None:
    if found is None:
        return None
    rows: list[tuple[str, ...]] = []
    for one in found.metrics:
        label = one.label if one.unit in (one.label, "") else f"{one.label}, {one.unit}"
        ends = (shown(one.baseline), shown(one.current))
        rows.append((label, *ends, one.words, one.outcome, one.noise_from))
    notes = [*filter(None, (found.refused, found.note)), *found.different]
    return Regression(found.baseline or "?", rows, notes)


def _lost(found: RegressionFigures | None) -> list[str]:
    return [
        f"{one.label} regressed against the baseline: {one.words}"
        for one in (found.metrics if found else ())
        if one.outcome == "regressed"
    ]


def is_remote(run: Run, config: Config | None) -> bool:
    """Whether the run was made on endpoints. A run that failed early has no figures of them, but
    its engine's description names them."""
    engine = config.engine if config else None
    return bool(run.remote) or (engine is not None and "endpoints" in engine.settings)


def _endpoints(run: Run) -> list[tuple[str, ...]]:
    return [
        (mode, *_endpoint(one, _duration(run, mode)))
        for mode, remote in run.remote.items()
        for one in remote.endpoints
    ]


def _duration(run: Run, mode: str) -> float | None:
    """How long LoadGen ran, in s; only kept for performance runs."""
    return run.performance.duration_s if run.performance and mode == "performance" else None


def _endpoint(one: EndpointFigures, duration_s: float | None) -> tuple[str, ...]:
    times = [of.get(name) for of in (one.ttft_ms, one.latency_ms) for name in ("p50", "p99")]
    return (
        in_words(one.url),
        shown(one.requests, 0),
        shown(one.tokens, 0),
        shown(one.tokens / duration_s if duration_s else None),
        *map(shown, times),
        shown(one.cached_tokens, 0),
    )


def _clients(remote: Mapping[str, RemoteRun]) -> list[tuple[str, ...]]:
    return [
        (
            mode,
            shown(client.processes, 0),
            shown(client.busy_share * 100, 1),
            shown(client.out_ms),
            shown(client.back_ms),
            shown(client.connections, 0),
            shown(client.resent, 0),
        )
        for mode, client in ((mode, one.client) for mode, one in remote.items())
    ]


def _run(meta: Meta, config: Config) -> list[Row]:
    samples = meta.samples if meta.samples is not None else config.dataset.samples
    rows: dict[str, object] = {
        "model": meta.model,
        "dataset": meta.dataset,
        "round": meta.round,
        "profile": meta.profile,
        "started": meta.started,
        "node": meta.node_name,
        "maximum answer length, tokens": meta.max_new_tokens
        or config.settings.get("max_new_tokens"),
        "samples per run": None if samples is None else f"{samples:,}",
        "reason for this number": meta.samples_why,
        "samples in the data set": config.dataset.samples,
        "data sha256": config.dataset.sha256,
        "suite": config.suite_version,
    }
    return _rows({name: value for name, value in rows.items() if value is not None})


def _warm_ups(warm_ups: Mapping[str, WarmUpFigures]) -> list[Row]:
    return [(f"warm-up of {mode}", _warm_up_words(one)) for mode, one in warm_ups.items()]


def _warm_up_words(warm_up: WarmUpFigures) -> str:
    """What the warm-up before a run sent, in a few words."""
    requests, tokens = _count(warm_up.requests, "request"), _count(warm_up.tokens, "token")
    what = f", {warm_up.what}" if warm_up.what else ""
    return f"{requests}{what}: {tokens} in {warm_up.elapsed_s:,.1f} s, not timed"


def _engine(config: Config | None) -> list[Row]:
    """The engine's description of itself, with its actual settings."""
    engine = config.engine if config else None
    if engine is None:
        return []
    rows: dict[str, object] = {
        "engine": f"{engine.name} {engine.version}",
        "model loaded": engine.model,
        "maximum context, tokens": engine.max_model_len,
    }
    return _rows({name: v for name, v in rows.items() if v is not None} | engine.settings)


def _plan(plan: Sequence[PlanRow]) -> list[tuple[str, str, str]]:
    def words(seconds: float | None) -> str:
        return "not known" if seconds is None else duration(seconds)

    return [(row.what, words(row.estimated_s), words(row.took_s)) for row in plan]


def _rows(found: Mapping[str, object]) -> list[Row]:
    rows = []
    for name, value in found.items():
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        rows.append((str(name).replace("_", " "), "none" if words in (None, "") else str(words)))
    return rows


def _problems(meta: Meta, rules: Sequence[Verdict]) -> list[str]:
    found = [f"The run failed: {meta.reason}"] if meta.reason else []
    for rule in _of_status(rules, "failed"):
        why = f" ({rule.why})" if rule.why else ""
        found.append(f"{rule.rule}: found {rule.found}, required {rule.required}{why}")
    shortened = [rule.rule for rule in _of_status(rules, "shortened")]
    if shortened:
        found.append(f"Shortened for smoke, therefore not met: {', '.join(shortened)}.")
    unjudged = [rule.rule for rule in _of_status(rules, "not judged")]
    if unjudged:
        found.append(f"Not judged: {', '.join(unjudged)}.")
    return found
