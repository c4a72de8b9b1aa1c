"""The ports to a cluster: `Reader`, `Discoverer`, `Watcher`, `Writer`, `Binder` and `Clock`.

`adapters/kube` implements them for a real API server, `adapters/memory` for the embedded cluster.
`tests/contracts` runs the same tests on both.

Objects are passed as JSON bytes, so that each caller decodes only the fields it needs. All other
arguments and results are typed values. Every method can raise `ClusterError`; the docstrings name
the subclasses that callers usually handle. A function asks for the smallest port it needs.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

from bursar.wire.documents.tree import Json as Json  # noqa: PLC0414 - a part of these ports


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API, with the path `/apis/<group>/<version>/.../<plural>`."""

    group: str
    """The API group; empty for the core group."""
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """The resource as in Kubernetes' messages: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The namespace and name of an object. The namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects objects of a resource. An empty field selects all objects.

    The selectors have the syntax of `kubectl get --selector` and `--field-selector`.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @classmethod
    def of(cls, key: Key) -> "Query":
        """Select one object. A Role that names it suffices, because the query names it too."""
        return cls(namespace=key.namespace, field_selector=f"metadata.name={key.name}")


EVERYTHING: Final = Query()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list. All pages of one list have the same resourceVersion."""

    items: Sequence[bytes]
    resource_version: str
    next_page: str = ""
    """The continue token, to be passed as `page`; empty on the last page."""


class Reader(Protocol):
    """Reads objects once."""

    async def get(self, resource: Resource, key: Key) -> bytes:
        """Read one object. Raises `NotFoundError`."""

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        """List objects at one resourceVersion, in pages of at most `limit` objects (0: all).

        Raises `ExpiredError` if the server no longer has the resourceVersion of a later page, and
        `TooLargeError` if the page is too large.
        """


class Discoverer(Protocol):
    """Says what the API offers."""

    async def verbs(self, resource: Resource) -> frozenset[str]:
        """The verbs that the server offers for a resource; none if it does not serve it.

        While the objects of a kind are deleted with its definition, the kind has no `create`.
        """


class EventKind(Enum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """A change of an object. A BOOKMARK has no change, only a resourceVersion.

    All changes up to the resourceVersion of a bookmark have been sent.
    """

    kind: EventKind
    body: bytes
    """The object after the change. For DELETED, its last state."""
    resource_version: str
    ends_initial: bool = False
    """Set on the bookmark after the last initial object (see `Watcher.watch`)."""


class Watcher(Protocol):
    """Follows changes of objects."""

    def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Stream the changes after a resourceVersion, until the server ends the watch.

        A server ends a watch after some minutes; the caller then starts a new one from the last
        resourceVersion it received. With `send_initial`, the stream begins with all existing
        objects as ADDED and a bookmark with `ends_initial`. Raises `ExpiredError` if the server no
        longer has the changes after this resourceVersion; the caller must then list again.
        """


# ------------------------------------------------------------------ writing


class PatchKind(Enum):
    """The kind of a patch, by its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch. `field_manager` and `is_forced` are for server-side apply."""

    kind: PatchKind
    body: Json
    field_manager: str = ""
    is_forced: bool = False
    """Take over fields of other managers instead of failing with `ConflictError`."""
    send_by: float | None = None
    """Deadline for sending, in seconds of `Clock.monotonic`. A late patch is not sent.

    A leader computes the deadline before it checks that it still leads. If the process is paused
    between the check and the write, the patch of a former leader never reaches the server.
    """
    timeout_seconds: float | None = None
    """Timeout of the request, also for the server, counted from sending. None: the client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """Conditions for a deletion. If one does not hold, the deletion raises `ConflictError`.

    An empty field is no condition.
    """

    uid: str = ""
    resource_version: str = ""


class Writer(Protocol):
    """Creates, changes and deletes objects."""

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        """Create an object and return it as stored.

        Raises `AlreadyExistsError`, `InvalidError`, `ForbiddenError`.
        """

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> bytes:
        """Patch an object and return it as stored.

        A merge or apply patch with `metadata.uid` or `metadata.resourceVersion` applies only to
        that object in that state. Raises `NotFoundError`, `ConflictError`, `InvalidError`.
        """

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object. Finalizers and the grace period delay its removal.

        Raises `NotFoundError`, `ConflictError`.
        """


class ReadWriter(Reader, Writer, Protocol):
    """A cluster that can be read and written."""


class Binder(Protocol):
    """Binds pods to nodes, as a scheduler does."""

    async def bind(
        self, pod: Key, uid: str, node: str, *, send_by: float, timeout_seconds: float
    ) -> None:
        """Bind the pod of this uid. `send_by` and `timeout_seconds` are as those of `Patch`.

        Raises `NotFoundError`, and `ConflictError` if the pod has another uid, is being deleted,
        or has a node.
        """


class Clock(Protocol):
    """The current time, and waiting. Tests use a virtual clock."""

    def now(self) -> datetime:
        """The current time, with a time zone."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes backwards. Only differences have a meaning."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""


# ------------------------------------------------------------------ errors


@dataclass(eq=False)
class ClusterError(Exception):
    """A request that the cluster refused or that failed."""

    message: str
    code: int = 0
    """The HTTP status; 0 if there was no response."""
    reason: str = ""
    """The `reason` of the API's Status object, such as `AlreadyExists`."""
    resource: str = ""
    key: Key | None = None
    causes: Sequence[str] = field(default_factory=tuple)
    """Details of the Status object: usually a field and the problem with it."""
    retry_after: float | None = None
    """Seconds to wait before a retry, if the server said so."""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.resource, str(self.key or "")) if part)
        return f"{place}: {self.message}" if place else self.message


class NotFoundError(ClusterError):
    """The object or the resource does not exist."""


class AlreadyExistsError(ClusterError):
    """An object of this name exists."""


class ConflictError(ClusterError):
    """A precondition failed, or the object changed since it was read."""


class InvalidError(ClusterError):
    """The object is invalid; `causes` has the fields."""


class ForbiddenError(ClusterError):
    """Authorization, admission or a quota refused the request."""


class UnauthorizedError(ClusterError):
    """The credentials are missing, invalid or expired."""


class ExpiredError(ClusterError):
    """The server no longer has this resourceVersion; list again."""


class BusyError(ClusterError):
    """The server is overloaded and asks for a retry later."""


class UnavailableError(ClusterError):
    """There was no response, or an error of the server. A retry may succeed."""


class TooLargeError(UnavailableError):
    """The answer has more bytes than are accepted. Of a list, ask for fewer objects."""


class UnreachableError(UnavailableError):
    """No connection to the server could be made."""


class UntrustedServerError(UnreachableError):
    """The certificate of the server could not be verified."""
