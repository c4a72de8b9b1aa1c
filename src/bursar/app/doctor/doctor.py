"""The examination of an installation: what is missing, what is wrong, and what to do about it.

It writes nothing. Each check reports on its own: what cannot be read is a finding and stops no
other check.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from bursar.app.cluster.election.lease import decode_lease
from bursar.app.cluster.kinds import (
    LEASES,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    SERVICE_ACCOUNTS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)
from bursar.app.cluster.ports import (
    EVERYTHING,
    ClusterError,
    ForbiddenError,
    Key,
    NotFoundError,
    Reader,
    UnauthorizedError,
    UnreachableError,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.doctor.findings import Finding, Severity
from bursar.app.doctor.rights import RightsCluster, bindings_finding, find, rights_finding
from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE
from bursar.app.doctor.versions import version_findings
from bursar.app.install.documents import Document
from bursar.app.names import (
    CONTROLLER,
    GATING_ACTIVE,
    GATING_ANNOTATION,
    GATING_POLICY,
    GATING_WEBHOOK,
    GATING_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
    REMOVAL_WEBHOOK,
)
from bursar.app.quota.kinds import QUOTAS
from bursar.core.model.problem import some_of
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.cluster.annotations import decode_annotation
from bursar.wire.cluster.server_version import ServerVersion, decode_server_version
from bursar.wire.quota.gating_configuration import decode_gating
from bursar.wire.quota.unreadable import read_quota

NAMED_MAX: Final = 5
"""How many quotas a finding names; the others are counted."""
CLOCKS_DIFFER_SECONDS: Final = 60
"""The clock of this machine may differ from that of the controller by so much."""
READY: Final = "Ready"


class Cluster(RightsCluster, Protocol):
    async def version(self) -> bytes:
        """What the API server answers to /version."""


async def examine(
    cluster: Cluster, namespace: str, now: datetime, definitions: Sequence[Document] = ()
) -> tuple[Finding, ...]:
    """All findings about the installation in this namespace, in a fixed order.

    `definitions` are the CustomResourceDefinitions that Bursar has. An operator applies them.
    Raises `ClusterError` if the server cannot be reached, or does not accept the caller.
    """
    return tuple([each async for each in _findings(cluster, namespace, now, definitions)])


async def _findings(
    cluster: Cluster, namespace: str, now: datetime, definitions: Sequence[Document]
) -> AsyncIterator[Finding]:
    server: ServerVersion | None = None
    try:
        server = decode_server_version(await cluster.version())
    except (UnreachableError, UnauthorizedError):
        # No check can be made. That is no finding about the installation.
        raise
    except (ClusterError, ValueError) as error:
        yield _unreadable("server", error)
    else:
        for finding in version_findings(server):
            yield finding
    checks: Sequence[tuple[str, Callable[[], Awaitable[Finding]]]] = (
        ("kinds", lambda: _kinds(cluster)),
        ("gate", lambda: _gate(cluster, server)),
        ("protection", lambda: _protection(cluster)),
        ("activation", lambda: _activation(cluster, namespace)),
        ("leader", lambda: _leader(cluster, namespace, now)),
        ("rights", lambda: rights_finding(cluster, namespace, definitions)),
        ("bindings", lambda: bindings_finding(cluster, namespace, definitions)),
        ("quotas", lambda: _quotas(cluster)),
    )
    for name, check in checks:
        try:
            yield await check()
        except (UnreachableError, UnauthorizedError):
            raise
        except (ClusterError, ValueError) as error:
            yield _unreadable(name, error)


def _unreadable(check: str, error: Exception) -> Finding:
    advice = "ask for the right to read it" if isinstance(error, ForbiddenError) else ""
    return Finding(check, Severity.WARNING, f"it could not be read: {error}", advice)


# ------------------------------------------------------------------ the server


async def _kinds(cluster: Reader) -> Finding:
    missing = []
    for kind in (QuotaKind.NAMESPACED, QuotaKind.CLUSTER):
        try:
            await cluster.list(QUOTAS[kind], limit=1)
        except NotFoundError:
            missing.append(QUOTAS[kind].kind)
    if QUOTAS[QuotaKind.NAMESPACED].kind in missing:
        text = f"the API server does not know {', '.join(missing)}"
        return Finding("kinds", Severity.PROBLEM, text, "apply: bursar manifests crds")
    if missing:
        text = f"no cluster-wide quotas: the API server does not know {missing[0]}"
        advice = "start the controller with --without-cluster-quota, or apply the part crds"
        return Finding("kinds", Severity.NOTE, text, advice)
    return Finding("kinds", Severity.OK, "the kinds of quotas are defined")


# ------------------------------------------------------------------ the gate


async def _installed(cluster: Reader, names: Sequence[str], webhook: str) -> list[str]:
    """Which of these objects have an effect: bindings with a policy, and those with the webhook."""
    found = []
    for resource, name in CONFIGURATIONS:
        body = await find(cluster, resource, Key("", name)) if name in names else None
        if body is None:
            continue
        if resource in _POLICIES:
            is_effective = await find(cluster, _POLICIES[resource], Key("", name)) is not None
        else:
            is_effective = bool(decode_gating(body, (webhook,)).selectors)
        if is_effective:
            found.append(f"{resource.kind} {name}")
    return found


_POLICIES: Final = {
    MUTATING_BINDINGS: MUTATING_POLICIES,
    VALIDATING_BINDINGS: VALIDATING_POLICIES,
}


async def _gate(cluster: Reader, server: ServerVersion | None) -> Finding:
    found = await _installed(cluster, (GATING_POLICY, GATING_WEBHOOKS), GATING_WEBHOOK)
    if found:
        return Finding("gate", Severity.OK, f"pods are gated by {' and '.join(found)}")
    by_policies = server is None or server.minor >= MUTATING_POLICIES_SINCE
    advice = "apply: bursar manifests " + ("policies" if by_policies else "webhook webhooks")
    text = "neither a policy nor a webhook gates pods, so quotas hold no pod back"
    return Finding("gate", Severity.PROBLEM, text, advice)


async def _protection(cluster: Reader) -> Finding:
    found = await _installed(cluster, (PROTECTION_POLICY, PROTECTION_WEBHOOKS), REMOVAL_WEBHOOK)
    if found:
        return Finding("protection", Severity.OK, f"the gate is protected by {' and '.join(found)}")
    text = "every user who may update a pod may remove its gate"
    return Finding("protection", Severity.PROBLEM, text, "apply the policies or webhooks again")


async def _activation(cluster: Reader, namespace: str) -> Finding:
    body = await find(cluster, SERVICE_ACCOUNTS, Key(namespace, CONTROLLER))
    if body is None:
        text = f"there is no service account {CONTROLLER} in namespace {namespace}"
        advice = "name the namespace of Bursar with -n, or apply: bursar manifests rbac"
        return Finding("activation", Severity.PROBLEM, text, advice)
    if decode_annotation(body, GATING_ANNOTATION) == GATING_ACTIVE:
        return Finding("activation", Severity.OK, "a controller has switched the gate on")
    text = "no controller has read the cluster yet, so new pods get no gate"
    return Finding("activation", Severity.WARNING, text, "look at the log of the controller")


async def _leader(cluster: Reader, namespace: str, now: datetime) -> Finding:
    body = await find(cluster, LEASES, Key(namespace, CONTROLLER))
    record = None if body is None else decode_lease(body).record
    advice = "look at the Deployment of the controller, and at its log"
    if record is None or not record.holder:
        text = "no controller leads, so gated pods wait"
        return Finding("leader", Severity.PROBLEM, text, advice)
    age = _age(record.renew_time, now)
    if age is not None and age > record.duration_seconds + CLOCKS_DIFFER_SECONDS:
        text = f"{record.holder} has not renewed the Lease for {age} s, so gated pods wait"
        return Finding("leader", Severity.PROBLEM, text, advice)
    return Finding("leader", Severity.OK, f"the Lease is held by {record.holder}")


def _age(written: str, now: datetime) -> int | None:
    """Seconds since a time of the API; None if it is no such time."""
    try:
        then = datetime.fromisoformat(written)
    except ValueError:
        return None
    return None if then.tzinfo is None else int((now - then).total_seconds())


# ------------------------------------------------------------------ quotas


async def _quotas(cluster: Reader) -> Finding:
    names: list[str] = []
    count = 0
    for kind in (QuotaKind.NAMESPACED, QuotaKind.CLUSTER):
        for quota in await _list_quotas(cluster, kind):
            count += 1
            if not _is_ready(quota):
                names.append(str(quota.quota.key))
    if not names:
        return Finding("quotas", Severity.OK, f"{count} quotas are in force")
    text = f"{len(names)} of {count} quotas are not ready: {some_of(names, NAMED_MAX)}"
    advice = "read their condition Ready: bursar describe quota NAME -A"
    return Finding("quotas", Severity.WARNING, text, advice)


async def _list_quotas(cluster: Reader, kind: QuotaKind) -> list[QuotaObject]:
    try:
        return await list_all(
            cluster, QUOTAS[kind], EVERYTHING, lambda body: read_quota(kind, body)
        )
    except NotFoundError:
        return []


def _is_ready(quota: QuotaObject) -> bool:
    """Whether the controller says so of the present spec."""
    return any(
        each.type == READY
        and each.status == "True"
        and each.observed_generation in {0, quota.generation}
        for each in quota.reported_conditions
    )
