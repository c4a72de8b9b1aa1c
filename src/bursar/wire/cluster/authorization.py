"""Decoding of access reviews, and of the bindings of roles to users."""

from dataclasses import dataclass

from bursar.wire.structs.body import decode_body
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.struct import Struct


class _ReviewStatus(Struct):
    allowed: bool | None = None
    denied: bool | None = None


class _Review(Struct):
    status: _ReviewStatus | None = None


class _Subject(Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _RoleRef(Struct):
    kind: str | None = None
    name: str | None = None


class _Binding(Struct):
    metadata: ObjectMeta | None = None
    role_ref: _RoleRef | None = None
    subjects: list[_Subject] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A RoleBinding or ClusterRoleBinding."""

    name: str
    namespace: str
    role: str
    """Kind and name of the role."""
    accounts: frozenset[tuple[str, str]]
    """Namespace and name of each service account that it is for."""


def decode_is_allowed(body: bytes) -> bool:
    """Whether an access review allows the request. Raises `ValueError`."""
    status = decode_body(body, _Review).status or _ReviewStatus()
    return bool(status.allowed) and not status.denied


def decode_binding(body: bytes) -> Binding:
    """Read a RoleBinding or ClusterRoleBinding. Raises `ValueError`."""
    raw = decode_body(body, _Binding)
    meta, role = raw.metadata or ObjectMeta(), raw.role_ref or _RoleRef()
    return Binding(
        name=required_name(meta),
        namespace=meta.namespace or "",
        role=f"{role.kind or ''} {role.name or ''}",
        accounts=frozenset(
            (each.namespace or "", each.name or "")
            for each in raw.subjects or ()
            if each.kind == "ServiceAccount"
        ),
    )
