"""Secrets with certificates, and the `clientConfig` of webhook configurations."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.certificates.webhooks import WebhookClient
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawTexts, decode_texts
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.struct import Struct

_URL: Final = re.compile(r"https://(?:\[([0-9a-fA-F:.]+)\]|([^/:?#@\[\]]+))(?::[0-9]+)?(?:/.*)?")
"""An API server accepts neither user nor query nor fragment in the URL of a webhook."""


class _Secret(Struct):
    data: RawTexts | None = None
    metadata: ObjectMeta | None = None


@dataclass(frozen=True, slots=True)
class AnnotatedSecret:
    data: Mapping[str, bytes]
    annotations: Mapping[str, str]


class _ServiceReference(Struct):
    namespace: str | None = None
    name: str | None = None


class _ClientConfig(Struct):
    service: _ServiceReference | None = None
    url: str | None = None
    ca_bundle: str | None = None


class _Webhook(Struct):
    client_config: _ClientConfig | None = None


class _WebhookConfiguration(Struct):
    webhooks: list[_Webhook] | None = None


def decode_secret(body: bytes) -> Mapping[str, bytes]:
    """The data of a Secret. A value that is not base64 is empty. Raises `ValueError`."""
    data = decode_body(body, _Secret).data or {}
    return {key: _decoded(text) for key, text in data.items()}


def decode_annotated_secret(body: bytes) -> AnnotatedSecret:
    """The data of a Secret, and its annotations. Raises `ValueError`."""
    annotations = (decode_body(body, _Secret).metadata or ObjectMeta()).annotations
    return AnnotatedSecret(decode_secret(body), decode_texts(annotations))


def decode_texts_of(body: bytes) -> Mapping[str, str]:
    """The data of a ConfigMap. Raises `ValueError`."""
    return decode_texts(decode_body(body, _Secret).data)


def encode_data(data: Mapping[str, bytes]) -> dict[str, str]:
    """The `data` of a Secret."""
    return {key: encode_bytes(value) for key, value in data.items()}


def encode_bytes(value: bytes) -> str:
    """Bytes as a text of base64, as in `data` of a Secret and in `caBundle`."""
    return base64.b64encode(value).decode("ascii")


def decode_webhooks(body: bytes) -> tuple[WebhookClient, ...]:
    """The webhooks of a configuration, in its order. Raises `ValueError`."""
    raw = decode_body(body, _WebhookConfiguration).webhooks or []
    return tuple(_client(each.client_config or _ClientConfig()) for each in raw)


def _client(raw: _ClientConfig) -> WebhookClient:
    service = raw.service
    return WebhookClient(
        service=None if service is None else (service.namespace or "", service.name or ""),
        host=_host(raw.url or ""),
        bundle=_decoded(raw.ca_bundle),
    )


def _host(url: str) -> str:
    found = _URL.fullmatch(url)
    return "" if found is None else (found[1] or found[2]).lower()


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        return b""
