"""`/disk`: the local storage of each pod of the node as JSON, for `bursar top disk --agent`.

It names pods of all namespaces, so it has the guard of `/metrics`.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.serving.message import JSON, Guard, Request, Response, Route, Routes, refusal

DISK_PATH: Final = "/disk"


def disk_routes(document: Callable[[], Mapping[str, object] | None], guard: Guard | None) -> Routes:
    """`document` returns None before the first round has ended."""

    async def show(_: Request) -> Response:
        found = document()
        if found is None:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the first round has not ended yet")
        return Response(msgspec.json.encode(found) + b"\n", content_type=JSON)

    return {("GET", DISK_PATH): Route(show, guard=guard)}
