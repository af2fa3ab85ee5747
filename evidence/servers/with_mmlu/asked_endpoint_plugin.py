"""Endpoints that nobody serves answer, or refuse as ASKED_ENDPOINT says."""

from __future__ import annotations

import os

from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers import server_facts
from mlperf_suite.features.servers.config import EndpointConfig


def check_reachable(config: EndpointConfig) -> None:
    if refusal := os.environ.get("ASKED_ENDPOINT"):
        raise UsageError(f"--endpoint {config.targets[0].url}: {refusal}")


server_facts.check_reachable = check_reachable
