"""Who comes from run.py gives the options that they gave there."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.plugin.pytest_output import pytest_output
from mlperf_suite.benchmarks.llama3_1_8b import OFFICIAL
from mlperf_suite.plugin.command import run_tests
from mlperf_suite.plugin.options import rewrite
from mlperf_suite.plugin.terminal_report import header_lines
from mlperf_suite.settings import OPTIONS, resolve_settings

RUN_PY = {
    "--category": "datacenter",
    "--scenario": "offline",
    "--mode": "both",
    "--tensor-parallel-size": "auto",
    "--max-model-len": "4096",
    "--gpu-memory-utilization": "0.92",
    "--precision": "bf16",
    "--total-sample-count": "20",
    "--server-target-qps": "auto",
    "--keep-all": "1",
}


def flat(options: dict[str, str]) -> list[str]:
    return [text for pair in options.items() for text in pair]


def pytest_says(*arguments: str, code: int = 0, python_path: str = "") -> str:
    return pytest_output("--plan", *arguments, code=code, python_path=python_path)


def test_run_pys_command_is_taken_as_it_is() -> None:
    output = pytest_says(*flat(RUN_PY))
    assert "llama3.1-8b Offline performance" in output
    assert "Server" not in output and "edge" not in output.partition("plan:")[2]


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        *(("model", name, OFFICIAL.model) for name in ("LLaMA-3.1-8B-Instruct", "llama31-8b")),
        ("model", "Llama3.1", OFFICIAL.model),
        *(("dataset", name, "cnn_dailymail") for name in ("CNNDM", "CNN_DailyMail")),
        ("server_target_qps", "AUTO", None),
    ],
)
def test_run_pys_names_are_known_in_any_case(option: str, text: str, value: str | None) -> None:
    assert getattr(resolve_settings({option: text}, {}), option) == value


def test_a_switch_may_have_a_0_or_a_1() -> None:
    result = rewrite(["--high-accuracy", "1", "--allow-other-model=1", "--plan", "0", "tests/"])
    assert result.arguments == ["--high-accuracy", "--allow-other-model", "tests/"]
    assert result.switched_off == ["plan"]


SAYS = """
from mlperf_suite.plugin.options import settings_of

def pytest_report_header(config):
    return f"strict: {settings_of(config).high_accuracy}"
"""


def test_a_0_on_the_command_line_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_text("high-accuracy = true\n")
    (tmp_path / "says_settings.py").write_text(SAYS)
    command = ["-p", "says_settings", "--suite-config", str(file), "-m", "offline"]
    for arguments, strict in (([], True), (["--high-accuracy", "0"], False)):
        assert f"strict: {strict}" in pytest_says(*command, *arguments, python_path=str(tmp_path))


def test_an_option_that_has_nothing_to_set_is_dropped_with_a_line() -> None:
    result = rewrite(["--extra-metrics", "1", "--backend", "vLLM", "-m", "offline"])
    assert result.arguments == ["-m", "offline"]
    assert [line.partition(":")[0] for line in result.notes] == ["--extra-metrics", "--backend"]
    assert "ignored: --backend" in pytest_says("--backend", "vllm")
    assert "max_num_seqs=16" in rewrite(["--batch-size", "16"]).notes[0]


def test_a_round_given_as_a_version_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """pytest would print its own version, run nothing and exit with 0."""
    assert run_tests(["--version", "5.1", "-m", "offline"]) == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == "ERROR: --version 5.1: the round is --round v5.1\n"


def test_what_the_suite_does_not_have_is_a_line_that_says_what_it_has() -> None:
    for arguments, words in (
        (["--backend", "triton"], "--endpoint URL"),
        (["--disable-accuracy-gate", "1"], "-k 'not test_score'"),
        (["--version", "5.1"], "--round v5.1"),
        (["--version=v6.0"], "--round v6.0"),
    ):
        with pytest.raises(pytest.UsageError, match=rf"^--.*{words}") as caught:
            rewrite(arguments)
        assert "\n" not in str(caught.value)


FLAGS = [spec.flag for spec in OPTIONS]


@given(st.lists(st.sampled_from([*FLAGS, "-m", "offline", "tests/", "--co", "-k", "0.5", "2"])))
def test_a_command_line_of_the_suites_own_is_left_alone(arguments: list[str]) -> None:
    result = rewrite(arguments)
    assert result.arguments == arguments
    assert result.switched_off == result.notes == []


def test_what_follows_two_dashes_are_names_of_tests() -> None:
    arguments = ["-m", "offline", "--", "--plan", "1", "--backend", "vllm", "--", "--plan", "0"]
    assert rewrite(arguments).arguments == arguments


OTHER = """
def pytest_addoption(parser):
    parser.addoption("--backend", default="none")

def pytest_report_header(config):
    return f"backend: {config.getoption('--backend')}"
"""


def test_another_projects_session_keeps_its_command_line(tmp_path: Path) -> None:
    """It may be started in the suite's folder, and have options of the same names."""
    (tmp_path / "other.ini").write_text("[pytest]\naddopts = -p others_options\n")
    (tmp_path / "others_options.py").write_text(OTHER)
    command = ["-c", str(tmp_path / "other.ini"), "--co", str(tmp_path)]
    output = pytest_output(*command, "--backend", "triton", code=5, python_path=str(tmp_path))
    assert "backend: triton" in output
    assert "backend: triton" not in pytest_says("--backend", "vllm")


# The first lines


def test_the_first_lines_name_the_model_and_where_it_is() -> None:
    header = pytest_says("-m", "offline").partition("collected")[0]
    assert "model: embedded" in header and "--model" in header
    assert "not an MLPerf result" in header
    assert max(map(len, header_lines(resolve_settings({}, {})))) <= 80
    lines = header_lines(resolve_settings({"model": "llama3.1", "profile": "official"}, {}))
    assert lines[0] == "profile: official, the rules of round v6.1"
    assert lines[1] == f"model: {OFFICIAL.model}"


def test_tests_of_the_suite_itself_have_no_such_lines() -> None:
    header = pytest_says("meta_tests/test_layers.py", "--co")
    assert "model:" not in header.partition("collected")[0]
