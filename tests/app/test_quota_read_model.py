"""What people ask about quotas, worked out from what was read."""

from dataclasses import replace

import pytest

from bursar.app.quota.views.inventory import Inventory, inventory_of
from bursar.app.quota.views.read_model import queue_report, quota_reports
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.quota import GATE, Quota, QuotaKind, QuotaObject
from bursar.core.quota.refusal import Reason
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from support.builders.pods import a_pod, main, parsed, texts
from support.builders.quota_books import UNGATED, a_quota, a_row

NOW_S = 1_000_000
TARGETING = Targeting(own_namespace="aaq")


def seen(quota: Quota, used: str = "") -> QuotaObject:
    return QuotaObject(quota=quota, reported_used=parsed(used))


def native(quota: Quota) -> Quota:
    return replace(quota, key=replace(quota.key, kind=QuotaKind.NATIVE))


def gated(name: str) -> NamespaceObject:
    return NamespaceObject(name=name, labels={GATING_LABEL: ""})


# ------------------------------------------------------------------ manifests


def test_what_names_no_namespace_is_in_the_default_one():
    quota = a_quota("x/q", "pods=1")
    bare = replace(quota, key=replace(quota.key, namespace=""))
    inventory = inventory_of([replace(a_pod(main()), namespace="")], [], [seen(bare)])

    assert inventory.rows[0].namespace == "default"
    assert inventory.quotas[0].quota.key.namespace == "default"
    assert inventory.undescribed == {"default"}


def test_a_cluster_wide_quota_is_in_no_namespace():
    inventory = inventory_of([], [], [seen(a_quota("q", "pods=1"))])

    assert inventory.quotas[0].quota.key.namespace == ""
    assert inventory.undescribed == frozenset()


def test_of_objects_with_the_same_name_the_last_one_holds():
    pods = [a_pod(main("cpu=1")), a_pod(main("cpu=3"))]
    quotas = [seen(a_quota("default/q", f"cpu={hard}")) for hard in (7, 9)]
    (report,) = quota_reports(inventory_of(pods, [], quotas), NOW_S)

    assert texts(report.used) == {"cpu": "3"}
    assert texts(report.seen.quota.hard) == {"cpu": "9"}


def test_pods_are_given_the_defaults_of_the_api_server():
    quotas = [seen(a_quota("default/q", "requests.cpu=9"))]
    (report,) = quota_reports(inventory_of([a_pod(main("", "cpu=2"))], [], quotas), NOW_S)

    assert texts(report.used) == {"requests.cpu": "2"}


# ------------------------------------------------------------------ quotas

ROWS = [a_row("a/runs", "cpu=1", gates=UNGATED), a_row("a/waits", "cpu=1")]
QUOTAS = [
    seen(a_quota("all", "cpu=9", selector="team"), "cpu=2"),
    seen(a_quota("a/q", "cpu=9 services=1 pods=9"), "cpu=1 services=1"),
    seen(native(a_quota("a/q", "cpu=9"))),
    seen(a_quota("b/q", "cpu=9"), "cpu=0"),
]
INVENTORY = Inventory(
    rows=ROWS,
    namespaces=[NamespaceObject(name="a", labels={"team": "blue"}), NamespaceObject(name="b")],
    quotas=QUOTAS,
)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, ["a/q", "a/q", "b/q", "all"]),
        ({"namespace": "a"}, ["a/q", "a/q", "all"]),
        ({"namespace": "b"}, ["b/q"]),
        ({"name": "q"}, ["a/q", "a/q", "b/q"]),
        ({"name": "all", "namespace": "b"}, []),
    ],
    ids=str,
)
def test_quotas_are_chosen_by_name_and_by_the_namespace_they_are_about(choice, expected):
    keys = [each.seen.quota.key for each in quota_reports(INVENTORY, NOW_S, **choice)]

    assert [f"{key.namespace}/{key.name}".lstrip("/") for key in keys] == expected


def test_differences_are_seen_where_something_is_shown_and_can_be_recounted():
    native_one, namespaced, _, cluster_wide = quota_reports(INVENTORY, NOW_S)

    def different(report):
        return [line.resource for line in report.lines if line.is_different]

    assert texts(native_one.used) == {"cpu": "2"}
    assert different(native_one) == []
    assert different(namespaced) == ["pods"]
    assert different(cluster_wide) == ["cpu"]
    assert cluster_wide.covered == ("a",)
    services = namespaced.lines[-1]
    assert (services.resource, services.used, str(services.reported)) == ("services", None, "1")


# ------------------------------------------------------------------ the queue


def test_pods_wait_for_aaqs_quotas_and_not_for_those_of_kubernetes():
    inventory = Inventory(
        rows=ROWS, namespaces=[gated("a")], quotas=[seen(native(a_quota("a/q", "cpu=1")))]
    )
    (free,) = queue_report(inventory, TARGETING, NOW_S)
    (held,) = queue_report(
        replace(inventory, quotas=[seen(a_quota("a/q", "cpu=1"))]), TARGETING, NOW_S
    )

    assert (free.reason, held.reason) == (None, Reason.QUOTA_EXCEEDED)


@pytest.mark.parametrize("uid", ["", "copied"])
def test_pods_without_a_uid_of_their_own_do_not_share_their_room(uid):
    rows = [a_row(f"a/p{index}", "cpu=1", uid=uid) for index in range(3)]
    inventory = Inventory(
        rows=rows, namespaces=[gated("a")], quotas=[seen(a_quota("a/q", "cpu=2"))]
    )
    listed = queue_report(inventory, TARGETING, NOW_S)

    assert [each.reason for each in listed] == [None, None, Reason.QUOTA_EXCEEDED]
    assert {each.row.stamp.uid for each in listed} == {uid}


def test_in_a_namespace_known_only_by_name_pods_are_held_back():
    pod = replace(a_pod(main("cpu=2")), scheduling_gates=(GATE,))
    quotas = [seen(a_quota("default/q", "cpu=1"))]
    (undescribed,) = queue_report(inventory_of([pod], [], quotas), TARGETING, NOW_S)
    plain = [NamespaceObject(name="default")]
    (described,) = queue_report(inventory_of([pod], plain, quotas), TARGETING, NOW_S)

    assert (undescribed.reason, described.reason) == (Reason.QUOTA_TOO_SMALL, None)


def test_a_pod_that_was_never_stored_is_the_latest_and_has_its_patience_left():
    rows = [
        a_row("a/new-large", "cpu=5"),
        a_row("a/new-small", "cpu=1"),
        a_row("a/old", "cpu=9", created_s=1),
        a_row("a/new-odd", gates=(GATE, "theirs")),
        a_row("a/runs", "cpu=5", gates=UNGATED),
    ]
    inventory = Inventory(
        rows=rows, namespaces=[gated("a")], quotas=[seen(a_quota("a/q", "cpu=8"))]
    )
    listed = queue_report(inventory, TARGETING, NOW_S)

    assert [(each.row.name, each.reason) for each in listed] == [
        ("old", Reason.QUOTA_TOO_SMALL),
        ("new-large", Reason.QUOTA_EXCEEDED),
        ("new-odd", Reason.OTHER_GATES),
        ("new-small", None),
    ]
    assert [each.row.stamp.created_s for each in listed] == [1, 0, 0, 0]
