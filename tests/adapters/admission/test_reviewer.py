"""Which question a review asks, and what is answered: the rows of AAQ's own tests, and more."""

import base64
import json
import sys

import pytest

from bursar.adapters.admission.reviewer import UnanswerableError
from bursar.app.admission.pods import Granted, WhenUnreachable
from bursar.wire.admission import ReviewError
from support.builders.reviews import (
    ACRQ,
    ARQ,
    CONTROLLER_USER,
    GATE,
    OneAnswerReservations,
    OpinionatedWriter,
    a_review,
    a_reviewer,
    an_acrq,
    an_arq,
    raw_pod,
    response_to,
)


def by(username: str) -> dict:
    return {"userInfo": {"username": username}}


async def test_u_hnd_01_a_new_pod_is_gated():
    response = await response_to(a_reviewer(), a_review("Pod", "CREATE", raw_pod()))

    assert response["allowed"]
    assert response["uid"] == "review-1"
    assert response["status"] == {"code": 202, "message": "Pod has successfully gated"}
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}
    ]


async def test_u_hnd_02_the_controller_lifts_the_gate():
    review = a_review("Pod", "UPDATE", raw_pod(), raw_pod(GATE), **by(CONTROLLER_USER))

    response = await response_to(a_reviewer(), review)

    assert response["allowed"]
    assert response["status"]["message"] == "AAQ controller has permission to remove gate from pods"


async def test_u_hnd_03_another_service_account_does_not_lift_the_gate():
    user = by("system:serviceaccount:aaq:default")
    review = a_review("Pod", "UPDATE", raw_pod(), raw_pod(GATE), **user)

    response = await response_to(a_reviewer(), review)

    assert not response["allowed"]
    assert response["status"] == {
        "code": 403,
        "message": (
            "Only AAQ controller has permission to remove ApplicationAwareQuotaGate gate from pods"
        ),
    }


async def test_u_hnd_04_other_gates_may_be_removed_by_anybody():
    review = a_review("Pod", "UPDATE", raw_pod(GATE), raw_pod(GATE, "other"), **by("me"))

    response = await response_to(a_reviewer(), review)

    assert response["allowed"]
    assert response["status"]["message"] == "Pod update did not remove AAQGate"


async def test_u_hnd_05_a_valid_quota_may_be_changed():
    review = a_review(ARQ, "UPDATE", an_arq({"cpu": "2"}), an_arq({"cpu": "1"}))

    response = await response_to(a_reviewer(), review)

    assert response["status"] == {
        "code": 202,
        "message": "ApplicationAwareResourceQuota request is valid",
    }


async def test_u_hnd_06_a_valid_quota_may_be_created():
    writer = OpinionatedWriter()

    response = await response_to(a_reviewer(writer), a_review(ARQ, "CREATE", an_arq({"cpu": 1})))

    assert response["allowed"]
    [(namespace, body, is_dry_run)] = writer.created
    assert (namespace, body["spec"], is_dry_run) == ("team-a", {"hard": {"cpu": "1"}}, True)


async def test_a_review_without_the_group_of_a_quota_is_understood():
    review = a_review(ARQ, "CREATE", an_arq({"cpu": "1"}), kind={"kind": ARQ})

    assert (await response_to(a_reviewer(), review))["allowed"]


async def test_a_cluster_wide_quota_is_read_from_its_own_place():
    writer = OpinionatedWriter()
    review = a_review(ACRQ, "CREATE", an_acrq({"cpu": "1"}), namespace="")

    response = await response_to(a_reviewer(writer), review)

    assert response["allowed"]
    assert writer.created[0][1]["spec"] == {"hard": {"cpu": "1"}}


async def test_a_cluster_wide_quota_for_services_is_refused():
    review = a_review(ACRQ, "CREATE", an_acrq({"services": "1", "configmaps": "1"}), namespace="")

    response = await response_to(a_reviewer(), review)

    assert response["status"]["code"] == 403
    assert response["status"]["message"].endswith("resources :[configmaps services]")


async def test_a_second_aaq_is_refused():
    response = await response_to(a_reviewer(), a_review("AAQ", "CREATE", {}))

    assert response["status"] == {
        "code": 403,
        "message": "only a single AAQ CR instance is allowed",
    }


async def test_a_warning_about_an_unknown_order_reaches_the_author():
    quota = an_arq({"cpu": "1"})
    quota["metadata"]["annotations"] = {"bursar.io/order": "lottery"}

    response = await response_to(a_reviewer(), a_review(ARQ, "CREATE", quota))

    assert response["allowed"]
    assert "bursar.io/order" in response["warnings"][0]


@pytest.mark.parametrize(
    ("kind", "operation"), [("Secret", "CREATE"), ("PodExecOptions", "CONNECT"), ("", "CREATE")]
)
async def test_a_review_of_an_unknown_kind_is_an_error_that_quotes_no_object(kind, operation):
    review = a_review(kind, operation, {"data": {"password": "hidden"}})

    with pytest.raises(UnanswerableError) as caught:
        await response_to(a_reviewer(), review)

    assert str(caught.value) == (
        "could not generate admission response: AAQ webhook doesn't recongnize request: "
        f"{operation} /v1, Kind={kind} team-a/web"
    )


async def test_a_pod_of_another_api_group_is_not_gated():
    kind = {"group": "example.com", "version": "v1", "kind": "Pod"}

    with pytest.raises(UnanswerableError):
        await response_to(a_reviewer(), a_review("Pod", "CREATE", raw_pod(), kind=kind))


@pytest.mark.parametrize(
    "review",
    [
        a_review("Pod", "DELETE", None, raw_pod(GATE)),
        a_review(ARQ, "DELETE", None, an_arq()),
        a_review("Pod", "CREATE", {"spec": "no"}),
        a_review("Pod", "UPDATE", raw_pod(), None),
        a_review("Pod", "UPDATE", {"spec": 1}, raw_pod(), subResource="resize"),
        a_review("Pod", "UPDATE", raw_pod(cpu="x"), raw_pod(), subResource="resize"),
    ],
)
async def test_an_object_that_is_missing_or_broken_is_an_error(review):
    with pytest.raises(UnanswerableError, match="could not generate admission response: "):
        await response_to(a_reviewer(), review)


async def test_a_resize_is_answered_or_refused_however_deeply_its_pods_are_nested():
    """The pods of a review are decoded again, with a few more calls on the stack."""
    pod = raw_pod(deep="nested")
    text = json.dumps(a_review("Pod", "UPDATE", pod, pod, subResource="resize"))
    answered = refused = 0
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit()):
        body = text.replace('"nested"', "[" * depth + "]" * depth).encode()
        try:
            await a_reviewer().answer(body)
            answered += 1
        except (ReviewError, UnanswerableError):
            refused += 1

    assert answered
    assert refused


# ------------------------------------------------------------------ resizes


def a_resize(before: str, after: str, **request: object) -> dict:
    new, old = raw_pod(cpu=after), raw_pod(cpu=before)
    return a_review("Pod", "UPDATE", new, old, subResource="resize", **request)


async def test_shrinking_a_pod_does_not_ask_the_leader():
    reservations = OneAnswerReservations()

    response = await response_to(a_reviewer(reservations=reservations), a_resize("2", "1"))

    assert (response["allowed"], reservations.asked) == (True, [])


async def test_growing_a_pod_asks_the_leader():
    reservations = OneAnswerReservations(Granted())

    response = await response_to(
        a_reviewer(reservations=reservations), a_resize("1", "2", dryRun=True)
    )

    assert response["allowed"]
    [asked] = reservations.asked
    assert (asked.id, asked.namespace, asked.name) == ("review-1", "team-a", "web")
    assert (asked.uid, asked.is_dry_run) == ("pod-uid", True)
    assert json.loads(asked.new) == raw_pod(cpu="2")
    assert json.loads(asked.old) == raw_pod(cpu="1")


async def test_growing_a_pod_is_refused_without_a_leader():
    response = await response_to(a_reviewer(), a_resize("1", "2"))

    assert not response["allowed"]
    assert response["status"]["code"] == 503


async def test_growing_a_pod_without_a_leader_is_allowed_if_so_configured():
    reviewer = a_reviewer(when_unreachable=WhenUnreachable.ALLOW)

    response = await response_to(reviewer, a_resize("1", "2"))

    assert response["allowed"]
    assert response["warnings"]


async def test_policy_is_refused_with_the_place_of_its_error():
    bad = {"metadata": {"name": "p"}, "spec": {"match": "1 +", "ignore": True}}
    answer = await response_to(a_reviewer(), a_review("CountingPolicy", "CREATE", bad))
    assert not answer["allowed"]
    assert "spec.match: 1:4: syntax error" in answer["status"]["message"]
