"""Tokens and keys never appear in what the suite writes or says, however a session ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_tests.conftest import SuiteRun, run_suite
from mlperf_suite import secrets
from mlperf_suite.config import resolve_settings
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.results.run_folder import write_json

TOKEN, KEY, ARGUMENT = "hf_plantedTOKEN0123456789", "sk-planted-KEY-98765", 'planted"ARG<&>55'
COMMAND = ("-m", "offline and accuracy and datacenter", "-p", "meta_tests.stand_in_plugin")


@pytest.fixture(autouse=True)
def _known_only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", set())


def leaks(run: SuiteRun, *written: Path) -> list[str]:
    """Where a planted secret appears."""
    places = [run.results_dir, *written]
    files = [f for p in places for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    assert files
    texts = {str(file): file.read_bytes() for file in files} | {"output": run.output.encode()}
    words = [word.encode() for word in (TOKEN, KEY, "planted&quot;ARG", 'planted\\"ARG', ARGUMENT)]
    return [name for name, text in texts.items() if any(word in text for word in words)]


@pytest.mark.parametrize("end", ["good", "load_error", "crash"])
def test_a_planted_secret_is_nowhere(tmp_path: Path, end: str) -> None:
    words = f"no access with {TOKEN} and {KEY} and {ARGUMENT}"
    told = {} if end == "good" else {end: words}
    run = run_suite(
        tmp_path / "results",
        *COMMAND,
        f"--engine-arg=hf_token={ARGUMENT}",
        f"--junitxml={tmp_path}/junit.xml",
        f"--alluredir={tmp_path}/allure",
        "--showlocals",
        HF_TOKEN=TOKEN,
        OTHER_API_KEY=KEY,
        STAND_IN=json.dumps(told),
    )
    assert run.exit_code == (0 if end == "good" else 1), run.output
    if end != "good":
        assert "no access with *** and *** and ***" in run.output
    assert leaks(run, tmp_path / "junit.xml", tmp_path / "allure") == []


def test_an_error_of_use_says_no_secret() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_settings({"engine_arg": [f"api key={KEY}"]}, {"HF_TOKEN": TOKEN})
    assert KEY not in str(caught.value)
    assert TOKEN not in str(SuiteError(f"401 for {TOKEN}"))


def test_a_secret_in_a_settings_file_is_kept_out_of_config_json(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_text(f'engine_arg = {{ api_key = "{KEY}", dtype = "auto" }}\n')
    settings = resolve_settings({}, {"HF_TOKEN": TOKEN}, str(file))
    write_json(tmp_path / "config.json", settings.as_json())
    text = (tmp_path / "config.json").read_text()
    assert KEY not in text
    assert TOKEN not in text
    assert json.loads(text)["engine_args"] == {"api_key": "***", "dtype": "auto"}


def test_what_others_wrote_is_swept(tmp_path: Path) -> None:
    secrets.remember_named({"HF_TOKEN": TOKEN, "MAX_TOKENS": "128128128", "X_TOKEN": "short"})
    log, other = tmp_path / "engine.log", tmp_path / "other.log"
    log.write_bytes(b"\xff token=" + TOKEN.encode() + b"\n")
    other.write_text("128128128 short")
    assert secrets.sweep([tmp_path]) == [log]
    assert log.read_bytes() == b"\xff token=***\n"
    assert other.read_text() == "128128128 short"
