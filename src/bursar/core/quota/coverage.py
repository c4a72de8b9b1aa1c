"""Coverage: which quotas cover which pods, and so the bill of a pod.

A pod is covered by the quotas of its namespace and by every cluster-wide quota that selects
the namespace, if their scopes match the pod. This depends only on what the pods of a workload
have in common, so a bill is computed once for all of them and kept until a quota or a
namespace changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, TypeAlias

from bursar.core.model.pod_row import PodProfile
from bursar.core.model.resources import nothing
from bursar.core.quota import scopes
from bursar.core.quota.account import Account, Bill, Charge, Item
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import Order, Quota, QuotaKey, QuotaKind
from bursar.core.quota.refusal import Reason, Refusal
from bursar.core.sharing import Generations, Living

OWN_LIMITS_MAX: Final = 256
"""Limits that a gate enforces, of all quotas of a namespace. A quota without any counts as one."""
OTHERS_PER_LIMIT: Final = 16
"""So many limits that Kubernetes enforces count as one: they make statuses long, and no bill."""
TOO_MANY_LIMITS: Final = (
    f"the quotas of the namespace have more than {OWN_LIMITS_MAX} limits together"
)
ADDRESS_BITS: Final = 64
RECENT_BILLS: Final = 2048
RECENT_BILLS_BYTES: Final = 4 << 20
"""Bounds of each of the two generations of bills that are kept after their last pod is gone."""

_Amounts: TypeAlias = Mapping[str, tuple[int, int]]
"""The amounts of a charge: nanos and index of the format, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_targeted: bool = True
    """Whether pods are gated here. If not, pods that still have the gate are released."""
    dispute: str = ""
    """How the installed policies and webhooks disagree with `is_targeted`; empty if they do not.

    Pods of a namespace that is not targeted must keep the gate then. Those of one that is targeted
    do not get it.
    """

    @property
    def is_gated(self) -> bool:
        """Whether new pods get the gate, and wait until the controller lifts it."""
        return self.is_targeted and not self.dispute

    @property
    def selected_by(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What decides which cluster-wide quotas cover it."""
        return self.labels, self.annotations

    @property
    def gating(self) -> tuple[bool, str]:
        """What decides whether its pods get and keep the gate."""
        return self.is_targeted, self.dispute


class CoveredQuota:
    """A quota with its accounts, one per resource.

    A cluster-wide quota also has accounts for each namespace that it covers: its share.
    """

    __slots__ = ("accounts", "namespaces", "quota", "scopes", "shares")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.scopes: tuple[scopes.SimpleRule, ...] = ()
        """The scopes of the quota, simplified: pods are compared with these."""
        self.accounts: dict[str, Account] = {}
        self.namespaces: set[str] = set()
        """The known namespaces that the quota covers."""
        self.shares: dict[str, dict[str, Account]] = {}
        self.take(quota)

    def take(self, quota: Quota) -> None:
        """Apply a changed quota. Accounts of names that stay keep what is charged to them."""
        self.quota = quota
        self.scopes = scopes.simplified(quota.scopes)
        accounts: dict[str, Account] = {}
        for name in sorted(filter(is_schedulable, quota.hard)):
            hard = quota.hard[name]
            account = self.accounts.get(name) or Account(quota.key, name, hard)
            account.set_hard(hard)
            accounts[name] = account
        self.accounts = accounts
        for namespace, share in self.shares.items():
            self.shares[namespace] = {
                name: account for name, account in share.items() if name in accounts
            }

    def share(self, namespace: str) -> dict[str, Account]:
        """The accounts of a namespace's share. They limit nothing."""
        shares = self.shares.setdefault(namespace, {})
        for name, account in self.accounts.items():
            if name not in shares:
                shares[name] = Account(account.quota, name, account.hard_quantity)
        return shares

    def leave(self, namespace: str) -> None:
        """Stop covering a namespace. Its pods have to be billed again."""
        self.namespaces.discard(namespace)
        self.shares.pop(namespace, None)

    def covers(self, namespace: Namespace) -> bool:
        quota = self.quota
        if quota.selector is None:
            return quota.key.namespace == namespace.name
        if namespace.name in quota.selector.names:
            return True
        return quota.selector.matches(namespace.labels, namespace.annotations)


def _key_of(covered: CoveredQuota) -> QuotaKey:
    return covered.quota.key


def _items(accounts: Mapping[str, Account], amounts: _Amounts) -> list[Item]:
    items: list[Item] = []
    for name, account in accounts.items():
        amount = amounts.get(name)
        if amount is not None:
            nanos, format_index = amount
            items.append((account, nanos, format_index))
    return items


def _unreadable(key: QuotaKey, problem: str) -> Refusal:
    return Refusal(reason=Reason.QUOTA_UNREADABLE, quota=key, detail=f"{key}: {problem}")


def _is_billed_alike(one: Quota, other: Quota) -> bool:
    """Whether the two quotas differ at most in their limits, so that bills stay valid."""
    return (
        one.order is other.order
        and one.problem == other.problem
        and one.scopes == other.scopes
        and one.selector == other.selector
        and one.hard.keys() == other.hard.keys()
    )


@dataclass(slots=True)
class _Own:
    """The quotas of one namespace."""

    counts: dict[QuotaKey, int] = field(default_factory=dict)
    """Number of limits of each quota that is entered with its limits."""
    total: int = 0
    left_out: dict[QuotaKey, Quota] = field(default_factory=dict)
    """The quotas that are entered without limits, those that were left out first coming first."""


class OwnLimits:
    """Bounds the limits that the quotas of one namespace have together.

    The bill of each pod has an item for each limit that covers it. So a tenant that may write
    quotas could make every decision about its pods long, and the bills of many pods large. A quota
    beyond the bound is *left out*: it is entered without limits and with a problem, and all pods of
    the namespace wait. Cluster-wide quotas are not bounded.
    """

    def __init__(self) -> None:
        self._namespaces: Final[dict[str, _Own]] = {}
        self.limits_max = OWN_LIMITS_MAX

    def put(self, quota: Quota) -> list[Quota]:
        """A quota was created or changed. Returns the quotas to enter, in the form to enter.

        Besides this quota, these are quotas that were left out and now have room.
        """
        if quota.key.kind is not QuotaKind.NAMESPACED:
            return [quota]
        own = self._namespaces.setdefault(quota.key.namespace, _Own())
        own.total -= own.counts.pop(quota.key, 0)
        if self._has_room(own, quota):
            own.left_out.pop(quota.key, None)
            return [quota, *self._enter_left_out(own)]
        own.left_out[quota.key] = quota
        return [_left_out(quota), *self._enter_left_out(own)]

    def entered(self, quota: Quota) -> Quota:
        """The quota as `put` has entered it: as it is, or without limits and with a problem."""
        own = self._namespaces.get(quota.key.namespace)
        is_left_out = own is not None and own.left_out.get(quota.key) == quota
        return _left_out(quota) if is_left_out else quota

    def first_left_out(self, namespace: str) -> QuotaKey | None:
        """The quota of a namespace that has been left out the longest; None if none is."""
        own = self._namespaces.get(namespace)
        return None if own is None else next(iter(own.left_out), None)

    def is_left_out(self, key: QuotaKey) -> bool:
        own = self._namespaces.get(key.namespace)
        return own is not None and key in own.left_out

    def drop(self, key: QuotaKey) -> list[Quota]:
        """A quota was deleted. Returns the quotas that have room now."""
        own = self._namespaces.get(key.namespace)
        if own is None:
            return []
        own.total -= own.counts.pop(key, 0)
        own.left_out.pop(key, None)
        entered = self._enter_left_out(own)
        if not own.counts and not own.left_out:
            del self._namespaces[key.namespace]
        return entered

    def _has_room(self, own: _Own, quota: Quota) -> bool:
        """Count the quota as one that is entered as it is, if there is room for its limits."""
        limits = own_limits_of(quota)
        if own.total + limits > self.limits_max:
            return False
        own.counts[quota.key] = limits
        own.total += limits
        return True

    def _enter_left_out(self, own: _Own) -> list[Quota]:
        """The quotas that were left out and have room now, in the order in which they came."""
        entered: list[Quota] = []
        while own.left_out:
            key, quota = next(iter(own.left_out.items()))
            if not self._has_room(own, quota):
                break
            del own.left_out[key]
            entered.append(quota)
        return entered


def _left_out(quota: Quota) -> Quota:
    """The quota as it is entered then: never like the quota itself, which may be unreadable."""
    problems = filter(None, (TOO_MANY_LIMITS, quota.problem))
    return replace(quota, hard=nothing(), problem="; ".join(problems))


def own_limits_of(quota: Quota) -> int:
    """As how many limits of its namespace a quota counts."""
    limits = sum(map(is_schedulable, quota.hard))
    return max(1, limits + (len(quota.hard) - limits) // OTHERS_PER_LIMIT)


class Coverage:
    """The known quotas and namespaces, and the bills that follow from them."""

    def __init__(self) -> None:
        self.own_limits: Final = OwnLimits()
        self._quotas: dict[QuotaKey, CoveredQuota] = {}
        """All quotas. Those that are left out cover no namespace: pods do not wait for each."""
        self._cluster_wide: dict[QuotaKey, CoveredQuota] = {}
        self._own: dict[str, dict[QuotaKey, CoveredQuota]] = {}
        self._unreadable: set[QuotaKey] = set()
        """Quotas that cannot be read. Most of the time there is none."""
        self._namespaces: dict[str, Namespace] = {}
        self._covering: dict[str, tuple[CoveredQuota, ...]] = {}
        self._bills: dict[str, Living[int, Bill]] = {}
        """Bills of known namespaces, for as long as a pod or a reservation has them."""
        self._recent: Generations[int, Bill] = Generations(
            RECENT_BILLS, Bill.weigh, RECENT_BILLS_BYTES
        )
        """Keeps the latest bills alive, for the pods that follow those that have gone."""

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def quota(self, key: QuotaKey) -> CoveredQuota | None:
        return self._quotas.get(key)

    def quotas(self) -> Iterator[CoveredQuota]:
        return iter(self._quotas.values())

    def covering(self, namespace: str) -> tuple[CoveredQuota, ...]:
        """The quotas that cover a namespace, sorted; empty if the namespace is not known."""
        return self._covering.get(namespace, ())

    def limits(self, profile: PodProfile) -> bool:
        """Whether a quota limits any amount of a pod with this profile."""
        covering = self._covering.get(profile.namespace, ())
        return any(each.accounts and scopes.matches(each.scopes, profile) for each in covering)

    def refusal(self, profile: PodProfile) -> Refusal | None:
        """Why a gated pod with this profile waits even if its quotas have room; None if nothing."""
        namespace = self._namespaces.get(profile.namespace)
        if namespace is None:
            return Refusal(reason=Reason.NAMESPACE_UNKNOWN)
        if namespace.is_targeted:
            return self.unreadable(profile)
        dispute = namespace.dispute
        return Refusal(reason=Reason.GATING_MISMATCH, detail=dispute) if dispute else None

    def is_exempt(self, namespace: str) -> bool:
        """Whether pods of the namespace that still have the gate are released without a quota."""
        found = self._namespaces.get(namespace)
        return found is not None and not (found.is_targeted or found.dispute)

    def unreadable(self, profile: PodProfile) -> Refusal | None:
        """The refusal of an unreadable quota that may cover the pod; None if there is none.

        A quota that is left out may cover every pod of its namespace.
        """
        left_out = self.own_limits.first_left_out(profile.namespace)
        if left_out is not None:
            return _unreadable(left_out, TOO_MANY_LIMITS)
        if not self._unreadable:
            return None
        for covered in self._covering.get(profile.namespace, ()):
            quota = covered.quota
            if quota.problem and scopes.matches(covered.scopes, profile):
                return _unreadable(quota.key, quota.problem)
        return None

    # ------------------------------------------------------------------ changes

    def put_quota(self, quota: Quota) -> list[str]:
        """Add or change a quota. Returns the namespaces to bill again."""
        key = quota.key
        if self.own_limits.is_left_out(key):
            return self._leave_out(quota)
        if quota.problem:
            self._unreadable.add(key)
        else:
            self._unreadable.discard(key)
        index = self._index_of(key)
        held = index.get(key)
        if held is None:
            held = self._quotas[key] = index[key] = CoveredQuota(quota)
            return self._cover_by(held)
        before = held.quota
        held.take(quota)
        if _is_billed_alike(before, quota):
            return []
        left = set(held.namespaces)
        self._cover_by(held)
        return self._forget_bills(sorted(left | held.namespaces))

    def drop_quota(self, key: QuotaKey) -> list[str]:
        """Remove a quota. Returns the namespaces to bill again."""
        if self._quotas.pop(key, None) is None:
            return []
        if self.own_limits.is_left_out(key):
            return list(self._reach(key))  # Its pods may wait for another quota now, or for none.
        return self._remove(key)

    def _remove(self, key: QuotaKey) -> list[str]:
        """Let a quota cover nothing any more. Returns the namespaces that it covered."""
        index = self._index_of(key)
        covered = index.pop(key, None)
        if key.namespace and not index:
            del self._own[key.namespace]
        self._unreadable.discard(key)
        if covered is None:
            return []
        changed = sorted(covered.namespaces)
        for name in changed:
            self._uncover(covered, name)
        return self._forget_bills(changed)

    def _leave_out(self, quota: Quota) -> list[str]:
        """Keep a quota that is left out, for its status. Returns the namespaces to bill again."""
        key = quota.key
        changed = self._remove(key)
        self._quotas[key] = CoveredQuota(quota)
        is_first = self.own_limits.first_left_out(key.namespace) == key
        return list(self._reach(key)) if is_first else changed

    def put_namespace(self, namespace: Namespace) -> bool:
        """Add or change a namespace. Returns whether other quotas cover it than before."""
        name = namespace.name
        known = self._namespaces.get(name)
        self._namespaces[name] = namespace
        if known is not None and known.selected_by == namespace.selected_by:
            return False
        candidates = (*self._own.get(name, {}).values(), *self._cluster_wide.values())
        covering = sorted(
            (covered for covered in candidates if covered.covers(namespace)), key=_key_of
        )
        before = self._covering.get(name)
        if before == tuple(covering):
            return False
        for covered in set(before or ()) - set(covering):
            covered.leave(name)
        for covered in covering:
            covered.namespaces.add(name)
        self._covering[name] = tuple(covering)
        self._forget_bills([name])
        return True

    def drop_namespace(self, name: str) -> bool:
        """Remove a namespace. Returns whether a quota covered it."""
        if self._namespaces.pop(name, None) is None:
            return False
        covering = self._covering.pop(name)
        for covered in covering:
            covered.leave(name)
        self._forget_bills([name])
        return bool(covering)

    def _index_of(self, key: QuotaKey) -> dict[QuotaKey, CoveredQuota]:
        return self._own.setdefault(key.namespace, {}) if key.namespace else self._cluster_wide

    def _reach(self, key: QuotaKey) -> Iterable[str]:
        """The known namespaces that a quota may cover."""
        if not key.namespace:
            return self._namespaces
        return (key.namespace,) if key.namespace in self._namespaces else ()

    def _cover_by(self, covered: CoveredQuota) -> list[str]:
        """Let a new or changed quota cover what it selects. Returns the namespaces that changed.

        No other quota is looked at: there can be many of them for each of many namespaces.
        """
        changed: list[str] = []
        for name in self._reach(covered.quota.key):
            was_covered = name in covered.namespaces
            if covered.covers(self._namespaces[name]) is was_covered:
                continue
            changed.append(name)
            if was_covered:
                self._uncover(covered, name)
            else:
                covered.namespaces.add(name)
                covering = (*self._covering[name], covered)
                self._covering[name] = tuple(sorted(covering, key=_key_of))
        return self._forget_bills(changed)

    def _uncover(self, covered: CoveredQuota, name: str) -> None:
        covered.leave(name)
        self._covering[name] = tuple(each for each in self._covering[name] if each is not covered)

    def _forget_bills(self, namespaces: list[str]) -> list[str]:
        for name in namespaces:
            self._bills.pop(name, None)
        return namespaces

    # ------------------------------------------------------------------ bills

    def bill(self, profile: PodProfile, charge: Charge) -> Bill:
        """What a pod with this profile and this charge adds to which accounts."""
        # By address: a bill keeps its profile and charge alive, so no address is reused.
        # One number takes a third of the memory of a pair.
        key = id(profile) << ADDRESS_BITS | id(charge)
        bills = self._bills.get(profile.namespace)
        if bills is not None:
            held = bills.refs.get(key)
            if held is not None and (bill := held()) is not None:
                return bill
        covering = self._covering.get(profile.namespace)
        if covering is None:
            return Bill(profile, charge)
        matching = [each for each in covering if scopes.matches(each.scopes, profile)]
        amounts = charge.amounts_of(chain.from_iterable(each.accounts for each in matching))
        items: list[Item] = []
        shares: list[Item] = []
        is_fifo = False
        for covered in matching:
            own = _items(covered.accounts, amounts)
            items += own
            if covered.quota.selector is not None:
                shares += _items(covered.share(profile.namespace), amounts)
            is_fifo = is_fifo or (bool(own) and covered.quota.order is Order.FIFO)
        bill = Bill(profile, charge, items, shares, is_fifo=is_fifo)
        self._bills.setdefault(profile.namespace, Living()).keep(key, bill)
        self._recent.keep(key, bill)
        return bill
