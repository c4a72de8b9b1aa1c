"""ResourceClaims: devices that dynamic resource allocation (DRA) gave to pods.

The fields that are decoded are the same in v1, v1beta2 and v1beta1.
"""

from typing import Final

from bursar.core.devices.rows import ClaimDevice
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.struct import Struct

DEVICES_MAX: Final = 8192
"""Maximum devices times pods of one claim. The API allows 32 devices for 256 pods."""


class _Consumer(Struct):
    api_group: str | None = None
    resource: str | None = None
    name: str | None = None


class _Result(Struct):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _Devices(Struct):
    results: list[_Result] | None = None


class _Allocation(Struct):
    devices: _Devices | None = None


class _Status(Struct):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class _Claim(Struct):
    metadata: ObjectMeta | None = None
    status: _Status | None = None


def decode_resource_claim(body: bytes) -> tuple[ClaimDevice, ...]:
    """Each device of a claim, once for each pod that the claim is reserved for.

    Raises `ValueError`.
    """
    raw = decode_body(body, _Claim)
    status = raw.status or _Status()
    allocation = status.allocation or _Allocation()
    results = (allocation.devices or _Devices()).results or []
    pods = [
        each.name or ""
        for each in status.reserved_for or ()
        if not each.api_group and each.resource == "pods"
    ]
    if len(results) * len(pods) > DEVICES_MAX:
        raise ValueError(f"more than {DEVICES_MAX} devices of pods")
    return tuple(
        ClaimDevice(
            namespace=(raw.metadata or ObjectMeta()).namespace or "",
            pod=pod,
            driver=each.driver or "",
            pool=each.pool or "",
            device=each.device or "",
        )
        for pod in pods
        for each in results
    )
