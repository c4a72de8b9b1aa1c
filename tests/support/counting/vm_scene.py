"""A counter of VMs that is told of manifests, as the watches of a cluster tell it."""

from typing import Any

from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.kubevirt.counter import VmCounter
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from bursar.wire.kubevirt import (
    decode_kubevirt,
    decode_migration,
    decode_vmi,
)
from bursar.wire.launcher_pods import derive_launcher_facts
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.pods import texts
from support.builders.vms import encoded

Manifest = dict[str, Any]


class VmScene:
    """Methods that tell of a change return the names of the pods to count again."""

    def __init__(self, mode: VmiMode, *, is_synced: bool = True) -> None:
        self.counter = VmCounter(mode, derive_launcher_facts)
        self._decoder = PodRowDecoder(Counters([self.counter]).derive_facts)
        self.rows: dict[str, PodRow] = {}
        if is_synced:
            self.set_states(KindState.SYNCED)

    def set_states(self, state: KindState) -> None:
        self.counter.set_vmi_state(state)
        self.counter.set_migration_state(state)
        self.counter.set_kubevirt_state(state)

    def see(self, *manifests: Manifest) -> list[str]:
        return sorted({row.name for each in manifests for row in self._see(each)})

    def _see(self, manifest: Manifest) -> list[PodRow]:
        counter, body = self.counter, encoded(manifest)
        match manifest["kind"]:
            case "Pod":
                row = self.rows[manifest["metadata"]["name"]] = self._decoder.decode(body)
                return counter.see_pod(row)
            case "VirtualMachineInstance":
                return counter.see_vmi(decode_vmi(body))
            case "VirtualMachineInstanceMigration":
                return counter.see_migration(decode_migration(body))
            case _:
                return counter.see_kubevirt(decode_kubevirt(body))

    def lose(self, manifest: Manifest) -> list[str]:
        counter, body = self.counter, encoded(manifest)
        match manifest["kind"]:
            case "Pod":
                row = self.rows.pop(manifest["metadata"]["name"])
                lost = counter.lose_pod(PodKey(row.namespace, row.name))
            case "VirtualMachineInstance":
                lost = counter.lose_vmi(decode_vmi(body))
            case "VirtualMachineInstanceMigration":
                lost = counter.lose_migration(decode_migration(body))
            case _:
                lost = counter.lose_kubevirt(decode_kubevirt(body))
        return sorted(row.name for row in lost)

    def count(self, pod: str) -> Counted | Pending | None:
        return self.counter.count(self.rows[pod])

    def cost(self, pod: str) -> dict[str, str]:
        answer = self.count(pod)
        assert isinstance(answer, Counted), answer
        return texts(answer.amounts)

    def reason(self, pod: str) -> str:
        answer = self.count(pod)
        assert isinstance(answer, Counted), answer
        return answer.reason

    def waits_for(self, pod: str) -> str:
        answer = self.count(pod)
        assert isinstance(answer, Pending), answer
        return answer.detail
