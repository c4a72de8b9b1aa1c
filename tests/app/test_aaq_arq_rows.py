"""AAQ's own tests of its quota controllers (U-ARQ, U-ACRQ), on an embedded cluster.

AAQ has three queues, of which one is for quotas whose status is incomplete. Ours writes the
first status of a quota at once, so the rows about queues are about that.
"""

import pytest

from bursar.app.cluster.kinds import NAMESPACES, RESOURCE_QUOTAS
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.quota import GATE
from support.builders.pods import listed
from support.quota.aaq_controller import TEAM

FOREIGN = "example.com/licence"
MANAGED = "q-non-schedulable-resources-managed-rq-x"
AMOUNTS = "cpu=5 memory=100Gi pods=5"


def selected(operator, *values):
    rule = {"scopeName": "PriorityClass", "operator": operator}
    if values:
        rule["values"] = list(values)
    return {"scopeSelector": {"matchExpressions": [rule]}}


# ------------------------------------------------------------------ what is counted


async def sized(scene, **spec):
    for name in ("a", "b"):
        await scene.pod(name, "cpu=100m memory=1Gi", phase="Running", **spec)


async def modest(scene):
    for name in ("a", "b"):
        await scene.pod(name, phase="Running")


async def classless(scene):
    await sized(scene)
    await scene.pod("ended", "cpu=100m memory=1Gi", phase="Failed")


async def classy(scene):
    await scene.pod("a", "cpu=500m memory=50Gi", phase="Running", priorityClassName="high")
    await scene.pod("b", "cpu=100m memory=1Gi", phase="Running", priorityClassName="low")


BEST_EFFORT = {"scopes": ["BestEffort"]}
NOTHING = "cpu=0 memory=0 pods=0"
BOTH = "cpu=600m memory=51Gi pods=2"
SMALL = "cpu=200m memory=2Gi pods=2"


@pytest.mark.parametrize(
    ("pods", "spec", "used"),
    [
        pytest.param(sized, BEST_EFFORT, "pods=0", id="U-ARQ-01"),
        pytest.param(modest, BEST_EFFORT, "pods=2", id="U-ARQ-02"),
        pytest.param(classless, selected("Exists"), NOTHING, id="U-ARQ-03"),
        pytest.param(classy, selected("Exists"), BOTH, id="U-ARQ-04"),
        pytest.param(classy, selected("In", "high", "low"), BOTH, id="U-ARQ-05"),
        pytest.param(classy, selected("In", "high"), "cpu=500m memory=50Gi pods=1", id="U-ARQ-06"),
        pytest.param(
            classy, selected("NotIn", "high"), "cpu=100m memory=1Gi pods=1", id="U-ARQ-07"
        ),
        pytest.param(classy, selected("In", "random"), NOTHING, id="U-ARQ-08"),
        pytest.param(classless, selected("NotIn", "random"), SMALL, id="U-ARQ-09"),
        pytest.param(classless, selected("DoesNotExist"), SMALL, id="U-ARQ-10"),
        pytest.param(classless, {}, SMALL, id="U-ARQ-11"),
    ],
)
async def test_pods_in_scope_that_have_not_ended_are_counted(scene, pods, spec, used):
    await pods(scene)
    await scene.quota("pods=5" if "scopes" in spec else AMOUNTS, **spec)

    async with scene.at_work():
        assert await scene.used() == listed(used)


# ------------------------------------------------------------------ what is written


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({"hard": {"cpu": "3"}, "used": {"cpu": "0"}}, id="U-ARQ-12"),
        pytest.param({"hard": {"cpu": "0"}}, id="U-ARQ-13"),
    ],
)
async def test_the_status_follows_the_limits(scene, before):
    await scene.quota("cpu=4", status=before)

    async with scene.at_work():
        assert await scene.status() == {"hard": {"cpu": "4"}, "used": {"cpu": "0"}}


async def count_services(scene, used):
    """As Kubernetes' own controller would."""
    status = {"status": {"hard": {"services": "5"}, "used": {"services": used}}}
    patch = Patch(kind=PatchKind.MERGE, body=status)
    await scene.cluster.patch(RESOURCE_QUOTAS, Key(TEAM, MANAGED), patch, subresource="status")
    await scene.moment()


async def test_u_arq_14_what_kubernetes_counts_is_passed_on(scene):
    await scene.quota("services=5")

    async with scene.at_work():
        await count_services(scene, "1")
        assert await scene.used() == {"services": "1"}


async def test_u_arq_15_what_kubernetes_has_not_counted_is_nothing(scene):
    await scene.quota("services=5")

    async with scene.at_work():
        assert "status" not in await scene.read(RESOURCE_QUOTAS, MANAGED)
        assert await scene.used() == {"services": "0"}


async def test_u_arq_16_what_is_in_order_is_not_written_again(scene):
    await scene.quota("services=5")
    async with scene.at_work():
        await count_services(scene, "1")
        before = await scene.version(APPLICATION_QUOTAS, "q")

        await count_services(scene, "1")
        assert await scene.used() == {"services": "1"}
        assert await scene.version(APPLICATION_QUOTAS, "q") == before


# ------------------------------------------------------------------ what AAQ needs its lock for


async def test_u_arq_17_a_pod_is_counted_once_its_gate_is_gone(scene):
    await scene.quota("pods=1")
    await scene.gated_pod("first")
    await scene.gated_pod("second")

    async with scene.at_work():
        assert (await scene.gates("first"), await scene.gates("second")) == ([], [GATE])
        assert await scene.used() == {"pods": "1"}


async def test_u_arq_18_a_pod_with_any_gate_is_not_counted(scene):
    await scene.quota("pods=2")
    await scene.pod("foreign", gates=(FOREIGN,))
    await scene.gated_pod("first")

    async with scene.at_work():
        assert await scene.gates("foreign") == [FOREIGN]
        assert await scene.used() == {"pods": "1"}


async def test_u_arq_19_quotas_go_with_their_namespace(scene):
    await scene.quota("pods=1 services=1")

    async with scene.at_work():
        await scene.cluster.delete(NAMESPACES, Key("", TEAM))
        await scene.moment()
        assert not await scene.exists(APPLICATION_QUOTAS, "q")
        assert not await scene.exists(RESOURCE_QUOTAS, MANAGED)


async def test_u_arq_20_in_a_namespace_that_ends_nothing_is_made(scene):
    ending = Patch(kind=PatchKind.MERGE, body={"status": {"phase": "Terminating"}})
    await scene.cluster.patch(NAMESPACES, Key("", TEAM), ending, subresource="status")
    await scene.quota("services=1")

    async with scene.at_work():
        assert not await scene.exists(RESOURCE_QUOTAS, MANAGED)


async def test_u_acrq_01_a_namespace_that_is_gone_is_no_part_of_a_cluster_wide_quota(scene):
    await scene.cluster_quota("pods=5")
    await scene.pod("p", phase="Running")
    await scene.pod("p", phase="Running", namespace="other")

    async with scene.at_work():
        await scene.cluster.delete(NAMESPACES, Key("", TEAM))
        await scene.moment()
        status = (await scene.read(CLUSTER_QUOTAS, "wide", ""))["status"]
        assert status["total"]["used"] == {"pods": "1"}
        parts = {each["namespace"]: each["status"]["used"] for each in status["namespaces"]}
        assert TEAM not in parts
        assert parts["other"] == {"pods": "1"}


# ------------------------------------------------------------------ who is written first


@pytest.mark.parametrize(
    ("hard", "before"),
    [
        pytest.param("cpu=4", {}, id="U-ARQ-21 no status"),
        pytest.param("cpu=4", {"hard": {"cpu": "4"}}, id="U-ARQ-22 no use"),
        pytest.param(
            "requests.example.com/dongle=4",
            {"hard": {"requests.example.com/dongle": "4"}},
            id="U-ARQ-23 no use of an extended resource",
        ),
        pytest.param(
            "cpu=4", {"hard": {"cpu": "6"}, "used": {"cpu": "0"}}, id="U-ARQ-24 other limits"
        ),
        pytest.param(
            "requests.cpu/vmi=4",
            {"hard": {"requests.cpu/vmi": "4"}},
            id="U-ARQ-25 no use of a custom name",
        ),
    ],
)
async def test_an_incomplete_status_is_completed_at_once(scene, hard, before):
    async with scene.at_work():
        await scene.quota(hard, status=before)
        await scene.moment(0.1)

        name = next(iter(listed(hard)))
        assert await scene.status() == {"hard": listed(hard), "used": {name: "0"}}


async def test_u_arq_26_a_complete_status_is_left_as_it_is(scene):
    await scene.quota("cpu=4")
    async with scene.at_work("one"):
        complete = await scene.version(APPLICATION_QUOTAS, "q")

    async with scene.at_work("two"):
        await scene.moment()
        assert await scene.version(APPLICATION_QUOTAS, "q") == complete
