"""The settings file that describes sources: programs that record devices in pod annotations.

It is decoded to `core.devices.source`. Unknown fields are errors, and every error names its place
in the file.
"""

import re
from collections.abc import Mapping, Sized
from dataclasses import asdict
from typing import Final, TypeVar

import msgspec
from msgspec import inspect, structs

from bursar.core.devices.conflicts import KUBELET, STATUS
from bursar.core.devices.rows import DYNAMIC
from bursar.core.devices.source import (
    KOORDINATOR,
    Delimiters,
    Fields,
    KindRule,
    Layout,
    Shape,
    Source,
)
from bursar.core.model.names import is_extended, qualified_name_errors
from bursar.core.quota.names import is_application_name
from bursar.wire.devices.values import require_word
from bursar.wire.documents.stream import Document, read_documents
from bursar.wire.documents.text import START, DocumentError
from bursar.wire.documents.tree import Value, steps_towards
from bursar.wire.structs.fields import FIELD_LENGTH_MAX, FieldError, printable, quoted
from bursar.wire.structs.shape import described, shaped

SOURCES_MAX: Final = 32
KINDS_MAX: Final = 64
NAMES_MAX: Final = 256
RESERVED_NAMES: Final = frozenset({KUBELET, STATUS, DYNAMIC})
"""Names of sources that are not annotations."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Several = TypeVar("Several", bound=Sized)

_PLACES: Final = frozenset({"", "device", "minor", "kind", "vendor", "container", "template"})


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """A part of the file. Any field may be missing or null; `_source` checks required fields."""


class _Fields(_Struct):
    device: str | None = None
    minor: str | None = None
    kind: str | None = None
    vendor: str | None = None
    container: str | None = None
    amounts: str | None = None
    extension: str | None = None
    functions: str | None = None
    function_address: str | None = None
    template: str | None = None


class _Delimiters(_Struct):
    containers: str | None = None
    devices: str | None = None
    fields: str | None = None
    order: list[str] | None = None


class _Layout(_Struct):
    shape: str | None = None
    kind: str | None = None
    fields: _Fields | None = None
    delimiters: _Delimiters | None = None


class _Kind(_Struct):
    resource: str | None = None
    by_vendor: dict[str, str] | None = None
    by_prefix: dict[str, str] | None = None
    asked_by: list[str] | None = None
    counted: list[str] | None = None
    percent: list[str] | None = None
    bounded: bool | None = None
    numbered: bool | None = None
    charged_as: str | None = None


class _Source(_Struct):
    name: str | None = None
    annotation: str | None = None
    layout: _Layout | None = None
    kinds: dict[str, _Kind] | None = None
    inventoried: bool | None = None


class _Settings(_Struct):
    koordinator: bool | None = None
    sources: list[_Source] | None = None


def decode_sources(text: bytes) -> tuple[Source, ...]:
    """Decode the file. Koordinator comes first unless the file replaces or disables it.

    Raises `DocumentError`, a `ValueError` of one line with place, field and problem.
    """
    documents = list(read_documents([text]))
    if len(documents) != 1:
        raise DocumentError("one document with a list of sources is expected", START)
    (document,) = documents
    try:
        return _sources(document.value)
    except FieldError as error:
        raise _placed(document, error) from None


def _placed(document: Document, error: FieldError) -> DocumentError:
    steps = steps_towards(document.value, error.field)
    field = printable(error.field, FIELD_LENGTH_MAX)
    return DocumentError(error.problem, document.place_of(steps), field)


def _sources(value: Value) -> tuple[Source, ...]:
    if not isinstance(value, dict):
        raise FieldError("", f"an object with sources is expected, found {described(value)}")
    _refuse_unknown(value, inspect.type_info(_Settings), "")
    settings = shaped(value, _Settings)
    written = settings.sources or []
    if len(written) > SOURCES_MAX:
        raise FieldError("sources", f"more than {SOURCES_MAX}")
    found: dict[str, Source] = {}
    if settings.koordinator is not False:
        found[KOORDINATOR.name] = KOORDINATOR
    names: set[str] = set()
    for index, raw in enumerate(written):
        source = _source(raw, f"sources[{index}]")
        if source.name in names:
            raise FieldError(f"sources[{index}].name", f"{quoted(source.name)} is there already")
        names.add(source.name)
        found[source.name] = source
    if not found:
        raise FieldError("sources", "required if koordinator is switched off")
    return tuple(found.values())


def _refuse_unknown(value: Value, wanted: inspect.Type, field: str) -> None:
    """Check keys only; `shaped` checks the types of values."""
    match wanted:
        case inspect.UnionType(types=types):
            for each in types:
                _refuse_unknown(value, each, field)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            known = {each.encode_name: each.type for each in fields}
            for key, inner in value.items():
                below = f"{field}.{key}" if field else key
                if key not in known:
                    raise FieldError(below, f"unknown; one of {', '.join(known)} is expected")
                _refuse_unknown(inner, known[key], below)
        case inspect.DictType(value_type=inner_type) if isinstance(value, dict):
            for key, inner in value.items():
                _refuse_unknown(inner, inner_type, f"{field}[{key}]")
        case inspect.ListType(item_type=inner_type) if isinstance(value, list):
            for index, inner in enumerate(value):
                _refuse_unknown(inner, inner_type, f"{field}[{index}]")


# ------------------------------------------------------------------ one source


def _source(raw: _Source, field: str) -> Source:
    name = _required(raw.name, f"{field}.name")
    if not _NAME.fullmatch(name):
        problem = "small letters, digits and dashes are expected, at most 63: it labels metrics"
        raise FieldError(f"{field}.name", problem)
    if name in RESERVED_NAMES:
        raise FieldError(f"{field}.name", f"{quoted(name)} is reserved")
    annotation = _required(raw.annotation, f"{field}.annotation")
    if errors := qualified_name_errors(annotation):
        raise FieldError(f"{field}.annotation", f"no key of an annotation: {errors[0]}")
    if not raw.kinds:
        raise FieldError(f"{field}.kinds", "required: which kinds of devices it gives")
    if len(raw.kinds) > KINDS_MAX:
        raise FieldError(f"{field}.kinds", f"more than {KINDS_MAX}")
    kinds = {
        _word(kind, f"{field}.kinds"): _kind(rule, f"{field}.kinds.{kind}")
        for kind, rule in raw.kinds.items()
    }
    return Source(
        name=name,
        annotation=annotation,
        layout=_layout(raw.layout or _Layout(), kinds, f"{field}.layout"),
        kinds=kinds,
        is_inventoried=bool(raw.inventoried),
    )


def _kind(raw: _Kind, field: str) -> KindRule:
    return KindRule(
        resource=_resource(_required(raw.resource, f"{field}.resource"), f"{field}.resource"),
        by_vendor={
            _word(vendor.lower(), f"{field}.byVendor"): _resource(name, f"{field}.byVendor")
            for vendor, name in _few(raw.by_vendor or {}, f"{field}.byVendor").items()
        },
        by_prefix={
            _word(_required(prefix, f"{field}.byPrefix"), f"{field}.byPrefix"): _resource(
                name, f"{field}.byPrefix"
            )
            for prefix, name in _few(raw.by_prefix or {}, f"{field}.byPrefix").items()
        },
        asked_by=_names(raw.asked_by, f"{field}.askedBy"),
        counted=_names(raw.counted, f"{field}.counted"),
        percent=_names(raw.percent, f"{field}.percent"),
        is_bounded=bool(raw.bounded),
        is_numbered=bool(raw.numbered),
        charged_as=_charged_as(raw.charged_as or "", f"{field}.chargedAs"),
    )


def _charged_as(name: str, field: str) -> str:
    if name and not is_application_name(name):
        problem = f"{quoted(name)} is no name of an amount that quotas limit, such as gpu/cards"
        raise FieldError(field, problem)
    return name


def _layout(raw: _Layout, kinds: Mapping[str, KindRule], field: str) -> Layout:
    shapes = {shape.value: shape for shape in Shape}
    shape = shapes.get(raw.shape or Shape.BY_TYPE.value)
    if shape is None:
        raise FieldError(f"{field}.shape", f"one of {', '.join(shapes)} is expected")
    if shape is Shape.DELIMITED and raw.fields is not None:
        raise FieldError(
            f"{field}.fields", "only JSON has these; say what is where in `delimiters`"
        )
    if shape is not Shape.DELIMITED and raw.delimiters is not None:
        raise FieldError(f"{field}.delimiters", "only the shape `delimited` has these")
    if raw.kind and raw.kind not in kinds:
        raise FieldError(f"{field}.kind", f"{quoted(raw.kind)} is none of the kinds below")
    layout = Layout(
        shape=shape,
        kind=raw.kind or "",
        fields=_fields(raw.fields or _Fields(), f"{field}.fields"),
        delimiters=_delimiters(raw.delimiters or _Delimiters(), f"{field}.delimiters"),
    )
    if not layout.kind and not _tells_kind(layout):
        raise FieldError(f"{field}.kind", "required, because the devices do not name their kind")
    return layout


def _tells_kind(layout: Layout) -> bool:
    if layout.shape is Shape.DELIMITED:
        return "kind" in layout.delimiters.order
    return layout.shape is Shape.BY_TYPE or bool(layout.fields.kind)


def _fields(raw: _Fields, field: str) -> Fields:
    usual = asdict(Fields())
    written = {name: text for name, text in structs.asdict(raw).items() if text is not None}
    for text in written.values():
        _word(text, field)
    chosen = Fields(**(usual | written))
    if not chosen.device and not chosen.minor:
        raise FieldError(field, "device or minor is required to identify a device")
    return chosen


def _delimiters(raw: _Delimiters, field: str) -> Delimiters:
    usual = Delimiters()
    cut = Delimiters(
        containers=usual.containers if raw.containers is None else raw.containers,
        devices=usual.devices if raw.devices is None else raw.devices,
        fields=_required(usual.fields if raw.fields is None else raw.fields, f"{field}.fields"),
        order=usual.order if raw.order is None else tuple(raw.order),
    )
    signs = [sign for sign in (cut.containers, cut.devices, cut.fields) if sign]
    if len(set(signs)) < len(signs):
        raise FieldError(field, "containers, devices and fields must be cut by different signs")
    for index, name in enumerate(_few(cut.order, f"{field}.order")):
        if name not in _PLACES and not is_extended(name):
            known = ", ".join(sorted(_PLACES - {""}))
            problem = f"{known}, the name of a resource, or an empty text is expected"
            raise FieldError(f"{field}.order[{index}]", problem)
        if name and name in cut.order[:index]:
            raise FieldError(f"{field}.order[{index}]", f"{quoted(name)} is there already")
    if not {"device", "minor"} & set(cut.order):
        raise FieldError(f"{field}.order", "device or minor is required")
    return cut


# ------------------------------------------------------------------ values


def _required(text: str | None, field: str) -> str:
    if not text:
        raise FieldError(field, "required, but missing or empty")
    return text


def _word(text: str, field: str) -> str:
    try:
        return require_word(text, "")
    except ValueError as error:
        raise FieldError(field, str(error).removeprefix(": ")) from None


def _resource(name: str, field: str) -> str:
    if not is_extended(name):
        problem = f"{quoted(name)} is no name of an extended resource, such as nvidia.com/gpu"
        raise FieldError(field, problem)
    return name


def _few(several: Several, field: str) -> Several:
    if len(several) > NAMES_MAX:
        raise FieldError(field, f"more than {NAMES_MAX}")
    return several


def _names(names: list[str] | None, field: str) -> tuple[str, ...]:
    return tuple(
        _resource(name, f"{field}[{index}]") for index, name in enumerate(_few(names or [], field))
    )
