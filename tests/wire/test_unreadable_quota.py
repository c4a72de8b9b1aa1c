"""Quotas of which only a part can be read."""

import json

import pytest

from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.scopes import ScopeRule
from bursar.wire.quota.objects import decode_quota
from bursar.wire.quota.unreadable import read_quota
from bursar.wire.structs.fields import FieldError

NAMED = {"name": "q", "namespace": "a", "uid": "u", "labels": {"x": "y"}}


def read(kind, **fields):
    return read_quota(kind, json.dumps({"metadata": NAMED, **fields}).encode())


def namespaced(**spec):
    return read(QuotaKind.NAMESPACED, spec=spec)


def test_a_quota_that_can_be_read_is_read_as_always():
    body = json.dumps({"metadata": NAMED, "spec": {"hard": {"pods": "1"}}}).encode()
    assert read_quota(QuotaKind.NAMESPACED, body) == decode_quota(QuotaKind.NAMESPACED, body)


@pytest.mark.parametrize(
    ("spec", "problem", "scopes"),
    [
        ({"hard": {"pods": "many"}}, "spec.hard[pods]", ()),
        ({"hard": {"pods": "1"}, "scopes": ["Besteffort"]}, 'scope "Besteffort"', ()),
        (
            {"hard": {"pods": "many"}, "scopes": ["BestEffort", "Odd"]},
            "spec.hard[pods]",
            (ScopeRule("BestEffort", "Exists"),),
        ),
        (
            {
                "hard": {"pods": "1"},
                "scopes": ["Terminating"],
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "in", "values": ["a"]},
                        {"scopeName": "PriorityClass", "operator": "Exists"},
                    ]
                },
            },
            'scope "PriorityClass", operator "in", values [a]',
            (ScopeRule("Terminating", "Exists"), ScopeRule("PriorityClass", "Exists")),
        ),
        ({"hard": "all", "scopes": {"odd": "shape"}}, "spec.hard", ()),
    ],
)
def test_what_can_be_read_of_a_namespaced_quota(spec, problem, scopes):
    found = namespaced(**spec)
    assert problem in found.quota.problem
    assert found.quota.hard == {}
    assert found.quota.scopes == scopes
    assert (str(found.quota.key), found.quota.uid) == ("ApplicationAwareResourceQuota a/q", "u")
    assert found.labels == {}, "only those of managed quotas are looked at"


def cluster_wide(selector, status=None, **quota):
    spec = {"quota": quota or {"hard": {"pods": "1"}}, "selector": selector}
    return read(QuotaKind.CLUSTER, spec=spec, status=status or {})


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"x" * 50_000: "many"}},
        {
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "Exists", "values": ["x"] * 50_000}
                ]
            }
        },
    ],
)
def test_the_text_of_a_problem_is_short_however_long_the_field(spec):
    """Each pod that waits for the quota has the text in its reason."""
    problem = namespaced(**spec).quota.problem
    assert problem.startswith(("spec.hard[xxx", 'scope "PriorityClass", operator "Exists"'))
    assert len(problem) < 1_100


def test_what_can_be_read_of_a_cluster_quota():
    wrong = {"key": "team", "operator": "in", "values": ["a"]}
    status = {"namespaces": [{"namespace": "b", "status": {}}]}
    selector = {"labels": {"matchExpressions": [wrong]}, "annotations": {"c": "d"}}
    found = cluster_wide(selector, status)
    chosen = found.quota.selector
    assert '"in" is not a valid label selector operator' in found.quota.problem
    assert (str(chosen.labels), chosen.annotations) == ("team in (a)", {"c": "d"})
    assert chosen.names == {"b"}
    assert found.spec["selector"] == selector


@pytest.mark.parametrize(
    "selector", [{"labels": "odd", "annotations": {"c": "d"}}, {"labels": None}, None, "odd"]
)
def test_a_selector_of_an_odd_shape_restricts_nothing(selector):
    found = cluster_wide(selector, hard={"pods": "many"})
    assert found.quota.problem
    assert found.quota.selector.labels is None
    assert found.quota.selector.matches({"any": "label"}, {"c": "d"})


def test_a_status_that_cannot_be_read_names_no_namespace():
    found = cluster_wide({}, {"namespaces": "odd"}, hard={"pods": "many"})
    assert found.quota.selector.names == frozenset()


@pytest.mark.parametrize("metadata", ["odd", {}, {"name": 5}])
def test_a_quota_without_a_name_is_nobodys(metadata):
    body = json.dumps({"metadata": metadata, "spec": {"hard": {"pods": "many"}}}).encode()
    with pytest.raises(FieldError):
        read_quota(QuotaKind.NAMESPACED, body)


def test_a_body_that_is_nested_too_deeply_is_an_error():
    deep = b'{"spec": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001
    with pytest.raises(ValueError, match="nested too deeply"):
        read_quota(QuotaKind.NAMESPACED, deep)
