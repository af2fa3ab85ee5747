"""A Ray cluster of several nodes on this machine, to try replicas with, run as a separate program.

    python -m scripts.local_nodes NAME:CORES[:GPUS] …

Prints its address and processes as one line of JSON when it is ready, and stops when its standard
input ends. It listens only on the loopback address.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.cluster import folder_for_ray, own_cluster_variables

_OBJECTS = 100 << 20
_STOP_S = 30.0


@dataclass(frozen=True, slots=True)
class LocalNodes:
    """A running cluster. `variables`: the environment of processes that join it. `raylets`: by node
    name, the id of the process whose end is the node's end."""

    address: str
    variables: Mapping[str, str]
    raylets: Mapping[str, int]


@contextlib.contextmanager
def local_nodes(
    cores: Mapping[str, int], gpus: Mapping[str, int] | None = None
) -> Iterator[LocalNodes]:
    """Start nodes with these names and numbers of cores that Ray counts; stop them at the end.

    `gpus`: the GPUs that Ray counts on these nodes, whether they exist or not. Drivers join the
    first node. Raises EngineError if Ray does not start.
    """
    folder = folder_for_ray()
    variables = own_cluster_variables(folder)
    (folder / "ray").mkdir()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "scripts.local_nodes"),
            *(f"{name}:{count}:{(gpus or {}).get(name, 0)}" for name, count in cores.items()),
        ],
        # Ray writes the address of a machine's newest cluster there; by default that is the user's.
        env={**os.environ, **variables, "RAY_TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the measuring process; the cluster stays until it is done.
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise EngineError("the Ray cluster for the demonstration does not start")
        content = json.loads(line)
        yield LocalNodes(content["address"], variables, content["raylets"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    """Start the cluster and hold it until standard input ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    raylets = {}
    # Reap killed processes: Ray's workers take a raylet that is not reaped for a live one.
    signal.signal(signal.SIGCHLD, lambda number, frame: [p.poll() for p in processes])
    processes: list[subprocess.Popen[bytes]] = []
    for argument in arguments:
        name, cores, *gpus = argument.split(":")
        node = cluster.add_node(
            num_cpus=int(cores),
            num_gpus=int(gpus[0]) if gpus else 0,
            node_name=name,
            object_store_memory=_OBJECTS,
            include_dashboard=False,
        )
        (raylet,) = node.all_processes["raylet"]
        processes.append(raylet.process)
        raylets[name] = raylet.process.pid
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
