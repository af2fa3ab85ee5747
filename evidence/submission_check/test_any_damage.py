"""Any damage to a file of a submission or of a power measurement is seen, and none raises."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.features.submission_check.made_power import write_measurement
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.features.submission_check.power_damages import facts_of
from meta_tests.judging.trees import V6_1, failures_by_run
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.rules import judge
from mlperf_suite.rules.registry import rules_of

OFFLINE = LLAMA3_1_8B.scenario("Offline")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_measurement(tmp_path_factory.mktemp("whole"), LLAMA3_1_8B, OFFLINE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_no_damage_raises_or_passes(tmp_path: Path, whole: Path, data: st.DataObject) -> None:
    folder = tmp_path / "performance"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    names = sorted(str(p.relative_to(whole)) for p in whole.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names))
    was = (whole / name).read_bytes()
    at = data.draw(st.integers(0, len(was) - 1))
    new = was[:at] + data.draw(st.binary(max_size=4)) + was[at + data.draw(st.integers(0, 200)) :]
    (folder / name).write_bytes(new)
    verdicts = judge(facts_of(folder, OFFLINE))
    assert len(verdicts) == len(rules_of("power"))
    # Only the two that hold the hashes are in no hash themselves.
    if new != was and not name.endswith(".json"):
        assert not all(v.passed for v in verdicts)


def test_no_damage_to_any_file_raises_or_passes_unseen(tmp_path: Path) -> None:
    """Of a submission that lacks a scenario, which fails as it is."""
    root, copy = tmp_path / "tree", tmp_path / "copy"
    write_submission(root, LLAMA3_1_8B, V6_1, scenarios=("Server",))
    as_it_is = failures_by_run(root)
    files = [path for path in root.rglob("*") if path.is_file() and path.parent.name != "src"]
    for place in sorted(path.relative_to(root) for path in files):
        for kind in ("gone", "folder", "noise", "link", "empty"):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(root, copy)
            file = copy / place
            file.unlink()
            if kind == "folder":
                file.mkdir()
            elif kind == "link":
                file.symlink_to(file.name)
            elif kind != "gone":
                file.write_bytes(b"\0\xff{noise" if kind == "noise" else b"")
            unread = file.name in ("user.conf", "README.md")
            assert (failures_by_run(copy) == as_it_is) == (unread and kind == "noise"), (
                place,
                kind,
            )
