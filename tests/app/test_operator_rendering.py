"""The operator installs the objects that `bursar manifests` prints for the same options."""

import json

import pytest
from click.testing import CliRunner

from bursar.app.install.documents import Document
from bursar.app.operator.kinds import target_of
from bursar.app.operator.manifests import split_definitions
from bursar.app.operator.rendering import (
    GATE_ANNOTATION,
    KUBEVIRT_CLASS,
    MANAGED_BY,
    OPERATOR_NAME,
    Surroundings,
    rendered,
)
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.install.manifests import manifests
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.wire.aaq import decode_aaq
from support.install.printed import printed_objects

IMAGE = "registry.example/bursar:1"
WEBHOOKS = ("crds", "rbac", "controller", "webhook", "webhooks")
POLICIES = ("crds", "rbac", "controller", "policies")
LIVES = (
    "--certificate-lifetime=86400s",
    "--certificate-renew-before=43200s",
    "--ca-lifetime=172800s",
    "--ca-renew-before=86400s",
)
TEAMS = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}


def installed(spec, *, annotations=None, labels=None, **around):
    metadata = {"name": "aaq", "annotations": annotations, "labels": labels}
    body = {"metadata": metadata, "spec": spec}
    _, definitions = split_definitions(packaged_definitions())
    known = {"namespace": "aaq", "image": IMAGE, "definitions": definitions, **around}
    return rendered(decode_aaq(json.dumps(body).encode()), Surroundings(**known))


def by_name(documents, *, owner=True):
    """The documents by kind and name, without the operator's label."""
    found = {}
    for each in json.loads(json.dumps(documents)):
        labels = each["metadata"].get("labels", {})
        if owner:
            assert labels.pop(MANAGED_BY) == OPERATOR_NAME
            if not labels:
                each["metadata"].pop("labels")
        found[each["kind"], each["metadata"]["name"]] = each
    return found


def options(*more, mode="DedicatedVirtualResources"):
    every = (f"--vmi-mode={mode}", *more, *LIVES)
    return ["--aaq-certificates", *(f"--controller-option={each}" for each in every)]


def deployment(outcome, name) -> Document:
    return by_name(outcome.every)["Deployment", name]


def pod(outcome, name="aaq-controller"):
    return deployment(outcome, name)["spec"]["template"]["spec"]


def container(outcome, name="aaq-controller"):
    return pod(outcome, name)["containers"][-1]


# ------------------------------------------------------------------ equality


EQUAL = {
    "defaults": ({}, {}, (*WEBHOOKS, "--without-cluster-quota", *options())),
    "cluster-quotas": (
        {"configuration": {"allowApplicationAwareClusterResourceQuota": True}},
        {},
        (*WEBHOOKS, *options()),
    ),
    "every-namespace": (
        {"namespaceSelector": {}},
        {},
        (*WEBHOOKS, "-l", "", "--without-cluster-quota", *options()),
    ),
    "some-namespaces": (
        {"namespaceSelector": TEAMS},
        {},
        (*WEBHOOKS, "-l", "team in (a,b)", "--without-cluster-quota", *options()),
    ),
    "policies": (
        {},
        {GATE_ANNOTATION: "policies"},
        (*POLICIES, "--without-cluster-quota", *options()),
    ),
    "counting": (
        {"configuration": {"vmiCalculatorConfiguration": {"configName": "VirtualResources"}}},
        {},
        (*WEBHOOKS, "--without-cluster-quota", *options(mode="VirtualResources")),
    ),
    "pods": (
        {"imagePullPolicy": "Always", "priorityClass": "urgent"},
        {},
        (
            *WEBHOOKS,
            "--without-cluster-quota",
            *options(),
            "--image-pull-policy=Always",
            "--priority-class=urgent",
        ),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_operator_and_manifests_have_the_same_objects(name):
    spec, annotations, arguments = EQUAL[name]

    ours = by_name(installed(spec, annotations=annotations).every)
    theirs = by_name(printed_objects("--image", IMAGE, *arguments), owner=False)
    # These come with the operator itself.
    operators = by_name(printed_objects("--image", IMAGE, "operator"), owner=False)
    theirs = {
        key: each
        for key, each in theirs.items()
        if key[1] not in {"aaqs.aaq.kubevirt.io", "single-aaq.bursar.io"}
    }

    assert ours == theirs
    assert ("CustomResourceDefinition", "aaqs.aaq.kubevirt.io") in operators
    assert ("ValidatingAdmissionPolicy", "single-aaq.bursar.io") in operators


def test_manifests_prints_what_the_operator_installs_for_a_file(tmp_path):
    file = tmp_path / "aaq.yaml"
    file.write_text(
        "apiVersion: aaq.kubevirt.io/v1alpha1\nkind: AAQ\nmetadata:\n  name: aaq\n"
        "spec:\n  infra:\n    nodeSelector:\n      disk: fast\n"
    )
    ours = installed({"infra": {"nodeSelector": {"disk": "fast"}}}).every

    assert printed_objects("--image", IMAGE, "--aaq", str(file)) == json.loads(json.dumps(ours))


def test_a_file_must_have_one_aaq_object(tmp_path):
    file = tmp_path / "aaq.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: aaq\n")
    ran = CliRunner().invoke(manifests, ["--aaq", str(file)], standalone_mode=False)

    assert isinstance(ran.exception, BadInputError)
    assert "one AAQ object is expected, found 0" in str(ran.exception)


# ------------------------------------------------------------------ fields


def test_e_op_04_placement_reaches_both_deployments():
    placement = {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "test", "value": "123"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    }
    outcome = installed({"infra": placement})

    for name in ("aaq-controller", "aaq-server"):
        found = pod(outcome, name)
        assert {key: found[key] for key in placement} == placement


def test_two_labels_of_the_object_are_copied_to_all_objects_and_pods():
    copied = {
        "app.kubernetes.io/part-of": "hyperconverged-cluster",
        "app.kubernetes.io/version": "1.15.0",
    }
    outcome = installed({}, labels={**copied, "team": "platform"})

    for each in outcome.every:
        assert copied.items() <= each["metadata"]["labels"].items(), each["metadata"]
        assert "team" not in each["metadata"]["labels"]
    for name in ("aaq-controller", "aaq-server"):
        spec = deployment(outcome, name)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert copied.items() <= labels.items()
        # The selector of a Deployment cannot be changed, so it has nothing that is copied.
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert not copied.keys() & spec["selector"]["matchLabels"].keys()


def test_without_labels_on_the_object_everything_is_part_of_bursar():
    labels = deployment(installed({}), "aaq-controller")["metadata"]["labels"]

    assert labels["app.kubernetes.io/part-of"] == "bursar"
    assert "app.kubernetes.io/version" not in labels


def test_e_op_11_kubevirts_priority_class_is_the_default_if_it_exists():
    outcome = installed({}, has_kubevirt_class=True)

    assert pod(outcome)["priorityClassName"] == KUBEVIRT_CLASS
    assert pod(outcome, "aaq-server")["priorityClassName"] == KUBEVIRT_CLASS
    assert pod(installed({}))["priorityClassName"] == "system-cluster-critical"
    chosen = installed({"priorityClass": "mine"}, has_kubevirt_class=True)
    assert pod(chosen)["priorityClassName"] == "mine"


def selector_of_webhook(outcome):
    configuration = by_name(outcome.every)["MutatingWebhookConfiguration", "gating-mutator"]
    return configuration["webhooks"][0]["namespaceSelector"]


def test_e_op_12_the_selector_of_the_webhook_is_that_of_the_object():
    selector = {"matchLabels": {"namespace": "fakenamespace"}}
    outcome = installed({"namespaceSelector": selector})

    assert selector_of_webhook(outcome) == selector
    assert "--namespace-selector=namespace=fakenamespace" in container(outcome)["args"]


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"team": "a"}}, TEAMS])
def test_the_selector_of_policies_is_that_of_the_object_without_spared_namespaces(selector):
    outcome = installed({"namespaceSelector": selector}, annotations={GATE_ANNOTATION: "policies"})
    bindings = [each["spec"] for each in outcome.gate if each["kind"].endswith("PolicyBinding")]
    chosen = [each["matchResources"]["namespaceSelector"] for each in bindings if _is_placed(each)]

    spared = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["aaq", "kube-system"],
    }
    expressions = [*selector.get("matchExpressions", []), spared]
    assert len(chosen) > 5
    assert chosen == [{**selector, "matchExpressions": expressions}] * len(chosen)


def _is_placed(binding):
    return "namespaceSelector" in binding.get("matchResources", {})


def test_e_op_13_without_a_selector_the_label_of_aaq_selects():
    label = {"key": "application-aware-quota/enable-gating", "operator": "Exists"}

    assert selector_of_webhook(installed({})) == {"matchExpressions": [label]}


def test_e_op_14_an_empty_selector_selects_every_namespace():
    outcome = installed({"namespaceSelector": {}})

    assert selector_of_webhook(outcome) == {}
    assert "--namespace-selector=" in container(outcome)["args"]


def test_an_annotation_shows_the_usage_of_all_namespaces_in_the_copies():
    outcome = installed({}, annotations={"bursar.io/applied-quotas": "all"})

    assert "--applied-quotas=all" in container(outcome)["args"]
    assert not [each for each in container(installed({}))["args"] if "applied-quotas" in each]
    by_default = installed({}, applied=AppliedUsage.ALL)
    assert "--applied-quotas=all" in container(by_default)["args"]
    with pytest.raises(ValueError, match=r"bursar\.io/applied-quotas: own or all is expected"):
        installed({}, annotations={"bursar.io/applied-quotas": "some"})


def test_sidecars_stand_beside_the_controller_with_the_folder_of_sockets():
    bare = {"name": "labels", "image": "labels:1", "args": ["--config", "double"]}
    mounted = {
        "name": "other",
        "image": "other:1",
        "volumeMounts": [{"name": "sockets-dir", "mountPath": "/elsewhere"}],
        "securityContext": {"allowPrivilegeEscalation": True},
    }
    outcome = installed({"configuration": {"sidecarEvaluators": [bare, mounted]}})
    found = pod(outcome)
    first, second, controller = found["containers"]
    folder = {"name": "sockets-dir", "mountPath": "/var/run/aaq-sockets"}

    assert found["volumes"] == [{"name": "sockets-dir", "emptyDir": {}}]
    assert (first["args"], first["volumeMounts"]) == (bare["args"], [folder])
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert second["volumeMounts"] == mounted["volumeMounts"]
    assert second["securityContext"]["allowPrivilegeEscalation"]
    assert controller["volumeMounts"] == [folder]
    assert "--sidecars=2" in controller["args"]
    assert "volumes" not in pod(outcome, "aaq-server")


def test_a_tls_profile_reaches_both_processes():
    outcome = installed({"tlsSecurityProfile": {"type": "Modern"}})

    for name in ("aaq-controller", "aaq-server"):
        assert {"name": "TLS_MIN_VERSION", "value": "VersionTLS13"} in container(outcome, name)[
            "env"
        ]


def test_lives_of_certificates_reach_the_controller():
    lives = {
        "ca": {"duration": "20m", "renewBefore": "5m"},
        "server": {"duration": "5m", "renewBefore": "2m"},
    }
    arguments = container(installed({"certConfig": lives}))["args"]

    assert {
        "--ca-lifetime=1200s",
        "--ca-renew-before=300s",
        "--certificate-lifetime=300s",
        "--certificate-renew-before=120s",
    } <= set(arguments)


def test_what_has_no_effect_is_said():
    assert installed({}).ignored == ()
    assert installed({"workload": {"nodeSelector": {}}}).ignored == ()
    (sentence,) = installed({"workload": {"nodeSelector": {"a": "b"}}}).ignored
    assert sentence.startswith("spec.workload: ")
    (sentence,) = installed({"tlsSecurityProfile": {"type": "Old"}}).ignored
    assert sentence.startswith("spec.tlsSecurityProfile: VersionTLS10")


@pytest.mark.parametrize(
    ("spec", "annotations", "problem"),
    [
        ({"priorityClass": 1}, None, "spec.priorityClass"),
        (
            {"certConfig": {"ca": {"duration": "1h"}, "server": {"duration": "3h"}}},
            None,
            "spec.certConfig: ",
        ),
        ({}, {GATE_ANNOTATION: "magic"}, "webhooks or policies is expected"),
        (
            {"configuration": {"sidecarEvaluators": [{"name": "controller"}]}},
            None,
            "each sidecar needs a name of its own",
        ),
    ],
)
def test_a_spec_that_cannot_be_installed_is_refused_as_a_whole(spec, annotations, problem):
    with pytest.raises(ValueError, match=problem):
        installed(spec, annotations=annotations)


def test_what_refuses_pods_comes_last():
    outcome = installed({})
    gate = [target_of(each).resource.kind for each in outcome.gate]

    assert gate[:2] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert not any("WebhookConfiguration" in each["kind"] for each in outcome.base)
