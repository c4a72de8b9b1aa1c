"""POST /v1/resizes: who may ask, what is a question, and what the answer says."""

import json

import pytest

from bursar.adapters.controller_http.resizes import ResizeRoute, webhook_user
from bursar.adapters.serving.message import Request
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, UnavailableError
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop
from support.virtual_time import in_virtual_time

WEBHOOK = "system:serviceaccount:aaq:aaq-server"
TOKENS = {"good": WEBHOOK, "other": "system:serviceaccount:aaq:aaq-controller"}


async def find_username(token: str) -> str | None:
    if token == "unknowable":  # noqa: S105 - not a token
        raise UnavailableError(f"secrets about {token}")
    return TOKENS.get(token)


class Asker:
    """A route to a resizes, and questions to it."""

    def __init__(self, scene: QuotaLoopScene, *, is_leader: bool = True) -> None:
        self.scene = scene
        resizes = scene.resize_service()
        self.route = ResizeRoute(
            user=webhook_user("aaq"),
            find_username=find_username,
            find_resizes=lambda: resizes if is_leader else None,
            decode=scene.sources.pods.decode,
        )

    async def question(self, name: str, cpu: str, /, **changes: object) -> dict:
        pod = json.loads(await self.scene.cluster.get(PODS, Key(HOME, name)))
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        known = {"id": "review-1", "namespace": HOME, "name": name, "uid": pod["metadata"]["uid"]}
        return {**known, "pod": pod, "dryRun": False, **changes}

    async def ask(
        self,
        body: object,
        *,
        authorization: str = "Bearer good",
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        response = await self.route(
            Request(
                method="POST",
                path="/v1/resizes",
                headers={"content-type": content_type, "authorization": authorization},
                body=body if isinstance(body, bytes) else json.dumps(body).encode(),
            )
        )
        return int(response.code), response.body.decode()


async def furnished(scene: QuotaLoopScene) -> Asker:
    await scene.set_quota("q", requests_cpu="4")
    await scene.create_pod("web", "1")
    await scene.rest()
    return Asker(scene)


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_is_granted_what_fits_and_refused_the_rest(scene):
    asker = await furnished(scene)

    code, text = await asker.ask(await asker.question("web", "4"))
    assert (code, json.loads(text)) == (200, {"allowed": True, "message": ""})
    assert scene.books.ledger.reservation_count == 1

    code, text = await asker.ask(await asker.question("web", "4001m", id="review-2"))
    answer = json.loads(text)
    assert (code, answer["allowed"]) == (200, False)
    assert answer["message"].startswith("exceeded quota: q, requested: requests.cpu=1m, ")


@pytest.mark.parametrize("is_dry_run", [True, False])
@pytest.mark.parametrize("forged", ["name", "uid"])
@in_virtual_time(on=a_quota_loop)
async def test_a_made_up_pod_gets_nothing_and_its_sender_learns_nothing(scene, forged, is_dry_run):
    """A stranger sends the webhook what looks like an AdmissionReview of a resize."""
    asker = await furnished(scene)
    for cpu in ("2", "1000"):
        question = await asker.question("web", cpu, dryRun=is_dry_run, **{forged: "made-up"})
        question["pod"]["metadata"][forged] = "made-up"
        code, text = await asker.ask(question)

        answer = json.loads(text)
        assert (code, answer["allowed"]) == (200, False)
        assert "q" not in answer["message"].split()
        assert not any(letter.isdigit() for letter in answer["message"])
    assert scene.books.ledger.reservation_count == 0


@in_virtual_time(on=a_quota_loop)
async def test_one_id_for_the_resizes_of_two_pods_takes_nothing_from_the_first(scene):
    asker = await furnished(scene)
    await scene.create_pod("db", "1")
    await scene.rest()
    assert json.loads((await asker.ask(await asker.question("web", "3")))[1])["allowed"]

    again = await asker.question("web", "2")
    assert json.loads((await asker.ask(again))[1])["allowed"]
    other = await asker.question("db", "2")
    assert not json.loads((await asker.ask(other))[1])["allowed"]


@in_virtual_time(on=a_quota_loop)
async def test_a_dry_run_reserves_nothing(scene):
    asker = await furnished(scene)

    code, _ = await asker.ask(await asker.question("web", "4", dryRun=True))

    assert (code, scene.books.ledger.reservation_count) == (200, 0)


@in_virtual_time(on=a_quota_loop)
async def test_a_resize_that_the_node_refused_earlier_does_not_matter(scene):
    """With such a condition a pod is charged for what it has, not for what it asks."""
    asker = await furnished(scene)
    question = await asker.question("web", "9")
    question["pod"]["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [
            {
                "name": "c",
                "allocatedResources": {"cpu": "1"},
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    }

    code, text = await asker.ask(question)

    assert (code, json.loads(text)["allowed"]) == (200, False)


@pytest.mark.parametrize(
    ("authorization", "code", "text"),
    [
        ("", 401, "a bearer token is required"),
        ("Basic Z29vZA==", 401, "a bearer token is required"),
        ("Bearer", 401, "a bearer token is required"),
        ("Bearer bad", 401, "the token is not valid"),
        ("Bearer other", 403, f"only {WEBHOOK} may ask"),
        ("Bearer unknowable", 503, "the token could not be checked"),
    ],
)
@in_virtual_time(on=lambda: a_quota_loop(is_running=False))
async def test_only_the_webhook_may_ask(scene, authorization, code, text):
    asker = Asker(scene)

    assert await asker.ask(b"{}", authorization=authorization) == (code, text)


@in_virtual_time(on=a_quota_loop)
async def test_the_scheme_is_not_case_sensitive(scene):
    asker = await furnished(scene)
    question = await asker.question("web", "2")

    assert (await asker.ask(question, authorization="bearer good"))[0] == 200


@pytest.mark.parametrize(
    ("request_parts", "code", "text"),
    [
        ({"content_type": "text/plain"}, 415, "application/json is expected"),
        ({"body": b"{"}, 400, "the question cannot be read"),
        ({"body": b"\xff"}, 400, "the question cannot be read"),
        ({"body": b'{"deep": ' + b"[" * 9000}, 400, "the question cannot be read"),
        ({"body": b'{"id": "hidden"}'}, 400, "the question cannot be read"),
        ({"changes": {"id": ""}}, 400, "the question needs a short id"),
        ({"changes": {"id": "x" * 257}}, 400, "the question needs a short id"),
        ({"changes": {"pod": []}}, 400, "the pod cannot be read"),
        ({"changes": {"pod": {"metadata": {}}}}, 400, "the pod cannot be read"),
        ({"changes": {"uid": "another"}}, 400, "the pod is not the one that is named"),
        ({"changes": {"namespace": "b"}}, 400, "the pod is not the one that is named"),
        ({"changes": {"name": "b"}}, 400, "the pod is not the one that is named"),
    ],
)
@in_virtual_time(on=a_quota_loop)
async def test_invalid_questions_are_refused(scene, request_parts, code, text):
    asker = await furnished(scene)
    parts = dict(request_parts)
    known = await asker.question("web", "2", **parts.pop("changes", {}))

    assert await asker.ask(parts.pop("body", known), **parts) == (code, text)
    assert scene.books.ledger.reservation_count == 0


@in_virtual_time(on=a_quota_loop)
async def test_a_replica_that_does_not_lead_answers_421(scene):
    question = await (await furnished(scene)).question("web", "2")

    asked = await Asker(scene, is_leader=False).ask(question)

    assert asked == (421, "this replica does not lead")


@in_virtual_time(on=lambda: a_quota_loop(is_running=False))
async def test_books_that_are_not_open_cannot_be_asked(scene):
    await scene.create_pod("web", "1")
    asker = Asker(scene)

    asked = await asker.ask(await asker.question("web", "2"))

    assert asked == (503, "the books are not complete yet")
