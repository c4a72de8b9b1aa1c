"""Hostile expressions and hostile pods: refused or ended, in bounded time and memory."""

from random import Random

import pytest

from bursar.core.cel.errors import Meter
from bursar.core.cel.expression import CompileError, CostError, EvalError, Expression, Frame
from bursar.core.cel.functions.patterns import PATTERN_MAX
from bursar.core.cel.parsing.parser import DEPTH_MAX, TEXT_MAX
from bursar.core.cel.types import CelType
from bursar.core.cel.values import Double, Timestamp, equal
from bursar.core.counting.policy import BUDGET, VARIABLES
from support.cel.recorded import LANGUAGE, compiled

TOO_DEEP = "nested too deeply"


def evaluated(text, given):
    return compiled(text).code(Frame({"object": given}, BUDGET))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "1" + ")" * 500,
        "[" * 500 + "]" * 500,
        "{'a':" * 200 + "1" + "}" * 200,
        "size(" * 200 + "1" + ")" * 200,
        "object" + ".a" * 500,
        "object" + "[0]" * 500,
        "1" + "+1" * 500,
        "1" + "*1" * 500,
        "1" + "<1" * 500,
        "'a'" + ".trim()" * 200,
        "true?1:" * 200 + "1",
        "[0].map(a," * 100 + "1" + ")" * 100,
    ],
)
def test_deep_expression_is_refused(text):
    with pytest.raises(CompileError, match=TOO_DEEP):
        compiled(text)


@pytest.mark.parametrize(
    "text",
    ["!" * 1001 + "true", "-" * 1001 + "(1)", "true" + "&&true" * 400, "[" + "1," * 1000 + "]"],
)
def test_long_but_flat_expression_compiles(text):
    compiled(text).code(Frame({}, BUDGET))


def test_depth_that_is_accepted_runs():
    levels = DEPTH_MAX - 1
    assert evaluated("(" * levels + "1" + ")" * levels, {}) == 1


def test_long_expression_is_refused():
    with pytest.raises(CompileError, match=f"at most {TEXT_MAX}"):
        compiled("'" + "a" * TEXT_MAX + "'")


def test_optional_value_has_no_members_of_other_keys():
    with pytest.raises(CompileError, match="no matching overload"):
        compiled("object.?a[true]")


def test_place_of_an_error_is_shown():
    with pytest.raises(CompileError) as caught:
        compiled("object.spec.priority > 1 &&\n  'a' + 1 == 2")
    assert (caught.value.line, caught.value.column) == (2, 7)
    assert caught.value.excerpt == " |   'a' + 1 == 2\n | ......^"


def test_long_line_is_shown_around_the_error():
    with pytest.raises(CompileError) as caught:
        compiled("1 == 1 && " * 100 + "nope")
    shown = caught.value.excerpt.split("\n")
    assert "nope" in shown[0]
    assert shown[1].index("^") == shown[0].index("nope")


@pytest.mark.parametrize(
    "text",
    [
        # 10^9 turns, in many ways.
        "object.l.all(a, object.l.all(b, object.l.all(c, a + b + c >= 0)))",
        "object.l.map(a, object.l.map(b, object.l.map(c, 1)))",
        "object.l.exists(a, object.l.exists_one(b, object.l.filter(c, false) == [1]))",
        "object.l.all(a, a in object.l)",
        "object.l.all(a, object.l == object.l)",
        "object.l.all(a, object.l.sum() > 0)",
        "object.l.all(a, object.l.indexOf(-1) < 0)",
        "sets.contains(object.l + object.l, object.l + object.l)",
        # Texts and lists that grow.
        "[1,1,1,1,1,1,1,1].map(a, object.s + object.s + object.s + object.s).join().size()",
        "object.s.replace('a', object.s).size()",
        "'a'.replace('', object.s)" + ".replace('a', 'aaaaaaaaaa')" * 9,
        "object.l.map(a, object.l + object.l).size()",
        "object.l.map(a, object.s).join(object.s)",
        "object.s.split('').map(a, object.s.split('')).size()",
        # Texts that are searched again and again.
        "object.l.all(a, object.s.contains('b') == false)",
        "object.l.all(a, object.s.matches('(a+)+b') == false)",
        "object.l.all(a, object.s.findAll('a').size() > 0)",
        "object.l.all(a, !isQuantity(object.s))",
        # Texts and maps that are compared again and again.
        "object.l.all(a, object.s.startsWith(object.s))",
        "object.l.all(a, object.s.endsWith(object.s))",
        "object.l.all(a, object.s <= object.s)",
        "object.l.all(a, object.s >= object.s)",
        "object.l.all(a, [object.s, object.s].isSorted())",
        "object.l.all(a, [object.s, object.s].max() != '')",
        "object.l.all(a, object.blank.trim() == '')",
        "object.l.all(a, object.m != object.n)",
        # Time zones that have to be looked for.
        "object.l.all(a, !(now.getHours(string(a)) == 99))",
    ],
)
def test_expensive_expression_ends_at_its_budget(text):
    numbers = list(range(1000))
    given = {
        "l": numbers,
        "s": "a" * 100_000,
        "blank": " " * 100_000,
        "m": dict.fromkeys(map(str, numbers), 0),
        "n": dict.fromkeys(map(str, range(1, 1001)), 0),
    }
    with pytest.raises(CostError):
        compiled(text).code(Frame({"object": given, "now": Timestamp(0)}, BUDGET))


@pytest.mark.parametrize(
    "pattern", [".{0,1000}c", "(.{0,30}){30}c", "(a|b|ab){300}c", "(?i)[a-z]{1,999}!"]
)
def test_repetition_in_a_pattern_costs_as_many_steps_as_it_is_long(pattern):
    text = f"object.s.matches('{pattern}')"
    assert evaluated(text, {"s": "a" * 63}) is False
    with pytest.raises(CostError):
        evaluated(text, {"s": "ab" * 15_000})


def test_every_match_of_a_long_text_costs_the_rest_of_it():
    text = "object.s.findAll('a').size()"
    assert evaluated(text, {"s": "a" * 300}) == 300
    with pytest.raises(CostError):
        evaluated(text, {"s": ("a" + "c" * 200) * 300})


def test_patterns_of_a_pod_cost_their_compilation():
    patterns = [f"a{{{each}}}" for each in range(100)]
    with pytest.raises(CostError):
        evaluated("object.l.all(a, 'a'.matches(a) || true)", {"l": patterns})
    for text in ("'ab'.find(object.p) == 'a'", "'ab'.findAll(object.p, 1) == ['a']"):
        assert evaluated(text, {"p": "a"}) is True


def test_literal_pattern_takes_only_texts():
    with pytest.raises(EvalError, match="no such overload"):
        evaluated("object.n.matches('a')", {"n": 1})
    assert evaluated("matches(object.s, 'a')", {"s": "a"}) is True
    assert evaluated("object.s.findAll('a', 1)", {"s": "aa"}) == ["a"]


def test_value_that_variables_nest_deeply_is_refused():
    first = compiled("[[1]]")
    text = "[" * (DEPTH_MAX - 2) + "variables.first" + "]" * (DEPTH_MAX - 2)
    nested = LANGUAGE.compile(text, VARIABLES, {"variables.first": first})
    with pytest.raises(CompileError, match=TOO_DEEP):
        LANGUAGE.compile("[variables.nested]", VARIABLES, {"variables.nested": nested})


def test_budget_cannot_be_recovered_from():
    text = "object.l.all(a, object.l.all(b, object.l.all(c, true))) || true"
    with pytest.raises(CostError):
        evaluated(text, {"l": list(range(1000))})


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a" * (PATTERN_MAX + 1), f"at most {PATTERN_MAX}"),
        ("((a{1,100}){1,100}){1,100}", "invalid regular expression"),
        ("(" * 600, "invalid regular expression"),
        ("[a-z", "invalid regular expression"),
        ("(?=a)", "invalid regular expression"),
    ],
)
def test_bad_pattern_is_refused_with_its_place(pattern, words):
    with pytest.raises(CompileError, match=words) as caught:
        compiled(f"object.s.matches('{pattern}')")
    assert caught.value.column == 18


def test_pattern_of_a_pod_is_refused_when_it_is_used():
    with pytest.raises(EvalError, match="at most"):
        evaluated("'a'.matches(object.s)", {"s": "a" * (PATTERN_MAX + 1)})


def test_backtracking_pattern_takes_linear_time():
    # Python's `re` would need more steps than there are atoms.
    assert evaluated("object.s.matches('^(a+)+$')", {"s": "a" * 5000 + "b"}) is False


def test_last_place_of_a_part_is_found_in_linear_time():
    # `str.rfind` would compare 10^14 characters.
    given = {"text": "a" * 2 * 10**7, "part": "ab" + "a" * 10**7}
    code = compiled("object.text.lastIndexOf(object.part)").code
    assert code(Frame({"object": given}, 10**9)) == -1


def test_last_place_of_a_part_is_that_of_python():
    random = Random(5)  # noqa: S311 - a test
    for _ in range(500):
        text, part = ("".join(random.choices("ab\u00e9", k=random.randrange(k))) for k in (9, 4))
        given = {"text": text, "part": part}
        assert evaluated("object.text.lastIndexOf(object.part)", given) == text.rfind(part)


@pytest.mark.parametrize(
    "text", ["object.d == 1", "object.d + 1", "type(object.d) == int", "1 == object.d"]
)
def test_number_with_a_fraction_has_no_use(text):
    with pytest.raises(EvalError, match="fraction"):
        evaluated(text, {"d": Double("1.5")})


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("[?object.a]", {"a": 1}),
        ("object.a.optMap(x, x)", {"a": 1}),
        ("object.a[object.a]", {"a": 1}),
        # `orValue` of a value that is not optional is that value.
        ("-(object.a.orValue(1))", {"a": {}}),
        ("(true ? object.a.orValue(1) : 2) + 1", {"a": {}}),
        ("object.?a[object.n]", {"a": {}, "n": None}),
        ("quantity('1') == object.a", {"a": 1}),
        ("timestamp('9999-12-31T23:59:59Z').getHours('+01:00')", {}),
        ("[dyn(1), dyn('a')].max()", {}),
    ],
)
def test_value_of_the_wrong_type_is_an_error_when_it_is_met(text, given):
    with pytest.raises(EvalError):
        evaluated(text, given)


def test_variables_are_computed_once_and_only_if_needed():
    calls = []
    counted = compiled("1 + 1")
    counted = Expression("", counted.type, frozenset({"now"}), lambda _: calls.append(1) or 2)
    text = "variables.two + variables.two"
    found = LANGUAGE.compile(text, VARIABLES, {"variables.two": counted})
    assert found.code(Frame({}, BUDGET)) == 4
    assert calls == [1]
    assert found.variables == {"variables.two", "now"}
    unused = LANGUAGE.compile("true ? 1 : variables.two", VARIABLES, {"variables.two": counted})
    assert unused.code(Frame({}, BUDGET)) == 1
    assert calls == [1]


@pytest.mark.parametrize("text", ["true ? null : now", "null.or(null)", "sign(null)"])
def test_null_is_no_value_of_another_type(text):
    with pytest.raises(CompileError, match="no matching overload"):
        compiled(text)


def test_key_of_type_bool_is_not_taken_for_a_number():
    with pytest.raises(EvalError, match="unsupported key type: bool"):
        evaluated("{1: 'a'}[object.b]", {"b": True})


def test_unset_type_parameters_are_dynamic():
    assert str(compiled("optional.none()").type) == "optional_type(dyn)"
    assert str(CelType("list", (CelType("int"),))) == "list(int)"


def test_meter_counts_the_whole_comparison():
    meter = Meter(1000)
    assert equal(meter, {"a": [1, 2]}, {"a": [1, 2]})
    assert meter.left < 1000


def test_quantity_differs_from_a_value_of_another_type():
    assert evaluated("quantity('1') != object.a", {"a": 1}) is True
    assert evaluated("quantity('1') != quantity('1000m')", {}) is False
