"""`bursar capacity` as a user meets it, on a live cluster."""

import http.client
import json
import uuid
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from bursar.cli.capacity.capacity import capacity
from bursar.cli.errors.exit_codes import BadInputError
from controlplane import ControlPlane
from support.processes.command_line import Ran, run_bursar
from support.processes.kubectl import try_kubectl
from support.until import until_sync

FOO = "example.com/foo"
VM = "kata.peerpods.io/vm"


class Town:
    """Nodes of our own on a control plane, and the command."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.mark = plane, uuid.uuid4().hex[:8]
        self.node = f"hand-{self.mark}"
        self.made: list[str] = []

    def run(self, *arguments: str) -> Ran:
        return run_bursar("capacity", *arguments, "--kubeconfig", str(self.plane.kubeconfig))

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

    def offer_as_somebody_else(self, amount: str) -> None:
        amounts = {FOO: amount}
        path = f"/api/v1/nodes/{self.node}/status"
        self.write(path, {"status": {"capacity": amounts, "allocatable": amounts}})

    def annotate(self, **annotations: str) -> None:
        self.write(f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": annotations}})

    def label(self, **labels: str) -> None:
        self.write(f"/api/v1/nodes/{self.node}", {"metadata": {"labels": labels}})

    @property
    def namespace(self) -> str:
        return f"town-{self.mark}"

    def declare(self, text: str) -> None:
        self.make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._configure("bursar-capacity", {"some": text})

    def preset(self, limit: str) -> None:
        self._configure("peer-pods-cm", {"PEERPODS_LIMIT_PER_NODE": limit})

    def _configure(self, name: str, data: dict) -> None:
        body = {"metadata": {"name": name}, "data": data}
        self.make(f"/api/v1/namespaces/{self.namespace}/configmaps", body)

    def make(self, path: str, body: dict) -> None:
        code, answer = self.plane.request("POST", path, body)
        assert code == http.client.CREATED, answer
        self.made.append(f"{path}/{body['metadata']['name']}")

    def forbid(self, node: str) -> None:
        """Let the API server refuse what people write to the status of a node."""
        name = f"forbid-{self.mark}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
        ours = f"object.metadata.name == '{node}' && has(object.metadata.annotations) && "
        ours += "'bursar.io/capacity' in object.metadata.annotations"
        policy = {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["nodes/status"]}]},
            "matchConditions": [{"name": "ours", "expression": ours}],
            "validations": [{"expression": "false", "message": "hands off"}],
        }
        bound = {"policyName": name, "validationActions": ["Deny"]}
        group = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
        self.make(f"{group}ies", {"metadata": {"name": name}, "spec": policy})
        self.make(f"{group}ybindings", {"metadata": {"name": name}, "spec": bound})
        change = '{"metadata": {"annotations": {"bursar.io/capacity": "{}"}}}'
        patch = ("patch", "node", node, "--subresource=status", "--dry-run=server", "-p", change)
        until_sync(lambda: try_kubectl(self.plane, *patch).code, "the policy is in force")

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
    listed = town.run("get", town.node, "-o", "wide")
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
    assert [(line["used"], line["free"]) for line in lines] == [("0", "3"), ("0", "3")]
    nobody = town.run("set", "-l", "no-such=label", f"{FOO}=3")
    assert (nobody.code, nobody.err) == (1, "bursar: no node has these labels\n")


def test_node_may_be_told_to_offer_none(town):
    done = town.run("set", town.node, f"{FOO}=none")

    assert done.code == 0
    assert town.annotation("bursar.io/capacity") == {FOO: None}
    assert town.run("get", town.node, "-o", "wide").out.splitlines()[1].split()[-2:] == [
        "-",
        "none",
    ]


def test_what_somebody_else_has_set_needs_force(town):
    town.offer_as_somebody_else("7")
    refused = town.run("set", town.node, f"{FOO}=5")
    unset = town.run("unset", town.node, FOO)

    assert refused.code == unset.code == 1
    complaint = f"bursar: {town.node}: {FOO}: 7 was set by another client; left as it is\n"
    assert refused.err == unset.err == complaint
    assert town.offered() == "7"
    assert town.annotation("bursar.io/capacity") is None
    assert town.run("set", town.node, f"{FOO}=5", "--force").code == 0
    assert town.offered() == "5"


def test_what_upstreams_advertiser_looks_after_needs_force(town):
    town.annotate(**{"kata.peerpods.io/caa-owner": "some-uid"})
    refused = town.run("set", town.node, f"{VM}=5")

    assert refused.code == 1
    assert "cloud-api-adaptor sets it on this node; left as it is" in refused.err
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


def test_wish_of_a_busy_node_is_forgotten_where_something_is_declared(town):
    """The amount is left to the controller; it neither vanishes meanwhile nor is in the way."""
    town.declare(
        f"resource: {FOO}\namount: 4\nnodeSelector: {{kubernetes.io/hostname: {town.node}}}"
    )
    town.run("set", town.node, f"{FOO}=2", f"{VM}=1")
    for name in ("one", "two"):
        town.put_pod(name)
    place = ("-n", town.namespace)
    done = town.run("unset", town.node, FOO, *place)

    assert (done.code, done.err) == (0, "")
    assert done.out == f"{town.node}: {FOO}: left to what is declared (4)\n"
    assert town.annotation("bursar.io/capacity") == {VM: 1}
    assert town.annotation("bursar.io/capacity-owner") == {FOO: 2, VM: 1}
    assert town.offered() == "2"
    town.run("set", town.node, f"{FOO}=2")
    forced = town.run("unset", town.node, FOO, VM, *place, "--force", "-o", "json")
    (change,) = json.loads(forced.out)
    assert (change["declared"], change["written"]) == ({FOO: 4}, True)
    assert (town.offered(), town.offered(VM)) == ("2", None)
    assert town.annotation("bursar.io/capacity") is None


def test_preset_takes_over_as_well_and_what_cannot_be_read_is_told(town):
    town.declare("amount: 4")
    town.preset("3")
    town.label(**{"katacontainers.io/kata-runtime": "true"})
    town.run("set", town.node, f"{VM}=2")
    places = ("-n", town.namespace, "--peerpods-namespace", town.namespace)
    done = town.run("unset", town.node, VM, *places)

    assert (done.code, done.out) == (0, f"{town.node}: {VM}: left to what is declared (3)\n")
    assert done.err.startswith(f"bursar: {town.namespace}/bursar-capacity: some: resource: ")
    town.run("set", town.node, f"{VM}=2")
    elsewhere = town.run("unset", town.node, VM, *places, "--peerpods-nodes=no=such")
    assert elsewhere.out == f"{town.node}: {VM}: withdrawn (was 2)\n"


def test_node_that_cannot_be_written_keeps_none_of_the_others_from_it(town):
    names = sorted((town.node, f"a-{town.mark}", f"z-{town.mark}"))
    for name in names:
        if name != town.node:
            town.add(name)
    town.forbid(town.node)
    labels = ("-l", f"kubernetes.io/hostname in ({','.join(names)})")
    done = town.run("set", *labels, f"{FOO}=3")

    assert done.code == 1
    others = [name for name in names if name != town.node]
    assert done.out.splitlines() == [f"{name}: {FOO}: set to 3 (was none)" for name in others]
    assert done.err.startswith(f"bursar: {town.node}: ")
    assert "hands off" in done.err
    assert len(done.err.splitlines()) == 1
    assert [town.offered(name=name) for name in names] == ["3", None, "3"]
    again = json.loads(town.run("unset", *labels, FOO, "-o", "json").out)
    assert [(each["node"], each["written"], bool(each["failure"])) for each in again] == [
        (names[0], True, False),
        (names[1], False, False),
        (names[2], True, False),
    ]
    failed = town.run("set", *labels, f"{FOO}=3", "-o", "json")
    assert failed.code == 1
    assert ["hands off" in each["failure"] for each in json.loads(failed.out)] == [
        False,
        True,
        False,
    ]


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


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize(
    "words", [("set", f"{VM}=0", "--force"), ("unset", VM, "--force"), ("get",), ("set",)]
)
def test_node_that_is_empty_is_not_every_node(words, name):
    """As where a script says "$NODE" and nobody has set it."""
    verb, *rest = words
    ran = run_bursar("capacity", verb, name, *rest, "--kubeconfig", "no-such-file")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "bursar: NODE is empty; name a node, or give --selector\n"


@pytest.mark.parametrize("words", [("set", f"{VM}=0"), ("unset", VM)])
def test_selector_that_is_blank_is_not_every_node(words):
    ran = run_bursar("capacity", *words, "-l", " ", "--force", "--kubeconfig", "no-such-file")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "bursar: --selector: an empty selector would select every node\n"


@pytest.mark.parametrize("words", [("set", "n"), ("set", f"{FOO}=1", f"{FOO}=2"), ("unset", "n")])
def test_node_and_resources_are_needed(words):
    ran = CliRunner().invoke(capacity, words)

    assert ran.exit_code == 2
    assert "--selector" in ran.stderr


def test_unset_takes_extended_resources_only():
    ran = CliRunner().invoke(capacity, ["unset", "n", "memory"], standalone_mode=False)

    assert isinstance(ran.exception, BadInputError)
