"""Whether Bursar's service accounts have the rights that their processes need, and no others.

The API server is asked about each right with a SubjectAccessReview, which stores nothing. Further
rights are found by bindings that Bursar's manifests do not have, and by asking whether an account
may do everything.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from bursar.app.cluster.kinds import (
    ACCESS_REVIEWS,
    CLUSTER_ROLE_BINDINGS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from bursar.app.cluster.ports import (
    ForbiddenError,
    Json,
    Key,
    NotFoundError,
    Query,
    Reader,
    Resource,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.doctor.findings import Finding, Severity
from bursar.app.doctor.needed_rights import (
    ACCOUNTS,
    InstalledParts,
    Right,
    known_bindings,
    needed_rights,
)
from bursar.app.extender.names import EXTENDER
from bursar.app.install.documents import Document
from bursar.app.names import AGENT, CONTROLLER, WEBHOOK
from bursar.app.quota.kinds import CLUSTER_QUOTAS
from bursar.core.model.problem import some_of
from bursar.wire.aaq_installation import decode_deployment
from bursar.wire.cluster.authorization import Binding, decode_binding, decode_is_allowed

WORKLOADS: Final = (
    (DEPLOYMENTS, CONTROLLER),
    (DEPLOYMENTS, WEBHOOK),
    (DAEMON_SETS, AGENT),
    (DEPLOYMENTS, EXTENDER),
)
NAMED_MAX: Final = 5
"""How many rights or bindings a finding names; the others are counted."""
IN_FLIGHT_MAX: Final = 8
ANY: Final = "*"


class RightsCluster(Reader, Protocol):
    """A cluster that can be read and asked about rights."""

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        """As `Writer.create`. Only access reviews are created, which are not stored."""


async def rights_finding(
    cluster: RightsCluster, namespace: str, definitions: Sequence[Document]
) -> Finding:
    """Whether each account that exists has all its rights. Raises `ClusterError`."""
    parts = await _installed(cluster, namespace, definitions)
    if not parts.accounts:
        text = f"there is no service account of Bursar in namespace {namespace}"
        return Finding("rights", Severity.WARNING, text, "name the namespace of Bursar with -n")
    rights = needed_rights(parts)
    try:
        lacking = await _denied(cluster, namespace, rights)
    except ForbiddenError as error:
        text = f"the rights of the accounts cannot be checked: {error}"
        advice = "ask for the right to create subjectaccessreviews.authorization.k8s.io"
        return Finding("rights", Severity.WARNING, text, advice)
    if not lacking:
        names = " and ".join(sorted(parts.accounts))
        text = f"{names} have the {len(rights)} rights that they need"
        return Finding("rights", Severity.OK, text)
    lacks: dict[str, list[str]] = {}
    for each in lacking:
        lacks.setdefault(each.account, []).append(str(each))
    text = "; ".join(
        f"{account} may not: {some_of(lacks[account], NAMED_MAX)}" for account in sorted(lacks)
    )
    advice = "apply the manifests of the installation again: bursar manifests rbac, and its parts"
    return Finding("rights", Severity.PROBLEM, text, advice)


async def bindings_finding(
    cluster: RightsCluster, namespace: str, definitions: Sequence[Document]
) -> Finding:
    """Whether an account has more rights than the manifests grant. Raises `ClusterError`.

    Bindings in other namespaces, and bindings to groups that grant less than everything, are not
    looked for.
    """
    known = known_bindings(namespace, definitions)
    ours = {(namespace, account) for account in ACCOUNTS}
    found = [
        f"{resource.kind} {each.name} ({each.role}) for {_accounts(each, ours)}"
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
        for each in await list_all(
            cluster,
            resource,
            Query(namespace=namespace if resource.is_namespaced else ""),
            decode_binding,
        )
        if each.accounts & ours and (resource.kind, each.namespace, each.name) not in known
    ]
    everything = [Right(account, ANY, ANY, ANY) for account in ACCOUNTS]
    denied = await _denied(cluster, namespace, everything)
    found += [f"{each.account} may do everything" for each in everything if each not in denied]
    if not found:
        return Finding("bindings", Severity.OK, "no binding grants the accounts further rights")
    text = f"further rights than the manifests grant: {some_of(found, NAMED_MAX)}"
    advice = "delete these bindings, unless you know what they are for"
    return Finding("bindings", Severity.WARNING, text, advice)


def _accounts(binding: Binding, ours: set[tuple[str, str]]) -> str:
    return " and ".join(sorted(name for _, name in binding.accounts & ours))


# ------------------------------------------------------------------ asking


async def _installed(
    cluster: Reader, namespace: str, definitions: Sequence[Document]
) -> InstalledParts:
    accounts = [
        account
        for account in ACCOUNTS
        if await find(cluster, SERVICE_ACCOUNTS, Key(namespace, account)) is not None
    ]
    arguments = {}
    for resource, name in WORKLOADS:
        body = await find(cluster, resource, Key(namespace, name))
        if body is not None:
            arguments[name] = decode_deployment(body).arguments
    return InstalledParts(
        namespace=namespace,
        accounts=frozenset(accounts),
        arguments=arguments,
        has_cluster_quota=await _is_served(cluster, CLUSTER_QUOTAS),
        definitions=definitions,
    )


async def find(cluster: Reader, resource: Resource, key: Key) -> bytes | None:
    try:
        return await cluster.get(resource, key)
    except NotFoundError:
        return None


async def _is_served(cluster: Reader, resource: Resource) -> bool:
    try:
        await cluster.list(resource, limit=1)
    except NotFoundError:
        return False
    except ForbiddenError:
        # The user may not read the objects. The accounts may need rights to them all the same.
        return True
    return True


async def _denied(cluster: RightsCluster, home: str, rights: Sequence[Right]) -> list[Right]:
    """The rights that the service accounts lack."""
    turns = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def ask(right: Right) -> bool:
        async with turns:
            return decode_is_allowed(await cluster.create(ACCESS_REVIEWS, review(right, home)))

    answers = await asyncio.gather(*map(ask, rights))
    return [right for right, is_allowed in zip(rights, answers, strict=True) if not is_allowed]


def review(right: Right, home: str) -> Json:
    """The question whether an account has a right."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
        "namespace": right.namespace,
    }
    return {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {
            "user": f"system:serviceaccount:{home}:{right.account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{home}",
                "system:authenticated",
            ],
            "resourceAttributes": {key: text for key, text in attributes.items() if text},
        },
    }
