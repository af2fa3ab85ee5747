"""The operations of a trace: own times, over threads and files, whatever the file looks like."""

import gzip
from pathlib import Path

import pytest

from meta_tests.features.profiling.made_traces import event, trace_of
from meta_tests.features.profiling.nsys_stand_in import put_nsys
from mlperf_suite.engines.protocol import trace_files
from mlperf_suite.errors import RunError, UsageError
from mlperf_suite.features.profiling import nsight
from mlperf_suite.features.profiling.report import REPORT
from mlperf_suite.features.profiling.trace import (
    PROFILE,
    Operation,
    ProfileFigures,
    TopOperations,
    top_operations,
)
from mlperf_suite.results.schema import Summary


def by_name(top: TopOperations) -> dict[str, tuple[int, float]]:
    return {
        operation.name: (operation.calls, round(operation.self_ms, 6))
        for operation in top.operations
    }


def test_an_operation_has_its_own_time_without_what_it_called(tmp_path: Path) -> None:
    path = trace_of(
        tmp_path / "a.pt.trace.json.gz",
        {"ph": "M", "name": "process_name", "pid": 1},
        3,
        # Within linear's 100 µs: addmm, with a copy in it, and another thread's beside it.
        event("copy", 20, 10),
        event("linear", 0, 100),
        event("addmm", 10, 60),
        event("copy", 50, 30, tid=2),
        event("copy", 100, 5),
        event("execute", 0, 1000, cat="user_annotation"),
        event("begin", 0, 1000, ph="B"),
    )
    top = top_operations([path])
    assert by_name(top) == {"addmm": (1, 0.05), "copy": (3, 0.045), "linear": (1, 0.04)}
    assert [operation.name for operation in top.operations] == ["addmm", "copy", "linear"]
    assert (top.where, top.damaged, round(top.total_ms, 6)) == ("CPU", False, 0.135)
    assert sum(operation.share for operation in top.operations) == pytest.approx(1)
    assert top_operations([path], most=1).operations == top.operations[:1]
    # A name is not longer than a table takes.
    path = trace_of(tmp_path / "b.pt.trace.json", event("k" * 500, 0, 1))
    assert top_operations([path]).operations == (Operation("k" * 80, 1, 0.001, 1.0),)


def test_the_kernels_count_where_there_are_any_and_files_add_up(tmp_path: Path) -> None:
    first = trace_of(
        tmp_path / "rank0.pt.trace.json",
        event("launch", 0, 500),
        event("gemm", 0, 200, cat="kernel", pid=0, tid=7),
        event("Memcpy", 200, 50, cat="gpu_memcpy", pid=0, tid=7),
    )
    second = trace_of(
        tmp_path / "rank1.pt.trace.json", event("gemm", 100, 300, cat="kernel", pid=0, tid=7)
    )
    assert trace_files(tmp_path) == (first, second)
    top = top_operations(trace_files(tmp_path))
    assert (top.where, by_name(top)) == ("GPU", {"gemm": (2, 0.5), "Memcpy": (1, 0.05)})


def test_a_trace_that_ends_early_shows_what_was_read(tmp_path: Path) -> None:
    whole = trace_of(tmp_path / "a.pt.trace.json", *(event("mm", 10 * i, 5) for i in range(9)))
    text = whole.read_text()
    whole.write_text(text[: text.rindex('"ph"')])
    top = top_operations([whole])
    assert (top.damaged, by_name(top)) == (True, {"mm": (8, 0.04)})
    figures = ProfileFigures("torch", 1.0, (), "", top)
    (section,) = REPORT.sections(Summary(parts={PROFILE: figures}), None)
    assert "A trace could not be read completely" in str(section.blocks)
    packed = tmp_path / "b.pt.trace.json.gz"
    packed.write_bytes(gzip.compress(text.encode())[:-20])
    assert top_operations([packed]).damaged
    # What is no trace is nothing worse.
    operation = b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "mm", "ts": 1%s}]}'
    whole.unlink()
    packed.unlink()
    for content in (
        *(b"", b"{}", b"no trace", b'{"traceEvents": 3}', b"\xff\x00", b'{"traceEvents": ['),
        operation % b"",
        operation % b', "dur": "x"',
        operation % b', "dur": 1, "cat": ["cpu_op"]',
    ):
        for name in ("a.pt.trace.json", "a.pt.trace.json.gz"):
            (tmp_path / name).write_bytes(content)
        top = top_operations(trace_files(tmp_path))
        assert (top.damaged, top.operations) == (True, ()), content
    assert top_operations([tmp_path / "gone.pt.trace.json"]).damaged
    assert top_operations([trace_of(tmp_path / "b.pt.trace.json")]) == TopOperations()


# Nsight Systems, by a stand-in of its command that notes what it is told


def test_without_nsys_or_its_session_the_error_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"not on the PATH.*nsys launch"):
            nsight.check()
    put_nsys(tmp_path, monkeypatch, session="somebody-elses")
    with pytest.raises(UsageError, match=r"no Nsight Systems session mlperf-suite.*nsys launch"):
        nsight.check()
    put_nsys(tmp_path, monkeypatch)
    nsight.check()


def test_an_nsys_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_nsys(tmp_path, monkeypatch, status=3)
    with pytest.raises(RunError, match="nsys stop --session=mlperf-suite: "):
        nsight.end()
    with pytest.raises(UsageError, match="does not work: nsys sessions list: "):
        nsight.check()
