"""The verdict of `bursar describe pod`, and a real API server's answer to a strict create."""

import json
import random
import re
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from bursar.app.reports.pod import PodReport, Written, pod_report
from bursar.core.model.admission.admit import policies_of
from bursar.wire.model.admission_policies import decode_policy
from controlplane import ControlPlane
from support.builders.random_objects import as_pod
from support.manifests.random_manifests import Manifests
from support.manifests.verdicts import difference, our_errors
from support.seeds import SEED
from support.until import until_sync

Raw = dict[str, Any]
MANIFESTS = 330
CASES = 120
PODS = 20
PATHS = {
    "Pod": "api/v1",
    "PodTemplate": "api/v1",
    "ReplicationController": "api/v1",
    "Job": "apis/batch/v1",
    "CronJob": "apis/batch/v1",
}
"""Other kinds are in apps."""
CLUSTER_DEPENDENT = ("PriorityClass", "RuntimeClass", "service account", "mirror pod", "priority")
"""Refusals of admission plugins that read the cluster. The verdict lists them as not checked."""


@pytest.fixture
def new_namespace(control_plane: ControlPlane):
    made: list[str] = []

    def make() -> str:
        name = f"verdict-{uuid.uuid4().hex[:8]}"
        control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        control_plane.request("POST", accounts, {"metadata": {"name": "default"}})
        made.append(name)
        return name

    yield make
    for name in made:
        control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


def dry_run(plane: ControlPlane, namespace: str, manifest: Raw) -> tuple[int, Raw]:
    kind = manifest["kind"]
    path = f"/{PATHS.get(kind, 'apis/apps/v1')}/namespaces/{namespace}/{kind.lower()}s"
    query = "?dryRun=All&fieldValidation=Strict"
    status, body = plane.request(
        "POST", path + query, json.loads(json.dumps(manifest, sort_keys=True))
    )
    return status, json.loads(body)


def as_answer(status: int, body: Raw) -> Raw:
    """The server's answer in the form of the oracle's."""
    answer: Raw = {"decoding": "", "errors": []}
    if status == 400:
        _, _, answer["decoding"] = body["message"].partition(
            f"cannot be handled as a {kind_of(body)}: "
        )
        answer["decoding"] = answer["decoding"] or body["message"]
    elif status == 422:
        causes = body["details"]["causes"]
        answer["errors"] = [f"{cause['field']}: {cause['message']}" for cause in causes]
    return answer


def kind_of(body: Raw) -> str:
    match = re.search(r"cannot be handled as an? (\w+):", body["message"])
    return match.group(1) if match else ""


def is_cluster_dependent(status: int, message: str) -> bool:
    return (status == 403 and any(word in message for word in CLUSTER_DEPENDENT)) or (
        # The plugin asks its cache for the RuntimeClass before the name is validated.
        status == 500 and message.startswith("invalid resource name")
    )


@pytest.mark.seeded
def test_the_server_gives_the_same_verdict(control_plane, new_namespace):
    print(f"BURSAR_SEED={SEED}")
    namespace = new_namespace()
    manifests, seen = Manifests(SEED), Counter()
    while seen["compared"] < MANIFESTS:
        manifest = manifests.manifest()
        status, body = dry_run(control_plane, namespace, manifest)
        if is_cluster_dependent(status, body.get("message", "")):
            seen["depends on the cluster"] += 1
            continue
        assert status in {201, 400, 422}, (SEED, manifest, body)
        found = difference(manifest, our_errors(manifest), as_answer(status, body))
        assert not found, (SEED, found, manifest)
        seen["compared"] += 1
        seen[status] += 1
    print(dict(seen))

    assert min(seen[201], seen[400], seen[422]) > 10
    assert seen["depends on the cluster"] < MANIFESTS // 10


# ------------------------------------------------------------------ LimitRange and RuntimeClass


class Policies:
    """Random LimitRanges, RuntimeClasses and pods that may break them."""

    AMOUNTS: ClassVar = {
        "cpu": ["100m", "500m", "1", "2"],
        "memory": ["32Mi", "64Mi", "128Mi", "1Gi"],
    }

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)  # noqa: S311 - a test has to repeat

    def amounts(self, likely: float = 0.5) -> Raw:
        return {
            name: self.choose.choice(values)
            for name, values in self.AMOUNTS.items()
            if self.choose.random() < likely
        }

    def limit_range(self, name: str) -> Raw:
        items = [self._item("Container", 0.4)]
        items[0].setdefault("default", {})[f"example.com/{name}"] = "1"
        if self.choose.random() < 0.5:
            items.append(self._item("Pod", 0.3))
        return {"metadata": {"name": name}, "spec": {"limits": items}}

    def _item(self, kind: str, likely: float) -> Raw:
        pick = self.choose
        item: Raw = {"type": kind}
        names = (
            ("min", "max", "default", "defaultRequest") if kind == "Container" else ("min", "max")
        )
        least = {"cpu": ["100m", "200m"], "memory": ["16Mi", "32Mi"]}
        most = {"cpu": ["1", "1500m"], "memory": ["128Mi", "256Mi"]}
        between = {"cpu": ["300m", "500m"], "memory": ["48Mi", "64Mi"]}
        values = {"min": least, "max": most, "default": between, "defaultRequest": least}
        for name in names:
            chosen = {r: pick.choice(values[name][r]) for r in least if pick.random() < likely}
            if chosen:
                item[name] = chosen
        if pick.random() < 0.3:
            item["maxLimitRequestRatio"] = {"cpu": pick.choice(["1", "2", "1500m", "3"])}
        return item

    def runtime_class(self, name: str) -> Raw:
        made: Raw = {"metadata": {"name": name}, "handler": "runsc"}
        if self.choose.random() < 0.7:
            made["overhead"] = {"podFixed": self.amounts(0.7)}
        if self.choose.random() < 0.5:
            made["scheduling"] = {"nodeSelector": {"sandbox": "yes"}}
        return made

    def pod(self, classes: list[str]) -> Raw:
        pick = self.choose
        spec: Raw = {"containers": [self._container(f"c{n}") for n in range(pick.choice([1, 2]))]}
        if pick.random() < 0.3:
            spec["initContainers"] = [self._container("init")]
            if pick.random() < 0.5:
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if pick.random() < 0.5:
            spec["runtimeClassName"] = pick.choice(classes)
        if pick.random() < 0.2:
            spec["nodeSelector"] = {"sandbox": pick.choice(["yes", "no"])}
        if pick.random() < 0.1:
            spec["overhead"] = {"cpu": "100m"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}

    def _container(self, name: str) -> Raw:
        resources = {"requests": self.amounts(0.3), "limits": self.amounts(0.4)}
        return {"name": name, "image": "example.com/app", "resources": resources}


def stored_resources(pod: Any) -> Raw:
    """The parts of our pod that admission decides."""
    return {
        "containers": [
            [amounts(each.resources.requests), amounts(each.resources.limits)]
            for each in (*pod.init_containers, *pod.containers)
        ],
        "overhead": amounts(pod.overhead),
        "selector": dict(pod.node_selector),
    }


def amounts(found: Any) -> Raw:
    return {name: str(amount) for name, amount in sorted(found.items())}


def tokens(text: str) -> Counter[str]:
    """The parts of a refusal in any order: the server lists the resources of a map."""
    return Counter(re.split(r", |[\[\]]", text))


@pytest.mark.seeded
def test_limit_ranges_and_runtime_classes_are_applied_as_the_server_does(
    control_plane, new_namespace
):
    print(f"BURSAR_SEED={SEED}")
    policies, seen = Policies(SEED), Counter()
    for _ in range(CASES // PODS):
        case = Case(control_plane, new_namespace(), policies)
        for _ in range(PODS):
            pod = policies.pod([each["metadata"]["name"] for each in case.classes])
            seen[case.compare(pod)] += 1
        case.end()
    print(dict(seen))

    assert sum(seen.values()) >= CASES
    assert min(seen[201], seen[403]) > 5


class Case:
    """A namespace with LimitRanges, and RuntimeClasses, on the server and as ours."""

    def __init__(self, plane: ControlPlane, namespace: str, policies: Policies) -> None:
        self.plane, self.namespace = plane, namespace
        suffix = uuid.uuid4().hex[:8]
        self.classes = [policies.runtime_class(f"sandbox-{n}-{suffix}") for n in range(2)]
        for each in self.classes:
            assert self._post("/apis/node.k8s.io/v1/runtimeclasses", each)
        # The plugin reads LimitRanges from a cache. The first of them refuses nothing, so that
        # the arrival of the second can be seen.
        marker = {"type": "Container", "default": {"example.com/marker": "1"}}
        first = {"metadata": {"name": "a"}, "spec": {"limits": [marker]}}
        self.limits: list[Raw] = []
        self._place(first)
        while not self._place(policies.limit_range("b")):
            """Some random ones contradict themselves, and are refused."""

    def _place(self, limits: Raw) -> bool:
        if not self._post(f"/api/v1/namespaces/{self.namespace}/limitranges", limits):
            return False
        self.limits.append(limits)
        until_sync(self._is_placed, "the LimitRanges reach the admission plugin")
        return True

    def _post(self, path: str, body: Raw) -> bool:
        status, answer = self.plane.request("POST", path, body)
        assert status in {201, 422}, answer
        return status == 201

    def _is_placed(self) -> bool:
        probe = {"name": "c", "image": "i"}
        metadata = {"name": "probe"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [probe]},
        }
        return not self._difference(pod)[1]

    def _report(self, pod: Raw) -> PodReport:
        pod = {**pod, "metadata": {**pod["metadata"], "namespace": self.namespace}}
        known = policies_of(
            [
                replace(decode_policy("LimitRange", each), namespace=self.namespace)
                for each in self.limits
            ],
            [decode_policy("RuntimeClass", each) for each in self.classes],
            [],
        )
        return pod_report(as_pod(pod), written=Written(kind="Pod", value=pod), policies=known)

    def compare(self, pod: Raw) -> int:
        """The status of the server's answer, which ours has to agree with."""
        status, found = self._difference(pod)
        assert not found, (found, pod, self.limits, self.classes)
        return status

    def _difference(self, pod: Raw) -> tuple[int, object]:
        status, body = dry_run(self.plane, self.namespace, pod)
        report = self._report(pod)
        refusals = [text for text in report.errors if " is forbidden: " in text]
        if status == 201:
            ours, theirs = stored_resources(report.pod), stored_resources(as_pod(body))
            return status, report.errors or (ours != theirs and (ours, theirs))
        if status == 403:
            said = [tokens(text) for text in refusals]
            return status, tokens(body["message"]) not in said and (body["message"], refusals)
        causes = {f"{cause['field']}: {cause['message']}" for cause in body["details"]["causes"]}
        ours = {*report.errors} - {*refusals}
        return status, causes != ours and (causes, ours)

    def end(self) -> None:
        for each in self.classes:
            name = each["metadata"]["name"]
            self.plane.request("DELETE", f"/apis/node.k8s.io/v1/runtimeclasses/{name}")
