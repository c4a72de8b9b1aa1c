"""Wanted capacity of extended resources: annotations of nodes, and two ConfigMaps.

An entry that cannot be read becomes a problem text and is left out. It does not make the whole
object unreadable, so all other entries still apply.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from bursar.core.model.selectors.selector import (
    EVERYTHING,
    LabelSelector,
    Selector,
    SelectorError,
    selector_of,
)
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import (
    ADAPTOR_ANNOTATION,
    MARK_ANNOTATION,
    OVERRIDE_ANNOTATION,
    RESOURCES_MAX,
    CapacityNode,
    Declaration,
    Declared,
    amount_problem,
    preset,
    resource_problem,
)
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.core.sharing import NO_LABELS
from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DocumentError
from bursar.wire.documents.tree import Value
from bursar.wire.model.node import Node, NodeStatus
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import (
    RawTexts,
    decode_resources,
    decode_texts,
    printable,
    quoted,
)
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.shape import described
from bursar.wire.structs.struct import Struct

ANNOTATION_LENGTH_MAX: Final = 8192
DECLARATION_LENGTH_MAX: Final = 16384
DECLARATIONS_MAX: Final = 256


class _ConfigMap(Struct):
    data: RawTexts | None = None


# ------------------------------------------------------------------ nodes


def decode_capacity_node(body: bytes) -> CapacityNode:
    """Decode a node. Raises `FieldError` or another `ValueError`."""
    raw = decode_body(body, Node)
    meta, status = raw.metadata or ObjectMeta(), raw.status or NodeStatus()
    annotations = decode_texts(meta.annotations)
    override, problem = _override_in(annotations)
    return CapacityNode(
        name=meta.name or "",
        labels=decode_texts(meta.labels),
        capacity=decode_resources(status.capacity, "status.capacity"),
        allocatable=decode_resources(status.allocatable, "status.allocatable"),
        marked=_marked_in(annotations),
        override=override,
        problem=problem,
        is_adaptors=bool(annotations.get(ADAPTOR_ANNOTATION)),
        has_annotations=bool(meta.annotations),
        has_capacity=bool(status.capacity),
        has_allocatable=bool(status.allocatable),
    )


def _marked_in(annotations: Mapping[str, str]) -> dict[str, int]:
    """The amounts that Bursar wrote; none if the annotation is unreadable.

    Amounts that other programs may have written are then left alone.
    """
    try:
        amounts = _amounts_in(annotations.get(MARK_ANNOTATION, ""))
    except ValueError:
        return {}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _override_in(annotations: Mapping[str, str]) -> tuple[dict[str, int | None], str]:
    try:
        return _amounts_in(annotations.get(OVERRIDE_ANNOTATION, "")), ""
    except ValueError as error:
        return {}, f"annotation {OVERRIDE_ANNOTATION}: {error}"


def _amounts_in(text: str) -> dict[str, int | None]:
    if not text:
        return {}
    if len(text) > ANNOTATION_LENGTH_MAX:
        raise ValueError(f"longer than {ANNOTATION_LENGTH_MAX} characters")
    try:
        raw: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("not a JSON object of resource names and amounts") from None
    if not isinstance(raw, dict):
        raise ValueError("not a JSON object of resource names and amounts")  # noqa: TRY004 - one kind of error for all mistakes
    if len(raw) > RESOURCES_MAX:
        raise ValueError(f"more than {RESOURCES_MAX} resources")
    return {name: _amount_of(name, amount) for name, amount in raw.items()}


def _amount_of(name: str, amount: object) -> int | None:
    if problem := resource_problem(name):
        raise ValueError(f"{quoted(name)}: {problem}")
    if amount is None:
        return None
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise ValueError(f"{quoted(name)}: the amount must be a whole number or null")  # noqa: TRY004 - one kind of error for all mistakes
    if problem := amount_problem(amount):
        raise ValueError(f"{quoted(name)}: {problem}")
    return amount


# ------------------------------------------------------------------ ConfigMaps


def preset_decoder(selector: Selector, resource: str = VM_RESOURCE) -> Callable[[bytes], Declared]:
    """A decoder for upstream's ConfigMap of peer pods, which applies to the selected nodes."""

    def decode(body: bytes) -> Declared:
        return preset(_data_of(body), selector, resource)

    return decode


def decode_declarations(body: bytes) -> Declared:
    """Decode Bursar's ConfigMap. Each key declares the amount of one resource on some nodes."""
    found: list[Declaration] = []
    problems: list[str] = []
    data = _data_of(body)
    if len(data) > DECLARATIONS_MAX:
        problems.append(f"more than {DECLARATIONS_MAX} declarations; those beyond are left out")
    for name, text in sorted(data.items())[:DECLARATIONS_MAX]:
        try:
            found.append(_declaration(name, text))
        except ValueError as error:
            problems.append(f"{printable(name)}: {printable(str(error), 512)}")
    return Declared(declarations=tuple(found), problems=tuple(problems))


def _data_of(body: bytes) -> Mapping[str, str]:
    data = decode_body(body, _ConfigMap).data
    return NO_LABELS if data is None else decode_texts(data)


def _declaration(name: str, text: str) -> Declaration:
    fields = _fields_of(text)
    unknown = sorted(fields.keys() - {"resource", "amount", "nodeSelector"})
    if unknown:
        raise ValueError(f"unknown field {quoted(unknown[0])}")
    resource, amount = fields.get("resource"), fields.get("amount")
    if not isinstance(resource, str):
        raise ValueError(f"resource: a string is expected, found {described(resource)}")  # noqa: TRY004 - one kind of error for all mistakes
    if problem := resource_problem(resource):
        raise ValueError(f"resource: {quoted(resource)}: {problem}")
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise ValueError(f"amount: a whole number is expected, found {described(amount)}")  # noqa: TRY004 - one kind of error for all mistakes
    if problem := amount_problem(amount):
        raise ValueError(f"amount: {problem}")
    selector = _selector_of(fields.get("nodeSelector"))
    return Declaration(name=name, resource=resource, amount=amount, selector=selector)


def _fields_of(text: str) -> dict[str, Value]:
    if len(text) > DECLARATION_LENGTH_MAX:
        raise ValueError(f"longer than {DECLARATION_LENGTH_MAX} characters")
    try:
        documents = [document.value for document in read_documents([text.encode()])]
    except DocumentError as error:
        raise ValueError(str(error)) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("an object with resource and amount is expected")
    return documents[0]


def _selector_of(value: Value) -> Selector:
    """A selector from labels as in a pod's nodeSelector, or from text as for `kubectl -l`."""
    try:
        match value:
            case None:
                return EVERYTHING
            case str():
                return parse_selector(value)
            case dict():
                labels = {key: _label_of(key, label) for key, label in value.items()}
                return selector_of(LabelSelector(match_labels=labels))
    except SelectorError as error:
        raise ValueError(f"nodeSelector: {error}") from None
    expected = "an object of labels or a text is expected"
    raise ValueError(f"nodeSelector: {expected}, found {described(value)}")


def _label_of(key: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    way_out = "" if isinstance(value, list | dict | None) else "; put it in quotes"
    found = f"the value of a label is a string, found {described(value)}{way_out}"
    raise ValueError(f"nodeSelector.{quoted(key)}: {found}")
