"""The status reports of processes: what they say, and that they name no tenant."""

from datetime import UTC, datetime, timedelta

import pytest

from bursar import __version__
from bursar.adapters.serving.status_page import report_text
from bursar.adapters.telemetry.agent.families import AgentView
from bursar.adapters.telemetry.agent.upstream import UpstreamCounts
from bursar.adapters.telemetry.certificates.served import ServedCertificate
from bursar.adapters.telemetry.controller.metrics import controller_metrics
from bursar.adapters.telemetry.status.agent import agent_status
from bursar.adapters.telemetry.status.controller import controller_status
from bursar.adapters.telemetry.status.operator import operator_status
from bursar.adapters.telemetry.status.process import bytes_per_pod, process_section
from bursar.adapters.telemetry.status.webhook import webhook_status
from bursar.app.devices.counters import CallCounts, ProxyCounts
from bursar.app.devices.node_pods import FreshnessCounts
from bursar.core.devices.inventory import Device, Inventory
from bursar.core.quota.quota import QuotaKey, QuotaKind
from support.metrics.printed_metrics import NoLimiter, series_of
from support.operator.scene import on_scene
from support.quota.aaq_controller import TEAM, AaqScene

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def status(controller):
    return controller_status(controller, NoLimiter(), 5.9)


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    await scene.quota("pods=1", name="compute-of-tenant")
    return scene


async def test_a_leader_shows_pods_queues_ledger_and_caches(scene):
    async with scene.at_work() as controller:
        await scene.gated_pod("first")
        await scene.moment()
        for name in ("second", "third"):
            await scene.gated_pod(name)
        await scene.moment(90)
        report = status(controller)

        shown = {each.name: each.value for each in series_of(metrics(controller))}

    assert report["process"]["version"] == __version__
    assert report["process"]["uptime_seconds"] == 5
    assert report["leadership"] == {
        "leader": True,
        "holder": "one",
        "synced": True,
        "problem": "none",
    }
    pods = report["pods"]
    assert (pods["known"], pods["charged"], pods["waiting"]) == (3, 1, 2)
    assert str(pods["charged"]) == shown["bursar_ledger_pods"]
    assert pods["oldest_waiting_seconds"] == 90
    assert pods["resident_bytes_per_pod"] == report["process"]["resident_bytes"] // 3
    assert report["waiting_by_reason"]["QuotaExceeded"] == 2
    assert report["queues"]["releases_in_flight"] == 0
    assert report["queues"]["reconcile_status"] == 0
    assert report["ledger"]["quotas"] == 1
    assert report["ledger"]["resize_promises"] == 0
    assert report["ledger"]["drift_accounts"] == 0
    assert report["caches"]["pods"] == 3
    assert report["cache_age_seconds"].keys() == report["caches"].keys()


def metrics(controller):
    return controller_metrics(controller, NoLimiter()).decode()


async def test_a_report_names_no_tenant(scene):
    await scene.gated_pod("pod-of-tenant")
    async with scene.at_work() as controller:
        await scene.gated_pod("another-of-tenant")
        await scene.moment(5)
        text = report_text(status(controller))

    assert TEAM not in text
    assert "tenant" not in text


async def test_a_replica_that_does_not_lead_says_why_and_shows_no_books(scene):
    async with scene.started() as controller:
        report = status(controller)

    assert report["leadership"]["leader"] is False
    assert report["leadership"]["problem"] == "no controller leads yet"
    assert report.keys() == {"process", "leadership", "requests"}


async def test_the_queue_of_a_loop_is_shown(scene):
    async with scene.at_work() as controller:
        key = QuotaKey(QuotaKind.NAMESPACED, TEAM, "compute-of-tenant")
        controller.term.statuses.enqueue([key])  # reconciled when this task waits

        assert status(controller)["queues"]["reconcile_status"] == 1
        await scene.moment()
        assert status(controller)["queues"]["reconcile_status"] == 0


def test_a_webhook_shows_reviews_gating_and_its_certificate():
    served = ServedCertificate(not_after=NOW + timedelta(hours=1), loads=2, invalid=1)
    report = webhook_status(
        {"allowed": 3}, {"rewritten": 1}, served, is_gating=True, now=NOW, uptime_s=1
    )

    assert report["reviews"] == {"allowed": 3}
    assert report["peer_pods"] == {"rewritten": 1}
    assert report["gating"] == {"active": True}
    assert report["certificate"] == {"expires_seconds": 3600, "loads": 2, "invalid": 1}
    unknown = ServedCertificate(not_after=None, loads=0, invalid=0)
    report = webhook_status({}, {}, unknown, is_gating=False, now=NOW, uptime_s=1)
    assert report["certificate"]["expires_seconds"] is None


@pytest.mark.parametrize("devices", [None, 2])
def test_an_agent_shows_its_pods_and_devices(devices):
    found = [Device(kind="gpu", minor=n, id=f"g{n}") for n in range(devices or 0)]
    view = AgentView(
        is_serving=True,
        code_names={},
        calls=CallCounts(),
        rate_limited=0,
        upstream=UpstreamCounts(),
        proxy=ProxyCounts(),
        pods=FreshnessCounts(reads=4, failures=1),
        pods_age_s=None,
        failing_s=2.0,
        inventory=None if devices is None else Inventory(tuple(found)),
    )
    report = agent_status(view, 0, 3, 60)

    assert report["pods"] == {
        "known": 0,
        "age_seconds": None,
        "failing_seconds": 2.0,
        "resident_bytes_per_pod": None,
    }
    assert report["caches"] == {"inventory_devices": devices, "reads": 4, "read_failures": 1}
    assert report["queues"] == {"calls_under_way": 0, "events": 3}


def test_without_proc_memory_is_not_known(tmp_path):
    assert process_section(1, tmp_path)["resident_bytes"] is None
    assert process_section(1, tmp_path)["open_files"] is None
    assert bytes_per_pod(None, 3) is None
    assert bytes_per_pod(9, 0) is None


@on_scene
async def test_an_operator_shows_its_installation(scene):
    await scene.create_aaq()
    operator = scene.start()
    await scene.deploy()
    report = operator_status(operator, NoLimiter(), 1.0)

    assert report["leadership"] == {"leader": True, "problem": "none"}
    shown = report["installation"]
    assert (shown["phase"], shown["unwanted_objects"]) == ("Deployed", 0)
    assert (shown["ready_aaq-controller"], shown["ready_aaq-server"]) == (2, 2)
    assert "installation" not in operator_status(scene.start(identity="two"), NoLimiter(), 1.0)
