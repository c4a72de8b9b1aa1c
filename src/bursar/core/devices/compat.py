"""Koordinator's own additions, for comparing responses: all devices go to the first container.

The faults of Koordinator's proxy are reproduced: one entry per kind, every GPU is NVIDIA's, an
empty resource name for other kinds, and no id for a device that has an extension.
"""

from types import MappingProxyType
from typing import Final

from bursar.core.devices.allocation import Additions, Entry, ReportedPod
from bursar.core.devices.claim import Claim, Claims

RESOURCES: Final = MappingProxyType({"gpu": "nvidia.com/gpu", "rdma": "koordinator.sh/rdma"})


def compat_additions(claims: Claims, reported: ReportedPod) -> Additions | None:
    """What Koordinator's proxy adds to a pod; None leaves the pod unchanged.

    If there is nothing to add, the entries of the first container are still sorted.
    """
    if claims.problem or not reported.containers:
        return None
    ids: dict[str, list[str]] = {kind: [] for kind in claims.kinds}
    for claim in claims.claims:
        ids.setdefault(claim.kind, []).extend(_ids(claim))
    lines = tuple(
        Entry(resource=RESOURCES.get(kind, ""), devices=tuple(devices))
        for kind, devices in ids.items()
    )
    return Additions(entries={reported.containers[0].name: lines}, sorts=True)


def _ids(claim: Claim) -> tuple[str, ...]:
    if claim.is_extended or claim.functions:
        return claim.functions
    return (claim.device,)
