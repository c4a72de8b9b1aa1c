"""An expression means what it means in Kubernetes, or does not compile."""

import pytest

from bursar.core.cel.errors import Meter
from bursar.core.cel.expression import CompileError, EvalError, Frame
from bursar.core.cel.values import equal
from support.cel.recorded import BUDGET, compiled, recorded, values
from support.cel.typed_values import value_of

KUBERNETES = recorded("kubernetes")
CONFORMANCE = recorded("conformance")
CONFORMANCE_COMPILED_MIN = 660
UNSUPPORTED = (
    "format(", "ip(", "url(", "sort()", "lists.", "asApproximateFloat", "1.0", "5u", "b'", "v > 0",
    "1e5", "quantity('x", "{true", "> 1: 1}", "'a': 2}", "a{2000}", "duration('1d", "duration(''",
    "[[], [1]]", "{'a': [],",
)  # fmt: skip
"""Parts of expressions that compile in Kubernetes and are refused here."""


DIFFERENT_IN_KUBERNETES = frozenset({
    "map_null_entry_no_such_key", "indexof_out_of_range", "lastindexof_out_of_range",
})  # fmt: skip
"""Conformance cases to which Kubernetes gives another answer, and so do we."""


def outcome(expression, given):
    try:
        return expression.code(Frame(given, BUDGET)), None
    except EvalError as error:
        return None, error


@pytest.mark.parametrize("case", KUBERNETES, ids=lambda case: case["expr"])
def test_expression_means_what_it_means_in_kubernetes(case):
    try:
        expression = compiled(case["expr"])
    except CompileError:
        assert "problem" in case or any(part in case["expr"] for part in UNSUPPORTED)
        return
    assert "problem" not in case
    found, error = outcome(expression, values())
    if "error" in case:
        assert error is not None, found
    else:
        assert error is None
        assert equal(Meter(BUDGET), found, value_of(case["value"]))


def test_conformance_cases_get_the_right_answer_or_do_not_compile():
    agreed = 0
    for case in CONFORMANCE:
        bound = {name: value_of(each) for name, each in case.get("bindings", {}).items()}
        try:
            expression = compiled(case["expr"], (*bound, *case.get("env", ())) or ("nothing",))
        except CompileError:
            continue
        if case["name"] in DIFFERENT_IN_KUBERNETES:
            continue
        if not set(case.get("env", ())) <= bound.keys():
            continue
        found, error = outcome(expression, bound)
        if case.get("error"):
            assert error is not None, case
        else:
            assert error is None, case
            assert equal(Meter(BUDGET), found, value_of(case["value"])), case
        agreed += 1
    assert agreed >= CONFORMANCE_COMPILED_MIN
