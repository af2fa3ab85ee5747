"""Stand-in servers that last as long as this process and become what each test needs.

Starting one takes longer than most of what is tested. A test whose server must die, have a
certificate or count its connections starts its own (`stand_in_server`).
"""

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, engine_on, stand_in_server
from mlperf_suite.features.servers.engine import EndpointEngine

_servers: list[RunningStandIn] = []
_at_exit = ExitStack()
atexit.register(_at_exit.close)


def shared_stand_ins(*servers: StandIn) -> list[RunningStandIn]:
    """As many servers with these options; those of the call before are the same processes."""
    while len(_servers) < len(servers):
        _servers.append(_at_exit.enter_context(stand_in_server()))
    return [running.become(options) for running, options in zip(_servers, servers, strict=False)]


@contextmanager
def engine_of(*servers: StandIn, **config: Any) -> Iterator[EndpointEngine]:
    """An engine of as many servers, before its first run. `config`: as of `engine_on`."""
    with engine_on(*shared_stand_ins(*servers), **({"clients": 2} | config)) as engine:
        engine.take_remote_run()
        yield engine
