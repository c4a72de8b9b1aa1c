"""Bursar as a user installs it: the image on a real node, manifests, and the removal."""

import json

import pytest

from support.install.installed_bursar import (
    HOME,
    InstalledBursar,
    is_gated,
    peer_pod,
    tenant,
)
from support.until import until_sync

COMPONENT = "app.kubernetes.io/component"
PARTS = ("crds", "rbac", "controller", "webhook", "policies", "peerpods", "capacity", "agent")


@pytest.fixture(scope="module")
def installed(real_node, image):  # noqa: ARG001 - the node must have the image
    found = InstalledBursar(real_node, PARTS, ("--peerpods-namespace", HOME))
    found.apply()
    try:
        found.wait_ready()
        yield found
    finally:
        # The last test removes it. This is for the case that a test before it failed.
        found.try_kubectl("delete", "--ignore-not-found", "-f", "-", stdin=found.text)


def test_pods_wait_for_their_quota_and_run_as_real_containers(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="100m")
        shop.deploy("web", replicas=3, cpu="50m")
        shop.until(running=2, gated=1)

        queue = json.loads(installed.bursar("queue", "-A", "-o", "json").out)
        assert [each["name"] for each in queue] == shop.gated()

        installed.kubectl("delete", "pod", "-n", shop.name, shop.running()[0], "--now")
        shop.until(running=2, gated=1)


def test_processes_run_with_the_fewest_rights(installed):
    listed = json.loads(installed.kubectl("get", "pods", "-n", HOME, "-o", "json"))
    ours = [
        each
        for each in listed["items"]
        if each["metadata"]["labels"].get(COMPONENT) in {"controller", "webhook"}
    ]

    assert len(ours) >= 4
    for pod in ours:
        assert pod["spec"]["securityContext"]["runAsUser"] == 65532
    for component in ("controller", "webhook"):
        assert "Traceback" not in installed.logs(component)


def test_a_peer_pod_is_rewritten_by_the_webhook_behind_its_service(installed):
    with tenant(installed) as shop:
        made = shop.create_pod(peer_pod())

        (rewritten,) = made["spec"]["containers"]
        assert rewritten["resources"]["requests"] == {"kata.peerpods.io/vm": "1"}
        assert is_gated(made)


def test_the_agent_runs_on_the_node(installed):
    def is_ready():
        found = installed.kubectl("get", "daemonset", "-n", HOME, "bursar-agent", "-o", "json")
        status = json.loads(found)["status"]
        return status.get("numberReady") == status["desiredNumberScheduled"] == 1

    until_sync(is_ready, installed.pods)


def test_zz_removed_it_leaves_no_gate_and_no_object_but_the_quotas(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="50m")
        shop.deploy("web", replicas=3, cpu="50m")
        shop.until(running=1, gated=2)

        installed.remove()

        shop.until(running=3, gated=0)
        assert installed.kubectl("get", "arq", "-n", shop.name, "-o", "name").strip()
        until_sync(lambda: not installed.left_behind(), installed.left_behind)
        shop.deploy("later", replicas=1, cpu="50m")
        shop.until(running=4, gated=0)
