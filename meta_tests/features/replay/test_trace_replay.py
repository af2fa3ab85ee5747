"""A production trace replayed: its times, lengths and shared prefixes, and what its report says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest import CaptureFixture

from meta_tests.features.replay.made_traces import ROW, exported, span, written
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.made_runs import stream_figures
from meta_tests.reports.outputs import page_rows
from mlperf_suite.__main__ import main
from mlperf_suite.engines.protocol import (
    FIRST_TOKEN,
    LATER_TOKENS,
    ClientFigures,
    RemoteRun,
    RequestTimestamps,
)
from mlperf_suite.features.replay.production_traces import TraceRequest
from mlperf_suite.features.replay.trace_replay import (
    TRACE_MARK,
    OpenLoop,
    TracePrompts,
    TraceRun,
    shared_tokens,
    trace_summary,
)
from mlperf_suite.features.servers.word_tokens import WordTokens

TOKENS = WordTokens((1,), tuple(range(100, 400)), 400)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"Ġ{chr(97 + n // 20)}{chr(97 + n % 20)}": n for n in range(400)}
    made = Tokenizer(models.WordLevel(words, unk_token="Ġaa"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    folder = tmp_path / "model"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return folder


def replayed(
    file: Path, tokenizer: Path, *more: str, **server: Any
) -> tuple[int, dict[str, Any], dict[str, Any], str]:
    """The exit status, the summary, the server's account and the page."""
    out = file.parent / "out.json"
    with stand_in_server(StandIn(**server)) as running:
        words = ["replay", str(file), "--endpoint", running.url, "--model", "stand-in"]
        status = main([*words, "--tokenizer", str(tokenizer), "--out", str(out), *more])
        account = {} if server.get("fault") == "dies" else running.account()
    return status, json.loads(out.read_text()), account, out.with_suffix(".html").read_text()


def rows(*times: float, **more: Any) -> list[dict[str, Any]]:
    return [ROW | {"timestamp": at, **more} for at in times]


def test_a_trace_is_sent(tmp_path: Path, tokenizer: Path, capsys: CaptureFixture[str]) -> None:
    file = written(tmp_path, *rows(0, 300, 600, 600))
    status, summary, account, page = replayed(
        file, tokenizer, "--ttft-limit", "10000", "--tpot-limit", "0.1", rest_s=0.1
    )
    assert status == 0 or summary["client_limits"]
    assert (summary["answered"], summary["failed"], summary["output_tokens"]) == (4, 0, 208)
    assert account["completions"] == 5
    body = json.loads(account["body"])
    assert len(body["prompt"]) == 1000
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (52, 52, True)
    assert summary["duration_s"] >= 0.6
    assert summary["goodput"]["within"] == 0 and summary["goodput"]["beyond_tpot"] == 4
    assert (summary["shared_tokens"], summary["prompt_tokens"]) == (3000, 4000)
    output = capsys.readouterr().out
    assert output.startswith(TRACE_MARK) and output.count(TRACE_MARK) == 2
    assert "4 of 4 requests answered" in output and "no measurement" in output
    assert TRACE_MARK[1:] in page and TRACE_MARK.upper() in page
    assert any(row[0] == "TTFT" for row in page_rows(page))
    assert f"{summary['command'].split()[0]}" in page.partition("Reproduce it")[2]
    assert len(summary["windows"]) == 60
    assert sum(row["due_per_s"] for row in summary["windows"]) > 0


def test_the_speed_is_a_factor_and_spans_have_prompts(tmp_path: Path, tokenizer: Path) -> None:
    spans = [span(f"{n}000000000", "20", "5") for n in (10, 20, 30)]
    file = written(tmp_path, exported(*spans))
    _, summary, account, page = replayed(file, tokenizer, "--speed", "100")
    assert (summary["kind"], summary["answered"]) == ("OpenTelemetry", 3)
    assert summary["shared_tokens"] is None
    assert 0.2 <= summary["duration_s"] < 20
    assert len(json.loads(account["body"])["prompt"]) == 20
    assert "no shared prefixes" in page


def test_failed_and_left_out(tmp_path: Path, tokenizer: Path, capsys: CaptureFixture[str]) -> None:
    long = ROW | {"input_length": 5000, "hash_ids": list(range(10))}
    file = written(tmp_path, *rows(0, 10, 20), long)
    status, summary, _, page = replayed(
        file, tokenizer, max_model_len=2000, fault="status-500", fault_from=2, fault_for=1
    )
    assert status == 1
    assert (summary["left_out"], summary["failed"], summary["answered"]) == (1, 1, 2)
    output = capsys.readouterr().out
    assert "1 failed: " in output and "status 500" in page
    assert "left out: 1 request longer than the server's context of 2,000 tokens" in output


def test_what_came_before_a_server_died_is_kept(tmp_path: Path, tokenizer: Path) -> None:
    file = written(tmp_path, *rows(0, 3000, 3100))
    status, summary, *_ = replayed(file, tokenizer, fault="dies", fault_from=2)
    assert (status, summary["answered"]) == (1, 1) and summary["ended"]


def test_bad_options(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    command = ["replay", str(written(tmp_path, ROW)), "--endpoint", "http://127.0.0.1:9"]
    for words, why in (
        (["--speed", "nan"], "--speed nan: must be a number above 0"),
        (["--ttft-limit", "-1"], "--ttft-limit -1.0"),
        (["--tokenizer", "nowhere"], "nowhere has no tokenizer.json"),
    ):
        out = str(tmp_path / "out.json")
        assert main([*command, "--model", "m", *words, "--out", out]) == 2
        assert why in capsys.readouterr().err


def test_prompts_begin_alike_where_their_blocks_do() -> None:
    prompts = TracePrompts(TOKENS, 3)
    first = prompts.of(0, TraceRequest(0.0, 1000, 1, (46, 47)))
    second = prompts.of(1, TraceRequest(0.0, 1300, 1, (46, 48, 49)))
    longer = prompts.of(2, TraceRequest(0.0, 1024, 1, (46, 47)))
    assert (len(first), len(second)) == (1000, 1300)
    assert first[:512] == second[:512] and first[512:520] != second[512:520]
    assert longer[:1000] == first and first[0] == 1
    assert TracePrompts(TOKENS, 4).of(0, TraceRequest(0.0, 1000, 1, (46, 47))) != first
    alone = [prompts.of(n, TraceRequest(0.0, 30, 1)) for n in range(2)]
    assert alone[0] != alone[1] and set(alone[0][1:]) <= set(TOKENS.words)


def test_shared_tokens_are_those_that_an_earlier_prompt_begins_with() -> None:
    requests = [
        TraceRequest(0.0, 1000, 1, (1, 2)),
        TraceRequest(1.0, 600, 1, (1, 3)),
        TraceRequest(2.0, 1000, 1, (4, 2)),
        TraceRequest(3.0, 1000, 1, (1, 2)),
    ]
    assert shared_tokens(requests) == 512 + 0 + 1000
    assert shared_tokens([TraceRequest(0.0, 5, 1)]) is None


def test_figures_count_from_the_sending_and_lateness_from_the_trace() -> None:
    run = TraceRun(Path("t"), "u", "m", Path("d"), Path("o"), speed=2.0, ttft_ms=150.0)
    requests = [TraceRequest(at, 10, 5) for at in (0.0, 2.0, 4.0)]
    loop = OpenLoop(100.0, [0.0, 1.0, 2.0], tokens={0: 5, 1: 5}, failures={2: "no"})
    marks = RequestTimestamps("client", FIRST_TOKEN, LATER_TOKENS)
    marks.keep(0, 0, 100.001, 100.101, 100.501)
    marks.keep(1, 0, 101.021, 101.221, 101.621)
    remote = RemoteRun(ClientFigures(1, 0.1), (), stream=stream_figures())
    summary = trace_summary(run, requests, loop, marks, remote)
    assert summary["ttft_ms"]["p50"] == pytest.approx(200)
    assert summary["tpot_ms"]["p99"] == pytest.approx(100)
    assert summary["late_ms"]["p99"] == pytest.approx(21)
    assert summary["client_limits"] == ["sent 21.0 ms late at p99"]
    assert summary["tokens_per_s"] == pytest.approx(10 / 1.621, abs=1e-3)
    assert (summary["goodput"]["within"], summary["goodput"]["beyond_ttft"]) == (1, 1)
    assert (summary["failed"], summary["failures"]) == (1, {"no": 1})
    assert json.dumps(summary, allow_nan=False)
    held = replace(remote, stream=replace(stream_figures(later_ms=None), at_once=84))
    summary = trace_summary(run, requests, loop, marks, held)
    assert "84 of 84 answers" in summary["held_back"] and summary["goodput"] is None
