"""The report of a run with a curve that was made to harm shows what it says as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence.hostile_runs.poisoned_folders import RUN_NAME, check_is_text, check_shown, poison_run
from meta_tests.reports.hostile_runs import TEXT
from meta_tests.reports.kept_run import write_kept
from meta_tests.reports.outputs import terminal_text
from mlperf_suite.__main__ import main
from mlperf_suite.features.endpoints.curve.curve_figures import CurveFigures, CurvePoint
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.results.schema import Summary
from mlperf_suite.results.typed_json import to_json


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_curve_says_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_kept(tmp_path / RUN_NAME.format(1))
    content = json.loads((run / SUMMARY_JSON).read_text())
    points = (CurvePoint(48, "failed", ("medium",), "a"),)
    content["curve"] = to_json(CurveFigures("c", points=points))
    (run / SUMMARY_JSON).write_text(json.dumps(content))
    assert main(["report", str(poison_run(run, TEXT))]) == 0
    shown = terminal_text(Summary.read(json.loads((run / SUMMARY_JSON).read_text())))
    check_shown(tmp_path, shown, *capsys.readouterr())
    check_is_text(tmp_path)
