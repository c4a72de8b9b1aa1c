"""The text of the record annotation: compact JSON, in which empty parts are left out.

Any user who may create a pod can write this annotation, so all of the text is checked. A text
with one wrong part is no record.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bursar.core.model.names import may_overcommit
from bursar.core.model.pod import NO_RESOURCES, ClaimReference, ResourceRequirements
from bursar.core.model.quantity import Format, Quantity, QuantityError
from bursar.core.model.resources import ResourceList
from bursar.core.peerpods.decision import ANNOTATIONS_BYTES_MAX
from bursar.core.peerpods.names import RECORD_ANNOTATION
from bursar.core.peerpods.record import NO_RECORD, Record
from bursar.core.peerpods.sizing import NO_SIZE, ContainerKind, ContainerResources, SizeTexts


class RecordError(ValueError):
    """The text is not a record."""


class _Part(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the record that may not have any other field."""


class _Claim(_Part):
    name: str
    request: str = ""


class _Resources(_Part):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    claims: list[_Claim] = []


class _Container(_Part):
    name: str
    kind: ContainerKind
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    claims: list[_Claim] = []


class _Size(_Part):
    vcpus: str = ""
    memory: str = ""
    gpus: str = ""


class _Record(_Part):
    v: Literal["1"]
    containers: list[_Container] = []
    pod: _Resources | UnsetType = UNSET
    size: _Size | UnsetType = UNSET
    instance: str = ""


_DECODER: Final = msgspec.json.Decoder(_Record)


def format_record(record: Record) -> str:
    has_pod = record.pod != NO_RESOURCES
    parts = _Record(
        v="1",
        containers=[
            _Container(each.name, each.kind, *_sides(each.resources)) for each in record.containers
        ],
        pod=_Resources(*_sides(record.pod)) if has_pod else UNSET,
        size=UNSET if record.size == NO_SIZE else _Size(*record.size),
        instance=record.instance,
    )
    return msgspec.json.encode(parts).decode()


def _sides(
    resources: ResourceRequirements,
) -> tuple[dict[str, str], dict[str, str], list[_Claim]]:
    return (
        {name: each.verbatim or _amount_text(each) for name, each in resources.requests.items()},
        {name: each.verbatim or _amount_text(each) for name, each in resources.limits.items()},
        [_Claim(claim.name, claim.request) for claim in resources.claims],
    )


def _amount_text(amount: Quantity) -> str:
    """The text that the API server stores, unless it would be read as another amount.

    Beyond 999E Kubernetes prints no suffix, so the text would be a smaller amount.
    """
    text = amount.canonical
    if Quantity.parse(text) == amount:
        return text
    return replace(amount, format=Format.DECIMAL_EXPONENT).canonical


def read_record(annotations: Mapping[str, str]) -> Record | None:
    """The record among a pod's annotations; None if there is none, or it cannot be read."""
    text = annotations.get(RECORD_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_record(text)
    except RecordError:
        return None


def parse_record(text: str) -> Record:
    """Raises `RecordError`."""
    if len(text) > ANNOTATIONS_BYTES_MAX:
        raise RecordError("too long")
    try:
        parts = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise RecordError("not the JSON of a record") from None
    containers = tuple(
        [ContainerResources(each.name, each.kind, _resources(each)) for each in parts.containers]
    )
    if len({each.name for each in containers}) < len(containers):
        raise RecordError("a container twice")
    size = NO_SIZE if parts.size is UNSET else SizeTexts(*msgspec.structs.astuple(parts.size))
    return Record(
        containers=containers,
        pod=NO_RECORD.pod if parts.pod is UNSET else _resources(parts.pod),
        size=size,
        instance=parts.instance,
    )


def _resources(part: _Container | _Resources) -> ResourceRequirements:
    requests, limits = _amounts(part.requests), _amounts(part.limits)
    # The API server copies the limit of, for example, a GPU to its request. A record with such a
    # limit alone would be a GPU that no quota is charged for.
    missing = {
        name: amount
        for name, amount in limits.items()
        if name not in requests and not may_overcommit(name)
    }
    return ResourceRequirements(
        requests={**requests, **missing} if missing else requests,
        limits=limits,
        claims=tuple([ClaimReference(name=c.name, request=c.request) for c in part.claims]),
    )


def _amounts(texts: dict[str, str]) -> ResourceList:
    try:
        amounts = {name: Quantity.parse(text) for name, text in texts.items()}
    except QuantityError:
        raise RecordError("not a quantity") from None
    if any(amount.is_negative for amount in amounts.values()):
        raise RecordError("an amount below zero")
    return amounts
