"""Counting by CountingPolicies: what keeps the counter informed, and what it reports."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.patches import StatusWrites
from bursar.app.cluster.ports import Clock, ClusterError, Json, Writer
from bursar.app.counting.feeds import CountingPart, WatchedKind
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.app.log import Log
from bursar.core.cel.expression import Language
from bursar.core.counting.policies import PolicyCounter, PolicyReport
from bursar.core.counting.policy import NOW_STEP_S, Policy, PolicyMode
from bursar.core.model.pod_row import PodRow
from bursar.core.model.resources import ResourceList, add
from bursar.core.quota.counting import RecountPods
from bursar.core.quota.ledger import PodKey
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import decode_policy, read_body
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.structs.fields import timestamp

LOG: Final = Log("counting")
BATCH: Final = 100
"""Pods that are counted again at a time. Other work goes on between two batches."""
REPORT_SECONDS: Final = 10.0
"""Shortest time between two looks at what the status of policies should say."""
NAMESPACES_MAX: Final = 50
"""Namespaces that the status of a policy lists, those with most pods first."""


def policy_part(language: Language, clock: Clock, writer: Writer | None = None) -> CountingPart:
    """Count pods by policies; with a writer, report in their status."""
    counter = PolicyCounter(language, keep_body, read_body)
    counter.set_time(_seconds(clock))
    changed = ChangedPods(counter, clock)
    policies = WatchedKind(
        resource=COUNTING_POLICIES,
        decode=decode_policy,
        see=lambda text: changed.add(counter.see_policy(text)),
        lose=lambda text: changed.add(counter.lose_policy(text)),
        set_state=lambda state: changed.add(counter.set_state(state)),
    )
    namespaces = WatchedKind(
        resource=NAMESPACES,
        decode=decode_namespace,
        see=lambda namespace: changed.add(counter.see_namespace(namespace)),
        lose=lambda namespace: changed.add(counter.lose_namespace(namespace)),
        set_state=lambda _: (),
    )
    reports = () if writer is None else (PolicyStatuses(counter, clock, writer),)
    return CountingPart(counter=counter, kinds=(namespaces, policies), feeds=(changed, *reports))


def _seconds(clock: Clock) -> int:
    return int(clock.now().timestamp())


class ChangedPods:
    """Counts changed pods again in batches, because a policy concerns every pod of the cluster."""

    def __init__(self, counter: PolicyCounter, clock: Clock) -> None:
        self._counter, self._clock = counter, clock
        self._waiting: dict[PodKey, None] = {}
        self._added = asyncio.Event()

    def add(self, rows: Iterable[PodRow]) -> Iterable[PodRow]:
        """Queue pods for a new count. Returns no pods, because none is counted at once."""
        self._waiting.update((PodKey(row.namespace, row.name), None) for row in rows)
        if self._waiting:
            self._added.set()
        return ()

    async def run(self, recount: RecountPods) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_time())
            while True:
                await self._added.wait()
                self._added.clear()
                queue = deque(self._waiting)
                self._waiting.clear()
                while queue:
                    recount([queue.popleft() for _ in range(min(BATCH, len(queue)))])
                    await self._clock.sleep(0)

    async def _follow_time(self) -> None:
        while True:
            now_s = _seconds(self._clock)
            self.add(self._counter.set_time(now_s))
            await self._clock.sleep(NOW_STEP_S - now_s % NOW_STEP_S)


# ------------------------------------------------------------------ statuses


class PolicyStatuses:
    """Writes what policies charge, or would charge, to their status, at a bounded rate."""

    def __init__(self, counter: PolicyCounter, clock: Clock, writer: Writer) -> None:
        self._counter, self._clock = counter, clock
        self._statuses = StatusWrites(writer, COUNTING_POLICIES)

    async def run(self, recount: RecountPods) -> None:  # noqa: ARG002 - the port has it
        while True:
            reports = self._counter.report()
            for report in reports:
                await self._write(report)
            self._statuses.keep_only({report.policy.text.name for report in reports})
            await self._clock.sleep(REPORT_SECONDS)

    async def _write(self, report: PolicyReport) -> None:
        text = report.policy.text
        before = self._statuses.latest(text.name, text.uid)
        status = wanted_status(report, self._clock.now(), before)
        if status == before:
            return
        try:
            await self._statuses.write(text.name, text.uid, status)
        except ClusterError as error:
            LOG.warning("the status of a policy was not written", policy=text.name, error=error)


def _since(now: datetime, status: str, before: Mapping[str, Json]) -> str:
    """When the condition Ready got its status."""
    known = before.get("conditions")
    if isinstance(known, list) and isinstance(known[0], dict) and known[0]["status"] == status:
        return str(known[0]["lastTransitionTime"])
    return timestamp(now)


def wanted_status(
    report: PolicyReport, now: datetime, before: Mapping[str, Json]
) -> dict[str, Json]:
    """The whole status of a policy. `before` is the one that was written last."""
    policy = report.policy
    total: ResourceList = {}
    present: ResourceList = {}
    for each in report.namespaces.values():
        total, present = add(total, each.amounts), add(present, each.present)
    most = sorted(report.namespaces.items(), key=lambda item: (-item[1].pods, item[0]))
    namespaces: list[Json] = [
        {
            "namespace": name,
            "pods": each.pods,
            "failed": each.failed,
            "charges": _texts(each.amounts),
            **_beside(policy, each.present),
        }
        for name, each in most[:NAMESPACES_MAX]
    ]
    problem = policy.problems[0].text if policy.problems else ""
    is_ready = "False" if problem else "True"
    ready: dict[str, Json] = {
        "type": "Ready",
        "status": is_ready,
        "reason": "Invalid" if problem else policy.mode.value,
        "message": problem,
        "observedGeneration": policy.text.generation,
        "lastTransitionTime": _since(now, is_ready, before),
    }
    return {
        "observedGeneration": policy.text.generation,
        "conditions": [ready],
        "matchedPods": sum(each.pods for each in report.namespaces.values()),
        "failedPods": sum(each.failed for each in report.namespaces.values()),
        "charges": _texts(total),
        **_beside(policy, present),
        "namespaces": namespaces,
    }


def _beside(policy: Policy, present: ResourceList) -> dict[str, Json]:
    """In shadow mode, what the same pods cost now, to compare it with what they would cost."""
    if policy.mode is not PolicyMode.SHADOW:
        return {}
    return {"presentCharges": _texts(present)}


def _texts(amounts: ResourceList) -> dict[str, Json]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}
