"""A move from AAQ to Bursar and back, on the embedded cluster, killed after every single write."""

import json
import os
from itertools import count

import pytest

from bursar.app.cluster.kinds import CRDS, DEPLOYMENTS, NAMESPACES
from bursar.app.cluster.ports import Key, NotFoundError, Patch, PatchKind, UnavailableError
from bursar.app.migration.effects import refusals_of
from bursar.app.migration.gather import read_state
from bursar.app.migration.installation import Installation, installation_of
from bursar.app.migration.plan import Step, takeover
from bursar.app.migration.run import Move, MoveError
from bursar.app.migration.state import REPLICAS_ANNOTATION, is_bursars
from bursar.app.quota.kinds import AAQS, APPLICATION_QUOTAS, JOB_QUEUE_CONFIGS
from support.migration.aaq_objects import HOME, bursars_installation
from support.migration.aaq_world import (
    LIMIT,
    TEAM,
    AaqWorld,
    CrashError,
    MovingLine,
    WorldClock,
)
from support.seeds import SEED

WAYS = {
    "policies": ("crds", "rbac", "controller", "policies"),
    "webhooks": ("crds", "rbac", "controller", "webhook", "webhooks"),
    "both": ("crds", "rbac", "controller", "policies", "webhook", "webhooks"),
}


@pytest.fixture(scope="module", params=WAYS)
def installation(request) -> Installation:
    return bursars_installation(*WAYS[request.param])


@pytest.fixture(scope="module")
def policies() -> Installation:
    return bursars_installation(*WAYS["policies"])


STRIDE = int(os.environ.get("BURSAR_CRASH_STRIDE") or 6)
"""Every which write of a move is its last. 1 takes some minutes."""
FIRST = 1 + SEED % STRIDE
"""The first such write. Other seeds try others, so that some runs together try all of them."""
REPEATED = f"BURSAR_CRASH_STRIDE={STRIDE} BURSAR_SEED={SEED} repeats it"
KINDS = {"ServiceAccount", "Deployment", "Service", "ClusterRoleBinding"}


@pytest.fixture(scope="module", params=WAYS)
def few_objects(request) -> Installation:
    return few_of(bursars_installation(*WAYS[request.param]))


def few_of(installation: Installation) -> Installation:
    """An installation with fewer objects of a sort, so that a test can repeat it often."""
    manifests = tuple(
        each
        for each in installation.manifests
        if each.kind in KINDS or each.is_gate or each.kind.endswith("WebhookConfiguration")
    )
    return Installation(manifests=manifests)


def a_move(world: AaqWorld, installation: Installation, **options) -> tuple[Move, MovingLine]:
    line = MovingLine(world, options.pop("crash_after", None))
    move = Move(
        cluster=line, clock=WorldClock(world), home=HOME, installation=installation, **options
    )
    return move, line


async def a_world() -> AaqWorld:
    world = AaqWorld()
    await world.furnish()
    assert (await world.waiting(), world.refused, world.wrongs) == (3, 0, [])
    return world


async def read(world: AaqWorld, resource, key: Key) -> dict:
    return json.loads(await world.cluster.get(resource, key))


async def assert_moved(world: AaqWorld) -> None:
    """Bursar is at work, and nothing was lost."""
    controller = await read(world, DEPLOYMENTS, Key(HOME, "aaq-controller"))
    assert controller["metadata"]["labels"]["app.kubernetes.io/part-of"] == "bursar"
    operator = await read(world, DEPLOYMENTS, Key(HOME, "aaq-operator"))
    assert operator["spec"]["replicas"] == 0
    assert operator["metadata"]["annotations"][REPLICAS_ANNOTATION] == "1"
    assert (await world.cluster.list(JOB_QUEUE_CONFIGS)).items == ()
    for body in (await world.cluster.list(CRDS)).items:
        assert not json.loads(body)["metadata"].get("ownerReferences")
    await assert_nothing_lost(world)


async def assert_back(world: AaqWorld) -> None:
    """AAQ is at work, and nothing was lost."""
    for name in ("aaq-controller", "aaq-server"):
        deployment = await read(world, DEPLOYMENTS, Key(HOME, name))
        assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "aaq-operator"
    operator = await read(world, DEPLOYMENTS, Key(HOME, "aaq-operator"))
    assert operator["spec"]["replicas"] == 1
    await assert_nothing_lost(world)


async def assert_nothing_lost(world: AaqWorld) -> None:
    assert world.wrongs == []
    assert await read(world, APPLICATION_QUOTAS, Key(TEAM, "q"))
    assert await read(world, AAQS, Key("", "aaq"))
    pods = await world.pods()
    assert len(pods) - await world.waiting() == LIMIT
    assert world.lasting <= {pod["metadata"]["uid"] for pod in pods}
    state = await read_state(world.cluster, HOME, None)
    assert not state.has_guard


async def test_a_take_over_loses_and_frees_nothing(installation):
    world = await a_world()

    move, _ = a_move(world, installation)
    await move.run()
    await world.pass_time(5)

    await assert_moved(world)


async def test_with_policies_no_pod_is_refused_meanwhile(policies):
    world = await a_world()

    move, _ = a_move(world, policies)
    await move.run()

    assert world.refused == 0


async def test_the_way_back_loses_and_frees_nothing(installation):
    world = await a_world()
    await a_move(world, installation)[0].run()

    await a_move(world, installation, is_back=True)[0].run()
    await world.pass_time(5)

    await assert_back(world)


@pytest.mark.slow
@pytest.mark.seeded
@pytest.mark.parametrize("is_back", [False, True], ids=["there", "back"])
async def test_a_move_that_is_killed_after_any_write_is_resumed(few_objects, is_back):
    print(REPEATED)  # pytest shows it if the test fails
    installation = few_objects
    for number in count(FIRST, STRIDE):
        world = await a_world()
        if is_back:
            await a_move(world, installation)[0].run()
        try:
            await a_move(world, installation, is_back=is_back, crash_after=number)[0].run()
            break  # It has fewer writes than that.
        except* CrashError:
            pass
        await world.pass_time(5)
        await a_move(world, installation, is_back=is_back)[0].run()
        await world.pass_time(5)
        await (assert_back(world) if is_back else assert_moved(world))
    assert number > 8


@pytest.mark.slow
@pytest.mark.seeded
async def test_a_take_over_that_was_begun_can_be_turned_back(policies):
    """AAQ has stopped, and Bursar has never led: AAQ goes on with the locks that it had."""
    print(REPEATED)
    for number in range(FIRST, 12, STRIDE):
        world = await a_world()
        with pytest.raises(CrashError):
            await a_move(world, policies, crash_after=number)[0].run()
        await a_move(world, policies, is_back=True)[0].run()
        await world.pass_time(5)
        await assert_back(world)


async def test_a_second_run_has_nothing_to_do(installation):
    world = await a_world()
    await a_move(world, installation)[0].run()

    move, line = a_move(world, installation)

    assert await move.run() == 0
    assert line.writes == 0


async def test_what_never_happens_ends_the_move_with_the_reason(policies):
    world = await a_world()
    stuck = {"namespace": HOME, "name": "aaq-operator"}

    async def keep_pod() -> None:
        world._ending.clear()

    class Stubborn(WorldClock):
        async def sleep(self, seconds: float) -> None:
            await keep_pod()
            await super().sleep(seconds)

    move = Move(
        cluster=MovingLine(world),
        clock=Stubborn(world),
        home=HOME,
        installation=policies,
        timeout_seconds=30,
    )
    with pytest.raises(MoveError, match=r"stop-aaq-operator waited 30 s for 1 pods of AAQ's"):
        await move.run()
    assert stuck["name"] in {
        pod["metadata"]["annotations"]["deployment"] for pod in await world.pods(HOME)
    }


async def test_a_program_that_starts_aaqs_operator_again_is_noticed(policies):
    world = await a_world()
    begun: list[Step] = []

    async def start_again() -> None:
        operator = await read(world, DEPLOYMENTS, Key(HOME, "aaq-operator"))
        if not operator["spec"]["replicas"] and begun[-1] is not Step.STOP_OPERATOR:
            await scale(world, 1)

    class Meddling(WorldClock):
        async def sleep(self, seconds: float) -> None:
            await start_again()
            await super().sleep(seconds)

    move = Move(
        cluster=MovingLine(world),
        clock=Meddling(world),
        home=HOME,
        installation=policies,
        on_step=lambda step, text: begun.append(step) if text == "begins" else None,
    )
    with pytest.raises(MoveError, match="another program works against it"):
        await move.run()


async def scale(world: AaqWorld, replicas: int) -> None:
    patch = Patch(kind=PatchKind.MERGE, body={"spec": {"replicas": replicas}})
    await world.cluster.patch(DEPLOYMENTS, Key(HOME, "aaq-operator"), patch)


async def test_without_a_gated_namespace_there_is_nothing_to_try(policies):
    world = await a_world()
    labels = {"metadata": {"labels": {"application-aware-quota/enable-gating": None}}}
    patch = Patch(kind=PatchKind.MERGE, body=labels)
    await world.cluster.patch(NAMESPACES, Key("", TEAM), patch)

    move, _ = a_move(world, policies)
    await move.run()

    state = await read_state(world.cluster, HOME, policies)
    assert state.controller is not None
    assert is_bursars(state.controller.metadata)
    assert all(each.is_done for each in takeover(state))


async def test_an_object_that_is_missing_is_no_failure():
    world = AaqWorld()

    state = await read_state(world.cluster, HOME, None)

    assert (state.aaq, state.operator, state.job_queues) == (None, None, ())
    with pytest.raises(NotFoundError):
        await world.cluster.get(AAQS, Key("", "aaq"))


async def test_manifests_are_tried_before_aaq_is_stopped(policies):
    world = await a_world()
    before = world.cluster.revision
    good = await refusals_of(world.cluster, policies)
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "m", "namespace": HOME},
    }
    bad = await refusals_of(world.cluster, installation_of([monitor]))

    assert good == ()
    assert world.cluster.revision == before
    assert [each.partition(":")[0] for each in bad] == [f"ServiceMonitor {HOME}/m"]


class Silent(MovingLine):
    """An API server that does not answer every third write, though it carries it out."""

    async def _write(self, request, *arguments, **options):
        answer = await super()._write(request, *arguments, **options)
        if self.writes % 3 == 0:
            raise UnavailableError("no answer within 30 s")
        return answer


async def test_an_api_server_that_does_not_answer_is_asked_again(policies):
    world = await a_world()
    errors: list[str] = []
    move = Move(
        cluster=Silent(world),
        clock=WorldClock(world),
        home=HOME,
        installation=few_of(policies),
        on_error=errors.append,
    )
    await move.run()
    await world.pass_time(5)

    await assert_moved(world)
    assert errors


async def test_an_api_server_that_never_answers_ends_the_move(policies):
    world = await a_world()

    class Dead(MovingLine):
        async def _write(self, request, *arguments, **options):  # noqa: ARG002 - as the other
            raise UnavailableError("no answer within 30 s")

    move = Move(
        cluster=Dead(world),
        clock=WorldClock(world),
        home=HOME,
        installation=policies,
        timeout_seconds=20,
    )
    with pytest.raises(UnavailableError):
        await move.run()
