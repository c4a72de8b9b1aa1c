"""Simulated nodes: heartbeats, and the status of the pods that are bound to them.

A node is simulated if its label or annotation `bursar.io/simulated` is "true". Pods of a deleted
node are removed as well, which the pod garbage collector does in a real cluster.
"""

import heapq
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bursar.adapters.memory.simulation.cluster import (
    Cluster,
    Raw,
    find_node,
    find_pod,
    is_newer,
)
from bursar.adapters.memory.simulation.conditions import with_conditions
from bursar.adapters.memory.simulation.events import event
from bursar.adapters.memory.simulation.inbox import Change as Seen
from bursar.adapters.memory.simulation.inbox import Inbox
from bursar.adapters.memory.simulation.pod_lifecycle import (
    Memory,
    Pace,
    Step,
    differs_in_size,
    is_resize_pending,
    next_step,
    start_time,
)
from bursar.adapters.memory.simulation.turns import Turns
from bursar.adapters.memory.simulation.workloads.effects import (
    OVERTAKEN,
    Change,
    Delete,
    Effect,
    apply,
    key_of,
)
from bursar.adapters.memory.simulation.workloads.templates import field, phase_of
from bursar.app.cluster.kinds import NODES, PODS, RESIZE
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    ForbiddenError,
    InvalidError,
    Key,
    Resource,
)
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.placement.node_books import NodeBooks
from bursar.wire.structs.fields import timestamp

SIMULATED: Final = "bursar.io/simulated"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_NODE_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)

_Place = tuple[Resource, Key]


class Nodes:
    """All simulated nodes of a cluster, in one task."""

    def __init__(self, cluster: Cluster, clock: Clock, pace: Pace) -> None:
        self._cluster = cluster
        self._clock = clock
        self._pace = pace
        self._nodes: dict[str, Raw] = {}
        self._books: dict[str, NodeBooks] = {}
        self._raws: dict[Key, Raw] = {}
        self._pods: dict[Key, Pod] = {}
        self._memory: dict[Key, Memory] = {}
        self._dues: dict[_Place, datetime] = {}
        self._agenda: list[tuple[datetime, str, Key, Resource]] = []

    async def run(self) -> None:
        async with Inbox(self._cluster, self._clock, (NODES, PODS)) as inbox:
            turns = Turns(self._clock)
            while True:
                for seen in await inbox.take(self._patience()):
                    await turns.pause()
                    self._observe(seen)
                while (place := self._next_due()) is not None:
                    await turns.pause()
                    await self._act(place)
                    for seen in inbox.drain():
                        self._observe(seen)

    # -------------------------------------------------------------- what is known

    def _observe(self, seen: Seen) -> None:
        raw: Raw | None = None if seen.body is None else msgspec.json.decode(seen.body)
        if seen.resource == NODES:
            self._observe_node(seen.key.name, raw, find_node(seen.body))
        else:
            self._observe_pod(seen.key, raw, find_pod(seen.body))

    def _observe_node(self, name: str, raw: Raw | None, node: Node | None) -> None:
        place = (NODES, Key("", name))
        if raw is None:
            self._nodes.pop(name, None)
            self._books.pop(name, None)
            self._dues.pop(place, None)
            self._plan_pods_of(name)
            return
        if not is_newer(raw, self._nodes.get(name)):
            return
        self._nodes[name] = raw
        if node is None or not _is_simulated(raw):
            self._books.pop(name, None)
            self._dues.pop(place, None)
            return
        if name in self._books:
            self._books[name].observe(node)
            self._replan_resizes(name)
        else:
            on_it = [pod for pod in self._pods.values() if pod.node_name == name]
            self._books[name] = NodeBooks(node, on_it)
            self._plan_pods_of(name)
        if place not in self._dues:
            self._schedule(place, self._clock.now())

    def _observe_pod(self, key: Key, raw: Raw | None, pod: Pod | None) -> None:
        if raw is None or pod is None:
            self._forget_pod(key)
            return
        held = self._raws.get(key)
        if not is_newer(raw, held):
            return
        if held is not None and held["metadata"]["uid"] != raw["metadata"]["uid"]:
            self._forget_pod(key)
        if not pod.node_name:
            return
        self._raws[key], self._pods[key] = raw, pod
        self._remember(key, raw, pod)
        books = self._books.get(pod.node_name)
        if books is not None:
            books.assign(pod)
            self._replan_resizes(pod.node_name)
        self._plan(key)

    def _remember(self, key: Key, raw: Raw, pod: Pod) -> None:
        now = self._clock.now()
        is_running = phase_of(raw) == "Running"
        memory = self._memory.get(key)
        if memory is None:
            # A pod can have run before this simulation started.
            started_at = min(now, start_time(raw) or now) if is_running else None
            memory = self._memory[key] = Memory(seen_at=now, started_at=started_at)
        elif memory.started_at is None and is_running:
            memory.started_at = now
        if memory.ending_at is None and pod.deleted_at is not None:
            memory.ending_at = now
        if not differs_in_size(raw):
            memory.resized_at = None
        elif memory.resized_at is None:
            memory.resized_at = now

    def _forget_pod(self, key: Key) -> None:
        self._raws.pop(key, None)
        self._memory.pop(key, None)
        self._dues.pop((PODS, key), None)
        pod = self._pods.pop(key, None)
        if pod is not None and pod.node_name in self._books:
            self._books[pod.node_name].release(pod)
            self._replan_resizes(pod.node_name)

    # -------------------------------------------------------------- what is due

    def _plan_pods_of(self, node: str) -> None:
        for key in sorted(self._pods):
            if self._pods[key].node_name == node:
                self._plan(key)

    def _replan_resizes(self, node: str) -> None:
        """The free amounts of a node changed: plan its pending resizes again."""
        for entry in self._books[node].entries:
            key = Key(entry.pod.namespace, entry.pod.name)
            if key in self._raws and is_resize_pending(self._raws[key]):
                self._plan(key)

    def _plan(self, key: Key) -> None:
        step = self._step(key)
        if step is None:
            self._dues.pop((PODS, key), None)
        else:
            self._schedule((PODS, key), step.due)

    def _step(self, key: Key) -> Step | None:
        pod, raw, memory = self._pods[key], self._raws[key], self._memory[key]
        now = self._clock.now()
        books = self._books.get(pod.node_name)
        if pod.node_name in self._nodes:
            memory.orphaned_at = None
            if books is None:
                return None  # the node is not simulated here
            return next_step(raw, pod, books, memory, self._pace, now)
        memory.orphaned_at = memory.orphaned_at or now
        due = memory.orphaned_at + timedelta(seconds=self._pace.orphan)
        return Step(due=due, effect=Delete(resource=PODS, target=raw, grace_seconds=0))

    def _schedule(self, place: _Place, due: datetime) -> None:
        if self._dues.get(place) != due:
            self._dues[place] = due
            heapq.heappush(self._agenda, (due, place[0].plural, place[1], place[0]))

    def _patience(self) -> float | None:
        """Seconds until the next step is due; None if none is planned."""
        while self._agenda:
            due, _, key, resource = self._agenda[0]
            if self._dues.get((resource, key)) == due:
                return max(0.0, (due - self._clock.now()).total_seconds())
            heapq.heappop(self._agenda)
        return None

    def _next_due(self) -> _Place | None:
        if self._patience() != 0:
            return None
        _, _, key, resource = heapq.heappop(self._agenda)
        del self._dues[resource, key]
        return resource, key

    # -------------------------------------------------------------- what is done

    async def _act(self, place: _Place) -> None:
        resource, key = place
        if resource == NODES:
            self._schedule(place, self._clock.now() + timedelta(seconds=self._pace.heartbeat))
            for effect in self._heartbeat(self._nodes[key.name]):
                await self._apply(effect)
        else:
            step = self._step(key)
            if step is not None:
                await self._apply(step.effect)

    async def _apply(self, effect: Effect) -> None:
        asking = effect if isinstance(effect, Change) and effect.subresource == RESIZE else None
        if asking is not None:
            self._memory[key_of(asking.target)].has_asked = True
        try:
            body = await apply(effect, self._cluster)
        except (ForbiddenError, InvalidError) as error:
            if asking is not None:
                await self._tell(asking.target, error)
            return
        except OVERTAKEN:
            return  # the watch will bring a newer state, for which a new step is planned
        if body is not None and isinstance(effect, Change):
            self._observe(Seen(resource=effect.resource, key=key_of(effect.target), body=body))

    async def _tell(self, pod: Raw, error: ClusterError) -> None:
        """Write an event about a resize that the cluster refused."""
        told = event(
            pod,
            PODS.kind,
            self._clock.now(),
            reason="ResizeRefused",
            note=error.message,
            reporter="bursar-up",
            action="Resize",
        )
        with suppress(ClusterError):
            await apply(told, self._cluster)

    def _heartbeat(self, raw: Raw) -> list[Effect]:
        now = self._clock.now()
        news = [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "simulated",
                "lastHeartbeatTime": timestamp(now),
            }
            for kind, status, reason in _NODE_CONDITIONS
        ]
        conditions = with_conditions(field(raw, "status", "conditions", ()), news, now)
        effects: list[Effect] = [
            Change(
                resource=NODES,
                target=raw,
                patch={"status": {"conditions": conditions}},
                subresource="status",
            )
        ]
        taints = field(raw, "spec", "taints", [])
        kept = [taint for taint in taints if taint.get("key") != NOT_READY]
        if kept != taints:
            # The API server sets this taint on every new node; a controller removes it.
            effects.insert(0, Change(resource=NODES, target=raw, patch={"spec": {"taints": kept}}))
        return effects


def _is_simulated(raw: Raw) -> bool:
    meta = raw["metadata"]
    return any(
        (meta.get(place) or {}).get(SIMULATED) == "true" for place in ("labels", "annotations")
    )
