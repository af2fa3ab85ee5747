"""What a curve of several turns in a package of MLPerf Endpoints must fulfil beside the others.

Sources: endpoints_rules.md §3.2, §4.3 and §6.6, the gates in agentic_targets.py of the official
checker, which it took from the reference implementation, and that implementation's own rules,
examples/10_Agentic_Inference/README.md of github.com/mlcommons/endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import Any

from mlperf_suite.features.endpoints.official_client_results.result_files import (
    AccuracyScore,
    OfficialClientConfig,
)
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC_SAMPLING,
    AGENTIC_TARGETS,
    MANDATORY,
    SWE_BENCH_PROBLEMS,
    TRAJECTORIES,
    AgenticTargets,
)
from mlperf_suite.features.endpoints.rules.package_rules import (
    CurveFacts,
    PointFacts,
    regions_scored,
)
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, no_demand, not_judged, verdict

_package_rule = partial(rule, "package")
_INLINE, _SWE_BENCH = "performance", "swe_bench"
"""The type of the scores of a performance run, and the data set of the accuracy run."""
_INLINE_METHOD, _SWE_BENCH_METHOD = "agentic_inference_inline", "swe_bench_scorer"
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_MAX_LISTED = 4


@_package_rule(
    source="Endpoints rules, §3.2, §4.3, §6.6; checker: agentic-accuracy-inline, "
    "agentic-accuracy-swebench, agentic-osl-range, accuracy-valid; SWE-bench in each region, the "
    "suite's own",
    fix="Fix the accuracy of the named points, and repeat their runs.",
)
def agentic_accuracy(curve: CurveFacts) -> Verdict:
    """With several turns: each point's inline score, the mean of SWE-bench over the four mandatory
    regions and the mean length of a turn are within the benchmark's gates.

    Scores are shares of 1. The mean length is that of the full run, which not every version of the
    client writes: without it the rule is not judged unless a score is too low.
    """
    if not curve.is_agentic:
        return no_demand("a benchmark of one turn")
    targets = AGENTIC_TARGETS[curve.model]
    low, high = targets.tokens
    required = (
        f"inline {targets.inline:g}, SWE-bench {targets.swe_bench:g}, {low:g} to {high:g} tokens"
    )
    faults = [*_inline_faults(curve, targets), *_swe_bench_faults(curve, targets)]
    faults += _length_faults(curve, targets)
    if faults:
        return verdict(False, "; ".join(faults[:_MAX_LISTED]), required)
    unknown = [p.name for p in curve.points if _turn_tokens(p) is None]
    if unknown:
        why = "no output_sequence_lengths_full_run in result_summary.json"
        return not_judged(f"tokens of {', '.join(unknown[:_MAX_LISTED])}", required, why)
    return verdict(True, f"{len(curve.points)} points", required)


def _inline_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    for point in curve.points:
        scores = [s for s in _scores(point) if s.dataset_type == _INLINE]
        score = _percent(scores)
        if score is None:
            yield f"{point.name}: no inline score of 0 to 1"
        elif score < targets.inline:
            yield f"{point.name}: inline {score:.2f}"


def _swe_bench_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    owners = regions_scored(curve)
    scores = []
    for region in MANDATORY:
        point = owners.get(region)
        of_point = [s for s in _scores(point) if s.dataset_name == _SWE_BENCH] if point else []
        if (score := _percent(of_point)) is None:
            yield f"no SWE-bench score of 0 to 1 in {region}"
        else:
            scores.append(score)
    if scores and fmean(scores) < targets.swe_bench:
        yield f"SWE-bench {fmean(scores):.2f} over {len(scores)} regions"


def _length_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    low, high = targets.tokens
    for point in curve.points:
        tokens = _turn_tokens(point)
        if tokens is not None and not low <= tokens <= high:
            yield f"{point.name}: {tokens:,.1f} tokens a turn"


def _turn_tokens(point: PointFacts) -> float | None:
    """The mean length of all turns of a point's run."""
    run = point.client.summary
    full_run = run.output_sequence_lengths_full_run if run else None
    return full_run.output_sequence_lengths.avg if full_run else None


def _scores(point: PointFacts) -> Iterable[AccuracyScore]:
    return point.client.accuracy.accuracy_scores if point.client.accuracy else ()


def _percent(scores: list[AccuracyScore]) -> float | None:
    """One score in percent; None if there are none or several, or it is no share of 1."""
    value = scores[0].score if len(scores) == 1 else None
    is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return 100.0 * float(value) if is_share and isinstance(value, int | float) else None


@_package_rule(
    required="the settings of the reference implementation",
    source="Endpoints rules, §2.9.5.1, §3.2; the client's examples/10_Agentic_Inference/README.md: "
    "official submission rules",
    official=False,
    fix="Run the client with the configuration of its example, and change no sampling parameter.",
)
def agentic_settings(curve: CurveFacts) -> Verdict:
    """With several turns: the client replayed whole passes over the conversations, with their salts
    and tool delays, to their end, with the reference's sampling, and scored inline and on 200
    problems of SWE-bench.

    The official checker reads no configuration. DeepSeek-V4.1-Flash's sampling is not published.
    """
    if not curve.is_agentic:
        return no_demand("a benchmark of one turn")
    faults = [
        f"{point.name}: {fault}"
        for point in curve.points
        if point.client.config is not None
        for fault in (
            *_replay_faults(point.client.config),
            *_sampling_faults(curve.model, point.client.config.model_params),
            *(_swe_bench_settings(point.client.config) if point.has_accuracy else ()),
        )
    ]
    more = f" and {len(faults) - _MAX_LISTED} more" if len(faults) > _MAX_LISTED else ""
    return verdict(not faults, "; ".join(faults[:_MAX_LISTED]) + more or "the reference's")


def _replay_faults(config: OfficialClientConfig) -> Iterator[str]:
    data = next((d for d in config.datasets if d.get("type") == "performance"), {})
    replay = _block(data, "agentic_inference")
    for name, value in (
        ("enable_salt", True),
        ("inject_tool_delay", True),
        ("stop_issuing_on_first_user_complete", False),
    ):
        if replay.get(name, False) is not value:
            yield f"{name} is not {str(value).lower()}"
    count = replay.get("num_trajectories_to_issue")
    if type(count) is not int or count < 1 or count % TRAJECTORIES:
        yield f"num_trajectories_to_issue {_short(count)} is not a multiple of {TRAJECTORIES}"
    if _block(data, "accuracy_config").get("eval_method") != _INLINE_METHOD:
        yield f"its data is not scored by {_INLINE_METHOD}"


def _sampling_faults(model: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    if (demanded := AGENTIC_SAMPLING.get(model)) is None:
        return
    for name in (*dict.fromkeys((*demanded, "top_k", *_PENALTIES)),):
        value, required = parameters.get(name), demanded.get(name)
        if isinstance(value, bool) or value != required:
            yield f"{name} {_short(value)}, not {'set' if required is None else required}"


def _swe_bench_settings(config: OfficialClientConfig) -> Iterator[str]:
    """What is wrong with the accuracy run's settings."""
    settings = [
        of_data
        for data in config.datasets
        if (of_data := _block(data, "accuracy_config")).get("eval_method") == _SWE_BENCH_METHOD
    ]
    problems = [_block(of_data, "extras").get("num_instances") for of_data in settings]
    if problems != [SWE_BENCH_PROBLEMS]:
        said = ", ".join(_short(count) for count in problems[:_MAX_LISTED]) or "none"
        yield f"SWE-bench of {said} problems, not {SWE_BENCH_PROBLEMS}"


def _block(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A member that is an object; empty for anything else."""
    block = data.get(name)
    return block if isinstance(block, dict) else {}


def _short(value: object) -> str:
    """An untrusted number; anything else by its kind alone."""
    # Thousands of digits are none that anybody reads, and none that can be written.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
        return f"{value:g}"
    return "missing" if value is None else f"of type {type(value).__name__}"
