"""Holds: what pods are promised between filter and the watch event that shows them bound.

A hold begins at filter and expires if no bind follows. From bind on it does not expire: it ends
when the watch shows the pod with a node, when the pod ends, or when it is certain that the API
server has not bound it.

A tenant can write pods that pass filter and are never bound, for example with a volume that is
never provisioned. A hold that ends without a bound pod is a *lapse*. After a few lapses a
namespace gets no holds at filter for a while. Its pods then compete at bind alone, so they take
nothing from others while they are not bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.pod_row import PodRow

HOLD_SECONDS: Final = 30
"""How long a hold lasts if no bind follows. The scheduler binds most pods within a second."""
LAPSES_MAX: Final = 3
"""Lapses after which a namespace gets no holds at filter."""
LAPSE_SECONDS: Final = 600
"""How long after its last lapse a namespace gets holds again."""


class HoldState(Enum):
    HELD = "held"
    """Filter has passed. The hold expires."""
    BINDING = "binding"
    """The binding is being sent."""
    BOUND = "bound"
    """The API server has bound the pod, and the watch has not shown it yet."""
    UNCERTAIN = "uncertain"
    """The binding has failed, and whether the API server has stored it is being found out."""


@dataclass(slots=True, kw_only=True)
class Hold:
    """The hold of one pod. Its amounts are in the ledger, under the uid."""

    row: PodRow
    state: HoldState
    expires_s: int
    node: str = ""
    """The node that the pod is being bound to, or is bound to."""

    @property
    def uid(self) -> str:
        return self.row.stamp.uid


class Holds:
    """All holds by the uid of their pod."""

    def __init__(self, hold_s: int = HOLD_SECONDS) -> None:
        self.hold_s: Final = hold_s
        self._holds: dict[str, Hold] = {}
        self._expiring: dict[str, Hold] = {}
        """The holds in the state HELD, in the order in which they expire."""

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(tuple(self._holds.values()))

    def find(self, uid: str) -> Hold | None:
        return self._holds.get(uid)

    def begin(self, row: PodRow, now_s: int) -> None:
        """Hold for a pod that has passed filter."""
        hold = Hold(row=row, state=HoldState.HELD, expires_s=now_s + self.hold_s)
        self._holds[hold.uid] = self._expiring[hold.uid] = hold

    def extend(self, hold: Hold, now_s: int) -> None:
        """The pod has passed filter again."""
        if self._expiring.pop(hold.uid, None) is not None:
            hold.expires_s = now_s + self.hold_s
            self._expiring[hold.uid] = hold

    def begin_binding(self, row: PodRow, node: str) -> None:
        """The pod is being bound: its hold does not expire any more."""
        uid = row.stamp.uid
        self._expiring.pop(uid, None)
        self._holds[uid] = Hold(row=row, state=HoldState.BINDING, expires_s=0, node=node)

    def end(self, uid: str) -> None:
        self._holds.pop(uid, None)
        self._expiring.pop(uid, None)

    def take_expired(self, now_s: int) -> list[Hold]:
        """End the holds that have expired, and return them."""
        expired: list[Hold] = []
        for hold in self._expiring.values():
            if hold.expires_s > now_s:
                break
            expired.append(hold)
        for hold in expired:
            self.end(hold.uid)
        return expired


class Lapses:
    """How often the holds of a namespace ended without a bound pod."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}
        """Number of lapses, and when the last of them was."""

    def add(self, namespace: str, now_s: int) -> None:
        self._counts = {
            name: known for name, known in self._counts.items() if now_s - known[1] < LAPSE_SECONDS
        }
        count, _ = self._counts.get(namespace, (0, now_s))
        self._counts[namespace] = (count + 1, now_s)

    def is_suspended(self, namespace: str, now_s: int) -> bool:
        """Whether pods of the namespace get no holds at filter."""
        count, last_s = self._counts.get(namespace, (0, 0))
        return count >= LAPSES_MAX and now_s - last_s < LAPSE_SECONDS
