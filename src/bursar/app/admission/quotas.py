"""Validation of AAQ quotas by the API server's own rules for ResourceQuotas.

A quota of AAQ's kinds has the spec of a ResourceQuota. To validate it, a ResourceQuota with the
same spec is created with dry-run. The API server compares the number of ResourceQuotas with a quota
on them only after it has accepted the spec, so that answer is no objection.

An unchanged spec is not validated again: a namespace that is being deleted refuses every creation,
and then the finalizer of a quota could never be removed.

A cluster-wide quota may limit resources that a scheduling gate cannot enforce only where the API
server serves OpenShift's ClusterResourceQuota, to which the controller leaves them. The webhook
finds out by a dry-run as well: it creates a ClusterResourceQuota with these limits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Final

from bursar.app.admission.pods import allow, deny
from bursar.app.cluster.kinds import RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    BusyError,
    Clock,
    ClusterError,
    ForbiddenError,
    Json,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    Writer,
)
from bursar.app.cluster.time_limit import within
from bursar.app.quota.kinds import CLUSTER_RESOURCE_QUOTAS
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import ORDER_ANNOTATION, Order, QuotaKind
from bursar.core.quota.validation.spec import undelegated
from bursar.wire.admission import AdmissionDecision

NAME_PREFIX: Final = "aaq-validating-rq-"
CLUSTER_NAME_PREFIX: Final = "aaq-validating-crq-"
NAME_BYTES: Final = 10
CLUSTER_WIDE_NAMESPACE: Final = "default"
"""Namespace of the dry-run for cluster-scoped quotas. It exists in every cluster."""
ASK_SECONDS_MAX: Final = 7.0
"""Timeout of the dry-runs. The API server's default timeout for a webhook is ten seconds."""
ASKED_MAX: Final = 16
"""Quotas that are tried at a time; further ones wait. A webhook that hangs on ResourceQuotas must
not take all requests of this process, which also reads the Lease and has tokens reviewed."""

_ABOUT_OTHERS: Final = ("exceeded quota: ", "status unknown for quota: ")
"""How a refusal begins if a quota on ResourceQuotas has no room for that of the dry-run."""
_NO_OPINION: Final = (BusyError, UnauthorizedError, UnavailableError)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWriting:
    """A quota that is being created or changed."""

    kind: QuotaKind
    namespace: str
    spec: Mapping[str, Json]
    """The quota's spec in the form of a ResourceQuota, not validated."""
    names: Sequence[str]
    """The names of the resources in `hard`."""
    order: str | None = None
    """The value of the annotation for the order of release; None if it is absent."""
    spec_before: Mapping[str, Json] | None = None
    """The spec before the change; None for a new quota."""
    selector: Json = None
    """The selector of namespaces of a cluster-scoped quota, not validated."""
    selector_before: Json = None
    selector_problem: str = ""
    """Why the selector of namespaces cannot be read; empty if it can."""

    @property
    def is_changed(self) -> bool:
        return (self.spec, self.selector) != (self.spec_before, self.selector_before)


class QuotaCheck:
    def __init__(self, writer: Writer, *, clock: Clock, random: Random) -> None:
        self._writer = writer
        self._clock = clock
        self._random = random
        self._turns = asyncio.Semaphore(ASKED_MAX)

    async def judge(self, writing: QuotaWriting) -> AdmissionDecision:
        refusal = None
        if writing.is_changed:
            refusal = deny(writing.selector_problem) if writing.selector_problem else None
            refusal = refusal or await self._asked(writing)
        if refusal is not None:
            return refusal
        return allow(f"{writing.kind.value} request is valid", warnings=_warnings(writing))

    async def _asked(self, writing: QuotaWriting) -> AdmissionDecision | None:
        """Why the API server would refuse the quota; None if it would not."""
        try:
            return await within(self._clock, ASK_SECONDS_MAX, self._refusal(writing))
        except TimeoutError:
            return _unasked(f"no answer within {ASK_SECONDS_MAX:g} s")

    async def _refusal(self, writing: QuotaWriting) -> AdmissionDecision | None:
        try:
            async with self._turns:
                await self._try_limits(writing)
                if writing.kind is QuotaKind.CLUSTER and undelegated(writing.names):
                    await self._try_delegated(writing)
        except _NO_OPINION as error:
            return _unasked(error.message)
        except _NotServedError:
            return deny(undelegated(writing.names))
        except ClusterError as error:
            return deny(_without_prefix(error.message))
        return None

    async def _try_limits(self, writing: QuotaWriting) -> None:
        namespace = writing.namespace or CLUSTER_WIDE_NAMESPACE
        name = self._name(NAME_PREFIX)
        body: Json = {
            "apiVersion": RESOURCE_QUOTAS.api_version,
            "kind": RESOURCE_QUOTAS.kind,
            "metadata": {"namespace": namespace, "name": name},
            "spec": writing.spec,
        }
        try:
            await self._writer.create(RESOURCE_QUOTAS, body, namespace=namespace, is_dry_run=True)
        except ForbiddenError as error:
            if not _is_about_others(error.message):
                raise

    async def _try_delegated(self, writing: QuotaWriting) -> None:
        """Try the limits that are left to a ClusterResourceQuota."""
        hard = writing.spec.get("hard")
        limits = hard if isinstance(hard, Mapping) else {}
        left = {name: limit for name, limit in limits.items() if not is_schedulable(name)}
        body: Json = {
            "apiVersion": CLUSTER_RESOURCE_QUOTAS.api_version,
            "kind": CLUSTER_RESOURCE_QUOTAS.kind,
            "metadata": {"name": self._name(CLUSTER_NAME_PREFIX)},
            "spec": {"quota": {**writing.spec, "hard": left}, "selector": writing.selector},
        }
        try:
            await self._writer.create(CLUSTER_RESOURCE_QUOTAS, body, is_dry_run=True)
        except NotFoundError as error:
            raise _NotServedError from error

    def _name(self, prefix: str) -> str:
        return prefix + self._random.randbytes(NAME_BYTES).hex()


class _NotServedError(Exception):
    """The API server does not serve ClusterResourceQuotas."""


def _without_prefix(message: str) -> str:
    """The message without the name of the ResourceQuota of the dry-run.

    >>> _without_prefix('ResourceQuota "aaq-validating-rq-1" is invalid: spec.hard: no')
    'spec.hard: no'
    """
    _, separator, rest = message.partition(": ")
    return rest if separator else message


def _is_about_others(message: str) -> bool:
    """Whether a refusal is about the quotas of the namespace and not about the spec.

    >>> _is_about_others('resourcequotas "x" is forbidden: exceeded quota: q, requested: ...')
    True
    """
    _, _, cause = message.partition('" is forbidden: ')
    return cause.startswith(_ABOUT_OTHERS)


def _unasked(cause: str) -> AdmissionDecision:
    message = f"the quota could not be checked: {cause}. Nothing was changed; try again"
    return deny(message, code=HTTPStatus.SERVICE_UNAVAILABLE)


def _warnings(writing: QuotaWriting) -> tuple[str, ...]:
    known = [order.value for order in Order]
    if writing.order is None or writing.order in known:
        return ()
    warning = (
        f"annotation {ORDER_ANNOTATION} has an unknown value and is ignored: pods are released in "
        f"order {Order.BACKFILL.value}; known values are {', '.join(known)}"
    )
    return (warning,)
