"""Selectors of API objects: what they match, how they print, and how they are wrong."""

import pytest

from bursar.core.model.selectors.selector import (
    EVERYTHING,
    NOTHING,
    LabelExpression,
    LabelSelector,
    Operator,
    SelectorError,
    all_of,
    label_value_errors,
    parsed_int64,
    requirement,
    selector_of,
)

WEB = {"app": "web", "size": "5"}


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelExpression(key=key, operator=operator, values=values),)
    )


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    assert selector_of(None) == NOTHING
    assert selector_of(LabelSelector()) == EVERYTHING
    assert [chosen.matches({}) for chosen in (NOTHING, EVERYTHING)] == [False, True]
    assert [chosen.is_empty for chosen in (NOTHING, EVERYTHING)] == [False, True]
    assert [str(chosen) for chosen in (NOTHING, EVERYTHING)] == ["", ""]


MATCHES = [
    (LabelSelector(match_labels={"app": "web"}), True),
    (LabelSelector(match_labels={"app": "web", "tier": "a"}), False),
    (expression("app", "In", "db", "web"), True),
    (expression("app", "In", "db"), False),
    (expression("tier", "In", "a"), False),
    (expression("app", "NotIn", "db"), True),
    (expression("app", "NotIn", "db", "web"), False),
    (expression("tier", "NotIn", "a"), True),
    (expression("app", "Exists"), True),
    (expression("tier", "Exists"), False),
    (expression("app", "DoesNotExist"), False),
    (expression("tier", "DoesNotExist"), True),
]


@pytest.mark.parametrize(("selector", "expected"), MATCHES)
def test_a_selector_matches_labels(selector, expected):
    assert selector_of(selector).matches(WEB) is expected


COMPARISONS = [
    (Operator.GREATER_THAN, "4", True),
    (Operator.GREATER_THAN, "5", False),
    (Operator.LESS_THAN, "6", True),
    (Operator.LESS_THAN, "5", False),
]


@pytest.mark.parametrize(("operator", "bound", "expected"), COMPARISONS)
def test_comparisons_are_of_numbers(operator, bound, expected):
    assert requirement("size", operator, [bound]).matches(WEB) is expected


@pytest.mark.parametrize("labels", [{}, {"size": "big"}, {"size": "9223372036854775808"}])
def test_what_is_no_number_is_neither_greater_nor_less(labels):
    for operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        assert not requirement("size", operator, ["5"]).matches(labels)


def test_a_selector_prints_sorted_by_key_with_sorted_values():
    selector = LabelSelector(
        match_labels={"z": "1", "b": ""},
        match_expressions=(
            LabelExpression(key="tier", operator="NotIn", values=("b", "a")),
            LabelExpression(key="app", operator="In", values=("web",)),
            LabelExpression(key="c", operator="Exists"),
            LabelExpression(key="d", operator="DoesNotExist"),
        ),
    )

    assert str(selector_of(selector)) == "app in (web),b=,c,!d,tier notin (a,b),z=1"


PRINTED = [
    (Operator.EQUALS, ["v"], "k=v"),
    (Operator.DOUBLE_EQUALS, ["v"], "k==v"),
    (Operator.NOT_EQUALS, ["v"], "k!=v"),
    (Operator.GREATER_THAN, ["5"], "k>5"),
    (Operator.LESS_THAN, ["5"], "k<5"),
]


@pytest.mark.parametrize(("operator", "values", "text"), PRINTED)
def test_a_requirement_prints_as_it_would_be_typed(operator, values, text):
    assert str(all_of([requirement("k", operator, values)])) == text


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

WRONG = {
    "no values to be in": (
        expression("a", "In"),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    ),
    "values where none may be": (
        expression("a", "Exists", "x", '<"&'),
        '[values: Invalid value: ["x","\\u003c\\"\\u0026"]: values set must be empty for exists '
        'and does not exist, values[1][a]: Invalid value: "<\\"&": ' + LABEL_VALUE + "]",
    ),
    "an unknown operator": (
        expression("a", "Gt", "5"),
        '"Gt" is not a valid label selector operator',
    ),
    "a bad key": (
        LabelSelector(match_labels={"-a": "x"}),
        f'key: Invalid value: "-a": {NAME_PART}',
    ),
    "an empty key": (
        expression("", "Exists"),
        f'key: Invalid value: "": name part must be non-empty; {NAME_PART}',
    ),
    "a bad value": (
        LabelSelector(match_labels={"a": "-"}),
        f'values[0][a]: Invalid value: "-": {LABEL_VALUE}',
    ),
    "the same mistake twice is told once per value": (
        expression("a", "NotIn", "-", "-"),
        (
            f'[values[0][a]: Invalid value: "-": {LABEL_VALUE}, '
            f'values[1][a]: Invalid value: "-": {LABEL_VALUE}]'
        ),
    ),
}


@pytest.mark.parametrize(("selector", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_selector_is_refused_in_upstreams_words(selector, message):
    with pytest.raises(SelectorError) as refused:
        selector_of(selector)

    assert str(refused.value) == message


BAD_COUNTS = [
    (
        Operator.EQUALS,
        ["a", "b"],
        'values: Invalid value: ["a","b"]: exact-match compatibility requires one single value',
    ),
    (
        Operator.LESS_THAN,
        [],
        "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
    ),
    (
        Operator.GREATER_THAN,
        ["x"],
        "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
]


@pytest.mark.parametrize(("operator", "values", "message"), BAD_COUNTS)
def test_each_operator_wants_its_number_of_values(operator, values, message):
    with pytest.raises(SelectorError) as refused:
        requirement("k", operator, values)

    assert str(refused.value) == message


def test_a_value_is_measured_in_bytes():
    assert label_value_errors("a" * 63) == ()
    assert label_value_errors("a" * 64) == ("must be no more than 63 bytes",)
    assert label_value_errors("ä" * 32) == ("must be no more than 63 bytes", LABEL_VALUE)


NUMBERS = [
    ("5", 5),
    ("-5", -5),
    ("+5", 5),
    ("007", 7),
    ("0" * 5000 + "1", 1),
    ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", None),
    ("-9223372036854775808", -(2**63)),
    ("", None),
    ("-", None),
    ("1_0", None),
    (" 5", None),
    ("٣", None),
]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers_are_read_as_go_reads_them(text, number):
    assert parsed_int64(text) == number
