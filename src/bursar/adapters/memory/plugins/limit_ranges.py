"""LimitRanges on the embedded cluster: defaults in new pods, and bounds on pods and resizes."""

import json

from bursar.adapters.memory import pods
from bursar.adapters.memory.admission import Admitted, Operation, Refused, Request
from bursar.app.cluster.kinds import LIMIT_RANGES, PODS, RESIZE
from bursar.app.cluster.ports import Query, Reader
from bursar.core.model.admission.limit_range import (
    LimitRange,
    limit_errors,
    with_container_defaults,
)
from bursar.wire.model.admission_policies import decode_policy
from bursar.wire.structs.fields import FieldError

_ALLOWED = Admitted()


class LimitRanger:
    """Two admission plugins of a `MemoryCluster`. Set `reader` to it before the first write."""

    def __init__(self) -> None:
        self.reader: Reader | None = None

    async def set_defaults(self, request: Request) -> Admitted | Refused:
        """Mutating plugin: the defaults of the namespace's LimitRanges."""
        if request.operation is not Operation.CREATE or not _is_pod(request, ""):
            return _ALLOWED
        ranges = await self._ranges(request.key.namespace)
        if not ranges or request.new is None:
            return _ALLOWED
        document = pods.read_pod(request.new, request.key)
        pod = document.pod
        for limits in ranges:
            pod, _ = with_container_defaults(pod, limits)
        return Admitted(body=pods.with_resources(document.body, pod))

    async def check(self, request: Request) -> Admitted | Refused:
        """Validating plugin: refuse pods and resizes that are outside a LimitRange."""
        is_new = request.operation is Operation.CREATE and _is_pod(request, "")
        if request.new is None or not (is_new or _is_pod(request, RESIZE)):
            return _ALLOWED
        for limits in await self._ranges(request.key.namespace):
            errors = limit_errors(pods.read_pod(request.new, request.key).pod, limits)
            if errors:
                listed = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
                return Refused(message=f'pods "{request.key.name}" is forbidden: {listed}')
        return _ALLOWED

    async def _ranges(self, namespace: str) -> list[LimitRange]:
        """The LimitRanges of a namespace. One that cannot be read limits nothing."""
        assert self.reader is not None, "the cluster is given before it is used"
        page = await self.reader.list(LIMIT_RANGES, Query(namespace=namespace))
        found = []
        for body in page.items:
            try:
                limits = decode_policy(LIMIT_RANGES.kind, json.loads(body))
            except FieldError:
                continue
            if isinstance(limits, LimitRange):
                found.append(limits)
        return found


def _is_pod(request: Request, subresource: str) -> bool:
    return request.resource == PODS and request.subresource == subresource
