"""The workload controllers: pods for Deployments and other workloads, and their status.

They are level-based: after any change, an owner is compared with the objects it owns and the
difference is corrected. Objects without an owner are deleted, as by the garbage collector, after a
read from the cluster confirms that the owner does not exist.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from bursar.adapters.memory.simulation.cluster import Cluster, Raw, find_node, is_newer
from bursar.adapters.memory.simulation.events import event
from bursar.adapters.memory.simulation.inbox import Change, Inbox
from bursar.adapters.memory.simulation.turns import Turns
from bursar.adapters.memory.simulation.workloads.cron_jobs import (
    decide_cron_job,
    due_time,
    wake_time,
)
from bursar.adapters.memory.simulation.workloads.daemons import decide_daemon_set
from bursar.adapters.memory.simulation.workloads.effects import (
    OVERTAKEN,
    Create,
    Delete,
    Effect,
    apply,
    key_of,
)
from bursar.adapters.memory.simulation.workloads.jobs import decide_job
from bursar.adapters.memory.simulation.workloads.ordinals import decide_stateful_set
from bursar.adapters.memory.simulation.workloads.replicas import (
    decide_deployment,
    decide_replica_set,
)
from bursar.adapters.memory.simulation.workloads.templates import (
    age,
    controller_of,
    is_being_deleted,
)
from bursar.app.cluster.kinds import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Resource,
)
from bursar.core.model.node import Node
from bursar.wire.model.workloads.workload import decode_workload
from bursar.wire.structs.fields import FieldError

OWNERS: Final = (CRON_JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_BY_KIND: Final = {resource.kind: resource for resource in OWNERS}
RETRY_SECONDS: Final = 1.0
"""Back-off for refused effects. A retry is needed because no watch event may follow."""

_Place = tuple[Resource, Key]


class Workloads:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._objects: dict[_Place, Raw] = {}
        self._owned: dict[str, dict[_Place, Raw]] = {}
        """Owned objects, by the uid of their owner."""
        self._nodes: dict[str, Node] = {}
        self._due: set[_Place] = set()
        """Owners to reconcile, and objects whose owner is unknown."""
        self._refused: set[_Place] = set()
        self._told: dict[_Place, str] = {}
        """Why the last pod of an owner was refused, as an event says it."""

    async def run(self) -> None:
        async with Inbox(self._cluster, self._clock, (*OWNERS, PODS, NODES)) as inbox:
            turns = Turns(self._clock)
            while True:
                changes = await inbox.take(self._patience())
                self._due |= self._refused
                self._refused.clear()
                for change in changes:
                    self._observe(change)
                self._due |= self._scheduled()
                while self._due:
                    await turns.pause()
                    place = min(self._due, key=_order)
                    self._due.discard(place)
                    await self._reconcile(place)

    def _patience(self) -> float | None:
        """Seconds until something is due although nothing changed; None if nothing is."""
        times = [wake_time(self._objects[place], self._clock.now()) for place in self._cron_jobs()]
        waits = [(due - self._clock.now()).total_seconds() for due in times if due is not None]
        if self._refused:
            waits.append(RETRY_SECONDS)
        return max(0.0, min(waits)) if waits else None

    def _cron_jobs(self) -> list[_Place]:
        return [place for place in self._objects if place[0] == CRON_JOBS]

    def _scheduled(self) -> set[_Place]:
        """The CronJobs whose time has come."""
        now = self._clock.now()
        dues = {place: due_time(self._objects[place], now) for place in self._cron_jobs()}
        return {place for place, due in dues.items() if due is not None and due <= now}

    # -------------------------------------------------------------- what is known

    def _observe(self, change: Change) -> None:
        if change.resource == NODES:
            self._observe_node(change)
        elif change.body is None:
            self._forget((change.resource, change.key))
        else:
            self._remember(change.resource, msgspec.json.decode(change.body))

    def _remember(self, resource: Resource, raw: Raw) -> None:
        place = (resource, key_of(raw))
        held = self._objects.get(place)
        if not is_newer(raw, held):
            return
        if held is not None and held["metadata"]["uid"] != raw["metadata"]["uid"]:
            self._forget(place)
        self._objects[place] = raw
        if resource != PODS:
            self._due.add(place)
        controller = controller_of(raw)
        if controller is not None and controller["kind"] in _BY_KIND:
            self._owned.setdefault(controller["uid"], {})[place] = raw
            self._due.add(self._owner_place(raw, controller) or place)

    def _forget(self, place: _Place) -> None:
        held = self._objects.pop(place, None)
        if held is None:
            return
        controller = controller_of(held)
        if controller is not None and controller["kind"] in _BY_KIND:
            self._owned.get(controller["uid"], {}).pop(place, None)
            owner = self._owner_place(held, controller)
            self._due |= {owner} if owner else set()
        # The objects it owned have no owner now.
        self._due |= self._owned.get(held["metadata"]["uid"], {}).keys()

    def _owner_place(self, raw: Raw, controller: Raw) -> _Place | None:
        """The key of the owner in `_objects`; None if it is unknown or has another uid."""
        place = (_BY_KIND[controller["kind"]], Key(key_of(raw).namespace, controller["name"]))
        owner = self._objects.get(place)
        return place if owner and owner["metadata"]["uid"] == controller["uid"] else None

    def _observe_node(self, change: Change) -> None:
        """Reconcile DaemonSets if a node changed in a field that they depend on."""
        before = self._nodes.pop(change.key.name, None)
        after = find_node(change.body)
        if after is not None:
            self._nodes[after.name] = after
        if before is None or after is None or _terms(before) != _terms(after):
            self._due |= {place for place in self._objects if place[0] == DAEMON_SETS}

    # -------------------------------------------------------------- what is done

    async def _reconcile(self, place: _Place) -> None:
        raw = self._objects.get(place)
        if raw is None:
            return
        for effect in [*await self._orphan_deletion(place, raw), *self._decide(place[0], raw)]:
            try:
                body = await apply(effect, self._cluster)
            except OVERTAKEN as error:
                self._refused.add(place)
                await self._tell(place, raw, effect, error)
                continue
            if body is not None:
                self._remember(effect.resource, msgspec.json.decode(body))
            elif isinstance(effect, Delete):
                self._mark_deleted(effect)

    async def _tell(self, place: _Place, owner: Raw, effect: Effect, error: ClusterError) -> None:
        """Write an event if the cluster refuses an object, once for each reason."""
        is_refused = isinstance(error, (ForbiddenError, InvalidError))
        if not isinstance(effect, Create) or not is_refused:
            return
        # Each attempt has another generated name, which is in the message.
        text = error.message.partition(" is forbidden: ")[2] or error.message
        if self._told.get(place) == text:
            return
        self._told[place] = text
        note = f"Error creating: {error.message}"
        kind = place[0].kind
        told = event(
            owner,
            kind,
            self._clock.now(),
            reason="FailedCreate",
            note=note,
            reporter=f"{kind.lower()}-controller",
            action="Create",
        )
        with suppress(ClusterError):
            await apply(told, self._cluster)

    def _decide(self, resource: Resource, raw: Raw) -> list[Effect]:
        if resource == PODS or is_being_deleted(raw) or not _is_sound(resource, raw):
            return []
        owned = list(self._children(raw["metadata"]["uid"]))
        if resource == DEPLOYMENTS:
            return decide_deployment(raw, owned)
        if resource == REPLICA_SETS:
            return decide_replica_set(raw, owned)
        if resource == STATEFUL_SETS:
            return decide_stateful_set(raw, owned)
        if resource == DAEMON_SETS:
            nodes = [self._nodes[name] for name in sorted(self._nodes)]
            return decide_daemon_set(raw, owned, nodes)
        if resource == CRON_JOBS:
            return decide_cron_job(raw, owned, self._clock.now())
        return decide_job(raw, owned, self._clock.now())

    def _children(self, uid: str) -> Iterator[Raw]:
        owned = self._owned.get(uid, {})
        return iter(sorted(owned.values(), key=age))

    async def _orphan_deletion(self, place: _Place, raw: Raw) -> list[Effect]:
        """The deletion of an object whose owner does not exist.

        The watches of two kinds are not in step, so an unknown owner can still exist.
        """
        controller = controller_of(raw)
        if controller is None or controller["kind"] not in _BY_KIND:
            return []
        if self._owner_place(raw, controller) is not None or is_being_deleted(raw):
            return []
        owner = Key(place[1].namespace, controller["name"])
        try:
            body = await self._cluster.get(_BY_KIND[controller["kind"]], owner)
        except NotFoundError:
            return [Delete(resource=place[0], target=raw)]
        if msgspec.json.decode(body)["metadata"]["uid"] == controller["uid"]:
            return []
        return [Delete(resource=place[0], target=raw)]

    def _mark_deleted(self, effect: Delete) -> None:
        """Mark a deleted object, so that it is not active until the watch confirms it."""
        place = (effect.resource, key_of(effect.target))
        held = self._objects.get(place)
        if held is None or held["metadata"]["uid"] != effect.target["metadata"]["uid"]:
            return
        held["metadata"].setdefault("deletionTimestamp", "2000-01-01T00:00:00Z")


def _is_sound(resource: Resource, raw: Raw) -> bool:
    """Whether the workload can be decoded. The embedded cluster stores workloads unchecked."""
    try:
        decode_workload(resource.kind, raw)
    except FieldError:
        return False
    return True


def _terms(node: Node) -> tuple[object, ...]:
    return node.labels, node.taints, node.unschedulable


_RANK: Final = {resource: rank for rank, resource in enumerate((*OWNERS, PODS))}


def _order(place: _Place) -> tuple[int, Key]:
    return _RANK[place[0]], place[1]
