"""The chart and the overlays of kustomize give the same objects as `bursar manifests`.

Left out of the comparison:

- the Namespace: helm creates it, or it exists, and the chart must not own it;
- annotations of helm (`helm.sh/hook...`), by which the Job of a removal runs before an
  uninstallation only;
- with `quota.clusterQuotas: false`, the definitions: what is in `crds/` cannot depend on a value.
"""

import pytest

from bursar.core.model.selectors.selector import Operator
from bursar.core.model.selectors.text import parse_selector
from chart.kustomize import BASE, OVERLAYS
from support.chart.helm import kustomized, objects_of, rendered
from support.chart.matching import matching_arguments
from support.install.printed import printed

pytestmark = pytest.mark.integration

ON = {"enabled": True}
WRITTEN = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}
TEAMS = {
    "matchLabels": {"team": "a", "1": "yes"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["web", "batch", "web"]},
        {"key": "example.com/env", "operator": "NotIn", "values": ["dev"]},
        {"key": "exempt", "operator": "DoesNotExist"},
        {"key": "gated", "operator": "Exists"},
    ],
}
EVERYTHING = {
    "peerPods": ON,
    "capacity": ON,
    "kubevirt": ON,
    "agent": ON,
    "extender": ON,
    "certManager": ON,
    "monitoring": {**ON, "dashboard": True},
}

COMBINATIONS = {
    "defaults": ("aaq", {}),
    "another-namespace": ("bursar-system", EVERYTHING),
    "a-namespace-that-looks-like-a-number": ("1e3", {"monitoring": ON, "capacity": ON}),
    "kube-system": ("kube-system", {"peerPods": ON, "kubevirt": ON}),
    "all-namespaces": ("aaq", {"quota": {"namespaceSelector": {}}}),
    "selected-namespaces": ("q", {"quota": {"namespaceSelector": TEAMS}, "kubevirt": ON}),
    "webhooks": (
        "zeta",
        {"quota": {"gate": "webhooks", "namespaceSelector": TEAMS, "appliedQuotas": "all"}},
    ),
    "webhooks-and-cert-manager": (
        "aaq",
        {"quota": {"gate": "webhooks", "configurationExists": True}, "certManager": ON},
    ),
    "extender": (
        "aaq",
        {
            "quota": {"enabled": False},
            "extender": {
                **ON,
                "schedulerCAConfig": "scheduler-ca",
                "schedulerNames": ["system:kube-scheduler", "batch"],
                "extraArgs": ["--hold=1m"],
            },
            "logLevel": "debug",
        },
    ),
    "one-replica": ("aaq", {"replicas": 1, "image": {"repository": "r.io/b", "tag": "2"}}),
    "seven-replicas": ("aaq", {"replicas": 7, "quota": {"gate": "webhooks"}}),
    "no-cluster-quotas": (
        "aaq",
        {
            "quota": {"clusterQuotas": False, "resizes": "allow", "waitingPodsMax": 500},
            "logLevel": "debug",
        },
    ),
    "no-cluster-quotas-by-webhooks": (
        "aaq",
        {"quota": {"clusterQuotas": False, "gate": "webhooks"}},
    ),
    "several-runtime-classes": (
        "aaq",
        {
            "peerPods": {
                **ON,
                "runtimeClasses": ["kata-remote", "kata-gpu"],
                "vmResource": "example.com/vm",
                "handler": "kata",
                "overhead": {"cpu": "100m", "memory": "64Mi"},
                "nodeSelector": {"gpu": "yes", "zone": "1"},
                "allPods": True,
            }
        },
    ),
    "peer-pods-by-policy": (
        "aaq",
        {"peerPods": {**ON, "mode": "policy", "runtimeClasses": ["a", "b"]}},
    ),
    "peer-pods-beside-upstream": (
        "aaq",
        {"quota": {"enabled": False}, "peerPods": {**ON, "mode": "upstream"}},
    ),
    "peer-pods-only": (
        "aaq",
        {"quota": {"enabled": False}, "peerPods": {**ON, "createRuntimeClasses": False}},
    ),
    "peer-pods-only-with-cert-manager": (
        "aaq",
        {"quota": {"enabled": False}, "peerPods": ON, "certManager": ON},
    ),
    "capacity-in-its-own-namespace": (
        "aaq",
        {"capacity": {**ON, "peerPodsNamespace": "aaq"}, "quota": {"enabled": False}},
    ),
    "capacity-in-another-namespace": ("aaq", {"capacity": {**ON, "peerPodsNamespace": "caa"}}),
    "agent-only": (
        "aaq",
        {
            "quota": {"enabled": False},
            "agent": {
                **ON,
                "podsFrom": "kubelet-read-only",
                "socketDir": "/run/other",
                "kubeletDir": "/data/kubelet",
                "extraArgs": ["--rate=5", "--share-suffix"],
            },
            "logLevel": "warning",
        },
    ),
    "agent-from-the-api": ("aaq", {"agent": {**ON, "podsFrom": "api", "hostNetwork": True}}),
    "agent-with-files": (
        "aaq",
        {"agent": {**ON, "kubeletCert": "/etc/kubelet.crt", "sourcesConfig": "sources"}},
    ),
    "client-certificates": (
        "aaq",
        {
            "quota": {"gate": "webhooks"},
            "webhook": {"clientCAConfig": "api-server-ca", "clientNames": ["api-server", "b"]},
        },
    ),
    "client-certificates-of-any-name": (
        "aaq",
        {"peerPods": ON, "webhook": {"clientCAConfig": "api-server-ca"}},
    ),
    "further-options": (
        "aaq",
        {
            "quota": {"gate": "webhooks"},
            "controller": {"extraArgs": ["--patience=5m", '--peerpods-nodes=a in (b,"c")']},
            "webhook": {"extraArgs": ["--log-format=text"]},
            "logLevel": "error",
            "releaseOnUninstall": False,
        },
    ),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_the_chart_has_the_objects_that_the_command_prints(name):
    namespace, values = COMBINATIONS[name]
    charted = objects_of(rendered(values, namespace, "--include-crds"))
    wanted = objects_of(printed(*matching_arguments(values, namespace)))

    wanted = {key: each for key, each in wanted.items() if each["kind"] != "Namespace"}
    if not values.get("quota", {}).get("clusterQuotas", True):
        charted, wanted = without_definitions(charted), without_definitions(wanted)
    assert sorted(charted) == sorted(wanted)
    assert charted == wanted


def without_definitions(objects):
    return {
        key: each for key, each in objects.items() if each["kind"] != "CustomResourceDefinition"
    }


@pytest.mark.parametrize("gate", ["policies", "webhooks"])
def test_controller_and_gate_select_the_same_namespaces(gate):
    """The option of the controller is a text, the gate has an object; both come from one value."""
    values = {"quota": {"gate": gate, "namespaceSelector": TEAMS}}
    found = {
        (each["kind"], each["metadata"]["name"]): each
        for each in objects_of(rendered(values, "q")).values()
    }
    pod = found["Deployment", "aaq-controller"]["spec"]["template"]["spec"]
    prefix = "--namespace-selector="
    (text,) = [each for each in pod["containers"][0]["args"] if each.startswith(prefix)]
    if gate == "policies":
        binding = found["MutatingAdmissionPolicyBinding", "gate-pods.bursar.io"]
        selector = binding["spec"]["matchResources"]["namespaceSelector"]
    else:
        configuration = found["MutatingWebhookConfiguration", "gating-mutator"]
        selector = configuration["webhooks"][0]["namespaceSelector"]

    chosen = selector["matchExpressions"]
    if gate == "policies":
        *chosen, others = chosen
        assert others["values"] == ["kube-system", "q"]
    assert [(each["key"], each["operator"], tuple(each.get("values", ()))) for each in chosen] == [
        (each.key, WRITTEN[each.operator], each.values)
        for each in parse_selector(text.removeprefix(prefix)).requirements
    ]


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda overlay: overlay.name)
def test_an_overlay_of_kustomize_has_the_objects_that_the_command_prints(overlay):
    found = objects_of(kustomized(f"overlays/{overlay.name}"))

    assert found == objects_of(printed(*overlay.arguments))


def test_the_base_of_kustomize_has_the_objects_that_the_command_prints():
    assert objects_of(kustomized("base")) == objects_of(printed(*BASE))
