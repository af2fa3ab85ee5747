"""A second Ctrl-C while a run is ended leaves nothing of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pytest import MonkeyPatch

from meta_tests.features.tuning.scripted_runs import (
    id_in,
    is_gone,
    measured,
    request_in,
    run_script,
)
from mlperf_suite.features.tuning import tune


@pytest.mark.parametrize(
    "run",
    [
        lambda folder: measured(folder, {}),
        # A thread whose join is interrupted counts as ended to Python, and would not be awaited.
        lambda folder: tune.tune(request_in(folder), print),
    ],
    ids=["trial", "tuning"],
)
def test_a_second_ctrl_c_leaves_no_run_either(
    tmp_path: Path, monkeypatch: MonkeyPatch, run: Callable[[Path], object]
) -> None:
    mark, asked = tmp_path / "ran", tmp_path / "asked"
    script = f"trap 'touch {asked}' INT\necho $$ >{mark}\nwhile :; do sleep 0.1; done"
    run_script(tmp_path, monkeypatch, script)

    def cancel() -> None:
        id_in(mark)
        os.kill(os.getpid(), signal.SIGINT)
        while not asked.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    left = [psutil.Process(id_in(mark))] if psutil.pid_exists(id_in(mark)) else []
    psutil.wait_procs(left, 60)
    assert is_gone(id_in(mark))
