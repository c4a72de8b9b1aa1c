"""`bursar controller --keep-capacity` as a process, with no more rights than its account has."""

import json
import ssl
import urllib.request
from typing import Any

import pytest

from bursar.adapters.telemetry.catalogue.metric import Process
from certificates import Authority
from controlplane import LOOPBACK
from program import free_port
from support.builders.manifests import pod_manifest
from support.builders.reviews import put_pair
from support.cluster.control_plane import wait_for_account
from support.install.printed import printed
from support.metrics.printed_metrics import differences
from support.processes.kubectl import kubectl, try_kubectl
from support.quota.controller_processes import Controllers, own_cluster
from support.until import until_sync

PLACE = "peer-pods"
VM = "kata.peerpods.io/vm"


@pytest.fixture(scope="module")
def control_plane():
    yield from own_cluster(nodes=1)


def offered(plane) -> list[tuple[str | None, str | None]]:
    nodes = json.loads(kubectl(plane, "get", "nodes", "-o", "json"))["items"]
    return [
        (node["status"]["capacity"].get(VM), node["status"]["allocatable"].get(VM))
        for node in nodes
    ]


def wait_offered(plane, amount: str | None) -> None:
    until_sync(lambda: offered(plane) == [(amount, amount)], lambda: offered(plane))


def vm_pod(name: str) -> dict[str, Any]:
    return pod_manifest(f"{PLACE}/{name}", requests=f"{VM}=1", limits=f"{VM}=1")


def wait_shown(authority: Authority, port: int, wanted: dict[str, str]) -> None:
    """Until the metrics of the only node and of the cluster have these numbers."""
    trust = ssl.create_default_context(cafile=str(authority.certificate))

    def shown() -> dict[str, str]:
        url = f"https://{LOOPBACK}:{port}/metrics"
        with urllib.request.urlopen(url, context=trust, timeout=60) as answer:
            text = answer.read().decode()
        assert differences(text, Process.CONTROLLER) == []
        lines = [line.rpartition(" ") for line in text.splitlines()]
        return {name.partition("{")[0]: value for name, _, value in lines if VM in name}

    until_sync(lambda: shown().items() >= wanted.items(), shown)


def test_the_preset_is_kept_healed_and_withdrawn(control_plane, tmp_path):
    plane = control_plane
    applied = [
        ("create", "namespace", PLACE),
        ("label", "nodes", "--all", "katacontainers.io/kata-runtime=true"),
    ]
    for arguments in applied:
        kubectl(plane, *arguments)
    rights = printed("capacity", f"--peerpods-namespace={PLACE}")
    kubectl(plane, "apply", "-f", "-", stdin=rights)
    limit = ("create", "configmap", "peer-pods-cm", "-n", PLACE)
    kubectl(plane, *limit, "--from-literal=PEERPODS_LIMIT_PER_NODE=2")

    authority, port = Authority(tmp_path), free_port()
    put_pair(tmp_path, authority.server("controller"))
    options = ("--keep-capacity", f"--peerpods-namespace={PLACE}")
    served = (f"--tls-dir={tmp_path}", f"--bind={LOOPBACK}:{port}", "--metrics-auth=none")
    with Controllers(plane, tmp_path, *options, *served):
        wait_offered(plane, "2")
        wait_for_account(plane, PLACE)
        for number in range(3):
            kubectl(plane, "create", "-f", "-", stdin=json.dumps(vm_pod(f"peer-{number}")))
        wait_shown(authority, port, {"bursar_capacity_waiting": "1", "bursar_node_capacity": "2"})
        kubectl(plane, "delete", "pod", "-n", PLACE, "--all", "--force")
        wait_shown(authority, port, {"bursar_capacity_waiting": "0"})
        (name,) = kubectl(plane, "get", "nodes", "-o", "name").split()
        wiped = json.dumps([{"op": "remove", "path": "/status/capacity/kata.peerpods.io~1vm"}])
        patched = try_kubectl(
            plane, "patch", name, "--subresource=status", "--type=json", "-p", wiped
        )
        assert patched.code == 0, patched.err
        wait_offered(plane, "2")

        kubectl(plane, "delete", "configmap", "peer-pods-cm", "-n", PLACE)
        wait_offered(plane, None)
