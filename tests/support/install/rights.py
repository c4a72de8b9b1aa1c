"""The rights that manifests grant to service accounts, compared with the requests they sent."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from support.cluster.audit import AuditedRequest

Raw = dict[str, Any]


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, granted by one rule."""

    account: str
    verb: str
    group: str
    resource: str
    name: str = ""
    """The only object; empty for all objects."""
    namespace: str = ""
    """The only namespace; empty for all namespaces."""

    def covers(self, request: AuditedRequest) -> bool:
        what = (self.account, self.verb, self.group, self.resource)
        return (
            what == (request.account, request.verb, request.group, request.resource)
            and self.name in {"", request.name}
            and self.namespace in {"", request.namespace}
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        what = ".".join(filter(None, (self.resource, self.group)))
        return f"{self.account}: {self.verb} {what} {self.name or '*'}{where}"


def granted_rights(documents: Iterable[Raw]) -> set[Right]:
    """All rights of the service accounts to which the documents bind a Role or a ClusterRole."""
    documents = list(documents)
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in documents
        if each["kind"] in {"Role", "ClusterRole"}
    }
    return {
        right
        for each in documents
        if each["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        for subject in each["subjects"]
        for right in _rights(subject["name"], each, roles)
    }


def _rights(account: str, binding: Raw, roles: dict[tuple[str, str, str], Raw]) -> Iterator[Right]:
    namespace, bound = binding["metadata"].get("namespace", ""), binding["roleRef"]
    place = namespace if bound["kind"] == "Role" else ""
    for rule in roles[bound["kind"], place, bound["name"]]["rules"]:
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]], rule
        for verb in rule["verbs"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(account, verb, group, resource, name, namespace)


def unused_rights(rights: set[Right], requests: set[AuditedRequest]) -> set[Right]:
    return {right for right in rights if not any(right.covers(each) for each in requests)}


def ungranted_requests(rights: set[Right], requests: set[AuditedRequest]) -> set[AuditedRequest]:
    return {each for each in requests if not any(right.covers(each) for right in rights)}
