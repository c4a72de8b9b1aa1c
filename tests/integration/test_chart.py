"""The chart on a real cluster: installed, upgraded and uninstalled by the real helm."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.quota.quota import GATE
from controlplane import ControlPlane
from support.chart.helm import CHART, objects_of, try_helm
from support.cluster.control_plane import started_control_plane
from support.processes.command_line import Ran, run_bursar
from support.processes.kubectl import kubectl, try_kubectl
from support.quota.controller_processes import (
    Administrator,
    administering,
    gated_pod,
    switch_gate_on,
)
from support.until import until

HOME = "aaq"
RELEASE = "bursar"
NODE = "node-0"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A cluster without Bursar. Its node runs the Job of the removal, as kwok runs pods."""
    with started_control_plane(nodes=1) as plane:
        yield plane


def helm(plane: ControlPlane, *arguments: str) -> Ran:
    named = ("--kubeconfig", str(plane.kubeconfig), "--namespace", HOME)
    ran = try_helm(*arguments, *named, home=Path(plane.folder))
    assert ran.code == 0, ran.err
    return ran


def installed(plane: ControlPlane) -> list[str]:
    """Names of the release's objects that exist."""
    manifest = helm(plane, "get", "manifest", RELEASE).out
    return [
        f"{api_version}/{kind} {namespace} {name}"
        for api_version, kind, namespace, name in objects_of(manifest)
    ]


async def is_gated(people: Administrator, namespace: str) -> bool:
    pod = gated_pod("probe")
    del pod["spec"]["schedulingGates"]
    made = await people.client.create(PODS, pod, namespace=namespace, is_dry_run=True)
    return GATE in json.dumps(json.loads(made)["spec"])


def test_a_dry_run_is_accepted_and_leaves_nothing(control_plane):
    kubectl(control_plane, "apply", "-f", str(CHART / "crds"))
    kubectl(control_plane, "create", "namespace", HOME)
    helm(control_plane, "install", RELEASE, str(CHART), "--dry-run=server")

    found = kubectl(control_plane, "get", "deployments,serviceaccounts", "-n", HOME, "-o", "name")
    assert "aaq-controller" not in found
    kubectl(control_plane, "delete", "namespace", HOME)
    kubectl(control_plane, "delete", "-f", str(CHART / "crds"))


async def test_a_release_is_installed_upgraded_and_uninstalled(control_plane):
    plane = control_plane
    upgrade = ("upgrade", "--install", RELEASE, str(CHART), "--create-namespace")
    helm(plane, *upgrade)
    switch_gate_on(plane)
    async with administering(plane) as people:
        team = await people.namespace("team")
        quota = Key(team, "compute")
        await until_served(plane)
        await people.quota(quota, {"requests.cpu": "1"})

        async def gates() -> bool:
            return await is_gated(people, team)

        await until(gates, "pods are gated")

        # What the controller wrote on its service account survives an upgrade.
        helm(plane, *upgrade, "--set", "replicas=3")
        replicas = "jsonpath={.spec.replicas}"
        assert kubectl(plane, "get", "deploy", "-n", HOME, "aaq-controller", "-o", replicas) == "3"
        assert await gates()

        waiting = Key(team, "web")
        await people.pod(waiting)
        assert len(installed(plane)) > 20
        async with asyncio.TaskGroup() as tasks:
            kubectl(plane, "cordon", NODE)
            uninstalling = tasks.create_task(
                asyncio.to_thread(helm, plane, "uninstall", RELEASE, "--wait")
            )
            try:
                await run_removal(plane)
            finally:
                kubectl(plane, "uncordon", NODE)
        assert "uninstalled" in uninstalling.result().out
        assert await people.gates(waiting) == []

        async def is_open() -> bool:
            return not await is_gated(people, team)

        await until(is_open, "pods are no longer gated")
        left = kubectl(plane, "get", "clusterroles,jobs,deployments", "-A", "-o", "name")
        assert not [name for name in left.split() if "aaq" in name or "bursar" in name]
        # Helm never deletes definitions, so quotas survive.
        assert await people.read(APPLICATION_QUOTAS, quota)


async def run_removal(plane: ControlPlane) -> None:
    """Run the command of the Job as its service account, while helm waits for the Job.

    The node of this cluster runs no processes. It takes no pods until the command has ended.
    """
    job = {}

    async def is_there() -> bool:
        nonlocal job
        ran = try_kubectl(plane, "get", "job", "-n", HOME, "bursar-removal", "-o", "json")
        job = json.loads(ran.out) if ran.code == 0 else {}
        return bool(job)

    await until(is_there, "helm creates the Job of the removal")
    pod = job["spec"]["template"]["spec"]
    token = kubectl(plane, "create", "token", "-n", HOME, pod["serviceAccountName"])
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token.strip()}
    path = plane.folder / "removal.kubeconfig"
    path.write_text(json.dumps(config))
    arguments = (*pod["containers"][0]["args"], "--kubeconfig", str(path))
    ran = await asyncio.to_thread(run_bursar, *arguments)
    assert ran.code == 0, ran.err
    assert ran.out == "1 pod released\n"


async def until_served(plane: ControlPlane) -> None:
    wanted = f"crd/{APPLICATION_QUOTAS}"
    ran = try_kubectl(plane, "wait", "--for=condition=Established", "--timeout=120s", wanted)
    assert ran.code == 0, ran.err


def test_with_everything_on_an_api_server_accepts_all_but_the_kinds_of_others(control_plane):
    values = ("peerPods", "capacity", "kubevirt", "agent")
    switches = [f"--set={each}.enabled=true" for each in values]
    # The capacity of peer pods is declared in a namespace that must exist.
    kubectl(control_plane, "create", "namespace", "confidential-containers-system")
    helm(
        control_plane,
        *("upgrade", "--install", RELEASE, str(CHART), "--create-namespace"),
        *("--set=quota.gate=webhooks", *switches),
    )
    assert any("DaemonSet" in name for name in installed(control_plane))

    # No webhook is served here, so helm could not make the pod of the Job if one reviewed it.
    helm(control_plane, "uninstall", RELEASE, "--wait")
