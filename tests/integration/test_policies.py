"""Pods are gated by policies of the API server alone: no webhook of ours runs in this module."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import OK

import pytest
import yaml

from bursar.app.admission.pods import MAY_NOT_NAME_A_NODE
from bursar.app.install.admission import MAY_NOT_GROW
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from controlplane import ControlPlane
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import wait_for_account
from support.install.printed import printed, printed_objects
from support.processes.command_line import Ran
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import switch_gate_on
from support.until import PATIENCE_SECONDS, until_sync

REMOVAL_DENIED = "Only AAQ controller has permission to remove ApplicationAwareQuotaGate gate"
FOREIGN = "example.com/licence"
ARQ = "applicationawareresourcequotas"
ACRQ = "applicationawareclusterresourcequotas"
AACRQ = "applicationawareappliedclusterresourcequotas"
AAQ = "aaq.kubevirt.io"


@dataclass
class Installation:
    """Bursar's manifests on a real cluster, in a namespace of their own."""

    plane: ControlPlane
    home: str

    @property
    def controller(self) -> str:
        return f"system:serviceaccount:{self.home}:aaq-controller"

    def kubectl(self, *arguments: str, stdin: str = "") -> Ran:
        return try_kubectl(self.plane, *arguments, stdin=stdin)

    def run(self, *arguments: str, stdin: str = "") -> str:
        ran = self.kubectl(*arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran.out

    def create(self, namespace: str, pod: dict, *arguments: str) -> Ran:
        return self.kubectl(
            "create", "-n", namespace, "-f", "-", "-o", "json", *arguments, stdin=json.dumps(pod)
        )

    def gates(self, namespace: str, name: str) -> list[str]:
        pod = json.loads(self.run("get", "pod", "-n", namespace, name, "-o", "json"))
        return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]

    def set_gates(self, namespace: str, name: str, gates: list[str], user: str = "") -> Ran:
        patch = [
            {
                "op": "replace",
                "path": "/spec/schedulingGates",
                "value": [{"name": g} for g in gates],
            }
        ]
        # kubectl reads an object before it patches it, which the controller may not.
        headers = {"Content-Type": "application/json-patch+json"}
        headers |= {"Impersonate-User": user} if user else {}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        status, answer = self.plane.request("PATCH", path, patch, headers)
        if status == OK:
            return Ran(0, "", "")
        refusal = json.loads(answer)
        return Ran(1, "", f"({refusal['reason']}): {refusal['message']}")

    def resize(self, namespace: str, name: str, cpu: str, *arguments: str) -> Ran:
        change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        return self.kubectl(
            *("patch", "pod", "-n", namespace, name, "--subresource=resize"),
            *("-p", json.dumps(change), *arguments),
        )

    def may(self, user: str, verb: str, resource: str, place: str, name: str = "") -> bool:
        """Ask the API server about a `group:resource/subresource`."""
        group, _, rest = resource.rpartition(":")
        plural, _, subresource = rest.partition("/")
        wanted = {"group": group, "resource": plural, "subresource": subresource, "verb": verb}
        review = {
            "spec": {
                "user": user,
                "resourceAttributes": wanted | {"namespace": place, "name": name},
            }
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        code, answer = self.plane.request("POST", path, review)
        assert code == 201
        return json.loads(answer)["status"]["allowed"]


def small_pod(name: str, *gates: str, **spec: object) -> dict:
    return pod_manifest(name, *gates, requests="cpu=1", limits="cpu=4", **spec)


def a_restricted_pod(name: str) -> dict:
    """A pod that Bursar's own namespace accepts: it enforces a Pod Security Standard."""
    pod = small_pod(name, securityContext={"runAsNonRoot": True, "runAsUser": 65532})
    pod["spec"]["securityContext"]["seccompProfile"] = {"type": "RuntimeDefault"}
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod["spec"]["containers"][0]["securityContext"] = rights
    return pod


def missing_definitions(installation: Installation) -> str:
    """Definitions that are not there yet: ours to bring, and so ours to remove."""
    present = installation.run("get", "customresourcedefinitions", "-o", "name")
    absent = [
        definition
        for definition in printed_objects("crds")
        if definition["metadata"]["name"] not in present
    ]
    return yaml.safe_dump_all(absent)


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Installation]:
    home = f"aaq-{uuid.uuid4().hex[:8]}"
    installation = Installation(control_plane, home)
    definitions = missing_definitions(installation)
    rest = printed("rbac", "policies", "-n", home)
    try:
        if definitions.strip():
            installation.run("apply", "-f", "-", stdin=definitions)
        installation.run("apply", "-f", "-", stdin=rest)
        with a_namespace(installation, gated=True) as probe:
            until_sync(lambda: is_refused_a_node(installation, probe), "the policies are known")
            made = installation.create(probe, small_pod("early"))
            assert made.code == 0, made.err
            assert installation.gates(probe, "early") == [], "no controller could lift the gate"
        switch_gate_on(control_plane, home)
        with a_namespace(installation, gated=True) as probe:
            until_sync(lambda: is_active(installation, probe), "the policies became active")
        yield installation
    finally:
        for written in (rest, definitions):
            if written.strip():
                installation.run(
                    *("delete", "--ignore-not-found", "--wait=false", "-f", "-"), stdin=written
                )


def is_active(installation: Installation, namespace: str) -> bool:
    """Each policy, by its own effect; a dry run passes through admission as well."""
    gated = installation.create(namespace, small_pod("probe"), "--dry-run=server")
    # Protection was applied before both of these, and is told apart only by an update.
    return GATE in gated.out and is_refused_a_node(installation, namespace)


def is_refused_a_node(installation: Installation, namespace: str) -> bool:
    bound = installation.create(namespace, small_pod("probe", nodeName="n"), "--dry-run=server")
    return MAY_NOT_NAME_A_NODE in bound.err


@contextmanager
def a_namespace(installation: Installation, *, gated: bool) -> Iterator[str]:
    name = f"policies-{uuid.uuid4().hex[:8]}"
    labels = {GATING_LABEL: ""} if gated else {}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    installation.run("create", "-f", "-", stdin=json.dumps(body))
    try:
        wait_for_account(installation.plane, name)
        yield name
    finally:
        installation.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def gated(installed: Installation) -> Iterator[str]:
    with a_namespace(installed, gated=True) as name:
        yield name


@pytest.fixture
def plain(installed: Installation) -> Iterator[str]:
    with a_namespace(installed, gated=False) as name:
        yield name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), [GATE]),
        ((FOREIGN,), [FOREIGN, GATE]),
        ((GATE,), [GATE]),
        ((GATE, FOREIGN), [GATE, FOREIGN]),
    ],
)
def test_a_new_pod_gets_the_gate_once_and_keeps_foreign_ones(installed, gated, before, after):
    created = installed.create(gated, small_pod("p", *before))

    assert created.code == 0, created.err
    assert installed.gates(gated, "p") == after


def test_a_pod_is_otherwise_left_as_it_was_written(installed, gated, plain):
    """Repeated names are legal in these lists, and merging must not lose them."""
    environment = [{"name": n, "value": v} for n, v in (("A", "1"), ("B", "$(A)"), ("A", "2"))]
    ports = [{"containerPort": 53, "name": n, "protocol": "TCP"} for n in ("one", "two")]
    container = {"name": "c", "image": "i", "env": environment, "ports": ports}
    toleration = {"key": "a", "operator": "Exists"}
    pod = small_pod("p", FOREIGN, containers=[container], tolerations=[toleration, toleration])
    specs = {}
    for namespace in (gated, plain):
        created = installed.create(namespace, pod)
        assert created.code == 0, created.err
        specs[namespace] = json.loads(created.out)["spec"]

    specs[gated]["schedulingGates"].remove({"name": GATE})
    for spec in specs.values():
        volume = spec.pop("volumes")[0]["name"]
        spec["containers"][0]["volumeMounts"] = [
            mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] != volume
        ]
    assert specs[gated] == specs[plain]


def test_other_namespaces_are_untouched(installed, plain):
    free = installed.create(plain, small_pod("free"))
    bound = installed.create(plain, small_pod("bound", nodeName="node-0"))
    held = installed.create(plain, small_pod("held", GATE))
    released = installed.set_gates(plain, "held", [])

    assert [ran.code for ran in (free, bound, held, released)] == [0] * 4
    assert installed.gates(plain, "free") == []


@pytest.mark.parametrize("place", ["kube-system", "home"])
def test_the_system_and_bursar_itself_are_never_gated(installed, place):
    namespace = installed.home if place == "home" else place
    wait_for_account(installed.plane, namespace)
    installed.run("label", "namespace", namespace, f"{GATING_LABEL}=")
    try:
        created = installed.create(namespace, a_restricted_pod("vital"))
        gates = installed.gates(namespace, "vital")
    finally:
        installed.run("label", "namespace", namespace, f"{GATING_LABEL}-")
        installed.kubectl("delete", "pod", "-n", namespace, "vital", "--now")

    assert created.code == 0
    assert gates == []


def test_nobody_but_the_controller_removes_the_gate(installed, gated):
    installed.run(
        *("create", "rolebinding", "-n", gated, "tenant", "--clusterrole=admin", "--user=tenant")
    )
    installed.create(gated, small_pod("p", FOREIGN))
    until_sync(
        lambda: installed.may("tenant", "patch", "pods", gated), "the tenant became administrator"
    )
    by_tenant = installed.set_gates(gated, "p", [FOREIGN], "tenant")
    by_administrator = installed.set_gates(gated, "p", [])
    elsewhere = f"system:serviceaccount:{gated}:aaq-controller"
    installed.run(
        *("create", "rolebinding", "-n", gated, "namesake", "--clusterrole=admin"),
        f"--serviceaccount={gated}:aaq-controller",
    )
    until_sync(lambda: installed.may(elsewhere, "patch", "pods", gated), "the namesake may patch")
    by_namesake = installed.set_gates(gated, "p", [FOREIGN], elsewhere)

    for refused in (by_tenant, by_administrator, by_namesake):
        assert refused.code == 1
        assert f"denied request: {REMOVAL_DENIED} from pods" in refused.err
        assert "(Forbidden)" in refused.err
    assert installed.gates(gated, "p") == [FOREIGN, GATE]


def test_anybody_removes_foreign_gates_and_changes_other_things(installed, gated):
    installed.create(gated, small_pod("p", FOREIGN))
    removed = installed.set_gates(gated, "p", [GATE])
    labelled = installed.kubectl("label", "pod", "-n", gated, "p", "team=a")

    assert (removed.code, labelled.code) == (0, 0)
    assert installed.gates(gated, "p") == [GATE]


def test_the_controller_releases_with_no_more_than_its_own_rights(installed, gated):
    installed.create(gated, small_pod("p"))
    released = installed.set_gates(gated, "p", [], installed.controller)

    assert released.code == 0, released.err
    installed.run(
        "wait", "-n", gated, "--for=condition=Ready", "pod/p", f"--timeout={PATIENCE_SECONDS}s"
    )


def test_a_namespace_that_leaves_the_selection_is_no_longer_protected(installed, gated):
    installed.create(gated, small_pod("p"))
    refused = installed.set_gates(gated, "p", [])
    installed.run("label", "namespace", gated, f"{GATING_LABEL}-")
    until_sync(lambda: installed.set_gates(gated, "p", []).code == 0, "the gate could be removed")

    assert refused.code == 1
    assert installed.gates(gated, "p") == []


def test_a_pod_that_names_its_node_is_refused_with_the_way_out(installed, gated):
    refused = installed.create(gated, small_pod("p", nodeName="node-0"))

    assert refused.code == 1
    assert f"denied request: {MAY_NOT_NAME_A_NODE}" in refused.err


def test_a_kubelet_may_report_its_static_pods_and_nobody_else_may_pretend_to(installed, gated):
    node = "system:node:node-0"
    installed.run(
        *("create", "rolebinding", "-n", gated, "kubelet", "--clusterrole=edit", f"--user={node}")
    )
    until_sync(lambda: installed.may(node, "create", "pods", gated), "the node may create pods")
    mirror = small_pod("static", nodeName="node-0")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "abc"}
    pretended = installed.create(gated, mirror)
    reported = installed.create(gated, mirror, f"--as={node}", "--as-group=system:nodes")

    assert MAY_NOT_NAME_A_NODE in pretended.err
    assert reported.code == 0, reported.err
    assert installed.gates(gated, "static") == []


def test_the_pods_of_a_deployment_wait_at_the_gate(installed, gated):
    installed.run("create", "deployment", "-n", gated, "web", "--image=i", "--replicas=3")

    def pods() -> list[dict]:
        return json.loads(installed.run("get", "pods", "-n", gated, "-o", "json"))["items"]

    until_sync(lambda: len(pods()) == 3, "the replicas were made")
    until_sync(
        lambda: all(p["status"]["conditions"][0]["reason"] == "SchedulingGated" for p in pods()),
        "the replicas wait at the gate",
    )

    assert {tuple(g["name"] for g in p["spec"]["schedulingGates"]) for p in pods()} == {(GATE,)}


def test_running_pods_may_shrink_and_gated_pods_may_grow(installed, gated):
    """A pod that no node suits stays without one, so that no kubelet has a say in its size."""
    installed.create(gated, small_pod("p", nodeSelector={"no": "such-node"}))
    while_gated = installed.resize(gated, "p", "2")
    installed.set_gates(gated, "p", [], installed.controller)

    grown = installed.resize(gated, "p", "3")
    equal = installed.resize(gated, "p", "2")
    shrunk = installed.resize(gated, "p", "1500m")
    again = installed.resize(gated, "p", "1501m")

    assert [ran.code for ran in (while_gated, equal, shrunk)] == [0] * 3
    for refused in (grown, again):
        assert MAY_NOT_GROW in refused.err


def test_only_one_configuration_can_exist(installed):
    def configuration(name: str) -> Ran:
        body = {"apiVersion": f"{AAQ}/v1alpha1", "kind": "AAQ", "metadata": {"name": name}}
        return installed.kubectl("create", "-f", "-", stdin=json.dumps(body | {"spec": {}}))

    until_sync(lambda: configuration("first").code == 0, "a first one was accepted")
    try:
        until_sync(
            lambda: "only a single AAQ CR instance is allowed" in configuration("second").err,
            "a second one was refused",
        )
    finally:
        installed.run("delete", "aaqs", "first", "second", "--ignore-not-found")


def test_the_api_server_accepts_the_webhooks_of_the_same_settings(installed):
    text = printed("webhooks", "-n", installed.home, "--configuration-exists")
    accepted = installed.run("apply", "--dry-run=server", "-o", "name", "-f", "-", stdin=text)

    assert [name.rpartition("/")[2] for name in accepted.split()] == [
        "gating-mutator",
        "aaq-validator",
        *(["keep-scope.bursar.io"] * 2),
        *(["keep-cluster-scope.bursar.io"] * 2),
        *(["limit-waiting-pods.bursar.io"] * 2),
    ]


def test_the_api_server_has_no_complaint_about_the_expressions(installed):
    def checked() -> list[dict]:
        listed = json.loads(installed.run("get", "validatingadmissionpolicies", "-o", "json"))
        ours = [p for p in listed["items"] if p["metadata"]["name"].endswith(".bursar.io")]
        return [p["status"]["typeChecking"] for p in ours if "typeChecking" in p.get("status", {})]

    wanted = printed("rbac", "policies").count("\nkind: ValidatingAdmissionPolicy\n")
    until_sync(lambda: len(checked()) == wanted, "the expressions were checked")

    assert checked() == [{}] * wanted


@pytest.mark.parametrize(
    "allowed",
    [
        "aaq-controller: list watch patch pods",
        "aaq-controller: list watch namespaces",
        "aaq-controller: list watch create patch delete resourcequotas",
        f"aaq-controller: list watch {AAQ}:{ARQ}",
        f"aaq-controller: patch {AAQ}:{ARQ}/status",
        f"aaq-controller: list watch {AAQ}:{ACRQ}",
        f"aaq-controller: patch {AAQ}:{ACRQ}/status",
        f"aaq-controller: list watch create patch delete {AAQ}:{AACRQ}",
        "aaq-controller: create patch events.k8s.io:events",
        "aaq-controller: create authentication.k8s.io:tokenreviews",
        "aaq-controller: get patch create coordination.k8s.io:leases @home",
        "aaq-server: create resourcequotas",
        "aaq-server: get coordination.k8s.io:leases @home",
    ],
)
def test_an_account_may_do_what_it_needs(installed, allowed):
    assert set(answers(installed, allowed)) == {True}


@pytest.mark.parametrize(
    "forbidden",
    [
        "aaq-controller: create update delete deletecollection pods",
        "aaq-controller: get pods",
        f"aaq-controller: get update {AAQ}:{AACRQ}",
        "aaq-controller: get create pods/exec",
        "aaq-controller: create pods/binding",
        "aaq-controller: get list watch create secrets",
        "aaq-controller: get list secrets @home",
        "aaq-controller: get list configmaps",
        "aaq-controller: get list patch nodes",
        "aaq-controller: create update patch delete namespaces",
        f"aaq-controller: create update patch delete {AAQ}:{ARQ}",
        f"aaq-controller: create update patch delete {AAQ}:{ACRQ}",
        "aaq-controller: get list apiextensions.k8s.io:customresourcedefinitions",
        "aaq-controller: get create patch coordination.k8s.io:leases",
        "aaq-controller: delete coordination.k8s.io:leases @home",
        "aaq-controller: create serviceaccounts/token @home",
        "aaq-server: get list update patch delete resourcequotas",
        "aaq-server: get list create patch pods",
        "aaq-server: get list secrets @home",
        "aaq-server: create serviceaccounts/token @home",
        "aaq-server: create patch coordination.k8s.io:leases @home",
    ],
)
def test_an_account_may_do_nothing_else(installed, forbidden):
    assert set(answers(installed, forbidden)) == {False}


def answers(installed: Installation, question: str) -> list[bool]:
    """`account: verbs group:resource/subresource`, in any namespace or `@home`, in its own."""
    account, *words = question.split()
    place = installed.home if words[-1] == "@home" else "default"
    *verbs, resource = [word for word in words if word != "@home"]
    user = f"system:serviceaccount:{installed.home}:{account.rstrip(':')}"
    return [installed.may(user, verb, resource, place, "aaq-controller") for verb in verbs]


def test_tenants_read_their_quotas_and_only_appointed_ones_write_them(installed, gated):
    for user, role in (("ada", "view"), ("bob", "admin"), ("eve", "aaq-quota-editor")):
        installed.run(
            *("create", "rolebinding", "-n", gated, user, f"--clusterrole={role}", f"--user={user}")
        )
    for user in ("ada", "bob", "eve"):
        until_sync(
            lambda user=user: installed.may(user, "list", f"{AAQ}:{ARQ}", gated),
            f"{user} may read",
        )
    until_sync(
        lambda: installed.may("ada", "get", f"{AAQ}:{AACRQ}", gated), "ada sees applied quotas"
    )
    writers = [
        user
        for user in ("ada", "bob", "eve")
        if installed.may(user, "patch", f"{AAQ}:{ARQ}", gated)
    ]
    cheats = [
        user
        for user in ("ada", "bob", "eve")
        for resource in (f"{ARQ}/status", AACRQ)
        if installed.may(user, "patch", f"{AAQ}:{resource}", gated)
    ]

    assert (writers, cheats) == (["eve"], [])
