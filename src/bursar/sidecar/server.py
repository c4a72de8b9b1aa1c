"""A server of AAQ's sidecar protocol, for Bursar's controller and for AAQ's.

A sidecar is a function from a pod to amounts::

    from bursar.sidecar import serve


    def count(pod):
        if "notebook" in pod["metadata"].get("labels", {}):
            return {"instances/notebook": 1}
        return None


    serve(count)
"""

import inspect
import json
import os
import secrets
import signal
import string
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, overload
from urllib.parse import quote

import grpc

from bursar.wire.counting.protocol import evaluate_pb2 as pb

FOLDER: Final = "/var/run/aaq-sockets"
"""AAQ's folder of sockets."""
MESSAGE_BYTES_MAX: Final = 64 * 2**20
CALLS_MAX: Final = 4
STOP_SECONDS: Final = 5.0
NAMES_TRIED_MAX: Final = 10
_CHARACTERS: Final = string.ascii_lowercase + string.digits

Pod: TypeAlias = dict[str, Any]
"""A pod as the API server writes it in JSON."""
Amounts: TypeAlias = Mapping[str, int | str]
Count: TypeAlias = Callable[[Pod], Amounts | None] | Callable[[Pod, Sequence[Pod]], Amounts | None]
"""Amounts by resource name, as whole numbers or in the notation of Kubernetes ("500m", "2Gi").

None means that the pod is not one that this sidecar counts. The second parameter, if the function
has one without a default, receives all pods of the namespace.
"""


def serve(count: Count, folder: str = FOLDER) -> None:
    """Answer the controller's questions until SIGTERM or SIGINT. Call it in the main thread.

    The function may be called by several threads at a time. An exception that it raises is
    reported to the controller, which holds the pod.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with serving(count, folder) as path:
        sys.stderr.write(f"answering on {path}\n")
        stopping.wait()


@contextmanager
def serving(count: Count, folder: str = FOLDER) -> Iterator[Path]:
    """Answer in threads of this process, on the socket that this yields."""
    path = _free_path(Path(folder))
    server = grpc.server(
        ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="count"),
        options=(
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ),
    )
    server.add_generic_rpc_handlers((_service(count),))
    server.add_insecure_port("unix:" + quote(os.fsencode(path)))
    server.start()
    try:
        yield path
    finally:
        server.stop(STOP_SECONDS).wait()
        with suppress(FileNotFoundError):
            path.unlink()


def _free_path(folder: Path) -> Path:
    """A name in the style of AAQ's library, so that tools find it."""
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder}: no such folder; mount the volume of the controller's sidecars there"
        )
    for _ in range(NAMES_TRIED_MAX):
        name = "".join(secrets.choice(_CHARACTERS) for _ in range(4))
        path = folder / f"sidecar-{name}.sock"
        if not path.exists():
            return path
    raise FileExistsError(f"{folder}: no free name for a socket was found")


def _takes_existing(count: Count) -> bool:
    """Whether the function wants the pods of the namespace.

    >>> _takes_existing(lambda pod, existing: {"pods": len(existing)})
    True
    >>> _takes_existing(lambda pod, rate=2: {"pods": rate})
    False
    """
    parameters = inspect.signature(count).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [each for each in parameters if each.kind in positional and each.default is each.empty]
    return len(wanted) > 1


def _service(count: Count) -> grpc.GenericRpcHandler:
    takes_existing = _takes_existing(count)

    def evaluate(request: pb.PodUsageRequest, _: object) -> pb.PodUsageResponse:
        # Both messages are always set: AAQ's controller crashes if one is absent.
        answer = pb.PodUsageResponse(error=pb.Error(), resourceList=pb.ResourceList())
        try:
            pod = json.loads(request.pod.podJson)
            existing = (Pods(request.podsState),) if takes_existing else ()
            amounts = count(pod, *existing)
            answer.resourceList.resourceListJson = _encoded(amounts or {})
            answer.match = amounts is not None
        except Exception as error:  # noqa: BLE001 - whatever the function raises is reported
            answer.resourceList.resourceListJson = b"{}"
            answer.error.error = True
            answer.error.errorMessage = f"{type(error).__name__}: {error}"
        return answer

    def check(_: pb.HealthCheckRequest, __: object) -> pb.HealthCheckResponse:
        return pb.HealthCheckResponse(healthy=True)

    return grpc.method_handlers_generic_handler(
        "evaluate.PodUsage",
        {
            "PodUsageFunc": grpc.unary_unary_rpc_method_handler(
                evaluate,
                pb.PodUsageRequest.FromString,
                pb.PodUsageResponse.SerializeToString,
            ),
            "HealthCheck": grpc.unary_unary_rpc_method_handler(
                check,
                pb.HealthCheckRequest.FromString,
                pb.HealthCheckResponse.SerializeToString,
            ),
        },
    )


def _encoded(amounts: Amounts) -> bytes:
    for name, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, int | str):
            raise TypeError(f"{name}: {amount!r} is neither a whole number nor text")
    return json.dumps({name: str(amount) for name, amount in amounts.items()}).encode()


class Pods(Sequence[Pod]):
    """All pods of the namespace. Each is decoded when it is read."""

    def __init__(self, messages: Sequence[pb.Pod]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Pod: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pod]: ...

    def __getitem__(self, index: int | slice) -> Pod | list[Pod]:
        if isinstance(index, slice):
            return [json.loads(each.podJson) for each in self._messages[index]]
        pod: Pod = json.loads(self._messages[index].podJson)
        return pod
