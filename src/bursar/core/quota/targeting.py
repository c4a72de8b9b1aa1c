"""In which namespaces pods are held back at all."""

from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.selector import Operator, Selector, all_of, requirement
from bursar.core.quota.coverage import Namespace

GATING_LABEL: Final = "application-aware-quota/enable-gating"
DEFAULT_SELECTOR: Final = all_of((requirement(GATING_LABEL, Operator.EXISTS),))
SYSTEM_NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targeting:
    """Which namespaces are meant. Ours and the system's never are: nothing could start there."""

    own_namespace: str
    selector: Selector = field(default=DEFAULT_SELECTOR)

    def is_targeted(self, namespace: NamespaceObject) -> bool:
        if namespace.name in (self.own_namespace, SYSTEM_NAMESPACE):
            return False
        return self.selector.matches(namespace.labels)

    def namespace(self, namespace: NamespaceObject) -> Namespace:
        """The namespace as the books want it."""
        return Namespace(
            name=namespace.name,
            labels=namespace.labels,
            annotations=namespace.annotations,
            is_targeted=self.is_targeted(namespace),
        )
