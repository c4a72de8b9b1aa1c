"""/statusz: a page for people, the same as JSON, and for no other reader than that of metrics."""

import json

import pytest

from bursar.adapters.serving.message import Request, Response
from bursar.adapters.serving.status_page import status_routes

REPORT = {"process": {"version": "1.2", "uptime_seconds": 7}, "pods": {"known": 3, "oldest": None}}


async def show(query="", guard=None):
    [(key, route)] = status_routes(lambda: REPORT, guard).items()
    assert key == ("GET", "/statusz")
    return await route.handler(Request(method="GET", path="/statusz", query=query))


@pytest.mark.parametrize("query", ["", "format=text", "other=1"])
async def test_the_page_is_text(query):
    answer = await show(query)

    assert answer.code == 200
    assert answer.body.decode() == (
        "process\n  version: 1.2\n  uptime_seconds: 7\npods\n  known: 3\n  oldest: unknown\n"
    )


async def test_the_page_is_json_if_asked_for():
    answer = await show("format=json")

    assert (answer.code, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == REPORT


async def test_another_format_is_refused():
    assert (await show("format=xml")).code == 400


def test_the_route_is_guarded():
    async def guard(_: Request) -> Response | None:
        return Response(b"", 401)

    [route] = status_routes(lambda: REPORT, guard).values()

    assert route.guard is guard
    assert route.body_bytes_max == 0
