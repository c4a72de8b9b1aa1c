"""The embedded cluster: the ports of `app/cluster/ports.py` over objects in memory.

Behind the ports it behaves like an API server with its controllers; `tests/contracts` runs the
same suite on a real one. These are the differences:

- Built-in kinds have no schema. Unknown fields are kept, a wrong type is noticed only in
  metadata and in the fields of a pod that the core reads, and few defaults are filled in.
  Custom resources are neither validated nor pruned nor defaulted; only a CRD's storage
  version is served.
- Of pods, the rules about resources, gates and immutability are the server's; the text
  of a refused change names the fields where the server prints a diff.
- There are no users: no RBAC, no service account admission, no token volumes, no default
  tolerations. ResourceQuota and LimitRange are stored and not enforced.
- `managedFields` has entries of server-side apply only.
- Garbage collection and the emptying of namespaces happen at once, not in the background;
  `blockOwnerDeletion` is ignored, every deletion is a background one, and an object whose
  owners never existed stays until one that did exist goes.
- No controllers: Deployments make no pods. No conversion between versions of a kind, no
  core `v1` events beside `events.k8s.io`.
- A watch is never cut by a network failure unless a test calls `cut_watches`.

All calls run on one event loop. No call leaves a partial change at an await.
"""

import base64
import binascii
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from bursar.adapters.memory import defaults, errors, pods, writes
from bursar.adapters.memory.admission import Admission, Operation, Request, admitted
from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects import apply, metadata
from bursar.adapters.memory.objects.garbage_collection import GarbageCollector
from bursar.adapters.memory.objects.history import Stored, encoded
from bursar.adapters.memory.objects.objects import HISTORY_MAX, Objects
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.adapters.memory.objects.selection import Selection, parse_query
from bursar.adapters.memory.watches import Stream, Switch, WatchLimits
from bursar.app.cluster.kinds import BINDINGS, NAMESPACES, PODS, PRIORITY_CLASSES, RESIZE
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    Json,
    Key,
    NotFoundError,
    Page,
    Patch,
    PatchKind,
    Preconditions,
    Query,
    Resource,
    WatchEvent,
)

VERBS: Final = frozenset({"create", "delete", "get", "list", "patch", "watch"})
"""The verbs of every kind that is served."""
_ATTEMPTS: Final = 5
"""How often a patch is retried if the object changes meanwhile, as in the API server."""
_DEFAULT_LIMITS: Final = WatchLimits()


class MemoryCluster:
    """A cluster in memory. The same seed, clock and calls give the same objects."""

    def __init__(
        self,
        clock: Clock,
        *,
        source: random.Random,
        mutating: Sequence[Admission] = (),
        validating: Sequence[Admission] = (),
        history_max: int = HISTORY_MAX,
        limits: WatchLimits = _DEFAULT_LIMITS,
    ) -> None:
        self.objects = Objects(history_max=history_max)
        self._clock = clock
        self._source = source
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)
        self._limits = limits
        self._switch = Switch()
        self._garbage = GarbageCollector(self.objects, clock)
        self._create_system_objects()

    @property
    def revision(self) -> str:
        """The resourceVersion of the last write."""
        return str(self.objects.revision)

    # -------------------------------------------------------------- reading

    async def get(self, resource: Resource, key: Key) -> bytes:
        return self.objects.get(self.objects.kinds.of(resource), key).raw

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        kind = self.objects.kinds.of(resource)
        selection = parse_query(kind, query)
        revision, after = self.objects.revision, None
        if page:
            revision, after = _page_start(resource, page)
            if revision < self.objects.compacted:
                raise errors.page_expired(resource)
        found: list[Stored] = []
        for stored in self.objects.collection(kind).as_of(revision, selection.namespace, after):
            if selection.matches(stored.body):
                if limit and len(found) == limit:
                    return _page(kind, found, revision, _page_token(revision, found[-1]))
                found.append(stored)
        return _page(kind, found, revision)

    async def verbs(self, resource: Resource) -> frozenset[str]:
        try:
            kind = self.objects.kinds.of(resource)
        except NotFoundError:
            return frozenset()
        return VERBS - {"create"} if self.objects.is_ending(kind) else VERBS

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        kind = self.objects.kinds.of(resource)
        selection = parse_query(kind, query)
        initial: Sequence[Stored] = ()
        revision = self.objects.revision
        if send_initial or resource_version in {"", "0"}:
            initial = self._existing(kind, selection)
        else:
            revision = _moment(resource, resource_version)
            if revision < self.objects.compacted:
                raise errors.resource_version_expired(resource, revision, self.objects.compacted)
        stream = Stream(
            kind=kind,
            collection=self.objects.collection(kind),
            selection=selection,
            clock=self._clock,
            limits=self._limits,
            switch=self._switch,
            revision_now=lambda: self.objects.revision,
        )
        async with aclosing(stream.events(initial, revision, marks_end=send_initial)) as events:
            async for event in events:
                yield event

    def _existing(self, kind: Kind, selection: Selection) -> Sequence[Stored]:
        collection = self.objects.collection(kind)
        return [
            stored
            for key in collection.keys_in(selection.namespace)
            if selection.matches((stored := collection.objects[key]).body)
        ]

    # -------------------------------------------------------------- writing

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        if resource == BINDINGS:
            return self._bind(body, namespace, is_dry_run=is_dry_run)
        kind = self.objects.kinds.of(resource)
        received = writes.received(kind, None, body)
        key, named = writes.named(kind, received, namespace, self.objects, self._source)
        new = await self._admitted_new(kind, key, named, is_dry_run=is_dry_run)
        if received["metadata"].get("resourceVersion") and not is_dry_run:
            detail = "resourceVersion should not be set on objects to be created"
            raise errors.server_fault(resource, None, detail)
        return self._store_new(kind, key, new, is_dry_run=is_dry_run)

    async def _admitted_new(
        self, kind: Kind, key: Key, named: JsonObject, *, is_dry_run: bool
    ) -> JsonObject:
        """The new object after admission and validation, not stored yet."""
        writes.require_creatable(kind, key, self.objects)
        request = Request(
            operation=Operation.CREATE,
            resource=kind.resource,
            subresource="",
            key=key,
            old=None,
            new=writes.proposed(kind, key, named, self.objects),
            is_dry_run=is_dry_run,
        )
        request = await admitted(self._mutating, request)
        assert request.new is not None
        new = writes.created(kind, key, request.new, self._clock.now(), self._source)
        await admitted(self._validating, replace(request, new=new))
        return new

    def _store_new(self, kind: Kind, key: Key, new: JsonObject, *, is_dry_run: bool) -> bytes:
        present = self.objects.current(kind, key)
        if present is not None:
            ending = "deletionTimestamp" in present.body["metadata"]
            raise errors.already_exists(kind.resource, key, is_being_deleted=ending)
        writes.require_creatable(kind, key, self.objects)
        return encoded(new) if is_dry_run else self.objects.commit(kind, key, new).raw

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Patch,
        *,
        subresource: str = "",
        is_dry_run: bool = False,
    ) -> bytes:
        kind = self.objects.kinds.of(resource)
        target = writes.Target(kind=kind, key=key, subresource=subresource)
        for _ in range(_ATTEMPTS):
            present = self.objects.current(kind, key)
            if present is None and patch.kind is PatchKind.APPLY and not subresource:
                return await self._apply_new(target, patch, is_dry_run=is_dry_run)
            present = self.objects.get(kind, key)
            new = await self._updated(target, present.body, patch, is_dry_run=is_dry_run)
            if self.objects.current(kind, key) is present:
                return self._store_changed(target, present, new, is_dry_run=is_dry_run)
        raise errors.conflict(str(resource), resource, key)

    async def _updated(
        self, target: writes.Target, old: JsonObject, patch: Patch, *, is_dry_run: bool
    ) -> JsonObject:
        """The patched object after admission and validation, not stored yet."""
        is_applied = patch.kind is PatchKind.APPLY
        wanted = writes.patched(target, old, patch, self._clock.now())
        request = Request(
            operation=Operation.UPDATE,
            resource=target.kind.resource,
            subresource=target.subresource,
            key=target.key,
            old=old,
            new=writes.changed(target, old, wanted, is_applied=is_applied),
            is_dry_run=is_dry_run,
        )
        request = await admitted(self._mutating, request)
        assert request.new is not None
        new = writes.validated(target, old, request.new)
        if target.subresource == RESIZE:
            pods.require_node_for_resize(old, new, target.key, self.objects)
        if not is_applied:
            new = apply.disowned(target.kind, old, new)
        await admitted(self._validating, replace(request, new=new))
        return writes.with_generation(target, old, new)

    def _store_changed(
        self, target: writes.Target, present: Stored, new: JsonObject, *, is_dry_run: bool
    ) -> bytes:
        kind, key = target.kind, target.key
        if new == present.body:
            return present.raw
        if is_dry_run or self._garbage.remove_if_released(kind, key, new):
            return encoded(new)
        return self.objects.commit(kind, key, new).raw

    async def _apply_new(self, target: writes.Target, patch: Patch, *, is_dry_run: bool) -> bytes:
        """Create the object of an apply patch that does not exist yet."""
        kind, key = target.kind, target.key
        body = writes.applied_new(target, patch, self._clock.now())
        managed = body["metadata"].pop("managedFields", None)
        _, named = writes.named(
            kind, writes.received(kind, key, body), key.namespace, self.objects, self._source
        )
        new = await self._admitted_new(kind, key, named, is_dry_run=is_dry_run)
        if managed:
            new = {**new, "metadata": {**new["metadata"], "managedFields": managed}}
        return self._store_new(kind, key, new, is_dry_run=is_dry_run)

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        preconditions: Preconditions | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        kind = self.objects.kinds.of(resource)
        writes.require_deletable(kind, key)
        present = self.objects.get(kind, key)
        metadata.require_preconditions(kind, key, present.body["metadata"], preconditions)
        request = Request(
            operation=Operation.DELETE,
            resource=resource,
            subresource="",
            key=key,
            old=present.body,
            new=None,
            is_dry_run=False,
        )
        await admitted(self._validating, await admitted(self._mutating, request))
        present = self.objects.get(kind, key)
        metadata.require_preconditions(kind, key, present.body["metadata"], preconditions)
        self._garbage.delete(kind, key, grace_seconds)

    async def bind(
        self, pod: Key, uid: str, node: str, *, send_by: float, timeout_seconds: float
    ) -> None:
        """Bind the pod of this uid. The time limits have no effect here. Raises `ConflictError`."""
        del send_by, timeout_seconds
        kind = self.objects.kinds.of(PODS)
        present = self.objects.get(kind, pod)
        metadata.require_preconditions(kind, pod, present.body["metadata"], Preconditions(uid=uid))
        self.objects.commit(kind, pod, pods.bound(present.body, pod, node, self._clock.now()))

    def _bind(self, body: Json, namespace: str, *, is_dry_run: bool) -> bytes:
        """Bind a pod to a node. The response is a Status."""
        name, node = writes.binding_of(body)
        key = Key(namespace, name)
        kind = self.objects.kinds.of(PODS)
        present = self.objects.get(kind, key)
        pod = pods.bound(present.body, key, node, self._clock.now())
        if not is_dry_run:
            self.objects.commit(kind, key, pod)
        return encoded({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})

    # -------------------------------------------------------------- the world around

    def compact(self, resource_version: str = "") -> None:
        """Drop the watch history up to a resourceVersion, or all of it."""
        self.objects.compact(int(resource_version or self.objects.revision))

    def cut_watches(self, *, is_fault: bool = False) -> None:
        """End all watches, normally or with `UnavailableError`. New watches can start at once."""
        self._switch.is_cut, self._switch.is_fault = True, is_fault
        self._switch = Switch()
        self.objects.wake_all()

    async def put_as_written(self, resource: Resource, body: Json, *, namespace: str = "") -> bytes:
        """Create an object and keep its status, uid and creation time."""
        kind = self.objects.kinds.of(resource)
        written = writes.received(kind, None, body)
        kept = {
            name: written["metadata"][name]
            for name in ("uid", "creationTimestamp")
            if name in written["metadata"]
        }
        fields = {n: v for n, v in written["metadata"].items() if n != "resourceVersion"}
        stripped = {**written, "metadata": fields}
        key, named = writes.named(kind, stripped, namespace, self.objects, self._source)
        if resource == PODS:
            named = pods.without_admitted(named)
        new = await self._admitted_new(kind, key, named, is_dry_run=False)
        new = {**new, "metadata": {**new["metadata"], **kept}}
        if written.get("status"):
            new["status"] = {**new.get("status", {}), **written["status"]}
        return self._store_new(kind, key, new, is_dry_run=False)

    def restart_from(self, revision: int, saved: Sequence[tuple[str, JsonObject]]) -> None:
        """Replace all objects by saved ones, given as pairs of resource and object."""
        self.objects.replace_all(revision, saved)
        self.cut_watches()

    def _create_system_objects(self) -> None:
        for name in defaults.SYSTEM_NAMESPACES:
            self._put(NAMESPACES, {"metadata": {"name": name}})
        for name, value in defaults.SYSTEM_PRIORITIES.items():
            self._put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def _put(self, resource: Resource, body: JsonObject) -> None:
        kind = self.objects.kinds.of(resource)
        key, named = writes.named(
            kind, writes.received(kind, None, body), "", self.objects, self._source
        )
        new = writes.created(kind, key, named, self._clock.now(), self._source)
        self.objects.commit(kind, key, new)


# ------------------------------------------------------------------ pages and moments


def _page(kind: Kind, found: Sequence[Stored], revision: int, next_page: str = "") -> Page:
    # Items of a list of a built-in kind have no apiVersion and kind. Stored bytes begin with them.
    stated = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
    start = 0 if kind.is_custom else len(encoded(stated))
    return Page(
        items=tuple(b"{" + stored.raw[start:] if start else stored.raw for stored in found),
        resource_version=str(revision),
        next_page=next_page,
    )


def _page_token(revision: int, last: Stored) -> str:
    fields = last.body["metadata"]
    place = [revision, fields.get("namespace", ""), fields["name"]]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _page_start(resource: Resource, page: str) -> tuple[int, Key]:
    try:
        revision, namespace, name = json.loads(base64.urlsafe_b64decode(page))
        return int(revision), Key(str(namespace), str(name))
    except (ValueError, TypeError, binascii.Error):
        detail = "invalid continue token: continue key is not valid"
        raise errors.bad_request(resource, None, detail) from None


def _moment(resource: Resource, resource_version: str) -> int:
    if not resource_version.isdecimal():
        shown = f'"{resource_version}"'
        detail = (
            f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: "
            "invalid syntax"
        )
        raise errors.server_fault(resource, None, detail)
    return int(resource_version)
