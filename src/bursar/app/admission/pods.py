"""What an API server is told about pods: who waits at the gate, who may lift it, who may grow.

Decisions are values; nothing here knows how a review looks. What a growing pod costs is
not decided here either: whoever holds the books is asked through a port, because two
replicas of a webhook cannot both be right about the last free byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from bursar.app.cluster.ports import Json
from bursar.app.names import CONTROLLER
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import PodDemand
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import is_spared

DEFAULT_NAMESPACE: Final = "aaq"


@dataclass(frozen=True, slots=True)
class Installation:
    """Where Bursar runs, which decides whom it trusts and whom it leaves alone."""

    namespace: str = DEFAULT_NAMESPACE

    @property
    def controller_user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{CONTROLLER}"

    def spares(self, namespace: str) -> bool:
        """Whether pods there are never gated."""
        return is_spared(namespace, self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one review."""

    is_allowed: bool
    code: int
    message: str
    warnings: tuple[str, ...] = ()
    patch: Sequence[Json] = ()
    """Steps of a JSON patch; none to leave the object alone."""


def allow(message: str, *, warnings: tuple[str, ...] = (), patch: Sequence[Json] = ()) -> Verdict:
    return Verdict(
        is_allowed=True,
        code=HTTPStatus.ACCEPTED,
        message=message,
        warnings=warnings,
        patch=patch,
    )


def deny(message: str, *, code: int = HTTPStatus.FORBIDDEN) -> Verdict:
    return Verdict(is_allowed=False, code=code, message=message)


ONLY_ONE_AAQ: Final = deny("only a single AAQ CR instance is allowed")
"""The webhook is registered for AAQ objects only while there is one."""

# ------------------------------------------------------------------ the gate

GATED: Final = "Pod has successfully gated"
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
) -> Verdict:
    """Put a new pod behind the gate, unless it is there already."""
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
) -> Verdict:
    """Let nobody but the controller take a pod's gate away; other gates are not our business."""
    if GATE not in before or GATE in after:
        return allow(NOT_REMOVED)
    if username == installation.controller_user:
        return allow(MAY_REMOVE)
    return deny(MAY_NOT_REMOVE)


# ------------------------------------------------------------------ resizes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRequest:
    """A running pod wants to be larger. It prints no pod."""

    id: str
    """The same in every repetition of one question, so that nothing is reserved twice."""
    namespace: str
    name: str
    uid: str
    old: bytes = field(repr=False)
    new: bytes = field(repr=False)
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class Granted:
    """There is room, and it is reserved."""


@dataclass(frozen=True, slots=True)
class Denied:
    message: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nobody who holds the books could be asked."""

    cause: str


Reply: TypeAlias = Granted | Denied | Unreachable


class ReservationDesk(Protocol):
    async def reserve_resize(self, request: ResizeRequest) -> Reply:
        """Reserve what a pod will use more. It answers in a few seconds, whatever happens."""


class WhenUnreachable(Enum):
    """What becomes of a growing pod while the books cannot be asked."""

    DENY = "deny"
    ALLOW = "allow"


def may_grow(before: Pod, after: Pod) -> bool:
    """Whether a quota may have to charge more for the pod than it does now.

    That a node refused an earlier resize is held against the old pod only: the new one may
    be accepted, and is charged in full from then on.
    """
    was, now = PodDemand.of(before), PodDemand.of(replace(after, conditions=()))
    return _exceeds(now.quota_requests, was.quota_requests) or _exceeds(
        now.quota_limits, was.quota_limits
    )


def _exceeds(now: ResourceList, was: ResourceList) -> bool:
    return any(amount > was.get(name, ZERO) for name, amount in now.items())


async def judge_growth(
    request: ResizeRequest, desk: ReservationDesk, when_unreachable: WhenUnreachable
) -> Verdict:
    """Ask whoever holds the books."""
    match await desk.reserve_resize(request):
        case Granted():
            return allow("Pod resize fits all quotas")
        case Denied(message):
            return deny(message)
        case Unreachable(cause):
            return _judge_unasked(cause, when_unreachable)


NO_GROWTH: Final = allow("Pod resize does not grow the pod")


def _judge_unasked(cause: str, when_unreachable: WhenUnreachable) -> Verdict:
    if when_unreachable is WhenUnreachable.ALLOW:
        warning = f"resized without asking for room in quotas: {cause}"
        return allow("Pod resize was not checked against quotas", warnings=(warning,))
    return deny(
        f"Pod resize could not be checked against quotas: {cause}. Nothing was changed; try "
        f"again, and if it stays so see whether {CONTROLLER} runs",
        code=HTTPStatus.SERVICE_UNAVAILABLE,
    )
