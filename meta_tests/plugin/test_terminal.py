"""What a person sees while a run goes: on a terminal, and where the output is a file."""

import io
import json
import os
import pty
import re
import select
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.suite_runs import PYTEST
from meta_tests.warm_pytest import WarmSession
from mlperf_suite.plugin import ci_reports
from mlperf_suite.plugin.progress import TerminalDisplay

STAND_IN = ("-p", "meta_tests.stand_in_plugin")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """All that `pytest` shows on a terminal of 80 columns, without its colours."""
    controller, terminal = pty.openpty()
    process = WarmSession(
        [*PYTEST[3:], *STAND_IN, *arguments],
        os.environ | {"COLUMNS": "80", "TERM": "xterm"} | environment,
        os.ttyname(terminal),
    )
    output = b""
    while process.poll() is None or select.select([controller], [], [], 0)[0]:
        if select.select([controller], [], [], 0.1)[0]:
            output += os.read(controller, 65_536)
    process.communicate()
    for end in (terminal, controller):
        os.close(end)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode()).replace("\r", "\n")


def test_progress_is_shown_while_pytest_captures(tmp_path: Path) -> None:
    stand_in = json.dumps({"delays_s": [0.6]})
    output = on_a_terminal(
        "-m", "offline and datacenter and accuracy", f"--results-dir={tmp_path}", STAND_IN=stand_in
    )
    for words in ("loading the engine", "llama3.1-8b Offline accuracy", "/84 samples, "):
        assert words in output, output[-2000:]


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_what_is_printed_beside_the_bar_is_left_to_pytest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = _Terminal()
    display = TerminalDisplay(SimpleNamespace(_file=terminal))
    display.begin("loading the engine")
    # A logger that is set up meanwhile, as vLLM's is, takes whatever sys.stdout is then.
    print("Triton is not installed")
    display.idle()
    assert "loading the engine" in terminal.getvalue()
    assert "Triton" not in terminal.getvalue()
    assert "Triton" in capsys.readouterr().out


def test_progress_tells_what_is_left_of_the_session() -> None:
    terminal, file = _Terminal(), io.StringIO()
    for stream in (terminal, file):
        display = TerminalDisplay(SimpleNamespace(_file=stream))
        display.step("before the speed is known")
        display.follow(lambda: 96.4)
        display.step("llama3.1-8b Offline performance")
        display.begin("llama3.1-8b Offline performance")
        display.idle()
    assert "1 min 36 s left" in terminal.getvalue()
    line = "llama3.1-8b Offline performance: about 1 min 36 s of the session left"
    assert file.getvalue().splitlines() == ["", line]


@pytest.mark.parametrize(
    ("arguments", "columns", "quiet"),
    [
        ((), ["mean", "stddev", "ops", "rounds"], True),
        (("--benchmark-autosave",), ["mean", "stddev", "ops", "rounds"], False),
        (("--benchmark-columns=min",), ["min"], False),
    ],
)
def test_a_table_of_benchmarks_is_shown_to_who_asks_with_the_users_own_columns(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], columns: list[str], quiet: bool
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    given = ["min"] if columns == ["min"] else None
    option = SimpleNamespace(benchmark_columns=given, benchmark_quiet=False)
    config: Any = SimpleNamespace(
        option=option,
        invocation_params=SimpleNamespace(args=arguments),
        getini=lambda name: ["--strict-markers"],
    )
    ci_reports.pytest_configure(config)
    assert (option.benchmark_columns, option.benchmark_quiet) == (columns, quiet)
