"""The kubelet's own figures of disk use, from its `/stats/summary`."""

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
from bursar.app.storage.ports import SummaryError
from bursar.core.storage.summary import Summary
from bursar.wire.storage.summary import decode_summary

SUMMARY: Final = KubeletPath("/stats/summary", "statistics", "`get` on `nodes/stats`")


class KubeletSummary:
    """A `SummarySource`. It keeps a connection: use it as a context manager."""

    def __init__(
        self,
        endpoint: EndpointSource,
        access: KubeletAccess,
        limits: KubeletLimits = DEFAULT_LIMITS,
    ) -> None:
        self._http = KubeletHttp(endpoint, access, limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def read(self) -> Summary:
        try:
            return decode_summary(await self._http.get(SUMMARY))
        except (KubeletError, SourceError) as error:
            raise SummaryError(str(error)) from None
        except ValueError:
            # The decoder's text is left out: it may repeat what the kubelet sent.
            raise SummaryError(str(self._http.error("the answer is not a summary"))) from None
