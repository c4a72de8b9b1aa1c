"""A counter together with what keeps it informed.

A counter may depend on kinds of object that are not installed, or not yet: those of KubeVirt, for
example. Its answers follow as the kind comes and goes. While it is not known whether there are such
objects, `KindState.SYNCING`, the counter holds the pods concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.reading.listing import name_of
from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.quota.counting import Counter, NativeCounter, RecountPods

if TYPE_CHECKING:
    from random import Random

    from bursar.app.cluster.observe import Watched
    from bursar.app.cluster.ports import Clock, Resource
    from bursar.app.counting.provenance import Explain
    from bursar.core.counting.counter import PodCounter
    from bursar.core.model.pod_row import PodRow

LeftOut: TypeAlias = Callable[[], Mapping[str, str]]
"""By namespace: why pods of it are counted without an answer that their counter needs."""

T = TypeVar("T")


class CounterFeed(Protocol):
    """Tells a counter what it needs to know, such as which VMs there are."""

    async def run(self, recount: RecountPods) -> None:
        """Work until cancelled, and call `recount` for pods whose answer may have changed."""


class ObjectFeed(CounterFeed, Protocol):
    """A feed that begins with objects that exist already."""

    async def wait_known(self) -> None:
        """Return when the counter knows these objects, or knows that there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind(Generic[T]):
    """A kind of object that a counter must know, and how the counter is told.

    The callbacks return the pods that must be counted again.
    """

    resource: Resource
    decode: Callable[[bytes], T]
    """Raises `ValueError` for a body that it cannot read."""
    see: Callable[[T], Iterable[PodRow]]
    lose: Callable[[T], Iterable[PodRow]]
    set_state: Callable[[KindState], Iterable[PodRow]]
    """The state is SYNCING first. Unless it is SYNCED, the counter forgets all objects."""
    is_named_by_pods: bool = False
    """Whether a pod tells that it depends on such an object, as the pod of a VM does.

    If files hold pods and no object of this kind, the kind stays SYNCING: the pods that depend on
    one are not counted. Without this the kind counts as absent, and pods are counted without it.
    """

    def feed(self, cluster: Watched, clock: Clock, random: Random) -> ObjectFeed:
        # Commands that read files do not watch, and should not pay for it.
        from bursar.app.counting.kind_feed import KindFeed  # noqa: PLC0415

        return KindFeed(cluster, clock, random, self)

    def load(self, bodies: Iterable[bytes], problems: list[str] | None = None) -> None:
        """Tell the counter of all objects there are.

        A body that cannot be read is left out and a line is added to `problems`; without
        `problems`, `ValueError` is raised.
        """
        for body in bodies:
            try:
                item = self.decode(body)
            except ValueError as error:
                if problems is None:
                    raise
                problems.append(f"left out: {self.resource} {name_of(body)}: {error}")
            else:
                self.see(item)
        self.set_state(KindState.SYNCED)

    def mark_absent(self) -> None:
        """Tell the counter that the kind is not installed."""
        self.set_state(KindState.ABSENT)


class CountedKind(Protocol):
    """A `WatchedKind` of any type of object."""

    @property
    def resource(self) -> Resource: ...

    @property
    def is_named_by_pods(self) -> bool: ...

    def feed(self, cluster: Watched, clock: Clock, random: Random) -> ObjectFeed: ...

    def load(self, bodies: Iterable[bytes], problems: list[str] | None = None) -> None: ...

    def mark_absent(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingPart:
    """One way of counting pods, and what keeps it informed."""

    counter: PodCounter
    kinds: tuple[CountedKind, ...] = ()
    feeds: tuple[CounterFeed, ...] = ()
    """What keeps the counter informed beside the objects of `kinds`."""
    left_out: LeftOut | None = None
    """Set if the counter may count pods without an answer that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """How a term counts pods. Each term has its own, because a term starts with empty books."""

    counter: Counter
    kinds: tuple[CountedKind, ...] = ()
    feeds: tuple[CounterFeed, ...] = ()
    left_out: LeftOut | None = None
    """Set if pods may be counted without an answer that their counter needs."""
    explain: Explain = field(default_factory=lambda: Counters().explain)
    """Which counter charges a pod what, and why."""

    @property
    def whole_kinds(self) -> list[Resource]:
        """The kinds of which the counters need whole objects, as a file has them."""
        pods = [] if self.counter.derive_facts is None else [PODS]
        return [*pods, *(kind.resource for kind in self.kinds)]

    @classmethod
    def of(cls, parts: Sequence[CountingPart]) -> Counting:
        """Counting with these parts. Without parts, pods are counted natively."""
        if not parts:
            return cls(counter=NativeCounter())
        counters = Counters([part.counter for part in parts])
        return cls(
            counter=counters,
            explain=counters.explain,
            kinds=tuple(kind for part in parts for kind in part.kinds),
            feeds=tuple(feed for part in parts for feed in part.feeds),
            left_out=next((part.left_out for part in parts if part.left_out), None),
        )
