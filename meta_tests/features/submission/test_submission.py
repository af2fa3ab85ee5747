"""Submissions from result folders: the tree of each round, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.submission.result_folders import (
    MODES,
    V6_1,
    Change,
    failed_rules,
    files,
    submission_words,
    write_result,
    write_results,
    write_system,
)
from meta_tests.made_runs import MadeRun, remote_run, write_run
from meta_tests.tampering.edits import at, text_edited
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.engines.protocol import REPLAY
from mlperf_suite.features.submission.texts import REPLAY_NOTICE, cut_accuracy_log
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL
from mlperf_suite.results.run_folder import RunFolder, changed_since_run, read_checksums
from mlperf_suite.results.typed_json import to_json

EDGE_OFFLINE = (LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenarios[0])
README = "closed/Someone/results/1x_Made_Up/llama3.1-8b-edge/Offline/README.md"


def untouched(_: object) -> None:
    """A change that is none."""


@pytest.fixture(scope="module")
def round_trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By the name of the round, results/ of both benchmarks and the tree/ that is built of them."""
    root = tmp_path_factory.mktemp("rounds")
    system = write_system(root)
    for name, round_ in ROUNDS.items():
        results = root / name / "results"
        runs = write_results(results, LLAMA3_1_8B, LLAMA3_1_8B_EDGE, round_=round_)
        out = root / name / "tree"
        assert main(submission_words(runs, system, out, **{"--round": name})) == 0
    return root


@pytest.mark.parametrize("name", ROUNDS)
def test_a_tree_of_every_round_obeys_every_rule(round_trees: Path, name: str) -> None:
    judged = judge_folder(round_trees / name / "tree")
    assert {j.round.name for j in judged} == {name}
    assert failed_rules(round_trees / name / "tree") == {}
    assert len(judged) == 2 + 5 + 1


def test_the_logs_are_the_runs_own_and_the_accuracy_log_is_cut(round_trees: Path) -> None:
    (run,) = (round_trees / "v6.1/results").glob("*-llama3.1-8b-edge-offline")
    place = (round_trees / "v6.1/tree" / README).parent
    for own_folder, folder in (("Accuracy", "accuracy"), ("Performance", "performance/run_1")):
        assert (place / folder / DETAIL).read_bytes() == (run / own_folder / DETAIL).read_bytes()
    whole = (run / "Accuracy" / ACCURACY).read_bytes()
    cut = (place / "accuracy" / ACCURACY).read_bytes()
    assert len(cut) < 10 * 1024 < len(whole)
    assert whole.startswith(cut[:4096]) and whole.endswith(cut[-4096:])
    digest = read_checksums(run)[f"Accuracy/{ACCURACY}"]
    assert f"hash={digest}\n" in (place / "accuracy/accuracy.txt").read_text()
    assert cut_accuracy_log(b"x" * 8192) == b"x" * 8192


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
    failed = failed_rules(tmp_path / "tree").popitem()[1]
    assert set(failed) == {"system_description", "system_fields"}


def test_the_clients_machine_is_not_described_as_the_system(tmp_path: Path, submit: Any) -> None:
    part = {"run": {"remote": {"performance": to_json(remote_run())}}}
    run = write_result(tmp_path / "results", *EDGE_OFFLINE, summary=lambda s: s.update(part))
    status, output = submit([run], "--system", "auto", division="open")
    assert status == 2 and "--system auto: the runs measured servers" in output


def test_of_a_local_folder_of_weights_a_person_must_speak(tmp_path: Path, submit: Any) -> None:
    local = _set("settings", "model", "/models/llama")
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=local)
    status, output = submit(runs)
    assert status == 1 and "  retraining" in output and "weight_transformations" in output
    shutil.rmtree(tmp_path / "tree")
    words = {"retraining": "no", "weight_transformations": "none"}
    path = tmp_path / "measurements.json"
    path.write_text(json.dumps(words | {"starting_weights_filename": "model.safetensors"}))
    status, output = submit(runs, "--measurements", str(path))
    assert status == 0, output
    assert failed_rules(tmp_path / "tree") == {}
    for name in files(tmp_path / "tree"):
        assert "/models" not in (tmp_path / "tree" / name).read_text(), name


def left_to_the_engine(config: dict[str, Any]) -> None:
    config["settings"] |= {"precision": "auto", "tensor_parallel_size": None}
    config["settings"]["max_new_tokens"] = 128
    config["engine"]["settings"] = {"tensor_parallel_size": 8, "dtype": "bfloat16"}


def asked_for_much(config: dict[str, Any]) -> None:
    engine_args = {"max_num_seqs": 512, "compilation_config": {"mode": 3}}
    config["settings"] |= {"tensor_parallel_size": 2, "high_accuracy": True}
    config["engine"]["settings"] = {"replicas": 4, "machines": [{"host": "a"}, {"host": "b"}]}
    config["settings"]["engine_args"] = engine_args
    config["dataset"]["name"] = "my news.json"


def test_the_readme_says_how_the_engine_was_set_and_how_to_run_it_again(
    tmp_path: Path, submit: Any
) -> None:
    def readme_of(change: Change) -> str:
        shutil.rmtree(tmp_path / "tree", ignore_errors=True)
        runs = write_results(tmp_path / change.__name__, LLAMA3_1_8B_EDGE, config=change)
        assert submit(runs)[0] == 0
        return (tmp_path / "tree" / README).read_text()

    assert (
        "pytest -m offline --benchmark llama3.1-8b-edge --profile official --round v6.1 "
        "--model meta-llama/Llama-3.1-8B-Instruct --dataset 'my news.json' "
        "--precision bf16 --tensor-parallel-size 2 --high-accuracy --replicas 4 "
        "--engine-arg max_num_seqs=512 --engine-arg 'compilation_config={\"mode\": 3}'\n"
    ) in readme_of(asked_for_much)
    text = readme_of(left_to_the_engine)
    assert "| tensor parallel size | 8 |" in text and "| precision | bfloat16 |" in text
    for left_out in ("--precision", "--tensor-parallel-size", "--max-new-tokens"):
        assert left_out not in text


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


def test_the_texts_of_a_run_on_servers_say_where_they_were_and_what_they_were_sent(
    tmp_path: Path, submit: Any
) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE, config=on_servers)
    status, output = submit(runs)
    # What the suite cannot know of the servers' weights is a person's to say.
    assert status == 1 and "retraining\n" in output, output
    readme = tmp_path / "tree" / README
    text = readme.read_text()
    for part in (
        "To rerun it, with the key in API_KEY and the headers X-Team in the settings file:\n",
        "pytest -m offline --benchmark llama3.1-8b-edge --profile official --round v6.1 "
        "--model meta-llama/Llama-3.1-8B-Instruct --dataset cnn_eval.json "
        "--served-model-name llama --endpoint http://one:8000 --endpoint https://two/v1x "
        "--endpoint-routing round-robin --endpoint-ca authority.pem\n",
        "| engine | SGLang server 0.5",
        "| precision | not known",
    ):
        assert part in text
    source = (tmp_path / "tree/closed/Someone/src/llama3.1-8b-edge/README.md").read_text()
    assert "on SGLang server 0.5, reached over HTTP, and" in source
    measurements = json.loads(readme.with_name("measurements.json").read_text())
    for unknown in ("starting_weights_filename", "retraining", "weight_transformations"):
        assert measurements[unknown] == "", unknown
    # A file of layout v5 is named after the server.
    runs = write_results(tmp_path / "v5.1", LLAMA3_1_8B, round_=ROUNDS["v5.1"], config=on_servers)
    shutil.rmtree(tmp_path / "tree")
    submit(runs, round_="v5.1")
    assert [*(tmp_path / "tree").rglob("1x_Made_Up_sglang_Server.json")]


def test_a_replays_tree_says_so_wherever_a_sentence_can_stand(tmp_path: Path, submit: Any) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B, config=a_replay)
    status, output = submit(runs, "--allow-replay")
    assert status == 0, output
    assert REPLAY_NOTICE in output
    loadgens = (DETAIL, "mlperf_log_summary.txt", ACCURACY)
    for name in files(tmp_path / "tree"):
        if Path(name).name not in loadgens:
            assert REPLAY_NOTICE in (tmp_path / "tree" / name).read_text(), name
    assert failed_rules(tmp_path / "tree") == {}


def _set(part: str, name: str, value: object) -> Change:
    return lambda content: content.setdefault(part, {}).update({name: value})


def a_replay(config: dict[str, Any]) -> None:
    config["engine"].update({"stand_in": True, "name": REPLAY})


LONGER = {mode: {"max_new_tokens": 130} for mode in ("accuracy", "test09")}
CONFIGS: dict[str, Change] = {
    "a smoke run": _set("settings", "profile", "smoke"),
    "a run of round v6.0, not of v6.1": _set("settings", "round", "v6.0"),
    "made with a stand-in engine": _set("engine", "stand_in", True),
    "made with a replay of prepared answers": a_replay,
    "at most 130 new tokens, not 128": _set("settings", "max_new_tokens", 130),
    "a prefix cache": _set("engine", "settings", {"enable_prefix_caching": True}),
    "the server returns text only: its tokens are counted with the model's tokenizer": _set(
        "engine", "settings", {"tokens": "text"}
    ),
    "a different system from that of": _set("system", "cpu", "another"),
    "vllm_version 0.1": _set("system", "vllm_version", "0.1"),
    ": accuracy: at most 130 new": _set("settings", "generation_by_mode", LONGER),
}
"""By what is said of it, a setting of a run of which no tree can be made."""


def _died(status: str | None) -> Change:
    return lambda summary: summary["meta"].update(status=status, reason="the engine died")


CUT = to_json(remote_run(departures=("3 answers cut",), cached=7))
BOUND = {"rule": "client_bound", "status": "failed"}
SUMMARIES: dict[str, Change] = {
    ": client-bound: not a result\n": lambda s: s.update({"verdicts": [BOUND]}),
    ": accuracy: 3 answers cut\n": _set("run", "remote", {"accuracy": CUT}),
    ": accuracy: 7 prompt tokens from a cache": _set("run", "remote", {"accuracy": CUT}),
    "not a run of a benchmark that can be": _set("meta", "benchmark", "mine"),
    "scenario MultiStream is not known": _set("meta", "scenario", "MultiStream"),
    ": profiled: not a result\n": _set("meta", "profiler", "torch"),
    **{
        f"{status or 'unknown'}: the engine died": _died(status)
        for status in ("failed", "running", "unheard of", None)
    },
}
"""By what is said of it, what a run's summary says."""


@pytest.mark.parametrize("reason", [*CONFIGS, *SUMMARIES])
def test_runs_that_are_no_results_are_refused(tmp_path: Path, submit: Any, reason: str) -> None:
    of_config, of_summary = CONFIGS.get(reason, untouched), SUMMARIES.get(reason, untouched)
    first, second = LLAMA3_1_8B_EDGE.scenarios
    bad = write_result(
        tmp_path / "results", LLAMA3_1_8B_EDGE, first, config=of_config, summary=of_summary
    )
    status, output = submit([bad, write_result(tmp_path, LLAMA3_1_8B_EDGE, second)])
    assert status == 2 and reason in output
    assert not (tmp_path / "tree").exists() and not list(tmp_path.glob(".tree*"))


ENGINE = {"tensor_parallel_size": 8, "dtype": "bfloat16", "max_num_seqs": 256, "load_s": 60.1}


def engine(**settings: object) -> Change:
    return _set("engine", "settings", ENGINE | settings)


OTHERS: dict[str, tuple[Change, Change]] = {
    "model another and": (_set("settings", "model", "another"), untouched),
    "setting precision fp16": (_set("settings", "precision", "fp16"), untouched),
    "setting engine_args": (_set("settings", "engine_args", {"seed": 1}), untouched),
    "data sha256 1": (_set("dataset", "sha256", "1"), untouched),
    "the engine's tensor_parallel_size 8 and 4\n": (engine(), engine(tensor_parallel_size=4)),
    "the engine's dtype bfloat16 and float16\n": (engine(), engine(dtype="float16")),
    "the engine's max_num_seqs 256 and 64\n": (engine(), engine(max_num_seqs=64)),
    "the engine's max_model_len 8192 and 4096": (
        _set("engine", "max_model_len", 8192),
        _set("engine", "max_model_len", 4096),
    ),
}
"""By what is said of it, the settings of an accuracy run and of a performance run."""


def split_runs(folder: Path, *changes: Change) -> list[Path]:
    """Accuracy and performance of each scenario, by runs of their own."""
    return [
        write_result(folder / mode, LLAMA3_1_8B_EDGE, scenario, modes=(mode,), config=change)
        for scenario in LLAMA3_1_8B_EDGE.scenarios
        for mode, change in zip(("accuracy", "performance"), changes, strict=True)
    ]


@pytest.mark.parametrize("words", OTHERS)
def test_accuracy_of_another_system_is_refused(tmp_path: Path, submit: Any, words: str) -> None:
    status, output = submit(split_runs(tmp_path, *OTHERS[words]))
    assert status == 2 and f"not the same in accuracy and performance: {words}" in output


def asked_for_a_cache_in_vain(config: dict[str, Any]) -> None:
    config["settings"]["engine_args"] = {"enable_prefix_caching": True}
    engine(enable_prefix_caching=False)(config)


@pytest.mark.parametrize(
    "changes",
    [
        (engine(dtype_why="asked for"), engine(load_s=61.2, dtype_why="auto")),
        (asked_for_a_cache_in_vain, asked_for_a_cache_in_vain),
    ],
)
def test_the_same_engine_is_no_other(
    tmp_path: Path, submit: Any, changes: tuple[Change, Change]
) -> None:
    status, output = submit(split_runs(tmp_path, *changes))
    assert status == 0, output


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (text_edited(at(f"Performance/{DETAIL}"), str.upper), f"Performance/{DETAIL} was changed"),
        (text_edited(at("config.json"), lambda text: f"{text} "), "config.json was changed after"),
        (
            lambda run: write_run(
                run / "Compliance/TEST06", MadeRun(*EDGE_OFFLINE, "test06", V6_1)
            ),
            "was added after the run",
        ),
        (lambda run: (run / "checksums.json").unlink(), "no checksums.json"),
        (lambda run: (run / "Accuracy" / ACCURACY).unlink(), f"{ACCURACY} is missing"),
    ],
)
def test_a_run_that_was_changed_since_is_refused(
    tmp_path: Path, submit: Any, change: Callable[[Path], object], reason: str
) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    assert changed_since_run(runs[0]) == []
    change(runs[0])
    status, output = submit(runs)
    assert status == 2 and f"{runs[0]}: " in output and reason in output


def test_what_breaks_a_rule_is_refused_by_its_name(tmp_path: Path, submit: Any) -> None:
    of_v6_1 = _set("settings", "round", "v6.1")
    run = write_result(tmp_path / "results", *EDGE_OFFLINE, ROUNDS["v6.0"], config=of_v6_1)
    output = submit([run])[1]
    assert "seeds: found" in output and "required_scenarios: found" in output
    scores = run / "Accuracy/rouge.json"
    others = {n: v for n, v in json.loads(scores.read_text()).items() if n != "rouge2"}
    scores.write_text(json.dumps(others))
    (run / "checksums.json").unlink()
    folder = object.__new__(RunFolder)
    folder.path = run
    folder.record_checksums()
    assert "rouge2 not among the scores" in submit([run])[1]


def _not_begun(config: dict[str, Any]) -> None:
    """What stands in config.json before the engine is loaded and the data is read."""
    for later in ("engine", "dataset", "prompts_sha256"):
        del config[later]


@pytest.mark.parametrize(
    ("is_replay", "modes"), [(True, ()), (False, ()), (True, ("performance",)), (False, MODES)]
)
def test_a_run_that_goes_on_is_refused_for_that_alone(
    tmp_path: Path, submit: Any, is_replay: bool, modes: tuple[str, ...]
) -> None:
    first, second = LLAMA3_1_8B_EDGE.scenarios
    change = a_replay if is_replay else untouched
    running = write_result(
        tmp_path / "results",
        LLAMA3_1_8B_EDGE,
        second,
        modes=modes,
        config=_not_begun,
        meta=lambda meta: meta.update(status="running"),
    )
    runs = [write_result(tmp_path / "results", LLAMA3_1_8B_EDGE, first, config=change)]
    if rest := [mode for mode in MODES if mode not in modes]:
        more = tmp_path / "more"
        runs.append(write_result(more, LLAMA3_1_8B_EDGE, second, modes=rest, config=change))
    status, output = submit([*runs, running], *["--allow-replay"] * is_replay)
    assert status == 2
    lines = [line for line in output.splitlines() if line.startswith("refused: ")]
    why = "running: wait until it has finished, or rerun it if it was killed"
    assert lines == [f"refused: {running}: {why}"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda root, runs: [root], "no summary.json and config.json of a run"),
        (lambda root, runs: [write_result(root, *EDGE_OFFLINE, modes=())], "no LoadGen logs in it"),
        (
            lambda root, runs: [write_result(root, *EDGE_OFFLINE, modes=("performance",))],
            "llama3.1-8b-edge Offline: no accuracy run among the results",
        ),
        (lambda root, runs: [*runs, write_result(root, *EDGE_OFFLINE)], "choose one of them"),
        (
            lambda root, runs: [runs[1], write_result(root, *EDGE_OFFLINE, config=a_replay)],
            "replays and measurements cannot be in one tree",
        ),
    ],
    ids=["no run", "no logs", "no accuracy", "two of a scenario", "a replay beside a measurement"],
)
def test_results_of_which_no_tree_can_be_made_are_refused(
    tmp_path: Path, submit: Any, change: Callable[[Path, list[Path]], list[Path]], words: str
) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    status, output = submit(change(tmp_path / "more", runs), "--allow-replay")
    assert status == 2 and words in output


def test_what_cannot_be_used_is_said(tmp_path: Path, submit: Any, system: Path) -> None:
    runs = write_results(tmp_path / "results", LLAMA3_1_8B_EDGE)
    for words in ("--submitter ../other", "--system absent.json", "--measurements absent.json"):
        status, output = submit(runs, *words.split())
        assert status == 2 and words in output and not (tmp_path / "tree").exists()
    text = system.read_text()
    for content, words in (
        # Text that no file can hold.
        (text.replace("made up", "\\ud800", 1), "not JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "system_name is missing"),
    ):
        system.write_text(content)
        status, output = submit(runs)
        assert status == 2 and f"--system {system}: {words}" in output
    system.write_text(text)
    kept_file = tmp_path / "tree/kept"
    kept_file.parent.mkdir()
    kept_file.touch()
    status, output = submit(runs)
    assert status == 2 and "already exists" in output and kept_file.exists()


@pytest.mark.parametrize("row", judged_in_trees(), ids=lambda row: row.id)
def test_an_open_tree_of_each_benchmark_obeys_every_rule(
    row: Benchmark, tmp_path: Path, submit: Callable[..., tuple[int, str]]
) -> None:
    round_ = ROUNDS[row.rounds[-1]]
    run = write_result(tmp_path / "results", row, row.scenario("Offline"), round_, modes=MODES[:2])
    status, output = submit([run], division="open", round_=round_.name)
    assert status == 0, output
    judged = judge_folder(tmp_path / "tree")
    assert not any(score.failed_rules for score in judged)
    statuses = {v.rule: v.status for score in judged for v in score.verdicts}
    assert statuses["accuracy_every_sample"] == statuses["accuracy_whole_dataset"] == "passed"
