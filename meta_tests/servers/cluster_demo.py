"""Measure replicas on two Ray nodes of this machine: start them, run pytest on them, stop them.

    python -m meta_tests.servers.cluster_demo [PYTEST OPTIONS]

Each node has one core and one replica of the real engine with the embedded model. The demonstration
compares one replica with both, and runs Offline and Server on both. It exits with pytest's status.
`make cluster` does the same.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from meta_tests.servers.local_nodes import local_nodes
from meta_tests.servers.terminal import CANNOT_START, end, run_pytest
from mlperf_suite.errors import SuiteError

_SELECTED = "(offline or server) and datacenter and performance"
_NODES = {"node-a": 1, "node-b": 1}


def main(options: Sequence[str]) -> int:
    """Run the demonstration; return pytest's exit status, or 128 + N if signal N ended it."""
    signal.signal(signal.SIGTERM, end)
    try:
        print("starting two Ray nodes of one core each on this machine", flush=True)
        with local_nodes(_NODES) as nodes:
            print(f"the nodes are ready: --ray {nodes.address}", flush=True)
            os.environ.update(nodes.variables)
            options = ["-m", _SELECTED, "--ray", nodes.address, "--replicas", "2", "--scaling"]
            status = run_pytest([*options, *options])
        print("the Ray nodes have stopped")
        return status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SuiteError as error:
        print(error, file=sys.stderr)
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
