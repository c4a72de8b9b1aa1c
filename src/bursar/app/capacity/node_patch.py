"""The patch of a node: amounts, and in the same patch the annotation that says they are ours.

The status subresource of a node accepts annotations, so one patch writes both, and no reader
sees an amount of ours without the annotation. The patch is fenced by resourceVersion: a node
that has changed meanwhile is reconciled again.

Upstream's advertisers write only `capacity`, and a kubelet copies it to `allocatable` with its
next report. The patch writes both, because nothing can be reserved of an extended resource,
and a node without a kubelet would never get `allocatable`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.patches import fenced_patch, put, remove
from bursar.app.cluster.ports import Json, Patch
from bursar.core.model.resources import ResourceList
from bursar.core.peerpods.capacity import (
    MARK_ANNOTATION,
    OVERRIDE_ANNOTATION,
    CapacityAction,
    CapacityNode,
    Settlement,
)
from bursar.wire.json_pointer import pointer

STATUS: Final = "status"

Override = Mapping[str, int | None]


def node_patch(
    identity: Identity,
    node: CapacityNode,
    settlements: Iterable[Settlement],
    *,
    override: Override | None = None,
) -> Patch | None:
    """The patch of the status of a node; None if there is nothing to write.

    `override` replaces the override annotation; None keeps it.
    """
    writes = [each for each in settlements if each.action.is_write]
    annotations = _annotations(node, writes, override)
    operations = [
        *_amounts("capacity", node.capacity, writes, whole=not node.has_capacity),
        *_amounts("allocatable", _allocatable(node), writes, whole=not node.has_allocatable),
        *_texts(annotations, whole=not node.has_annotations),
    ]
    if not operations:
        return None
    return fenced_patch(identity, operations, is_exact=True)


def _allocatable(node: CapacityNode) -> ResourceList:
    """`status.allocatable`; if the node has none, `status.capacity`."""
    return node.allocatable if node.has_allocatable else node.capacity


def _amounts(name: str, held: ResourceList, writes: list[Settlement], *, whole: bool) -> list[Json]:
    path = f"/status/{name}"
    amounts = {each.resource: each.amount for each in writes if each.action is CapacityAction.SET}
    if whole:
        if not amounts:
            return []
        texts = {key: str(amount) for key, amount in {**held, **amounts}.items()}
        return [put(path, texts)]
    return [
        *(put(pointer(path, key), str(amount)) for key, amount in amounts.items()),
        *(
            remove(pointer(path, each.resource))
            for each in writes
            if each.action is CapacityAction.WITHDRAW and each.resource in held
        ),
    ]


def _annotations(
    node: CapacityNode, writes: list[Settlement], override: Override | None
) -> dict[str, str | None]:
    """The annotations to write; None for one to remove."""
    marked = dict(node.marked)
    for each in writes:
        if each.action is CapacityAction.SET and each.amount is not None:
            marked[each.resource] = each.amount
        else:
            marked.pop(each.resource, None)
    changed: dict[str, str | None] = {}
    if marked != node.marked:
        changed[MARK_ANNOTATION] = _text(marked)
    if override is not None and (node.problem or override != node.override):
        changed[OVERRIDE_ANNOTATION] = _text(override)
    return changed


def _text(amounts: Override) -> str | None:
    return json.dumps(amounts, sort_keys=True) if amounts else None


def _texts(annotations: Mapping[str, str | None], *, whole: bool) -> list[Json]:
    path = "/metadata/annotations"
    if whole:
        kept = {key: text for key, text in annotations.items() if text is not None}
        return [put(path, kept)] if kept else []
    return [
        remove(pointer(path, key)) if text is None else put(pointer(path, key), text)
        for key, text in annotations.items()
    ]
