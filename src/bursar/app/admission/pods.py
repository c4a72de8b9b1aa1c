"""Admission decisions about pods: adding the scheduling gate, removing it, and resizes.

Decisions are values and do not depend on the format of AdmissionReviews. Whether a resize fits the
quotas is decided by the leading controller, through the port `ResizeReservations`: two replicas of
the webhook could otherwise both grant the last free amount.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from bursar.app.cluster.ports import Json
from bursar.app.names import CONTROLLER, OWN_NAMESPACE
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import PodDemand
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import is_spared
from bursar.wire.admission import AdmissionDecision


@dataclass(frozen=True, slots=True)
class Installation:
    """The namespace of Bursar. Only its controller can remove gates, and its pods get none."""

    namespace: str = OWN_NAMESPACE

    @property
    def controller_user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{CONTROLLER}"

    def spares(self, namespace: str) -> bool:
        """Whether pods of a namespace are never gated."""
        return is_spared(namespace, self.namespace)


def allow(
    message: str, *, warnings: Sequence[str] = (), patch: Sequence[Json] = ()
) -> AdmissionDecision:
    return AdmissionDecision(
        is_allowed=True,
        code=HTTPStatus.ACCEPTED,
        message=message,
        warnings=warnings,
        patch=patch,
    )


def deny(message: str, *, code: int = HTTPStatus.FORBIDDEN) -> AdmissionDecision:
    return AdmissionDecision(is_allowed=False, code=code, message=message)


ONLY_ONE_AAQ: Final = deny("only a single AAQ CR instance is allowed")
"""The decision about a second AAQ object. The webhook gets AAQ objects only while one exists."""

# ------------------------------------------------------------------ the gate

GATED: Final = "Pod has successfully gated"
NOT_YET: Final = "Pods are not gated before a controller is able to release them"
NOT_REMOVED: Final = "Pod update did not remove AAQGate"
MAY_REMOVE: Final = "AAQ controller has permission to remove gate from pods"
MAY_NOT_REMOVE: Final = f"Only AAQ controller has permission to remove {GATE} gate from pods"
MAY_NOT_NAME_A_NODE: Final = (
    f"Pods of this namespace wait behind the scheduling gate {GATE} until a quota has room, and "
    "Kubernetes allows no gate on a pod that names its node: remove spec.nodeName and choose the "
    "node by spec.nodeSelector or spec.affinity.nodeAffinity, or create the pod in a namespace "
    "that is not gated"
)

_GATES: Final = "/spec/schedulingGates"


def judge_creation(
    gates: Sequence[str], node_name: str, namespace: str, installation: Installation
) -> AdmissionDecision:
    """Add the scheduling gate to a new pod, unless it has the gate."""
    if installation.spares(namespace):
        return allow(f"Pods of namespace {namespace} are never gated")
    if node_name:
        return deny(MAY_NOT_NAME_A_NODE)
    if GATE in gates:
        return allow(GATED)
    gate: Json = {"name": GATE}
    if gates:
        return allow(GATED, patch=({"op": "add", "path": f"{_GATES}/-", "value": gate},))
    return allow(GATED, patch=({"op": "add", "path": _GATES, "value": [gate]},))


def judge_update(
    before: Sequence[str], after: Sequence[str], username: str, installation: Installation
) -> AdmissionDecision:
    """Deny removal of the gate, except by the controller. Other gates are not checked."""
    if GATE not in before or GATE in after:
        return allow(NOT_REMOVED)
    if username == installation.controller_user:
        return allow(MAY_REMOVE)
    return deny(MAY_NOT_REMOVE)


def queue_is_full(namespace: str, most: str) -> str:
    """Why a new pod is refused in a namespace with the maximum number of waiting pods."""
    return (
        f"{most} pods of the namespace {namespace} wait for quotas, which is the maximum: delete "
        "waiting pods, or ask for a larger quota; new pods are accepted again when nine tenths of "
        "that number wait"
    )


# ------------------------------------------------------------------ resizes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRequest:
    """A request to reserve the amounts of a resized pod. Its `repr` contains no pod."""

    id: str
    """Identifies the request in logs."""
    namespace: str
    name: str
    uid: str
    old: bytes = field(repr=False)
    new: bytes = field(repr=False)
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class Granted:
    """The resize fits, and its amounts are reserved."""


@dataclass(frozen=True, slots=True)
class Denied:
    message: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The leading controller could not be reached."""

    cause: str


Reply: TypeAlias = Granted | Denied | Unreachable


class ResizeReservations(Protocol):
    """The port to the books of the leading controller."""

    async def reserve_resize(self, request: ResizeRequest) -> Reply:
        """Reserve the amounts of a resized pod. Returns within a few seconds in any case."""


class WhenUnreachable(Enum):
    """The decision about a resize while the leading controller cannot be reached."""

    DENY = "deny"
    ALLOW = "allow"


def may_grow(before: Pod, after: Pod) -> bool:
    """Whether the resized pod can be charged more than the current one.

    A refused earlier resize lowers the charge of the current pod only. The node may accept the new
    resize, so the resized pod is charged in full.
    """
    was, now = PodDemand.of(before), PodDemand.of(replace(after, conditions=()))
    return _exceeds(now.quota_requests, was.quota_requests) or _exceeds(
        now.quota_limits, was.quota_limits
    )


def _exceeds(now: ResourceList, was: ResourceList) -> bool:
    return any(amount > was.get(name, ZERO) for name, amount in now.items())


async def judge_growth(
    request: ResizeRequest, reservations: ResizeReservations, when_unreachable: WhenUnreachable
) -> AdmissionDecision:
    """Decide about a resize that needs more: reserve the amounts at the leading controller."""
    match await reservations.reserve_resize(request):
        case Granted():
            return allow("Pod resize fits all quotas")
        case Denied(message):
            return deny(message)
        case Unreachable(cause):
            return _judge_unasked(cause, when_unreachable)


NO_GROWTH: Final = allow("Pod resize does not grow the pod")


def _judge_unasked(cause: str, when_unreachable: WhenUnreachable) -> AdmissionDecision:
    if when_unreachable is WhenUnreachable.ALLOW:
        warning = f"resized without a check against quotas: {cause}"
        return allow("Pod resize was not checked against quotas", warnings=(warning,))
    return deny(
        f"Pod resize could not be checked against quotas: {cause}. Nothing was changed; try "
        f"again; if the problem remains, check that {CONTROLLER} runs",
        code=HTTPStatus.SERVICE_UNAVAILABLE,
    )
