"""Decode device annotations as the Go programs that write them would.

Every user that may create a pod may write these texts. So all sizes are bounded, and any error
rejects the whole annotation with one line. As in Go, the keys of a device match in any case, a
later key wins over an earlier one, null is no value, and a number with a point is not an integer.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias

from bursar.core.devices.claim import NO_AMOUNTS, Claim, Claims
from bursar.core.devices.source import Fields, Layout, Shape, Source
from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.wire.devices.values import decode_amount, require_word
from bursar.wire.documents.tree import Number
from bursar.wire.structs.fields import quoted

TEXT_LENGTH_MAX: Final = 64 * 1024
"""Enough for 250 devices as Koordinator writes them. Kubernetes allows four times as much, which
would keep the agent busy for a tenth of a second for each such pod."""

CLAIMS_MAX: Final = 1024
FUNCTIONS_MAX: Final = 256
"""Maximum virtual functions of one device; PCI allows no more on one bus number."""

AMOUNTS_MAX: Final = 16
"""Maximum amounts of one device."""

SHARED_MAX: Final = 256
"""Size of the cache of amounts; the amounts of nearly all devices are equal."""

MINOR_MAX: Final = 2**31 - 1

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")


@dataclass(slots=True)
class _Object:
    """A JSON object as written: a key may occur twice."""

    pairs: "list[tuple[str, _Json]]"


_Json: TypeAlias = "str | bool | Number | list[_Json] | _Object | None"


def decode_claims(
    text: str, source: Source, *, length_max: int = TEXT_LENGTH_MAX, claims_max: int = CLAIMS_MAX
) -> Claims | None:
    """Decode the annotation of a source; None if its text is `null`.

    Raises `ValueError` with one line that is safe to print.
    """
    if len(text) > length_max:
        raise ValueError(f"longer than {length_max} characters")
    if source.layout.shape is Shape.DELIMITED:
        claims = _bounded(_delimited(text, source.layout), claims_max)
        return Claims(source=source.name, claims=claims, kinds=_kinds_of(claims))
    value = _parsed(text)
    if value is None:
        return None
    if source.layout.shape is Shape.BY_TYPE:
        by_type = _by_type(_object(value, "the text"), source.layout.fields, claims_max)
        claims = tuple(claim for claims in by_type.values() for claim in claims)
        kinds = tuple(_word(kind, "a kind") for kind in by_type)
        return Claims(source=source.name, claims=claims, kinds=kinds)
    if source.layout.shape is Shape.BY_CONTAINER:
        by_container = dict(_object(value, "the text").pairs)
        claims = _bounded(_by_container(by_container, source.layout), claims_max)
    else:
        listed = _listed(_list(value, "the text"), source.layout, container="")
        claims = _bounded(listed, claims_max)
    return Claims(source=source.name, claims=claims, kinds=_kinds_of(claims))


def _bounded(claims: Iterable[Claim], most: int) -> tuple[Claim, ...]:
    found: list[Claim] = []
    for claim in claims:
        if len(found) == most:
            raise ValueError(f"more than {most} devices")
        found.append(claim)
    return tuple(found)


def _kinds_of(claims: tuple[Claim, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(claim.kind for claim in claims))


# ------------------------------------------------------------------ layouts


def _by_type(raw: _Object, fields: Fields, most: int) -> dict[str, list[Claim]]:
    """The claims by kind. If a kind occurs twice, the last is used, but both must be valid."""
    by_type: dict[str, list[Claim]] = {}
    count = 0
    for kind, devices in raw.pairs:
        several = _list(devices, quoted(kind))
        count += len(several)
        if count > most:
            raise ValueError(f"more than {most} devices")
        by_type[kind] = [
            _Device(each, f"{quoted(kind)}[{index}]", fields).claim(kind=kind)
            for index, each in enumerate(several)
        ]
    if len(by_type) > most:
        raise ValueError(f"more than {most} kinds of devices")
    return by_type


def _by_container(by_container: Mapping[str, _Json], layout: Layout) -> Iterator[Claim]:
    for container, devices in by_container.items():
        yield from _listed(_list(devices, quoted(container)), layout, container=container)


def _listed(devices: list[_Json], layout: Layout, *, container: str) -> Iterator[Claim]:
    for index, raw in enumerate(devices):
        where = f"{quoted(container)}[{index}]" if container else f"[{index}]"
        device = _Device(raw, where, layout.fields)
        yield device.claim(
            kind=device.word(layout.fields.kind) or layout.kind,
            container=container or device.word(layout.fields.container),
        )


def _delimited(text: str, layout: Layout) -> Iterator[Claim]:
    cut = layout.delimiters
    by_container = text.split(cut.containers) if cut.containers else [text]
    for index, devices in enumerate(by_container):
        for raw in devices.split(cut.devices) if cut.devices else [devices]:
            if raw.strip():
                words = [each.strip() for each in raw.split(cut.fields)]
                yield _delimited_claim(words, layout, index if cut.containers else None)


def _delimited_claim(words: list[str], layout: Layout, container_index: int | None) -> Claim:
    order = layout.delimiters.order
    if len(words) < len(order):
        raise ValueError(f"a device has {len(words)} fields; at least {len(order)} are expected")
    named = {name: word for name, word in zip(order, words, strict=False) if name}
    amounts = tuple((name, _amount(word, name)) for name, word in named.items() if "/" in name)
    return Claim(
        kind=_word(named.get("kind", "") or layout.kind, "kind"),
        device=_word(named.get("device", ""), "device"),
        minor=_minor(Number(named["minor"]), "minor") if named.get("minor") else None,
        template=_word(named.get("template", ""), "template"),
        amounts=_shared(amounts),
        container=_word(named.get("container", ""), "container"),
        container_index=None if named.get("container") else container_index,
        vendor=_word(named.get("vendor", ""), "vendor"),
    )


# ------------------------------------------------------------------ one device in JSON


@dataclass(slots=True)
class _Device:
    """A JSON object that describes a device, with the keys of its source."""

    values: Mapping[str, _Json]
    where: str
    fields: Fields

    def __init__(self, raw: _Json, where: str, fields: Fields) -> None:
        self.values = _folded(_object(raw, where))
        self.where = where
        self.fields = fields

    def word(self, name: str) -> str:
        return _word(self._value(self.values, name), f"{self.where}.{name}")

    def claim(self, *, kind: str, container: str = "") -> Claim:
        fields = self.fields
        extension = self._value(self.values, fields.extension)
        extended = {} if extension is None else self._extended(extension)
        template = self._value(extended, fields.template)
        return Claim(
            kind=_word(kind, "a kind"),
            device=self.word(fields.device),
            minor=_minor(self._value(self.values, fields.minor), f"{self.where}.{fields.minor}"),
            functions=self._functions(extended),
            is_extended=extension is not None,
            template=_word(template, f"{self.where}.{fields.template}"),
            amounts=self._amounts(),
            container=_word(container, "a container"),
            vendor=self.word(fields.vendor),
        )

    def _value(self, values: Mapping[str, _Json], name: str) -> _Json:
        return values.get(name.casefold()) if name else None

    def _extended(self, extension: _Json) -> Mapping[str, _Json]:
        return _folded(_object(extension, f"{self.where}.{self.fields.extension}"))

    def _functions(self, extended: Mapping[str, _Json]) -> tuple[str, ...]:
        name, address = self.fields.functions, self.fields.function_address
        where = f"{self.where}.{name}"
        functions = _list(self._value(extended, name), where)
        if len(functions) > FUNCTIONS_MAX:
            raise ValueError(f"{where}: more than {FUNCTIONS_MAX} functions")
        found = []
        for index, raw in enumerate(functions):
            each = {} if raw is None else _folded(_object(raw, f"{where}[{index}]"))
            _integer(self._value(each, self.fields.minor), f"{where}[{index}].{self.fields.minor}")
            found.append(_word(self._value(each, address), f"{where}[{index}].{address}"))
        return tuple(found)

    def _amounts(self) -> Mapping[str, int]:
        raw = self._value(self.values, self.fields.amounts)
        if raw is None:
            return NO_AMOUNTS
        where = f"{self.where}.{self.fields.amounts}"
        pairs = _object(raw, where).pairs
        if len({name for name, _ in pairs}) > AMOUNTS_MAX:
            raise ValueError(f"{where}: more than {AMOUNTS_MAX} amounts")
        # If a name occurs twice, the last is used, but both must be valid.
        amounts = {_word(name, where): _amount(amount, where) for name, amount in pairs}
        return _shared(tuple(amounts.items()))


@lru_cache(maxsize=SHARED_MAX)
def _shared(amounts: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """The same mapping for equal amounts, which saves memory."""
    return MappingProxyType(dict(amounts)) if amounts else NO_AMOUNTS


def _folded(raw: _Object) -> dict[str, _Json]:
    """The fields by lower-case name. If an object occurs twice, Go merges the two."""
    found: dict[str, _Json] = {}
    for key, value in raw.pairs:
        name = key.casefold()
        known = found.get(name)
        if known is not None and value is not None and type(known) is not type(value):
            # One of the two has the wrong type. No field is a boolean, so a field that is
            # read is then rejected; a field that is not read may have any type.
            found[name] = False
        elif isinstance(value, _Object) and isinstance(known, _Object):
            known.pairs.extend(value.pairs)
        elif value is not None or not isinstance(known, str | Number):
            found[name] = value
    return found


# ------------------------------------------------------------------ values


def _parsed(text: str) -> _Json:
    try:
        value: _Json = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (character {error.pos})") from None
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"not JSON: {name} is not a JSON number")


def _object(value: _Json, where: str) -> _Object:
    if not isinstance(value, _Object):
        raise ValueError(f"{where}: an object is expected")  # noqa: TRY004 - all errors of a text are ValueError
    return value


def _list(value: _Json, where: str) -> list[_Json]:
    """The list; a missing value is an empty list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{where}: a list is expected")  # noqa: TRY004 - all errors of a text are ValueError
    return value


def _word(value: _Json, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{where}: a string is expected")  # noqa: TRY004 - all errors of a text are ValueError
    return require_word(value, where)


def _integer(value: _Json, where: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, Number) or not _INTEGER.fullmatch(value.text):
        raise ValueError(f"{where}: a whole number is expected")
    number = int(value.text)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{where}: {number} does not fit in 64 bits")
    return number


def _minor(value: _Json, where: str) -> int | None:
    minor = _integer(value, where)
    if minor is not None and not -MINOR_MAX - 1 <= minor <= MINOR_MAX:
        raise ValueError(f"{where}: {minor} does not fit in 32 bits")
    return minor


def _amount(value: _Json, where: str) -> int:
    if isinstance(value, list | _Object):
        raise ValueError(f"{where}: a quantity is expected")  # noqa: TRY004 - all errors of a text are ValueError
    return decode_amount(value.text if isinstance(value, Number) else value, where)
