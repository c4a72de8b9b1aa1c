"""Whether the processes of an installation run, and what happens to pods if they do not."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from bursar.app.cluster.ports import Json, Key
from bursar.app.install.documents import Document
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.operator.kinds import Target, target_of

WEBHOOK_KINDS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
MEANWHILE: Final = {
    CONTROLLER: "new pods of gated namespaces wait meanwhile",
    WEBHOOK: "new pods of gated namespaces are refused meanwhile",
}
"""By Deployment: what happens to pods while no replica is ready."""

Find = Callable[[Target], Mapping[str, Json] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment as its status reports it."""

    name: str
    wanted: int
    ready: int
    updated: int
    """Replicas that have the current pod template."""
    is_observed: bool
    """Whether the status is about the current spec."""

    @property
    def is_complete(self) -> bool:
        return self.is_observed and self.ready == self.updated == self.wanted

    @property
    def text(self) -> str:
        """What is missing, in words; empty if nothing is."""
        if self.is_complete:
            return ""
        if not self.ready:
            return f"{self.name}: none of {self.wanted} replicas is ready; {MEANWHILE[self.name]}"
        text = f"{self.name}: {self.ready} of {self.wanted} replicas are ready"
        if self.updated < self.wanted:
            text += f", {self.updated} of the present template"
        return text


def workloads(documents: Iterable[Document], find: Find) -> tuple[Workload, ...]:
    """The Deployments among the documents, with their status."""
    found = []
    for document in documents:
        target = target_of(document)
        if target.resource == DEPLOYMENTS:
            stored = find(target) or {}
            spec, status = _map(document.get("spec")), _map(stored.get("status"))
            observed = _number(status.get("observedGeneration"))
            found.append(
                Workload(
                    name=target.key.name,
                    wanted=_number(spec.get("replicas")),
                    ready=_number(status.get("readyReplicas")),
                    updated=_number(status.get("updatedReplicas")),
                    is_observed=observed >= _number(_map(stored.get("metadata")).get("generation")),
                )
            )
    return tuple(found)


def held_back(gate: Sequence[Document], running: Sequence[Workload], find: Find) -> list[Document]:
    """The webhook configurations that are not applied yet, because no webhook would answer.

    A configuration that exists stays: its webhooks fail closed, and the administrator learns of it
    by conditions. AAQ switches gating off instead, without a word.
    """
    is_up = all(each.ready for each in running if each.name == WEBHOOK)
    return [
        each for each in gate if not is_up and _is_webhook(each) and find(target_of(each)) is None
    ]


def untrusted(gate: Sequence[Document], find: Find) -> list[str]:
    """The webhook configurations into which the controller has not written its CA yet."""
    found = []
    for document in gate:
        target = target_of(document)
        stored = find(target)
        if not _is_webhook(document) or stored is None:
            continue
        hooks = stored.get("webhooks")
        clients = [_map(_map(each).get("clientConfig")) for each in _items(hooks)]
        if not all(each.get("caBundle") for each in clients):
            found.append(f"{target}: the controller has not written its CA yet")
    return found


def deployment(home: str, name: str) -> Target:
    return Target(DEPLOYMENTS, Key(home, name))


def _is_webhook(document: Document) -> bool:
    return target_of(document).resource in WEBHOOK_KINDS


def _map(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
