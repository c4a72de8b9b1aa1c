"""The words that events, statuses and views have about a pod that waits."""

from collections.abc import Iterable

from bursar.app.counting.provenance import Explain, charge_parts, cost_text
from bursar.core.quota.refusal import Refusal, explanation
from bursar.core.quota.releases import Wait
from bursar.core.quota.views.queue import WaitingPod


def wait_cost(explain: Explain, wait: Wait | WaitingPod) -> str:
    """How a pod that a quota is short for is counted; empty if natively, or if it is not short."""
    is_short = any(refusal.shortages for refusal in wait.refusals)
    return cost_text(charge_parts(explain, wait.row)) if is_short else ""


def wait_text(refusals: Iterable[Refusal], cost: str = "") -> str:
    """All reasons why a pod waits and, if it is not counted natively, how it is counted."""
    return explanation(refusals) + (f"; counted as {cost}" if cost else "")
