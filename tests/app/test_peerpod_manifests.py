"""What the manifests for peer pods say, before any API server has read them."""

import base64
import json

import pytest

from bursar.app.install.documents import Endpoint
from bursar.app.install.peerpods import (
    PeerPodInstallation,
    peer_pod_documents,
    peer_pod_documents_beside_upstream,
    peer_pod_documents_without_webhook,
)
from bursar.app.install.policies.peerpod_protection import BIND, KEEP, PROTECTED, RECORD
from bursar.core.model.quantity import ZERO, Quantity

DEFAULT = PeerPodInstallation()


def webhook_of(installation=DEFAULT, endpoint=None):
    *_, configuration = peer_pod_documents(installation, endpoint)
    assert configuration["kind"] == "MutatingWebhookConfiguration"
    (webhook,) = configuration["webhooks"]
    return webhook


def test_the_webhook_has_upstreams_names_rules_and_manners():
    *_, configuration = peer_pod_documents(DEFAULT)
    webhook = webhook_of()

    assert configuration["metadata"]["name"] == "peer-pods-webhook-mutating-webhook-configuration"
    assert webhook["name"] == "mwebhook.peerpods.io"
    assert webhook["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]
    assert (webhook["failurePolicy"], webhook["reinvocationPolicy"]) == ("Fail", "IfNeeded")
    assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 5)


def test_only_peer_pods_are_sent_and_none_from_the_systems_namespaces():
    webhook = webhook_of(PeerPodInstallation(namespace="home", runtime_classes=("a", "b.c")))

    assert webhook["matchConditions"] == [
        {
            "name": "peer-pod",
            "expression": "object.spec.?runtimeClassName.orValue('') in ['a', 'b.c']",
        }
    ]
    assert webhook["namespaceSelector"] == {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["home", "kube-system"],
            }
        ]
    }


def test_all_pods_are_sent_where_others_set_the_class():
    assert "matchConditions" not in webhook_of(PeerPodInstallation(asks_about_all_pods=True))


def test_the_webhook_is_behind_the_service_or_at_an_address():
    there = Endpoint(url="https://127.0.0.1:9443/", ca_bundle=b"pem")

    assert webhook_of()["clientConfig"] == {
        "service": {
            "namespace": "aaq",
            "name": "aaq-server",
            "path": "/mutate-v1-pod",
            "port": 443,
        }
    }
    assert webhook_of(endpoint=there)["clientConfig"] == {
        "url": "https://127.0.0.1:9443/mutate-v1-pod",
        "caBundle": base64.b64encode(b"pem").decode(),
    }


def test_each_class_charges_the_worker_for_what_stays_there():
    installation = PeerPodInstallation(
        runtime_classes=("kata-remote", "kata-gpu"),
        node_selector={"katacontainers.io/kata-runtime": "true"},
        overhead_memory=Quantity.parse("64Mi"),
    )
    first, second, *_ = peer_pod_documents(installation)

    assert [first["metadata"]["name"], first["handler"]] == ["kata-remote", "kata-remote"]
    assert second["handler"] == "kata-gpu"
    assert first["overhead"] == {"podFixed": {"cpu": "250m", "memory": "64Mi"}}
    assert first["scheduling"] == {"nodeSelector": {"katacontainers.io/kata-runtime": "true"}}
    assert peer_pod_documents(DEFAULT)[0]["overhead"]["podFixed"]["memory"] == "120Mi"
    assert "scheduling" not in peer_pod_documents(DEFAULT)[0]


@pytest.mark.parametrize("made_of", [peer_pod_documents, peer_pod_documents_without_webhook])
def test_a_class_that_something_else_brings_is_left_out(made_of):
    without = made_of(PeerPodInstallation(brings_classes=False))

    assert made_of(DEFAULT)[1:] == without
    assert "RuntimeClass" not in [each["kind"] for each in without]


def test_the_handler_is_the_name_of_the_class_unless_said_otherwise():
    named, _, *_ = peer_pod_documents(
        PeerPodInstallation(runtime_classes=("a", "b"), handler="kata")
    )

    assert (named["metadata"]["name"], named["handler"]) == ("a", "kata")


def test_the_configuration_alone_can_be_told_from_the_rest():
    *rest, configuration = peer_pod_documents(DEFAULT)
    key, value = "app.kubernetes.io/component", "webhook"

    assert configuration["metadata"]["labels"][key] == value
    assert [each for each in rest if key in each["metadata"]["labels"]] == []


def test_without_a_webhook_a_policy_asks_for_the_vm_and_touches_nothing_else():
    installation = PeerPodInstallation(vm_resource="example.com/vm")
    runtime_class, *_, policy, binding = peer_pod_documents_without_webhook(installation)
    (mutation,) = policy["spec"]["mutations"]

    assert runtime_class["kind"] == "RuntimeClass"
    assert mutation["patchType"] == "ApplyConfiguration"
    assert mutation["applyConfiguration"]["expression"].count("{'example.com/vm': '1'}") == 2
    assert "annotations" not in json.dumps(policy["spec"])
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["matchResources"] == DEFAULT.where


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": "a'b"},
        {"runtime_classes": ()},
        {"runtime_classes": ("kata'] || true",)},
        {"runtime_classes": ("",)},
        {"runtime_classes": ("Kata",)},
        {"vm_resource": "vm"},
        {"vm_resource": "example.com/v'm"},
        {"handler": "Kata"},
        {"handler": "kata.remote"},
    ],
)
def test_names_that_would_end_up_in_expressions_are_refused(wrong):
    with pytest.raises(ValueError, match=r"name of|at least one"):
        PeerPodInstallation(**wrong)


def test_an_overhead_is_nothing_at_least():
    assert PeerPodInstallation(overhead_cpu=Quantity.parse("0")).overhead_cpu == ZERO
    with pytest.raises(ValueError, match="negative"):
        PeerPodInstallation(overhead_memory=Quantity.parse("-1Mi"))


# ------------------------------------------------------------------ what is written stays


def policies_of(documents):
    found = [each for each in documents if each["kind"] == "ValidatingAdmissionPolicy"]
    return {each["metadata"]["name"]: each["spec"] for each in found}


@pytest.mark.parametrize("made_of", [peer_pod_documents, peer_pod_documents_without_webhook])
def test_what_was_written_is_protected_on_every_way_to_it_before_anybody_writes(made_of):
    documents = made_of(PeerPodInstallation(runtime_classes=("a", "b")))
    policies = policies_of(documents)
    resources = {
        name: spec["matchConstraints"]["resourceRules"][0]["resources"]
        for name, spec in policies.items()
    }
    bindings = [each["spec"] for each in documents if "PolicyBinding" in each["kind"]]

    assert resources == {
        KEEP: ["pods", "pods/status", "pods/resize", "pods/ephemeralcontainers"],
        BIND: ["pods/binding", "bindings"],
        RECORD: ["pods"],
    }
    assert {spec["failurePolicy"] for spec in policies.values()} == {"Fail"}
    assert [each["policyName"] for each in bindings][:3] == [KEEP, BIND, RECORD]
    for each in bindings:
        assert each["matchResources"] == DEFAULT.where
    writers = [n for n, each in enumerate(documents) if each["kind"].startswith("Mutating")]
    assert min(writers) == 1 + 1 + 6


def test_the_policies_know_the_name_of_the_vm_and_every_annotation():
    text = json.dumps(policies_of(peer_pod_documents(PeerPodInstallation(vm_resource="a.b/vm"))))

    assert "a.b/vm" in text
    assert [key for key in PROTECTED if key not in text] == []


def test_where_nothing_is_removed_no_record_is_taken():
    (validation,) = policies_of(peer_pod_documents_without_webhook(DEFAULT))[RECORD]["validations"]

    assert validation["expression"] == "false"


def test_beside_upstreams_webhook_annotations_are_kept_and_no_record_is_taken():
    documents = peer_pod_documents_beside_upstream(DEFAULT)
    (validation,) = policies_of(documents)[RECORD]["validations"]

    assert validation["expression"] == "false"
    assert policies_of(documents)[KEEP] == policies_of(peer_pod_documents(DEFAULT))[KEEP]
