"""Rules of a curve in a package of the series MLPerf Endpoints v1.0.

Sources: endpoints_rules.md (§), and the rule ids of the official checker, which is
`endpoints-submission-cli check-submission` 1.5.3.0. What it only warns of fails here where the
rules demand it; what it does not look at is the suite's own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlperf_suite.features.endpoints.official_client_results.client_events import RunEvents
from mlperf_suite.features.endpoints.official_client_results.package_files import (
    OF_A_POINT,
    PointFile,
    SystemDescription,
)
from mlperf_suite.features.endpoints.official_client_results.provisioned_power import (
    ProvisionedPower,
    SystemPower,
    cooling_of,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import ResultSummary
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC,
    AGENTIC_MODELS,
    CONCURRENCY,
    MANDATORY,
    MAX_POINTS,
    MIN_PASSES,
    MIN_POINTS,
    OFFLINE_SHARE,
    SEED_SETS,
    SERIES_MODELS,
    ULTRA_LOW,
    Regions,
    is_approved_drafter,
    min_duration_s,
)
from mlperf_suite.features.endpoints.official_client_results.super_passes import super_pass_size
from mlperf_suite.features.endpoints.rules import official_client_rules
from mlperf_suite.features.endpoints.rules.official_client_rules import OfficialClientFacts
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import (
    Verdict,
    VerdictError,
    failure,
    lasted_words,
    no_demand,
    not_judged,
    verdict,
)

_package_rule = partial(rule, "package")
_own_rule = partial(_package_rule, official=False)
_AS_WRITTEN = "Submit result_summary.json exactly as the client wrote it."
_MAX_LISTED_FAULTS = 4
_FIGURE_TOLERANCE = 0.01
"""Of a figure that somebody computed from the client's own (the checker's metric-consistency)."""
_OUTSIDE = 0.25
"""How much of its share of the time the rest of the requests takes at least, beside a window."""
_OVER = 1.001
"""Of a concurrency: the client issues a request just after the one that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFacts:
    """A measurement point. `number`: of its folder r<N>. `client`: its files of the client.

    `described`: system_desc.json as it stands; `description`: the same, typed. None and empty for
    what cannot be read.
    """

    name: str
    number: int
    file: PointFile | None
    described: Mapping[str, Any]
    description: SystemDescription | None
    client: OfficialClientFacts
    problems: tuple[str, ...]

    @property
    def concurrency(self) -> int:
        return self.file.concurrency if self.file else self.number

    @property
    def offline(self) -> str | None:
        offline = self.file.offline if self.file else None
        return None if offline == "none" else offline

    @property
    def is_dedicated(self) -> bool:
        return self.offline == "dedicated"

    @property
    def has_accuracy(self) -> bool:
        return self.client.accuracy is not None and bool(self.client.accuracy.counted_scores)

    @property
    def system_tps(self) -> float | None:
        """Output tokens a second over the whole run (§4.1)."""
        run = self.client.summary
        tokens = run.output_sequence_lengths.total if run else None
        if run is None or not run.duration_ns or tokens is None:
            return None
        return tokens / run.duration_ns * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFacts(Facts):
    """One system's curve of one model. `system`, `model`: the names of folders, "" for none.

    `layout`: what is not where it should be, a line each. `power`: what system_power.json has, or
    one line on why nothing; None if there is none. `copies`: by a point's name, another of any
    package that has its run.
    """

    system: str
    model: str
    points: tuple[PointFacts, ...]
    layout: tuple[str, ...]
    power: SystemPower | str | None = None
    copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> Subject:
        return "package"

    @property
    def provisioned(self) -> ProvisionedPower | None:
        """The system's power, computed again; None without a description of it."""
        if not isinstance(self.power, SystemPower):
            return None
        nodes = [n for d in self._descriptions[:1] for n in d.node_types]
        cores = {n.ensemble: n.host_processor_core_count for n in nodes}
        core_counts = {
            e: count for e, count in cores.items() if e is not None and count is not None
        }
        return ProvisionedPower(self.power, core_counts)

    @property
    def _descriptions(self) -> list[SystemDescription]:
        return [point.description for point in self.points if point.description]

    @property
    def is_agentic(self) -> bool:
        """Whether it is of a benchmark of several turns, which has other demands."""
        patterns = {f.runtime_settings.load_pattern for p, f in self.files if not p.is_dedicated}
        return self.model in AGENTIC_MODELS and patterns == {AGENTIC}

    @property
    def files(self) -> list[tuple[PointFacts, PointFile]]:
        """The points whose point.yaml can be read, with it."""
        return [(point, point.file) for point in self.points if point.file]

    @property
    def points_with_files(self) -> list[tuple[PointFacts, PointFile]]:
        """The same. Raises VerdictError if there are none."""
        if not self.files:
            raise VerdictError(not_judged("no point.yaml that can be read", "one or more"))
        return self.files

    @property
    def fixed(self) -> list[PointFacts]:
        """The points at a fixed concurrency."""
        return [point for point in self.points if not point.is_dedicated]

    @property
    def description(self) -> SystemDescription:
        """That of the first point. Raises VerdictError if there is none."""
        if not self._descriptions:
            raise VerdictError(not_judged("no system_desc.json that can be read", "one"))
        return self._descriptions[0]

    @property
    def regions(self) -> Regions:
        """Raises VerdictError if C_max and C_min are no bounds of a curve."""
        described, concurrencies = self.description, [p.concurrency for p in self.fixed]
        c_min = described.c_min_override or None
        if c_min is not None and c_min not in concurrencies:
            raise failure(f"no point at the declared C_min {c_min:,}", "a point at C_min")
        lowest = c_min or min([*concurrencies, 32])
        try:
            c_max = described.max_supported_concurrency
            return Regions.of(c_max, lowest, c_min_declared=c_min is not None)
        except ValueError as error:
            raise failure(error, "C_min of 1 to 32, and a higher C_max") from None


def _verdict(faults: Iterable[str], passed: object, required: object = "") -> Verdict:
    """Passed if there is no fault; else the first of them."""
    lines = list(faults)
    more = f" and {len(lines) - _MAX_LISTED_FAULTS} more" if len(lines) > _MAX_LISTED_FAULTS else ""
    return verdict(not lines, "; ".join(lines[:_MAX_LISTED_FAULTS]) + more or passed, required)


def _faults_of(
    points: Iterable[PointFacts], check: Callable[[OfficialClientFacts], Verdict]
) -> Iterator[str]:
    """What a rule of the client's results has against points."""
    for point in points:
        try:
            judged = check(point.client)
        except VerdictError as error:
            judged = error.verdict
        if judged.status == "failed":
            yield f"{point.name}: {judged.found}"


# Files


@_package_rule(
    required="every folder and file of the layout",
    source="Endpoints rules, §8.1, §9.1; checker: required-dir, src-dir, src-readme, "
    "system-results-dir, benchmark-model-dir, point-dirs, measurement-points-present, "
    "config-file-present, result-summary-present, system-description-present, "
    "shared-path-resolution, point-dirname-concurrency",
    fix="Move the named files to where they belong.",
)
def layout(curve: CurveFacts) -> Verdict:
    """src/, docs/ and results/ exist, each point has its four files in the folder of its
    concurrency, and its pointers lead to folders of the package, to one implementation."""
    sources = {file.shared_src for _, file in curve.files}
    several = [f"implementations {', '.join(sorted(sources))}"] if len(sources) > 1 else []
    return _verdict([*curve.layout, *several], f"{len(curve.points)} points")


@_package_rule(
    required="all of them",
    source="Endpoints rules, §8.2, §8.3; checker: point-config-valid, "
    "point-disclosure-complete, system-description-valid, config-file-present, "
    "result-file-valid, accuracy-valid, warmup-present, steady-state-valid, region-declared, "
    "offline-declared",
    fix="Write the named member with its JSON type; leave the client's files as they are.",
)
def files_readable(curve: CurveFacts) -> Verdict:
    """Every file of a point can be read, and has the expected members with their types."""
    return _verdict((f"{p.name}: {fault}" for p in curve.points for fault in p.problems), "all")


@_own_rule(
    required="a run of its own for each point",
    source="Endpoints rules, §8.1: a point is a measurement of its system",
    fix="Submit each point with the files of its own run.",
)
def runs_of_their_own(curve: CurveFacts) -> Verdict:
    """No point has the run of another point, in any system, model and package."""
    copies = (f"{name}: the run of {other}" for name, other in curve.copies.items())
    return _verdict(copies, "its own")


@_package_rule(
    required="one system, completely described",
    source="Endpoints rules, §8.2, §8.5; checker: system-description-valid, "
    "system-description-consistency, tps-utilization",
    fix="Describe the one system in every system_desc.json; only its deployment may differ.",
)
def system_description(curve: CurveFacts) -> Verdict:
    """Every point describes the same system, with the members that other members require.

    tps_utilization is the share of the curve's highest throughput, within 0.1.
    """
    described = [(p, p.description) for p in curve.points if p.description]
    faults = [f"{p.name}: {fault}" for p, d in described for fault in d.faults]
    name, first = curve.description.system_name, described[0][0].described
    for point, _ in described:
        names = {n for n in {*point.described, *first} - OF_A_POINT if _differ(point, first, n)}
        faults += [f"{point.name} differs in {', '.join(sorted(names))}"] if names else []
    highest = max((p.system_tps or 0.0 for p in curve.points), default=0.0)
    for point, description in described:
        share = (point.system_tps or 0.0) / (highest or 1.0)
        utilization = description.tps_utilization
        if utilization is not None and abs(utilization - share) > 0.1:
            faults.append(f"{point.name}: tps_utilization {utilization:g} is {share:.3f}")
    return _verdict(faults, f"{name} in {len(described)} points")


def _differ(point: PointFacts, first: Mapping[str, Any], name: str) -> bool:
    return bool(point.described.get(name) != first.get(name))


@_package_rule(
    source="Endpoints rules, §3.2, §8.5; checker: model-name-valid, model-name-consistency, "
    "config-consistency-model, config-consistency-dataset",
    fix="Name the folder's benchmark in every point.yaml; use one data set and load for all.",
)
def benchmark(curve: CurveFacts) -> Verdict:
    """Every point is for the benchmark that the folder names, with one data set, model and
    precision."""
    model_names = (*SERIES_MODELS, *AGENTIC_MODELS)
    models = {f.model_name for _, f in curve.points_with_files}
    faults = [f"model {name}" for name in sorted(models | {curve.model}) if name not in model_names]
    if models != {curve.model}:
        faults.append(f"points of {', '.join(sorted(models))} in {curve.model}/")
    for words, values in (
        ("data sets", {(f.dataset, f.dataset_link) for _, f in curve.files}),
        ("models", {f.link_to_model for _, f in curve.files}),
        ("precisions", {f.model_precision for _, f in curve.files}),
    ):
        faults += [f"several {words}"] if len(values) > 1 else []
    return _verdict(faults, curve.model, f"one of {', '.join(model_names)}")


# What points disclose


@_own_rule(
    required="the same in point.yaml, system_desc.json and config.yaml",
    source="Endpoints rules, §8.2, §8.3: each has division and C_max",
    fix="Correct the file that is wrong; config.yaml is the client's.",
)
def files_agree(curve: CurveFacts) -> Verdict:
    """A point's division, highest concurrency and load are the same in all of its files.

    The official checker compares none of them: a point measured at one concurrency may be handed in
    as another.
    """
    faults = [
        f"{p.name}: {fault}" for p, file in curve.points_with_files for fault in _disagreed(p, file)
    ]
    faults += _faults_of(
        [p for p in curve.points if p.client.config and p.client.summary],
        official_client_rules.config_of_its_run,
    )
    return _verdict(faults, "the same")


def _disagreed(point: PointFacts, file: PointFile) -> Iterator[str]:
    """Where point.yaml differs from the other files of its point."""
    if (described := point.description) is not None:
        if file.division != described.division:
            yield f"division {file.division} and {described.division}"
        if file.max_supported_concurrency != described.max_supported_concurrency:
            c_max = described.max_supported_concurrency
            yield f"C_max {file.max_supported_concurrency:,} and {c_max:,}"
    if (config := point.client.config) is None:
        return
    load, runtime = config.settings.load_pattern, config.settings.runtime
    if not point.is_dedicated:
        pattern, at = file.runtime_settings.load_pattern, load.target_concurrency
        if (load.type, at) != (pattern, file.concurrency):
            yield f"config.yaml has {load.type} at {at}, point.yaml {pattern} at {file.concurrency}"
        if config.model_params.get("streaming") == "off":
            yield "config.yaml has streaming off"
    seeds_ = file.runtime_settings.runtime
    for name, run_seed, point_seed in (
        ("scheduler", runtime.scheduler_random_seed, seeds_.scheduler_rng_seed),
        ("sample index", runtime.dataloader_random_seed, seeds_.sample_index_rng_seed),
    ):
        if run_seed != point_seed:
            yield f"{name} seed {run_seed} in config.yaml, {point_seed} in point.yaml"


@_package_rule(
    source="Endpoints rules, §2.1.1, §4.6, §9.1; checker: seed-set-consistency, "
    "seed-set-membership, seed-runtime-match, seed-set-adoption, target-cohort, seed-config-legacy",
    fix="Run every point with the seeds of one set that is published for the cohort.",
)
def seeds(curve: CurveFacts) -> Verdict:
    """Every point has the seeds of one set that is published for its cohort."""
    faults = []
    names = {f.seed_set for _, f in curve.points_with_files}
    if len(names) > 1:
        faults.append(f"sets {', '.join(sorted(names))}")
    for point, file in curve.files:
        seed_set, runtime = SEED_SETS.get(file.seed_set), file.runtime_settings.runtime
        if seed_set is None:
            faults.append(f"{point.name}: set {file.seed_set}")
            continue
        wrong = [n for n, seed in seed_set.seeds.items() if getattr(runtime, n) != seed]
        faults += [f"{point.name}: {name} {getattr(runtime, name)}" for name in wrong]
        if not seed_set.serves(file.target_cohort):
            faults.append(f"{point.name}: set {file.seed_set} for cohort {file.target_cohort}")
    required = "; ".join(f"set {name}, from {s.cohort} on four" for name, s in SEED_SETS.items())
    return _verdict(faults, f"set {', '.join(sorted(names))}", required)


@_package_rule(
    required="none, or one of the benchmark's list, two cohorts after its approval",
    source="Endpoints rules, §2.9.4; checker: approved-drafter, drafter-approval-lead-time",
    fix="Use an approved drafter, or none.",
)
def drafter(curve: CurveFacts) -> Verdict:
    """Speculative decoding, if any, uses a drafter that is approved for the cohort."""
    with_one = [
        (p, f, f.speculative_decoding) for p, f in curve.points_with_files if f.speculative_decoding
    ]
    faults = [
        f"{p.name}: {block.get('model_id') or 'no model_id'}, {block.get('weight_checksum')}"
        for p, f, block in with_one
        if not is_approved_drafter(curve.model, block.get("weight_checksum"), f.target_cohort)
    ]
    return _verdict(faults, f"{len(with_one)} points with one")


@_package_rule(
    required="a warm-up that fits together",
    source="Endpoints rules, §6.3; checker: point-config-valid",
    fix="Write the warm-up as it ran; all zeros without one.",
)
def warmup(curve: CurveFacts) -> Verdict:
    """No point's warm-up completed more than it issued, left more unanswered than its concurrency,
    nor ran at concurrency 0."""
    faults = []
    for point, file in curve.points_with_files:
        block = file.warmup
        ran = block.duration_s or block.requests_issued or block.requests_completed
        if block.requests_completed > block.requests_issued:
            faults.append(f"{point.name}: more completed than issued")
        elif (rest := block.requests_issued - block.requests_completed) > block.concurrency:
            faults.append(f"{point.name}: {rest:,} requests unanswered")
        if ran and not block.concurrency:
            faults.append(f"{point.name}: concurrency 0")
    return _verdict(faults, "fits together")


# The curve


@_package_rule(
    source="Endpoints rules, §5.3, §5.6, §6.1; checker: point-count, point-cap, load-pattern, "
    "benchmark-type-consistency",
    fix="Measure more points at fixed concurrency; a dedicated Offline point is one more.",
)
def points(curve: CurveFacts) -> Verdict:
    """A curve has 7 to 32 points (at least 8 with a dedicated Offline point), each once and, except
    for that point, at a fixed concurrency."""
    dedicated = 0 if curve.is_agentic else len(curve.points) - len(curve.fixed)
    least, count = MIN_POINTS + bool(dedicated), len(curve.points)
    faults = [] if least <= count <= MAX_POINTS else [f"{count} points"]
    fixed_load = AGENTIC if curve.model in AGENTIC_MODELS else CONCURRENCY
    for point, file in curve.files:
        pattern = file.runtime_settings.load_pattern
        if pattern != fixed_load and not point.is_dedicated:
            faults.append(f"{point.name}: load pattern {pattern}")
    twice = Counter(p.concurrency for p in curve.fixed)
    faults += [f"{count} points at {c:,}" for c, count in twice.items() if count > 1]
    return _verdict(faults, f"{count} points", f"{least} to {MAX_POINTS} at fixed concurrency")


@_package_rule(
    source="Endpoints rules, §5.4, §5.5, §9.1; checker: region-computation, region-basis, "
    "c-min-override, concurrency-in-range, region-placement, "
    "ultra-low-concurrency-coverage, low-concurrency-coverage, med-concurrency-coverage, "
    "high-concurrency-coverage",
    fix="Add a point in the named region, or correct C_max.",
)
def regions(curve: CurveFacts) -> Verdict:
    """Each of the four regions has a point, no point is beyond the margin above C_max, and a
    declared region is the point's."""
    of_curve = curve.regions
    concurrencies = [point.concurrency for point in curve.fixed]
    covered = {region for c in concurrencies for region in of_curve.of_point(c)}
    faults = [f"no point in {region}" for region in MANDATORY if region not in covered]
    margin = of_curve.margin
    faults += [f"{c:,} is beyond the margin {margin:,}" for c in concurrencies if c > margin]
    declared = {repr(p.described.get("c_min_override")) for p in curve.points if p.described}
    faults += [f"C_min declared as {', '.join(sorted(declared))}"] if len(declared) > 1 else []
    for point, file in curve.files:
        region = of_curve.declared_as(file.concurrency)
        if file.region not in (None, "submitters_choice", region) and not point.is_dedicated:
            faults.append(f"{point.name}: {file.region} is {region}")
    ends = (of_curve.ultra_low, of_curve.low, of_curve.medium, of_curve.c_max)
    pairs = zip(MANDATORY, ends, strict=True)
    bounds = ", ".join(f"{name} to {end:,}" for name, end in pairs)
    return _verdict(
        faults, f"{len(concurrencies)} points in {bounds}", f"a point in each: {bounds}"
    )


@_package_rule(
    source="Endpoints rules, §5.7, §9.1; checker: offline-point-present, offline-ordering",
    fix="Elect the point at C_max, or measure a dedicated one at C_max or above.",
)
def offline_point(curve: CurveFacts) -> Verdict:
    """One point is the Offline result: the one at C_max, or a dedicated one that is at least as
    concurrent and reaches 98% of its throughput. Multi-turn curves have none."""
    of_offline = [(p, f) for p, f in curve.points_with_files if p.offline]
    if curve.is_agentic:
        return verdict(not of_offline, ", ".join(p.name for p, _ in of_offline) or "none", "none")
    c_max = curve.description.max_supported_concurrency
    required = f"one, at C_max {c_max:,} or dedicated"
    if len(of_offline) != 1:
        return verdict(False, ", ".join(p.name for p, _ in of_offline) or "none", required)
    ((point, file),) = of_offline
    words = f"{point.name}, {file.offline}"
    if not point.is_dedicated:
        return verdict(file.concurrency == c_max, words, required)
    at_c_max = next((p.system_tps for p in curve.fixed if p.concurrency == c_max), None)
    least, tps = OFFLINE_SHARE * (at_c_max or 0.0), point.system_tps or 0.0
    required = f"concurrency from {c_max:,} on, {least:,.2f} tokens/s"
    return verdict(
        file.concurrency >= c_max and tps >= least, f"{words}, {tps:,.2f} tokens/s", required
    )


# The measurement


@_package_rule(
    source="Endpoints rules, §6.2; checker: point-duration, metric-consistency-duration",
    fix="Measure the point longer.",
)
def duration(curve: CurveFacts) -> Verdict:
    """Every point is measured for 600 s up to concurrency 32, else 1,200 s, or 2,400 s with several
    turns: its steady-state window if that gives its figures, else the whole run."""
    faults = []
    for point, file in curve.points_with_files:
        run, block = point.client.summary, file.steady_state
        if run is None:
            continue
        whole_s = (run.duration_ns or 0) / 1e9
        least_s = min_duration_s(file.concurrency, agentic=curve.is_agentic)
        window_s = block.window.duration_s if block and block.status == "windowable" else None
        lasted_s = whole_s if window_s is None else window_s
        if lasted_s < least_s:
            faults.append(f"{point.name}: {lasted_words(lasted_s)} of {least_s:,.0f} s")
        if lasted_s > whole_s:
            faults.append(f"{point.name}: a window of {lasted_s:,.1f} s in {whole_s:,.1f} s")
    beyond_s = min_duration_s(ULTRA_LOW + 1, agentic=curve.is_agentic)
    required = f"600 s up to {ULTRA_LOW}, else {beyond_s:,.0f} s"
    return _verdict(faults, f"{len(curve.files)} points long enough", required)


@_package_rule(
    required="a window that its points allow",
    source="Endpoints rules, §4.4; checker: steady-state-valid, steady-state-consistency",
    fix="Copy the detector's block of the run (result_summary.json, report.txt) unchanged.",
)
def steady_state(curve: CurveFacts) -> Verdict:
    """A steady-state window that gives the figures has at least 4 super-passes of whole passes over
    the data set, all of them of its own run, in less time than the run, and no metric that drifts.
    """
    faults = []
    for point, file in curve.points_with_files:
        if file.steady_state is not None:
            faults += [f"{point.name}: {fault}" for fault in _window_faults(curve, point, file)]
    return _verdict(faults, f"{sum(f.steady_state is not None for _, f in curve.files)} blocks")


def _window_faults(curve: CurveFacts, point: PointFacts, file: PointFile) -> Iterator[str]:
    block = file.steady_state
    assert block is not None
    window, passes = block.window, block.window.passes
    if block.status == "insufficient_passes" and passes is not None and passes >= MIN_PASSES:
        yield f"insufficient_passes of {passes}"
    if block.status != "windowable":
        return
    if passes is None or passes < MIN_PASSES or window.duration_s is None:
        yield f"windowable with {passes} super-passes"
        return
    if drifting := sorted(name for name, state in block.state.items() if state != "Plateau"):
        yield f"windowable and {', '.join(drifting)} drifts"
    model = SERIES_MODELS.get(curve.model)
    if model is None or window.super_pass_size is None or point.client.summary is None:
        return
    size = super_pass_size(model.samples, file.concurrency)
    issued = point.client.summary.n_samples_issued
    if window.super_pass_size != size:
        yield f"super-passes of {window.super_pass_size:,}, not of {size:,}"
    elif passes * size > issued or (window.n_samples or 0) > passes * size:
        yield f"{passes} super-passes, {window.n_samples} samples of {issued:,} issued"
        return
    whole_s = (point.client.summary.duration_ns or 0) / 1e9
    most_s = whole_s * (1 - _OUTSIDE * (issued - passes * size) / (issued or 1))
    # One that is longer than the run has a rule of its own.
    if most_s < window.duration_s <= whole_s:
        words = f"{window.duration_s:,.1f} s of {whole_s:,.1f} s"
        yield f"{passes * size:,} of {issued:,} requests in {words}"


@_package_rule(
    source="Endpoints rules, §6.4, §9.1; checker: min-query-count, metric-consistency-accounting; "
    "that none failed, and that the run ended by itself, the suite's own",
    fix="Find why requests failed (report.txt), and repeat the point with the whole data set.",
)
def requests(curve: CurveFacts) -> Verdict:
    """Every run ended by itself and issued its data set at least once, and every request was
    answered: the figures leave failed requests out."""
    model = SERIES_MODELS.get(curve.model)
    least = model.samples if model else 0
    faults = list(_faults_of(_measured(curve), official_client_rules.run_complete))
    for point in _measured(curve):
        run = point.client.run
        if run.n_samples_completed < max(least, 1):
            faults.append(f"{point.name}: {run.n_samples_completed:,} completed")
        if run.n_samples_failed or run.n_samples_issued != run.n_samples_completed:
            counts = (run.n_samples_issued, run.n_samples_completed, run.n_samples_failed)
            faults.append(
                "{}: {:,} issued, {:,} completed, {:,} failed".format(point.name, *counts)
            )
    return _verdict(faults, "all answered", f"at least {least:,} completed, none failed")


def tpot_p90_ms(point: PointFacts) -> float | None:
    if point.client.summary is None:
        return None
    percentiles = point.client.summary.tpot.percentiles
    values = [percentiles[name] for name in ("90.0", "90") if name in percentiles]
    return values[0] / 1e6 if values and len(set(values)) == 1 and values[0] > 0 else None


@_package_rule(
    required="figures that follow from the client's own",
    source="Endpoints rules, §4.1, §9.1; checker: result-file-valid, "
    "metric-consistency-output-tokens, metric-consistency-system-tps, "
    "metric-consistency-tpot-p90, metric-consistency-tps-per-user, agentic-metric-consistency",
    fix=_AS_WRITTEN,
)
def figures(curve: CurveFacts) -> Verdict:
    """Tokens/s are tokens over time; tokens/s per user are 1000 over TPOT in ms at p90, which every
    point but a dedicated Offline one has; the interactivity of turns is tokens over the time of the
    requests.

    Within 1%, as the official checker, where they are stored; the client's own rates exactly.
    """
    faults = list(_faults_of(_measured(curve), official_client_rules.rates))
    for point in _measured(curve):
        run, p90_ms = point.client.run, tpot_p90_ms(point)
        if not point.is_dedicated and not p90_ms:
            faults.append(f"{point.name}: no TPOT at p90")
        per_user = 1000 / p90_ms if p90_ms and not point.is_dedicated else None
        faults += _far(point, "system_tps", run.system_tps, point.system_tps)
        faults += _far(point, "tps_per_user", run.tps_per_user, per_user)
        if run.e2e_avg_interactivity is not None:
            turns = interactivity(run)
            faults += [f"{point.name}: an e2e_avg_interactivity of nothing"] * (turns is None)
            faults += _far(point, "e2e_avg_interactivity", run.e2e_avg_interactivity, turns)
        names = {*run.ttft.percentiles, *run.tpot.percentiles}
        faults += [f"{point.name}: p{name}" for name in sorted(names) if not _is_percent(name)]
    return _verdict(faults, f"{len(_measured(curve))} points")


def interactivity(run: ResultSummary) -> float | None:
    """Output tokens over the time of all turns, in tokens/s: of the sums that name both, else of
    the client's own, which leave out what failed."""
    tokens, time_s = run.output_tokens_per_turn_total, run.e2e_turn_time_seconds_total
    if tokens is None and time_s is None and not run.n_samples_failed:
        tokens = run.output_sequence_lengths.total
        time_s = None if run.latency.total is None else run.latency.total / 1e9
    return tokens / time_s if time_s and tokens is not None else None


def _far(
    point: PointFacts, name: str, figure: float | None, expectation: float | None
) -> list[str]:
    """The line on a stored figure that is not what it should be, if it is not."""
    if (
        figure is None
        or expectation is None
        or math.isclose(figure, expectation, rel_tol=_FIGURE_TOLERANCE)
    ):
        return []
    return [f"{point.name}: {name} {figure:,.2f} is {expectation:,.2f}"]


def _is_percent(name: str) -> bool:
    try:
        return 0 <= float(name) <= 100
    except ValueError:
        return False


def _measured(curve: CurveFacts) -> list[PointFacts]:
    return [point for point in curve.points if point.client.summary]


@_own_rule(
    required="figures of one series of values, of one run",
    source="the client's report.py and early_stopping.py; Little's law",
    fix=_AS_WRITTEN,
)
def distributions(curve: CurveFacts) -> Verdict:
    """Each series of a run agrees with itself, no two points have the series of one run, and
    concurrent requests do not exceed a point's concurrency.

    On average: the latencies' sum over the duration, for a run at fixed concurrency. Where
    events.jsonl lies in a point's folder, the figures are counted again from it.
    """
    faults = list(_faults_of(_measured(curve), official_client_rules.distributions))
    faults += _faults_of(_measured(curve), official_client_rules.events_agree)
    runs: dict[tuple[object, ...], str] = {}
    for point in _measured(curve):
        run = point.client.run
        first = runs.setdefault((run.duration_ns, run.latency.total), point.name)
        faults += [f"{point.name} is the run of {first}"] if first != point.name else []
        under_way = (run.latency.total or 0.0) / (run.duration_ns or 1)
        if under_way > point.concurrency * _OVER and not point.is_dedicated:
            faults.append(f"{point.name}: {under_way:,.1f} requests under way")
    return _verdict(faults, f"{len(runs)} runs")


@_own_rule(
    required="at least 64 bits, drawn, between system prompt and user's text of each request",
    source="Endpoints rules, §2.9.5, §2.9.5.1",
    fix="Let the client salt the measurement's requests, and not those of the accuracy run.",
)
def salt(curve: CurveFacts) -> Verdict:
    """If requests have a salt, which allows reuse of the KV cache between them, each has a
    different one that is long enough, random, and between the system prompt and the user's text;
    accuracy runs have none.

    Checked in what was sent: the prompts in events.jsonl, where it lies beside a point; token ids
    as text where the model's tokenizer is on this machine, else by what they have in common.
    Requests without a salt are allowed if the server reused nothing, which no file says. Of several
    turns each request has the two salts of its conversation in the system prompt.
    """
    sent = [
        (p, prompts)
        for p in curve.points
        if (prompts := official_client_rules.sent_prompts(p.client))
    ]
    if not sent:
        return not_judged("no prompts", why="no point has an events.jsonl with prompts")
    faults = [
        f"{point.name}: {fault}"
        for point, prompts in sent
        for fault in (prompts.faults_of_turns if curve.is_agentic else prompts.faults)
    ]
    faults += [
        f"{p.name}: requests of its accuracy run with a salt"
        for p, _ in sent
        if isinstance(events := p.client.events, RunEvents) and events.later_prompts.is_salted
    ]
    unsalted = [point.name for point, prompts in sent if not prompts.is_salted]
    if unsalted and not faults and not curve.is_agentic:
        is_untold = any(prompts.is_salted is None for _, prompts in sent)
        why = "allowed if no KV cache is reused between requests, which no file says"
        return not_judged(
            f"{', '.join(unsalted)} without a salt",
            why=official_client_rules.SALT_UNDETERMINED if is_untold else why,
        )
    return _verdict(faults, f"{len(sent)} points")


# Accuracy


def _with_accuracy(curve: CurveFacts) -> list[PointFacts]:
    if not (scored := [point for point in curve.points if point.has_accuracy]):
        raise failure("no accuracy_results.json with scores", "one in each region and Offline")
    return scored


def regions_scored(curve: CurveFacts) -> dict[str, PointFacts]:
    """The point whose accuracy run counts for each mandatory region.

    A point counts for one; as many regions as can be are covered. An elected point counts for its
    region where no other does, since it is the Offline result too.
    """
    owners: dict[str, PointFacts] = {}
    of_curve = curve.regions

    def give(point: PointFacts, visits: set[str]) -> bool:
        for region in set(of_curve.of_point(point.concurrency)) - visits:
            visits.add(region)
            if region not in owners or give(owners[region], visits):
                owners[region] = point
                return True
        return False

    for point in sorted(_with_accuracy(curve), key=lambda p: p.offline == "elected"):
        if not point.is_dedicated:
            give(point, set())
    return owners


@_package_rule(
    source="Endpoints rules, §5.3, §5.7, §6.6; checker: accuracy-present, accuracy-coverage, "
    "accuracy-valid",
    fix="Run accuracy at one point of each region and at the Offline point only.",
)
def accuracy_points(curve: CurveFacts) -> Verdict:
    """Only one point of each mandatory region and the Offline point have an accuracy run."""
    owners = regions_scored(curve)
    faults = [f"none in {region}" for region in MANDATORY if region not in owners]
    faults += [
        f"none at {p.name}, Offline" for p in curve.points if p.offline and not p.has_accuracy
    ]
    names = [point.name for point in owners.values()]
    extra = [p for p in _with_accuracy(curve) if p.name not in names and not p.offline]
    faults += [f"{point.name} is one too many" for point in extra]
    required = "one in each region" + (", and Offline" if not curve.is_agentic else "")
    return _verdict(faults, ", ".join(names), required)


@_package_rule(
    source="Endpoints rules, §4.3, §9.1; checker: accuracy-present, accuracy-sample-count, "
    "accuracy-gate; that every score is there and every answer was scored, the suite's own",
    fix="Fix the accuracy, and repeat the point's accuracy run.",
)
def accuracy_gate(curve: CurveFacts) -> Verdict:
    """Each accuracy run scored every sample and reaches the benchmark's gate in every score.

    The official checker passes a run without the scores that it gates.
    """
    scored = _with_accuracy(curve)
    if curve.is_agentic:
        return no_demand("the rule on several turns has the gates")
    if curve.model not in SERIES_MODELS:
        return not_judged(f"{len(scored)} runs", "the benchmark's gate", "no known benchmark")
    checks = (
        official_client_rules.accuracy_samples,
        official_client_rules.accuracy_complete,
        official_client_rules.accuracy_gate,
    )
    faults = [fault for check in checks for fault in _faults_of(scored, check)]
    gates = ", ".join(f"{e.name} {e.low():,.4f}" for e in SERIES_MODELS[curve.model].expected)
    return _verdict(faults, f"{len(scored)} runs", f"at least {gates}")


# Power


@_package_rule(
    required="the system's provisioned power, by its parts and their sources",
    source="Endpoints rules, §4.5.2, appendix E; checker: power-descriptor",
    fix="Write results/<system>/system_power.json; leave out what the checker computes.",
)
def power(curve: CurveFacts) -> Verdict:
    """system_power.json names the parts and sources of a standardized system's power, and the
    figures computed from them are right.

    Appendix D's figure stands for a part without one, where it has the model.
    """
    described = curve.description
    if curve.power is None:
        words = f"no system_power.json, {described.division}"
        return verdict(described.division != "Standardized", words)
    provisioned = curve.provisioned
    if provisioned is None:
        return verdict(False, curve.power)
    texts = (described.cooling, *(node.cooling for node in described.node_types))
    cooling, power_cooling = cooling_of(iter(texts)), provisioned.power.cooling
    cooling_faults = (
        [f"cooling {power_cooling}, described as {cooling}"]
        if cooling not in (None, power_cooling)
        else []
    )
    faults = [*provisioned.faults, *cooling_faults, *_counted_otherwise(curve, provisioned)]
    return _verdict(faults, f"{provisioned.kw} kW")


def _counted_otherwise(curve: CurveFacts, provisioned: ProvisionedPower) -> Iterator[str]:
    """Nodes of which system_desc.json has another number than system_power.json."""
    node_types = curve.description.node_types
    described = {n.ensemble: n.number_of_nodes for n in node_types if n.number_of_nodes is not None}
    powered: Counter[int] = Counter()
    for nodes in provisioned.power.node_sets:
        powered[nodes.system_node_ensemble_id] += nodes.nodes_provisioned
    for ensemble, count in powered.items():
        if described.get(ensemble, count) != count:
            yield f"{count:,} nodes of ensemble {ensemble}, described as {described[ensemble]:,}"


@_package_rule(
    required="as many replicas as fit, on nodes that hold them",
    source="Endpoints rules, §4.5.3; checker: nodes-used, maximal-engagement, "
    "metric-consistency-tps-per-kw",
    fix="Correct nodes_used and the parallelism, or explain fewer replicas in dp_shortfall.",
)
def engagement(curve: CurveFacts) -> Verdict:
    """Every point uses existing nodes and as many replicas as the system's accelerators allow, or
    says why not, and a stored system_tps_per_kw follows from its nodes' power."""
    provisioned = curve.provisioned
    if provisioned is None or provisioned.kw is None:
        return not_judged("no provisioned power", why="see the rule on power")
    faults = []
    for point, file in curve.points_with_files:
        entries = file.nodes_used or ()
        nodes_used = {entry.system_node_ensemble_id: entry.nodes for entry in entries}
        of_point = [
            *_nodes_faults(provisioned, nodes_used, len(entries)),
            *_replicas(curve, point, nodes_used),
        ]
        kw, run = provisioned.point_kw(nodes_used), point.client.summary
        if run is not None and kw and point.system_tps and not of_point:
            tps_per_kw = point.system_tps / kw
            faults += _far(point, "system_tps_per_kw", run.system_tps_per_kw, tps_per_kw)
        faults += [f"{point.name}: {fault}" for fault in of_point]
    return _verdict(faults, f"{len(curve.files)} points of {provisioned.kw:g} kW")


def _nodes_faults(
    provisioned: ProvisionedPower, nodes_used: Mapping[int, int], entries: int
) -> Iterator[str]:
    if entries != len(nodes_used):
        yield "an ensemble twice in nodes_used"
    ensembles = Counter(s.system_node_ensemble_id for s in provisioned.power.node_sets)
    there = {s.system_node_ensemble_id: s.nodes_provisioned for s in provisioned.power.node_sets}
    for ensemble, nodes in nodes_used.items():
        if ensembles[ensemble] != 1:
            yield f"{ensembles[ensemble]} node sets of ensemble {ensemble}"
        elif nodes > there[ensemble]:
            yield f"{nodes} nodes of {there[ensemble]}"


_PARALLEL = ("tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel")


def _replicas(curve: CurveFacts, point: PointFacts, nodes_used: Mapping[int, int]) -> Iterator[str]:
    """What is wrong with the number of a point's replicas, where their size is said."""
    summary = point.described.get("config_summary")
    summary = summary if isinstance(summary, dict) else {}
    parallelism = {n: point.described.get(n, summary.get(n)) for n in (*_PARALLEL, "disaggregated")}
    sizes = {name: parallelism[name] for name in _PARALLEL if type(parallelism[name]) is int}
    if not sizes or (
        type(parallelism["disaggregated"]) in (bool, int) and parallelism["disaggregated"]
    ):
        return
    *of_replica, replicas = (sizes.get(name, 1) for name in _PARALLEL)
    size = math.prod(of_replica)
    accelerators = _accelerators(curve)
    if size < 1 or replicas < 1:
        yield "a parallelism below 1"
    elif accelerators is not None and point.file is not None:
        total = sum(count * nodes for count, nodes in accelerators.values())
        capacity = sum(
            count * nodes_used.get(e, nodes) for e, (count, nodes) in accelerators.items()
        )
        most, shortfall = total // size, point.file.dp_shortfall
        if capacity < replicas * size:
            yield f"{replicas * size} accelerators on nodes of {capacity}"
        is_said = shortfall and (shortfall.dp_actual, shortfall.dp_formula) == (replicas, most)
        if replicas > most or (replicas < most and not is_said):
            yield f"{replicas} replicas, {most} fit"


def _accelerators(curve: CurveFacts) -> dict[int, tuple[int, int]] | None:
    """Accelerators of a node and nodes by ensemble; None if they are not said of each."""
    counts: dict[int, tuple[int, int]] = {}
    described = {node.ensemble: node.accelerators for node in curve.description.node_types}
    for nodes in curve.provisioned.power.node_sets if curve.provisioned else ():
        parts = nodes.components.accelerator if nodes.components else None
        count = parts.count_per_node if parts else described.get(nodes.system_node_ensemble_id)
        if count is None:
            return None
        counts[nodes.system_node_ensemble_id] = (count, nodes.nodes_provisioned)
    return counts
