"""The Ray cluster that holds the replicas: the user's, or the suite's own on this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.engines.hang_detector import handlers_kept
from mlperf_suite.errors import EngineError, SuiteError, UsageError, one_line
from mlperf_suite.features.replicas.actor import Replica
from mlperf_suite.features.replicas.nodes import NodeFacts, node_facts
from mlperf_suite.features.replicas.placement import Node, ReplicaSlot

_DEVICES = ("GPU", "NPU", "HPU", "TPU")
"""What Ray counts beside cores, by its own names (Ray Core, "Accelerator Support")."""
_POLL_S = 0.5
_REACH_S = 5.0
_START_S = 60.0
"""How long Ray may take to provide a placement group that fits, or to answer a call, in s."""
_WATCH_S = 2.0
_SETTLE_S = 15.0
_CLOSE_S = 30.0
"""How long closing replicas may take, in s; vLLM gets 15 s to end by itself."""
_OBJECTS = 256 << 20
"""Bytes for the object store of the suite's own cluster, which holds the prompts; what does not fit
there, Ray writes to disk."""
_MAX_FOLDER_LENGTH = 24
"""The longest path for Ray's folder: it holds sockets, whose paths have 107 bytes at most."""


@dataclass(slots=True)
class PlacedReplica:
    """A replica's process. `actor` and `group` are Ray objects."""

    slot: ReplicaSlot
    actor: Any
    group: Any


class Cluster:
    """A connection to a Ray cluster; create it with `connect` or `start`.

    Ray allows one connection per process, so only one of these can exist at a time.
    """

    def __init__(self, folder: Path | None = None, variables: Sequence[str] = ()) -> None:
        """`folder`: the suite's own cluster's; `variables`: environment variables set for it."""
        self._folder = folder
        self._variables = variables
        self._placed: list[PlacedReplica] = []
        self._closing = False
        self._asking = threading.Lock()
        self._watching: threading.Thread | None = None
        self.is_own = folder is not None

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Join the cluster at an address, or the one that this node belongs to ("auto").

        Raises EngineError if there is none, or it refuses the connection.
        """
        host, _, port = address.rpartition(":")
        failure = f"--ray {address}: no Ray cluster can be joined from this machine"
        if host:
            try:
                socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
            except OSError as error:
                raise EngineError(
                    f"{failure}: no answer there ({error}): `ray start --head` on its head "
                    "says the address"
                ) from error
        ray = _import_ray()
        with handlers_kept():
            try:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            # Ray raises a different error class for each problem.
            except Exception as error:
                with contextlib.suppress(Exception):
                    ray.shutdown()
                raise EngineError(
                    f"{failure}: {one_line(error)}; is this machine a node of it (ray start)?"
                ) from error
        _quiet()
        return cls()

    @classmethod
    def start(cls, cpus: int | None = None) -> Cluster:
        """Start a cluster on this machine that listens only on its loopback address.

        `cpus`: the cores that Ray counts; None means those of this process. Raises EngineError.
        """
        folder = folder_for_ray()
        settings = own_cluster_variables(folder)
        variables = {name: value for name, value in settings.items() if name not in os.environ}
        os.environ |= variables
        cluster = cls(folder, tuple(variables))
        with contextlib.ExitStack() as failure:
            failure.callback(cluster.close)
            try:
                ray = _import_ray()
                with handlers_kept():
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
            except SuiteError:
                raise
            except Exception as error:
                raise EngineError(
                    f"--replicas: Ray does not start here: {one_line(error)}"
                ) from error
            failure.pop_all()
        _quiet()
        return cluster

    # Nodes

    def nodes(self) -> list[Node]:
        """The live nodes, sorted by name; the names of their accelerators are not known yet."""
        import ray

        nodes = []
        for entry in ray.nodes():
            if entry["Alive"]:
                resources, address = entry["Resources"], entry["NodeManagerAddress"]
                name = entry.get("NodeName") or address
                # Ray uses a node's address as its name if it has no other.
                name = entry.get("NodeManagerHostname") or name if name == address else name
                device = next(filter(resources.get, _DEVICES), "GPU")
                counts = int(resources.get(device, 0)), int(resources.get("CPU", 0))
                nodes.append(Node(entry["NodeID"], name, address, *counts, device=device))
        return sorted(nodes, key=lambda node: (node.name, node.id))

    def node_facts(self, nodes: Sequence[Node], model: str) -> list[NodeFacts]:
        """Each node's facts. Raises EngineError naming the node that cannot give them."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        look = ray.remote(num_cpus=0, max_retries=0)(node_facts)
        calls = []
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node.id, soft=False)
            calls.append(look.options(scheduling_strategy=there).remote(model))
        return self.wait(calls, [f"node {node}" for node in nodes], _START_S)

    # Replicas

    def place(self, slot: ReplicaSlot, silence_s: float) -> PlacedReplica:
        """Start a replica's process with its devices. Raises EngineError."""
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # Ray may count fewer cores than GPUs on a node, for example in a pod.
        cpus = 0 if slot.gpus else slot.cpus or 1
        device = slot.node.device if slot.gpus else "CPU"
        bundle = {device: slot.gpus or cpus}
        group = placement_group(
            [bundle],
            strategy="STRICT_PACK",
            bundle_label_selector=[{"ray.io/node-id": slot.node.id}],
        )
        placed = PlacedReplica(slot, None, group)
        self._placed.append(placed)
        if not group.wait(_START_S):
            raise EngineError(
                f"{slot}: Ray did not give it {slot.gpus or cpus} {device} "
                f"within {_START_S:.0f} s: something else on that node may hold it (ray status)"
            )
        actor = ray.remote(Replica).options(
            num_cpus=cpus,
            num_gpus=slot.gpus if device == "GPU" else 0,
            resources={} if device in ("GPU", "CPU") else bundle,
            max_restarts=0,
            # `stay` waits to the end, and the other calls must not wait for it.
            max_concurrency=4,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=0
            ),
        )
        placed.actor = actor.remote(silence_s)
        return placed

    def wait(
        self,
        calls: Sequence[Any],
        names: Sequence[str],
        patience_s: float,
        look: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Wait for Ray calls and return their results. `names`: who was asked, for error messages.

        `look` is called regularly; an exception in it ends the wait. Raises EngineError naming the
        first call that failed, as soon as it did.
        """
        import ray

        deadline = time.monotonic() + patience_s
        pending = list(calls)
        while pending:
            finished_calls, pending = ray.wait(pending, num_returns=1, timeout=_POLL_S)
            for call in finished_calls:
                try:
                    ray.get(call)
                # Ray has a different error class for each kind of failure.
                except Exception as error:
                    name = names[calls.index(call)]
                    cause = getattr(error, "cause", None)
                    why = str(cause) if isinstance(cause, SuiteError) else self._why(error)
                    raise EngineError(f"{name}: {why}") from error
            look()
            if pending and time.monotonic() > deadline:
                name = names[calls.index(pending[0])]
                raise EngineError(f"{name}: no answer within {patience_s:.0f} s")
        return list(ray.get(list(calls)))

    def put(self, value: object) -> Any:
        """Ray's reference to a value; each node gets one copy of it."""
        import ray

        return ray.put(value)

    def watch(self, on_loss: Callable[[PlacedReplica, str], None]) -> None:
        """Call `on_loss` from another thread with each replica that Ray gives up, and why, until
        the cluster is closed. A replica whose node is lost may still answer."""
        import ray

        stays = {replica.actor.stay.remote(): replica for replica in self._placed}

        def look() -> None:
            pending = list(stays)
            while pending and not self._closing:
                finished_calls, pending = ray.wait(pending, timeout=_WATCH_S)
                for call in finished_calls:
                    try:
                        ray.get(call)
                    except ray.exceptions.ActorUnavailableError:
                        why = self.cause_of_death(stays[call], _SETTLE_S)
                    except Exception as error:
                        why = self._why(error, stays[call].slot.node)
                    else:
                        why = "it was closed"
                    if not self._closing:
                        on_loss(stays[call], why)

        self._watching = threading.Thread(target=look, name="replicas' deaths", daemon=True)
        self._watching.start()

    def cause_of_death(self, placed: PlacedReplica, patience_s: float) -> str:
        """Why a replica's process no longer answers, as far as Ray can tell within that time."""
        deadline = time.monotonic() + patience_s
        with self._asking:
            while time.monotonic() < deadline and not self._closing:
                if (why := self._cause_of_death(placed)) is not None:
                    return why
        return "its process, or its node, is gone"

    def _cause_of_death(self, placed: PlacedReplica) -> str | None:
        """The cause if Ray knows it already; None if it does not know yet."""
        import ray

        try:
            ray.get(placed.actor.__ray_ready__.remote(), timeout=_POLL_S)
        except ray.exceptions.GetTimeoutError:
            return None
        except ray.exceptions.ActorUnavailableError:
            # Ray does not know yet whether the node is lost, or only this process.
            time.sleep(_POLL_S)
            return None
        except Exception as error:
            return self._why(error, placed.slot.node)
        return "its connection ended"

    def _why(self, error: Exception, node: Node | None = None) -> str:
        """The reason in Ray's words, in one line."""
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
        """Whether a node may still be in the cluster, as far as its head can tell."""
        try:
            return node.id in {other_node.id for other_node in self.nodes()}
        # A cluster that lost its head cannot tell.
        except Exception:
            return True

    def close(self) -> None:
        """End the remaining replicas and leave the cluster; the suite's own is stopped."""
        self._closing = True
        try:
            self._leave()
        finally:
            # Runs even if Ctrl-C comes again while replicas end.
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
                # No thread may ask Ray after its shutdown: it would start another one.
                with self._asking:
                    pass
                if self._watching not in (None, threading.current_thread()):
                    self._watching.join(2 * _WATCH_S)
            finally:
                with handlers_kept(), contextlib.suppress(Exception):
                    ray.shutdown()

    def _end_replicas(self, ray: Any) -> None:
        from ray.util.placement_group import remove_placement_group

        placed, self._placed = self._placed, []
        if not ray.is_initialized():
            return
        alive = [replica for replica in placed if replica.actor is not None]
        closing = [replica.actor.close.remote() for replica in alive]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for replica in alive:
            ray.kill(replica.actor)
        for replica in placed:
            remove_placement_group(replica.group)


_INSTALL = (
    "install it with `make ray`, or "
    "`pip install --no-deps --require-hashes -r requirements/ray.lock`"
)


def check_ray() -> None:
    """Raise UsageError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--replicas: Ray is missing: {_INSTALL}")


def _import_ray() -> Any:
    """Import Ray, which has then read the current environment."""
    was_here = "ray" in sys.modules
    set_here = {n: v for n, v in _READ_ONCE.items() if n not in os.environ}
    os.environ |= set_here
    try:
        import ray
    except ImportError as error:
        raise EngineError(f"--replicas: Ray cannot be imported ({error}): {_INSTALL}") from error
    finally:
        for name in set_here:
            os.environ.pop(name)
    if was_here:
        # Renew what Ray read from the environment when it was imported.
        with contextlib.suppress(ImportError, AttributeError):
            constants: Any = importlib.import_module("ray._private.ray_constants")
            inside: Any = importlib.import_module("ray._raylet")
            on = os.environ.get(_OTHER_MACHINES, "1").lower() in ("1", "true")
            constants.ENABLE_RAY_CLUSTER = on
            inside.Config.initialize("")
            inside.AuthenticationTokenLoader.instance().reset_cache()
    return ray


_READ_ONCE = {
    # A call without a running Ray fails instead of starting one.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # Each attempt to join takes up to 40 s, and Ray makes 20; a listening head answers at once.
    "RAY_NUM_REDIS_GET_RETRIES": "3",
}
"""Environment variables that Ray reads when it is imported."""
_OTHER_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""If this is off, Ray keeps to the loopback address; otherwise it replaces it with the machine's
own address (its services.py, get_node_ip_address)."""


def _quiet() -> None:
    """Keep Ray from printing the logs of its processes, for which it has no setting: errors of the
    suite hold what matters."""
    with contextlib.suppress(ImportError):
        inside: Any = importlib.import_module("ray._private.worker")
        inside.print_to_stdstream = lambda data, ignore_prefix: None


def own_cluster_variables(folder: Path) -> dict[str, str]:
    """The environment of the suite's own cluster and of processes that join it. Writes the
    cluster's token to `folder`."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        _OTHER_MACHINES: "0",
        # Idle Python processes, one per core.
        "RAY_prestart_worker_first_driver": "0",
        # An engine that takes much memory would not be ended in this process either.
        "RAY_memory_monitor_refresh_ms": "0",
    }


def folder_for_ray() -> Path:
    """Create a folder with a short name that only this user may enter."""
    base = tempfile.gettempdir()
    short = Path("/tmp")  # noqa: S108 - mkdtemp makes a folder that only this user may enter
    if len(base) > _MAX_FOLDER_LENGTH and os.access(short, os.W_OK):
        base = str(short)
    return Path(tempfile.mkdtemp(prefix="mlperf-ray-", dir=base))


def _last_line(text: str) -> str:
    """The last line with text, which in a traceback is the error itself."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "failed"
