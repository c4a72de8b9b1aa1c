"""`bursar doctor` on a real cluster: the rights of Bursar's service accounts."""

import json
import uuid
from collections.abc import Iterator

import pytest
import yaml

from controlplane import ControlPlane
from support.install.printed import printed
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until_sync

PARTS = ("crds", "rbac", "controller", "webhook", "capacity", "agent", "extender", "operator")


class Installed:
    """Bursar's manifests. No node runs its pods."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.home = plane, f"aaq-{uuid.uuid4().hex[:6]}"
        text = printed(*PARTS, "-n", self.home, "--peerpods-namespace", self.home)
        documents = list(yaml.safe_load_all(text))
        self.definitions = [e for e in documents if e["kind"] == "CustomResourceDefinition"]
        others = [e for e in documents if e not in self.definitions]
        self.text = yaml.safe_dump_all(others)

    def apply(self) -> None:
        definitions = yaml.safe_dump_all(self.definitions)
        for text in (definitions, self.text):
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
        names = [f"crd/{each['metadata']['name']}" for each in self.definitions]
        self.kubectl("wait", "--for=condition=Established", "--timeout=120s", *names)

    def remove(self) -> None:
        try_kubectl(
            self.plane,
            *("delete", "--ignore-not-found", "--wait=false", "-f", "-"),
            stdin=self.text,
        )

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return kubectl(self.plane, *arguments, stdin=stdin)

    def doctor(self, kubeconfig: object = None) -> tuple[int, dict[str, dict[str, str]]]:
        access = f"--kubeconfig={kubeconfig or self.plane.kubeconfig}"
        ran = run_bursar("doctor", access, "-n", self.home, "-o", "json")
        return ran.code, {each["check"]: each for each in json.loads(ran.out)}

    def until(self, check: str, verdict: str) -> dict[str, str]:
        """The authorizer of the API server learns of roles by a watch."""
        until_sync(lambda: self.doctor()[1][check]["verdict"] == verdict, self.doctor)
        return self.doctor()[1][check]


@pytest.fixture(scope="module")
def installed(control_plane) -> Iterator[Installed]:
    found = Installed(control_plane)
    try:
        found.apply()
        yield found
    finally:
        found.remove()


def test_every_account_has_the_rights_of_the_manifests_and_no_others(installed):
    rights = installed.until("rights", "ok")

    assert rights["text"].startswith(
        "aaq-controller and aaq-operator and aaq-server and bursar-agent and bursar-extender"
    )
    assert installed.until("bindings", "ok")


@pytest.mark.parametrize(
    ("role", "account"),
    [("clusterrole/aaq-controller", "aaq-controller"), ("clusterrole/aaq-server", "aaq-server")],
)
def test_a_rule_that_was_removed_is_named(installed, role, account):
    stored = json.loads(installed.kubectl("get", role, "-o", "json"))
    index, rule = next(
        (index, rule)
        for index, rule in enumerate(stored["rules"])
        if rule["resources"] == ["resourcequotas"]
    )
    removal = json.dumps([{"op": "remove", "path": f"/rules/{index}"}])
    installed.kubectl("patch", role, "--type=json", "-p", removal)
    found = installed.until("rights", "problem")
    code, _ = installed.doctor()
    installed.apply()

    for verb in rule["verbs"]:
        assert f"{verb} resourcequotas" in found["text"]
    assert f"{account} may not: " in found["text"]
    assert code == 1
    assert installed.until("rights", "ok")


def test_a_binding_to_a_wider_role_is_named(installed):
    account = f"--serviceaccount={installed.home}:aaq-server"
    name = f"wider-{installed.home}"
    installed.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", account)
    try:
        found = installed.until("bindings", "warning")
        until_sync(
            lambda: "aaq-server may do everything" in installed.doctor()[1]["bindings"]["text"],
            found,
        )
    finally:
        installed.kubectl("delete", "clusterrolebinding", name)

    assert f"ClusterRoleBinding {name} (ClusterRole cluster-admin) for aaq-server" in found["text"]


def test_a_user_who_may_not_ask_is_told(installed):
    pair = installed.plane.client("reader", "system:authenticated")
    access = installed.plane.write_kubeconfig(f"{installed.home}-reader", pair)
    name = f"reader-{installed.home}"
    installed.kubectl("create", "clusterrolebinding", name, "--clusterrole=view", "--user=reader")
    try:
        until_sync(
            lambda: "subjectaccessreviews" in installed.doctor(access)[1]["rights"]["advice"],
            lambda: installed.doctor(access),
        )
    finally:
        installed.kubectl("delete", "clusterrolebinding", name)
