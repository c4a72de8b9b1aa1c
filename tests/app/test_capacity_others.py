"""Capacity that others advertise, that is in use, or that cannot be read."""

from bursar.app.capacity.events import CapacityReason
from bursar.core.peerpods.capacity import OVERRIDE_ANNOTATION
from bursar.core.peerpods.names import VM_RESOURCE
from support.quota.capacity_keeper import FIVE, FOO, KATA, on_scene, on_scene_with_five

# ------------------------------------------------------------------ others


@on_scene
async def test_capacity_of_others_is_left_alone_and_told_once(scene):
    await scene.node("a", {FOO: "3"})
    await scene.declare(licences=FIVE)
    await scene.start()
    await scene.calm()
    await scene.annotate("a", heartbeat="1")
    await scene.calm()

    assert await scene.offered("a") == "3"
    assert scene.line.writes == []
    assert scene.reasons() == [CapacityReason.FOREIGN]


@on_scene
async def test_node_of_upstreams_advertiser_is_left_to_it(scene):
    await scene.node("a", {VM_RESOURCE: "7"}, **KATA)
    await scene.annotate("a", **{"kata.peerpods.io/caa-owner": "some-uid"})
    await scene.limit("4")
    await scene.start()
    await scene.calm()

    assert await scene.offered("a", VM_RESOURCE) == "7"
    assert scene.line.writes == []


@on_scene
async def test_what_upstreams_advertiser_takes_over_is_its_own(scene):
    await scene.node("a", **KATA)
    await scene.limit("4")
    await scene.start()
    await scene.calm()
    await scene.annotate("a", **{"kata.peerpods.io/caa-owner": "some-uid"})
    await scene.offer("a", "7", VM_RESOURCE)
    await scene.calm()

    assert await scene.offered("a", VM_RESOURCE) == "7"
    assert await scene.marked("a") == {}


@on_scene_with_five
async def test_fight_with_another_advertiser_is_lost_after_a_few_rounds(scene):
    """A device plugin: the kubelet writes its number at each report."""
    for _ in range(20):
        await scene.offer("a", "3")
        await scene.calm(2)

    assert await scene.offered("a") == "3"
    assert await scene.marked("a") == {}
    assert len(scene.line.writes) <= 9
    assert CapacityReason.FOREIGN in scene.reasons()


@on_scene_with_five
async def test_whoever_wipes_again_and_again_does_not_make_us_write_as_often(scene):
    for _ in range(20):
        await scene.offer("a", None)
        await scene.calm(2)
    told = scene.reasons()
    await scene.calm(180)

    assert CapacityReason.CONTESTED in told
    assert len(scene.line.writes) <= 9
    assert await scene.offered("a") == "5"


# ------------------------------------------------------------------ use


@on_scene
async def test_amount_goes_down_as_pods_end(scene):
    await scene.node("a")
    await scene.declare(licences=FIVE)
    for name in "wxyz":
        await scene.pod(name, "a")
    await scene.start()
    await scene.calm()
    await scene.declare(licences=f"resource: {FOO}\namount: 2")
    await scene.calm()
    steps = [await scene.offered("a")]
    for name in "wxyz":
        await scene.end_pod(name)
        await scene.calm()
        steps.append(await scene.offered("a"))

    assert steps == ["4", "3", "2", "2", "2"]
    assert CapacityReason.HELD in scene.reasons()
    assert scene.events[0].note == f"{FOO}: lowered to 4, not to 2: 4 in use"


@on_scene
async def test_withdrawing_what_is_in_use_is_told(scene):
    await scene.node("a")
    await scene.declare(licences=FIVE)
    await scene.pod("w", "a", 2)
    await scene.start()
    await scene.calm()
    await scene.declare(licences=None)
    await scene.calm()

    assert await scene.offered("a") is None
    assert [event.note for event in scene.events] == [f"{FOO}: withdrawn while 2 are in use"]


# ------------------------------------------------------------------ what cannot be read


@on_scene_with_five
async def test_nothing_is_withdrawn_while_a_declaration_cannot_be_read(scene, caplog):
    await scene.declare(licences="resource: [")
    await scene.calm()

    assert await scene.offered("a") == "5"
    assert caplog.messages == ["a declaration cannot be read"]
    await scene.declare(licences=None)
    await scene.calm()
    assert await scene.offered("a") is None


@on_scene_with_five
async def test_node_whose_annotation_cannot_be_read_keeps_what_it_has(scene):
    await scene.annotate("a", **{OVERRIDE_ANNOTATION: "{"})
    await scene.declare(licences=f"resource: {FOO}\namount: 9")
    await scene.offer("a", None)
    await scene.calm()

    assert await scene.offered("a") == "5"
    assert CapacityReason.UNREADABLE in scene.reasons()
    await scene.annotate("a", **{OVERRIDE_ANNOTATION: None})
    await scene.calm()
    assert await scene.offered("a") == "9"
