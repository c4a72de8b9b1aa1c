"""Cluster-level resources through the real kube-scheduler."""

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from controlplane import ControlPlane
from program import Program
from support.cluster.control_plane import started_control_plane
from support.extender.processes import (
    ExtenderProcess,
    apply,
    cluster_resource,
    licensed_pod,
    observed,
    running,
)
from support.install.printed import printed
from support.processes.kubectl import kubectl, try_kubectl
from support.seeds import SEED
from support.until import until, until_blocking

pytestmark = pytest.mark.integration

RESOURCES = tuple(f"example.com/licence-{number}" for number in range(8))
"""Each test takes one, so that no pool is left over from another test."""
SECOND = "second-scheduler"
KILLS = int(os.environ.get("BURSAR_KILLS") or 3)


@dataclass
class Scene:
    plane: ControlPlane
    extender: ExtenderProcess
    second: Program

    def namespace(self, **labels: str) -> str:
        name = f"team-{uuid.uuid4().hex[:6]}"
        space = {"apiVersion": "v1", "kind": "Namespace"}
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        # Pods are refused before the account exists, which a controller makes a moment later.
        apply(
            self.plane,
            {**space, "metadata": {"name": name, "labels": labels}},
            {**account, "metadata": {"name": "default", "namespace": name}},
        )
        return name

    def status(self, name: str) -> dict:
        out = kubectl(self.plane, "get", "clusterresource", name, "-o", "json")
        return json.loads(out).get("status", {})

    def messages(self, namespace: str, reason: str = "FailedScheduling") -> list[str]:
        selector = f"--field-selector=reason={reason}"
        out = kubectl(self.plane, "get", "events", "-n", namespace, selector, "-o", "json")
        return [each.get("message") or each.get("note", "") for each in json.loads(out)["items"]]

    def delete(self, namespace: str, name: str) -> None:
        kubectl(self.plane, "delete", "pod", "-n", namespace, name, "--grace-period=0", "--force")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with started_control_plane(is_bare=True) as plane:
        documents = printed("crds", "rbac", "extender")
        kubectl(plane, "apply", "--server-side", "-f", "-", stdin=documents)
        kubectl(plane, "wait", "--for=condition=Established", "crd/clusterresources.bursar.io")
        extender = ExtenderProcess(plane, tmp_path_factory.mktemp("extender"))
        configurations = {
            name: extender.configuration(*RESOURCES, scheduler=scheduler)
            for name, scheduler in (("first", ""), ("second", SECOND))
        }
        first, second = (
            plane.configured_scheduler(name, each) for name, each in configurations.items()
        )
        with running(plane.controllers, plane.kwok, extender.program, first, second):
            for number in range(3):
                plane.add_node(f"node-{number}")
            yield Scene(plane, extender, second)


async def test_five_of_ten_pods_run_and_the_next_one_when_one_ends(scene):
    resource, space = RESOURCES[0], scene.namespace()
    apply(scene.plane, cluster_resource("five", resource, 5))
    async with observed(scene.plane, space) as seen:
        apply(scene.plane, *(licensed_pod(f"{space}/job-{n}", resource) for n in range(10)))
        await until(lambda: len(seen.bound) == 5, scene.extender.log)
        expected = (
            f"3 PoolExhausted: ClusterResource five has 0 of 5 {resource} free and the pod "
            "requests 1 (missing 1)"
        )
        await until_blocking(
            lambda: sum(expected in each for each in scene.messages(space)) >= 5,
            lambda: scene.messages(space),
        )
        await until_blocking(
            lambda: (
                (scene.status("five").get("used"), scene.status("five").get("waitingPods"))
                == ("5", 5)
            ),
            lambda: scene.status("five"),
        )
        for ended in range(1, 6):
            name = next(iter(seen.bound))
            scene.delete(space, name)
            await until(
                lambda name=name, ended=ended: (
                    name not in seen.bound and len(seen.bound) == 5 and len(seen.pods) == 10 - ended
                ),
                scene.extender.log,
            )
        assert seen.most == 5
    conditions = {each["type"]: each["status"] for each in scene.status("five")["conditions"]}
    assert conditions == {"Ready": "True", "Overdrawn": "False"}


async def test_a_raised_capacity_lets_pods_run_although_the_scheduler_sees_no_event(scene):
    resource, space = RESOURCES[1], scene.namespace()
    apply(scene.plane, cluster_resource("raised", resource, 1))
    async with observed(scene.plane, space) as seen:
        apply(scene.plane, *(licensed_pod(f"{space}/job-{n}", resource) for n in range(3)))
        await until(lambda: len(seen.bound) == 1, scene.extender.log)
        await until_blocking(lambda: len(scene.messages(space)) >= 2)
        apply(scene.plane, cluster_resource("raised", resource, 3))
        # The scheduler itself would try them again after five minutes.
        await until(lambda: len(seen.bound) == 3, scene.extender.log, seconds=120)


async def test_a_pod_refused_at_bind_returns_its_part(scene):
    resource, space = RESOURCES[2], scene.namespace()
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"no-binding-{space}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'unlucky'"}],
        },
    }
    where = {"policyName": f"no-binding-{space}", "validationActions": ["Deny"]}
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": where}
    apply(scene.plane, policy, binding, cluster_resource("single", resource, 1))
    try:
        await until_blocking(lambda: _binding_is_refused(scene, space))
        async with observed(scene.plane, space) as seen:
            apply(scene.plane, licensed_pod(f"{space}/unlucky", resource))
            await until_blocking(
                lambda: any("BindingFailed" in each for each in scene.messages(space)),
                lambda: scene.messages(space),
            )
            apply(scene.plane, licensed_pod(f"{space}/lucky", resource))
            await until(lambda: list(seen.bound) == ["lucky"], scene.extender.log)
            assert seen.most == 1
    finally:
        names = ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
        for kind in names:
            try_kubectl(scene.plane, "delete", kind, f"no-binding-{space}")


def _binding_is_refused(scene: Scene, space: str) -> bool:
    """Whether the policy is in force: API servers notice a new one after a moment."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unlucky"}}
    path = f"/api/v1/namespaces/{space}/pods/unlucky/binding"
    code, _ = scene.plane.request("POST", path, {**body, "target": target})
    return code in {403, 422}


async def test_two_schedulers_at_once_never_give_more_than_there_is(scene):
    resource, space = RESOURCES[3], scene.namespace()
    apply(scene.plane, cluster_resource("shared", resource, 5))
    async with observed(scene.plane, space) as seen:
        pods = [
            licensed_pod(
                f"{space}/job-{n}",
                resource,
                schedulerName=SECOND if n % 2 else "default-scheduler",
            )
            for n in range(12)
        ]
        apply(scene.plane, *pods)
        await until(lambda: len(seen.bound) == 5, scene.extender.log)
        for left in range(11, 6, -1):
            scene.delete(space, next(iter(seen.bound)))
            await until(
                lambda left=left: len(seen.bound) == 5 and len(seen.pods) == left,
                scene.extender.log,
            )
        assert seen.most == 5
        used = {seen.pods[name]["spec"]["schedulerName"] for name in seen.bound}
    assert used <= {SECOND, "default-scheduler"}


async def test_pods_bound_past_the_extender_are_a_debt_and_nothing_more_is_given(scene):
    resource, space = RESOURCES[4], scene.namespace()
    apply(scene.plane, cluster_resource("bypassed", resource, 2))
    async with observed(scene.plane, space) as seen:
        past = [licensed_pod(f"{space}/past-{n}", resource, nodeName="node-0") for n in range(3)]
        apply(scene.plane, *past)
        await until_blocking(lambda: scene.status("bypassed").get("used") == "3")
        apply(scene.plane, licensed_pod(f"{space}/late", resource))
        await until_blocking(
            lambda: any("overdrawn by 1" in each for each in scene.messages(space)),
            lambda: scene.messages(space),
        )
        assert "late" not in seen.bound
        await until_blocking(
            lambda: any("1 more than the capacity" in each for each in _notes(scene, "bypassed"))
        )
        for n in range(2):
            scene.delete(space, f"past-{n}")
        await until(lambda: "late" in seen.bound, scene.extender.log)


def _notes(scene: Scene, name: str) -> list[str]:
    out = kubectl(scene.plane, "get", "events", "-n", "default", "-o", "json")
    return [
        each.get("message", "")
        for each in json.loads(out)["items"]
        if each["involvedObject"].get("name") == name
    ]


async def test_who_may_use_a_pool_and_how_much_is_enforced(scene):
    resource = RESOURCES[5]
    mine, other = scene.namespace(team="cfd"), scene.namespace(team="web")
    pool = cluster_resource(
        "selected",
        resource,
        5,
        namespaceSelector={"matchLabels": {"team": "cfd"}},
        shares=[
            {
                "name": "each",
                "namespaceSelector": {},
                "maximum": 2,
                "perNamespace": True,
            }
        ],
    )
    apply(scene.plane, pool)
    async with observed(scene.plane, mine) as seen:
        apply(scene.plane, *(licensed_pod(f"{mine}/job-{n}", resource) for n in range(3)))
        apply(scene.plane, licensed_pod(f"{other}/job", resource))
        await until(lambda: len(seen.bound) == 2, scene.extender.log)
        await until_blocking(
            lambda: any(
                f"ShareExhausted: share each of ClusterResource selected has 0 of 2 {resource}"
                in each
                for each in scene.messages(mine)
            ),
            lambda: scene.messages(mine),
        )
        await until_blocking(
            lambda: any("NamespaceNotAllowed" in each for each in scene.messages(other)),
            lambda: scene.messages(other),
        )
        assert seen.most == 2


def test_only_the_scheduler_is_answered(scene):
    body = {"PodName": "a", "PodNamespace": "b", "PodUID": "c", "Node": "d"}

    assert scene.extender.ask("POST", "/scheduler/bind", body)[0] == 403
    other = scene.extender.clients.client("system:node:node-0")
    assert scene.extender.ask("POST", "/scheduler/bind", body, other)[0] == 403
    pair = scene.extender.scheduler_pair
    code, answer = scene.extender.ask("POST", "/scheduler/bind", body, pair)
    assert code == 200
    assert "BindingFailed" in json.loads(answer)["Error"]
    code, _ = scene.extender.ask("POST", "/scheduler/filter", "x" * 9_000_000, pair)
    assert code == 413


@pytest.mark.seeded
async def test_killed_at_any_moment_it_never_gives_more_and_never_gets_stuck(scene):
    random = Random(SEED)  # noqa: S311 - a seed
    resource, space = RESOURCES[6], scene.namespace()
    apply(scene.plane, cluster_resource("raced", resource, 5))
    made = 0

    def more_pods() -> None:
        nonlocal made
        apply(
            scene.plane,
            *(
                licensed_pod(
                    f"{space}/job-{made + n}",
                    resource,
                    schedulerName=SECOND if n % 2 else "default-scheduler",
                )
                for n in range(10)
            ),
        )
        made += 10

    async with observed(scene.plane, space) as seen:
        for _ in range(KILLS):
            await until_blocking(scene.extender.is_ready, scene.extender.log)
            await asyncio.to_thread(more_pods)
            before = set(seen.bound)
            with contextlib.suppress(AssertionError):
                # Kill it while it binds: something new was just bound, or nothing can be.
                await until(lambda before=before: set(seen.bound) - before, seconds=3)
            await asyncio.sleep(random.uniform(0, 0.3))
            scene.extender.program.kill()
            for name in list(seen.bound)[: random.randint(1, 4)]:
                await asyncio.to_thread(scene.delete, space, name)
            scene.extender.program.start()
        while len(seen.pods) > 5:
            await until(
                lambda: len(seen.bound) == min(5, len(seen.pods)),
                lambda: f"seed {SEED}: {seen.bound}\n{scene.extender.log()}",
            )
            gone = list(seen.bound)
            for name in gone:
                await asyncio.to_thread(scene.delete, space, name)
            await until(lambda gone=gone: not set(gone) & set(seen.pods))
        await until(lambda: len(seen.bound) == len(seen.pods), scene.extender.log)
        assert seen.most == 5, f"seed {SEED}"


def test_a_quota_can_name_the_resource_as_well(scene):
    resource, space = RESOURCES[7], scene.namespace()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "licences", "namespace": space},
        "spec": {"hard": {f"requests.{resource}": "1"}},
    }
    apply(scene.plane, cluster_resource("quoted", resource, 5), quota)
    apply(scene.plane, licensed_pod(f"{space}/one", resource))
    text = json.dumps(licensed_pod(f"{space}/two", resource))

    ran = try_kubectl(scene.plane, "apply", "-f", "-", stdin=text)

    assert ran.code == 1
    assert f"exceeded quota: licences, requested: requests.{resource}=1" in ran.err
