"""The baselines of CI while a job replaces one: what another job sees between any two steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.gate import Job, _put


def make_run(folder: Path, qps: float) -> Path:
    folder.mkdir(parents=True)
    summary = {"run": {"performance": {"target_qps": qps}}}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.mark.parametrize("earlier", ["a link", "a folder of an earlier version"])
def test_there_is_a_baseline_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    """Another job may look between any two steps, and this one may be stopped there."""
    job, target = (
        Job.of({"MLPERF_BASELINES": str(tmp_path / "kept")}),
        tmp_path / "kept" / "last-good" / "offline",
    )
    make_run(target if earlier != "a link" else tmp_path / "first", 1.0)
    if earlier == "a link":
        _put(tmp_path / "first", target)
    second, observed = make_run(tmp_path / "second", 2.0), []

    def look(name: str) -> None:
        step = getattr(Path, name)

        def looked(path: Path, *arguments: Any, **keywords: Any) -> Any:
            result = step(path, *arguments, **keywords)
            baseline = job.baseline("last-good", "offline")
            if baseline is not None:
                summary = json.loads((baseline / "summary.json").read_text())
                observed.append(summary["run"]["performance"]["target_qps"])
            else:
                # No link can be put in a folder's place in one step.
                assert earlier != "a link" and name == "rename"
            return result

        monkeypatch.setattr(Path, name, looked)

    for name in ("mkdir", "rename", "replace", "symlink_to", "unlink"):
        look(name)
    _put(second, target)
    assert observed[0] == 1.0 and observed[-1] == 2.0
