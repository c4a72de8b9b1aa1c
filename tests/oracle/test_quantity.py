"""Quantities: every view of a parsed text, and of sums, differences and products."""

import json
from pathlib import Path

from hypothesis import strategies as st

from bursar.core.model.quantity import Quantity, QuantityError

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
EXPONENTS = st.integers(-40, 60).map(lambda n: f"e{n}") | st.sampled_from(
    ["e+3", "E3", "E-3", "E+06", "e4294967296", "e-9", "e400", "E-400"]
)
DIGITS = st.text("0123456789", max_size=24) | st.sampled_from(
    ["9223372036854775807", "9223372036854775808", "1000", "1024", "999999999999999999", "8", "000"]
)
NUMBERS = st.builds(
    lambda sign, whole, dot, fraction: sign + whole + (f".{fraction}" if dot else ""),
    st.sampled_from(["", "", "", "-", "+"]),
    DIGITS,
    st.booleans(),
    DIGITS,
)
PLAUSIBLE = st.builds(lambda n, s: n + s, NUMBERS, st.sampled_from(SUFFIXES) | EXPONENTS)
HOSTILE = st.text("0123456789.+-eEinumkKMGTP \t", max_size=12) | st.text(max_size=8)
TEXTS = PLAUSIBLE | PLAUSIBLE | HOSTILE


def view(quantity: Quantity) -> dict[str, object]:
    rounded = quantity.round_up(-3)
    return {
        "text": str(quantity),
        "canonical": quantity.canonical,
        "format": quantity.format.value,
        "value": quantity.value(),
        "milliValue": quantity.milli_value(),
        "int64": quantity.as_int64(),
        "sign": (quantity.nanos > 0) - (quantity.nanos < 0),
        "milli": str(rounded),
        "milliExact": rounded == quantity,
    }


def parsed(text: str) -> dict[str, object]:
    try:
        return view(Quantity.parse(text))
    except QuantityError as error:
        return {"error": str(error)}


def upstream_view(answer: dict[str, object]) -> dict[str, object]:
    return {"error": answer["error"]} if "error" in answer else answer


def test_the_golden_vectors_are_upstreams(oracle):
    """The pure tests rest on this file; here it is held against upstream itself."""
    lines = (Path(__file__).parents[1] / "golden" / "quantities.jsonl").read_text().splitlines()
    vectors = [json.loads(line) for line in lines]
    texts = [vector.pop("input") for vector in vectors]

    for text, vector, answer in zip(
        texts, vectors, oracle.ask("quantities", texts=texts), strict=True
    ):
        compared = {key: answer[key] for key in vector}
        oracle.assert_same(vector, compared, about=text)


def test_parse_and_every_view_agree(agree):
    agree("quantities", texts=TEXTS, ours=parsed, theirs=upstream_view, examples=120)


def is_quantity(text: str) -> bool:
    return "error" not in parsed(text)


CASES = st.fixed_dictionaries(
    {
        "a": PLAUSIBLE.filter(is_quantity),
        "b": PLAUSIBLE.filter(is_quantity),
        "factor": st.integers(-5, 1100) | st.sampled_from([2**31, 2**62, -(2**63), 10**18]),
        "scales": st.lists(st.integers(-9, 20), max_size=3),
    }
)


def our_arithmetic(case: dict[str, object]) -> dict[str, object]:
    a, b = Quantity.parse(str(case["a"])), Quantity.parse(str(case["b"]))
    return {
        "sum": view(a + b),
        "difference": view(a - b),
        "negative": view(-a),
        "product": view(a * case["factor"]),
        "compare": (a > b) - (a < b),
        "total": view(Quantity(0) + a + b + a),
        "rounded": [
            f"{a.round_up(scale)} {'exact' if a.round_up(scale) == a else 'rounded'}"
            for scale in case["scales"]
        ],
    }


def test_arithmetic_agrees(agree):
    def theirs(answer: dict[str, object]) -> dict[str, object]:
        answer.pop("productOk")
        return answer | {"rounded": answer["rounded"] or []}

    agree(
        "arithmetic", cases=CASES, ours=our_arithmetic, theirs=theirs, batch=(10, 30), examples=60
    )
