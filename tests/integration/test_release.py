"""`bursar release` on a real cluster, whose policies protect the gate until they are removed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, Key, Patch, PatchKind
from bursar.app.quota.release.force_release import release_all, stop_gating
from bursar.cli.live_cluster import kubectls_cluster
from bursar.core.quota.quota import GATE
from bursar.wire.model.pod_row import PodRowDecoder
from controlplane import ControlPlane
from support.cluster.access import a_client
from support.install.printed import printed, printed_objects
from support.processes.command_line import Ran, run_bursar
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import (
    ACCOUNT,
    HOME,
    Administrator,
    administering,
    gated_pod,
    switch_gate_on,
)
from support.until import until

FOREIGN = "example.com/licence"
PROTECTED = "Only AAQ controller has permission to remove ApplicationAwareQuotaGate gate from pods"


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@dataclass(frozen=True)
class Protected:
    """The policies are in force."""

    plane: ControlPlane
    controller: Path
    """A kubeconfig of the controller's account."""

    def release(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        named = kubeconfig or self.plane.kubeconfig
        return run_bursar("release", *arguments, "--kubeconfig", str(named))


@pytest.fixture
def protected(control_plane) -> Iterator[Protected]:
    policies = printed("policies")
    written = printed("rbac") + policies
    assert try_kubectl(control_plane, "apply", "-f", "-", stdin=written).code == 0
    switch_gate_on(control_plane)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
    pair = control_plane.client(ACCOUNT, *groups)
    try:
        yield Protected(control_plane, control_plane.write_kubeconfig("controller", pair))
    finally:
        try_kubectl(control_plane, "delete", "--ignore-not-found", "-f", "-", stdin=policies)


async def waiting_pods(people: Administrator, *names: str) -> str:
    """A namespace with pods at the gate, once nobody else can lift it."""
    namespace = await people.namespace("waiting")
    for name in names:
        await people.pod(Key(namespace, name))
    await people.pod(Key(namespace, "two-gates"), FOREIGN, GATE)
    await until_protected(people, namespace)
    return namespace


async def until_protected(people: Administrator, namespace: str) -> None:
    """API servers learn of a policy after a moment; a dry run shows that they have."""

    async def is_protected() -> bool:
        return await is_gated(people, namespace) and await is_refused(people, namespace)

    await until(is_protected, "the policies are in force")


async def is_gated(people: Administrator, namespace: str) -> bool:
    pod = gated_pod("probe")
    del pod["spec"]["schedulingGates"]
    made = await people.client.create(PODS, pod, namespace=namespace, is_dry_run=True)
    return "schedulingGates" in json.loads(made)["spec"]


async def is_refused(people: Administrator, namespace: str) -> bool:
    without = {"spec": {"schedulingGates": None}}
    patch = Patch(kind=PatchKind.MERGE, body=without)
    try:
        await people.client.patch(PODS, Key(namespace, "two-gates"), patch, is_dry_run=True)
    except ClusterError:
        return True
    return False


async def test_while_the_gate_is_protected_an_administrator_is_told_so(protected):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web")
        ran = protected.release("-n", namespace, "web")

        assert ran.code == 1
        assert ran.out == "0 pods released\n"
        assert ran.err.startswith(f"bursar: {namespace}/web: ")
        assert PROTECTED in ran.err
        assert await people.gates(Key(namespace, "web")) == [GATE]


async def test_the_controllers_account_lets_go_of_what_is_named(protected):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web", "other")
        ran = protected.release(
            "-n", namespace, "web", "nobody", "-o", "json", kubeconfig=protected.controller
        )

        assert ran.code == 1
        assert json.loads(ran.out) == {
            "released": [f"{namespace}/web"],
            "failed": {},
            "notGated": ["nobody"],
        }
        assert await people.gates(Key(namespace, "web")) == []
        assert await people.gates(Key(namespace, "other")) == [GATE]


async def test_letting_go_of_all_has_to_be_meant(protected):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web")
        ran = protected.release("--all", "-n", namespace)

        assert ran.code == 2
        assert ran.err == "bursar: 2 pods in 1 namespace would be released; give --yes\n"
        assert await people.gates(Key(namespace, "web")) == [GATE]


async def test_9_1_18_before_bursar_goes_all_pods_are_let_go_and_foreign_gates_stay(protected):
    """AAQ's operator leaves them stuck."""
    async with administering(protected.plane) as people:
        namespaces = [await waiting_pods(people, "a", "b", "c") for _ in range(3)]
        ran = protected.release("--all", "--yes", kubeconfig=protected.controller)

        assert ran.code == 1
        assert all(FOREIGN in line for line in ran.err.splitlines())
        for namespace in namespaces:
            for name in ("a", "b", "c"):
                assert await people.gates(Key(namespace, name)) == []
            # While gating goes on, it would start without having been charged.
            assert await people.gates(Key(namespace, "two-gates")) == [FOREIGN, GATE]
        last = protected.release("--all", "--stop-gating", "--yes")
        assert last.code == 0, last.err
        for namespace in namespaces:
            assert await people.gates(Key(namespace, "two-gates")) == [FOREIGN]
        again = protected.release("--all", "--yes")
        assert (again.code, again.out) == (0, "0 pods released\n")


async def test_9_1_18_once_the_policies_are_gone_an_administrator_lets_go(protected):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web")
        removed = try_kubectl(protected.plane, "delete", "-f", "-", stdin=printed("policies"))
        assert removed.code == 0, removed.err

        async def is_allowed() -> bool:
            return not await is_refused(people, namespace)

        await until(is_allowed, "the policies are no longer in force")
        ran = protected.release("--all", "--yes", "-n", namespace)

        assert (ran.code, ran.out) == (1, "1 pod released\n")
        assert await people.gates(Key(namespace, "web")) == []


# ------------------------------------------------------------------ before an uninstallation


async def test_an_administrator_stops_gating_and_its_protection_with_one_command(protected):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web")
        ran = protected.release("--all", "--stop-gating", "--yes")

        assert ran.code == 0, ran.err
        assert "deleted MutatingAdmissionPolicyBinding gate-pods.bursar.io\n" in ran.err
        assert "deleted ValidatingAdmissionPolicyBinding protect-gate.bursar.io\n" in ran.err
        assert await people.gates(Key(namespace, "web")) == []
        assert await people.gates(Key(namespace, "two-gates")) == [FOREIGN]

        async def is_open() -> bool:
            return not await is_gated(people, namespace)

        await until(is_open, "new pods are no longer gated")


async def test_without_the_role_of_the_removal_the_controllers_account_cannot_stop_gating(
    protected,
):
    async with administering(protected.plane) as people:
        namespace = await waiting_pods(people, "web")
        ran = protected.release("--all", "--stop-gating", "--yes", kubeconfig=protected.controller)

        assert ran.code == 2
        assert "mutatingadmissionpolicybindings" in ran.err
        assert await people.gates(Key(namespace, "web")) == [GATE]


async def test_the_job_of_the_removal_does_it_as_the_controllers_account(protected, tmp_path):
    """As in its pod: no kubeconfig, but a token, and the role that comes with the Job."""
    *access, job = printed_objects("removal")
    written = yaml.safe_dump_all(access)
    assert try_kubectl(protected.plane, "apply", "-f", "-", stdin=written).code == 0
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["release", "--all", "--stop-gating", "--yes"]
    account = job["spec"]["template"]["spec"]["serviceAccountName"]
    token = try_kubectl(protected.plane, "create", "token", "-n", HOME, account)
    (tmp_path / "token").write_text(token.out)
    authority = protected.plane.folder / "pki" / "ca.crt"
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    in_pod = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(protected.plane.api_port),
    }
    try:
        async with administering(protected.plane) as people:
            namespace = await waiting_pods(people, "web")
            reached = kubectls_cluster(None, "", in_pod, account_folder=str(tmp_path))
            async with a_client(reached) as client:
                deleted = await stop_gating(client)
                decode = PodRowDecoder().decode
                done = await release_all(client, client, SYSTEM_CLOCK, decode=decode)

            assert sorted(deleted) == [
                "MutatingAdmissionPolicyBinding gate-pods.bursar.io",
                "ValidatingAdmissionPolicyBinding limit-waiting-pods.bursar.io",
            ]
            assert done.failed == {}
            assert Key(namespace, "web") in done.released
            assert await people.gates(Key(namespace, "two-gates")) == [FOREIGN]
    finally:
        try_kubectl(protected.plane, "delete", "-f", "-", stdin=written)
