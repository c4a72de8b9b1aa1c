"""Access reviews and bindings, as an API server writes them."""

import json

import pytest

from bursar.wire.cluster.authorization import decode_binding, decode_is_allowed


@pytest.mark.parametrize(
    ("status", "is_allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_what_is_allowed_and_not_denied_is_allowed(status, is_allowed):
    assert decode_is_allowed(json.dumps({"status": status}).encode()) is is_allowed


def test_a_binding_names_its_role_and_service_accounts():
    binding = decode_binding(
        json.dumps(
            {
                "metadata": {"name": "b", "namespace": "n"},
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "ServiceAccount", "namespace": "n", "name": "a"},
                    {"kind": "ServiceAccount"},
                    {"kind": "User", "name": "u"},
                ],
            }
        ).encode()
    )

    assert (binding.name, binding.namespace, binding.role) == ("b", "n", "Role r")
    assert binding.accounts == {("n", "a"), ("", "")}


def test_a_binding_without_role_and_subjects_is_read():
    binding = decode_binding(b'{"metadata": {"name": "b"}}')

    assert (binding.namespace, binding.role, binding.accounts) == ("", " ", frozenset())


@pytest.mark.parametrize(
    ("body", "words"), [(b"{}", "metadata.name"), (b"[]", "object"), (b"no", "truncated")]
)
def test_what_is_no_binding_is_refused(body, words):
    with pytest.raises(ValueError, match=words):
        decode_binding(body)
