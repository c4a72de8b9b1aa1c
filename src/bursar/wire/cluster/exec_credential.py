"""ExecCredential: the input and the output of an exec credential plugin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from bursar.wire.cluster.kubeconfig import Plain, without_quotes
from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DocumentError
from bursar.wire.structs.fields import FieldError, decode_time
from bursar.wire.structs.shape import described, shaped

KIND: Final = "ExecCredential"
API_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """Credentials from a plugin. The `repr` contains none of them."""

    token: str = field(repr=False)
    certificate: str = field(repr=False)
    key: str = field(repr=False)
    expires: datetime | None


class ExecCredentialError(ValueError):
    """The output of a plugin is invalid. The message does not quote it."""


class _Status(msgspec.Struct, rename="camel", gc=False):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        return "_Status(...)"


class _Credential(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    status: _Status | None = None


def encode_exec_info(
    api_version: str, *, is_interactive: bool, cluster: Mapping[str, Plain] | None
) -> str:
    """The value of the environment variable KUBERNETES_EXEC_INFO."""
    spec: dict[str, Plain] = {"interactive": is_interactive}
    if cluster is not None:
        spec["cluster"] = dict(cluster)
    info: dict[str, Plain] = {"kind": KIND, "apiVersion": api_version, "spec": spec}
    return msgspec.json.encode(info).decode()


def decode_exec_credential(output: bytes, api_version: str) -> ExecCredential:
    """Decode the output of a plugin. Raises `ExecCredentialError`."""
    try:
        document = next(read_documents([output]), None)
    except DocumentError as error:
        raise ExecCredentialError(f"{error.place}: {without_quotes(error.problem)}") from None
    if document is None:
        raise ExecCredentialError("it is empty")
    if not isinstance(document.value, dict):
        raise ExecCredentialError(f"an object is expected, found {described(document.value)}")
    try:
        credential = shaped(document.value, _Credential)
        _require_type(credential, api_version)
        return _decode_status(credential.status)
    except FieldError as error:
        raise ExecCredentialError(str(error)) from None


def _require_type(credential: _Credential, api_version: str) -> None:
    if credential.kind != KIND:
        raise FieldError("kind", f"{KIND} is expected")
    found = credential.api_version or ""
    if found != api_version:
        # Another text is not shown, because it may be part of a secret.
        shown = found if found in API_VERSIONS else "another version"
        raise FieldError("apiVersion", f"{api_version} is configured, {shown} was returned")


def _decode_status(status: _Status | None) -> ExecCredential:
    if status is None:
        raise FieldError("status", "required, but missing")
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if not status.token and not certificate and not key:
        raise FieldError("status", "neither a token nor a certificate with its key")
    if bool(certificate) != bool(key):
        raise FieldError("status", "a certificate needs its key, and a key its certificate")
    return ExecCredential(
        token=status.token or "",
        certificate=certificate,
        key=key,
        expires=decode_time(status.expiration_timestamp, "status.expirationTimestamp"),
    )
