"""The path of peer pods: upstream's manners over HTTP, and what is counted."""

import asyncio
import base64
import json
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bursar.adapters.admission.peerpods import (
    BODY_BYTES_MAX,
    CACHED_ANSWERS_MAX,
    PeerPodCounts,
    peer_pod_routes,
)
from bursar.adapters.admission.routes import review_counts, webhook_routes
from bursar.adapters.memory.objects.patches import json_patched
from bursar.adapters.serving.message import JSON, Handler, Request
from bursar.cli.processes import webhook as verb
from bursar.core.peerpods.decision import ANNOTATIONS_READ
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.peerpods.review import decode_peer_pod
from support.builders.peer_pods import (
    EFFECTIVE,
    KATA,
    ONE_VM,
    RECORD,
    UPSTREAM,
    a_peer_pod,
    init,
    main,
    rewritten,
    sidecar,
)
from support.builders.reviews import a_review, a_reviewer, running

PATH = "/mutate-v1-pod"
SEED = main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi")
REVIEW = json.dumps(a_review("Pod", "CREATE", a_peer_pod(SEED))).encode()


def handler_of(settings: PeerPodSettings, counts: PeerPodCounts) -> Handler:
    return peer_pod_routes(settings, counts)["POST", PATH].handler


def a_request(body: bytes, content_type: str = JSON) -> Request:
    return Request(method="POST", path=PATH, headers={"content-type": content_type}, body=body)


async def told(
    body: bytes,
    *,
    settings: PeerPodSettings = EFFECTIVE,
    counts: PeerPodCounts | None = None,
    content_type: str = JSON,
) -> dict[str, Any]:
    handler = handler_of(settings, counts or PeerPodCounts())
    response = await handler(a_request(body, content_type))
    assert (response.code, response.content_type) == (200, JSON)
    return json.loads(response.body)


async def told_about(pod: object, **more: Any) -> dict[str, Any]:
    answer = await told(json.dumps(a_review("Pod", "CREATE", pod)).encode(), **more)
    assert answer["response"]["uid"] == "review-1"
    return answer["response"]


def patch_in(response: dict[str, Any]) -> list[dict[str, Any]]:
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


# ------------------------------------------------------------------ answers


async def test_the_pod_of_the_walk_through_gets_the_patch_upstream_would_make():
    response = await told_about(a_peer_pod(SEED), settings=UPSTREAM)
    resources = "/spec/containers/0/resources"

    assert (response["allowed"], response["status"]) == (True, {"code": 200})
    assert sorted(patch_in(response), key=lambda step: (step["path"], step["op"])) == [
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {f"{KATA}default_vcpus": "1", f"{KATA}default_memory": "2048"},
        },
        *(
            step
            for side in ("limits", "requests")
            for step in (
                {"op": "remove", "path": f"{resources}/{side}/cpu"},
                {"op": "add", "path": f"{resources}/{side}/kata.peerpods.io~1vm", "value": "1"},
                {"op": "remove", "path": f"{resources}/{side}/memory"},
            )
        ),
    ]


async def test_in_effective_mode_the_removed_resources_are_recorded_on_the_pod():
    pod = a_peer_pod(SEED)
    after = json_patched(pod, patch_in(await told_about(pod)))

    assert after["spec"]["containers"][0]["resources"] == ONE_VM
    assert after["metadata"]["annotations"][f"{KATA}default_memory"] == "2048"
    assert '"memory":"2Gi"' in after["metadata"]["annotations"][RECORD]


async def test_a_pod_of_another_class_is_allowed_without_a_patch():
    response = await told_about(a_peer_pod(SEED, runtimeClassName="gvisor"))

    assert response == {"uid": "review-1", "allowed": True, "status": {"code": 200}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_both_versions_are_answered_in_kind(version):
    review = a_review("Pod", "CREATE", a_peer_pod(SEED))
    review["apiVersion"] = f"admission.k8s.io/{version}"
    answer = await told(json.dumps(review).encode())

    assert answer["apiVersion"] == f"admission.k8s.io/{version}"
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"]["allowed"]


async def test_warnings_go_into_the_review():
    response = await told_about(a_peer_pod(main("cpu=1 example.com/fpga=1")))

    assert response["warnings"] == ["removed, and not passed on to the VM: example.com/fpga"]


async def test_a_demand_that_cannot_be_met_is_denied_with_the_reason():
    response = await told_about(a_peer_pod(main("memory=9E")))

    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert "a VM can have at most" in response["status"]["message"]
    assert "patch" not in response


async def test_the_operation_and_the_old_object_are_ignored():
    review = a_review("Pod", "UPDATE", a_peer_pod(SEED), {"spec": 7}, dryRun=True)
    answer = await told(json.dumps(review).encode())

    assert patch_in(answer["response"])


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("body", "content_type", "code", "message"),
    [
        (b"", "application/json", 400, "request body is empty"),
        (b"{}", "text/plain", 400, "contentType=text/plain, expected application/json"),
        (
            b"{}",
            "application/json; charset=utf-8",
            400,
            "contentType=application/json; charset=utf-8, expected application/json",
        ),
        (
            b" " * BODY_BYTES_MAX,
            "text/plain",
            413,
            "request entity is too large; limit is 7340032 bytes",
        ),
    ],
    ids=["empty", "another type", "a type with a parameter", "too large"],
)
async def test_errors_before_decoding_have_upstreams_messages(body, content_type, code, message):
    answer = await told(body, content_type=content_type)

    assert answer["response"] == {
        "uid": "",
        "allowed": False,
        "status": {"code": code, "message": message},
    }


async def test_a_body_just_below_the_limit_is_read():
    assert (await told(REVIEW.ljust(BODY_BYTES_MAX - 1)))["response"]["allowed"]


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b"7",
        b"{",
        b"\xff\xfe",
        b'{"request": null}',
        b'{"request": []}',
        b'{"request": {"object": ' + DEEP + b"}}",
        b'{"request": {"uid": "u", "object": {"metadata": ' + DEEP + b"}}}",
        b'{"request": {"uid": 7}}',
    ],
)
async def test_an_undecodable_review_is_refused_with_400(body):
    response = (await told(body))["response"]

    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert response["status"]["message"]


def reviewed(pod: bytes) -> bytes:
    review = json.dumps(a_review("Pod", "CREATE", "<pod>")).encode()
    return review.replace(b'"<pod>"', pod)


@pytest.mark.parametrize(
    "pod",
    [
        b"null",
        b"[]",
        b'"text"',
        b'{"spec": []}',
        b'{"spec": {"containers": {}}}',
        b'{"spec": {"containers": [7]}}',
        b'{"spec": {"runtimeClassName": 7}}',
        b'{"spec": {"containers": [{"resources": []}]}}',
        b'{"metadata": {"annotations": {"a": ' + b"9" * 10_000 + b"}}}",
        b'{"metadata": {"annotations": {"a": "\xff"}}}',
    ],
)
async def test_an_undecodable_pod_is_refused_with_400_under_its_uid(pod):
    response = (await told(reviewed(pod)))["response"]

    assert (response["uid"], response["allowed"]) == ("review-1", False)
    assert response["status"]["code"] == 400


async def test_a_review_without_an_object_is_refused_with_upstreams_message():
    response = await told_about(None)

    assert response["status"] == {"code": 400, "message": "there is no content to decode"}


@pytest.mark.parametrize(
    "amount", ["1e999999999", "9" * 3000, "-1", "NaN", "", "1Zi", {}, [], True, 1e300]
)
async def test_an_invalid_quantity_is_denied_in_one_line(amount):
    pod = a_peer_pod(main())
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
    response = await told_about(pod)

    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert response["status"]["message"].isprintable()


async def test_a_number_with_a_fraction_counts_by_its_digits():
    pod = a_peer_pod(main())
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 1.5, "memory": 1048576}}
    after = json_patched(pod, patch_in(await told_about(pod)))

    assert after["metadata"]["annotations"][f"{KATA}default_vcpus"] == "2"
    assert '"cpu":"1500m"' in after["metadata"]["annotations"][RECORD]


# ------------------------------------------------------------------ the patch

UNKNOWN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5).map("x{}".format), inner, max_size=3)
    ),
    max_leaves=8,
)
SIDES = st.sampled_from(["", "cpu=1", "cpu=250m memory=1Gi", "nvidia.com/gpu=1"])


@given(st.data())
def test_the_branches_that_are_read_give_the_patch_of_the_whole_pod(data):
    """Fields that nobody knows, anywhere on the way, are neither read nor changed."""
    makers = st.sampled_from([main, init, sidecar])
    drawn = st.builds(
        lambda maker, requests, unknown: maker(requests, requests, xNewer=unknown),
        makers,
        SIDES,
        UNKNOWN,
    )
    containers = data.draw(st.lists(drawn, min_size=1, max_size=4))
    pod = a_peer_pod(main("cpu=1"), *containers, xNewer=data.draw(UNKNOWN))
    pod["metadata"]["xNewer"] = pod["status"] = data.draw(UNKNOWN)
    for container in pod["spec"]["containers"]:
        container["resources"]["xNewer"] = data.draw(UNKNOWN)
    read = decode_peer_pod(json.dumps(pod).encode())

    for settings in (EFFECTIVE, UPSTREAM):
        whole, part = rewritten(pod, settings), rewritten(read, settings)
        assert (part.steps, part.warnings) == (whole.steps, whole.warnings)


@pytest.mark.parametrize("number", ["12345678901234567890123", "1.10", "1e400", "-0", "1E+22"])
@pytest.mark.parametrize("settings", [EFFECTIVE, PeerPodSettings(kept=frozenset({"a.b/c"}))])
async def test_no_patch_has_a_number_that_was_not_ours(number, settings):
    pod = a_peer_pod(main("cpu=1 a.b/c=1", "a.b/c=1"), resources={"requests": {"cpu": "1"}})
    for resources in (pod["spec"]["resources"], pod["spec"]["containers"][0]["resources"]):
        resources["future"] = ["<n>"]
    text = json.dumps(a_review("Pod", "CREATE", pod)).replace('"<n>"', number)
    patch = patch_in((await told(text.encode(), settings=settings))["response"])

    assert patch
    assert "future" not in str([step for step in patch if step["op"] != "remove"])
    assert not any("future" in step["path"] for step in patch)


@pytest.mark.parametrize("more", [{}, {"big": 10**30}, {"long": "x" * 20_000}])
async def test_equal_pods_get_the_same_answer_under_their_own_uids(more):
    handler = handler_of(EFFECTIVE, PeerPodCounts())
    pod = a_peer_pod(SEED)
    pod["spec"]["containers"][0]["resources"].update(more)
    answers = []
    for uid in ("one", "other"):
        body = json.dumps(a_review("Pod", "CREATE", pod, uid=uid)).encode()
        response = await handler(a_request(body))
        answers.append(json.loads(response.body)["response"])

    assert [each.pop("uid") for each in answers] == ["one", "other"]
    assert answers[0] == answers[1]
    assert patch_in(answers[0])


OTHERS = st.dictionaries(
    st.text(max_size=8).map("example.com/{}".format),
    st.none() | st.text(max_size=8) | st.just("x" * 200_000),
    max_size=3,
)
READ = st.dictionaries(
    st.sampled_from(ANNOTATIONS_READ), st.sampled_from(["", "1", "64", "many", "{}"]), max_size=3
)


@pytest.mark.slow
@given(st.lists(st.tuples(READ, OTHERS), min_size=2, max_size=4))
def test_unread_annotations_do_not_confuse_the_cache(drawn):
    caching = handler_of(EFFECTIVE, PeerPodCounts())
    for read, others in [*drawn, *((read, {}) for read, _ in drawn)]:
        pod = a_peer_pod(SEED, annotations={**read, **others})
        body = json.dumps(a_review("Pod", "CREATE", pod)).encode()
        fresh = handler_of(EFFECTIVE, PeerPodCounts())

        assert asyncio.run(caching(a_request(body))) == asyncio.run(fresh(a_request(body)))


async def test_the_cache_is_bounded():
    counts = PeerPodCounts()
    handler = handler_of(EFFECTIVE, counts)
    answers: list[list[bytes]] = []
    for _ in range(2):
        answers.append([])
        for memory in range(CACHED_ANSWERS_MAX + 2):
            pod = a_peer_pod(main(f"memory={memory + 1}Mi"))
            body = json.dumps(a_review("Pod", "CREATE", pod)).encode()
            answers[-1].append((await handler(a_request(body))).body)

    assert answers[0] == answers[1]
    assert len(set(answers[0])) == CACHED_ANSWERS_MAX + 2
    assert counts.ends["rewritten"] == 2 * len(answers[0])


async def test_w16_the_author_is_told_that_containers_do_not_see_the_vm():
    shown = {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    pod = a_peer_pod(main("cpu=1", "cpu=1", env=[shown, {"name": "A", "value": "1"}]))
    response = await told_about(pod)
    plain = await told_about(a_peer_pod(main("cpu=1", "cpu=1")))

    assert response["warnings"] == [
        "resourceFieldRef does not see the VM: limits.cpu of container c0 shows what the worker has"
    ]
    assert response["patch"] == plain["patch"]


# ------------------------------------------------------------------ counting


async def test_pods_are_counted_by_result():
    counts = PeerPodCounts()
    pod = a_peer_pod(SEED)
    after = json_patched(pod, patch_in(await told_about(pod, counts=counts)))
    for each in (after, {"spec": {}}, {"spec": {}}, a_peer_pod(main("cpu=-1"))):
        await told_about(each, counts=counts)
    await told(b"", counts=counts)

    assert counts.ends == {
        "rewritten": 1,
        "unchanged": 1,
        "untouched": 2,
        "denied": 1,
        "error": 1,
    }
    assert counts.overwritten == 0


async def test_sizes_of_the_author_that_were_replaced_are_counted():
    counts = PeerPodCounts()
    own = {f"{KATA}default_vcpus": "8", f"{KATA}default_memory": "1"}
    pod = a_peer_pod(SEED, annotations=own)
    after = json_patched(pod, patch_in(await told_about(pod, counts=counts)))
    # A container that came later makes the VM larger: what is replaced is our own.
    after["spec"]["containers"].append({"name": "late", **main("memory=8Gi")})
    await told_about(after, counts=counts)

    assert counts.overwritten == 1


# ------------------------------------------------------------------ on the server


async def test_each_path_has_its_own_limit(tmp_path):
    routes = {
        **webhook_routes(
            a_reviewer().answer,
            counts=review_counts(),
            metrics=bytes,
            metrics_guard=None,
            body_bytes_max=1024,
        ),
        **peer_pod_routes(EFFECTIVE, PeerPodCounts()),
    }
    body = REVIEW.ljust(2048)
    async with running(tmp_path, routes) as server:
        gate, _ = await server.ask("/gate", body)
        status, text = await server.ask(PATH, body)
        large, refused = await server.ask(PATH, b" " * (BODY_BYTES_MAX + 1))

    assert (gate, status, large) == (413, 200, 200)
    assert json.loads(text)["response"]["allowed"]
    assert json.loads(refused)["response"]["status"]["code"] == 413


# ------------------------------------------------------------------ what upstream is told


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"POD_VM_EXTENDED_RESOURCE": "vm"}, "'vm' is not the name of an extended resource"),
        ({"TLS_MIN_VERSION": "VersionTLS10"}, "TLS 1.0 and 1.1 are not supported"),
    ],
)
def test_an_invalid_environment_is_reported_at_the_start(environment, complaint):
    ran = CliRunner().invoke(verb.webhook, [], env=environment)

    assert complaint in f"{ran.output}{ran.exception}"
