"""Promises to running pods that grow: who gets one, how many there are, and when one ends.

The webhook asks before the API server stores a resize. The books then hold what the pod will use
beyond its charge. A pod gets a promise only if the controller knows it by namespace, name and
uid, and the promise is for what the *known* pod adds with its new size: nothing that the request
says about the pod's present size, labels or priority is believed.

The API server stores a resize only over the resourceVersion that it showed to the webhook. So a
promise ends

- when the watch shows the pod at a newer resourceVersion: the resize is stored, and charged, or
  it has failed, and the API server asks again before it retries;
- when the pod is deleted or has ended;
- when the API server can no longer store the resize and the watch has shown everything that was
  stored until then. The caller finds that out, see `overdue`.

Two resizes of one pod can be admitted at the same time, of which the API server stores one. What
is held for a pod is therefore the greatest of its promises in each account, not their sum. Equal
promises count once, so a repeated request changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count as counting_up
from typing import Final, NamedTuple, TypeAlias

from bursar.core.model.pod_row import Extras, PodRow
from bursar.core.model.quantity import Format
from bursar.core.quota.account import Bill, Charge, to_quantity
from bursar.core.quota.counting import Count, NotReady
from bursar.core.quota.coverage import Coverage
from bursar.core.quota.ledger import Ledger, PodKey, Reservation
from bursar.core.quota.refusal import Reason, Refusal

POD_PROMISES_MAX: Final = 4
"""Different sizes that one pod can be promised at the same time."""
NAMESPACE_PROMISES_MAX: Final = 256
"""Promises to pods of one namespace at the same time. A stored resize ends its promise at once."""
NAMES_LENGTH_MAX: Final = 512
"""Length of all names of a promise beyond which not all are recorded. Ten usual ones have 150."""


@dataclass(frozen=True, slots=True)
class NotPromised:
    """A resize that is refused for another reason than a quota. The text has no amounts."""

    text: str

    def message(self) -> str:
        return self.text


UNKNOWN_POD: Final = NotPromised(
    "the controller does not know this pod in this state; nothing was changed, try again"
)
POD_IS_BUSY: Final = NotPromised(
    "too many different resizes of this pod are being admitted; nothing was changed, try again"
)
NAMESPACE_IS_BUSY: Final = NotPromised(
    "too many resizes of pods of this namespace are being admitted; nothing was changed, try again"
)

GrowthRefusals: TypeAlias = tuple[Refusal | NotPromised, ...]


class RecordedPromise(NamedTuple):
    """What the next leader has to know of a promise."""

    pod: PodKey
    uid: str
    version: int | None
    """The resourceVersion that the resize replaces; None if it is not a number."""
    amounts: Mapping[str, int]
    """What the pod will be charged, by resource name, in nanos."""


class Promise:
    """A promise that may still be needed."""

    __slots__ = ("grown", "id", "pod", "uid", "until_s", "version")

    def __init__(
        self,
        id: str,
        pod: PodKey,
        uid: str,
        *,
        grown: PodRow | None,
        version: int | None,
        until_s: int,
    ) -> None:
        self.id: Final = id
        """The id of the reservation."""
        self.pod: Final = pod
        self.uid: Final = uid
        self.grown: Final = grown
        """The pod as it will be; None if an earlier leader made the promise."""
        self.version = version
        """The newest resourceVersion that a resize with this promise may replace."""
        self.until_s = until_s
        """When the API server can no longer store the resize, by the monotonic clock."""

    def is_outdated_by(self, row: PodRow) -> bool:
        """Whether no resize with this promise can be stored any more, as the pod has changed."""
        return _is_newer(row, self.version)


class Growth:
    """The promises of one set of books."""

    def __init__(self, ledger: Ledger, coverage: Coverage, count: Count) -> None:
        self._ledger, self._coverage, self._count = ledger, coverage, count
        self.by_pod: Final[dict[PodKey, list[Promise]]] = {}
        """Most of the time there is none, which spares the books a call for each pod."""
        self._sizes: dict[str, int] = {}
        """Number of promises by namespace."""
        self._numbers = counting_up(1)

    def __len__(self) -> int:
        return sum(self._sizes.values())

    def __iter__(self) -> Iterator[Promise]:
        for promises in self.by_pod.values():
            yield from promises

    @property
    def next_due_s(self) -> int | None:
        """When the first promise is overdue; None if there is none."""
        return min((promise.until_s for promise in self), default=None)

    # ------------------------------------------------------------------ making promises

    def promise(
        self,
        row: PodRow,
        known: PodRow | None,
        *,
        until_s: int,
        is_dry_run: bool = False,
    ) -> GrowthRefusals:
        """Promise the known pod what it will use after the resize. No refusals mean yes.

        A gated pod is not charged, so any resize is allowed: what it requests is charged when
        it is released. If the pod cannot be counted and a quota limits it, the resize is refused.
        A pod that no quota limits is never refused: its promise is for quotas that appear later.
        """
        if known is None or not _is_same_pod(row, known):
            return (UNKNOWN_POD,)
        if known.profile.gates or known.is_terminated:
            return ()
        grown = _grown(known, row)
        unreadable = self._coverage.unreadable(grown.profile)
        if unreadable is not None:
            return (unreadable,)
        is_limited = self._coverage.limits(grown.profile)
        counted = self._count(grown)
        if isinstance(counted, NotReady):
            if is_limited:
                return (Refusal(reason=Reason.NOT_COUNTED, detail=counted.detail),)
            counted = counted.provisional
        bill = self._coverage.bill(grown.profile, counted)
        pod = PodKey(known.namespace, known.name)
        refusals = self._ledger.refusals(pod, bill)
        if refusals or is_dry_run:
            return refusals
        version = _newer(version_of(row), version_of(known))
        held = self.by_pod.get(pod, [])
        for promise in held:
            if promise.uid == known.stamp.uid and _is_same_size(promise.grown, grown):
                promise.version = _newer(promise.version, version)
                promise.until_s = max(promise.until_s, until_s)
                return ()
        busy = self._too_many(pod)
        if busy is not None:
            return (busy,) if is_limited else ()
        made = self._add(pod, known.stamp.uid, grown=grown, version=version, until_s=until_s)
        self._ledger.hold(Reservation(made.id, bill, pod, grown, made.uid))
        return ()

    def _too_many(self, pod: PodKey) -> NotPromised | None:
        if len(self.by_pod.get(pod, ())) >= POD_PROMISES_MAX:
            return POD_IS_BUSY
        if self._sizes.get(pod.namespace, 0) >= NAMESPACE_PROMISES_MAX:
            return NAMESPACE_IS_BUSY
        return None

    def _add(
        self, pod: PodKey, uid: str, *, grown: PodRow | None, version: int | None, until_s: int
    ) -> Promise:
        number = next(self._numbers)
        promise = Promise(
            f"resize/{number}", pod, uid, grown=grown, version=version, until_s=until_s
        )
        self.by_pod.setdefault(pod, []).append(promise)
        self._sizes[pod.namespace] = self._sizes.get(pod.namespace, 0) + 1
        return promise

    # ------------------------------------------------------------------ ending promises

    def see_pod(self, pod: PodKey, row: PodRow) -> None:
        """A pod was seen, and is charged for what it is: end the promises that it outdates."""
        for promise in self.by_pod.get(pod, ())[:]:
            if promise.uid == row.stamp.uid and (row.is_terminated or promise.is_outdated_by(row)):
                self.end(promise)

    def lose_pod(self, pod: PodKey, uid: str = "") -> None:
        """A pod was deleted. Promises to another pod of that name, by uid, are kept."""
        for promise in self.by_pod.get(pod, ())[:]:
            if uid in ("", promise.uid):
                self.end(promise)

    def overdue(self, steady_s: int) -> list[Promise]:
        """The promises whose resizes the API server could not store at this time or later.

        Before such a promise is ended, the watch must have shown everything that was stored
        until this time.
        """
        return [promise for promise in self if promise.until_s <= steady_s]

    def end(self, promise: Promise) -> None:
        """Hold nothing for this promise any more. An ended promise is ignored."""
        promises = self.by_pod.get(promise.pod, [])
        if promise not in promises:
            return
        promises.remove(promise)
        if not promises:
            del self.by_pod[promise.pod]
        namespace = promise.pod.namespace
        self._sizes[namespace] -= 1
        if not self._sizes[namespace]:
            del self._sizes[namespace]
        self._ledger.cancel(promise.id)

    # ------------------------------------------------------------------ changes of leader

    def recorded(self) -> Iterator[RecordedPromise]:
        """What the next leader has to know: each promise, with the names that quotas limit.

        A tenant can write pods and quotas with very many names, and the record of all tenants is
        bounded. With many names, those of the namespace's own quotas are recorded only if they
        grow. The others hold nothing beyond the charge.
        """
        for promise in self:
            bill = self._ledger.reservation(promise.id).bill
            # Not from the charge, which may have forgotten names.
            amounts = {account.resource: nanos for account, nanos, _ in bill.items}
            if sum(map(len, amounts)) > NAMES_LENGTH_MAX:
                names = self._shared_or_growing(promise.pod, bill)
                amounts = {name: amounts[name] for name in names}
            if amounts:
                amounts = dict(sorted(amounts.items()))
                yield RecordedPromise(promise.pod, promise.uid, promise.version, amounts)

    def _shared_or_growing(self, pod: PodKey, bill: Bill) -> set[str]:
        held = self._ledger.bill_of(pod)
        charged = {} if held is None else {account: nanos for account, nanos, _ in held.items}
        return {
            account.resource
            for account, nanos, _ in bill.items
            if not account.quota.namespace or nanos > charged.get(account, 0)
        }

    def restore(self, recorded: RecordedPromise, known: PodRow | None, *, until_s: int) -> None:
        """Keep a promise of an earlier leader, even if it does not fit.

        The pod is the one that was listed after the earlier leader had made its last promise.
        """
        pod, uid, version, amounts = recorded
        if known is None or known.stamp.uid != uid or known.is_terminated:
            return
        if _is_newer(known, version):
            return
        promise = self._add(pod, uid, grown=None, version=version, until_s=until_s)
        charge = Charge(
            {name: to_quantity(nanos, Format.DECIMAL_SI) for name, nanos in amounts.items()}
        )
        bill = self._coverage.bill(known.profile, charge)
        self._ledger.hold(Reservation(promise.id, bill, pod, None, uid))


def version_of(row: PodRow) -> int | None:
    """The resourceVersion as a number; None if it is none, and so not comparable."""
    text = row.stamp.resource_version
    return int(text) if text.isdecimal() else None


def _is_newer(row: PodRow, version: int | None) -> bool:
    seen = version_of(row)
    return seen is not None and version is not None and seen > version


def _newer(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _is_same_pod(row: PodRow, known: PodRow) -> bool:
    return (row.namespace, row.name, row.stamp.uid) == (
        known.namespace,
        known.name,
        known.stamp.uid,
    )


def _grown(known: PodRow, row: PodRow) -> PodRow:
    """The known pod with the size that is asked for. A resize changes nothing else."""
    extras = None
    if known.deletion is not None or row.facts is not None:
        extras = Extras(known.deletion, row.facts)
    return known._replace(profile=replace(known.profile, demand=row.demand), extras=extras)


def _is_same_size(promised: PodRow | None, grown: PodRow) -> bool:
    return (
        promised is not None and promised.profile == grown.profile and promised.facts == grown.facts
    )
