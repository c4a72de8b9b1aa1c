"""`bursar controller --keep-capacity` as a process, with no more rights than its account has."""

import json
import time

import pytest

from kubectl import kubectl, try_kubectl
from quota_processes import Controllers, own_cluster, printed

PLACE = "peer-pods"
VM = "kata.peerpods.io/vm"
HEALED_S = 5
PATIENCE_S = 30


@pytest.fixture(scope="module")
def control_plane():
    yield from own_cluster(nodes=1)


def offered(plane) -> list[tuple[str | None, str | None]]:
    nodes = json.loads(kubectl(plane, "get", "nodes", "-o", "json"))["items"]
    return [
        (node["status"]["capacity"].get(VM), node["status"]["allocatable"].get(VM))
        for node in nodes
    ]


def wait_offered(plane, amount: str | None, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while offered(plane) != [(amount, amount)]:
        assert time.monotonic() < deadline, offered(plane)
        time.sleep(0.1)


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

    with Controllers(plane, tmp_path, "--keep-capacity", f"--peerpods-namespace={PLACE}"):
        wait_offered(plane, "2")
        (name,) = kubectl(plane, "get", "nodes", "-o", "name").split()
        wiped = json.dumps([{"op": "remove", "path": "/status/capacity/kata.peerpods.io~1vm"}])
        patched = try_kubectl(
            plane, "patch", name, "--subresource=status", "--type=json", "-p", wiped
        )
        assert patched.code == 0, patched.err
        wait_offered(plane, "2", HEALED_S)

        kubectl(plane, "delete", "configmap", "peer-pods-cm", "-n", PLACE)
        wait_offered(plane, None)
