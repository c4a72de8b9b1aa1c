"""ResourceQuotas on the embedded cluster: pods that exceed one are refused.

As on the API server, the plugin adds to the usage in the status of a quota before
the pod is stored; `simulation/quota_status` lowers it when pods end. Only names that pods use are
enforced: not `services` or `count/secrets`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.adapters.memory import pods
from bursar.adapters.memory.admission import Admitted, Operation, Refused, Request
from bursar.app.cluster.kinds import PODS, RESIZE, RESOURCE_QUOTAS
from bursar.app.cluster.ports import Key, Patch, PatchKind, Query, ReadWriter
from bursar.core.model.names import CPU, MEMORY, QUOTA_REQUESTS_PREFIX
from bursar.core.model.pod import Container, Pod
from bursar.core.model.pod_row import row_of
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota import scopes
from bursar.core.quota.account import FORMATS, to_quantity
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.names import LIMITS_PREFIX
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.quota.objects import decode_quota
from bursar.wire.structs.fields import FieldError

_ALLOWED = Admitted()
_COMPULSORY: Final = frozenset(
    prefix + name for name in (CPU, MEMORY) for prefix in ("", QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX)
)
"""Names of which every container must state an amount, if a quota limits them."""


class ResourceQuotaAdmission:
    """A validating plugin of a `MemoryCluster`; it must be the last one.

    Set `cluster` to it before the first write.
    """

    def __init__(self) -> None:
        self.cluster: ReadWriter | None = None
        self._counter = NativeCounter()

    async def check(self, request: Request) -> Admitted | Refused:
        """Refuse a pod or a resize that exceeds a quota; else add it to the usage."""
        is_new = request.operation is Operation.CREATE and not request.subresource
        is_resized = request.subresource == RESIZE
        if request.resource != PODS or request.new is None or not (is_new or is_resized):
            return _ALLOWED
        pod = pods.read_pod(request.new, request.key).pod
        before = None if request.old is None else pods.read_pod(request.old, request.key).pod
        grown: list[tuple[QuotaObject, ResourceList]] = []
        for seen in await self._quotas(request.key.namespace):
            if not scopes.matches(seen.quota.scopes, row_of(pod).profile):
                continue
            problem = _unstated(seen, pod) if is_new else ""
            wanted = self._growth(seen, pod, before)
            problem = problem or _excess(seen, wanted)
            if problem:
                return Refused(message=f'pods "{request.key.name}" is forbidden: {problem}')
            grown.append((seen, wanted))
        if not request.is_dry_run:
            for seen, wanted in grown:
                await self._charge(seen, wanted)
        return _ALLOWED

    def _growth(self, seen: QuotaObject, pod: Pod, before: Pod | None) -> ResourceList:
        """What the quota counts for the pod, less what it counted before."""
        now = self._amounts(seen, pod)
        was = {} if before is None else self._amounts(seen, before)
        grown = {name: amount - was.get(name, ZERO) for name, amount in now.items()}
        return {name: amount for name, amount in grown.items() if amount > ZERO}

    def _amounts(self, seen: QuotaObject, pod: Pod) -> dict[str, Quantity]:
        charged = self._counter.count(row_of(pod)).amounts_of(seen.quota.hard)
        return {
            name: to_quantity(nanos, FORMATS[style])
            for name, (nanos, style) in sorted(charged.items())
            if name in seen.quota.hard
        }

    async def _charge(self, seen: QuotaObject, wanted: ResourceList) -> None:
        assert self.cluster is not None, "the cluster is given before it is used"
        key = seen.quota.key
        used = {
            name: str(seen.reported_used.get(name, ZERO) + more) for name, more in wanted.items()
        }
        if used:
            await self.cluster.patch(
                RESOURCE_QUOTAS,
                Key(key.namespace, key.name),
                Patch(kind=PatchKind.MERGE, body={"status": {"used": used}}),
                subresource="status",
            )

    async def _quotas(self, namespace: str) -> list[QuotaObject]:
        assert self.cluster is not None, "the cluster is given before it is used"
        page = await self.cluster.list(RESOURCE_QUOTAS, Query(namespace=namespace))
        return list(readable_quotas(page.items))


def readable_quotas(bodies: Iterable[bytes]) -> Iterator[QuotaObject]:
    """The ResourceQuotas that can be read."""
    for body in bodies:
        try:
            yield decode_quota(QuotaKind.NATIVE, body)
        except FieldError:
            continue


def _excess(seen: QuotaObject, wanted: ResourceList) -> str:
    """The API server's words for what exceeds the quota; empty if nothing does."""
    hard, used = seen.quota.hard, seen.reported_used
    over = [name for name in sorted(wanted) if used.get(name, ZERO) + wanted[name] > hard[name]]
    if not over:
        return ""
    columns = [
        ",".join(f"{name}={amounts.get(name, ZERO)}" for name in over)
        for amounts in (wanted, used, hard)
    ]
    requested, present, limited = columns
    return (
        f"exceeded quota: {seen.quota.key.name}, requested: {requested}, used: {present}, "
        f"limited: {limited}"
    )


def _unstated(seen: QuotaObject, pod: Pod) -> str:
    """The API server's words for amounts that a container must state; empty if all are there."""
    required = _COMPULSORY & seen.quota.hard.keys()
    missing: dict[str, list[str]] = {}
    for container in (*pod.containers, *pod.init_containers):
        for name in sorted(required - _stated(container)):
            missing.setdefault(name, []).append(container.name)
    if not missing or pod.resources is not None:
        return ""
    listed = "; ".join(f"{name} for: {','.join(names)}" for name, names in sorted(missing.items()))
    return f"failed quota: {seen.quota.key.name}: must specify {listed}"


def _stated(container: Container) -> set[str]:
    requests, limits = container.resources.requests, container.resources.limits
    return {
        *requests,
        *(QUOTA_REQUESTS_PREFIX + name for name in requests),
        *(LIMITS_PREFIX + name for name in limits),
    }
