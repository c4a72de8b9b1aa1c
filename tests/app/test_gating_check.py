"""Policies and webhooks that gate other namespaces than the controller targets."""

import json

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.app.cluster.kinds import EVENTS, NAMESPACES
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind, Query
from bursar.app.controller.gating_check import CHECK_SECONDS
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.install.admission import GatingSettings, policy_documents, webhook_documents
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.quota.targeting import GATING_LABEL
from support.faults import line
from support.quota.aaq_controller import TEAM, AaqScene

MISMATCH = (
    "policies or webhooks gate other namespaces than this controller targets; "
    "where they disagree, no pod is released"
)
BY_TEAM = LabelSelector(match_labels={"team": "a"})
BY_DEFAULT = LabelSelector(
    match_expressions=(LabelExpression(key=GATING_LABEL, operator="Exists"),)
)


def definition(resource):
    """The embedded cluster has no admission, so its kinds are custom kinds to it."""
    names = {"plural": resource.plural, "kind": resource.kind}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}
    spec = {"group": resource.group, "names": names, "scope": "Cluster", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": spec,
    }


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    await load_manifests(scene.cluster, [definition(resource) for resource, _ in CONFIGURATIONS])
    body = {"metadata": {"name": "a", "labels": {"team": "a", "kubernetes.io/metadata.name": "a"}}}
    await scene.cluster.create(NAMESPACES, body)
    return scene


def installed(make, selector):
    wanted = {(resource.kind, name) for resource, name in CONFIGURATIONS}
    documents = make(GatingSettings(namespace="aaq", namespace_selector=selector))
    return [each for each in documents if (each["kind"], each["metadata"]["name"]) in wanted]


async def mismatch_events(scene):
    page = await scene.cluster.list(EVENTS, Query())
    events = [json.loads(body) for body in page.items]
    return {
        each["regarding"]["name"]: each["note"]
        for each in events
        if each["reason"] == "GatingMismatch" and each["regarding"]["kind"] != "Pod"
    }


@pytest.mark.parametrize("make", [policy_documents, webhook_documents])
async def test_where_the_controller_targets_other_namespaces_nothing_is_released(
    scene, caplog, make
):
    await load_manifests(scene.cluster, installed(make, BY_TEAM))
    await scene.gated_pod("huge", "cpu=1000", namespace="a")
    await scene.gated_pod("agreed")

    async with scene.at_work() as controller:
        await scene.moment(300)
        assert await scene.released() == ["agreed"]
        assert MISMATCH in caplog.messages
        events = await mismatch_events(scene)
        assert events
        for note in events.values():
            assert "team=a'" in note
            assert GATING_LABEL in note
        assert all(controller.term.gating.mismatches().values())
        notes = await scene.notes()
        assert "this controller does not target it" in notes["huge"]


@pytest.mark.parametrize("make", [policy_documents, webhook_documents])
async def test_where_pods_get_no_gate_a_quota_is_not_ready(scene, make):
    """The controller targets the namespace, and what is installed does not select it."""
    await scene.quota("pods=3")
    async with scene.at_work():
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")

        documents = installed(make, BY_TEAM)
        await load_manifests(scene.cluster, documents)
        await scene.moment(2 * CHECK_SECONDS)
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "NotGated")
        assert message.endswith("does not select it")
        assert TEAM in message

        await change_labels(scene, TEAM, team="a")
        await scene.moment(2 * CHECK_SECONDS)
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")


async def ready(scene):
    status = (await scene.read(APPLICATION_QUOTAS, "q", TEAM))["status"]
    found = next(each for each in status["conditions"] if each["type"] == "Ready")
    return found["status"], found["reason"], found["message"]


async def change_labels(scene, name, **labels):
    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": labels}})
    await scene.cluster.patch(NAMESPACES, Key("", name), patch)


@pytest.mark.parametrize("make", [policy_documents, webhook_documents])
@pytest.mark.parametrize("selector", [None, BY_DEFAULT])
async def test_a_namespace_that_nobody_gates_any_more_is_released(scene, caplog, make, selector):
    await load_manifests(scene.cluster, installed(make, selector))
    await scene.gated_pod("left", namespace="a")

    async with scene.at_work() as controller:
        await scene.moment()
        assert await scene.released() == ["left"]
        assert MISMATCH not in caplog.messages
        found = controller.term.gating.mismatches()
        assert found
        assert not any(found.values())


async def test_pods_are_released_when_the_selectors_agree_again(scene):
    documents = installed(policy_documents, BY_TEAM)
    await load_manifests(scene.cluster, documents)
    await scene.gated_pod("left", namespace="a")
    async with scene.at_work() as controller:
        await scene.moment(60)
        assert await scene.released() == []

        agreeing = {
            (each["kind"], each["metadata"]["name"]): without_labels(each["spec"])
            for each in installed(policy_documents, None)
        }
        for resource, name in CONFIGURATIONS[:2]:
            patch = Patch(kind=PatchKind.MERGE, body={"spec": agreeing[resource.kind, name]})
            await scene.cluster.patch(resource, Key("", name), patch)
        await scene.moment(CHECK_SECONDS + 1)
        assert await scene.released() == ["left"]
        assert not any(controller.term.gating.mismatches().values())


def without_labels(spec):
    """A merge patch that also removes the labels of another selector."""
    selector = spec["matchResources"]["namespaceSelector"]
    return {**spec, "matchResources": {"namespaceSelector": {"matchLabels": None, **selector}}}


async def test_a_selector_that_cannot_be_read_counts_as_selecting_everything(scene, caplog):
    documents = installed(policy_documents, None)
    for each in documents:
        expression = {"key": "team", "operator": "in", "values": ["a"]}
        each["spec"]["matchResources"]["namespaceSelector"] = {"matchExpressions": [expression]}
    await load_manifests(scene.cluster, documents)
    await scene.gated_pod("held", namespace="a")

    async with scene.at_work():
        await scene.moment(60)
        assert await scene.released() == []
        assert MISMATCH in caplog.messages


class Unreadable(line.Line):
    """An API server that lets us read none of the configurations, until it does."""

    is_forbidden = True

    async def get(self, resource, key):
        if self.is_forbidden and resource.group == "admissionregistration.k8s.io":
            raise ForbiddenError("no", code=403)
        return await super().get(resource, key)


async def test_nothing_is_released_before_it_is_known_what_is_gated(scene, caplog):
    scene.writer = Unreadable(scene.cluster)
    await scene.gated_pod("left", namespace="a")
    await scene.gated_pod("targeted")

    async with scene.at_work():
        await scene.moment(60)
        assert await scene.released() == ["targeted"]
        assert "cannot read which namespaces are gated" in caplog.messages

        scene.writer.is_forbidden = False
        await scene.moment(10)
        assert await scene.released() == ["left", "targeted"]


async def test_pods_of_kube_system_are_never_held(scene):
    documents = installed(policy_documents, LabelSelector())
    for each in documents:
        each["spec"]["matchResources"]["namespaceSelector"] = {}
    await load_manifests(scene.cluster, documents)
    await scene.gated_pod("system", namespace="kube-system")

    async with scene.at_work():
        await scene.moment()
        assert await scene.released() == ["system"]
