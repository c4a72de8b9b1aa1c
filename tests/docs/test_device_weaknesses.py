"""The page of weaknesses of Koordinator's proxy: each once, and proven by tests that exist."""

import re

import pytest

from support.named_tests import TESTS, all_tests, is_there, named_in

PAGE = TESTS.parent / "docs" / "reference" / "pod-resources-weaknesses.md"
LINE = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
BEARER = re.compile(r"^test_weakness_(\d+)_")
PROOFS = {int(number): proof for number, _, _, proof in LINE.findall(PAGE.read_text())}


def test_every_weakness_is_there_once_and_in_order():
    assert [int(number) for number, *_ in LINE.findall(PAGE.read_text())] == [*range(1, 29)]


@pytest.mark.parametrize("number", PROOFS)
def test_a_weakness_is_proven_by_tests_that_exist(number):
    named = named_in(PROOFS[number])

    assert named
    assert [each for each in named if not is_there(*each)] == []
    assert len(named) == PROOFS[number].count("::")


def test_a_test_that_bears_the_number_of_a_weakness_is_listed_there():
    listed = {
        (number, path, name)
        for number, proof in PROOFS.items()
        for path, name, _ in named_in(proof)
    }
    bearers = {
        (int(found.group(1)), path, name)
        for path, name in all_tests()
        if (found := BEARER.match(name))
    }

    assert bearers - listed == set()
    assert len(bearers) > 15
