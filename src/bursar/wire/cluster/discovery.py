"""API discovery: what a server says of the resources of one version of an API group."""

from bursar.wire.structs.body import decode_body
from bursar.wire.structs.struct import Struct


class _Resource(Struct):
    name: str | None = None
    verbs: list[str] | None = None


class _ResourceList(Struct):
    resources: list[_Resource] | None = None


def decode_verbs(body: bytes, plural: str) -> frozenset[str]:
    """The verbs of a resource; none if the list does not have it. Raises `ValueError`.

    >>> sorted(decode_verbs(b'{"resources": [{"name": "pods", "verbs": ["get", "list"]}]}', "pods"))
    ['get', 'list']
    """
    for each in decode_body(body, _ResourceList).resources or ():
        if each.name == plural:
            return frozenset(each.verbs or ())
    return frozenset()
