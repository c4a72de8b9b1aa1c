"""The agent process: which parts it is made of."""

import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.device_sources import read_sources
from bursar.adapters.kube.access import ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.kubelet.access import READ_ONLY, KubeletAccess, kubelet_access
from bursar.adapters.kubelet.endpoint import (
    SECURE_PORT,
    Endpoint,
    EndpointSource,
    FixedEndpoint,
    NodeEndpoint,
)
from bursar.adapters.kubelet.http import KubeletLimits
from bursar.adapters.kubelet.pods import KubeletPods
from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.adapters.node.server import CODE_NAMES, PodResourcesServer
from bursar.adapters.node.socket_file import lock_socket
from bursar.adapters.node.socket_keeper import ADVICE, SocketKeeper, SocketOwner
from bursar.adapters.serving.message import Guard
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.status_page import Report, status_routes
from bursar.adapters.telemetry.agent.families import AgentView, agent_families
from bursar.adapters.telemetry.agent.health import (
    Health,
    Part,
    inventory_part,
    pods_part,
    socket_part,
)
from bursar.adapters.telemetry.agent.http import AGENT_LIMITS, agent_routes
from bursar.adapters.telemetry.agent.metrics import agent_metrics
from bursar.adapters.telemetry.agent.upstream import MeasuredKubelet
from bursar.adapters.telemetry.status.agent import agent_status
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.defaults import PodsFrom
from bursar.app.devices.events import BUDGET, DeviceReason, PodEvents, ProblemLog
from bursar.app.devices.node_pods import NodePods
from bursar.app.devices.planning import (
    CompatPlanning,
    HoldingPlanning,
    Planning,
    latest_pods,
)
from bursar.app.devices.ports import InventorySource, PodSource, Reporter
from bursar.app.devices.proxy import PodResourcesProxy
from bursar.app.devices.rate_limit import RateLimited
from bursar.app.devices.watch import ApiPods, WatchedInventory
from bursar.app.log import Log
from bursar.app.names import AGENT
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.processes.options.agent import AgentSettings
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import live_pods
from bursar.core.devices.source import Source
from bursar.entry.lifetime.lifetime import run_process
from bursar.entry.lifetime.state_dump import StateDump
from bursar.entry.metrics_access import metrics_guard, metrics_guard_without_cluster
from bursar.entry.process import cluster_access, start_server, tasks_of_process
from bursar.wire.devices.pod import DevicePodDecoder

if TYPE_CHECKING:
    from bursar.core.storage.pod import StoragePod
    from bursar.entry.agent_disk import DiskPart

LOG: Final = Log("agent")
LOOPBACK: Final = "127.0.0.1"
COLLECTOR_THRESHOLDS: Final = (5_000, 10, 10)
TROUBLE_SECONDS: Final = 1.0
"""How often the state of the pod source is compared with the last one; metrics show the rest."""


def run_agent(settings: AgentSettings) -> None:
    """Answer clients until SIGTERM or SIGINT. Raises `BadInputError`."""
    access = _find_cluster(settings)
    sources, state = read_sources(settings.sources_file), StateDump(LOG)
    run_process(
        LOG,
        settings.log,
        _work(settings, access, sources, state),
        state,
        node=settings.node,
        server="none" if access is None else access.server,
        context="" if access is None else access.context,
    )


def _find_cluster(settings: AgentSettings) -> ClusterAccess | None:
    """The cluster that was named, else the one this process runs in. Raises `BadInputError`.

    None if there is none: most of what an agent does needs only kubelet.
    """
    try:
        return cluster_access(settings.cluster)
    except BadInputError:
        if settings.cluster.is_named or settings.pods_from is PodsFrom.API:
            raise
        return None


# ------------------------------------------------------------------ what it is made of


class _NoInventory:
    def current(self) -> Inventory | None:
        return None


@dataclass(slots=True, kw_only=True)
class _Cluster:
    """The parts of an agent that need an API server."""

    inventory: WatchedInventory | None = None
    recorder: EventRecorder[DeviceReason] | None = None
    pods: ApiPods | None = None
    client: KubeClient | None = None

    def metrics_guard(self, settings: AgentSettings, host: str) -> Guard | None:
        if self.client is None:
            return metrics_guard_without_cluster(settings.metrics_auth, host)
        reviewer = TokenReviewer(self.client, SYSTEM_CLOCK)
        return metrics_guard(settings.metrics_auth, self.client, reviewer)


@dataclass(slots=True, kw_only=True)
class _Agent:
    settings: AgentSettings
    cluster: _Cluster
    kubelet: MeasuredKubelet
    proxy: PodResourcesProxy
    limited: RateLimited
    server: PodResourcesServer
    keeper: SocketKeeper
    calls: CallCounts
    disk: "DiskPart | None" = None

    @property
    def inventory(self) -> Inventory | None:
        return self.proxy.inventory.current()

    async def health(self) -> Health:
        pods = self.proxy.pods
        view = await pods.current()
        inventory = self.inventory
        return Health(
            (
                await self._serving(),
                await socket_part("kubelet", self.settings.kubelet_socket),
                pods_part(
                    is_usable=view is not None,
                    age_s=pods.age_s(),
                    last_error=pods.counts.last_error,
                ),
                inventory_part(
                    None if inventory is None else len(inventory.devices),
                    is_followed=self.cluster.inventory is not None,
                ),
            )
        )

    async def _serving(self) -> Part:
        path = self.settings.place.path
        if self.keeper.owner is SocketOwner.ANOTHER:
            return Part("serving", f"{path}: {ADVICE}")
        return await socket_part("serving", path)

    def metrics(self) -> bytes:
        disk = () if self.disk is None else self.disk.families()
        return agent_metrics(chain(agent_families(self._view()), disk), self.cluster.recorder)

    def status(self, uptime_s: float) -> Report:
        recorder = self.cluster.recorder
        events = 0 if recorder is None else recorder.waiting
        report = agent_status(self._view(), self.proxy.pods.known, events, uptime_s)
        return report if self.disk is None else {**report, "disk": self.disk.section()}

    def _view(self) -> AgentView:
        pods, now = self.proxy.pods, SYSTEM_CLOCK.monotonic()
        since = pods.counts.failing_since_s
        return AgentView(
            is_serving=self.keeper.owner is SocketOwner.AGENT,
            code_names=CODE_NAMES,
            calls=self.calls,
            rate_limited=self.limited.refused,
            upstream=self.kubelet.counts,
            proxy=self.proxy.counts,
            pods=pods.counts,
            pods_age_s=pods.age_s(),
            failing_s=0.0 if since is None else now - since,
            inventory=self.inventory,
        )


def _planning(settings: AgentSettings, sources: Sequence[Source]) -> Planning:
    if settings.is_compat:
        return CompatPlanning()
    return HoldingPlanning({each.name: each for each in sources}, settings.rules)


def _cluster(
    settings: AgentSettings, client: KubeClient | None, decoder: DevicePodDecoder
) -> _Cluster:
    if client is None:
        return _Cluster()
    random, is_watched = SystemRandom(), settings.pods_from is PodsFrom.API
    return _Cluster(
        client=client,
        inventory=WatchedInventory(client, settings.node, clock=SYSTEM_CLOCK, random=random),
        recorder=EventRecorder(
            client,
            SYSTEM_CLOCK,
            reasons=DeviceReason,
            component=AGENT,
            instance=settings.node,
            budget=BUDGET,
        )
        if settings.tells_events
        else None,
        pods=ApiPods(
            client, settings.node, clock=SYSTEM_CLOCK, random=random, decode=decoder.decode
        )
        if is_watched
        else None,
    )


def _reporter(recorder: EventRecorder[DeviceReason] | None) -> Reporter:
    return ProblemLog(
        LOG.warning, SYSTEM_CLOCK, also=None if recorder is None else PodEvents(recorder)
    )


# ------------------------------------------------------------------ kubelet's list of pods


def _kubelet_pods(
    settings: AgentSettings,
    access: ClusterAccess | None,
    client: KubeClient | None,
    decoder: DevicePodDecoder,
) -> KubeletPods:
    return KubeletPods(
        _endpoint(settings, client),
        _kubelet_access(settings, access),
        decode=decoder.decode_list,
        limits=KubeletLimits(seconds=settings.freshness.read_s),
    )


def _storage_decoder(settings: AgentSettings) -> "Callable[[bytes], StoragePod] | None":
    if settings.disk is None:
        return None
    from bursar.wire.storage.pod import decode_storage_pod  # noqa: PLC0415 - as for `disk_part`

    return decode_storage_pod


def _kubelet_access(settings: AgentSettings, access: ClusterAccess | None) -> KubeletAccess:
    if settings.pods_from is PodsFrom.READ_ONLY:
        return READ_ONLY
    return kubelet_access(settings.trust_in_kubelet, cluster=access, clock=SYSTEM_CLOCK)


def _endpoint(settings: AgentSettings, client: KubeClient | None) -> EndpointSource:
    is_read_only = settings.pods_from is PodsFrom.READ_ONLY
    port = settings.read_only_port if is_read_only else settings.kubelet_port
    if client is None or settings.kubelet_address:
        host = settings.kubelet_address or LOOPBACK
        return FixedEndpoint(Endpoint(host.strip("[]"), port or SECURE_PORT))
    return NodeEndpoint(client, settings.node, clock=SYSTEM_CLOCK, port=port)


# ------------------------------------------------------------------ the life of the agent


async def _work(
    settings: AgentSettings,
    access: ClusterAccess | None,
    sources: Sequence[Source],
    state: StateDump,
) -> None:
    if access is None:
        LOG.warning("no API server: devices have no inventory and pods get no events")
    decoder = DevicePodDecoder(sources, storage=_storage_decoder(settings))
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_socket(settings.place))
        client = None
        if access is not None:
            client = await stack.enter_async_context(
                KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom())
            )
        cluster = _cluster(settings, client, decoder)
        source: PodSource | None = cluster.pods
        if source is None:
            kubelet_pods = _kubelet_pods(settings, access, client, decoder)
            source = await stack.enter_async_context(kubelet_pods)
        socket = await stack.enter_async_context(
            KubeletSocket(settings.kubelet_socket, limits=settings.kubelet)
        )
        kubelet = MeasuredKubelet(socket, SYSTEM_CLOCK)
        found = _composed(settings, cluster, source, kubelet, sources=sources)
        if settings.disk is not None:
            # Imported here, because an agent without --disk need not load it.
            from bursar.entry.agent_disk import DiskNeeds, disk_part  # noqa: PLC0415

            needs = DiskNeeds(
                node=settings.node,
                client=client,
                endpoint=_endpoint(settings, client),
                access=_kubelet_access(settings, access),
                limits=KubeletLimits(seconds=settings.freshness.read_s),
            )
            found.disk = await stack.enter_async_context(
                disk_part(settings.disk, needs, found.proxy.pods)
            )
        await _run(found, state)


def _composed(
    settings: AgentSettings,
    cluster: _Cluster,
    source: PodSource,
    kubelet: MeasuredKubelet,
    *,
    sources: Sequence[Source],
) -> _Agent:
    inventory: InventorySource = cluster.inventory or _NoInventory()
    proxy = PodResourcesProxy(
        kubelet=kubelet,
        pods=NodePods(
            source,
            SYSTEM_CLOCK,
            settings.freshness,
            by_key=latest_pods if settings.is_compat else live_pods,
            watched=None if cluster.pods is None else cluster.pods.cached,
        ),
        inventory=inventory,
        planning=_planning(settings, sources),
        reporter=_reporter(cluster.recorder),
        clock=SYSTEM_CLOCK,
        rules=settings.proxy,
    )
    limited, calls = RateLimited(proxy, clock=SYSTEM_CLOCK, rules=settings.rate), CallCounts()
    server = PodResourcesServer(limited, clock=SYSTEM_CLOCK, counts=calls)
    return _Agent(
        settings=settings,
        cluster=cluster,
        kubelet=kubelet,
        proxy=proxy,
        limited=limited,
        server=server,
        keeper=SocketKeeper(server, settings.place, clock=SYSTEM_CLOCK),
        calls=calls,
    )


async def _run(found: _Agent, state: StateDump) -> None:
    def report() -> Report:
        return found.status(state.uptime_s)

    state.report = report
    # The HTTP server starts first: if it cannot listen, no client has found a socket yet.
    async with _shown(found, report), tasks_of_process() as tasks:
        cluster = found.cluster
        for work in (cluster.inventory, cluster.recorder, cluster.pods):
            if work is not None:
                tasks.create_task(work.run())
        if found.disk is not None:
            tasks.create_task(found.disk.accounting.run())
        tasks.create_task(_serve(found))
        tasks.create_task(_tell_of_trouble(found.proxy.pods))


async def _serve(found: _Agent) -> None:
    """Answer clients until cancelled, then end in order. The socket's file stays."""
    # Objects that exist now live as long as the process, so the garbage collector can skip them.
    gc.collect()
    gc.freeze()
    # Nearly all later objects are freed without the collector. A collection delays an answer.
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    try:
        await found.keeper.run()
    finally:
        await found.server.stop()
        await found.proxy.pods.close()


async def _tell_of_trouble(pods: NodePods) -> None:
    """Log when the pods can no longer be read, and when they can be read again."""
    was_failing = False
    while True:
        await SYSTEM_CLOCK.sleep(TROUBLE_SECONDS)
        is_failing = pods.counts.failing_since_s is not None
        if is_failing and not was_failing:
            LOG.warning("cannot read the pods of this node", error=pods.counts.last_error)
        elif was_failing and not is_failing:
            LOG.info("can read the pods of this node again")
        was_failing = is_failing


@asynccontextmanager
async def _shown(found: _Agent, report: Callable[[], Report]) -> AsyncIterator[None]:
    bind = found.settings.bind
    if bind is None:
        yield
        return
    guard = found.cluster.metrics_guard(found.settings, bind[0])
    routes = agent_routes(metrics=found.metrics, health=found.health, metrics_guard=guard)
    every = {**routes, **status_routes(report, guard)}
    if found.disk is not None:
        every |= found.disk.routes(guard)
    server = HttpServer(every, clock=SYSTEM_CLOCK, limits=AGENT_LIMITS)
    LOG.info("serving metrics", address=await start_server(server, bind))
    try:
        yield
    finally:
        await server.stop()
