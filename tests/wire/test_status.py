"""Failures as API servers report them."""

import json

import pytest

from bursar.wire.cluster.status import RETRY_AFTER_S_MAX, find_status

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


@pytest.mark.parametrize(
    ("seconds", "found"), [(5, 5), (0, None), (-5, None), (10**400, RETRY_AFTER_S_MAX)]
)
def test_the_time_of_a_retry_is_bounded(seconds, found):
    status = find_status(status_text(details={"retryAfterSeconds": seconds}))

    assert status.retry_after_s == found


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
