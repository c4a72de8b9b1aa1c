"""A quota that one way of admission refuses is refused by the others as well.

The judges: the API server about a ResourceQuota, as the webhook asks it; the admission policies;
and the embedded cluster.
"""

import itertools
import json
import uuid
from random import Random

import pytest
import yaml

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.quotas import check_quota
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.admission.quotas import QuotaCheck, QuotaWriting
from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import ClusterError
from bursar.app.install.policies.quota_policy import QUOTA_POLICIES, quota_policy_documents
from bursar.core.quota.quota import QuotaKind
from bursar.wire.admission import decode_quota_text
from support.builders.manifests import DEFINITIONS
from support.cluster.access import a_client, access_of
from support.processes.kubectl import kubectl, try_kubectl
from support.quota.generated_quotas import generated_quota
from support.quota.judged_quotas import CASES, KIND, body_of
from support.seeds import SEED
from support.until import until_sync


@pytest.fixture(scope="module")
def plane(control_plane):
    """A cluster with the definitions and the policies about quotas."""
    kubectl(control_plane, "apply", "-f", "-", stdin=yaml.safe_dump_all(DEFINITIONS))
    names = [f"crd/{resource}" for resource in KIND.values()]
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=120s", *names)
    policies = yaml.safe_dump_all(quota_policy_documents())
    kubectl(control_plane, "apply", "-f", "-", stdin=policies)
    for kind in KIND:
        bad = json.dumps(body_of(kind, CASES[f"{prefix(kind)}unknown name"][1]))
        until_sync(
            lambda bad=bad: (
                try_kubectl(control_plane, "create", "--dry-run=server", "-f", "-", stdin=bad).code
            ),
            f"the policy {QUOTA_POLICIES[kind]} is in force",
        )
    yield control_plane
    kubectl(control_plane, "delete", "-f", "-", "--ignore-not-found", stdin=policies)


def prefix(kind):
    return "cluster, " if kind is QuotaKind.CLUSTER else ""


async def asked_by_the_webhook(plane, kind, body, namespace="default"):
    """What the webhook answers, which asks the API server about a ResourceQuota."""
    text = decode_quota_text(json.dumps(body).encode(), kind)
    writing = QuotaWriting(
        kind=kind,
        namespace=namespace if kind is QuotaKind.NAMESPACED else "",
        spec=text.spec,
        names=text.names,
        selector=text.selector,
        selector_problem=text.selector_problem,
    )
    async with a_client(access_of(plane)) as client:
        check = QuotaCheck(client, clock=SYSTEM_CLOCK, random=Random(1))  # noqa: S311 - a seed
        answer = await check.judge(writing)
    return "" if answer.is_allowed else answer.message


async def created(cluster, kind, body, *, is_dry_run=True):
    """What a cluster refuses a quota with; empty if it accepts it."""
    resource = KIND[kind]
    namespace = "default" if resource.is_namespaced else ""
    try:
        await cluster.create(resource, body, namespace=namespace, is_dry_run=is_dry_run)
    except ClusterError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("kind", "spec", "words"), CASES.values(), ids=CASES)
async def test_webhook_policies_and_the_embedded_cluster_judge_alike(plane, kind, spec, words):
    body = body_of(kind, spec)
    asked = await asked_by_the_webhook(plane, kind, body)
    async with a_client(access_of(plane)) as client:
        by_policy = await created(client, kind, body)
    embedded = MemoryCluster(SYSTEM_CLOCK, source=Random(1), validating=(check_quota,))  # noqa: S311
    for definition in DEFINITIONS:
        await embedded.create(CRDS, definition)
    by_embedded = await created(embedded, kind, body)

    answers = {"webhook": asked, "policy": by_policy, "embedded": by_embedded}
    assert {judge: bool(answer) for judge, answer in answers.items()} == dict.fromkeys(
        answers, words is not None
    ), answers
    if words is not None:
        assert {judge: words in answer for judge, answer in answers.items()} == dict.fromkeys(
            answers, True
        ), answers


async def test_generated_quotas_are_judged_alike(plane):
    random = Random(SEED)  # noqa: S311 - a seed
    different, refusals = [], 0
    async with a_client(access_of(plane)) as client:
        for _ in range(300):
            kind, spec = generated_quota(random)
            body = body_of(kind, spec)
            asked = await asked_by_the_webhook(plane, kind, body)
            by_policy = await created(client, kind, body)
            refusals += bool(asked)
            if bool(asked) is not bool(by_policy):
                different.append((spec, asked, by_policy))

    assert different == []
    assert 50 < refusals < 250


async def test_a_namespace_that_may_have_no_more_resource_quotas_may_change_its_quotas(plane):
    """The managed ResourceQuota of a limit on `resourcequotas` alone may use that limit up."""
    namespace = f"full-{uuid.uuid4().hex[:8]}"
    kubectl(plane, "create", "namespace", namespace)
    path = ("quota", "one", "-n", namespace)
    kubectl(plane, "create", *path, "--hard=resourcequotas=1")
    used = ("get", *path, "-o", "jsonpath={.status.used.resourcequotas}")
    until_sync(lambda: try_kubectl(plane, *used).out == "1", "the ResourceQuota is counted")
    refused = try_kubectl(plane, "create", "quota", "two", "-n", namespace, "--dry-run=server")
    kind = QuotaKind.NAMESPACED
    good, bad = ({"hard": {name: "2"}} for name in ("resourcequotas", "podss"))
    answers = [
        await asked_by_the_webhook(plane, kind, body_of(kind, spec), namespace)
        for spec in (good, bad)
    ]
    kubectl(plane, "delete", "namespace", namespace, "--wait=false")

    assert "exceeded quota: one" in refused.err
    assert answers[0] == ""
    assert "must be a standard resource type" in answers[1]


async def test_a_stored_quota_that_is_bad_can_be_changed_elsewhere_and_deleted(plane):
    """A policy that came after the quota refuses only changes of the spec."""
    policies = yaml.safe_dump_all(quota_policy_documents())
    kubectl(plane, "delete", "-f", "-", stdin=policies)
    body = body_of(QuotaKind.NAMESPACED, {"hard": {"cpus": "1"}})
    name = body["metadata"]["name"]

    def is_created():
        return try_kubectl(plane, "create", "-f", "-", stdin=json.dumps(body)).code == 0

    until_sync(is_created, "the policy is gone")
    kubectl(plane, "apply", "-f", "-", stdin=policies)

    def changed(**spec):
        patch = json.dumps({"metadata": {"labels": {"a": uuid.uuid4().hex}}, **spec})
        return try_kubectl(plane, "patch", "arq", name, "--type=merge", "-p", patch)

    # A policy that is not in force yet lets a change through, and the next must be another one.
    limits = itertools.count(2)
    until_sync(
        lambda: changed(spec={"hard": {"cpus": str(next(limits))}}).code != 0, "the policy is back"
    )
    assert changed().code == 0
    assert changed(spec={"hard": {"cpus": None, "cpu": "2"}}).code == 0
    kubectl(plane, "delete", "arq", name)
