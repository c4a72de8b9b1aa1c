"""The audit log of the real node's API server: which requests Bursar's service accounts sent.

Some requests of a service account do not go to the API server: the kubelet serves its pods itself,
and asks the API server only whether the caller may read them. These questions are requests too.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = "aaq"
_REVIEWS = {"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}
AUDIT_POLICY = {
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{HOME}"]},
        # With the bodies, which have the user, the verb and the answer.
        {"level": "RequestResponse", "userGroups": ["system:nodes"], "resources": [_REVIEWS]},
        {"level": "None"},
    ],
}
_ACCOUNT = f"system:serviceaccount:{HOME}:"


@dataclass(frozen=True, order=True)
class AuditedRequest:
    """A request of a service account in Bursar's namespace."""

    account: str
    verb: str
    group: str
    resource: str
    """With its subresource: `pods/resize`."""
    name: str
    """Empty for creations, and for lists and watches that do not select one object by name."""
    namespace: str
    code: int
    is_permitted: bool
    """What RBAC decided. A request that it permitted may be answered 403 by an admission plugin."""


class AuditLog:
    """The part of an audit log that was written since this object was made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size if path.exists() else 0

    def requests(self) -> set[AuditedRequest]:
        return {each for line in self._lines() for each in _requests(json.loads(line))}

    def _lines(self) -> Iterator[bytes]:
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._start)
            for line in log:
                if line.endswith(b"\n"):
                    yield line


def _requests(event: dict[str, Any]) -> Iterator[AuditedRequest]:
    user, reference = event["user"]["username"], event.get("objectRef")
    if user.startswith(_ACCOUNT) and reference is not None:
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
        yield AuditedRequest(
            account=user.removeprefix(_ACCOUNT),
            verb=event["verb"],
            group=reference.get("apiGroup", ""),
            resource=_with_subresource(reference),
            name=reference.get("name", ""),
            namespace=reference.get("namespace", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            is_permitted=decision == "allow",
        )
        return
    asked = event.get("requestObject", {}).get("spec", {})
    if asked.get("user", "").startswith(_ACCOUNT) and "resourceAttributes" in asked:
        attributes = asked["resourceAttributes"]
        yield AuditedRequest(
            account=asked["user"].removeprefix(_ACCOUNT),
            verb=attributes["verb"],
            group=attributes.get("group", ""),
            resource=_with_subresource(attributes),
            name=attributes.get("name", ""),
            namespace=attributes.get("namespace", ""),
            code=0,
            is_permitted=event.get("responseObject", {}).get("status", {}).get("allowed", False),
        )


def _with_subresource(reference: dict[str, str]) -> str:
    return "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
