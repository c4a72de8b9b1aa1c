"""A problem: a validation error of one field, with the API server's text.

The text is upstream's to the letter, because people search for it and programs
compare it. A problem is a value, not an exception: an object can have many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from bursar.core.model.quantity import Quantity


class ProblemKind(Enum):
    INVALID = "Invalid value"
    REQUIRED = "Required value"
    FORBIDDEN = "Forbidden"
    NOT_SUPPORTED = "Unsupported value"
    DUPLICATE = "Duplicate value"
    NOT_FOUND = "Not found"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"


_WITHOUT_VALUE: Final = frozenset(
    {ProblemKind.REQUIRED, ProblemKind.FORBIDDEN, ProblemKind.TOO_LONG}
)


@dataclass(frozen=True, slots=True)
class JsonText:
    """A text that upstream prints as JSON rather than as a Go string.

    It does so for strings with a type of their own, such as resource names and
    QoS classes. The two notations differ in what they escape.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value that is printed as it is, such as the JSON of an object. An empty one is left out."""

    text: str


Value: TypeAlias = str | int | Quantity | JsonText | Verbatim | tuple[str, ...] | None
"""What was wrong. A list of texts is printed as JSON too."""


NO_VALUE: Final = Verbatim("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    field: str
    """The path of the field, such as `spec.containers[0].resources.limits[cpu]`."""
    kind: ProblemKind
    value: Value = None
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    @property
    def body(self) -> str:
        """The text without the field, as a cause in the server's answer carries it."""
        body = self.kind.value
        if self.kind not in _WITHOUT_VALUE and self.value != NO_VALUE:
            body += f": {_printed(self.value)}"
        return f"{body}: {self.detail}" if self.detail else body


def invalid(field: str, value: Value, detail: str) -> Problem:
    return Problem(field=field, kind=ProblemKind.INVALID, value=value, detail=detail)


def required(field: str, detail: str = "") -> Problem:
    return Problem(field=field, kind=ProblemKind.REQUIRED, detail=detail)


def forbidden(field: str, detail: str) -> Problem:
    return Problem(field=field, kind=ProblemKind.FORBIDDEN, detail=detail)


def not_supported(field: str, value: Value, supported: Iterable[str]) -> Problem:
    detail = "supported values: " + ", ".join(quoted(word) for word in supported)
    return Problem(field=field, kind=ProblemKind.NOT_SUPPORTED, value=value, detail=detail)


def duplicate(field: str, value: Value) -> Problem:
    return Problem(field=field, kind=ProblemKind.DUPLICATE, value=value)


def not_found(field: str, value: Value, detail: str = "") -> Problem:
    return Problem(field=field, kind=ProblemKind.NOT_FOUND, value=value, detail=detail)


def too_long(field: str, bytes_max: int) -> Problem:
    detail = f"may not be more than {bytes_max} bytes"
    return Problem(field=field, kind=ProblemKind.TOO_LONG, detail=detail)


def too_many(field: str, count: int, most: int) -> Problem:
    detail = f"must have at most {most} items"
    return Problem(field=field, kind=ProblemKind.TOO_MANY, value=count, detail=detail)


def render_invalid(kind: str, name: str, problems: Iterable[Problem]) -> str:
    """The message of the API server's refusal (422, reason Invalid); each text appears once.

    >>> print(render_invalid("Pod", "web", [required("spec.a"), required("spec.b")]))
    Pod "web" is invalid: [spec.a: Required value, spec.b: Required value]
    """
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    subject = f"{kind} {quoted(name)} is invalid"
    if not texts:
        return subject
    return f"{subject}: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"


# ------------------------------------------------------------------ values as upstream prints them


def _printed(value: Value) -> str:
    if isinstance(value, JsonText):
        return json_text(value.text)
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        # In Go an empty list is nil here, and null in JSON.
        return f"[{','.join(json_text(text) for text in value)}]" if value else "null"
    if isinstance(value, str):
        return quoted(value)
    return f'"{value}"' if isinstance(value, Quantity) else str(value)


def json_text(text: str) -> str:
    """The text in JSON, with the escapes of Go's encoder."""
    return f'"{text.translate(_JSON_ESCAPES)}"'


def quoted(text: str) -> str:
    r"""The text in Go's quotes: what can be printed stays, the rest is escaped.

    >>> print(quoted('größe "a"\n\x01'))
    "größe \"a\"\n\x01"
    """
    return f'"{"".join(_GO_ESCAPES.get(char) or _go_escaped(char) for char in text)}"'


def _go_escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_GO_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

# Go's encoder escapes what could end a script in a web page, and two line breaks of JavaScript.
_JSON_ESCAPES: Final = str.maketrans(
    {
        **{chr(code): f"\\u{code:04x}" for code in (*range(0x20), *b"<>&", 0x2028, 0x2029)},
        **{char: _GO_ESCAPES[char] for char in '"\\\b\f\n\r\t'},
    }
)


# ------------------------------------------------------------------ lists in our own texts


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "pod"), counted(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def some_of(names: Sequence[str], most: int, joint: str = ", ") -> str:
    """The first names, and the number of the others.

    >>> some_of("abcd", 2), some_of("ab", 2)
    ('a, b and 2 more', 'a, b')
    """
    rest = len(names) - most
    return joint.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
