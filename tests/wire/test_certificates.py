"""Secrets and webhook configurations, decoded."""

import json

import pytest

from bursar.core.certificates.webhooks import WebhookClient
from bursar.wire.certificates import (
    AnnotatedSecret,
    decode_annotated_secret,
    decode_secret,
    decode_texts_of,
    decode_webhooks,
    encode_bytes,
    encode_data,
)


def test_data_of_a_secret_is_decoded():
    data = {"tls.crt": encode_bytes(b"one"), "tls.key": None, "ca.crt": "*not base64*", "x": "é"}
    body = json.dumps({"data": data}).encode()

    assert decode_secret(body) == {"tls.crt": b"one", "tls.key": b"", "ca.crt": b"", "x": b""}
    assert decode_secret(b"{}") == {}
    assert encode_data({"a": b"one"}) == {"a": "b25l"}


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"data": 1}', b'{"data": {"a": 1}}'])
def test_a_body_that_is_no_secret_is_an_error(body):
    with pytest.raises(ValueError, match=r"expected|valid|truncated"):
        decode_secret(body)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://127.0.0.1:8443/serve-path", "127.0.0.1"),
        ("https://[fd00::1]:8443/serve-path", "fd00::1"),
        ("https://aaq-server.aaq.svc", "aaq-server.aaq.svc"),
        ("https://aaq-server.aaq.svc@elsewhere/x", ""),
        ("http://aaq-server.aaq.svc/x", ""),
        ("nonsense", ""),
    ],
)
def test_the_host_of_a_url(url, host):
    body = json.dumps({"webhooks": [{"clientConfig": {"url": url}}]}).encode()

    assert decode_webhooks(body) == (WebhookClient(host=host),)


def test_webhooks_keep_their_order():
    service = {"namespace": "aaq", "name": "aaq-server", "path": "/x"}
    hooks = [
        {"name": "a"},
        {"name": "b", "clientConfig": {"service": service, "caBundle": encode_bytes(b"pem")}},
        {"name": "c", "clientConfig": {"service": {}}},
    ]

    assert decode_webhooks(json.dumps({"webhooks": hooks}).encode()) == (
        WebhookClient(),
        WebhookClient(service=("aaq", "aaq-server"), bundle=b"pem"),
        WebhookClient(service=("", "")),
    )
    assert decode_webhooks(b"{}") == ()


def test_annotations_of_a_secret_and_texts_of_a_config_map_are_read():
    secret = b'{"metadata": {"annotations": {"a": "b"}}, "data": {"tls.crt": "eA=="}}'

    assert decode_annotated_secret(secret) == AnnotatedSecret({"tls.crt": b"x"}, {"a": "b"})
    assert decode_annotated_secret(b"{}") == AnnotatedSecret({}, {})
    assert decode_texts_of(b'{"data": {"ca-bundle.crt": "PEM"}}') == {"ca-bundle.crt": "PEM"}
