"""YAML and JSON as kubectl reads them: scalars, keys, documents, streams, numbers, quantities."""

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DocumentError, Text
from bursar.wire.documents.tree import Number, Value
from bursar.wire.documents.yaml_tree import yaml_trees
from bursar.wire.structs.fields import FieldError, decode_quantity, number_text

REFUSED = "refused"


def number(text: str) -> tuple[str, str]:
    return ("number", text)


def spelled(value: Value) -> Any:
    """A value with its numbers as JSON spells them, so that they are compared to the digit."""
    if isinstance(value, dict):
        return {key: spelled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [spelled(inner) for inner in value]
    if isinstance(value, Number) and value.meaning is None:
        return number(value.text)
    if isinstance(value, Number):
        return spelled(value.meaning)
    if isinstance(value, float):
        return number(number_text(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return number(str(value))
    return value


def upstream_value(text: str) -> Any:
    return json.loads(text, parse_int=number, parse_float=number)


def our_document(text: str) -> Any:
    """The first document, which is all that upstream looks at in one text."""
    try:
        tree = next(yaml_trees(Text([text.encode()]), []), None)
    except DocumentError:
        return REFUSED
    return None if tree is None else spelled(tree.root)


def upstream_document(answer: dict[str, str]) -> Any:
    return REFUSED if answer.get("error") else upstream_value(answer["json"])


NUMERIC = st.text("0123456789", min_size=1, max_size=5) | st.sampled_from(
    [
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "0" * 30 + "7",
        "1" * 330,
    ]
)
TRICKY = st.sampled_from(
    ["0.5", "1e3", "129e6", "0x10", "010", "08", "0o10", "1_000", "+1", ".5", "1.", ".inf", "-.INF"]
    + [".nan", "yes", "No", "on", "OFF", "y", "N", "true", "TRUE", "~", "null", "Null", "nULL", "-"]
    + ["2001-01-01", "2001-1-1T1:1:1Z", "1:30", "1:30:00", "=", "<<", "0b1", "0b-1", "-0b1", "0B11"]
    + ["-0", "-0.0", "+0", "0_", "-_1", "0x", "0x_f", "1e999", "-1e999", "1e-999", ".5_0", "._5"]
    + ["1.5E+3", "1e", "e3", ".e3", "..5", "1__0", "500m", "1Gi", "0.1", "1e21", "1e-7", "12e03"]
    + ["100000000000000000000", "123456789012345678901", "0x1p3", "1e+5", "1e05", "infinity", "NaN"]
)
NEAR_NUMBERS = st.text("0189xXoObB_+-.eEfaniNIyYTZ~", min_size=1, max_size=6)
FLOATS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}.{fraction}{exponent}",
    st.sampled_from(["", "-", "+"]),
    NUMERIC,
    NUMERIC,
    st.integers(-330, 310).map(lambda power: f"e{power}") | st.just(""),
)
PLAIN = TRICKY | TRICKY | NEAR_NUMBERS | FLOATS | NUMERIC | st.text("abcxyz/._-", min_size=1)
SINGLE = st.text("ab 01~y#:,", max_size=6).map(lambda text: f"'{text}'")
DOUBLE = st.lists(
    st.sampled_from(
        ["a", " ", "1", "~", "\\n", "\\t", "\\x41", "\\u00e9", "\\U0001F600", "\\e", "é"]
    ),
    max_size=5,
).map(lambda parts: '"' + "".join(parts) + '"')
TAGS = st.sampled_from(["str", "int", "float", "bool", "null", "timestamp", "binary"])
DATES = st.sampled_from(
    ["2001-12-14", "2001-2-29", "2004-2-29", "0000-02-29", "2001-12-14T21:59:43.10-05:00"]
    + ["2001-12-14t21:59:43Z", "2001-12-14 21:59:43.10", "2001-12-14 21:59:43 Z", "2001-13-01"]
    + ["2001-12-14T24:00:00Z", "2001-12-14T1:2:3Z", "2001-12-14T21:59:60Z", "2001-12-14T21:59:43"]
    + ["2001-12-14T21:59:43+24:00", "2001-12-14T21:59:43+24:60", "2001-12-14T21:59:43,5Z"]
)
BASE64 = st.sampled_from(
    ["aGk=", "aGVsbG8=", "YQ==", "YQ", "YQ==YQ==", "", "aG k=", "????", "YWJj"]
)
TAGGED = st.builds(
    lambda tag, text: f"!!{tag} {text}",
    TAGS,
    PLAIN | SINGLE | DOUBLE | DATES | BASE64 | st.just("''"),
)
SCALARS = PLAIN | PLAIN | SINGLE | DOUBLE | TAGGED | DATES


@pytest.mark.parametrize("document", ["a: {}", "? {}\n: {{}}"], ids=["as values", "as keys"])
def test_scalars_mean_what_they_mean_to_kubectl(agree, document):
    compared = {"ours": our_document, "theirs": upstream_document}
    agree("yaml", texts=SCALARS.map(document.format), **compared, batch=(60, 90), examples=32)


WORDS = st.sampled_from(["a", "b", "c", "kind", "spec", "'x'", "1", "yes", '"a"'])
# An infinity is refused where it stands, even if a merge would have hidden it from upstream.
FINITE = SCALARS.filter(lambda scalar: not {"inf", "nan"} & {scalar.strip("+-.").lower()[-3:]})
LEAVES = FINITE | st.sampled_from(["", "*one", "*all"])


def block(value: Any, indent: str) -> str:
    """A generated value in block style; its leaves are YAML already, tuples are flow style."""
    if isinstance(value, dict) and value:
        return "".join(f"\n{indent}{key}: {block(v, indent + '  ')}" for key, v in value.items())
    if isinstance(value, list) and value:
        return "".join(f"\n{indent}- {block(v, indent + '  ')}" for v in value)
    return flow(value)


def flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) or "~" for inner in value) + "]"
    return str(value)


def branches(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inside, max_size=4)
    merges = st.sampled_from(["*all", "{a: 1}", "[*all, {b: 2}]", "[{a: 3}, *all]"])
    merged = st.builds(
        lambda before, merge, after: {**before, "<<": merge, **after},
        st.dictionaries(WORDS, inside, max_size=2),
        merges,
        st.dictionaries(WORDS, inside, max_size=2),
    )
    return lists | lists.map(tuple) | st.dictionaries(WORDS, inside, max_size=4) | merged


TREES = st.recursive(LEAVES, branches, max_leaves=12)
DOCUMENTS = st.builds(
    lambda one, inner, tree: (
        f"one: &one {one}\nall: &all {flow({'a': inner, 'z': '*one'})}\ntree: {block(tree, '  ')}\n"
    ),
    FINITE,
    LEAVES.filter(lambda leaf: leaf != "*all"),
    TREES,
)


def test_documents_with_anchors_and_merges_agree(oracle, for_all):
    """A key that is there twice is refused, as by upstream's strict variant.

    That variant also refuses a merge over a key written before, which kubectl takes; so do we.
    """

    def check(texts: list[str]) -> None:
        for text, answer in zip(texts, oracle.ask("yaml", texts=texts), strict=True):
            ours, upstream = our_document(text), upstream_document(answer)
            if has_equal_keys(text):
                oracle.assert_same(bool(answer.get("strict")), True, about=text)
            else:
                oracle.assert_same(ours, upstream, about=text)

    for_all(st.lists(DOCUMENTS, min_size=20, max_size=40), check, examples=40)


def has_equal_keys(text: str) -> bool:
    try:
        list(yaml_trees(Text([text.encode()]), []))
    except DocumentError as error:
        return error.problem == "duplicate key"
    return False


SNIPPETS = st.lists(
    st.sampled_from(
        ["a", "b", ": ", ":", "- ", "-", "\n", "\n  ", " ", "[", "]", "{", "}", ", ", "#", "'", '"']
        + [
            "|\n",
            ">\n",
            "&a ",
            "*a",
            "!!str ",
            "!!int ",
            "<<: ",
            "~",
            "1",
            "0x1f",
            "1.5",
            "y",
            "\t",
        ]
        + [
            "---\n",
            "...\n",
            "\\n",
            "é",
            "\r\n",
            "|-\n",
            "null",
            "a: b\n",
            "- c\n",
            "\x85",
        ]
    ),
    max_size=10,
).map("".join)


def test_where_both_accept_an_arbitrary_text_it_means_the_same(oracle, for_all):
    """libyaml is stricter than its Go port in a few odd corners, so refusals may differ."""

    def check(texts: list[str]) -> None:
        for text, answer in zip(texts, oracle.ask("yaml", texts=texts), strict=True):
            ours, upstream = our_document(text), upstream_document(answer)
            if REFUSED not in (ours, upstream):
                oracle.assert_same(ours, upstream, about=text)

    for_all(st.lists(SNIPPETS, min_size=40, max_size=80), check, examples=40)


JSON_NUMBERS = st.sampled_from(
    ["0", "-1", "1e3", "1E3", "0.50", "1.5e-7", "100000000000000000000", "9" * 25, "1e400", "0.1"]
)
JSON_STRINGS = st.text(max_size=5).map(json.dumps) | st.sampled_from(
    ['"\\/"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\b\\f"', '"é"', '"\x7f"', '"\u2028"']
)
JSON_LEAVES = JSON_NUMBERS | JSON_STRINGS | st.sampled_from(["true", "false", "null"])
JSON_KEYS = st.sampled_from(['"a"', '"b"', '"\\u0063"', '"<<"', '"y"', '"1"', '""'])
GAPS = st.sampled_from(["", "", " ", "\n\t", "\r\n"])


def json_branches(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(inside, max_size=3)
    pairs = st.dictionaries(JSON_KEYS, inside, max_size=3)
    return st.builds(
        lambda gap, parts: f"[{gap}{f'{gap},{gap}'.join(parts)}{gap}]", GAPS, items
    ) | (
        st.builds(
            lambda gap, parts: (
                "{" + f"{gap},{gap}".join(f"{gap}{k}{gap}:{gap}{v}" for k, v in parts.items()) + "}"
            ),
            GAPS,
            pairs,
        )
    )


JSON_OBJECTS = st.recursive(JSON_LEAVES, json_branches, max_leaves=8).map(
    lambda inside: f'{{"kind": {inside}}}'
)


def our_stream(text: str) -> tuple[list[Any], None]:
    try:
        return [spelled(document.value) for document in read_documents([text.encode()])], None
    except DocumentError as error:
        return [str(error)], None


def upstream_stream(answer: dict[str, Any]) -> tuple[list[Any], str | None]:
    return [upstream_value(document) for document in answer["documents"]], answer.get("error")


STREAMS_AGREE = {"ours": our_stream, "theirs": upstream_stream, "batch": (20, 40)}


def test_json_documents_in_a_row_agree(agree):
    streams = st.lists(JSON_OBJECTS, min_size=1, max_size=3).flatmap(
        lambda documents: GAPS.map(lambda gap: gap.join(documents))
    )

    agree("manifest_streams", texts=streams, **STREAMS_AGREE)


def test_streams_of_yaml_and_json_documents_agree(agree):
    pieces = st.sampled_from(
        [
            "a: 1",
            '{"a": 1e3}',
            "{a: 1e3}",
            "",
            "# nothing",
            "~",
            "b: |\n  x\n  ---\n",
            "- 1\n- 0x10",
        ]
        + ['{"a": 1,}', "{}", "c: 'it''s'", '{"a": {"b": [1, 2.50]}}', "d: &x 1\ne: *x"]
    )
    separators = st.sampled_from(["\n---\n", "\n--- # next\n", "\n---\n---\n", "\r\n---\r\n"])
    streams = st.builds(
        lambda head, separator, documents: head + separator.join(documents) + "\n",
        st.sampled_from(["", "---\n", "\n", "# first\n"]),
        separators,
        st.lists(pieces, min_size=1, max_size=4),
    )

    agree("manifest_streams", texts=streams, **STREAMS_AGREE)


def test_floats_are_written_as_go_writes_them(agree):
    agree(
        "yaml",
        texts=st.floats(allow_nan=False, allow_infinity=False).map(repr),
        ours=lambda text: number_text(float(text)),
        theirs=lambda answer: answer["json"],
        batch=(50, 90),
    )


QUANTITY_TEXTS = st.builds(
    lambda space, text, suffix: f"{space}{text}{suffix}{space}",
    st.sampled_from(["", "", "", " ", "\u00a0", "\u2003", "\x85"]),
    st.from_regex(r"\A[+-]?[0-9]{0,20}(\.[0-9]{0,12})?\Z"),
    st.sampled_from(["", "m", "Ki", "Gi", "E", "e3", "E-3", "n", "x", "mm", "null"]),
)
JSON_QUANTITIES = st.one_of(
    QUANTITY_TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    JSON_NUMBERS,
    st.integers().map(str),
    st.sampled_from(["null", '"null"', '""', '" "', '"1_000"', '"0x10"', "true", "-0", "0.000"]),
)


def our_quantity(raw: str) -> Any:
    value = next(read_documents([f'{{"q": {raw}}}'.encode()])).value
    assert isinstance(value, dict)
    amount = value["q"]
    try:
        decoded = decode_quantity(amount.text if isinstance(amount, Number) else amount, "q")
    except FieldError as error:
        return error.problem
    return str(decoded), decoded.canonical, decoded.value(), decoded.format.value


def test_quantities_in_json_agree(oracle, for_all):
    def check(values: list[str]) -> None:
        for raw, answer in zip(values, oracle.ask("json_quantities", values=values), strict=True):
            if "error" in answer:
                ours = our_quantity(raw)
                oracle.assert_same(isinstance(ours, str), True, about=raw)
                if raw.startswith('"'):
                    oracle.assert_same(ours, answer["error"], about=raw)
            elif raw != "null":
                view = (answer["text"], answer["canonical"], answer["value"], answer["format"])
                oracle.assert_same(our_quantity(raw), view, about=raw)

    for_all(st.lists(JSON_QUANTITIES, min_size=40, max_size=80), check, examples=40)
