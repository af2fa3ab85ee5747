"""No node of any cluster has more replicas than its GPUs hold."""

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.placement import Node, PlacementRequest, place_replicas


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.integers(1, 4),
)
def test_no_node_has_more_than_its_gpus(
    gpus: list[int], replicas: int | None, gpus_each: int
) -> None:
    nodes = [Node(str(i), f"n{i}", f"10.0.0.{i}", count, 4) for i, count in enumerate(gpus)]
    on_gpus = any(gpus)
    room = sum(count // gpus_each for count in gpus) if on_gpus else 4 * len(nodes)
    try:
        slots = place_replicas(nodes, PlacementRequest(replicas, gpus_each))
    except EngineError:
        assert room < (replicas or 1)
        return
    assert [slot.number for slot in slots] == list(range(len(slots)))
    for node in nodes:
        node_slots = [slot for slot in slots if slot.node == node]
        assert sum(slot.gpus for slot in node_slots) <= node.gpus
        assert sum(slot.cpus for slot in node_slots) <= node.cpus
    assert replicas in (None, len(slots))
