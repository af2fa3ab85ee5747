"""The whole suite as a user starts it, on a stand-in engine: results, verdicts, faults."""

import json
import signal
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from meta_tests.scorers.official_rouge import official
from meta_tests.suite_runs import SuiteRun, run_python, run_suite, start_suite, wait_until
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.datasets.news import load_news
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.reports.headline import headline
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import AccuracyFigures, PerformanceFigures, Summary
from mlperf_suite.scorers.rouge import ROUGE_NAMES

# Without warm-ups, which the stand-in would take for the queries that it is told of.
PLUGIN = ("-p", "meta_tests.stand_in_plugin", "--warmup=0")
DATACENTER = ("-m", "offline and datacenter", *PLUGIN)
UNDRAWN = ("-p", "meta_tests.reports.undrawn")
LABEL = "made with a stand-in engine: not a measurement of any system"
SHORTENED = {
    "accuracy_whole_dataset": "llama3.1-8b-offline",
    "min_duration": "llama3.1-8b-offline",
    "performance_sample_count": "llama3.1-8b-offline",
    "offline_samples_per_query": "llama3.1-8b",
}
"""The rules that smoke shortens in Offline, and the case of the test of each."""
MODES = ("Accuracy", "Compliance/TEST06", "Performance")
"""The folders of LoadGen's logs in a run's."""
ROUGE_RULES = {f"accuracy_{name.lower()}" for name in ROUGE_NAMES}


@dataclass(frozen=True)
class Kept:
    """Sessions in one results folder: broken answers in both benchmarks, an engine that does not
    load, then good answers; the last two keep only the latest."""

    invalid: SuiteRun
    invalid_summaries: dict[str, Summary]
    kept_by_failed: set[str]
    good: SuiteRun


def told_run(folder: Path, *arguments: str, **stand_in: object) -> SuiteRun:
    return run_suite(folder, *arguments, *UNDRAWN, STAND_IN=json.dumps(stand_in))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    """A run with all that CI reads of it; its performance lasts the 10 s that it must, all else
    is answered at once."""
    folder = tmp_path_factory.mktemp("whole")
    return run_suite(
        folder / "results",
        *(*DATACENTER, "--offline-target-qps=8.4", "--benchmark-autosave"),
        *(f"--junitxml={folder}/junit.xml", f"--alluredir={folder}/allure"),
        *(f"--benchmark-json={folder}/benchmark.json", f"--benchmark-storage={folder}/kept"),
        STAND_IN=json.dumps({"delays_s": [0, 10.2, 0]}),
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    answers = ["cut", "another sample's"]
    invalid = told_run(folder, "-m", "offline and accuracy", *PLUGIN, answers=answers)
    of_folders = filter(None, map(read_summary, folder.glob("2*")))
    summaries = {summary.meta.benchmark or "": summary for summary in of_folders}
    latest = (*DATACENTER, "--mode=accuracy", "--keep-all=0")
    before = {path.name for path in folder.glob("2*")}
    told_run(folder, *latest, load_error="no engine today")
    kept_by_failed = before & {path.name for path in folder.glob("2*")}
    return Kept(invalid, summaries, kept_by_failed, told_run(folder, *latest))


def performance_of(run: SuiteRun) -> PerformanceFigures:
    performance = run.summary.run.performance
    assert performance is not None
    return performance


def accuracy_of(run: SuiteRun) -> AccuracyFigures:
    accuracy = run.summary.run.accuracy
    assert accuracy is not None
    return accuracy


# What a session leaves behind


def test_good_answers_pass_every_rule_that_smoke_keeps(whole: SuiteRun) -> None:
    assert whole.exit_code == 0, whole.output
    statuses = whole.statuses()
    assert {rule for rule, status in statuses.items() if status == "shortened"} == SHORTENED.keys()
    assert set(statuses.values()) == {"passed", "shortened"}
    assert whole.summary.meta.status == "complete"
    # Where the output is a file, there is no bar.
    assert "loading the engine" not in whole.output and "\x1b" not in whole.output


def test_existing_results_are_judged_as_the_session_judged_them(whole: SuiteRun) -> None:
    judged = judge_folder(whole.results_dir, smoke=True)
    assert [run.name.removeprefix(f"{whole.folder.name}-") for run in judged] == [
        "Accuracy",
        "Compliance-TEST06",
        "Performance",
    ]
    kept = ("kept_run_unchanged", "kept_run_figure_agrees")
    statuses = whole.statuses() | dict.fromkeys(kept, "passed")
    for run in judged:
        for verdict in run.verdicts:
            # A folder of logs does not say with which tokens its model ends an answer.
            status = "not judged" if verdict.rule == "test06_eos" else statuses[verdict.rule]
            assert verdict.status == status, verdict.line


def test_logs_tell_of_what_is_selected_alone(whole: SuiteRun, tmp_path: Path) -> None:
    logs = ("-m", "performance", f"--logs={whole.results_dir}")
    judged = run_suite(tmp_path, *logs, "--profile=smoke")
    assert judged.exit_code == 0, judged.output
    assert "Performance" in judged.output
    assert "TEST06" not in judged.output and "rouge" not in judged.output
    refusal = run_suite(tmp_path, *logs, f"--baseline={whole.folder}")
    assert refusal.exit_code == 4, refusal.output
    assert "--baseline: cannot be combined with --logs, which makes no runs" in refusal.output


def test_the_results_folder_holds_what_is_promised(whole: SuiteRun) -> None:
    files = {str(p.relative_to(whole.folder)) for p in whole.folder.rglob("*") if p.is_file()}
    logs = {
        *(f"{mode}/mlperf_log_{n}.txt" for n in ("summary", "detail") for mode in MODES),
        "Accuracy/mlperf_log_accuracy.json",
    }
    promised = {"config.json", "summary.json", "report.md", "Accuracy/rouge.json"}
    assert promised | logs | {"Performance/user.conf"} <= files
    assert [name for name in files if name.endswith(".part")] == []
    assert (whole.results_dir / "latest").is_symlink()
    assert whole.folder.name.endswith("-llama3.1-8b-offline")
    assert whole.folder.name in (whole.results_dir / "index.md").read_text()
    assert logs <= set(whole.summary.logs) <= files


def test_the_summary_says_what_was_run_on_what(whole: SuiteRun) -> None:
    meta = whole.summary.meta
    assert (meta.benchmark, meta.category, meta.scenario) == (
        "llama3.1-8b",
        "datacenter",
        "Offline",
    )
    assert (meta.model, meta.round, meta.profile) == ("embedded", "v6.1", "smoke")
    assert meta.reason is None
    for name in ("cpu", "gpu_count", "gpus", "torch_version", "vllm_version", "loadgen_version"):
        assert name in whole.summary.system
    performance = performance_of(whole)
    assert performance.valid is True
    assert (performance.duration_s or 0) >= 10
    assert (performance.total_new_tokens or 0) > 0
    detail = read_logs(whole.folder / "Performance").detail
    assert performance.tokens_per_sec == detail["result_tokens_per_second"]
    assert performance.samples_per_sec == detail["result_samples_per_second"]
    assert performance.latency_ms is not None
    assert list(performance.latency_ms) == ["mean", "p50", "p90", "p95", "p97", "p99", "p99.9"]
    assert performance.latency_ms["p90"] == detail["result_90.00_percentile_latency_ns"] / 1e6


def test_the_configuration_says_every_setting_and_the_data(whole: SuiteRun) -> None:
    config = json.loads((whole.folder / "config.json").read_text())
    assert config["engine"]["stand_in"] is True
    assert config["settings"]["offline_target_qps"] == 8.4
    assert config["settings"]["results_dir"] == str(whole.results_dir)
    assert config["dataset"]["samples"] == accuracy_of(whole).total_samples
    for digest in (config["dataset"]["sha256"], config["prompts_sha256"]):
        assert len(digest) == 64


def test_the_scores_are_the_official_ones_of_loadgens_own_log(whole: SuiteRun) -> None:
    tokenizer = Tokenizer.from_file(str(embedded_model_dir() / "tokenizer.json"))
    config = json.loads((embedded_model_dir() / "tokenizer_config.json").read_text())
    items = load_news("embedded").items
    log = json.loads((whole.folder / "Accuracy" / "mlperf_log_accuracy.json").read_text())
    answers = [np.frombuffer(bytes.fromhex(entry["data"]), np.int32).tolist() for entry in log]
    # Special tokens are in the log, and no part of the text that is scored.
    eos = tokenizer.token_to_id(config["eos_token"])
    assert any(tokens[-1] == eos for tokens in answers)
    scores = official(
        tokenizer.decode_batch(answers, skip_special_tokens=True),
        [items[entry["qsl_idx"]].reference for entry in log],
    )
    assert {score.name: score.value for score in accuracy_of(whole).scores} == scores


# What it must never look like


def test_every_output_says_that_it_is_made_with_a_stand_in(whole: SuiteRun) -> None:
    assert LABEL in whole.output
    assert whole.summary.meta.label == LABEL
    assert LABEL in (whole.folder / "report.md").read_text()
    assert LABEL in (whole.results_dir / "index.md").read_text()


def test_a_shortened_rule_is_no_pass_in_terminal_junit_and_report(whole: SuiteRun) -> None:
    passed = sum(status == "passed" for status in whole.statuses().values())
    # One more: the performance run as pytest-benchmark's record.
    last_line = whole.output.splitlines()[-1]
    assert f"{len(SHORTENED)} shortened" in last_line and f"{passed + 1} passed" in last_line
    *_, end = whole.output.split(" llama3.1-8b Offline ")
    _, table = end.split("shortened in smoke")
    assert [rule for rule in SHORTENED if f"\n  {rule} " not in table] == []
    cases = ET.parse(whole.results_dir.with_name("junit.xml")).iter("testcase")
    skipped = {case.get("name"): case.find("skipped") for case in cases}
    reasons = {name: s.get("message", "") for name, s in skipped.items() if s is not None}
    assert reasons.keys() == {f"test_{rule}[{case}]" for rule, case in SHORTENED.items()}
    assert all(": shortened: found " in reason for reason in reasons.values())
    report = (whole.folder / "report.md").read_text().replace("\\_", "_")
    (line,) = [line for line in report.splitlines() if line.startswith("- Shortened for smoke")]
    assert [rule for rule in SHORTENED if rule not in line] == []


# What CI gets of it


def figures_of(run: SuiteRun) -> dict[str, float]:
    performance = performance_of(run)
    assert performance.latency_ms is not None and performance.tokens_per_sec is not None
    percentiles = {f"latency_ms_{name}": ms for name, ms in performance.latency_ms.items()}
    return {"tokens_per_sec": performance.tokens_per_sec, **percentiles}


def test_junit_tells_the_session_and_each_tests_figures(whole: SuiteRun) -> None:
    (suite,) = ET.parse(whole.results_dir.with_name("junit.xml")).iter("testsuite")

    def properties(element: ET.Element) -> dict[str, str]:
        found = element.findall("properties/property")
        return {p.get("name", ""): p.get("value", "") for p in found}

    settings = {"model": "embedded", "round": "v6.1", "profile": "smoke", "dataset": "embedded"}
    assert settings.items() <= properties(suite).items()
    assert {"vllm_version", "loadgen_version", "torch_version"} <= properties(suite).keys()
    cases = {case.get("name"): properties(case) for case in suite.iter("testcase")}
    rule = cases["test_result_valid[llama3.1-8b-offline]"]
    assert (rule["found"], rule["required"]) == ("VALID", "VALID")
    of_performance = [case for case in cases.values() if "tokens_per_sec" in case]
    assert rule in of_performance and len(of_performance) > 10
    for case in of_performance:
        for name, value in figures_of(whole).items():
            assert float(case[name]) == value
    assert [case for case in cases.values() if float(case.get("rouge1", 0)) > 50]


def test_allure_has_labels_files_and_each_rules_found_and_required(whole: SuiteRun) -> None:
    allure = whole.results_dir.with_name("allure")
    results = [json.loads(file.read_text()) for file in allure.glob("*-result.json")]
    expected = {("benchmark", "llama3.1-8b"), ("category", "datacenter"), ("scenario", "Offline")}
    for result in results:
        labels = {(label["name"], label["value"]) for label in result["labels"]}
        assert expected <= labels
        (behaviour,) = (value for name, value in labels if name == "feature")
        values = {parameter["name"]: parameter["value"] for parameter in result["parameters"]}
        assert behaviour == values["run"] == f"Offline, {dict(labels)['subSuite']}"
        assert "result_valid" not in result["name"] or values["found"] == "VALID"
        shortened = {("verdict", "shortened"), ("tag", "shortened")} <= labels
        assert shortened == (result["name"].split(" ")[0] in SHORTENED)
        assert "object at 0x" not in json.dumps(result)
    environment = (allure / "environment.properties").read_text()
    assert environment.startswith(f"llama3.1-8b_Offline={headline(whole.summary)}\nmodel=")
    attached = [a for result in results for a in result.get("attachments", [])]
    assert sorted(attachment["name"] for attachment in attached) == [
        *(f"{mode}/mlperf_log_{n}.txt" for mode in MODES for n in ("detail", "summary")),
        *(f"plots/{name}.png" for name in ("latency", "life", "tokens_per_s")),
        *("report.html", "report.md", "summary.json"),
    ]
    for attachment in attached:
        content = (whole.folder / attachment["name"]).read_bytes()
        assert (allure / attachment["source"]).read_bytes() == content


def test_pytest_benchmark_keeps_the_run_and_its_table_fits_80_columns(whole: SuiteRun) -> None:
    folder = whole.results_dir.parent
    (record_file,) = (folder / "kept").rglob("*.json")
    for file in (folder / "benchmark.json", record_file):
        (record,) = json.loads(file.read_text())["benchmarks"]
        assert record["name"] == "test_run[llama3.1-8b-offline]"
        assert record["stats"]["ops"] == pytest.approx(performance_of(whole).samples_per_sec)
        assert figures_of(whole).items() <= record["extra_info"].items()
    lines = whole.output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Name (time in"))
    assert lines[start].split()[-4:] == ["Mean", "StdDev", "OPS", "Rounds"]
    assert lines[start + 2].startswith("test_run[llama3.1-8b-offline]")
    longest = len("llama3.1-8b-edge-singlestream") - len("llama3.1-8b-offline")
    assert max(len(line) for line in lines[start - 1 : start + 4]) + longest <= 80


# Wrong answers


@pytest.mark.parametrize(
    "benchmark_id", ["llama3.1-8b", "llama3.1-8b-edge"], ids=["cut", "another sample's"]
)
def test_wrong_answers_fail_the_rouge_rules(kept: Kept, benchmark_id: str) -> None:
    assert kept.invalid.exit_code == 1, kept.invalid.output
    summary = kept.invalid_summaries[benchmark_id]
    statuses = {v.rule: v.status for v in summary.verdicts}
    failures = {rule for rule, status in statuses.items() if status == "failed"}
    assert failures >= ROUGE_RULES
    assert ("accuracy_gen_len" in failures) == (benchmark_id == "llama3.1-8b")
    assert summary.meta.status == "invalid"
    assert summary.run.accuracy is not None and summary.run.accuracy.passed is False


# Which runs are kept


def test_keep_all_0_drops_the_older_runs_of_its_kind_only(kept: Kept) -> None:
    assert kept.invalid_summaries.keys() == {"llama3.1-8b", "llama3.1-8b-edge"}
    assert kept.good.exit_code == 0, kept.good.output
    folders = [path.name for path in kept.good.results_dir.glob("2*")]
    # Where two sessions begin in the same second, the second's folder has a number.
    assert sorted(name.split("-", 2)[2].removesuffix("-2") for name in folders) == [
        "llama3.1-8b-edge-offline",
        "llama3.1-8b-offline",
    ]
    assert kept.good.summary.meta.benchmark == "llama3.1-8b"
    assert kept.good.summary.meta.status == "complete"
    index = (kept.good.results_dir / "index.md").read_text()
    assert [name for name in folders if name not in index] == []
    assert index.count("/report.md)") == 2


def test_keep_all_0_drops_nothing_for_a_run_without_a_result(kept: Kept) -> None:
    assert len(kept.kept_by_failed) == 2


# Faults in the middle


def test_a_session_that_ends_before_its_last_run_has_no_result(tmp_path: Path) -> None:
    run = told_run(tmp_path, *DATACENTER, "-x", "--max-new-tokens=64", answers=["cut"])
    assert run.exit_code == 1, run.output
    meta = run.summary.meta
    reason = "the session ended before its performance run"
    assert (meta.status, meta.reason) == ("failed", reason)
    assert reason in (run.folder / "report.md").read_text()
    assert run.statuses()["accuracy_generation"] == "shortened"


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"fail_after": 5}, "the stand-in engine died, as configured"),
        ({"load_error": "no engine today"}, "no engine today"),
        ({"replace_by_file": "RESULTS"}, "Not a directory"),
    ],
    ids=["the engine dies", "it does not load", "results cannot be written any more"],
)
def test_a_fault_is_one_failed_test_and_one_line(
    tmp_path: Path, told: dict[str, object], reason: str
) -> None:
    """The session ends, or the other tests are not judged."""
    results = tmp_path / "results"
    stand_in = {name: str(results) if value == "RESULTS" else value for name, value in told.items()}
    run = told_run(results, *DATACENTER, **stand_in)
    assert run.exit_code == 1, run.output
    lines = run.output.splitlines()
    assert sum(line.startswith(("FAILED tests/", "ERROR tests/")) for line in lines) == 1
    assert "Traceback" not in run.output
    (message,) = {line for line in lines if line.startswith("llama3.1-8b Offline accuracy: ")}
    assert reason in message
    if "replace_by_file" in told:
        assert str(results) in message
        return
    assert (run.summary.meta.status, run.summary.meta.reason) == ("failed", reason)
    # It measured nothing.
    assert list(run.summary.verdicts) == [] and not (results / "latest").exists()
    assert reason in (run.folder / "report.md").read_text()
    if "fail_after" in told:
        assert (run.folder / "Accuracy" / "mlperf_log_detail.txt").stat().st_size > 0


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated (SIGTERM)")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_signal_in_the_middle_ends_the_session(
    tmp_path: Path, number: signal.Signals, reason: str
) -> None:
    marker, results = tmp_path / "running", tmp_path / "results"
    stand_in = {"delays_s": [3600], "marker": str(marker)}
    process = start_suite(results, *DATACENTER, STAND_IN=json.dumps(stand_in))
    wait_until(marker.exists, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=600)
    run = SuiteRun(process.returncode, output, results)
    assert run.exit_code == 2, output
    assert run.summary.meta.status == "failed"
    assert reason in (run.summary.meta.reason or "")
    assert (run.folder / "Accuracy" / "mlperf_log_detail.txt").is_file()
    assert LABEL in output


# Errors of use, before any engine is loaded


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--precision=int8", "--precision int8: must be one of bf16, fp16"),
        ("--round=v5.1", "--round v5.1: the installed LoadGen"),
        ("--total-sample-count=100000", "--total-sample-count 100000: embedded has "),
    ],
    ids=["value", "round", "samples"],
)
def test_a_wrong_use_is_one_line_before_any_engine_is_loaded(
    tmp_path: Path, option: str, words: str
) -> None:
    run = told_run(tmp_path, *DATACENTER, option, load_error="an engine was loaded")
    assert run.exit_code == 4, run.output
    (message,) = [line for line in run.output.splitlines() if line.startswith("ERROR: ")]
    assert words in message
    assert "an engine was loaded" not in run.output
    assert "Traceback" not in run.output
    assert list(tmp_path.glob("2*")) == []


def test_collecting_imports_nothing_heavy(tmp_path: Path) -> None:
    """Without results, neither what reads them, what writes reports, nor what makes runs."""
    code = (
        "import sys, pytest\n"
        f"code = pytest.main(['--collect-only', '-q', '--results-dir={tmp_path}'])\n"
        "heavy = 'vllm torch transformers datasets matplotlib jinja2 scipy rich psutil'.split()\n"
        "suite = 'results.schema reports session.suite session.engines judging.judge'.split()\n"
        "heavy += [f'mlperf_suite.{name}' for name in suite]\n"
        "heavy = [m for m in heavy if m in sys.modules]\n"
        "print('imported:', heavy)\n"
        "sys.exit(code)\n"
    )
    process = run_python("-c", code)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "imported: []"
    assert "tests collected" in process.stdout
