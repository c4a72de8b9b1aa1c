"""The accounts of pools: which of them a pod's namespace and requests concern."""

from collections.abc import Iterable
from typing import Final

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodProfile, PodRow
from bursar.core.pools.pool import Pool, Share
from bursar.core.pools.refusal import PoolReason, PoolRefusal, account_key
from bursar.core.quota.account import FORMATS, Account, Item


class PoolState:
    """A pool, its account, and the accounts of its shares."""

    __slots__ = ("account", "pool", "rival", "shares")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.account: Final = Account(account_key(pool.name), pool.resource, pool.capacity)
        self.shares: Final[dict[tuple[str, str], Account]] = {}
        """By name of the share and, if each namespace has its own maximum, by namespace."""
        self.rival = ""
        """The pool that is in use instead, because it is older and has the same resource."""

    @property
    def is_in_use(self) -> bool:
        return not self.rival and not self.pool.problem

    def share_account(self, share: Share, namespace: str) -> Account:
        place = namespace if share.is_per_namespace else ""
        found = self.shares.get((share.name, place))
        if found is None:
            key = account_key(self.pool.name, share.name, place)
            found = Account(key, self.pool.resource, share.maximum)
            self.shares[share.name, place] = found
        return found


class PoolAccounts:
    """The pools and namespaces of the cluster. Methods return whether bills have to be renewed."""

    def __init__(self) -> None:
        self._states: dict[str, PoolState] = {}
        self._by_resource: dict[str, PoolState] = {}
        """The pool in charge of each resource; it may have a problem."""
        self._namespaces: dict[str, NamespaceObject] = {}

    @property
    def states(self) -> list[PoolState]:
        return [self._states[name] for name in sorted(self._states)]

    # ------------------------------------------------------------------ facts

    def see_pool(self, pool: Pool) -> bool:
        known = self._states.get(pool.name)
        if known is not None and known.pool == pool:
            return False
        # Fresh accounts: the bills of all pods are made again, and fill them.
        self._states[pool.name] = PoolState(pool)
        self._choose()
        return True

    def lose_pool(self, name: str) -> bool:
        if self._states.pop(name, None) is None:
            return False
        self._choose()
        return True

    def see_namespace(self, namespace: NamespaceObject) -> bool:
        known = self._namespaces.get(namespace.name)
        self._namespaces[namespace.name] = namespace
        return known is None or known.labels != namespace.labels

    def lose_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)
        self.forget_shares(name)

    def forget_shares(self, namespace: str) -> None:
        """Forget the accounts of a namespace that is gone, unless a pod still uses them."""
        if namespace in self._namespaces:
            return
        for state in self._states.values():
            for share in state.pool.shares:
                found = state.shares.get((share.name, namespace))
                if found is not None and not found.charged and not found.promised:
                    del state.shares[share.name, namespace]

    def _choose(self) -> None:
        self._by_resource = {}
        for state in sorted(self._states.values(), key=lambda each: each.pool.age_rank):
            chosen = self._by_resource.setdefault(state.pool.resource, state)
            state.rival = "" if chosen is state else chosen.pool.name

    # ------------------------------------------------------------------ queries

    def is_known(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def names_of(self, row: PodRow) -> list[str]:
        """The resources of pools that the pod names, even with the amount 0."""
        amounts = row.demand.in_names(self._by_resource).quota_requests
        return sorted(name for name in self._by_resource if name in amounts)

    def problem_of(self, namespace: str, names: Iterable[str]) -> PoolRefusal | None:
        """Why pods of a known namespace cannot have these resources; None if they can."""
        labels = self._namespaces[namespace].labels
        for name in names:
            pool = self._by_resource[name].pool
            reason = None
            if pool.problem:
                reason = PoolReason.POOL_INVALID
            elif pool.selector is not None and not pool.selector.matches(labels):
                reason = PoolReason.NOT_ALLOWED
            if reason is not None:
                return PoolRefusal(reason=reason, pool=pool.name, resource=name)
        return None

    def items_of(self, row: PodRow) -> list[Item]:
        return self.items_of_profile(row.profile)

    def items_of_profile(self, profile: PodProfile) -> list[Item]:
        """What a pod adds to which accounts. Without the namespace, its shares are not known."""
        demand, items = profile.demand.in_names(self._by_resource), list[Item]()
        namespace = self._namespaces.get(profile.namespace)
        for name in sorted(self._by_resource):
            amount = demand.quota_requests.get(name)
            if amount is None or amount.nanos <= 0:
                continue
            state, index = self._by_resource[name], FORMATS.index(amount.format)
            items.append((state.account, amount.nanos, index))
            items += [
                (state.share_account(share, profile.namespace), amount.nanos, index)
                for share in state.pool.shares
                if namespace is not None and share.selector.matches(namespace.labels)
            ]
        return items
