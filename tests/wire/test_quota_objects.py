"""Quotas and namespaces from the API's words to the core's."""

import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import (
    Order,
    QuotaKey,
    QuotaKind,
    QuotaObject,
    Reported,
    ReportedCondition,
)
from bursar.core.quota.scopes import ScopeRule
from bursar.wire.documents.stream import read_documents
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.objects import ObjectError, Skipped, read_objects
from bursar.wire.quota.objects import decode_quota, quota_in_manifest
from bursar.wire.structs.fields import FieldError
from support.builders.pods import parsed

ORDER = "bursar.io/order"
NAMESPACED = {
    "apiVersion": "aaq.kubevirt.io/v1alpha1",
    "kind": "ApplicationAwareResourceQuota",
    "metadata": {
        "name": "q",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"a": "b", "c": None},
        "annotations": {ORDER: "strict"},
        "deletionTimestamp": "2026-01-02T12:00:00Z",
        "ownerReferences": [{"uid": "other"}, {"uid": "owner", "controller": True}],
    },
    "spec": {
        "hard": {"pods": 5, "requests.cpu": "1500m", "memory": None, "cpu/vmi": 2.5},
        "scopes": ["BestEffort"],
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}
            ]
        },
        "unknown": {"deep": [1]},
    },
    "status": {
        "hard": {"pods": "5"},
        "used": {"pods": "3"},
        "summary": "pods 3/5",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Counted",
                "message": "all is well",
                "lastTransitionTime": "2026-01-02T12:00:00Z",
                "observedGeneration": 2,
            }
        ],
    },
}
CLUSTER_WIDE = {
    "apiVersion": "aaq.kubevirt.io/v1alpha1",
    "kind": "ApplicationAwareClusterResourceQuota",
    "metadata": {"name": "q", "uid": "u-2", "resourceVersion": "8"},
    "spec": {
        "quota": {"hard": {"pods": "5"}, "scopes": ["Terminating"]},
        "selector": {
            "labels": {
                "matchLabels": {"team": "blue"},
                "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["test"]}],
            },
            "annotations": {"owner": "ann"},
        },
    },
    "status": {
        "total": {"hard": {"pods": "5"}, "used": {"pods": "3"}},
        "namespaces": [
            {"namespace": "one", "status": {"used": {"pods": "1"}}},
            {"namespace": "two", "status": {"hard": {"pods": "5"}, "used": {"pods": "2"}}},
            {"namespace": "three"},
        ],
    },
}


def body_of(raw):
    return json.dumps(raw).encode()


def namespaced(kind=QuotaKind.NAMESPACED, **changes):
    return decode_quota(kind, body_of({**NAMESPACED, **changes}))


def cluster_wide(**changes):
    return decode_quota(QuotaKind.CLUSTER, body_of({**CLUSTER_WIDE, **changes}))


def with_selector(selector):
    return cluster_wide(spec={"quota": {}, "selector": selector}).quota.selector


def refusal(kind, raw):
    with pytest.raises(FieldError) as caught:
        decode_quota(kind, body_of(raw))
    return caught.value.field


# ------------------------------------------------------------------ what arrives


def test_every_field_of_a_namespaced_quota_arrives():
    read = namespaced()

    assert read.quota.key == QuotaKey(QuotaKind.NAMESPACED, "shop", "q")
    assert read.quota.uid == "u-1"
    assert {name: str(amount) for name, amount in read.quota.hard.items()} == {
        "pods": "5",
        "requests.cpu": "1500m",
        "memory": "0",
        "cpu/vmi": "2500m",
    }
    assert read.quota.scopes == (
        ScopeRule("BestEffort", "Exists"),
        ScopeRule("PriorityClass", "In", ("high", "low")),
    )
    assert read.quota.selector is None
    assert (read.quota.order, read.order_problem) == (Order.STRICT, "")
    assert (read.resource_version, read.generation, read.is_deleting) == ("7", 3, True)
    assert read.owner_uid == "owner"
    assert read.labels == {}, "only those of managed quotas are looked at"
    assert namespaced(QuotaKind.NATIVE).labels == {"a": "b", "c": ""}


def test_every_field_of_a_reported_status_arrives():
    read = namespaced()

    assert read.reported_hard == parsed("pods=5")
    assert read.reported_used == parsed("pods=3")
    assert read.reported_namespaces == {}
    assert read.reported_summary == "pods 3/5"
    assert read.reported_conditions == (
        ReportedCondition(
            type="Ready",
            status="True",
            reason="Counted",
            message="all is well",
            changed_at=datetime(2026, 1, 2, 12, tzinfo=UTC),
            observed_generation=2,
        ),
    )
    assert read.status_problem == ""


def test_a_native_quota_is_written_like_a_namespaced_one():
    native = namespaced(QuotaKind.NATIVE)

    assert native.quota.key == QuotaKey(QuotaKind.NATIVE, "shop", "q")
    assert native.quota.hard == namespaced().quota.hard
    assert native.reported_used == parsed("pods=3")


def test_a_cluster_wide_quota_reports_the_total_and_each_namespace():
    read = cluster_wide()

    assert read.quota.key == QuotaKey(QuotaKind.CLUSTER, "", "q")
    assert read.quota.hard == parsed("pods=5")
    assert read.quota.scopes == (ScopeRule("Terminating", "Exists"),)
    assert (read.reported_hard, read.reported_used) == (parsed("pods=5"), parsed("pods=3"))
    assert read.reported_namespaces == {
        "one": Reported(used=parsed("pods=1")),
        "two": Reported(hard=parsed("pods=5"), used=parsed("pods=2")),
        "three": Reported(),
    }


def test_what_is_missing_or_null_is_nothing():
    bare = decode_quota(QuotaKind.NAMESPACED, b'{"metadata": {"name": "q"}, "spec": null}')

    assert bare.quota.hard == {}
    assert bare.quota.scopes == ()
    assert (bare.quota.order, bare.order_problem) == (Order.BACKFILL, "")
    assert (bare.resource_version, bare.generation, bare.is_deleting) == ("", 0, False)
    assert (bare.owner_uid, bare.reported_hard, bare.reported_conditions) == ("", {}, ())
    assert cluster_wide(status={"total": {}, "namespaces": None}).reported_namespaces == {}


def test_a_date_that_cannot_be_read_does_not_hide_the_quota():
    dated = {"name": "q", "namespace": "shop", "creationTimestamp": "yesterday"}

    assert namespaced(metadata=dated).created_at is None


# ------------------------------------------------------------------ which namespaces


def test_labels_and_annotations_must_both_match():
    selector = cluster_wide().quota.selector

    assert selector.matches({"team": "blue"}, {"owner": "ann", "more": "x"})
    assert not selector.matches({"team": "blue"}, {"owner": "bob"})
    assert not selector.matches({"team": "blue", "stage": "test"}, {"owner": "ann"})


@pytest.mark.parametrize(
    "selector",
    [{}, {"labels": None}, {"annotations": None}, {"labels": {}}, {"labels": None, "x": 1}],
)
def test_a_selector_without_conditions_means_every_namespace(selector):
    assert with_selector(selector).matches({}, {})
    assert with_selector(selector).matches({"a": "b"}, {"c": "d"})


def test_absent_labels_are_told_from_empty_ones():
    assert with_selector({}).labels is None
    assert with_selector({"labels": {}}).labels is not None


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hard": {"pods": "many"}}, "spec.hard[pods]"),
        ({"hard": {"a.b/c": True}}, "spec.hard[a.b/c]"),
        ({"hard": {"pods": "1e99999999999999999999"}}, "spec.hard[pods]"),
        ({"hard": {"pods": {"a": 1}}}, "spec.hard[pods]"),
        ({"hard": ["pods"]}, "spec.hard"),
        ({"scopes": "BestEffort"}, "spec.scopes"),
        ({"scopeSelector": {"matchExpressions": [3]}}, "spec.scopeSelector.matchExpressions[0]"),
        ("limits", "spec"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused_by_its_field(spec, field):
    assert refusal(QuotaKind.NAMESPACED, {**NAMESPACED, "spec": spec}) == field


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (None, "spec.quota"),
        ({"selector": {}}, "spec.quota"),
        ({"quota": {}}, "spec.selector"),
        ({"quota": {"hard": {"pods": "x"}}, "selector": {}}, "spec.quota.hard[pods]"),
        (
            {"quota": {}, "selector": {"labels": {"matchLabels": {"a b": "c"}}}},
            "spec.selector.labels",
        ),
        (
            {
                "quota": {},
                "selector": {"labels": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}},
            },
            "spec.selector.labels",
        ),
        (
            {"quota": {}, "selector": {"annotations": {"a": 1}}},
            "spec.selector.annotations[a]",
        ),
    ],
)
def test_a_selector_that_cannot_be_read_is_refused_by_its_field(spec, field):
    assert refusal(QuotaKind.CLUSTER, {**CLUSTER_WIDE, "spec": spec}) == field


def test_a_quota_without_a_name_is_refused():
    assert refusal(QuotaKind.NAMESPACED, {}) == "metadata.name"
    assert refusal(QuotaKind.CLUSTER, {**CLUSTER_WIDE, "metadata": None}) == "metadata.name"


def test_nesting_beyond_measure_is_refused():
    deep = b'{"metadata": {"name": "q"}, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    with pytest.raises(FieldError, match="nested too deeply"):
        decode_quota(QuotaKind.NAMESPACED, deep)


# ------------------------------------------------------------------ what is put up with


def test_an_unknown_order_is_the_default_and_said():
    read = namespaced(metadata={"name": "q", "annotations": {ORDER: "lifo"}})

    assert read.quota.order is Order.BACKFILL
    assert read.order_problem == (
        'metadata.annotations[bursar.io/order]: "lifo" is none of backfill, strict, fifo'
    )


@pytest.mark.parametrize("order", Order)
def test_every_order_can_be_asked_for(order):
    read = namespaced(metadata={"name": "q", "annotations": {ORDER: order.value}})

    assert (read.quota.order, read.order_problem) == (order, "")


def test_a_status_that_cannot_be_read_does_not_hide_the_limits():
    read = namespaced(status={"hard": {"pods": "x"}, "summary": "pods 3/5"})

    assert read.quota.hard["pods"] == Quantity.parse("5")
    assert (read.reported_hard, read.reported_summary) == ({}, "")
    assert read.status_problem.startswith("status.hard[pods]: ")
    twisted = cluster_wide(status={"namespaces": [{"status": {"used": {"pods": "x"}}}]})
    assert twisted.status_problem.startswith("status.namespaces[0].status.used[pods]: ")


def test_a_limit_below_zero_is_read_from_a_server_and_refused_in_a_manifest():
    """The schema of the kinds lets it pass, and reading it lets no pod pass."""
    spec = {"hard": {"pods": "-1"}}

    assert namespaced(spec=spec).quota.hard["pods"].is_negative
    with pytest.raises(FieldError, match=r"^spec\.hard\[pods\]: .*greater than or equal to 0"):
        quota_in_manifest(QuotaKind.NAMESPACED, {**NAMESPACED, "spec": spec})
    with pytest.raises(FieldError, match=r"^spec\.quota\.hard\[pods\]: "):
        quota_in_manifest(
            QuotaKind.CLUSTER, {**CLUSTER_WIDE, "spec": {"quota": spec, "selector": {}}}
        )


# ------------------------------------------------------------------ namespaces


def test_a_namespace_is_its_name_labels_annotations_and_phase():
    body = {
        "metadata": {
            "name": "shop",
            "uid": "u",
            "resourceVersion": "9",
            "labels": {"team": "blue"},
            "annotations": {"owner": None},
        },
        "status": {"phase": "Terminating"},
    }

    assert decode_namespace(body_of(body)) == NamespaceObject(
        name="shop",
        uid="u",
        resource_version="9",
        labels={"team": "blue"},
        annotations={"owner": ""},
        phase="Terminating",
    )
    assert decode_namespace(b'{"metadata": {"name": "new"}}').phase == ""
    with pytest.raises(FieldError, match=r"metadata\.name"):
        decode_namespace(b"{}")


# ------------------------------------------------------------------ in files


def entries(*objects):
    text = "\n---\n".join(json.dumps(each) for each in objects).encode()
    return [
        entry.decoded for document in read_documents([text]) for entry in read_objects(document)
    ]


def test_quotas_and_namespaces_in_files_are_read():
    native = {**NAMESPACED, "apiVersion": "v1", "kind": "ResourceQuota"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    listed = {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": "ApplicationAwareResourceQuotaList",
        "items": [{"metadata": {"name": "listed"}}],
    }
    found = entries(native, NAMESPACED, CLUSTER_WIDE, namespace, listed)

    as_written = replace(cluster_wide(), spec=None)
    assert found[:3] == [namespaced(QuotaKind.NATIVE), namespaced(), as_written]
    assert isinstance(found[3], NamespaceObject)
    assert isinstance(found[4], QuotaObject)
    assert found[4].quota.key == QuotaKey(QuotaKind.NAMESPACED, "", "listed")


def test_other_kinds_beside_quotas_are_passed_over_and_unknown_ones_refused():
    version, meta = "aaq.kubevirt.io/v1alpha1", {"name": "x"}

    assert entries({"apiVersion": version, "kind": "AAQ", "metadata": meta}) == [
        Skipped(kind="AAQ")
    ]
    with pytest.raises(ObjectError, match="no such kind"):
        entries({"apiVersion": version, "kind": "AAQuota", "metadata": meta})
    with pytest.raises(ObjectError, match=r"use aaq\.kubevirt\.io/v1alpha1"):
        entries({**NAMESPACED, "apiVersion": "aaq.kubevirt.io/v1beta1"})


def test_a_bad_limit_in_a_file_is_named_with_its_line():
    text = b"""apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: q, namespace: shop}
spec:
  hard:
    pods: plenty
"""
    with pytest.raises(ObjectError) as caught:
        [*read_objects(next(read_documents([text])))]

    assert (caught.value.subject, caught.value.field, caught.value.place.line) == (
        "ApplicationAwareResourceQuota shop/q",
        "spec.hard[pods]",
        6,
    )


# ------------------------------------------------------------------ hostile input

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS | st.just("-1e99999999999") | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(QuotaKind)
ORIGINALS = st.sampled_from([NAMESPACED, CLUSTER_WIDE])


@st.composite
def spoilt(draw, value):
    """The same document with other things here and there in it."""
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return draw(JSON)
    if isinstance(value, dict):
        return {key: draw(spoilt(inner)) for key, inner in value.items()}
    if isinstance(value, list):
        return [draw(spoilt(inner)) for inner in value]
    return value


def read_or_refused(read, body):
    """Any other exception is a defect, and fails the test."""
    with contextlib.suppress(ValueError):
        read(body)


@pytest.mark.slow
@given(KINDS, ORIGINALS.flatmap(spoilt))
@settings(max_examples=300)
def test_hostile_objects_are_read_or_refused(kind, raw):
    body = body_of(raw)

    read_or_refused(lambda given_body: decode_quota(kind, given_body), body)
    read_or_refused(decode_namespace, body)


@given(KINDS, st.binary(max_size=40) | JSON.map(body_of))
def test_hostile_bytes_are_read_or_refused(kind, body):
    read_or_refused(lambda given_body: decode_quota(kind, given_body), body)
    read_or_refused(decode_namespace, body)
