"""What reports say of servers and their client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlperf_suite.engines.protocol import EndpointFigures, RemoteRun, ServerView, StreamFigures
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.run_report import is_remote, remote_note
from mlperf_suite.reports.sections import (
    Cell,
    Line,
    Paragraph,
    Section,
    count,
    decimal,
    record_table,
    time_cell,
)
from mlperf_suite.results.bottlenecks import percent
from mlperf_suite.results.schema import Config, Run, Summary
from mlperf_suite.rules.verdict import in_words


class ServersReport(FeatureReport):
    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        is_shown = is_remote(summary.run, config)
        return _endpoint_sections(summary.run) if is_shown else []

    def closing(self, summary: Summary) -> list[Line]:
        lines = _remote_lines(summary.run.remote)
        return [Line("" if number else "endpoint", line) for number, line in enumerate(lines)]

    def next_steps(self, summary: Summary, folder: Path) -> list[str]:
        if summary.client_bound:
            return ["--endpoint-clients N, or a client on idle cores: this one limited the run"]
        if summary.run.remote:
            return [] if summary.regression else ["--baseline RUN: did it get slower?"]
        is_embedded = summary.meta.model == "embedded"
        return ["--endpoint URL measures a server"] if is_embedded else []


REPORT = ServersReport()


def _endpoint_sections(run: Run) -> list[Section]:
    """The endpoints of each run, and its client."""
    # How long LoadGen ran is only kept for performance runs.
    duration_s = run.performance.duration_s if run.performance else None
    endpoints = [
        {"run": mode, **_endpoint(endpoint, duration_s if mode == "performance" else None)}
        for mode, remote in run.remote.items()
        for endpoint in remote.endpoints
    ]
    note = Paragraph(remote_note("this report"))
    table = record_table(endpoints, ["run", "endpoint"])
    sections = [Section("Endpoints", [note, *table])]
    sections.append(_server_section(run.remote))
    streams = [
        {"run": mode, **_stream(remote.stream)}
        for mode, remote in run.remote.items()
        if remote.stream
    ]
    if streams:
        note = Paragraph(
            "The first event and each one in tokens; what comes together is one.", style="note"
        )
        sections.append(Section("How answers arrived", [note, *record_table(streams, ["run"])], 3))
    clients = [
        {"run": mode, **_client(remote)}
        for mode, remote in run.remote.items()
        if remote.client.processes
    ]
    if clients:
        sections.append(Section("The client", record_table(clients, ["run"]), 3))
    return sections


def _endpoint(endpoint: EndpointFigures, duration_s: float | None) -> dict[str, Cell]:
    return {
        "endpoint": in_words(endpoint.url),
        "requests": decimal(endpoint.requests, 0),
        "tokens": decimal(endpoint.tokens, 0),
        "tokens/s": decimal(endpoint.tokens / duration_s if duration_s else None),
        "TTFT p50": time_cell(endpoint.ttft_ms.get("p50")),
        "TTFT p99": time_cell(endpoint.ttft_ms.get("p99")),
        "latency p50": time_cell(endpoint.latency_ms.get("p50")),
        "latency p99": time_cell(endpoint.latency_ms.get("p99")),
        "cached tokens": decimal(endpoint.cached_tokens, 0),
        "turned away": decimal(endpoint.turned_away, 0),
    }


def _stream(stream: StreamFigures) -> dict[str, Cell]:
    return {
        "streamed answers": decimal(stream.answers, 0),
        "first event p50": decimal(stream.first_tokens.get("p50"), 0),
        "first event p99": decimal(stream.first_tokens.get("p99"), 0),
        "each event p50": decimal(stream.event_tokens.get("p50"), 0),
        "each event p99": decimal(stream.event_tokens.get("p99"), 0),
        "in one piece": decimal(stream.at_once, 0),
        "TPOT p99 without the first event": time_cell(stream.later_tpot_ms.get("p99")),
        "repeated": decimal(stream.repeats, 0),
        "as from memory": decimal(stream.from_memory, 0),
    }


def _server_section(remotes: Mapping[str, RemoteRun]) -> Section:
    endpoints = [(mode, end) for mode, remote in remotes.items() for end in remote.endpoints]
    views = [
        {"run": mode, "endpoint": in_words(end.url), **server_view_cells(end.server)}
        for mode, end in endpoints
        if end.server is not None
    ]
    silent = sorted({in_words(end.url) for _, end in endpoints if end.server is None})
    says = ["The server's own metrics, read once per second."] if views else []
    if silent:
        says.append(f"No metrics, or none read before the run ended: {', '.join(silent)}.")
    lines = [Paragraph(text, style="note") for text in says]
    table = record_table(views, ["run", "endpoint"])
    return Section("The server's own view", [*lines, *table], 3)


def server_view_cells(server: ServerView) -> dict[str, Cell]:
    """What a server says of a run, by the names of columns."""

    def ratio(part: int | None, whole: int | None) -> str:
        return "" if part is None or not whole else percent(min(part, whole) / whole)

    def percent_text(share: float | None) -> str:
        return "" if share is None else percent(share)

    return {
        "running": decimal(server.running_mean, 1),
        "running, max": decimal(server.running_most, 0),
        "waiting": decimal(server.waiting_mean, 1),
        "waiting, max": decimal(server.waiting_most, 0),
        "KV cache": percent_text(server.kv_mean),
        "KV cache, max": percent_text(server.kv_most),
        "preempted": decimal(server.preemptions, 0),
        "prompt from cache": ratio(server.cached_tokens, server.looked_up_tokens),
        "drafts accepted": ratio(server.accepted_tokens, server.drafted_tokens),
    }


def _client(remote: RemoteRun) -> dict[str, Cell]:
    client = remote.client
    return {
        "processes": decimal(client.processes, 0),
        "busiest, % of a core": decimal(client.busy_share * 100, 1),
        "send delay p99": time_cell(client.out_ms),
        "receive delay p99": time_cell(client.back_ms),
        "connections": decimal(client.connections, 0),
        "waited for room": decimal(client.waited_for_room, 0),
        "resent": decimal(client.resent, 0),
    }


def _remote_lines(remote: Mapping[str, RemoteRun]) -> list[str]:
    """Lines about the performance run's servers and client, or else those of the first run."""
    run = remote.get("performance") or next(iter(remote.values()), None)
    if run is None:
        return []
    client = run.client
    lines = [
        f"{in_words(endpoint.url)}: {endpoint.requests:,} requests, {endpoint.tokens:,} tokens"
        for endpoint in (run.endpoints if len(run.endpoints) > 1 else ())
    ]
    lines += [
        f"{in_words(endpoint.url)} turned requests away {endpoint.turned_away:,} times: the "
        "wait counts in their time"
        for endpoint in run.endpoints
        if endpoint.turned_away
    ]
    if client.processes:
        lines.append(
            f"{count(client.processes, 'client')}, up to {client.busy_share * 100:.3g}% of a core; "
            f"p99 delay {time_cell(client.out_ms)} out, {time_cell(client.back_ms)} back"
        )
    return lines
