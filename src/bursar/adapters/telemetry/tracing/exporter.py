"""The exporter: keeps spans in a bounded queue and sends them to a collector by OTLP over HTTP.

A span costs its caller no more than an entry in the queue. A collector that hangs, refuses or is
gone delays nothing else: its batch is dropped and counted after a time limit, and while the queue
is full, new spans are dropped and counted.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Final

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.request import HttpRequest
from bursar.adapters.http1.route import Route, parse_origin
from bursar.adapters.telemetry.tracing.encoding import Encoder, Recorded, rejected_in
from bursar.app.log import Log
from bursar.app.tracing import Drop, Span, TraceCounts

QUEUE_MAX: Final = 4096
BATCH_MAX: Final = 256
"""Spans of one request. Encoding them takes a few milliseconds, in which nothing else runs."""
BATCH_SECONDS: Final = 2.0
"""How long spans are collected before they are sent."""
SEND_SECONDS: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024
TRACES_PATH: Final = "/v1/traces"
LOG: Final = Log("tracing")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """Which spans are sent, and to which collector. Raises `ValueError` for an invalid URL."""

    endpoint: str
    """URL of the collector; `TRACES_PATH` is appended."""
    resource: Mapping[str, str]
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Further headers, such as a token."""
    context: ssl.SSLContext | None = None
    """None for `http`, and for `https` with the CAs of the machine."""
    ratio: float = 1.0
    """The part of new traces that is sent. A trace of the caller follows the caller's decision."""
    has_names: bool = False
    """Whether names of namespaces and pods are sent."""
    send_seconds: float = SEND_SECONDS
    """How long one request may take."""
    batch_seconds: float = BATCH_SECONDS
    """How long spans are collected before they are sent together."""

    def __post_init__(self) -> None:
        parse_origin(self.endpoint)


class OtlpTracer:
    """Records spans, and sends them while `run` runs."""

    def __init__(self, settings: OtlpSettings, random: Random) -> None:
        self.counts: Final = TraceCounts()
        origin, path = parse_origin(settings.endpoint)
        self._route = Route(origin=origin, context=settings.context)
        self._target = path + TRACES_PATH
        self._headers = (("Content-Type", "application/x-protobuf"), *settings.headers)
        self._ratio, self._random = settings.ratio, random
        self._encoder = Encoder(
            resource=settings.resource, random=random, has_names=settings.has_names
        )
        self._queue: deque[Recorded] = deque()
        self._has_batch = asyncio.Event()
        self._is_failing = False
        self._send_seconds = settings.send_seconds
        self._batch_seconds = settings.batch_seconds

    def record(self, span: Span) -> None:
        context = self._encoder.context_of(span)
        # A new trace has no span of a caller.
        is_new = not context.span_id
        if self._random.random() >= self._ratio if is_new else not context.is_sampled:
            return
        if len(self._queue) >= QUEUE_MAX:
            self.counts.dropped[Drop.QUEUE_FULL] += 1
            return
        self._queue.append((span, context))
        if len(self._queue) >= BATCH_MAX:
            self._has_batch.set()

    async def run(self) -> None:
        """Send what was recorded, until cancelled."""
        async with HttpClient(connect_seconds=self._send_seconds) as client:
            while True:
                self._has_batch.clear()
                if len(self._queue) < BATCH_MAX:
                    await self._wait()
                if self._queue:
                    await self._send_batch(client)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._batch_seconds):
                await self._has_batch.wait()
        except TimeoutError:
            return

    async def _send_batch(self, client: HttpClient) -> None:
        batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
        try:
            async with asyncio.timeout(self._send_seconds):
                rejected = await self._send(client, self._encoder.encode(batch))
        except (HttpError, TimeoutError) as error:
            self._drop(len(batch), Drop.UNREACHABLE, str(error) or "no answer in time")
        except ValueError as error:
            self._drop(len(batch), Drop.REFUSED, str(error))
        else:
            rejected = min(max(rejected, 0), len(batch))
            self.counts.dropped[Drop.REFUSED] += rejected
            self.counts.exported += len(batch) - rejected
            self._is_failing = False

    async def _send(self, client: HttpClient, body: bytes) -> int:
        """The number of spans that the collector rejected. Raises `HttpError`, `ValueError`."""
        request = HttpRequest(
            method="POST", target=self._target, headers=self._headers, body=body, is_idempotent=True
        )
        response = await client.send(self._route, request)
        try:
            answer = await response.read(ANSWER_BYTES_MAX)
        finally:
            response.close()
        if response.status != HTTPStatus.OK:
            raise ValueError(f"the collector answered {response.status}")
        return rejected_in(answer) if len(answer) <= ANSWER_BYTES_MAX else 0

    def _drop(self, count: int, why: Drop, text: str) -> None:
        self.counts.dropped[why] += count
        if not self._is_failing:
            LOG.warning("spans cannot be sent; further failures are only counted", error=text)
        self._is_failing = True
