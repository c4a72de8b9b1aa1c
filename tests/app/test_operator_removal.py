"""Deleting the AAQ object frees every pod first, then leaves nothing but the quotas."""

import pytest

from bursar.app.cluster.kinds import CRDS, PODS
from bursar.app.cluster.ports import ForbiddenError, Key
from bursar.app.operator.removal import QUOTAS_ANNOTATION
from bursar.app.operator.term import FINALIZER
from bursar.app.quota.kinds import AAQS, APPLICATION_QUOTAS
from support.operator.scene import AAQ, HOME, on_scene

QUOTAS = Key("", "applicationawareresourcequotas.aaq.kubevirt.io")
LEFT = {"CustomResourceDefinition", "Namespace"}


async def create_quota(scene):
    body = {
        "apiVersion": APPLICATION_QUOTAS.api_version,
        "kind": APPLICATION_QUOTAS.kind,
        "metadata": {"name": "quota"},
        "spec": {"hard": {"pods": "1"}},
    }
    await scene.cluster.create(APPLICATION_QUOTAS, body, namespace="default")


async def delete_aaq(scene):
    await scene.cluster.delete(AAQS, AAQ)
    await scene.pass_time(30)


@on_scene
async def test_all_waiting_pods_are_freed_and_only_quotas_stay(scene):
    await scene.deployed()
    await create_quota(scene)
    for number in range(500):
        await scene.gate_pod(f"pod-{number}")
    await scene.gate_pod("other-gate", "example.com/approval")

    await delete_aaq(scene)

    assert await scene.gated() == []
    assert await scene.find(AAQS, AAQ) is None
    assert {kind for kind, _ in await scene.owned()} == LEFT
    assert await scene.find(APPLICATION_QUOTAS, Key("default", "quota")) is not None
    waiting = await scene.find(PODS, Key("default", "other-gate"))
    assert waiting["spec"]["schedulingGates"] == [{"name": "example.com/approval"}]


@on_scene
async def test_gating_stops_before_pods_are_freed_and_processes_go_last(scene):
    await scene.deployed()
    await scene.gate_pod("waiting")
    order = []
    delete, patch = scene.cluster.delete, scene.cluster.patch

    async def noted_delete(resource, key, **more):
        order.append(f"{resource.kind} {key.name}")
        await delete(resource, key, **more)

    async def noted_patch(resource, key, *more, **others):
        if resource == PODS:
            order.append(f"Pod {key.name}")
        return await patch(resource, key, *more, **others)

    scene.cluster.delete, scene.cluster.patch = noted_delete, noted_patch
    await delete_aaq(scene)

    gate = order.index("MutatingWebhookConfiguration gating-mutator")
    freed = order.index("Pod waiting")
    process = order.index("Deployment aaq-controller")
    account = order.index("ServiceAccount aaq-controller")
    assert gate < freed < process < account


@on_scene
async def test_it_can_be_installed_again_and_again(scene):
    """E-OP-03 without real pods."""
    scene.start()
    seen = []
    for _ in range(3):
        await scene.create_aaq()
        await scene.deploy()
        seen.append((await scene.owned(), (await scene.status())["phase"]))
        await delete_aaq(scene)

    assert seen[0][1] == "Deployed"
    assert seen == [seen[0]] * 3


@on_scene
async def test_a_pod_that_cannot_be_freed_keeps_everything_and_is_named(scene):
    await scene.deployed()
    await scene.gate_pod("stuck")
    await scene.gate_pod("fine")
    patch = scene.cluster.patch

    async def refusing(resource, key, *more, **others):
        if resource == PODS and key.name == "stuck":
            raise ForbiddenError("another webhook says no")
        return await patch(resource, key, *more, **others)

    scene.cluster.patch = refusing
    await delete_aaq(scene)

    assert await scene.gated() == ["stuck"]
    assert (await scene.status())["phase"] == "Deleting"
    assert "default/stuck (another webhook says no)" in await scene.message("Degraded")
    assert ("Deployment", "aaq-controller") in await scene.owned()
    # Nothing is gated any more.
    assert ("MutatingWebhookConfiguration", "gating-mutator") not in await scene.owned()

    scene.cluster.patch = patch
    await scene.pass_time(60)
    assert await scene.gated() == []
    assert await scene.find(AAQS, AAQ) is None


@on_scene
async def test_an_object_that_others_hold_says_that_everything_is_deleted(scene):
    await scene.deployed()
    stored = await scene.find(AAQS, AAQ)
    kept = ["example.com/audit", *stored["metadata"]["finalizers"]]
    await scene.merge(AAQS, AAQ, {"metadata": {"finalizers": kept}})
    await delete_aaq(scene)

    assert (await scene.status())["phase"] == "Deleted"
    assert (await scene.conditions())["Progressing"] == ("False", "DeleteCompleted")
    assert (await scene.find(AAQS, AAQ))["metadata"]["finalizers"] == ["example.com/audit"]
    assert {kind for kind, _ in await scene.owned()} == {"CustomResourceDefinition", "Namespace"}


@pytest.mark.parametrize("seconds", [0.01, 0.6, 1.1, 2.1, 3.3, 4.0])
@on_scene
async def test_another_operator_goes_on_where_a_crashed_one_ended(scene, seconds):
    await scene.deployed()
    for number in range(40):
        await scene.gate_pod(f"pod-{number}")
    await scene.cluster.delete(AAQS, AAQ)
    await scene.pass_time(seconds)
    await scene.stop()

    scene.start(identity="two")
    await scene.pass_time(90)

    assert await scene.gated() == []
    assert await scene.find(AAQS, AAQ) is None
    assert {kind for kind, _ in await scene.owned()} == LEFT


@on_scene
async def test_an_object_that_is_deleted_during_an_upgrade_goes(scene):
    await scene.deployed()
    await scene.stop()
    scene.start("1.1.0")
    await scene.make_ready("aaq-server", replicas=1)
    await scene.pass_time(30)
    assert (await scene.status())["phase"] == "Upgrading"

    await delete_aaq(scene)

    assert await scene.find(AAQS, AAQ) is None
    assert {kind for kind, _ in await scene.owned()} == LEFT
    assert "UpgradeStarted" in await scene.events()


@on_scene
async def test_quotas_go_only_if_the_object_says_so(scene):
    await scene.create_aaq(annotations={QUOTAS_ANNOTATION: "true"})
    scene.start()
    await scene.deploy()
    await create_quota(scene)

    await delete_aaq(scene)

    assert await scene.find(CRDS, QUOTAS) is None
    assert {
        name for kind, name in await scene.owned() if kind == "CustomResourceDefinition"
    } == set()
    assert await scene.find(CRDS, Key("", "aaqs.aaq.kubevirt.io")) is not None


@on_scene
async def test_an_object_with_a_foreign_finalizer_waits_for_its_owner(scene):
    await scene.deployed()
    await scene.merge(AAQS, AAQ, {"metadata": {"finalizers": [FINALIZER, "example.com/mine"]}})

    await delete_aaq(scene)

    metadata = (await scene.find(AAQS, AAQ))["metadata"]
    assert metadata["finalizers"] == ["example.com/mine"]
    assert ("Deployment", "aaq-controller") not in await scene.owned()
    assert ("Namespace", HOME) in await scene.owned()
