"""What is declared is offered, live, and put right when it was wiped."""

import asyncio
import json

import pytest

from bursar.app.capacity.events import CapacityReason
from bursar.app.cluster.kinds import CONFIG_MAPS, NODES
from bursar.app.cluster.ports import Key, UnavailableError
from bursar.core.peerpods.capacity import OVERRIDE_ANNOTATION
from bursar.core.peerpods.names import VM_RESOURCE
from support.quota.capacity_keeper import BARE, FIVE, FOO, HOME, KATA, on_scene, on_scene_with_five

# ------------------------------------------------------------------ declared, live


@on_scene
async def test_nodes_offer_what_is_declared_for_their_labels(scene):
    """Seed 003's example.com/foo, on the nodes of one zone."""
    await scene.node("a", zone="a")
    await scene.node("b", zone="b")
    await scene.declare(licences=f"{FIVE}nodeSelector: {{zone: a}}")
    await scene.start()
    await scene.calm()

    assert [await scene.offered(node) for node in "ab"] == ["5", None]
    assert await scene.marked("a") == {FOO: 5}
    assert len(scene.line.writes) == 1


@on_scene
async def test_limit_of_peer_pods_is_followed_live(scene):
    """W26: upstream needs a restart for it."""
    await scene.node("a", **KATA)
    await scene.node("plain")
    await scene.limit("4")
    await scene.start()
    await scene.calm()
    first = await scene.offered("a", VM_RESOURCE)
    await scene.limit("6")
    await scene.calm()
    second = await scene.offered("a", VM_RESOURCE)
    await scene.limit(None)
    await scene.calm()
    default = await scene.offered("a", VM_RESOURCE)
    await scene.limit("-1")
    await scene.calm()

    assert (first, second, default) == ("4", "6", "10")
    assert await scene.offered("a", VM_RESOURCE) is None
    assert await scene.offered("plain", VM_RESOURCE) is None
    assert await scene.marked("a") == {}


@on_scene
async def test_without_upstreams_settings_nothing_is_preset(scene):
    await scene.node("a", **KATA)
    await scene.start()
    await scene.calm()

    assert await scene.offered("a", VM_RESOURCE) is None
    assert scene.line.writes == []


@on_scene
async def test_nodes_that_come_later_get_it_too(scene):
    await scene.declare(licences=FIVE)
    await scene.start()
    await scene.calm()
    await scene.node("late")
    await scene.calm()

    assert await scene.offered("late") == "5"


@on_scene
async def test_node_says_for_itself_what_it_offers(scene):
    await scene.node("a")
    await scene.node("b")
    await scene.declare(licences=FIVE)
    await scene.annotate("a", **{OVERRIDE_ANNOTATION: json.dumps({FOO: 8})})
    await scene.annotate("b", **{OVERRIDE_ANNOTATION: json.dumps({FOO: None})})
    await scene.start()
    await scene.calm()
    overridden = [await scene.offered(node) for node in "ab"]
    await scene.annotate("a", **{OVERRIDE_ANNOTATION: None})
    await scene.annotate("b", **{OVERRIDE_ANNOTATION: None})
    await scene.calm()

    assert overridden == ["8", None]
    assert [await scene.offered(node) for node in "ab"] == ["5", "5"]


@on_scene
async def test_what_is_withdrawn_goes_and_only_that(scene):
    await scene.node("a", {"nvidia.com/gpu": "2"})
    await scene.declare(licences=FIVE, seats="resource: example.com/seat\namount: 1")
    await scene.start()
    await scene.calm()
    await scene.declare(licences=None)
    await scene.calm()

    assert await scene.offered("a") is None
    assert await scene.offered("a", "example.com/seat") == "1"
    assert await scene.offered("a", "nvidia.com/gpu") == "2"
    await scene.cluster.delete(CONFIG_MAPS, Key(HOME, "bursar-capacity"))
    await scene.calm()
    assert await scene.offered("a", "example.com/seat") is None
    assert await scene.marked("a") == {}
    assert (await scene.read("a"))["status"]["capacity"] == {**BARE, "nvidia.com/gpu": "2"}


# ------------------------------------------------------------------ healed


@pytest.mark.parametrize("amount", [None, "0", "3"])
@on_scene_with_five
async def test_what_was_wiped_zeroed_or_changed_is_put_right(scene, amount):
    """W25: upstream's advertiser is a one-shot."""
    await scene.offer("a", amount)
    await scene.calm(2)

    assert await scene.offered("a") == "5"
    assert scene.reasons() == [CapacityReason.HEALED]
    assert scene.capacity.reconciler.healed == 1


@on_scene_with_five
async def test_node_made_anew_under_its_name_gets_it_again(scene):
    await scene.cluster.delete(NODES, Key("", "a"))
    await scene.calm()
    await scene.node("a")
    await scene.calm()

    assert await scene.offered("a") == "5"


@on_scene
async def test_node_without_status_and_annotations_is_served(scene):
    await scene.cluster.create(NODES, {"metadata": {"name": "new"}, "status": {}})
    await scene.declare(licences=FIVE)
    await scene.start()
    await scene.calm()

    assert await scene.offered("new") == "5"
    assert await scene.marked("new") == {FOO: 5}


@on_scene_with_five
async def test_what_is_right_is_not_written(scene):
    for _ in range(5):
        await scene.annotate("a", heartbeat=str(scene.clock.monotonic()))
        await scene.calm()

    assert len(scene.line.writes) == 1


@on_scene
async def test_write_that_was_lost_on_the_way_back_is_not_doubled(scene):
    await scene.node("a")
    await scene.declare(licences=FIVE)
    await scene.start()
    scene.line.loses_answers = True
    await asyncio.sleep(3)
    scene.line.loses_answers = False
    await scene.calm(60)

    assert await scene.offered("a") == "5"
    assert await scene.marked("a") == {FOO: 5}


@on_scene
async def test_trouble_on_the_way_is_outlasted(scene):
    await scene.node("a")
    await scene.declare(licences=FIVE)
    scene.line.trouble = lambda: UnavailableError("no")
    await scene.start()
    await asyncio.sleep(30)
    missing = await scene.offered("a")
    scene.line.trouble = lambda: None
    await scene.calm(60)

    assert missing is None
    assert await scene.offered("a") == "5"


@on_scene
async def test_whoever_does_not_lead_writes_nothing(scene):
    await scene.node("a")
    await scene.declare(licences=FIVE)
    scene.is_leader = False
    await scene.start()
    await asyncio.sleep(30)

    assert scene.line.writes == []
    scene.is_leader = True
    await scene.calm()
    assert await scene.offered("a") == "5"


@on_scene_with_five
async def test_a_new_leader_takes_nothing_away_before_it_knows_what_is_declared(scene):
    await scene.stop()
    scene.line.writes.clear()
    await scene.start()
    await scene.calm()

    assert await scene.offered("a") == "5"
    assert scene.line.writes == []
