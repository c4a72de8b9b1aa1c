"""`/statusz`: the state of a process for a person, as text or as JSON.

A report has numbers and words about the process. It names no tenant: no namespace, pod or quota.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qs

import msgspec

from bursar.adapters.serving.message import (
    JSON,
    Guard,
    Request,
    Response,
    Route,
    Routes,
    refusal,
)

STATUS_PATH: Final = "/statusz"

Value: TypeAlias = int | float | str | None
Report: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Values by name, in sections. None: not known."""


def report_text(report: Report) -> str:
    """A line for each value, below the name of its section.

    >>> print(report_text({"pods": {"known": 3, "oldest_seconds": None, "is_synced": True}}))
    pods
      known: 3
      oldest_seconds: unknown
      is_synced: yes
    <BLANKLINE>
    """
    lines = []
    for section, values in report.items():
        lines.append(section)
        lines += [f"  {name}: {_word(value)}" for name, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _word(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def status_routes(report: Callable[[], Report], guard: Guard | None) -> Routes:
    """The route of `/statusz`; with `?format=json` as JSON. Use the guard of `/metrics`."""

    async def show(request: Request) -> Response:
        wanted = parse_qs(request.query).get("format", ["text"])
        if wanted == ["json"]:
            return Response(msgspec.json.encode(report()) + b"\n", content_type=JSON)
        if wanted == ["text"]:
            return Response(report_text(report()).encode())
        return refusal(HTTPStatus.BAD_REQUEST, "format must be text or json")

    return {("GET", STATUS_PATH): Route(show, guard=guard)}
