"""The page of upstream's tests of peer pods names every row once, and tests that exist."""

import re

import pytest

from support.named_tests import TESTS, all_tests, is_there, named_in

PAGE = TESTS.parent / "docs" / "reference" / "peerpod-scenarios.md"
SIZES = {"U": 11, "T": 13, "B": 3, "E": 13, "V": 5, "S": 4, "F": 5, "G": 4, "L": 6}
"""How many tests upstream has of each sort."""
CASES = {
    "AWS CreateInstance": [
        "type in list",
        "public IP",
        "type not in list",
        "empty list and other type",
        "empty list and empty type",
        "empty type",
    ],
    "AWS info": ["t2.medium", "p3.8xlarge", "unknown"],
    "IBM info": ["bx2-2x8", "unknown"],
    "List flag": ["a,b", "empty"],
    "Annotation parsing": [
        "vcpus only",
        "memory only",
        "both",
        "GPU only",
        "all",
        "invalid text",
        "machine_type present",
        "machine_type empty",
        "image present",
        "image empty",
    ],
    "GPU container": ["default_gpus"],
    "Env numbers": [
        "default",
        "env beats default",
        "invalid env",
        "empty env",
        "flag beats env",
    ],
}
ROWS = [
    *(f"{sort}{number}" for sort, size in SIZES.items() for number in range(1, size + 1)),
    *(f"{group}: {case}" for group, cases in CASES.items() for case in cases),
    "peerpod-ctrl",
    "Node advertising",
]
LINE = re.compile(r"^\| (?!row |-)([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NUMBER = re.compile(r"[A-Z]\d+\b")
BEARER = re.compile(r"^test_([a-z]\d+)_(?:to_([a-z]\d+)_)?")
REASON = "out of scope: "


def shortened(row: str) -> str:
    """A row that has a number, without the name it has upstream."""
    found = NUMBER.match(row)
    return found.group() if found else row


LINES = {shortened(row): proof for row, _, proof in LINE.findall(PAGE.read_text())}


def test_every_row_is_there_once_and_in_order():
    assert [shortened(row) for row, *_ in LINE.findall(PAGE.read_text())] == ROWS


@pytest.mark.parametrize("row", LINES)
def test_a_row_is_proven_or_explained(row):
    named = named_in(LINES[row])

    assert [each for each in named if not is_there(*each)] == []
    assert bool(named) != LINES[row].startswith(REASON)
    assert len(named) == LINES[row].count("::")


def test_a_test_that_bears_the_number_of_a_row_is_listed_there():
    listed = {
        (row, path, name) for row, proof in LINES.items() for path, name, _ in named_in(proof)
    }
    bearers = set()
    for path, name in all_tests():
        for number in filter(None, BEARER.findall(name)[0] if BEARER.match(name) else ()):
            if number.upper() in LINES:
                bearers.add((number.upper(), path, name))

    assert bearers - listed == set()
    assert len(bearers) >= 12
