"""The status of ResourceQuotas: limits and usage, counted again when pods end or a quota changes.

Admission raises the usage for new pods. Here it is lowered again. Pods and quotas are read from
the cluster at the moment of counting: a watch may not show a pod yet that admission has counted.
"""

import msgspec

from bursar.adapters.memory.plugins.resource_quotas import readable_quotas
from bursar.adapters.memory.simulation.cluster import Cluster, Raw, find_pod
from bursar.adapters.memory.simulation.inbox import Change, Inbox, key_of
from bursar.adapters.memory.simulation.workloads.effects import OVERTAKEN, apply, status_change
from bursar.app.cluster.kinds import PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import Clock, Key, Query
from bursar.core.model.pod_row import PodRow, row_of
from bursar.core.quota.views.recount import Recount


class QuotaStatus:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._rows: dict[Key, tuple[bytes, PodRow]] = {}
        """Pods that were counted, with the object of which the row was made."""
        self._due: set[str] = set()
        """Namespaces to count."""

    async def run(self) -> None:
        async with Inbox(self._cluster, self._clock, (RESOURCE_QUOTAS, PODS)) as inbox:
            while True:
                for change in await inbox.take():
                    self._observe(change)
                due, self._due = self._due, set()
                for namespace in sorted(due):
                    await self._count(namespace)

    def _observe(self, change: Change) -> None:
        if change.resource == RESOURCE_QUOTAS:
            if change.body is not None and not _is_stated(change.body):
                self._due.add(change.key.namespace)
            return
        known = self._rows.get(change.key)
        if change.body is None:
            self._rows.pop(change.key, None)
            self._due.add(change.key.namespace)
        elif known is None or known[0] != change.body:
            pod = find_pod(change.body)
            if pod is not None and (pod.is_terminated or known is not None):
                self._due.add(change.key.namespace)

    async def _count(self, namespace: str) -> None:
        page = await self._cluster.list(RESOURCE_QUOTAS, Query(namespace=namespace))
        if not page.items:
            return
        pods = await self._cluster.list(PODS, Query(namespace=namespace))
        recount = Recount(
            filter(None, map(self._row, pods.items)), int(self._clock.now().timestamp())
        )
        raws: dict[Key, Raw] = {key_of(body): msgspec.json.decode(body) for body in page.items}
        for seen in readable_quotas(page.items):
            quota = seen.quota
            # Names that pods do not use are not counted here, and show no usage.
            used = recount.used(quota, ())
            status = {
                "hard": {name: str(amount) for name, amount in sorted(quota.hard.items())},
                "used": {name: str(amount) for name, amount in sorted(used.items())},
            }
            raw = raws[Key(quota.key.namespace, quota.key.name)]
            for effect in status_change(RESOURCE_QUOTAS, raw, status):
                try:
                    await apply(effect, self._cluster)
                except OVERTAKEN:
                    self._due.add(namespace)

    def _row(self, body: bytes) -> PodRow | None:
        key = key_of(body)
        known = self._rows.get(key)
        if known is not None and known[0] == body:
            return known[1]
        pod = find_pod(body)
        if pod is None:
            return None
        row = row_of(pod)
        self._rows[key] = (body, row)
        return row


def _is_stated(body: bytes) -> bool:
    """Whether the status has the limits of the spec, so that only its usage can have changed."""
    raw: Raw = msgspec.json.decode(body)
    hard = (raw.get("spec") or {}).get("hard") or {}
    return (raw.get("status") or {}).get("hard", {}).keys() == hard.keys() and all(
        str(value) == str(raw["status"]["hard"][name]) for name, value in hard.items()
    )
