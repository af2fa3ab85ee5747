"""pytest-xdist: two engines never measure each other."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.suite_runs import ROOT, run_suite
from mlperf_suite.plugin.workers import pytest_xdist_make_scheduler, pytest_xdist_setupnodes

STAND_IN = ("-m", "offline", "-p", "meta_tests.stand_in_plugin")


def test_workers_with_an_engine_each_are_refused_before_they_start(tmp_path: Path) -> None:
    run = run_suite(tmp_path / "results", *STAND_IN, "-n", "2")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    (message,) = [line for line in run.output.splitlines() if line.startswith("ERROR")]
    assert "use --dist loadgroup" in message
    assert not run.results_dir.exists()


@pytest.mark.parametrize(
    ("path", "dist", "workers", "options", "refusal"),
    [
        (".", "worksteal", 2, {}, "use --dist loadgroup"),
        ("tests/accuracy/test_accuracy.py", "each", 2, {}, "use --dist loadgroup"),
        (".", "loadgroup", 2, {}, ""),
        (".", "load", 1, {}, ""),
        (".", "load", 2, {"logs": "old"}, ""),
        ("meta_tests/tampering", "loadfile", 2, {}, ""),
        (".", "loadgroup", 2, {"plan": True}, "--plan: runs nothing that workers could share"),
    ],
)
def test_workers_are_refused_where_two_would_load_an_engine(
    path: str, dist: str, workers: int, options: dict[str, object], refusal: str
) -> None:
    told = {"suite_config": None, "dist": dist} | options
    config: Any = SimpleNamespace(
        getoption=told.get,
        stash=pytest.Stash(),
        args=[path],
        invocation_params=SimpleNamespace(dir=ROOT),
    )
    with pytest.raises(pytest.UsageError, match=refusal) if refusal else nullcontext():
        pytest_xdist_setupnodes(config, range(workers))


def test_what_uses_the_engine_is_on_one_worker_and_a_share_on_its_own() -> None:
    told = {"dist": "loadgroup", "tx": ["2*popen"]}
    config: Any = SimpleNamespace(getvalue=told.get)
    scheduler = pytest_xdist_make_scheduler(config, None)
    for test, group in (
        ("tests/performance/test_offline.py::test_ttft[x]", "engine"),
        ("own/test_mine.py::test_mine", "engine"),
        ("own/test_mine.py::test_share[engine-2]", "engine-2"),
        ("meta_tests/test_docs.py::test_x", "meta_tests/test_docs.py::test_x"),
    ):
        assert scheduler._split_scope(test) == group
    told["dist"] = "loadfile"
    assert pytest_xdist_make_scheduler(config, None) is None
