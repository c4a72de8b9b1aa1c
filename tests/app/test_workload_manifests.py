"""The manifests that run the controller and the webhook."""

import json

import pytest

from bursar.adapters.serving.limits import ServerLimits
from bursar.app.install.access import access_documents
from bursar.app.install.admission import GatingSettings
from bursar.app.install.cert_manager import cert_manager_documents
from bursar.app.install.monitoring import ALERTS, monitoring_documents
from bursar.app.install.removal import removal_documents
from bursar.app.install.workloads import (
    WorkloadSettings,
    controller_documents,
    webhook_documents,
)
from bursar.app.operator.manifests import OperatorInstallation, operator_documents
from support.builders.manifests import DEFINITIONS

SETTINGS = WorkloadSettings(image="bursar:1")


def by_kind(documents):
    return {document["kind"]: document for document in documents}


def pod_of(documents):
    return by_kind(documents)["Deployment"]["spec"]["template"]["spec"]


def job_pod(settings):
    return by_kind(removal_documents(settings))["Job"]["spec"]["template"]["spec"]


BOTH = pytest.mark.parametrize("documents", [controller_documents, webhook_documents])


@pytest.mark.parametrize(
    "pod",
    [
        pod_of(controller_documents(SETTINGS)),
        pod_of(webhook_documents(SETTINGS)),
        job_pod(SETTINGS),
    ],
    ids=["controller", "webhook", "removal"],
)
def test_the_pods_satisfy_the_restricted_standard(pod):
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert "volumes" not in pod


@BOTH
def test_a_drained_node_ends_one_replica_of_two(documents):
    found = by_kind(documents(SETTINGS))

    assert found["Deployment"]["spec"]["replicas"] == 2
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_an_update_never_leaves_fewer_webhooks_than_wanted():
    spec = by_kind(webhook_documents(SETTINGS))["Deployment"]["spec"]

    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_an_update_of_controllers_ends_one_of_two_first_but_never_the_only_one():
    spec = by_kind(controller_documents(SETTINGS))["Deployment"]["spec"]

    # A share is rounded down: of one replica none may be missing.
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "50%"}


def test_the_webhook_accepts_connections_until_no_api_server_makes_any():
    pod = pod_of(webhook_documents(SETTINGS))
    (container,) = pod["containers"]
    (delay,) = [each for each in container["args"] if each.startswith("--shutdown-delay=")]
    seconds = int(delay.removeprefix("--shutdown-delay=").removesuffix("s"))
    limits = ServerLimits()

    assert seconds > 0
    finishing = limits.linger_seconds + limits.finish_seconds
    assert seconds + finishing < pod["terminationGracePeriodSeconds"]


@BOTH
def test_one_selector_finds_the_pods_everywhere(documents):
    found = by_kind(documents(SETTINGS))
    deployment = found["Deployment"]["spec"]

    wanted = deployment["selector"]["matchLabels"]
    assert wanted.items() <= deployment["template"]["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"] == wanted
    assert found["PodDisruptionBudget"]["spec"]["selector"] == {"matchLabels": wanted}
    assert found["NetworkPolicy"]["spec"]["podSelector"] == {"matchLabels": wanted}
    for spread in deployment["template"]["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"] == {"matchLabels": wanted}


def test_controller_and_webhook_do_not_share_pods():
    selectors = [
        json.dumps(by_kind(documents(SETTINGS))["Service"]["spec"]["selector"])
        for documents in (controller_documents, webhook_documents)
    ]

    assert len(set(selectors)) == 2


def test_one_replica_has_no_budget_that_would_forbid_to_drain_its_node():
    alone = WorkloadSettings(image="bursar:1", replicas=1)

    assert "PodDisruptionBudget" not in by_kind(controller_documents(alone))


def test_only_the_controller_keeps_certificates_and_not_beside_cert_manager():
    def arguments(documents, **changes):
        settings = WorkloadSettings(image="bursar:1", **changes)
        return pod_of(documents(settings))["containers"][0]["args"]

    assert "--keep-certificates" in arguments(controller_documents)
    assert "--keep-certificates" not in arguments(webhook_documents)
    assert "--keep-certificates" not in arguments(controller_documents, keeps_certificates=False)


def test_the_removal_may_delete_what_gates_pods_and_nothing_else():
    """It runs as the controller, because the policies let only that account remove gates."""
    found = by_kind(removal_documents(SETTINGS))
    permitted = [
        (rule["resources"], rule.get("resourceNames", []), rule["verbs"])
        for rule in found["ClusterRole"]["rules"]
    ]

    assert permitted == [
        (["mutatingadmissionpolicybindings"], ["gate-pods.bursar.io"], ["delete"]),
        (["mutatingwebhookconfigurations"], ["gating-mutator"], ["delete"]),
        (["validatingadmissionpolicybindings"], ["limit-waiting-pods.bursar.io"], ["delete"]),
        # A pod that changed is read again before its gate is removed.
        (["pods"], [], ["get"]),
    ]
    assert job_pod(SETTINGS)["serviceAccountName"] == "aaq-controller"
    assert found["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "namespace": "aaq", "name": "aaq-controller"}
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"image": ""}, "'' is not the name of an image"),
        ({"namespace": "A"}, "'A' is not the name of a namespace"),
        ({"replicas": 0}, "0 replicas are too few"),
    ],
)
def test_settings_that_no_cluster_would_run_are_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        WorkloadSettings(**{"image": "bursar:1", **changes})


# ------------------------------------------------------------------ the namespace


def test_pod_security_is_restricted_unless_the_agent_mounts_folders_of_the_host():
    def level(**changes):
        namespace = access_documents(GatingSettings(), **changes)[0]
        return namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]

    assert level() == "restricted"
    assert level(has_agent=True) == "privileged"


def test_a_quota_of_the_namespace_allows_its_priority_classes():
    quota = by_kind(access_documents(GatingSettings()))["ResourceQuota"]

    (allowed,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert pod_of(controller_documents(SETTINGS))["priorityClassName"] in allowed["values"]


# ------------------------------------------------------------------ other operators


def test_cert_manager_signs_the_names_of_both_services():
    serving = cert_manager_documents("q")[-1]["spec"]

    assert serving["secretName"] == "bursar-tls"
    assert {"aaq-server.q.svc", "aaq-controller.q.svc"} <= set(serving["dnsNames"])


def test_prometheus_verifies_the_certificate():
    controller, webhook, rules = monitoring_documents("q")

    for monitor, name in ((controller, "aaq-controller"), (webhook, "aaq-server")):
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["tlsConfig"]["serverName"] == f"{name}.q.svc"
        assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "bursar-tls", "key": "ca.crt"}}
    (group,) = rules["spec"]["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]


def test_prometheus_finds_the_operator_and_the_certificates_of_its_installation():
    *monitors, _ = monitoring_documents("q", has_operator=True)
    documents = operator_documents(
        OperatorInstallation(image="bursar:1", namespace="q", definitions=DEFINITIONS)
    )
    [service] = [each for each in documents if each["kind"] == "Service"]

    for monitor in monitors:
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == "aaq-server-cert"
    selected = monitors[-1]["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    assert [each["name"] for each in service["spec"]["ports"]] == ["https"]
    assert monitors[-1]["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == "aaq-controller.q.svc"


def test_a_webhook_that_asks_for_client_certificates_mounts_their_ca():
    settings = WorkloadSettings(
        image="bursar:1", client_ca_config="api-server-ca", client_names=("api-server",)
    )
    pod = pod_of(webhook_documents(settings))
    (container,) = pod["containers"]

    assert pod["volumes"] == [{"name": "client-ca", "configMap": {"name": "api-server-ca"}}]
    assert container["volumeMounts"] == [
        {"name": "client-ca", "mountPath": "/etc/bursar/client-ca", "readOnly": True}
    ]
    assert container["args"][-2:] == [
        "--client-ca=/etc/bursar/client-ca/ca.crt",
        "--client-name=api-server",
    ]
    assert "volumes" not in pod_of(controller_documents(settings))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"client_ca_config": "a/b"}, "'a/b' is not the name of a ConfigMap"),
        ({"client_names": ("x",)}, "need a ConfigMap with their CA"),
    ],
)
def test_client_certificates_need_a_ca(settings, problem):
    with pytest.raises(ValueError, match=problem):
        WorkloadSettings(image="bursar:1", **settings)
