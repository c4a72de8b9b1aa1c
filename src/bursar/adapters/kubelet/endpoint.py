"""Where a node's kubelet listens: as configured, or as the Node object says.

A node may restart with another address, and the kubelet with another port. So the Node object is
read again after a request to the kubelet failed. If the API server cannot be reached either, the
last known endpoint stays in use.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import Clock, ClusterError, Key, Reader
from bursar.app.devices.ports import SourceError
from bursar.wire.model.node_address import AddressedNode, AddressedStatus
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import printable

SECURE_PORT: Final = 10250
READ_ONLY_PORT: Final = 10255
ADDRESS_TYPES: Final = ("InternalIP", "Hostname", "InternalDNS", "ExternalIP", "ExternalDNS")
"""Preferred address types of a node, best first."""
REREAD_SECONDS: Final = 10.0
"""Shortest time between two reads of the Node object."""
READ_SECONDS: Final = 3.0
_LINE_LENGTH_MAX: Final = 512


class Endpoint(NamedTuple):
    host: str
    port: int


class EndpointSource(Protocol):
    async def find(self) -> Endpoint:
        """Return the kubelet's endpoint. Raises `SourceError`."""

    def invalidate(self) -> None:
        """A request to the endpoint failed: look it up again."""


@dataclass(frozen=True, slots=True)
class FixedEndpoint:
    """The configured endpoint."""

    endpoint: Endpoint

    async def find(self) -> Endpoint:
        return self.endpoint

    def invalidate(self) -> None:
        """Do nothing: there is no other endpoint."""


class NodeEndpoint:
    """The endpoint in the status of the Node object; a configured port wins."""

    def __init__(
        self,
        reader: Reader,
        node: str,
        *,
        clock: Clock,
        address_types: Sequence[str] = ADDRESS_TYPES,
        port: int = 0,
    ) -> None:
        self._reader = reader
        self._node = node
        self._clock = clock
        self._address_types = address_types
        self._port = port
        self._last: Endpoint | None = None
        self._read_at = float("-inf")
        self._is_stale = False

    async def find(self) -> Endpoint:
        if self._last is not None and not self._is_due():
            return self._last
        try:
            found = await self._read()
        except SourceError:
            if self._last is None:
                raise
            return self._last
        self._last, self._is_stale = found, False
        return found

    def invalidate(self) -> None:
        self._is_stale = True

    def _is_due(self) -> bool:
        return self._is_stale and self._clock.monotonic() - self._read_at >= REREAD_SECONDS

    async def _read(self) -> Endpoint:
        self._read_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await self._reader.get(NODES, Key("", self._node))
        except TimeoutError:
            raise self._fault(f"no answer within {READ_SECONDS:g} s") from None
        except ClusterError as error:
            raise self._fault(str(error)) from None
        try:
            status = decode_body(body, AddressedNode).status or AddressedStatus()
        except ValueError:
            raise self._fault("the Node object cannot be read") from None
        host = _preferred(status, self._address_types)
        if not host:
            wanted = ", ".join(self._address_types)
            raise self._fault(f"the Node object has no address of these types: {wanted}")
        return Endpoint(host, self._port or _port(status))

    def _fault(self, problem: str) -> SourceError:
        line = f"the address of the kubelet of node {self._node} is not known: {problem}"
        return SourceError(printable(line, _LINE_LENGTH_MAX))


# ------------------------------------------------------------------ the Node object


def _preferred(status: AddressedStatus, types: Sequence[str]) -> str:
    by_type: Mapping[str, str] = {
        each.type or "": each.address or "" for each in reversed(status.addresses or ())
    }
    return next((by_type[each] for each in types if by_type.get(each)), "")


def _port(status: AddressedStatus) -> int:
    daemons = status.daemon_endpoints
    kubelet = daemons.kubelet_endpoint if daemons else None
    return (kubelet.port if kubelet else None) or SECURE_PORT
