"""Selectors as text: what `kubectl -l` accepts, and what it answers to the rest."""

import pytest

from bursar.core.model.selectors.selector import EVERYTHING, SelectorError
from bursar.core.model.selectors.text import parse_selector

ACCEPTED = [
    ("", ""),
    (" \t\r\n", ""),
    ("a", "a"),
    ("!a", "!a"),
    ("! a", "!a"),
    ("a=b", "a=b"),
    ("a==b", "a==b"),
    ("a != b", "a!=b"),
    ("a>5", "a>5"),
    ("a < 5", "a<5"),
    ("a=", "a="),
    ("a=,b", "a=,b"),
    ("a in (x)", "a in (x)"),
    ("a notin (y,x,y)", "a notin (x,y)"),
    ("a in ()", "a in ()"),
    ("a in (,)", "a in ()"),
    ("a in (x,)", "a in (,x)"),
    ("a in (,x)", "a in (,x)"),
    ("a in (x,,y)", "a in (,x,y)"),
    ("in in (in,notin)", "in in (in,notin)"),
    ("notin=in", "notin=in"),
    ("b,a", "a,b"),
    ("example.com/role=db,!canary,tier in (a, b)", "!canary,example.com/role=db,tier in (a,b)"),
    ("a\0,b", "a,b"),
    ("\0=nonsense", ""),
]


@pytest.mark.parametrize(("text", "printed"), ACCEPTED)
def test_a_selector_is_read(text, printed):
    assert str(parse_selector(text)) == printed


def test_no_text_selects_everything():
    assert parse_selector("") == EVERYTHING


def test_what_is_printed_can_be_read_again():
    for text, printed in ACCEPTED:
        assert parse_selector(printed) == parse_selector(text)


def test_a_text_matches_labels():
    selector = parse_selector("app=web,tier in (a,b),!canary,size>4")

    assert selector.matches({"app": "web", "tier": "b", "size": "5"})
    assert not selector.matches({"app": "web", "tier": "b", "size": "5", "canary": ""})


REFUSED = [
    (",", "found ',', expected: !, identifier, or 'end of string'"),
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
    ("a,", "found '', expected: identifier after ','"),
    ("a,=b", "found '=', expected: identifier after ','"),
    ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
    ("!", "unable to parse requirement: found '', expected: identifier"),
    ("!!a", "unable to parse requirement: found '!', expected: identifier"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a gt 5", "unable to parse requirement: found 'gt', expected: in, notin, =, ==, !=, gt, lt"),
    ("a=)", "unable to parse requirement: found ')', expected: identifier"),
    ("a=!", "unable to parse requirement: found '!', expected: identifier"),
    ("a===b", "unable to parse requirement: found '=', expected: identifier"),
    ("a in", "unable to parse requirement: found '' expected: '('"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
    ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
    ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
    ("a in (,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
    (
        "a>x",
        (
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        ),
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_mistake_is_answered_in_upstreams_words(text, message):
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)

    assert str(refused.value) == message


def test_a_bad_key_is_named_before_anything_else():
    with pytest.raises(SelectorError) as refused:
        parse_selector("-a b")

    assert str(refused.value).startswith(
        'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of'
    )
