"""The regression gate: on fixed draws of known noise, on summaries, and as a user starts it.

How often it is wrong is counted in evidence/false_alarms."""

import json
import math
import shlex
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ci import gate
from ci.gate import Job, measure
from meta_tests.made_lives import made_marks, made_steps, made_timeline
from meta_tests.reports.outputs import unescaped
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.errors import UsageError
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.load_plan import SMOKE
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.timeline import TOKEN_BLOCKS, read_timeline, write_timeline
from mlperf_suite.plugin.baseline_gate import check_baselines, regression_verdict
from mlperf_suite.reports.headline import headline
from mlperf_suite.reports.markdown import escaped
from mlperf_suite.results.baseline import (
    answer_scores,
    load_baseline,
    load_baselines,
    write_answer_scores,
)
from mlperf_suite.results.regression import (
    METRICS,
    Metric,
    MetricSamples,
    compare,
    compare_summaries,
)
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import ChangeFigures, RegressionFigures, Summary
from mlperf_suite.session.plan import Plan

TOKENS = METRICS[0]
TTFT = next(metric for metric in METRICS if metric.name == "ttft_p99")
LABEL = "made with a stand-in engine: not a measurement of any system"


def _performance(loss: dict[str, float]) -> Summary:
    """A summary of one run whose blocks differ by 3% from one to the next, by group its loss."""
    wave = np.exp(0.03 * np.sin(np.arange(TOKEN_BLOCKS)) * np.sqrt(2))
    rate = 100 * (1 - loss.get("speed", 0))
    ttft, tpot = (50 / (1 - loss.get(name, 0)) for name in ("ttft", "tpot"))
    values = (("tokens_per_sec", rate), ("ttft_ms", ttft), ("tpot_ms", tpot))
    still = {} if loss else {name: [value] * TOKEN_BLOCKS for name, value in values}
    blocks = {name: list(value * wave) for name, value in values}
    figures = {"tokens_per_sec": rate, "ttft_ms": {"p99": ttft}, "tpot_ms": {"p99": tpot}}
    return Summary.read({"run": {"performance": figures | {"blocks": still or blocks}}})


@pytest.mark.parametrize(
    ("worse", "loss", "regressed"),
    [
        (("speed", "ttft", "tpot"), 0.083, 3),
        (("speed", "ttft"), 0.083, 0),
        (("speed", "ttft"), 0.092, 2),
        (("speed",), 0.092, 0),
        (("speed",), 0.1, 1),
    ],
)
def test_metrics_that_are_worse_at_once_vouch_for_each_other(
    worse: tuple[str, ...], loss: float, regressed: int
) -> None:
    """What is too little for one metric among three is enough where two or all of them lose it."""
    slower = _performance(dict.fromkeys(worse, loss))
    changes = compare_summaries(_performance({}), slower)
    losses = [change for change in changes if change.outcome == "regressed"]
    assert len(losses) == regressed
    assert all(change.high is not None and change.high < 0 for change in losses)


def test_a_run_that_was_disturbed_for_half_of_its_time_says_so() -> None:
    """As one was measured while other work began and ended: -64.6%, the second half as before."""
    disturbed = np.array([0.25] * 10 + [0.97] * 10) * 100
    rate = TOKEN_BLOCKS / sum(1 / disturbed)
    then = MetricSamples((100.0,), (100.0,) * TOKEN_BLOCKS)
    change = compare(TOKENS, then, MetricSamples((rate,), tuple(disturbed)))
    assert change.change is not None and change.change < -0.5
    assert change.outcome == "cannot tell"
    assert change.noise_from == "20 blocks of each run; 10 of 20 blocks lost no more than 5%"
    everywhere = MetricSamples((25.0,), (25.0,) * 19 + (26.0,))
    steady = compare(TOKENS, then, everywhere)
    assert (steady.outcome, steady.noise_from) == ("regressed", "20 blocks of each run")


WAVE = tuple(math.exp(0.03 * math.sin(3 * i)) for i in range(TOKEN_BLOCKS))
FLAT = (100.0,) * TOKEN_BLOCKS
SLOWER = tuple(90 * share for share in WAVE)
THEN, NOW = (100.0, 101.0, 99.0, 100.5, 99.5), (90.0, 91.5, 89.0, 90.5, 89.5)


@pytest.mark.parametrize(
    ("runs", "blocks", "low", "high", "noise_from"),
    [
        ((3, 3), ((), ()), -0.129840, -0.065745, "3 and 3 runs"),
        ((1, 3), ((), ()), -0.187673, 0.000703, "1 and 3 runs"),
        ((1, 1), (FLAT, SLOWER), -0.155554, -0.040791, "20 blocks of each run"),
        # From ten on, the farthest is left out, whatever it is.
        ((1, 1), (FLAT[:10], SLOWER[:10]), -0.158014, -0.037989, "10 blocks of each run"),
        ((1, 1), (FLAT, (1, *SLOWER[1:])), -0.158350, -0.037604, "20 blocks of each run"),
        ((1, 1), ((), SLOWER), -0.177549, -0.015139, "20 blocks of one run"),
        # Repeats count beside the blocks of both, instead of those of one, and alone from five on.
        ((2, 2), (FLAT, SLOWER), -0.135048, -0.057351, "2 and 2 runs and 20 blocks of each run"),
        ((2, 2), ((), SLOWER), -0.151747, -0.038793, "2 and 2 runs"),
        ((5, 5), (FLAT, SLOWER), -0.113893, -0.083894, "5 and 5 runs"),
    ],
)
def test_an_interval_is_of_the_repeats_the_blocks_or_both(
    runs: tuple[int, int],
    blocks: tuple[tuple[float, ...], tuple[float, ...]],
    low: float,
    high: float,
    noise_from: str,
) -> None:
    """Student's, at 97.7%."""
    then = MetricSamples(THEN[: runs[0]], blocks[0])
    change = compare(TOKENS, then, MetricSamples(NOW[: runs[1]], blocks[1]))
    assert (change.low, change.high) == pytest.approx((low, high), abs=1e-6)
    assert change.noise_from == noise_from
    assert change.outcome == ("regressed" if high < 0 else "cannot tell")


def test_what_is_noise_and_what_is_none() -> None:
    """Runs that vary more than their blocks have their own spread; blocks that differ alike in both
    runs are no noise; without any measure of noise nothing is told."""
    wide = compare(TOKENS, MetricSamples((100, 110), FLAT), MetricSamples((90, 99), SLOWER))
    assert (wide.low, wide.high) == pytest.approx((-0.237626, 0.062471), abs=1e-6)
    shape = np.linspace(0.2, 2, TOKEN_BLOCKS)
    then, now = (MetricSamples((rate,), tuple(rate * shape)) for rate in (100, 90))
    assert compare(TOKENS, then, now).outcome == "regressed"
    unknown = compare(TOKENS, MetricSamples((100,)), MetricSamples((50,)))
    assert (unknown.outcome, unknown.low) == ("cannot tell", None)
    assert "noise not measured" in unknown.words
    summary = Summary(regression=RegressionFigures(metrics=(unknown,)))
    for fails, status in ((False, "not judged"), (True, "failed")):
        settings: Any = SimpleNamespace(fail_on_cannot_tell=fails)
        assert regression_verdict(summary, TOKENS.name, settings).status == status


def _quiet(value: float) -> MetricSamples:
    return MetricSamples((value, value * 1.001, value * 0.999))


@pytest.mark.parametrize(
    ("metric", "now", "outcome"),
    [
        *((TOKENS, 80, "regressed"), (TOKENS, 94.9, "regressed"), (TOKENS, 95.1, "cannot tell")),
        *((TOKENS, 98, "unchanged"), (TOKENS, 105, "unchanged"), (TOKENS, 105.5, "improved")),
        *((TTFT, 125, "regressed"), (TTFT, 105, "cannot tell"), (TTFT, 80, "improved")),
    ],
)
def test_a_quiet_machine_gets_a_clear_verdict(metric: Metric, now: float, outcome: str) -> None:
    change = compare(metric, _quiet(100), _quiet(now))
    assert change.outcome == outcome
    # In the metric's own direction.
    assert change.words.startswith(f"{now - 100:+.1f}% (")


# The timeline


def test_a_timeline_is_read_as_it_was_written_unless_damaged(tmp_path: Path) -> None:
    """No JSON, columns of another length, a load that is none."""
    rows = [(100.0 + i, 100.5 + i, 102.0 + i, 5) for i in range(60)]
    steps = made_steps([100.1 + i / 4 for i in range(250)], 3)
    timeline = made_timeline(rows, steps, made_marks(rows, preempted=2))
    write_timeline(tmp_path, timeline)
    assert read_timeline(tmp_path) == timeline
    assert timeline.blocks()["tokens_per_sec"][1:] == pytest.approx([12.0] * 19)
    assert len(timeline.blocks()["ttft_ms"]) == 15
    file = tmp_path / "timeline.json"
    content = json.loads(file.read_text())
    damaged: list[Any] = [[], {}, {"issued_ms": 1}, None, {"tokens": [1]}]
    for name in ("first_token_ms", "tokens", "samples", "preempted", "made_tokens", "kv_share"):
        damaged.append(content | {name: [1] * 7})
    parts = content["parts_ms"]
    damaged.append(content | {"parts_ms": parts | {"queue": parts["queue"][:7]}})
    damaged += [content | {"load": load} for load in ({"busy": "much"}, {"steps": None})]
    for text in ("", *map(json.dumps, damaged)):
        file.write_text(text)
        assert read_timeline(tmp_path) is None, text[:200]
    file.write_text(json.dumps(content))
    assert read_timeline(tmp_path) is not None


# Baselines


def _summary(
    folder: Path, rate: float = 100.0, run: dict[str, Any] | None = None, **meta: Any
) -> Path:
    defaults = {"benchmark": "llama3.1-8b", "scenario": "Offline", "model": "embedded"}
    defaults |= {"dataset": "embedded", "profile": "smoke", "round": "v6.1", "label": "smoke"}
    blocks = {"tokens_per_sec": [rate * (1 + i % 3 / 100) for i in range(TOKEN_BLOCKS)]}
    performance = {"tokens_per_sec": rate, "qps": rate / 100, "blocks": blocks}
    folder.mkdir(parents=True, exist_ok=True)
    content = {"meta": defaults | meta, "system": {"cpu": "a"}}
    content["run"] = run or {"performance": performance}
    (folder / "summary.json").write_text(json.dumps(content))
    return folder


def _read(folder: Path) -> Summary:
    summary = read_summary(folder)
    assert summary is not None
    return summary


def test_a_baseline_of_another_kind_is_refused_with_what_differs(tmp_path: Path) -> None:
    """And one whose engine describes itself otherwise, whatever it was asked for."""
    folders = [tmp_path / name for name in ("a", "b", "c")]
    _summary(folders[0], model="other", round="v6.0", samples=84)
    for folder in folders[1:]:
        _summary(folder, samples=3)
    for folder, dtype in zip(folders, ("bfloat16", "float32"), strict=False):
        engine = {"name": "vLLM", "version": str(folder), "settings": {"dtype": dtype}}
        (folder / "config.json").write_text(json.dumps({"engine": engine}))
    baseline, current = load_baseline(folders[0]), _read(folders[1])
    with pytest.raises(UsageError) as error:
        baseline.check(current)
    words = "round: baseline v6.0, this run v6.1; model: baseline other, this run embedded"
    assert words in str(error.value)
    refused = baseline.judge(current, folders[1], 0.05)
    for words in ("model: baseline other", "samples: baseline 84", "dtype: baseline bfloat16"):
        assert words in (refused.refused or "")
    assert refused.metrics == ()
    limit = baseline.judge(current, folders[1], 0.05, allow_different=True)
    assert [m.outcome for m in limit.metrics] == ["unchanged", "unchanged"]
    assert len(limit.different) == 4
    # An engine that says nothing of itself is not refused for that.
    silent = load_baseline(folders[2]).judge(current, folders[1], 0.05)
    assert silent.refused is None


@pytest.mark.parametrize(
    ("scenario", "rate", "refused"),
    [("Server", None, True), ("Server", 10.05, False), ("Interactive", 9.6, True)],
)
def test_a_rate_other_than_the_baselines_is_refused_before_and_after_the_run(
    tmp_path: Path, scenario: str, rate: float | None, refused: bool
) -> None:
    then, now = (
        _summary(tmp_path / f"{qps}", run={"performance": figures}, scenario=scenario)
        for qps in (10.0, rate or 9.0)
        for figures in ({"tokens_per_sec": 100.0, "target_qps": qps},)
    )
    baseline = load_baseline(then)
    judged = baseline.judge(_read(now), now, 0.05)
    words = "--server-target-qps 10 "
    assert (words in (judged.refused or "")) is refused
    assert bool(judged.metrics) is not refused
    with pytest.raises(UsageError, match=words) if refused else nullcontext():
        baseline.check(_read(now), rate)


BOUND = {"rule": "client_bound", "status": "failed", "found": "99% of a core"}


def test_a_client_bound_run_is_no_baseline_and_is_not_compared(tmp_path: Path) -> None:
    limited, good = (_summary(tmp_path / name) for name in ("bound", "good"))
    content = json.loads((limited / "summary.json").read_text())
    (limited / "summary.json").write_text(json.dumps(content | {"verdicts": [BOUND]}))
    with pytest.raises(UsageError, match="bound: client-bound: not a result"):
        load_baselines([limited])
    both = f"{limited}: client-bound: not a result; this run"
    pairs = ((limited, good, str(limited)), (good, limited, "this run"), (limited, limited, both))
    for then, now, culprit in pairs:
        judged = load_baseline(then).judge(_read(now), now, 0.05, allow_different=True)
        assert (judged.refused, judged.metrics) == (f"{culprit}: client-bound: not a result", ())


def test_a_baseline_that_cannot_be_compared_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    for text, words in (
        ("", "not JSON"),
        ("[]", "not the summary of a run"),
        ('{"meta": {}}', "no figures"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=words):
            load_baseline(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        load_baseline(tmp_path / "nowhere")
    for status in ("failed", "running"):
        with pytest.raises(UsageError, match=f"the run did not finish .status {status}."):
            load_baselines([_summary(tmp_path / "a", status=status)])
    baseline = _summary(tmp_path / "a", status="invalid")
    with pytest.raises(UsageError, match=r"already the baseline of llama3\.1-8b Offline"):
        load_baselines([baseline, baseline / "summary.json"])
    suite: Any = SimpleNamespace(settings=None)
    with pytest.raises(UsageError, match=r"a run of llama3\.1-8b Offline, which is not selected"):
        check_baselines(suite, Plan((), {}, {}), load_baselines([baseline]))


def test_latest_is_the_run_that_it_points_to_now(tmp_path: Path) -> None:
    _summary(tmp_path / "a")
    (tmp_path / "latest").symlink_to("a")
    baseline = load_baseline(tmp_path / "latest")
    assert (baseline.folder, baseline.label) == (tmp_path / "a", str(tmp_path / "a"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "a")
    assert load_baseline(tmp_path / "elsewhere" / "link").folder == tmp_path / "a"


def _scores(**values: object) -> dict[str, Any]:
    """The accuracy figures of a run with these scores in percent."""
    return {"scores": [{"name": n, "value": value, "unit": "%"} for n, value in values.items()]}


@pytest.mark.parametrize("value", [0, None])
def test_a_figure_that_is_gone_is_regressed(value: object) -> None:
    baseline = Summary.read({"run": {"accuracy": _scores(rouge1=39.0, rouge2=22.0)}})
    current = Summary.read({"run": {"accuracy": _scores(rouge1=39.0, rouge2=value)}})
    length, slower = compare_summaries(baseline, current)
    assert (length.metric, length.outcome) == ("rouge1", "cannot tell")
    assert (slower.metric, slower.outcome) == ("rouge2", "regressed")
    assert slower.words == "lost altogether"
    assert compare_summaries(baseline, Summary.read({"run": {"accuracy": None}})) == []


def _scored(folder: Path, score: str, answers: Sequence[float]) -> Path:
    """A run with the mean of these scores, and a file of each answer's."""
    accuracy = _scores(**{score: statistics.fmean(answers)})
    error = statistics.stdev(answers) / len(answers) ** 0.5
    accuracy["scores"][0]["standard_error"] = error
    (_summary(folder, run={"accuracy": accuracy}) / "Accuracy").mkdir()
    write_answer_scores(folder / "Accuracy", "of a scorer", {score: answers}, "data")
    return folder


def _change(then: Path, now: Path) -> ChangeFigures:
    (change,) = load_baseline(then).judge(_read(now), now, 0.05).metrics
    return change


def _without_answers(folder: Path) -> Path:
    alone = folder / "alone.json"
    alone.write_text((folder / "summary.json").read_text())
    return alone


@pytest.mark.parametrize(("of", "outcome"), [(5, "cannot tell"), (200, "regressed")])
def test_a_score_of_few_answers_may_be_0_by_chance(tmp_path: Path, of: int, outcome: str) -> None:
    """One right answer of five, and then none, is what two runs of the same system have."""
    then, now = (
        _scored(tmp_path / f"{right}", "exact_match", [100.0 * (i < right) for i in range(of)])
        for right in (of // 5, 0)
    )
    assert _change(then, now).outcome == outcome
    assert _change(_without_answers(then), now).outcome == outcome


def test_scores_of_the_same_answers_are_compared_in_pairs(tmp_path: Path) -> None:
    then, now = (
        _scored(tmp_path / f"{loss}", "rouge1", [20.0 + 40 * (i % 2) - loss for i in range(50)])
        for loss in (0.0, 4.0)
    )
    paired = _change(then, now)
    assert (paired.outcome, paired.noise_from) == ("regressed", "the same samples")
    assert _change(_without_answers(then), now).outcome == "cannot tell"


def test_a_score_of_a_part_of_the_answers_is_kept_at_their_places(tmp_path: Path) -> None:
    (tmp_path / "Accuracy").mkdir()
    scores = {"rouge1": (None, 20.0, None, 0.0), "gsm8k": (100.0, None, 0.0, None)}
    write_answer_scores(tmp_path / "Accuracy", "mixed", scores, "data")
    assert answer_scores(tmp_path) == ("data", {"rouge1": {1: 20, 3: 0}, "gsm8k": {0: 100, 2: 0}})


def test_scores_of_any_scorer_are_compared(tmp_path: Path) -> None:
    for name, loss in (("a", 0.0), ("b", 4.0)):
        scores = [
            {"name": "Exact_Match", "value": 80 - loss, "unit": "%", "standard_error": 0.1},
            {"name": "tokens_per_sample", "value": 100 - loss, "unit": "tokens"},
        ]
        _summary(tmp_path / name, run={"accuracy": {"scores": scores}})
    baseline = load_baseline(tmp_path / "a")
    assert [metric.name for metric in baseline.metrics("accuracy")] == ["exact_match"]
    assert baseline.metrics("performance") == ()
    (change,) = baseline.judge(_read(tmp_path / "b"), tmp_path / "b", 0.03).metrics
    assert (change.metric, change.label, change.unit) == ("exact_match", "Exact_Match", "%")
    assert (change.outcome, change.noise_from) == ("regressed", "the spread of the samples")


# As a user starts it


COMMAND = ("-p", "meta_tests.stand_in_plugin", "-p", "meta_tests.reports.undrawn", "--warmup=0")
EDGE = "llama3.1-8b-edge"
GATE = "singlestream"
JUNIT = f"junit-{GATE}.xml"


@dataclass(frozen=True)
class GatedJob:
    """A CI job's exit status, the folder of what it wrote, and its session."""

    status: int
    out: Path
    session: SuiteRun


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> GatedJob:
    """A CI job whose baseline is better in speed and in one of its scores."""
    folder = tmp_path_factory.mktemp("regressed")
    accuracy = _scores(rouge1=90.0, rouge2=1.0)
    for score in accuracy["scores"]:
        score["standard_error"] = 0.5
    run = {"accuracy": accuracy, "performance": {"tokens_per_sec": 1e9}}
    baseline = _summary(
        folder / "last-good" / GATE, run=run, benchmark=EDGE, scenario="SingleStream", label=LABEL
    )
    content = json.loads((baseline / "summary.json").read_text())
    content["system"] = json.loads(json.dumps(describe_system()))
    (baseline / "summary.json").write_text(json.dumps(content))
    # LoadGen asks for twice the queries of its duration at the accuracy run's latency.
    delays = json.dumps({"delays_s": [0.1] * (SMOKE["SingleStream"].samples or 0) + [0.05]})
    variables = {"OUT": folder / "out", "BASELINES": folder, "PROFILE": "smoke", "REPEAT": "1"}
    variables["ARGS"] = shlex.join(["-m", GATE, *COMMAND])
    job = Job.of({f"MLPERF_{name}": str(value) for name, value in variables.items()})
    sessions = []

    def run_here(command: Sequence[str], into: Path | None) -> int:
        if into is None:
            place = command.index("--results-dir")
            words = (*command[3:place], *command[place + 2 :])
            sessions.append(run_suite(Path(command[place + 1]), *words, STAND_IN=delays))
            return sessions[0].exit_code
        with into.open("w") as file, redirect_stdout(file):
            return main(command[3:])

    with pytest.MonkeyPatch.context() as patch:
        # The gates of a job are longer: Offline and Server.
        patch.setattr(gate, "GATES", (GATE,))
        patch.setattr(gate, "_engine_versions", list)
        status = measure(job, run_here)
    return GatedJob(status, job.out, sessions[0])


@pytest.fixture(scope="module")
def regressed(gated: GatedJob) -> SuiteRun:
    return gated.session


def test_a_gated_job_says_the_same_in_the_same_words_everywhere(gated: GatedJob) -> None:
    session, regression = gated.session, gated.session.summary.regression
    assert gated.status == session.exit_code == 1, session.output
    assert regression is not None
    words = headline(session.summary)
    worst = words.partition(f"; {LABEL}")[0]
    assert worst == f"regressed: {regression.regressed}"
    title, first, *rest = (gated.out / "table.md").read_text().split("\n\n")
    assert (title, first) == (f"### MLPerf suite: {GATE}: failed", f"**{escaped(words)}**")
    report = unescaped((session.folder / "report.md").read_text()).replace("*", "")
    assert report.partition("## Is it valid?\n\n")[2].startswith(worst)
    assert worst in " ".join(session.output.split()).partition(" SingleStream ===")[2]
    suite = ET.parse(gated.out / JUNIT).getroot()
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties[f"{EDGE} SingleStream"] == words
    found = {
        case.get("name", "").rpartition("-")[2][:-1]: p.get("value", "")
        for case in suite.iter("testcase")
        for p in case.iter("property")
        if p.get("name") == "found"
    }
    results = [json.loads(p.read_text()) for p in (gated.out / "allure").glob("*-result.json")]
    # Allure counts the last alone of results with the same name and parameters.
    own = [[r["fullName"], *(p for p in r["parameters"] if "excluded" not in p)] for r in results]
    assert len({*map(str, own)}) == len(results)
    for change in regression.metrics:
        # One verdict with one interval, whenever its test was made.
        line = f"{change.outcome}: {change.label} {change.words}, baseline "
        assert found[change.metric].startswith(line)
        assert line in json.dumps(results, ensure_ascii=False)
        if change.outcome == "regressed":
            assert any(f": {line}" in part for part in rest)


def test_the_gate_as_a_user_starts_it(regressed: SuiteRun, tmp_path: Path) -> None:
    assert set(regressed.statuses().values()) == {"passed", "shortened"}
    assert regressed.summary.regression is not None
    outcomes = {change.metric: change.outcome for change in regressed.summary.regression.metrics}
    better = {"rouge2": "improved"}
    assert outcomes == better | dict.fromkeys(("tokens_per_sec", "rouge1"), "regressed")
    other = _summary(tmp_path / "other", profile="official")
    (other / "config.json").write_text('{"settings": {"engine_args": {}}}')
    words = ("-m", "offline and datacenter", f"--baseline={other}", "--engine-arg=seed=1")
    refused = run_suite(tmp_path / "refused", *COMMAND, *words)
    assert refused.exit_code == 4, refused.output
    assert "profile: baseline official, this run smoke" in refused.output
    assert 'setting engine_args: baseline {}, this run {"seed": 1}' in refused.output


def test_early_stoppings_estimates_reach_junit_where_what_regressed_fails(
    regressed: SuiteRun,
) -> None:
    performance = regressed.summary.run.performance
    assert performance is not None and performance.early_stopping is not None
    estimates = performance.early_stopping.estimates_ms
    detail = read_logs(regressed.folder / "Performance").detail
    assert estimates["ttft"] == detail["early_stopping_latency_ss"] / 1e6
    timeline = read_timeline(regressed.folder / "Performance")
    assert timeline is not None
    assert estimates["latency"] in [round(value, 3) for value in timeline.latency_ms]
    cases = {
        case.get("name"): case
        for case in ET.parse(regressed.results_dir.parents[1] / JUNIT).iter("testcase")
    }
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    speed = f"test_metric[{EDGE}-singlestream-tokens_per_sec]"
    assert failed == {speed, f"test_score[{EDGE}-singlestream-rouge1]"}
    properties = {p.get("name"): p.get("value") for p in cases[speed].iter("property")}
    for name, ms in estimates.items():
        assert properties[f"{name}_ms_early_stopping"] == str(ms)
