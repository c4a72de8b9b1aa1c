"""API discovery: the verbs of a resource."""

import json

import pytest

from bursar.wire.cluster.discovery import decode_verbs


def listed(*resources):
    return json.dumps({"kind": "APIResourceList", "resources": resources}).encode()


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{"name": "things", "verbs": ["get", "create"]}], {"get", "create"}),
        ([{"name": "things/status", "verbs": ["get"]}], set()),
        ([{"name": "others", "verbs": ["get"]}, {"name": "things", "verbs": ["list"]}], {"list"}),
        ([{"name": "things"}], set()),
        ([], set()),
    ],
)
def test_the_verbs_are_those_of_the_resource_itself(resources, expected):
    assert decode_verbs(listed(*resources), "things") == expected


def test_a_group_without_resources_offers_nothing():
    assert decode_verbs(b"{}", "things") == set()


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"resources": [{"name": 1}]}'])
def test_other_bodies_are_refused(body):
    with pytest.raises(ValueError):  # noqa: PT011 - several decoders
        decode_verbs(body, "things")
