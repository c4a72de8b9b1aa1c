"""The cluster that the parts of a simulation work on, embedded or real."""

from typing import Any, Final, Protocol, TypeAlias

import msgspec

from bursar.app.cluster.ports import Reader, Watcher, Writer
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.fields import FieldError

Raw: TypeAlias = dict[str, Any]
"""Decoded JSON of an object. Controllers pass on fields that they do not know."""


class Cluster(Reader, Writer, Watcher, Protocol):
    """The ports that a simulation needs."""


_POD: Final = msgspec.json.Decoder(wire_pod.Pod)
_NODE: Final = msgspec.json.Decoder(wire_node.Node)


def find_pod(body: bytes | None) -> Pod | None:
    """The decoded pod; None if there is no body or it cannot be decoded."""
    try:
        return None if body is None else wire_pod.to_core(_POD.decode(body))
    except (FieldError, msgspec.ValidationError):
        return None


def find_node(body: bytes | None) -> Node | None:
    """The decoded node; None if there is no body or it cannot be decoded."""
    try:
        return None if body is None else wire_node.to_core(_NODE.decode(body))
    except (FieldError, msgspec.ValidationError):
        return None


def is_newer(raw: Raw, held: Raw | None) -> bool:
    """Whether `raw` is a later state of the object than `held`.

    A controller sees its own write twice: in the response and through the watch.
    """
    if held is None or raw["metadata"]["uid"] != held["metadata"]["uid"]:
        return True
    return int(raw["metadata"]["resourceVersion"]) > int(held["metadata"]["resourceVersion"])
