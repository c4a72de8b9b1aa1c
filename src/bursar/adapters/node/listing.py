"""The List response of a PodResources socket, for `bursar devices --socket`.

Every function raises `CallError` if the call fails, and `ValueError` if the response is no message
of the API.
"""

from typing import Final

from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.app.devices.ports import Method, Version
from bursar.core.devices.rows import Listing
from bursar.wire.devices.pod_resources.listing import decode_listing, listing_as_json

CALL_SECONDS: Final = 10.0


async def read_socket(path: str) -> Listing:
    return decode_listing(await _call(path))


async def read_socket_as_json(path: str) -> str:
    return listing_as_json(await _call(path))


async def _call(path: str) -> bytes:
    async with KubeletSocket(path) as kubelet:
        return await kubelet.call(Version.V1, Method.LIST, b"", CALL_SECONDS)
