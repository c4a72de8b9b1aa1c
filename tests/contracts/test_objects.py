"""Creating, reading and listing objects."""

import json

import pytest

from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, PODS, SECRETS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    ExpiredError,
    InvalidError,
    Key,
    NotFoundError,
    Query,
    Resource,
    UnavailableError,
)

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


async def names(cluster, namespace, **selectors):
    query = Query(namespace=namespace, **selectors)
    page = await cluster.port.list(CONFIG_MAPS, query)
    found = [json.loads(item)["metadata"]["name"] for item in page.items]
    return [name for name in found if name != "kube-root-ca.crt"]


async def test_a_created_object_has_what_the_server_adds(cluster):
    namespace = await cluster.namespace()
    made = await cluster.port.create(CONFIG_MAPS, named("a", data={"x": "1"}), namespace=namespace)
    body = json.loads(made)

    assert body["data"] == {"x": "1"}
    assert body["kind"] == "ConfigMap"
    assert body["metadata"]["namespace"] == namespace
    assert len(body["metadata"]["uid"]) == 36
    assert int(body["metadata"]["resourceVersion"]) > 0
    assert body["metadata"]["creationTimestamp"].endswith("Z")
    assert "generation" not in body["metadata"]
    assert json.loads(await cluster.port.get(CONFIG_MAPS, Key(namespace, "a"))) == body


async def test_what_belongs_to_the_server_is_dropped_at_creation(cluster):
    namespace = await cluster.namespace()
    owned = {"uid": "abc", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "x"}
    owned |= {"deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}
    made = await cluster.port.create(
        CONFIG_MAPS, {"metadata": {"name": "a", **owned}}, namespace=namespace
    )
    metadata = json.loads(made)["metadata"]

    assert metadata["uid"] != "abc"
    assert metadata["creationTimestamp"] > "2002"
    assert not {"deletionTimestamp", "selfLink", "deletionGracePeriodSeconds"} & metadata.keys()


async def test_a_name_can_be_made_up(cluster):
    namespace = await cluster.namespace()
    body = {"metadata": {"generateName": "made-"}}
    first = json.loads(await cluster.port.create(CONFIG_MAPS, body, namespace=namespace))
    second = json.loads(await cluster.port.create(CONFIG_MAPS, body, namespace=namespace))

    assert first["metadata"]["name"].startswith("made-")
    assert len(first["metadata"]["name"]) == len("made-") + 5
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["generateName"] == "made-"


async def test_a_long_made_up_name_is_cut_before_its_end(cluster):
    namespace = await cluster.namespace()
    body = {"metadata": {"generateName": "m" * 100}}
    made = json.loads(await cluster.port.create(CONFIG_MAPS, body, namespace=namespace))

    assert len(made["metadata"]["name"]) == 63


async def test_creating_twice_is_refused(cluster):
    namespace = await cluster.namespace()
    await cluster.port.create(CONFIG_MAPS, named("a"), namespace=namespace)

    with pytest.raises(AlreadyExistsError) as caught:
        await cluster.port.create(CONFIG_MAPS, named("a"), namespace=namespace)
    assert caught.value.message == 'configmaps "a" already exists'
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert caught.value.key == Key(namespace, "a")


async def test_nothing_can_be_created_in_a_namespace_that_is_not_there(cluster):
    with pytest.raises(NotFoundError) as caught:
        await cluster.port.create(CONFIG_MAPS, named("a"), namespace="not-there")
    assert caught.value.message == 'namespaces "not-there" not found'


@pytest.mark.parametrize(
    ("metadata", "subject", "problem"),
    [
        ({"name": "Bad_"}, "Bad_", f'metadata.name: Invalid value: "Bad_": {SUBDOMAIN_RULE}'),
        ({}, "", "metadata.name: Required value: name or generateName is required"),
        (
            {"name": "a", "finalizers": ["plain"]},
            "a",
            (
                'metadata.finalizers[0]: Invalid value: "plain": name is neither a standard '
                "finalizer name nor is it fully qualified"
            ),
        ),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "uid": "x"}]},
            "a",
            'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        ),
        (
            {"name": "a", "labels": {"a b": "c"}},
            "a",
            (
                'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
                "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
    ],
)
async def test_bad_metadata_is_refused_in_the_servers_words(cluster, metadata, subject, problem):
    namespace = await cluster.namespace()

    with pytest.raises(InvalidError) as caught:
        await cluster.port.create(CONFIG_MAPS, {"metadata": metadata}, namespace=namespace)
    assert caught.value.message == f'ConfigMap "{subject}" is invalid: {problem}'
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


async def test_a_namespace_has_a_name_without_dots(cluster):
    with pytest.raises(InvalidError) as caught:
        await cluster.port.create(NAMESPACES, named("a.b"))
    message = 'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain '
    assert caught.value.message == f"{message}dots"


async def test_a_revision_cannot_be_brought_along(cluster):
    namespace = await cluster.namespace()

    with pytest.raises(UnavailableError, match="resourceVersion should not be set on objects"):
        await cluster.port.create(
            CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}}, namespace=namespace
        )


async def test_an_object_of_another_namespace_is_refused(cluster):
    namespace = await cluster.namespace()

    with pytest.raises(InvalidError) as caught:
        await cluster.port.create(
            CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "other"}}, namespace=namespace
        )
    assert caught.value.code == 400
    assert "the namespace of the provided object does not match" in caught.value.message


async def test_a_dry_run_creates_nothing(cluster):
    namespace = await cluster.namespace()
    made = await cluster.port.create(CONFIG_MAPS, named("a"), namespace=namespace, is_dry_run=True)

    assert "resourceVersion" not in json.loads(made)["metadata"]
    assert json.loads(made)["metadata"]["uid"]
    assert await cluster.is_gone(CONFIG_MAPS, Key(namespace, "a"))


async def test_what_is_not_there_is_not_found(cluster):
    with pytest.raises(NotFoundError) as caught:
        await cluster.port.get(CONFIG_MAPS, Key("default", "not-there"))
    assert caught.value.message == 'configmaps "not-there" not found'
    assert caught.value.key == Key("default", "not-there")

    with pytest.raises(NotFoundError):
        await cluster.port.get(Resource("no.such", "v1", "things", "Thing"), Key("default", "a"))


# ------------------------------------------------------------------ lists


async def test_lists_are_sorted_and_can_be_narrowed(cluster):
    namespace = await cluster.namespace()
    for name, app in (("c", "web"), ("a", "web"), ("b", "db")):
        body = {"metadata": {"name": name, "labels": {"app": app}}}
        await cluster.port.create(CONFIG_MAPS, body, namespace=namespace)

    assert await names(cluster, namespace) == ["a", "b", "c"]
    assert await names(cluster, namespace, label_selector="app=web") == ["a", "c"]
    assert await names(cluster, namespace, label_selector="app notin (web),app") == ["b"]
    assert await names(cluster, namespace, field_selector="metadata.name=b") == ["b"]
    assert await names(cluster, namespace, field_selector="metadata.name!=b") == ["a", "c"]
    assert await names(cluster, "not-there") == []


@pytest.mark.parametrize(
    ("resource", "selector", "message"),
    [
        (
            CONFIG_MAPS,
            {"label_selector": "app===web"},
            "unable to parse requirement: found '=', expected: identifier",
        ),
        (
            CONFIG_MAPS,
            {"field_selector": "spec.nodeName=a"},
            (
                '"spec.nodeName" is not a known field selector: only "metadata.name", '
                '"metadata.namespace"'
            ),
        ),
        (
            CONFIG_MAPS,
            {"field_selector": "nonsense"},
            "invalid selector: 'nonsense'; can't understand 'nonsense'",
        ),
        (PODS, {"field_selector": "spec.foo=a"}, "field label not supported: spec.foo"),
    ],
)
async def test_a_bad_selector_is_refused(cluster, resource, selector, message):
    with pytest.raises(InvalidError) as caught:
        await cluster.port.list(resource, Query(**selector))
    assert caught.value.message == message
    assert caught.value.code == 400


async def test_pages_show_one_moment(cluster):
    namespace = await cluster.namespace()
    for number in range(5):
        await cluster.port.create(
            CONFIG_MAPS,
            {"metadata": {"name": f"p{number}", "labels": {"of": "us"}}},
            namespace=namespace,
        )
    query = Query(namespace=namespace, label_selector="of=us")
    first = await cluster.port.list(CONFIG_MAPS, query, limit=2)
    await cluster.port.delete(CONFIG_MAPS, Key(namespace, "p2"))
    await cluster.port.delete(CONFIG_MAPS, Key(namespace, "p0"))
    late = {"metadata": {"name": "p22", "labels": {"of": "us"}}}
    await cluster.port.create(CONFIG_MAPS, late, namespace=namespace)
    second = await cluster.port.list(CONFIG_MAPS, query, limit=2, page=first.next_page)
    third = await cluster.port.list(CONFIG_MAPS, query, limit=2, page=second.next_page)
    found = [json.loads(item) for page in (first, second, third) for item in page.items]

    assert [body["metadata"]["name"] for body in found] == ["p0", "p1", "p2", "p3", "p4"]
    assert first.resource_version == second.resource_version == third.resource_version
    assert third.next_page == ""


async def test_an_exact_last_page_says_that_it_is_the_last(cluster):
    namespace = await cluster.namespace()
    for name in "ab":
        await cluster.port.create(SECRETS, named(name), namespace=namespace)
    query = Query(namespace=namespace)
    first = await cluster.port.list(SECRETS, query, limit=1)
    second = await cluster.port.list(SECRETS, query, limit=1, page=first.next_page)

    assert first.next_page
    assert second.next_page == ""


async def test_a_page_token_must_be_one(cluster):
    with pytest.raises(InvalidError, match="continue key is not valid"):
        await cluster.port.list(CONFIG_MAPS, limit=1, page="garbage")


async def test_forgotten_moments_are_expired(cluster):
    """One test for pages and watches: making a real server forget takes seconds."""
    namespace = await cluster.namespace()
    for name in "abc":
        await cluster.port.create(CONFIG_MAPS, named(name), namespace=namespace)
    query = Query(namespace=namespace)
    first = await cluster.port.list(CONFIG_MAPS, query, limit=1)
    for name in "def":
        await cluster.port.create(CONFIG_MAPS, named(name), namespace=namespace)
    await cluster.compact()

    with pytest.raises(ExpiredError) as caught:
        await cluster.port.list(CONFIG_MAPS, query, limit=1, page=first.next_page)
    assert caught.value.message.startswith("The provided continue parameter is too old to display")
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    with pytest.raises(ExpiredError) as caught:
        await cluster.events(CONFIG_MAPS, query, count=1, resource_version=first.resource_version)
    assert caught.value.message.startswith("too old resource version: ")
    assert await names(cluster, namespace) == [*"abcdef"]
