"""Pods: what the server fills in, what may change, and how they get to a node."""

import json

import pytest

from bursar.app.cluster.kinds import BINDINGS, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES
from bursar.app.cluster.ports import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
)

GATES = [{"name": "x.io/a"}, {"name": "x.io/b"}]
IMMUTABLE = 'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than '


class Pods:
    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace
        self.key = Key(namespace, "p")

    async def create(self, *, resources=None, name="p", **spec):
        container = {"name": "c", "image": "i", "resources": resources or {}}
        whole = {"containers": [container], "schedulerName": "nobody", **spec}
        body = {"metadata": {"name": name}, "spec": whole}
        return json.loads(await self.cluster.port.create(PODS, body, namespace=self.namespace))

    async def merge(self, body, subresource=""):
        patch = Patch(kind=PatchKind.MERGE, body=body)
        return json.loads(
            await self.cluster.port.patch(PODS, self.key, patch, subresource=subresource)
        )

    async def steps(self, *operations, subresource=""):
        patch = Patch(kind=PatchKind.JSON, body=operations)
        return json.loads(
            await self.cluster.port.patch(PODS, self.key, patch, subresource=subresource)
        )

    async def bind(self, node):
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": node},
        }
        await self.cluster.port.create(BINDINGS, body, namespace=self.namespace)

    async def read(self):
        return await self.cluster.read(PODS, self.key)


@pytest.fixture
async def pods(cluster) -> Pods:
    return Pods(cluster, await cluster.namespace(for_pods=True))


async def test_a_pod_begins_pending_with_its_class(pods):
    made = await pods.create(resources={"limits": {"cpu": "0.5", "memory": "1024Ki"}})

    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Mi"},
        "requests": {"cpu": "500m", "memory": "1Mi"},
    }
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["priority"] == 0
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30


async def test_a_gated_pod_says_why_it_is_not_scheduled(pods):
    made = await pods.create(schedulingGates=GATES, schedulerName="default-scheduler")
    (condition,) = made["status"]["conditions"]

    assert condition.pop("lastTransitionTime")
    assert condition.pop("lastProbeTime", None) is None
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            (
                'spec.containers[0].resources.requests: Invalid value: "2": must be less than or '
                "equal to cpu limit of 1"
            ),
        ),
        (
            {"nodeName": "n", "schedulingGates": GATES},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
    ],
    ids=["no containers", "no image", "request above limit", "gated on a node"],
)
async def test_a_bad_pod_is_refused_in_the_servers_words(pods, spec, problem):
    with pytest.raises(InvalidError) as caught:
        await pods.create(**spec)
    assert caught.value.message == f'Pod "p" is invalid: {problem}'
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


async def test_a_quantity_must_be_one(pods):
    with pytest.raises(InvalidError) as caught:
        await pods.create(resources={"requests": {"cpu": "abc"}})
    assert caught.value.code == 400
    assert caught.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular '
        "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


# ------------------------------------------------------------------ gates


async def test_gates_can_only_go(pods):
    await pods.create(schedulingGates=GATES)
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"spec": {"schedulingGates": [GATES[0], {"name": "x.io/c"}]}})
    assert caught.value.message == (
        'Pod "p" is invalid: spec.schedulingGates[1].name: Forbidden: only deletion is allowed, '
        "but found new scheduling gate 'x.io/c'"
    )
    after = await pods.merge({"spec": {"schedulingGates": [GATES[1]]}})
    assert after["metadata"]["generation"] == 2
    after = await pods.steps(
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "x.io/b"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    )
    assert not after["spec"].get("schedulingGates")
    assert after["status"]["conditions"][0]["reason"] == "SchedulingGated"
    with pytest.raises(InvalidError, match="only deletion is allowed"):
        await pods.merge({"spec": {"schedulingGates": GATES}})


async def test_a_gate_can_be_lifted_only_if_it_is_where_it_was(pods):
    await pods.create(schedulingGates=GATES)
    with pytest.raises(ConflictError):
        await pods.steps(
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "x.io/b"},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        )
    assert (await pods.read())["spec"]["schedulingGates"] == GATES


async def test_a_gated_pod_can_be_told_where_to_go(pods):
    await pods.create(schedulingGates=GATES)
    after = await pods.merge({"spec": {"nodeSelector": {"a": "b"}}})
    assert after["spec"]["nodeSelector"] == {"a": "b"}
    with pytest.raises(InvalidError, match="only additions to"):
        await pods.merge({"spec": {"nodeSelector": {"a": "c"}}})


# ------------------------------------------------------------------ changes


@pytest.mark.parametrize(
    "change",
    [{"nodeName": "n"}, {"priority": 7}, {"restartPolicy": "Never"}, {"nodeSelector": {"a": "b"}}],
    ids=lambda change: next(iter(change)),
)
async def test_most_of_a_pod_cannot_change(pods, change):
    await pods.create()
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"spec": change})
    assert caught.value.message.startswith(IMMUTABLE)


async def test_resources_change_through_resize_only(pods):
    await pods.create(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    half = {
        "op": "replace",
        "path": "/spec/containers/0/resources/requests/cpu",
        "value": "0.5",
    }
    with pytest.raises(InvalidError) as caught:
        await pods.steps(half)
    assert caught.value.message.startswith(IMMUTABLE)
    after = await pods.steps(half, subresource="resize")
    assert after["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert after["metadata"]["generation"] == 2
    ignored = {"metadata": {"labels": {"x": "y"}}, "spec": {"nodeSelector": {"a": "b"}}}
    after = await pods.merge(ignored, "resize")
    assert "labels" not in after["metadata"]
    assert "nodeSelector" not in after["spec"]


async def test_a_resize_keeps_the_class(pods):
    await pods.create()
    resources = {"requests": {"cpu": "1"}}
    with pytest.raises(InvalidError) as caught:
        await pods.merge(
            {"spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}},
            "resize",
        )
    assert caught.value.message == (
        'Pod "p" is invalid: spec: Invalid value: "BestEffort": Pod QOS Class may not change as a '
        "result of resizing"
    )


async def test_images_and_deadlines_may_change(pods):
    await pods.create()
    after = await pods.steps({"op": "replace", "path": "/spec/containers/0/image", "value": "j"})
    assert after["spec"]["containers"][0]["image"] == "j"
    await pods.merge({"spec": {"activeDeadlineSeconds": 9}})
    assert (await pods.merge({"spec": {"activeDeadlineSeconds": 5}}))["metadata"]["generation"] == 4
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"spec": {"activeDeadlineSeconds": 7}})
    assert caught.value.message == (
        'Pod "p" is invalid: spec.activeDeadlineSeconds: Invalid value: 7: must be less than or '
        "equal to previous value"
    )
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"spec": {"activeDeadlineSeconds": None}})
    assert caught.value.message == (
        'Pod "p" is invalid: spec.activeDeadlineSeconds: Invalid value: null: must not update from '
        "a positive integer to nil value"
    )


async def test_containers_and_tolerations_only_in_the_servers_way(pods):
    await pods.create(tolerations=[{"key": "a", "operator": "Exists"}])
    item = {"name": "d", "image": "i"}
    with pytest.raises(InvalidError) as caught:
        await pods.steps({"op": "add", "path": "/spec/containers/-", "value": item})
    assert caught.value.message == (
        'Pod "p" is invalid: spec.containers: Forbidden: pod updates may not add or remove '
        "containers"
    )
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}})
    assert caught.value.message == (
        'Pod "p" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified '
        "except its tolerationSeconds"
    )
    item = {"key": "b", "operator": "Exists"}
    after = await pods.steps({"op": "add", "path": "/spec/tolerations/-", "value": item})
    assert item in after["spec"]["tolerations"]


async def test_a_pods_status_is_written_apart_and_brings_labels(pods):
    await pods.create()
    change = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"priority": 9},
        "status": {"message": "hello"},
    }
    after = await pods.merge(change, "status")
    assert after["status"]["message"] == "hello"
    assert after["metadata"]["labels"] == {"x": "y"}
    assert (after["spec"]["priority"], after["metadata"]["generation"]) == (0, 1)
    ignored = await pods.merge({"status": {"message": "other"}})
    assert ignored == after
    with pytest.raises(InvalidError) as caught:
        await pods.merge({"status": {"qosClass": "Guaranteed"}}, "status")
    assert caught.value.message == (
        'Pod "p" is invalid: status.qosClass: Invalid value: "Guaranteed": field is immutable'
    )


# ------------------------------------------------------------------ to a node


async def test_a_binding_puts_a_pod_on_a_node_once(pods):
    await pods.create()
    await pods.bind("not-a-node")
    after = await pods.read()

    assert after["spec"]["nodeName"] == "not-a-node"
    (condition,) = after["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert after["metadata"]["generation"] == 1
    with pytest.raises(ConflictError) as caught:
        await pods.bind("other")
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node '
        '"not-a-node"'
    )


async def test_a_binding_is_for_the_pod_of_one_uid(pods):
    uid = (await pods.create())["metadata"]["uid"]
    port, limits = pods.cluster.port, {"send_by": float("inf"), "timeout_seconds": 30.0}
    with pytest.raises(ConflictError):
        await port.bind(pods.key, "another", "n", **limits)
    await port.bind(pods.key, uid, "n", **limits)
    assert (await pods.read())["spec"]["nodeName"] == "n"
    with pytest.raises(ConflictError, match="already assigned"):
        await port.bind(pods.key, uid, "n", **limits)
    with pytest.raises(NotFoundError):
        await port.bind(Key(pods.namespace, "none"), uid, "n", **limits)


async def test_a_gated_pod_cannot_be_bound(pods):
    with pytest.raises(NotFoundError, match='pods "p" not found'):
        await pods.bind("n")
    await pods.create(schedulingGates=GATES)
    with pytest.raises(ConflictError) as caught:
        await pods.bind("n")
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty '
        ".spec.schedulingGates"
    )


async def test_pods_without_a_node_can_be_selected(cluster, pods):
    await pods.create()
    await pods.create(name="q", nodeName="x")

    async def names(selector):
        query = Query(namespace=pods.namespace, field_selector=selector)
        page = await cluster.port.list(PODS, query)
        return [json.loads(item)["metadata"]["name"] for item in page.items]

    assert await names("spec.nodeName=") == ["p"]
    assert await names("spec.nodeName=x,status.phase!=Running") == ["q"]


# ------------------------------------------------------------------ classes


async def test_a_priority_comes_from_its_class(cluster, pods):
    name = pods.namespace
    body = {"metadata": {"name": name}, "value": 77, "preemptionPolicy": "Never"}
    await cluster.port.create(PRIORITY_CLASSES, body)
    made = await pods.create(priorityClassName=name)

    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (77, "Never")
    await cluster.port.delete(PRIORITY_CLASSES, Key("", name))
    critical = await pods.create(name="c", priorityClassName="system-node-critical")
    assert critical["spec"]["priority"] == 2000001000


@pytest.mark.parametrize(
    ("spec", "detail"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; priority "
                "admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_unknown_classes_are_forbidden(pods, spec, detail):
    with pytest.raises(ForbiddenError) as caught:
        await pods.create(**spec)
    assert caught.value.message == f'pods "p" is forbidden: {detail}'


async def test_a_runtime_class_brings_overhead(cluster, pods):
    name = pods.namespace
    body = {
        "metadata": {"name": name},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"rc": "x"}},
    }
    await cluster.port.create(RUNTIME_CLASSES, body)
    made = await pods.create(runtimeClassName=name)

    assert made["spec"]["overhead"] == {"cpu": "250m"}
    assert made["spec"]["nodeSelector"] == {"rc": "x"}
    with pytest.raises(ForbiddenError, match="Overhead doesn't match"):
        await pods.create(name="q", runtimeClassName=name, overhead={"cpu": "1"})
    await cluster.port.delete(RUNTIME_CLASSES, Key("", name))
