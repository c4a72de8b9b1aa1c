"""Which pods may be peer pods, by the pod's JSON.

The controller calls this for every event of every pod, so pods without a runtime class are not
decoded. The code for pods with a runtime class is imported with the first such pod: few commands
read one.
"""

from collections.abc import Collection
from typing import Final

from bursar.core.counting.peer_pods import DerivePeerPod, PeerPodFacts, UnreadablePeerPod

_MARK: Final = b'"runtimeClassName"'


def derive_peer_pod(runtime_classes: Collection[str]) -> DerivePeerPod:
    """A function that reads the facts of peer pods; it returns None for other pods."""

    def derive(body: bytes) -> PeerPodFacts | UnreadablePeerPod | None:
        if _MARK not in body:
            return None
        from bursar.wire.peerpods.facts import peer_pod_facts  # noqa: PLC0415 - see above

        return peer_pod_facts(body, runtime_classes)

    return derive
