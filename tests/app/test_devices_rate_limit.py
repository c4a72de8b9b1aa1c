"""Kubelet's rate limit: a hundred calls per second and ten at once, over all clients."""

from fractions import Fraction
from random import Random

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.devices.ports import CallError, Method, Version
from bursar.app.devices.rate_limit import CallBucket, RateLimited, RateRules
from support.devices.scripted_kubelet import Echo

MILLI = 1_000_000


def test_bucket_is_full_at_first_and_refills_every_ten_milliseconds():
    bucket = CallBucket(RateRules(), 0)

    assert [bucket.take(0) for _ in range(11)] == [True] * 10 + [False]
    assert [bucket.take(10 * MILLI - 1), bucket.take(10 * MILLI), bucket.take(10 * MILLI)] == [
        False,
        True,
        False,
    ]
    assert [bucket.take(10**12) for _ in range(11)] == [True] * 10 + [False]


def test_bucket_does_what_upstreams_formula_says():
    """golang.org/x/time/rate, with fractions instead of floats."""
    random = Random(6)  # noqa: S311 - a seed, not a secret
    for _ in range(50):
        rules = RateRules(per_second=random.randint(1, 300), burst=random.randint(0, 12))
        bucket, tokens, last, now = CallBucket(rules, 0), Fraction(rules.burst), 0, 0
        for _ in range(300):
            now += random.choice([0, 1, 999, MILLI, 7 * MILLI, 10 * MILLI, 90 * MILLI])
            grown = tokens + Fraction((now - last) * rules.per_second, 10**9)
            left = min(grown, Fraction(rules.burst)) - 1
            is_allowed = left >= 0 and rules.burst >= 1
            if is_allowed:
                tokens, last = left, now

            assert bucket.take(now) is is_allowed


def test_clock_that_goes_back_gives_no_tokens():
    bucket = CallBucket(RateRules(burst=1), 10**9)

    assert [bucket.take(10**9), bucket.take(0), bucket.take(9 * MILLI)] == [True, False, False]


def test_limit_of_zero_is_none():
    bucket = CallBucket(RateRules(per_second=0, burst=0), 0)

    assert all(bucket.take(0) for _ in range(1000))


async def test_all_methods_and_versions_draw_on_one_bucket_and_hear_kubelets_words():
    clock = VirtualClock()
    limited = RateLimited(Echo(), clock=clock, rules=RateRules(burst=4))
    answers = [
        await limited.call(Version.V1, Method.LIST, b"", None),
        await limited.call(Version.V1ALPHA1, Method.LIST, b"", None),
        await limited.call(Version.V1, Method.GET, b"", None),
        await limited.call(Version.V1, Method.ALLOCATABLE, b"", None),
    ]
    with pytest.raises(CallError) as refused:
        await limited.call(Version.V1, Method.GET, b"", None)
    await clock.advance(0.01)

    assert answers == [b"v1 List:", b"v1alpha1 List:", b"v1 Get:", b"v1 GetAllocatableResources:"]
    assert (refused.value.code, refused.value.text) == (8, "rejected by rate limit")
    assert limited.refused == 1
    assert await limited.call(Version.V1, Method.GET, b"", None) == b"v1 Get:"
