"""Submissions of each benchmark: texts of its scores and audits, and what of it is refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.submission.result_folders import Change, write_result
from meta_tests.made_runs import MadeRun
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS, judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.submission.texts import accuracy_txt, verified_text
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import MODES
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.results.run_folder import file_sha256, mode_folder
from mlperf_suite.rules import judge

GPT_OSS_120B, DEEPSEEK_R1 = BENCHMARKS["gpt-oss-120b"], BENCHMARKS["deepseek-r1"]
EACH = pytest.mark.parametrize("row", judged_in_trees(), ids=lambda row: row.id)
PLACE = "tree/open/Someone/results/1x_Made_Up/gpt-oss-120b/Offline"
BOTH: tuple[Mode, ...] = ("accuracy", "performance")
Submit = Callable[..., tuple[int, str]]


def write(results: Path, row: Benchmark, name: str = "Offline", **changes: Any) -> Path:
    """A result of one scenario in the benchmark's last round, of both modes unless told."""
    round_ = ROUNDS[row.rounds[-1]]
    return write_result(results, row, row.scenario(name), round_, **{"modes": BOTH, **changes})


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"rouge1": 38.8, "gen_len": 9.0}, "{'rouge1': 38.8, 'gen_len': 9, 'gen_num': 3}"),
        ({"word_accuracy": 97.9, "word_error_rate": 2.1}, "Word Error Rate: 2.1%, accuracy=97.9%"),
        ({"f1": 61.5}, '{"f1": 0.615}'),
    ],
)
def test_accuracy_txt_has_figures_as_the_official_scripts_print_them(
    figures: dict[str, float], line: str
) -> None:
    text = accuracy_txt({**figures, "gen_num": 3.0}, "gen_num", "ab", "")
    assert {line, "hash=ab"} <= {*text.splitlines()}


@EACH
def test_an_open_tree_of_each_benchmark_obeys_every_rule(
    row: Benchmark, tmp_path: Path, submit: Submit
) -> None:
    run = write(tmp_path / "results", row, modes=MODES)
    status, output = submit([run], division="open", round_=row.rounds[-1])
    assert status == 0, output
    judged = judge_folder(tmp_path / "tree")
    assert not any(score.failed_rules for score in judged)
    statuses = {v.rule: v.status for score in judged for v in score.verdicts}
    assert statuses["accuracy_every_sample"] == statuses["accuracy_whole_dataset"] == "passed"


def test_the_files_of_each_audit_are_where_the_checker_looks_for_them(
    tmp_path: Path, submit: Submit
) -> None:
    run = write(tmp_path / "results", GPT_OSS_120B, modes=(*BOTH, "test07", "test09"))
    status, output = submit([run], division="open", round_="v6.1")
    assert status == 0, output
    place = tmp_path / PLACE
    for name, file in (("TEST07", "verify_accuracy.txt"), ("TEST09", "verify_output_len.txt")):
        assert (place / name / file).read_text().splitlines()[-1] == "TEST PASS"
        log, whole = place / name / "accuracy" / ACCURACY, run / mode_folder(name) / ACCURACY
        assert log.stat().st_size < 10 * 2**10 < whole.stat().st_size
        text = log.with_name("accuracy.txt").read_text()
        assert text == f"hash={file_sha256(whole)}\n"
        assert (place / name / "performance/run_1/mlperf_log_detail.txt").is_file()
    assert "Total samples evaluated: 4395\n" in (place / "accuracy/accuracy.txt").read_text()
    assert not any(score.failed_rules for score in judge_folder(tmp_path / "tree"))


def rows(mode: Mode, wrong: str = "", status: str = "failed") -> list[Mapping[str, Any]]:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenarios[0], mode)
    scores = [v.as_json() for v in judge(run.facts())]
    return [{**row, "status": status} if row["rule"] == wrong else row for row in scores]


@pytest.mark.parametrize(
    ("mode", "notice", "said"),
    [
        ("test07", "", "Accuracy score: 71.2|Accuracy threshold: 60.698|Accuracy check pass: True"),
        (
            "test09",
            "a replay",
            "Mean output tokens: 1278.00|Min threshold: 1150.38|Max threshold: 1406.02|"
            "Length check pass: True",
        ),
    ],
)
def test_the_texts_of_audits_say_score_or_length_their_limits_and_the_verdict(
    mode: Mode, notice: str, said: str
) -> None:
    audit = GPT_OSS_120B.audit(mode)
    assert audit is not None
    output = verified_text(audit, rows(mode), {"exact_match": 71.2}, notice)
    title, *lines = output.splitlines()
    assert title == f"{mode.upper()} Verification Summary"
    assert lines == [*said.split("|"), "TEST PASS", *([notice] if notice else [])]


@pytest.mark.parametrize(
    ("mode", "rule", "status"),
    [
        ("test07", "test07_score", "not judged"),
        ("test07", "test07_every_sample", "shortened"),
        ("test09", "test09_mean_tokens", "failed"),
        ("test09", "test09_settings", "not judged"),
    ],
)
def test_an_audit_of_which_any_rule_did_not_pass_fails(mode: Mode, rule: str, status: str) -> None:
    audit = GPT_OSS_120B.audit(mode)
    assert audit is not None
    output = verified_text(audit, rows(mode, rule, status), {"exact_match": 71.2}, "")
    assert "TEST FAIL" in output and "TEST PASS" not in output
    assert f"{rule}: {status}: " in output
    assert "TEST PASS" not in verified_text(audit, [], {}, "")


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (DEEPSEEK_R1, "accuracy_exact_match"),
        (BENCHMARKS["mixtral-8x7b"], "accuracy_mbxp"),
        (GPT_OSS_120B, "test07_score"),
        (GPT_OSS_120B, "test09_mean_tokens"),
    ],
)
def test_what_the_run_could_not_judge_is_refused_but_in_the_open_division(
    tmp_path: Path, submit: Submit, row: Benchmark, rule: str
) -> None:
    why = "no reference accuracy is known for the model mine"
    verdict = {"rule": rule, "status": "not judged", "found": "no figure", "why": why}
    run = write(tmp_path / "results", row, summary=lambda s: s.update({"verdicts": [verdict]}))
    round_ = row.rounds[-1]
    status, output = submit([run], division="closed", round_=round_)
    assert status == 2
    assert f"{rule} was not judged: {why}\n" in output
    assert submit([run], division="open", round_=round_)[0] == 0


def test_speculation_is_refused_where_the_benchmark_does_not_allow_it(
    tmp_path: Path, submit: Submit
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["engine"]["settings"] = {"speculative": {"method": "mtp", "steps": 3}}

    for scenario, is_refused in (("Offline", True), ("Interactive", False)):
        run = write(tmp_path / scenario, DEEPSEEK_R1, scenario, config=change)
        output = submit([run], division="open", round_="v6.1")[1]
        assert ("speculative decoding (mtp)" in output) == is_refused


def accuracy_parts(accuracy: str, prompts: str | None = "0") -> Change:
    def change(config: dict[str, Any]) -> None:
        part = {"name": "acc.parquet", "samples": 4395, "sha256": accuracy}
        config["dataset"]["parts"] = {"accuracy": part}
        config["prompts_sha256"] = prompts
        config["settings"] |= {"dataset": "/data/gpt-oss", "code_problems": "/data/lcb/release"}

    return change


@pytest.mark.parametrize(
    ("accuracy", "prompts", "why"),
    [
        ("1", "0", ""),
        ("1", None, ""),
        ("2", "0", "accuracy data sha256 2 and 1"),
        ("1", "3", "prompts"),
    ],
)
def test_accuracy_with_data_of_its_own_may_be_of_another_session(
    tmp_path: Path, submit: Submit, accuracy: str, prompts: str | None, why: str
) -> None:
    changes = {"accuracy": accuracy_parts(accuracy, prompts), "performance": accuracy_parts("1")}
    runs = [
        write(tmp_path / mode, GPT_OSS_120B, modes=(mode,), config=changes[mode]) for mode in BOTH
    ]
    status, output = submit(runs, division="open", round_="v6.1")
    assert status == (2 if why else 0), output
    assert why in output
    if not why:
        readme = (tmp_path / PLACE / "README.md").read_text()
        assert "; accuracy: acc.parquet, 4395 samples, sha256 1 |" in readme
        assert "--dataset gpt-oss --code-problems release " in readme
