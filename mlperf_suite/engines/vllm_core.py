"""vLLM's engine core in a process that imports vLLM while this process does.

vLLM starts its core once it is imported here; the core then imports vLLM as well, and its worker
after that: with the CPU build, three times ten seconds in turn. Here the core's process is started
first, and gets its work when vLLM starts it. The worker stays vLLM's own affair: its computing
depends on variables that only the core knows.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from mlperf_suite.engines.vllm_environment import is_cpu_build

_DISMISSAL_S = 5.0


@contextlib.contextmanager
def early_core(extra: Mapping[str, object]) -> Iterator[EarlyCore | None]:
    """Start a process that can become an engine core, and end it if it did not become one.

    None but with vLLM's CPU build, whose core does not compute. On a GPU the core may be the
    worker, which reads variables at its start that vLLM sets just before. `extra`: the user's own
    arguments of the engine; with `numa_bind`, vLLM starts the core by another program.
    """
    if not is_cpu_build() or extra.get("numa_bind"):
        yield None
        return
    core = EarlyCore()
    try:
        yield core
    finally:
        core.dismiss()


class EarlyCore:
    """A process that imports vLLM and then waits for a core's work."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        work, self._work = context.Pipe(duplex=False)
        self.process: SpawnProcess = context.Process(target=_await_work, args=(work,))
        self.process.start()
        work.close()

    @contextlib.contextmanager
    def taken_by_vllm(self) -> Iterator[None]:
        """Within this, vLLM takes the process for the first core that it starts."""
        from vllm.v1.engine import utils

        ordinary = utils.get_mp_context
        utils.get_mp_context = lambda: _Context(ordinary(), self)
        try:
            yield
        finally:
            utils.get_mp_context = ordinary

    def as_process(self, target: Callable[..., None], name: str, kwargs: object) -> SpawnProcess:
        """The process, to be started with this work as any other."""
        self.process.name = name
        self.process.start = partial(self._give, target, kwargs)  # type: ignore[method-assign]
        return self.process

    def _give(self, target: Callable[..., None], kwargs: object) -> None:
        self._work.send_bytes(ForkingPickler.dumps((target, kwargs, dict(os.environ))))
        self._work.close()

    @property
    def is_free(self) -> bool:
        return not self._work.closed and self.process.is_alive()

    def dismiss(self) -> None:
        """End the process if it was given no work."""
        if not self._work.closed:
            self._work.close()
            self.process.kill()
            self.process.join(_DISMISSAL_S)


class _Context:
    """A context of multiprocessing whose first process is the early core."""

    def __init__(self, ordinary: Any, core: EarlyCore) -> None:
        self._ordinary = ordinary
        self._core = core

    def Process(  # noqa: N802 - multiprocessing's name
        self, *, target: Callable[..., None], name: str, kwargs: object
    ) -> Any:
        if self._core.is_free:
            return self._core.as_process(target, name, kwargs)
        return self._ordinary.Process(target=target, name=name, kwargs=kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ordinary, name)


def _await_work(work: Connection) -> None:
    """Import what a core and the start of its worker need, then do the work that is sent."""
    import vllm.v1.engine.core
    import vllm.v1.executor.multiproc_executor  # noqa: F401

    try:
        target, kwargs, environment = work.recv()
    except EOFError:
        # vLLM did not load, or the process that wanted it has ended.
        return
    work.close()
    with contextlib.suppress(ImportError):
        import setproctitle

        # It finds the place of the title beside the environment that the process began with.
        setproctitle.getproctitle()
    # vLLM has set some since, for the core and its worker.
    os.environ.clear()
    os.environ.update(environment)
    target(**kwargs)
