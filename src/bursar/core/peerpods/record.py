"""What a rewrite removed from a pod, kept on the pod as one annotation.

Rewriting empties the containers, so without a record nobody could say afterwards what the
pod asked for: neither a quota, nor a second rewrite after others have changed the pod.

Whoever may create a pod can write this annotation, too. It is believed only on a pod of our
runtime class that asks for a VM, and only if the pod could have asked for the same in its
containers. So nothing is gained by forging it: the rewrite makes the VM of the same record
that a quota charges, and it is as if the author had asked for that in the first place. What
is still in the containers counts in any case. Afterwards nobody can change it
(`app/peerpod_protection`). It is not read as a promise either: every part is checked, and if
one is wrong the whole is as good as absent.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.names import may_overcommit
from bursar.core.model.pod import (
    NO_RESOURCES,
    ClaimReference,
    Container,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.pod_row import PodDemand
from bursar.core.model.quantity import Format, Quantity, QuantityError
from bursar.core.model.resources import ResourceList, maximum
from bursar.core.peerpods.judging import resource_problems
from bursar.core.peerpods.removed import ContainerKind, Removed
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.sizing import NO_SIZE, SizeTexts

RECORD_ANNOTATION: Final = "bursar.io/peerpod-removed"
VERSION: Final = "1"
RECORD_LENGTH_MAX: Final = 1 << 18
"""All annotations of an object together may not be larger, so no record is."""
SIZE_KEYS: Final = SizeTexts._fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    containers: tuple[Removed, ...] = ()
    pod: ResourceRequirements = NO_RESOURCES
    """What the pod asked for as a whole."""
    size: SizeTexts = NO_SIZE
    """What the annotations say since the last rewrite; something else comes from elsewhere."""
    instance: str = ""
    """The instance type written to the pod, if any."""

    @property
    def is_empty(self) -> bool:
        return not self.containers and self.pod == NO_RESOURCES

    def by_name(self) -> dict[str, ResourceRequirements]:
        """What each container asked for; one that asked for nothing is not there."""
        return {each.name: each.resources for each in self.containers}


NO_RECORD: Final = Record()


# ------------------------------------------------------------------ what it tells


def believed_record(pod: Pod, settings: PeerPodSettings) -> Record | None:
    """The record of a pod that was rewritten; None for every other pod, for those who count.

    One that makes a pod which an API server would refuse was never written by a rewrite.
    """
    record = find_record(pod, settings)
    if record is None or resource_problems(restored(record, pod)):
        return None
    return record


def find_record(pod: Pod, settings: PeerPodSettings) -> Record | None:
    """A record where a rewrite would have put it; whether it can be right is not looked at.

    The VM need not be asked for by the first container: others may have put one before it.
    """
    text = pod.annotations.get(RECORD_ANNOTATION)
    if text is None or pod.runtime_class not in settings.runtime_classes:
        return None
    if not any(asks_for_vm(container, settings) for container in pod.containers):
        return None
    try:
        return parse_record(text)
    except RecordError:
        return None


def asks_for_vm(container: Container, settings: PeerPodSettings) -> bool:
    resources = container.resources
    return all(
        settings.vm_resource in side and side[settings.vm_resource] == _ONE
        for side in (resources.requests, resources.limits)
    )


_ONE: Final = Quantity.of(1)


def demand_of(record: Record, pod: Pod) -> PodDemand:
    """What the pod really asks for, for those who count: as if nothing had been removed.

    The VM is counted besides, and so is what was left in the containers.
    """
    return PodDemand.of(restored(record, pod))


def restored(record: Record, pod: Pod) -> Pod:
    """The pod with everything back that was removed; the VM stays as well."""
    whole = _together(record.pod, pod.resources or NO_RESOURCES)
    return replace(
        pod,
        containers=_restored(record, pod.containers),
        init_containers=_restored(record, pod.init_containers),
        resources=pod.resources if whole == NO_RESOURCES else whole,
    )


def as_recorded(record: Record, pod: Pod) -> Pod:
    """The pod with nothing but what was removed from it."""
    removed = record.by_name()
    containers, init_containers = (
        tuple(replace(each, resources=removed.get(each.name, NO_RESOURCES)) for each in containers)
        for containers in (pod.containers, pod.init_containers)
    )
    return replace(
        pod,
        containers=containers,
        init_containers=init_containers,
        resources=None if record.pod == NO_RESOURCES else record.pod,
    )


def _restored(record: Record, containers: Iterable[Container]) -> tuple[Container, ...]:
    removed = record.by_name()
    return tuple(
        replace(
            container,
            resources=_together(removed.get(container.name, NO_RESOURCES), container.resources),
        )
        for container in containers
    )


def _together(removed: ResourceRequirements, left: ResourceRequirements) -> ResourceRequirements:
    """Where a name is in both, nothing was removed, and no record makes less of what is there."""
    return ResourceRequirements(
        requests=maximum(removed.requests, left.requests),
        limits=maximum(removed.limits, left.limits),
        claims=removed.claims or left.claims,
    )


# ------------------------------------------------------------------ as text


class RecordError(ValueError):
    """A text that is no record."""


def format_record(record: Record) -> str:
    """Compact JSON; what is empty is left out."""
    parts: dict[str, object] = {"v": VERSION}
    if record.containers:
        parts["containers"] = [
            {"name": each.name, "kind": each.kind.value, **_sides(each.resources)}
            for each in record.containers
        ]
    if record.pod is not NO_RESOURCES and (stated := _sides(record.pod)):
        parts["pod"] = stated
    if size := {key: text for key, text in zip(SIZE_KEYS, record.size, strict=True) if text}:
        parts["size"] = size
    if record.instance:
        parts["instance"] = record.instance
    return _encoded(parts)


_encoded: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _sides(resources: ResourceRequirements) -> dict[str, object]:
    sides: dict[str, object] = {}
    if resources.requests:
        sides["requests"] = _texts(resources.requests)
    if resources.limits:
        sides["limits"] = _texts(resources.limits)
    if resources.claims:
        sides["claims"] = [
            {"name": claim.name, "request": claim.request}
            if claim.request
            else {"name": claim.name}
            for claim in resources.claims
        ]
    return sides


def _texts(amounts: ResourceList) -> dict[str, str]:
    return {name: amount.verbatim or _amount_text(amount) for name, amount in amounts.items()}


def _amount_text(amount: Quantity) -> str:
    # Beyond 999E Kubernetes prints no suffix, and the number would come back smaller.
    text = amount.canonical
    if Quantity.parse(text) == amount:
        return text
    return replace(amount, format=Format.DECIMAL_EXPONENT, verbatim=None).canonical


def parse_record(text: str) -> Record:
    """Read a text that anybody may have written. Raises `RecordError`."""
    if len(text) > RECORD_LENGTH_MAX:
        raise RecordError("too long")
    try:
        tree: object = json.loads(
            text, parse_int=_no_number, parse_float=_no_number, parse_constant=_no_number
        )
    except (ValueError, RecursionError):
        raise RecordError("not JSON") from None
    parts = _object(tree, {"v", "containers", "pod", "size", "instance"})
    if parts.get("v") != VERSION:
        raise RecordError("of another version")
    size = _object(parts.get("size", {}), set(SIZE_KEYS))
    containers = tuple(_removed(each) for each in _list(parts.get("containers", [])))
    if len({each.name for each in containers}) < len(containers):
        raise RecordError("a container twice")
    return Record(
        containers=containers,
        pod=_resources(_object(parts.get("pod", {}), _SIDES)),
        size=SizeTexts(**{key: _string(value) for key, value in size.items()}),
        instance=_string(parts.get("instance", "")),
    )


def _no_number(_digits: str) -> None:
    """Numbers have no place in a record, so none is made of their digits."""


_SIDES: Final = {"requests", "limits", "claims"}
_KINDS: Final = {kind.value: kind for kind in ContainerKind}


def _removed(tree: object) -> Removed:
    parts = _object(tree, {"name", "kind", *_SIDES})
    kind = _KINDS.get(_string(parts.get("kind")))
    if kind is None:
        raise RecordError("an unknown kind of container")
    return Removed(_string(parts.get("name")), kind, _resources(parts))


def _resources(parts: Mapping[str, object]) -> ResourceRequirements:
    requests, limits = _amounts(parts.get("requests", {})), _amounts(parts.get("limits", {}))
    # An API server makes the request where only the limit of, say, a GPU is named. A record of
    # such a limit alone would be a GPU that nobody is charged for.
    missing = {
        name: amount
        for name, amount in limits.items()
        if name not in requests and not may_overcommit(name)
    }
    return ResourceRequirements(
        requests={**requests, **missing} if missing else requests,
        limits=limits,
        claims=tuple(_claim(each) for each in _list(parts.get("claims", []))),
    )


def _amounts(tree: object) -> ResourceList:
    amounts = {name: _amount(_string(text)) for name, text in _object(tree, None).items()}
    if any(amount.is_negative for amount in amounts.values()):
        raise RecordError("an amount below zero")
    return amounts


def _amount(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        raise RecordError("not a quantity") from None


def _claim(tree: object) -> ClaimReference:
    parts = _object(tree, {"name", "request"})
    return ClaimReference(
        name=_string(parts.get("name")), request=_string(parts.get("request", ""))
    )


def _object(tree: object, keys: set[str] | None) -> Mapping[str, object]:
    if not isinstance(tree, dict) or (keys is not None and not tree.keys() <= keys):
        raise RecordError("not the parts of a record")
    return tree


def _list(tree: object) -> list[object]:
    if not isinstance(tree, list):
        raise RecordError("not a list")
    return tree


def _string(tree: object) -> str:
    if not isinstance(tree, str):
        raise RecordError("not a text")
    return tree
