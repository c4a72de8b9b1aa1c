"""The ClusterResourceQuotas of OpenShift, watched as long as the API server serves the kind.

Other clusters do not have the kind, and it may come and go. While it is absent, nothing is left to
ClusterResourceQuotas.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import Watched
from bursar.app.cluster.ports import Clock, Key
from bursar.app.cluster.sighting import sighted
from bursar.app.counting.feeds import WatchedKind
from bursar.app.counting.kind_feed import KindFeed
from bursar.app.quota.kinds import CLUSTER_RESOURCE_QUOTAS
from bursar.core.counting.kind_state import KindState
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.quota.unreadable import read_quota

OnQuota = Callable[[Sighting[QuotaObject]], None]


def _ignore(_seen: Sighting[QuotaObject]) -> None:
    """Do nothing. The default while no caller follows the quotas."""


@dataclass(eq=False)
class ClusterResourceQuotas:
    """All ClusterResourceQuotas. Call `run` once."""

    cluster: Watched
    clock: Clock
    random: Random
    on_change: OnQuota = _ignore
    on_delete: OnQuota = _ignore
    on_state: Callable[[], None] = lambda: None
    """Called when `state` has changed."""

    state: KindState = field(default=KindState.SYNCING, init=False)

    def __post_init__(self) -> None:
        self._quotas: dict[Key, Sighting[QuotaObject]] = {}
        kind = WatchedKind(
            resource=CLUSTER_RESOURCE_QUOTAS,
            decode=sighted(partial(read_quota, QuotaKind.OPENSHIFT)),
            see=self._see,
            lose=self._lose,
            set_state=self._set_state,
        )
        self._feed = KindFeed(self.cluster, self.clock, self.random, kind)

    def find(self, key: Key) -> Sighting[QuotaObject] | None:
        return self._quotas.get(key)

    async def wait_known(self) -> None:
        """Return when all ClusterResourceQuotas are known, or that the kind is not served."""
        await self._feed.wait_known()

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        await self._feed.run(lambda _pods: None)

    def _see(self, seen: Sighting[QuotaObject]) -> Iterable[PodRow]:
        self._quotas[seen.identity.key] = seen
        self.on_change(seen)
        return ()

    def _lose(self, seen: Sighting[QuotaObject]) -> Iterable[PodRow]:
        self._quotas.pop(seen.identity.key, None)
        self.on_delete(seen)
        return ()

    def _set_state(self, state: KindState) -> Iterable[PodRow]:
        is_changed, self.state = state is not self.state, state
        if state is not KindState.SYNCED:
            self._quotas.clear()
        if is_changed:
            self.on_state()
        return ()
