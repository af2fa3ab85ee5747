"""What servers and MMLU's engines are told in confidence appears nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite

TOKEN, KEY = "hf_plantedTOKEN0123456789", "sk-planted-KEY-98765"
HEADER, SCHEMED = "planted-header-value-1", "plantedB64=="
COMMAND = ("-m", "offline and accuracy and datacenter", "-p", "meta_tests.stand_in_plugin")


def leaks(run: SuiteRun, *paths: Path) -> list[str]:
    """Where a planted secret appears."""
    places = [run.results_dir, *paths]
    files = [f for p in places for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    assert files
    texts = {str(file): file.read_bytes() for file in files} | {"output": run.output.encode()}
    words = [word.encode() for word in (TOKEN, KEY, HEADER, SCHEMED)]
    return [name for name, text in texts.items() if any(word in text for word in words)]


def endpoint_options(file: Path, *, in_file: bool) -> list[str]:
    """An endpoint and two headers of it, given by option or in a settings file."""
    headers = {"X-Team": HEADER, "Proxy-Authorization": f"Basic {SCHEMED}"}
    endpoint = [
        "-p",
        "evidence.servers.with_mmlu.asked_endpoint_plugin",
        "--endpoint=http://host:8000",
    ]
    if not in_file:
        return [*endpoint, *(f"--endpoint-header={n}={value}" for n, value in headers.items())]
    table = (f"{name} = '{value}'" for name, value in headers.items())
    file.write_text("\n".join(["[endpoint-header]", *table]))
    return [*endpoint, f"--suite-config={file}"]


@pytest.mark.parametrize(
    ("end", "in_file"), [("good", True), ("load_error", True), ("crash", False)]
)
def test_what_an_endpoint_is_told_in_confidence_is_nowhere(
    tmp_path: Path, end: str, in_file: bool
) -> None:
    words = f"401 for {KEY}, {HEADER} and {SCHEMED}"
    options = endpoint_options(tmp_path / "suite.toml", in_file=in_file)
    reports = tmp_path / "junit.xml", tmp_path / "allure"
    run = run_suite(
        tmp_path / "results",
        *(*COMMAND, *options, "--showlocals"),
        *(f"--junitxml={reports[0]}", f"--alluredir={reports[1]}"),
        STAND_IN=json.dumps({"log": words} if end == "good" else {end: words}),
        API_KEY=KEY,
    )
    assert run.exit_code == (0 if end == "good" else 1), run.output
    assert leaks(run, *reports) == []
    assert end == "good" or "401 for ***, *** and ***" in run.output
    settings = json.loads((run.folder / "config.json").read_text())["settings"]
    assert settings["endpoint_headers"] == ["Proxy-Authorization", "X-Team"]
    assert (settings["api_key"], settings["endpoints"]) == ("set", ["http://host:8000"])


def test_an_endpoint_that_refuses_its_key_is_a_usage_error_without_it(tmp_path: Path) -> None:
    run = run_suite(
        tmp_path / "results",
        *COMMAND,
        *endpoint_options(tmp_path / "suite.toml", in_file=False),
        API_KEY=KEY,
        ASKED_ENDPOINT=f"401 for {KEY}, {HEADER} and {SCHEMED}",
    )
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    assert "ERROR: --endpoint http://host:8000: 401 for ***, *** and ***" in run.output
    assert not run.results_dir.exists()


def test_an_mmlu_run_keeps_no_secret_that_its_engines_wrote(tmp_path: Path) -> None:
    run = run_suite(
        tmp_path / "results",
        *("-m", "mmlu", "--mmlu-limit=57", "-p", "meta_tests.scoring_plugin"),
        *("-n", "2", "--dist", "loadgroup"),
        f'--engine-arg=api_key="{KEY}"',
        HF_TOKEN=TOKEN,
        SCORING=json.dumps({"engines": 2, "log": f"loading with {TOKEN} and {KEY}"}),
    )
    assert run.exit_code == 0, run.output
    logs = list(run.folder.glob("engine*.log"))
    assert [log.read_text() for log in logs] == ["loading with *** and ***"] * 2
    assert leaks(run) == []
