"""Peer pods on a real API server: `bursar webhook` as a process, registered by our manifests."""

import asyncio
import base64
import contextlib
import json
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from bursar.adapters.serving.message import JSON, Request, Response
from bursar.app.install.peerpods import POLICY
from bursar.app.names import PEER_POD_WEBHOOKS
from controlplane import LOOPBACK, NODE_CAPACITY, ControlPlane
from support.builders.peer_pods import KATA, ONE_VM, RECORD, VM, main, remove_protection, sized
from support.builders.reviews import posting, running
from support.cluster.control_plane import MUTATING_POLICIES, needs_kubernetes, wait_for_account
from support.install.printed import printed_objects
from support.processes.kubectl import try_kubectl
from support.processes.webhook import Webhook
from support.until import until_blocking, until_sync

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
SEED = main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi", name="c")


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Webhook
    home: str
    namespace: str
    extra: str
    """A second class of peer pods."""

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        code, answer = self.plane.request(method, path, body)
        assert code < 300, answer
        return json.loads(answer)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """All that it prints, warnings included."""
        ran = try_kubectl(self.plane, *arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran.out + ran.err

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pod(self, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        listed = [{"name": f"c{n}", **each} for n, each in enumerate(containers)]
        # Nowhere to go unless said otherwise, so that what was stored stays as it is.
        base = {"runtimeClassName": "kata-remote", "nodeSelector": {"bursar-test/nowhere": "true"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "p-"},
            "spec": {**base, "containers": listed, **spec},
        }

    def create(self, *containers: dict[str, Any], query: str = "", **spec: Any) -> dict[str, Any]:
        return self.call("POST", f"{self.pods}{query}", self.pod(*containers, **spec))

    def refused(self, *containers: dict[str, Any], **spec: Any) -> str:
        """What a pod is refused with; nothing if it is not."""
        pod = self.pod(*containers, **spec)
        code, answer = self.plane.request("POST", f"{self.pods}?dryRun=All", pod)
        return json.loads(answer)["message"] if code >= 400 else ""

    def counted(self) -> dict[str, int]:
        """Reviews of pods by how they ended, out of the webhook's metrics."""
        url = f"{self.webhook.url}/metrics"
        trust = self.webhook.trust()
        with urllib.request.urlopen(url, context=trust, timeout=60) as answer:  # noqa: S310 - ours
            lines = answer.read().decode().splitlines()
        start = "bursar_peerpods_reviewed_total{end="
        found = [line.removeprefix(start) for line in lines if line.startswith(start)]
        return {end.strip('"}'): int(count) for end, count in (each.split() for each in found)}

    def apply_webhook(self, *more: str) -> None:
        self.apply(
            printed_objects(
                *("peerpods", "-n", self.home, "--url", self.webhook.url),
                *("--ca-bundle", str(self.webhook.authority.certificate)),
                *("--runtime-class=kata-remote", f"--runtime-class={self.extra}", *more),
            )
        )

    def apply(self, documents: list[dict[str, Any]]) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def is_rewriting(self) -> bool:
        return VM in json.dumps(self.create(SEED, query="?dryRun=All"))


def resources_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    spec = pod["spec"]
    return [each["resources"] for each in [*spec["containers"], *spec.get("initContainers", [])]]


def sizes_of(pod: dict[str, Any]) -> tuple[str | None, str | None]:
    held = pod["metadata"].get("annotations", {})
    return held.get(f"{KATA}default_vcpus"), held.get(f"{KATA}default_memory")


@pytest.fixture(scope="module")
def scene(control_plane, tmp_path_factory) -> Iterator[Scene]:
    token = uuid.uuid4().hex[:6]
    home, namespace, extra = f"home-{token}", f"peer-{token}", f"kata-extra-{token}"
    webhook = Webhook(
        control_plane, tmp_path_factory.mktemp("peerpods"), home, "--metrics-auth=none"
    )
    # As upstream is told: by its environment. API servers speak TLS 1.3.
    told = [f"TARGET_RUNTIMECLASS=kata-remote, {extra}", "TLS_MIN_VERSION=VersionTLS13"]
    webhook.program._command[:0] = ["env", *told]
    webhook.program.start()
    webhook.program.wait_ready()
    scene = Scene(control_plane, webhook, home, namespace, extra)
    for name in (home, namespace):
        scene.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for_account(control_plane, namespace)
    scene.apply_webhook()
    until_sync(scene.is_rewriting, "the API server asks the webhook")
    yield scene
    control_plane.request("DELETE", f"{WEBHOOKS}/{PEER_POD_WEBHOOKS}")
    remove_protection(control_plane)
    for name in ("kata-remote", extra):
        control_plane.request("DELETE", f"{RUNTIME_CLASSES}/{name}")
    for name in (home, namespace):
        control_plane.request("DELETE", f"/api/v1/namespaces/{name}")
    webhook.program.stop()


@pytest.fixture
def node(scene) -> Iterator[str]:
    """A node of our own that has room for two VMs."""
    name = f"peer-{uuid.uuid4().hex[:6]}"
    scene.plane.add_node(name)
    offered = {**NODE_CAPACITY, VM: "2"}
    status = {"status": {"capacity": offered, "allocatable": offered}}
    scene.kubectl(
        *("patch", "node", name, "--subresource=status", "--type=merge"), "-p", json.dumps(status)
    )
    yield name
    scene.plane.request("DELETE", f"/api/v1/nodes/{name}")


# ------------------------------------------------------------------ the walk-through

POD_YAML = """\
apiVersion: v1
kind: Pod
metadata: {name: nginx}
spec:
  runtimeClassName: kata-remote
  containers:
  - name: nginx
    image: nginx
    resources:
      requests: {cpu: 1, memory: 1Gi}
      limits: {cpu: 1, memory: 2Gi}
"""


def test_the_walk_through_of_upstreams_readme_step_by_step(scene, tmp_path):
    file = str(tmp_path / "pod.yaml")
    Path(file).write_text(POD_YAML)
    (tmp_path / "rc.yaml").write_text(yaml.safe_dump(printed_objects("peerpods")[0]))
    here = ("-n", scene.namespace)

    scene.kubectl("apply", "-f", str(tmp_path / "rc.yaml"))
    scene.kubectl("apply", *here, "-f", file)
    shown = scene.kubectl("get", *here, "-f", file, "-o", "yaml")
    pod = yaml.safe_load(shown)

    assert [line.strip() for line in shown.splitlines() if line.strip().startswith(VM)] == [
        f'{VM}: "1"',
        f'{VM}: "1"',
    ]
    assert pod["spec"]["containers"][0]["resources"] == ONE_VM
    assert pod["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert sizes_of(pod) == ("1", "2048")
    scene.kubectl("delete", *here, "-f", file, "--wait=false")


# ------------------------------------------------------------------ the scheduler


def test_of_three_peer_pods_two_run_where_there_is_room_for_two(scene, node):
    selector = {"kubernetes.io/hostname": node}
    names = [scene.create(SEED, nodeSelector=selector)["metadata"]["name"] for _ in range(3)]

    def ours() -> list[dict[str, Any]]:
        found = scene.call("GET", scene.pods)["items"]
        return [each for each in found if each["metadata"]["name"] in names]

    def phases() -> list[str]:
        return sorted(each["status"]["phase"] for each in ours())

    def complaints() -> str:
        return json.dumps([each["status"].get("conditions") for each in ours()])

    until_sync(lambda: phases() == ["Pending", "Running", "Running"], "two run and one waits")
    until_sync(lambda: f"Insufficient {VM}" in complaints(), "the scheduler says what is lacking")
    first = next(each for each in ours() if each["status"]["phase"] == "Running")
    scene.call("DELETE", f"{scene.pods}/{first['metadata']['name']}?gracePeriodSeconds=0")
    until_sync(lambda: phases() == ["Running", "Running"], "the third runs as well")


def test_the_pods_of_a_deployment_are_rewritten(scene, node):
    name = f"web-{uuid.uuid4().hex[:6]}"
    pod = scene.pod(SEED, nodeSelector={"kubernetes.io/hostname": node})
    template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments"
    scene.call("POST", path, {"metadata": {"name": name}, "spec": spec})

    def pods() -> list[dict[str, Any]]:
        return scene.call("GET", f"{scene.pods}?labelSelector=app%3D{name}")["items"]

    until_sync(lambda: [p["status"]["phase"] for p in pods()] == ["Running"] * 2, "both run")
    made = pods()
    scene.call("DELETE", f"{path}/{name}")

    assert [sizes_of(each) for each in made] == [("1", "2048")] * 2
    assert [resources_of(each) for each in made] == [[ONE_VM]] * 2


# ------------------------------------------------------------------ who is asked


def test_pods_of_other_classes_are_not_sent_to_us(scene):
    other = f"gvisor-{uuid.uuid4().hex[:6]}"
    scene.call("POST", RUNTIME_CLASSES, {"metadata": {"name": other}, "handler": "gvisor"})
    before = scene.counted()
    made = [scene.create(SEED, runtimeClassName=name) for name in (None, other)]
    after = scene.counted()
    scene.call("DELETE", f"{RUNTIME_CLASSES}/{other}")

    assert [resources_of(each) for each in made] == [[SEED["resources"]]] * 2
    assert after == before
    assert after["untouched"] == 0


def test_every_class_that_was_named_is_rewritten(scene):
    before = scene.counted()

    assert resources_of(scene.create(SEED, runtimeClassName=scene.extra)) == [ONE_VM]
    assert scene.counted()["rewritten"] == before["rewritten"] + 1


def test_a_dry_run_shows_the_rewritten_pod_and_stores_none(scene):
    shown = scene.create(SEED, query="?dryRun=All")

    assert resources_of(shown) == [ONE_VM]
    assert scene.plane.request("GET", f"{scene.pods}/{shown['metadata']['name']}")[0] == 404


def test_pods_of_the_systems_namespaces_are_left_alone(scene):
    for namespace in ("kube-system", scene.home):
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        wait_for_account(scene.plane, namespace)

        assert resources_of(scene.call("POST", path, scene.pod(SEED))) == [SEED["resources"]]


def test_while_the_webhook_is_away_only_peer_pods_are_refused(scene):
    scene.webhook.program.stop()
    try:
        scene.create(SEED, runtimeClassName=None)
        assert "mwebhook.peerpods.io" in scene.refused(SEED)
    finally:
        scene.webhook.program.restart()

    assert resources_of(scene.create(SEED)) == [ONE_VM]


def test_what_the_author_should_know_reaches_kubectl(scene):
    pod = scene.pod(main("cpu=1 ephemeral-storage=1Gi", name="c"))
    said = scene.kubectl("create", "-n", scene.namespace, "-f", "-", stdin=json.dumps(pod))

    assert "Warning: removed, and not passed on to the VM: ephemeral-storage" in said


def test_what_no_vm_can_have_is_denied_with_the_reason(scene):
    message = scene.refused(main("memory=4Pi", "memory=4Pi", name="c"))

    assert message.startswith('admission webhook "mwebhook.peerpods.io" denied the request: ')
    assert "a VM can have at most" in message


def test_a_pod_without_containers_gets_the_api_servers_own_words(scene):
    assert "spec.containers: Required value" in scene.refused()


# ------------------------------------------------------------------ asked again


@contextlib.asynccontextmanager
async def another_webhook(
    scene: Scene, folder: Path, step: dict[str, Any]
) -> AsyncIterator[list[dict[str, Any]]]:
    """Somebody's webhook in this process, asked after ours; what it was asked."""
    asked: list[dict[str, Any]] = []

    async def review(asking: Request) -> Response:
        request = json.loads(asking.body)["request"]
        asked.append(request["object"])
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
        response["patch"] = base64.b64encode(json.dumps([step]).encode()).decode()
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return Response(json.dumps({**answer, "response": response}).encode(), content_type=JSON)

    async with running(folder, posting("/inject", review)) as server:
        name = f"z-injector-{uuid.uuid4().hex[:6]}"
        *_, document = printed_objects(
            *("peerpods", "--url", f"https://{LOOPBACK}:{server.port}"),
            *("--ca-bundle", str(folder / "ca.crt"), "--all-pods"),
        )
        document["metadata"]["name"] = name
        (webhook,) = document["webhooks"]
        webhook["name"] = f"{name}.example.com"
        webhook["clientConfig"]["url"] = server.url("/inject")
        place = {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}
        webhook["namespaceSelector"] = place
        webhook["reinvocationPolicy"] = "Never"
        await asyncio.to_thread(scene.apply, [document])
        try:
            await until_blocking(
                lambda: scene.create(SEED, query="?dryRun=All") is not None and bool(asked),
                "the API server asks the other webhook",
            )
            yield asked
        finally:
            await asyncio.to_thread(scene.plane.request, "DELETE", f"{WEBHOOKS}/{name}")
            await until_blocking(lambda: _is_quiet(scene, asked), "it is forgotten")


def _is_quiet(scene: Scene, asked: list[dict[str, Any]]) -> bool:
    asked.clear()
    scene.create(SEED, query="?dryRun=All")
    return not asked


MESH = {"name": "mesh", "image": "mesh", "resources": sized("cpu=100m memory=64Mi")}
INJECT_MESH = {"op": "add", "path": "/spec/containers/-", "value": MESH}


@pytest.fixture
def limit_range(scene) -> Iterator[None]:
    path = f"/api/v1/namespaces/{scene.namespace}/limitranges"
    limits = {"type": "Container", "default": {"cpu": "8", "memory": "256Mi"}}
    limits["defaultRequest"] = {"cpu": "1", "memory": "128Mi"}
    scene.call("POST", path, {"metadata": {"name": "defaults"}, "spec": {"limits": [limits]}})
    plain = {"image": "i", "name": "c"}

    def is_known() -> bool:
        shown = scene.create(plain, query="?dryRun=All", runtimeClassName=None)
        return "limits" in resources_of(shown)[0]

    until_sync(is_known, "defaults of the namespace")
    yield
    scene.call("DELETE", f"{path}/defaults")
    until_sync(lambda: not is_known(), "no more defaults of the namespace")


@pytest.mark.usefixtures("limit_range")
def test_w1_defaults_of_the_namespace_do_not_replace_the_size(scene):
    """Emptied containers are filled with defaults again, and we are asked again."""
    pod = scene.create(main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi"))

    assert sizes_of(pod) == ("4", "8192")
    assert resources_of(pod) == [ONE_VM]


@pytest.mark.usefixtures("limit_range")
def test_defaults_count_for_what_the_pod_does_not_say(scene):
    """They are in the pod before we see it, as if its author had asked for them."""
    pod = scene.create(main("memory=8Gi", "memory=8Gi"))

    assert sizes_of(pod) == ("8", "8192")
    assert resources_of(pod) == [ONE_VM]


async def test_w1_a_container_injected_later_is_added_to_the_size(scene, tmp_path):
    async with another_webhook(scene, tmp_path, INJECT_MESH) as asked:
        pod = await asyncio.to_thread(scene.create, main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi"))

    assert [each["name"] for each in pod["spec"]["containers"]] == ["c0", "mesh"]
    assert sizes_of(pod) == ("5", str(8192 + 64))
    assert resources_of(pod) == [ONE_VM, {}]
    assert asked == []


@pytest.mark.usefixtures("limit_range")
async def test_w1_both_together_leave_the_size_right(scene, tmp_path):
    async with another_webhook(scene, tmp_path, INJECT_MESH):
        pod = await asyncio.to_thread(scene.create, main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi"))

    # The mesh has no limits of its own, so those of the namespace are its: 8 CPUs, 256Mi.
    assert sizes_of(pod) == ("12", str(8192 + 256))
    assert resources_of(pod) == [ONE_VM, {}]
    assert '"cpu":"8"' in pod["metadata"]["annotations"][RECORD]


async def test_w21_a_class_set_later_by_another_webhook_needs_all_pods_to_be_sent(scene, tmp_path):
    set_class = {"op": "add", "path": "/spec/runtimeClassName", "value": "kata-remote"}

    def created() -> dict[str, Any]:
        return scene.create(SEED, query="?dryRun=All", runtimeClassName=None)

    async with another_webhook(scene, tmp_path, set_class):
        without = await asyncio.to_thread(created)
        await asyncio.to_thread(scene.apply_webhook, "--all-pods")
        await until_blocking(lambda: resources_of(created()) == [ONE_VM], "all pods are sent")
        await asyncio.to_thread(scene.apply_webhook)

    assert without["spec"]["runtimeClassName"] == "kata-remote"
    assert resources_of(without) == [SEED["resources"]]


# ------------------------------------------------------------------ quotas


@pytest.mark.parametrize(
    ("hard", "complaint"),
    [
        ({"requests.cpu": "100"}, "must specify requests.cpu"),
        ({f"requests.{VM}": "0"}, f"exceeded quota: team, requested: requests.{VM}=1"),
    ],
)
def test_w14_quotas_of_the_cluster_see_vms_and_no_longer_cpu(scene, hard, complaint):
    """What a peer pod uses of a cloud is not what a ResourceQuota counts on workers."""
    path = f"/api/v1/namespaces/{scene.namespace}/resourcequotas"
    scene.call("POST", path, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    until_sync(lambda: complaint in scene.refused(SEED), complaint)
    scene.call("DELETE", f"{path}/team")
    until_sync(lambda: not scene.refused(SEED), "the quota is forgotten")


# ------------------------------------------------------------------ without a webhook


@needs_kubernetes(MUTATING_POLICIES)
def test_a_policy_alone_asks_for_the_vm_and_leaves_the_rest(scene):
    peers = f"kata-policy-{uuid.uuid4().hex[:6]}"
    documents = printed_objects("peerpods", "--without-webhook", f"--runtime-class={peers}")
    scene.apply(documents)

    def shown(**spec: Any) -> dict[str, Any]:
        spec = {"runtimeClassName": peers, **spec}
        return scene.create(main(name="b"), SEED | {"name": "a"}, query="?dryRun=All", **spec)

    try:
        until_sync(lambda: VM in json.dumps(shown()), "the policy is in force")
        pod, message = shown(), scene.refused(runtimeClassName=peers)
        unlike = shown(runtimeClassName=None)
    finally:
        for path in (POLICIES, f"{POLICIES[:-3]}ybindings"):
            scene.plane.request("DELETE", f"{path}/{POLICY}")
        scene.plane.request("DELETE", f"{RUNTIME_CLASSES}/{peers}")

    assert resources_of(pod) == [ONE_VM, SEED["resources"]]
    assert pod["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert sizes_of(pod) == (None, None)
    assert "spec.containers: Required value" in message
    assert VM not in json.dumps(unlike)
