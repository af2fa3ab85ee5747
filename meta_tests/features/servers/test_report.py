"""Reports of a run on servers elsewhere: their figures and the client's, and what is not known."""

from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.made_runs import remote_run, stream_figures
from meta_tests.reports.outputs import markdown_rows, page_rows, reports_of, terminal_text
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.reports.run_report import remote_note
from mlperf_suite.reports.writing import index_html, index_markdown
from mlperf_suite.results.run_folder import read_entries, trends_of, write_json
from mlperf_suite.results.schema import (
    CLIENT_BOUND,
    Config,
    EngineFacts,
    Meta,
    PerformanceFigures,
    Run,
    Summary,
)
from mlperf_suite.rules.verdict import Verdict

META = Meta(benchmark="llama3.1-8b", scenario="Server", model="m", status="complete", label="smoke")
FIGURES = PerformanceFigures(tokens_per_sec=840.0, duration_s=10.0)
BOUND = (Verdict("client_bound", "failed", "99% of a core", "below 90% of a core"),)


def summary_of(*modes: str, remote: RemoteRun | None = None) -> Summary:
    runs = dict.fromkeys(modes, remote or remote_run(cached=None))
    return Summary(meta=META, system={"cpu": "a cpu"}, run=Run(performance=FIGURES, remote=runs))


def test_how_answers_arrived_stands_in_both_reports() -> None:
    for stream, later in (
        (stream_figures(), "9.00 ms"),
        (stream_figures(later_ms=None), "not reported"),
    ):
        text, page = reports_of(
            summary_of("performance", remote=replace(remote_run(), stream=stream))
        )
        for rows in (page_rows(page), markdown_rows(text)):
            assert ["performance", "84", "1", "4", "1", "4", "0", later, "0", "0"] in rows


def test_each_endpoint_and_the_client_stand_in_both_reports() -> None:
    summary = summary_of("accuracy", "performance")
    text, page = reports_of(summary)
    times = ("40.00 ms", "120.2 ms", "900.0 ms", "1,800 ms")
    for rows in (page_rows(page), markdown_rows(text)):
        row = ["performance", "http://one:8000", "60", "6,000", "600.00", *times, "0", "0"]
        assert row in rows
        # Nothing keeps how long an accuracy run took, and the second server counts no cache.
        assert ["accuracy", *row[1:4], "not reported", *row[5:]] in rows
        times_of_two = ("40.00 ms", "120.2 ms", "950.0 ms", "1,900 ms")
        two = ["performance", "http://two:8000", "24", "2,400", "240.00", *times_of_two]
        assert [*two, "not reported", "0"] in rows
        assert ["performance", "2", "30.0", "0.20 ms", "0.30 ms", "64", "0", "3"] in rows
    assert remote_note("this report") in text
    assert "The system" not in text and "The system<" not in page


@pytest.mark.parametrize("here", [True, False])
def test_the_machine_of_a_driver_alone_is_not_called_the_system(here: bool) -> None:
    machine = {"host": "b", "here": here, "gpus": 8, "gpu": "H100"}
    config = Config(engine=EngineFacts("vLLM", settings={"machines": [machine]}))
    figures = replace(FIGURES, load=EngineLoad(kv_full=1.0))
    summary = Summary(meta=META, system={"gpu_count": 0}, run=Run(performance=figures))
    for text in reports_of(summary, config):
        assert ("The system" in text) == here
        assert ("The driver's machine" in text.replace("&#39;", "'")) != here
        assert "--gpu-memory-utilization" in text and "VLLM_CPU_KVCACHE_SPACE" not in text


def test_a_run_that_died_on_a_server_does_not_call_the_clients_machine_the_system() -> None:
    config = Config(engine=EngineFacts("vLLM server", settings={"endpoints": ["http://one:8000"]}))
    for text in reports_of(summary_of(), config):
        assert "The client's machine" in text.replace("&#39;", "'") and "The system" not in text
    for text in reports_of(summary_of()):
        assert "The client" not in text and "The system" in text


def test_the_terminal_tells_the_performance_runs_servers_and_client() -> None:
    remote = remote_run(cached=None)
    full = replace(remote.endpoints[0], turned_away=1200)
    remote = replace(remote, endpoints=(full, *remote.endpoints[1:]))
    terminal = terminal_text(summary_of("accuracy", "performance", remote=remote))
    assert terminal.count("http://one:8000: 60 requests, 6,000 tokens\n") == 1
    words = " ".join(terminal.split())
    assert "2 clients, up to 30% of a core; p99 delay 0.20 ms out, 0.30 ms back" in words
    assert "the server's hardware is not known" in words
    assert words.count("http://one:8000 turned requests away 1,200 times: the wait counts in") == 1


def test_a_client_bound_run_is_marked_everywhere(tmp_path: Path) -> None:
    label = f"{CLIENT_BOUND}; smoke"
    meta = Meta(status="invalid", benchmark="b", scenario="Server", label=label, profile="smoke")
    summary = Summary(meta=meta, run=summary_of("performance").run, verdicts=BOUND)
    assert summary.client_bound
    text = terminal_text(summary)
    assert "next      --endpoint-clients N, or a client on idle cores" in text
    assert "--baseline" not in text
    for text in (*reports_of(summary), terminal_text(summary)):
        assert CLIENT_BOUND in text
    assert (
        f"**1 rule failed:** client\\_bound\n\n**{CLIENT_BOUND}; smoke:**" in reports_of(summary)[0]
    )
    write_json_of(tmp_path / "20261120-065625-b-server", summary)
    entries = read_entries(tmp_path)
    assert CLIENT_BOUND in index_markdown(entries)
    assert CLIENT_BOUND in index_html(entries, trends_of(entries))


def write_json_of(folder: Path, summary: Summary) -> Path:
    folder.mkdir()
    write_json(folder / "summary.json", summary.as_json())
    return folder


def test_runs_of_servers_elsewhere_are_no_trend_of_the_machine_that_the_client_ran_on(
    tmp_path: Path,
) -> None:
    for second, modes in enumerate(((), (), ("performance",), ("performance",))):
        write_json_of(tmp_path / f"2026112{second}-065625-llama3.1-8b-server", summary_of(*modes))
    assert {trend.system for trend in trends_of(read_entries(tmp_path))} == {
        "a cpu, ? cores",
        "http://one:8000, http://two:8000",
    }
