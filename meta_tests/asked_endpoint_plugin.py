"""`-p meta_tests.asked_endpoint_plugin`: endpoints answer, or refuse as ASKED_ENDPOINT says.

For sessions on a stand-in engine, whose endpoints nobody serves.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from mlperf_suite.engines.endpoint.config import EndpointConfig
from mlperf_suite.errors import UsageError

NAME = "mlperf_suite.engines.endpoint.server_facts"


def check_reachable(config: EndpointConfig) -> None:
    if refusal := os.environ.get("ASKED_ENDPOINT"):
        raise UsageError(f"--endpoint {config.targets[0].url}: {refusal}")


module = ModuleType(NAME)
module.check_reachable = check_reachable  # type: ignore[attr-defined]
sys.modules[NAME] = module
