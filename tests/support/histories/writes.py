"""Writes on their way: gates to be lifted, and resizes, each with what its leader knew."""

from dataclasses import dataclass

from bursar.app.cluster.informer.store import is_older
from bursar.app.quota.release.lift_queue import Attempt, LiftQueue
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import Quota, QuotaKey

RESIZE_S = 60
"""How long an admitted resize can take to be written, whoever leads meanwhile."""


@dataclass(frozen=True)
class Knowledge:
    """What a leader knew when it decided."""

    quotas: dict[QuotaKey, Quota]
    namespaces: dict[str, Namespace]
    version: int
    """It had seen what happened to pods up to here."""


@dataclass
class Lift:
    """A gate to be lifted, by a client that asks again until it has a plain answer."""

    row: PodRow
    is_exempt: bool
    known: Knowledge
    attempt: Attempt | None = None
    """The worker's; None of a write that nobody waits for any more."""
    is_uncertain: bool = False
    until_s: int | None = None
    """When it is lost at the latest, if nobody waits for the answer any more."""


@dataclass
class Resize:
    """A resize that was admitted and is not written yet."""

    before: PodRow
    after: PodRow
    known: Knowledge
    until_s: int
    """When it is lost, if it has not been written before."""
    reserved_until_s: int
    is_restored: bool = False
    """An earlier leader has agreed to it."""
    is_timeless: bool = False
    """The request named a resourceVersion that is no number, so that none is known to be newer."""

    def is_outdated_by(self, row: PodRow) -> bool:
        """Whether it cannot be written any more, because the pod has changed or ended."""
        is_same = row.stamp.uid == self.after.stamp.uid
        is_newer = is_older(self.after.stamp.resource_version, row.stamp.resource_version)
        return is_same and ((is_newer and not self.is_timeless) or row.is_terminated)


def next_attempt(queue: LiftQueue) -> Attempt | None:
    """The next release; None if there is none that may be lifted now."""
    try:
        queue.take().send(None)
    except StopIteration as taken:
        attempt: Attempt = taken.value
        return attempt
    except RuntimeError:
        return None  # It would wait, and there is no event loop.
    raise AssertionError("a worker waits")
