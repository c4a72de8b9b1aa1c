"""The packaged definitions on both clusters: they are accepted, and AAQ's manifests apply."""

import asyncio
import contextlib
import json
import re
import uuid
from io import BytesIO
from typing import Any

import pytest

from assets import ROOT
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents, crd_folder
from bursar.adapters.files.manifests import read_manifests, read_objects_as_written
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.observe_kinds import observe_namespaces
from bursar.app.cluster.ports import InvalidError, Key, NotFoundError, Patch, PatchKind
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.quota.kinds import (
    AAQS,
    APPLICATION_QUOTAS,
    APPLIED_CLUSTER_QUOTAS,
    CLUSTER_QUOTAS,
    CUSTOM_KINDS,
)
from bursar.app.quota.sources import observe_quotas
from bursar.core.quota.quota import Order, QuotaKind
from support.cluster.access import a_client, access_of
from support.cluster.scripted_cluster import seeded
from support.processes.kubectl import kubectl, try_kubectl
from support.until import PATIENCE_SECONDS, until_sync

EXAMPLES = ROOT / "examples" / "quota"
EVERY_KIND = (*CUSTOM_KINDS, CLUSTER_RESOURCES)
MOMENT = "2026-01-02T12:00:00Z"


def columns(table):
    """A table of kubectl, each row by the headings."""
    heading, *rows = table.splitlines()
    words = [*re.finditer(r"\S+", heading)]
    ends = [word.start() for word in words[1:]] + [None]
    return [
        {word[0]: row[word.start() : end].strip() for word, end in zip(words, ends, strict=True)}
        for row in rows
    ]


def without_nulls(value):
    """What kubectl makes of a manifest: it takes a null for a field that is not there."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def plane(control_plane):
    """A cluster with the definitions, which stay: other tests may have asked for them, too."""
    kubectl(control_plane, "apply", "--server-side", "-f", str(crd_folder()))
    names = [f"crd/{resource}" for resource in CUSTOM_KINDS]
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=120s", *names)
    return control_plane


@pytest.fixture
def namespace(plane):
    name = f"crds-{uuid.uuid4().hex[:8]}"
    kubectl(plane, "create", "namespace", name)
    yield name
    kubectl(plane, "delete", "namespace", name, "--wait=false")


@pytest.fixture
def examples(plane):
    """The examples as applied, gone again afterwards: quotas over all namespaces are among them."""
    applied = kubectl(plane, "apply", "-f", str(EXAMPLES))
    yield applied
    kubectl(plane, "delete", "-f", str(EXAMPLES), "--ignore-not-found", "--timeout=120s")


def an_object(resource, name="q", **fields):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        **fields,
    }


def a_quota(name="q", **fields):
    return an_object(APPLICATION_QUOTAS, name, **{"spec": {"hard": {"pods": "5"}}, **fields})


def a_status(**fields):
    ready = {"type": "Ready", "status": "True", "reason": "Counted", "message": "counted"}
    return {
        "hard": {"pods": "5"},
        "used": {"pods": "3"},
        "summary": "pods 3/5, requests.cpu 1/2",
        "conditions": [
            {**ready, "lastTransitionTime": MOMENT},
            {**ready, "type": "Exceeded", "status": "False", "lastTransitionTime": MOMENT},
        ],
        **fields,
    }


# ------------------------------------------------------------------ the definitions themselves


def test_every_kind_is_defined_once_as_bursar_asks_for_it():
    defined = {}
    for document in crd_documents():
        spec = document["spec"]
        (version,) = spec["versions"]
        defined[document["metadata"]["name"]] = (
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            spec["scope"] == "Namespaced",
        )

    assert defined == {
        str(each): (each.group, each.version, each.plural, each.kind, each.is_namespaced)
        for each in EVERY_KIND
    }


def test_the_applied_quota_has_the_fields_of_the_one_it_copies():
    schemas = {
        document["spec"]["names"]["kind"]: document["spec"]["versions"][0]["schema"][
            "openAPIV3Schema"
        ]["properties"]
        for document in crd_documents()
    }

    # A quota that was stored before its operators were checked is copied all the same.
    written = without_operators(schemas[CLUSTER_QUOTAS.kind])
    assert without_operators(schemas[APPLIED_CLUSTER_QUOTAS.kind]) == written


def without_operators(schema: Any) -> Any:
    """A schema that does not say which operators of selectors there are."""
    if isinstance(schema, list):
        return [without_operators(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: without_operators(value) for key, value in schema.items()}
    if isinstance(kept.get("operator"), dict):
        kept["operator"].pop("enum", None)
    return kept


# ------------------------------------------------------------------ on a real server


def test_the_server_takes_every_definition_as_it_stands(plane):
    listed = json.loads(kubectl(plane, "get", "crds", "-o", "json"))["items"]
    groups = {each.group for each in CUSTOM_KINDS}
    ours = [each for each in listed if each["spec"]["group"] in groups]
    faults = {
        (each["metadata"]["name"], condition["type"], condition["message"])
        for each in ours
        for condition in each["status"]["conditions"]
        if (condition["type"], condition["status"])
        not in {("Established", "True"), ("NamesAccepted", "True")}
    }

    assert len(ours) == len(EVERY_KIND)
    assert faults == set()


@pytest.mark.parametrize(
    ("short", "kind"),
    [
        ("aaq", "AAQ"),
        ("aaqs", "AAQ"),
        ("arq", "ApplicationAwareResourceQuota"),
        ("arqs", "ApplicationAwareResourceQuota"),
        ("acrq", "ApplicationAwareClusterResourceQuota"),
        ("acrqs", "ApplicationAwareClusterResourceQuota"),
        ("aacrq", "ApplicationAwareAppliedClusterResourceQuota"),
        ("aacrqs", "ApplicationAwareAppliedClusterResourceQuota"),
        ("aaqjqc", "AAQJobQueueConfig"),
        ("aaqjqcs", "AAQJobQueueConfig"),
        ("cpol", "CountingPolicy"),
    ],
)
def test_short_names_are_known(plane, short, kind):
    # A definition is Established before discovery lists its short names.
    told = []

    def is_known() -> bool:
        told.append(try_kubectl(plane, "explain", short))
        return f"KIND:       {kind}\n" in told[-1].out

    until_sync(is_known, lambda: told[-1])


def test_every_example_applies_and_comes_back_as_it_was_written(plane, examples):
    written = [body for body, _ in read_objects_as_written([str(EXAMPLES)], BytesIO())]

    assert len(examples.splitlines()) == len(written)
    for body in written:
        meta = body["metadata"]
        place = ["-n", meta["namespace"]] if "namespace" in meta else []
        name = f"{body['kind'].lower()}/{meta['name']}"
        stored = json.loads(kubectl(plane, "get", name, *place, "-o", "json"))
        if body["kind"] != "Namespace":
            assert stored["spec"] == without_nulls(body["spec"]), name


def test_what_kubectl_lists_shows_use_and_state(plane, namespace):
    kubectl(plane, "apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_quota()))
    patch = ["patch", "arq", "q", "-n", namespace, "--type=merge"]
    kubectl(plane, *patch, "--subresource=status", "-p", json.dumps({"status": a_status()}))
    (row,) = columns(kubectl(plane, "get", "arq", "-n", namespace))

    assert row.pop("AGE")
    assert row == {
        "NAME": "q",
        "READY": "True",
        "EXCEEDED": "False",
        "USAGE": "pods 3/5, requests.cpu 1/2",
    }


@pytest.mark.parametrize(
    ("hard", "complaint"),
    [({"pods": "many"}, "should match"), ({"pods": True}, "must be of type"), ({"pods": 1.5}, "")],
)
async def test_the_server_refuses_what_is_no_quantity(plane, namespace, hard, complaint):
    async with a_client(access_of(plane)) as client:
        quota = a_quota(spec={"hard": hard})
        with pytest.raises(InvalidError, match=rf"spec\.hard\.pods.*{complaint}"):
            await client.create(APPLICATION_QUOTAS, quota, namespace=namespace)


@pytest.mark.parametrize(
    ("spec", "field"), [({"quota": {}}, "selector"), ({"selector": {}}, "quota")]
)
async def test_the_server_wants_limits_and_selector_of_a_cluster_wide_quota(plane, spec, field):
    async with a_client(access_of(plane)) as client:
        with pytest.raises(InvalidError, match=rf"spec\.{field}: Required value"):
            await client.create(CLUSTER_QUOTAS, an_object(CLUSTER_QUOTAS, spec=spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"configuration": {"vmiCalculatorConfiguration": {"configName": "Other"}}},
        {"configuration": {"sidecarEvaluators": [{"image": "no-name"}]}},
        {"tlsSecurityProfile": {"type": "Custom", "custom": {"ciphers": []}}},
        {"tlsSecurityProfile": {"type": "Ancient"}},
        {"imagePullPolicy": "Sometimes"},
    ],
)
async def test_the_server_refuses_an_installation_nobody_can_mean(plane, spec):
    async with a_client(access_of(plane)) as client:
        with pytest.raises(InvalidError, match=r"spec\."):
            await client.create(AAQS, an_object(AAQS, spec=spec), is_dry_run=True)


async def test_the_way_of_counting_machines_has_a_default_where_it_is_spoken_of(plane):
    machines = "vmiCalculatorConfiguration"
    async with a_client(access_of(plane)) as client:
        spec = {"configuration": {machines: {}}, "tlsSecurityProfile": {"old": None}}
        made = json.loads(await client.create(AAQS, an_object(AAQS, spec=spec), is_dry_run=True))
        bare = json.loads(await client.create(AAQS, an_object(AAQS, spec={}), is_dry_run=True))

    assert made["spec"]["configuration"][machines] == {"configName": "DedicatedVirtualResources"}
    assert bare["spec"] == {}


# ------------------------------------------------------------------ on either cluster


@contextlib.asynccontextmanager
async def embedded():
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    await load_manifests(cluster, crd_documents())
    await cluster.create(NAMESPACES, {"metadata": {"name": "n"}})
    yield cluster, "n"


@contextlib.asynccontextmanager
async def real(plane, namespace):
    async with a_client(access_of(plane)) as client:
        yield client, namespace


async def check_that_the_status_is_written_apart(cluster, namespace):
    key = Key(namespace, "q")
    made = json.loads(
        await cluster.create(APPLICATION_QUOTAS, a_quota(status=a_status()), namespace=namespace)
    )
    assert "status" not in made
    patch = Patch(kind=PatchKind.MERGE, body={"status": a_status(), "spec": {"hard": {}}})
    after = json.loads(await cluster.patch(APPLICATION_QUOTAS, key, patch, subresource="status"))
    assert after["spec"] == {"hard": {"pods": "5"}}
    assert after["status"]["used"] == {"pods": "3"}
    assert after["metadata"]["generation"] == 1


async def check_that_an_applied_quota_has_no_status_apart(cluster, namespace):
    """AAQ writes it with its status in one piece."""
    applied = an_object(
        APPLIED_CLUSTER_QUOTAS,
        spec={"quota": {"hard": {"pods": "5"}}, "selector": {"labels": None}},
        status={"total": {"used": {"pods": "3"}}},
    )
    made = json.loads(await cluster.create(APPLIED_CLUSTER_QUOTAS, applied, namespace=namespace))
    assert made["status"] == applied["status"]
    patch = Patch(kind=PatchKind.MERGE, body={"status": {"total": {}}})
    key = Key(namespace, "q")
    with pytest.raises(NotFoundError):
        await cluster.patch(APPLIED_CLUSTER_QUOTAS, key, patch, subresource="status")


async def check_that_observers_see_quotas_and_namespaces(cluster, namespace):
    quota = a_quota("seen")
    quota["metadata"]["annotations"] = {"bursar.io/order": "fifo"}
    await cluster.create(APPLICATION_QUOTAS, quota, namespace=namespace)
    source = seeded(1)
    quotas = observe_quotas(cluster, SYSTEM_CLOCK, source, QuotaKind.NAMESPACED)
    namespaces = observe_namespaces(cluster, SYSTEM_CLOCK, source)
    tasks = [asyncio.ensure_future(informer.run()) for informer in (quotas, namespaces)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await quotas.wait_synced()
            await namespaces.wait_synced()
        found = quotas.find(Key(namespace, "seen"))
        place = namespaces.find(Key("", namespace))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert found is not None
    assert found.item.quota.order is Order.FIFO
    assert found.item.quota.uid == found.identity.uid
    assert place is not None
    assert place.item.name == namespace


CHECKS = [
    check_that_the_status_is_written_apart,
    check_that_an_applied_quota_has_no_status_apart,
    check_that_observers_see_quotas_and_namespaces,
]


@pytest.mark.parametrize("check", CHECKS)
async def test_the_embedded_cluster(check):
    async with embedded() as (cluster, namespace):
        await check(cluster, namespace)


@pytest.mark.parametrize("check", CHECKS)
async def test_a_real_cluster(plane, namespace, check):
    async with real(plane, namespace) as (cluster, place):
        await check(cluster, place)


async def test_the_examples_fill_an_embedded_cluster():
    written = [body for body, _ in read_objects_as_written([str(EXAMPLES)], BytesIO())]
    cluster = MemoryCluster(SYSTEM_CLOCK, source=seeded(1))
    count = await load_manifests(cluster, [*crd_documents(), *written])

    assert count == len(EVERY_KIND) + len(written)


def test_every_example_of_a_quota_can_be_described():
    manifests = read_manifests([str(EXAMPLES)], BytesIO())
    kinds = {read.quota.key.kind for read in manifests.quotas}

    assert kinds == {QuotaKind.NAMESPACED, QuotaKind.CLUSTER}
    assert [read.order_problem for read in manifests.quotas if read.order_problem] == []
    assert {read.quota.order for read in manifests.quotas} == set(Order)
    assert len(manifests.namespaces) == 3


# ------------------------------------------------------------------ counting policies


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"match": "true"}, "give either charges or ignore"),
        ({"match": "true", "charges": {}}, "give either charges or ignore"),
        ({"match": "true", "charges": {"x": "1"}, "ignore": True}, "give either charges or ignore"),
        ({"match": "true", "ignore": True, "keepNative": True}, "cannot keep"),
        ({"match": "", "ignore": True}, "spec.match"),
        ({"match": "a" * 4097, "ignore": True}, "spec.match"),
        ({"match": "true", "ignore": True, "mode": "shadow"}, "spec.mode"),
    ],
)
def test_the_server_itself_refuses_a_policy_that_cannot_mean_anything(plane, spec, words):
    body = json.dumps(an_object(COUNTING_POLICIES, "odd", spec=spec))
    ran = try_kubectl(plane, "create", "--dry-run=server", "-f", "-", stdin=body)
    assert ran.code != 0
    assert words in ran.err


@pytest.mark.parametrize(
    "spec",
    [
        {"match": "true", "charges": {"x": "1"}, "keepNative": True},
        {"match": "true", "charges": {"x": "1"}, "ignore": False},
        {"match": "true", "ignore": True, "mode": "Shadow"},
    ],
)
def test_the_server_takes_a_policy(plane, spec):
    body = json.dumps(an_object(COUNTING_POLICIES, "fine", spec=spec))
    kubectl(plane, "create", "--dry-run=server", "-f", "-", stdin=body)


@pytest.mark.parametrize("amount", [-1, "-1", "1.5", "2Ti"])
@pytest.mark.parametrize("field", ["spec.capacity", "spec.shares[0].maximum"])
def test_the_server_refuses_an_amount_that_a_cluster_resource_cannot_have(plane, field, amount):
    share = {"name": "all", "namespaceSelector": {}, "maximum": 1}
    spec = {"resourceName": "example.com/licence", "capacity": "1k", "shares": [share]}
    trial = ("create", "--dry-run=server", "-f", "-")
    fine = json.dumps(an_object(CLUSTER_RESOURCES, spec=spec))
    assert try_kubectl(plane, *trial, stdin=fine).err == ""

    (spec if field == "spec.capacity" else share)[field.split(".")[-1]] = amount
    ran = try_kubectl(plane, *trial, stdin=json.dumps(an_object(CLUSTER_RESOURCES, spec=spec)))

    assert ran.code == 1
    assert f"{field}: Invalid value" in ran.err
