"""Rules for labels, annotations and label selectors."""

from collections.abc import Iterator, Mapping
from typing import Final

from bursar.core.model.names import bytes_of, qualified_name_errors
from bursar.core.model.problem import Problem, forbidden, invalid, required, too_long
from bursar.core.model.selectors.selector import (
    LabelExpression,
    LabelSelector,
    Selector,
    SelectorError,
    label_value_errors,
    selector_of,
)
from bursar.wire.validation.formats import each_invalid
from bursar.wire.validation.section import Section

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


def label_name(field: str, name: str) -> Iterator[Problem]:
    yield from each_invalid(field, name, qualified_name_errors(name))


def labels(field: str, found: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in found.items():
        yield from label_name(field, key)
        yield from each_invalid(field, value, label_value_errors(value))


def annotations(field: str, found: Mapping[str, str]) -> Iterator[Problem]:
    for key in found:
        yield from each_invalid(field, key, qualified_name_errors(key.lower()))
    if sum(bytes_of(key) + bytes_of(value) for key, value in found.items()) > ANNOTATIONS_BYTES_MAX:
        yield too_long(field, ANNOTATIONS_BYTES_MAX)


def label_selector(selector: Section | None) -> Iterator[Problem]:
    if selector is None:
        return
    yield from labels(selector.at("matchLabels"), selector.text_map("matchLabels"))
    for expression in selector.items("matchExpressions"):
        yield from _expression(expression)


def _expression(expression: Section) -> Iterator[Problem]:
    operator, values = expression.text("operator"), expression.texts("values")
    if operator in _WITH_VALUES:
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(expression.at("values"), detail)
    elif operator in _WITHOUT_VALUES:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(expression.at("values"), detail)
    else:
        field = expression.at("operator")
        yield invalid(field, expression.word("operator"), "not a valid selector operator")
    yield from label_name(expression.at("key"), expression.text("key"))
    for index, value in enumerate(values):
        yield from each_invalid(
            f"{expression.at('values')}[{index}]", value, label_value_errors(value)
        )


def compiled(selector: Section | None) -> Selector | None:
    """The selector as the server evaluates it; None if it is invalid."""
    if selector is None:
        return selector_of(None)
    try:
        return selector_of(
            LabelSelector(
                match_labels=selector.text_map("matchLabels"),
                match_expressions=tuple(
                    LabelExpression(
                        key=each.text("key"),
                        operator=each.text("operator"),
                        values=each.texts("values"),
                    )
                    for each in selector.items("matchExpressions")
                ),
            )
        )
    except SelectorError:
        return None
