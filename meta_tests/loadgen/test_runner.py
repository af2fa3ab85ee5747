"""Real LoadGen runs with engines that do as they are told: settings, answers, faults."""

import contextlib
import dataclasses
import gc
import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.loadgen.made_plans import (
    GENERATION,
    PROMPTS,
    SAMPLES,
    SHORT,
    ScriptedEngine,
    a_plan,
    answer,
    plan_of,
    run,
    shipped_round,
    stand_in,
)
from meta_tests.stand_in import Delays, StandInEngine
from meta_tests.suite_runs import run_python
from mlperf_suite.benchmarks.catalog import runnable
from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.engines.protocol import EngineTrace, Listener, Request, Steps
from mlperf_suite.errors import EngineError, RunError, UsageError
from mlperf_suite.loadgen import runner, sut
from mlperf_suite.loadgen.load_plan import LIMIT_KEYS, PERFORMANCE_SAMPLES_KEY, LoadPlan, Shortened
from mlperf_suite.loadgen.runner import LoadRun, Progress, abandoned, check_round, run_loadgen
from mlperf_suite.loadgen.sut import Requests, Sut

# Settings

_RUNS = {
    f"{benchmark.id} {scenario.name} {mode}": (benchmark, scenario, mode)
    for benchmark in runnable()
    if benchmark.run_kind == LOADGEN
    for scenario in benchmark.scenarios
    for mode in ("performance", "accuracy")
}


@pytest.fixture(scope="module")
def every_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadRun]:
    """Each benchmark's scenarios in both modes, one after another in this process."""
    engine, folder = stand_in(), tmp_path_factory.mktemp("runs")
    runs = {}
    for name, (benchmark, scenario, mode) in _RUNS.items():
        runs[name] = run(plan_of(benchmark, scenario.name, mode), engine, folder / name)
    engine.close()
    return runs


@pytest.mark.parametrize("name", _RUNS)
def test_every_run_of_one_process_has_the_official_settings_and_answers(
    every_run: dict[str, LoadRun], name: str
) -> None:
    _, scenario, mode = _RUNS[name]
    load_run = every_run[name]
    detail, logged = load_run.logs.detail, load_run.logs.accuracy
    seeds = {seed: detail[f"effective_{seed}"] for seed in shipped_round().seeds}
    assert seeds == shipped_round().seeds
    assert detail["requested_use_token_latencies"] is (True if scenario.counts_tokens else None)
    assert detail["effective_sample_concatenate_permutation"] is True
    assert detail["effective_scenario"] == scenario.loadgen_scenario
    assert detail["effective_test_mode"] == f"{mode.title()}Only"
    assert detail["effective_min_duration_ms"] == SHORT.min_duration_ms
    assert detail["effective_performance_sample_count"] == SAMPLES
    assert (detail.errors, detail.damage) == ((), ())
    # LoadGen's own, of mlperf.conf: the plan sets none.
    for limit, limit_ms in scenario.limits.items():
        assert detail[LIMIT_KEYS[limit]] == limit_ms * 1e6
    if mode == "performance":
        return
    assert sorted(sample.index for sample in logged.samples) == list(range(SAMPLES))
    assert logged.damage == ()
    for sample in logged.samples:
        assert list(sample.token_ids) == answer(PROMPTS[sample.index])[:8]
        if scenario.streams:
            assert sample.first_token_ids == sample.token_ids[:1]
            assert sample.token_count == len(sample.token_ids)
    assert load_run.samples == SAMPLES
    assert load_run.tokens == sum(len(sample.token_ids) for sample in logged.samples)


def test_performance_runs_count_tokens_and_their_latencies(every_run: dict[str, LoadRun]) -> None:
    offline = every_run["llama3.1-8b Offline performance"]
    detail, per_sample = offline.logs.detail, offline.tokens / offline.samples
    assert detail["result_tokens_per_second"] == pytest.approx(
        detail["result_samples_per_second"] * per_sample, rel=0.01
    )
    for name in ("llama3.1-8b Server performance", "llama3.1-8b-edge SingleStream performance"):
        detail = every_run[name].logs.detail
        # The stand-in's first token never comes before its 1 ms; what follows may come with it
        # where the machine is busy.
        assert detail["result_first_token_99.00_percentile_latency_ns"] >= 1e6
        assert detail["result_time_per_output_token_50.00_percentile_ns"] > 0


@pytest.mark.parametrize("name", _RUNS)
def test_an_official_plan_sets_the_target_rate_only(name: str) -> None:
    benchmark, scenario, mode = _RUNS[name]
    plan = plan_of(benchmark, scenario.name, mode, benchmark.samples_of(mode), None)
    target = "target_latency" if scenario.name == "SingleStream" else "target_qps"
    # The accuracy data of a benchmark may have another size than LoadGen's performance samples.
    sizes = {PERFORMANCE_SAMPLES_KEY} if benchmark.samples_of(mode) != benchmark.samples else set()
    left_out = {"min_query_count"} if mode == "performance" and scenario.min_queries else set()
    assert plan.user_conf.keys() == {target} | sizes | left_out
    assert plan.log_values["effective_min_duration_ms"] == 600_000
    assert plan.log_values["effective_performance_sample_count"] == benchmark.samples_of(mode)


@pytest.mark.parametrize("qps", [0.001, 0.333, 123_456.789])
def test_any_target_takes(tmp_path: Path, qps: float) -> None:
    """In the user.conf's digits and those of LoadGen's log alike."""
    for scenario, latency_ms in (("Offline", 2.0), ("SingleStream", 10 * qps + 0.003)):
        plan = plan_of(LLAMA3_1_8B_EDGE, scenario, target_qps=qps, latency_ms=latency_ms)
        engine = stand_in(rest_s=0)
        run(plan, engine, tmp_path / scenario)
        engine.close()


@pytest.mark.parametrize(
    ("scenario", "old", "new", "message"),
    [
        ("Offline", " = ", "=", "effective_min_duration_ms: asked 100, found 60"),
        ("Interactive", r"\Z", "*.Server.ttft_latency = 9\n", "requested_server_ttft_latency: as"),
    ],
)
def test_a_user_conf_that_did_not_take_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, old: str, new: str, message: str
) -> None:
    text_of = LoadPlan.user_conf_text
    monkeypatch.setattr(LoadPlan, "user_conf_text", lambda plan: re.sub(old, new, text_of(plan)))
    with pytest.raises(RunError, match=message):
        run(a_plan(scenario), stand_in(), tmp_path)
    monkeypatch.undo()
    plan = a_plan()
    for key, value in (("effective_target_qps", 201.0), ("effective_no_such_setting", 1)):
        changed = dataclasses.replace(plan, log_values={**plan.log_values, key: value})
        with pytest.raises(RunError, match=f"apply the settings: {key}: asked {value}, found "):
            run(changed, stand_in(), tmp_path / key)
        assert (tmp_path / key / "mlperf_log_detail.txt").stat().st_size > 0


def test_the_plans_own_audit_config_is_taken_and_not_that_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.config").write_text("*.*.accuracy_log_sampling_target = 5\n")
    load_run = run(a_plan(mode="performance"), stand_in(), tmp_path / "run")
    assert load_run.logs.detail["effective_accuracy_log_sampling_target"] == 0
    audit = {"accuracy_log_sampling_target": 7, "accuracy_log_rng_seed": 720381539243781796}
    # Of so many queries, fewer than the target are drawn.
    plan = a_plan("Offline", "performance", Shortened(300, 64))
    load_run = run(dataclasses.replace(plan, audit_conf=audit), stand_in(), tmp_path / "audit")
    for key, value in audit.items():
        assert load_run.logs.detail[f"effective_{key}"] == value
    assert 0 < len(load_run.logs.accuracy.samples) <= 7


def test_another_round_is_a_usage_error_that_names_the_loadgen_that_fits() -> None:
    shipped = shipped_round()
    for another_round in set(ROUNDS.values()) - {shipped}:
        with pytest.raises(UsageError) as caught:
            check_round(another_round)
        message = str(caught.value)
        assert message.startswith(f"--round {another_round.name}: the installed LoadGen ")
        assert f"is of round {shipped.name}" in message
        assert f"mlcommons-loadgen {another_round.loadgen}" in message


# Answers


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_and_any_tokens_reach_the_log_unchanged(
    tmp_path: Path, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(SAMPLES)))
    tokens = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6)
    outputs = data.draw(st.lists(tokens, min_size=SAMPLES, max_size=SAMPLES))
    ends = sorted(data.draw(st.sets(st.integers(1, SAMPLES - 1))) | {SAMPLES})
    groups = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]

    def script(requests: list[Request], listener: Listener) -> None:
        by_sample = {request.prompt_token_ids[0]: request.tag for request in requests}
        begin = 0
        for count in groups:
            group = order[begin : begin + count]
            listener.finished([(by_sample[index], outputs[index]) for index in group])
            begin += count

    load_run = run(a_plan(), ScriptedEngine(script), tmp_path)
    assert [s.index for s in load_run.logs.accuracy.samples] == list(order)
    assert {s.index: list(s.token_ids) for s in load_run.logs.accuracy.samples} == dict(
        enumerate(outputs)
    )
    raw = json.loads((tmp_path / "mlperf_log_accuracy.json").read_text())
    for entry in raw:
        as_int32 = b"".join(t.to_bytes(4, "little") for t in outputs[entry["qsl_idx"]])
        assert entry["data"].lower() == as_int32.hex()


def test_an_engine_that_answers_twice_is_heard_once_and_gets_the_longest_prompts_first(
    tmp_path: Path,
) -> None:
    lengths: list[int] = []
    stop_of: dict[int, str] = {}

    def script(requests: list[Request], listener: Listener) -> None:
        for request in requests:
            lengths.append(len(request.prompt_token_ids))
            stop_of[request.prompt_token_ids[0]] = request.stop
            right = request.tag, answer(request.prompt_token_ids)
            listener.finished([right, (request.tag, [7])])
            listener.finished([(request.tag, [1, 2, 3])])

    # Each sample is asked with its own stop.
    stops = ["" if index % 3 else "\n```\n" for index in range(SAMPLES)]
    engine = ScriptedEngine(script)
    load_run = run_loadgen(a_plan(), engine, PROMPTS, GENERATION, tmp_path, stops=stops)
    assert [stop_of[index] for index in range(SAMPLES)] == stops
    assert load_run.samples == SAMPLES
    assert len(load_run.logs.accuracy.samples) == SAMPLES
    assert all(s.token_ids[-1] == 128_009 for s in load_run.logs.accuracy.samples)
    assert lengths == sorted(map(len, PROMPTS), reverse=True)


def test_progress_is_told_while_the_run_goes(tmp_path: Path) -> None:
    reports: list[Progress] = []
    waiting, half_told = threading.Event(), threading.Event()

    def hear(progress: Progress) -> None:
        reports.append(progress)
        if progress.samples_issued == SAMPLES:
            waiting.set()
        if progress.samples_done == SAMPLES // 2:
            half_told.set()

    def script(requests: list[Request], listener: Listener) -> None:
        answers = [(request.tag, [1, 2]) for request in requests]
        assert waiting.wait(120)
        listener.finished(answers[: SAMPLES // 2])
        assert half_told.wait(120)
        listener.finished(answers[SAMPLES // 2 :])

    run(a_plan(), ScriptedEngine(script), tmp_path, hear)
    assert sorted({report.samples_done for report in reports}) == [0, SAMPLES // 2]
    assert [t.elapsed_s for t in reports] == sorted(t.elapsed_s for t in reports)
    assert [t.tokens for t in reports] == [2 * t.samples_done for t in reports]


# Faults


@pytest.mark.parametrize("scenario", ["Offline", "Server", "SingleStream"])
def test_an_engine_that_dies_fails_the_run_and_not_the_process(
    tmp_path: Path, scenario: str
) -> None:
    dying = stand_in(fail_after=5)
    with pytest.raises(RunError, match=r"^the stand-in engine died, as configured$"):
        run(a_plan(scenario, "performance"), dying, tmp_path / "dies")
    assert not dying.alive
    assert (tmp_path / "dies" / "mlperf_log_detail.txt").stat().st_size > 0
    assert (tmp_path / "dies" / "user.conf").exists()
    assert not abandoned()
    assert run(a_plan(scenario), stand_in(), tmp_path / "next").samples == SAMPLES


@pytest.mark.parametrize("wrong", [[1.5], np.array([2.0]), ["1"], [[1]], [2**31], None])
def test_an_answer_that_is_not_token_ids_fails_the_run(tmp_path: Path, wrong: Any) -> None:
    def script(requests: list[Request], listener: Listener) -> None:
        listener.finished([(requests[0].tag, wrong), *((r.tag, [1]) for r in requests[1:])])

    with pytest.raises(RunError, match=r"^the engine returned something other than token ids: .+$"):
        run(a_plan(), ScriptedEngine(script), tmp_path)


def test_what_the_engine_refuses_fails_the_run(tmp_path: Path) -> None:
    def script(requests: list[Request], listener: Listener) -> None:
        (request,) = [r for r in requests if r.prompt_token_ids[0] == 13]
        listener.failed(request.tag, EngineError("the prompt is too long"))

    engine = ScriptedEngine(script)
    with pytest.raises(RunError, match=r"^sample 13: the prompt is too long$"):
        run(a_plan(), engine, tmp_path / "one")
    assert engine.aborted
    engine.submit = None  # type: ignore[assignment,method-assign]
    with pytest.raises(RunError, match=r"^the query could not be issued: TypeError: "):
        run(a_plan(), engine, tmp_path / "all")


class _Watched(StandInEngine):
    """Makes a step whenever somebody looks, or none, with its work in a process of its own."""

    uses_gpu = False
    looked = 0

    def __init__(self, rest_s: float, *processes: psutil.Process) -> None:
        super().__init__(Delays(0.001, rest_s), answer)
        self.processes = list(processes)

    @property
    def steps_made(self) -> int:
        self.looked += not self.processes
        return self.looked

    def take_trace(self) -> EngineTrace:
        return EngineTrace(Steps())


def test_an_engine_that_takes_long_and_goes_on_is_no_hanging_one(tmp_path: Path) -> None:
    load_run = run_loadgen(a_plan(), _Watched(1.5), PROMPTS, GENERATION, tmp_path, silence_s=0.6)
    assert load_run.samples == SAMPLES


def test_an_engine_whose_process_is_stopped_fails_the_run_at_once(tmp_path: Path) -> None:
    """Were it not seen, this test would take half an hour."""
    child = subprocess.Popen(["/bin/sleep", "3600"])
    try:
        psutil.Process(child.pid).suspend()
        engine = _Watched(3600, psutil.Process(child.pid))
        process = rf"its process {child.pid} \(.+\)"
        with pytest.raises(
            RunError, match=rf"^the engine hangs: {process} is stopped while \d+ samples waited$"
        ):
            run(a_plan(), engine, tmp_path)
        assert not engine.alive
        assert not psutil.pid_exists(child.pid)
    finally:
        child.kill()
        child.wait(120)
    assert not abandoned()


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_an_engine_that_hangs_is_stopped(tmp_path: Path, scenario: str) -> None:
    hanging = stand_in(rest_s=3600)
    with pytest.raises(
        RunError, match=r"^the engine showed no progress for 0\.01 minutes while \d+ sa"
    ):
        run_loadgen(
            a_plan(scenario), hanging, PROMPTS, GENERATION, tmp_path / "hangs", silence_s=0.6
        )
    assert not hanging.alive
    assert not abandoned()
    assert run(a_plan(scenario), stand_in(), tmp_path / "next").samples == SAMPLES


class _Interrupted(StandInEngine):
    """Notes whether the run counts as abandoned when it is aborted."""

    def __init__(self) -> None:
        super().__init__(Delays(0.001, 3600), answer)
        self.abandonments: list[bool] = []

    def abort(self) -> None:
        self.abandonments.append(abandoned())
        super().abort()


@pytest.mark.parametrize("scenario", ["Offline", "Server", "SingleStream"])
def test_an_interrupt_comes_through_and_leaves_no_run_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    monkeypatch.setattr(runner, "_abandoned", None)

    def interrupt(progress: Progress) -> None:
        if progress.samples_issued:
            raise KeyboardInterrupt

    slow = _Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run(a_plan(scenario, "performance"), slow, tmp_path / "interrupted", interrupt)
    # LoadGen calls into the process, so whoever ends it by a second interrupt must know.
    assert slow.abandonments[0]
    assert not abandoned()
    assert [t.name for t in threading.enumerate() if t.name == "LoadGen"] == []
    assert (tmp_path / "interrupted" / "mlperf_log_detail.txt").stat().st_size > 0
    assert run(a_plan(scenario), stand_in(), tmp_path / "next").samples == SAMPLES


@pytest.mark.parametrize(("count", "pauses"), [(101, [0.25]), (100, [])])
def test_a_failed_run_tells_loadgen_what_keeps_it_from_a_crash(
    monkeypatch: pytest.MonkeyPatch, count: int, pauses: list[float]
) -> None:
    """A first token before each answer, and a pause after many answers of one thread."""
    told: list[tuple[str, int]] = []
    slept: list[float] = []
    loadgen = SimpleNamespace(
        QuerySampleResponse=lambda tag, *_: SimpleNamespace(id=tag),
        FirstTokenComplete=lambda responses: told.extend(("first", r.id) for r in responses),
        QuerySamplesComplete=lambda responses: told.extend(("answer", r.id) for r in responses),
    )
    monkeypatch.setattr(sut, "lg", loadgen)
    monkeypatch.setattr(sut, "time", SimpleNamespace(monotonic=lambda: 1.0, sleep=slept.append))
    engine = StandInEngine(Delays(3600), answer)
    failing = Sut(engine, PROMPTS, GENERATION, stream=True)
    before = failing.progress
    failing.issue([SimpleNamespace(id=tag, index=3) for tag in range(count)])
    # A query is no sign of the engine, or one that hangs in a Server run would not be seen.
    assert (failing.samples_waiting, failing.progress) == (count, before)
    # Of a request that is not waited for, LoadGen is told nothing.
    failing.first_tokens([(7, [1]), (5_000, [1])])
    failing.first_tokens([(5_000, [1])])
    failing.fail("it is gone")
    engine.close()
    assert [tag for what, tag in told if what == "answer"] == list(range(count))
    assert [tag for what, tag in told if what == "first"] == [7, *(set(range(count)) - {7})]
    assert all(told.index(("first", tag)) < told.index(("answer", tag)) for tag in range(count))
    assert slept == pauses


_ABANDONED = """
import os, sys
from pathlib import Path
from meta_tests.loadgen.made_plans import a_plan, run, stand_in
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.loadgen.runner import abandoned

folder = Path(sys.argv[1])
long = a_plan("Server", "performance", Shortened(3_600_000, 64))
for number, engine in enumerate([stand_in(fail_after=5), stand_in()]):
    try:
        run(long, engine, folder / str(number), grace_s=0.5)
    except RunError as error:
        print(error, abandoned(), (folder / str(number)).exists(), flush=True)
os._exit(0)
"""


def test_a_server_run_that_cannot_end_is_abandoned_and_nothing_runs_after_it(
    tmp_path: Path,
) -> None:
    """In a process of its own: LoadGen goes on issuing there for an hour."""
    process = run_python("-c", _ABANDONED, str(tmp_path))
    assert process.returncode == 0, process.stderr
    first, second = process.stdout.splitlines()
    assert first == "the stand-in engine died, as configured True True"
    assert second == (
        "an earlier run was abandoned in this process: start the suite again True False"
    )


# What only some benchmarks ask for


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_the_ids_that_end_an_answer_can_be_left_out(tmp_path: Path, scenario: str) -> None:
    """Mixtral: LoadGen is not given the EOS, and an answer of nothing else keeps its first."""
    prompts = [[index] for index in range(SAMPLES - 1)] + [[-100]]
    ends = {101, 128_009}
    engine = StandInEngine(Delays(0.001, 0.001), lambda p: [p[0] + 100, 101, 128_009, 128_009])
    load_run = run_loadgen(
        a_plan(scenario), engine, prompts, GENERATION, tmp_path, end_ids=sorted(ends)
    )
    engine.close()
    logged = load_run.logs.accuracy.first_of_each()
    assert [list(logged[i].token_ids) for i in (0, 2, SAMPLES - 1)] == [[100], [102], [0]]
    assert list(logged[1].token_ids) == [101]
    assert load_run.tokens == SAMPLES


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_has_short_turns_of_threads_and_spares_the_collector_what_was_there(
    tmp_path: Path, *, fails: bool
) -> None:
    # A replica's end of a link, in another test, freezes what is there as well.
    gc.unfreeze()
    there, before = [[1], [2]], sys.getswitchinterval()
    spared: list[bool] = []

    def spared_answer(prompt: Sequence[int]) -> list[int]:
        assert sys.getswitchinterval() < before
        if not spared:
            young = {id(item) for generation in range(3) for item in gc.get_objects(generation)}
            spared.append(id(there) not in young)
        return answer(prompt)

    engine = StandInEngine(Delays(), spared_answer, fail_after=3 if fails else None)
    with pytest.raises(RunError) if fails else contextlib.nullcontext():
        run(a_plan(), engine, tmp_path / "first")
    engine.close()
    assert spared == [True]
    assert (gc.get_freeze_count(), sys.getswitchinterval()) == (0, before)
    # What others froze stays frozen.
    gc.freeze()
    try:
        run(a_plan(), stand_in(), tmp_path / "frozen")
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**31 - 1)), max_size=9))
def test_a_query_of_many_samples_has_the_rows_of_as_many_queries(
    samples: list[tuple[int, int]],
) -> None:
    queries = [SimpleNamespace(id=tag, index=index) for tag, index in samples]
    together, one_by_one = Requests(), Requests()
    assert together.add(queries, 1.5) == 0
    assert [one_by_one.add([query], 1.5) for query in queries] == list(range(len(queries)))
    assert len(together) == len(one_by_one) == len(queries)
    for name in Requests.__slots__:
        # As text, in which a time that is not known equals itself.
        assert str(getattr(together, name)) == str(getattr(one_by_one, name))
