"""Kubeconfig files and answers of exec plugins: read exactly, and secrets are never printed."""

import json

import pytest

from bursar.wire.cluster import exec_credential
from bursar.wire.cluster.exec_credential import (
    ExecCredentialError,
    decode_exec_credential,
    encode_exec_info,
)
from bursar.wire.cluster.kubeconfig import KubeConfigError, decode_kubeconfig

V1 = "client.authentication.k8s.io/v1"
SECRET = "hunter2"  # noqa: S105 - that is what it is for
CONFIG = {
    "clusters": [{"name": "c", "cluster": {"proxy-url": f"http://me:{SECRET}@proxy"}}],
    "users": [
        {
            "name": "u",
            "user": {
                "token": SECRET,
                "exec": {"args": [SECRET], "env": [{"name": "A", "value": SECRET}]},
            },
        }
    ],
    "current-context": "x",
}


def decoded(config: object):
    return decode_kubeconfig([json.dumps(config).encode()])


def refused(config: object) -> str:
    with pytest.raises(KubeConfigError) as caught:
        decoded(config)
    return caught.value.complaint


def test_a_kubeconfig_prints_none_of_its_secrets():
    config = decoded(CONFIG)
    (_, user), (_, cluster) = config.users["u"], config.clusters["c"]

    assert user.exec.env[0].value == user.token == SECRET
    for part in (config, user, user.exec, user.exec.env[0], cluster):
        assert SECRET not in repr(part)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ([], "a kubeconfig is expected, found a list"),
        ({"kind": "Pod"}, "kind: Config is expected"),
        ({"apiVersion": "v2"}, "apiVersion: v1 is expected"),
        ({"users": [{"name": "u"}, {"name": "u"}]}, 'users[1].name: "u" is there twice'),
    ],
)
def test_what_is_no_kubeconfig_is_refused_by_its_field(config, complaint):
    assert refused(config) == complaint


def test_what_a_cluster_says_to_exec_plugins_is_passed_on_as_it_stands():
    extension = {"list": [1.50, "a", None], "big": 12345678901234567890123}
    text = json.dumps(extension).replace("1.5", "1.50")
    named = {"name": "client.authentication.k8s.io/exec", "extension": "HERE"}
    config = {"clusters": [{"name": "c", "cluster": {"extensions": [{"name": "other"}, named]}}]}
    body = json.dumps(config).replace('"HERE"', text)
    found = decode_kubeconfig([body.encode()]).exec_extensions["c"]

    question = encode_exec_info(V1, is_interactive=False, cluster={"config": found})
    assert text.replace(" ", "") in question
    assert "cluster" not in encode_exec_info(V1, is_interactive=False, cluster=None)


def an_answer(status: object) -> bytes:
    answer = {"kind": "ExecCredential", "apiVersion": V1, "status": status}
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        (None, "status: required, but missing"),
        ({}, "status: neither a token nor a certificate with its key"),
        (
            {"clientKeyData": SECRET},
            "status: a certificate needs its key, and a key its certificate",
        ),
        ({"token": [SECRET]}, "status.token: a string is expected, found a list"),
    ],
)
def test_an_answer_without_credentials_is_refused_and_not_quoted(status, complaint):
    with pytest.raises(ExecCredentialError) as caught:
        decode_exec_credential(an_answer(status), V1)

    assert str(caught.value) == complaint


def test_a_token_is_read_from_an_answer_and_not_printed():
    assert decode_exec_credential(an_answer({"token": SECRET}), V1).token == SECRET
    assert SECRET not in repr(exec_credential._Status(token=SECRET))
