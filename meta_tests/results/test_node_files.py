"""What the node script's users parse: the files of a session, and when they call it valid."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.results.node_files import NodeResult, file_part, write_node_files
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import (
    STAND_IN_LABEL,
    AccuracyFigures,
    Meta,
    PerformanceFigures,
    Run,
    Summary,
    TimeBreakdown,
)
from mlperf_suite.rules.verdict import Status, Verdict

STARTED = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
FIGURES = PerformanceFigures(
    valid=True,
    samples_per_sec=1.05,
    tokens_per_sec=134.4,
    target_qps=1.0,
    latency_ms={"p50": 700.0, "p99": 945.2},
    life=TimeBreakdown(requests=84),
)
META = Meta(
    category="datacenter",
    scenario="Server",
    benchmark="llama3.1-8b",
    model="m",
    round="v6.1",
    profile="official",
    label="official rules of round v6.1",
    status="complete",
)
WHOLE = Summary(meta=META, run=Run(performance=FIGURES))


def result(
    folder: Path, summary: Summary, *, stand_in: bool = False, sample_count: int | None = 84
) -> NodeResult:
    (folder / "Performance").mkdir(parents=True)
    engine = {"name": "vLLM", "version": "1", "stand_in": stand_in}
    write_json(folder / "config.json", {"engine": engine})
    if sample_count is not None:
        lines = [
            f':::MLLOG {{"key": "{key}", "value": {value}, "metadata": {{"is_error": false}}}}'
            for key, value in (
                ("result_query_count", sample_count),
                ("generated_samples_per_query", 1),
            )
        ]
        (folder / "Performance/mlperf_log_detail.txt").write_text("\n".join(lines))
    return NodeResult(summary, folder, STARTED)


def node_files(tmp_path: Path, *results: NodeResult, node: str = "node-7") -> tuple[Any, str]:
    content, text = write_node_files(tmp_path, node, results)
    return json.loads(content.read_text()), text.read_text()


def test_a_node_has_the_files_that_the_node_script_left(tmp_path: Path) -> None:
    offline = replace(WHOLE, meta=replace(META, scenario="Offline"))
    results = [result(tmp_path / "a", WHOLE), result(tmp_path / "b", offline)]
    content, text = node_files(tmp_path, *results)
    assert (tmp_path / "mlperf_datacenter_node-7_20261120_101500.json").is_file()
    assert (tmp_path / "summary_node-7_20261120_101500.txt").is_file()
    info = content["benchmark_info"]
    assert (info["node"], info["timestamp"]) == ("node-7", "20261120_101500")
    assert (info["benchmark"], info["label"]) == (META.benchmark, META.label)
    server = content["scenarios"]["Server"]
    # What the coordinator reads besides, with the node script's names and units.
    of_coordinator = {
        "scenario": "Server",
        **{f"latency_{p}": (FIGURES.latency_ms or {}).get(p) for p in ("p50", "p90")},
        **{f"ttft_{p}": (FIGURES.ttft_ms or {}).get(p) for p in ("p50", "p99")},
        **{f"tpot_{p}": (FIGURES.tpot_ms or {}).get(p) for p in ("p50", "p99")},
        "successful_queries": FIGURES.life.requests if FIGURES.life else None,
        "duration_ms": FIGURES.duration_s and FIGURES.duration_s * 1e3,
    }
    assert {name: server.pop(name) for name in of_coordinator} == of_coordinator
    assert server.pop("total_queries") == of_coordinator["successful_queries"]
    assert server == {
        "valid": True,
        "achieved_qps": 1.05,
        "target_qps": 1.0,
        "latency_p99": 945.2,
        "throughput_tokens_per_sec": 134.4,
        "accuracy": 1.0,
        "accuracy_passed": None,
        "run": "a",
    }
    assert list(content["scenarios"]) == ["Server", "Offline"]
    for words in ("llama3.1-8b on node-7", "Server: VALID", "Latency p99: 945.20 ms", "1.05 quer"):
        assert words in text
    assert "  TTFT p99: not reported ms\n" in text


def _verdict(status: Status) -> Summary:
    return replace(WHOLE, verdicts=(Verdict("min_duration", status, "10 s", "600 s"),))


BROKEN = {
    "failed": (replace(WHOLE, meta=replace(META, status="failed", reason="it died")), "it died"),
    "smoke": (replace(WHOLE, meta=replace(META, profile="smoke")), "smoke: not an MLPerf result"),
    "no profile": (replace(WHOLE, meta=replace(META, profile=None)), "unknown profile"),
    "shortened": (_verdict("shortened"), "rules shortened: min_duration"),
    "a rule": (_verdict("failed"), "rules failed: min_duration"),
    "client": (
        replace(WHOLE, verdicts=(Verdict("client_bound", "failed", "a", "b"),)),
        "client-bound: not a result",
    ),
    "INVALID": (
        replace(WHOLE, run=Run(performance=replace(FIGURES, valid=False, invalid_reason="late"))),
        "LoadGen: INVALID: late",
    ),
    "not said": (replace(WHOLE, run=Run(performance=replace(FIGURES, valid=None))), "INVALID"),
    "none": (replace(WHOLE, run=Run()), "no performance run"),
    "stand-in": (WHOLE, STAND_IN_LABEL),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_result_is_not_valid_and_says_why(tmp_path: Path, case: str) -> None:
    summary, reason = BROKEN[case]
    content, text = node_files(
        tmp_path, result(tmp_path / "a", summary, stand_in=reason == STAND_IN_LABEL)
    )
    entry = content["scenarios"]["Server"]
    assert entry["valid"] is False
    assert reason in entry["reason"]
    assert "Server: NOT VALID" in text and reason in text
    assert "Server: VALID" not in text


def test_accuracy_is_the_share_of_queries_that_were_answered(tmp_path: Path) -> None:
    """What the accuracy rules say stands beside it."""
    for count, share, passed in (
        *((84, 1.0, True), (168, 0.5, False), (None, None, None)),
        # More answers than queries are all of them.
        (80, 1.0, True),
    ):
        run = Run(performance=FIGURES, accuracy=AccuracyFigures(passed=passed))
        part = result(tmp_path / f"{count}", replace(WHOLE, run=run), sample_count=count)
        entry = node_files(tmp_path, part, node=f"{count}")[0]["scenarios"]["Server"]
        assert (entry["accuracy"], entry["accuracy_passed"]) == (share, passed)


def test_each_benchmark_has_its_files_and_other_categories_none(tmp_path: Path) -> None:
    edge = replace(WHOLE, meta=replace(META, category="edge"))
    another_benchmark = replace(WHOLE, meta=replace(META, benchmark="llama2-70b-99"))
    results = [
        result(tmp_path / name, entry)
        for name, entry in (("e", edge), ("a", WHOLE), ("b", another_benchmark))
    ]
    paths = write_node_files(tmp_path, "n", results)
    assert [path.name for path in paths] == [
        "mlperf_datacenter_n_20261120_101500.json",
        "summary_n_20261120_101500.txt",
        "mlperf_datacenter_n_20261120_101500-2.json",
        "summary_n_20261120_101500-2.txt",
    ]
    assert write_node_files(tmp_path, "n", results[:1]) == []


def test_a_name_and_what_a_run_says_break_neither_a_files_name_nor_a_line(tmp_path: Path) -> None:
    for name, part in (("gpu-1.rack_2", "gpu-1.rack_2"), ("..", "_"), ("é", "_")):
        assert file_part(name) == part
    hostile = replace(META, status="failed", reason="a\nServer: VALID\x1b[2J", model="m\nn\x07")
    broken = result(tmp_path / "a", replace(WHOLE, meta=hostile))
    content, text = node_files(tmp_path, broken, node="../a b")
    assert {path.parent for path in tmp_path.rglob("*_20261120_101500.*")} == {tmp_path}
    assert content["benchmark_info"]["node"] == "../a b"
    assert text.startswith("llama3.1-8b on ../a b\n")
    assert "Server: VALID" not in [line.strip() for line in text.splitlines()]
    assert not set("\x1b\x07") & set(text)
