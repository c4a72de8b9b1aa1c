"""Upstream's tests on a cluster, by name: B* are its webhook's, E* those of the whole.

`bursar webhook` and `bursar controller` are processes, and the API server, the scheduler and
garbage collection are real. Nodes are simulated, and nobody creates a VM: a test ends with
what the pod is told to be, and whether it is placed and run.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import EventKind, Query
from bursar.core.peerpods.capacity import LIMIT_DEFAULT, MARK_ANNOTATION
from cli.test_peerpod_scenarios import IBM
from integration.test_peerpods import (
    POD_YAML,
    SEED,
    Scene,
    resources_of,
    sizes_of,
)
from program import Program
from support.builders.peer_pods import KATA, ONE_VM, VM, main
from support.cluster.control_plane import wait_for_account
from support.install.printed import printed
from support.processes.webhook import Webhook
from support.quota.controller_processes import (
    HOME,
    SHORT_TERMS,
    Controllers,
    administering,
    own_cluster,
)
from support.until import until_blocking, until_sync

PEERPODS = "confidential-containers-system"
OTHER_CLASS = "kata-wh-test"
ANYWHERE: dict[str, str] = {}
TINY = "cpu=100m memory=100Mi"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/aaq-controller"
OFFERED = str(LIMIT_DEFAULT)
NODE_COUNT = 2


@pytest.fixture(scope="module")
def control_plane():
    yield from own_cluster(nodes=NODE_COUNT)


@pytest.fixture(scope="module")
def scene(control_plane, tmp_path_factory) -> Iterator[Scene]:
    """A namespace whose peer pods are rewritten, with upstream's IBM list to choose from."""
    folder = tmp_path_factory.mktemp("scenarios")
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(IBM)
    webhook = Webhook(control_plane, folder, HOME, f"--catalogue={catalogue}")
    webhook.program._command[:0] = ["env", "TARGET_RUNTIMECLASS=kata-remote"]
    webhook.program.start()
    webhook.program.wait_ready()
    scene = Scene(control_plane, webhook, HOME, "shop", OTHER_CLASS)
    scene.call("POST", "/api/v1/namespaces", {"metadata": {"name": scene.namespace}})
    wait_for_account(control_plane, scene.namespace)
    scene.apply_webhook()
    until_sync(scene.is_rewriting, "the API server asks the webhook")
    yield scene
    webhook.program.stop()


@pytest.fixture(scope="module")
def keepers(scene, tmp_path_factory) -> Iterator[Controllers]:
    """Two controllers, of which one leads and keeps upstream's capacity on all nodes."""
    scene.call("POST", "/api/v1/namespaces", {"metadata": {"name": PEERPODS}})
    scene.kubectl("label", "nodes", "--all", "katacontainers.io/kata-runtime=true")
    scene.kubectl("apply", "-f", "-", stdin=printed("capacity"))
    scene.kubectl("create", "configmap", "peer-pods-cm", "-n", PEERPODS)
    folder = tmp_path_factory.mktemp("keepers")
    options = ("--keep-capacity", *SHORT_TERMS)
    with Controllers(scene.plane, folder, *options, replicas=2) as keepers:
        until_sync(lambda: is_offered(scene), "capacity on all nodes")
        yield keepers


def offers_of(node: dict[str, Any]) -> list[str | None]:
    return [node["status"][side].get(VM) for side in ("capacity", "allocatable")]


def is_offered(scene: Scene) -> bool:
    """Whether every node offers as many VMs as upstream's would."""
    nodes = scene.call("GET", "/api/v1/nodes")["items"]
    return [offers_of(each) for each in nodes] == [[OFFERED, OFFERED]] * NODE_COUNT


def created(
    scene: Scene,
    *containers: dict[str, Any],
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    pod = scene.pod(*containers, **spec)
    if annotations:
        pod["metadata"]["annotations"] = {f"{KATA}{key}": each for key, each in annotations.items()}
    return scene.call("POST", scene.pods, pod)


def run(scene: Scene, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The pod once it runs on one of the nodes."""
    name = created(scene, *containers, nodeSelector=ANYWHERE, **more)["metadata"]["name"]
    path = f"{scene.pods}/{name}"
    until_sync(lambda: scene.call("GET", path)["status"]["phase"] == "Running", f"{name} runs")
    pod = scene.call("GET", path)
    scene.call("DELETE", f"{path}?gracePeriodSeconds=0")
    return pod


def told(pod: dict[str, Any]) -> dict[str, str]:
    """What the adaptor is told about the VM."""
    held = pod["metadata"].get("annotations", {})
    return {key.removeprefix(KATA): text for key, text in held.items() if key.startswith(KATA)}


# ------------------------------------------------------------------ the webhook


def test_b1_the_pod_of_the_readme_asks_for_one_vm(scene):
    here = ("-n", scene.namespace)
    scene.kubectl("create", *here, "-f", "-", stdin=POD_YAML)
    shown = json.loads(scene.kubectl("get", *here, "pod", "nginx", "-o", "json"))
    scene.kubectl("delete", *here, "pod", "nginx", "--wait=false")
    (resources,) = resources_of(shown)

    assert resources["limits"][VM] == "1"
    assert resources["requests"][VM] == "1"


def test_b2_a_pod_without_a_class_has_nothing_of_peer_pods_in_it(scene):
    here = ("-n", scene.namespace)
    text = POD_YAML.replace("  runtimeClassName: kata-remote\n", "").replace("nginx}", "plain}")
    scene.kubectl("create", *here, "-f", "-", stdin=text)
    shown = scene.kubectl("get", *here, "pod", "plain", "-o", "yaml")
    scene.kubectl("delete", *here, "pod", "plain", "--wait=false")

    assert "name: plain" in shown
    assert "kata" not in shown


@pytest.fixture
def other_target(scene) -> Iterator[None]:
    """The webhook as a Deployment would start it anew after `kubectl set env`."""
    program = scene.webhook.program
    before = program._command[1]
    program._command[1] = f"TARGET_RUNTIMECLASS={OTHER_CLASS}"
    program.restart()
    yield
    program._command[1] = before
    program.restart()


@pytest.mark.usefixtures("other_target")
def test_b3_another_target_is_set_and_its_pods_are_changed(scene):
    """The API server still sends pods of both classes; the webhook tells them apart."""
    ours, theirs = (
        scene.create(SEED, query="?dryRun=All", runtimeClassName=name)
        for name in (OTHER_CLASS, "kata-remote")
    )

    assert resources_of(ours) == [ONE_VM]
    assert resources_of(theirs) == [SEED["resources"]]


# ------------------------------------------------------------------ pods that run

SHAPES = {
    "nothing asked for": [main()],
    "requests and limits": [SEED],
    "two containers": [main(TINY), main(TINY)],
    "annotated": [main()],
}


@pytest.mark.usefixtures("keepers")
@pytest.mark.parametrize("shape", SHAPES)
def test_e1_every_pod_that_runs_asks_for_one_vm_in_its_first_container(scene, shape):
    annotations = {"default_vcpus": "2"} if shape == "annotated" else None
    pod = run(scene, *SHAPES[shape], annotations=annotations)

    assert resources_of(pod) == [ONE_VM, *[{}] * (len(SHAPES[shape]) - 1)]
    assert pod["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}


@pytest.mark.usefixtures("keepers")
@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        pytest.param("cpu=200m memory=1792Mi", ("1", "1792"), id="E2 libvirt"),
        pytest.param("cpu=200m memory=200Mi", ("1", "200"), id="E3 byom"),
    ],
)
def test_e2_and_e3_a_pod_with_requests_and_limits_runs(scene, limits, sizes):
    pod = run(scene, main(TINY, limits))

    assert sizes_of(pod) == sizes
    assert resources_of(pod) == [ONE_VM]


@pytest.mark.usefixtures("keepers")
def test_e13_a_pod_with_an_init_container_completes(scene):
    name = f"migrate-{uuid.uuid4().hex[:6]}"
    spec = scene.pod(main(TINY), nodeSelector=ANYWHERE, restartPolicy="Never")["spec"]
    spec["initContainers"] = [{"name": "before", **main("memory=1Gi")}]
    path = f"/apis/batch/v1/namespaces/{scene.namespace}/jobs"
    scene.call("POST", path, {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}})
    query = f"{scene.pods}?labelSelector=job-name%3D{name}"

    def phases() -> list[str]:
        return [each["status"]["phase"] for each in scene.call("GET", query)["items"]]

    until_sync(lambda: phases() == ["Succeeded"], "the pod completes")
    (pod,) = scene.call("GET", query)["items"]
    scene.call("DELETE", f"{path}/{name}?propagationPolicy=Background")

    assert sizes_of(pod) == ("1", "1024")
    assert resources_of(pod) == [ONE_VM, {}]


# ------------------------------------------------------------------ annotated pods


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(
            {"default_vcpus": "2", "default_memory": "12288"},
            {"default_vcpus": "2", "default_memory": "12288", "machine_type": "mx2-2x16"},
            id="E4 both",
        ),
        pytest.param(
            {"default_memory": "7168"},
            {"default_memory": "7168", "machine_type": "bx2-2x8"},
            id="E6 memory only",
        ),
        pytest.param({}, {}, id="E7 no annotations"),
        pytest.param({"machine_type": "cx2-2x4"}, {"machine_type": "cx2-2x4"}, id="E8 named"),
        # It stays, with a warning: whether there is such a type is the adaptor's to say.
        pytest.param({"machine_type": "bx2-2x4"}, {"machine_type": "bx2-2x4"}, id="E9 unknown"),
    ],
)
def test_e4_to_e9_what_the_adaptor_is_told_about_an_annotated_pod(scene, annotations, expected):
    assert told(created(scene, main(), annotations=annotations)) == expected


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"default_vcpus": "4"}, id="E5 vcpus only"),
        pytest.param({"default_vcpus": "2", "default_memory": "18432"}, id="E10 memory"),
        pytest.param({"default_vcpus": "3", "default_memory": "12288"}, id="E11 vcpus"),
    ],
)
def test_e5_e10_and_e11_a_size_without_a_type_stays_and_its_author_is_warned(scene, annotations):
    pod = scene.pod(main())
    pod["metadata"] = {
        "name": f"large-{uuid.uuid4().hex[:6]}",
        "annotations": {f"{KATA}{key}": each for key, each in annotations.items()},
    }
    said = scene.kubectl("create", "-n", scene.namespace, "-f", "-", stdin=json.dumps(pod))
    vcpus, memory = (annotations.get(f"default_{key}", "0") for key in ("vcpus", "memory"))

    assert f"has {vcpus} vCPUs, {memory} MiB of memory and 0 GPUs" in said
    assert told(scene.call("GET", f"{scene.pods}/{pod['metadata']['name']}")) == annotations


# ------------------------------------------------------------------ capacity through a rollout


@contextlib.asynccontextmanager
async def seen_offers(scene: Scene) -> AsyncIterator[set[str | None]]:
    """What nodes offer, at every change that the API server tells of."""
    seen: set[str | None] = set()

    async def look(client: KubeClient) -> None:
        async for event in client.watch(NODES, Query(), resource_version="", send_initial=True):
            if event.kind is not EventKind.BOOKMARK:
                seen.update(offers_of(json.loads(event.body)))

    async with administering(scene.plane) as people:
        task = asyncio.create_task(look(people.client))
        try:
            yield seen
            assert not task.done(), "nothing was missed"
        finally:
            task.cancel()
            await asyncio.wait((task,))


def leader(scene: Scene, keepers: Controllers) -> Program | None:
    return keepers.leader(scene.call("GET", LEASE)["spec"].get("holderIdentity") or "")


@pytest.mark.parametrize("is_followed", [True, False], ids=["a rolling update", "all at once"])
async def test_e12_capacity_is_kept_while_its_keeper_is_restarted(scene, keepers, is_followed):
    """The mark says whose it is, and names no process: whoever leads is its owner."""
    old = leader(scene, keepers)
    (new,) = (each for each in keepers.replicas if each is not old)
    async with seen_offers(scene) as seen:
        await until_blocking(lambda: bool(seen), "nodes are seen")
        # A program dies with the thread that started it, so it is started from this one.
        if not is_followed:
            await asyncio.to_thread(new.stop)
        await asyncio.to_thread(old.stop)
        if not is_followed:
            new.start()
        await until_blocking(lambda: leader(scene, keepers) is new, "the new one leads")
        pod = await asyncio.to_thread(run, scene, SEED)
        old.start()

    marks = [
        node["metadata"]["annotations"][MARK_ANNOTATION]
        for node in scene.call("GET", "/api/v1/nodes")["items"]
    ]
    assert seen == {OFFERED}
    assert marks == [json.dumps({VM: LIMIT_DEFAULT})] * NODE_COUNT
    assert resources_of(pod) == [ONE_VM]
    await asyncio.to_thread(wipe, scene)
    await until_blocking(lambda: is_offered(scene), "the new one keeps it")


def wipe(scene: Scene) -> None:
    step = [{"op": "remove", "path": "/status/capacity/kata.peerpods.io~1vm"}]
    patch = ("--subresource=status", "--type=json", "-p", json.dumps(step))
    scene.kubectl("patch", "node", "node-0", *patch)
