"""Admission of the embedded cluster: what the webhook is to a real one, without the web.

New pods of selected namespaces get the gate, and the books are asked whether a pod may grow,
by the same judgements. The embedded cluster has no users, so that nobody can be
kept from lifting a gate.
"""

import json
from collections.abc import Callable
from typing import Protocol

from bursar.adapters.memory.admission import Admitted, Operation, Refused, Request
from bursar.adapters.memory.kinds import NAMESPACES, PODS
from bursar.adapters.memory.objects.patches import JsonObject, json_patched
from bursar.app.admission.pods import Installation, judge_creation
from bursar.app.cluster.ports import Key, NotFoundError, Reader, UnavailableError
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import Refusal, explanation
from bursar.core.quota.targeting import Targeting

RESIZE = "resize"
_ALLOWED = Admitted()


class Resizes(Protocol):
    """The controller's service for resizes."""

    def resize(self, row: PodRow, id: str, *, is_dry_run: bool) -> tuple[Refusal, ...]:
        """Promise what the pod will use. Raises `UnavailableError`."""


class Gatekeeper:
    """Its two methods are admissions of a `MemoryCluster`; give it the cluster afterwards."""

    def __init__(self, targeting: Targeting, *, decode: Callable[[bytes], PodRow]) -> None:
        self._targeting = targeting
        self._installation = Installation(targeting.own_namespace)
        self._decode = decode
        self.reader: Reader | None = None
        self.find_resizes: Callable[[], Resizes | None] = _nobody

    async def gate(self, request: Request) -> Admitted | Refused:
        """Mutating: put new pods of selected namespaces behind the gate."""
        pod = request.new
        if request.resource != PODS or request.subresource or pod is None:
            return _ALLOWED
        if request.operation is not Operation.CREATE or not await self._is_targeted(request.key):
            return _ALLOWED
        spec = pod.get("spec") or {}
        gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
        verdict = judge_creation(
            gates, spec.get("nodeName") or "", request.key.namespace, self._installation
        )
        if not verdict.is_allowed:
            return Refused(message=verdict.message, code=verdict.code)
        return Admitted(body=json_patched(pod, list(verdict.patch))) if verdict.patch else _ALLOWED

    async def check_resize(self, request: Request) -> Admitted | Refused:
        """Validating: a pod may grow only if there is room."""
        if request.resource != PODS or request.subresource != RESIZE or request.new is None:
            return _ALLOWED
        resizes = self.find_resizes()
        if resizes is None:
            return _ALLOWED
        row = self._decode(json.dumps(_without_conditions(request.new)).encode())
        identity = f"{row.stamp.uid}/{row.stamp.resource_version}"
        try:
            refusals = resizes.resize(row, identity, is_dry_run=request.is_dry_run)
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
    """That the node refused an earlier resize says nothing about this one."""
    status = {**(pod.get("status") or {})}
    status.pop("conditions", None)
    return {**pod, "status": status}
