"""The manifests in kubernetes/: what can be seen of them without a cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evidence.kubernetes.manifests import objects, pods
from meta_tests.suite_runs import ROOT
from mlperf_suite.settings import OPTIONS, Settings, resolve_settings

_SECRET = re.compile(r"TOKEN|KEY|PASSWORD|SECRET")
IN_A_RUN = {"HF_TOKEN": "hf_x", "API_KEY": "x"}


OBJECTS = objects()
PODS = [pod for manifest in OBJECTS.values() for pod in pods(manifest)]
CONTAINERS = [container for pod in PODS for container in pod["spec"]["containers"]]
SUITES = [item for item in CONTAINERS if item["name"] == "suite"]
assert len(PODS) == 8 and len(SUITES) == 4, "pods that the tests do not see"


def values(container: dict[str, Any]) -> dict[str, str]:
    """The variables that a container is given as they are, or as a field of its pod."""
    known = [
        item
        for item in container["env"]
        if {"value", "fieldRef"} & {*item, *item.get("valueFrom", ())}
    ]
    return {item["name"]: item.get("value", "node-1") for item in known}


# What they start


def options(container: dict[str, Any]) -> dict[str, Any]:
    """What a suite's container gives pytest, as `resolve_settings` takes it."""
    specs = {spec.flag: spec for spec in OPTIONS}
    values_given: dict[str, Any] = {}
    words = list(container["args"])
    while words:
        flag, equals, value = words.pop(0).partition("=")
        if flag == "-m":
            by_name = set(re.findall(r"\w+", words.pop(0))) - {"and", "or", "not"}
            ini = (ROOT / "pytest.ini").read_text()
            assert by_name <= set(re.findall(r"^    (\w+):", ini, re.MULTILINE))
            continue
        assert flag in specs, flag
        assert equals, "an option and its value are one word"
        for name, text in values(container).items():
            value = value.replace(f"$({name})", text)
        assert "$(" not in value
        spec = specs[flag]
        if spec.repeatable:
            values_given.setdefault(spec.dest, []).append(value)
        else:
            values_given[spec.dest] = value
    return values_given


def settings_of(container: dict[str, Any]) -> Settings:
    return resolve_settings(options(container), IN_A_RUN)


@pytest.mark.parametrize("container", SUITES, ids=["JobSet", "official", "ray", "smoke"])
def test_the_suite_takes_its_options(
    container: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    smoke = request.node.callspec.id == "smoke"
    assert settings_of(container).profile == ("smoke" if smoke else "official")


def test_what_nodes_write_is_aggregated() -> None:
    """Each node has a name and a folder of its own, below the one that is aggregated."""
    (official,) = [
        item
        for item in SUITES
        if "--profile=official" in item["args"] and "NODE_NAME" in values(item)
    ]
    assert values(official)["NODE_NAME"] == "node-1"
    assert str(settings_of(official).results_dir) == "results/nodes/node-1"
    (aggregate,) = [item for item in CONTAINERS if item["name"] == "aggregate"]
    for scenario in re.findall(r"\w+", official["args"][1].replace(" or ", " ")):
        assert f" results/nodes/*/2*-{scenario} " in " ".join(aggregate["command"][2].split())


def test_every_program_is_in_the_image() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "WORKDIR /app\n" in dockerfile and "/app/.venv/bin/python" in dockerfile
    for container in CONTAINERS:
        assert container["image"].partition(":")[0] == "mlperf-suite"
        program = container.get("command", ["ray"])[0]
        assert program.startswith("/app/.venv/bin/") or values(container)["PATH"].startswith(
            "/app/.venv/bin:"
        )


def test_the_suite_writes_where_results_stay() -> None:
    for container in SUITES:
        mounts = {item["mountPath"]: item["name"] for item in container["volumeMounts"]}
        assert mounts["/app/results"] == "results"


def test_volumes_and_claims_are_there() -> None:
    claims = {
        manifest["metadata"]["name"] for manifest in OBJECTS.values() if "Claim" in manifest["kind"]
    }
    for pod in PODS:
        volumes = {item["name"]: item for item in pod["spec"].get("volumes", ())}
        mounted = {
            item["name"]
            for container in pod["spec"]["containers"]
            for item in container.get("volumeMounts", ())
        }
        assert mounted == set(volumes)
        claims_named = {
            item["persistentVolumeClaim"]["claimName"]
            for item in volumes.values()
            if "persistentVolumeClaim" in item
        }
        assert claims_named <= claims


# Security


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod["spec"]["containers"][0]["name"])
def test_a_pod_has_no_more_rights_than_it_needs(pod: dict[str, Any]) -> None:
    """Kubernetes' Pod Security Standard `restricted`, and no access to its API."""
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        assert name not in spec
    for container in spec["containers"]:
        own = container["securityContext"]
        assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert all("hostPath" not in volume for volume in spec.get("volumes", ()))


def test_no_secret_is_written_down() -> None:
    assert not [
        manifest for manifest in OBJECTS.values() if manifest["kind"] in ("Secret", "ConfigMap")
    ]
    checked = set()
    for container in CONTAINERS:
        for item in container["env"]:
            if _SECRET.search(item["name"]):
                assert set(item) == {"name", "valueFrom"}, item["name"]
                checked.add(item["name"])
    assert checked == {"HF_TOKEN", "API_KEY", "VLLM_API_KEY", "RAY_AUTH_TOKEN"}


def test_every_pod_hears_its_own_kind_alone() -> None:
    policies = [
        manifest["spec"] for manifest in OBJECTS.values() if manifest["kind"] == "NetworkPolicy"
    ]
    for pod in PODS:
        labels = pod["metadata"]["labels"].items()
        (policy,) = [
            item for item in policies if item["podSelector"]["matchLabels"].items() <= labels
        ]
        assert policy["policyTypes"] == ["Ingress"]
        for rule in policy["ingress"]:
            assert rule["from"] == [{"podSelector": policy["podSelector"]}]


# What belongs together


def test_ray_and_its_driver_agree() -> None:
    cluster, job = OBJECTS["RayCluster/mlperf"], OBJECTS["Job/mlperf-ray-run"]
    (driver,) = [pod["spec"]["containers"][0] for pod in pods(job)]
    variables = values(driver)
    assert variables["RAY_HEAD"] == f"{cluster['metadata']['name']}-head-svc:6379"
    auth = cluster["spec"]["authOptions"]
    assert auth["mode"] == variables["RAY_AUTH_MODE"] == "token"
    (token,) = [item for item in driver["env"] if item["name"] == "RAY_AUTH_TOKEN"]
    # KubeRay takes the token from this key of that Secret.
    assert token["valueFrom"]["secretKeyRef"] == {"name": auth["secretName"], "key": "auth_token"}
    assert "--ray=$(RAY_HEAD)" in driver["args"]
    start = driver["command"][2]
    assert '--address="$RAY_HEAD" --num-cpus=0 --num-gpus=0' in start
    assert 'exec python -m pytest "$@"' in start


def test_rays_version_is_the_one_that_is_installed() -> None:
    lock = (ROOT / "requirements" / "ray.lock").read_text()
    (locked,) = re.findall(r"^ray==(\S+)", lock, re.MULTILINE)
    assert OBJECTS["RayCluster/mlperf"]["spec"]["rayVersion"] == locked


def test_nothing_runs_on_rays_head_and_each_probe_has_its_port() -> None:
    spec = OBJECTS["RayCluster/mlperf"]["spec"]
    head, (workers,) = spec["headGroupSpec"], spec["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == head["rayStartParams"]["num-gpus"] == "0"
    for group, port in (
        (head, 6379),
        (workers, int(workers["rayStartParams"]["node-manager-port"])),
    ):
        (container,) = group["template"]["spec"]["containers"]
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["tcpSocket"]["port"] == port
    gpus = workers["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    assert int(gpus) >= 1
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"]


def test_the_driver_starts_after_the_servers_and_ends_the_set() -> None:
    manifest = OBJECTS["JobSet/mlperf-endpoint"]
    spec = manifest["spec"]
    server, driver = spec["replicatedJobs"]
    assert driver["dependsOn"] == [{"name": server["name"], "status": "Ready"}]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [driver["name"]]}
    (serving,) = [pod["spec"]["containers"][0] for pod in pods(server)]
    (suite,) = [pod["spec"]["containers"][0] for pod in pods(driver)]
    (port,) = [item["containerPort"] for item in serving["ports"]]
    assert serving["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    # As JobSet names pods: set, job, its index, the pod's index; then the set's service.
    names = [
        f"http://{manifest['metadata']['name']}-{server['name']}-{n}-0.{spec['network']['subdomain']}"
        f":{port}"
        for n in range(server["replicas"])
    ]
    assert [target.url for target in settings_of(suite).feature_options["endpoints"]] == names
    assert values(serving)["MODEL"] == values(suite)["MODEL"]
    assert f"--port={port}" in serving["args"] and "--no-enable-prefix-caching" in serving["args"]
