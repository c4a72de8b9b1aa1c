"""Read the state of a move from the cluster."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from bursar.app.cluster.kinds import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import (
    EVERYTHING,
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Query,
    Reader,
    ReadWriter,
    Resource,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.migration.guard import GUARD, REFUSED, gated_namespaces
from bursar.app.migration.installation import Installation, Manifest
from bursar.app.migration.state import (
    LOCKS,
    NAME,
    OPERATOR_CONFIG,
    OwnedObject,
    Probe,
    State,
    TenantState,
    is_bursars,
    is_owned_by_aaq,
)
from bursar.app.names import (
    CONTROLLER,
    GATING_ACTIVE,
    GATING_ANNOTATION,
    GATING_WEBHOOKS,
    PROTECTION_WEBHOOKS,
    WEBHOOK,
)
from bursar.app.operator.names import OPERATOR
from bursar.app.quota.kinds import AAQS, CLUSTER_RESOURCE_QUOTAS, GROUP, JOB_QUEUE_CONFIGS
from bursar.app.quota.views.inventory import read_inventory
from bursar.core.model.namespace import NAME_LABEL
from bursar.core.model.selectors.selector import Selector, SelectorError, selector_of
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.targeting import is_spared
from bursar.wire.aaq_installation import (
    AaqFacts,
    DeploymentFacts,
    Metadata,
    decode_aaq,
    decode_deployment,
    decode_job_queue,
    decode_metadata,
    decode_webhooks,
)
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.quota.unreadable import read_quota

T = TypeVar("T")
PROBES_MAX: Final = 50
"""In how many namespaces a pod is tried, if each refuses it. A tenant has fewer namespaces."""


async def read_state(
    cluster: ReadWriter, home: str, installation: Installation | None, *, is_back: bool = False
) -> State:
    """Read everything that decides which step is next. Raises `ClusterError`.

    A pod is tried with dry-run if the gate is Bursar's, or on the way back AAQ's.
    """
    aaqs = await _listed(cluster, AAQS, decode_aaq)
    aaq = aaqs[0] if aaqs else None
    deployments = {
        name: await _found(cluster, DEPLOYMENTS, Key(home, name), decode_deployment)
        for name in (OPERATOR, CONTROLLER, WEBHOOK)
    }
    operator, controller = deployments[OPERATOR], deployments[CONTROLLER]
    present = [] if installation is None else await _present(cluster, installation)
    account = await _found(cluster, SERVICE_ACCOUNTS, Key(home, CONTROLLER), decode_metadata)
    guard = [
        await _found(cluster, resource, Key("", GUARD), decode_metadata)
        for resource in (VALIDATING_POLICIES, VALIDATING_BINDINGS)
    ]
    queues = partial(decode_job_queue, locks=LOCKS)
    state = State(
        home=home,
        installation=installation,
        aaq=aaq,
        operator=operator,
        controller=controller,
        server=deployments[WEBHOOK],
        service=await _found(cluster, SERVICES, Key(home, WEBHOOK), decode_metadata),
        operator_pods=await _pods(cluster, home, _labels(operator) or f"name={OPERATOR}"),
        controller_pods=await _pods(cluster, home, f"{GROUP}={CONTROLLER},{NOT_BURSARS}"),
        server_pods=await _pods(cluster, home, f"{GROUP}={WEBHOOK},{NOT_BURSARS}"),
        bursar_pods=await _pods(cluster, home, BURSARS_PODS),
        mutating=await _found(
            cluster, MUTATING_WEBHOOKS, Key("", GATING_WEBHOOKS), decode_webhooks
        ),
        validating=await _found(
            cluster, VALIDATING_WEBHOOKS, Key("", PROTECTION_WEBHOOKS), decode_webhooks
        ),
        owned=await _owned(cluster, present),
        has_guard=all(guard),
        is_active=_is_active(account),
        has_policies=await _is_served(cluster, MUTATING_POLICIES),
        has_operator_config=await _has_config(cluster, home),
        present=tuple(manifest for manifest, _ in present),
        job_queues=tuple(await _listed(cluster, JOB_QUEUE_CONFIGS, queues)),
        gated_namespaces=await _gated_namespaces(cluster, aaq, home),
    )
    return await _probed(cluster, state, is_back=is_back)


BURSARS_PODS: Final = f"{NAME}=bursar,app.kubernetes.io/component=controller"
NOT_BURSARS: Final = f"{NAME}!=bursar"
"""Bursar's pods have AAQ's label too, because AAQ's users select pods by it."""


async def read_tenants(cluster: Reader) -> TenantState:
    """Read quotas, namespaces and gated pods. Raises `ClusterError`."""
    inventory = await read_inventory(cluster)
    decode = partial(read_quota, QuotaKind.OPENSHIFT)
    has_openshift = await _is_served(cluster, CLUSTER_RESOURCE_QUOTAS)
    openshifts = await _listed(cluster, CLUSTER_RESOURCE_QUOTAS, decode)
    return TenantState(
        quotas=(*inventory.quotas, *openshifts),
        has_cluster_resource_quotas=has_openshift,
        namespaces=tuple(inventory.namespaces),
        gated=tuple(row for row in inventory.rows if GATE in row.profile.gates),
        problems=tuple(inventory.problems),
    )


def selected_by(aaq: AaqFacts | None, home: str) -> Selector:
    """The selector of the namespaces in which AAQ gates pods. Raises `SelectorError`."""
    return selector_of(gated_namespaces(None if aaq is None else aaq.selector, home))


# ------------------------------------------------------------------ parts


async def _found(
    reader: Reader, resource: Resource, key: Key, decode: Callable[[bytes], T]
) -> T | None:
    try:
        return decode(await reader.get(resource, key))
    except NotFoundError:
        return None


async def _listed(
    reader: Reader, resource: Resource, decode: Callable[[bytes], T], query: Query = EVERYTHING
) -> list[T]:
    """All objects of a kind; none if the kind does not exist."""
    try:
        return await list_all(reader, resource, query, decode)
    except NotFoundError:
        return []


async def _pods(reader: Reader, home: str, labels: str) -> int:
    query = Query(namespace=home, label_selector=labels)
    return len(await _listed(reader, PODS, decode_metadata, query))


def _labels(deployment: DeploymentFacts | None) -> str:
    labels = {} if deployment is None else deployment.pod_labels
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


async def _present(reader: Reader, installation: Installation) -> list[tuple[Manifest, Metadata]]:
    found = []
    for manifest in installation.manifests:
        metadata = await _found(reader, manifest.resource, manifest.key, decode_metadata)
        if metadata is not None:
            found.append((manifest, metadata))
    return found


async def _owned(
    reader: Reader, present: Sequence[tuple[Manifest, Metadata]]
) -> tuple[OwnedObject, ...]:
    """The definitions of AAQ's kinds and the objects that Bursar uses, as far as AAQ owns them.

    AAQ's Deployments are left out: a move deletes them.
    """
    definitions = await _listed(reader, CRDS, decode_metadata)
    found = [(CRDS, each) for each in definitions if each.name.endswith(f".{GROUP}")]
    names = {each.name for _, each in found}
    found += [
        (manifest.resource, metadata)
        for manifest, metadata in present
        if manifest.resource != DEPLOYMENTS and metadata.name not in names
    ]
    return tuple(
        OwnedObject(resource=resource, metadata=metadata)
        for resource, metadata in found
        if is_owned_by_aaq(metadata)
    )


def _is_active(account: Metadata | None) -> bool:
    annotations = {} if account is None else account.annotations
    return annotations.get(GATING_ANNOTATION) == GATING_ACTIVE


async def _is_served(reader: Reader, resource: Resource) -> bool:
    try:
        await reader.list(resource, limit=1)
    except NotFoundError:
        return False
    return True


async def _has_config(reader: Reader, home: str) -> bool:
    return await _found(reader, CONFIG_MAPS, Key(home, OPERATOR_CONFIG), bool) is not None


async def _gated_namespaces(reader: Reader, aaq: AaqFacts | None, home: str) -> tuple[str, ...]:
    try:
        selector = selected_by(aaq, home)
    except SelectorError:
        return ()
    return tuple(
        each.name
        for each in await _listed(reader, NAMESPACES, decode_namespace)
        if each.phase != "Terminating"
        and not is_spared(each.name, home)
        and selector.matches({**each.labels, NAME_LABEL: each.name})
    )


# ------------------------------------------------------------------ a pod that is tried


async def _probed(cluster: ReadWriter, state: State, *, is_back: bool) -> State:
    controller = state.controller
    is_bursar = controller is not None and is_bursars(controller.metadata)
    is_starting = state.operator is not None and state.operator.replicas > 0
    if not (is_starting if is_back else is_bursar and state.is_active):
        return state
    if not state.gated_namespaces:
        return replace(state, probe=Probe.NOWHERE)
    problem = ""
    for namespace in state.gated_namespaces[:PROBES_MAX]:
        try:
            made = await cluster.create(PODS, probe_pod(), namespace=namespace, is_dry_run=True)
        except ClusterError as error:
            if REFUSED in error.message:
                return replace(state, probe=Probe.PASSED)
            problem = str(error)
            continue
        gates = json.loads(made)["spec"].get("schedulingGates") or ()
        is_gated = any(gate["name"] == GATE for gate in gates)
        return replace(state, probe=Probe.GATED if is_gated else Probe.PASSED)
    return replace(state, probe=Probe.REFUSED, probe_problem=problem)


def probe_pod() -> Json:
    """A small pod that Pod Security and most quotas of Kubernetes allow. It is never stored."""
    amounts: Json = {"cpu": "1m", "memory": "1Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bursar-migration-probe"},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "bursar.invalid/probe",
                    "resources": {"requests": amounts, "limits": amounts},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
