"""Sessions with --client inference-endpoint, on a stand-in client and a stand-in server."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.endpoints.official_client_stand_in import write_client
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, stand_in_server
from meta_tests.plugin.pytest_output import collect, collected_tests, reasons, usage_error
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.errors import UsageError
from mlperf_suite.features.endpoints.official_client.client_job import whole_passes
from mlperf_suite.features.endpoints.official_client.own_scorers import OwnScorer, own_scorer
from mlperf_suite.results.comparability import (
    EVERY_ASPECT,
    Aspect,
    Identity,
    differences,
    identity_of,
)
from mlperf_suite.results.schema import Config, Meta, Summary
from mlperf_suite.settings import check_options_of_features, resolve_settings

CLIENT = "--client=inference-endpoint"
PLUGIN = ("-p", "meta_tests.features.endpoints.official_client_plugin")
SERVER = ("-m", "server and datacenter", "--server-target-qps=1.75")
SERIES = ("--series=endpoints",)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningStandIn]:
    # With time between tokens: of an answer in one piece the client writes a TPOT below zero.
    options = StandIn(
        model=str(embedded_model_dir()), max_model_len=8192, first_token_s=0.05, rest_s=0.2
    )
    with stand_in_server(options) as running:
        yield running


def words(folder: Path, url: str, *options: str) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of a session with the client in a folder."""
    made = {"MADE_CLIENT": str(folder / "client")}
    return [*options, f"--endpoint={url}", CLIENT, *PLUGIN], made


def session(folder: Path, url: str, *options: str, **client: Any) -> SuiteRun:
    """A session with a stand-in client; `client`: see `write_client`."""
    write_client(folder / "client", **client)
    arguments, made = words(folder, url, *options)
    return run_suite(folder / "results", *arguments, **made)


def folder_of(tmp_path: Path, scenario: str) -> Path:
    (folder,) = (tmp_path / "results").glob(f"*-llama3.1-8b-{scenario}-client")
    return folder


def summary_in(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def statuses(folder: Path) -> dict[str, str]:
    return {entry["rule"]: entry["status"] for entry in summary_in(folder)["verdicts"]}


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory, server: RunningStandIn
) -> tuple[SuiteRun, Path]:
    """A run without the client's own scorer, and its folder."""
    place = tmp_path_factory.mktemp("judged")
    run = session(place, server.url, *SERVER, scorer="No module named evaluate")
    return run, folder_of(place, "server")


def test_a_run_is_judged_by_the_rules_of_its_files(judged: tuple[SuiteRun, Path]) -> None:
    run, folder = judged
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED, run.output
    by_rule = statuses(folder)
    failed = {rule for rule, status in by_rule.items() if status == "failed"}
    # What the stand-in answers is no summary of anything.
    assert failed == {"client_accuracy_gate"}, run.output
    assert by_rule["client_min_duration"] == "shortened"
    assert by_rule["client_accuracy_samples"] == "shortened"
    assert "client_required_files" not in by_rule
    config = json.loads((folder / "client.yaml").read_text())
    runtime = config["settings"]["runtime"]
    round_ = ROUNDS["v6.1"]
    assert runtime["dataloader_random_seed"] == round_.sample_index_rng_seed
    assert runtime["scheduler_random_seed"] == round_.schedule_rng_seed
    assert config["settings"]["load_pattern"] == {"type": "poisson", "target_qps": 1.75}
    assert "--mode both" in (folder / "arguments").read_text()
    assert json.loads((folder / "Accuracy" / "rouge.json").read_text())["rouge1"] < 30


def test_a_run_has_the_files_figures_and_lines_of_every_other_run(
    judged: tuple[SuiteRun, Path],
) -> None:
    run, folder = judged
    summary = summary_in(folder)
    assert summary["meta"]["load_generator"].startswith("inference-endpoint 0.1.0, commit ea332753")
    path = "report/performance/result_summary.json"
    of_client = json.loads((folder / path).read_text())
    figures = summary["run"]["performance"]
    assert figures["tokens_per_sec"] == of_client["tps"]
    assert figures["ttft_ms"]["p99"] == of_client["ttft"]["percentiles"]["99.0"] / 1e6
    assert figures["early_stopping"]["estimates_ms"]["ttft"] > 0
    assert len(figures["blocks"]["tokens_per_sec"]) == 20
    assert figures["goodput"]["requests"] == of_client["n_samples_completed"]
    assert "valid" not in figures
    assert path in summary["logs"]
    page = (folder / "report.html").read_text()
    table = "Performance/requests.csv"
    assert table in summary["logs"] and f'<a href="{table}">' in page
    rows = list(csv.DictReader((folder / table).read_text().splitlines()))
    assert len(rows) == of_client["n_samples_completed"]
    assert {row["first_token_by"] for row in rows} == {"client"}
    assert max(float(row["ttft_ms"]) for row in rows) == pytest.approx(
        of_client["ttft"]["max"] / 1e6
    )
    assert "sent by inference-endpoint 0.1.0" in page
    assert "LoadGen says" not in page
    assert (folder / "plots" / "ttft.png").is_file()
    assert folder.name in (folder.parent / "index.md").read_text()
    assert path in (folder / "checksums.json").read_text()
    assert "p99 below 2,000 ms" in " ".join(run.output.split())
    assert "goodput" in run.output and "LoadGen: " not in run.output


def test_runs_of_two_load_generators_are_never_compared_in_silence() -> None:
    by_client = Summary(meta=Meta(load_generator="inference-endpoint 0.1.0, commit ea332753"))
    other = Summary(meta=Meta(load_generator="inference-endpoint 0.1.0, commit 00000000"))

    def names(first: Identity, second: Identity, *aspects: Aspect) -> list[str]:
        return [d.name for d in differences(first, second, aspects or EVERY_ASPECT)]

    of_client, of_loadgen = identity_of(None, by_client), identity_of(None, Summary())
    assert names(of_client, of_loadgen, "measurement") == ["load generator"]
    assert names(of_client, identity_of(None, other)) == ["load generator's version"]
    assert names(of_client, identity_of(None, other), "measurement") == []
    kept, own = (
        identity_of(Config(settings={"client": name})) for name in ("inference-endpoint", "loadgen")
    )
    assert "load generator" in names(kept, own)


def test_without_the_clients_scorer_the_run_says_that_it_cannot_be_submitted(
    judged: tuple[SuiteRun, Path],
) -> None:
    run, folder = judged
    config = json.loads((folder / "client.yaml").read_text())
    assert config["datasets"][1]["accuracy_config"]["eval_method"] == "string_match"
    assert "make endpoints-client again" in summary_in(folder)["meta"]["not_submittable"]
    assert "cannot be submitted: the client's rouge cannot run: " in run.output
    assert "It cannot be submitted" in (folder / "report.md").read_text()


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (None, "rouge does not start: No such file or directory"),
        ("x: Couldn't find a module script", "make endpoints-client EVALUA"),
        ("Resource punkt_tab not found", "punkt_tab is missing: make setup"),
        ("it broke", "the client's rouge cannot run: it broke"),
    ],
)
def test_why_the_clients_scorer_does_not_run_here(
    tmp_path: Path, says: str | None, words: str
) -> None:
    scorer = own_scorer(write_client(tmp_path, scorer=says), "llama3.1-8b", "rouge")
    assert scorer.name == "string_match" and words in scorer.fault
    runs = write_client(tmp_path, scorer="")
    assert own_scorer(runs, "llama3.1-8b", "rouge") == OwnScorer("rouge")
    assert "a code execution service" in own_scorer(runs, "deepseek-r1", "exact_match").fault


def test_a_later_run_has_the_clients_own_scores_and_is_compared_with_an_earlier_one(
    tmp_path: Path, server: RunningStandIn, judged: tuple[SuiteRun, Path]
) -> None:
    run = session(tmp_path, server.url, *SERVER, f"--baseline={judged[1]}", scorer="")
    folder = folder_of(tmp_path, "server")
    config = json.loads((folder / "client.yaml").read_text())
    assert config["datasets"][1]["accuracy_config"]["eval_method"] == "rouge"
    row = json.loads((folder / "accuracy.jsonl").read_text().splitlines()[0])
    assert len(row["reference"]) > 50
    summary = summary_in(folder)
    assert statuses(folder)["client_accuracy_gate"] == "passed", run.output
    assert "not_submittable" not in summary["meta"]
    # Other answers than the client says: the suite scores what it sees.
    assert "rouge1 is 40.0000 by the client's scorer and 4.7" in run.output
    assert "refused" not in summary["regression"], run.output
    assert "tokens_per_sec" in {metric["metric"] for metric in summary["regression"]["metrics"]}


def test_server_takes_its_rate_from_offline_and_leaves_out_what_is_not_asked(
    tmp_path: Path, server: RunningStandIn
) -> None:
    run = session(tmp_path, server.url, "-m", "server and datacenter and performance")
    offline, online = folder_of(tmp_path, "offline"), folder_of(tmp_path, "server")
    rate = json.loads((online / "client.yaml").read_text())["settings"]["load_pattern"]
    summary = (offline / "report" / "performance" / "result_summary.json").read_text()
    assert rate["target_qps"] == pytest.approx(0.8 * json.loads(summary)["qps"])
    assert [rule for rule in statuses(online) if "accuracy" in rule] == [], run.output
    assert "--mode perf" in (online / "arguments").read_text()


def test_a_client_that_dies_fails_the_session_in_one_line(
    tmp_path: Path, server: RunningStandIn
) -> None:
    run = session(tmp_path, server.url, *SERVER, behaviour="dies")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    reason = "inference-endpoint died with status 3: Failed to connect"
    assert f"llama3.1-8b Server with the official client: {reason}" in run.output
    assert "Traceback" not in run.output
    folder = folder_of(tmp_path, "server")
    assert (folder / "client.log").exists()
    meta = summary_in(folder)["meta"]
    assert (meta["status"], reason in meta["reason"]) == ("failed", True)


@pytest.mark.parametrize(("selection", "version"), [(SERVER, ""), (SERIES, "0.2.0")])
def test_without_the_client_the_session_says_how_to_get_it(
    tmp_path: Path, server: RunningStandIn, selection: tuple[str, ...], version: str
) -> None:
    if version:
        write_client(tmp_path / "client", version=version)
    arguments, made = words(tmp_path, server.url, *selection)
    run = run_suite(tmp_path / "results", *arguments, **made)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in run.output.splitlines() if line.startswith(("ERROR", "E: "))]
    assert "make endpoints-client" in line and ("is version 0.2.0" in line) == bool(version)
    assert not [*(tmp_path / "results").glob("*-llama3.1-8b-*")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scenario": "SingleStream"}, "--scenario SingleStream: cannot be used with --client"),
        ({"repeat": "2"}, "--repeat: cannot be used with --client"),
        ({"logs": "results"}, "--logs: cannot be used with --client"),
        ({"endpoint_header": ["X-Key=1"]}, "--endpoint-header: cannot be used with --client"),
        ({"endpoint_server": "text"}, "--endpoint-server text: cannot be used with --client"),
        ({"round": "v6.0"}, "--round v6.0: results of --client inference-endpoint are taken from"),
        ({"benchmark": ["llama2-70b-99"]}, "--benchmark llama2-70b-99: cannot be measured with"),
    ],
)
def test_what_cannot_go_together_is_refused_in_a_line(options: dict[str, Any], words: str) -> None:
    given = {"endpoint": ["http://127.0.0.1:9"], "client": "inference-endpoint", **options}
    with pytest.raises(UsageError, match=words):
        check_options_of_features(resolve_settings(given, {}))
    with pytest.raises(UsageError, match="--client: can only be used with --endpoint URL"):
        resolve_settings({"client": "inference-endpoint"}, {})


def test_a_run_issues_whole_passes_of_the_data() -> None:
    assert whole_passes(84, 5.0, 0.0) == whole_passes(84, None, 600.0) == 84
    assert whole_passes(100, 1.0, 600.0) == 700


OF_SERIES = (*SERIES, "--endpoint=http://127.0.0.1:1", CLIENT)


def test_the_series_selects_its_curve_alone() -> None:
    tests = collected_tests(*OF_SERIES)
    assert tests and all("test_curve.py" in test for test in tests)
    assert tests == collected_tests(*OF_SERIES[1:], "-m", "curve")
    assert "(--series endpoints)" in reasons(collect(*OF_SERIES))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*OF_SERIES, "-m", "server"), "--series endpoints: leaves nothing to run of 'server'"),
        ((*OF_SERIES, "--scenario=Server"), "--scenario Server, --series endpoints: leaves"),
        (OF_SERIES[:1], "--series: can only be used with --endpoint URL"),
        (OF_SERIES[:2], "--series endpoints: can only be used with --client inference-endpoint"),
        ((*OF_SERIES, "--benchmark=llama3.1-8b-edge"), "cannot be measured with --series endpoin"),
    ],
)
def test_what_the_series_does_not_measure_is_a_usage_error(
    arguments: tuple[str, ...], message: str
) -> None:
    assert message in usage_error(*arguments)
