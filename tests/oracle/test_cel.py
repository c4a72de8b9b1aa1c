"""Expressions of policies, compared with those of ValidatingAdmissionPolicies."""

import pytest
from hypothesis import strategies as st

from bursar.core.cel.errors import Meter
from bursar.core.cel.expression import CompileError, EvalError, Frame
from bursar.core.cel.values import equal
from support.cel.recorded import BUDGET, NATIVE, NOW, POD, compiled, recorded, values
from support.cel.typed_values import value_of

pytestmark = pytest.mark.oracle

ATOMS = (
    "1", "-7", "0", "9223372036854775807", "'a'", "'äb,c'", "''", "true", "false", "null", "now",
    "object.spec.priority", "object.metadata.name", "object.nothing",
    # Go goes through maps in random order, so those here have one entry.
    "object.spec.containers[0].resources",
    "object.spec.containers", "object.spec.nodeSelector", "native['pods']", "quantity('1500m')",
    "duration('90m')", "[1, 2, 3]", "['b', 'a']", "{'a': 1}", "object.?metadata.?name",
    "object.metadata.?nothing", "dyn(5)", "dyn('5')",
)  # fmt: skip
BINARY = ("+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||")
METHODS = (
    "size()", "trim()", "sum()", "hasValue()", "value()",
    "join(',')",
    "split(',')", "indexOf('a')", "lastIndexOf('a')", "contains('a')", "substring(1)", "charAt(0)",
    "replace('a', 'b')", "matches('^a')", "findAll('[a-z]')", "asInteger()", "isInteger()", "foo",
    "add(1)", "sub(quantity('1'))", "isGreaterThan(quantity('1'))", "compareTo(native['pods'])",
    "getHours()", "getDayOfWeek('Europe/Berlin')", "getMinutes()", "orValue(1)",
    "or(optional.of(2))", "all(x, x == 1)", "exists(x, x > 1)", "map(x, x)", "filter(x, x != 2)",
    "exists_one(x, x == 'a')", "optMap(x, x)", "name", "requests",
)  # fmt: skip
KEYS = ("0", "-1", "5", "'a'", "'name'", "'requests'", "object.spec.priority", "?'name'", "?0")
FUNCTIONS = ("size", "string", "int", "bool", "type", "dyn", "sign", "isQuantity", "duration")


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(METHODS)).map(lambda t: f"{t[0]}.{t[1]}"),
        st.tuples(st.sampled_from(FUNCTIONS), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
        st.tuples(inner, st.sampled_from(KEYS)).map(lambda t: f"{t[0]}[{t[1]}]"),
        st.tuples(inner, inner).map(lambda t: f"[{t[0]}, {t[1]}]"),
        # A minus before a dynamic duration has a value upstream, and is an error here.
        inner.map(lambda text: f"!{text}"),
    )


EXPRESSIONS = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=6)


def asked(oracle, expressions):
    return oracle.ask("cel", expressions=expressions, object=POD, native=NATIVE, now=NOW)


def agrees(text, theirs):
    """Whether we have upstream's value or error, or refuse the expression.

    Upstream refuses some expressions that fail here when they run: it knows more of types.
    """
    try:
        expression = compiled(text)
    except CompileError:
        return True
    try:
        found = expression.code(Frame(values(), BUDGET))
    except EvalError:
        return "value" not in theirs
    return "value" in theirs and equal(Meter(BUDGET), found, value_of(theirs["value"]))


def test_recorded_answers_are_those_of_upstream(oracle):
    cases = recorded("kubernetes")
    for case, theirs in zip(cases, asked(oracle, [each["expr"] for each in cases]), strict=True):
        for key in ("problem", "error"):
            assert (key in case) == (key in theirs), case
        if "value" in case:
            assert value_of(case["value"]) == value_of(theirs["value"]), case


def test_conformance_cases_mean_the_same_here_and_upstream(oracle):
    texts = [case["expr"] for case in recorded("conformance") if "bindings" not in case]
    for text, theirs in zip(texts, asked(oracle, texts), strict=True):
        assert agrees(text, theirs), (text, theirs)
    oracle.compared += len(texts)


def test_random_expressions_mean_the_same_here_and_upstream(oracle, for_all):
    def check(texts):
        for text in texts:
            (theirs,) = asked(oracle, [text])
            assert agrees(text, theirs), (text, theirs)
        oracle.compared += len(texts)

    for_all(st.lists(EXPRESSIONS, min_size=5, max_size=5), check, examples=200)
