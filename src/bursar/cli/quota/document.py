"""Quotas and the pods that wait for them as plain data, for `-o json` and `-o yaml`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from bursar.app.counting.provenance import ChargePart
from bursar.app.counting.uncounted import what_would_count
from bursar.app.quota.views.read_model import QuotaReport
from bursar.cli.output.formats import texts_of
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Refusal, Shortage
from bursar.core.quota.views.queue import WaitingPod
from bursar.wire.structs.fields import timestamp

Document: TypeAlias = dict[str, object]


def quota_as_dict(report: QuotaReport) -> Document:
    quota = report.seen.quota
    return {
        **_key(quota.key),
        "covers": list(report.covered),
        "scopes": [
            {"scope": rule.scope, "operator": rule.operator, "values": list(rule.values)}
            for rule in quota.scopes
        ],
        "hard": texts_of(quota.hard),
        "used": texts_of(report.used),
        "reported": texts_of(report.seen.reported_used),
        "percent": {line.resource: line.percent for line in report.lines},
        "overLimit": [line.resource for line in report.lines if line.is_over],
        "notGated": list(report.ungated),
        "gatingNotKnown": list(report.undescribed),
        "statusProblem": report.seen.status_problem or None,
        "notCounted": [
            {"resource": name, "message": what_would_count(name)} for name in report.uncounted
        ],
        "charges": [
            {
                "namespace": charge.pod.namespace,
                "name": charge.pod.name,
                "parts": _parts(charge.parts),
                "provisional": None if charge.provisional is None else texts_of(charge.provisional),
            }
            for charge in report.charges
        ],
    }


def _parts(parts: Iterable[ChargePart]) -> list[Document]:
    """What each counter charges and why. The amounts are null while a counter cannot tell."""
    return [
        {
            "counter": part.counter,
            "reason": part.reason,
            "amounts": None if part.amounts is None else texts_of(part.amounts),
        }
        for part in parts
    ]


def waiting_as_dict(waiting: WaitingPod, cost: Iterable[ChargePart]) -> Document:
    """One pod of the queue. The reason is null for one that is about to be released."""
    row, stamp = waiting.row, waiting.row.stamp
    return {
        "position": waiting.position,
        "namespace": row.namespace,
        "name": row.name,
        "uid": stamp.uid,
        "priority": row.profile.priority or 0,
        "created": _time(stamp.created_s),
        "cost": _parts(cost),
        "reason": None if waiting.reason is None else waiting.reason.value,
        "refusals": [_refusal(refusal) for refusal in waiting.refusals],
        "ahead": [str(pod) for pod in waiting.ahead],
        "aheadCount": waiting.ahead_count,
    }


def _refusal(refusal: Refusal) -> Document:
    return {
        "reason": refusal.reason.value,
        "quota": None if refusal.quota is None else _key(refusal.quota),
        "shortages": [_shortage(shortage) for shortage in refusal.shortages],
        "message": refusal.message(),
    }


def _shortage(shortage: Shortage) -> Document:
    return {
        "resource": shortage.resource,
        "requested": str(shortage.requested),
        "used": str(shortage.used),
        "hard": str(shortage.hard),
        "missing": str(shortage.missing),
    }


def _key(key: QuotaKey) -> Document:
    return {"kind": key.kind.value, "namespace": key.namespace, "name": key.name}


def _time(seconds: int) -> str | None:
    """A time as Kubernetes writes it; null if the object has none."""
    if seconds == 0:
        return None
    return timestamp(datetime.fromtimestamp(seconds, UTC))
