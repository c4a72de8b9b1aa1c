"""Koordinator's own filling, for those who compare answers: everything on the first container.

Its rules are kept with their faults: one line per kind, every accelerator NVIDIA's, no name for
kinds it does not know, no id where an extension stands beside one.
"""

from types import MappingProxyType
from typing import Final

from bursar.core.devices.allocation import Additions, Entry, ReportedPod
from bursar.core.devices.claim import Claim, Claims

RESOURCES: Final = MappingProxyType({"gpu": "nvidia.com/gpu", "rdma": "koordinator.sh/rdma"})


def compat_additions(claims: Claims, reported: ReportedPod) -> Additions | None:
    """None leaves the pod alone; no lines still put the container's own in order."""
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
