"""Documents as objects: kinds, Lists, and errors that name object and field."""

import json
from typing import Any

import pytest

from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import Place
from bursar.wire.model.objects import Entry, ObjectError, Skipped, read_objects
from bursar.wire.model.workloads.autoscaler import Autoscaler
from bursar.wire.model.workloads.workload import WorkloadTemplate


def read(text: str) -> list[Entry]:
    return [
        entry for document in read_documents([text.encode()]) for entry in read_objects(document)
    ]


def refusal(text: str) -> ObjectError:
    with pytest.raises(ObjectError) as caught:
        read(text)
    return caught.value


def kinds(*objects: Any) -> list[Any]:
    return [
        entry.decoded.kind if isinstance(entry.decoded, Skipped) else type(entry.decoded)
        for each in objects
        for entry in read(json.dumps(each))
    ]


def an_object(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}


POD = an_object("v1", "Pod")
TEMPLATE = {"template": {}}


def test_pods_nodes_and_workloads_are_read():
    assert kinds(
        POD,
        an_object("v1", "Node"),
        an_object("apps/v1", "Deployment", spec=TEMPLATE),
        an_object("v1", "ReplicationController", spec=TEMPLATE),
        an_object("v1", "PodTemplate", template={}),
        an_object("batch/v1", "CronJob", spec={"jobTemplate": {"spec": TEMPLATE}}),
    ) == [Pod, Node, WorkloadTemplate, WorkloadTemplate, WorkloadTemplate, WorkloadTemplate]


def test_autoscalers_are_read_in_the_versions_that_are_served():
    assert kinds(
        an_object("autoscaling/v2", "HorizontalPodAutoscaler", spec={"maxReplicas": 2}),
        an_object("autoscaling/v1", "HorizontalPodAutoscaler"),
        an_object("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
    ) == [Autoscaler, Autoscaler, "HorizontalPodAutoscaler.autoscaling"]


def test_other_kinds_are_passed_over():
    assert kinds(
        an_object("v1", "Secret", data={"password": "aGVsbG8="}),
        an_object("apps/v1", "ControllerRevision"),
        an_object("networking.k8s.io/v1", "Ingress"),
        an_object("example.com/v1alpha1", "Pod"),
        an_object("policy/v1", "PodDisruptionBudget"),
    ) == [
        "Secret",
        "ControllerRevision",
        "Ingress.networking.k8s.io",
        "Pod.example.com",
        "PodDisruptionBudget.policy",
    ]


def test_lists_are_opened_up():
    nested = {"apiVersion": "v1", "kind": "List", "items": [POD, an_object("v1", "Node")]}

    assert kinds({"apiVersion": "v1", "kind": "List", "items": [nested, POD]}) == [Pod, Node, Pod]
    assert kinds({"apiVersion": "v1", "kind": "List", "items": None}) == []
    assert kinds({"apiVersion": "v1", "kind": "PodList"}) == []


def test_items_of_a_typed_list_need_not_say_what_they_are():
    items = [{"metadata": {"name": "a"}}, {"kind": "Pod", "metadata": {"name": "b"}}]

    assert kinds({"apiVersion": "v1", "kind": "PodList", "items": items}) == [Pod, Pod]
    assert kinds({"apiVersion": "v1", "kind": "SecretList", "items": [{}]}) == ["Secret"]
    assert kinds({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": []}) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "1:1: a Kubernetes object is expected, found a number"),
        ("- kind: Pod", "1:1: a Kubernetes object is expected, found a list"),
        ("metadata: {name: x}", "1:1: apiVersion: required, but missing"),
        ("apiVersion: v1\nmetadata: {name: x}", "1:1: kind: required, but missing"),
        ("apiVersion: v1\nkind: ''", "2:7: kind: required, but missing"),
        ("apiVersion: 1\nkind: Pod", "1:13: Pod: apiVersion: a string is expected, found a number"),
        ("apiVersion: v1\nkind: [Pod]", "2:7: kind: a string is expected, found a list"),
        ("apiVersion: v1\nkind: Pdo", "2:7: Pdo: kind: there is no such kind in v1"),
        ("apiVersion: v1\nkind: PdoList", "2:7: PdoList: kind: there is no such kind in v1"),
        ("apiVersion: apps/v1\nkind: Pod", "2:7: Pod: kind: there is no such kind in apps/v1"),
        ("apiVersion: apps/v1\nkind: List", "2:7: List: kind: there is no such kind in apps/v1"),
        (
            "apiVersion: v1\nkind: po d",
            "2:7: po d: kind: not a name that Kubernetes could have given",
        ),
        (
            "apiVersion: V1\nkind: Pod",
            "1:13: Pod: apiVersion: not a name that Kubernetes could have given",
        ),
        (
            f"apiVersion: v{'1' * 300}\nkind: Pod",
            "1:13: Pod: apiVersion: not a name that Kubernetes could have given",
        ),
        (
            "apiVersion: v2\nkind: Pod",
            "1:13: Pod: apiVersion: not a version that Kubernetes serves; use v1",
        ),
        (
            "apiVersion: extensions/v1beta1\nkind: Deployment",
            "1:13: Deployment: apiVersion: not a version that Kubernetes serves; use apps/v1",
        ),
        ("apiVersion: v1\nkind: Pod", "1:1: Pod: metadata.name: required, but missing"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {}",
            "3:11: Node: metadata.name: required, but missing",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nspec: {template: {}}",
            "1:1: Job: metadata.name: required, but missing",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: {}",
            "3:8: List: items: a list is expected, found an object",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- 5",
            "4:3: a Kubernetes object is expected, found a number",
        ),
    ],
)
def test_what_is_no_object_is_refused(text, message):
    assert str(refusal(text)) == message


@pytest.mark.parametrize(
    ("meta", "subject"),
    [
        ("{name: web, namespace: shop}", "Pod shop/web"),
        ("{name: web}", "Pod web"),
        ("{namespace: shop}", "Pod"),
        ("{name: web, namespace: 5}", "Pod web"),
        ("[]", "Pod"),
        ('{name: "a\\nb", namespace: ' + "x" * 99 + "}", "Pod " + "x" * 64 + r".../a\nb"),
    ],
)
def test_the_object_is_named_as_far_as_it_has_a_name(meta, subject):
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {meta}\nspec: 5"

    assert refusal(text).subject == subject


LISTED = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: good}
  - metadata: {name: bad, namespace: shop}
    spec:
      containers:
      - resources:
          limits:
            nvidia.com/gpu: many
"""


def test_an_error_in_a_list_has_the_place_of_the_field_and_the_name_of_the_item():
    error = refusal(LISTED)

    assert error.place == Place(15, 29)
    assert error.subject == "Pod shop/bad"
    assert error.field == "spec.containers[0].resources.limits[nvidia.com/gpu]"
    assert error.found == "many"


def test_every_object_knows_where_it_begins():
    entries = read(LISTED.replace("many", "1") + "---\n# next\n" + json.dumps(POD))

    assert [entry.place.line for entry in entries] == [4, 9, 10, 18]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Pod", "spec: {overhead: {cpu: -1}}"),
        ("Node", "status: {capacity: {cpu: -1}}"),
    ],
)
def test_amounts_below_zero_are_refused(kind, body):
    error = refusal(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\n{body}")

    assert error.problem == 'Invalid value: "-1": must be greater than or equal to 0'
    assert error.place.line == 4
