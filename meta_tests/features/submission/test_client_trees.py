"""Trees of round v6.1 from the official HTTP client's results, alone and beside LoadGen's."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from meta_tests.features.submission.result_folders import (
    client_folders,
    failed_rules,
    files,
    submit,
    write_result,
)
from meta_tests.features.submission_check.made_power import write_session
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.rules.registry import rules_of

pytestmark = pytest.mark.usefixtures("yaml_once")
V6_1 = ROUNDS["v6.1"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The client's folder of each scenario, which tests leave as they are."""
    return client_folders(tmp_path_factory.mktemp("client"))


def failed(tree: Path) -> list[str]:
    return [v.line for g in judge_folder(tree, V6_1) for v in g.verdicts if v.status == "failed"]


def test_the_clients_results_make_a_tree(tmp_path: Path, folders: dict[str, Path]) -> None:
    # A run that the suite made with the client has the client's files in report/.
    shutil.copytree(folders["Offline"], tmp_path / "run" / "report")
    of_scenarios = folders | {"Offline": tmp_path / "run"}
    results = [f"llama3.1-8b/{name}={folder}" for name, folder in of_scenarios.items()]
    assert submit(tmp_path, *results) == 0
    tree = tmp_path / "tree"
    names = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()}
    home, scenario = "closed/Someone", "closed/Someone/results/box/llama3.1-8b/Server"
    of_run = ("performance/result_summary.json", "accuracy/accuracy_results.json", "config.yaml")
    assert {n for n in names if n.startswith(scenario)} == {
        f"{scenario}/{name}" for name in (*of_run, "measurements.json", "README.md")
    }
    assert {f"{home}/systems/box.json", f"{home}/src/llama3.1-8b/README.md"} <= names
    assert failed(tree) == []


def test_a_run_of_the_suite_is_named_by_its_folder(
    tmp_path: Path, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folders["Server"], run / "report")
    offline = f"llama3.1-8b/Offline={folders['Offline']}"
    meta = Meta(
        benchmark="llama3.1-8b", scenario="Server", load_generator="inference-endpoint 0.1.0"
    )
    (run / "summary.json").write_text(json.dumps(Summary(meta=meta).as_json()))
    # What only a person can fill in is listed, as for LoadGen's results.
    assert submit(tmp_path, str(run), offline, measurements=False) == 1
    assert "  weight_data_types" in capsys.readouterr().out
    config = run / "report" / "config.yaml"
    content = yaml.safe_load(config.read_text())
    content["datasets"] = [{"accuracy_config": {"eval_method": "string_match"}}]
    config.write_text(yaml.safe_dump(content))
    shutil.rmtree(tmp_path / "tree")
    said = refusals(tmp_path, capsys, str(run), offline)
    assert "no score of the client's own scorer (string_match)" in said


def refusals(
    root: Path, capsys: pytest.CaptureFixture[str], *results: str, round_: str = "v6.1"
) -> str:
    assert submit(root, *results, round_=round_) == 2
    assert not (root / "tree").exists()
    return capsys.readouterr().err


def test_what_cannot_be_submitted_is_refused(
    tmp_path: Path, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(folders["Server"], tmp_path / "server"))
    named = f"llama3.1-8b/Server={folder}"
    assert f"write, for example, llama3.1-8b/Server={folder}" in refusals(
        tmp_path, capsys, str(folder)
    )
    assert "v6.0 takes no results of the official client" in refusals(
        tmp_path, capsys, named, round_="v6.0"
    )
    assert "llama3.1-8b Server is in" in refusals(tmp_path, capsys, named, named)
    # Events of another run.
    (folder / "events.jsonl").write_text(
        '{"event_type": "session.start_performance_tracking", "timestamp_ns": 1}\n'
    )
    assert "client_events_agree: found issued" in refusals(tmp_path, capsys, named)
    (folder / "accuracy/accuracy_results.json").write_text("{")
    assert f"{folder}: accuracy_results.json" in refusals(tmp_path, capsys, named)
    (folder / "accuracy/accuracy_results.json").unlink()
    assert f"{folder}: no accuracy_results.json" in refusals(tmp_path, capsys, named)
    (folder / "config.yaml").unlink()
    assert f"{folder}: no config.yaml of the client" in refusals(tmp_path, capsys, named)
    named = f"llama3.1-8b/Server={folders['Server'].parent}"
    assert "3 results below it; name each of them" in refusals(tmp_path, capsys, named)


# A submission with PTDaemon's sessions: each in its place, of its own run, and judged


SCENARIOS = ("Offline", "Server")
Submit = Callable[..., tuple[int, str]]


def make(folder: Path, round_: str = "v6.1") -> tuple[list[Path], Path]:
    """Results of two scenarios, and a folder with the session of each."""
    runs = []
    for name in SCENARIOS:
        scenario = LLAMA3_1_8B.scenario(name)
        run = write_result(folder / "results", LLAMA3_1_8B, scenario, ROUNDS[round_])
        write_session(folder / "ptd" / name, run / "Performance")
        runs.append(run)
    return runs, folder / "ptd"


@pytest.mark.parametrize("name", ["v5.1", "v6.1"])
def test_each_session_lies_where_the_round_wants_it(
    tmp_path: Path, submit: Submit, name: str
) -> None:
    runs, power = make(tmp_path, name)
    status, output = submit(runs, "--power", str(power), round_=name)
    assert status == 0, output
    performance = next((tmp_path / "tree").glob("closed/*/results/*/*/Offline/performance"))
    of_power = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
    log_names = ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "spl.txt")
    assert files(performance) == {f"power/{file}" for file in of_power} | {
        f"{mode}/{file}" for mode in ("ranging", "run_1") for file in log_names
    }
    judged = [v for j in judge_folder(tmp_path / "tree", ROUNDS[name]) for v in j.verdicts]
    power_rules = {rule.name for rule in rules_of("power")}
    assert sum(v.rule in power_rules for v in judged) == 2 * len(power_rules)
    assert failed_rules(tmp_path / "tree") == {}
    (server,) = performance.glob("power/server.json")
    server.write_text(json.dumps({**json.loads(server.read_text()), "debug": True}))
    assert list(failed_rules(tmp_path / "tree").values()) == [["power_debug"]]


def replace_power_run(power: Path) -> None:
    log = power / "Server" / "run_1" / DETAIL
    log.write_text(log.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace_power_run, "Server: its run_1/ is the performance run of none of the results"),
        (lambda power: shutil.copytree(power / "Offline", power / "again"), "8b Offline has"),
        (shutil.rmtree, "--power "),
        (lambda power: [*map(shutil.rmtree, power.iterdir())], "--power "),
        (lambda power: (power / "Offline/run_1/spl.txt").write_text(""), "power_samples: found no"),
        (lambda power: (power / "Offline/ranging/spl.txt").unlink(), "ranging/spl.txt missing"),
    ],
    ids=["other run", "two of a run", "absent", "no session", "breaks a rule", "lacks a file"],
)
def test_what_is_no_session_of_the_results_is_refused(
    tmp_path: Path, submit: Submit, change: Callable[[Path], object], words: str
) -> None:
    runs, power = make(tmp_path)
    change(power)
    status, output = submit(runs, "--power", str(power))
    assert status == 2 and words in output
    assert not (tmp_path / "tree").exists()
