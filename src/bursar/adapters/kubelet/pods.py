"""The pods of a node from the kubelet's `/pods`, static pods included.

The kubelet answers from memory; there is no resourceVersion and no watch. Every failure is a
`SourceError` of one line within a short timeout, because CNI plugins wait for the result.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from bursar.adapters.kubelet.access import KubeletAccess
from bursar.adapters.kubelet.endpoint import EndpointSource
from bursar.adapters.kubelet.http import (
    DEFAULT_LIMITS,
    KubeletError,
    KubeletHttp,
    KubeletLimits,
    KubeletPath,
)
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod

PODS: Final = KubeletPath(
    "/pods", "pods", "`get` on `nodes/pods`, or on `nodes/proxy` for a kubelet before 1.33"
)
PODS_PER_STEP: Final = 16
"""Pods that are decoded before other tasks of the event loop may run."""


class KubeletPods:
    """A `PodSource`. It keeps a connection: use it as a context manager."""

    def __init__(
        self,
        endpoint: EndpointSource,
        access: KubeletAccess,
        *,
        decode: Callable[[bytes], Iterable[DevicePod]],
        limits: KubeletLimits = DEFAULT_LIMITS,
    ) -> None:
        """`decode` raises `ValueError` if the body is not a list of pods."""
        self._http = KubeletHttp(endpoint, access, limits)
        self._decode = decode

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def read(self) -> Sequence[DevicePod]:
        """Return all pods of the kubelet, read after the call. Raises `SourceError`."""
        try:
            return await self._decoded(await self._http.get(PODS))
        except KubeletError as error:
            raise SourceError(str(error)) from None

    async def _decoded(self, body: bytes) -> Sequence[DevicePod]:
        pods: list[DevicePod] = []
        try:
            for pod in self._decode(body):
                pods.append(pod)
                if len(pods) % PODS_PER_STEP == 0:
                    # Clients that are served from cached pods need not wait for this.
                    await asyncio.sleep(0)
        except ValueError:
            # The decoder's text is left out: it may repeat what the kubelet sent.
            raise self._http.error("the answer is not a list of pods") from None
        return pods
