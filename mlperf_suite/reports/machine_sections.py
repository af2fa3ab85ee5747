"""What a run's machines did: energy and cost, a profiler's trace, endpoints and their client.

Each figure of energy has the label of the meter that it was read with, which says that it is not
MLPerf Power.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlperf_suite.energy.energy_figures import CostFigures, EnergyFigures, KindFigures
from mlperf_suite.energy.meters import SIMULATED_LABEL
from mlperf_suite.engines.protocol import (
    EndpointFigures,
    RemoteRun,
    ServerView,
)
from mlperf_suite.profiling.trace import Operation
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Paragraph,
    Row,
    Section,
    Table,
    decimal,
    figure_table,
    notes,
    paragraphs,
    record_table,
    significant,
    time_cell,
)
from mlperf_suite.results.bottlenecks import percent
from mlperf_suite.results.schema import PROFILED, Config, ProfileFigures, Run
from mlperf_suite.rules.verdict import in_words

_UNMEASURED = "not measured"


# Energy and cost


def energy_sections(run: Run) -> list[Section]:
    """A run's energy and its cost; none if nothing was measured or priced."""
    energy, blocks = run.energy, list[Block]()
    if not (energy and energy.measured) and run.cost is None:
        return []
    brief: list[str] = []
    if energy is not None:
        blocks += record_table([_energy(kind) for kind in energy.measured], ["energy"])
        blocks += notes(_energy_notes(energy))
        brief += [line for kind in energy.measured for line in _energy_lines(kind)]
        brief += _unmeasured(energy)
    if costs := _costs(run.cost, simulated=energy is not None and energy.simulated):
        blocks.append(figure_table(costs, "Cost of a million output tokens"))
        brief += [f"a million tokens, {name}: {value}" for name, value in costs]
    return [Section("Energy and cost", blocks, 3, brief=paragraphs(brief))]


def energy_gaps(run: Run) -> str:
    """Why no energy was measured, for a run of which nobody asked for its cost."""
    if run.energy is None or run.energy.measured or run.cost is not None:
        return ""
    return " ".join(f"{line}." for line in _unmeasured(run.energy))


def _energy(kind: KindFigures) -> dict[str, Cell]:
    return {
        "energy": _meter(kind),
        "J/token": significant(kind.joules_per_token),
        "tokens/J": significant(kind.tokens_per_joule),
        "J/token above idle": significant(kind.above_idle_joules_per_token),
        "mean W": significant(kind.mean_watts),
        "peak W": significant(kind.peak_watts),
        "idle W": significant(kind.idle_watts),
        "total J": significant(kind.joules),
    }


def _meter(kind: KindFigures) -> str:
    """The label, preceded by the kind of device unless the label begins with it."""
    label = kind.label
    return label if label.startswith(kind.kind) else f"{kind.kind}, {label}".strip(", ")


def _unmeasured(energy: EnergyFigures) -> list[str]:
    return [
        f"{_meter(kind) or 'energy'}: {_UNMEASURED}: {kind.why}"
        for kind in energy.kinds
        if kind.joules is None
    ]


def _energy_notes(energy: EnergyFigures) -> list[str]:
    lines = [f"{line}." for line in _unmeasured(energy)]
    if not energy.measured:
        return lines
    lines += [f"{_meter(kind)}: {', '.join(kind.devices)}." for kind in energy.measured]
    lines += [note for kind in energy.measured for note in kind.notes]
    lines.append(
        f"From the first request's issue to the last answer: {energy.span_s or 0:,.1f} s, "
        f"{energy.tokens or 0:,} output tokens. The peak is the highest mean over a second; idle "
        "power was read with the engine loaded, before the first request."
    )
    return lines


def _energy_lines(kind: KindFigures) -> list[str]:
    """At most 80 columns wide."""
    above = kind.above_idle_joules_per_token
    without_idle = f" ({significant(above)} above idle)" if above is not None else ""
    idle = f", idle {significant(kind.idle_watts)} W" if kind.idle_watts is not None else ""
    return [
        f"{_meter(kind)}:",
        f"  {significant(kind.joules_per_token)} J/token{without_idle}, "
        f"{significant(kind.tokens_per_joule)} tokens/J",
        f"  mean {significant(kind.mean_watts)} W, peak {significant(kind.peak_watts)} W{idle}",
    ]


def _costs(cost: CostFigures | None, *, simulated: bool) -> list[Row]:
    if cost is None:
        return []
    rows = []
    if cost.per_kwh is not None:
        source = f"energy of {' and '.join(cost.energy_of)} alone" if cost.energy_of else "energy"
        mark = f" ({SIMULATED_LABEL})" if simulated else ""
        rows.append((f"{source}, at {cost.per_kwh:g} {cost.currency} per kWh{mark}", cost.energy))
    if cost.per_hour is not None:
        rows.append((f"machine, at {cost.per_hour:g} {cost.currency} per hour", cost.machine))
    return [
        (name, _UNMEASURED if value is None else f"{significant(value)} {cost.currency}")
        for name, value in rows
    ]


# A profiler's trace


def profile_sections(profile: ProfileFigures | None) -> list[Section]:
    """What the trace is, how to open it, and the operations that took longest."""
    if profile is None:
        return []
    lines = [
        f"{PROFILED[0].upper()}{PROFILED[1:]}. The profiler ({profile.profiler}) ran for "
        f"{decimal(profile.seconds, 1)} s, from LoadGen's start to its end, and slowed the engine "
        "down.",
        profile.opens,
    ]
    brief, table, top = [profile.opens], list[Table](), profile.operations
    if top and top.damaged:
        lines.append("A trace could not be read completely: the table shows what was read.")
    if top and top.operations:
        lines.append(
            f"The operations that took longest on the {top.where}, over all threads and "
            "processes, each without the operations that it called: "
            f"{time_cell(top.total_ms)} in total."
        )
        table = record_table([_operation(operation) for operation in top.operations], ["operation"])
        first = top.operations[0]
        brief.append(f"longest on the {top.where}: {first.name}, {first.share * 100:.1f}%")
    return [Section("Profile", [*notes(lines), *table], brief=paragraphs(brief))]


def _operation(operation: Operation) -> dict[str, Cell]:
    return {
        "operation": operation.name,
        "calls": f"{operation.calls:,}",
        "own time": time_cell(operation.self_ms),
        "share, %": decimal(operation.share * 100, 1),
    }


# Endpoints and their client


def is_remote(run: Run, config: Config | None) -> bool:
    """Whether the run was made on endpoints. A run that failed early has no figures of them, but
    its engine's description names them."""
    engine = config.engine if config else None
    return bool(run.remote) or (engine is not None and "endpoints" in engine.settings)


def remote_note(place: str) -> str:
    """Whose hardware is described. `place`: where the reader sees it described."""
    return (
        f"The engine is a server reached over HTTP. The hardware in {place} is that of the "
        "client's machine, on which the suite ran; the server's is not known."
    )


def endpoint_sections(run: Run, config: Config | None) -> list[Section]:
    """The endpoints of each run, and its client."""
    if not is_remote(run, config):
        return []
    # How long LoadGen ran is only kept for performance runs.
    duration_s = run.performance.duration_s if run.performance else None
    endpoints = [
        {"run": mode, **_endpoint(endpoint, duration_s if mode == "performance" else None)}
        for mode, remote in run.remote.items()
        for endpoint in remote.endpoints
    ]
    note = Paragraph(remote_note("this report"))
    table = record_table(endpoints, ["run", "endpoint"])
    brief = paragraphs(_remote_lines(run.remote))
    sections = [Section("Endpoints", [note, *table], brief=brief)]
    sections.append(_server_section(run.remote))
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

    def of_whole(share: float | None) -> str:
        return "" if share is None else percent(share)

    return {
        "running": decimal(server.running_mean, 1),
        "running, max": decimal(server.running_most, 0),
        "waiting": decimal(server.waiting_mean, 1),
        "waiting, max": decimal(server.waiting_most, 0),
        "KV cache": of_whole(server.kv_mean),
        "KV cache, max": of_whole(server.kv_most),
        "preempted": decimal(server.preemptions, 0),
        "prompt from cache": ratio(server.cached_tokens, server.looked_up_tokens),
        "drafts accepted": ratio(server.accepted_tokens, server.drafted_tokens),
    }


def _client(remote: RemoteRun) -> dict[str, Cell]:
    client = remote.client
    return {
        "processes": decimal(client.processes, 0),
        "busiest, % of a core": decimal(client.busy_share * 100, 1),
        "delay out p99": time_cell(client.out_ms),
        "delay back p99": time_cell(client.back_ms),
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
    if not client.processes:
        return [*lines, "the server's hardware is not known"]
    lines.append(
        f"client processes: {client.processes:,}, the busiest at {client.busy_share * 100:.3g}% of "
        f"a core; delay at p99 {time_cell(client.out_ms)} out, {time_cell(client.back_ms)} back"
    )
    return [*lines, "the server's hardware is not known"]
