"""The scheduler's extender API: requests in both forms, and responses as Go reads them."""

import json

import pytest

from bursar.core.quota.ledger import PodKey
from bursar.wire.extender import (
    ExtenderRequestError,
    Victims,
    decode_bind,
    decode_filter,
    decode_preempt,
    encode_binding,
    encode_filter_error,
    encode_pass,
    encode_refusal,
    encode_scores,
    encode_victims,
)

POD = {"metadata": {"name": "x", "uid": "u"}}
NODES = {"items": [{"metadata": {"name": "a"}, "status": {"x": 1}}, {"metadata": {"name": "b"}}]}


def body(**fields):
    return json.dumps(fields).encode()


def test_names_of_nodes_pass_as_they_were_sent():
    request = decode_filter(body(Pod=POD, Nodes=None, NodeNames=["a", "b"]))

    assert json.loads(request.pod) == POD
    assert json.loads(encode_pass(request)) == {
        "NodeNames": ["a", "b"],
        "FailedNodes": None,
        "Error": "",
    }


def test_whole_nodes_pass_as_they_were_sent():
    request = decode_filter(body(Pod=POD, Nodes=NODES, NodeNames=None))

    assert json.loads(encode_pass(request))["Nodes"] == NODES
    assert request.names() == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"NodeNames": ["a", "b"]}, {"NodeNames": [], "Nodes": None}),
        ({"Nodes": NODES}, {"NodeNames": None, "Nodes": {"items": []}}),
    ],
)
def test_a_refusal_marks_every_node_as_unresolvable(fields, left):
    request = decode_filter(body(Pod=POD, **fields))

    assert json.loads(encode_refusal(request, "why")) == {
        **left,
        "FailedAndUnresolvableNodes": {"a": "why", "b": "why"},
        "Error": "",
    }


def test_a_list_without_nodes_has_no_names():
    assert decode_filter(body(Nodes={"items": None})).names() == []


@pytest.mark.parametrize("nodes", [{"NodeNames": [1]}, {"NodeNames": "a"}, {"Nodes": {"items": 1}}])
def test_nodes_that_cannot_be_read_are_an_error(nodes):
    with pytest.raises(ExtenderRequestError, match="the nodes cannot be read"):
        decode_filter(body(Pod=POD, **nodes)).names()


@pytest.mark.parametrize("decode", [decode_filter, decode_preempt, decode_bind])
@pytest.mark.parametrize("garbage", [b"", b"[]", b"{", b'"\xff"', b"[" * 100_000])
def test_garbage_is_an_error(decode, garbage):
    with pytest.raises(ExtenderRequestError):
        decode(garbage)


def test_a_filter_without_nodes_is_an_error():
    with pytest.raises(ExtenderRequestError, match="neither NodeNames nor Nodes is given"):
        decode_filter(body(Pod=POD))


def test_victims_are_read_in_both_forms():
    meta = {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}, "b": {"Pods": None}}
    whole = {"c": {"Pods": [{"metadata": {"uid": "3"}}]}, "d": {"Pods": None}}

    assert decode_preempt(body(Pod=POD, NodeNameToMetaVictims=meta)).victims == {
        "a": Victims(uids=("1",), violations=2),
        "b": Victims(uids=(), violations=0),
    }
    assert decode_preempt(body(Pod=POD, NodeNameToVictims=whole)).victims == {
        "c": Victims(uids=("3",), violations=0),
        "d": Victims(uids=(), violations=0),
    }


def test_victims_are_written_by_uid():
    assert json.loads(encode_victims({"a": Victims(uids=("1",), violations=2)})) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}
    }


def test_a_binding_names_pod_and_node():
    fields = {"PodName": "x", "PodNamespace": "a", "PodUID": "u", "Node": "n"}
    request = decode_bind(body(**fields))

    assert (request.pod, request.uid, request.node) == (PodKey("a", "x"), "u", "n")
    for name in fields:
        with pytest.raises(ExtenderRequestError, match="are required"):
            decode_bind(body(**{**fields, name: ""}))


def test_the_other_responses():
    assert json.loads(encode_filter_error("why")) == {"Error": "why"}
    assert json.loads(encode_scores(["a"])) == [{"Host": "a", "Score": 0}]
    assert json.loads(encode_binding()) == {"Error": ""}
