"""`bursar capacity` as a user meets it, on a live cluster."""

import http.client
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from bursar.cli.capacity import capacity
from bursar.cli.ending import BadInputError
from command_line import Ran
from controlplane import ControlPlane

FOO = "example.com/foo"
VM = "kata.peerpods.io/vm"
LAUNCH = """
import sys
from bursar.cli.capacity import capacity
from bursar.cli.ending import BadInputError
try:
    sys.exit(capacity.main(standalone_mode=False))
except BadInputError as error:
    sys.exit(f"bursar: {error}")
"""


class Town:
    """Nodes of our own on a control plane, and the command."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.mark = plane, uuid.uuid4().hex[:8]
        self.node = f"hand-{self.mark}"
        self.made: list[str] = []

    def run(self, *arguments: str) -> Ran:
        """The command in a process of its own, as a user runs it."""
        words = [*arguments, "--kubeconfig", str(self.plane.kubeconfig)]
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def add(self, name: str) -> None:
        self.plane.add_node(name)
        self.made.append(f"/api/v1/nodes/{name}")

    def read(self, name: str = "") -> dict:
        return json.loads(self.plane.request("GET", f"/api/v1/nodes/{name or self.node}")[1])

    def offered(self, resource: str = FOO, name: str = "") -> str | None:
        status = self.read(name)["status"]
        assert status["capacity"].get(resource) == status["allocatable"].get(resource)
        return status["capacity"].get(resource)

    def annotation(self, name: str) -> dict | None:
        text = self.read()["metadata"].get("annotations", {}).get(name)
        return None if text is None else json.loads(text)

    def write(self, path: str, change: dict) -> None:
        """Replace an object by what is read of it and changed; kwok may write to it meanwhile."""
        code = http.client.CONFLICT
        while code == http.client.CONFLICT:
            body = json.loads(self.plane.request("GET", path.removesuffix("/status"))[1])
            for part, fields in change.items():
                for field, values in fields.items():
                    body[part].setdefault(field, {}).update(values)
            code, answer = self.plane.request("PUT", path, body)
        assert code == http.client.OK, answer

    def offer_as_somebody_else(self, amount: str, resource: str = FOO) -> None:
        amounts = {resource: amount}
        path = f"/api/v1/nodes/{self.node}/status"
        self.write(path, {"status": {"capacity": amounts, "allocatable": amounts}})

    def annotate(self, **annotations: str) -> None:
        self.write(f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": annotations}})

    def put_pod(self, name: str) -> None:
        amounts = {FOO: "1"}
        container = {
            "name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}
        }  # fmt: skip
        spec = {"nodeName": self.node, "containers": [container]}
        body = {"metadata": {"name": f"{name}-{self.mark}"}, "spec": spec}
        path = "/api/v1/namespaces/default/pods"
        account = {"metadata": {"name": "default"}}
        self.plane.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        code, answer = self.plane.request("POST", path, body)
        assert code == http.client.CREATED, answer
        self.made.append(f"{path}/{name}-{self.mark}?gracePeriodSeconds=0")


@pytest.fixture
def town(control_plane: ControlPlane) -> Iterator[Town]:
    built = Town(control_plane)
    built.add(built.node)
    yield built
    for path in reversed(built.made):
        built.plane.request("DELETE", path)


def test_set_get_and_unset(town):
    done = town.run("set", town.node, f"{FOO}=5", f"{VM}=2")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{town.node}: {FOO}: set to 5 (was none)",
        f"{town.node}: {VM}: set to 2 (was none)",
    ]
    assert (town.offered(), town.offered(VM)) == ("5", "2")
    assert town.annotation("bursar.io/capacity") == {FOO: 5, VM: 2}
    assert town.annotation("bursar.io/capacity-owner") == {FOO: 5, VM: 2}
    listed = town.run("get", town.node)
    assert [line.split() for line in listed.out.splitlines()] == [
        ["NODE", "RESOURCE", "CAPACITY", "ALLOCATABLE", "USED", "FREE", "OWNER", "OVERRIDE"],
        [town.node, FOO, "5", "5", "0", "5", "bursar", "5"],
        [town.node, VM, "2", "2", "0", "2", "bursar", "2"],
    ]
    undone = town.run("unset", town.node, FOO, VM)
    assert undone.out.splitlines()[0] == f"{town.node}: {FOO}: withdrawn (was 5)"
    assert (town.offered(), town.offered(VM)) == (None, None)
    assert town.annotation("bursar.io/capacity") is None
    assert town.annotation("bursar.io/capacity-owner") is None


def test_what_is_set_already_stays_unwritten(town):
    town.run("set", town.node, f"{FOO}=5")
    done = town.run("set", town.node, f"{FOO}=5", "-o", "json")

    (change,) = json.loads(done.out)
    assert (change["written"], change["resources"][0]["verdict"]) == (False, "Right")
    assert town.run("set", town.node, f"{FOO}=5").out == f"{town.node}: {FOO}: unchanged (5)\n"


def test_nodes_are_chosen_by_label(town):
    other = f"other-{town.mark}"
    town.add(other)
    labels = f"kubernetes.io/hostname in ({town.node},{other})"
    done = town.run("set", "-l", labels, f"{FOO}=3")

    assert done.code == 0
    assert town.offered(name=town.node) == town.offered(name=other) == "3"
    lines = json.loads(town.run("get", "-l", labels, "-o", "json").out)
    assert [(line["resource"], line["capacity"]) for line in lines] == [(FOO, "3"), (FOO, "3")]
    nobody = town.run("set", "-l", "no-such=label", f"{FOO}=3")
    assert (nobody.code, nobody.err) == (1, "bursar: no node has these labels\n")


def test_node_may_be_told_to_offer_none(town):
    done = town.run("set", town.node, f"{FOO}=none")

    assert done.code == 0
    assert town.annotation("bursar.io/capacity") == {FOO: None}
    assert town.run("get", town.node).out.splitlines()[1].split()[-2:] == ["-", "none"]


def test_what_somebody_else_has_set_needs_force(town):
    town.offer_as_somebody_else("7")
    refused = town.run("set", town.node, f"{FOO}=5")
    unset = town.run("unset", town.node, FOO)

    assert refused.code == unset.code == 1
    complaint = f"bursar: {town.node}: {FOO}: 7 was set by somebody else; left as it is\n"
    assert refused.err == unset.err == complaint
    assert town.offered() == "7"
    assert town.annotation("bursar.io/capacity") is None
    assert town.run("set", town.node, f"{FOO}=5", "--force").code == 0
    assert town.offered() == "5"


def test_what_upstreams_advertiser_looks_after_needs_force(town):
    town.annotate(**{"kata.peerpods.io/caa-owner": "some-uid"})
    refused = town.run("set", town.node, f"{VM}=5")

    assert refused.code == 1
    assert "cloud-api-adaptor looks after it on this node; left as it is" in refused.err
    assert town.run("set", town.node, f"{VM}=5", "--force").code == 0
    assert town.offered(VM) == "5"


def test_what_is_in_use_needs_force(town):
    town.run("set", town.node, f"{FOO}=5")
    for name in ("one", "two"):
        town.put_pod(name)
    refused = town.run("set", town.node, f"{FOO}=1")
    unset = town.run("unset", town.node, FOO)

    complaint = f"bursar: {town.node}: {FOO}: 2 in use; left as it is\n"
    assert (refused.code, refused.err) == (1, complaint)
    assert (unset.code, unset.err) == (1, complaint)
    assert town.run("set", town.node, f"{FOO}=2").code == 0
    forced = town.run("set", town.node, f"{FOO}=1", "--force")
    assert (forced.code, town.offered()) == (0, "1")
    assert forced.err == f"bursar: {town.node}: {FOO}: 2 in use\n"


def test_annotation_that_cannot_be_read_needs_force(town):
    town.annotate(**{"bursar.io/capacity": "{"})
    refused = town.run("set", town.node, f"{FOO}=5")

    assert refused.code == 1
    assert "annotation bursar.io/capacity: not a JSON object" in refused.err
    assert town.run("unset", town.node, FOO, "--force").code == 0
    assert town.annotation("bursar.io/capacity") is None


def test_unknown_node_is_named(town):
    done = town.run("get", "no-such-node")

    assert "no-such-node" in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("n", "cpu=5"), "cpu: not the name of an extended resource, such as example.com/foo"),
        (("n", f"{FOO}=-1"), f"{FOO}: the amount must be between 0 and 1000000000"),
        (("n", f"{FOO}=1.5"), f"{FOO}: a whole number is expected, or none"),
        (("n", f"{FOO}=1k"), f"{FOO}: a whole number is expected, or none"),
        (("n", FOO), f"{FOO}: RESOURCE=AMOUNT is expected"),
        (("n", f"{FOO}=1", f"{FOO}=2"), f"{FOO}: given twice"),
        (("-l", "((", f"{FOO}=1"), "--selector: "),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(words, complaint):
    ran = CliRunner().invoke(capacity, ["set", *words], standalone_mode=False)

    assert isinstance(ran.exception, BadInputError)
    assert str(ran.exception).startswith(complaint)


@pytest.mark.parametrize("words", [("set", "n"), ("set", f"{FOO}=1", f"{FOO}=2"), ("unset", "n")])
def test_node_and_resources_are_needed(words):
    ran = CliRunner().invoke(capacity, words)

    assert ran.exit_code == 2
    assert "--selector" in ran.stderr


def test_unset_takes_extended_resources_only():
    ran = CliRunner().invoke(capacity, ["unset", "n", "memory"], standalone_mode=False)

    assert isinstance(ran.exception, BadInputError)
