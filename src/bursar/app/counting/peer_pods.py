"""The counter of peer pods, ready for a controller or a view."""

from bursar.app.counting.feeds import CountingPart
from bursar.core.counting.peer_pods import PeerPodCounter, PeerPodCounting, PeerPodMode
from bursar.wire.peerpods.recognition import derive_peer_pod


def peer_pod_parts(settings: PeerPodCounting) -> tuple[CountingPart, ...]:
    """The part that counts peer pods; empty if they are counted as all other pods."""
    if settings.mode is PeerPodMode.IGNORE:
        return ()
    counter = PeerPodCounter(settings, derive_peer_pod(settings.runtime_classes))
    return (CountingPart(counter=counter),)
