"""Whether a quota can be meant as it is written: Kubernetes itself is asked.

A quota of AAQ's kinds has the spec of a ResourceQuota, so its rules are upstream's, and the
one place that surely knows them is the API server. It is shown the same spec as a
ResourceQuota that it need not store. It is not asked again about a spec that stays as it
was: a namespace that is being deleted takes nothing new, not even for show, and a
finalizer on a quota in it could never be removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Final

from bursar.app.admission.pods import Verdict, allow, deny
from bursar.app.cluster.kinds import RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    Json,
    UnauthorizedError,
    UnavailableError,
    Writer,
)
from bursar.app.cluster.time_limit import within
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import ORDER_ANNOTATION, Order, QuotaKind

NAME_PREFIX: Final = "aaq-validating-rq-"
NAME_BYTES: Final = 10
CLUSTER_WIDE_NAMESPACE: Final = "default"
"""Where the spec of a quota without a namespace is shown; it is in every cluster."""
ASK_SECONDS_MAX: Final = 7.0
"""An API server waits ten seconds for a webhook unless told otherwise."""

_NO_OPINION: Final = (BusyError, UnauthorizedError, UnavailableError)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWriting:
    """A quota that somebody creates or changes."""

    kind: QuotaKind
    namespace: str
    spec: Mapping[str, Json]
    """As the spec of a ResourceQuota, not judged yet."""
    names: Sequence[str]
    """Of the resources it limits."""
    order: str | None = None
    """The annotation that says who goes first, if there is one."""
    spec_before: Mapping[str, Json] | None = None
    """None for a new quota."""


class QuotaCheck:
    def __init__(self, writer: Writer, *, clock: Clock, random: Random) -> None:
        self._writer = writer
        self._clock = clock
        self._random = random

    async def judge(self, writing: QuotaWriting) -> Verdict:
        refusal = None
        if writing.spec != writing.spec_before:
            refusal = await self._refusal(writing) or _undelegated(writing)
        if refusal is not None:
            return refusal
        return allow(f"{writing.kind.value} request is valid", warnings=_warnings(writing))

    async def _refusal(self, writing: QuotaWriting) -> Verdict | None:
        namespace = writing.namespace or CLUSTER_WIDE_NAMESPACE
        name = NAME_PREFIX + self._random.randbytes(NAME_BYTES).hex()
        body: Json = {
            "apiVersion": RESOURCE_QUOTAS.api_version,
            "kind": RESOURCE_QUOTAS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "spec": writing.spec,
        }
        asking = self._writer.create(RESOURCE_QUOTAS, body, namespace=namespace, is_dry_run=True)
        try:
            await within(self._clock, ASK_SECONDS_MAX, asking)
        except TimeoutError:
            return _unasked(f"no answer within {ASK_SECONDS_MAX:g} s")
        except _NO_OPINION as error:
            return _unasked(error.message)
        except ClusterError as error:
            return deny(_without_prefix(error.message))
        return None


def _without_prefix(message: str) -> str:
    """Without what names the ResourceQuota, of which the author of the quota knows nothing.

    >>> _without_prefix('ResourceQuota "aaq-validating-rq-1" is invalid: spec.hard: no')
    'spec.hard: no'
    """
    _, separator, rest = message.partition(": ")
    return rest if separator else message


def _unasked(cause: str) -> Verdict:
    message = f"the quota could not be checked: {cause}. Nothing was changed; try again"
    return deny(message, code=HTTPStatus.SERVICE_UNAVAILABLE)


def _undelegated(writing: QuotaWriting) -> Verdict | None:
    """Refuse what only Kubernetes' own quotas can limit, and these only in one namespace."""
    names = sorted(name for name in writing.names if not is_schedulable(name))
    if writing.kind is not QuotaKind.CLUSTER or not names:
        return None
    return deny(
        f"{QuotaKind.CLUSTER.value} without clusterResourceQuota support, operator cannot handle "
        f"non scheduable resources :[{' '.join(names)}]"
    )


def _warnings(writing: QuotaWriting) -> tuple[str, ...]:
    known = [order.value for order in Order]
    if writing.order is None or writing.order in known:
        return ()
    warning = (
        f"annotation {ORDER_ANNOTATION} has an unknown value and is ignored: pods go in order "
        f"{Order.BACKFILL.value}; known are {', '.join(known)}"
    )
    return (warning,)
