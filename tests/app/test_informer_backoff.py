"""Waiting between failures: full jitter, bounded, and forgiving after a healthy while."""

from itertools import pairwise

from bursar.app.cluster.informer.backoff import Backoff, BackoffRules
from support.cluster.scripted_cluster import seeded


def delays(backoff, count):
    found, now = [], 0.0
    for _ in range(count):
        found.append(backoff.delay_s(now))
        now += found[-1]
    return found


def ceilings(count):
    """The longest delay ever drawn for each failure in a row, over many seeds."""
    runs = [delays(Backoff(BackoffRules(), seeded(seed)), count) for seed in range(400)]
    return [max(column) for column in zip(*runs, strict=True)], runs


def test_the_ceiling_doubles_from_its_first_to_its_last_value():
    highest, _ = ceilings(8)

    for seen, ceiling in zip(highest, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30], strict=True):
        assert 0.9 * ceiling < seen <= ceiling


def test_the_jitter_is_full():
    _, runs = ceilings(8)

    assert min(run[-1] for run in runs) < 1.0, "even the last may be short"


def test_a_healthy_while_makes_the_next_failure_the_first():
    backoff = Backoff(BackoffRules(), seeded(1))
    waited = sum(delays(backoff, 10))

    assert backoff.delay_s(waited + 121) <= 0.8


def test_a_short_while_does_not():
    late = []
    for seed in range(50):
        backoff = Backoff(BackoffRules(), seeded(seed))
        late.append(backoff.delay_s(sum(delays(backoff, 10)) + 60))

    assert max(late) > 20


def test_what_the_server_asks_for_comes_first_within_bounds():
    for asked, least in [(5.0, 5.0), (-3.0, 0.0), (3600.0, 30.0)]:
        delay = Backoff(BackoffRules(), seeded(1)).delay_s(0.0, retry_after=asked)

        assert least <= delay <= least + 0.8


def test_ten_thousand_failures_are_no_trouble():
    long = delays(Backoff(BackoffRules(healthy_s=1e9), seeded(3)), 10_000)

    assert max(long) <= 30
    assert any(one != other for one, other in pairwise(long))
