"""The operator keeps an installation as the AAQ object says, and reports what it is."""

import pytest

from bursar.adapters.memory.kinds import Kind
from bursar.app.cluster.kinds import (
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from bursar.app.cluster.ports import Key
from bursar.app.operator.applied import Write
from bursar.app.operator.kinds import DELETED, RECENT
from bursar.app.operator.rendering import GATE_ANNOTATION
from bursar.app.operator.term import FINALIZER, INTERVAL_SECONDS
from bursar.app.quota.kinds import AAQS
from support.operator.scene import AAQ, HOME, OperatorScene, on_scene

CONTROLLER = Key(HOME, "aaq-controller")
SERVER = Key(HOME, "aaq-server")
GATER = Key("", "gating-mutator")
HEALTHY = {"Available": "True", "Progressing": "False", "Degraded": "False"}


async def states(scene: OperatorScene, name="aaq"):
    found = await scene.conditions(name)
    return {each: found[each][0] for each in HEALTHY}


# ------------------------------------------------------------------ the first deployment


@on_scene
async def test_e_op_01_conditions_are_healthy_when_everything_is_ready(scene):
    await scene.create_aaq()
    scene.start()
    await scene.pass_time()

    status = await scene.status()
    assert status["phase"] == "Deploying"
    assert await states(scene) == {"Available": "False", "Progressing": "True", "Degraded": "False"}
    assert (status["operatorVersion"], status["targetVersion"]) == ("1.0.0", "1.0.0")
    assert status["observedVersion"] == ""

    await scene.deploy()

    status = await scene.status()
    assert (status["phase"], status["observedVersion"]) == ("Deployed", "1.0.0")
    assert await states(scene) == HEALTHY
    assert (await scene.find(AAQS, AAQ))["metadata"]["finalizers"] == [FINALIZER]
    assert {"DeployStarted", "DeployCompleted", "CreateResourceSuccess"} <= await scene.events()


@on_scene
async def test_webhooks_are_configured_only_when_one_answers(scene):
    await scene.create_aaq()
    scene.start()
    await scene.pass_time()
    assert await scene.find(MUTATING_WEBHOOKS, GATER) is None

    await scene.make_ready("aaq-controller")
    await scene.pass_time()
    assert await scene.find(MUTATING_WEBHOOKS, GATER) is None

    await scene.make_ready("aaq-server", replicas=1)
    await scene.pass_time()
    assert await scene.find(MUTATING_WEBHOOKS, GATER) is not None
    # Until the API server trusts the webhook, it refuses pods. That is not available yet.
    assert (await scene.status())["phase"] == "Deploying"


@on_scene
async def test_nothing_is_written_once_everything_is_as_it_should_be(scene):
    operator = await scene.deployed()
    await scene.pass_time(3 * INTERVAL_SECONDS)
    writes, revision = dict(operator.term.applied.writes), await scene.find(AAQS, AAQ)

    await scene.pass_time(3 * INTERVAL_SECONDS)

    assert dict(operator.term.applied.writes) == writes
    assert await scene.find(AAQS, AAQ) == revision
    assert operator.term.passes > 3


# ------------------------------------------------------------------ drift


async def spoil_replicas(scene):
    await scene.merge(DEPLOYMENTS, CONTROLLER, {"spec": {"replicas": 10}})


async def spoil_selector(scene):
    await scene.merge(SERVICES, SERVER, {"spec": {"selector": {"aaq.kubevirt.io": ""}}})


async def spoil_label(scene):
    labels = {"labels": {"aaq.kubevirt.io": "somebadvalue"}}
    await scene.merge(SERVICE_ACCOUNTS, CONTROLLER, {"metadata": labels})


async def spoil_owner(scene):
    labels = {"labels": {"app.kubernetes.io/managed-by": "somebody"}}
    await scene.merge(CLUSTER_ROLES, Key("", "aaq-controller"), {"metadata": labels})


async def spoil_subjects(scene):
    stored = await scene.find(ROLE_BINDINGS, CONTROLLER)
    stranger = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
    await scene.merge(ROLE_BINDINGS, CONTROLLER, {"subjects": [*stored["subjects"], stranger]})


async def spoil_rules(scene):
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await scene.merge(CLUSTER_ROLES, Key("", "aaq-controller"), {"rules": [every]})


async def spoil_policy(scene):
    stored = await scene.find(MUTATING_WEBHOOKS, GATER)
    stored["webhooks"][0]["failurePolicy"] = "Ignore"
    await scene.merge(MUTATING_WEBHOOKS, GATER, {"webhooks": stored["webhooks"]})


SPOILS = {
    "replicas": (spoil_replicas, DEPLOYMENTS, CONTROLLER),
    "selector": (spoil_selector, SERVICES, SERVER),
    "label": (spoil_label, SERVICE_ACCOUNTS, CONTROLLER),
    "owner": (spoil_owner, CLUSTER_ROLES, Key("", "aaq-controller")),
    "subjects": (spoil_subjects, ROLE_BINDINGS, CONTROLLER),
    "rules": (spoil_rules, CLUSTER_ROLES, Key("", "aaq-controller")),
    "webhook": (spoil_policy, MUTATING_WEBHOOKS, GATER),
}


def content(stored):
    """What the object says, without counters of its writes."""
    metadata = {
        key: value
        for key, value in stored["metadata"].items()
        if key not in {"resourceVersion", "generation", "managedFields"}
    }
    return {**stored, "metadata": metadata}


@pytest.mark.parametrize("name", SPOILS)
@on_scene
async def test_an_object_that_somebody_changed_is_repaired(scene, name):
    spoil, resource, key = SPOILS[name]
    operator = await scene.deployed()
    before = content(await scene.find(resource, key))
    writes = operator.term.applied.writes.total()

    await spoil(scene)
    await scene.pass_time()

    after = content(await scene.find(resource, key))
    # The embedded cluster has no schema of these: it merges the map and replaces the list, where
    # Kubernetes does the opposite.
    for each in (after, before):
        each["spec"].pop("selector") if name == "selector" else None
        for hook in each.get("webhooks", []):
            hook["clientConfig"].pop("caBundle", None)
    assert after == before
    assert operator.term.applied.writes.total() > writes
    if name != "owner":
        # Without its label, the object was as good as gone.
        assert operator.term.applied.writes[Write.REPAIRED] >= 1
        assert "UpdateResourceSuccess" in await scene.events()


@on_scene
async def test_every_object_that_somebody_deletes_comes_back(scene):
    await scene.deployed()
    every = await scene.owned()
    kinds = {each.kind: each for each in (*DELETED, CRDS)}

    for kind, name in sorted(every - {("Namespace", HOME)}):
        resource = kinds[kind]
        await scene.cluster.delete(resource, Key(HOME if resource.is_namespaced else "", name))
    await scene.deploy()
    await scene.deploy()

    assert await scene.owned() == every
    assert await states(scene) == HEALTHY


@on_scene
async def test_labels_of_users_and_fields_of_others_stay(scene):
    await scene.deployed()
    labels = {"labels": {"team": "platform"}}
    notes = {"annotations": {"bursar.io/gating": "active"}}
    await scene.merge(SERVICE_ACCOUNTS, CONTROLLER, {"metadata": {**labels, **notes}})
    await scene.merge(
        SERVICE_ACCOUNTS, CONTROLLER, {"metadata": {"labels": {"aaq.kubevirt.io": "x"}}}
    )
    await scene.pass_time(2 * INTERVAL_SECONDS)

    metadata = (await scene.find(SERVICE_ACCOUNTS, CONTROLLER))["metadata"]
    assert metadata["labels"]["team"] == "platform"
    assert metadata["labels"]["aaq.kubevirt.io"] == ""
    assert metadata["annotations"] == notes["annotations"]
    hooks = (await scene.find(MUTATING_WEBHOOKS, GATER))["webhooks"]
    assert [each["clientConfig"]["caBundle"] for each in hooks] == ["QQ=="]


# ------------------------------------------------------------------ edits of the AAQ object


@on_scene
async def test_edits_reach_the_objects(scene):
    await scene.deployed()

    await scene.change_aaq(namespaceSelector={"matchLabels": {"a": "b"}}, imagePullPolicy="Never")
    await scene.pass_time()

    hooks = (await scene.find(MUTATING_WEBHOOKS, GATER))["webhooks"]
    assert hooks[0]["namespaceSelector"] == {"matchLabels": {"a": "b"}}
    pod = (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["template"]["spec"]
    assert pod["containers"][0]["imagePullPolicy"] == "Never"
    assert "--namespace-selector=a=b" in pod["containers"][0]["args"]


@on_scene
async def test_a_priority_class_that_appears_is_used(scene):
    await scene.deployed()

    await scene.create_class("kubevirt-cluster-critical")
    await scene.pass_time()
    pod = (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "kubevirt-cluster-critical"

    await scene.cluster.delete(PRIORITY_CLASSES, Key("", "kubevirt-cluster-critical"))
    await scene.pass_time()
    pod = (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"


@on_scene
async def test_a_change_from_webhooks_to_policies_removes_the_webhook(scene):
    await scene.deployed()

    await scene.merge(AAQS, AAQ, {"metadata": {"annotations": {GATE_ANNOTATION: "policies"}}})
    await scene.pass_time()

    owned = await scene.owned()
    assert ("MutatingAdmissionPolicyBinding", "gate-pods.bursar.io") in owned
    assert ("MutatingWebhookConfiguration", "gating-mutator") not in owned
    assert ("Deployment", "aaq-server") not in owned
    assert ("Deployment", "aaq-controller") in owned


@on_scene
async def test_definitions_of_cluster_quotas_stay_when_they_are_switched_off(scene):
    await scene.deployed(configuration={"allowApplicationAwareClusterResourceQuota": True})
    name = ("CustomResourceDefinition", "applicationawareclusterresourcequotas.aaq.kubevirt.io")
    assert name in await scene.owned()

    await scene.change_aaq(configuration={"allowApplicationAwareClusterResourceQuota": False})
    await scene.pass_time()

    args = (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["template"]["spec"]["containers"][0]
    assert "--without-cluster-quota" in args["args"]
    assert name in await scene.owned()


@on_scene
async def test_a_spec_that_cannot_be_used_changes_nothing_and_is_reported(scene):
    await scene.deployed()
    before = await scene.find(DEPLOYMENTS, CONTROLLER)

    await scene.change_aaq(certConfig={"ca": {"duration": "soon"}})
    await scene.pass_time()

    assert (await scene.status())["phase"] == "Error"
    assert "spec.certConfig.ca.duration" in await scene.message("Degraded")
    assert await scene.find(DEPLOYMENTS, CONTROLLER) == before

    await scene.change_aaq(certConfig=None)
    await scene.pass_time()
    assert (await scene.status())["phase"] == "Deployed"


@on_scene
async def test_fields_without_effect_are_named_in_a_condition(scene):
    await scene.deployed(workload={"nodeSelector": {"a": "b"}})

    assert (await scene.conditions())["FieldsIgnored"] == ("True", "FieldsIgnored")
    assert "spec.workload" in await scene.message("FieldsIgnored")
    assert await states(scene) == HEALTHY


# ------------------------------------------------------------------ health


@on_scene
async def test_a_deployment_that_is_not_ready_is_named_with_what_happens_to_pods(scene):
    operator = await scene.deployed()

    await scene.make_ready("aaq-server", replicas=1)
    await scene.pass_time()
    assert await states(scene) == {**HEALTHY, "Degraded": "True"}
    assert await scene.message("Degraded") == "aaq-server: 1 of 2 replicas are ready"
    assert "Degraded" in await scene.events()

    await scene.make_ready("aaq-server", replicas=0)
    await scene.pass_time()
    assert await states(scene) == {**HEALTHY, "Available": "False", "Degraded": "True"}
    assert "are refused meanwhile" in await scene.message("Degraded")
    # Gating stays on: what is down must not open the cluster.
    assert await scene.find(MUTATING_WEBHOOKS, GATER) is not None
    assert [each.ready for each in operator.term.view.workloads] == [2, 0]

    await scene.make_ready("aaq-server")
    await scene.pass_time()
    assert await states(scene) == HEALTHY


# ------------------------------------------------------------------ one object


@on_scene
async def test_a_second_object_installs_nothing_and_says_which_is_in_force(scene):
    await scene.deployed()

    await scene.create_aaq("second", infra={"nodeSelector": {"a": "b"}})
    await scene.pass_time()

    assert (await scene.status("second"))["phase"] == "Error"
    assert "another AAQ object is in force: aaq" in await scene.message("Degraded", "second")
    assert (await scene.status())["phase"] == "Deployed"
    pod = (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["template"]["spec"]
    assert "nodeSelector" not in pod

    await scene.cluster.delete(AAQS, Key("", "second"))
    await scene.pass_time()
    assert await scene.find(AAQS, Key("", "second")) is None
    assert ("Deployment", "aaq-controller") in await scene.owned()


# ------------------------------------------------------------------ versions


@on_scene
async def test_an_upgrade_and_a_rollback_by_one_version(scene):
    await scene.deployed()
    await scene.stop()

    for version in ("1.1.0", "1.0.0"):
        scene.start(version)
        await scene.make_ready("aaq-server", replicas=1)
        await scene.pass_time(30)
        status = await scene.status()
        assert (status["phase"], status["targetVersion"]) == ("Upgrading", version)
        assert status["observedVersion"] != version

        await scene.make_ready()
        await scene.pass_time()
        status = await scene.status()
        assert (status["phase"], status["observedVersion"]) == ("Deployed", version)
        await scene.stop()
    assert "UpgradeStarted" in await scene.events()


@on_scene
async def test_a_rollback_by_two_versions_is_refused_and_changes_nothing(scene):
    await scene.create_aaq()
    scene.start("1.2.0")
    await scene.deploy()
    await scene.stop()
    before = await scene.find(DEPLOYMENTS, CONTROLLER)

    scene.start("1.0.0")
    await scene.pass_time(30)
    await scene.change_aaq(imagePullPolicy="Always")
    await scene.pass_time()

    assert (await scene.status())["phase"] == "Error"
    assert "1.0.0 does not take over from 1.2.0" in await scene.message("Degraded")
    assert await scene.find(DEPLOYMENTS, CONTROLLER) == before


# ------------------------------------------------------------------ older API servers


def serve_mutating_policies(scene, *, has_them):
    kinds = scene.cluster.objects.kinds
    for resource in RECENT:
        (kinds.add if has_them else kinds.remove)(Kind(resource=resource))


@on_scene
async def test_policies_are_refused_as_long_as_the_api_server_has_none_that_gate(scene):
    serve_mutating_policies(scene, has_them=False)
    await scene.create_aaq(annotations={GATE_ANNOTATION: "policies"})
    scene.start()
    await scene.pass_time()

    assert (await scene.status())["phase"] == "Error"
    assert await scene.message("Degraded") == (
        "metadata.annotations[bursar.io/gate]: the API server has no MutatingAdmissionPolicy v1, "
        "which Kubernetes has from 1.36 on, so policies cannot gate pods; choose webhooks; "
        "nothing was changed"
    )
    assert await scene.find(DEPLOYMENTS, CONTROLLER) is None

    # The cluster is upgraded.
    serve_mutating_policies(scene, has_them=True)
    await scene.pass_time(2 * INTERVAL_SECONDS)
    await scene.make_ready("aaq-controller")
    await scene.pass_time()
    assert (await scene.status())["phase"] == "Deployed"
    assert ("MutatingAdmissionPolicy", "gate-pods.bursar.io") in await scene.owned()


@on_scene
async def test_webhooks_are_installed_and_removed_without_kinds_that_an_older_server_lacks(scene):
    serve_mutating_policies(scene, has_them=False)
    await scene.deployed()
    assert await states(scene) == HEALTHY

    await scene.cluster.delete(AAQS, AAQ)
    await scene.pass_time(30)

    assert await scene.find(AAQS, AAQ) is None
    assert await scene.find(MUTATING_WEBHOOKS, GATER) is None


# ------------------------------------------------------------------ two operators


@on_scene
async def test_only_the_leader_works_and_another_takes_over(scene):
    first = await scene.deployed()
    second = scene.start(identity="two")
    await scene.pass_time(30)

    assert (first.term is not None, second.term is not None) == (True, False)
    assert (first.readiness_problem, second.readiness_problem) == ("", "")

    scene._tasks[0].cancel()
    await scene.pass_time(60)
    await spoil_replicas(scene)
    await scene.pass_time()

    assert second.term is not None
    assert (await scene.find(DEPLOYMENTS, CONTROLLER))["spec"]["replicas"] == 2
