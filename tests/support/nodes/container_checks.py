"""What containers of a real node must show, whichever kernel it has: values, kills, evictions.

Each check compares the kernel, or what the kubelet reports, with `bursar describe pod`.
"""

import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from real_node.base import Node
from support.builders.manifests import Raw, a_manifest
from support.builders.pods import listed
from support.cluster.real_node import RealPods, real_pods
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl
from support.until import PATIENCE_SECONDS

SLEEP = "sleep 1000000 & wait"
CPU_FILES = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
"""Files of the `cpu` hierarchy of cgroup v1. Others are in the hierarchy of their first word."""
ALWAYS_V1 = {"cpu.shares", "memory.limit_in_bytes"}
ALWAYS_V2 = {"cpu.weight", "cpu.max", "memory.max"}
ALWAYS_V2_CONTAINER = {"memory.swap.max", "memory.oom.group"}
"""Files that every kernel has. It may have no huge pages, and v1 may not count swap."""
OOM_KILLED = 137
RESIZING = {"PodResizePending", "PodResizeInProgress"}
PRINT_FILES = 'for file; do if [ -e "$file" ]; then echo "$file $(cat "$file")"; fi; done'


@dataclass(frozen=True)
class Shape:
    """The resources of a pod with one container, and the QoS class that it has by them."""

    qos: str
    requests: str = ""
    limits: str = ""
    pod: dict[str, str] = field(default_factory=dict)
    """Resources of the pod as a whole: `requests` and `limits`."""


SHAPES = {
    "guaranteed": Shape("Guaranteed", "cpu=150m memory=24Mi", "cpu=150m memory=24Mi"),
    "burstable": Shape("Burstable", "cpu=120m memory=16Mi", "cpu=350m memory=48Mi"),
    "burstable-unlimited": Shape("Burstable", "cpu=70m"),
    "burstable-memory": Shape("Burstable", "memory=256Mi"),  # so much that the OOM score differs
    "besteffort": Shape("BestEffort"),
    "guaranteed-as-a-whole": Shape(
        "Guaranteed",
        pod={"requests": "cpu=200m memory=32Mi", "limits": "cpu=200m memory=32Mi"},
    ),
    "burstable-as-a-whole": Shape(
        "Burstable",
        "cpu=60m",
        pod={"requests": "cpu=90m memory=20Mi", "limits": "cpu=1300m memory=64Mi"},
    ),
}
"""Pods for `check_values`, by name."""
SIZES = ("cpu=150m memory=24Mi", "cpu=250m memory=40Mi", "cpu=100m memory=32Mi")
"""Sizes of the pod `resized`, which is Guaranteed: it grows, then shrinks."""
EVICTED = {
    "volume": 'Usage of EmptyDir volume "scratch" exceeds the limit "2Mi"',
    "layer": "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi",
}
"""Pods above a limit of local storage, and what the kubelet says of each."""


@contextmanager
def checked_pods(
    node: Node, seconds: float = PATIENCE_SECONDS, *, shapes: Iterable[str] = tuple(SHAPES)
) -> Iterator[RealPods]:
    """All pods that are checked. They start together, which takes less time than one by one."""
    with real_pods(node, seconds) as pods:
        for name in shapes:
            shape = SHAPES[name]
            whole = {side: listed(amounts) for side, amounts in shape.pod.items()}
            spec = {"resources": whole} if whole else {}
            pods.create(name, SLEEP, requests=shape.requests, limits=shape.limits, **spec)
        pods.create("resized", SLEEP, requests=SIZES[0], limits=SIZES[0])
        # It is restarted: containerd may hear of the end before it hears of the kill.
        pods.create("greedy", "tail /dev/zero", limits="memory=16Mi", restartPolicy="OnFailure")
        fill = f"dd if=/dev/zero of=/scratch/file bs=1M count=8; {SLEEP}"
        volume = {"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}
        mounts = [{"name": "scratch", "mountPath": "/scratch"}]
        pods.create("volume", fill, volumes=[volume], container_fields={"volumeMounts": mounts})
        pods.create("layer", f"mkdir /scratch; {fill}", limits="ephemeral-storage=2Mi")
        serve = "echo I am here > /tmp/index.html; httpd -f -p 8080 -h /tmp & wait"
        pods.create("served", serve, metadata={"labels": {"app": "served"}})
        yield pods


def check_values(pods: RealPods, name: str) -> None:
    """The kernel has the cgroup values and the OOM score that Bursar describes."""
    pod = pods.until_ready(name)

    assert pod["status"]["qosClass"] == describe(pods, pod)["qosClass"] == SHAPES[name].qos
    found, wanted = cgroup_values(pods, pod)
    assert found == wanted
    assert_oom_score(pods, pod)


def check_resize(pods: RealPods) -> None:
    """After a resize in place, the container runs on with the values that Bursar describes."""
    started = pods.until_ready("resized")
    for size in SIZES[1:]:
        pods.resize("resized", requests=size, limits=size)
        pod = pods.until(
            lambda size=size: resized(pods.read("resized"), size),
            lambda: f"the pod was resized: {pods.read('resized')['status']}",
        )
        # The kubelet makes a pod's own cgroup smaller after those of its containers.
        pods.until(
            lambda pod=pod: is_as_described(pods, pod),
            lambda pod=pod: f"the kernel has the values: {cgroup_values(pods, pod)}",
        )
        assert container_id(pod) == container_id(started)


def check_oom_kill(pods: RealPods) -> None:
    """A container above its memory limit is killed, and Bursar says so."""
    pod = pods.until(
        lambda: killed(pods.read("greedy")),
        lambda: f"the container was killed: {pods.read('greedy')['status']}",
    )
    [container] = describe(pods, pod)["containers"]
    ended = container["lastTermination"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", OOM_KILLED)


def check_eviction(pods: RealPods, name: str) -> None:
    """A pod above a limit of local storage is evicted, and Bursar says so."""
    described = describe(pods, pods.until_failed(name))

    assert (described["phase"], described["reason"]) == ("Failed", "Evicted")
    assert EVICTED[name] in described["message"]


def check_service(pods: RealPods) -> None:
    """This machine reaches a pod by its address, and by that of its Service."""
    pod = pods.until_ready("served")
    spec = {"selector": {"app": "served"}, "ports": [{"port": 80, "targetPort": 8080}]}
    service = pods.write("services", a_manifest("v1", "Service", "served", spec=spec))
    for address, port in ((pod["status"]["podIP"], 8080), (service["spec"]["clusterIP"], 80)):
        text = pods.until(lambda at=(address, port): page(*at), f"{address} answers")
        assert text == b"I am here\n"


def describe(pods: RealPods, pod: Raw) -> Raw:
    """What `bursar describe pod` says of a pod and its node."""
    _, answer = pods.plane.request("GET", f"/api/v1/nodes/{pods.node.name}")
    both = {"apiVersion": "v1", "kind": "List", "items": [pod, json.loads(answer)]}
    ran = run_bursar("describe", "pod", "-f", "-", "-o", "json", stdin=json.dumps(both).encode())
    assert ran.code == 0, ran.err
    [described] = json.loads(ran.out)
    assert isinstance(described, dict)
    return described


def cgroup_values(pods: RealPods, pod: Raw) -> tuple[Raw, Raw]:
    """The files of the pod's and the container's cgroup: those of the kernel, and as described."""
    described = describe(pods, pod)
    version = "v1" if pods.node.cgroup.is_v1 else "v2"
    [container] = described["containers"]
    pod_path = described["cgroup"]["paths"]["cgroupfs"].lstrip("/")
    always = ALWAYS_V1 if pods.node.cgroup.is_v1 else ALWAYS_V2
    values_of = {
        pod_path: described["cgroup"][version],
        f"{pod_path}/{container_id(pod)}": container["cgroup"][version],
    }
    names = {name for values in values_of.values() for name in values}
    kernel = kernel_values(pods, {"": names, **values_of})
    found, wanted = {}, {}
    for path, values in values_of.items():
        known = found[path] = kernel[path]
        assert always <= known.keys()
        # What neither kubelet nor the runtime writes is as in the cgroup above all pods.
        wanted[path] = {name: values[name] or kernel[""][name] for name in known}
    if not pods.node.cgroup.is_v1:
        assert found[path].keys() >= ALWAYS_V2_CONTAINER
    return found, wanted


def is_as_described(pods: RealPods, pod: Raw) -> bool:
    found, wanted = cgroup_values(pods, pod)
    return found == wanted


def kernel_values(
    pods: RealPods, names_of: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, str]]:
    """The content of cgroup files on the node, by path and name; without those its kernel lacks.

    All of them are read by one command: in a virtual machine each command takes seconds.
    """
    places = {
        str(cgroup_file(pods, path, name)): (path, name)
        for path, names in names_of.items()
        for name in names
    }
    said = pods.node.run("sh", "-c", PRINT_FILES, "sh", *places).stdout
    found: dict[str, dict[str, str]] = {path: {} for path in names_of}
    for line in said.splitlines():
        file, _, content = line.partition(" ")
        path, name = places[file]
        found[path][name] = content
    return found


def cgroup_file(pods: RealPods, path: str, name: str) -> Path:
    controller = "cpu" if name in CPU_FILES else name.partition(".")[0]
    return pods.node.cgroup.folder(controller) / path / name


def assert_oom_score(pods: RealPods, pod: Raw) -> None:
    """The container's first process has the score that is described.

    Without the right to lower scores, the runtime leaves a process at the runtime's own score.
    """
    [container] = describe(pods, pod)["containers"]
    name = pod["metadata"]["name"]
    said = kubectl(
        *(pods.plane, "-n", pods.namespace, "exec", name, "--", "cat", "/proc/1/oom_score_adj")
    )
    wanted = container["oomScoreAdj"]
    if not pods.node.abilities.negative_oom_scores:
        wanted = max(wanted, int(Path("/proc/self/oom_score_adj").read_text()))
    assert int(said) == wanted


def resized(pod: Raw, size: str) -> Raw | None:
    """The pod, if the kubelet reports that its container has this size."""
    [status] = pod["status"]["containerStatuses"]
    pending = RESIZING & {condition["type"] for condition in pod["status"]["conditions"]}
    has_size = status.get("resources") == {"requests": listed(size), "limits": listed(size)}
    return pod if has_size and not pending else None


def killed(pod: Raw) -> Raw | None:
    """The pod, if its container was killed by the kernel and then restarted."""
    [status] = pod["status"].get("containerStatuses") or [{}]
    ended = status.get("lastState", {}).get("terminated", {})
    return pod if ended.get("reason") == "OOMKilled" else None


def container_id(pod: Raw) -> str:
    [status] = pod["status"]["containerStatuses"]
    name: str = status["containerID"]
    return name.removeprefix("containerd://")


def page(address: str, port: int) -> bytes | None:
    """What a server answers, or None while there is none."""
    with closing(http.client.HTTPConnection(address, port, timeout=10)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().read()
        except OSError:
            return None
