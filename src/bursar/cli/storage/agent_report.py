"""Read the report of an agent's disk over HTTP."""

import asyncio
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.request import JSON, USER_AGENT, HttpRequest
from bursar.adapters.http1.route import Origin, Route
from bursar.adapters.telemetry.disk.http import DISK_PATH
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.storage.view import node_rows, pod_rows

ANSWER_BYTES_MAX: Final = 64 * 2**20
SECONDS: Final = 10.0


async def read_agent(address: str, token_file: str) -> dict[str, Any]:
    """The document of an agent. Raises `BadInputError`."""
    url = urlsplit(address if "://" in address else f"http://{address}")
    if url.scheme != "http" or not url.hostname:
        raise BadInputError(f"--agent: {address}: an address such as 127.0.0.1:9479 is expected")
    headers = [("Accept", JSON), ("Accept-Encoding", "identity"), ("User-Agent", USER_AGENT)]
    if token_file:
        headers.append(("Authorization", f"Bearer {_token(token_file)}"))
    route = Route(origin=Origin("http", url.hostname, url.port or 9479), context=None)
    http = HttpClient(connect_seconds=SECONDS)
    try:
        async with asyncio.timeout(SECONDS):
            request = HttpRequest(
                method="GET", target=DISK_PATH, headers=headers, is_idempotent=True
            )
            response = await http.send(route, request)
            body = await response.read(ANSWER_BYTES_MAX)
            response.close()
    except (HttpError, TimeoutError) as error:
        raise BadInputError(f"--agent: {address}: {str(error) or 'no answer'}") from None
    finally:
        await http.close()
    if response.status != 200:
        raise BadInputError(f"--agent: {address}: {response.status}: {_text(body)}")
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
        # Another server's document would lack a field of the tables.
        _ = list(pod_rows([found], "")), list(node_rows([found])), found["problem"]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError):
        raise BadInputError(f"--agent: {address}: the answer is not an agent's") from None
    return found


def _token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise BadInputError(f"--token-file: {path}: {error}") from None


def _text(body: bytes) -> str:
    return body[:200].decode(errors="replace").strip()
