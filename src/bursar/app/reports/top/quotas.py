"""How full quotas are: a line for each resource of each quota, with the pods that wait for it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.app.quota.views.read_model import QuotaReport, ResourceLine
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.views.queue import WaitingPod


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """One resource of a quota."""

    key: QuotaKey
    resource: str
    hard: Quantity
    used: Quantity | None
    """Recounted from the pods. Of a resource that pods do not use: what the status reports."""
    is_recounted: bool
    is_counted: bool
    """Whether any counter charges the name. If not, the limit holds no pod."""
    waiting: int
    """Pods that wait because this resource is short."""
    queued: int
    """Pods that wait for the quota, whichever resource is short."""

    @property
    def free(self) -> Quantity | None:
        """What is left, at least zero."""
        if self.used is None:
            return None
        left = self.hard - self.used
        return ZERO if left.is_negative else left

    @property
    def percent(self) -> int | None:
        """Percentage that is used, rounded down; None if the limit is zero or usage is unknown."""
        if self.used is None or self.hard.is_zero:
            return None
        return self.used.nanos * 100 // self.hard.nanos

    @property
    def is_full(self) -> bool:
        return self.used is not None and self.used >= self.hard

    @property
    def excess(self) -> Quantity | None:
        """How much more is used than the quota allows; None if it is not exceeded."""
        if self.used is None or self.used <= self.hard:
            return None
        return self.used - self.hard


def quota_uses(reports: Iterable[QuotaReport], waiting: Sequence[WaitingPod]) -> list[QuotaUse]:
    """A line for each resource of each report, in their order."""
    short: Counter[tuple[QuotaKey, str]] = Counter()
    queued: Counter[QuotaKey] = Counter()
    for pod in waiting:
        queued.update({each.quota for each in pod.refusals if each.quota is not None})
        short.update(
            {(each.quota, each.resource) for refusal in pod.refusals for each in refusal.shortages}
        )
    return [_use(report, line, short, queued) for report in reports for line in report.lines]


def _use(
    report: QuotaReport,
    line: ResourceLine,
    short: Counter[tuple[QuotaKey, str]],
    queued: Counter[QuotaKey],
) -> QuotaUse:
    key = report.seen.quota.key
    return QuotaUse(
        key=key,
        resource=line.resource,
        hard=line.hard,
        used=line.reported if line.used is None else line.used,
        is_recounted=line.used is not None,
        is_counted=line.resource not in report.uncounted,
        waiting=short[key, line.resource],
        queued=queued[key],
    )
