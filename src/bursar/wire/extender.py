"""The scheduler's extender API: its requests and our responses.

The field names are those of Go's structs, capitalised. A scheduler with `nodeCacheCapable: true`
sends names of nodes; without it, whole nodes. Both forms of a request are answered in the same
form. The list of nodes is not decoded unless the answer needs it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from bursar.core.quota.ledger import PodKey
from bursar.wire.structs.body import UNREADABLE

_NULL: Final = b"null"


class ExtenderRequestError(ValueError):
    """A request that is not one of the extender API. The text is sent to the caller."""


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = msgspec.Raw(_NULL)
    nodes: msgspec.Raw = msgspec.Raw(_NULL)
    node_names: msgspec.Raw = msgspec.Raw(_NULL)


class _Identity(msgspec.Struct):
    """Of the metadata only what identifies: a request may have thousands of whole nodes."""

    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


class _NodeList(msgspec.Struct):
    items: list[_Object] | None = None


class _Victims(msgspec.Struct):
    pods: list[_Object] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _PreemptArgs(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = msgspec.Raw(_NULL)
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


class _BindArgs(msgspec.Struct):
    name: str = msgspec.field(name="PodName", default="")
    namespace: str = msgspec.field(name="PodNamespace", default="")
    uid: str = msgspec.field(name="PodUID", default="")
    node: str = msgspec.field(name="Node", default="")


_ARGS: Final = msgspec.json.Decoder(_Args)
_NAMES: Final = msgspec.json.Decoder(list[str])
_NODES: Final = msgspec.json.Decoder(_NodeList)
_PREEMPT: Final = msgspec.json.Decoder(_PreemptArgs)
_BIND: Final = msgspec.json.Decoder(_BindArgs)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequest:
    """A request of filter or prioritize."""

    pod: bytes
    """The pod as JSON."""
    nodes: bytes
    """The list of names, or of whole nodes, as JSON."""
    has_names: bool

    def names(self) -> list[str]:
        """The names of the nodes. Raises `ExtenderRequestError`."""
        try:
            if self.has_names:
                return _NAMES.decode(self.nodes)
            return [node.metadata.name for node in _NODES.decode(self.nodes).items or ()]
        except UNREADABLE:
            raise ExtenderRequestError("the nodes cannot be read") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """The pods of one node that would be evicted."""

    uids: tuple[str, ...]
    violations: int
    """PodDisruptionBudgets that the eviction would violate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptRequest:
    pod: bytes
    victims: Mapping[str, Victims]
    """By name of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    pod: PodKey
    uid: str
    node: str


def decode_filter(body: bytes) -> FilterRequest:
    """Decode a request of filter or prioritize. Raises `ExtenderRequestError`."""
    try:
        args = _ARGS.decode(body)
    except UNREADABLE:
        raise ExtenderRequestError("the body is not an ExtenderArgs object") from None
    names, nodes = bytes(args.node_names), bytes(args.nodes)
    if names == _NULL and nodes == _NULL:
        raise ExtenderRequestError("neither NodeNames nor Nodes is given")
    has_names = names != _NULL
    return FilterRequest(
        pod=bytes(args.pod), nodes=names if has_names else nodes, has_names=has_names
    )


def decode_preempt(body: bytes) -> PreemptRequest:
    """Raises `ExtenderRequestError`."""
    try:
        args = _PREEMPT.decode(body)
    except UNREADABLE:
        raise ExtenderRequestError("the body is not an ExtenderPreemptionArgs object") from None
    victims = {
        node: Victims(uids=tuple(pod.uid for pod in each.pods or ()), violations=each.violations)
        for node, each in (args.node_name_to_meta_victims or {}).items()
    }
    victims |= {
        node: Victims(
            uids=tuple(pod.metadata.uid for pod in each.pods or ()), violations=each.violations
        )
        for node, each in (args.node_name_to_victims or {}).items()
    }
    return PreemptRequest(pod=bytes(args.pod), victims=victims)


def decode_bind(body: bytes) -> BindRequest:
    """Raises `ExtenderRequestError`."""
    try:
        args = _BIND.decode(body)
    except UNREADABLE:
        raise ExtenderRequestError("the body is not an ExtenderBindingArgs object") from None
    if not (args.name and args.namespace and args.uid and args.node):
        raise ExtenderRequestError("PodName, PodNamespace, PodUID and Node are required")
    return BindRequest(pod=PodKey(args.namespace, args.name), uid=args.uid, node=args.node)


# ------------------------------------------------------------------ responses


def encode_pass(request: FilterRequest) -> bytes:
    """All nodes pass. They are returned as they were sent."""
    field = b"NodeNames" if request.has_names else b"Nodes"
    return b'{"%s":%s,"FailedNodes":null,"Error":""}' % (field, request.nodes)


def encode_refusal(request: FilterRequest, message: str) -> bytes:
    """No node passes. Raises `ExtenderRequestError`.

    The nodes are marked unresolvable: no eviction on a node frees enough of a pool for a pod that
    fits the node already, so the scheduler need not look for victims there.
    """
    failed = dict.fromkeys(request.names(), message)
    return msgspec.json.encode(
        {
            "NodeNames": [] if request.has_names else None,
            "Nodes": None if request.has_names else {"items": []},
            "FailedAndUnresolvableNodes": failed,
            "Error": "",
        }
    )


def encode_filter_error(message: str) -> bytes:
    """The scheduler counts the attempt as failed, and tries again after its back-off."""
    return msgspec.json.encode({"Error": message})


def encode_scores(names: Iterable[str]) -> bytes:
    """The same score for all nodes: a pool is as near to one node as to another."""
    return msgspec.json.encode([{"Host": name, "Score": 0} for name in names])


def encode_victims(victims: Mapping[str, Victims]) -> bytes:
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in each.uids],
                    "NumPDBViolations": each.violations,
                }
                for node, each in victims.items()
            }
        }
    )


def encode_binding(error: str = "") -> bytes:
    return msgspec.json.encode({"Error": error})
