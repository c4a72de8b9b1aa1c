"""Each alert has a runbook with the same parts; its commands are run on a real control plane."""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from assets import ROOT, ensure
from bursar.app.install.monitoring import ALERTS, RUNBOOKS, monitoring_documents
from controlplane import ControlPlane
from support.install.printed import printed
from support.processes.command_line import COMMAND
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import own_cluster

PAGE = (ROOT / RUNBOOKS).read_text()
PARTS = ["Meaning", "Affected", "Look", "Mend"]
NEEDS_A_NODE = re.compile(r"kubectl .*\blogs\b")
"""Commands that read from a container, of which a control plane without nodes has none."""
QUOTA = """\
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {application-aware-quota/enable-gating: ""}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: compute, namespace: team}
spec: {hard: {pods: "0"}}
"""
INSTALLED = ("crds", "rbac", "controller", "webhook", "policies")


def sections() -> dict[str, str]:
    """The text of each section, by its heading."""
    _, *found = re.split(r"^## (\S+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


SECTIONS = sections()


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_there_is_a_runbook_for_each_alert_and_no_other():
    assert list(SECTIONS) == [alert.name for alert in ALERTS]


def test_the_annotation_of_an_alert_leads_to_its_runbook():
    [rules] = [each for each in monitoring_documents("aaq") if each["kind"] == "PrometheusRule"]
    for rule in rules["spec"]["groups"][0]["rules"]:
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")

        assert (ROOT / path).is_file()
        assert anchor in {name.lower() for name in SECTIONS}
        assert anchor == rule["alert"].lower()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_runbook_says_what_it_means_who_is_affected_and_what_to_do(name):
    text = SECTIONS[name]
    _, look_and_mend = text.split("**Look.**")

    assert re.findall(r"^\*\*(\w+)\.\*\* ", text, re.MULTILINE) == PARTS
    for part in look_and_mend.split("**Mend.**"):
        assert commands(part), "a command to look, and one to mend"


# ------------------------------------------------------------------ the commands


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of its own: runbooks stop gating, and delete what a test of another module may need."""
    yield from own_cluster()


@pytest.fixture
def installed(control_plane, tmp_path):
    """Runs commands of a person at a cluster with Bursar's objects and a quota."""
    for text in (printed(*INSTALLED), QUOTA):
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        ran = try_kubectl(control_plane, *apply, stdin=text)
        assert ran.code == 0, ran.err
    (tmp_path / "kubectl").symlink_to(ensure("kubectl"))
    (tmp_path / "bursar").symlink_to(COMMAND)
    environment = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }

    def run(command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=180,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("name", SECTIONS)
def test_the_commands_of_a_runbook_work(installed, name):
    wanted = [each for each in commands(SECTIONS[name]) if not NEEDS_A_NODE.match(each)]
    failed = {command: said for command in wanted for code, said in [installed(command)] if code}

    assert failed == {}


def test_a_command_that_does_not_work_is_found(installed):
    assert installed("kubectl get nonsense")[0] != 0
    assert installed("bursar manifests nonsense | cat")[0] != 0
