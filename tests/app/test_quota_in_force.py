"""`Ready` is true only for what was seen to be in force; the rest is said, and held."""

import json

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.telemetry.controller.metrics import controller_metrics
from bursar.app.cluster.kinds import EVENTS, NAMESPACES, RESOURCE_QUOTAS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind, Query
from bursar.app.quota.kinds import APPLICATION_QUOTAS, APPLIED_CLUSTER_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.coverage import OWN_LIMITS_MAX, TOO_MANY_LIMITS
from bursar.core.quota.targeting import GATING_LABEL
from support.faults import line
from support.metrics.printed_metrics import NoLimiter, samples
from support.quota.aaq_controller import TEAM

MANAGED = "q-non-schedulable-resources-managed-rq-x"


def metrics(controller):
    return samples(controller_metrics(controller, NoLimiter()).decode())


async def ready(scene, name="q", resource=APPLICATION_QUOTAS, namespace=TEAM):
    status = (await scene.read(resource, name, namespace)).get("status", {})
    found = {each["type"]: each for each in status.get("conditions", ())}["Ready"]
    return found["status"], found["reason"], found["message"]


async def event_reasons(scene, name="q"):
    page = await scene.cluster.list(EVENTS, Query())
    events = [json.loads(body) for body in page.items]
    return {each["reason"]: each["note"] for each in events if each["regarding"]["name"] == name}


# ------------------------------------------------------------------ refused writes


async def test_a_refused_resource_quota_is_a_condition_an_event_and_a_metric(scene, caplog):
    await scene.quota("services=1 servicess=1 pods=3")

    async with scene.at_work() as controller:
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "WriteRefused")
        words = '"servicess": must be a standard resource type or fully qualified'
        assert words in message
        assert words in (await event_reasons(scene))["WriteRefused"]
        assert any(record.fields.get("error", "").count(words) for record in caplog.records)
        found = metrics(controller)
        assert found['bursar_refused_writes{object="ResourceQuota"}'] == "1"
        assert found['bursar_refused_writes_total{object="ResourceQuota"}'] == "1"
        assert found['bursar_quotas_not_ready{reason="WriteRefused"}'] == "1"

        await scene.limit(servicess=None)
        await scene.moment(60)
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "NotEnforced"), message
        assert "services" in message
        assert metrics(controller)['bursar_refused_writes{object="ResourceQuota"}'] == "0"


async def test_limits_are_in_force_when_kubernetes_has_said_that_it_enforces_them(scene):
    await scene.quota("services=1 pods=3")

    async with scene.at_work():
        assert (await ready(scene))[:2] == ("False", "NotEnforced")
        await say_counted(scene, hard={"services": "1"}, used={"services": "0"})
        assert await ready(scene) == ("True", "LimitsInForce", "the limits are in force")

        await scene.limit(services="5")
        await scene.moment()
        assert (await ready(scene))[:2] == ("False", "NotEnforced")


async def say_counted(scene, **status):
    """Write the status of the managed ResourceQuota, as Kubernetes' controller does."""
    patch = Patch(kind=PatchKind.MERGE, body={"status": status})
    await scene.cluster.patch(RESOURCE_QUOTAS, Key(TEAM, MANAGED), patch, subresource="status")
    await scene.moment()


async def test_a_limit_on_what_kubernetes_does_not_count_is_not_in_force(scene):
    """Kubernetes takes over every limit, and shows a usage only of names that it counts."""
    hard = {"count/service": "1", "example.com/gpu": "2", "services": "1"}
    await scene.quota("count/service=1 example.com/gpu=2 services=1")

    async with scene.at_work():
        await say_counted(scene, hard=hard, used={"services": "0"})
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "NotEnforced")
        assert message.endswith("does not count: count/service, example.com/gpu")

        await scene.limit(**{"count/service": None, "example.com/gpu": None})
        await say_counted(scene, hard={**dict.fromkeys(hard), "services": "1"})
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")


async def test_a_limit_on_objects_that_have_no_scopes_is_not_in_force(scene):
    """The API server accepts it in a ResourceQuota, and counts no ConfigMap under it."""
    await scene.quota("count/configmaps=1 pods=3", scopes=["BestEffort"])

    async with scene.at_work():
        counted = {"count/configmaps": "0"}
        await say_counted(scene, hard={"count/configmaps": "1"}, used=counted)
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "Invalid")
        assert "count/configmaps" in message


@pytest.mark.parametrize(
    ("hard", "spec", "words"),
    [
        ("request.cpu=1 cpus=1", {}, "must be a standard resource type or fully qualified"),
        ("pods=3", {"scopes": ["BestEffort", "NotBestEffort"]}, "conflicting scopes"),
        ("requests.cpu=1", {"scopes": ["BestEffort"]}, "unsupported scope applied to resource"),
        ("pods=-1", {}, "must be greater than or equal to 0"),
    ],
)
async def test_a_quota_that_can_never_be_in_force_is_not_ready(scene, hard, spec, words):
    await scene.quota(hard, **spec)

    async with scene.at_work() as controller:
        status, reason, message = await ready(scene)
        assert status == "False"
        assert reason in {"Invalid", "WriteRefused"}
        assert words in message
        assert any(words in note for note in (await event_reasons(scene)).values())
        assert metrics(controller)[f'bursar_quotas_not_ready{{reason="{reason}"}}'] == "1"


async def test_a_quota_beyond_the_bound_on_limits_of_a_namespace_is_not_ready(scene):
    """All pods that it covers wait, so its status must not go on saying that all is well."""
    await scene.quota("pods=3")

    async with scene.at_work() as controller:
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")
        more = {f"requests.example.com/r{each}": "1" for each in range(OWN_LIMITS_MAX)}
        await scene.limit(**more)
        await scene.moment(5)
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "Unreadable")
        assert TOO_MANY_LIMITS in message
        assert TOO_MANY_LIMITS in (await event_reasons(scene))["Unreadable"]
        assert metrics(controller)['bursar_quotas_not_ready{reason="Unreadable"}'] == "1"

        await scene.limit(**dict.fromkeys(more))
        await scene.moment(5)
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")


async def test_scopes_that_contradict_each_other_in_two_notations_are_not_in_force(scene):
    """The API server accepts this in a ResourceQuota. It covers no pod all the same."""
    expression = {"scopeName": "NotBestEffort", "operator": "Exists"}
    await scene.quota(
        "pods=3", scopes=["BestEffort"], scopeSelector={"matchExpressions": [expression]}
    )

    async with scene.at_work():
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "Invalid")
        assert "conflicting scopes" in message


async def test_a_cluster_quota_on_what_no_gate_can_enforce_is_not_ready(scene):
    await scene.cluster_quota("services=1 pods=5")

    async with scene.at_work():
        status, reason, message = await ready(scene, "wide", CLUSTER_QUOTAS, "")
        assert (status, reason) == ("False", "Invalid")
        assert "operator cannot handle non scheduable resources :[services]" in message


async def test_a_quota_of_a_namespace_that_is_not_gated_is_not_ready(scene):
    await scene.quota("pods=3")
    async with scene.at_work():
        assert (await ready(scene))[0] == "True"
        await label(scene, TEAM, **{GATING_LABEL: None})
        await scene.moment()
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "NotGated")
        assert TEAM in message

        await label(scene, TEAM, **{GATING_LABEL: ""})
        await scene.moment()
        assert (await ready(scene))[0] == "True"


async def test_a_cluster_quota_holds_pods_if_one_of_its_namespaces_is_gated(scene):
    await scene.cluster_quota("pods=3")
    async with scene.at_work():
        assert (await ready(scene, "wide", CLUSTER_QUOTAS, ""))[0] == "True"
        for name in (TEAM, "other"):
            await label(scene, name, **{GATING_LABEL: None})
        await scene.moment()
        status, reason, message = await ready(scene, "wide", CLUSTER_QUOTAS, "")
        assert (status, reason) == ("False", "NotGated")
        assert "more" in message


async def test_the_copy_in_a_namespace_that_is_not_gated_is_not_ready_and_names_no_other(scene):
    await scene.cluster_quota("pods=3")
    await label(scene, TEAM, **{GATING_LABEL: None})
    async with scene.at_work():
        await scene.moment(10)
        assert (await ready(scene, "wide", CLUSTER_QUOTAS, ""))[0] == "True"
        assert (await ready(scene, "wide", APPLIED_CLUSTER_QUOTAS, "other"))[0] == "True"
        status, reason, message = await ready(scene, "wide", APPLIED_CLUSTER_QUOTAS, TEAM)
        assert (status, reason) == ("False", "NotGated")
        assert message.endswith(f"in namespace {TEAM}")

        for name, value in ((TEAM, ""), ("other", None)):
            await label(scene, name, **{GATING_LABEL: value})
        await scene.moment(10)
        assert (await ready(scene, "wide", APPLIED_CLUSTER_QUOTAS, TEAM))[0] == "True"
        status, _, message = await ready(scene, "wide", APPLIED_CLUSTER_QUOTAS, "other")
        assert status == "False"
        assert TEAM not in message


class RefusingLine(line.Line):
    """An API server on which somebody's webhook refuses the writes of some kinds."""

    def __init__(self, cluster, *refused):
        super().__init__(cluster)
        self.refused = set(refused)
        self.words = 'admission webhook "strict.example.com" denied the request: no'

    async def pass_on(self, request):
        is_status = request.resource == APPLICATION_QUOTAS
        if request.resource in self.refused or (is_status and "status" in self.refused):
            raise ForbiddenError(self.words, code=403)
        return await request.send()


async def test_a_refused_copy_is_said_on_the_cluster_quota(scene):
    scene.writer = RefusingLine(scene.cluster, APPLIED_CLUSTER_QUOTAS)
    await scene.cluster_quota("pods=5")

    async with scene.at_work() as controller:
        status, reason, message = await ready(scene, "wide", CLUSTER_QUOTAS, "")
        assert (status, reason) == ("True", "WriteRefused")
        assert scene.writer.words in message
        assert "WriteRefused" in await event_reasons(scene, "wide")
        copies = 'bursar_refused_writes{object="ApplicationAwareAppliedClusterResourceQuota"}'
        assert int(metrics(controller)[copies]) >= 1

        scene.writer.refused.clear()
        await scene.moment(60)
        assert (await ready(scene, "wide", CLUSTER_QUOTAS, ""))[1] == "LimitsInForce"
        assert metrics(controller)[copies] == "0"


async def test_a_refused_status_is_an_event_and_a_metric(scene):
    scene.writer = RefusingLine(scene.cluster, APPLICATION_QUOTAS)
    await scene.quota("pods=5")

    async with scene.at_work() as controller:
        assert scene.writer.words in (await event_reasons(scene))["WriteRefused"]
        assert metrics(controller)['bursar_refused_writes{object="status"}'] == "1"
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment(60)
        assert metrics(controller)['bursar_refused_writes{object="status"}'] == "0"


async def test_the_words_of_a_refusal_are_bounded(scene):
    scene.writer = RefusingLine(scene.cluster, RESOURCE_QUOTAS)
    scene.writer.words = "no" * 50_000
    await scene.quota("services=1")

    async with scene.at_work():
        _, reason, message = await ready(scene)
        assert reason == "WriteRefused"
        assert len(message) < 5_000


# ------------------------------------------------------------------ quotas that cannot be read


def unreadable(**spec):
    kind = CLUSTER_QUOTAS
    metadata = {"name": "wide"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


async def label(scene, name, **labels):
    patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"labels": labels}})
    await scene.cluster.patch(NAMESPACES, Key("", name), patch)


async def test_an_unreadable_selector_holds_the_namespaces_that_it_may_select(scene, caplog):
    await label(scene, TEAM, team="a")
    expression = {"key": "team", "operator": "in", "values": ["a"]}
    selector = {"labels": {"matchExpressions": [expression]}}
    await load_manifests(
        scene.cluster, [unreadable(quota={"hard": {"pods": "1"}}, selector=selector)]
    )
    await scene.gated_pod("held")
    await scene.gated_pod("free", namespace="other")

    async with scene.at_work() as controller:
        assert await scene.released() == ["free"]
        status, reason, message = await ready(scene, "wide", CLUSTER_QUOTAS, "")
        assert (status, reason) == ("False", "Unreadable")
        assert '"in" is not a valid label selector operator' in message
        assert "Unreadable" in await event_reasons(scene, "wide")
        assert "QuotaUnreadable" in await event_reasons(scene, "held")
        found = metrics(controller)
        assert found["bursar_quotas_unreadable"] == "1"
        assert found['bursar_waiting_pods{reason="QuotaUnreadable"}'] == "1"
        assert "a quota is not in force" in caplog.messages

        right = {"labels": {"matchExpressions": [{**expression, "operator": "In"}]}}
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"selector": right}})
        await scene.cluster.patch(CLUSTER_QUOTAS, Key("", "wide"), patch)
        await scene.moment()
        assert await scene.released() == ["free", "held"]
        assert (await ready(scene, "wide", CLUSTER_QUOTAS, ""))[0] == "True"


async def test_a_selector_that_becomes_unreadable_holds_what_it_covered_last(scene):
    """The selector is changed to one of which nothing can be read but a label."""
    await label(scene, TEAM, team="a")
    right = {"labels": {"matchLabels": {"team": "a"}}}
    wrong = {"labels": {"matchLabels": {"team": "b", "no": "?"}}}
    await load_manifests(scene.cluster, [unreadable(quota={"hard": {"pods": "5"}}, selector=right)])

    async with scene.at_work():
        patch = Patch(kind=PatchKind.MERGE, body={"spec": {"selector": wrong}})
        await scene.cluster.patch(CLUSTER_QUOTAS, Key("", "wide"), patch)
        await scene.moment()
        await scene.gated_pod("held")
        await scene.gated_pod("free", namespace="other")
        await scene.moment(120)
        assert await scene.released() == ["free"]

    async with scene.at_work("two"):
        await scene.moment(60)
        assert await scene.released() == ["free"], "the status tells a new leader"


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"pods": "1e1.5"}},
        {
            "hard": {"pods": "5"},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "in", "values": ["high"]}
                ]
            },
        },
        {"hard": {"pods": "5"}, "scopes": ["Besteffort"]},
    ],
)
async def test_an_unreadable_quota_holds_the_pods_of_its_namespace(scene, spec):
    kind = APPLICATION_QUOTAS
    metadata = {"name": "q", "namespace": TEAM}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    await load_manifests(scene.cluster, [body])
    await scene.gated_pod("held")
    await scene.gated_pod("free", namespace="other")

    async with scene.at_work():
        assert await scene.released() == ["free"]
        assert (await ready(scene))[:2] == ("False", "Unreadable")

        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment(60)
        assert await scene.released() == ["free", "held"]


async def test_a_quota_that_becomes_unreadable_keeps_its_resource_quota(scene):
    await scene.quota("services=1")
    async with scene.at_work():
        await scene.limit(services="1e1.5")
        await scene.moment(60)
        kept = await scene.read(RESOURCE_QUOTAS, MANAGED)
        assert kept["spec"]["hard"] == {"services": "1"}
