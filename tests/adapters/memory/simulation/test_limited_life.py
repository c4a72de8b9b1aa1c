"""CronJobs, quotas, resizes and events of a whole embedded cluster, in virtual time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from bursar.adapters.memory.simulation.pod_lifecycle import (
    FINISHES_AFTER,
    RESIZES_AFTER,
    RESIZES_TO,
)
from bursar.adapters.memory.simulation.workloads.cron_jobs import next_time
from bursar.app.cluster.kinds import (
    CRON_JOBS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
)
from support.cluster.simulated_life import (
    World,
    container,
    embedded_world,
    name_of,
    node,
    pod,
    workload,
)

TEMPLATE = {
    "metadata": {"annotations": {FINISHES_AFTER: "2s"}},
    "spec": {"restartPolicy": "Never", "containers": [container()]},
}


def cron_job(schedule: str, **spec: object) -> dict:
    job = {"spec": {"template": TEMPLATE}}
    return {
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": job, **spec},
    }


async def job_count(world: World) -> int:
    return len(await world.all(JOBS))


async def reasons(world: World) -> list[str]:
    return [raw["reason"] for raw in await world.all(EVENTS)]


async def used(world: World) -> dict[str, str]:
    return (await world.status(RESOURCE_QUOTAS, "q")).get("used", {})


# ------------------------------------------------------------------ CronJobs


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-03-04T12:00:30", "2026-03-04T12:01"),
        ("*/15 * * * *", "2026-03-04T12:45", "2026-03-04T13:00"),
        ("30 6 * * 1-5", "2026-03-06T06:30", "2026-03-09T06:30"),
        ("0 0 1 jan *", "2026-03-04T12:00", "2027-01-01T00:00"),
        ("0 12 13 * fri", "2026-03-04T12:00", "2026-03-06T12:00"),
        ("5,10 8-9/1 ? * sun", "2026-03-04T12:00", "2026-03-08T08:05"),
        ("@hourly", "2026-03-04T12:00", "2026-03-04T13:00"),
        ("@every 1h30m", "2026-03-04T12:00", "2026-03-04T13:30"),
        ("@every 20s", "2026-03-04T12:00", "2026-03-04T12:00:20"),
        ("0 0 30 2 *", "2026-03-04T12:00", None),
    ],
)
def test_the_next_time_of_a_schedule(schedule, after, expected):
    since = datetime.fromisoformat(after).replace(tzinfo=UTC)
    wanted = None if expected is None else datetime.fromisoformat(expected).replace(tzinfo=UTC)

    assert next_time(schedule, since, UTC) == wanted


def test_a_schedule_has_a_time_zone():
    noon = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)

    found = next_time("0 9 * * *", noon, ZoneInfo("America/New_York"))

    assert found == noon + timedelta(hours=2)


async def test_a_cron_job_starts_jobs_and_keeps_a_few_of_them():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(CRON_JOBS, cron_job("@every 20s"))
        await world.eventually(lambda: job_count(world), 1)
        [job] = await world.all(JOBS)
        assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
        await world.pause(19)
        assert await job_count(world) == 1
        await world.pause(200)

        assert 3 <= await job_count(world) <= 4
        assert (await world.status(CRON_JOBS, "tick"))["lastScheduleTime"]


@pytest.mark.parametrize(
    "spec", [{"suspend": True}, {"schedule": "never"}, {"timeZone": "No/Where"}]
)
async def test_a_cron_job_that_is_suspended_or_wrong_starts_nothing(spec):
    async with embedded_world() as world:
        await world.create(CRON_JOBS, cron_job(**{"schedule": "@every 5s", **spec}))
        await world.pause(30)

        assert await job_count(world) == 0


@pytest.mark.parametrize(("policy", "count"), [("Forbid", 1), ("Replace", 1), ("Allow", 3)])
async def test_the_concurrency_policy_of_a_cron_job(policy, count):
    """Without a node no Job ends."""
    async with embedded_world() as world:
        await world.create(CRON_JOBS, cron_job("@every 10s", concurrencyPolicy=policy))
        await world.pause(35)

        assert await job_count(world) == count


# ------------------------------------------------------------------ quotas


async def test_a_quota_refuses_pods_and_has_room_again_when_they_end():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(
            RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
        )
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 3}))
        await world.eventually(lambda: world.phases("web"), ["Running"] * 2)
        await world.eventually(lambda: used(world), {"pods": "2"})
        assert await reasons(world) == ["FailedCreate"]

        await world.scale("web", 1)
        await world.eventually(lambda: used(world), {"pods": "1"})
        await world.scale("web", 2)
        await world.eventually(lambda: world.phases("web"), ["Running"] * 2)

        assert await used(world) == {"pods": "2"}


async def test_a_raised_quota_lets_waiting_pods_in():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(
            RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        )
        await world.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", {"replicas": 3}))
        await world.eventually(lambda: world.phases("web"), ["Running"])
        await world.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "3"}}})

        await world.eventually(lambda: world.phases("web"), ["Running"] * 3)
        assert (await world.status(RESOURCE_QUOTAS, "q"))["hard"] == {"pods": "3"}


# ------------------------------------------------------------------ resizes and events


def growing(to: str) -> dict:
    body = pod("grow", containers=[container(cpu="1")])
    body["metadata"]["annotations"] = {RESIZES_AFTER: "5s", RESIZES_TO: to}
    return body


async def cpu_of(world: World) -> str:
    [container] = (await world.get(PODS, "grow"))["spec"]["containers"]
    return container["resources"]["requests"]["cpu"]


async def test_a_pod_asks_for_a_resize_and_gets_it():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        await world.create(PODS, growing("cpu=2"))
        await world.pause(4)
        assert await cpu_of(world) == "1"

        await world.eventually(lambda: cpu_of(world), "2")
        assert await reasons(world) == []


async def test_a_refused_resize_is_an_event_and_is_not_asked_for_again():
    async with embedded_world() as world:
        await world.create(NODES, node("a"))
        item = {"type": "Container", "max": {"cpu": "2"}}
        await world.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
        await world.create(PODS, growing("cpu=3"))
        await world.pause(60)

        [event] = await world.all(EVENTS)
        assert event["reason"] == "ResizeRefused"
        assert "maximum cpu usage per Container is 2" in event["note"]
        assert event["regarding"]["name"] == "grow"
        assert await cpu_of(world) == "1"


async def test_events_are_kept_for_an_hour():
    async with embedded_world() as world:
        await world.create(PODS, pod("nowhere"))
        await world.eventually(lambda: reasons(world), ["FailedScheduling"])
        await world.pause(3500)
        assert await reasons(world) == ["FailedScheduling"]

        await world.pause(200)
        assert [name_of(raw) for raw in await world.all(EVENTS)] == []
