"""The HTTP side of the extender: verbs, results, and errors that the scheduler understands."""

import json

import pytest

from bursar.adapters.extender.routes import (
    ALLOWED,
    BIND,
    ERROR,
    FILTER,
    PREEMPT,
    PRIORITIZE,
    REFUSED,
    extender_routes,
    request_counts,
)
from bursar.adapters.serving.message import Request
from bursar.app.extender.binding import BOUND, BindResult
from bursar.app.extender.extender import NotLeadingError
from bursar.core.pools.refusal import PoolReason, PoolRefusal

ARGS = {"Pod": {}, "NodeNames": ["a", "b"]}
BINDING = {"PodName": "x", "PodNamespace": "s", "PodUID": "u", "Node": "n"}
VICTIMS = {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 0}}


class Decisions:
    """Decides as it is told."""

    def __init__(self) -> None:
        self.refusals: tuple[PoolRefusal, ...] = ()
        self.bound: BindResult = BOUND
        self.is_leading = True

    def _lead(self) -> None:
        if not self.is_leading:
            raise NotLeadingError("another replica of the extender leads")

    def filter(self, pod):
        self._lead()
        if pod != b"{}":
            raise ValueError("the pod cannot be read")
        return self.refusals

    def preempt(self, request):
        self._lead()
        return {} if self.refusals else dict(request.victims)

    async def bind(self, _):
        self._lead()
        return self.bound


class Scene:
    def __init__(self) -> None:
        self.decisions, self.counts = Decisions(), request_counts()
        self.problem = ""
        self.routes = extender_routes(
            self.decisions,
            counts=self.counts,
            metrics=lambda: b"",
            problem=lambda: self.problem,
            metrics_guard=None,
            scheduler_guard=None,
        )

    async def ask(self, verb, body):
        path = f"/scheduler/{verb}"
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        route = self.routes["POST", path]
        return await route.handler(Request(method="POST", path=path, body=sent))

    async def answer(self, verb, body):
        response = await self.ask(verb, body)
        assert response.code == 200
        return json.loads(response.body)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_filter_passes_all_nodes_or_none(scene):
    assert (await scene.answer(FILTER, ARGS))["NodeNames"] == ["a", "b"]
    scene.decisions.refusals = (PoolRefusal(reason=PoolReason.NAMESPACE_UNKNOWN),)
    refused = await scene.answer(FILTER, ARGS)

    text = "NamespaceUnknown: the namespace has not been seen yet"
    assert refused["FailedAndUnresolvableNodes"] == {"a": text, "b": text}
    assert (scene.counts[FILTER, ALLOWED], scene.counts[FILTER, REFUSED]) == (1, 1)


async def test_a_replica_that_does_not_lead_says_so(scene):
    scene.decisions.is_leading = False
    text = "NotLeading: this replica cannot decide now: another replica of the extender leads"

    assert (await scene.answer(FILTER, ARGS))["Error"] == text
    response = await scene.ask(BIND, BINDING)
    assert (response.code, response.body.decode()) == (503, text)
    assert (await scene.ask(PREEMPT, {"Pod": {}})).code == 503
    assert [scene.counts[verb, ERROR] for verb in (FILTER, BIND, PREEMPT)] == [1, 1, 1]


async def test_nodes_have_all_the_same_score(scene):
    assert await scene.answer(PRIORITIZE, ARGS) == [
        {"Host": "a", "Score": 0},
        {"Host": "b", "Score": 0},
    ]


async def test_preempt_answers_with_the_useful_nodes(scene):
    args = {"Pod": {}, "NodeNameToMetaVictims": VICTIMS}
    assert await scene.answer(PREEMPT, args) == {"NodeNameToMetaVictims": VICTIMS}
    scene.decisions.refusals = (PoolRefusal(reason=PoolReason.NO_POOL),)

    assert await scene.answer(PREEMPT, args) == {"NodeNameToMetaVictims": {}}
    assert scene.counts[PREEMPT, REFUSED] == 1


async def test_bind_answers_with_its_error(scene):
    assert await scene.answer(BIND, BINDING) == {"Error": ""}
    scene.decisions.bound = BindResult("why", None, PoolReason.EXHAUSTED)

    assert await scene.answer(BIND, BINDING) == {"Error": "why"}


@pytest.mark.parametrize("verb", [FILTER, PRIORITIZE, PREEMPT, BIND])
async def test_what_cannot_be_read_is_a_bad_request(scene, verb):
    assert (await scene.ask(verb, b"[]")).code == 400
    assert scene.counts[verb, ERROR] == 1


async def test_a_pod_that_cannot_be_read_is_a_bad_request(scene):
    response = await scene.ask(FILTER, {**ARGS, "Pod": []})

    assert (response.code, response.body) == (400, b"the pod cannot be read")


async def test_readiness_says_what_is_missing(scene):
    request = Request(method="GET", path="/readyz")
    assert (await scene.routes["GET", "/readyz"].handler(request)).code == 200
    scene.problem = "no extender leads yet"

    response = await scene.routes["GET", "/readyz"].handler(request)

    assert (response.code, response.body) == (503, b"no extender leads yet")
