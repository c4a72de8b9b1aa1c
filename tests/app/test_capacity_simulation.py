"""Whatever happens to nodes, declarations and the way to the cluster, capacity ends up right."""

import json
from random import Random

import pytest

from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import ConflictError, Key, UnavailableError
from bursar.core.peerpods.capacity import OVERRIDE_ANNOTATION
from support.quota.capacity_keeper import FOO, Scene, on_scene

STEPS = 40
NODE = "a"


class Troublemaker:
    """Does one thing after another, and knows what is wanted in the end."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.scene, self.random = scene, random
        self.declared: int | None = None
        self.override: int | None = None
        self.pods: list[str] = []
        self.actions = [
            *(self.wipe, self.declare, self.declare, self.undeclare, self.annotate, self.start_pod),
            *(self.end_pod, self.register_anew, self.hinder, self.help, self.depose, self.elect),
        ]

    @property
    def wanted(self) -> str | None:
        amount = self.declared if self.override is None else self.override
        return None if amount is None else str(amount)

    async def act(self) -> None:
        await self.random.choice(self.actions)()

    async def wipe(self) -> None:
        if FOO in await self.scene.marked(NODE):
            await self.scene.offer(NODE, self.random.choice([None, "0"]))

    async def declare(self) -> None:
        self.declared = self.random.randrange(6)
        await self.scene.declare(licences=f"resource: {FOO}\namount: {self.declared}")

    async def undeclare(self) -> None:
        self.declared = None
        await self.scene.declare(licences=None)

    async def annotate(self) -> None:
        self.override = self.random.choice([None, 1, 4])
        text = None if self.override is None else json.dumps({FOO: self.override})
        await self.scene.annotate(NODE, **{OVERRIDE_ANNOTATION: text})

    async def start_pod(self) -> None:
        self.pods.append(f"p{self.random.getrandbits(40)}")
        await self.scene.pod(self.pods[-1], NODE)

    async def end_pod(self) -> None:
        if self.pods:
            await self.scene.end_pod(self.pods.pop())

    async def register_anew(self) -> None:
        self.override = None
        await self.scene.cluster.delete(NODES, Key("", NODE))
        await self.scene.node(NODE)

    async def hinder(self) -> None:
        self.scene.line.loses_answers = self.random.random() < 0.5
        errors = [UnavailableError("no"), ConflictError("changed"), None]
        self.scene.line.trouble = lambda: self.random.choice(errors)

    async def help(self) -> None:
        self.scene.line.loses_answers = False
        self.scene.line.trouble = lambda: None

    async def depose(self) -> None:
        self.scene.is_leader = False

    async def elect(self) -> None:
        self.scene.is_leader = True


@pytest.mark.parametrize("seed", range(12))
@on_scene
async def test_capacity_is_as_wanted_when_calm_returns(scene, seed):
    random = Random(seed)  # noqa: S311 - a seed, so that a failure can be repeated
    maker = Troublemaker(scene, random)
    await scene.node(NODE)
    await scene.start()
    for _ in range(STEPS):
        await maker.act()
        # Rarely enough for nobody to call it a fight.
        await scene.clock.sleep(random.choice([0.05, 0.3, 25]))
    for action in (maker.help, maker.elect, *(maker.end_pod for _ in maker.pods[:])):
        await action()
    await scene.calm(200)

    assert await scene.offered(NODE) == maker.wanted
    marked = {} if maker.wanted is None else {FOO: int(maker.wanted)}
    assert await scene.marked(NODE) == marked
