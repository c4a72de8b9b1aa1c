"""Why a pod has to wait: a value from a closed list of reasons, with the arithmetic.

The same words stand in events, metrics, `bursar queue` and the documentation. The first
part of a message is upstream's own text, because people and programs search for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import QuotaKey


class Reason(Enum):
    """Why a pod waits."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    """There is no room now; there will be when others end."""
    QUOTA_TOO_SMALL = "QuotaTooSmall"
    """It asks for more than the whole quota: waiting alone will not help."""
    BEHIND_ANOTHER = "BehindAnother"
    """A pod that is ahead waits for the same quota, and may not be passed."""
    NOT_COUNTED = "NotCounted"
    """What the pod costs cannot be told yet."""
    OTHER_GATES = "OtherGates"
    """Somebody else's scheduling gates come first."""
    NAMESPACE_UNKNOWN = "NamespaceUnknown"
    """Its namespace has not been seen yet, so it is not known which quotas apply."""
    RELEASE_REFUSED = "ReleaseRefused"
    """There is room, but the API server refused to lift the gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource of which a pod wants more than is left."""

    quota: QuotaKey
    resource: str
    requested: Quantity
    used: Quantity
    """Charged and promised together: whatever is no longer free."""
    hard: Quantity

    @property
    def missing(self) -> Quantity:
        """How much more room it would take."""
        return self.requested + self.used - self.hard

    @property
    def is_hopeless(self) -> bool:
        """Whether it would not fit even if nobody else used anything."""
        return self.requested > self.hard


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why a pod waits; a pod may have several, one for each quota."""

    reason: Reason
    quota: QuotaKey | None = None
    shortages: tuple[Shortage, ...] = ()
    """Sorted by resource."""
    detail: str = ""

    def message(self) -> str:
        """For people: the numbers of each resource that is short, and only of those."""
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
            assert self.quota is not None, "a line forms at a quota"
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
    Reason.QUOTA_EXCEEDED: "exceeded quota",
    Reason.QUOTA_TOO_SMALL: "exceeded quota",
}


def refusals_of(shortages: Iterable[Shortage]) -> tuple[Refusal, ...]:
    """One refusal for each quota that is short, in the order they are met."""
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


def explanation(refusals: Iterable[Refusal]) -> str:
    """All reasons of one pod in one text."""
    return "; ".join(refusal.message() for refusal in refusals)


def _listed(amounts: Iterable[tuple[str, Quantity]]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in amounts)
