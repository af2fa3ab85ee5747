"""The Ray cluster that the replicas are in: the user's, or one of the suite's own on this
machine."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.engines.replicas.actor import Replica
from mlperf_suite.engines.replicas.node_facts import NodeFacts, look_around
from mlperf_suite.engines.replicas.placement import Node, Seat
from mlperf_suite.errors import EngineError

_LOOK_S = 0.5
_REACH_S = 5.0
_START_S = 60.0
"""For Ray to give a placement group that there is room for, or to answer a call."""
_WATCH_S = 2.0
_SETTLE_S = 15.0
_CLOSE_S = 30.0
"""vLLM is given 15 s to end by itself."""
_OBJECTS = 256 << 20
"""Bytes for Ray's object store of our own cluster, which holds the prompts; what does not fit it
Ray puts on the disk."""
_LONGEST_FOLDER = 24
"""Ray's sockets lie in its folder, and a socket's path holds 107 bytes."""


@dataclass(slots=True)
class Placed:
    """A replica's process. `actor` and `group` are Ray's."""

    seat: Seat
    actor: Any
    group: Any


class Cluster:
    """A connection to a Ray cluster; make it with `connect` or `start`.

    Ray holds one connection for a process, and so there is one of these at a time.
    """

    def __init__(self, folder: Path | None = None, variables: Sequence[str] = ()) -> None:
        """`folder`: of a cluster of our own, with `variables` of the environment that it was
        given."""
        self._folder = folder
        self._variables = variables
        self._placed: list[Placed] = []
        self._closing = False
        self._asking = threading.Lock()
        self._watching: threading.Thread | None = None
        self.is_own = folder is not None

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """The cluster at an address, or the one that this node is of ("auto").

        Raises EngineError where there is none, or it does not let us in.
        """
        host, _, port = address.rpartition(":")
        failed = f"--ray {address}: no Ray cluster can be joined from this machine"
        if host:
            try:
                socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
            except OSError as error:
                raise EngineError(
                    f"{failed}: nobody answers there ({error}): `ray start --head` on its head "
                    "says the address"
                ) from error
        ray = _import_ray()
        with _handlers_kept():
            try:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            # Ray raises a kind of error of its own for each thing that is wrong.
            except Exception as error:
                with contextlib.suppress(Exception):
                    ray.shutdown()
                raise EngineError(
                    f"{failed}: {_one_line(error)}; is this machine a node of it (ray start)?"
                ) from error
        _quiet()
        return cls()

    @classmethod
    def start(cls, cpus: int | None = None) -> Cluster:
        """A cluster on this machine alone, which listens on its loopback address and nowhere else.

        `cpus`: that Ray counts, None those of this process. Raises EngineError.
        """
        folder = folder_for_ray()
        settings = own_cluster_variables(folder)
        variables = {name: value for name, value in settings.items() if name not in os.environ}
        os.environ |= variables
        cluster = cls(folder, tuple(variables))
        try:
            ray = _import_ray()
            with _handlers_kept():
                ray.init(
                    address="local",
                    num_cpus=cpus or len(os.sched_getaffinity(0)),
                    include_dashboard=False,
                    object_store_memory=_OBJECTS,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(folder),
                )
        except EngineError:
            cluster.close()
            raise
        except Exception as error:
            cluster.close()
            raise EngineError(f"--replicas: Ray does not start here: {_one_line(error)}") from error
        except BaseException:
            cluster.close()
            raise
        _quiet()
        return cluster

    # Nodes

    def nodes(self) -> list[Node]:
        """The nodes that are there, by name; their GPUs' names are not known yet."""
        import ray

        found = []
        for one in ray.nodes():
            if one["Alive"]:
                has, address = one["Resources"], one["NodeManagerAddress"]
                name = one.get("NodeName") or address
                # Ray names a node after its address where nobody named it.
                name = one.get("NodeManagerHostname") or name if name == address else name
                counts = int(has.get("GPU", 0)), int(has.get("CPU", 0))
                found.append(Node(one["NodeID"], name, address, *counts))
        return sorted(found, key=lambda node: (node.name, node.id))

    def look_around(self, nodes: Sequence[Node], model: str) -> list[NodeFacts]:
        """What each node tells of itself. Raises EngineError naming the node that cannot tell."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        look = ray.remote(num_cpus=0, max_retries=0)(look_around)
        asked = []
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node.id, soft=False)
            asked.append(look.options(scheduling_strategy=there).remote(model))
        return self.wait(asked, [f"node {node}" for node in nodes], _START_S)

    # Replicas

    def place(self, seat: Seat, silence_s: float) -> Placed:
        """A process for a replica, with its devices. Raises EngineError."""
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # Ray may count fewer cores than GPUs on a node, as in a pod.
        cpus = 0 if seat.gpus else seat.cpus or 1
        bundle = {"GPU": seat.gpus} if seat.gpus else {"CPU": cpus}
        group = placement_group(
            [bundle],
            strategy="STRICT_PACK",
            bundle_label_selector=[{"ray.io/node-id": seat.node.id}],
        )
        placed = Placed(seat, None, group)
        self._placed.append(placed)
        if not group.wait(_START_S):
            raise EngineError(
                f"{seat}: Ray did not give it {seat.gpus or cpus} {'GPU' if seat.gpus else 'CPU'} "
                f"within {_START_S:.0f} s: something else on that node may hold it (ray status)"
            )
        actor = ray.remote(Replica).options(
            num_cpus=cpus,
            num_gpus=seat.gpus,
            max_restarts=0,
            # `stay` waits to the end, and the others must not wait for it.
            max_concurrency=4,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0
            ),
        )
        placed.actor = actor.remote(silence_s)
        return placed

    def wait(
        self,
        asked: Sequence[Any],
        of: Sequence[str],
        patience_s: float,
        look: Callable[[], None] = lambda: None,
        take: Callable[[str, Any], None] = lambda who, found: None,
    ) -> list[Any]:
        """What Ray's calls return. `of`: of each, who was asked, for an error.

        `look` is called now and then, `take` with who answered and what, in the order in which they
        come; what either raises ends the waiting. Raises EngineError naming the first that failed,
        as soon as it did.
        """
        import ray

        deadline = time.monotonic() + patience_s
        left = list(asked)
        while left:
            done, left = ray.wait(left, num_returns=1, timeout=_LOOK_S)
            for one in done:
                who = of[asked.index(one)]
                try:
                    found = ray.get(one)
                # Each kind of death and failure has a class of its own.
                except Exception as error:
                    raise EngineError(f"{who}: {self._why(error)}") from error
                take(who, found)
            look()
            if left and time.monotonic() > deadline:
                who = of[asked.index(left[0])]
                raise EngineError(f"{who}: no answer within {patience_s:.0f} s")
        return list(ray.get(list(asked)))

    def put(self, value: object) -> Any:
        """Ray's reference to a value, of which each node is sent one copy."""
        import ray

        return ray.put(value)

    def watch(self, lost: Callable[[Placed, str], None]) -> None:
        """Have `lost` called, on a thread of its own, with each replica that Ray gives up and why,
        until this is closed. A replica whose node is lost may still answer."""
        import ray

        stays = {one.actor.stay.remote(): one for one in self._placed}

        def look() -> None:
            left = list(stays)
            while left and not self._closing:
                done, left = ray.wait(left, timeout=_WATCH_S)
                for one in done:
                    try:
                        ray.get(one)
                    except ray.exceptions.ActorUnavailableError:
                        why = self.cause_of_death(stays[one], _SETTLE_S)
                    except Exception as error:
                        why = self._why(error, stays[one].seat.node)
                    else:
                        why = "it was closed"
                    if not self._closing:
                        lost(stays[one], why)

        self._watching = threading.Thread(target=look, name="replicas' deaths", daemon=True)
        self._watching.start()

    def cause_of_death(self, placed: Placed, patience_s: float) -> str:
        """Why a replica's process does not answer any more, as far as Ray tells within that
        time."""
        deadline = time.monotonic() + patience_s
        with self._asking:
            while time.monotonic() < deadline and not self._closing:
                if (why := self._cause_of_death(placed)) is not None:
                    return why
        return "its process, or its node, is gone"

    def _cause_of_death(self, placed: Placed) -> str | None:
        """What Ray tells within a moment; None where it does not know yet."""
        import ray

        try:
            ray.get(placed.actor.__ray_ready__.remote(), timeout=_LOOK_S)
        except ray.exceptions.GetTimeoutError:
            return None
        except ray.exceptions.ActorUnavailableError:
            # Until Ray knows whether its node is lost, or it alone.
            time.sleep(_LOOK_S)
            return None
        except Exception as error:
            return self._why(error, placed.seat.node)
        return "its connection ended"

    def _why(self, error: Exception, node: Node | None = None) -> str:
        """The reason in Ray's words, in a line."""
        text = str(error)
        if "No module named 'mlperf_suite'" in text:
            return (
                "the suite is not installed there: install it, or put its folder at the same path"
            )
        if "ModuleNotFoundError" in text or "ImportError" in text:
            return _last_line(text)
        if node is not None and not self._may_have(node):
            return "its node is not in the Ray cluster any more"
        if "node has died" in text or "node died" in text.lower():
            return "its node died"
        if "worker process has died" in text or "WorkerCrashed" in type(error).__name__:
            low = "running low on memory" in text
            return "its process was killed or crashed" + (", out of memory" if low else "")
        return _last_line(text)

    def _may_have(self, node: Node) -> bool:
        """Whether a node is in the cluster, as far as its head tells."""
        try:
            return node.id in {one.id for one in self.nodes()}
        # A cluster whose head is lost tells nothing.
        except Exception:
            return True

    def close(self) -> None:
        """End the replicas that are left, and leave the cluster; one of our own is stopped."""
        self._closing = True
        try:
            self._leave()
        finally:
            # Also where Ctrl-C comes again while replicas are ended.
            for name in self._variables:
                os.environ.pop(name, None)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _leave(self) -> None:
        with contextlib.suppress(ImportError):
            import ray

            try:
                with contextlib.suppress(Exception):
                    self._end_replicas(ray)
                # Neither may ask a Ray that is not there any more: it would start another.
                with self._asking:
                    pass
                if self._watching not in (None, threading.current_thread()):
                    self._watching.join(2 * _WATCH_S)
            finally:
                with _handlers_kept(), contextlib.suppress(Exception):
                    ray.shutdown()

    def _end_replicas(self, ray: Any) -> None:
        from ray.util.placement_group import remove_placement_group

        placed, self._placed = self._placed, []
        if not ray.is_initialized():
            return
        alive = [one for one in placed if one.actor is not None]
        closing = [one.actor.close.remote() for one in alive]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for one in alive:
            ray.kill(one.actor)
        for one in placed:
            remove_placement_group(one.group)


def _import_ray() -> Any:
    """Ray, which has read the environment as it is now."""
    was_here = "ray" in sys.modules
    set_here = {n: v for n, v in _READ_ONCE.items() if n not in os.environ}
    os.environ |= set_here
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            f"--replicas: Ray cannot be imported ({error}): install it with `make ray`, or "
            "`pip install --no-deps --require-hashes -r requirements/ray.lock`"
        ) from error
    finally:
        for name in set_here:
            os.environ.pop(name)
    if was_here:
        # What it read when it was imported.
        with contextlib.suppress(ImportError, AttributeError):
            constants: Any = importlib.import_module("ray._private.ray_constants")
            inside: Any = importlib.import_module("ray._raylet")
            on = os.environ.get(_OTHER_MACHINES, "1").lower() in ("1", "true")
            constants.ENABLE_RAY_CLUSTER = on
            inside.Config.initialize("")
            inside.AuthenticationTokenLoader.instance().reset_cache()
    return ray


_READ_ONCE = {
    # Whoever asks a Ray that is not there is told so, and no other is started for that.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # Each try to join takes up to 40 s, of which Ray makes 20: who listens answers at once.
    "RAY_NUM_REDIS_GET_RETRIES": "3",
}
"""What Ray reads of the environment when it is imported."""
_OTHER_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where Ray counts on no other machine it keeps to the loopback address, which it otherwise
replaces by the machine's own (its services.py, get_node_ip_address)."""


def _quiet() -> None:
    """Keep Ray from printing what its processes log, for which it has no setting: what matters is
    in the errors of the suite."""
    with contextlib.suppress(ImportError):
        inside: Any = importlib.import_module("ray._private.worker")
        inside.print_to_stdstream = lambda data, ignore_prefix: None


def own_cluster_variables(folder: Path) -> dict[str, str]:
    """The environment of a cluster of our own, and of whoever joins it. Writes its token to
    `folder`."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        _OTHER_MACHINES: "0",
        # Python processes that nobody asked for, one for each core.
        "RAY_prestart_worker_first_driver": "0",
        # In this process nothing would end an engine that takes much memory.
        "RAY_memory_monitor_refresh_ms": "0",
    }


def folder_for_ray() -> Path:
    """A new folder that only this user may enter, of a short name."""
    base = tempfile.gettempdir()
    short = Path("/tmp")  # noqa: S108 - mkdtemp makes a folder that only this user may enter
    if len(base) > _LONGEST_FOLDER and os.access(short, os.W_OK):
        base = str(short)
    return Path(tempfile.mkdtemp(prefix="mlperf-ray-", dir=base))


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray sets signal handlers of its own, which would take SIGTERM from the session."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: Mapping[int, Any] = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _last_line(text: str) -> str:
    """The last line that says something, which in a traceback is the error's own."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "failed"
