"""Selection of objects by namespace, label selector and field selector."""

import re
from dataclasses import dataclass
from typing import Any, Final

from bursar.adapters.memory import errors
from bursar.adapters.memory.kinds import COMMON_FIELDS, Kind
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import Query
from bursar.core.model.problem import quoted
from bursar.core.model.selectors.selector import EVERYTHING, Selector, SelectorError
from bursar.core.model.selectors.text import parse_selector

# A backslash escapes a comma, an equals sign or another backslash.
_TERM: Final = re.compile(r"(?:[^\\,]|\\.)+")
_COMPARISON: Final = re.compile(r"((?:[^\\=!]|\\.)*)(!=|==|=)(.*)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FieldTerm:
    path: tuple[str, ...]
    value: str
    is_equal: bool

    def matches(self, body: JsonObject) -> bool:
        return (_text_at(body, self.path) == self.value) == self.is_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A parsed query."""

    namespace: str
    labels: Selector
    terms: tuple[_FieldTerm, ...]

    def matches(self, body: JsonObject) -> bool:
        """Whether labels and fields match. The namespace is not checked."""
        if not self.labels.is_empty:
            labels = body["metadata"].get("labels") or {}
            if not self.labels.matches(labels):
                return False
        return all(term.matches(body) for term in self.terms)


def parse_query(kind: Kind, query: Query) -> Selection:
    """Parse a query. Raises `InvalidError` (400) with the API server's message."""
    try:
        labels = parse_selector(query.label_selector) if query.label_selector else EVERYTHING
    except SelectorError as error:
        raise errors.bad_request(kind.resource, None, str(error)) from None
    terms = tuple(_term(kind, text) for text in _TERM.findall(query.field_selector))
    return Selection(namespace=query.namespace, labels=labels, terms=terms)


def _term(kind: Kind, text: str) -> _FieldTerm:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        detail = f"invalid selector: '{text}'; can't understand '{text}'"
        raise errors.bad_request(kind.resource, None, detail)
    name, sign, value = match.groups()
    if name not in (kind.fields or COMMON_FIELDS):
        raise errors.bad_request(kind.resource, None, _unknown_field(kind, name))
    text_wanted = _ESCAPED.sub(r"\1", value)
    return _FieldTerm(path=tuple(name.split(".")), value=text_wanted, is_equal=sign != "!=")


def _unknown_field(kind: Kind, name: str) -> str:
    if kind.fields is not None:
        return f"field label not supported: {name}"
    known = ", ".join(quoted(field) for field in COMMON_FIELDS)
    return f"{quoted(name)} is not a known field selector: only {known}"


def _text_at(body: JsonObject, path: tuple[str, ...]) -> str:
    """The value of a field for selectors. An absent field is empty, an absent boolean `false`."""
    value: Any = body
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "false" if path[-1] == "unschedulable" else ""
    return str(value)
