"""Carry out the steps of a move. Each can be repeated, also after it was carried out in part."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.kinds import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.patches import fenced_patch, put, remove
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    BusyError,
    ForbiddenError,
    InvalidError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Preconditions,
    ReadWriter,
    Resource,
    UnavailableError,
)
from bursar.app.install.documents import Document
from bursar.app.migration.guard import GUARD, guard_documents, shared_gate_conditions
from bursar.app.migration.installation import Group, Installation, Manifest
from bursar.app.migration.plan import (
    Step,
    gate_objects,
    is_gate_shared,
    objects_to_uninstall,
)
from bursar.app.migration.state import (
    LOCKS,
    REPLICAS_ANNOTATION,
    OwnedObject,
    State,
    are_bursars,
    is_bursars,
)
from bursar.app.names import CONTROLLER, GATING_ANNOTATION
from bursar.app.quota.kinds import AAQS, GROUP, JOB_QUEUE_CONFIGS
from bursar.wire.aaq_installation import DeploymentFacts, Metadata, WebhookFacts

FIELD_MANAGER: Final = "kubectl"
"""The field manager of kubectl: if a user applies the same manifests later, nothing conflicts."""
JOB_QUEUE: Final = "aaqjqc"
"""The name of the AAQJobQueueConfig in each namespace."""
IN_FLIGHT_MAX: Final = 16
REPEATS_MAX: Final = 2
"""How often a request is repeated at once."""

Effect = Callable[[ReadWriter, State], Awaitable[None]]


async def perform(step: Step, cluster: ReadWriter, state: State) -> None:
    """Carry out a step. Steps that only wait do nothing. Raises `ClusterError`."""
    effect = EFFECTS.get(step)
    if effect is not None:
        await effect(cluster, state)


# ------------------------------------------------------------------ guard and ownership


async def _guard(cluster: ReadWriter, state: State) -> None:
    selector = None if state.aaq is None else state.aaq.selector
    policy, binding = guard_documents(selector, state.home)
    await _apply(cluster, VALIDATING_POLICIES, Key("", GUARD), policy)
    await _apply(cluster, VALIDATING_BINDINGS, Key("", GUARD), binding)


async def _unguard(cluster: ReadWriter, _: State) -> None:
    await _delete(cluster, VALIDATING_BINDINGS, Key("", GUARD))
    await _delete(cluster, VALIDATING_POLICIES, Key("", GUARD))


async def _protect(cluster: ReadWriter, state: State) -> None:
    for each in state.owned:
        await _disown(cluster, each)


async def _disown(cluster: ReadWriter, owned: OwnedObject) -> None:
    """Remove AAQ from the owners. Its place in the list is known at this resourceVersion only."""
    places = [
        index
        for index, owner in enumerate(owned.metadata.owners)
        if (owner.group, owner.kind) == (GROUP, AAQS.kind)
    ]
    operations: list[Json] = [
        {"op": "remove", "path": f"/metadata/ownerReferences/{index}"} for index in reversed(places)
    ]
    identity = _identity(owned.metadata)
    patch = fenced_patch(identity, operations, is_exact=True)
    await _if_found(cluster.patch(owned.resource, owned.key, patch))


# ------------------------------------------------------------------ Deployments


async def _stop_operator(cluster: ReadWriter, state: State) -> None:
    await _scale_to_zero(cluster, state.operator, is_remembered=True)


async def _stop_controller(cluster: ReadWriter, state: State) -> None:
    """Scale the controller to zero: that of AAQ, or on the way back that of Bursar."""
    await _scale_to_zero(cluster, state.controller)


async def _scale_to_zero(
    cluster: ReadWriter, deployment: DeploymentFacts | None, *, is_remembered: bool = False
) -> None:
    if deployment is None or not deployment.replicas:
        return
    metadata = deployment.metadata
    noted = {REPLICAS_ANNOTATION: str(deployment.replicas)} if is_remembered else {}
    # Without the resourceVersion: the status of a Deployment changes all the time.
    body: Json = {
        "metadata": {"uid": metadata.uid, "annotations": noted},
        "spec": {"replicas": 0},
    }
    patch = Patch(kind=PatchKind.MERGE, body=body)
    await _if_found(cluster.patch(DEPLOYMENTS, _key(metadata), patch))


async def _remove_controller(cluster: ReadWriter, state: State) -> None:
    if state.controller is not None:
        await _delete_exactly(cluster, DEPLOYMENTS, state.controller.metadata)


async def _start_operator(cluster: ReadWriter, state: State) -> None:
    if state.operator is None:
        return
    metadata = state.operator.metadata
    before = metadata.annotations.get(REPLICAS_ANNOTATION, "")
    replicas = int(before) if before.isdecimal() and int(before) else 1
    kept = {key: value for key, value in metadata.annotations.items() if key != REPLICAS_ANNOTATION}
    operations = [put("/spec/replicas", replicas), put("/metadata/annotations", dict(kept))]
    patch = fenced_patch(_identity(metadata), operations, is_exact=True)
    await cluster.patch(DEPLOYMENTS, _key(metadata), patch)


# ------------------------------------------------------------------ AAQ's webhook


async def _share_gate(cluster: ReadWriter, state: State) -> None:
    found = state.mutating
    if found is None:
        return
    conditions: Json = list[Json](shared_gate_conditions(state.home))
    operations = [
        put(f"/webhooks/{index}/matchConditions", conditions)
        for index in range(len(found.webhooks))
    ]
    patch = fenced_patch(_identity(found.metadata), operations, is_exact=True)
    await _if_found(cluster.patch(MUTATING_WEBHOOKS, _key(found.metadata), patch))


async def _remove_webhooks(cluster: ReadWriter, state: State) -> None:
    found: tuple[tuple[Resource, WebhookFacts | None], ...] = (
        (MUTATING_WEBHOOKS, state.mutating),
        (VALIDATING_WEBHOOKS, state.validating),
    )
    for resource, webhooks in found:
        if webhooks is not None and not are_bursars(webhooks):
            await _delete_exactly(cluster, resource, webhooks.metadata)


async def _remove_server(cluster: ReadWriter, state: State) -> None:
    if state.server is not None and not is_bursars(state.server.metadata):
        await _delete_exactly(cluster, DEPLOYMENTS, state.server.metadata)
    if state.service is not None and not is_bursars(state.service):
        await _delete_exactly(cluster, SERVICES, state.service)


# ------------------------------------------------------------------ Bursar's objects


async def _install(cluster: ReadWriter, state: State) -> None:
    """Apply all but the webhook. The annotation of an earlier controller of Bursar's goes first."""
    await _forget_activation(cluster, state)
    await _apply_group(cluster, state, Group.FIRST)


async def _install_server(cluster: ReadWriter, state: State) -> None:
    await _apply_group(cluster, state, Group.SERVER)


async def _install_webhooks(cluster: ReadWriter, state: State) -> None:
    await _apply_group(cluster, state, Group.WEBHOOKS)


async def _apply_group(cluster: ReadWriter, state: State, group: Group) -> None:
    for each in () if state.installation is None else state.installation.of(group):
        await _apply_manifest(cluster, each)


async def _apply_manifest(cluster: ReadWriter, manifest: Manifest) -> None:
    try:
        await _apply(cluster, manifest.resource, manifest.key, manifest.body)
    except InvalidError:
        if not manifest.kind.endswith("RoleBinding"):
            raise
        # The role of a binding cannot be changed. AAQ's binding of this name has another one.
        await _delete(cluster, manifest.resource, manifest.key)
        await _apply(cluster, manifest.resource, manifest.key, manifest.body)


async def refusals_of(cluster: ReadWriter, installation: Installation) -> tuple[str, ...]:
    """What the API server would refuse in the manifests, as far as a dry-run can tell.

    Deployments are left out: AAQ's have the same names, and other selectors of pods, which cannot
    be changed. They are deleted first.
    """
    found = []
    for each in installation.of(Group.FIRST):
        if each.resource == DEPLOYMENTS:
            continue
        patch = _application(each.body)
        try:
            await cluster.patch(each.resource, each.key, patch, is_dry_run=True)
        except InvalidError as error:
            if not each.kind.endswith("RoleBinding"):
                found.append(f"{each}: {error.message}")
        except (ForbiddenError, NotFoundError) as error:
            found.append(f"{each}: {error.message}")
    return tuple(found)


async def _uninstall(cluster: ReadWriter, state: State) -> None:
    for each in objects_to_uninstall(state):
        await _delete(cluster, each.resource, each.key)


async def _remove_gate(cluster: ReadWriter, state: State) -> None:
    # Bindings come before policies, and the gate before its protection.
    gates = sorted(gate_objects(state), key=lambda each: (each.key.name, not _is_binding(each)))
    for each in gates:
        await _delete(cluster, each.resource, each.key)
    await _forget_activation(cluster, state)
    if is_gate_shared(state) and state.mutating is not None:
        await _unshare_gate(cluster, state.mutating)


async def _unshare_gate(cluster: ReadWriter, webhooks: WebhookFacts) -> None:
    """Remove the match conditions from AAQ's webhook. AAQ's operator would do so as well."""
    operations = [
        remove(f"/webhooks/{index}/matchConditions") for index in range(len(webhooks.webhooks))
    ]
    patch = fenced_patch(_identity(webhooks.metadata), operations, is_exact=True)
    request = cluster.patch(MUTATING_WEBHOOKS, _key(webhooks.metadata), patch)
    await _if_found(request)


def _is_binding(manifest: Manifest) -> bool:
    return manifest.kind.endswith("Binding")


async def _forget_activation(cluster: ReadWriter, state: State) -> None:
    body: Json = {"metadata": {"annotations": {GATING_ANNOTATION: None}}}
    patch = Patch(kind=PatchKind.MERGE, body=body)
    await _if_found(cluster.patch(SERVICE_ACCOUNTS, Key(state.home, CONTROLLER), patch))


# ------------------------------------------------------------------ AAQ's locks


async def _remove_locks(cluster: ReadWriter, state: State) -> None:
    for each in state.job_queues:
        await _delete(cluster, JOB_QUEUE_CONFIGS, _key(each.metadata))


async def _lock(cluster: ReadWriter, state: State) -> None:
    """Lock every gated namespace, and clear the lists of pods that AAQ would release unchecked.

    AAQ's gate controller releases nothing in a locked namespace until its other controllers have
    counted the pods again and have removed the locks.
    """
    stale = {each.metadata.namespace for each in state.job_queues if each.pods}
    slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def lock(namespace: str) -> None:
        async with slots:
            await _lock_namespace(cluster, namespace)

    async with asyncio.TaskGroup() as tasks:
        for namespace in sorted({*state.gated_namespaces, *stale}):
            tasks.create_task(lock(namespace))


async def _lock_namespace(cluster: ReadWriter, namespace: str) -> None:
    body: Json = {
        "apiVersion": JOB_QUEUE_CONFIGS.api_version,
        "kind": JOB_QUEUE_CONFIGS.kind,
        "metadata": {"name": JOB_QUEUE},
        "spec": {},
    }
    try:
        await cluster.create(JOB_QUEUE_CONFIGS, body, namespace=namespace)
    except AlreadyExistsError:
        pass
    except NotFoundError:
        return  # The namespace is gone.
    status: Json = {"podsInJobQueue": [], "controllerLock": dict.fromkeys(LOCKS, True)}
    patch = Patch(kind=PatchKind.MERGE, body={"status": status})
    await cluster.patch(JOB_QUEUE_CONFIGS, Key(namespace, JOB_QUEUE), patch, subresource="status")


# ------------------------------------------------------------------ requests


async def _apply(
    cluster: ReadWriter, resource: Resource, key: Key, body: Mapping[str, Json] | Document
) -> None:
    patch = _application(body)
    await _repeated(lambda: cluster.patch(resource, key, patch))


def _application(body: Mapping[str, Json]) -> Patch:
    return Patch(kind=PatchKind.APPLY, body=body, field_manager=FIELD_MANAGER, is_forced=True)


async def _delete(cluster: ReadWriter, resource: Resource, key: Key) -> None:
    await _if_found(_repeated(lambda: cluster.delete(resource, key)))


async def _delete_exactly(cluster: ReadWriter, resource: Resource, metadata: Metadata) -> None:
    """Delete the object that was read, and not another one that has its name by now."""
    conditions = Preconditions(uid=metadata.uid)
    await _if_found(cluster.delete(resource, _key(metadata), preconditions=conditions))


async def _repeated(request: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request that may be repeated, if the API server does not answer.

    Otherwise one lost answer among many would begin a step of many requests again.
    """
    for _ in range(REPEATS_MAX):
        try:
            await request()
        except (BusyError, UnavailableError):
            continue
        return
    await request()


async def _if_found(request: Awaitable[object]) -> None:
    with contextlib.suppress(NotFoundError):
        await request


def _identity(metadata: Metadata) -> Identity:
    return Identity(_key(metadata), metadata.uid, metadata.resource_version)


def _key(metadata: Metadata) -> Key:
    return Key(metadata.namespace, metadata.name)


EFFECTS: Final[Mapping[Step, Effect]] = {
    Step.GUARD: _guard,
    Step.PROTECT: _protect,
    Step.STOP_OPERATOR: _stop_operator,
    Step.STOP_CONTROLLER: _stop_controller,
    Step.REMOVE_CONTROLLER: _remove_controller,
    Step.SHARE_GATE: _share_gate,
    Step.INSTALL: _install,
    Step.INSTALL_SERVER: _install_server,
    Step.INSTALL_WEBHOOKS: _install_webhooks,
    Step.REMOVE_WEBHOOKS: _remove_webhooks,
    Step.REMOVE_SERVER: _remove_server,
    Step.REMOVE_LOCKS: _remove_locks,
    Step.UNGUARD: _unguard,
    Step.STOP_BURSAR: _stop_controller,
    Step.REMOVE_BURSAR: _remove_controller,
    Step.LOCK: _lock,
    Step.UNINSTALL: _uninstall,
    Step.START_AAQ: _start_operator,
    Step.REMOVE_GATE: _remove_gate,
}
"""START, AWAIT_AAQ and VERIFY have no effect: they wait for other programs."""
