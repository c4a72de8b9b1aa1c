"""The ports of `app/cluster/ports.py` for a real API server.

Not a general Kubernetes client: it knows no kinds, keeps no state besides connections, and
returns objects as the bytes that it received.
"""

from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import Final, Self

import msgspec

from bursar.adapters.http1.request import JSON
from bursar.adapters.kube import paths
from bursar.adapters.kube.errors import Subject
from bursar.adapters.kube.limiter import Limiter
from bursar.adapters.kube.transport import Access, Limits, Request, Transport
from bursar.adapters.kube.watch_stream import (
    LineSplitter,
    LineTooLongError,
    event_of_line,
    next_chunk,
)
from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    Json,
    Key,
    NotFoundError,
    Page,
    Patch,
    PatchKind,
    Preconditions,
    Query,
    Resource,
    UnavailableError,
    WatchEvent,
)
from bursar.wire.cluster.discovery import decode_verbs
from bursar.wire.cluster.status import EnvelopeError, decode_list

DEFAULT_LIMITS: Final = Limits()
VERSION_PATH: Final = "/version"
VERSIONS: Final = Resource("", "", "version", "Info", is_namespaced=False)
"""Stands in errors for the response of `VERSION_PATH`, which is no API object."""
IDLE_SECONDS: Final = 90.0
"""Longest silence of a watch. Bookmarks arrive about every minute, so it is dead after this."""
WATCH_SECONDS_MIN: Final = 300
WATCH_SECONDS_MAX: Final = 600


class KubeClient:
    """One cluster, as one user. Use it as a context manager; enter it once."""

    def __init__(
        self,
        access: Access,
        *,
        clock: Clock,
        rng: Random,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._rng = rng
        self._transport = Transport(access, clock=clock, rng=rng, limits=limits)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.__aexit__()

    @property
    def limiter(self) -> Limiter:
        """The number of requests in flight and its limit, for metrics."""
        return self._transport.limiter

    @property
    def is_first_answer_due(self) -> bool:
        """Whether a request was begun, and the server has not answered any yet."""
        return self._transport.has_asked and not self._transport.has_answer

    # -------------------------------------------------------------- reading

    async def version(self) -> bytes:
        """Return what the API server says of its version."""
        return await self._transport.exchange(
            Request(
                method="GET",
                target=VERSION_PATH,
                subject=Subject(VERSIONS),
                seconds=self._limits.request_seconds,
                is_idempotent=True,
            )
        )

    async def verbs(self, resource: Resource) -> frozenset[str]:
        """Return the verbs that the API offers for a resource; none if it is not served."""
        try:
            body = await self._transport.exchange(
                Request(
                    method="GET",
                    target=paths.version_path(resource),
                    subject=Subject(resource),
                    seconds=self._limits.request_seconds,
                    is_idempotent=True,
                )
            )
        except NotFoundError:
            return frozenset()
        try:
            return decode_verbs(body, resource.plural)
        except ValueError as error:
            message = f"the list of the API's resources cannot be read: {error}"
            raise UnavailableError(message, resource=str(resource)) from error

    async def node_summary(self, node: str) -> bytes:
        """Return the `/stats/summary` of a node's kubelet, through the API server."""
        key = Key("", node)
        return await self._transport.exchange(
            Request(
                method="GET",
                target=f"{paths.object_path(NODES, key, 'proxy')}/stats/summary",
                subject=Subject(NODES, key),
                seconds=self._limits.request_seconds,
                is_idempotent=True,
            )
        )

    async def get(self, resource: Resource, key: Key) -> bytes:
        """Return one object. Raises `NotFoundError`."""
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
        """List objects at one resourceVersion, not older than the request for the first page.

        Raises `ExpiredError` if the resourceVersion of a later page is compacted, and
        `TooLargeError` for a page over `Limits.page_bytes_max`.
        """
        # Without a resourceVersion the API server answers with its newest state; a continue
        # token holds its resourceVersion.
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
                bytes_max=self._limits.page_bytes_max if limit else None,
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
        """Yield changes after `resource_version` until the server ends the stream.

        The server is asked to end it after `timeout_seconds`, by default a random time of five to
        ten minutes. If the caller leaves the loop early, the connection stays open until the
        generator is closed: use `contextlib.aclosing`.
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
        async with self._transport.stream(request) as response:
            while chunk := await next_chunk(response, subject, idle_seconds=idle_seconds):
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

    def _write_parameters(self, *, is_dry_run: bool, seconds: float) -> dict[str, str]:
        return {
            "fieldValidation": "Ignore",
            "dryRun": "All" if is_dry_run else "",
            # The server stops when this client does, so that no write happens much later.
            "timeout": f"{seconds:g}s",
        }

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        """Return the object as stored. Raises `AlreadyExistsError`, `InvalidError`."""
        path = paths.collection_path(resource, namespace)
        seconds = self._limits.request_seconds
        parameters = self._write_parameters(is_dry_run=is_dry_run, seconds=seconds)
        return await self._transport.exchange(
            Request(
                method="POST",
                target=paths.with_parameters(path, parameters),
                subject=Subject(resource, _key_of(body, namespace)),
                seconds=seconds,
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
        """Return the object as stored. Raises `NotFoundError`, `ConflictError`, `InvalidError`.

        A JSON patch whose `test` fails is a `ConflictError`.
        """
        seconds = patch.timeout_seconds or self._limits.request_seconds
        parameters = self._write_parameters(is_dry_run=is_dry_run, seconds=seconds)
        parameters["fieldManager"] = patch.field_manager
        parameters["force"] = "true" if patch.is_forced else ""
        path = paths.object_path(resource, key, subresource)
        return await self._transport.exchange(
            Request(
                method="PATCH",
                target=paths.with_parameters(path, parameters),
                subject=Subject(resource, key),
                seconds=seconds,
                body=msgspec.json.encode(patch.body),
                content_type=patch.kind.value,
                # A JSON patch may append, and its `test` may fail the second time.
                is_idempotent=patch.kind is not PatchKind.JSON,
                send_by=patch.send_by,
            )
        )

    async def bind(
        self, pod: Key, uid: str, node: str, *, send_by: float, timeout_seconds: float
    ) -> None:
        """Bind a pod. Raises `NotFoundError`, `ConflictError`."""
        parameters = self._write_parameters(is_dry_run=False, seconds=timeout_seconds)
        await self._transport.exchange(
            Request(
                method="POST",
                target=paths.with_parameters(paths.object_path(PODS, pod, "binding"), parameters),
                subject=Subject(PODS, pod),
                seconds=timeout_seconds,
                body=msgspec.json.encode(
                    {
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": uid},
                        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                    }
                ),
                content_type=JSON,
                send_by=send_by,
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
        """Delete an object; the garbage collector deletes its dependents in the background."""
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
    """The object of a manifest, for errors; None if the server generates its name."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return Key(namespace, name) if isinstance(name, str) and name else None
