"""What a thief can do with the token of one of Bursar's accounts, and what not."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from bursar.app.install.policies.confinement import (
    CONFINE_OPERATOR,
    CONFINE_PODS,
    CRITICAL_PODS,
    ONLY_CERTIFICATES,
    ONLY_CRITICAL_PODS,
    ONLY_EXTENDED,
    ONLY_ITS_SERVICE,
    ONLY_THE_NODE,
)
from bursar.core.peerpods.capacity import MARK_ANNOTATION
from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import wait_for_account
from support.install.confined import JSON_PATCH, MERGE_PATCH, Confined
from support.install.printed import printed
from support.processes.kubectl import try_kubectl
from support.until import until_sync

APPLY = {"Content-Type": "application/apply-patch+yaml"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LABEL_CHANGE = [{"op": "add", "path": "/metadata/labels", "value": {"app": "x"}}]
LIFT = [{"op": "replace", "path": "/spec/schedulingGates", "value": []}]
THE_GATE_ALONE = "aaq-operator may only remove the scheduling gate"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


@pytest.fixture(scope="module")
def robbed(control_plane) -> Iterator[Confined]:
    """The rights of all accounts, a namespace of a tenant with a Secret, and no process."""
    suffix = uuid.uuid4().hex[:6]
    here = Confined(control_plane, f"aaq-{suffix}", f"tenant-{suffix}")
    parts = ("rbac", "controller", "capacity", "extender", "operator")
    options = ("-n", here.home, "--peerpods-namespace", here.home)
    text = printed("crds", *parts, *options)
    applied = try_kubectl(control_plane, "apply", "--server-side", "-f", "-", stdin=text)
    assert applied.code == 0, applied.err
    try:
        here.ask("", "POST", "/api/v1/namespaces", {"metadata": {"name": here.namespace}})
        secret = {"metadata": {"name": "of-the-tenant"}, "stringData": {"password": "x"}}
        assert here.ask("", "POST", secrets(here), secret)[0] == 201
        wait_for_account(control_plane, here.namespace)
        probe = here.create_pod(GATE)
        until_sync(lambda: is_confined(here, probe), "the policy of the operator is in force")
        free = here.create_pod()
        until_sync(
            lambda: bind(here, free, query="?dryRun=All", annotations={"a": "b"})[0] == 403,
            "the first policy of the extender is in force",
        )
        until_sync(
            lambda: write_slice(here, "theirs", "theirs")[0] == 403,
            "the second policy of the extender is in force",
        )
        yield here
    finally:
        here.ask("", "DELETE", f"/api/v1/namespaces/{here.namespace}")
        try_kubectl(
            *(control_plane, "delete", "--ignore-not-found", "--wait=false", "-f", "-"),
            stdin=printed(*parts, *options),
        )


def secrets(here: Confined) -> str:
    return f"/api/v1/namespaces/{here.namespace}/secrets"


def is_confined(here: Confined, pod: str) -> bool:
    """The policies of the operator are known; a dry run passes through admission as well."""
    if make_account_token(here, operator(here), "probe")[0] != 403:
        return False
    trial = {"metadata": {"name": "probe"}, "spec": {"hard": {}}}
    code, _ = here.ask(operator(here), "POST", f"{here.quotas}?dryRun=All", trial)
    if code != 403:
        return False
    path = f"{pod}?dryRun=All"
    code, answer = here.ask(operator(here), "PATCH", path, LABEL_CHANGE, JSON_PATCH)
    return code == 403 and THE_GATE_ALONE in answer["message"]


def operator(here: Confined) -> str:
    return here.account("aaq-operator")


def extender(here: Confined) -> str:
    return here.account("bursar-extender")


def controller(here: Confined) -> str:
    return here.account("aaq-controller")


def server(here: Confined) -> str:
    return here.account("aaq-server")


def common_attempts(here: Confined) -> dict[str, tuple[str, str, Any, dict | None]]:
    """Requests that no account may make: method, path, body and headers."""
    pod = here.create_pod()
    quota = {"metadata": {"name": "own"}, "spec": {"hard": {"pods": "99"}}}
    binding = {
        "metadata": {"name": "thief"},
        "roleRef": {"apiGroup": RBAC.split("/")[2], "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "thief", "apiGroup": RBAC.split("/")[2]}],
    }
    nodes = {"spec": {"taints": []}}
    return {
        "create a pod": ("POST", here.pods, pod_manifest("theirs"), None),
        "delete a pod": ("DELETE", pod, None, None),
        "evict a pod": ("POST", f"{pod}/eviction", {"metadata": {"name": "x"}}, None),
        "run a command in a pod": ("POST", f"{pod}/exec?command=sh", None, None),
        "read the log of a pod": ("GET", f"{pod}/log", None, None),
        "read a Secret of a tenant": ("GET", f"{secrets(here)}/of-the-tenant", None, None),
        "list Secrets of a tenant": ("GET", secrets(here), None, None),
        "list all Secrets": ("GET", "/api/v1/secrets", None, None),
        "create a quota": ("POST", here.quotas, quota, None),
        "delete a namespace": ("DELETE", f"/api/v1/namespaces/{here.namespace}", None, None),
        "change a node": ("PATCH", "/api/v1/nodes/any", nodes, MERGE_PATCH),
        "become cluster-admin": ("POST", f"{RBAC}/clusterrolebindings", binding, None),
        "take the token of another account": (
            "POST",
            f"/api/v1/namespaces/{here.namespace}/serviceaccounts/default/token",
            {"spec": {}},
            None,
        ),
    }


@pytest.mark.parametrize("thief", [controller, server, extender, operator])
def test_a_thief_of_any_token_gains_no_pod_secret_quota_or_role(robbed, thief):
    user = thief(robbed)
    codes = {
        name: robbed.ask(user, *attempt)[0] for name, attempt in common_attempts(robbed).items()
    }

    assert codes == dict.fromkeys(codes, 403)


# ------------------------------------------------------------------ the controller


@pytest.mark.parametrize("thief", [controller, operator])
def test_webhook_configurations_can_be_changed_as_a_whole(robbed, thief):
    """Kubernetes evaluates no policy about them. The threat model says so, and what helps."""
    configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    hook = {
        "name": "gater.cqo.kubevirt.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/serve-path"},
        "objectSelector": {"matchLabels": {"no": "such-object"}},
        "rules": [
            {
                "apiGroups": ["none.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["nothings"],
            }
        ],
    }
    body = {"metadata": {"name": "gating-mutator"}, "webhooks": [hook]}
    assert robbed.ask("", "POST", configurations, body)[0] == 201
    everything = {"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*/*"]}
    try:
        changed = robbed.ask(
            *(thief(robbed), "PATCH", f"{configurations}/gating-mutator?dryRun=All", [everything]),
            JSON_PATCH,
        )
        other = robbed.ask(
            *(thief(robbed), "PATCH", f"{configurations}/another?dryRun=All", [everything]),
            JSON_PATCH,
        )
    finally:
        robbed.ask("", "DELETE", f"{configurations}/gating-mutator")

    assert (changed[0], other[0]) == (200, 403), changed


def make_account_token(here: Confined, user: str, name: str) -> tuple[int, Any]:
    """Kubernetes writes a token of the other account into such a Secret."""
    of = {"name": name, "annotations": {"kubernetes.io/service-account.name": "bursar-extender"}}
    body = {"metadata": of, "type": "kubernetes.io/service-account-token"}
    return here.ask(user, "POST", f"/api/v1/namespaces/{here.home}/secrets?dryRun=All", body)


@pytest.mark.parametrize("thief", [controller, operator])
@pytest.mark.parametrize("name", ["bursar-ca", "any"])
def test_no_secret_is_made_that_gets_the_token_of_another_account(robbed, thief, name):
    """The controller may read the Secrets of its names, so it could read such a token."""
    place = f"/api/v1/namespaces/{robbed.home}/secrets?dryRun=All"
    stolen = make_account_token(robbed, thief(robbed), name)
    kept = [
        robbed.ask(thief(robbed), "POST", place, {"metadata": {"name": known}, **content})
        for known, content in (
            ("bursar-ca", {"data": {"ca.crt": ""}}),
            ("bursar-tls", {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
        )
    ]

    assert (stolen[0], ONLY_CERTIFICATES in stolen[1].get("message", "")) == (403, True), stolen
    assert [code for code, _ in kept] == [201, 201], kept


def change_node(here: Confined, node: str, change: dict) -> tuple[int, Any]:
    path = f"/api/v1/nodes/{node}/status?dryRun=All"
    return here.ask(controller(here), "PATCH", path, change, MERGE_PATCH)


def test_the_controller_changes_extended_resources_of_a_node_and_nothing_else(robbed):
    """By the status of a node its pods could be evicted, or `kubectl exec` sent elsewhere."""
    name = f"node-{uuid.uuid4().hex[:6]}"
    amounts = {"cpu": "4", "example.com/gpu": "1"}
    node = {
        "metadata": {"name": name, "labels": {"team": "a"}, "annotations": {"by": "kubelet"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    bare = {"metadata": {"name": f"{name}-bare"}}
    for each in (node, bare):
        assert robbed.ask("", "POST", "/api/v1/nodes", each)[0] == 201
    mark = {"metadata": {"annotations": {MARK_ANNOTATION: '{"example.com/vm": 3}'}}}
    allowed = [
        {**mark, "status": {each: {"example.com/vm": "3"} for each in ("capacity", "allocatable")}},
        {"status": {each: {"example.com/gpu": None} for each in ("capacity", "allocatable")}},
    ]
    ready = {"type": "Ready", "status": "False"}
    refused = [
        *({"status": {each: {"cpu": "400"}}} for each in ("capacity", "allocatable")),
        *({"status": {each: {"memory": "4Gi"}}} for each in ("capacity", "allocatable")),
        {"status": {"allocatable": {"cpu": None}}},
        {"status": {"conditions": [ready]}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.1"}]}},
        {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 4}}}},
        {"status": {"volumesAttached": [{"name": "v", "devicePath": ""}]}},
        {"metadata": {"labels": {"team": "b"}}},
        {"metadata": {"annotations": {"by": "thief"}}},
        {"metadata": {"annotations": {"by": None}}},
        {"metadata": {"annotations": {"more": ""}}},
        {"metadata": {"finalizers": ["example.com/for-ever"]}},
    ]
    try:
        until_sync(
            lambda: change_node(robbed, name, refused[0])[0] == 403, "the policy is in force"
        )
        answers = [change_node(robbed, name, each) for each in (*allowed, *refused)]
        on_bare = change_node(robbed, f"{name}-bare", allowed[0])
    finally:
        for each in (node, bare):
            robbed.ask("", "DELETE", f"/api/v1/nodes/{each['metadata']['name']}")

    assert on_bare[0] == 200, on_bare
    assert [code for code, _ in answers] == [200] * len(allowed) + [403] * len(refused), answers
    assert all(ONLY_EXTENDED in answer["message"] for _, answer in answers[len(allowed) :])


# ------------------------------------------------------------------ the extender


def bind(
    here: Confined, pod: str, *, node: str = "any", query: str = "", **metadata: object
) -> tuple[int, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.rpartition("/")[2], **metadata},
        "target": {"kind": "Node", "name": node},
    }
    return here.ask(extender(here), "POST", f"{pod}/binding{query}", body)


def test_the_extender_binds_pods_and_none_that_waits_at_a_gate(robbed):
    gated, free = robbed.create_pod(GATE), robbed.create_pod()
    refused, bound = bind(robbed, gated), bind(robbed, free)

    assert bound[0] == 201, bound
    assert (refused[0], "schedulingGates" in refused[1]["message"]) == (409, True), refused
    assert "nodeName" not in robbed.ask("", "GET", gated)[1]["spec"]


@pytest.mark.parametrize("change", [LABEL_CHANGE, LIFT])
def test_the_extender_changes_nothing_of_a_pod(robbed, change):
    pod = robbed.create_pod(GATE)

    assert robbed.ask(extender(robbed), "PATCH", pod, change, JSON_PATCH)[0] == 403


@pytest.mark.parametrize(
    "metadata", [{"labels": {"app": "of-another"}}, {"annotations": {"example.com/device": "1"}}]
)
def test_the_extender_brings_no_labels_or_annotations_by_a_binding(robbed, metadata):
    """The API server copies both to the pod, over those that the pod has."""
    pod = robbed.create_pod()
    refused = bind(robbed, pod, **metadata)

    assert (refused[0], ONLY_THE_NODE in refused[1].get("message", "")) == (403, True), refused
    assert "nodeName" not in robbed.ask("", "GET", pod)[1]["spec"]


def test_the_extender_binds_to_nodes_with_topology_labels(robbed):
    """The API server writes these labels of the node into the Binding, before policies see it."""
    name = f"zoned-{uuid.uuid4().hex[:6]}"
    zone = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    node = {"metadata": {"name": name, "labels": zone}}
    assert robbed.ask("", "POST", "/api/v1/nodes", node)[0] == 201

    def is_labelled() -> bool:
        pod = robbed.create_pod()
        bound = bind(robbed, pod, node=name)
        assert bound[0] == 201, bound
        labels = robbed.ask("", "GET", pod)[1]["metadata"].get("labels", {})
        return zone.items() <= labels.items()

    try:
        until_sync(is_labelled, "the API server knows the node, and labels its pods")
    finally:
        robbed.ask("", "DELETE", f"/api/v1/nodes/{name}")


def test_the_extender_writes_the_status_of_a_pool_and_not_its_capacity(robbed):
    pools = "/apis/bursar.io/v1alpha1/clusterresources"
    name = f"pool-{uuid.uuid4().hex[:6]}"
    pool = {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "ClusterResource",
        "metadata": {"name": name},
        "spec": {"resourceName": f"example.com/{name}", "capacity": 5},
    }
    until_sync(lambda: robbed.ask("", "GET", pools)[0] == 200, "the kind is served")
    assert robbed.ask("", "POST", pools, pool)[0] == 201
    more = {"spec": {"capacity": 500}}
    status = {"status": {"used": "1"}}
    refused = robbed.ask(extender(robbed), "PATCH", f"{pools}/{name}", more, MERGE_PATCH)
    written = robbed.ask(extender(robbed), "PATCH", f"{pools}/{name}/status", status, MERGE_PATCH)
    stored = robbed.ask("", "GET", f"{pools}/{name}")[1]
    robbed.ask("", "DELETE", f"{pools}/{name}")

    assert (refused[0], written[0], stored["spec"]["capacity"]) == (403, 200, 5), written


def write_slice(
    here: Confined, name: str, service: str, query: str = "?dryRun=All"
) -> tuple[int, Any]:
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["198.51.100.1"]}],
        "ports": [{"name": "https", "port": 8443}],
    }
    return here.ask(extender(here), "POST", f"{slices(here)}{query}", body)


def slices(here: Confined) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{here.home}/endpointslices"


def test_the_extender_is_the_endpoint_of_no_other_service(robbed):
    """It has the key of the webhook's certificate: the API server would believe its answers."""
    own, webhook = "bursar-extender", "aaq-server"
    refused = [
        write_slice(robbed, *names)[0] for names in ((own, webhook), ("any", own), ("any", webhook))
    ]
    written = write_slice(robbed, own, own, query="")
    change = {"metadata": {"labels": {"kubernetes.io/service-name": webhook}}}
    changed = robbed.ask(extender(robbed), "PATCH", f"{slices(robbed)}/{own}", change, MERGE_PATCH)

    assert refused == [403] * 3
    assert (written[0], changed[0]) == (201, 403), (written, changed)
    assert ONLY_ITS_SERVICE in changed[1]["message"]


def test_the_extender_invents_no_storage(robbed):
    place = f"/apis/storage.k8s.io/v1/namespaces/{robbed.home}/csistoragecapacities?dryRun=All"
    signal = "bursar-extender-signal"
    codes = {
        (name, storage): robbed.ask(
            *(extender(robbed), "POST", place),
            {"metadata": {"name": name}, "storageClassName": storage, "capacity": "1Ti"},
        )[0]
        for name in (signal, "theirs")
        for storage in (signal, "fast")
    }

    assert codes == {
        (signal, signal): 201,
        (signal, "fast"): 403,
        ("theirs", signal): 403,
        ("theirs", "fast"): 403,
    }


# ------------------------------------------------------------------ the operator


def test_the_operator_removes_the_gate_and_changes_nothing_else_of_a_pod(robbed):
    pod = robbed.create_pod(GATE)
    refused = robbed.ask(operator(robbed), "PATCH", pod, LABEL_CHANGE, JSON_PATCH)
    lifted = robbed.ask(operator(robbed), "PATCH", pod, LIFT, JSON_PATCH)

    assert (refused[0], THE_GATE_ALONE in refused[1]["message"]) == (403, True), refused
    assert lifted[0] == 200, lifted


def test_the_operator_writes_the_quota_of_its_installation_and_no_other(robbed):
    quota = {"metadata": {"name": CRITICAL_PODS}, "spec": {"hard": {"pods": "99"}}}
    ours = f"/api/v1/namespaces/{robbed.home}/resourcequotas/{CRITICAL_PODS}?dryRun=All"
    written = robbed.ask(operator(robbed), "PATCH", ours, quota, MERGE_PATCH)
    refused = [
        robbed.ask(operator(robbed), "POST", robbed.quotas, quota),
        robbed.ask(operator(robbed), "DELETE", robbed.quotas),
    ]

    assert written[0] == 200, written
    assert [code for code, _ in refused] == [403, 403], refused
    assert ONLY_CRITICAL_PODS in refused[0][1]["message"]


def test_the_operator_replaces_the_controller_in_its_namespace_alone(robbed):
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil"}
    deployments = "/apis/apps/v1/namespaces/{}/deployments"
    ours = f"{deployments.format(robbed.home)}/aaq-controller?dryRun=All"
    theirs = f"{deployments.format(robbed.namespace)}/aaq-controller"
    allowed = robbed.ask(operator(robbed), "PATCH", ours, [image], JSON_PATCH)
    others = [
        robbed.ask(operator(robbed), "PATCH", theirs, [image], JSON_PATCH)[0],
        robbed.ask(
            *(operator(robbed), "PATCH", ours.replace("aaq-controller", "other"), [image]),
            JSON_PATCH,
        )[0],
    ]

    assert (allowed[0], others) == (200, [403, 403]), allowed


def test_the_operator_grants_no_rights_that_it_does_not_have(robbed):
    path = f"{RBAC}/clusterroles/aaq-controller"
    before = robbed.ask("", "GET", path)[1]["rules"]
    added = [{"op": "add", "path": "/rules/-", "value": EVERYTHING}]
    widened = robbed.ask(operator(robbed), "PATCH", path, added, JSON_PATCH)
    bound = robbed.ask(
        operator(robbed),
        "PATCH",
        f"{RBAC}/clusterrolebindings/aaq-controller?fieldManager=thief&force=true",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "aaq-controller"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
        },
        APPLY,
    )

    assert widened[0] == 403, widened
    assert "attempting to grant RBAC permissions not currently held" in widened[1]["message"]
    assert bound[0] in {403, 422}, bound
    assert robbed.ask("", "GET", path)[1]["rules"] == before


def test_the_operator_can_lift_the_limits_of_the_controller(robbed):
    """Kubernetes evaluates no policy about policies. The threat model says so."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    nothing = [{"op": "replace", "path": "/spec/validations/0/expression", "value": "true"}]
    tenant = {"kind": "ServiceAccount", "name": "default", "namespace": robbed.namespace}
    subjects = [{"op": "add", "path": "/subjects/-", "value": tenant}]
    codes = [
        robbed.ask(operator(robbed), "PATCH", f"{path}?dryRun=All", change, JSON_PATCH)[0]
        for path, change in (
            (f"{policies}/{CONFINE_PODS}", nothing),
            (f"{RBAC}/clusterrolebindings/aaq-controller", subjects),
            (f"{policies}/{CONFINE_OPERATOR}", nothing),
        )
    ]

    assert codes == [200, 200, 403]
