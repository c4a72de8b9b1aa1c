"""Targeting: in which namespaces pods are gated."""

from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.selectors.selector import Operator, Selector, all_of, requirement
from bursar.core.quota.coverage import Namespace

GATING_LABEL: Final = "application-aware-quota/enable-gating"
DEFAULT_SELECTOR: Final = all_of((requirement(GATING_LABEL, Operator.EXISTS),))
KUBE_SYSTEM: Final = "kube-system"


def is_spared(namespace: str, own_namespace: str) -> bool:
    """Whether pods of the namespace are never gated: kube-system, and where Bursar runs.

    If the controller's own pod had a gate, no controller would run to lift it.
    """
    return namespace in (KUBE_SYSTEM, own_namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targeting:
    """Selects the namespaces in which pods are gated."""

    own_namespace: str
    selector: Selector = field(default=DEFAULT_SELECTOR)

    def is_targeted(self, namespace: NamespaceObject) -> bool:
        if is_spared(namespace.name, self.own_namespace):
            return False
        return self.selector.matches(namespace.labels)

    def namespace(self, namespace: NamespaceObject, dispute: str = "") -> Namespace:
        """The namespace as the books hold it.

        `dispute` says how the installed policies and webhooks disagree about it.
        """
        return Namespace(
            name=namespace.name,
            labels=namespace.labels,
            annotations=namespace.annotations,
            is_targeted=self.is_targeted(namespace),
            dispute=dispute,
        )
