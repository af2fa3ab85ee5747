"""Which replica runs where, and what is said of it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.plugin.pytest_output import pytest_output
from meta_tests.session.timing.kept_offline_run import check_no_other_takes_its_rate
from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.features.replicas.loading import (
    ReplicasConfig,
    check_alike,
    check_descriptions,
    cores_of,
    machines_of,
)
from mlperf_suite.features.replicas.nodes import NodeFacts
from mlperf_suite.features.replicas.options import OPTIONS
from mlperf_suite.features.replicas.placement import (
    Node,
    PlacementRequest,
    choose_gpus_each,
    parse_nodes,
    place_replicas,
    placement_table,
)
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.settings import resolve_settings

EIGHT = Node("1", "node-a", "10.0.0.1", 8, 64, "NVIDIA H100")
FOUR = Node("2", "node-b.cluster", "10.0.0.2", 4, 32, "NVIDIA H100")
HEAD = Node("3", "control", "10.0.0.3", 0, 8)


@pytest.mark.parametrize(
    ("placement_request", "expected"),
    [
        # An engine for each GPU or group of them, and none on the control node.
        (PlacementRequest(), [8, 4, 0]),
        (PlacementRequest(tensor_parallel=4), [2, 1, 0]),
        # Fewer are spread over the nodes.
        (PlacementRequest(3), [2, 1, 0]),
        (PlacementRequest(10), [6, 4, 0]),
        (PlacementRequest(nodes=parse_nodes("node-b")), [0, 4, 0]),
        # A number for one node alone: the rest goes to the others.
        (PlacementRequest(4, nodes=parse_nodes("node-a:1,node-b")), [1, 3, 0]),
    ],
)
def test_replicas_are_placed_on_the_nodes_gpus(
    placement_request: PlacementRequest, expected: list[int]
) -> None:
    nodes = [EIGHT, FOUR, HEAD]
    slots = place_replicas(nodes, placement_request)
    assert [sum(slot.node == node for slot in slots) for node in nodes] == expected


@pytest.mark.parametrize(
    ("placement_request", "line"),
    [
        (PlacementRequest(13), r"13 replicas of 1 GPU each.*node node-a \(10.0.0.1\) 8 \(8 GPUs\)"),
        (PlacementRequest(1, 16), "1 replica of 16 GPUs each"),
        (PlacementRequest(tensor_parallel=16), "no room"),
        (
            PlacementRequest(nodes=parse_nodes("node-z")),
            "no node node-z in the Ray cluster: it has",
        ),
        (PlacementRequest(nodes=parse_nodes("node-b:5")), "asked for 5"),
        (PlacementRequest(4, nodes=parse_nodes("node-b:2")), "replica nodes ask for 2"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(
    placement_request: PlacementRequest, line: str
) -> None:
    with pytest.raises(EngineError, match=line):
        place_replicas([EIGHT, FOUR], placement_request)


@pytest.mark.parametrize("text", ["", "a,", "a:0", "a:x", ":2", "a:1,a"])
def test_a_mapping_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_nodes(text)


def test_the_table_fits_a_terminal_and_names_what_is_idle() -> None:
    long = replace(EIGHT, name="a-very-long-name-of-a-node-in-a-cluster.example.org")
    slots = place_replicas([long, FOUR], PlacementRequest(5, 2))
    lines = placement_table(slots, [long, FOUR], "auto")
    assert all(len(line) <= 80 for line in lines)
    assert lines[0] == "placement: 5 replicas on 2 nodes (auto)"
    assert " ".join(line.strip() for line in lines).endswith(f"idle: 2 GPUs of {long}")
    assert sum("2 GPUs NVIDIA H100, TP 2" in line for line in lines) == 5


def test_a_model_that_fits_one_gpu_is_not_split() -> None:
    for asked, weights, gpus in ((None, 16e9, 1), (None, 141e9, 4), (2, 16e9, 2), (None, 0, 1)):
        assert choose_gpus_each(asked, int(weights), 80 * 2**30, 8).value == gpus
    with pytest.raises(EngineError, match="do not fit 8 GPUs"):
        choose_gpus_each(None, 10**12, 80 * 2**30, 8)


FACTS = NodeFacts("host", "boot", (0, 1), (), None, "0.32.0", "1 (abc)", "print", 100)
ONE = Node("1", "node-a", "127.0.0.1", 0, 1)
OTHER = Node("2", "node-b", "127.0.0.1", 0, 1)
MODEL = ReplicasConfig(lambda number, gpus: lambda folder: None, model="/model")  # type: ignore[arg-type,return-value]


def test_replicas_on_one_machine_share_no_core() -> None:
    slots = place_replicas([ONE, OTHER], PlacementRequest())
    facts = {"1": FACTS, "2": FACTS}
    assert cores_of(slots, facts) == [(0,), (1,)]
    # Two machines whose cores have the same numbers.
    assert cores_of(slots, {"1": FACTS, "2": replace(FACTS, boot="other")}) == [(0,), (0,)]
    with pytest.raises(EngineError, match=r"replica 1 on node node-b.*0 free of its machine's 1"):
        cores_of(slots, {name: replace(FACTS, cores=(0,)) for name in facts})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"vllm": "0.31.0"}, r"node node-b \(127.0.0.1\): vLLM 0.31.0 there, and 0.32.0 on node"),
        ({"vllm": None}, r"node node-b \(127.0.0.1\): vLLM is not installed there"),
        ({"suite": "1 (xyz)"}, r"node node-b .*: the suite there is 1 \(xyz\), here it is 1"),
        ({"model": None}, r"node node-b .*: the model does not exist: /model"),
        ({"model": "other"}, r"node node-b .*: /model is of revision other there, and print on"),
    ],
)
def test_a_node_that_is_not_as_the_others_is_named(change: dict[str, Any], line: str) -> None:
    facts = {"1": FACTS, "2": replace(FACTS, **change)}
    check_alike([ONE, OTHER], {"1": FACTS, "2": FACTS}, MODEL, "1 (abc)")
    with pytest.raises(EngineError, match=line):
        check_alike([ONE, OTHER], facts, MODEL, "1 (abc)")


def test_a_setting_in_which_a_replica_differs_is_named() -> None:
    def described(**settings: object) -> EngineDescription:
        settings = {"max_num_seqs": 1024, **settings}
        return EngineDescription("vLLM", "0.32.0", "m", False, 4096, settings)

    slots = place_replicas([ONE, OTHER], PlacementRequest())
    same = [described(load_s=1.0), described(load_s=2.0, omp_threads_bind="1")]
    assert check_descriptions(slots, same, {}).settings["max_num_seqs"] == 1024
    other = [described(dtype="bfloat16"), described(dtype="x")]
    with pytest.raises(
        EngineError, match=r"replica 1 on node node-b .*: its engine's dtype is x, "
    ):
        check_descriptions(slots, other, {})
    with pytest.raises(EngineError, match=r"replica 0 on .*max_num_seqs is 1024, and 128"):
        check_descriptions(slots, same, {"max_num_seqs": 128})


def test_two_nodes_of_a_machine_are_one_machine_and_gpus_that_no_replica_has_are_idle() -> None:
    slots, facts = place_replicas([ONE, OTHER], PlacementRequest()), {"1": FACTS, "2": FACTS}
    (machine,) = machines_of(slots, [ONE, OTHER], facts, "boot")
    assert (machine["replicas"], machine["here"]) == (2, True)
    facts["2"] = replace(FACTS, boot="other", host="b")
    assert [m["here"] for m in machines_of(slots, [ONE, OTHER], facts, "boot")] == [True, False]
    facts = {EIGHT.id: replace(FACTS, gpus=("NVIDIA H100",) * 8, gpu_memory=80 * 2**30)}
    (machine,) = machines_of(
        place_replicas([EIGHT], PlacementRequest(3, 2)), [EIGHT], facts, "elsewhere"
    )
    assert (machine["gpus"], machine["idle_gpus"], machine["gpu"]) == (6, 2, "NVIDIA H100")


def test_that_ray_is_missing_is_said_before_anything_loads(tmp_path: Path) -> None:
    (tmp_path / "no_ray.py").write_text("import sys\nsys.modules['ray'] = None\n")
    output = pytest_output(
        *("-m", "offline and datacenter", "--replicas=8", "-p", "no_ray"),
        f"--results-dir={tmp_path}/results",
        code=pytest.ExitCode.USAGE_ERROR,
        python_path=str(tmp_path),
    )
    assert re.search(r"--replicas: Ray .*install it with `make ray`", output)
    assert not (tmp_path / "results").exists()


def resolve(environment: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    return dict(resolve_settings(options, environment or {}).feature_options)


def test_a_ray_cluster_is_asked_for_as_many_replicas_as_it_holds() -> None:
    assert resolve()["replicas"] is None
    assert resolve(replicas="2")["ray"] is None
    assert resolve(ray="head:1", replicas="3")["replicas"] == 3
    environment = {"MLPERF_NODES": "a:4,b"}
    settings = resolve_settings({"ray": "head:1"}, environment).as_json()
    assert (settings["replicas"], settings["replica_nodes"]) == ("auto", "a:4,b")


OF_REPLICAS = [name for name, spec in OPTIONS.items() if spec.only_with]


@pytest.mark.parametrize("name", OF_REPLICAS)
def test_an_option_of_replicas_is_refused_without_them(name: str) -> None:
    values: dict[str, Any] = {"replica_nodes": "a", "replica_routing": "tokens", "scaling": "true"}
    with pytest.raises(UsageError) as error:
        resolve(None, **{name: values.get(name, "1")})
    option = name.replace("_", "-")
    assert str(error.value) == f"--{option}: can only be used with --replicas or --ray"
    # A variable may be there for other runs.
    assert resolve({"MLPERF_NODES": "a,b"})["replicas"] is None


def test_no_other_system_takes_the_rate_of_replicas(tmp_path: Path) -> None:
    several = {"ray": "10.0.0.1:6379", "replica_nodes": "a:4,b:4"}
    check_no_other_takes_its_rate(
        tmp_path, {"replicas": "2"}, {"replicas": "2", "replica_cpus": "1"}, several
    )
    assert not source_of(resolve_settings({"replicas": "2"}, {})).takes("picture")
