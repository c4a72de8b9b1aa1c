"""What anybody may ask the controller, over HTTPS, in AAQ's own words where it has them."""

import pytest

from bursar.adapters.controller_http.routes import controller_routes
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Routes
from bursar.adapters.serving.probes import METRICS_TYPE
from support.builders.reviews import RunningServer, running

LIMITS = ServerLimits(linger_seconds=0.01, finish_seconds=1)


class State:
    """What the routes are about."""

    def __init__(self) -> None:
        self.is_leader = False
        self.problem = ""
        self.token = ""
        """The only token that metrics and resizes are answered to."""

    def routes(self) -> Routes:
        return controller_routes(
            is_leader=lambda: self.is_leader,
            problem=lambda: self.problem,
            metrics=lambda: b"a 1\n",
            resizes=self._resizes,
            metrics_guard=self._guard,
            resizes_guard=self._guard,
        )

    async def _guard(self, request: Request) -> Response | None:
        return None if request.bearer_token == self.token else Response(b"", 401)

    async def _resizes(self, _: Request) -> Response:
        return Response(b"asked")


@pytest.fixture
def state():
    return State()


@pytest.fixture
async def controller(tmp_path, state):
    async with running(tmp_path, state.routes(), LIMITS) as server:
        yield server


async def answer_of(controller: RunningServer, path: str) -> tuple[int, str, str]:
    answer = await controller.answer("GET", path)
    return answer.code, answer.headers["content-type"], answer.text


async def test_u_app_01_the_leader_says_so(controller, state):
    state.is_leader = True

    assert await answer_of(controller, "/leader") == (
        200,
        "application/json",
        '{"apiserver":{"leader":"true"}}',
    )


async def test_u_app_02_the_others_say_that_they_are_not(controller):
    assert await answer_of(controller, "/leader") == (
        200,
        "application/json",
        '{"apiserver":{"leader":"false"}}',
    )


async def test_metrics_are_in_prometheus_text(controller):
    assert await answer_of(controller, "/metrics") == (200, METRICS_TYPE, "a 1\n")


async def test_readiness_reports_the_problem_and_liveness_does_not(controller, state):
    assert (await answer_of(controller, "/readyz"))[0] == 200

    state.problem = "pods have not been updated for 200 s"
    code, _, text = await answer_of(controller, "/readyz")

    assert (code, text) == (503, state.problem)
    assert (await answer_of(controller, "/healthz"))[::2] == (200, "OK")


async def test_metrics_and_resizes_ask_who_the_caller_is_and_the_rest_does_not(controller, state):
    state.token = "secret"  # noqa: S105 - not a token

    assert (await controller.answer("GET", "/metrics")).code == 401
    assert (await controller.answer("POST", "/v1/resizes", b"{}")).code == 401
    for path in ("/leader", "/healthz", "/readyz"):
        assert (await controller.answer("GET", path)).code == 200
    known = {"Authorization": "Bearer secret"}
    assert (await controller.answer("GET", "/metrics", **known)).text == "a 1\n"
    assert (await controller.answer("POST", "/v1/resizes", b"{}", **known)).text == "asked"


@pytest.mark.parametrize("path", ["/leader", "/metrics", "/healthz", "/readyz"])
async def test_read_only_paths_refuse_post(controller, path):
    assert await controller.ask(path) == (405, "only GET is answered here")


async def test_resizes_have_their_own_route(controller):
    assert await controller.ask("/v1/resizes", b"{}") == (200, "asked")
    assert await controller.get("/v1/resizes") == (405, "only POST is answered here")
    assert (await answer_of(controller, "/else"))[0] == 404
