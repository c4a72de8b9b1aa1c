"""Quotas and the pods that wait for them as plain data, for `-o json` and `-o yaml`."""

from datetime import UTC, datetime
from typing import TypeAlias

from bursar.app.quota.read_model import QuotaReport
from bursar.cli.output.formats import texts_of
from bursar.core.quota.queue import WaitingPod
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Refusal, Shortage

Document: TypeAlias = dict[str, object]


def quota_as_dict(report: QuotaReport) -> Document:
    quota = report.seen.quota
    return {
        **_key(quota.key),
        "hard": texts_of(quota.hard),
        "used": texts_of(report.used),
        "reported": texts_of(report.seen.reported_used),
    }


def waiting_as_dict(waiting: WaitingPod) -> Document:
    """One pod of the queue. The reason is null for one that is about to be released."""
    row, stamp = waiting.row, waiting.row.stamp
    return {
        "position": waiting.position,
        "namespace": row.namespace,
        "name": row.name,
        "uid": stamp.uid,
        "priority": row.profile.priority or 0,
        "created": _time(stamp.created_s),
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
    """As Kubernetes writes times; null if the object does not say."""
    if seconds == 0:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
