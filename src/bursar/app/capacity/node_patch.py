"""What is written to a node: amounts, and in the same write the mark that they are ours.

The status of a node takes annotations as well, so one write does it all, and nobody ever
sees an amount of ours without its mark. It names the very state that was decided about: a
node that has changed since is looked at again.

Capacity is what upstream's advertisers write; a kubelet copies it to what pods may use at
its next report. We write both. That is what a kubelet would make of it, since nothing can be
set aside of an extended resource, and where no kubelet looks after a node nobody else would.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Json, Patch, PatchKind
from bursar.core.model.resources import ResourceList
from bursar.core.peerpods.capacity import (
    MARK_ANNOTATION,
    OVERRIDE_ANNOTATION,
    CapacityNode,
    Settlement,
    Verdict,
)

STATUS: Final = "status"

Override = Mapping[str, int | None]


def node_patch(
    identity: Identity,
    node: CapacityNode,
    settlements: Iterable[Settlement],
    *,
    override: Override | None = None,
) -> Patch | None:
    """A patch of the status of a node; None if there is nothing to write.

    With `override` the node's own wishes are replaced by these.
    """
    writes = [each for each in settlements if each.verdict.is_write]
    annotations = _annotations(node, writes, override)
    operations = [
        *_amounts("capacity", node.capacity, writes, whole=not node.has_capacity),
        *_amounts("allocatable", _offered(node), writes, whole=not node.has_allocatable),
        *_texts(annotations, whole=not node.has_annotations),
    ]
    if not operations:
        return None
    tests: list[Json] = [
        {"op": "test", "path": "/metadata/uid", "value": identity.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": identity.resource_version},
    ]
    return Patch(kind=PatchKind.JSON, body=[*tests, *operations])


def _offered(node: CapacityNode) -> ResourceList:
    """What pods may use. A node that does not say so offers all it has."""
    return node.allocatable if node.has_allocatable else node.capacity


def _amounts(name: str, held: ResourceList, writes: list[Settlement], *, whole: bool) -> list[Json]:
    path = f"/status/{name}"
    amounts = {each.resource: each.amount for each in writes if each.verdict is Verdict.SET}
    if whole:
        if not amounts:
            return []
        texts = {key: str(amount) for key, amount in {**held, **amounts}.items()}
        return [{"op": "add", "path": path, "value": texts}]
    return [
        *(_add(path, key, str(amount)) for key, amount in amounts.items()),
        *(
            _remove(path, each.resource)
            for each in writes
            if each.verdict is Verdict.WITHDRAW and each.resource in held
        ),
    ]


def _annotations(
    node: CapacityNode, writes: list[Settlement], override: Override | None
) -> dict[str, str | None]:
    """The annotations to write; None for one that has to go."""
    marked = dict(node.marked)
    for each in writes:
        if each.verdict is Verdict.SET and each.amount is not None:
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
        return [{"op": "add", "path": path, "value": kept}] if kept else []
    return [
        _remove(path, key) if text is None else _add(path, key, text)
        for key, text in annotations.items()
    ]


def _add(path: str, key: str, value: str) -> Json:
    return {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}


def _remove(path: str, key: str) -> Json:
    return {"op": "remove", "path": f"{path}/{_escaped(key)}"}


def _escaped(key: str) -> str:
    """As a step of a JSON pointer.

    >>> _escaped("kata.peerpods.io/vm")
    'kata.peerpods.io~1vm'
    """
    return key.replace("~", "~0").replace("/", "~1")
