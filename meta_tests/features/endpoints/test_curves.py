"""A curve as a session measures it: searched, planned, kept point by point, and continued."""

import json
import shutil
import threading
from array import array
from collections.abc import Callable
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from pytest import MonkeyPatch

from meta_tests.made_runs import stream_figures
from meta_tests.session.scripted_session import LLAMA, Make, ScriptedSession
from meta_tests.stand_in import SlotsEngine
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.engines.protocol import (
    ClientFigures,
    EndpointFigures,
    EngineTrace,
    RemoteRun,
    ServerView,
    Steps,
)
from mlperf_suite.errors import RunError
from mlperf_suite.features.endpoints.curve import official_points
from mlperf_suite.features.endpoints.curve.curve_accuracy import CurveAccuracy
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    CurveFigures,
    CurvePoint,
    PointAccuracy,
    curve_of,
)
from mlperf_suite.features.endpoints.curve.curve_kind import CurveKey
from mlperf_suite.features.endpoints.curve.curve_points import point_of
from mlperf_suite.features.endpoints.curve.curves import Curves, _taken_from
from mlperf_suite.features.endpoints.official_client.client_answers import (
    read_answers,
    request_times,
)
from mlperf_suite.features.endpoints.official_client.client_job import (
    ACCURACY_DATA,
    OfficialClientData,
    OfficialClientJob,
)
from mlperf_suite.features.endpoints.official_client.client_process import OfficialClientRunError
from mlperf_suite.features.endpoints.official_client.installation import OfficialClientInstallation
from mlperf_suite.features.endpoints.official_client_results.sent_prompts import SentPrompts
from mlperf_suite.features.servers.http_requests import TextCodec
from mlperf_suite.features.servers.server_metrics import RUNNING
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import Summary

CURVES = "mlperf_suite.features.endpoints.curve.curves"
KEY = CurveKey(LLAMA)


class FourSlots(SlotsEngine):
    """Has four requests at work, and says what it was asked."""

    refuses: Callable[[int], bool] = staticmethod(lambda count: False)

    def __init__(self, settings: dict[str, object], dies_in: str | None) -> None:
        super().__init__(4, self.refuses)
        self.runs: list[str] = []

    def run_begins(self, name: str, mode: str) -> None:
        self.runs.append(name)


class Endpoint(FourSlots):
    """The same behind a network, whose cache knew some of the prompts."""

    cached = 0

    def take_remote_run(self) -> RemoteRun:
        client = ClientFigures(1, 0.99 if self.cached else 0.1, 0.1, 0.1)
        self.cached_prompt_tokens += self.cached
        says = ServerView(readings=3, running_mean=2.5)
        endpoints = (EndpointFigures("http://one", 1, 10, cached_tokens=0, server=says),)
        if not self.cached:
            return RemoteRun(client, endpoints)
        return RemoteRun(client, endpoints, ("model: another",), stream_figures(later_ms=None))


@pytest.fixture(autouse=True)
def short(monkeypatch: MonkeyPatch) -> None:
    """Points of a quarter of a second, in which a busy machine is not taken for a queue."""
    monkeypatch.setattr(f"{CURVES}.growing_queue", lambda *arguments: "")
    monkeypatch.setattr(f"{CURVES}.SMOKE_POINT_S", 0.25)
    monkeypatch.setattr(f"{CURVES}.PROBE_POINT_S", 0.25)


SCORES = CurveAccuracy.of_point


@pytest.fixture(autouse=True)
def scored(monkeypatch: MonkeyPatch) -> list[int]:
    """The concurrencies whose answers were scored; of an engine whose answers say nothing, good."""
    asked: list[int] = []

    def of_point(self: CurveAccuracy, engine: object, concurrency: int, folder: str) -> Any:
        asked.append(concurrency)
        return PointAccuracy(84, {"rouge1": 39.0}, True)

    monkeypatch.setattr(CurveAccuracy, "of_point", of_point)
    return asked


def summary_of(session: ScriptedSession) -> Summary:
    session.suite.close()
    summary = read_summary(session.folder)
    assert summary is not None
    return summary


def curve_in(session: ScriptedSession) -> CurveFigures:
    curve = curve_of(summary_of(session))
    assert curve is not None
    return curve


def made(make: Make, kind: Any = FourSlots, **options: Any) -> ScriptedSession:
    """A session whose curve was made, whatever became of its points."""
    session = make(KEY, kind=kind, **options)
    assert session.suite.make(KEY).ok
    return session


def outcomes(curve: CurveFigures) -> dict[int, str]:
    return {point.concurrency: point.outcome for point in curve.points}


def test_a_curve_has_its_c_max_and_a_score(make: Make, lines: list[str], scored: list[int]) -> None:
    session = made(make)
    curve = curve_in(session)
    # Four requests at once are as fast as more; a busy machine may hide that.
    assert curve.c_max is not None and curve.c_max >= 2
    assert curve.rehearsal and curve.cohort == "2026-10-C1"
    assert {1, 2, 4} <= set(outcomes(curve))
    summary = summary_of(session)
    assert summary.meta.status == "complete" and NO_ENDPOINTS_RESULT in summary.no_result
    assert (summary.meta.benchmark, summary.meta.scenario) == (LLAMA, "Curve")
    assert NO_ENDPOINTS_RESULT in (session.folder / "report.html").read_text()
    assert any(line.startswith("concurrency 4: ") for line in lines)
    # Accuracy is gated at one point: below a C_max of 33 there are no regions.
    assert scored == [curve.c_max]
    assert {p.concurrency for p in curve.points if p.accuracy} == {curve.c_max}
    assert "passed, rouge1 39.00" in (session.folder / "report.md").read_text()


def test_smoke_leaves_out_long_ones(make: Make, lines: list[str], monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CURVES}.SMOKE_MAX_S", 0.0)
    session = made(make)
    curve = curve_in(session)
    assert max(p.concurrency for p in curve.measured) == curve.c_max == 1
    (said,) = [line for line in lines if line.startswith("concurrency 2 is left out: ")]
    assert said.endswith("s, and smoke takes 0 s for it at most")


def test_the_suites_own_client_scores_every_sample(make: Make, monkeypatch: MonkeyPatch) -> None:
    # An engine that says the same to each prompt: no summary of anything.
    monkeypatch.setattr(CurveAccuracy, "of_point", SCORES)
    session = make(KEY, kind=FourSlots, total_sample_count="6")
    session.suite.make(KEY)
    curve = curve_in(session)
    (accuracy,) = [point.accuracy for point in curve.points if point.accuracy]
    assert (accuracy.samples, accuracy.reason) == (6, "")
    assert accuracy.scores["rouge1"] < 30 and accuracy.passed is not True
    assert curve.measured


def test_a_score_that_fails_leaves_an_invalid_curve(make: Make, monkeypatch: MonkeyPatch) -> None:
    def fails(*_: object) -> PointAccuracy:
        raise RunError("request 3: HTTP 500")

    monkeypatch.setattr(CurveAccuracy, "of_point", fails)
    session = made(make)
    summary = summary_of(session)
    assert summary.meta.status == "invalid" and (curve := curve_of(summary)) and curve.measured
    assert "failed: request 3: HTTP 500" in (session.folder / "report.md").read_text()


def test_a_refused_request_fails_a_point_or_a_curve(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(FourSlots, "refuses", staticmethod(lambda count: count == 75))
    session = make(KEY, kind=FourSlots)
    session.suite.make(KEY)
    curve = curve_in(session)
    failed = [point for point in curve.points if point.outcome == "failed"]
    assert len(failed) == 1 and "HTTP 500: no luck today" in failed[0].reason
    assert curve.measured and summary_of(session).meta.status == "invalid"
    monkeypatch.setattr(FourSlots, "refuses", staticmethod(lambda count: True))
    session = make(KEY, kind=FourSlots)
    failure = str(session.suite.make(KEY).failure)
    assert "no point of the curve was measured: 1: request 1: HTTP 500" in failure
    assert summary_of(session).meta.status == "failed"


def interrupted(make: Make, monkeypatch: MonkeyPatch, after: str) -> ScriptedSession:
    """A curve that Ctrl-C ends at this point."""

    def begin(self: FourSlots, name: str, mode: str) -> None:
        if name.endswith(after):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FourSlots, "run_begins", begin)
        session = make(KEY, kind=FourSlots)
        with pytest.raises(KeyboardInterrupt):
            session.suite.make(KEY)
    session.suite.close()
    return session


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("curve.json", ("2026-10-C1", "2026-04-C0"), "of cohort 2026-04-C0"),
        ("curve.json", ("mlperf-suite ", "another "), "by another "),
        ("config.json", ('"version": "1"', '"version": "2"'), "of another "),
    ],
)
def test_points_of_another_client_cohort_or_system_are_not_taken_up(
    make: Make, monkeypatch: MonkeyPatch, lines: list[str], name: str, change: Any, words: str
) -> None:
    first = interrupted(make, monkeypatch, "concurrency 4")
    file = first.folder / name
    file.write_text(file.read_text().replace(*change))
    assert f"{LLAMA} at concurrency 1" in made(make).engines[0].runs
    assert any(f"{first.folder.name}: an unfinished curve {words}" in line for line in lines)


def test_points_of_an_endpoint_have_salts_and_its_servers_view(make: Make) -> None:
    session = made(make, Endpoint)
    (engine,) = session.engines
    assert len(set(engine.prompts)) == len(engine.prompts)
    own = session.suite.inputs.prompts(BENCHMARKS[LLAMA])
    first_tokens = {prompt[0] for prompt in own}
    assert {prompt[0] for prompt in engine.prompts} == first_tokens
    lengths = {len(prompt) for prompt in own}
    assert any(len(prompt) - 4 > min(lengths) for prompt in engine.prompts)
    # The rule that looks for the salts sees them: with the model's tokenizer at hand, prompts of
    # token ids are read as text.
    codec = TextCodec(str(session.suite.inputs.tokenizer_folder))
    sent = SentPrompts(lambda ids: codec.prompt(list(ids)))
    for prompt in engine.prompts:
        sent.add(Raw(json.dumps(["PromptData", None, list(prompt)]).encode()))
    assert (sent.salted, sent.least_bits) == (len(engine.prompts), 64)
    assert list(sent.faults) == []
    view = ServerView(readings=3, running_mean=2.5)
    assert all(point.servers == (view,) for point in curve_in(session).points)


class Traced(FourSlots):
    """In this process, with a queue of one request after each of two steps."""

    steps_made = 2

    def take_trace(self) -> EngineTrace:
        steps = Steps(ended_s=array("d", [1.0, 2.0]), running=array("i", [4, 2]))
        steps.waiting.extend([1, 1])
        steps.kv_share.extend([0.5, 0.25])
        steps.preempted.extend([0, 3])
        return EngineTrace(steps)


def test_each_point_has_what_its_engine_said(make: Make) -> None:
    session = made(make, Traced, warmup="1")
    curve = curve_in(session)
    # More were answered: those before the first point.
    assert len(session.engines[0].prompts) > sum(point.completed for point in curve.points)
    views = {point.servers for point in curve.points}
    figures = [(v.running_mean, v.waiting_most, v.kv_mean, v.preemptions) for (v,) in views]
    assert figures == [(3.0, 1.0, 0.375, 3)]


def test_the_search_ends_past_the_knee(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CURVES}.GAIN", 1e9)
    monkeypatch.setattr(f"{CURVES}.growing_queue", lambda times, held, *_: "grew" * (held == 4))
    curve = curve_in(made(make))
    (past,) = [point for point in curve.points if point.outcome == "over-saturated"]
    assert past.concurrency == 4 and past.reason.startswith("grew, at ") and curve.c_max == 2


def test_a_point_that_departs_has_no_figures(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(Endpoint, "cached", 7)
    session = make(KEY, kind=Endpoint)
    failure = str(session.suite.make(KEY).failure)
    assert "model: another; answers were held back" in failure
    assert "; client-bound; a client process" in failure
    assert "; 7 prompt tokens from a cache" in failure
    assert outcomes(curve_in(session)) == {1: "failed"}


# With the official client


def write_events(report: Path, name: str, events: list[dict[str, Any]]) -> None:
    """Of samples whose ids are their numbers."""
    ids = {event["sample_uuid"] for event in events}
    maps = {name: {number: int(number) for number in ids}}
    (report / "sample_idx_map.json").write_text(json.dumps(maps))
    (report / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def event_of(number: int, kind: str, at_s: float, text: object = None) -> dict[str, Any]:
    event = {"event_type": f"sample.{kind}", "sample_uuid": f"{number}"}
    data = {} if text is None else {"data": ["TextModelOutput", text, None, None]}
    return {**event, "timestamp_ns": int(at_s * 1e9), **data}


def client_of(
    monkeypatch: MonkeyPatch, jobs: list[OfficialClientJob], state: Callable[[int], str]
) -> None:
    """A client that answers each request in 10 ms, four at once; `state` of a concurrency's run."""

    def run(client: object, job: OfficialClientJob, folder: Path, **options: object) -> Path:
        # Prompts are read once.
        prompts = [tuple(prompt) for prompt in job.performance.prompts]
        jobs.append(replace(job, performance=OfficialClientData(prompts=prompts)))
        concurrency, requests = job.load.concurrency, job.load.requests
        assert concurrency is not None and requests is not None
        tpot_ns = 1e6 * max(1.0, concurrency / 4)
        content = {
            "n_samples_issued": requests,
            "n_samples_completed": requests,
            "n_samples_failed": 2 if state(concurrency) == "refused" else 0,
            "state": state(concurrency),
            "complete": state(concurrency) != "interrupted",
            "duration_ns": round(requests / min(concurrency, 4) * 1e7),
            "ttft": {"percentiles": {"50.0": 1e6, "90.0": 2e6}},
            "tpot": {"percentiles": {"50.0": tpot_ns, "90.0": tpot_ns}},
            "output_sequence_lengths": {"total": 10 * requests},
        }
        file = folder / "report" / "performance" / "result_summary.json"
        file.parent.mkdir(parents=True)
        (folder / "client.log").write_text("what it printed")
        file.write_text(json.dumps(content))
        if state(concurrency) == "dies":
            raise OfficialClientRunError("inference-endpoint died with status 3: no memory", folder)
        if state(concurrency) == "full disk":
            raise OSError(ENOSPC, "no space left, inference-endpoint died", str(folder))
        if state(concurrency) == "Ctrl-C":
            raise KeyboardInterrupt
        if job.accuracy is not None:
            numbers = range(len([*job.accuracy.prompts]))
            answers = [event_of(number, "complete", 0, "Made up.") for number in numbers]
            write_events(folder / "report", ACCURACY_DATA, answers)
        return folder / "report"

    installation = OfficialClientInstallation(Path("client"), "0.1.0", "ea332753")
    for room in ("curve.curves", "official_client_kind"):
        monkeypatch.setattr(
            f"mlperf_suite.features.endpoints.{room}.find_official_client", lambda: installation
        )
    monkeypatch.setattr(
        "mlperf_suite.features.endpoints.curve.official_points.run_official_client", run
    )
    monkeypatch.setattr(
        "mlperf_suite.features.servers.server_facts.check_reachable", lambda config: None
    )


OFFICIAL: dict[str, Any] = {"endpoint": ["http://127.0.0.1:1"], "client": "inference-endpoint"}


def test_points_of_the_real_client_can_be_a_result(make: Make, monkeypatch: MonkeyPatch) -> None:
    jobs: list[OfficialClientJob] = []
    client_of(monkeypatch, jobs, lambda concurrency: "complete")
    session = made(make, Endpoint, **OFFICIAL)
    curve = curve_in(session)
    assert curve.client == "inference-endpoint 0.1.0, commit ea332753" and not curve.rehearsal
    assert curve.c_max == 4 and not summary_of(session).no_result
    points = {point.concurrency: point for point in curve.points}
    assert points[2].system_tps == pytest.approx(2000) and points[2].tpot_p90_ms == 1.0
    assert all((session.folder / point.folder).is_dir() for point in curve.points)
    assert all(job.accuracy is None for job in jobs)
    seeds = {job.seeds for job in jobs}
    assert seeds == {(10487924139932647040, 586478644936801402)}
    # Every request of every point has a salt of its own, however often a sample is sent.
    samples = len(session.suite.inputs.prompts(BENCHMARKS[LLAMA]))
    assert max(job.load.requests for job in jobs) > samples
    assert [len([*job.performance.prompts]) for job in jobs] == [j.load.requests for j in jobs]
    prompts = [prompt for job in jobs for prompt in job.performance.prompts]
    assert len(set(prompts)) == len(prompts)


def test_official_points_have_the_servers_own_view(make: Make, monkeypatch: MonkeyPatch) -> None:
    client_of(monkeypatch, [], lambda concurrency: "complete")
    points_of, run = Curves.official_points, vars(official_points)["run_official_client"]
    reads = threading.Semaphore(0)

    def read() -> dict[str, float]:
        reads.release()
        return {RUNNING: 2.5}

    def slow(*arguments: Any, **options: Any) -> Any:
        while reads.acquire(blocking=False):
            """Of the time before."""
        # By the next reading, one is kept.
        assert all(reads.acquire(timeout=60) for _ in range(3))
        return run(*arguments, **options)

    def read_points(self: Curves, result: Any) -> Any:
        return replace(points_of(self, result), readers=[read])  # type: ignore[type-var]

    monkeypatch.setattr(Curves, "official_points", read_points)
    monkeypatch.setattr(official_points, "run_official_client", slow)
    monkeypatch.setattr("mlperf_suite.features.servers.server_metrics._EVERY_S", 0.01)
    curve = curve_in(made(make, Endpoint, **OFFICIAL))
    assert {p.servers[0].running_mean for p in curve.measured} == {2.5}


def test_the_official_client_answers_accuracy_data(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(CurveAccuracy, "of_point", SCORES)
    jobs: list[OfficialClientJob] = []
    client_of(monkeypatch, jobs, lambda concurrency: "complete")
    session = made(make, Endpoint, total_sample_count="6", **OFFICIAL)
    curve = curve_in(session)
    (point,) = [point for point in curve.points if point.accuracy]
    (job,) = [job for job in jobs if job.accuracy]
    assert point.concurrency == curve.c_max == job.load.concurrency == job.load.requests
    assert point.accuracy is not None and point.accuracy.samples == 6
    # Without its own Python the client has no scorer; the prompts have no salt.
    assert job.scorer == "string_match" and job.accuracy is not None
    inputs = session.suite.inputs
    assert job.accuracy.prompts == inputs.prompts(BENCHMARKS[LLAMA])
    assert "the client's rouge" in str(summary_of(session).meta.not_submittable)
    place = session.folder / Path(point.folder).parent / "scored" / "report"
    assert (place / "performance" / "result_summary.json").is_file()


def test_a_place_outside_an_earlier_curve_is_not_taken_from(tmp_path: Path) -> None:
    outside = CurvePoint(4, "measured", folder="../../etc/report")
    assert _taken_from(tmp_path / "earlier", outside, tmp_path / "now").folder == "earlier"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("interrupted", "the run is interrupted, not complete"),
        ("refused", "2 requests failed"),
        ("dies", "inference-endpoint died with status 3: no memory"),
    ],
)
def test_what_the_official_client_did_not_complete(
    make: Make, monkeypatch: MonkeyPatch, state: str, reason: str
) -> None:
    client_of(monkeypatch, [], lambda concurrency: state if concurrency > 1 else "complete")
    session = make(KEY, kind=Endpoint, **OFFICIAL)
    session.suite.make(KEY)
    points = {point.concurrency: point for point in curve_in(session).points}
    assert points[1].outcome == "measured"
    assert (points[2].outcome, points[2].reason) == ("failed", reason)
    assert (session.folder / "points" / "00002" / "client.log").is_file()


@pytest.mark.parametrize("state", ["Ctrl-C", "full disk"])
def test_what_ends_an_official_curve(make: Make, monkeypatch: MonkeyPatch, state: str) -> None:
    with monkeypatch.context() as patch:
        client_of(patch, [], lambda concurrency: state if concurrency == 4 else "complete")
        first = make(KEY, kind=Endpoint, **OFFICIAL)
        if state == "Ctrl-C":
            with pytest.raises(KeyboardInterrupt):
                first.suite.make(KEY)
        else:
            failure = str(first.suite.make(KEY).failure)
            assert failure.endswith("points/00004: no space left, inference-endpoint died")
    # No more is tried: each point would fail alike, and the curve would count as ended.
    assert outcomes(curve_in(first)) == {1: "measured", 2: "measured"}
    assert summary_of(first).meta.status == "failed"
    jobs: list[OfficialClientJob] = []
    client_of(monkeypatch, jobs, lambda concurrency: "complete")
    second = made(make, Endpoint, **OFFICIAL)
    assert {1, 2}.isdisjoint(job.load.concurrency for job in jobs)
    # A later run may remove the earlier one, whose files are here too.
    shutil.rmtree(first.folder)
    assert all((second.folder / p.folder / "performance").is_dir() for p in curve_in(second).points)


def test_a_point_of_the_official_client_has_blocks_from_its_events(tmp_path: Path) -> None:
    events = []
    for number in range(80):
        # Two users, one answer of ten tokens a second each.
        begin_s = float(number // 2)
        events.append(event_of(number, "issued", begin_s))
        events.append(event_of(number, "recv_first", begin_s + 0.1))
        events.append(event_of(number, "complete", begin_s + 1, ["a ", "b " * 9]))
    write_events(tmp_path, "performance", events)
    answers = read_answers(tmp_path)["performance"]
    times = request_times(answers, [len(answer.text.split()) for answer in answers])
    blocks = point_of(times, 39.0, 2).blocks
    assert len(blocks) == 8
    for block in blocks:
        figures = (block.tokens_per_sec, block.tpot_p90_ms, block.ttft_p90_ms)
        assert figures == pytest.approx((20, 100, 100), rel=0.1)
