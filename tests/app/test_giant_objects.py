"""Objects of a megabyte, which the API server accepts of a tenant, take little memory here.

Names are random, as those of an attacker would be: regular ones take little when they are
compressed.
"""

import json
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from bursar.app.cluster.informer.store import Store
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.counting.settings import CountingSettings
from bursar.core.quota.books import Books
from bursar.core.quota.quota import GATE
from bursar.entry.counting import open_counting
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.builders.quota_books import NOW_S, a_namespace, a_quota
from support.kept_bytes import kept_bytes

LUCK = Random(7)  # noqa: S311 - repeatable
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "7"}


def word(length: int) -> str:
    return "".join(LUCK.choices(ascii_lowercase, k=length))


def words(count: int, length: int = 40) -> list[str]:
    return [word(length) for _ in range(count)]


def containers(count: int, **fields: Any) -> list[dict[str, Any]]:
    requests = [{"requests": {"cpu": f"{LUCK.randrange(10**6)}m"}} for _ in range(count)]
    return [{"name": f"c{n}", "resources": each, **fields} for n, each in enumerate(requests)]


def a_container(names: list[str]) -> list[dict[str, Any]]:
    amounts = {f"{name}.example.com/{name[:60]}": "1" for name in names}
    return [{"name": "compute", "resources": {"requests": amounts, "limits": amounts}}]


GIANTS = {
    "labels": {"metadata": {"labels": {name: name for name in words(3000)}}},
    "scheduling gates": {"schedulingGates": [{"name": name} for name in (GATE, *words(5000))]},
    "gates before ours": {"schedulingGates": [{"name": name} for name in (*words(5000), GATE)]},
    "only gates of others": {"schedulingGates": [{"name": name} for name in words(5000)]},
    "annotations": {"metadata": {"annotations": {name: name for name in words(3000)}}},
    "owners": {"metadata": {"ownerReferences": [{**OWNER, "name": name} for name in words(2000)]}},
    "containers": {"containers": containers(2000)},
    "init containers": {"initContainers": containers(2000)},
    "ephemeral containers": {"ephemeralContainers": containers(2000)},
    "tolerations": {"tolerations": [{"key": name} for name in words(4000)]},
    "volumes": {"volumes": [{"name": name, "emptyDir": {}} for name in words(4000)]},
    "claims": {"resourceClaims": [{"name": name} for name in words(4000)]},
    "environment": {"containers": containers(1, env=[{"name": name} for name in words(4000)])},
    "ports": {"containers": containers(1, ports=[{"name": name} for name in words(4000)])},
}
OF_LONG_NAMES = {
    "long resource names": {"containers": a_container(words(120, 250))},
    "a launcher of long names": {
        "metadata": {
            "labels": {"kubevirt.io": "virt-launcher", **{name: name for name in words(3000)}},
            "ownerReferences": [OWNER],
        },
        "containers": a_container(words(120, 250)),
    },
    "a peer pod of long names": {
        "runtimeClassName": "kata-remote",
        "containers": a_container(words(120, 250)),
    },
}


class Controller:
    """What a leader keeps of pods: the cache of the informer, the counters and the books."""

    def __init__(self) -> None:
        counting = open_counting(CountingSettings())
        for kind in counting.kinds:
            kind.mark_absent()
        self.decoder = PodRowDecoder(counting.counter.derive_facts)
        self.store: Store[Any] = Store()
        self.counter = counting.counter
        self.books = Books(counting.counter.count, related=counting.counter)
        self.books.advance(NOW_S)
        self.books.see_namespace(a_namespace("a"))
        self.books.see_quota(a_quota("a/q", "pods=5 requests.cpu=5 requests.example.com/r00007=9"))

    def see(self, name: str, spec: dict[str, Any]) -> int:
        """Enter a pod. Returns the bytes of its JSON."""
        metadata = {"uid": f"uid-{name}", "resourceVersion": "1", **spec.get("metadata", {})}
        fields = {"schedulingGates": [{"name": GATE}], **spec, "metadata": metadata}
        body = json.dumps(pod_manifest(f"a/{name}", **fields), separators=(",", ":")).encode()
        row = self.decoder.decode(body)
        self.store.put(identify_pod(row).key, row)
        self.books.see_pod(row)
        self.books.decide()
        return len(body)

    @property
    def kept(self) -> int:
        return kept_bytes(self.store, self.counter, self.books, self.decoder)


def kept_of(spec: dict[str, Any]) -> tuple[int, int]:
    """The bytes that a pod takes in a controller, and those of its JSON."""
    controller = Controller()
    controller.see("first", {})
    before = controller.kept
    size = controller.see("giant", spec)
    return controller.kept - before, size


@pytest.mark.parametrize("spec", GIANTS.values(), ids=GIANTS.keys())
def test_a_giant_pod_takes_a_small_part_of_its_size(spec):
    usual, _ = kept_of({})
    giant, size = kept_of(spec)

    assert size > 70_000, "it is a giant"
    assert giant - usual < size / 20


@pytest.mark.parametrize("spec", OF_LONG_NAMES.values(), ids=OF_LONG_NAMES.keys())
def test_long_resource_names_are_kept_compressed(spec):
    usual, _ = kept_of({})
    giant, size = kept_of(spec)

    assert giant - usual < size * 0.4


def test_resource_names_that_are_in_both_lists_are_kept_once():
    """The API server accepts extended resources only with the same request and limit."""
    names = {f"{name}.example.com/{name}": "1" for name in words(4000, 20)}
    once, _ = kept_of({"containers": [{"name": "c", "resources": {"requests": names}}]})
    both = {"requests": names, "limits": names}

    twice, size = kept_of({"containers": [{"name": "c", "resources": both}]})

    assert twice < once * 1.1
    assert twice < size / 3
