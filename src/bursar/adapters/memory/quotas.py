"""Validation of quotas on the embedded cluster.

A ResourceQuota is validated as the API server does it. Quotas of AAQ's kinds are validated by an
admission plugin, in place of the webhook or the admission policies of a real cluster.
"""

import json

from bursar.adapters.memory import errors
from bursar.adapters.memory.admission import Admitted, Refused, Request
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import RESOURCE_QUOTAS
from bursar.app.cluster.ports import Key
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.model.problem import Problem
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.validation.spec import spec_problems, undelegated
from bursar.wire.quota.objects import decode_quota
from bursar.wire.structs.fields import FieldError

_KINDS = {APPLICATION_QUOTAS: QuotaKind.NAMESPACED, CLUSTER_QUOTAS: QuotaKind.CLUSTER}
_ALLOWED = Admitted()


def creation_problems(body: JsonObject, key: Key) -> list[Problem]:
    """What is wrong with a new or changed ResourceQuota. Raises `InvalidError` (400)."""
    try:
        read = decode_quota(QuotaKind.NATIVE, json.dumps(body).encode())
    except FieldError as error:
        raise errors.bad_request(RESOURCE_QUOTAS, key, str(error)) from None
    return list(spec_problems(read.quota))


async def check_quota(request: Request) -> Admitted | Refused:
    """Validating plugin: refuse quotas of AAQ's kinds that a ResourceQuota could not be."""
    kind = _KINDS.get(request.resource)
    new, old = request.new, request.old
    if kind is None or request.subresource or new is None:
        return _ALLOWED
    if old is not None and old.get("spec") == new.get("spec"):
        return _ALLOWED
    try:
        quota = decode_quota(kind, json.dumps(new).encode()).quota
    except FieldError as error:
        return Refused(message=str(error))
    texts = list(dict.fromkeys(map(str, spec_problems(quota))))
    if not texts and kind is QuotaKind.CLUSTER:
        texts = list(filter(None, [undelegated(quota.hard)]))
    return Refused(message=", ".join(texts)) if texts else _ALLOWED
