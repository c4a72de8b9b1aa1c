"""What becomes of a list on its way in, while objects change under it and news is repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.app.cluster.informer.cache import Cache, Draft, ReceivedObject
from bursar.app.cluster.informer.store import Identity, Store, is_older
from bursar.app.cluster.ports import Key
from support.cluster.scripted_cluster import Thing, identify_thing

KEY = Key("a", "one")


def cache_of(*things):
    cache = Cache(identify_thing, resource="things", objects_max=10)
    for thing in things:
        cache.store.put(thing.key, thing)
    return cache


def thing(version, uid="u1", value=0):
    return Thing(KEY, uid, str(version), value)


def news(thing):
    return ReceivedObject(identify_thing(thing), thing)


def unreadable(version, uid="u1"):
    return ReceivedObject(Identity(KEY, uid, str(version)), None)


def test_a_repetition_does_not_bring_back_what_was_deleted_during_the_list():
    draft = Draft(cache_of())

    assert draft.put(news(thing(5)))
    assert draft.remove(Identity(KEY, "u1", "7"))
    assert not draft.put(news(thing(6)))
    assert not draft.remove(Identity(KEY, "u1", "7"))
    assert draft.store.find(KEY) is None


def test_an_object_recreated_during_the_list_is_in_it():
    draft = Draft(cache_of())
    draft.put(news(thing(5)))
    draft.remove(Identity(KEY, "u1", "7"))

    assert draft.put(news(thing(8, "u2")))
    assert draft.store.find(KEY) == thing(8, "u2")


@pytest.mark.parametrize("late", [thing(5), thing(5, "u0"), thing(6)])
def test_older_or_equal_states_do_not_replace_newer_ones_in_a_list(late):
    draft = Draft(cache_of())
    draft.put(news(thing(6)))

    assert not draft.put(news(late))
    assert draft.store.find(KEY) == thing(6)


def test_an_unreadable_change_during_the_list_keeps_what_the_list_showed():
    held, listed = thing(3, value=1), thing(5, value=2)
    draft = Draft(cache_of(held))
    draft.put(news(listed))
    draft.put(unreadable(6))

    assert draft.store.find(KEY) == listed
    assert draft.suspects == {KEY}


def test_an_unreadable_successor_during_the_list_ends_what_the_list_showed():
    draft = Draft(cache_of())
    draft.put(news(thing(5)))
    draft.put(unreadable(8, "u2"))

    assert draft.store.find(KEY) is None
    assert draft.suspects == {KEY}


def test_what_a_noisy_list_said_is_gone_is_gone():
    cache = cache_of(thing(3))
    draft = Draft(cache)
    draft.has_noise = True
    draft.remove(Identity(KEY, "u1", "7"))

    assert [change.last for change in cache.replace(draft)] == [thing(3)]


def test_versions_that_are_not_numbers_are_never_older():
    assert not is_older("a", "b")
    assert not is_older("", "5")
    assert not is_older("5", "")
    assert is_older("99", "100")


NAMES = st.builds(Key, st.sampled_from("ab"), st.sampled_from("123"))


@given(st.lists(st.tuples(NAMES, st.integers(0, 3))))
def test_a_store_is_a_mapping_and_its_snapshots_never_change(steps):
    """A zero removes, two takes a snapshot as well; the model is a plain dict."""
    store, model, taken = Store(), {}, []
    for key, value in steps:
        if value:
            store.put(key, value)
            model[key] = value
        elif key in model:
            store.remove(key)
            del model[key]
        if value == 2:
            taken.append((store.snapshot(), dict(model)))

    for snapshot, then in [*taken, (store.snapshot(), model)]:
        assert dict(snapshot) == then
        assert len(snapshot) == len(then)
        assert sorted(snapshot.objects()) == sorted(then.values())
        assert [key for key in then if key not in snapshot] == []
