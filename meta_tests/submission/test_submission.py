"""Submissions from result folders: the tree of each round, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from mlperf_suite.submission.texts import REPLAY_NOTICE, cut_accuracy_log

from meta_tests.made_runs import MadeRun, remote_run, system_fields, with_a_long_one, write_run
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.engines.protocol import REPLAY
from mlperf_suite.hardware import describe_system
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL
from mlperf_suite.results.run_folder import RunFolder, changed_since_run, read_checksums
from mlperf_suite.results.typed_json import to_json
from mlperf_suite.rules import judge

V6_1 = ROUNDS["v6.1"]
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
Change = Callable[[dict[str, Any]], object]


def write_result(
    results_dir: Path,
    benchmark: Benchmark,
    scenario: Scenario,
    round_: Round = V6_1,
    *,
    modes: Sequence[str] = MODES,
    config: Change = lambda config: None,
    meta: Change = lambda meta: None,
    summary: Change = lambda summary: None,
) -> Path:
    """A result folder as the suite leaves it after runs that obey every rule."""
    folder = RunFolder(results_dir, benchmark.id, scenario.name, datetime(2026, 11, 20))
    workload = benchmark.workload
    assert workload is not None
    verdicts: list[dict[str, object]] = []
    for mode in cast(Sequence[Mode], modes):
        audit = benchmark.audit(mode)
        if mode in AUDIT_MODES and audit is None:
            continue
        logs, run = folder.of_mode(mode), MadeRun(benchmark, scenario, mode, round_)
        write_run(logs, run)
        (logs / "user.conf").write_text("made up\n")
        verdicts += [v.as_json() for v in judge(run.facts())] if audit else []
        run.answers = run.answers[:120]
        if mode == "accuracy":
            run.answers = list(with_a_long_one(run.answers, run.longest))
        (logs / ACCURACY).write_text(run.accuracy_json)
        if mode == "accuracy" or (audit and audit.least_score):
            scores = {
                score.name if score.unit == "%" else f"run_{score.name}": float(score.value)
                for score in benchmark.reference.scores
            }
            scores["run_gen_num"] = benchmark.samples_of(mode)
            (logs / f"{workload.scorer.name}.json").write_text(json.dumps(scores))
    if verdicts:
        (folder.compliance / "verdicts.json").write_text(json.dumps(verdicts))
    settings = {"profile": "official", "round": round_.name, "model": workload.model}
    output = {
        "settings": {**settings, "precision": "bf16", "engine_args": {}},
        "engine": {"name": "vLLM", "version": "0.32.0", "stand_in": False},
        "dataset": {"name": "cnn_eval.json", "samples": benchmark.samples, "sha256": "0"},
        "prompts_sha256": "0",
        "system": dict(describe_system()),
    }
    config(output)
    folder.write("config.json", output)
    of_run = {"benchmark": benchmark.id, "scenario": scenario.name, "status": "complete"}
    meta(of_run)
    content: dict[str, Any] = {"meta": of_run}
    summary(content)
    folder.write("summary.json", content)
    folder.record_checksums()
    return folder.path


def write_results(results_dir: Path, *benchmarks: Benchmark, **changes: Any) -> list[Path]:
    """A result of each scenario; `changes`: as in `write_result`."""
    return [write_result(results_dir, b, s, **changes) for b in benchmarks for s in b.scenarios]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "system.json"
    described = system_fields() | {"system_name": "1x Made Up", "status": "available"}
    for said_by_the_command in ("submitter", "division", "system_type"):
        described.pop(said_by_the_command)
    path.write_text(json.dumps(described))
    return path


@pytest.fixture
def submit(
    tmp_path: Path, system: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command on results into tmp_path/tree; its exit status and all that it printed."""

    def run(results: list[Path], *more: str, round_: str = "v6.1", division: str = "closed") -> Any:
        options = {"--submitter": "Someone", "--system": str(system), "--division": division}
        options |= {"--round": round_, "--out": str(tmp_path / "tree")}
        options |= dict(zip(more[::2], more[1::2], strict=False)) if len(more) > 1 else {}
        words = [word for pair in options.items() for word in pair if word]
        words += list(more) if len(more) == 1 else []
        status = main(["submission", "--results", *map(str, results), *words])
        output = capsys.readouterr()
        return status, output.out + output.err

    return run


def failed_rules(root: Path) -> dict[str, list[str]]:
    return {j.name: j.failed_rules for j in judge_folder(root) if j.failed_rules}


def files(root: Path) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}


# What is built


@pytest.mark.parametrize("round_", ROUNDS.values(), ids=lambda r: r.name)
def test_a_tree_of_every_round_obeys_every_rule(tmp_path: Path, submit: Any, round_: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B, LLAMA3_1_8B_EDGE, round_=round_)
    status, output = submit(runs, round_=round_.name)
    assert status == 0, output
    judged = judge_folder(tmp_path / "tree")
    assert {j.round.name for j in judged} == {round_.name}
    assert failed_rules(tmp_path / "tree") == {}
    assert len(judged) == 2 + 5


def test_the_tree_has_the_files_of_layout_v6(tmp_path: Path, submit: Any) -> None:
    assert submit(write_results(tmp_path / "results", LLAMA3_1_8B))[0] == 0
    assert files(tmp_path / "tree/closed/Someone") == {
        "systems/1x_Made_Up.json",
        "src/llama3.1-8b/README.md",
    } | {
        f"results/1x_Made_Up/llama3.1-8b/{scenario}/{name}"
        for scenario in ("Offline", "Server", "Interactive")
        for name in (
            "README.md",
            "measurements.json",
            "user.conf",
            "TEST06/verify_accuracy.txt",
            "TEST06/accuracy/mlperf_log_accuracy.json",
            "TEST06/performance/run_1/mlperf_log_detail.txt",
            "TEST06/performance/run_1/mlperf_log_summary.txt",
            "accuracy/accuracy.txt",
            "accuracy/mlperf_log_accuracy.json",
            "accuracy/mlperf_log_detail.txt",
            "accuracy/mlperf_log_summary.txt",
            "performance/run_1/mlperf_log_detail.txt",
            "performance/run_1/mlperf_log_summary.txt",
        )
    }


def test_layout_v5_has_measurements_and_compliance_beside_results(
    tmp_path: Path, submit: Any
) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B, round_=ROUNDS["v5.1"])
    assert submit(runs, round_="v5.1")[0] == 0
    home = tmp_path / "tree/closed/Someone"
    place = "1x_Made_Up/llama3.1-8b/Server"
    assert (home / "code/llama3.1-8b/README.md").is_file()
    assert (home / "measurements" / place / "1x_Made_Up_vllm_Server.json").is_file()
    assert (home / "compliance" / place / "TEST06/verify_accuracy.txt").is_file()
    assert not (home / "results" / place / "TEST06").exists()


def test_the_logs_are_the_runs_own_and_the_accuracy_log_is_cut(tmp_path: Path, submit: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    assert submit(runs)[0] == 0
    place = tmp_path / "tree/closed/Someone/results/1x_Made_Up/llama3.1-8b-edge/Offline"
    for own_folder, folder in (("Accuracy", "accuracy"), ("Performance", "performance/run_1")):
        assert (place / folder / DETAIL).read_bytes() == (
            runs[0] / own_folder / DETAIL
        ).read_bytes()
    whole = (runs[0] / "Accuracy" / ACCURACY).read_bytes()
    cut = (place / "accuracy" / ACCURACY).read_bytes()
    assert len(cut) < 10 * 1024 < len(whole)
    assert whole.startswith(cut[:4096]) and whole.endswith(cut[-4096:])
    digest = read_checksums(runs[0])[f"Accuracy/{ACCURACY}"]
    assert f"hash={digest}\n" in (place / "accuracy/accuracy.txt").read_text()


def test_a_short_accuracy_log_stays_whole() -> None:
    assert cut_accuracy_log(b"x" * 8192) == b"x" * 8192


def test_an_open_submission_needs_no_test06_and_no_gate(tmp_path: Path, submit: Any) -> None:
    run = write_result(
        tmp_path / "results",
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        modes=("accuracy", "performance"),
    )
    assert "refused" in submit([run])[1]
    status, output = submit([run], division="open")
    assert status == 0, output


def test_the_modes_of_a_scenario_may_come_from_several_runs(tmp_path: Path, submit: Any) -> None:
    scenarios = LLAMA3_1_8B_EDGE.scenarios
    runs = [
        write_result(tmp_path / mode, LLAMA3_1_8B_EDGE, scenario, modes=(mode,))
        for scenario in scenarios
        for mode in ("accuracy", "performance")
    ]
    status, output = submit(runs)
    assert status == 0, output


def test_what_only_a_person_knows_is_listed_and_not_invented(tmp_path: Path, submit: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    status, output = submit(runs, "--system", "auto")
    assert status == 1
    assert "fill in by hand" in output
    assert "  status empty" in output and "  cooling empty" in output
    (path,) = (tmp_path / "tree/closed/Someone/systems").iterdir()
    described = json.loads(path.read_text())
    assert described["status"] == described["cooling"] == ""
    assert described["system_type"] == "edge" and described["number_of_nodes"] == "1"
    assert set(failed_rules(tmp_path / "tree").popitem()[1]) == {
        "system_description",
        "system_fields",
    }


def test_the_clients_machine_is_not_described_as_the_system(tmp_path: Path, submit: Any) -> None:
    part = {"run": {"remote": {"performance": to_json(remote_run())}}}
    kind = (LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
    run = write_result(tmp_path / "results", *kind, summary=lambda summary: summary.update(part))
    status, output = submit([run], "--system", "auto", division="open")
    assert status == 2 and "--system auto: the runs measured servers" in output


def test_of_a_local_folder_of_weights_a_person_must_speak(tmp_path: Path, submit: Any) -> None:
    def local(config: dict[str, Any]) -> None:
        config["settings"]["model"] = "/models/llama"

    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=local)
    status, output = submit(runs)
    assert status == 1 and "  retraining" in output and "weight_transformations" in output
    shutil.rmtree(tmp_path / "tree")
    words = {
        "retraining": "no",
        "weight_transformations": "none",
        "starting_weights_filename": "model.safetensors",
    }
    (tmp_path / "measurements.json").write_text(json.dumps(words))
    status, output = submit(runs, "--measurements", str(tmp_path / "measurements.json"))
    assert status == 0, output
    assert failed_rules(tmp_path / "tree") == {}
    for name in files(tmp_path / "tree"):
        assert "/models" not in (tmp_path / "tree" / name).read_text(), name


def test_the_readme_says_how_to_run_it_again(tmp_path: Path, submit: Any) -> None:
    def change(config: dict[str, Any]) -> None:
        config["settings"] |= {
            "tensor_parallel_size": 2,
            "high_accuracy": True,
            "engine_args": {"max_num_seqs": 512, "compilation_config": {"mode": 3}},
        }
        config["dataset"]["name"] = "my news.json"

    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=change)
    assert submit(runs)[0] == 0
    place = "closed/Someone/results/1x_Made_Up/llama3.1-8b-edge/Offline/README.md"
    assert (
        "pytest -m offline --benchmark llama3.1-8b-edge --profile official --round v6.1 "
        "--model meta-llama/Llama-3.1-8B-Instruct --dataset 'my news.json' --precision bf16 "
        "--tensor-parallel-size 2 --high-accuracy "
        "--engine-arg max_num_seqs=512 --engine-arg 'compilation_config={\"mode\": 3}'\n"
    ) in (tmp_path / "tree" / place).read_text()


SERVERS = ["http://one:8000", "https://two/v1x"]


def on_servers(config: dict[str, Any]) -> None:
    """A run on two SGLang servers, of which the suite knows neither weights nor arguments."""
    for name in ("precision", "engine_args"):
        config["settings"].pop(name)
    config["settings"] |= {
        "endpoints": SERVERS,
        "endpoint_server": None,
        "endpoint_routing": "round-robin",
        "endpoint_ca": "/home/me/authority.pem",
        "endpoint_headers": ["X-Team"],
        "served_model_name": "llama",
        "api_key": "set",
    }
    config["engine"] |= {"name": "SGLang server", "version": "0.5"}
    config["engine"]["settings"] = {"endpoints": SERVERS, "server": "sglang", "tokens": "ids"}


def test_the_readme_of_a_run_on_servers_says_where_they_were_and_what_they_were_sent(
    tmp_path: Path, submit: Any
) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=on_servers)
    status, output = submit(runs)
    # What the suite cannot know of the servers' weights is a person's to say.
    assert status == 1 and "retraining\n" in output, output
    home = tmp_path / "tree/closed/Someone"
    text = (home / "results/1x_Made_Up/llama3.1-8b-edge/Offline/README.md").read_text()
    assert (
        "To rerun it, with the key in API_KEY and the headers X-Team in the settings file:\n"
    ) in text
    assert (
        "pytest -m offline --benchmark llama3.1-8b-edge --profile official --round v6.1 "
        "--model meta-llama/Llama-3.1-8B-Instruct --dataset cnn_eval.json "
        "--served-model-name llama --endpoint http://one:8000 --endpoint https://two/v1x "
        "--endpoint-routing round-robin --endpoint-ca authority.pem\n"
    ) in text
    for row in ("engine | SGLang server 0.5", "precision | not known", "engine arguments | the"):
        assert f"| {row}" in text
    assert (
        "on SGLang server 0.5, reached over HTTP, and"
        in (home / "src/llama3.1-8b-edge/README.md").read_text()
    )
    measurements = json.loads(
        (home / "results/1x_Made_Up/llama3.1-8b-edge/Offline/measurements.json").read_text()
    )
    for unknown in ("starting_weights_filename", "retraining", "weight_transformations"):
        assert measurements[unknown] == "", unknown


def test_a_file_of_layout_v5_is_named_after_the_server_that_was_measured(
    tmp_path: Path, submit: Any
) -> None:
    v5_1 = ROUNDS["v5.1"]
    runs = write_results(tmp_path / "results", LLAMA3_1_8B, round_=v5_1, config=on_servers)
    submit(runs, round_="v5.1")
    place = tmp_path / "tree/closed/Someone/measurements/1x_Made_Up/llama3.1-8b/Server"
    assert (place / "1x_Made_Up_sglang_Server.json").is_file()


def test_the_readme_says_how_the_engine_was_set_where_that_was_left_to_it(
    tmp_path: Path, submit: Any
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["settings"] |= {
            "precision": "auto",
            "tensor_parallel_size": None,
            "max_new_tokens": 128,
        }
        config["engine"]["settings"] = {"tensor_parallel_size": 8, "dtype": "bfloat16"}

    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=change)
    assert submit(runs)[0] == 0
    place = "closed/Someone/results/1x_Made_Up/llama3.1-8b-edge/Offline/README.md"
    output = (tmp_path / "tree" / place).read_text()
    assert "| tensor parallel size | 8 |" in output and "| precision | bfloat16 |" in output
    for left_out in ("--precision", "--tensor-parallel-size", "--max-new-tokens"):
        assert left_out not in output


# What is refused


def _set(part: str, name: str, value: object) -> Change:
    return lambda config: config[part].update({name: value})


CONFIGS: dict[str, tuple[Change, str]] = {
    "smoke": (_set("settings", "profile", "smoke"), "a smoke run"),
    "another round": (_set("settings", "round", "v6.0"), "a run of round v6.0, not of v6.1"),
    "a stand-in": (_set("engine", "stand_in", True), "made with a stand-in engine"),
    "a replay": (
        lambda config: config["engine"].update({"stand_in": True, "name": REPLAY}),
        "made with a replay of prepared answers",
    ),
    "longer answers": (_set("settings", "max_new_tokens", 130), "at most 130 new tokens, not 128"),
    "a prefix cache": (
        _set("engine", "settings", {"enable_prefix_caching": True}),
        "a prefix cache",
    ),
    "text alone": (
        _set("engine", "settings", {"tokens": "text"}),
        "the server returns text only: its tokens are counted with the model's tokenizer, and "
        "TEST06 cannot be judged",
    ),
    "another machine": (_set("system", "cpu", "another"), "a different system from that of"),
    "another vLLM": (_set("system", "vllm_version", "0.1"), "vllm_version 0.1"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_runs_that_are_no_results_are_refused(tmp_path: Path, submit: Any, name: Any) -> None:
    change, reason = CONFIGS[name]
    runs = [
        write_result(tmp_path / "results", LLAMA3_1_8B_EDGE, scenario, config=changing)
        for scenario, changing in zip(
            LLAMA3_1_8B_EDGE.scenarios, (change, lambda config: None), strict=True
        )
    ]
    status, output = submit(runs)
    assert status == 2 and reason in output
    assert not (tmp_path / "tree").exists() and not list(tmp_path.glob(".tree*"))


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (
            {"verdicts": [{"rule": "client_bound", "status": "failed"}]},
            "client-bound: not a result",
        ),
        (
            {"run": {"remote": {"accuracy": to_json(remote_run(departures=("3 answers cut",)))}}},
            "accuracy: 3 answers cut",
        ),
        ({"meta": {"profiler": "torch"}}, "profiled: not a result"),
    ],
)
def test_what_a_server_its_client_or_a_profiler_spoiled_is_refused(
    tmp_path: Path, submit: Any, part: Any, reason: Any
) -> None:
    def change(summary: dict[str, Any]) -> None:
        summary |= part | {"meta": summary["meta"] | part.get("meta", {})}

    kind = (LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
    status, output = submit([write_result(tmp_path / "results", *kind, summary=change)])
    assert status == 2 and f": {reason}\n" in output


@pytest.mark.parametrize("status", ["failed", "running", "unheard of", None])
def test_a_run_that_did_not_end_is_refused(tmp_path: Path, submit: Any, status: Any) -> None:
    def change(meta: dict[str, Any]) -> None:
        meta.update(status=status, reason="the engine died")

    run = write_result(
        tmp_path / "results", LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0], meta=change
    )
    assert f"{status or 'unknown'}: the engine died" in submit([run])[1]


SETTINGS = {
    "model": ("settings", "model", "another"),
    "setting precision": ("settings", "precision", "fp16"),
    "setting engine_args": ("settings", "engine_args", {"quantization": "fp8"}),
    "data sha256": ("dataset", "sha256", "1"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_accuracy_of_another_system_is_refused(tmp_path: Path, submit: Any, name: Any) -> None:
    scenario = LLAMA3_1_8B_EDGE.scenarios[0]
    kind = (LLAMA3_1_8B_EDGE, scenario)
    runs = [
        write_result(tmp_path / "a", *kind, modes=("accuracy",), config=_set(*SETTINGS[name])),
        write_result(tmp_path / "p", *kind, modes=("performance",)),
    ]
    status, output = submit(runs)
    assert status == 2 and f"not the same in accuracy and performance: {name} " in output


ENGINE = {"tensor_parallel_size": 8, "dtype": "bfloat16", "max_num_seqs": 256, "load_s": 60.1}


@pytest.mark.parametrize(
    ("name", "value"), [("tensor_parallel_size", 4), ("dtype", "float16"), ("max_num_seqs", 64)]
)
def test_accuracy_of_an_engine_that_chose_otherwise_is_refused(
    tmp_path: Path, submit: Any, name: Any, value: Any
) -> None:
    kind = (LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
    settings = (ENGINE, ENGINE | {name: value})
    runs = [
        write_result(
            tmp_path / mode, *kind, modes=(mode,), config=_set("engine", "settings", engine)
        )
        for mode, engine in zip(("accuracy", "performance"), settings, strict=True)
    ]
    status, output = submit(runs)
    assert status == 2
    reason = f"the engine's {name} {ENGINE[name]} and {value}"
    assert f"not the same in accuracy and performance: {reason}\n" in output


def test_accuracy_of_an_engine_with_another_context_is_refused(tmp_path: Path, submit: Any) -> None:
    kind = (LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
    runs = [
        write_result(
            tmp_path / mode, *kind, modes=(mode,), config=_set("engine", "max_model_len", room)
        )
        for mode, room in (("accuracy", 8192), ("performance", 4096))
    ]
    assert "the engine's max_model_len 8192 and 4096" in submit(runs)[1]


def test_what_was_asked_for_does_not_matter_where_the_engine_has_no_cache(
    tmp_path: Path, submit: Any
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["settings"]["engine_args"] = {"enable_prefix_caching": True}
        config["engine"]["settings"] = ENGINE | {"enable_prefix_caching": False}

    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=change)
    status, output = submit(runs)
    assert status == 0, output


def test_a_score_that_is_not_in_the_runs_file_is_refused_by_its_name(
    tmp_path: Path, submit: Any
) -> None:
    run = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)[0]
    scores = run / "Accuracy/rouge.json"
    kept_file = {n: v for n, v in json.loads(scores.read_text()).items() if n != "rouge2"}
    scores.write_text(json.dumps(kept_file))
    (run / "checksums.json").unlink()
    _sealed_again(run, json.loads((run / "config.json").read_text()))
    assert "rouge2 not among the scores" in submit([run])[1]


def test_another_time_to_load_or_reason_is_the_same_engine(tmp_path: Path, submit: Any) -> None:
    variants = ({"load_s": 60.1, "dtype_why": "asked for"}, {"load_s": 61.2, "dtype_why": "auto"})
    runs = [
        write_result(
            tmp_path / mode,
            LLAMA3_1_8B_EDGE,
            scenario,
            modes=(mode,),
            config=_set("engine", "settings", ENGINE | variant),
        )
        for scenario in LLAMA3_1_8B_EDGE.scenarios
        for mode, variant in zip(("accuracy", "performance"), variants, strict=True)
    ]
    status, output = submit(runs)
    assert status == 0, output


def _append(path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        with (folder / path).open("a") as file:
            file.write("\n")

    return change


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed log": (_append(f"Performance/{DETAIL}"), f"Performance/{DETAIL} was changed"),
    "changed settings": (_append("config.json"), "config.json was changed after the run"),
    "changed scores": (_append("Accuracy/rouge.json"), "Accuracy/rouge.json was changed"),
    "a log that is gone": (
        lambda folder: (folder / "Accuracy" / ACCURACY).unlink(),
        f"Accuracy/{ACCURACY} is missing",
    ),
    "a log that was put there": (
        lambda folder: write_run(
            folder / "Compliance/TEST06",
            MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0], "test06", V6_1),
        ),
        "was added after the run",
    ),
    "no checksums": (lambda folder: (folder / "checksums.json").unlink(), "no checksums.json"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_that_was_changed_since_is_refused(tmp_path: Path, submit: Any, name: Any) -> None:
    change, reason = CHANGES[name]
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    assert changed_since_run(runs[0]) == []
    change(runs[0])
    status, output = submit(runs)
    assert status == 2 and f"{runs[0]}: " in output and reason in output


def test_every_reason_is_said(tmp_path: Path, submit: Any) -> None:
    change = CONFIGS["smoke"][0]
    v6_0 = ROUNDS["v6.0"]
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, round_=v6_0, config=change)
    output = submit(runs)[1]
    assert output.count("a smoke run") == output.count("a run of round v6.0") == 2


def test_what_breaks_a_rule_is_refused_by_its_name(tmp_path: Path, submit: Any) -> None:
    scenario = LLAMA3_1_8B_EDGE.scenarios[0]
    run = write_result(tmp_path / "results", LLAMA3_1_8B_EDGE, scenario, ROUNDS["v6.0"])
    config = json.loads((run / "config.json").read_text())
    config["settings"]["round"] = "v6.1"
    output = submit([_sealed_again(run, config)])[1]
    assert "seeds: found" in output and "required_scenarios: found" in output


def _sealed_again(run: Path, config: dict[str, Any]) -> Path:
    """The run, as if it had been made with this configuration."""
    (run / "config.json").write_text(json.dumps(config))
    folder = object.__new__(RunFolder)
    folder.path = run
    folder.record_checksums()
    return run


@pytest.mark.parametrize(
    ("field", "value"),
    [("submitter", "Another"), ("division", "open"), ("system_type", "datacenter")],
)
@pytest.mark.parametrize("status", ["available", ""])
def test_a_description_of_something_else_is_refused(
    tmp_path: Path, submit: Any, system: Any, field: Any, value: Any, status: Any
) -> None:
    changed = json.loads(system.read_text()) | {field: value, "status": status}
    system.write_text(json.dumps(changed))
    code, output = submit(write_results(tmp_path / "results", LLAMA3_1_8B_EDGE))
    assert code == 2 and f"system_description: found {field} {value!r}" in output


def test_two_runs_of_the_same_scenario_are_refused(tmp_path: Path, submit: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    again = write_result(tmp_path / "more", LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
    assert "choose one of them" in submit([*runs, again])[1]


def test_another_name_of_the_same_run_is_no_second_run(tmp_path: Path, submit: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    latest = tmp_path / "results/latest"
    latest.symlink_to(runs[0].name)
    status, output = submit([latest, *runs])
    assert status == 0, output


def test_a_replay_beside_a_measurement_is_refused(tmp_path: Path, submit: Any) -> None:
    changes = (CONFIGS["a replay"][0], lambda config: None)
    runs = [
        write_result(tmp_path / "results", LLAMA3_1_8B_EDGE, scenario, config=change)
        for scenario, change in zip(LLAMA3_1_8B_EDGE.scenarios, changes, strict=True)
    ]
    assert "replays and measurements cannot be in one tree" in submit(runs, "--allow-replay")[1]


def _not_begun(config: dict[str, Any]) -> None:
    """What stands in config.json before the engine is loaded and the data is read."""
    for later in ("engine", "dataset", "prompts_sha256"):
        del config[later]


@pytest.mark.parametrize("variant", ["a replay", "a measurement"])
@pytest.mark.parametrize(
    "modes", [(), ("performance",), MODES], ids=["just begun", "part of a scenario", "scenario"]
)
def test_a_run_that_goes_on_is_refused_for_that_alone(
    tmp_path: Path, submit: Any, variant: Any, modes: Any
) -> None:
    change = CONFIGS["a replay"][0] if variant == "a replay" else lambda config: None
    first, second = LLAMA3_1_8B_EDGE.scenarios
    rest = [score for score in MODES if score not in modes]
    runs = [write_result(tmp_path / "results", LLAMA3_1_8B_EDGE, first, config=change)]
    running = write_result(
        tmp_path / "results",
        LLAMA3_1_8B_EDGE,
        second,
        modes=modes,
        config=_not_begun,
        meta=lambda meta: meta.update(status="running"),
    )
    if rest:
        more = write_result(tmp_path / "more", LLAMA3_1_8B_EDGE, second, modes=rest, config=change)
        runs.append(more)
    status, output = submit([*runs, running], *["--allow-replay"][: variant == "a replay"])
    assert status == 2
    lines = [line for line in output.splitlines() if line.startswith("refused: ")]
    assert lines == [
        f"refused: {running}: running: wait until it has finished, or rerun it if it was killed"
    ]


def test_a_scenario_without_accuracy_is_refused(tmp_path: Path, submit: Any) -> None:
    run = write_result(
        tmp_path, LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0], modes=("performance",)
    )
    assert "llama3.1-8b-edge Offline: no accuracy run among the results" in submit([run])[1]


def test_text_that_no_file_can_hold_is_said(tmp_path: Path, submit: Any, system: Any) -> None:
    system.write_text(system.read_text().replace("made up", "\\ud800", 1))
    status, output = submit(write_results(tmp_path / "results", LLAMA3_1_8B_EDGE))
    assert status == 2 and f"--system {system}: not JSON" in output


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--submitter", "../other", "--submitter ../other"),
        ("--system", "absent.json", "--system absent.json"),
        ("--measurements", "absent.json", "--measurements absent.json"),
    ],
)
def test_what_cannot_be_used_is_said(
    tmp_path: Path, submit: Any, option: Any, value: Any, reason: Any
) -> None:
    status, output = submit(write_results(tmp_path / "results", LLAMA3_1_8B_EDGE), option, value)
    assert status == 2 and reason in output and not (tmp_path / "tree").exists()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, submit: Any) -> None:
    kept_file = tmp_path / "tree/kept"
    kept_file.parent.mkdir()
    kept_file.touch()
    status, output = submit(write_results(tmp_path / "results", LLAMA3_1_8B_EDGE))
    assert status == 2 and "already exists" in output and kept_file.exists()


def test_a_folder_that_is_no_run_is_said(tmp_path: Path, submit: Any) -> None:
    assert "no summary.json and config.json of a run" in submit([tmp_path])[1]


# Replays


def test_a_replays_tree_says_so_wherever_a_sentence_can_stand(tmp_path: Path, submit: Any) -> None:
    change = CONFIGS["a replay"][0]
    runs = write_results(tmp_path / "results", LLAMA3_1_8B, config=change)
    status, output = submit(runs, "--allow-replay")
    assert status == 0, output
    assert REPLAY_NOTICE in output
    loadgens = (DETAIL, "mlperf_log_summary.txt", ACCURACY)
    for name in files(tmp_path / "tree"):
        if Path(name).name not in loadgens:
            assert REPLAY_NOTICE in (tmp_path / "tree" / name).read_text(), name
    assert failed_rules(tmp_path / "tree") == {}
