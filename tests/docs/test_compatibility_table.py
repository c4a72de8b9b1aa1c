"""The page that compares us with AAQ names every row once, and tests that exist."""

import re

import pytest

from support.named_tests import TESTS, all_tests, is_there, named_in

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
REASONED = {"better", "different on purpose"}
LINE = re.compile(r"^\| ([EU]-[A-Z]+)-(\d\d)(?:\.\.(\d\d))? \|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"^test_([eu])_([a-z]+)_(\d\d)_")


def lines():
    """Each line of the tables: rows, tests, verdict, reason."""
    for sort, first, last, rest in LINE.findall(PAGE.read_text()):
        numbers = range(int(first), int(last or first) + 1)
        _, tests, verdict, reason = (cell.strip() for cell in rest.split(" | "))
        yield [f"{sort}-{number:02d}" for number in numbers], named_in(tests), verdict, reason


LINES = [*lines()]


def test_every_row_is_there_once():
    listed = [row for rows, *_ in LINES for row in rows]

    assert sorted(listed) == sorted(ROWS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][0])
def test_a_row_is_proven_or_explained(line):
    _, named, verdict, reason = line

    assert [each for each in named if not is_there(*each)] == []
    assert verdict in TESTED | REASONED
    assert named or verdict not in TESTED
    assert reason or verdict not in REASONED


def test_a_test_that_bears_the_number_of_a_row_is_listed_there():
    listed = {
        (row, path, name) for rows, named, *_ in LINES for path, name, _ in named for row in rows
    }
    bearers = set()
    for path, name in all_tests():
        if found := NAMED.match(name):
            bearers.add(("-".join(found.groups()).upper(), path, name))

    assert bearers - listed == set()
    assert len(bearers) > 60
