"""Pods with the fields that matter for local ephemeral storage."""

from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pod_facts import storage_pod
from bursar.wire.model.pod import decode_pod
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.struct import Struct


class _Users(Struct):
    host_users: bool | None = None
    node_name: str | None = None


class _Pod(Struct):
    spec: _Users | None = None


def decode_placed_pod(body: bytes) -> tuple[str, StoragePod]:
    """Decode one pod, and the name of its node. Raises `ValueError`."""
    spec = decode_body(body, _Pod).spec or _Users()
    return spec.node_name or "", decode_storage_pod(body)


def decode_storage_pod(body: bytes) -> StoragePod:
    """Decode one pod. Raises `ValueError`."""
    users = decode_body(body, _Pod).spec
    return storage_pod(
        decode_pod(body),
        has_user_namespace=users is not None and users.host_users is False,
    )
