"""The counter of peer pods, told of pods as the API server sends them."""

import json

from bursar.core.counting.counter import Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.peer_pods import (
    PeerPodCounter,
    PeerPodCounting,
    PeerPodMode,
)
from bursar.core.model.pod_row import PodRow
from bursar.core.peerpods.instances import InstanceType
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.peerpods.recognition import derive_peer_pod
from support.builders.peer_pods import (
    KATA,
    VM,
    a_peer_pod,
    main,
)
from support.builders.pods import texts

GPU = "nvidia.com/gpu"
CATALOGUE = (
    InstanceType(name="small", vcpus=2, memory_mib=4096),
    InstanceType(name="large", vcpus=96, memory_mib=786432, gpus=8),
)
FORGED = json.dumps(
    {
        "v": "1",
        "containers": [
            {
                "name": "c0",
                "kind": "container",
                "requests": {"cpu": "1m", "memory": "1"},
                "limits": {"cpu": "1m", "memory": "1"},
            }
        ],
        "size": {"vcpus": "1", "memory": "1"},
    }
)
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}


def a_counter(mode=PeerPodMode.VIRTUAL, **chosen):
    counting = PeerPodCounting(mode=mode, **chosen)
    return PeerPodCounter(counting, derive_peer_pod(counting.runtime_classes))


def row_of(raw, counter) -> PodRow:
    counters = Counters((counter,))
    return PodRowDecoder(counters.derive_facts).decode(json.dumps(raw).encode())


def counted(raw, counter=None):
    counter = counter or a_counter()
    return counter.count(row_of(raw, counter))


def charged(raw, counter=None) -> dict[str, str]:
    """The charge, without the names that every pod has."""
    answer = counted(raw, counter)
    assert not isinstance(answer, Pending), answer
    amounts = texts(answer.amounts)
    assert (amounts.pop("pods"), amounts.pop("count/pods")) == ("1", "1")
    return amounts


def cpus(raw, counter=None) -> tuple[str, str]:
    amounts = charged(raw, counter)
    return amounts["requests.cpu"], amounts["limits.cpu"]


def annotated(*containers, **sizes):
    """A pod as upstream's webhook leaves it, or a tenant writes it."""
    return a_peer_pod(
        *(containers or [main(f"{VM}=1", f"{VM}=1")]),
        annotations={KATA + key: text for key, text in sizes.items()},
    )
