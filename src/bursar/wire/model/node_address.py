"""Decoding of a node's addresses and of the port of its kubelet.

These fields have a module of their own because the agent reads nothing else of a node: it does
not load the model of nodes.
"""

import msgspec

from bursar.wire.structs.struct import Struct


class Address(Struct):
    type: str | None = None
    address: str | None = None


class DaemonEndpoint(Struct):
    port: int | None = msgspec.field(name="Port", default=None)


class DaemonEndpoints(Struct):
    kubelet_endpoint: DaemonEndpoint | None = None


class AddressedStatus(Struct):
    addresses: list[Address] | None = None
    daemon_endpoints: DaemonEndpoints | None = None


class AddressedNode(Struct):
    status: AddressedStatus | None = None
