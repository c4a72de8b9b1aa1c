"""The demand of pods with very many or very long resource names.

Such pods are made by nothing but tests and attacks. To count all of the fifteen thousand names that
fit into a pod takes hundreds of milliseconds and megabytes. So few names are counted at once, and
the others when a quota lists them: in milliseconds, from a compressed form of the pod.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final
from zlib import compress, decompress

import msgspec

from bursar.core.model.pod_row import ALWAYS_COUNTED, NAMES_LENGTH_MAX, NAMES_MAX, PodDemand
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.amounts import require_amounts_of_pod
from bursar.wire.structs.fields import FieldError, RawResourceList, decode_quantity, quoted

LEVEL: Final = 1
"""The fastest compression. Made-up names are about ten times smaller with it."""

_PLAIN: Final = re.compile(r"[0-9]{1,15}(?:[munkMGTPE]|[KMGTPE]i)?")
"""Texts that are certainly amounts. All other texts are decoded to find out."""
_DECODER: Final = msgspec.json.Decoder(wire_pod.Pod)
_ENCODER: Final = msgspec.json.Encoder()


def demand_of(pod: wire_pod.Pod) -> PodDemand:
    """Compute the demand of a pod. Raises `FieldError`.

    The pod needs only the fields that decide its demand. This function may remove amounts from it,
    so the caller must not use it again.
    """
    if not is_wide(pod):
        return _demand_in(pod)
    _require_amounts(pod)
    _drop_repeated_limits(pod)
    packed = compress(_ENCODER.encode(pod), LEVEL)
    demand = _demand_in(restricted(pod, ALWAYS_COUNTED))
    return replace(demand, rest=WideDemand(packed))


def is_wide(pod: wire_pod.Pod) -> bool:
    """Whether the pod has more than `NAMES_MAX` resource names, or very long ones."""
    names: set[str] = set()
    for amounts in amounts_of(pod):
        names.update(amounts)
    return len(names) > NAMES_MAX or sum(map(len, names)) > NAMES_LENGTH_MAX


def _require_amounts(pod: wire_pod.Pod) -> None:
    """Raise `FieldError` for an amount that cannot be counted later."""
    for amounts in amounts_of(pod):
        for name, raw in amounts.items():
            if type(raw) is not str or _PLAIN.fullmatch(raw) is None:
                amount = decode_quantity(raw, f"resources[{name}]")
                if amount.is_negative:
                    raise FieldError(f"resources[{name}]", f"{quoted(str(amount))} is negative")


def _drop_repeated_limits(pod: wire_pod.Pod) -> None:
    """Remove limits that no quota counts, of names that the container requests as well.

    The API server accepts extended resources in both lists only, so this halves what is kept.
    """
    spec = pod.spec or wire_pod.PodSpec()
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        resources = container.resources
        if resources is not None and resources.limits:
            requests = resources.requests or {}
            resources.limits = {
                name: amount
                for name, amount in resources.limits.items()
                if name in ALWAYS_COUNTED or name not in requests
            }


def _demand_in(pod: wire_pod.Pod) -> PodDemand:
    core_pod = wire_pod.to_core(pod)
    require_amounts_of_pod(core_pod)
    return PodDemand.of(core_pod)


@dataclass(frozen=True, slots=True)
class WideDemand:
    """Counts a pod with very many resource names, in the names that are asked for."""

    packed: bytes
    """The pod with the fields that decide its demand, as compressed JSON."""

    @property
    def weight(self) -> int:
        return len(self.packed)

    def __call__(self, names: frozenset[str]) -> PodDemand:
        body = decompress(self.packed)
        # A search of the bytes costs a tenth of decoding them.
        found = {name for name in names if _ENCODER.encode(name) in body}
        return _demand_in(restricted(_DECODER.decode(body if found else b"{}"), found))


def restricted(pod: wire_pod.Pod, names: Collection[str]) -> wire_pod.Pod:
    """Remove all amounts of other names from the pod. Returns the same pod."""
    for amounts in amounts_of(pod):
        kept = {name: amounts[name] for name in names if name in amounts}
        amounts.clear()
        amounts.update(kept)
    return pod


def amounts_of(pod: wire_pod.Pod) -> Iterator[RawResourceList]:
    """All lists of amounts that decide the demand of a pod."""
    spec, status = pod.spec or wire_pod.PodSpec(), pod.status or wire_pod.PodStatus()
    requirements = [
        spec.resources,
        status.resources,
        *(each.resources for each in spec.containers or ()),
        *(each.resources for each in spec.init_containers or ()),
        *(each.resources for each in status.container_statuses or ()),
        *(each.resources for each in status.init_container_statuses or ()),
    ]
    lists = [
        spec.overhead,
        status.allocated_resources,
        *(each.allocated_resources for each in status.container_statuses or ()),
        *(each.allocated_resources for each in status.init_container_statuses or ()),
    ]
    for each in requirements:
        if each is not None:
            lists += (each.requests, each.limits)
    return (amounts for amounts in lists if amounts)
