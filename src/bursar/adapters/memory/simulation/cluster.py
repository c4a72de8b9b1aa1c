"""What the parts of a simulation see of a cluster, embedded or real."""

from typing import Any, Final, Protocol, TypeAlias

import msgspec

from bursar.app.cluster.ports import Reader, Watcher, Writer
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.fields import FieldError

Raw: TypeAlias = dict[str, Any]
"""An object as JSON gives it: controllers pass on fields they know nothing about."""


class Cluster(Reader, Writer, Watcher, Protocol):
    """All that a simulation needs."""


_POD: Final = msgspec.json.Decoder(wire_pod.Pod)
_NODE: Final = msgspec.json.Decoder(wire_node.Node)


def find_pod(body: bytes | None) -> Pod | None:
    """The pod, or None if there is none or it makes no sense: one pod must not stop the rest."""
    try:
        return None if body is None else wire_pod.to_core(_POD.decode(body))
    except (FieldError, msgspec.ValidationError):
        return None


def find_node(body: bytes | None) -> Node | None:
    """Likewise a node."""
    try:
        return None if body is None else wire_node.to_core(_NODE.decode(body))
    except (FieldError, msgspec.ValidationError):
        return None


def is_newer(raw: Raw, held: Raw | None) -> bool:
    """Whether this is a later state of an object than the one held.

    What we wrote comes back to us twice, as the answer and through the watch.
    """
    if held is None or raw["metadata"]["uid"] != held["metadata"]["uid"]:
        return True
    return int(raw["metadata"]["resourceVersion"]) > int(held["metadata"]["resourceVersion"])
