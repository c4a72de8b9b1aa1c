"""`bursar webhook` behind a real API server: the rows of AAQ's tests, and what AAQ got wrong."""

import asyncio
import base64
import json
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from assets import ROOT
from bursar.app.admission.pods import MAY_NOT_NAME_A_NODE, MAY_NOT_REMOVE
from controlplane import ControlPlane
from support.builders.reviews import ACRQ, ARQ, GATE, put_pair, raw_pod
from support.cluster.control_plane import RESIZE, needs_kubernetes, wait_for_account
from support.http_peer import connected
from support.processes.command_line import Ran
from support.processes.kubectl import try_kubectl
from support.processes.webhook import Webhook, gate_once, shown_certificate
from support.until import until, until_sync

GROUP = "aaq.kubevirt.io"
PLURALS = {ARQ: f"{ARQ.lower()}s", ACRQ: f"{ACRQ.lower()}s", "AAQ": "aaqs"}
ILLEGAL_NAME = (
    "[spec.hard[illegalName]: Invalid value: illegalName: must be a standard resource type or "
    "fully qualified, spec.hard[illegalName]: Invalid value: illegalName: must be a standard "
    "resource for quota]"
)
"""What the API server says to a ResourceQuota, without quotation marks: 1.32 omits some of them."""


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Webhook
    home: str
    namespace: str
    ending: str
    """A namespace to be deleted."""

    @property
    def controller(self) -> str:
        return f"system:serviceaccount:{self.home}:aaq-controller"

    def kubectl(self, *arguments: str, stdin: object = None) -> Ran:
        text = json.dumps(stdin) if stdin is not None else ""
        return try_kubectl(self.plane, *arguments, stdin=text)

    def post(self, path: str, body: object) -> tuple[int, dict]:
        code, answer = self.plane.request("POST", path, body)
        return code, json.loads(answer)

    def create_pod(self, *gates: str, namespace: str = "", **more: str) -> tuple[int, dict]:
        pod = raw_pod(*gates, **more)
        pod["metadata"] = {"generateName": "p-"}
        # Nowhere to go, so that a pod without a gate stays as it is.
        pod["spec"]["nodeSelector"] = {"bursar-test/nowhere": "true"}
        return self.post(f"/api/v1/namespaces/{namespace or self.namespace}/pods", pod)

    def create_quota(self, hard: dict, **spec: object) -> tuple[int, dict]:
        return self.post(quotas_of(self.namespace), custom(ARQ, {"hard": hard, **spec}))

    def create_cluster_quota(self, hard: dict) -> tuple[int, dict]:
        spec = {"quota": {"hard": hard}, "selector": {"labels": None, "annotations": None}}
        path = f"/apis/{GROUP}/v1alpha1/{PLURALS[ACRQ]}?dryRun=All"
        return self.post(path, custom(ACRQ, spec, self.namespace))

    def set_gates(self, pod: dict, *gates: str, user: str = "") -> subprocess.CompletedProcess[str]:
        value = [{"name": gate} for gate in gates]
        patch = [{"op": "replace", "path": "/spec/schedulingGates", "value": value}]
        who = [f"--as={user}", "--as-group=system:masters"] if user else []
        name = pod["metadata"]["name"]
        return self.kubectl(
            *("patch", "pod", "-n", self.namespace, name, "--type=json"),
            *("-p", json.dumps(patch), *who),
        )

    def resize(self, pod: dict, cpu: str) -> subprocess.CompletedProcess[str]:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        change = json.dumps({"spec": {"containers": [container]}})
        return self.kubectl(
            *("patch", "pod", "-n", self.namespace, pod["metadata"]["name"]),
            *("--subresource=resize", "-p", change),
        )


def quotas_of(namespace: str) -> str:
    return f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{PLURALS[ARQ]}"


def custom(kind: str, spec: object, label: str = "") -> dict:
    metadata = {"generateName": "q-", "labels": {"bursar-test": label} if label else {}}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def gates_of(pod: dict) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def configurations(webhook: Webhook, namespace: str, *others: str) -> list[dict]:
    """As AAQ's operator would register the server, but for the namespaces of this test only."""
    bundle = base64.b64encode(webhook.authority.certificate.read_bytes()).decode()
    gated = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": [namespace, *others, "kube-system"],
    }

    def hook(name: str, operations: list[str], resource: str, **more: object) -> dict:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}
        return {
            "name": name,
            "rules": [{**rule, "operations": operations}],
            "clientConfig": {"url": f"{webhook.url}/serve-path", "caBundle": bundle},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
            **more,
        }

    here = {"namespaceSelector": {"matchExpressions": [gated]}}
    labelled = {"objectSelector": {"matchLabels": {"bursar-test": namespace}}}
    both = ["CREATE", "UPDATE"]
    mutating = [hook("gater.cqo.kubevirt.io", ["CREATE"], "pods", **here)]
    validating = [
        hook("application.resource.quota.validator", both, PLURALS[ARQ], **here),
        hook("remove.pod.gate.validator", ["UPDATE"], "pods", **here),
        hook("resize.pod.quota.validator", ["UPDATE"], "pods/resize", **here),
        hook("aaq.cr.validator", ["CREATE"], PLURALS["AAQ"], **labelled),
        hook("cluster.apps.resource.quota.validator", both, PLURALS[ACRQ], **labelled),
    ]
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{sort}WebhookConfiguration",
            "metadata": {"name": f"{namespace}-{sort.lower()}"},
            "webhooks": hooks,
        }
        for sort, hooks in (("Mutating", mutating), ("Validating", validating))
    ]


@pytest.fixture(scope="module")
def scene(control_plane, tmp_path_factory) -> Iterator[Scene]:
    mark = uuid.uuid4().hex[:8]
    home, namespace, ending = (f"{sort}-{mark}" for sort in ("home", "hook", "ending"))
    webhook = Webhook(control_plane, tmp_path_factory.mktemp("webhook"), home)
    made = Scene(control_plane, webhook, home, namespace, ending)
    applied = made.kubectl("apply", "--server-side", "-f", str(ROOT / "api" / "crds"))
    assert applied.code == 0, applied.err
    names = [f"crd/{plural}.{GROUP}" for plural in PLURALS.values()]
    made.kubectl("wait", "--for=condition=Established", "--timeout=120s", *names)
    for each in (home, namespace, ending):
        assert made.kubectl("create", "namespace", each).code == 0
        wait_for_account(control_plane, each)
    webhook.program.start()
    registered = {"apiVersion": "v1", "kind": "List"}
    registered["items"] = configurations(webhook, namespace, home, ending)
    try:
        webhook.program.wait_ready()
        assert made.kubectl("create", "-f", "-", stdin=registered).code == 0
        wait_until_gated(made)
        yield made
    finally:
        made.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=registered)
        webhook.program.stop()
        made.kubectl("delete", "namespace", "--wait=false", home, namespace, ending)


def wait_until_gated(scene: Scene) -> None:
    """API servers learn of a new webhook after a moment."""

    def is_gated() -> bool:
        code, pod = scene.create_pod()
        assert code == 201, pod
        return gates_of(pod) == [GATE]

    until_sync(is_gated, "a pod is gated")


# ------------------------------------------------------------------ quotas


def unquoted(message: str) -> str:
    return message.replace('"', "")


def test_e_srv_01_an_empty_quota_is_accepted(scene):
    assert scene.create_quota({})[0] == 201


def test_e_srv_02_an_illegal_name_is_refused(scene):
    code, status = scene.create_quota({"illegalName": "1"})

    assert code == 403
    assert unquoted(status["message"]) == (
        f"admission webhook application.resource.quota.validator denied the request: {ILLEGAL_NAME}"
    )


def test_e_srv_03_limits_of_memory_alone_are_accepted(scene):
    assert scene.create_quota({"limits.memory": "1Gi"})[0] == 201


def test_e_srv_04_limits_of_memory_and_cpu_are_accepted(scene):
    assert scene.create_quota({"limits.memory": "1Gi", "limits.cpu": "2"})[0] == 201


def test_e_srv_06_a_second_aaq_is_refused(scene):
    path = f"/apis/{GROUP}/v1alpha1/aaqs?dryRun=All"

    code, status = scene.post(path, custom("AAQ", {}, scene.namespace))

    assert code == 403
    assert "only a single AAQ CR instance is allowed" in status["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"scopes": ["NoSuchScope"]},
        {"scopes": ["Terminating", "NotTerminating"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
    ],
)
def test_scopes_are_judged_by_the_rules_of_a_resource_quota(scene, spec):
    code, status = scene.create_quota({"pods": "1"}, **spec)

    assert code == 403
    assert "spec.scope" in status["message"]
    assert "aaq-validating" not in status["message"]


def test_u_hnd_05_a_quota_may_be_changed_and_is_checked_again(scene):
    _, quota = scene.create_quota({"cpu": "1"})
    path = f"{quotas_of(scene.namespace)}/{quota['metadata']['name']}"
    quota["spec"]["hard"] = {"cpu": "2"}

    code, answer = scene.plane.request("PUT", path, quota)
    assert code == 200
    changed = json.loads(answer)
    changed["spec"]["hard"] = {"illegalName": "2"}
    code, answer = scene.plane.request("PUT", path, changed)

    assert code == 403
    assert ILLEGAL_NAME in unquoted(json.loads(answer)["message"])


def test_a_quota_in_a_namespace_that_is_being_deleted_can_be_let_go(scene):
    """Nothing can be created there, not even in a dry run, so no new spec can be checked."""
    quota = custom(ARQ, {"hard": {"cpu": "1"}})
    quota["metadata"]["finalizers"] = ["bursar.test/hold"]
    code, quota = scene.post(quotas_of(scene.ending), quota)
    assert code == 201
    path = f"{quotas_of(scene.ending)}/{quota['metadata']['name']}"
    scene.kubectl("delete", "namespace", "--wait=false", scene.ending)
    scene.kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "-n", scene.ending, ARQ)
    quota = json.loads(scene.plane.request("GET", path)[1])
    larger = {**quota, "spec": {"hard": {"cpu": "2"}}}
    released = {**quota, "metadata": {**quota["metadata"], "finalizers": []}}

    refused, _ = scene.plane.request("PUT", path, larger)
    accepted, _ = scene.plane.request("PUT", path, released)

    assert (refused, accepted) == (403, 200)
    gone = scene.kubectl("wait", "--for=delete", f"namespace/{scene.ending}", "--timeout=120s")
    assert gone.code == 0, gone.err


def test_nothing_is_left_of_the_checks(scene):
    scene.create_quota({"cpu": "1"})

    _, listed = scene.plane.request("GET", f"/api/v1/namespaces/{scene.namespace}/resourcequotas")

    assert json.loads(listed)["items"] == []


def test_an_unknown_order_is_accepted_with_a_warning(scene):
    quota = custom(ARQ, {"hard": {"cpu": "1"}})
    quota["metadata"]["annotations"] = {"bursar.io/order": "lottery"}

    created = scene.kubectl("create", "-n", scene.namespace, "-f", "-", stdin=quota)

    assert created.code == 0
    assert "Warning: annotation bursar.io/order has an unknown value" in created.err


def test_a_cluster_wide_quota_cannot_limit_services(scene):
    code, status = scene.create_cluster_quota({"services": "1", "cpu": "1", "count/pods": "1"})

    assert code == 403
    assert status["message"].endswith("non scheduable resources :[count/pods services]")


def test_a_cluster_wide_quota_may_limit_machines(scene):
    assert scene.create_cluster_quota({"cpu/vmi": "1", "requests.memory/vmi": "1Gi"})[0] == 201


def test_a_cluster_wide_quota_with_an_illegal_name_is_refused(scene):
    code, status = scene.create_cluster_quota({"illegalName": "1"})

    assert code == 403
    assert ILLEGAL_NAME in unquoted(status["message"])


# ------------------------------------------------------------------ the gate


def test_u_hnd_01_a_new_pod_is_gated(scene):
    code, pod = scene.create_pod()

    assert (code, gates_of(pod)) == (201, [GATE])


def test_e_srv_05_foreign_gates_stay_beside_ours(scene):
    code, pod = scene.create_pod("testSg")

    assert (code, gates_of(pod)) == (201, ["testSg", GATE])


def test_a_pod_that_has_the_gate_already_is_accepted(scene):
    """Backups and copied manifests contain it; AAQ adds a second one, which is invalid."""
    code, pod = scene.create_pod(GATE)

    assert (code, gates_of(pod)) == (201, [GATE])


def test_a_pod_that_names_its_node_is_refused_and_told_what_to_do(scene):
    code, status = scene.create_pod(node="node-0")

    assert code == 403
    assert status["message"].endswith(MAY_NOT_NAME_A_NODE)


@pytest.mark.parametrize("place", ["kube-system", "home"])
def test_pods_of_the_cluster_and_of_bursar_are_never_gated(scene, place):
    namespace = scene.home if place == "home" else place

    code, pod = scene.create_pod(namespace=namespace)

    assert (code, gates_of(pod)) == (201, [])
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    scene.plane.request("DELETE", path, {"gracePeriodSeconds": 0})


def test_e_arq_20_a_user_may_remove_foreign_gates_but_not_ours(scene):
    _, pod = scene.create_pod("testGate")

    removed_all = scene.set_gates(pod)
    removed_foreign = scene.set_gates(pod, GATE)

    assert removed_all.code == 1
    assert f"denied the request: {MAY_NOT_REMOVE}" in removed_all.err
    assert removed_foreign.code == 0


def test_u_hnd_03_another_service_account_does_not_lift_the_gate(scene):
    _, pod = scene.create_pod()

    removed = scene.set_gates(pod, user=f"system:serviceaccount:{scene.home}:default")

    assert removed.code == 1
    assert MAY_NOT_REMOVE in removed.err


def test_u_hnd_02_the_controller_lifts_the_gate(scene):
    _, pod = scene.create_pod()

    assert scene.set_gates(pod, user=scene.controller).code == 0


# ------------------------------------------------------------------ resizes


@needs_kubernetes(RESIZE)
def test_a_pod_may_shrink_but_not_grow_while_nobody_leads(scene):
    _, pod = scene.create_pod(cpu="2")
    assert scene.set_gates(pod, user=scene.controller).code == 0

    shrunk, grown = scene.resize(pod, "1"), scene.resize(pod, "3")

    assert shrunk.code == 0, shrunk.err
    assert grown.code == 1
    assert "Pod resize could not be checked against quotas: the lease" in grown.err


# ------------------------------------------------------------------ certificates


async def test_certificates_are_replaced_under_load_without_a_failed_request(scene):
    webhook, ended = scene.webhook, asyncio.Event()
    counts = {"kept": 0, "fresh": 0, "api": 0}

    async def load(sort: str, *, force_close: bool) -> None:
        trust = webhook.trust()
        while not ended.is_set():
            async with connected(webhook.port, trust) as peer:
                while not ended.is_set():
                    assert await gate_once(peer)
                    counts[sort] += 1
                    if force_close:
                        break

    async def through_the_api_server() -> None:
        path = f"/api/v1/namespaces/{scene.namespace}/pods?dryRun=All"
        while not ended.is_set():
            pod = raw_pod()
            code, answer = await asyncio.to_thread(scene.plane.request, "POST", path, pod)
            assert (code, gates_of(json.loads(answer))) == (201, [GATE])
            counts["api"] += 1

    async def rotate() -> int:
        seen = {await shown_certificate(webhook)}
        try:
            for number in range(3):
                put_pair(webhook.folder, webhook.authority.server(f"webhook-{number}"))
                known = len(seen)

                async def is_new() -> bool:
                    seen.add(await shown_certificate(webhook))
                    return len(seen) > known  # noqa: B023 - called in this round only

                await until(is_new, "a new certificate is shown")
            await until(lambda: min(counts.values()) > 0, lambda: f"every load is served: {counts}")
        finally:
            ended.set()
        return len(seen)

    seen, *_ = await asyncio.gather(
        rotate(),
        load("kept", force_close=False),
        load("fresh", force_close=True),
        through_the_api_server(),
    )

    assert seen == 4
