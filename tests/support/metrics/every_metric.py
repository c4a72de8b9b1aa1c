"""The pages of processes in which everything happens: every metric has a sample."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.extender.routes import request_counts
from bursar.adapters.kube.limiter import Limiter
from bursar.adapters.telemetry.agent.families import AgentView, agent_families
from bursar.adapters.telemetry.agent.metrics import agent_metrics
from bursar.adapters.telemetry.agent.upstream import UpstreamCounts
from bursar.adapters.telemetry.certificates.kept import keeper_families
from bursar.adapters.telemetry.certificates.served import ServedCertificate, served_families
from bursar.adapters.telemetry.controller.capacity_families import CapacityView, capacity_families
from bursar.adapters.telemetry.controller.families import (
    ControllerView,
    TermView,
    controller_families,
)
from bursar.adapters.telemetry.controller.policy_families import policy_families
from bursar.adapters.telemetry.controller.sidecar_families import sidecar_families
from bursar.adapters.telemetry.disk.families import DiskView, disk_families
from bursar.adapters.telemetry.exposition import SAMPLES_MAX, exposition
from bursar.adapters.telemetry.extender.families import extender_metrics
from bursar.adapters.telemetry.operator.families import operator_metrics
from bursar.adapters.telemetry.process import process_families, trace_families
from bursar.adapters.telemetry.reconcile_families import reconcile_families
from bursar.adapters.telemetry.webhook_families import webhook_families
from bursar.app.capacity.usage import ExtendedUsage
from bursar.app.certificates.keeper import KeeperCounters
from bursar.app.cluster.events.recorder import Drop
from bursar.app.cluster.informer.informer import InformerCounters
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.reconcile import ReconcileCounters
from bursar.app.counting.sidecars.feed import SidecarFeed
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.app.devices.ports import Method, Version
from bursar.app.names import WEBHOOK
from bursar.app.quota.departed_quotas import DepartedQuotas
from bursar.app.quota.drift import Drift
from bursar.app.quota.quota_loop import QuotaCounters
from bursar.app.quota.refused_writes import RefusedWrites
from bursar.app.quota.release.lifting import LiftCounters
from bursar.app.storage.accounting import StorageCounts
from bursar.app.storage.ports import DiskCounts
from bursar.app.storage.report import GrowthHistory, NodeFacts, node_report
from bursar.app.tracing import TraceCounts
from bursar.core.certificates.decision import Reason as CertificateReason
from bursar.core.counting.sidecars import SidecarCounter, SidecarRules
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.capacity import CapacityNode
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.names import Unit
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject, Reported
from bursar.core.storage.pressure import Filesystem, parse_thresholds
from bursar.wire.counting.pod_body import keep_body
from support.builders.pods import parsed
from support.builders.quota_books import a_namespace, a_quota, a_row, running
from support.counting.policies import a_counter, a_policy
from support.counting.policies import a_row as a_policy_row
from support.counting.scripted_sidecars import ScriptedSockets
from support.extender.scene import ExtenderScene
from support.nodes.storage import a_disk_use, a_storage_pod
from support.operator.scene import OperatorScene, on_scene
from support.virtual_time import in_virtual_time

NOW = datetime(2027, 1, 1, tzinfo=UTC)


class Followed:
    resource = PODS
    staleness_seconds = 1.5
    counters = InformerCounters()

    def __len__(self) -> int:
        return 42


@dataclass
class Told:
    """The counts of a recorder of events."""

    dropped: dict[Drop, int]
    waiting: int


# ------------------------------------------------------------------ processes in which all happens


def overdrawn_books() -> Books:
    books = Books(NativeCounter().count)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "pods=1"))
    for name in ("one", "two"):
        books.see_pod(running(a_row(f"a/{name}", "cpu=1")))
    return books


def quotas() -> list[QuotaObject]:
    amounts = {"reported_hard": parsed("pods=9"), "reported_used": parsed("pods=3")}
    own = QuotaObject(
        quota=Quota(key=QuotaKey(QuotaKind.NAMESPACED, "a", "q")), created_at=NOW, **amounts
    )
    wide = QuotaObject(
        quota=Quota(key=QuotaKey(QuotaKind.CLUSTER, "", "wide")),
        created_at=NOW,
        reported_namespaces={"a": Reported(hard=parsed("pods=9"), used=parsed("pods=3"))},
        **amounts,
    )
    return [own, wide]


async def _never(_key: object) -> bool:
    return False


def controller_view() -> ControllerView:
    return ControllerView(
        is_leader=True,
        informers=(Followed(),),
        limiter=Limiter(floor=2, ceiling=32, growth_after=20),
        recorders=(),
        term=TermView(
            books=overdrawn_books(),
            loop=QuotaCounters(),
            lifts=LiftCounters(),
            quotas=quotas(),
            drift=Drift(accounts=0, largest=dict.fromkeys(Unit, Quantity.of(0)), count_seconds=0.0),
            refused=RefusedWrites(lambda _key, _text: None),
            departed=DepartedQuotas(SYSTEM_CLOCK, _never, lambda _: None),
            mismatches={"MutatingWebhookConfiguration gating-mutator": True},
        ),
    )


def counting_families():
    counter = SidecarCounter(SidecarRules(expected=1), keep_body)
    yield from sidecar_families([SidecarFeed(counter, ScriptedSockets(), SYSTEM_CLOCK)])
    policies = a_counter(a_policy("p", charges={"x": "1"}))
    row = a_policy_row("pod")
    policies.see_pod(row)
    policies.count(row)
    yield from policy_families(policies.report())


def certificate_families():
    kept = KeeperCounters()
    kept.authorities[CertificateReason.MISSING] += 1
    yield from served_families(ServedCertificate(not_after=NOW, loads=0, invalid=0), NOW)
    yield from keeper_families(kept, {"ca": NOW}, NOW)


def controller_text(samples_max: int = SAMPLES_MAX) -> str:
    failed = ReconcileCounters(failures_by_class=Counter(ForbiddenError=1))
    node = CapacityNode(name="n", capacity={}, marked={"example.com/a": 4})
    families = [
        *controller_families(controller_view()),
        *reconcile_families({"status": failed}),
        *capacity_families(CapacityView(nodes=[node], usage=ExtendedUsage(), healed=0)),
        *counting_families(),
        *certificate_families(),
        *trace_families(TraceCounts()),
        *process_families(),
    ]
    return exposition(families, samples_max=samples_max).decode()


def webhook_text(samples_max: int = SAMPLES_MAX) -> str:
    served = ServedCertificate(not_after=NOW, loads=0, invalid=0)
    families = [
        *webhook_families(dict.fromkeys("abcdef", 1), {"rewritten": 1}, 1),
        *served_families(served, NOW),
        *trace_families(TraceCounts()),
        *process_families(),
    ]
    return exposition(families, samples_max=samples_max).decode()


def agent_text() -> str:
    calls, upstream = CallCounts(), UpstreamCounts()
    calls.end(Version.V1, Method.LIST, 0, nanos=1, size=1)
    upstream.end(Version.V1, Method.LIST, 0, 1.0)
    view = AgentView(
        is_serving=True,
        code_names={0: "OK"},
        calls=calls,
        rate_limited=0,
        upstream=upstream,
        proxy=ProxyCounts(),
        pods=FreshnessCounts(),
        pods_age_s=1.0,
        failing_s=0.0,
        inventory=Inventory((Device(kind="gpu", minor=0, id="g"),)),
    )
    families = chain(agent_families(view), disk_families(a_disk_view()))
    return agent_metrics(families, Told(dict.fromkeys(Drop, 1), 1)).decode()


def a_disk_view() -> DiskView:
    pod = a_storage_pod(volumes=["cache=1"])
    facts = NodeFacts(
        node="n1",
        at_ms=0,
        pods=[pod],
        disk={pod.uid: a_disk_use(cache=2)},
        nodefs=Filesystem(capacity=10, available=5),
        allocatable=9,
        thresholds=parse_thresholds("nodefs.available<1"),
    )
    report = node_report(facts, GrowthHistory())
    return DiskView(counts=StorageCounts(), scans=DiskCounts(), report=report)


def operator_text(*, is_webhook_down: bool = False) -> str:
    """The metrics of an operator that leads, with a certificate and a deployed installation."""
    served = ServedCertificate(not_after=NOW, loads=0, invalid=0)
    limiter = Limiter(floor=2, ceiling=32, growth_after=20)
    texts = []

    @on_scene
    async def deploy(scene: OperatorScene) -> None:
        await scene.create_aaq()
        operator = scene.start()
        await scene.deploy()
        if is_webhook_down:
            await scene.make_ready(WEBHOOK, replicas=0)
            await scene.pass_time()
        texts.append(operator_metrics(operator, limiter, served, TraceCounts()).decode())

    deploy()
    return texts[0]


def extender_text() -> str:
    """The metrics of an extender that leads, with a pool and a pod that holds a part of it."""
    served = ServedCertificate(not_after=NOW, loads=0, invalid=0)
    limiter = Limiter(floor=2, ceiling=32, growth_after=20)
    texts = []

    @in_virtual_time(on=ExtenderScene)
    async def lead(scene: ExtenderScene) -> None:
        extender = await scene.leading()
        await scene.pool(5)
        extender.filter(await scene.pod("held"))
        texts.append(extender_metrics(extender, request_counts(), limiter, served).decode())

    lead()
    return texts[0]
