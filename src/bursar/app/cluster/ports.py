"""What Bursar needs of a cluster, whichever it is: a real API server or the embedded one.

Objects cross these ports as JSON bytes, because whoever reads a hundred thousand of
them decodes only the fields it wants. Everything else is a typed value. A port has
at most four methods; whoever needs less asks for less.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Protocol, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Resource:
    """Where an API keeps objects of one kind: `/apis/<group>/<version>/.../<plural>`."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As upstream's messages name it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which object: its namespace, empty for cluster-wide kinds, and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which objects of a kind: everything, unless narrowed."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


EVERYTHING: Final = Query()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list. All pages of one list show the same moment."""

    items: Sequence[bytes]
    resource_version: str
    next_page: str = ""
    """What to pass as `page` for the rest; empty at the end."""


class Reader(Protocol):
    async def get(self, resource: Resource, key: Key) -> bytes:
        """One object. Raises `NotFoundError`."""

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        """Objects as of one moment, in pages of `limit` if one is given.

        Raises `ExpiredError` if the moment of a later page is no longer known.
        """


class EventKind(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """A change, or with BOOKMARK only the moment up to which everything was sent."""

    kind: EventKind
    body: bytes
    """The object after the change; of a deleted one, its last state."""
    resource_version: str
    ends_initial: bool = False
    """On a bookmark: all objects that existed at the start have been sent."""


class Watcher(Protocol):
    def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after a moment, until the server ends the stream, as it does every few minutes.

        With `send_initial` first all existing objects, as ADDED, then a bookmark that says so.
        Raises `ExpiredError` if the moment is no longer known.
        """


# ------------------------------------------------------------------ writing


class PatchKind(Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A change to make. An apply patch names its field manager and may take over fields."""

    kind: PatchKind
    body: Json
    field_manager: str = ""
    is_forced: bool = False
    send_by: float | None = None
    """The moment of the monotonic clock after which it must not leave us any more.

    For whoever may write only for a while: taken before they look whether they may, so that
    a process that was stopped in between sends nothing when it wakes up.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What must still be true of the object; anything else is a `ConflictError`."""

    uid: str = ""
    resource_version: str = ""


class Writer(Protocol):
    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        """The object as stored. Raises `AlreadyExistsError`, `InvalidError`, `ForbiddenError`."""

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> bytes:
        """The object as stored. Raises `NotFoundError`, `ConflictError`, `InvalidError`."""

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Begin the end of an object; finalizers may delay it. Raises `NotFoundError`."""


class Clock(Protocol):
    """The only way to know the time or to let it pass."""

    def now(self) -> datetime:
        """The time of day, with a zone."""

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""


# ------------------------------------------------------------------ faults of the world


@dataclass(eq=False)
class ClusterError(Exception):
    """Something the cluster refused or could not do, and for which object."""

    message: str
    code: int = 0
    """HTTP status, or 0 where none was received."""
    reason: str = ""
    """The API's word for it, such as `AlreadyExists`."""
    resource: str = ""
    key: Key | None = None
    causes: Sequence[str] = field(default_factory=tuple)
    retry_after: float | None = None
    """Seconds after which the server asks to be tried again."""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.resource, str(self.key or "")) if part)
        return f"{place}: {self.message}" if place else self.message


class NotFoundError(ClusterError):
    """There is no such object, or no such kind."""


class AlreadyExistsError(ClusterError):
    """An object of that name is there already."""


class ConflictError(ClusterError):
    """The object is no longer what the writer thought it was."""


class InvalidError(ClusterError):
    """The object breaks a rule; the causes say which fields."""


class ForbiddenError(ClusterError):
    """We may not, or an admission rule or a quota says no."""


class UnauthorizedError(ClusterError):
    """Our credentials are missing, wrong or expired."""


class ExpiredError(ClusterError):
    """The moment asked for is no longer known: list afresh."""


class BusyError(ClusterError):
    """The server asks us to come back later."""


class UnavailableError(ClusterError):
    """No answer, or one that says the server is at fault; a retry may help."""
