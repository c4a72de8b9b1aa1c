"""VMs under a quota, on the embedded cluster: they start, migrate, grow, and KubeVirt goes."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS, NAMESPACES, PODS
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.cluster.time_limit import end
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.counting.kinds import KUBEVIRTS, MIGRATIONS, VMIS
from bursar.app.counting.kubevirt import kubevirt_part
from bursar.app.counting.settings import CountingSettings
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from bursar.entry.counting import open_counting
from support.builders.manifests import DEFINITIONS
from support.builders.vms import KUBEVIRT_DEFINITIONS
from support.counting.migration_story import MigrationStory
from support.virtual_time import MachineClock, in_virtual_time

TEAM = "team"


async def settle():
    await asyncio.sleep(30)


@asynccontextmanager
async def a_story(mode, resource, hard, *, kubevirt=KUBEVIRT_DEFINITIONS):
    """A controller at work in a cluster with KubeVirt's kinds."""
    clock, luck = MachineClock(), Random(3)  # noqa: S311 - repeatable
    cluster = MemoryCluster(clock, source=Random(1))  # noqa: S311 - likewise
    for definition in (*DEFINITIONS, *kubevirt):
        await cluster.create(CRDS, definition)
    for name in ("aaq", TEAM):
        metadata = {"name": name, "labels": {GATING_LABEL: ""}}
        await cluster.create(NAMESPACES, {"metadata": metadata})
    counting = CountingSettings(vmi_mode=mode)
    controller = Controller(
        cluster,
        clock,
        luck,
        settings=ControllerSettings(namespace="aaq", identity="one"),
        open_sources=lambda: term_sources(
            cluster,
            clock,
            luck,
            Targeting(own_namespace="aaq"),
            counting=open_counting(counting),
        ),
        on_synced=lambda: None,
    )
    task = asyncio.create_task(controller.run())
    try:
        async with MigrationStory(cluster, TEAM, resource, settle).watched(hard) as story:
            yield story
    finally:
        await end(task)


@pytest.mark.parametrize(
    ("mode", "resource", "one"),
    [
        (VmiMode.DEDICATED, "requests.instances/vmi", "1"),
        (VmiMode.DEDICATED, "cpu/vmi", "4"),
        (VmiMode.VIRTUAL, "memory", "8Gi"),
        (VmiMode.POD_USAGE, "requests.memory", "9Gi"),
        (VmiMode.GUEST_EFFECTIVE, "pods", "1"),
    ],
    ids=str,
)
def test_a_vm_migrates_under_a_quota_of_one_vm(mode, resource, one):
    @in_virtual_time
    async def live():
        async with a_story(mode, resource, one) as story:
            await story.live(one)

    live()


SMALL = {"currentCPUTopology": {"cores": 4}, "memory": {"guestRequested": "8Gi"}}
LARGE = {"currentCPUTopology": {"cores": 6}, "memory": {"guestRequested": "8Gi"}}


@pytest.mark.parametrize(
    ("mode", "resource", "before", "after"),
    [
        (VmiMode.DEDICATED, "cpu/vmi", "4", "6"),
        (VmiMode.VIRTUAL, "requests.cpu", "4", "6"),
        (VmiMode.POD_USAGE, "requests.cpu", "400m", "600m"),
        (VmiMode.GUEST_EFFECTIVE, "requests.cpu", "400m", "600m"),
    ],
    ids=str,
)
def test_9_1_10_a_vm_that_grows_waits_until_the_growth_fits(mode, resource, before, after):
    """KubeVirt lets a VM grow by a migration to a larger pod. AAQ lets it pass in two modes."""

    @in_virtual_time
    async def grow():
        async with a_story(mode, resource, before) as story:
            await story.start_vm()
            await story.set_status(VMIS, "db", **SMALL)
            await story.change_guest("db", cpu={"cores": 6})
            await story.begin_migration("cpu=600m memory=9Gi")
            await settle()
            assert await story.is_gated("new")
            assert set(story.shown) == {"0", before}

            limit = Patch(kind=PatchKind.MERGE, body={"spec": {"hard": {resource: after}}})
            await story.cluster.patch(APPLICATION_QUOTAS, Key(TEAM, "q"), limit)
            await story.wait_released("new")
            await story.wait_used(after)
            await story.set_status(VMIS, "db", **LARGE)
            await story.finish_migration()

            shown = story.shown[story.shown.index(after) :]
            assert set(shown) == {after}, "a migration that ends neither frees nor doubles"

    grow()


@in_virtual_time
async def test_a_migration_that_fails_costs_nothing():
    async with a_story(VmiMode.POD_USAGE, "requests.memory", "9Gi") as story:
        await story.start_vm()
        await story.create_migration("move", "db")
        await story.create_launcher("new", "db", move="move")
        await story.wait_released("new")
        await story.set_status(MIGRATIONS, "move", phase="Failed")
        await settle()

        assert set(story.shown) == {"0", "9Gi"}


@in_virtual_time
async def test_kubevirt_comes_and_goes():
    async with a_story(
        VmiMode.DEDICATED, "instances/vmi", "1", kubevirt=KUBEVIRT_DEFINITIONS[:0]
    ) as story:
        story._uids["db"] = "not-yet"
        await story.create_launcher("early", "db")
        await story.wait_released("early")
        assert set(story.shown) == {"0"}

        for definition in KUBEVIRT_DEFINITIONS:
            await story.cluster.create(CRDS, definition)
        await story.start_vm()
        await story.wait_used("1")

        for definition in KUBEVIRT_DEFINITIONS:
            await story.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
        await story.wait_used("0")


@in_virtual_time
async def test_a_launcher_that_is_seen_before_its_vm_waits_for_it():
    async with a_story(VmiMode.DEDICATED, "instances/vmi", "1") as story:
        story._uids["db"] = "f0000000-0000-4000-8000-000000000000"
        await story.create_launcher("early", "db")
        await settle()
        assert await story.is_gated("early")

        await story.delete(PODS, "early")
        await story.start_vm()

        await story.wait_used("1")


@in_virtual_time
async def test_a_vm_that_cannot_be_read_holds_its_own_pod_only():
    async with a_story(VmiMode.DEDICATED, "instances/vmi", "9") as story:
        await story.create_vm("bad", cores=-1)
        await story.create_launcher("bad-1", "bad")
        await story.start_vm()

        await story.wait_used("1")
        await settle()
        assert await story.is_gated("bad-1")


def test_vms_that_are_ignored_need_no_counter():
    ignored = open_counting(CountingSettings(vmi_mode=VmiMode.IGNORE))

    assert kubevirt_part(VmiMode.IGNORE) is None
    assert ignored.kinds == ()


def test_settings_of_kubevirt_are_read_in_one_mode_only():
    kinds = {
        mode: [kind.resource for kind in kubevirt_part(mode).kinds]
        for mode in (VmiMode.POD_USAGE, VmiMode.GUEST_EFFECTIVE)
    }

    assert kinds[VmiMode.POD_USAGE] == [VMIS, MIGRATIONS]
    assert kinds[VmiMode.GUEST_EFFECTIVE] == [VMIS, MIGRATIONS, KUBEVIRTS]
