"""Reads and compares the runs of several nodes: which may be aggregated, and why not.

A run's figures are taken from LoadGen's log, which must be unchanged since the run. Runs that are
different measurements are refused; allowed differences between nodes (hardware, the target QPS) are
reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.request_times import RequestTimes, distribution
from mlperf_suite.engines.model_files import MODEL_FILES
from mlperf_suite.errors import RefusedError
from mlperf_suite.loadgen.logs import POWER_FORMAT, DetailLog
from mlperf_suite.loadgen.timeline import Timeline, read_timeline
from mlperf_suite.results.comparability import (
    Aspect,
    Fact,
    Identity,
    differences,
    identity_of,
    value_text,
)
from mlperf_suite.results.node_files import why_no_result
from mlperf_suite.results.performance_figures import (
    issued_samples,
    performance_figures,
    read_detail,
)
from mlperf_suite.results.run_folder import (
    changed_since_run,
    file_sha256,
    read_config,
    read_summary,
    summary_fault,
)
from mlperf_suite.results.schema import Config, PerformanceFigures, Summary
from mlperf_suite.rules.verdict import in_words, time_words

_ASPECTS: tuple[Aspect, ...] = ("measurement", "engine", "release")
"""What the runs of an aggregate must have in common. Nodes may have other hardware and other
batches, which `notes_of` lists."""
_SAME_IN_LOG = (
    *("min_duration_ms", "min_query_count", "performance_sample_count"),
    *("sample_index_rng_seed", "qsl_rng_seed", "schedule_rng_seed"),
)
"""LoadGen's effective settings in the detail log that must be equal for a scenario's runs."""
_OF_SCENARIO = ("scenario", "samples", "runs made", *_SAME_IN_LOG)
"""Facts that differ between the scenarios of one aggregate."""
_LIMITS = ("tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens")
"""Allowed differences that the report lists, from summary.json's `system` and the engine's
settings."""
_OFF_BY, _OFF_MS = 0.05, 20.0
"""How far a percentile of the timeline may be from LoadGen's: both describe the same requests, but
are timestamped a few instructions apart."""


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One node's run of a scenario. `label`: its name as the user gave it. `figures`: LoadGen's
    own. `reasons`: why it is not a valid result, empty if it is one. `span`: the start and end of
    LoadGen's run by the node's clock, None if its log does not say.
    """

    label: str
    folder: Path
    node: str
    summary: Summary
    config: Config
    scenario: Scenario
    detail: DetailLog
    figures: PerformanceFigures
    reasons: tuple[str, ...]
    log_sha256: str
    span: tuple[datetime, datetime] | None

    @property
    def engine_settings(self) -> dict[str, Any]:
        return self.config.engine.settings if self.config.engine else {}

    @property
    def identity(self) -> Identity:
        """The identity of the run, with what LoadGen's log says was made of its scenario."""
        identity = identity_of(self.config, self.summary)
        modes = [mode for mode in ("accuracy", "performance") if self.summary.run.has(mode)]
        values: dict[str, object] = {"runs made": ", ".join(modes)}
        values |= {name: self.detail[f"effective_{name}"] for name in _SAME_IN_LOG}
        facts = {name: Fact("measurement", value) for name, value in values.items()}
        return replace(identity, facts={**identity.facts, **facts})


def load_node_runs(paths: Iterable[Path]) -> list[NodeRun]:
    """The runs in these folders. Raises RefusedError with a line for each run that cannot
    be part of any aggregate."""
    runs: list[NodeRun] = []
    reasons: list[str] = []
    for path in paths:
        try:
            runs.append(_load(path))
        except RefusedError as error:
            reasons += [f"{in_words(path)}: {reason}" for reason in error.reasons]
    if reasons:
        raise RefusedError(reasons)
    return runs


def _load(path: Path) -> NodeRun:
    folder = Path(os.path.realpath(path.expanduser()))
    if not folder.is_dir():
        raise RefusedError(["no such folder: name the folder of a run, results/<time>-<kind>"])
    summary = read_summary(folder)
    if summary is None:
        raise RefusedError([f"{summary_fault(folder)}: name the folder of a run"])
    meta, config = summary.meta, Config.read(read_config(folder))
    benchmark = BENCHMARKS.get(meta.benchmark or "")
    scenarios = benchmark.scenarios if benchmark else ()
    scenario = next((candidate for candidate in scenarios if candidate.name == meta.scenario), None)
    if scenario is None:
        raise RefusedError([f"{in_words(meta.title) or 'nothing'}: no scenario of a benchmark"])
    if meta.status not in ("complete", "invalid"):
        why = in_words(meta.reason or "it did not end")
        raise RefusedError([f"status {in_words(meta.status)}: {why}; make the run again"])
    if summary.no_result:
        raise RefusedError([f"{summary.no_result}, and of no aggregate"])
    if summary.run.performance is None:
        raise RefusedError(["no performance run: an aggregate is of performance runs"])
    if not meta.node_name or not meta.node_name.strip():
        raise RefusedError(["no node name: run it with NODE_NAME=NAME or --node-name NAME"])
    if changed := changed_since_run(folder):
        raise RefusedError([f"not as the run left it: {changed[0]}"])
    detail = read_detail(folder)
    if detail["result_validity"] is None:
        raise RefusedError(["Performance/mlperf_log_detail.txt has no result"])
    old = summary.run.performance
    figures = performance_figures(
        scenario, detail, old.duration_s or 0.0, old.total_new_tokens or 0
    )
    return NodeRun(
        str(path),
        folder,
        in_words(meta.node_name),
        summary,
        config,
        scenario,
        detail,
        figures,
        why_no_result(summary, config, figures),
        file_sha256(folder / "Performance" / "mlperf_log_detail.txt"),
        _span(detail),
    )


def _span(detail: DetailLog) -> tuple[datetime, datetime] | None:
    """The start and end of a run; None if its log has no such dates.

    LoadGen writes power_begin and power_end in UTC. Its test_datetime is in the machine's local
    time zone, although it ends with a Z (utils.cc of LoadGen), so it cannot be compared between
    nodes.
    """
    try:
        begin, end = (
            datetime.strptime(str(detail[key]), POWER_FORMAT).replace(tzinfo=UTC)
            for key in ("power_begin", "power_end")
        )
    except ValueError:
        return None
    return begin, end


def read_times(run: NodeRun) -> RequestTimes:
    """The times of a run's requests. Raises RefusedError if there are none, or if they do
    not match LoadGen's log."""
    timeline = read_timeline(run.folder / "Performance")
    why = "there is none that can be read" if timeline is None else _not_of_log(timeline, run)
    if timeline is None or why:
        raise RefusedError([f"{run.label}: Performance/timeline.json: {why}"])
    return timeline.times


def _not_of_log(timeline: Timeline, run: NodeRun) -> str:
    """Why these requests do not match LoadGen's log; empty if they do."""
    times = timeline.times
    if not times.are_possible:
        return "there is none that can be read"
    if not timeline.from_loadgen:
        return "its times do not count from LoadGen's issue: make the run again"
    sample_count = issued_samples(run.detail, run.scenario.name)
    if sample_count != len(times):
        return f"{len(times):,} requests, and LoadGen issued {sample_count or 0:,}"
    for name, values, reference in (
        ("latency", times.latency_ms, run.figures.latency_ms),
        ("TTFT", times.ttft_ms, run.figures.ttft_ms),
        ("TPOT", times.tpot_ms, run.figures.tpot_ms),
    ):
        computed = distribution(values)
        for place, own in (reference or {}).items():
            if abs(computed.get(place, 0.0) - own) > max(_OFF_MS, _OFF_BY * own):
                there = computed.get(place, 0.0)
                words, of_log = (time_words(value, exact=True) for value in (there, own))
                return f"{name} {place} {words}, and LoadGen's log has {of_log}"
    return ""


# Whether a run counts


# What must be equal


def refusals(runs: Sequence[NodeRun]) -> list[str]:
    """Why these runs cannot be aggregated, a line for each difference and its run."""
    lines = [*_twice(runs), *_scenario_sets(runs)]
    firsts: dict[str, NodeRun] = {}
    for run in runs:
        first = firsts.setdefault(run.scenario.name, run)
        lines += differences_of(runs[0], run) if runs[0] is not first else []
        lines += differences_of(first, run)
    if len({run.node for run in runs}) < 2:
        lines.append("an aggregate is of two nodes or more")
    return list(dict.fromkeys(lines))


def _twice(runs: Sequence[NodeRun]) -> list[str]:
    lines = []
    for number, run in enumerate(runs):
        for earlier in runs[:number]:
            if earlier.folder == run.folder or earlier.log_sha256 == run.log_sha256:
                lines.append(f"{run.label}: the same run as {earlier.label}")
                break
            if (earlier.node, earlier.scenario.name) == (run.node, run.scenario.name):
                lines.append(
                    f"{run.label}: node {run.node} is there twice in {run.scenario.name}, "
                    f"also as {earlier.label}: give each node a name of its own"
                )
                break
    return lines


def _scenario_sets(runs: Sequence[NodeRun]) -> list[str]:
    scenarios: dict[str, set[str]] = {}
    for run in runs:
        scenarios.setdefault(run.node, set()).add(run.scenario.name)
    names = {node: ", ".join(sorted(of_node)) for node, of_node in scenarios.items()}
    first, *rest = names
    return [
        f"node {node}: scenarios {names[node]}; node {first}: {names[first]}"
        for node in rest
        if names[node] != names[first]
    ]


def check_ones(runs: Sequence[NodeRun], alone: Sequence[NodeRun]) -> list[str]:
    """Why runs of one node alone cannot be compared with these, a line for each."""
    lines: list[str] = []
    for number, run_alone in enumerate(alone):
        same = [r for r in (*runs, *alone[:number]) if r.log_sha256 == run_alone.log_sha256]
        of = next((run for run in runs if run.scenario.name == run_alone.scenario.name), None)
        if same:
            lines.append(
                f"--one {run_alone.label}: the same run as {same[0].label}: run a node alone"
            )
        elif of is None:
            lines.append(f"--one {run_alone.label}: no node ran {run_alone.scenario.name}")
        else:
            lines += [f"--one {line}" for line in differences_of(of, run_alone)]
    return lines


def differences_of(first: NodeRun, run: NodeRun) -> list[str]:
    """The differences that make a run another measurement than the first, a line for each."""
    same_scenario = run.scenario.name == first.scenario.name
    return [
        f"{run.label}: {fact.name} {fact.first}; {first.label}: {fact.second}"
        for fact in differences(run.identity, first.identity, _ASPECTS)
        if same_scenario or fact.name not in _OF_SCENARIO
    ]


# What may differ, and is reported


def hardware_of(run: NodeRun) -> str:
    """A node's accelerators, or else its processor, in words; unknown for remote servers, since the
    summary describes the client."""
    is_known = run.summary.system and not run.summary.run.remote
    return in_words(", ".join(run.summary.machines)) if is_known else "not known"


def notes_of(runs: Sequence[NodeRun]) -> list[str]:
    """The allowed differences between nodes, and what could not be compared: a sentence each."""
    by_node = {run.node: run for run in reversed(runs)}
    first_runs = [by_node[node] for node in dict.fromkeys(run.node for run in runs)]
    notes = []
    tables: dict[str, dict[str, object]] = {
        "hardware": {r.node: hardware_of(r) for r in first_runs}
    }
    for name in ("cpu", "cpu_count", "torch_version"):
        tables[name] = {run.node: run.summary.system.get(name) for run in first_runs}
    for name in _LIMITS:
        tables[f"the engine's {name}"] = {r.node: r.engine_settings.get(name) for r in first_runs}
    tables["suite"] = {run.node: run.config.suite_version for run in first_runs}
    for name, values in tables.items():
        nodes_of: dict[str, list[str]] = {}
        for node, value in values.items():
            nodes_of.setdefault(value_text(value), []).append(node)
        if len(nodes_of) > 1:
            words = "; ".join(f"{text} on {', '.join(of)}" for text, of in nodes_of.items())
            notes.append(f"Not alike in {name.replace('_', ' ')}: {words}.")
    if not all(isinstance(r.engine_settings.get(MODEL_FILES), str) for r in first_runs):
        notes.append(
            "The model's files were not compared, since an engine does not report them: "
            "the nodes may have different weights."
        )
    return notes


def rate_note(runs: Sequence[NodeRun]) -> str:
    """A note if the nodes of a scenario were sent different rates; else empty."""
    rates = {
        run.node: run.figures.target_qps
        for run in runs
        if run.scenario.loadgen_scenario == "Server"
    }
    if len(set(rates.values())) < 2:
        return ""
    words = ", ".join(f"{node} {rate:g}" for node, rate in rates.items() if rate is not None)
    return f"The nodes were sent different rates, in queries/s: {words}."


def accuracy_note(runs: Sequence[NodeRun]) -> str:
    """A note if a node's accuracy was not measured; else empty."""
    without = [run.node for run in runs if run.summary.run.accuracy_passed is None]
    if not without:
        return ""
    return (
        f"The accuracy was not measured on {', '.join(without)}: a performance run counts only "
        "beside an accuracy run of the same system that passed."
    )


def overlap_note(runs: Sequence[NodeRun]) -> str:
    """A note if the nodes of a scenario did not run at the same time; else empty."""
    spans = [run.span for run in runs if run.span is not None]
    if len(spans) < len(runs):
        return "Whether the nodes ran at the same time is not known."
    overlap_s = (min(end for _, end in spans) - max(start for start, _ in spans)).total_seconds()
    shortest = min((end - start).total_seconds() for start, end in spans)
    if overlap_s >= shortest / 2:
        return ""
    return (
        f"The nodes did not all run at the same time (together for {max(overlap_s, 0.0):,.0f} s of "
        f"the shortest run's {shortest:,.0f}, by their clocks), so that nothing they share was "
        "loaded by all of them."
    )
