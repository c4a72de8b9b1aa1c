"""Seeded scripts: writers, and a line that fails at any await. Afterwards everybody agrees.

Whatever happened, once the weather is calm the cache equals the cluster, and so do the
books of an auditor who only heard the changes: no deletion missed, nothing told twice.
"""

import asyncio

import pytest

from bursar.app.cluster.ports import ExpiredError, Key, UnavailableError
from support.cluster.audited_informer import following
from support.cluster.scripted_cluster import CALM, ScriptedCluster, Weather, seeded
from support.virtual_time import run

pytestmark = pytest.mark.slow

NAMES = [f"{namespace}/{name}" for namespace in "ab" for name in "12345"]
BATCHES = 10
SCRIPTS_PER_BATCH = 60
RELIST_S = 700.0


def some_weather(random):
    """Some kinds of trouble, from rare to constant. Only loss needs periodic lists to heal."""
    kinds = ["late", "fail", "expire", "cut", "stall", "repeat", "replay", "lose", "garble"]
    return Weather(
        **{
            kind: random.choice([0.02, 0.1, 0.3])
            for kind in random.sample(kinds, random.randint(0, 5))
        }
    )


async def disturb(cluster, random):
    for _ in range(random.randint(5, 80)):
        match random.randint(0, 13):
            case 0:
                cluster.compact()
            case 1:
                cluster.cut(random.choice([None, UnavailableError("down"), ExpiredError("gone")]))
            case 2:
                await asyncio.sleep(random.choice([1.0, 70.0, 500.0]))
            case 3 | 4 | 5:
                await asyncio.sleep(random.choice([0.0, 0.01, 0.5, 5.0]))
            case 6 | 7 | 8 if cluster.objects:
                key = random.choice(sorted(cluster.objects))
                cluster.delete(f"{key.namespace}/{key.name}")
                if random.random() < 0.4:
                    cluster.write(f"{key.namespace}/{key.name}")
            case _:
                is_readable = random.random() < 0.93
                cluster.write(random.choice(NAMES), random.randint(0, 9), is_readable=is_readable)


async def live(seed):
    random = seeded(seed)
    weather = some_weather(random)
    cluster = ScriptedCluster(
        random=seeded(seed + 1),
        refuses_initial=random.random() < 0.3,
        deadline_s=random.choice([30.0, 400.0]),
    )
    for name in random.sample(NAMES, random.randint(0, len(NAMES))):
        cluster.write(name)
    cluster.weather = weather
    async with following(
        cluster,
        seed=seed,
        pace=lambda: random.choice([0, 0, 0, 0.1]),
        page_limit=random.choice([1, 3, 500]),
        pending_max=random.choice([1, 3, 1024]),
        relist_s=RELIST_S if weather.lose else None,
    ) as session:
        await disturb(cluster, random)
        cluster.weather = CALM
        await session.pass_time(2000 if weather.lose or weather.garble else 300)
        session.check()
        return session


@pytest.mark.parametrize("batch", range(BATCHES))
def test_after_any_weather_the_cache_equals_the_cluster(batch):
    for seed in range(batch * SCRIPTS_PER_BATCH, (batch + 1) * SCRIPTS_PER_BATCH):
        try:
            run(live(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_scripts_meet_every_kind_of_trouble():
    """A simulation in which nothing goes wrong proves nothing."""
    counts = [run(live(seed)).informer.counters for seed in range(40)]

    for name in ("relists", "watch_restarts", "expired", "failures", "duplicates"):
        assert sum(getattr(each, name) for each in counts) > 10, name
    assert sum(each.decode_failures for each in counts) > 10


def test_a_stop_at_any_moment_leaves_nothing_behind():
    async def stop_after(seconds, seed):
        random = seeded(seed)
        cluster = ScriptedCluster(random=random, weather=Weather(late=0.5, cut=0.1))
        for name in NAMES:
            cluster.write(name)
        async with following(cluster, pending_max=1, pace=lambda: 0.05) as session:
            await session.pass_time(seconds)
            cluster.delete("a/1")
            await session.pass_time(seconds)
        assert session.informer.find(Key("b", "9")) is None

    for seed in range(60):
        run(stop_after(seed * 0.017, seed))
