"""A small scheduler: it places one pod after another on the best node, without preemption.

It keeps the books of every node, and charges a pod when it binds it, before the watch confirms it.
For a pod that fits no node it sets the condition `PodScheduled` and records an event, with the
messages of kube-scheduler.
"""

from dataclasses import replace
from typing import Final

import msgspec

from bursar.adapters.memory.simulation.cluster import Cluster, Raw, find_node, find_pod
from bursar.adapters.memory.simulation.conditions import (
    find_condition,
    with_conditions,
)
from bursar.adapters.memory.simulation.events import event
from bursar.adapters.memory.simulation.inbox import Change, Inbox
from bursar.adapters.memory.simulation.queue import Queue, Waiting
from bursar.adapters.memory.simulation.turns import Turns
from bursar.adapters.memory.simulation.workloads.effects import (
    OVERTAKEN,
    apply,
    status_change,
)
from bursar.app.cluster.kinds import BINDINGS, NODES, PODS
from bursar.app.cluster.ports import Clock, ConflictError, Key, NotFoundError
from bursar.core.model.node import Node
from bursar.core.model.pod import DEFAULT_SCHEDULER, Pod
from bursar.core.placement.choice import choose
from bursar.core.placement.message import event_text
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.vector import Vector

RETRY_SECONDS: Final = 300.0
"""Interval at which all parked pods are tried again, in case a change was missed."""
UNSCHEDULABLE: Final = "Unschedulable"


class Scheduler:
    def __init__(self, cluster: Cluster, clock: Clock, *, name: str = DEFAULT_SCHEDULER) -> None:
        self._cluster = cluster
        self._clock = clock
        self._name = name
        self._books: dict[str, NodeBooks] = {}
        self._placed: dict[Key, Pod] = {}
        """Pods with a node, including those bound here that the watch has not confirmed yet."""
        self._queue = Queue()
        self._improved: set[str] = set()
        """Nodes that may accept a pod that they rejected before."""

    async def run(self) -> None:
        async with Inbox(self._cluster, self._clock, (PODS, NODES)) as inbox:
            last_retry, turns = self._clock.monotonic(), Turns(self._clock)
            while True:
                self._observe(await inbox.take(self._patience(last_retry)))
                if self._patience(last_retry) == 0:
                    last_retry = self._clock.monotonic()
                    self._queue.wake_all()
                while (waiting := self._queue.pop()) is not None:
                    await turns.pause()
                    await self._place(waiting)
                    self._observe(inbox.drain())

    def _patience(self, last_retry: float) -> float | None:
        if not self._queue.has_parked:
            return None
        return max(0.0, last_retry + RETRY_SECONDS - self._clock.monotonic())

    # -------------------------------------------------------------- what is known

    def _observe(self, changes: list[Change]) -> None:
        for change in changes:
            if change.resource == NODES:
                self._observe_node(change)
            else:
                self._observe_pod(change)
        if self._improved:
            names = sorted(self._improved & self._books.keys())
            self._queue.wake(self._books[name] for name in names)
            self._improved.clear()

    def _observe_node(self, change: Change) -> None:
        name = change.key.name
        node = find_node(change.body)
        if node is None:
            self._books.pop(name, None)
            return
        books = self._books.get(name)
        if books is None:
            on_it = (pod for pod in self._placed.values() if pod.node_name == name)
            self._books[name] = NodeBooks(node, on_it)
            self._improved.add(name)
        elif _offer(books.node) != _offer(node):
            books.observe(node)
            self._improved.add(name)

    def _observe_pod(self, change: Change) -> None:
        key, body = change.key, change.body
        pod = find_pod(body)
        if pod is None or body is None:
            self._queue.drop(key)
            self._displace(key)
            return
        held = self._placed.get(key)
        if held is not None and held.uid != pod.uid:
            self._displace(key)
            held = None
        if pod.node_name:
            self._queue.drop(key)
            self._put_on_node(key, pod)
        elif held is None:
            # If `held` is set, the scheduler has bound the pod, and this event is older than that.
            if self._is_ours(pod):
                self._queue.put(Waiting(pod=pod, body=body))
            else:
                self._queue.drop(key)

    def _is_ours(self, pod: Pod) -> bool:
        return (
            not pod.scheduling_gates
            and not pod.is_terminated
            and pod.deleted_at is None
            and (pod.scheduler_name or DEFAULT_SCHEDULER) == self._name
        )

    def _put_on_node(self, key: Key, pod: Pod) -> None:
        self._placed[key] = pod
        books = self._books.get(pod.node_name)
        if books is not None:
            before = books.taken, books.pod_count
            books.assign(pod)
            if books.pod_count < before[1] or _has_fallen(before[0], books.taken):
                self._improved.add(pod.node_name)

    def _displace(self, key: Key) -> None:
        pod = self._placed.pop(key, None)
        if pod is not None and pod.node_name in self._books:
            self._books[pod.node_name].release(pod)
            self._improved.add(pod.node_name)

    # -------------------------------------------------------------- what is done

    async def _place(self, waiting: Waiting) -> None:
        choice = choose(waiting.pod, [self._books[name] for name in sorted(self._books)])
        if not choice.node:
            self._queue.park(waiting, choice.rejections)
            await self._explain(waiting, choice.message)
            return
        try:
            await self._cluster.create(
                BINDINGS, _binding(waiting.pod, choice.node), namespace=waiting.pod.namespace
            )
        except (NotFoundError, ConflictError):
            return  # the pod was deleted or is bound; the watch will show which
        except OVERTAKEN:
            self._queue.park(waiting)
            return
        self._put_on_node(waiting.key, replace(waiting.pod, node_name=choice.node))

    async def _explain(self, waiting: Waiting, message: str) -> None:
        raw: Raw = msgspec.json.decode(waiting.body)
        told = find_condition(raw, "PodScheduled")
        if told is not None and (told.get("reason"), told.get("message")) == (
            UNSCHEDULABLE,
            message,
        ):
            return
        now = self._clock.now()
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": message,
        }
        current = (raw.get("status") or {}).get("conditions") or ()
        status = {"conditions": with_conditions(current, [condition], now)}
        try:
            for effect in status_change(PODS, raw, status):
                await apply(effect, self._cluster)
            failure = event(
                raw,
                PODS.kind,
                now,
                reason="FailedScheduling",
                note=event_text(message),
                reporter=self._name,
                action="Scheduling",
            )
            await apply(failure, self._cluster)
        except (ConflictError, NotFoundError):
            self._queue.drop(waiting.key)  # the watch will bring a newer state, which is tried
        except OVERTAKEN:
            return  # the pod stays parked without a condition


def _binding(pod: Pod, node: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _has_fallen(before: Vector, after: Vector) -> bool:
    return (
        after.milli_cpu < before.milli_cpu
        or after.memory < before.memory
        or after.ephemeral_storage < before.ephemeral_storage
        or any(after.amount(name) < amount for name, amount in before.scalars.items())
    )


def _offer(node: Node) -> tuple[object, ...]:
    """The fields of a node that decide whether a pod fits."""
    return node.allocatable, node.labels, node.taints, node.unschedulable
