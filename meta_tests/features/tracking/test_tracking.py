"""Results in a tracker: what is sent, once each, and what waits while a tracker is away."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.features.tracking.fake_mlflow import FakeClient
from meta_tests.features.tracking.kept_results import MODULE, TOKEN, kept
from meta_tests.made_runs import MadeRun, write_run
from meta_tests.suite_runs import run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.features.tracking import plugin, sender
from mlperf_suite.features.tracking.mlflow_tracker import MlflowTracker
from mlperf_suite.features.tracking.options import check, target_of
from mlperf_suite.features.tracking.plugin import send_results
from mlperf_suite.features.tracking.tracked_result import Figures, tracked_result
from mlperf_suite.features.tracking.tracked_runs import tracked_baselines
from mlperf_suite.features.tracking.trackers import NOT_INSTALLED, TrackingTarget
from mlperf_suite.features.tracking.upload_queue import QUEUE_FOLDER, queued
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.plugin import options
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.settings import Settings, resolve_settings


def settings(*baselines: str, results: Path, **more: object) -> Settings:
    return resolve_settings({"baseline": list(baselines), "results_dir": str(results), **more}, {})


# What is sent


def test_every_figure_is_sent_with_its_unit_and_place(tmp_path: Path) -> None:
    run = tracked_result(kept(tmp_path, curve=None))
    assert run.metrics["performance/tokens_per_sec"] == 14501.5
    assert run.metrics["performance/ttft_ms/p99"] == 149.5
    assert run.metrics["performance/goodput/within"] == 8
    assert run.metrics["accuracy/scores/rouge1"] == 38.5
    assert run.metrics["accuracy/scores/rouge1.low"] == 36.5
    assert run.tags["unit/accuracy/scores/rouge1"] == "%"
    assert run.tags["unit/performance/metric"] == "tokens/s"
    assert run.tags["performance/valid"] == "true"
    assert run.series["performance/blocks/tokens_per_sec"] == (1.0, 2.0, 4.0)
    assert run.params["setting/precision"] == "auto" and run.params["cpu"] == "a CPU"
    parts = {part.name: part for part in run.parts}
    assert list(parts) == ["repeat 2", "trial 1"]
    assert parts["repeat 2"].metrics == {"tokens_per_sec": 14000.0}
    assert parts["trial 1"].tags == {"mlperf.part": "trial", "valid": "false"}
    # Those of one kind have its name in their place.
    figures = Figures()
    figures.add("kinds", [{"kind": "GPU", "joules": 4210.5, "watts": math.inf}, {"joules": 1}])
    assert figures.metrics == {"kinds/GPU/joules": 4210.5}


@pytest.mark.parametrize("change", ["its reports", "its logs", "its start"])
def test_a_result_is_the_same_whatever_its_reports_say(tmp_path: Path, change: str) -> None:
    folder = kept(tmp_path)
    write_json(folder / "checksums.json", {"files": {"a": "1"}})
    before = tracked_result(folder).checksum
    content = json.loads((folder / "summary.json").read_text())
    if change == "its logs":
        write_json(folder / "checksums.json", {"files": {"a": "2"}})
    content["verdict" if change == "its reports" else "run"] = {}
    content["meta"]["started"] = None if change == "its start" else content["meta"]["started"]
    write_json(folder / "summary.json", content)
    assert (tracked_result(folder).checksum == before) == (change == "its reports")


def test_a_session_sends_its_result_and_no_secret(tmp_path: Path) -> None:
    """A token of the environment and a key for the engine, both in the engine's log."""
    given = json.dumps({"log": f"started with {TOKEN} and planted-ARGUMENT"})
    options = ("--engine-arg=hf_token=planted-ARGUMENT", f"--track={MODULE}:{tmp_path}/tracker")
    session = ("-m", "offline and accuracy and datacenter", "-p", "meta_tests.stand_in_plugin")
    run = run_suite(tmp_path / "results", *session, *options, STAND_IN=given, OF_A_TOKEN=TOKEN)
    (sent,) = (tmp_path / "tracker").iterdir()
    assert f"\ntrack: {sent}\n" in run.output and f"track: results go to {MODULE}" in run.output
    texts = {f.name: f.read_text() for f in sent.rglob("*") if f.is_file()}
    assert {"run.json", "summary.json", "report.md", "engine.log", "rouge_samples.json"} <= {*texts}
    assert not {"samples.json", "answers.json"} & {*texts}
    assert "started with *** and ***" in texts["engine.log"]
    assert not [n for n, text in texts.items() if TOKEN in text or "planted-ARGUMENT" in text]
    assert not (tmp_path / "results" / QUEUE_FOLDER).exists()


# A tracker that is away


@pytest.mark.parametrize(
    ("experiment", "fault"),
    [
        ("forbidden", "nobody may write, said the tracker: ***"),
        ("hangs", "no answer within 0.5 s"),
        ("dies", "its process ended with status 9"),
        ("away", "the server does not answer"),
    ],
)
def test_what_cannot_be_sent_waits_and_is_sent_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], experiment: str, fault: str
) -> None:
    results, place = tmp_path / "results", tmp_path / "tracker"
    folder, target = kept(results), TrackingTarget(MODULE, str(place), experiment)
    limit_s = 0.5 if experiment == "hangs" else 600.0
    (line,) = send_results([folder], target, results, limit_s)
    words = f"{fault}: 1 queued, `mlperf-suite track {results}` sends them"
    assert line == f"track: {target.words}: {words}"
    # The next run of its kind removes the result.
    shutil.rmtree(folder)
    (results / QUEUE_FOLDER / "stray").mkdir()
    (upload,) = queued(results)
    (results / QUEUE_FOLDER / "stray").rmdir()
    assert upload.target == target
    if experiment != "hangs":
        assert main(["track", str(results)]) == 2
        assert f"not sent: {fault} (stays queued)" in capsys.readouterr().out
    write_json(upload.folder.parent / "target.json", replace(target, experiment="team").as_json())
    assert main(["track", str(results)]) == 0
    (sent,) = place.iterdir()
    assert f"{folder.name}: {sent}\ntrack: 1 of 1 results are kept" in capsys.readouterr().out
    assert not (results / QUEUE_FOLDER).exists()
    assert TOKEN not in (sent / "files/engine.log").read_text()
    names = {file.name for file in (sent / "files").rglob("*")}
    assert "summary.json" in names and not {"responses.jsonl", "samples.json"} & names


def test_a_queue_without_room_is_a_line(tmp_path: Path) -> None:
    folder = kept(tmp_path / "results")
    (tmp_path / "results" / QUEUE_FOLDER).write_text("in the way")
    target = TrackingTarget(MODULE, "", "dies")
    (line,) = send_results([folder], target, tmp_path / "results", 600.0)
    assert "status 9; not queued either: " in line and line.count("\n") == 0


def test_the_command_sends_what_has_ended_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, place = tmp_path / "results", tmp_path / "tracker"
    kept(results), kept(results, 2, "Offline"), kept(results, 3, status="running")
    for _ in range(2):
        assert main(["track", str(results), f"--track={MODULE}:{place}"]) == 0
        assert capsys.readouterr().out.endswith("track: 2 of 2 results are kept\n")
        assert len([*place.iterdir()]) == 2
    for words, fault in (
        ([str(tmp_path)], "no result that has ended, no logs and no .track-queue in it"),
        ([str(results)], "where to? --track mlflow:URI, or MLFLOW_TRACKING_URI"),
        ([str(results), "--track=mlflow"], "needs MLFLOW_TRACKING_URI"),
        ([str(results), "--track=no/module"], "--track no/module: must be mlflow, mlflow:URI"),
    ):
        assert main(["track", *words]) == 2
        assert fault in capsys.readouterr().err


def test_logs_of_others_are_sent_with_their_figures_and_verdicts(tmp_path: Path) -> None:
    for name in ("performance", "accuracy"):
        made = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), name)
        write_run(tmp_path / "study" / name, made)
    assert main(["track", f"{tmp_path}/study", f"--track={MODULE}:{tmp_path}/tracker"]) == 0
    sent = [json.loads((at / "run.json").read_text()) for at in (tmp_path / "tracker").iterdir()]
    assert sorted(run["name"] for run in sent) == ["study/accuracy", "study/performance"]
    run = next(run for run in sent if run["name"] == "study/performance")
    assert run["metrics"]["result_tokens_per_second"] > 0
    failed = next(g for g in judge_folder(tmp_path / "study") if g.name == "performance")
    assert run["tags"]["mlperf.rules_failed"] == ", ".join(failed.failed_rules) != ""
    assert run["tags"]["mlperf.verdict"] == "not valid"
    assert run["params"]["effective_scenario"] == "Offline"
    assert run["tags"]["mlperf.kind"] == "llama3.1-8b Offline"
    assert run["tags"]["mlperf.mode"] == "performance"


# MLflow


def test_an_upload_that_was_cut_off_goes_on(tmp_path: Path, client: FakeClient) -> None:
    """After each of its calls, so that all of it is there, once."""
    folder = kept(tmp_path)
    run = tracked_result(folder)
    tracker, cuts = MlflowTracker("", "team"), 0
    while True:
        client.left = 1 + cuts
        try:
            page = tracker.keep(run, folder)
        except ConnectionError:
            cuts += 1
            continue
        break
    assert cuts > 5
    whole, *parts = client.runs
    assert [part.info.run_name for part in parts] == [part.name for part in run.parts]
    assert {r.info.status for r in client.runs} == {"FINISHED"}
    assert {part.data.tags["mlflow.parentRunId"] for part in parts} == {whole.info.run_id}
    steps = {s: v for n, v, _, s in whole.data.metrics if n == "performance/blocks/tokens_per_sec"}
    assert steps == {0: 1.0, 1: 2.0, 2: 4.0} and whole.data.params == run.params
    assert page == f"http://tracker:5000/team/#/experiments/0/runs/{whole.info.run_id}"
    assert (client.root / whole.info.run_id / "summary.json").is_file()
    client.left = 0
    assert tracker.keep(run, folder) == page
    client.tracking_uri = "sqlite:///runs.db"
    assert tracker.keep(run, folder) == f"run {whole.info.run_id} of the experiment team"


def test_the_gate_reads_the_last_good_or_the_pinned_or_a_named_result(
    tmp_path: Path, client: FakeClient
) -> None:
    results, tracker = tmp_path / "results", MlflowTracker("", "team", client)
    days = [
        kept(results, 1, curve=None),
        kept(results, 2, "Offline", None),
        kept(results, 3, curve=None),
        kept(results, 4, curve=None, status="invalid"),
        kept(results, 6, curve=None, profiler="torch"),
        kept(results, 5, curve=None, profile="official"),
    ]
    for day in days:
        tracker.keep(tracked_result(day), day)
    ids = {
        run.info.run_name[:8]: run.info.run_id for run in client.runs if "-" in run.info.run_name
    }
    system = tracked_result(days[0]).tags["mlperf.system"]

    def fetched(which: str, system: str | None = system) -> list[str]:
        found = tracker.fetch(which, system, tmp_path / "into")
        return [path.parent.name for path in found]

    assert fetched("last-good") == [ids["20261103"], ids["20261102"]]
    assert fetched("last-good", None) == [ids["20261105"], ids["20261102"]]
    assert fetched(ids["20261104"]) == [ids["20261104"]]
    assert fetched("pinned") == []
    sender.keep_result(tracker, days[0], pinned=True)
    assert fetched("pinned") == [ids["20261101"]]
    read = tmp_path / "into" / ids["20261101"] / days[0].name
    names = {str(path.relative_to(read)) for path in read.rglob("*") if path.is_file()}
    assert {"summary.json", "config.json", "Accuracy/rouge_samples.json"} <= names
    assert "engine.log" not in names
    assert MlflowTracker("", "other", client).fetch("last-good", None, tmp_path) == []
    with pytest.raises(SuiteError, match=f"^{results}: "):
        tracked_result(results)


def test_a_file_outside_of_its_run_is_not_read(
    tmp_path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, folder = MlflowTracker("", "team", client), kept(tmp_path / "results")
    tracker.keep(tracked_result(folder), folder)
    entry = client.list_artifacts(client.runs[0].info.run_id, None)[1]
    entry.path, entry.is_dir = "../config.json", False
    monkeypatch.setattr(client, "list_artifacts", lambda run_id, path: [entry])
    with pytest.raises(SuiteError, match=r"a file outside of it: \.\./config\.json"):
        tracker.fetch(client.runs[0].info.run_id, None, tmp_path / "into")


def test_baselines_of_an_experiment_are_named_by_it_and_only_the_selected_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, asked = tmp_path / "results", []

    def fetch(target: TrackingTarget, which: str, system: str | None, *_: object) -> list[Path]:
        asked.append((target.experiment, which, system is None))
        if target.experiment == "away":
            raise SuiteError("the server does not answer")
        fetched = tmp_path / "fetched"
        return [kept(fetched, curve=None), kept(fetched, 2, "Offline", None)]

    monkeypatch.setattr(sender, "fetch", fetch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker")
    config: Any = SimpleNamespace(stash=pytest.Stash())
    config.stash[options._SETTINGS] = settings("mlflow:nightly", results=results)
    plugin.pytest_configure(config)
    found = baselines_of(config)
    assert asked == [("nightly", "last-good", False)]
    labels = {kind[1]: run.label for kind, run in found.items()}
    assert labels["Server"] == "mlflow:nightly@fetched"
    plan = SimpleNamespace(keys=[RunKey("llama3.1-8b", "Offline", "performance")])
    monkeypatch.setattr(plugin, "plan_of", lambda *_: plan)
    session: Any = SimpleNamespace(config=config, items=[])
    plugin.pytest_collection_finish(session)
    assert [kind[1] for kind in baselines_of(config)] == ["Offline"]
    for which in ("pinned", "0a" * 16):
        text = f"mlflow:away@{which}"
        with pytest.raises(UsageError, match=f"--baseline {text}: the server does not answer"):
            tracked_baselines(settings(text, results=results, baseline_allow_different="true"))
        assert asked[-1] == ("away", which, True)


# The options


@pytest.mark.parametrize(
    ("given", "uri", "words"),
    [
        (None, "", None),
        (None, "http://tracker", "mlflow"),
        ("Off", "http://tracker", None),
        ("mlflow:http://other:5000", "http://tracker", "mlflow:http://other:5000"),
        (f"{MODULE}:a/place", "", f"{MODULE}:a/place"),
        ("mlflow", "", "--track mlflow: needs MLFLOW_TRACKING_URI"),
        ("no.module", "", r"--track no\.module: no module no\.module"),
        ("mlflow:http://user:planted-PASS@other", "", r"--track mlflow:http://user:\*\*\*@other: "),
    ],
)
def test_where_results_go(
    given: str | None, uri: str, words: str | None, client: FakeClient
) -> None:
    def found() -> TrackingTarget | None:
        environment = {"MLFLOW_TRACKING_URI": uri} if uri else {}
        found = resolve_settings({"track": given}, environment)
        check(found)
        return target_of(found)

    if words and words.startswith("--"):
        with pytest.raises(UsageError, match=words):
            found()
    else:
        place = found()
        assert (place and place.words) == words


def test_without_mlflow_only_who_asks_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlperf_suite.features.tracking.trackers.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="--track mlflow:http://a: mlflow-skinny is not installed"):
        check(resolve_settings({"track": "mlflow:http://a"}, {}))
    by_variable = resolve_settings({}, {"MLFLOW_TRACKING_URI": "http://a"})
    check(by_variable)
    target = target_of(by_variable)
    assert target is not None and target.fault == NOT_INSTALLED
    with pytest.raises(SuiteError, match="is not installed"):
        target.open()
