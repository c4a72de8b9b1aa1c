"""`bursar top` and `bursar describe` say the same of generated clusters, as a user reads them."""

import json
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from bursar.cli.reports.describe import describe
from bursar.cli.top.top import top
from bursar.core.model.quantity import Quantity
from bursar.entry.processes import ComposedProcesses
from support.builders.manifests import a_manifest, arq_manifest, node_manifest, pod_manifest

NODES = ("n0", "n1", "n2")
NAMESPACES = ("shop", "lab")
GPU = "nvidia.com/gpu"
AMOUNTS = {
    "cpu": ["0", "1m", "100m", "1.5", "2"],
    "memory": ["1M", "100Mi", "1.5Gi", "123456789"],
    "ephemeral-storage": ["1Gi", "500M"],
    GPU: ["1", "2"],
}
QUOTA_NAMES = ["requests.cpu", "limits.memory", "memory", "pods", f"requests.{GPU}", "services"]


def resources(random: Random) -> dict[str, dict[str, str]]:
    requests = {
        name: random.choice(each) for name, each in AMOUNTS.items() if random.random() < 0.5
    }
    limits = {GPU: requests[GPU]} if GPU in requests else {}
    if random.random() < 0.5:
        limits["memory"] = "2Gi"
    return {"requests": requests, "limits": limits}


def a_container(random: Random, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": resources(random), **more}


def random_pod(random: Random, number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [a_container(random, f"c{n}") for n in range(random.randint(1, 2))],
        "initContainers": [a_container(random, "setup")],
    }
    if random.random() < 0.5:
        spec["initContainers"].insert(0, a_container(random, "mesh", restartPolicy="Always"))
    if random.random() < 0.2:
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if random.random() < 0.2:
        spec["resources"] = {"requests": {"cpu": "3"}}
    phase = random.choice(["Running", "Running", "Pending", "Failed"])
    node = random.choice([*NODES, ""])
    where = f"{random.choice(NAMESPACES)}/p{number}"
    return pod_manifest(where, node=node, phase=phase, **spec)


def a_cluster(random: Random) -> list[dict[str, Any]]:
    nodes = [
        node_manifest(name, f"cpu=3920m memory=15204352Ki pods=5 ephemeral-storage=90Gi {GPU}=4")
        for name in NODES
    ]
    quotas = [
        kind(
            f"{namespace}/q{number}",
            {name: "3" for name in QUOTA_NAMES if random.random() < 0.7} | {"pods": "9"},
        )
        for namespace in NAMESPACES
        for number, kind in enumerate((arq_manifest, native_quota))
    ]
    return [*nodes, *quotas, *(random_pod(random, number) for number in range(20))]


def native_quota(where: str, hard: dict[str, str]) -> dict[str, Any]:
    return a_manifest("v1", "ResourceQuota", where, spec={"hard": hard})


def said(group, *arguments: str, cluster: list[dict[str, Any]]) -> Any:
    ran = CliRunner().invoke(
        group,
        [*arguments, "-f", "-", "-o", "json"],
        input="\n---\n".join(map(json.dumps, cluster)),
        standalone_mode=False,
        obj=ComposedProcesses(),
    )
    assert ran.exception is None
    return json.loads(ran.stdout)


@pytest.mark.parametrize("seed", range(12))
def test_top_says_of_nodes_and_quotas_what_describe_says(seed):
    cluster = a_cluster(Random(seed))  # noqa: S311 - a seed
    for told, node in zip(
        said(top, "nodes", cluster=cluster)["nodes"],
        said(describe, "node", cluster=cluster),
        strict=True,
    ):
        assert told["node"] == node["name"]
        assert told["pods"] == len(node["pods"])
        for name, each in told["resources"].items():
            assert each["free"] == node["stillFits"][name]
        for name, share in node["allocated"].items():
            each = told["resources"][name]
            for side in ("requests", "limits"):
                assert Quantity.parse(each[side]) == Quantity.parse(share[side])
                assert each[f"{side}Percent"] == share[f"{side}Percent"]

    uses = said(top, "quotas", cluster=cluster)["quotas"]
    described = {
        (quota["kind"], quota["namespace"], quota["name"], name): amount
        for quota in said(describe, "quota", cluster=cluster)
        for name, amount in quota["used"].items()
    }
    assert described == {
        (each["kind"], each["namespace"], each["quota"], each["resource"]): each["used"]
        for each in uses
        if each["recounted"]
    }
