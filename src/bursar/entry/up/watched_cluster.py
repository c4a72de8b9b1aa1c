"""A cluster that `bursar up` shows: informers of what it shows, and one overview of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import SystemRandom

import msgspec

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import EVENTS, LIMIT_RANGES
from bursar.app.cluster.observe import RunningInformer, Watched, observe
from bursar.app.cluster.observe_kinds import observe_namespaces, observe_nodes, observe_pods
from bursar.app.cluster.ports import ClusterError, ForbiddenError, NotFoundError
from bursar.app.names import OWN_NAMESPACE
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.views.inventory import inventory_of
from bursar.app.quota.views.read_model import (
    NO_BOOKS,
    BooksView,
    QuotaLine,
    places_of,
    queue_report,
)
from bursar.app.quota.wait_text import wait_text
from bursar.app.reports.overview import EventLine, Overview, OverviewReader, Policies
from bursar.app.reports.story import Story
from bursar.core.model.admission.limit_range import LimitRange
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE, QuotaKind, QuotaObject
from bursar.core.quota.targeting import Targeting
from bursar.wire.cluster.event import decode_event
from bursar.wire.model.admission_policies import decode_policy
from bursar.wire.quota.objects import decode_quota

View = Callable[[], BooksView]


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """A cluster that `bursar up` shows."""

    cluster: Watched
    view: View | None = None
    """Returns the books of a controller in this process; None if there is no such controller."""


class WatchedCluster:
    """The informers of a cluster. Nodes and pods are needed; the rest is shown as far as it can."""

    def __init__(self, shown: ShownCluster, story: Story) -> None:
        cluster, random = shown.cluster, SystemRandom()
        self._cluster = cluster
        self._view = shown.view
        self._story = story
        self._reader = OverviewReader()
        self._pods = observe_pods(cluster, SYSTEM_CLOCK, random)
        self._nodes = observe_nodes(cluster, SYSTEM_CLOCK, random)
        self._namespaces = observe_namespaces(cluster, SYSTEM_CLOCK, random)
        self._events = observe(cluster, SYSTEM_CLOCK, random, EVENTS, decode_event)
        self._limit_ranges = observe(
            cluster, SYSTEM_CLOCK, random, LIMIT_RANGES, _decode_limit_range
        )
        kinds = [QuotaKind.NATIVE]
        if self._view is None:
            # The books of this process have the others.
            kinds += [QuotaKind.NAMESPACED, QuotaKind.CLUSTER]
        self._quotas = [_observe_quotas(cluster, kind) for kind in kinds]

    @property
    def _needed(self) -> tuple[RunningInformer, ...]:
        return (self._pods, self._nodes)

    @property
    def last_error(self) -> ClusterError | None:
        """Why nodes or pods cannot be read; None if they can."""
        return next((each.last_error for each in self._needed if each.last_error), None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while the block runs."""
        others: list[RunningInformer] = [self._events, self._limit_ranges, *self._quotas]
        if self._view is None:
            others.append(self._namespaces)
        tasks = [asyncio.create_task(each.run()) for each in self._needed]
        tasks += [asyncio.create_task(self._run_if_readable(each)) for each in others]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_if_readable(self, informer: RunningInformer) -> None:
        """Watch a kind, unless the cluster does not have it or the user may not read it."""
        try:
            await self._cluster.list(informer.resource, limit=1)
        except NotFoundError:
            return
        except ForbiddenError as error:
            self._story.add(
                EventLine(
                    time=SYSTEM_CLOCK.now(),
                    namespace="",
                    kind="Process",
                    name="bursar up",
                    reason="Forbidden",
                    note=f"{informer.resource.plural} are not shown: {error.message}",
                    is_warning=True,
                )
            )
            return
        except ClusterError:
            pass  # the informer tries again, and reports it
        await informer.run()

    async def wait_synced(self) -> None:
        await asyncio.gather(*(each.wait_synced() for each in self._needed))

    def overview(self) -> Overview:
        """The overview of the cluster as of now."""
        pods = [each.item for each in self._pods.snapshot().objects()]
        quotas = [each.item for informer in self._quotas for each in informer.snapshot().objects()]
        self._story.see(pods, SYSTEM_CLOCK.now())
        policies = Policies(
            native_quotas=tuple(sorted(map(_quota_line, quotas), key=lambda line: line.key)),
            limit_ranges=tuple(each.item for each in self._limit_ranges.snapshot().objects()),
            events=self._story.with_events(each.item for each in self._events.snapshot().objects()),
        )
        view = self._view() if self._view is not None else self._recounted(quotas)
        nodes = (each.item for each in self._nodes.snapshot().objects())
        return self._reader.read(nodes, pods, view, policies)

    def _recounted(self, quotas: list[QuotaObject]) -> BooksView:
        """The queue of a cluster whose controller runs elsewhere, counted natively."""
        pods = [each.item for each in self._pods.snapshot().objects()]
        if not any(GATE in pod.scheduling_gates for pod in pods):
            return NO_BOOKS
        inventory = inventory_of(
            pods, [each.item for each in self._namespaces.snapshot().objects()], quotas
        )
        now_s = int(SYSTEM_CLOCK.now().timestamp())
        queue = queue_report(inventory, Targeting(own_namespace=OWN_NAMESPACE), now_s)
        return BooksView(
            reasons={
                PodKey(each.row.namespace, each.row.name): wait_text(each.refusals)
                for each in queue
                if each.refusals
            },
            places=places_of(queue),
        )


def _observe_quotas(cluster: Watched, kind: QuotaKind) -> Informer[Sighting[QuotaObject]]:
    return observe(
        cluster,
        SYSTEM_CLOCK,
        SystemRandom(),
        QUOTAS[kind],
        lambda body: decode_quota(kind, body),
    )


def _decode_limit_range(body: bytes) -> LimitRange:
    decoded = decode_policy("LimitRange", msgspec.json.decode(body))
    assert isinstance(decoded, LimitRange), "the kind says so"
    return decoded


def _quota_line(seen: QuotaObject) -> QuotaLine:
    """A quota as its status reports it."""
    hard = seen.quota.hard
    return QuotaLine(key=seen.quota.key, hard=hard, used=seen.reported_used, summary="")
