"""Measure vLLM's own server like any other endpoint: start it, run pytest against it, stop it.

    python -m meta_tests.servers.endpoint_demo [PYTEST OPTIONS]

Exits with pytest's status. `make endpoint` does the same.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from meta_tests.servers.local_servers import vllm_server
from meta_tests.servers.terminal import CANNOT_START, end, run_pytest
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.errors import SuiteError

_SELECTED = "(offline or server) and datacenter"


def main(options: Sequence[str]) -> int:
    """Run the demonstration; return pytest's exit status, or 128 + N if signal N ended it."""
    signal.signal(signal.SIGTERM, end)
    try:
        model = embedded_model_dir()
        print("starting vLLM's own server with the embedded model (a minute)", flush=True)
        with vllm_server(model) as server:
            print(f"vLLM's server is ready: --endpoint {server.url}", flush=True)
            status = run_pytest(["-m", _SELECTED, "--endpoint", server.url, *options])
        print("vLLM's server has stopped")
        return status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SuiteError as error:
        print(error, file=sys.stderr)
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
