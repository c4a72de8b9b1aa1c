"""Resource lists: union, maximum, difference."""

from bursar.core.model.resources import (
    NOTHING,
    add,
    maximum,
    nothing,
    rounded_to_milli,
    subtract,
)
from support.builders.pods import parsed


def test_add_covers_the_union_of_names():
    assert add(parsed("cpu=1"), parsed("cpu=500m memory=1Gi")) == parsed("cpu=1500m memory=1Gi")


def test_subtract_takes_a_missing_name_for_zero():
    assert subtract(parsed("cpu=1"), parsed("cpu=1500m memory=1Gi")) == parsed(
        "cpu=-500m memory=-1Gi"
    )


def test_maximum_keeps_the_left_text_when_amounts_are_equal():
    greatest = maximum(parsed("memory=1Gi cpu=1"), parsed("memory=1024Mi cpu=2 pods=3"))

    assert {name: str(amount) for name, amount in greatest.items()} == {
        "memory": "1Gi",
        "cpu": "2",
        "pods": "3",
    }


def test_rounding_to_milli_is_what_the_server_stores():
    assert {n: str(q) for n, q in rounded_to_milli(parsed("cpu=0.5m memory=1.500")).items()} == {
        "cpu": "1m",
        "memory": "1.500",
    }


def test_nothing_is_shared_and_empty():
    assert nothing() is NOTHING
    assert add(NOTHING, parsed("cpu=1")) == parsed("cpu=1")
