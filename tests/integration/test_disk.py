"""Local ephemeral storage on a node with real containers: the agent against its kubelet."""

import json
from collections.abc import Iterator

import pytest

from support.devices.agent import AgentProcess
from support.nodes.container_checks import SLEEP
from support.processes.command_line import run_bursar
from support.until import until_sync

pytestmark = pytest.mark.integration

CACHE = {"name": "cache", "mountPath": "/cache"}


@pytest.fixture
def agent(real_node, tmp_path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path, *disk_options(real_node)) as agent:
        yield agent


def disk_options(node):
    return (
        "--disk",
        "--disk-interval=1s",
        f"--kubelet-folder={node.kubelet_folder}",
        f"--pod-logs-folder={node.root}/var/log/pods",
        f"--node={node.name}",
        f"--kubeconfig={node.plane.kubeconfig}",
        "--no-events",
    )


def shown(agent, name):
    """What the agent says of a pod; None while it does not know it."""
    status, text = agent.page("/disk")
    if status != 200:
        return None
    return next((pod for pod in json.loads(text)["pods"] if pod["pod"] == name), None)


def summarised(node, uid):
    """What the kubelet says of a pod; None while it has no figures."""
    status, answer = node.plane.request("GET", f"/api/v1/nodes/{node.name}/proxy/stats/summary")
    assert status == 200, answer
    found = (pod for pod in json.loads(answer)["pods"] if pod["podRef"]["uid"] == uid)
    return next(found, None)


def with_cache(**empty_dir):
    return {
        "volumes": [{"name": "cache", "emptyDir": empty_dir}],
        "container_fields": {"volumeMounts": [CACHE]},
    }


def test_the_use_of_a_pod_equals_the_kubelets(pods, agent, real_node):
    pods.create(
        "web",
        "mkdir -p /cache/a/b && dd if=/dev/zero of=/cache/a/b/f bs=1M count=5 && "
        "ln /cache/a/b/f /cache/second && ln -s / /cache/out && mkfifo /cache/pipe && "
        "dd if=/dev/zero of=/layer bs=1M count=3 && "
        f"for i in $(seq 2000); do echo a line of the log number $i; done; {SLEEP}",
        **with_cache(),
    )
    uid = pods.until_ready("web")["metadata"]["uid"]
    seen = {}

    def agrees():
        ours, theirs = shown(agent, "web"), summarised(real_node, uid)
        if ours is None or theirs is None or not theirs.get("volume"):
            return False
        volumes = {each["name"]: each["usedBytes"] for each in theirs["volume"]}
        containers = {each["name"]: each for each in theirs["containers"]}
        seen["ours"], seen["theirs"] = ours, theirs
        [container] = ours["containers"]
        return (
            ours["complete"]
            and ours["used"] == theirs["ephemeral-storage"]["usedBytes"]
            and ours["volumes"][0]["used"] == volumes["cache"]
            and container["logs"] == containers["c"]["logs"]["usedBytes"]
            and container["writable"] == containers["c"]["rootfs"]["usedBytes"]
            and container["writable"] >= 3 * 2**20
        )

    until_sync(agrees, lambda: f"agent and kubelet agree: {seen}")
    assert 5 * 2**20 <= seen["ours"]["volumes"][0]["used"] < 6 * 2**20


def test_a_pod_is_named_before_the_kubelet_evicts_it(pods, agent):
    pods.create(
        "greedy",
        "for i in $(seq 60); do dd if=/dev/zero of=/cache/$i bs=1M count=1; sleep 1; done; "
        f"{SLEEP}",
        **with_cache(sizeLimit="8Mi"),
    )
    named = []

    def is_evicted():
        ours = shown(agent, "greedy")
        phase = pods.read("greedy")["status"]["phase"]
        if ours is not None and phase == "Running":
            named.append(ours)
        return phase == "Failed"

    pods.until(is_evicted, "the kubelet evicts the pod")
    forecasts = [each for each in named if each["secondsLeft"] is not None]
    assert forecasts, named
    assert forecasts[0]["nextLimit"]["name"] == "cache"
    assert forecasts[0]["nextLimit"]["kind"] == "emptydirfs.limit"
    message = pods.read("greedy")["status"]["message"]
    over = [each["reason"] for each in named if each["evicted"]]
    assert set(over) <= {message.strip()}
    until_sync(
        lambda: "the kubelet evicts a pod for its local storage" in agent.log(), "it is logged"
    )


def test_top_disk_reads_the_kubelets_figures_and_an_agents(pods, agent, real_node):
    pods.create(
        "web", f"dd if=/dev/zero of=/cache/f bs=1M count=5; {SLEEP}", **with_cache(sizeLimit="1Gi")
    )
    uid = pods.until_ready("web")["metadata"]["uid"]

    def is_measured():
        found = summarised(real_node, uid)
        return found and any(each.get("usedBytes", 0) > 2**20 for each in found.get("volume", ()))

    until_sync(is_measured, "the kubelet has measured the volume")
    until_sync(lambda: (shown(agent, "web") or {}).get("complete"), "the agent has measured it")
    cluster = (f"--kubeconfig={real_node.plane.kubeconfig}", f"--node={real_node.name}")
    for source in (cluster, (f"--agent=127.0.0.1:{agent.port}",)):
        ended = run_bursar("top", "disk", *source, "-n", pods.namespace, "-o", "json")
        assert ended.code == 0, ended.err
        [node] = json.loads(ended.out)
        [pod] = node["pods"]
        assert node["node"] == real_node.name
        assert node["allocatable"] > 0
        assert pod["volumes"][0]["used"] >= 5 * 2**20
        assert pod["nextLimit"]["limit"] == 2**30
        table = run_bursar("top", "disk", *source, "-n", pods.namespace).out
        assert table.splitlines()[0].split()[:4] == ["NODE", "NAMESPACE", "POD", "USED"]
