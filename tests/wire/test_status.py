"""Failures as API servers report them."""

import json

import pytest

from bursar.wire.cluster.status import find_status

CAUSES = [
    {"field": "spec.replicas", "message": "must be positive"},
    {"reason": "FieldValueInvalid"},
    {},
]


def test_causes_are_told_with_their_field():
    status = {"kind": "Status", "code": 422, "details": {"causes": CAUSES}}
    found = find_status(json.dumps(status).encode())

    assert found is not None
    assert found.code == 422
    assert found.causes == ("spec.replicas: must be positive", "FieldValueInvalid", "")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"kind": "Pod"}', b'{"kind": 3}'])
def test_what_is_no_status_is_none(body):
    assert find_status(body) is None
