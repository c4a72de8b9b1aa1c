"""Label selectors.

A selector is a list of requirements that must all hold. There are two ways to write
one: as it stands in API objects (`LabelSelector`, read here) and as text for
`kubectl -l` (read in `selectors/text`). Both become the same `Selector`, and their errors have
the same words. No selector at all selects nothing, while an empty selector selects everything.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.core.model.names import bytes_of, qualified_name_errors
from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.problem import Problem, invalid, quoted
from bursar.core.sharing import no_labels


class SelectorError(ValueError):
    """The selector is not valid. The message is upstream's, word for word."""


class Operator(Enum):
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One condition on one label. Build it with `requirement`, which checks it."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
                return value is not None and value in self.values
            case Operator.NOT_IN | Operator.NOT_EQUALS:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case _:
                return value is not None and self._compares(value)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({self._values_text()})"
            case _:
                sign = _COMPARISON_SIGNS.get(self.operator, self.operator.value)
                return f"{self.key}{sign}{self._values_text()}"

    def _values_text(self) -> str:
        return ",".join(sorted(self.values))

    def _compares(self, value: str) -> bool:
        held, bound = parsed_int64(value), parsed_int64(self.values[0])
        if held is None or bound is None:
            return False
        return held > bound if self.operator is Operator.GREATER_THAN else held < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Requirements that must all hold, sorted by key."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    """True only of the selector that is absent; one that contradicts itself is not detected."""

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.selects_nothing and all(
            requirement.matches(labels) for requirement in self.requirements
        )

    def __str__(self) -> str:
        """The text form. What selects nothing has none, and prints like what selects all."""
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelExpression:
    """One of `matchExpressions`, with the operator as written: In, NotIn, Exists, DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """A selector as API objects carry it."""

    match_labels: Mapping[str, str] = field(default_factory=no_labels)
    match_expressions: tuple[LabelExpression, ...] = ()


def selector_of(selector: LabelSelector | None) -> Selector:
    """Read a selector of an API object; raise `SelectorError` at its first mistake.

    >>> selector_of(None).matches({}), selector_of(LabelSelector()).matches({})
    (False, True)
    """
    if selector is None:
        return NOTHING
    requirements = [
        requirement(key, Operator.EQUALS, (value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    for expression in selector.match_expressions:
        operator = _API_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(
                f"{quoted(expression.operator)} is not a valid label selector operator"
            )
        requirements.append(requirement(expression.key, operator, expression.values))
    return all_of(requirements)


def readable_part(selector: LabelSelector) -> Selector:
    """The requirements of a selector without those that cannot be read.

    It matches whatever the whole selector can have been meant to match. An operator in the wrong
    case, such as `in`, counts as read.

    >>> wrong = LabelExpression(key="team", operator="in", values=("a",))
    >>> str(readable_part(LabelSelector(match_expressions=(wrong,))))
    'team in (a)'
    """
    wanted: list[tuple[str, Operator, tuple[str, ...]]] = [
        (key, Operator.EQUALS, (value,)) for key, value in selector.match_labels.items()
    ]
    for each in selector.match_expressions:
        operator = _LOWER_CASE_OPERATORS.get(each.operator.lower())
        if operator is not None:
            wanted.append((each.key, operator, each.values))
    return all_of(
        Requirement(key=key, operator=operator, values=values)
        for key, operator, values in wanted
        if not _problems(key, operator, values)
    )


def all_of(requirements: Iterable[Requirement]) -> Selector:
    """The selector that has all of these requirements. Without any, it selects everything."""
    return Selector(requirements=tuple(sorted(requirements, key=lambda wanted: wanted.key)))


def requirement(key: str, operator: Operator, values: Sequence[str] = ()) -> Requirement:
    """A checked requirement. Raises `SelectorError`, which lists all mistakes."""
    texts = list(dict.fromkeys(str(problem) for problem in _problems(key, operator, values)))
    if texts:
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key=key, operator=operator, values=tuple(values))


def label_key_problem(key: str, field: str) -> Problem | None:
    errors = qualified_name_errors(key)
    return invalid(field, key, "; ".join(errors)) if errors else None


def label_value_errors(value: str) -> tuple[str, ...]:
    """Every way in which this is not a label's value, in upstream's words and order."""
    errors: list[str] = []
    if bytes_of(value) > _VALUE_BYTES_MAX:
        errors.append(f"must be no more than {_VALUE_BYTES_MAX} bytes")
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return tuple(errors)


def parsed_int64(text: str) -> int | None:
    """The number as Go's `strconv.ParseInt` reads it in base ten, or None."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match.group(1) + match.group(2))
    return number if INT64_MIN <= number <= INT64_MAX else None


def _problems(key: str, operator: Operator, values: Sequence[str]) -> list[Problem]:
    key_problem = label_key_problem(key, "key")
    found = [] if key_problem is None else [key_problem]
    fewest, most, detail = _VALUE_COUNTS[operator]
    if len(values) < fewest or (most is not None and len(values) > most):
        found.append(invalid("values", tuple(values), detail))
    if operator in _COMPARISON_SIGNS:
        found += [
            invalid(f"values[{index}]", value, _NOT_AN_INTEGER)
            for index, value in enumerate(values)
            if parsed_int64(value) is None
        ]
    for index, value in enumerate(values):
        errors = label_value_errors(value)
        if errors:
            found.append(invalid(f"values[{index}][{key}]", value, "; ".join(errors)))
    return found


_API_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_LOWER_CASE_OPERATORS: Final = {name.lower(): each for name, each in _API_OPERATORS.items()}
_SET: Final = (1, None, "for 'in', 'notin' operators, values set can't be empty")
_EXACT: Final = (1, 1, "exact-match compatibility requires one single value")
_UNARY: Final = (0, 0, "values set must be empty for exists and does not exist")
_COMPARISON: Final = (1, 1, "for 'Gt', 'Lt' operators, exactly one value is required")
_VALUE_COUNTS: Final[Mapping[Operator, tuple[int, int | None, str]]] = {
    Operator.IN: _SET,
    Operator.NOT_IN: _SET,
    Operator.EQUALS: _EXACT,
    Operator.DOUBLE_EQUALS: _EXACT,
    Operator.NOT_EQUALS: _EXACT,
    Operator.EXISTS: _UNARY,
    Operator.DOES_NOT_EXIST: _UNARY,
    Operator.GREATER_THAN: _COMPARISON,
    Operator.LESS_THAN: _COMPARISON,
}
"""Fewest and most values an operator takes, and the error for any other number."""

_COMPARISON_SIGNS: Final = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_VALUE_BYTES_MAX: Final = 63
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NOT_AN_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"
