"""What the set-up says of a machine before it installs anything; its tables are evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scripts.check_machine import NEEDS, Gpu, Machine, look, notes, problems

H100 = Gpu("NVIDIA H100 80GB HBM3", "580.95.05", 80.0, 9.0)
GOOD = Machine("x86_64", (2, 36), 500.0, None, 256.0, (H100,), "", "580.95.05")


def test_what_does_not_fit_is_a_line_and_what_a_run_will_miss_is_a_note(tmp_path: Path) -> None:
    assert (problems(GOOD, "gpu"), notes(GOOD, "gpu")) == ([], [])
    old = replace(GOOD, gpus=(replace(H100, driver="550.54.15"),))
    for machine, problem in (
        (replace(GOOD, disk_free=NEEDS["gpu"].disk), "this folder's has"),
        (old, "driver 580 or newer, and this machine has 550.54.15: update"),
    ):
        (line,) = problems(machine, "gpu")
        assert problem in line
    assert problems(old, "cpu") == []
    (note,) = notes(replace(GOOD, memory=8.0), "gpu")
    assert "8 GB of memory" in note
    assert min(look(tmp_path).disk_free, look(tmp_path).memory) > 0
