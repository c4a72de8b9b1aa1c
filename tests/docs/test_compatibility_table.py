"""The page that compares us with AAQ names every row once, and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "aaq-compatibility.md"
SIZES = {
    sort: int(size)
    for sort, size in re.findall(
        r"(\S+)=(\d+)",
        "E-ARQ=29 E-ACRQ=2 E-MIR=6 E-SIDE=1 E-SRV=6 E-OP=14 E-CERT=2 U-EV=40 U-ARQ=26 U-GATE=15"
        " U-RQ=7 U-ACRQ=1 U-VMI=17 U-SRV=2 U-HND=6 U-APP=2 U-MET=2 U-OP=40 U-CR=2 U-CERT=1"
        " U-CM=11 U-PATCH=9",
    )
}
"""How many tests AAQ has of each sort."""
ROWS = [f"{sort}-{number:02d}" for sort, size in SIZES.items() for number in range(1, size + 1)]
TESTED = {"same", "better"}
REASONED = {"better", "different on purpose", "not yet"}
LINE = re.compile(r"^\| ([EU]-[A-Z]+)-(\d\d)(?:\.\.(\d\d))? \|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"^test_([eu])_([a-z]+)_(\d\d)_")


def lines():
    """Each line of the tables: rows, tests, verdict, reason."""
    for sort, first, last, rest in LINE.findall(PAGE.read_text()):
        numbers = range(int(first), int(last or first) + 1)
        _, tests, verdict, reason = (cell.strip() for cell in rest.split(" | "))
        named = re.findall(r"`([^`]+)::(\w+)`", tests)
        yield [f"{sort}-{number:02d}" for number in numbers], named, verdict, reason


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


LINES = [*lines()]


def test_every_row_is_there_once():
    listed = [row for rows, *_ in LINES for row in rows]

    assert sorted(listed) == sorted(ROWS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][0])
def test_a_row_is_proven_or_explained(line):
    _, named, verdict, reason = line
    missing = [(path, name) for path, name in named if name not in names_in(TESTS / path)]

    assert missing == []
    assert verdict in TESTED | REASONED
    assert named or verdict not in TESTED
    assert reason or verdict not in REASONED


def test_a_test_that_bears_the_number_of_a_row_is_listed_there():
    listed = {
        (row, path, name) for rows, named, *_ in LINES for path, name in named for row in rows
    }
    bearers = set()
    for path in TESTS.rglob("test_*.py"):
        for name in names_in(path):
            if found := NAMED.match(name):
                sort, group, number = found.groups()
                row = f"{sort}-{group}-{number}".upper()
                bearers.add((row, str(path.relative_to(TESTS)), name))

    assert bearers - listed == set()
    assert len(bearers) > 60
