"""Whether policies and webhooks gate the namespaces that the controller targets.

Both get their selector of namespaces from a setting of their own. If the two differ, there are
namespaces whose pods get the gate, and which the controller does not target. A controller that
took them for namespaces that have left the selection would release their pods without a quota.
So the controller reads what is installed, and releases pods of a namespace that it does not target
only if no installed policy or webhook selects the namespace either. In a namespace that it targets
and that they do not select, pods get no gate: the status of its quotas says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.events.document import ObjectReference
from bursar.app.cluster.ports import Clock, ClusterError, Key, NotFoundError, Reader, Resource
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.log import Log
from bursar.app.names import GATING_POLICY, GATING_WEBHOOKS, POD_WEBHOOKS
from bursar.core.model.namespace import NAME_LABEL, NamespaceObject
from bursar.core.model.selectors.selector import (
    Operator,
    Requirement,
    Selector,
    SelectorError,
    selector_of,
)
from bursar.core.quota.targeting import Targeting, is_spared
from bursar.wire.quota.gating_configuration import decode_gating

LOG: Final = Log("controller")
CHECK_SECONDS: Final = 15.0
"""Pause between two checks."""
RETRY_SECONDS: Final = 2.0
"""Pause after a check that failed."""
_GATING: Final = (GATING_POLICY, GATING_WEBHOOKS)
"""Names of the objects that gate pods. The others protect gates."""
UNKNOWN: Final = "the installed policies and webhooks could not be read yet"


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed object, and what it selects."""

    resource: Resource
    name: str
    uid: str
    selectors: tuple[Selector, ...]
    problem: str = ""
    """Why a selector cannot be read. The object then counts as selecting every namespace."""

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"

    @property
    def reference(self) -> ObjectReference:
        return ObjectReference(
            api_version=self.resource.api_version,
            kind=self.resource.kind,
            namespace="",
            name=self.name,
            uid=self.uid,
        )

    def selects(self, namespace: NamespaceObject) -> bool:
        matches = (each.matches(namespace.labels) for each in self.selectors)
        return bool(self.problem) or any(matches)

    def mismatch(self, targeting: Targeting) -> str:
        """How the selection differs from the controller's; empty if it does not."""
        if self.problem:
            return self.problem
        wanted = _meaning(targeting.selector)
        for each in self.selectors:
            if _meaning(each) != wanted:
                there, here = str(each) or "everything", str(targeting.selector) or "everything"
                return f"it selects namespaces by {there!r}, and the controller by {here!r}"
        return ""


def _meaning(selector: Selector) -> frozenset[tuple[str, Operator, frozenset[str]]]:
    """The requirements, without those that spare namespaces by name."""
    return frozenset(
        (each.key, _SAME.get(each.operator, each.operator), frozenset(each.values))
        for each in selector.requirements
        if not _spares(each)
    )


def _spares(requirement: Requirement) -> bool:
    return requirement.key == NAME_LABEL and requirement.operator is Operator.NOT_IN


_SAME: Final = {
    Operator.EQUALS: Operator.IN,
    Operator.DOUBLE_EQUALS: Operator.IN,
    Operator.NOT_EQUALS: Operator.NOT_IN,
}


class GatingCheck:
    """Reads the installed objects from time to time. Call `run` once."""

    def __init__(
        self,
        reader: Reader,
        clock: Clock,
        targeting: Targeting,
        *,
        on_change: Callable[[], None],
        record: Callable[[ObjectReference, str], None],
    ) -> None:
        """`on_change` is called when the result of `dispute` may have changed.

        `record` writes an event about an installed object that selects other namespaces.
        """
        self._reader, self._clock, self._targeting = reader, clock, targeting
        self._on_change, self._record = on_change, record
        self._installed: tuple[Installed, ...] | None = None

    def dispute(self, namespace: NamespaceObject) -> str:
        """How the installed objects and the controller disagree about a namespace; empty if not.

        For a namespace that is not targeted, the text says why its pods must keep the gate.
        """
        if is_spared(namespace.name, self._targeting.own_namespace):
            return ""
        if self._targeting.is_targeted(namespace):
            return self._left_out(namespace)
        if self._installed is None:
            return UNKNOWN
        found = next((each for each in self._installed if each.selects(namespace)), None)
        return "" if found is None else f"{found} selects the namespace"

    def _left_out(self, namespace: NamespaceObject) -> str:
        """Why new pods of a targeted namespace get no gate.

        Empty if they get one, and if nothing that gates pods is installed under Bursar's names:
        another program may gate them.
        """
        gating = [each for each in self._installed or () if each.name in _GATING]
        if not gating or any(each.selects(namespace) for each in gating):
            return ""
        return f"{gating[0]} does not select it"

    def mismatches(self) -> dict[str, bool]:
        """By installed object: whether its selection differs from the controller's."""
        installed = self._installed or ()
        return {str(each): bool(each.mismatch(self._targeting)) for each in installed}

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            try:
                found = [await self._read(*each) for each in CONFIGURATIONS]
            except ClusterError as error:
                LOG.warning("cannot read which namespaces are gated", error=error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            self._learn(tuple(each for each in found if each is not None))
            await self._clock.sleep(CHECK_SECONDS)

    async def _read(self, resource: Resource, name: str) -> Installed | None:
        try:
            body = await self._reader.get(resource, Key("", name))
        except NotFoundError:
            return None
        try:
            read = decode_gating(body, POD_WEBHOOKS)
            selectors = tuple(map(selector_of, read.selectors))
        except (SelectorError, ValueError) as error:
            return Installed(resource, name, "", (), f"its selector cannot be read: {error}")
        return Installed(resource, name, read.uid, selectors)

    def _learn(self, installed: tuple[Installed, ...]) -> None:
        if installed == self._installed:
            return
        self._installed = installed
        self._report(installed)
        self._on_change()

    def _report(self, installed: Iterable[Installed]) -> None:
        for each in installed:
            problem = each.mismatch(self._targeting)
            if problem:
                LOG.error(
                    "policies or webhooks gate other namespaces than this controller targets; "
                    "where they disagree, no pod is released",
                    object=each,
                    error=problem,
                )
                self._record(each.reference, problem)
