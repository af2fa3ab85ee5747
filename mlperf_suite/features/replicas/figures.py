"""What summary.json says of replicas: what each did in a run, and how all compare with one."""

from __future__ import annotations

from dataclasses import dataclass, field

RUNS, SCALING = "run.replicas", "run.scaling"
"""The names of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """One of several engines in a run. `devices`: the part of the node that it uses.

    `samples`: answered samples; `tokens`: tokens of their answers. `tokens_per_sec` is over the
    whole run, `share` is of all tokens. Latencies count from handing a request to the engine, keyed
    by percentile (p50, p99); TTFT and TPOT are empty if nothing was streamed. `busy_s`: how long it
    had requests. `ended_s`: the time of its last answer, from the first request of the run on; None
    if it had no answer.
    """

    number: int
    node: str = ""
    devices: str = ""
    samples: int = 0
    tokens: int = 0
    tokens_per_sec: float = 0.0
    share: float = 0.0
    ttft_ms: dict[str, float] = field(default_factory=dict)
    tpot_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    busy_s: float = 0.0
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The sums of the replicas on a node, as in `ReplicaFigures`."""

    node: str
    replicas: int = 0
    samples: int = 0
    tokens: int = 0
    tokens_per_sec: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplicasRun:
    """What several engines report about one run. `routing`: how requests were spread over them.

    `elapsed_s`: from the first request to the last answer. `tail_s`: from the earliest last answer
    of a replica to the latest; None if a replica had no answer. `driver_busy_share`: the CPU time
    of the thread that receives answers, as a share of one core.
    """

    routing: str = ""
    elapsed_s: float = 0.0
    tail_s: float | None = None
    driver_busy_share: float = 0.0
    replicas: tuple[ReplicaFigures, ...] = ()
    nodes: tuple[NodeFigures, ...] = ()

    @property
    def slowest(self) -> ReplicaFigures | None:
        """The replica with the longest latencies; None unless there are several, all with
        answers."""
        replicas = [replica for replica in self.replicas if replica.latency_ms]
        if len(replicas) < len(self.replicas) or len(replicas) < 2:
            return None
        return max(replicas, key=lambda replica: replica.latency_ms["p99"])


@dataclass(frozen=True, slots=True)
class ScalingFigures:
    """Several engines compared with one of them: `pairs` times, outside LoadGen, prompts are sent
    all at once to one engine and then to all, or the reverse.

    `efficiency`: tokens/s of all ÷ (`replicas` x tokens/s of one), with the interval from `low` to
    `high` (95%, Student's t over the pairs).
    """

    replicas: int = 1
    pairs: int = 0
    one_tokens_per_sec: float = 0.0
    all_tokens_per_sec: float = 0.0
    efficiency: float = 0.0
    low: float = 0.0
    high: float = 0.0


ReplicasRuns = dict[str, ReplicasRun]
"""By mode."""
