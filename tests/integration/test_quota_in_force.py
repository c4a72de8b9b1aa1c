"""Limits that look enforced, on a real API server: they are said not to be, and nothing goes."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, EVENTS, PODS, RESOURCE_QUOTAS, SERVICES
from bursar.app.cluster.ports import AlreadyExistsError, ClusterError, Key, Query
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from controlplane import ControlPlane
from support.install.printed import printed
from support.processes.kubectl import kubectl, try_kubectl
from support.quota.controller_processes import (
    Administrator,
    Controllers,
    Lane,
    Turnstile,
    administering,
    gated_pod,
    install,
    watched,
)
from support.until import until

MANAGED = "-non-schedulable-resources-managed-rq-x"
CRD = f"crd/{APPLICATION_QUOTAS}"
LONG_GRACE = "--quota-grace=1h"
"""A quota that is created again is never late, however busy the machine is."""
GRACE = "--quota-grace=3s"


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture
def controllers(control_plane, tmp_path) -> Iterator[Controllers]:
    with Controllers(control_plane, tmp_path, GRACE) as running:
        yield running


@pytest.fixture
def patient_controllers(control_plane, tmp_path) -> Iterator[Controllers]:
    with Controllers(control_plane, tmp_path, LONG_GRACE) as running:
        yield running


async def ready(people: Administrator, quota: Key) -> dict:
    status = (await people.read(APPLICATION_QUOTAS, quota)).get("status", {})
    return {each["type"]: each for each in status.get("conditions", ())}.get("Ready", {})


async def event_reasons(people: Administrator, name: str) -> set[str]:
    page = await people.client.list(EVENTS, Query())
    events = [json.loads(body) for body in page.items]
    return {each["reason"] for each in events if each["regarding"]["name"] == name}


async def a_queue(people: Administrator, turnstile: Turnstile, name: str, *, waiting: int) -> Key:
    """A quota for one pod, with one pod past the gate and others that wait."""
    quota = Key(await people.namespace(name), "q")
    turnstile.assign("team", quota.namespace)
    await people.quota(quota, {"pods": "1"})
    await people.pods(quota.namespace, waiting + 1)
    await until(lambda: turnstile.released == 1, "one of them goes")
    return quota


async def service(people: Administrator, namespace: str, name: str) -> bool:
    """Whether a Service could be created."""
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
    try:
        await people.client.create(SERVICES, body, namespace=namespace)
    except ClusterError:
        return False
    return True


@pytest.mark.usefixtures("controllers")
async def test_a_resource_quota_that_the_api_server_refuses_is_said_on_the_quota(control_plane):
    words = '"servicess": must be a standard resource type or fully qualified'
    async with administering(control_plane) as people:
        quota = Key(await people.namespace("refused"), "q")
        await people.quota(quota, {"services": "1", "servicess": "1", "pods": "3"})
        shown: dict = {}

        async def is_refused() -> bool:
            nonlocal shown
            shown = await ready(people, quota)
            return shown.get("reason") == "WriteRefused"

        await until(is_refused, lambda: f"the quota says so: {shown}")
        assert shown["status"] == "False"
        assert words in shown["message"]

        async def is_told() -> bool:
            return "WriteRefused" in await event_reasons(people, quota.name)

        await until(is_told, "an event says so")

        await people.limit(quota, servicess=None)

        async def is_ready() -> bool:
            nonlocal shown
            shown = await ready(people, quota)
            return shown.get("status") == "True"

        await until(is_ready, lambda: f"the limits are in force: {shown}")
        managed = await people.read(RESOURCE_QUOTAS, Key(quota.namespace, quota.name + MANAGED))
        assert managed["status"]["hard"] == {"services": "1"}
        created = [await service(people, quota.namespace, name) for name in ("one", "two")]
        assert created == [True, False]


async def not_ready(people: Administrator, quota: Key, words: str) -> dict:
    """The condition Ready, once it is false and ends with these words."""
    shown: dict = {}

    async def is_said() -> bool:
        nonlocal shown
        shown = await ready(people, quota)
        return shown.get("status") == "False" and shown["message"].endswith(words)

    await until(is_said, lambda: f"the quota says so: {shown}")
    return shown


@pytest.mark.usefixtures("controllers")
async def test_limits_that_kubernetes_accepts_and_does_not_count_are_not_ready(control_plane):
    async with administering(control_plane) as people:
        namespace = await people.namespace("uncounted")
        await people.quota(
            Key(namespace, "misspelt"),
            {"services": "5", "count/service": "1", "example.com/gpu": "1"},
        )
        scoped = {"count/configmaps": "0", "count/pods": "9"}
        await people.quota(Key(namespace, "scoped"), scoped, scopes=["BestEffort"])
        words = "does not count: count/service, example.com/gpu"
        shown = await not_ready(people, Key(namespace, "misspelt"), words)
        assert shown["reason"] == "NotEnforced"
        shown = await not_ready(people, Key(namespace, "scoped"), "count/configmaps")
        assert shown["reason"] == "Invalid"
        # Kubernetes enforces no limit on objects under a scope, and the quota does not claim it.
        await people.client.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, namespace=namespace)


@pytest.mark.usefixtures("patient_controllers")
async def test_replacing_a_quota_by_force_releases_nobody_of_a_hundred(control_plane):
    async with (
        administering(control_plane) as people,
        watched(people.client, team=Lane(1)) as turnstile,
    ):
        quota = await a_queue(people, turnstile, "forced", waiting=100)
        body = await people.read(APPLICATION_QUOTAS, quota)
        manifest = {
            **{name: body[name] for name in ("apiVersion", "kind", "spec")},
            "metadata": {"name": quota.name, "namespace": quota.namespace},
        }
        for _ in range(3):
            kubectl(control_plane, "replace", "--force", "-f", "-", stdin=json.dumps(manifest))
            await people.settle()
        assert turnstile.excesses == []
        assert (turnstile.released, turnstile.waiting) == (1, 100)
        # Leave no queue to the next test.
        turnstile.lanes["team"].limit = 101
        await people.limit(quota, pods="101")
        await until(lambda: turnstile.released == 101, "all go")


@pytest.mark.usefixtures("controllers")
async def test_after_the_grace_period_the_pods_of_a_deleted_quota_go(control_plane):
    async with (
        administering(control_plane) as people,
        watched(people.client, team=Lane(1)) as turnstile,
    ):
        quota = await a_queue(people, turnstile, "deleted", waiting=10)
        await people.settle()
        assert (turnstile.released, turnstile.waiting) == (1, 10)
        turnstile.lanes["team"].limit = 11
        await people.client.delete(APPLICATION_QUOTAS, quota)
        await until(lambda: turnstile.released == 11, "after the grace period all go")


async def is_made(people: Administrator, quota: Key) -> bool:
    try:
        await people.quota(quota, {"pods": "1"})
    except AlreadyExistsError:
        return True
    except ClusterError:
        return False
    return True


@contextlib.asynccontextmanager
async def without_definition(plane: ControlPlane, controllers: Controllers) -> AsyncIterator[None]:
    """Delete the definition of quotas, and create it again when the block ends.

    The block begins when the controller has noticed that the definition is gone.
    """
    kubectl(plane, "delete", CRD, "--timeout=120s")
    try:
        said = "the API server does not serve the kind any more"
        await until(lambda: said in controllers.logs(), "the controller says so")
        yield
    finally:
        install(plane)


async def test_quotas_stay_in_force_without_their_definition(control_plane, controllers):
    async with (
        administering(control_plane) as people,
        watched(people.client, team=Lane(1)) as turnstile,
    ):
        quota = await a_queue(people, turnstile, "undefined", waiting=100)

        async with without_definition(control_plane, controllers):
            await people.settle()
            assert (turnstile.released, turnstile.waiting) == (1, 100)
        said = "the API server serves the kind again"
        await until(lambda: said in controllers.logs(), "the controller has seen it")
        # The API server may answer 404 for a moment although the kind is established.
        await until(lambda: is_made(people, quota), "the quota is back")
        await people.uses(quota, pods="1")
        await people.settle()
        assert turnstile.excesses == []
        assert (turnstile.released, turnstile.waiting) == (1, 100)
        # Leave no queue to the next test.
        turnstile.lanes["team"].limit = 101
        await people.client.delete(APPLICATION_QUOTAS, quota)
        await until(lambda: turnstile.released == 101, "after the grace period all go")


async def test_a_definition_that_is_replaced_within_the_grace_period_is_noticed(
    control_plane, patient_controllers
):
    async with (
        administering(control_plane) as people,
        watched(people.client, team=Lane(1)) as turnstile,
    ):
        quota = await a_queue(people, turnstile, "redefined", waiting=10)

        async with without_definition(control_plane, patient_controllers):
            pass
        await until(lambda: is_made(people, quota), "the quota is back")
        await people.uses(quota, pods="1")
        assert turnstile.excesses == []
        assert (turnstile.released, turnstile.waiting) == (1, 10)
        # Leave no queue to the next test.
        turnstile.lanes["team"].limit = 11
        await people.limit(quota, pods="11")
        await until(lambda: turnstile.released == 11, "all go")


async def test_policies_for_other_namespaces_release_nobody(control_plane, controllers):
    policies = printed("policies", "-l", "bursar-test/dispute=a")
    kubectl(control_plane, "apply", "-f", "-", stdin=policies)
    try:
        async with administering(control_plane) as people:
            name = f"disputed-{(await people.namespace('x'))[-6:]}"
            await people.create_namespace(name, {"bursar-test/dispute": "a"})
            said = "gate other namespaces than this controller targets"
            await until(lambda: said in controllers.logs(), "the controller says so")
            await people.client.create(PODS, gated_pod("held", cpu="1000"), namespace=name)

            async def is_told() -> bool:
                return "GatingMismatch" in await event_reasons(people, "held")

            await until(is_told, "the pod has an event")
            await people.settle()
            assert await people.gates(Key(name, "held"))
            assert "GatingMismatch" in await event_reasons(people, "gate-pods.bursar.io")
    finally:
        kubectl(control_plane, "delete", "--ignore-not-found", "-f", "-", stdin=policies)


def test_the_schema_refuses_an_operator_in_lower_case(control_plane: ControlPlane):
    expression = {"key": "team", "operator": "in", "values": ["a"]}
    selector = {"labels": {"matchExpressions": [expression]}}
    body = {
        "apiVersion": APPLICATION_QUOTAS.api_version,
        "kind": "ApplicationAwareClusterResourceQuota",
        "metadata": {"name": "wrong"},
        "spec": {"quota": {"hard": {"pods": "1"}}, "selector": selector},
    }
    ran = try_kubectl(control_plane, "create", "-f", "-", stdin=json.dumps(body))
    assert ran.code != 0
    assert 'Unsupported value: "in"' in ran.err
