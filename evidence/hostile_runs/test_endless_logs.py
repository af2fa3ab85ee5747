"""Files that never end, in place of each that is judged, and folders within folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from meta_tests.judging.trees import ROOT, V6_1
from meta_tests.judging.unreadable_files import UNREADABLE
from meta_tests.made_runs import MadeRun, write_run
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.judging.judge import holds_logs, judge_folder
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL

FILES = (f"perf/{DETAIL}", "perf/mlperf_log_summary.txt", f"acc/{ACCURACY}", "acc/accuracy.txt")
CODE = """import pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from mlperf_suite.judging.judge import judge_folder
for folder in pathlib.Path(sys.argv[1]).iterdir():
    assert len(judge_folder(folder)) == 2, folder
"""


def test_what_never_ends_is_never_read(tmp_path: Path) -> None:
    whole, folders = tmp_path / "whole", tmp_path / "folders"
    offline = LLAMA3_1_8B.scenario("Offline")
    accuracy = MadeRun(LLAMA3_1_8B, offline, "accuracy", V6_1)
    write_run(whole / "acc", accuracy)
    (whole / "acc" / ACCURACY).write_text(accuracy.accuracy_json)
    (whole / "acc/accuracy.txt").write_text(accuracy.accuracy_txt)
    write_run(whole / "perf", MadeRun(LLAMA3_1_8B, offline, "performance", V6_1))
    (whole / "summary.json").write_text(json.dumps({"meta": {"model": str(whole)}}))
    for name in (*FILES, "summary.json", "checksums.json", "config.json"):
        for kind, make in UNREADABLE.items():
            copy = folders / f"{name.replace('/', ' ')} {kind}"
            shutil.copytree(whole, copy)
            (copy / name).unlink(missing_ok=True)
            make(copy / name)
    subprocess.run([sys.executable, "-c", CODE, str(folders)], cwd=ROOT, check=True, timeout=600)


def test_folders_may_be_nested_to_any_depth(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d"] * 1100)
    for deeper in (*reversed(folder.parents), folder):
        deeper.mkdir(exist_ok=True)
    write_run(folder, MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1))
    try:
        assert holds_logs(tmp_path)
        assert len(judge_folder(tmp_path)) == 1
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True, timeout=600)
