"""Quota admission of the embedded cluster, in place of `bursar webhook` on a real one.

New pods of selected namespaces get the scheduling gate, and a resize is checked against the
books, by the same functions as in the webhook. The embedded cluster has no users, so removal of
the gate is not restricted to the controller.
"""

import json
from collections.abc import Callable
from typing import Protocol, cast

from bursar.adapters.memory.admission import Admitted, Operation, Refused, Request
from bursar.adapters.memory.objects.patches import JsonObject, json_patched
from bursar.app.admission.pods import Installation, judge_creation, queue_is_full
from bursar.app.cluster.kinds import NAMESPACES, PODS, RESIZE
from bursar.app.cluster.ports import Json, Key, NotFoundError, Reader, UnavailableError
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.growth.promises import GrowthRefusals
from bursar.core.quota.refusal import explanation
from bursar.core.quota.targeting import Targeting

_ALLOWED = Admitted()


class ResizeBooks(Protocol):
    """The books of the leading controller, for resizes."""

    async def resize(self, row: PodRow, *, is_dry_run: bool) -> GrowthRefusals:
        """Reserve the resized pod's amounts; the refusals if they do not fit.

        Raises `UnavailableError`.
        """


class FullQueues(Protocol):
    """The namespaces in which no more pods may wait."""

    @property
    def pods_max(self) -> int:
        """Maximum number of waiting pods of one namespace."""

    @property
    def names(self) -> frozenset[str]: ...


class QuotaAdmission:
    """Two admission plugins of a `MemoryCluster`. Set `reader` to it before the first write."""

    def __init__(self, targeting: Targeting, *, decode: Callable[[bytes], PodRow]) -> None:
        self._targeting = targeting
        self._installation = Installation(targeting.own_namespace)
        self._decode = decode
        self.reader: Reader | None = None
        self.find_resizes: Callable[[], ResizeBooks | None] = _nobody
        self.find_full_queues: Callable[[], FullQueues | None] = _nobody

    async def gate(self, request: Request) -> Admitted | Refused:
        """Mutating plugin: add the gate to new pods of selected namespaces.

        In a namespace in which too many pods wait, refuse them, as a policy does on a real cluster.
        """
        pod = request.new
        if request.resource != PODS or request.subresource or pod is None:
            return _ALLOWED
        if request.operation is not Operation.CREATE or not await self._is_targeted(request.key):
            return _ALLOWED
        full = self.find_full_queues()
        if full is not None and request.key.namespace in full.names:
            return Refused(message=queue_is_full(request.key.namespace, str(full.pods_max)))
        spec = pod.get("spec") or {}
        gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
        decision = judge_creation(
            gates, spec.get("nodeName") or "", request.key.namespace, self._installation
        )
        if not decision.is_allowed:
            return Refused(message=decision.message, code=decision.code)
        return (
            Admitted(body=json_patched(pod, cast("Json", decision.patch)))
            if decision.patch
            else _ALLOWED
        )

    async def check_resize(self, request: Request) -> Admitted | Refused:
        """Validating plugin: refuse a resize that exceeds a quota."""
        if request.resource != PODS or request.subresource != RESIZE or request.new is None:
            return _ALLOWED
        books = self.find_resizes()
        if books is None:
            return _ALLOWED
        row = self._decode(json.dumps(_without_conditions(request.new)).encode())
        try:
            refusals = await books.resize(row, is_dry_run=request.is_dry_run)
        except UnavailableError as error:
            return Refused(message=error.message, code=503, reason="ServiceUnavailable")
        return Refused(message=explanation(refusals)) if refusals else _ALLOWED

    async def _is_targeted(self, key: Key) -> bool:
        assert self.reader is not None, "the cluster is given before it is used"
        try:
            body = await self.reader.get(NAMESPACES, Key("", key.namespace))
        except NotFoundError:
            return False
        metadata = json.loads(body)["metadata"]
        return self._targeting.is_targeted(
            NamespaceObject(name=key.namespace, labels=metadata.get("labels") or {})
        )


def _nobody() -> None:
    return None


def _without_conditions(pod: JsonObject) -> JsonObject:
    """The pod without conditions: a refused earlier resize must not lower its charge."""
    status = {**(pod.get("status") or {})}
    status.pop("conditions", None)
    return {**pod, "status": status}
