"""Messages of the sidecar protocol, compared with the messages of the compiled protocol."""

import json

import pytest

from bursar.core.counting.pod_body import PodBody
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.pod_usage import (
    AMOUNTS_BYTES_MAX,
    BadAnswerError,
    PodUsageRequests,
    SidecarSaysError,
    decode_answer,
    decode_health,
)
from bursar.wire.counting.protocol import evaluate_pb2 as pb
from support.builders.pods import texts


def body(name: str, size: int = 0):
    pod = {"metadata": {"name": name, "annotations": {"pad": "x" * size}}, "spec": {}}
    return keep_body(json.dumps(pod).encode())


def read(request: bytes):
    message = pb.PodUsageRequest.FromString(request)
    assert message.SerializeToString() == request
    names = [json.loads(each.podJson)["metadata"]["name"] for each in message.podsState]
    return json.loads(message.pod.podJson)["metadata"]["name"], names


# ------------------------------------------------------------------ requests


@pytest.mark.parametrize("size", [0, 50, 200, 20_000, 3_000_000])
def test_a_request_is_that_of_the_protocol(size):
    requests = PodUsageRequests()
    pods = [("web", body("web", size)), ("db", body("db"))]

    length = requests.prepare("a", 1, pods)

    request = requests.encode(pods[1][1], "a")
    assert read(request) == ("db", ["web", "db"])
    assert length > size


def test_the_gates_of_the_pod_in_question_are_removed_and_those_of_others_stay():
    gated = {"metadata": {}, "spec": {"schedulingGates": [{"name": "g"}], "nodeName": "n"}}
    kept = keep_body(json.dumps(gated).encode())
    requests = PodUsageRequests()
    requests.prepare("a", 1, [("web", kept)])

    message = pb.PodUsageRequest.FromString(requests.encode(kept, "a"))

    assert json.loads(message.pod.podJson) == {"metadata": {}, "spec": {"nodeName": "n"}}
    assert json.loads(message.podsState[0].podJson) == gated


def test_a_request_may_be_about_the_pod_alone():
    assert read(PodUsageRequests().encode(body("web"))) == ("web", [])


def test_pods_are_encoded_once_for_each_state_of_the_namespace():
    requests = PodUsageRequests()
    web, db = body("web"), body("db")
    requests.prepare("a", 1, [("web", web)])

    def never():
        raise AssertionError("these pods are known")
        yield

    requests.prepare("a", 1, never())
    requests.prepare("a", 2, [("web", web), ("db", db)])
    assert read(requests.encode(web, "a")) == ("web", ["web", "db"])

    requests.prepare("a", 3, [("web", body("changed"))])
    assert read(requests.encode(db, "a")) == ("db", ["changed"])


def test_the_pods_of_a_namespace_that_is_too_large_are_not_unpacked():
    requests = PodUsageRequests(namespace_bytes_max=5000)
    web = body("web")
    huge = PodBody(b"this cannot be unpacked", 5000)
    assert requests.prepare("a", 1, [("web", web)]) < 5000
    assert requests.prepare("a", 2, [("web", web), ("huge", huge)]) == 5000 + web.size
    assert requests.prepare("a", 3, [("web", web)]) < 5000
    assert read(requests.encode(web, "a")) == ("web", ["web"])


def test_the_encoded_pods_of_few_namespaces_are_kept():
    requests = PodUsageRequests(bytes_max=5000)
    for namespace in "abc":
        requests.prepare(namespace, 1, [("web", body("web", 1000))])

    assert [len(requests.encode(body("db"), each)) > 1000 for each in "abc"] == [False, True, True]
    requests.prepare("b", 2, [("web", body("web", 4000))])
    assert len(requests.encode(body("db"), "b")) < 1000


# ------------------------------------------------------------------ answers


def an_answer(amounts: str | bytes = "{}", *, match: bool = True, error: str | None = None):
    encoded = amounts.encode() if isinstance(amounts, str) else amounts
    return pb.PodUsageResponse(
        resourceList=pb.ResourceList(resourceListJson=encoded),
        match=match,
        error=pb.Error(error=error is not None, errorMessage=error or ""),
    ).SerializeToString()


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ("{}", {}),
        ("null", {}),
        ('{"requests.memory": "512Mi"}', {"requests.memory": "512Mi"}),
        ('{"instances/notebook": 2, "cpu": 0.5}', {"instances/notebook": "2", "cpu": "500m"}),
        ('{"cpu": null}', {"cpu": "0"}),
    ],
)
def test_an_answer_is_read_as_go_reads_it(amounts, expected):
    assert texts(decode_answer(an_answer(amounts))) == expected


def test_a_sidecar_says_that_a_pod_is_none_of_its_pods():
    assert decode_answer(an_answer(match=False)) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"\xff\xff", "no PodUsageResponse"),
        (b"", "no `error`"),
        (pb.PodUsageResponse(error=pb.Error()).SerializeToString(), "no `resourceList`"),
        (an_answer(""), "not JSON"),
        (an_answer('{"cpu": [not'), "not JSON"),
        (an_answer(b'{"cpu": "\xff"}'), "not JSON"),
        (an_answer("[1]"), "not JSON"),
        (an_answer('{"cpu": {}}'), "not JSON"),
        (an_answer('{"cpu": "much"}'), "resourceList[cpu]"),
        (an_answer('{"cpu": true}'), "a quantity is expected"),
        (an_answer('{"cpu": "-1"}'), "charges -1 of cpu, which no pod can cost"),
        (an_answer('{"cpu": "1e30"}'), "no pod can cost"),
        (an_answer('{"": "1"}'), '"" is not the name'),
        (an_answer('{"a\\nb": "1"}'), "is not the name"),
        (an_answer('{"%s": "1"}' % ("x" * 400)), "is not the name"),
        (an_answer(" " * (AMOUNTS_BYTES_MAX + 1)), "65537 bytes; at most 65536"),
        (an_answer('{"cpu": "-1"}', match=False), "no pod can cost"),
    ],
)
def test_a_bad_answer_is_refused_with_the_reason(answer, words):
    with pytest.raises(BadAnswerError) as refused:
        decode_answer(answer)

    assert words in str(refused.value)
    assert len(str(refused.value)) < 500


def test_an_error_of_the_sidecar_is_repeated_in_one_short_line():
    with pytest.raises(SidecarSaysError) as told:
        decode_answer(an_answer(error="no licence\n" + "x" * 10_000))

    assert str(told.value).startswith(r"no licence\nxxx")
    assert len(str(told.value)) < 300


def test_health_is_read():
    assert decode_health(pb.HealthCheckResponse(healthy=True).SerializeToString())
    assert not decode_health(b"")
    with pytest.raises(BadAnswerError):
        decode_health(b"\xff\xff")
