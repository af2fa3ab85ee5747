"""The rule of a performance run's client: the process between LoadGen and a remote server."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.engines.protocol import ClientFigures
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, verdict

FULL_SHARE = 0.9
"""A client process that used this share of a core, or more, was at its limit."""
MOST_DELAY_MS = 1.0
"""The maximum delay of the client itself at p99, on the way out and on the way back, in ms."""


def client_limits(client: ClientFigures, scenario: Scenario) -> list[str]:
    """How the client limited a run in this scenario, a few words each; empty if it did not.

    Offline's single query hands over every sample at once: samples that wait to be sent are not the
    client's delay there, and only its CPU counts. A missing or non-numeric figure proves nothing,
    so it counts as a limit.
    """
    limits = []
    if not client.busy_share < FULL_SHARE:
        limits.append(f"a client process used {_percent(client.busy_share)} of a core")
    if scenario.loadgen_scenario != "Offline":
        for way, delay_ms in (("out", client.out_ms), ("back", client.back_ms)):
            if delay_ms is None or not delay_ms <= MOST_DELAY_MS:
                limits.append(f"{way} {_ms(delay_ms)} at p99")
    return limits


def _only_delayed(run: RunFacts) -> bool:
    """Whether only delay limited the client, not its CPU: a smoke run may share its machine with
    the server, whose work delays the client. The run is marked regardless."""
    return run.remote is not None and run.remote.client.busy_share < FULL_SHARE


@rule(
    "performance",
    official=False,
    source="docs/endpoints.md: limits on the client's CPU and delay",
    fix="Raise --endpoint-clients, or give the client more or idle cores.",
    session_only=True,
    shortens=_only_delayed,
)
def client_bound(run: RunFacts) -> Verdict:
    """The client did not limit the run: its processor had room, and its own delay was short.

    The delay is that from LoadGen's issue until the request's bytes leave, and from the arrival of
    the answer's until LoadGen is told; Offline has no limit on it.
    """
    demand = f"below {_percent(FULL_SHARE)} of a core"
    if run.scenario.loadgen_scenario != "Offline":
        demand += f", out and back at most {MOST_DELAY_MS:g} ms at p99"
    if run.remote is None:
        return verdict(True, "no client: the engine is in this process", demand)
    client = run.remote.client
    limits = client_limits(client, run.scenario)
    figures = f"{_percent(client.busy_share)} of a core, out {_ms(client.out_ms)}, back "
    figures += f"{_ms(client.back_ms)} at p99"
    return verdict(not limits, figures, demand, "; ".join(limits))


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"


def _ms(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.2f} ms"
