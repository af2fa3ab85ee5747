"""The official client as a process, on a stand-in: progress, every bad end, and nothing left."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from meta_tests.features.endpoints.official_client_stand_in import JOB, write_client
from meta_tests.suite_runs import ROOT, still_running
from mlperf_suite.datasets.media import MediaPrompt
from mlperf_suite.errors import UsageError
from mlperf_suite.features.endpoints.official_client import client_process
from mlperf_suite.features.endpoints.official_client.client_job import OfficialClientData
from mlperf_suite.features.endpoints.official_client.client_process import (
    OfficialClientProgress,
    OfficialClientRunError,
    last_words,
    progress_in,
    run_official_client,
)
from mlperf_suite.features.endpoints.official_client.installation import (
    KNOWN_COMMIT,
    find_official_client,
)
from mlperf_suite.features.servers.picture_messages import trial_prompt


def processes_of(folder: Path) -> list[psutil.Process]:
    """Those whose ids the client wrote and that are still there."""
    pids = [int(word) for word in (folder / "pids").read_text().split()]
    return still_running([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)])


def test_the_files_of_a_run_lie_beside_what_was_asked_and_printed(tmp_path: Path) -> None:
    progress: list[OfficialClientProgress] = []
    folder, client = tmp_path / "run", write_client(tmp_path)
    report = run_official_client(client, JOB, folder, on_progress=progress.append)
    assert (report / "performance" / "result_summary.json").is_file()
    assert report.parent == folder
    words = (folder / "arguments").read_text()
    assert words == f"benchmark from-config --mode perf --config {folder / 'client.yaml'}"
    assert (folder / "environment").read_text() == "none", "the suite's packages"
    assert progress[-1] == OfficialClientProgress(20, 20, 1)
    (data,) = json.loads((folder / "client.yaml").read_text())["datasets"]
    rows = [json.loads(line) for line in Path(data["path"]).read_text().splitlines()]
    assert rows == [{"input_tokens": [1, 2]}, {"input_tokens": [3]}]
    with pytest.raises(OfficialClientRunError, match="has files of another run"):
        run_official_client(client, JOB, folder)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("dies", "died with status 3: Failed to connect ("),
        ("raises", "died with status 1: .*RuntimeError: nobody caught it"),
        ("is killed", "died by signal 9: "),
    ],
)
def test_a_client_that_dies_is_quoted_in_one_line(
    tmp_path: Path, behaviour: str, words: str
) -> None:
    with pytest.raises(OfficialClientRunError, match=words.replace("(", r"\(")) as death:
        run_official_client(write_client(tmp_path, behaviour), JOB, tmp_path / "run")
    assert "\n" not in str(death.value)
    assert (death.value.folder / "client.log").exists()


def test_a_full_disk_and_a_folder_that_cannot_be_written_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=0))
    with pytest.raises(OSError, match="died with status 3; what it wrote is in") as full:
        run_official_client(write_client(tmp_path, "dies"), JOB, tmp_path / "run")
    assert (full.value.errno, full.value.filename) == (ENOSPC, str(tmp_path / "run"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        run_official_client(write_client(tmp_path), JOB, tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("interrupts", "hangs: it printed nothing for 600 s, with 7 of 20"), ("ignores", "hangs")],
)
def test_a_client_that_prints_nothing_hangs_may_write_what_it_has_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, words: str
) -> None:
    looks, folder = itertools.count(), tmp_path / "run"

    def monotonic() -> float:
        """A clock that stands until the client only waits, and then runs fast."""
        return 1000.0 * next(looks) if (folder / "waiting").exists() else 0.0

    monkeypatch.setattr(client_process, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(client_process, "_END_S", 300.0)
    interrupt_s = 60.0 if behaviour == "interrupts" else 0.1
    with pytest.raises(OfficialClientRunError, match=words):
        run_official_client(
            write_client(tmp_path, behaviour), JOB, folder, silence_s=600.0, interrupt_s=interrupt_s
        )
    if behaviour == "interrupts":
        assert (folder / "report" / "saved").read_text() == "partial"
    else:
        await_truth(lambda: processes_of(folder) == [])


_CALLER = """
import signal
import sys
from pathlib import Path
from meta_tests.features.endpoints.official_client_stand_in import JOB
from mlperf_suite.features.endpoints.official_client import client_process
from mlperf_suite.features.endpoints.official_client.installation import find_official_client
client_process._END_S = 300.0
# Started in the background of a shell, it would inherit that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = Path(sys.argv[1])
client = find_official_client(folder)
client_process.run_official_client(client, JOB, folder / "run", interrupt_s=0.5)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_suite_ends(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, and an end that runs no code of it."""
    write_client(tmp_path, "has children")
    caller = subprocess.Popen(
        [sys.executable, "-c", _CALLER, tmp_path], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    await_truth((tmp_path / "run" / "waiting").exists)
    assert len(processes_of(tmp_path / "run")) == 3
    caller.send_signal(number)
    caller.wait(300)
    await_truth(lambda: processes_of(tmp_path / "run") == [])


def await_truth(is_true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_client_that_is_missing_or_another_is_refused_in_a_line_or_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not built in .*make endpoints-client CHECKOUT=DIR"):
        find_official_client(tmp_path)
    write_client(tmp_path, version="0.2.0")
    with pytest.raises(UsageError, match=r"is version 0.2.0, known is 0.1.0"):
        find_official_client(tmp_path)
    write_client(tmp_path, status=1)
    with pytest.raises(UsageError, match=r"does not start: 0\.1\.0"):
        find_official_client(tmp_path)
    write_client(tmp_path)
    assert find_official_client(tmp_path).note == ""
    write_client(tmp_path, commit="f" * 40)
    note = find_official_client(tmp_path).note
    assert "commit ffffffff: this suite was tried with commit ea332753" in note
    assert f"tried={KNOWN_COMMIT}" in (ROOT / "scripts/set_up_endpoints_client.sh").read_text()


def test_progress_and_last_words_are_read_of_what_was_printed() -> None:
    assert progress_in("") == OfficialClientProgress()
    bar = "a: 0%| | 0/80 [00:00<?, ?it/s]\ra: 1%| | 3/80 [00:05<, errors=2]"
    assert progress_in(bar) == OfficialClientProgress(3, 80, 2)
    assert last_words("") == ""
    assert last_words("a\nb\n\x1b[31mc\n") == "b | ?[31mc"
    assert last_words("t - m - ERROR - first\nt - m - ERROR - second\nPartial results") == "second"


def test_a_prompt_with_a_picture_is_written_as_its_messages() -> None:
    trial = trial_prompt()
    assert trial.messages is not None
    messages = [{"role": "system", "content": "Help."}, *trial.messages()]
    prompt = MediaPrompt(trial, trial.media, lambda: messages)
    (line,) = OfficialClientData(prompts=[prompt], references=["a"]).lines()
    row = json.loads(line)
    assert set(row) == {"system", "prompt", "reference"}
    text, picture = row["prompt"]
    assert (text["type"], picture["type"]) == ("text", "image_url")
    assert row["system"] == "Help."
