"""AAQ's families: names, labels, units and values as dashboards know them."""

from datetime import UTC, datetime

from bursar.adapters.telemetry.controller.quota_families import quota_families
from bursar.adapters.telemetry.exposition import exposition
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject, Reported
from support.builders.pods import parsed

CREATED = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def reported(kind, namespace, name, *, hard="", used="", created_at=CREATED, **more):
    return QuotaObject(
        quota=Quota(key=QuotaKey(kind, namespace, name)),
        reported_hard=parsed(hard),
        reported_used=parsed(used),
        created_at=created_at,
        **more,
    )


def lines_of(*quotas):
    text = exposition(quota_families(quotas)).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_u_met_01_creation_is_shown_under_both_names():
    a = reported(QuotaKind.NAMESPACED, "team-a", "one")
    b = reported(QuotaKind.NAMESPACED, "team-b", "two", created_at=None)

    assert lines_of(a, b) == [
        f'kube_application_aware_resourcequota_{name}{{resourcequota="one",namespace="team-a"}}'
        " 1767225605"
        for name in ("creation_timestamp", "creation_timestamp_seconds")
    ]


def test_u_met_02_limits_and_use_have_aaqs_labels_and_units():
    quota = reported(
        QuotaKind.NAMESPACED,
        "team-a",
        "one",
        hard="services=5 requests.cpu=1500m",
        used="services=2 requests.cpu=0",
        created_at=None,
    )
    labels = 'resourcequota="one",namespace="team-a"'

    assert lines_of(quota) == [
        f"kube_application_aware_resourcequota{{{labels},{rest}"
        for rest in (
            'resource="services",type="hard",unit="count"} 5',
            'resource="requests.cpu",type="hard",unit="core"} 1.5',
            'resource="services",type="used",unit="count"} 2',
            'resource="requests.cpu",type="used",unit="core"} 0',
        )
    ]


def test_short_names_of_machines_have_their_real_units():
    hard = "cpu/vmi=4 memory/vmi=1Gi instances/vmi=2 requests.memory/vmi=1"
    quota = reported(QuotaKind.NAMESPACED, "a", "q", hard=hard, created_at=None)

    assert [line.partition('resource="')[2] for line in lines_of(quota)] == [
        'cpu/vmi",type="hard",unit="core"} 4',
        'memory/vmi",type="hard",unit="bytes"} 1073741824',
        'instances/vmi",type="hard",unit="count"} 2',
        'requests.memory/vmi",type="hard",unit="bytes"} 1',
    ]


def test_cluster_wide_quotas_show_the_whole_and_each_part_apart():
    quota = reported(
        QuotaKind.CLUSTER,
        "",
        "all",
        hard="pods=9",
        used="pods=3",
        reported_namespaces={
            "a": Reported(hard=parsed("pods=9"), used=parsed("pods=1")),
            "b": Reported(hard=parsed("pods=9"), used=parsed("pods=2")),
        },
    )
    name, label = "kube_application_aware_clusterresourcequota", 'clusterresourcequota="all"'

    assert lines_of(quota) == [
        f'{name}{{{label},resource="pods",type="hard",unit="count"}} 9',
        f'{name}{{{label},resource="pods",type="used",unit="count"}} 3',
        f'{name}_namespace_used{{{label},namespace="a",resource="pods",unit="count"}} 1',
        f'{name}_namespace_used{{{label},namespace="b",resource="pods",unit="count"}} 2',
        f"{name}_creation_timestamp{{{label}}} 1767225605",
        f"{name}_creation_timestamp_seconds{{{label}}} 1767225605",
    ]


def test_quotas_of_kubernetes_itself_are_left_to_others():
    assert lines_of(reported(QuotaKind.NATIVE, "a", "q", hard="pods=1")) == []
