"""`bursar release`: what it takes for an order, and what becomes of pods that change meanwhile."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import (
    ConflictError,
    ForbiddenError,
    Key,
    Patch,
    PatchKind,
    Resource,
)
from bursar.app.cluster.reading.listing import PAGE_SIZE
from bursar.app.quota.release.force_release import (
    ATTEMPTS_MAX,
    GATING_OBJECTS,
    LIMIT_OBJECTS,
    PROTECTION_OBJECTS,
    ROUNDS_MAX,
    ForcedReleases,
    force_release,
    gated_pods,
    release_all,
    stop_gating,
)
from bursar.cli.live_cluster import kubectls_cluster
from bursar.core.model.pod_row import OTHER_GATES_MAX
from bursar.core.quota.quota import GATE
from bursar.wire.model.pod_row import PodRowDecoder
from certificates import Authority
from support.builders.manifests import pod_manifest
from support.processes.command_line import run_bursar
from support.virtual_time import MachineClock, in_virtual_time

FOREIGN = "example.com/licence"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name pods, or give --all"),
        (("--all", "-n", "a", "p"), "name pods, or give --all"),
        (("p",), "pods are named within a namespace: give -n"),
        (("--all", "-n", "a", "--stop-gating"), "--stop-gating is for all pods: give --all"),
        (("p", "-n", "a", "--stop-gating"), "--stop-gating is for all pods: give --all"),
    ],
)
def test_what_is_to_go_has_to_be_said_in_one_way(arguments, complaint):
    ran = run_bursar("release", *arguments)

    assert ran.code == 2
    assert complaint in ran.err


def test_a_cluster_that_is_not_known_is_said_in_one_line(tmp_path):
    ran = run_bursar("release", "--all", "--kubeconfig", str(tmp_path / "none"))

    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1


def test_in_a_pod_without_a_kubeconfig_its_service_account_is_used(tmp_path):
    authority = Authority(tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("home")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    access = kubectls_cluster(None, "", pod, account_folder=str(tmp_path))

    assert (access.server, access.namespace) == ("https://10.0.0.1:443", "home")


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": "none"}])
def test_a_kubeconfig_that_is_named_or_nothing_at_all_is_never_the_pod(environment, tmp_path):
    in_pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    named = ("--kubeconfig", str(tmp_path / "none"))
    ran = run_bursar("release", "--all", *named, **in_pod, **environment)

    assert ran.code == 2
    assert "none" in ran.err


# ------------------------------------------------------------------ pods that change meanwhile


class Meddler:
    """The embedded cluster, with somebody who is there first."""

    def __init__(self, cluster: MemoryCluster, clock: MachineClock) -> None:
        self.cluster, self.clock = cluster, clock
        self.before_write: Callable[[Key], Awaitable[None]] | None = None
        self.writes = 0
        self.forbidden: set[Resource] = set()

    async def patch(self, resource: Resource, key: Key, patch: Patch) -> bytes:
        self.writes += 1
        if self.before_write is not None:
            await self.before_write(key)
        return await self.cluster.patch(resource, key, patch)

    async def delete(self, resource: Resource, key: Key) -> None:
        if resource in self.forbidden:
            raise ForbiddenError(f"{resource} cannot be deleted", 403)
        await self.cluster.delete(resource, key)

    async def label(self, key: Key, value: str) -> None:
        body = {"metadata": {"labels": {"touched": value}}}
        await self.cluster.patch(PODS, key, Patch(kind=PatchKind.MERGE, body=body))

    async def gates(self, name: str) -> list[str]:
        pod = json.loads(await self.cluster.get(PODS, Key("a", name)))
        return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]

    async def let_go(self, namespace: str = "", *, is_gating: bool = True) -> ForcedReleases:
        decode = PodRowDecoder().decode
        rows = await gated_pods(self.cluster, decode, namespace)
        ticks: list[None] = []
        done = await force_release(
            self.cluster,
            self,
            rows,
            decode=decode,
            progress=lambda: ticks.append(None),
            is_gating=is_gating,
        )
        assert len(ticks) == len(rows)
        return done


def with_pods(*names: str):
    """Run a test on a cluster with pods at the gate."""

    @asynccontextmanager
    async def meddler() -> AsyncIterator[Meddler]:
        clock = MachineClock()
        cluster = MemoryCluster(clock, source=Random(1))  # noqa: S311 - a seed
        await cluster.create(NAMESPACES, {"metadata": {"name": "a"}})
        for name in names:
            await cluster.create(PODS, pod_manifest(name, GATE), namespace="a")
        yield Meddler(cluster, clock)

    return in_virtual_time(on=meddler)


@with_pods("p")
async def test_only_our_gate_is_taken_and_only_from_those_that_have_it(meddler):
    await meddler.cluster.create(PODS, pod_manifest("two", FOREIGN, GATE), namespace="a")
    await meddler.cluster.create(PODS, pod_manifest("theirs", FOREIGN), namespace="a")

    done = await meddler.let_go(is_gating=False)

    assert sorted(done.released) == [Key("a", "p"), Key("a", "two")]
    assert done.failed == {}
    assert [await meddler.gates(name) for name in ("p", "two", "theirs")] == [
        [],
        [FOREIGN],
        [FOREIGN],
    ]


@pytest.mark.parametrize("index", [0, 5, OTHER_GATES_MAX, 29])
@with_pods()
async def test_more_gates_of_others_than_a_row_keeps_stay_as_they_are(meddler, index):
    others = [f"example.com/gate-{number}" for number in range(30)]
    gates = [*others[:index], GATE, *others[index:]]
    await meddler.cluster.create(PODS, pod_manifest("many", *gates), namespace="a")

    held = await meddler.let_go()
    done = await meddler.let_go(is_gating=False)

    assert "example.com/gate-9 and 20 more" in held.failed[Key("a", "many")].message
    assert done.released == [Key("a", "many")]
    assert await meddler.gates("many") == others


@with_pods("p")
async def test_while_pods_are_gated_one_with_other_gates_keeps_ours(meddler):
    """Else it would start when the others are removed, and no quota would have been charged."""
    await meddler.cluster.create(PODS, pod_manifest("two", FOREIGN, GATE), namespace="a")

    done = await meddler.let_go()

    assert done.released == [Key("a", "p")]
    assert FOREIGN in done.failed[Key("a", "two")].message
    assert await meddler.gates("two") == [FOREIGN, GATE]


@with_pods("p")
async def test_a_gate_that_another_sets_meanwhile_is_respected(meddler):
    async def add_gate(key: Key) -> None:
        if meddler.writes == 1:
            await meddler.cluster.delete(PODS, key, grace_seconds=0)
            await meddler.cluster.create(PODS, pod_manifest("p", FOREIGN, GATE), namespace="a")

    meddler.before_write = add_gate
    done = await meddler.let_go()

    assert done.released == []
    assert await meddler.gates("p") == [FOREIGN, GATE]


@with_pods(*(f"p{number}" for number in range(PAGE_SIZE + 1)))
async def test_no_pod_is_left_behind_on_a_later_page(meddler):
    assert len((await meddler.let_go()).released) == PAGE_SIZE + 1
    assert (await meddler.let_go()).released == []


@with_pods("p")
async def test_a_pod_that_changed_is_read_again(meddler):
    async def touch_once(key: Key) -> None:
        if meddler.writes == 1:
            await meddler.label(key, "once")

    meddler.before_write = touch_once

    assert (await meddler.let_go()).released == [Key("a", "p")]
    assert meddler.writes == 2
    assert await meddler.gates("p") == []


@with_pods("p")
async def test_a_pod_that_never_stays_the_same_is_given_up_and_named(meddler):
    async def touch(key: Key) -> None:
        await meddler.label(key, str(meddler.writes))

    meddler.before_write = touch
    done = await meddler.let_go()

    assert done.released == []
    assert isinstance(done.failed[Key("a", "p")], ConflictError)
    assert meddler.writes == ATTEMPTS_MAX


@with_pods("p")
async def test_a_pod_that_is_gone_or_was_let_go_by_another_is_no_failure(meddler):
    async def be_faster(key: Key) -> None:
        if meddler.writes == 1:
            await meddler.cluster.delete(PODS, key, grace_seconds=0)

    meddler.before_write = be_faster

    assert await meddler.let_go() == ForcedReleases()


@with_pods("p")
async def test_a_pod_recreated_under_the_same_name_is_another_one_and_goes_as_well(meddler):
    async def recreate(key: Key) -> None:
        if meddler.writes == 1:
            await meddler.cluster.delete(PODS, key, grace_seconds=0)
            await meddler.cluster.create(
                PODS, pod_manifest(key.name, GATE), namespace=key.namespace
            )

    meddler.before_write = recreate

    assert (await meddler.let_go()).released == [Key("a", "p")]


@with_pods("p", "q")
async def test_one_that_may_not_go_does_not_keep_the_others(meddler):
    async def refuse(key: Key) -> None:
        if key.name == "p":
            raise ForbiddenError("somebody says no", 403)

    meddler.before_write = refuse
    done = await meddler.let_go("a")

    assert done.released == [Key("a", "q")]
    assert [str(error) for error in done.failed.values()] == ["somebody says no"]


# ------------------------------------------------------------------ before an uninstallation


async def with_gating(meddler: Meddler) -> list[Resource]:
    """The objects that gate pods and those that protect gates; returns the latter's kinds."""
    for resource, key in (*GATING_OBJECTS, *LIMIT_OBJECTS, *PROTECTION_OBJECTS):
        meddler.cluster.objects.kinds.add(Kind(resource=resource))
        await meddler.cluster.create(resource, {"metadata": {"name": key.name}})
    return [resource for resource, _ in PROTECTION_OBJECTS]


@with_pods()
async def test_gating_stops_and_then_its_protection(meddler):
    await with_gating(meddler)

    assert await stop_gating(meddler) == [
        "MutatingAdmissionPolicyBinding gate-pods.bursar.io",
        "MutatingWebhookConfiguration gating-mutator",
        "ValidatingAdmissionPolicyBinding limit-waiting-pods.bursar.io",
        "ValidatingAdmissionPolicyBinding protect-gate.bursar.io",
        "ValidatingWebhookConfiguration aaq-validator",
    ]
    assert await stop_gating(meddler) == []


@with_pods()
async def test_protection_that_may_not_be_deleted_stays(meddler):
    meddler.forbidden.update(await with_gating(meddler))

    assert len(await stop_gating(meddler)) == len(GATING_OBJECTS)
    for resource, key in PROTECTION_OBJECTS:
        assert await meddler.cluster.get(resource, key)


@with_pods()
async def test_gating_that_may_not_be_stopped_is_an_error(meddler):
    await with_gating(meddler)
    meddler.forbidden.add(GATING_OBJECTS[0][0])

    with pytest.raises(ForbiddenError, match="cannot be deleted"):
        await stop_gating(meddler)


async def release_in_rounds(meddler: Meddler) -> ForcedReleases:
    clock, decode = meddler.clock, PodRowDecoder().decode
    return await release_all(meddler.cluster, meddler, clock, decode=decode)


@with_pods("p")
async def test_a_pod_that_is_gated_after_the_first_round_goes_as_well(meddler):
    """API servers learn with a delay that the policy is gone."""

    async def create_another(_: Key) -> None:
        if meddler.writes == 1:
            await meddler.cluster.create(PODS, pod_manifest("late", GATE), namespace="a")

    meddler.before_write = create_another
    done = await release_in_rounds(meddler)

    assert sorted(done.released) == [Key("a", "late"), Key("a", "p")]


@with_pods("p")
async def test_a_pod_that_is_protected_for_a_while_longer_is_tried_again(meddler):
    async def refuse_twice(_: Key) -> None:
        if meddler.writes <= 2:
            raise ForbiddenError("protected", 403)

    meddler.before_write = refuse_twice
    done = await release_in_rounds(meddler)

    assert (done.released, done.failed) == ([Key("a", "p")], {})


@with_pods("p")
async def test_a_pod_that_stays_protected_is_named_in_the_end(meddler):
    async def refuse(_: Key) -> None:
        raise ForbiddenError("protected", 403)

    meddler.before_write = refuse
    done = await release_in_rounds(meddler)

    assert list(done.failed) == [Key("a", "p")]
    assert meddler.writes == ROUNDS_MAX
