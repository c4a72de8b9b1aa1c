"""Failures as API servers report them."""

import json

import pytest

from bursar.wire.cluster.status import find_status

CAUSES = [
    {"field": "spec.replicas", "message": "must be positive"},
    {"reason": "FieldValueInvalid"},
    {},
]


FAILURE = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}


def status_text(**fields):
    return json.dumps(FAILURE | fields).encode()


def test_causes_are_told_with_their_field():
    found = find_status(status_text(code=422, details={"causes": CAUSES}))

    assert found is not None
    assert found.code == 422
    assert found.causes == ("spec.replicas: must be positive", "FieldValueInvalid", "")


def test_a_status_names_its_object():
    found = find_status(status_text(code=404, details={"kind": "pods", "name": "web"}))

    assert found is not None
    assert (found.kind, found.name) == ("pods", "web")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"deep": ' + b"[" * 9000,
        b'{"kind": "Pod"}',
        b'{"kind": 3}',
        b'{"kind": "Status", "code": 404, "reason": "NotFound"}',
        status_text(status="Success"),
        status_text(apiVersion="v2"),
    ],
)
def test_what_is_no_status_is_none(body):
    assert find_status(body) is None
