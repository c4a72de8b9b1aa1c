"""The version of an API server."""

import json

import pytest

from bursar.wire.cluster.server_version import ServerVersion, decode_server_version


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"major": "1", "minor": "36"}, ServerVersion(1, 36, "")),
        ({"major": "1", "minor": "32+", "gitVersion": "v1.32.5"}, ServerVersion(1, 32, "v1.32.5")),
        (
            {"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "34"},
            ServerVersion(1, 34, ""),
        ),
    ],
)
def test_the_version_is_the_one_whose_apis_are_served(info, expected):
    assert decode_server_version(json.dumps(info).encode()) == expected


@pytest.mark.parametrize("body", [b"no", b"{}", b'{"major": "1", "minor": "x"}', b"[]"])
def test_what_is_no_version_is_refused(body):
    with pytest.raises(ValueError):  # noqa: PT011 - several decoders
        decode_server_version(body)


def test_a_version_is_written_as_users_know_it():
    assert str(ServerVersion(1, 34, "v1.34.4")) == "1.34"
