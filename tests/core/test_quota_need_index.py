"""The index by need: the first by rank of those that fit, whatever was added and removed."""

from hypothesis import given
from hypothesis import strategies as st

from bursar.core.quota.waiting_pods.need_index import NeedIndex

RANKS = st.integers(0, 30).map(lambda number: (0, number, "a", f"p{number}"))
OPERATIONS = st.lists(st.tuples(st.integers(0, 9), RANKS, st.integers(-1, 10)), max_size=80)


@given(OPERATIONS)
def test_the_first_that_fits_is_found(operations):
    """Adds what is not there and removes what is, and asks after each."""
    index, there = NeedIndex(), {}
    for need, rank, need_max in operations:
        if (need, rank) in there:
            index.remove(need, rank)
            del there[need, rank]
        else:
            index.add(need, rank, (need, rank))
            there[need, rank] = None

        found = index.first(need_max)
        fitting = [each for each in there if each[0] <= need_max]
        assert found is None or found in fitting
        assert (found and found[1]) == min((each[1] for each in fitting), default=None)
        assert bool(index) == bool(there)


def test_a_search_looks_at_few_of_many():
    """Needs in order would make a list of a tree without balance."""
    index = NeedIndex()
    for need in range(2_000):
        index.add(need, (0, 2_000 - need, "a", f"p{need}"), need)
    depths = []

    def walk(node, depth):
        if node is not None:
            depths.append(depth)
            walk(node.left, depth + 1)
            walk(node.right, depth + 1)

    walk(index._root, 1)

    assert len(depths) == 2_000
    assert max(depths) < 80
    assert [index.first(need) for need in (0, 1_000, 5_000)] == [0, 1_000, 1_999]
