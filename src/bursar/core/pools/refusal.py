"""Refusals: why a pod gets nothing from a pool, from a closed list of reasons, with the arithmetic.

The scheduler copies the message into its FailedScheduling event, which the owner of the pod reads.
It names the pool, its capacity and what is missing, and no pod or namespace of others.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.problem import some_of
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.refusal import Shortage

NAMES_SHOWN_MAX: Final = 3
"""Resource names of a pod that a message lists."""


class PoolReason(Enum):
    """Why a pod gets nothing from a pool."""

    EXHAUSTED = "PoolExhausted"
    """The pool has not enough free now; it will when other pods end."""
    TOO_SMALL = "PoolTooSmall"
    """The pod requests more than the capacity, so waiting alone does not help."""
    SHARE_EXHAUSTED = "ShareExhausted"
    """The share of the namespace has not enough free now."""
    SHARE_TOO_SMALL = "ShareTooSmall"
    """The pod requests more than the maximum of the share."""
    NOT_ALLOWED = "NamespaceNotAllowed"
    """The pool's selector does not match the pod's namespace."""
    NO_POOL = "NoClusterResource"
    """The scheduler sends the pod, and no ClusterResource has a resource that it requests."""
    POOL_INVALID = "PoolInvalid"
    """The ClusterResource cannot be used as it is written."""
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    """The namespace is not in the cache yet, so it is not known which shares apply."""
    BINDING_IN_PROGRESS = "BindingInProgress"
    """Another call is binding the same pod."""
    BINDING_FAILED = "BindingFailed"
    """The API server refused or did not answer the binding."""
    NOT_LEADING = "NotLeading"
    """This replica does not lead, or has not read the cluster yet. The scheduler tries again."""


HOPELESS: Final = frozenset({PoolReason.TOO_SMALL, PoolReason.SHARE_TOO_SMALL})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRefusal:
    """One reason why a pod gets nothing. A pod may have several, one for each pool and share."""

    reason: PoolReason
    pool: str = ""
    share: str = ""
    resource: str = ""
    requested: Quantity = ZERO
    free: Quantity = ZERO
    """What is left; negative while the pool is overdrawn."""
    hard: Quantity = ZERO
    """The capacity of the pool, or the maximum of the share."""
    detail: str = ""

    @property
    def missing(self) -> Quantity:
        """How much more would have to be free."""
        return self.requested - self.free

    def message(self) -> str:
        """The reason and its explanation. No comma: the scheduler separates its reasons by them."""
        return f"{self.reason.value}: {self._words()}"

    def _words(self) -> str:
        of = f"share {self.share} of " if self.share else ""
        subject = f"{of}ClusterResource {self.pool}"
        if self.reason in HOPELESS:
            return (
                f"{subject} has {self.hard} {self.resource} and the pod requests {self.requested}; "
                "it can never run unless that is raised"
            )
        if self.reason in _SHORT:
            free = max(ZERO, self.free)
            text = (
                f"{subject} has {free} of {self.hard} {self.resource} free and the pod requests "
                f"{self.requested} (missing {self.missing})"
            )
            return f"{text}; overdrawn by {ZERO - self.free}" if self.free < ZERO else text
        if self.reason is PoolReason.NOT_ALLOWED:
            return f"{subject} is not for this namespace ({self.resource})"
        if self.reason is PoolReason.POOL_INVALID:
            return f"{subject} is invalid ({self.resource})"
        text = _WORDS[self.reason]
        return f"{text}: {self.detail}" if self.detail else text


_SHORT: Final = frozenset({PoolReason.EXHAUSTED, PoolReason.SHARE_EXHAUSTED})
_WORDS: Final = {
    PoolReason.NO_POOL: "no ClusterResource provides",
    PoolReason.NAMESPACE_UNKNOWN: "the namespace has not been seen yet",
    PoolReason.BINDING_IN_PROGRESS: "the pod is being bound by another call",
    PoolReason.BINDING_FAILED: "the pod was not bound",
    PoolReason.NOT_LEADING: "this replica cannot decide now",
}


def account_key(pool: str, share: str = "", namespace: str = "") -> QuotaKey:
    """The key of an account of a pool. Names of objects have no slash."""
    return QuotaKey(QuotaKind.POOL, namespace, f"{pool}/{share}" if share else pool)


def refusal_of(shortage: Shortage) -> PoolRefusal:
    """The refusal for an account of a pool that is short."""
    pool, _, share = shortage.quota.name.partition("/")
    if shortage.is_hopeless:
        reason = PoolReason.SHARE_TOO_SMALL if share else PoolReason.TOO_SMALL
    else:
        reason = PoolReason.SHARE_EXHAUSTED if share else PoolReason.EXHAUSTED
    return PoolRefusal(
        reason=reason,
        pool=pool,
        share=share,
        resource=shortage.resource,
        requested=shortage.requested,
        free=shortage.hard - shortage.used,
        hard=shortage.hard,
    )


def no_pool(names: list[str]) -> PoolRefusal:
    """The refusal of a pod whose extended resources no pool has."""
    shown = some_of(names, NAMES_SHOWN_MAX, joint=" and ") or "a resource that it requests"
    return PoolRefusal(reason=PoolReason.NO_POOL, detail=shown)
