"""A device plugin: it registers a resource with kubelet, and its devices go to pods.

The messages are those of kubelet's device plugin API, v1beta1. They are encoded by hand: each has
few fields.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import grpc

VERSION = "v1beta1"
SERVICE = f"{VERSION}.DevicePlugin"
REGISTER = f"/{VERSION}.Registration/Register"
KUBELET = "kubelet.sock"
PATIENCE_S = 60
TEXT = 2
"""The wire type of strings and messages."""
EMPTY = b""


@contextmanager
def device_plugin(folder: Path, resource: str, devices: Sequence[str]) -> Iterator[None]:
    """Offer healthy devices to the kubelet that has this folder, until the block ends."""
    socket = folder / f"{resource.replace('/', '-')}.sock"
    plugin = _Plugin(devices)
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers([plugin.handlers()])
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        _register(folder / KUBELET, socket.name, resource)
        yield
    finally:
        plugin.ended.set()
        server.stop(None).wait()
        socket.unlink(missing_ok=True)


class _Plugin:
    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self.ended = Event()

    def handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self._options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
                "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
            },
        )

    def _options(self, request: bytes, context: Any) -> bytes:
        del request, context
        return EMPTY

    def _list(self, request: bytes, context: Any) -> Iterator[bytes]:
        """All devices once. The stream stays open: its end would mean that the plugin is gone."""
        del request, context
        found = [_text(1, each) + _text(2, "Healthy") for each in self._devices]
        yield b"".join(_field(1, each) for each in found)
        self.ended.wait()

    def _allocate(self, request: bytes, context: Any) -> bytes:
        """For each container the ids of its devices, in the variable DEVICES."""
        del context
        found = []
        for container in _texts(request):
            ids = ",".join(each.decode() for each in _texts(container))
            found.append(_field(1, _field(1, _text(1, "DEVICES") + _text(2, ids))))
        return b"".join(found)


def _register(kubelet: Path, endpoint: str, resource: str) -> None:
    request = _text(1, VERSION) + _text(2, endpoint) + _text(3, resource)
    with grpc.insecure_channel(f"unix:{kubelet}") as channel:
        channel.unary_unary(REGISTER)(request, timeout=PATIENCE_S, wait_for_ready=True)


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 1 << 7, "a length of one byte"
    return bytes((number << 3 | TEXT, len(content))) + content


def _texts(message: bytes) -> Iterator[bytes]:
    """The contents of all fields of a message that has only strings and messages."""
    while message:
        assert message[0] & 7 == TEXT, message
        assert message[1] < 1 << 7, message
        end = 2 + message[1]
        yield message[2:end]
        message = message[end:]
