"""The EndpointSlice by which the Service leads to the leader.

The scheduler knows one address, that of a Service. Only the leader can answer. The Service has no
selector: the leader writes the slice. If a leader dies, connections fail until the next leader has
written its own address, and the scheduler tries the pods again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bursar.app.cluster.ports import Clock, ClusterError, Json, Key, Patch, PatchKind, Writer
from bursar.app.extender.kinds import ENDPOINT_SLICES
from bursar.app.extender.names import EXTENDER, PORT_NAME
from bursar.app.log import Log

LOG: Final = Log("extender")
REPEAT_SECONDS: Final = 30.0
"""How often the slice is written again, in case another client has changed it."""
RETRY_SECONDS: Final = 1.0


async def publish(
    writer: Writer,
    clock: Clock,
    *,
    namespace: str,
    address: tuple[str, int],
    owners: Sequence[Json],
    is_leader: Callable[[], bool],
) -> None:
    """Keep the slice on this process's address while it leads."""
    patch = Patch(
        kind=PatchKind.APPLY,
        body=slice_document(namespace, address, owners),
        field_manager=EXTENDER,
        is_forced=True,
    )
    while is_leader():
        pause = REPEAT_SECONDS
        try:
            await writer.patch(ENDPOINT_SLICES, Key(namespace, EXTENDER), patch)
        except ClusterError as error:
            LOG.warning("the EndpointSlice was not written", error=error)
            pause = RETRY_SECONDS
        await clock.sleep(pause)


def slice_document(
    namespace: str, address: tuple[str, int], owners: Sequence[Json] = ()
) -> Mapping[str, Json]:
    host, port = address
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": EXTENDER,
            "namespace": namespace,
            "ownerReferences": list(owners),
            "labels": {
                "kubernetes.io/service-name": EXTENDER,
                "endpointslice.kubernetes.io/managed-by": EXTENDER,
            },
        },
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }
