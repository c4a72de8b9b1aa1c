"""Selectors: as API objects carry them, as `kubectl -l` takes them, and what they match."""

from typing import Any

from hypothesis import strategies as st

from bursar.core.model.selectors.selector import (
    LabelExpression,
    LabelSelector,
    Operator,
    Selector,
    SelectorError,
    all_of,
    requirement,
    selector_of,
)
from bursar.core.model.selectors.text import parse_selector

Raw = dict[str, Any]

KEYS = st.sampled_from(["app", "tier", "a", "b", "example.com/role", "size", "in", "notin", "x.y"])
VALUES = st.sampled_from(["web", "db", "", "a", "b", "in", "5", "10", "-3", "007", "A_b.c"])
# Go and Python disagree on what can be printed among the characters of recent Unicode versions.
LETTERS = st.characters(max_codepoint=0x2FF) | st.sampled_from("\u2028\u200b\ufeff\ufffd€🙂")
HOSTILE_KEYS = st.sampled_from(
    ["", "/", "a/b/c", "Bad_/x", "/x", "x/", "-a", "a" * 64, "ä" * 40, "a b", '"', "a\n", "\x00"]
) | st.text(LETTERS, max_size=5)
HOSTILE_VALUES = st.sampled_from(
    ["-", "a-", "a" * 64, "ä", "9223372036854775808", "+5", "1_000", " 5", "٣", '"<&>"', "\u2028"]
) | st.text(LETTERS, max_size=5)
ANY_KEY = KEYS | KEYS | HOSTILE_KEYS
ANY_VALUE = VALUES | VALUES | HOSTILE_VALUES
LABELS = st.lists(
    st.dictionaries(KEYS, VALUES | st.sampled_from(["9223372036854775808", "x1"]), max_size=5),
    min_size=1,
    max_size=4,
)


def view(selector: Selector, labels: list[dict[str, str]]) -> Raw:
    return {
        "text": str(selector),
        "empty": selector.is_empty,
        "matches": [selector.matches(held) for held in labels],
    }


def upstream_view(answer: Raw) -> Raw:
    return {"error": answer["error"]} if "error" in answer else answer


# ------------------------------------------------------------------ in API objects

API_OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])


def expressions(keys: Any, values: Any, operators: Any) -> Any:
    return st.fixed_dictionaries(
        {"key": keys, "operator": operators, "values": st.lists(values, max_size=3)}
    )


def selectors(*, hostile: bool) -> st.SearchStrategy[Raw | None]:
    """At most one label is wrong, for upstream reports the first of a map in random order."""
    labels = st.dictionaries(KEYS, VALUES.filter(lambda value: value != "-3"), max_size=3)
    listed = expressions(KEYS, VALUES, API_OPERATORS)
    if hostile:
        labels = labels | st.dictionaries(ANY_KEY, ANY_VALUE, max_size=1)
        operators = API_OPERATORS | st.sampled_from(["", "in", "Gt", 'Ex"ists\n'])
        listed = expressions(ANY_KEY, ANY_VALUE, operators)
    return st.none() | st.fixed_dictionaries(
        {}, optional={"matchLabels": labels, "matchExpressions": st.lists(listed, max_size=4)}
    )


def as_selector(raw: Raw | None) -> LabelSelector | None:
    if raw is None:
        return None
    return LabelSelector(
        match_labels=raw.get("matchLabels", {}),
        match_expressions=tuple(
            LabelExpression(
                key=expression["key"],
                operator=expression["operator"],
                values=tuple(expression["values"]),
            )
            for expression in raw.get("matchExpressions", ())
        ),
    )


def our_selector(case: Raw) -> Raw:
    try:
        return view(selector_of(as_selector(case["selector"])), case["labels"])
    except SelectorError as error:
        return {"error": str(error)}


def test_selectors_of_api_objects_agree(agree):
    cases = st.fixed_dictionaries(
        {"selector": selectors(hostile=False) | selectors(hostile=True), "labels": LABELS}
    )
    compared = {"ours": our_selector, "theirs": upstream_view}
    agree("label_selectors", cases=cases, **compared, batch=(5, 20), examples=60)


# ------------------------------------------------------------------ single requirements


def our_requirement(case: Raw) -> Raw:
    try:
        wanted = requirement(case["key"], Operator(case["operator"]), case["values"] or ())
    except SelectorError as error:
        return {"error": str(error)}
    return view(all_of([wanted]), case["labels"])


def test_requirements_agree_for_every_operator(agree):
    cases = st.fixed_dictionaries(
        {
            "key": ANY_KEY,
            "operator": st.sampled_from([operator.value for operator in Operator]),
            # No values are nil where upstream reads them, and an empty list nowhere.
            "values": st.lists(ANY_VALUE, max_size=3).map(lambda values: values or None),
            "labels": LABELS,
        }
    )
    compared = {"ours": our_requirement, "theirs": upstream_view}
    agree("requirements", cases=cases, **compared, batch=(5, 20), examples=60)


# ------------------------------------------------------------------ as text

SPACE = st.sampled_from(["", "", "", " ", "\t", "  "])


def value_sets(values: Any) -> Any:
    return st.lists(values, max_size=4).map(lambda listed: f"({','.join(listed)})")


def phrases(keys: Any, values: Any) -> Any:
    return (
        keys
        | keys.map("!{}".format)
        | st.builds("{}{}{}{}{}".format, keys, SPACE, SIGNS, SPACE, values)
        | st.builds("{} {} {}".format, keys, st.sampled_from(["in", "notin"]), value_sets(values))
    )


SIGNS = st.sampled_from(["=", "==", "!=", "<", ">"])
PLAIN_TEXTS = st.lists(phrases(KEYS, VALUES), max_size=4).map(",".join)
HOSTILE_TEXTS = st.lists(phrases(ANY_KEY, ANY_VALUE), max_size=3).map(" , ".join)
SCRAPS = st.lists(
    st.sampled_from(["a", "in", "notin", "!", "=", "==", "!=", "<", ">", "(", ")", ",", " "])
    | st.sampled_from(["\x00", "5", "\r\n", "ä"]),
    max_size=9,
).map("".join)
TEXTS = PLAIN_TEXTS | HOSTILE_TEXTS | SCRAPS | st.text(LETTERS, max_size=12)


def our_text(case: Raw) -> Raw:
    try:
        return view(parse_selector(case["text"]), case["labels"])
    except SelectorError as error:
        return {"error": str(error)}


def test_selectors_as_text_agree(agree):
    cases = st.fixed_dictionaries({"text": TEXTS, "labels": LABELS})
    compared = {"ours": our_text, "theirs": upstream_view}
    agree("selector_texts", cases=cases, **compared, batch=(10, 40), examples=50)
