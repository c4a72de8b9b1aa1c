"""What the manifests for gating say, before any API server has read them."""

import base64
import json

import pytest

from bursar.app.install.access import access_documents, capacity_documents
from bursar.app.install.admission import (
    GatingSettings,
    policy_documents,
    scope_policy_documents,
    webhook_documents,
)
from bursar.app.install.documents import Endpoint
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector, selector_of
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL

DEFAULT = GatingSettings()
TEAMS = LabelSelector(
    match_labels={"tier": "batch"},
    match_expressions=(LabelExpression(key="team", operator="In", values=("a", "b")),),
)
NAME = "kubernetes.io/metadata.name"


def named(documents, kind):
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


def webhooks(settings=DEFAULT, endpoint=None):
    return {
        webhook["name"]: webhook
        for document in webhook_documents(settings, endpoint)
        for webhook in document["webhooks"]
    }


def conditions(holder):
    return [condition["name"] for condition in holder.get("matchConditions", [])]


@pytest.mark.parametrize(
    ("settings", "labels", "is_gated"),
    [
        (DEFAULT, {GATING_LABEL: "", NAME: "shop"}, True),
        (DEFAULT, {GATING_LABEL: "false", NAME: "shop"}, True),
        (DEFAULT, {NAME: "shop"}, False),
        (DEFAULT, {GATING_LABEL: "", NAME: "kube-system"}, False),
        (DEFAULT, {GATING_LABEL: "", NAME: "aaq"}, False),
        (GatingSettings(namespace="quotas"), {GATING_LABEL: "", NAME: "quotas"}, False),
        (GatingSettings(namespace="quotas"), {GATING_LABEL: "", NAME: "aaq"}, True),
        (GatingSettings(namespace_selector=LabelSelector()), {NAME: "shop"}, True),
        (GatingSettings(namespace_selector=LabelSelector()), {NAME: "kube-system"}, False),
        (GatingSettings(namespace_selector=TEAMS), {"tier": "batch", "team": "a"}, True),
        (GatingSettings(namespace_selector=TEAMS), {"team": "a", GATING_LABEL: ""}, False),
    ],
)
def test_namespaces_are_gated_by_label_except_our_own_and_the_systems(settings, labels, is_gated):
    assert selector_of(settings.gated_namespaces).matches(labels) is is_gated


@pytest.mark.parametrize(
    "settings",
    [
        {"namespace": "a'b"},
        {"namespace": ""},
        {"namespace": "A"},
        {
            "namespace_selector": LabelSelector(
                match_expressions=(LabelExpression(key="a b", operator="Exists"),)
            )
        },
    ],
)
def test_settings_that_the_api_would_refuse_are_refused_at_once(settings):
    with pytest.raises(ValueError, match=r"namespace|key"):
        GatingSettings(**settings)


def test_everything_about_pods_is_bound_to_the_gated_namespaces():
    settings = GatingSettings(namespace_selector=TEAMS)
    team = {"key": "team", "operator": "In", "values": ["a", "b"]}
    never = {"key": NAME, "operator": "NotIn", "values": ["aaq", "kube-system"]}
    chosen = {"matchLabels": {"tier": "batch"}, "matchExpressions": [team]}
    about_pods = [
        document["spec"]["matchResources"]["namespaceSelector"]
        for document in policy_documents(settings)
        if document["kind"].endswith("Binding") and "matchResources" in document["spec"]
    ]
    hooks = [
        webhook
        for webhook in webhooks(settings).values()
        if webhook["rules"][0]["resources"][0].startswith("pods")
    ]

    assert about_pods == [{**chosen, "matchExpressions": [team, never]}] * 7
    assert [webhook["namespaceSelector"] for webhook in hooks] == [chosen] * 3
    spared = "!(request.namespace in ['aaq', 'kube-system'])"
    assert [webhook["matchConditions"][0]["expression"] for webhook in hooks] == [spared] * 3


def test_each_policy_is_followed_by_its_binding_and_gates_come_last():
    documents = policy_documents(DEFAULT)
    policies, bindings = documents[::2], documents[1::2]

    assert [d["metadata"]["name"] for d in policies] == [
        "valid-quotas.bursar.io",
        "valid-cluster-quotas.bursar.io",
        "protect-gate.bursar.io",
        "refuse-bound-pods.bursar.io",
        "single-aaq.bursar.io",
        "limit-waiting-pods.bursar.io",
        "refuse-growth.bursar.io",
        "keep-scope.bursar.io",
        "keep-cluster-scope.bursar.io",
        "gate-pods.bursar.io",
    ]
    for policy, binding in zip(policies, bindings, strict=True):
        assert binding["kind"] == f"{policy['kind']}Binding"
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_policies_refuse_what_they_cannot_judge_except_the_one_about_aaq_objects():
    policies = policy_documents(DEFAULT)[::2]

    ignoring = [d["metadata"]["name"] for d in policies if d["spec"]["failurePolicy"] == "Ignore"]
    # An API server that does not know the parameters yet would refuse the first AAQ object.
    assert ignoring == ["single-aaq.bursar.io"]
    assert {d["spec"]["failurePolicy"] for d in policies} == {"Fail", "Ignore"}


def test_growth_is_refused_unless_it_is_allowed():
    allowed = policy_documents(GatingSettings(allow_growth=True))
    name = "refuse-growth.bursar.io"

    assert name in named(policy_documents(DEFAULT), "ValidatingAdmissionPolicy")
    assert name not in named(allowed, "ValidatingAdmissionPolicy")


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        (DEFAULT, {APPLICATION_QUOTAS.kind, CLUSTER_QUOTAS.kind}),
        (GatingSettings(allow_cluster_quota=False), {APPLICATION_QUOTAS.kind}),
    ],
)
def test_the_scope_of_released_pods_is_kept_by_each_kind_of_quota(settings, kinds):
    """A policy whose kind of parameter is not defined would refuse all that it looks at."""
    policies = named(scope_policy_documents(settings), "ValidatingAdmissionPolicy")

    assert {each["spec"]["paramKind"]["kind"] for each in policies.values()} == kinds


def test_only_the_controller_of_this_installation_may_remove_gates():
    settings = GatingSettings(namespace="quotas")
    policy = named(policy_documents(settings), "ValidatingAdmissionPolicy")[
        "protect-gate.bursar.io"
    ]
    (validation,) = policy["spec"]["validations"]

    assert validation == {
        "expression": "request.userInfo.username == 'system:serviceaccount:quotas:aaq-controller'",
        "message": f"Only AAQ controller has permission to remove {GATE} gate from pods",
        "reason": "Forbidden",
    }


def test_webhooks_carry_the_names_of_aaq_and_two_of_ours():
    mutating, validating = webhook_documents(GatingSettings(configuration_exists=True))

    assert mutating["metadata"]["name"] == "gating-mutator"
    assert [w["name"] for w in mutating["webhooks"]] == ["gater.cqo.kubevirt.io"]
    assert validating["metadata"]["name"] == "aaq-validator"
    assert [w["name"] for w in validating["webhooks"]] == [
        "application.resource.quota.validator",
        "remove.pod.gate.validator",
        "resize.pod.quota.validator",
        "counting.policy.validator",
        "aaq.cr.validator",
        "cluster.apps.resource.quota.validator",
    ]


def test_requests_that_cannot_matter_are_never_sent():
    found = webhooks()

    assert conditions(found["gater.cqo.kubevirt.io"]) == [
        "no-spared-namespace",
        "gate-missing",
        "no-mirror-of-a-static-pod",
    ]
    assert conditions(found["remove.pod.gate.validator"]) == [
        "no-spared-namespace",
        "gate-removed",
        "not-the-controller",
    ]
    assert conditions(found["resize.pod.quota.validator"]) == [
        "no-spared-namespace",
        "pod-released",
    ]
    assert {w["failurePolicy"] for w in found.values()} == {"Fail"}


def test_a_resize_may_have_effects_except_in_a_dry_run():
    effects = {name: webhook["sideEffects"] for name, webhook in webhooks().items()}

    assert effects.pop("resize.pod.quota.validator") == "NoneOnDryRun"
    assert set(effects.values()) == {"None"}


def test_webhooks_are_reached_through_the_service_or_by_address():
    behind_service = webhooks(GatingSettings(namespace="quotas"), Endpoint(ca_bundle=b"PEM"))
    by_address = webhooks(endpoint=Endpoint(url="https://127.0.0.1:8443/"))

    bundle = base64.b64encode(b"PEM").decode()
    service = {"namespace": "quotas", "name": "aaq-server", "path": "/serve-path", "port": 443}
    for webhook in behind_service.values():
        assert webhook["clientConfig"] == {"service": service, "caBundle": bundle}
    for webhook in by_address.values():
        assert webhook["clientConfig"] == {"url": "https://127.0.0.1:8443/serve-path"}


def test_without_cluster_quotas_nothing_speaks_of_them():
    settings = GatingSettings(allow_cluster_quota=False)
    text = json.dumps([*access_documents(settings), *webhook_documents(settings)])

    # A CountingPolicy is of the cluster, whichever quotas there are.
    others = text.lower().replace("clusterrole", "").replace('"scope": "cluster"', "")
    others = others.replace("system-cluster-critical", "")
    assert "cluster" not in others


def test_no_role_reads_secrets_or_uses_wildcards():
    roles = [d for d in access_documents(DEFAULT) if d["kind"] in {"Role", "ClusterRole"}]
    rules = [rule for role in roles for rule in role["rules"]]

    metrics = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    assert len(roles) == 7
    rules.remove(metrics)
    assert not any("*" in [*r["apiGroups"], *r["resources"], *r["verbs"]] for r in rules)
    assert not any("secrets" in r["resources"] or "nodes" in r["resources"] for r in rules)


def test_bindings_name_their_role_and_the_account_of_the_installation():
    documents = access_documents(GatingSettings(namespace="quotas"))
    bindings = [d for d in documents if d["kind"] in {"RoleBinding", "ClusterRoleBinding"}]

    assert [b["metadata"].get("namespace") for b in bindings] == [None, "quotas"] * 2
    for binding in bindings:
        assert binding["roleRef"]["kind"] == binding["kind"].removesuffix("Binding")
        assert binding["subjects"] == [
            {
                "kind": "ServiceAccount",
                "namespace": "quotas",
                "name": binding["metadata"]["name"],
            }
        ]


@pytest.mark.parametrize("preset", ["confidential-containers-system", "aaq"])
def test_capacity_is_granted_apart_and_only_as_far_as_it_goes(preset):
    documents = capacity_documents(DEFAULT, preset)

    rules = {
        (document["metadata"].get("namespace", ""), rule["resources"][0]): rule
        for document in documents
        for rule in document.get("rules", ())
    }
    assert rules["", "nodes/status"]["verbs"] == ["patch"]
    assert rules["", "nodes"]["verbs"] == ["list", "watch"]
    named = {place: rule["resourceNames"] for (place, _), rule in rules.items() if place}
    assert named == (
        {"aaq": ["bursar-capacity", "peer-pods-cm"]}
        if preset == "aaq"
        else {"aaq": ["bursar-capacity"], preset: ["peer-pods-cm"]}
    )
    bound = [each for each in documents if "subjects" in each]
    assert {each["subjects"][0]["name"] for each in bound} == {"aaq-controller"}
