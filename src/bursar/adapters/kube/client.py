"""The ports `Reader`, `Writer` and `Watcher` on a real API server.

Not a general Kubernetes client: it knows no kinds, keeps no state besides connections,
and hands objects over as the bytes it received.
"""

from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import Final, Self

import msgspec

from bursar import __version__
from bursar.adapters.kube import paths
from bursar.adapters.kube.errors import Subject
from bursar.adapters.kube.limiter import Limiter
from bursar.adapters.kube.transport import JSON, Access, Limits, Request, Transport
from bursar.adapters.kube.watch_stream import (
    LineSplitter,
    LineTooLongError,
    event_of_line,
    next_chunk,
)
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    Json,
    Key,
    Page,
    Patch,
    PatchKind,
    Preconditions,
    Query,
    Resource,
    WatchEvent,
)
from bursar.wire.cluster.status import EnvelopeError, decode_list

USER_AGENT: Final = f"bursar/{__version__}"
DEFAULT_LIMITS: Final = Limits()
IDLE_SECONDS: Final = 90.0
"""Bookmarks come about every minute, so a longer silence is a dead connection."""
WATCH_SECONDS_MIN: Final = 300
WATCH_SECONDS_MAX: Final = 600


class KubeClient:
    """One cluster, as one user. Use it as a context manager; it is not to be entered twice."""

    def __init__(
        self,
        access: Access,
        *,
        clock: Clock,
        rng: Random,
        user_agent: str = USER_AGENT,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._rng = rng
        self._transport = Transport(
            access, clock=clock, rng=rng, user_agent=user_agent, limits=limits
        )

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.__aexit__()

    @property
    def limiter(self) -> Limiter:
        """How many requests are and may be under way; for metrics."""
        return self._transport.limiter

    # -------------------------------------------------------------- reading

    async def get(self, resource: Resource, key: Key) -> bytes:
        """One object. Raises `NotFoundError`."""
        return await self._transport.exchange(
            Request(
                method="GET",
                target=paths.object_path(resource, key),
                subject=Subject(resource, key),
                seconds=self._limits.request_seconds,
                is_idempotent=True,
            )
        )

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        """Objects as of one moment, which is not older than the request for the first page.

        Raises `ExpiredError` if the moment of a later page is no longer known.
        """
        # No resourceVersion: the API server then answers with its newest state, and a
        # continue token brings its moment with it.
        parameters = {
            **paths.selectors(query),
            "limit": str(limit) if limit else "",
            "continue": page,
        }
        subject = Subject(resource)
        path = paths.collection_path(resource, query.namespace)
        body = await self._transport.exchange(
            Request(
                method="GET",
                target=paths.with_parameters(path, parameters),
                subject=subject,
                seconds=self._limits.list_seconds,
                is_idempotent=True,
                accepts_gzip=self._limits.is_gzip_accepted,
            )
        )
        try:
            envelope = decode_list(body)
        except EnvelopeError as error:
            raise subject.unavailable(f"the answer is {error}") from None
        return Page(
            items=envelope.items,
            resource_version=envelope.resource_version,
            next_page=envelope.continuation,
        )

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
        timeout_seconds: int | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after a moment, until the server ends the stream.

        It is asked to do so after `timeout_seconds`, by default five to ten minutes at random.
        Leaving the loop early leaves the connection open until the generator is closed:
        use `contextlib.aclosing`.
        """
        seconds = timeout_seconds or self._rng.randint(WATCH_SECONDS_MIN, WATCH_SECONDS_MAX)
        parameters = {
            **paths.selectors(query),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": resource_version,
            "sendInitialEvents": "true" if send_initial else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial else "",
        }
        subject = Subject(resource)
        path = paths.collection_path(resource, query.namespace)
        request = Request(
            method="GET",
            target=paths.with_parameters(path, parameters),
            subject=subject,
            seconds=self._limits.request_seconds,
            is_idempotent=True,
        )
        splitter = LineSplitter(self._limits.line_bytes_max)
        async with self._transport.stream(request) as answer:
            while chunk := await next_chunk(answer, subject, idle_seconds=idle_seconds):
                try:
                    lines = splitter.feed(chunk)
                except LineTooLongError:
                    size = self._limits.line_bytes_max
                    raise subject.unavailable(f"an event is larger than {size} bytes") from None
                for line in lines:
                    if line:
                        yield event_of_line(line, subject)
        if splitter.pending_bytes:
            raise subject.unavailable("the watch ended inside an event")

    # -------------------------------------------------------------- writing

    def _write_parameters(self, *, is_dry_run: bool) -> dict[str, str]:
        return {
            "fieldValidation": "Ignore",
            "dryRun": "All" if is_dry_run else "",
            # The server gives up when we do, so that nothing is carried out much later.
            "timeout": f"{self._limits.request_seconds:g}s",
        }

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        """The object as stored. Raises `AlreadyExistsError`, `InvalidError`, `ForbiddenError`."""
        path = paths.collection_path(resource, namespace)
        return await self._transport.exchange(
            Request(
                method="POST",
                target=paths.with_parameters(path, self._write_parameters(is_dry_run=is_dry_run)),
                subject=Subject(resource, _key_of(body, namespace)),
                seconds=self._limits.request_seconds,
                body=msgspec.json.encode(body),
                content_type=JSON,
            )
        )

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> bytes:
        """The object as stored. Raises `NotFoundError`, `ConflictError`, `InvalidError`.

        A JSON patch whose `test` fails is a `ConflictError`.
        """
        parameters = self._write_parameters(is_dry_run=is_dry_run)
        parameters["fieldManager"] = patch.field_manager
        parameters["force"] = "true" if patch.is_forced else ""
        path = paths.object_path(resource, key, subresource)
        return await self._transport.exchange(
            Request(
                method="PATCH",
                target=paths.with_parameters(path, parameters),
                subject=Subject(resource, key),
                seconds=self._limits.request_seconds,
                body=msgspec.json.encode(patch.body),
                content_type=patch.kind.value,
                # A JSON patch may append, and its own `test` may fail the second time.
                is_idempotent=patch.kind is not PatchKind.JSON,
                send_by=patch.send_by,
            )
        )

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Begin the end of an object, and in the background of what it owns."""
        await self._transport.exchange(
            Request(
                method="DELETE",
                target=paths.object_path(resource, key),
                subject=Subject(resource, key),
                seconds=self._limits.request_seconds,
                body=msgspec.json.encode(_delete_options(preconditions, grace_seconds)),
                is_idempotent=True,
            )
        )


def _delete_options(preconditions: Preconditions | None, grace_seconds: int | None) -> Json:
    options: dict[str, Json] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    }
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if preconditions is not None:
        named = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        options["preconditions"] = {name: text for name, text in named.items() if text}
    return options


def _key_of(body: Json, namespace: str) -> Key | None:
    """Which object a manifest describes, for error messages; None if the server is to name it."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return Key(namespace, name) if isinstance(name, str) and name else None
