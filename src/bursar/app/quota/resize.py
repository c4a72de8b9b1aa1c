"""Resizes of running pods: the webhook asks, and the books promise the larger amount or refuse.

A promise is kept for as long as the API server may take to store the pod and the watch to
show it. By then the pod is charged its new amount, or the resize did not happen and the
promise lapses.
"""

from collections.abc import Iterable
from typing import Final

from bursar.app.cluster.observe import RunningInformer
from bursar.app.cluster.ports import Clock, UnavailableError
from bursar.app.quota.quota_loop import QuotaLoop
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import Refusal

PROMISE_SECONDS: Final = 30
STALE_SECONDS_MAX: Final = 120.0
"""A quiet watch sends a bookmark about once a minute, and may have to be restarted."""


def staleness_problem(
    informers: Iterable[RunningInformer], seconds_max: float = STALE_SECONDS_MAX
) -> str:
    """Which kind of object is not known well enough to decide; empty if all are."""
    for informer in informers:
        if not informer.is_synced:
            return f"{informer.resource} have not been listed yet"
        stale = informer.staleness_seconds
        if stale > seconds_max:
            return f"{informer.resource} have not been heard of for {stale:.0f} s"
    return ""


class ResizeService:
    """Answers the webhook's questions. Use it on the event loop of the quota loop."""

    def __init__(
        self, loop: QuotaLoop, informers: Iterable[RunningInformer], *, clock: Clock
    ) -> None:
        self._loop, self._clock = loop, clock
        self._informers = tuple(informers)

    def resize(self, row: PodRow, id: str, *, is_dry_run: bool) -> tuple[Refusal, ...]:
        """Promise the total that the pod will use. No refusals mean yes.

        A repeated question with the same id counts once. Raises `UnavailableError` while the
        books are incomplete or out of date.
        """
        if not self._loop.is_synced:
            raise UnavailableError("the books are not open yet")
        if self._loop.books.is_catching_up:
            raise UnavailableError("the pods of a changed quota or namespace are being counted")
        problem = staleness_problem(self._informers)
        if problem:
            raise UnavailableError(f"the books are not up to date: {problem}")
        refusals = self._loop.books.resize(
            f"resize/{id}",
            row,
            deadline_s=int(self._clock.now().timestamp()) + PROMISE_SECONDS,
            is_dry_run=is_dry_run,
        )
        # The promise has a deadline, which the loop has to wait for.
        self._loop.notify()
        return refusals
