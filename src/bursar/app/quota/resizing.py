"""The books' side of a resize: promise a running pod what it is about to use, or say no.

A promise is kept for as long as the API server may take to store the pod and the watch
to show it. Then the pod is charged for what it has become, or the resize never happened
and the room is free again.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from bursar.app.cluster.ports import Clock, Resource, UnavailableError
from bursar.app.quota.desk import Desk
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import Refusal

PROMISE_SECONDS: Final = 30
FRESH_SECONDS_MAX: Final = 120.0
"""A quiet watch proves that it is alive about once a minute, and may have to be begun anew."""


class Followed(Protocol):
    """An informer, as far as its freshness goes."""

    resource: Resource

    @property
    def is_synced(self) -> bool: ...

    @property
    def staleness_seconds(self) -> float: ...


def staleness_problem(informers: Iterable[Followed], seconds_max: float = FRESH_SECONDS_MAX) -> str:
    """What is not known well enough to decide by; empty if everything is."""
    for informer in informers:
        if not informer.is_synced:
            return f"{informer.resource} have not been listed yet"
        stale = informer.staleness_seconds
        if stale > seconds_max:
            return f"{informer.resource} have not been heard of for {stale:.0f} s"
    return ""


class ResizeDesk:
    """Asked by the webhook. To be used on the desk's event loop."""

    def __init__(self, desk: Desk, informers: Iterable[Followed], *, clock: Clock) -> None:
        self._desk, self._clock = desk, clock
        self._informers = tuple(informers)

    def resize(self, row: PodRow, id: str, *, is_dry_run: bool) -> tuple[Refusal, ...]:
        """Promise what the pod will use, in all. Empty refusals mean yes.

        Asking twice under one id is asking once. Raises `UnavailableError` while the
        books cannot be trusted.
        """
        if not self._desk.is_open:
            raise UnavailableError("the books are not open yet")
        problem = staleness_problem(self._informers)
        if problem:
            raise UnavailableError(f"the books are not up to date: {problem}")
        refusals = self._desk.books.resize(
            f"resize/{id}",
            row,
            deadline_s=int(self._clock.now().timestamp()) + PROMISE_SECONDS,
            is_dry_run=is_dry_run,
        )
        # What was promised lapses, which is something for the desk to wake up for.
        self._desk.stir()
        return refusals
