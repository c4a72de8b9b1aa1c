"""The table "If something is down" of docs/how-to/install.md, row by row, on a real node."""

import asyncio
import http.client
import json
import ssl

import pytest

from bursar.adapters.controller_http.routes import LEADER_PATH
from bursar.app.install.workloads import PORT
from bursar.app.names import CONTROLLER, WEBHOOK
from support.builders.manifests import arq_manifest
from support.install.installed_bursar import HOME, InstalledBursar, Raw, tenant
from support.install.pod_load import NOWHERE, assert_none_lost, pod_load
from support.until import until_blocking, until_sync

SOME = 20
"""Pods that are created before a replica is killed, and again after it is replaced."""
LOST = "lost"
"""A node without a kubelet."""


@pytest.fixture
def installed(behind_webhook) -> InstalledBursar:
    return behind_webhook


@pytest.fixture
def shop(installed):
    with tenant(installed) as shop:
        yield shop


def test_while_the_controller_is_down_pods_wait_and_others_run_on(installed, shop):
    shop.quota(requests_cpu="100m")
    shop.run_pod("early", cpu="10m")
    shop.until(running=1, gated=0)

    installed.scale(CONTROLLER, 0)
    try:
        shop.run_pod("late", cpu="10m")
        grown, shrunk = shop.try_resize("early", "20m"), shop.try_resize("early", "5m")
        assert (shop.running(), shop.gated()) == (["early"], ["late"])
    finally:
        installed.scale(CONTROLLER, 2)

    assert grown.code != 0
    assert "could not be checked against quotas" in grown.err
    assert f"check that {CONTROLLER} runs" in grown.err
    assert shrunk.code == 0, shrunk.err
    shop.until(running=2, gated=0)
    until_sync(lambda: shop.try_resize("early", "20m").code == 0, lambda: installed.logs("webhook"))


def test_while_the_webhook_is_down_gated_namespaces_get_no_pod_and_others_do(installed, shop):
    shop.quota(requests_cpu="10m")
    shop.run_pod("early", cpu="10m")
    shop.until(running=1, gated=0)
    shop.run_pod("next", cpu="10m")
    shop.until(running=1, gated=1)

    installed.scale(WEBHOOK, 0)
    try:
        refused, resized = shop.try_pod("late"), shop.try_resize("early", "5m")
        quota = json.dumps(arq_manifest(f"{shop.name}/second", {"pods": "1"}))
        no_quota = installed.try_kubectl("create", "-f", "-", stdin=quota)
        with tenant(installed, is_gated=False) as free:
            allowed = free.try_pod("any", nodeSelector=NOWHERE)
        installed.kubectl("delete", "pod", "-n", shop.name, "early", "--now")
        shop.until(running=1, gated=0)
    finally:
        installed.scale(WEBHOOK, 2)

    assert 'failed calling webhook "gater.cqo.kubevirt.io"' in refused.err
    assert 'failed calling webhook "resize.pod.quota.validator"' in resized.err
    assert 'failed calling webhook "application.resource.quota.validator"' in no_quota.err
    assert WEBHOOK in refused.err
    assert allowed.code == 0, allowed.err
    until_sync(lambda: shop.try_pod("late", requests="cpu=10m").code == 0, installed.pods)
    assert shop.gated() == ["late"]


@pytest.mark.parametrize("name", [CONTROLLER, WEBHOOK])
async def test_one_replica_is_evicted_and_nothing_is_refused(installed, shop, name):
    """As when a node is drained: the replica has its grace period."""
    shop.quota(pods="100000")
    before = installed.pods_of(name)
    [killed] = [pod for pod in before if name == WEBHOOK or leads(before[pod])][:1]

    async with pod_load(shop) as load:
        await load.until_more(SOME)
        await asyncio.to_thread(installed.kubectl, "delete", "pod", "-n", HOME, killed)
        await until_blocking(lambda: installed.is_rolled_out(name), installed.pods)
        await load.until_more(SOME)

    assert killed not in installed.pods_of(name)
    assert_none_lost(load)


def test_while_the_api_server_is_down_bursar_waits_and_goes_on_afterwards(installed, shop):
    shop.quota(requests_cpu="10m")
    shop.run_pod("early", cpu="10m")
    shop.until(running=1, gated=0)
    shop.run_pod("next", cpu="10m")
    shop.until(running=1, gated=1)
    plane = installed.node.plane
    controllers = installed.pods_of(CONTROLLER)
    before = starts(installed)

    plane.apiserver.kill()
    try:
        until_sync(lambda: not any(leads(each) for each in controllers.values()), "nobody leads")
    finally:
        plane.apiserver.restart()
    installed.kubectl("delete", "pod", "-n", shop.name, "early", "--now")

    shop.until(running=1, gated=0)
    until_sync(lambda: shop.used() == {"requests.cpu": "10m"}, shop.used)
    assert starts(installed) == before


def test_the_pods_of_a_lost_node_count_until_they_are_deleted(installed, shop):
    plane = installed.node.plane
    plane.add_node(LOST)
    on_it = {"nodeSelector": {"kubernetes.io/hostname": LOST}}
    shop.quota(requests_cpu="20m")
    shop.run_pod("patient", cpu="10m", terminationGracePeriodSeconds=3600, **on_it)
    shop.run_pod("hasty", cpu="10m", terminationGracePeriodSeconds=1, **on_it)
    shop.until(running=2, gated=0)
    shop.run_pod("first", cpu="10m", nodeSelector=NOWHERE)
    shop.until(running=2, gated=1)

    plane.kwok.kill()
    try:
        shop.run_pod("second", cpu="10m", nodeSelector=NOWHERE)
        # What Kubernetes does after a while, and it waits for the kubelet then.
        installed.kubectl("delete", "pod", "-n", shop.name, "patient", "hasty", "--wait=false")
        until_sync(lambda: shop.gated() == ["second"], shop.gated)
        assert {each["metadata"]["name"] for each in shop.pods()} >= {"patient", "hasty"}
        until_sync(lambda: shop.used() == {"requests.cpu": "20m"}, shop.used)

        installed.kubectl("delete", "pod", "-n", shop.name, "patient", "--force")
        until_sync(lambda: shop.gated() == [], shop.gated)
    finally:
        plane.kwok.restart()
        installed.kubectl("delete", "node", LOST)


def leads(controller: Raw) -> bool:
    """Whether this replica leads, by its own account. It is asked past the API server."""
    # Only this machine, and only a question that anybody may ask.
    context = ssl._create_unverified_context()  # noqa: S323
    address = controller["status"]["podIP"]
    connection = http.client.HTTPSConnection(address, PORT, context=context, timeout=60)
    try:
        connection.request("GET", LEADER_PATH)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    is_leader: bool = answer["apiserver"]["leader"] == "true"
    return is_leader


def starts(installed: InstalledBursar) -> dict[str, int]:
    """How often the container of each replica was restarted."""
    pods = {**installed.pods_of(CONTROLLER), **installed.pods_of(WEBHOOK)}
    return {
        name: pod["status"]["containerStatuses"][0]["restartCount"] for name, pod in pods.items()
    }
