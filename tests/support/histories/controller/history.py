"""One history of a whole controller: informers, books, workers, statuses, copies and promises.

Pods, quotas, namespaces and policies come, change and go; requests of the controller are late, lost
or refused, and its watches stall; leaders follow each other. In the end all faults stop. Then every
status is right, no pod waits without a reason, and nothing is left of objects that are gone.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

from bursar.adapters.memory.manifests import load_manifests
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import Key, NotFoundError
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from support.histories.controller.acts import TEAMS, Acts, remove_all
from support.histories.controller.checks import (
    check_calm,
    check_empty,
    check_room,
    entries_of,
)
from support.histories.controller.line import UnreliableLine
from support.histories.controller.truth import read_truth
from support.quota.aaq_controller import AaqScene

LAG_S = 60
"""What has changed by then is known to the controller."""
CALM_S = 400
"""Longer than any pause between two tries."""
WEIGHTS = {
    "create_pod": 45,
    "delete_pod": 5,
    "let_go": 4,
    "end_pod": 6,
    "touch_pod": 3,
    "resize_pod": 8,
    "write_quota": 10,
    "delete_quota": 4,
    "replace_quota": 5,
    "label_namespace": 3,
    "delete_namespace": 1,
    "create_namespace": 2,
    "install_policies": 2,
    "remove_policies": 1,
    "restart": 2,
    "pause": 25,
}


class ControllerHistory(Acts):
    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)  # noqa: S311 - a script, not a secret
        self.scene = AaqScene()
        self.changed_s: dict[str, float] = {}
        self.met: Counter[str] = Counter()
        self.released: dict[Key, float] = {}
        """Pods whose gates were removed, and when."""
        self.terms = 0
        self.stack = AsyncExitStack()
        self.controller: Any = None
        self.line = UnreliableLine(self.scene.cluster, self.scene.clock, self.random)
        self.line.on_released = self.note_release
        self.scene.writer = self.scene.watched = self.line
        self.actions = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=steps)

    async def run(self) -> Counter[str]:
        scene = self.scene
        await scene.furnish()
        definitions = [definition_of(resource) for resource, _ in CONFIGURATIONS]
        await load_manifests(scene.cluster, definitions)
        await self.begin_term()
        try:
            empty = await self.first_sizes()
            for action in self.actions:
                self.met[action] += 1
                self.met["steps"] += 1
                await getattr(self, action)()
                await scene.clock.settle()
                await self.audit()
            await self.become_calm()
            check_calm(await self.truth(), self.controller.term, self.met)
            await self.remove_everything()
            check_empty(empty, entries_of(self.controller.term))
        finally:
            await self.stack.aclose()
        return self.met

    async def truth(self) -> Any:
        return await read_truth(self.cluster)

    # .............................................................. leaders

    async def begin_term(self) -> None:
        self.terms += 1
        self.stack = AsyncExitStack()
        started = self.scene.started(
            f"leader-{self.terms}",
            patience_s=10**6,
            address="https://controller",
            request_seconds=20.0,
        )
        self.controller = await self.stack.enter_async_context(started)

    async def restart(self) -> None:
        await self.stack.aclose()
        self.note("")
        await self.begin_term()

    async def first_sizes(self) -> Counter[str]:
        """How large the state of a controller is that knows no objects."""
        self.line.is_calm = True
        await self.scene.clock.advance(CALM_S)
        sizes = entries_of(self.controller.term)
        self.line.is_calm = False
        return sizes

    def resize_service(self) -> Any:
        return self.controller.resize_service

    async def in_time(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for an answer while time passes."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.scene.clock.advance(0.5)
        self.met["resizes answered"] += 1
        return task.result()

    # .............................................................. auditing

    def note_release(self, pod: Key) -> None:
        self.released[pod] = self.scene.clock.monotonic()

    async def audit(self) -> None:
        """No pod was released without room, as far as the controller could know."""
        self.met["audits"] += 1
        if self.released:
            check_room(await self.truth(), self.released, self.has_been_known)
            self.met["releases"] += len(self.released)
            self.released.clear()

    def has_been_known(self, name: str, at_s: float) -> bool:
        """Whether the controller knew a quota, or the namespaces, at that time."""
        return self.changed_s.get(name, -LAG_S) < at_s - LAG_S

    async def become_calm(self) -> None:
        self.line.is_calm = True
        await self.scene.clock.advance(CALM_S)
        for name in TEAMS:
            if name not in (await self.truth()).namespaces:
                await self.scene.namespace(name)
        await self.scene.clock.advance(CALM_S)
        self.met["calm"] += 1

    async def remove_everything(self) -> None:
        for resource in (PODS, APPLICATION_QUOTAS, CLUSTER_QUOTAS, NAMESPACES):
            if resource is NAMESPACES:
                for name in TEAMS:
                    with suppress(NotFoundError):
                        await self.cluster.delete(NAMESPACES, Key("", name))
            else:
                await remove_all(self.cluster, resource)
            if self.random.random() < 0.5:
                await self.scene.clock.advance(1)
        await self.scene.clock.advance(CALM_S)
        self.met["empty"] += 1


def definition_of(resource: Any) -> dict[str, Any]:
    """The embedded cluster has no admission, so its kinds are custom kinds to it."""
    names = {"plural": resource.plural, "kind": resource.kind}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    spec = {"group": resource.group, "names": names, "scope": "Cluster", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": spec,
    }


def run_controller_history(seed: int, *, steps: int | None = None) -> Counter[str]:
    """Run one history. A failure names it."""
    count = steps or Random(seed).choice((15, 30, 60))  # noqa: S311 - a script, not a secret

    async def main() -> Counter[str]:
        return await ControllerHistory(seed, count).run()

    try:
        return asyncio.run(main())
    except BaseException as error:
        error.add_note(f"history {seed} of a controller, of {count} steps")
        raise
