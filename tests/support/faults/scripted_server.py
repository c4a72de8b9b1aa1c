"""A real HTTP server on loopback that sends scripted responses, also invalid ones."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Received:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Step = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Writes one response."""


@dataclass
class ScriptedServer:
    """Each request gets the next step of the script; the last step is for all further ones."""

    script: list[Step]
    received: list[Received] = field(default_factory=list)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    is_left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed a connection."""
    open_connections: int = 0
    connections_total: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        self.connections_total += 1
        try:
            while received := await _next_request(reader):
                self.received.append(received)
                self.is_asked.set()
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                await step(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_connections -= 1
            self.is_left.set()
            writer.close()


async def _next_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.splitlines()
    method, target, _ = first.split(" ")
    headers: dict[str, str] = {}
    for name, _, text in (line.partition(":") for line in lines if line):
        before = headers.get(name.lower())
        headers[name.lower()] = f"{before}, {text.strip()}" if before else text.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body)


@contextlib.asynccontextmanager
async def scripted(*script: Step) -> AsyncIterator[ScriptedServer]:
    """A running server; the end of the block closes its connections."""
    server = ScriptedServer(list(script))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


# ------------------------------------------------------------------ steps


def answer(code: int, body: object = None, **headers: str) -> Step:
    """A complete response; a string body is sent as text, any other as JSON."""
    is_text = isinstance(body, str)
    payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if is_text else "application/json"
    lines = [f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items()]
    head = (
        f"HTTP/1.1 {code} Words\r\nContent-Type: {kind}\r\nContent-Length: {len(payload)}\r\n"
        f"{''.join(lines)}\r\n"
    )
    return verbatim(head.encode() + payload)


def failure(
    code: int,
    reason: str,
    message: str = "no",
    *,
    about: tuple[str, str] = ("", ""),
    **headers: str,
) -> Step:
    """A failure as the API server reports it; `about` is a resource and the name of an object."""
    status: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    if any(about):
        status["details"] = {"kind": about[0], "name": about[1]}
    return answer(code, status, **headers)


def verbatim(data: bytes) -> Step:
    async def step(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return step


def hang_up(data: bytes = b"") -> Step:
    """Write `data`, then close the connection."""

    async def step(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()
        raise ConnectionResetError

    return step


async def silence(_: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def chatter(piece: bytes) -> Step:
    """Repeat a chunk until a write fails because the client has left."""

    async def step(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(http_chunk(piece))
            await writer.drain()
            await asyncio.sleep(0.005)

    return step


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def stream(*pieces: bytes, then: Step | None = None) -> Step:
    """A chunked response, one chunk per piece. It ends properly unless `then` continues it."""

    async def step(writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        for piece in pieces:
            writer.write(http_chunk(piece))
            await writer.drain()
            await asyncio.sleep(0)
        if then is not None:
            await then(writer)
        else:
            writer.write(STREAM_END)
            await writer.drain()

    return step
