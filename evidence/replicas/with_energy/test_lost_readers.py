"""A replica of a stand-in engine that is lost while it reads its meters, in a real cluster."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from meta_tests.features.replicas.nodes import Load, replica_processes
from meta_tests.features.replicas.with_energy.metered_block import energy_of
from meta_tests.servers.replica_stand_in import simulated_meters
from mlperf_suite.engines.protocol import Engine
from scripts.local_nodes import LocalNodes


def test_a_replica_that_is_lost_while_it_reads_is_the_reason(
    load: Load, nodes: LocalNodes, tmp_path: Path
) -> None:
    engine: Engine = load()

    def kill() -> None:
        (process,) = replica_processes(nodes, "node-b")
        process.kill()
        process.wait(120)

    figures = energy_of(tmp_path, partial(engine.meters, simulated_meters), kill)  # type: ignore[attr-defined]
    assert figures.measured == ()
    assert "replica 1 on node node-b" in figures.kinds[0].why
