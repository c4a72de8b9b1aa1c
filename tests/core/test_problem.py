"""Problems: the exact text of each kind, and of a whole refusal."""

import pytest

from bursar.core.model.problem import (
    JsonText,
    Problem,
    ProblemKind,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    quoted,
    render_invalid,
    required,
    too_long,
    too_many,
)
from bursar.core.model.quantity import Quantity


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (invalid("a.b", "x", "why"), 'a.b: Invalid value: "x": why'),
        (invalid("a.b", Quantity.parse("500m"), "why"), 'a.b: Invalid value: "500m": why'),
        (invalid("a.b", -1, "why"), "a.b: Invalid value: -1: why"),
        (invalid("a.b", JsonText("<é>"), ""), 'a.b: Invalid value: "\\u003cé\\u003e"'),
        (invalid("a.b", ("x", "<"), "why"), 'a.b: Invalid value: ["x","\\u003c"]: why'),
        (invalid("a.b", (), "why"), "a.b: Invalid value: null: why"),
        (required("a.b"), "a.b: Required value"),
        (required("a.b", "why"), "a.b: Required value: why"),
        (forbidden("a.b", "why"), "a.b: Forbidden: why"),
        (
            not_supported("a.b", JsonText("x"), ["cpu", "memory"]),
            'a.b: Unsupported value: "x": supported values: "cpu", "memory"',
        ),
        (duplicate("a.b", "x"), 'a.b: Duplicate value: "x"'),
        (not_found("a.b", "x"), 'a.b: Not found: "x"'),
        (not_found("a.b", "x", "why"), 'a.b: Not found: "x": why'),
    ],
)
def test_text_of_a_problem(problem, text):
    assert str(problem) == text
    assert text == f"a.b: {problem.body}"


def test_every_kind_has_a_constructor():
    made: list[Problem] = [
        invalid("f", 1, ""),
        required("f"),
        forbidden("f", ""),
        not_supported("f", 1, []),
        duplicate("f", 1),
        not_found("f", 1),
        too_long("f", 1),
        too_many("f", 2, 1),
    ]

    assert {problem.kind for problem in made} == set(ProblemKind)


@pytest.mark.parametrize(
    ("text", "in_go", "in_json"),
    [
        ("plain", '"plain"', '"plain"'),
        ('"\\', '"\\"\\\\"', '"\\"\\\\"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"', '"\\b\\f\\n\\r\\t"'),
        ("\a\v", '"\\a\\v"', '"\\u0007\\u000b"'),
        ("\x01\x7f", '"\\x01\\x7f"', '"\\u0001\x7f"'),
        ("<>&", '"<>&"', '"\\u003c\\u003e\\u0026"'),
        ("é中😀", '"é中😀"', '"é中😀"'),
        ("\xa0\u200b", '"\\u00a0\\u200b"', '"\xa0\u200b"'),
        ("\u2028\u2029", '"\\u2028\\u2029"', '"\\u2028\\u2029"'),
        ("\U000e0001", '"\\U000e0001"', '"\U000e0001"'),
    ],
)
def test_go_and_json_escape_differently(text, in_go, in_json):
    assert quoted(text) == in_go
    assert str(duplicate("f", JsonText(text))) == f"f: Duplicate value: {in_json}"


def test_refusal_without_problems_names_the_object_alone():
    assert render_invalid("Pod", "web", []) == 'Pod "web" is invalid'


def test_refusal_with_one_problem_has_no_brackets():
    problem = required("spec.a")

    assert render_invalid("Pod", "web", [problem]) == 'Pod "web" is invalid: spec.a: Required value'
    assert render_invalid("Pod", "web", [problem, problem]) == render_invalid(
        "Pod", "web", [problem]
    )


def test_refusal_lists_problems_in_order():
    problems = [required("spec.b"), required("spec.a"), required("spec.b")]

    assert render_invalid("Node", "n\t1", problems) == (
        'Node "n\\t1" is invalid: [spec.b: Required value, spec.a: Required value]'
    )
