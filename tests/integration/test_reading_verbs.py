"""The options that all reading verbs share, on a real cluster, and what its refusals look like."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from controlplane import ControlPlane
from support.builders.manifests import arq_manifest, namespace_manifest, pod_manifest
from support.cluster.control_plane import wait_for_account
from support.processes.command_line import COMMAND, Ran, run_bursar
from support.processes.kubectl import kubectl, try_kubectl

GATE = "ApplicationAwareQuotaGate"
GATED = {"application-aware-quota/enable-gating": ""}


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@dataclass(frozen=True)
class Town:
    """Two namespaces with a quota and waiting pods each."""

    plane: ControlPlane
    here: str = field(default_factory=lambda: f"here-{uuid.uuid4().hex[:6]}")

    @property
    def there(self) -> str:
        return self.here.replace("here", "there")

    def apply(self) -> None:
        for space in (self.here, self.there):
            self.create(namespace_manifest(space, **GATED))
            self.create(arq_manifest(f"{space}/team", {"requests.memory": "1Gi"}))
            wait_for_account(self.plane, space)
            for name, tier in (("web", "front"), ("db", "back")):
                self.add_pod(f"{space}/{name}", tier)

    def add_pod(self, where: str, tier: str) -> None:
        labels = {"metadata": {"labels": {"tier": tier}}}
        self.create(pod_manifest(where, GATE, requests="memory=2Gi", **labels))

    def create(self, manifest: dict) -> None:
        kubectl(self.plane, "create", "-f", "-", stdin=json.dumps(manifest))

    def remove(self) -> None:
        for space in (self.here, self.there):
            try_kubectl(self.plane, "delete", "namespace", space, "--wait=false")

    def run(self, *arguments: str, kubeconfig: Path | None = None) -> Ran:
        access = str(kubeconfig or self.plane.kubeconfig)
        return run_bursar(*arguments, "--kubeconfig", access)

    def listed(self, *arguments: str) -> list[str]:
        ran = self.run(*arguments, "-o", "json")
        return [f"{each['namespace']}/{each['name']}" for each in json.loads(ran.out)]

    def kubeconfig_of(self, name: str, user: dict) -> Path:
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        config["users"] = [{"name": "u", "user": user}]
        config["contexts"] = [{"name": name, "context": {"cluster": "bursar", "user": "u"}}]
        config["current-context"] = name
        path = self.plane.folder / f"{self.here}-{name}"
        path.write_text(yaml.safe_dump(config))
        return path


@pytest.fixture(scope="module")
def town(control_plane) -> Iterator[Town]:
    found = Town(control_plane)
    try:
        found.apply()
        yield found
    finally:
        found.remove()


@pytest.mark.parametrize("verb", [("queue",), ("explain", "pod")], ids=" ".join)
def test_namespaces_and_labels_select_as_they_do_for_kubectl(town, verb):
    here, there = town.here, town.there

    assert set(town.listed(*verb, "-n", here)) == {f"{here}/db", f"{here}/web"}
    assert town.listed(*verb) == []
    assert set(town.listed(*verb, "-A", "-l", "tier=front")) == {f"{here}/web", f"{there}/web"}
    by_name = ("--field-selector", "metadata.name=db")
    assert town.listed(*verb, "-n", here, *by_name) == [f"{here}/db"]


def test_a_reading_of_one_namespace_knows_the_quota_that_a_pod_waits_for(town):
    ran = town.run("explain", "pod", "web", "-n", town.here, "-o", "json")

    [web] = json.loads(ran.out)
    assert "exceeded quota: team" in web["summary"]


def test_the_namespace_of_the_context_is_the_one_that_is_shown(town):
    config = yaml.safe_load(town.plane.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = town.here
    path = town.plane.folder / f"{town.here}-context"
    path.write_text(yaml.safe_dump(config))

    names = town.run("queue", "-o", "name", kubeconfig=path).out.split()

    assert sorted(names) == ["pod/db", "pod/web"]


def test_a_tenant_sees_his_own_queue_and_is_told_that_positions_are_within_it(town):
    rights = ("--verb=list", "--resource=pods,resourcequotas")
    kinds = "applicationawareresourcequotas.aaq.kubevirt.io"
    kubectl(town.plane, "-n", town.here, "create", "role", "see", *rights, f"--resource={kinds}")
    who = ("--role=see", "--user=tenant")
    kubectl(town.plane, "-n", town.here, "create", "rolebinding", "see", *who)
    path = town.plane.write_kubeconfig("tenant", town.plane.client("tenant"))

    ran = town.run("queue", "-n", town.here, "-o", "name", kubeconfig=path)
    refused = town.run("queue", "-A", kubeconfig=path)

    assert sorted(ran.out.split()) == ["pod/db", "pod/web"], ran.err
    assert "you may not list all namespaces; positions are within" in ran.err
    assert refused.code == 2
    assert refused.err.startswith(f"bursar: {town.plane.url} (context bursar): ")
    assert "forbidden" in refused.err
    assert "; ask for this right, or name another cluster with --context" in refused.err


@pytest.mark.parametrize("verb", [("queue",), ("doctor",), ("capacity", "get")], ids=" ".join)
def test_credentials_that_the_server_does_not_accept_are_named(town, verb):
    path = town.kubeconfig_of("expired", {"token": "made-up"})

    ran = town.run(*verb, kubeconfig=path)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"bursar: {town.plane.url} (context expired): ")
    assert "; the user of this context has to log in again; or name another" in ran.err
    assert "made-up" not in ran.err


@pytest.mark.parametrize("verb", ["queue", "explain pod"])
def test_a_watch_shows_a_pod_that_comes_and_no_other_row_again(town, verb):
    space = town.there
    command = [str(COMMAND), *verb.split(), "-n", space, "-w", "--no-headers"]
    command += ["--kubeconfig", str(town.plane.kubeconfig)]
    name = f"late-{verb.partition(' ')[0]}"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            first = [program.stdout.readline() for _ in town.listed(*verb.split(), "-n", space)]
            town.add_pod(f"{space}/{name}", "late")
            added = program.stdout.readline()
        finally:
            program.terminate()

    assert all(space in line for line in first)
    assert name in added, first
