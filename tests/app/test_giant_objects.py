"""Objects of a megabyte, which the API server accepts of a tenant, take little memory here.

Names are random, as those of an attacker would be: regular ones take little when they are
compressed.
"""

import asyncio
import json
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.informer.store import Store
from bursar.app.cluster.kinds import NAMESPACES, RESOURCE_QUOTAS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.ports import Key
from bursar.app.cluster.time_limit import end
from bursar.app.controller.sources import term_sources
from bursar.app.counting.settings import CountingSettings
from bursar.app.quota.managed.names import MANAGED_SUFFIX
from bursar.core.quota.books import Books
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.refusal import Reason
from bursar.core.quota.targeting import Targeting
from bursar.entry.counting import open_counting
from bursar.wire.kubevirt import decode_migration, decode_vmi
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.quota.unreadable import SCOPES_MAX, read_quota
from bursar.wire.structs.fields import FieldError
from support.builders.manifests import a_manifest, pod_manifest
from support.builders.quota_books import NOW_S, a_namespace, a_quota
from support.kept_bytes import kept_bytes
from support.virtual_time import MachineClock, in_virtual_time

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


def a_quota_body(metadata: dict[str, Any], spec: dict[str, Any]) -> bytes:
    named = {"name": "q", "namespace": "a", "uid": "u", "resourceVersion": "1", **metadata}
    return json.dumps({"metadata": named, "spec": spec}, separators=(",", ":")).encode()


def classes(*lists: list[str]) -> dict[str, Any]:
    rules = [{"scopeName": "PriorityClass", "operator": "In", "values": each} for each in lists]
    return {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": rules}}


GIANT_QUOTAS = {
    "limits": ({}, {"hard": {f"requests.example.com/{name}": "1" for name in words(4000)}}),
    "other limits": ({}, {"hard": {f"count/{name}": "1" for name in words(5000)}}),
    "values of a scope": ({}, classes(words(5000))),
    "rules of a scope": ({}, classes(*([word(40)] for _ in range(3000)))),
    "unreadable scopes": ({}, {**classes(words(5000)), "hard": {"pods": "many"}}),
    "labels": ({"labels": {name: name for name in words(3000)}}, {"hard": {"pods": "1"}}),
    "annotations": ({"annotations": {name: name for name in words(3000)}}, {"hard": {"pods": "1"}}),
}


@pytest.mark.parametrize(("metadata", "spec"), GIANT_QUOTAS.values(), ids=GIANT_QUOTAS.keys())
def test_a_giant_quota_takes_a_small_part_of_its_size(metadata, spec):
    books = Controller().books
    body = a_quota_body(metadata, spec)
    before = kept_bytes(books)

    read = read_quota(QuotaKind.NAMESPACED, body)
    books.see_quota(read.quota)

    assert kept_bytes(books, read) - before < len(body) / 20


@pytest.mark.parametrize("what", ["limits", "other limits", "values of a scope"])
def test_pods_of_the_namespace_wait_under_a_quota_that_is_too_large(what):
    controller = Controller()
    read = read_quota(QuotaKind.NAMESPACED, a_quota_body(*GIANT_QUOTAS[what]))
    controller.books.see_quota(read.quota)
    controller.see("web", {})

    [waiting] = controller.books.blocked()
    assert waiting.refusals[0].reason is Reason.QUOTA_UNREADABLE
    assert "more than" in waiting.refusals[0].message()


def test_a_quota_of_many_priority_classes_is_in_force():
    spec = classes([f"class-{number}" for number in range(SCOPES_MAX - 1)])

    assert read_quota(QuotaKind.NAMESPACED, a_quota_body({}, spec)).quota.problem == ""


@in_virtual_time()
async def test_a_giant_resourcequota_of_a_tenant_is_not_kept():
    clock = MachineClock()
    cluster = MemoryCluster(clock, source=Random(1))  # noqa: S311 - repeatable
    await cluster.create(NAMESPACES, {"metadata": {"name": "a"}})
    hard = {"hard": {f"requests.example.com/{name}": "1" for name in words(2000)}}
    for name in ("own", "q" + MANAGED_SUFFIX):
        quota = a_manifest("v1", "ResourceQuota", f"a/{name}", spec=hard)
        await cluster.create(RESOURCE_QUOTAS, quota, namespace="a")
    sources = term_sources(cluster, clock, Random(1), Targeting(own_namespace="aaq"))  # noqa: S311
    task = asyncio.create_task(sources.native_quotas.run())
    await sources.native_quotas.wait_synced()

    own = sources.native_quotas.find(Key("a", "own"))
    managed = sources.native_quotas.find(Key("a", "q" + MANAGED_SUFFIX))
    await end(task)

    assert kept_bytes(own) < kept_bytes(managed) / 50
    assert len(managed.item.quota.hard) == 2000
    assert own.identity.uid


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


GIANT_VMS = {
    "architecture": {"spec": {"architecture": word(100_000)}},
    "node": {"status": {"nodeName": word(100_000)}},
    "pods": {"status": {"migrationState": {"sourcePod": word(100_000), "targetPod": "p"}}},
    "volumes": {"spec": {"volumes": [{"name": name} for name in words(3000)]}},
    "a plugin": {
        "spec": {"domain": {"devices": {"interfaces": [{"binding": {"name": word(100_000)}}]}}}
    },
}


@pytest.mark.parametrize("fields", GIANT_VMS.values(), ids=GIANT_VMS.keys())
def test_a_giant_vm_takes_a_small_part_of_its_size(fields):
    body = json.dumps({"metadata": {"name": "db"}, **fields}).encode()

    assert kept_bytes(decode_vmi(body)) < len(body) / 20


def test_a_vm_of_very_many_plugins_is_not_read():
    interfaces = [{"binding": {"name": name}} for name in words(300)]
    devices = {"domain": {"devices": {"interfaces": interfaces}}}

    with pytest.raises(FieldError, match="more than 256 binding plugins"):
        decode_vmi(json.dumps({"metadata": {"name": "db"}, "spec": devices}).encode())


def test_a_migration_of_a_vm_that_no_object_can_be_takes_little():
    body = json.dumps({"metadata": {"name": "m"}, "spec": {"vmiName": word(100_000)}}).encode()

    assert kept_bytes(decode_migration(body)) < len(body) / 20
