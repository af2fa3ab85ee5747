"""The tracker that docs/tracking.md shows, with every call of it noted that it makes to wandb."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from meta_tests.features.tracking.kept_results import kept
from meta_tests.suite_runs import ROOT
from mlperf_suite.features.tracking import sender
from mlperf_suite.features.tracking.trackers import TrackingTarget

PAGE = ROOT / "docs/tracking.md"


def test_the_tracker_on_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = MagicMock()
    wandb.init.return_value.url = "https://wandb.example/run"
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 24
    (tmp_path / "wandb_tracker.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    folder = kept(tmp_path / "results")
    tracker = TrackingTarget.parse("wandb_tracker:our-team", "nightly").open()
    assert sender.keep_result(tracker, folder) == "https://wandb.example/run"
    given = wandb.init.call_args.kwargs
    assert (given["entity"], given["project"], given["name"]) == (
        "our-team",
        "nightly",
        folder.name,
    )
    noted = [call.args[0] for call in wandb.init.return_value.log.call_args_list]
    assert noted == [{"performance/blocks/tokens_per_sec": value} for value in (1.0, 2.0, 4.0)]
