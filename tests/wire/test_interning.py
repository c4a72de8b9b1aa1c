"""Shared values: one object for all who are equal, and no table without a bound."""

from bursar.core.sharing import Generations
from bursar.wire.structs.interning import Interner, text_bytes


def test_equal_values_become_one_object():
    interner = Interner(10)
    one, two = ("a", str(12345)), ("a", str(12345))

    assert one is not two
    assert interner.shared(one) is interner.shared(two) is one


def test_the_table_is_bounded():
    interner = Interner(10)
    for number in range(1000):
        interner.shared(("n", number))

    assert len(interner) <= 20


def test_what_is_used_survives_what_is_not():
    interner = Interner(10)
    used = ("used", 1)
    for number in range(1000):
        assert interner.shared(("used", 1)) is interner.shared(used)
        interner.shared(("n", number))


def test_a_value_that_nobody_asked_for_is_forgotten():
    memory = Generations(2)
    for key in "abcde":
        memory.keep(key, key)

    assert memory.find("a") is None
    assert memory.find("e") == "e"


def test_the_table_is_bounded_by_bytes():
    interner = Interner(1000, text_bytes, weight_max=10_000)
    for number in range(1000):
        interner.shared(f"{number:0500}")

    assert 0 < interner.weight <= 2 * 10_000
    assert len(interner) == interner.weight // text_bytes("x" * 500)
