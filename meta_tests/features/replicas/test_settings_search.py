"""The search for the settings that an engine has in a process of its own."""

from pathlib import Path

import pytest

from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.settings_search import SettingsSearch

CONFIG = VllmConfig("model")
_SEARCH = "mlperf_suite.features.replicas.settings_search"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell script in the place of Python."""
    path = tmp_path / "python"
    path.touch(0o755)
    monkeypatch.setattr("sys.executable", str(path))
    return path


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo 'no device' >&2\nexit 1\n", "no device"),
        ("echo 'a warning' >&2\nexec sleep 60\n", "no answer within 1 s"),
    ],
)
def test_a_search_that_cannot_tell_names_the_cause(
    program: Path, monkeypatch: pytest.MonkeyPatch, script: str, cause: str
) -> None:
    monkeypatch.setattr(f"{_SEARCH}._PATIENCE_S", 1)
    program.write_text("#!/bin/sh\n" + script)
    search = SettingsSearch(CONFIG)
    with pytest.raises(EngineError, match=f"could not be compared .*: {cause}"):
        search.result()
    search.end()
    program.unlink()
    with pytest.raises(OSError, match="python"):
        SettingsSearch(CONFIG)


def test_a_search_has_nothing_of_ray(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text("""#!/bin/sh\nprintf '{"ray": "%s", "x": "%s"}' "$RAY_ADDRESS" "$X"\n""")
    for name, value in {"RAY_ADDRESS": "ray", "X": "x"}.items():
        monkeypatch.setenv(name, value)
    search = SettingsSearch(CONFIG)
    assert search.result() == {"ray": "", "x": "x"}
    search.end()
