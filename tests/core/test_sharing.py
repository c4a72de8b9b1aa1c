"""Caches that tenants fill: bounded by number, by bytes, or by the life of what they are about."""

from bursar.core.sharing import Attached, Generations, Living


class Thing:
    """Something that can be referred to weakly."""


def test_values_are_dropped_before_they_weigh_too_much():
    cache = Generations(1000, len, weight_max=100)
    for number in range(50):
        cache.keep(number, "x" * 30)

        assert cache.weight <= 200
    assert cache.find(49) is not None
    assert cache.find(0) is None


def test_a_value_that_weighs_too_much_is_not_kept():
    cache = Generations(1000, len, weight_max=100)
    cache.keep("small", "x")
    cache.keep("large", "x" * 101)

    assert cache.find("large") is None
    assert cache.find("small") == "x"


def test_a_cache_that_weighs_nothing_counts_values():
    cache = Generations(2)
    for key in "abcde":
        cache.keep(key, key)

    assert (len(cache), cache.weight) == (3, 0)


def test_a_living_value_is_found_until_nothing_holds_it():
    cache = Living()
    held = Thing()
    cache.keep("key", held)

    assert cache.find("key") is held
    del held
    assert (cache.find("key"), len(cache)) == (None, 0)


def test_a_value_that_dies_does_not_take_its_successor_along():
    cache = Living()
    first, second = Thing(), Thing()
    cache.keep("key", first)
    old = cache.refs["key"]
    cache.keep("key", second)
    del first
    cache._forget(old)  # As the garbage collector may call it, later than the next `keep`.

    assert cache.find("key") is second


def test_what_is_attached_to_an_object_goes_with_it():
    cache = Attached()
    one, other = Thing(), Thing()
    cache.keep(one, "of one")
    cache.keep(other, "of the other")

    assert (cache.find(one), cache.find(other), cache.find(Thing())) == (
        "of one",
        "of the other",
        None,
    )
    del one
    assert len(cache) == 1
