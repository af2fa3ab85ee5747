"""Steps executed on a stand-in engine with the real LoadGen: order, failures, warm-up, records."""

import contextlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.made_runs import remote_run
from meta_tests.session.scripted_session import (
    ACCURACY,
    LLAMA,
    PERFORMANCE,
    TEST06,
    FasterEngine,
    Make,
    RemoteScriptedEngine,
    ScriptedEngine,
    ScriptedSession,
    break_runs,
)
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.errors import EngineDiedError, EngineError, RunError
from mlperf_suite.loadgen.load_plan import RunKey, Shortened
from mlperf_suite.loadgen.logs import parse_detail
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.reports.writing import refresh_figures
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import STAND_IN_LABEL as LABEL
from mlperf_suite.rules.facts import TEXT_ALONE
from mlperf_suite.scorers.rouge import RougeScorer
from mlperf_suite.scorers.scorer import Answer, Scores

# Failures


def test_what_did_not_load_fails_once_and_is_not_tried_again(make: Make) -> None:
    session = make(ACCURACY, TEST06, does_not_load="runs")
    first, second = session.suite.make(ACCURACY), session.suite.make(ACCURACY)
    assert first.failure == f"{ACCURACY}: no engine today"
    assert (first.now, second.now) == (True, False)
    assert second.failure == first.failure
    assert not session.suite.can_go_on
    assert not session.suite.make(TEST06).ok
    assert session.loaded == ["runs"]
    assert session.summary(ACCURACY).meta.reason == "no engine today"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "/data/log"), "/data/log: No space left on device"),
        # As NLTK does where it refuses a file of its own.
        (PermissionError("refusing a linked file\n'punkt'"), "refusing a linked file"),
    ],
)
def test_system_errors(make: Make, monkeypatch: MonkeyPatch, error: Any, message: str) -> None:
    break_runs(monkeypatch, error)
    failure = str(make(ACCURACY).suite.make(ACCURACY).failure)
    assert message in failure and "None" not in failure and "\n" not in failure


@pytest.mark.parametrize("error", [ValueError("nobody foresaw it"), KeyboardInterrupt()])
def test_what_nobody_foresaw_goes_up(make: Make, monkeypatch: MonkeyPatch, error: Any) -> None:
    session, attempts = make(ACCURACY), break_runs(monkeypatch, error)
    with pytest.raises(type(error)):
        session.suite.make(ACCURACY)
    again = session.suite.make(ACCURACY)
    assert (again.ok, again.now) == (False, False)
    assert attempts == [1]
    meta = session.summary(ACCURACY).meta
    assert (meta.status, meta.reason) == ("failed", f"interrupted ({type(error).__name__})")


def test_without_a_rate_the_run_sized_by_it_fails(make: Make, monkeypatch: MonkeyPatch) -> None:
    def run_of_no_time(*arguments: Any, **keywords: Any) -> LoadRun:
        return replace(run_loadgen(*arguments, **keywords), elapsed_s=0.0)

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", run_of_no_time)
    session = make(ACCURACY, PERFORMANCE)
    assert session.suite.make(ACCURACY).ok
    why = "neither an accuracy run nor a step measured the rate"
    assert session.suite.make(PERFORMANCE).failure == f"{PERFORMANCE}: {why}"


# A run that its own rate made too short


@pytest.fixture
def faster(make: Make, monkeypatch: MonkeyPatch) -> Make:
    """Makes a run of two seconds at least on an engine that got much faster before it."""
    runs = {name: Shortened(2000, 1, samples=4) for name in ("Offline", "Server")}
    monkeypatch.setattr("mlperf_suite.session.scenario_runs.SMOKE", runs)
    monkeypatch.setattr("mlperf_suite.session.timing.estimate.SMOKE", runs)

    def run_faster(**options: Any) -> ScriptedSession:
        session = make(ACCURACY, PERFORMANCE, kind=FasterEngine, **options)
        assert session.suite.make(PERFORMANCE).ok
        return session

    return run_faster


def result_valid(session: ScriptedSession) -> str:
    verdicts = session.recorder.verdicts(PERFORMANCE)
    return next(v.status for v in verdicts if v.rule == "result_valid")


def test_a_short_run_made_again(faster: Make, lines: list[str], monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(FasterEngine, "after_s", (0.5, 2.5))
    session = faster()
    assert session.engines[0].runs == [str(ACCURACY), str(PERFORMANCE), str(PERFORMANCE)]
    assert result_valid(session) == "passed"
    folder = session.folder / "Performance"
    first, second = (
        parse_detail((folder / f"{prefix}mlperf_log_detail.txt").read_text())
        for prefix in ("too_short_", "")
    )
    assert (first["result_validity"], second["result_validity"]) == ("INVALID", "VALID")
    rate = first["result_samples_per_second"]
    assert second["effective_target_qps"] == pytest.approx(1.5 * rate, rel=1e-3)
    figures = session.summary(PERFORMANCE).run.performance
    assert figures.samples_per_sec == second["result_samples_per_second"]
    assert re.match(r"a first run ended after \d\.\d s of at least 2\.0 s", figures.made_again)
    (line,) = lines
    assert line.startswith(f"{PERFORMANCE}: a first run") and line.endswith(
        "rerunning it for longer"
    )
    refresh_figures(session.folder)
    assert session.summary(PERFORMANCE).run.performance.made_again == figures.made_again
    page = html.unescape((session.folder / "report.html").read_text())
    assert page.count(f"Rerun: {figures.made_again}.") == 1


@pytest.mark.parametrize(("options", "runs"), [({}, 3), ({"offline_target_qps": "40"}, 2)])
def test_runs_made_again_once_or_never(faster: Make, options: dict[str, str], runs: int) -> None:
    session = faster(**options)
    assert len(session.engines[0].runs) == runs
    assert result_valid(session) == "failed"


# What is run, and on which engine


@pytest.mark.parametrize("reads", [False, True])
def test_special_tokens_for_a_scorer(make: Make, monkeypatch: MonkeyPatch, reads: bool) -> None:
    given: list[Answer] = []

    def score(scorer: RougeScorer, answers: Sequence[Answer]) -> Scores:
        given.extend(answers)
        return Scores(())

    monkeypatch.setattr(RougeScorer, "score", score)
    monkeypatch.setattr(RougeScorer, "reads_special_tokens", reads, raising=False)
    assert make(ACCURACY).suite.make(ACCURACY).ok
    tokenizer = load_tokenizer(str(embedded_model_dir()))
    for answer in given:
        full, plain = (
            tokenizer.decode(answer.token_ids, skip_special_tokens=skip) for skip in (False, True)
        )
        assert full != plain and answer.text == (full if reads else plain)


def test_each_run_is_warmed_up_and_the_record_says_so(make: Make) -> None:
    session = make(ACCURACY, TEST06, warmup="3")
    assert session.suite.make(ACCURACY).ok
    assert session.suite.make(TEST06).ok
    assert session.engines[0].batch_sizes == [3, 84, 3, 100]
    # An engine in this process tells of no server.
    assert session.summary(ACCURACY).run.remote == {}
    figures = session.summary(ACCURACY).run.warm_up
    warm_ups = {mode: (warm_up.requests, warm_up.tokens) for mode, warm_up in figures.items()}
    assert warm_ups == {"accuracy": (3, 9), "test06": (3, 9)}
    rows = [row.what for row in session.summary(ACCURACY).plan]
    assert rows == [step.what for step in session.suite.plan.steps]


@pytest.mark.parametrize("counted", [False, True])
def test_caches_told_or_counted(make: Make, monkeypatch: MonkeyPatch, counted: bool) -> None:
    """Also where nobody asked for it: what counts is the engine's own description."""
    if counted:
        tokens = property(lambda engine: 7 * len(engine.batch_sizes))
        monkeypatch.setattr(ScriptedEngine, "cached_prompt_tokens", tokens, raising=False)
    session = make(ACCURACY, engine_settings={"enable_prefix_caching": not counted})
    assert session.suite.make(ACCURACY).ok
    verdict = session.generation_verdict()
    departure = "7 prompt tokens from a cache" if counted else "a prefix cache"
    assert (verdict.status, verdict.found) == ("failed", departure)


# An engine behind a network


BOUND, NOT_BOUND = remote_run(busy_share=0.95), remote_run()


def test_what_a_server_did_otherwise_is_a_failure(make: Make, monkeypatch: MonkeyPatch) -> None:
    """The first that is told is the warm-up's, which is dropped."""
    cut = remote_run(departures=("3 answers cut by the server's own limit",))
    monkeypatch.setattr(RemoteScriptedEngine, "remote_runs", (BOUND, cut))
    session = make(ACCURACY, kind=RemoteScriptedEngine, warmup="3")
    assert session.suite.make(ACCURACY).ok
    assert session.summary(ACCURACY).run.remote == {"accuracy": cut}
    verdict = session.generation_verdict()
    assert (verdict.status, verdict.found) == ("failed", cut.departures[0])


@pytest.mark.parametrize("error", [RunError("died as told"), KeyboardInterrupt()])
def test_a_dead_run_has_its_remote(make: Make, monkeypatch: MonkeyPatch, error: Any) -> None:
    def dies(plan: object, engine: ScriptedEngine, *rest: object, **keywords: object) -> None:
        engine.batch_sizes.append(1)
        raise error

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", dies)
    monkeypatch.setattr(RemoteScriptedEngine, "remote_runs", (BOUND, NOT_BOUND))
    session = make(ACCURACY, kind=RemoteScriptedEngine, warmup="3")
    with contextlib.suppress(KeyboardInterrupt):
        assert session.suite.make(ACCURACY).failure == f"{ACCURACY}: died as told"
    summary = session.summary(ACCURACY)
    assert (summary.meta.status, summary.run.remote) == ("failed", {"accuracy": NOT_BOUND})


def test_a_server_that_tells_no_more_is_no_reason(make: Make, monkeypatch: MonkeyPatch) -> None:
    session = make(ACCURACY, kind=RemoteScriptedEngine)

    def speechless(engine: RemoteScriptedEngine) -> RemoteRun:
        raise EngineError("nobody is there")

    def dies(*arguments: object, **keywords: object) -> None:
        monkeypatch.setattr(RemoteScriptedEngine, "take_remote_run", speechless)
        raise RunError("died as told")

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", dies)
    assert session.suite.make(ACCURACY).failure == f"{ACCURACY}: died as told"
    assert session.summary(ACCURACY).run.remote == {}


def test_test06_of_text_alone_is_not_judged_by_its_tokens(make: Make) -> None:
    session = make(TEST06, kind=RemoteScriptedEngine, engine_settings={"tokens": "text"})
    assert session.suite.make(TEST06).ok
    reasons = {v.rule: v.why for v in session.recorder.verdicts(TEST06) if v.status == "not judged"}
    assert reasons == dict.fromkeys(("test06_eos", "test06_token_count"), TEXT_ALONE)


@pytest.mark.parametrize("why", ["repeat 2: a client process used 95% of a core", ""])
def test_a_bound_client(make: Make, short: None, monkeypatch: MonkeyPatch, why: str) -> None:
    remote_runs = (NOT_BOUND, BOUND if why else NOT_BOUND)
    monkeypatch.setattr(RemoteScriptedEngine, "remote_runs", remote_runs)
    options = {"repeat": "2", "offline_target_qps": "100"}
    session = make(PERFORMANCE, kind=RemoteScriptedEngine, **options)
    assert session.suite.make(PERFORMANCE).ok
    summary = session.summary(PERFORMANCE)
    (verdict,) = [v for v in summary.verdicts if v.rule == "client_bound"]
    assert (verdict.status, verdict.why) == ("failed" if why else "passed", why)
    assert summary.client_bound is bool(why)
    assert summary.run.remote == {"performance": remote_runs[0]}
    assert summary.meta.label == (f"client-bound: not a result; {LABEL}" if why else LABEL)


def test_server_takes_no_bound_rate(make: Make, short: None, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteScriptedEngine, "remote_runs", (BOUND,))
    key = RunKey(LLAMA, "Server", "performance")
    session = make(PERFORMANCE, key, kind=RemoteScriptedEngine, offline_target_qps="100")
    assert session.suite.make(key).failure == (
        f"{key}: {PERFORMANCE} shows no rate for Server (client-bound: not a result): give "
        "--server-target-qps"
    )


def test_untimed_runs(make: Make, short: None, lines: list[str], monkeypatch: MonkeyPatch) -> None:
    def failing_timeline(*arguments: object) -> None:
        raise IndexError("index 7 is out\nof bounds")

    monkeypatch.setattr("mlperf_suite.loadgen.runner.timeline_of", failing_timeline)
    session = make(PERFORMANCE, offline_target_qps="100")
    assert session.suite.make(PERFORMANCE).ok
    why = "the requests' times could not be read: IndexError: index 7 is out of bounds"
    assert f"{PERFORMANCE}: no timeline: {why}" in lines
    assert not (session.folder / "Performance" / "timeline.json").exists()
    refresh_figures(session.folder)
    summary = read_summary(session.folder)
    assert summary is not None and summary.run.performance is not None
    assert summary.run.performance.untimed == why and summary.run.performance.tokens_per_sec
    text = html.unescape((session.folder / "report.html").read_text())
    assert f"Not known for this run: {why}." in text and "limited the run" not in text


def test_a_dead_repeat_leaves_others(make: Make, short: None, monkeypatch: MonkeyPatch) -> None:
    session = make(PERFORMANCE, repeat="4", offline_target_qps="100")

    def begins(self: ScriptedEngine, name: str, mode: str) -> None:
        self.runs.append(name)
        if len(self.runs) == 3:
            self._died = True
            raise EngineDiedError("died as told")

    monkeypatch.setattr(ScriptedEngine, "run_begins", begins)
    assert session.suite.make(PERFORMANCE).failure == f"{PERFORMANCE}: died as told"
    summary = session.summary(PERFORMANCE)
    assert summary.meta.status == "failed"
    assert summary.run.performance.tokens_per_sec > 0
    assert len(summary.run.performance.repeats) == 1


# A node's own files


def test_a_named_node_leaves_its_files_whatever_became_of_its_runs(make: Make) -> None:
    """Under the name of the runs, which the index has too."""
    names = {"node_name": "node-7", "label": "new kernel"}
    session = make(ACCURACY, PERFORMANCE, dies_in=str(ACCURACY), **names)
    assert not session.suite.make(PERFORMANCE).ok
    index = (session.suite.settings.results_dir / "index.md").read_text()
    for text in (session.summary(PERFORMANCE).measured, index.replace("| ", "\n")):
        assert any(line.startswith("new kernel: ") for line in text.splitlines())
    for _ in range(2):
        session.suite.close()
        content, text = session.recorder.node_files
        assert len(list(content.parent.glob("mlperf_datacenter_node-7_*.json"))) == 1
        offline = json.loads(content.read_text())["scenarios"]["Offline"]
        assert offline["valid"] is False and "died as told" in offline["reason"]
        assert text.parent == content.parent and "Offline: NOT VALID" in text.read_text()


def test_files_that_cannot_be_written_end_no_session(make: Make) -> None:
    session = make(ACCURACY, dies_in=str(ACCURACY), node_name="n" * 100)
    session.suite.make(ACCURACY)
    for name in ("json", "txt"):
        start = session.recorder.results[0].started
        blocked = session.suite.settings.results_dir / f"summary_{'n' * 100}_{start:%Y%m%d_%H%M%S}"
        blocked.with_name(f"{blocked.name}.{name}").mkdir()
    session.suite.close()
    assert list(session.recorder.node_files) == []
