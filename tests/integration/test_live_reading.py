"""Verbs that read a real cluster, and the same verbs on what `bursar dump` wrote of it."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.adapters.files.crds import crd_folder
from bursar.app.quota.kinds import CUSTOM_KINDS
from controlplane import ControlPlane
from support.processes.command_line import COMMAND, Ran, run_bursar
from support.processes.kubectl import kubectl
from support.until import until

SECRET = "hunter2"  # noqa: S105 - it must not be found
OBJECTS = """
apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, defaultRequest: {memory: 64Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: native}
spec: {hard: {pods: "10"}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: ours}
spec: {hard: {requests.cpu: "1", pods: "1", memry: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, labels: {app: runs}, annotations: {example.com/token: SECRET}}
spec:
  nodeName: node-0
  containers:
  - name: c
    image: i
    args: [SECRET]
    env: [{name: A, value: SECRET}]
    resources: {requests: {cpu: 250m}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  schedulingGates: [{name: ApplicationAwareQuotaGate}]
  containers: [{name: c, image: i, resources: {requests: {cpu: 900m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: homeless}
spec:
  nodeSelector: {no-node: has-this}
  containers: [{name: c, image: i}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NAMESPACE}]
"""


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    kubectl(control_plane, "apply", "--server-side", "-f", str(crd_folder()))
    kinds = [f"crd/{resource}" for resource in CUSTOM_KINDS]
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=120s", *kinds)
    name = f"reading-{uuid.uuid4().hex[:8]}"
    kubectl(control_plane, "create", "namespace", name)
    # Pods are refused without it. The controller that makes it need not be waited for.
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    control_plane.request("POST", accounts, {"metadata": {"name": "default"}})
    objects = OBJECTS.replace("NAMESPACE", name).replace("SECRET", SECRET)
    kubectl(control_plane, "create", "-n", name, "-f", "-", stdin=objects)
    kubectl(control_plane, "wait", "-n", name, "--for=condition=Ready", "pod/runs")
    yield name
    kubectl(control_plane, "delete", "namespace", name, "--wait=false")


def live(plane: ControlPlane, *arguments: str) -> Ran:
    ran = run_bursar(*arguments, "--kubeconfig", str(plane.kubeconfig))
    assert ran.code in {0, 1}, ran.err
    return ran


def test_stored_pods_are_described_as_they_are(control_plane, namespace):
    ran = live(control_plane, "describe", "pod/runs", "-n", namespace)
    listed = live(control_plane, "describe", "pods", "-n", namespace, "-o", "name")
    chosen = live(control_plane, "describe", "po", "-A", "-l", "app=runs", "-o", "json")
    unplaced = live(
        *(control_plane, "describe", "pods", "-n", namespace, "-o", "name"),
        *("--field-selector", "spec.nodeName="),
    )

    assert "Valid:      yes (the API server has stored it, so it was admitted)" in ran.out
    assert "Not checked" not in ran.out
    assert "memory     request   64Mi" in ran.out
    assert listed.out.splitlines() == ["pod/homeless", "pod/runs", "pod/waits"]
    assert [pod["name"] for pod in json.loads(chosen.out)] == ["runs"]
    assert unplaced.out.splitlines() == ["pod/homeless", "pod/waits"]


def test_quotas_of_one_namespace_say_that_it_is_not_gated(control_plane, namespace):
    ran = live(control_plane, "describe", "quota", "-n", namespace)

    lines = [line.split() for line in ran.out.splitlines()]
    assert ["memry", "-", "1Gi", "-", "-", "<-", "never", "counted"] in lines
    assert f"Not gated: {namespace}: " in ran.out
    over = json.loads(live(control_plane, "describe", "quota", "ours", "-A", "-o", "json").out)
    assert [each["overLimit"] for each in over if each["namespace"] == namespace] == [["pods"]]


def test_what_a_tenant_may_not_read_is_said_in_one_line(control_plane, namespace):
    kubeconfig = control_plane.write_kubeconfig(namespace, control_plane.client(namespace))
    ran = run_bursar(*("describe", "pod", "runs", "-n", namespace, "--kubeconfig", str(kubeconfig)))
    everywhere = run_bursar("describe", "pod", "-A", "--kubeconfig", str(kubeconfig))

    assert ran.code == 0
    assert ran.err.startswith("bursar: not read: nodes: ")
    assert len(ran.err.splitlines()) == 1
    assert (everywhere.code, everywhere.out) == (2, "")
    assert len(everywhere.err.splitlines()) == 1
    assert "forbidden" in everywhere.err
    dump = run_bursar("dump", "-n", namespace, "--kubeconfig", str(kubeconfig))
    assert dump.code == 0
    assert "kind: Pod\n" in dump.out


@pytest.mark.parametrize(
    "verb",
    [
        ["describe", "node", "node-0"],
        ["describe", "quota", "-A"],
        ["describe", "pod", "-n", "NAMESPACE"],
        ["queue", "-A"],
        ["explain", "pod", "homeless", "-n", "NAMESPACE"],
        ["explain", "pod", "waits", "-n", "NAMESPACE"],
    ],
    ids=" ".join,
)
async def test_a_verb_says_of_the_dump_what_it_says_of_the_cluster(
    control_plane, namespace, tmp_path: Path, verb
):
    command = [word.replace("NAMESPACE", namespace) for word in verb] + ["-o", "json"]
    path = tmp_path / "dump.yaml"

    async def agreed() -> bool:
        """Other tests change the cluster as well, so it may be another one between two reads."""
        dump = await asyncio.to_thread(live, control_plane, "dump")
        assert SECRET not in dump.out
        path.write_text(dump.out)
        on_cluster = await asyncio.to_thread(live, control_plane, *command)
        on_dump = await asyncio.to_thread(run_bursar, *command, "-f", str(path))
        return (on_cluster.code, on_cluster.out) == (on_dump.code, on_dump.out)

    await until(agreed, f"`bursar {' '.join(verb)}` says the same of the dump")


async def test_changes_are_shown_as_they_come(control_plane, namespace):
    process = await asyncio.create_subprocess_exec(
        *(str(COMMAND), "describe", "pods", "-n", namespace, "-o", "wide", "-w"),
        *("--kubeconfig", str(control_plane.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        head = [await asyncio.wait_for(process.stdout.readline(), 60) for _ in range(4)]
        assert [line.split()[1] for line in head] == [b"NAME", b"homeless", b"runs", b"waits"]
        kubectl(
            *(control_plane, "run", "-n", namespace, "newcomer", "--image=i"),
            *("--restart=Never", "--overrides", '{"spec":{"nodeName":"nobody-home"}}'),
        )
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line.split()[1] == b"newcomer"
    finally:
        process.terminate()
        await process.wait()
