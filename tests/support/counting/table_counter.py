"""A pod counter that looks up its answers in a table which the test fills."""

from bursar.core.counting.counter import Counted, Pending
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.counting import IndependentPods
from support.builders.pods import parsed


class TableCounter(IndependentPods):
    """Answers by the name of the pod: `counter.table["web"] = "cpu/vmi=4"`, or a `Pending`."""

    def __init__(
        self, name: str = "table", names: tuple[str, ...] = (), *, is_addition: bool = False
    ) -> None:
        self.name = name
        self.is_addition = is_addition
        self.names = names
        self.table: dict[str, str | Pending] = {}

    def derive_facts(self, body: bytes) -> bytes | None:
        return body if b'"kept"' in body else None

    def count(self, row: PodRow) -> Counted | Pending | None:
        answer = self.table.get(row.name)
        if answer is None or isinstance(answer, Pending):
            return answer
        return Counted(parsed(answer), f"{self.name} says so", self.is_addition)

    def may_charge(self, resource: str) -> bool:
        return resource in self.names
