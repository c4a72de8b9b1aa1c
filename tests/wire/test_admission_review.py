"""AdmissionReview in and out: what is read, what is refused, and what is never shown."""

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.quota.quota import QuotaKind
from bursar.wire.admission import (
    AdmissionDecision,
    ObjectError,
    ReviewError,
    decode_gated_pod,
    decode_quota_text,
    decode_review,
    encode_response,
)
from bursar.wire.peerpods.review import decode_peer_pod, decode_peer_pod_review


def review(**request: object) -> bytes:
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def test_a_review_is_read_with_its_objects_as_bytes():
    body = review(
        uid="u",
        kind={"group": "g", "version": "v1", "kind": "K"},
        subResource="resize",
        operation="UPDATE",
        namespace="ns",
        name="n",
        userInfo={"username": "me", "groups": ["x"]},
        object={"a": 1},
        oldObject=None,
        dryRun=True,
        options={"unknown": "ignored"},
    )

    read = decode_review(body)

    assert (read.uid, read.group, read.version, read.kind) == ("u", "g", "v1", "K")
    assert (read.operation, read.subresource, read.namespace) == ("UPDATE", "resize", "ns")
    assert (read.name, read.username, read.is_dry_run) == ("n", "me", True)
    assert (read.object, read.old_object) == (b'{"a": 1}', b"")
    assert read.subject == "UPDATE g/v1, Kind=K ns/n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "admission request body is empty"),
        (b"null", "admission review can't be used: request field is nil"),
        (b"{}", "admission review can't be used: request field is nil"),
        (b'{"request": null}', "admission review can't be used: request field is nil"),
    ],
)
def test_what_is_no_review_is_refused_in_aaqs_words(body, problem):
    with pytest.raises(ReviewError) as caught:
        decode_review(body)

    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"request": {"uid": "\xff"}}',
        b'{"request": {"uid": 3}}',
        b'{"request": {"object": ' + b"[" * 1_000_000,
        b'{"request": {}} trailing',
    ],
)
def test_what_cannot_be_parsed_is_refused_and_not_quoted(body):
    with pytest.raises(ReviewError, match=r"^could not parse admission review request: ") as caught:
        decode_review(body)

    assert len(str(caught.value)) < 200
    assert "trailing\n" not in str(caught.value)


PEER_POD = {
    "spec": {
        "containers": [{"name": "c", "env": [{"name": "A", "value": "not read"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
}
SHOWN = {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}


def test_of_a_peer_pod_only_the_branches_that_rewriting_looks_at_are_read():
    body = json.dumps(PEER_POD).encode()
    shows = body.replace(b'{"name": "A", "value": "not read"}', json.dumps(SHOWN).encode())

    assert decode_peer_pod(body) == {"spec": {"containers": [{"name": "c"}]}}
    assert decode_peer_pod(shows) == {
        "spec": {"containers": [{"name": "c", "env": [SHOWN]}], "volumes": [{}]}
    }


@pytest.mark.parametrize(("version", "is_read"), [("v1", True), ("v1beta1", True), ("v2", False)])
def test_a_review_and_its_peer_pod_are_read_in_one_go_if_the_version_is_known(version, is_read):
    request = {"uid": "u", "object": PEER_POD}
    body = {"apiVersion": f"admission.k8s.io/{version}", "request": request}
    read = decode_peer_pod_review(json.dumps(body).encode())

    assert (read is not None) is is_read
    if read is not None:
        assert (read.uid, read.pod) == ("u", {"spec": {"containers": [{"name": "c"}]}})


def test_a_review_prints_no_object():
    read = decode_review(review(uid="u", object={"data": "hidden"}, oldObject={"data": "hidden"}))

    assert "hidden" not in repr(read)
    assert "hidden" not in read.subject


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("admission.k8s.io/v1", "admission.k8s.io/v1"),
        ("admission.k8s.io/v1beta1", "admission.k8s.io/v1beta1"),
        ("", "admission.k8s.io/v1"),
        ("admission.k8s.io/v7", "admission.k8s.io/v1"),
    ],
)
def test_the_answer_speaks_the_version_of_the_question(asked, answered):
    decision = AdmissionDecision(is_allowed=True, code=202, message="fine")
    read = decode_review(json.dumps({"apiVersion": asked, "request": {"uid": "u"}}).encode())

    answer = json.loads(encode_response(read, decision))

    assert answer == {
        "kind": "AdmissionReview",
        "apiVersion": answered,
        "response": {
            "uid": "u",
            "allowed": True,
            "status": {"code": 202, "message": "fine"},
        },
    }


def test_a_patch_and_warnings_go_with_the_answer():
    patch = ({"op": "add", "path": "/a", "value": 1},)
    decision = AdmissionDecision(warnings=("careful",), patch=patch)

    response = json.loads(encode_response(decode_review(review(uid="u")), decision))["response"]

    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == list(patch)
    assert response["warnings"] == ["careful"]


def test_gates_and_node_of_a_pod_are_read():
    body = {"metadata": {"uid": "u"}, "spec": {"schedulingGates": [{"name": "a"}], "nodeName": "n"}}

    facts = decode_gated_pod(json.dumps(body).encode())

    assert (facts.uid, facts.gates, facts.node_name) == ("u", ("a",), "n")


def test_a_pod_that_says_nothing_has_no_gates():
    facts = decode_gated_pod(b"{}")

    assert (facts.uid, facts.gates, facts.node_name) == ("", (), "")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec": 1}', b'{"spec": {"nodeName": "\xff"}}'])
def test_an_unreadable_object_is_an_error_of_its_own(body):
    with pytest.raises(ObjectError):
        decode_gated_pod(body)


SPEC = {
    "hard": {"cpu": "1", "pods": 5, "memory": 1.50, "x": None},
    "scopes": ["BestEffort"],
    "scopeSelector": {
        "matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
            {"scopeName": "Terminating", "operator": "Exists"},
        ]
    },
}


@pytest.mark.parametrize(
    ("kind", "spec"), [(QuotaKind.NAMESPACED, SPEC), (QuotaKind.CLUSTER, {"quota": SPEC})]
)
def test_a_quota_is_read_as_the_spec_of_a_resource_quota(kind, spec):
    metadata = {"annotations": {"bursar.io/order": "fifo", "other": None}}

    text = decode_quota_text(json.dumps({"metadata": metadata, "spec": spec}).encode(), kind)

    assert text.spec == {**SPEC, "hard": {"cpu": "1", "pods": "5", "memory": "1.5", "x": "0"}}
    assert text.names == ("cpu", "pods", "memory", "x")
    assert text.order == "fifo"


def test_a_number_keeps_its_digits():
    body = b'{"spec": {"hard": {"a": 1.50, "b": 123456789012345678901234567890, "c": 1e3}}}'

    text = decode_quota_text(body, QuotaKind.NAMESPACED)

    assert text.spec["hard"] == {"a": "1.50", "b": "123456789012345678901234567890", "c": "1e3"}


def test_an_empty_quota_has_an_empty_spec():
    assert decode_quota_text(b"{}", QuotaKind.NAMESPACED).spec == {"hard": {}}
    assert decode_quota_text(b"{}", QuotaKind.CLUSTER).spec == {"hard": {}}
    selected = decode_quota_text(b'{"spec": {"scopeSelector": {}}}', QuotaKind.NAMESPACED)
    assert selected.spec == {"hard": {}, "scopeSelector": {"matchExpressions": []}}


def test_an_amount_is_a_text_or_a_number():
    with pytest.raises(ObjectError, match=r"spec\.hard"):
        decode_quota_text(b'{"spec": {"hard": {"a": {}}}}', QuotaKind.NAMESPACED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["spec", "hard", "a"]), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps({"request": value}).encode()))
def test_no_bytes_do_worse_than_being_refused(body):
    with suppress(ReviewError):
        decode_review(body)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_object_does_worse_than_being_refused(body):
    with suppress(ObjectError):
        decode_gated_pod(body)
    for kind in (QuotaKind.NAMESPACED, QuotaKind.CLUSTER):
        with suppress(ObjectError):
            decode_quota_text(body, kind)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (None, ""),
        ({}, ""),
        ({"labels": None}, ""),
        ({"labels": {"matchLabels": {"a": "b"}}}, ""),
        (
            {"labels": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}},
            'spec.selector.labels: "in" is not a valid label selector operator',
        ),
    ],
)
def test_the_selector_of_a_cluster_quota_is_read(selector, problem):
    body = json.dumps({"spec": {"quota": {}, "selector": selector}}).encode()
    assert decode_quota_text(body, QuotaKind.CLUSTER).selector_problem == problem
    assert decode_quota_text(body, QuotaKind.NAMESPACED).selector is None
