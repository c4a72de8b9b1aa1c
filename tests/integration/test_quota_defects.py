"""What AAQ v1.8.0 gets wrong, and we do not, as far as it takes a real API server to show.

The numbers are those of docs/reference/aaq-defects.md; see tests/app/test_quota_defects.py as well.
"""

import contextlib
import itertools
import json
from collections.abc import Iterator

import pytest

from bursar.app.cluster.kinds import EVENTS, NAMESPACES, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import ClusterError, Key, NotFoundError, Patch, PatchKind, Query
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from certificates import Authority
from controlplane import LOOPBACK, ControlPlane
from program import free_port
from support.install.printed import printed
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import (
    Administrator,
    Controllers,
    Lane,
    administering,
    gated_pod,
    watched,
)
from support.until import until

MANAGED = "-non-schedulable-resources-managed-rq-x"
AAQ_LABEL = "aaq.kubevirt.io"


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture(scope="module")
def controllers(control_plane, tmp_path_factory) -> Iterator[Controllers]:
    with Controllers(control_plane, tmp_path_factory.mktemp("controller")) as running:
        yield running


async def managed_quota(people: Administrator, quota: Key, **wanted: object) -> dict:
    """The native quota beside one of AAQ's, once its spec says so."""
    key = Key(quota.namespace, quota.name + MANAGED)

    async def find() -> dict | None:
        with contextlib.suppress(NotFoundError):
            found = await people.read(RESOURCE_QUOTAS, key)
            if wanted.items() <= found["spec"].items():
                return found
        return None

    return await until(find, f"{key} becomes {wanted}")


# ------------------------------------------------------------------ managed quotas


@pytest.mark.usefixtures("controllers")
async def test_9_1_14_scopes_of_a_quota_with_delegated_names_can_be_changed(control_plane):
    """A ResourceQuota keeps its scopes for ever, and AAQ's controller fails to change them."""
    async with administering(control_plane) as people:
        quota = Key(await people.namespace("scopes"), "q")
        await people.quota(quota, {"count/pods": "5"}, scopes=["Terminating"])
        first = await managed_quota(people, quota, scopes=["Terminating"])
        await people.change(APPLICATION_QUOTAS, quota, {"spec": {"scopes": ["NotTerminating"]}})
        second = await managed_quota(people, quota, scopes=["NotTerminating"])

        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        await people.pods(quota.namespace, 2)
        await people.uses(quota, **{"count/pods": "2"})


@pytest.mark.usefixtures("controllers")
async def test_9_1_15_a_managed_quota_that_lost_its_label_gets_it_back(control_plane):
    """AAQ does not see it any more, tries to create it, and goes on trying."""
    async with administering(control_plane) as people:
        quota = Key(await people.namespace("label"), "q")
        await people.quota(quota, {"services": "5"})
        before = await managed_quota(people, quota)
        key = Key(quota.namespace, before["metadata"]["name"])
        await people.change(RESOURCE_QUOTAS, key, {"metadata": {"labels": {AAQ_LABEL: None}}})

        async def labelled() -> dict | None:
            found = await people.read(RESOURCE_QUOTAS, key)
            return found if AAQ_LABEL in found["metadata"].get("labels", {}) else None

        after = await until(labelled, "the label is back")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


# ------------------------------------------------------------------ leaving


@pytest.mark.usefixtures("controllers")
async def test_9_1_18_pods_are_let_go_with_their_quota_and_with_their_namespace(control_plane):
    """AAQ leaves them at the gate."""
    async with (
        administering(control_plane) as people,
        watched(people.client, quota=Lane(9), namespace=Lane(9)) as turnstile,
    ):
        by_quota, by_namespace = [await people.namespace(lane) for lane in turnstile.lanes]
        turnstile.assign("quota", by_quota)
        turnstile.assign("namespace", by_namespace)
        for namespace in (by_quota, by_namespace):
            await people.quota(Key(namespace, "q"), {"pods": "1"})
            await people.pods(namespace, 4)
        await until(lambda: turnstile.released == 2, "one of each goes")
        await people.client.delete(APPLICATION_QUOTAS, Key(by_quota, "q"))
        await until(lambda: len(turnstile.lanes["quota"].released) == 4, "the quota is gone")
        assert len(turnstile.lanes["namespace"].released) == 1

        left = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {GATING_LABEL: None}}})
        await people.client.patch(NAMESPACES, Key("", by_namespace), left)
        await until(lambda: turnstile.released == 8, "the namespace is not held back any more")


# ------------------------------------------------------------------ the gate


@contextlib.contextmanager
def dead_webhooks(plane: ControlPlane, authority: Authority) -> Iterator[None]:
    """Registered, and nobody answers."""
    url = f"https://{LOOPBACK}:{free_port()}"
    hooks = printed("webhooks", f"--url={url}", f"--ca-bundle={authority.certificate}")
    assert try_kubectl(plane, "apply", "-f", "-", stdin=hooks).code == 0
    try:
        yield
    finally:
        assert try_kubectl(plane, "delete", "-f", "-", stdin=hooks).code == 0


async def test_9_1_8_while_no_webhook_answers_no_pod_gets_past_the_gate(control_plane, tmp_path):
    """AAQ's operator takes the webhooks away, and pods are not held back."""
    async with administering(control_plane) as people:
        held = await people.namespace("held")
        free = await people.namespace("free")
        left = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": {GATING_LABEL: None}}})
        await people.client.patch(NAMESPACES, Key("", free), left)
        with dead_webhooks(control_plane, Authority(tmp_path)):
            refused = await eventually_refused(people, held)
            assert "gater.cqo.kubevirt.io" in refused.message
            # Others are not concerned, and neither is who asks for the gate himself.
            await create_ungated(people, free, "other")
            created = await people.pod(Key(held, "gated"))

            assert created["spec"]["schedulingGates"] == [{"name": GATE}]


async def create_ungated(people: Administrator, namespace: str, name: str) -> None:
    pod = gated_pod(name)
    del pod["spec"]["schedulingGates"]
    await people.client.create(PODS, pod, namespace=namespace)


async def eventually_refused(people: Administrator, namespace: str) -> ClusterError:
    """API servers learn of a new webhook after a moment."""
    numbers = itertools.count()

    async def refusal() -> ClusterError | None:
        try:
            await create_ungated(people, namespace, f"ungated-{next(numbers)}")
        except ClusterError as error:
            return error
        return None

    return await until(refusal, "a pod without the gate is refused")


# ------------------------------------------------------------------ names that nothing counts


@pytest.mark.usefixtures("controllers")
async def test_a_quota_whose_names_nothing_counts_says_so(control_plane):
    """AAQ accepts `limits.cpu/vmi` and always shows 0 in use, as if the limit were enforced."""
    async with administering(control_plane) as people:
        quota = Key(await people.namespace("vms"), "q")
        await people.quota(quota, {"limits.cpu/vmi": "5"})

        async def said() -> tuple[str, str] | None:
            status = (await people.read(APPLICATION_QUOTAS, quota)).get("status", {})
            ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
            page = await people.client.list(EVENTS, Query(namespace=quota.namespace))
            notes = [json.loads(body)["note"] for body in page.items]
            return (ready[0]["status"], *notes) if ready and notes else None

        assert await until(said, "the quota says that nothing counts its name") == (
            "False",
            (
                "limits.cpu/vmi: no counter charges this name; "
                "check its spelling, or charge it by a CountingPolicy (--counting-policies)"
            ),
        )
