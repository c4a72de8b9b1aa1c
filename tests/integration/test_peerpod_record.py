"""What is written on a peer pod stays as it was: a tenant's tries, on a real API server.

The webhook is a process of its own, as in a cluster. Without the policies every way that is
tried here does lead to the annotations; that is tried as well, so that none is closed in vain.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.app.install.peerpods import POLICY
from bursar.app.install.policies.peerpod_protection import (
    MAY_NOT_BIND,
    MAY_NOT_CHANGE,
    ONLY_ON_PEER_PODS,
    ONLY_WHAT_WAS_REMOVED,
    PROTECTED,
)
from bursar.app.names import PEER_POD_WEBHOOKS
from controlplane import ControlPlane
from support.builders.peer_pods import KATA, ONE_VM, RECORD, VM, main, remove_protection
from support.cluster.control_plane import wait_for_account
from support.install.printed import printed
from support.processes.kubectl import kubectl, try_kubectl
from support.processes.webhook import Webhook
from support.until import until_sync

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
VCPUS = f"{KATA}default_vcpus"
FORGED = json.dumps(
    {
        "v": "1",
        "containers": [
            {
                "name": "c",
                "kind": "container",
                "requests": {"cpu": "1m", "memory": "1"},
                "limits": {"cpu": "1m", "memory": "1"},
            }
        ],
    }
)
LARGE = main("cpu=64 memory=256Gi", "cpu=64 memory=256Gi", name="c")


@dataclass
class Scene:
    plane: ControlPlane
    namespace: str
    kata: str
    """A class of peer pods of our own, so that nobody else is affected."""
    other: str

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        code, answer = self.plane.request(method, path, body)
        return code, json.loads(answer)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        code, answer = self.ask(method, path, body)
        assert code < 300, answer
        return answer

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pod(self, *containers: dict[str, Any], record: str = "", **spec: Any) -> dict[str, Any]:
        nowhere = {"bursar-test/nowhere": "true"}
        return {
            "metadata": {
                "generateName": "p-",
                "annotations": {"example.com/own": "1", **({RECORD: record} if record else {})},
            },
            "spec": {
                "runtimeClassName": self.kata,
                "nodeSelector": nowhere,
                "containers": list(containers),
                **spec,
            },
        }

    def create(self, *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return self.call("POST", self.pods, self.pod(*containers, **fields))

    def refused(self, *containers: dict[str, Any], **fields: Any) -> str:
        code, answer = self.ask("POST", f"{self.pods}?dryRun=All", self.pod(*containers, **fields))
        return answer["message"] if code >= 400 else ""

    def annotate(
        self, pod: dict[str, Any], place: str, changes: dict[str, str | None]
    ) -> tuple[int, str]:
        """Try to replace the pod by itself with other annotations, at a subresource or without."""
        path = f"{self.pods}/{pod['metadata']['name']}"
        now = self.call("GET", path)
        del now["metadata"]["resourceVersion"]  # the scheduler writes to it as well
        wanted = {**now["metadata"].get("annotations", {}), **changes}
        kept = {key: text for key, text in wanted.items() if text is not None}
        body = {**now, "metadata": {**now["metadata"], "annotations": kept}}
        code, answer = self.ask("PUT", f"{path}/{place}".rstrip("/"), body)
        return code, answer.get("message", "")

    def annotations(self, pod: dict[str, Any]) -> dict[str, str]:
        return self.call("GET", f"{self.pods}/{pod['metadata']['name']}")["metadata"]["annotations"]

    def bind(
        self, pod: dict[str, Any], annotations: dict[str, str], *, is_legacy: bool = False
    ) -> tuple[int, str]:
        """Send it to a node, on either of two ways."""
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{self.namespace}/bindings"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations},
            "target": {"kind": "Node", "name": "nowhere"},
        }
        code, answer = self.ask(
            "POST", path if is_legacy else f"{self.pods}/{name}/binding", binding
        )
        return code, answer.get("message", "")

    def apply(self, *arguments: str) -> None:
        kubectl(self.plane, "apply", "-f", "-", stdin=printed("peerpods", *arguments))

    def remove(self) -> None:
        remove_protection(self.plane)
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            self.plane.request("DELETE", f"{ADMISSION}/{kind}/{POLICY}")
        self.plane.request(
            "DELETE", f"{ADMISSION}/mutatingwebhookconfigurations/{PEER_POD_WEBHOOKS}"
        )


def a_scene(plane: ControlPlane) -> Scene:
    token = uuid.uuid4().hex[:6]
    scene = Scene(plane, f"record-{token}", f"kata-{token}", f"other-{token}")
    scene.call("POST", "/api/v1/namespaces", {"metadata": {"name": scene.namespace}})
    scene.call("POST", CLASSES, {"metadata": {"name": scene.other}, "handler": "other"})
    wait_for_account(plane, scene.namespace)
    return scene


def remove_scene(scene: Scene) -> None:
    scene.remove()
    for name in (scene.kata, scene.other):
        scene.plane.request("DELETE", f"{CLASSES}/{name}")
    scene.plane.request("DELETE", f"/api/v1/namespaces/{scene.namespace}")


@pytest.fixture(scope="module")
def scene(control_plane, tmp_path_factory) -> Iterator[Scene]:
    scene = a_scene(control_plane)
    folder = tmp_path_factory.mktemp("record")
    webhook = Webhook(control_plane, folder, "elsewhere", "--runtime-class", scene.kata)
    try:
        webhook.program.start()
        webhook.program.wait_ready()
        scene.apply(
            *("--runtime-class", scene.kata, "-n", "elsewhere", "--url", webhook.url),
            *("--ca-bundle", str(webhook.authority.certificate)),
        )
        until_sync(lambda: is_protected(scene), "webhook and policies are in force")
        yield scene
    finally:
        remove_scene(scene)
        webhook.program.stop()


def is_protected(scene: Scene) -> bool:
    """Policies come into force one by one, a moment after they were stored."""
    pod = scene.create(LARGE)
    return (
        VM in json.dumps(pod["spec"])
        and scene.annotate(pod, "", {VCPUS: "1"})[0] == 403
        and scene.bind(pod, {RECORD: ""})[0] == 403
        and bool(scene.refused(LARGE, record="{}", runtimeClassName=None))
    )


# ------------------------------------------------------------------ a pod that exists


def test_what_was_rewritten_is_on_the_pod(scene):
    pod = scene.create(LARGE)

    assert pod["spec"]["containers"][0]["resources"] == ONE_VM
    assert pod["metadata"]["annotations"][VCPUS] == "64"
    assert '"cpu":"64"' in pod["metadata"]["annotations"][RECORD]


@pytest.mark.parametrize("place", ["", "status"])
def test_annotations_of_other_pods_can_be_changed_even_through_their_status(scene, place):
    """Why the status has to be watched: it is not about the status alone."""
    pod = scene.create(LARGE, runtimeClassName=scene.other)

    assert scene.annotate(pod, place, {VCPUS: "1"})[0] == 200
    assert scene.annotations(pod)[VCPUS] == "1"


@pytest.mark.parametrize("place", ["", "status"])
@pytest.mark.parametrize("key", PROTECTED)
@pytest.mark.parametrize("text", ["1", FORGED, None])
def test_nobody_changes_adds_or_removes_what_is_written_on_a_peer_pod(scene, place, key, text):
    own = {"machine_type": "m5.large", "default_gpus": "2", "default_gpu_model": "h100"}
    body = scene.pod(LARGE)
    if text is None:
        body["metadata"]["annotations"] |= {KATA + name: value for name, value in own.items()}
    pod = scene.call("POST", scene.pods, body)
    before = scene.annotations(pod)
    code, message = scene.annotate(pod, place, {key: text})

    assert code == 403
    assert f"{MAY_NOT_CHANGE}: {key}" in message
    assert scene.annotations(pod) == before


@pytest.mark.parametrize("place", ["resize", "ephemeralcontainers"])
def test_other_ways_to_a_pod_do_not_lead_to_its_annotations(scene, place):
    pod = scene.create(LARGE)
    before = scene.annotations(pod)
    scene.annotate(pod, place, {RECORD: FORGED, VCPUS: None})

    assert scene.annotations(pod) == before


@pytest.mark.parametrize("place", ["", "status"])
def test_everything_else_on_a_peer_pod_can_be_changed(scene, place):
    pod = scene.create(LARGE)

    assert scene.annotate(pod, place, {"example.com/own": None, "example.com/new": "2"})[0] == 200
    assert scene.annotations(pod)["example.com/new"] == "2"


def test_the_message_names_all_that_differs_and_what_to_do(scene):
    pod = scene.create(LARGE)
    ran = try_kubectl(
        scene.plane,
        *("annotate", "pod", "-n", scene.namespace, pod["metadata"]["name"], "--overwrite"),
        *(f"{RECORD}={FORGED}", f"{VCPUS}=1"),
    )

    assert ran.code == 1
    assert f"{MAY_NOT_CHANGE}: {RECORD}, {VCPUS}" in ran.err


# ------------------------------------------------------------------ bindings


@pytest.mark.parametrize("is_legacy", [False, True])
def test_a_binding_brings_annotations_but_not_these(scene, is_legacy):
    for key in PROTECTED:
        pod = scene.create(LARGE)
        code, message = scene.bind(pod, {key: "1"}, is_legacy=is_legacy)
        assert (code, MAY_NOT_BIND in message) == (403, True)

    assert scene.bind(pod, {"example.com/bound": "1"}, is_legacy=is_legacy)[0] == 201
    assert scene.annotations(pod)["example.com/bound"] == "1"


# ------------------------------------------------------------------ a pod that is created


def test_a_record_on_a_pod_of_another_class_is_denied(scene):
    for name in (None, scene.other):
        assert ONLY_ON_PEER_PODS in scene.refused(LARGE, record=FORGED, runtimeClassName=name)


def test_a_forged_record_is_dropped_where_no_vm_is_asked_for(scene):
    pod = scene.create(LARGE, record=FORGED)

    assert pod["metadata"]["annotations"][VCPUS] == "64"
    assert '"cpu":"64"' in pod["metadata"]["annotations"][RECORD]


def test_who_forges_a_record_gets_the_vm_that_he_pays_for(scene):
    """It is as if the container had asked for that in the first place."""
    sides = f"cpu=64 memory=256Gi {VM}=1"
    pod = scene.create(main(sides, sides, name="c"), record=FORGED)
    annotations = pod["metadata"]["annotations"]
    charged = json.loads(annotations[RECORD])["containers"]

    assert pod["spec"]["containers"][0]["resources"] == ONE_VM
    assert (annotations[VCPUS], annotations[f"{KATA}default_memory"]) == ("1", "1")
    assert charged == json.loads(FORGED)["containers"]


def test_nobody_gets_by_a_record_what_the_containers_would_be_denied(scene):
    gpu = {"nvidia.com/gpu": "1n"}
    forged = [
        {
            "name": "c",
            "kind": "container",
            "requests": {**gpu, "cpu": "64", "memory": "256Gi"},
            "limits": {**gpu, "cpu": "1m", "memory": "1"},
        }
    ]
    record = json.dumps({"v": "1", "containers": forged})
    message = scene.refused(main("", f"{VM}=1", name="c"), record=record)

    assert "must be less than or equal to cpu limit of 1m" in message
    assert '[nvidia.com/gpu]: Invalid value: "1n": must be an integer' in message


def test_a_pod_that_is_copied_as_it_is_stored_is_accepted_again(scene):
    stored = scene.create(LARGE)
    (container,) = stored["spec"]["containers"]
    copy = scene.pod({key: container[key] for key in ("name", "image", "resources")})
    copy["metadata"]["annotations"] = stored["metadata"]["annotations"]
    again = scene.call("POST", scene.pods, copy)

    assert again["metadata"]["annotations"] == stored["metadata"]["annotations"]
    assert again["spec"]["containers"][0]["resources"] == ONE_VM


# ------------------------------------------------------------------ without a webhook

# These come last: they take the place of the policies from above.


@pytest.fixture
def unattended(control_plane) -> Iterator[Scene]:
    scene = a_scene(control_plane)
    try:
        scene.apply("--without-webhook", "--runtime-class", scene.kata, "-n", "elsewhere")
        until_sync(
            lambda: ONLY_WHAT_WAS_REMOVED in scene.refused(LARGE, record=FORGED),
            "these policies are in force, and no longer those from above",
        )
        yield scene
    finally:
        remove_scene(scene)


def test_where_nothing_is_removed_a_record_is_denied_whatever_it_says(unattended):
    container = main(f"cpu=64 {VM}=1", f"cpu=64 {VM}=1", name="c")

    assert ONLY_WHAT_WAS_REMOVED in unattended.refused(container, record=FORGED)
    assert ONLY_WHAT_WAS_REMOVED in unattended.refused(
        container, record=FORGED, runtimeClassName=unattended.other
    )
    until_sync(lambda: VM in json.dumps(unattended.create(LARGE)["spec"]), "the VM is asked for")
