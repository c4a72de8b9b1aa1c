"""Refusals: why a pod waits, from a closed list of reasons, with the arithmetic.

Events, metrics, `bursar queue` and the documentation use the same words. A message begins with
the API server's text for an exceeded quota, because users and programs search for it.

A message to the owner of a pod names no pod and no namespace of others. Of a cluster-wide quota
it states the limit and the total usage, which the copy of the quota in the namespace shows too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import QuotaKey

FOREIGN_POD: Final = "a pod of another namespace"
"""How a pod of another namespace is named to the owner of a pod that waits behind it."""


class Reason(Enum):
    """Why a pod waits."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    """The quota has not enough free now; it will when other pods end."""
    QUOTA_TOO_SMALL = "QuotaTooSmall"
    """The pod requests more than the limit of the quota, so waiting alone does not help."""
    BEHIND_ANOTHER = "BehindAnother"
    """A pod ahead waits for the same quota and may not be passed."""
    NOT_COUNTED = "NotCounted"
    """The counter cannot tell yet what the pod costs."""
    OTHER_GATES = "OtherGates"
    """The pod has scheduling gates of others, which they have to remove first."""
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    """The namespace is not in the cache yet, so it is not known which quotas apply."""
    RELEASE_REFUSED = "ReleaseRefused"
    """The quotas allow it, but the API server refused to lift the gate."""
    QUOTA_UNREADABLE = "QuotaUnreadable"
    """A quota that may cover the pod cannot be read, or its namespace has too many limits."""
    GATING_MISMATCH = "GatingMismatch"
    """The installed policies or webhooks gate the namespace, and the controller does not target it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource of which a pod requests more than a quota has free."""

    quota: QuotaKey
    resource: str
    requested: Quantity
    used: Quantity
    """Charged and promised amounts together."""
    hard: Quantity

    @property
    def missing(self) -> Quantity:
        """How much more would have to be free."""
        return self.requested + self.used - self.hard

    @property
    def is_hopeless(self) -> bool:
        """Whether the pod requests more than the limit."""
        return self.requested > self.hard


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why a pod waits. A pod may have several, one for each quota."""

    reason: Reason
    quota: QuotaKey | None = None
    shortages: tuple[Shortage, ...] = ()
    """Sorted by resource."""
    detail: str = ""

    def message(self) -> str:
        """A text with the amounts of exactly the resources that are short."""
        if self.shortages:
            assert self.quota is not None, "only a quota can be short of something"
            requested = _listed((each.resource, each.requested) for each in self.shortages)
            used = _listed((each.resource, each.used) for each in self.shortages)
            hard = _listed((each.resource, each.hard) for each in self.shortages)
            missing = _listed((each.resource, each.missing) for each in self.shortages)
            text = (
                f"exceeded quota: {self.quota.name}, requested: {requested}, used: {used}, "
                f"limited: {hard}; missing: {missing}"
            )
        elif self.reason is Reason.BEHIND_ANOTHER:
            assert self.quota is not None, "pods wait behind another for a quota"
            text = f"waiting for quota {self.quota.name} behind {self.detail}"
        else:
            text = _WORDS[self.reason]
            if self.detail:
                text = f"{text}: {self.detail}"
        if self.reason is Reason.QUOTA_TOO_SMALL:
            text += "; it can never fit unless the quota is raised"
        return text


_WORDS = {
    Reason.NOT_COUNTED: "what the pod costs is not known yet",
    Reason.OTHER_GATES: "other scheduling gates come first",
    Reason.NAMESPACE_UNKNOWN: "the namespace has not been seen yet",
    Reason.RELEASE_REFUSED: "there is room, but the gate could not be lifted",
    Reason.QUOTA_UNREADABLE: "a quota that may cover the pod cannot be used",
    Reason.GATING_MISMATCH: "the namespace is gated, but this controller does not target it",
    Reason.QUOTA_EXCEEDED: "exceeded quota",
    Reason.QUOTA_TOO_SMALL: "exceeded quota",
}


def behind_gates(others: Sequence[str], left_out: int = 0) -> Refusal:
    """The refusal of a pod with these scheduling gates of others, and so many more."""
    more = f" and {left_out} more" if left_out else ""
    return Refusal(reason=Reason.OTHER_GATES, detail=", ".join(others) + more)


def refusals_of(shortages: Iterable[Shortage]) -> tuple[Refusal, ...]:
    """One refusal for each quota that is short, in the order of the shortages."""
    by_quota: dict[QuotaKey, list[Shortage]] = {}
    for shortage in shortages:
        by_quota.setdefault(shortage.quota, []).append(shortage)
    return tuple(
        Refusal(
            reason=Reason.QUOTA_TOO_SMALL
            if any(shortage.is_hopeless for shortage in short)
            else Reason.QUOTA_EXCEEDED,
            quota=quota,
            shortages=tuple(short),
        )
        for quota, short in by_quota.items()
    )


class Reported(Protocol):
    """Anything with a message: a `Refusal`, or why a resize is not promised."""

    def message(self) -> str: ...


def explanation(refusals: Iterable[Reported]) -> str:
    """All reasons of one pod in one text."""
    return "; ".join(refusal.message() for refusal in refusals)


def _listed(amounts: Iterable[tuple[str, Quantity]]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in amounts)
