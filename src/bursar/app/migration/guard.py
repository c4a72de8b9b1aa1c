"""The guard: while a move goes on, no pod of a gated namespace is created without the quota gate.

It is a ValidatingAdmissionPolicy, which every supported version of Kubernetes has. If neither AAQ
nor Bursar gates a pod, the API server refuses it, and the client tries again. Without the guard,
the pod would pass, and no quota would be asked about it.
"""

from typing import Final

from bursar.app.install.documents import (
    Document,
    admission_policy,
    rule,
    selector_document,
    validation,
)
from bursar.app.install.documents import spared_namespaces as spared
from bursar.app.migration.state import SHARED_GATE
from bursar.app.quota.kinds import GROUP
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL, KUBE_SYSTEM

GUARD: Final = "guard-migration.bursar.io"
"""The policy and its binding."""
REFUSED: Final = (
    "quotas are moving between AAQ and Bursar, and this pod would escape them: try again in some "
    "seconds"
)

_HAS_GATE: Final = f"object.spec.?schedulingGates.orValue([]).exists(gate, gate.name == '{GATE}')"
# A mirror pod represents a static pod, which the kubelet runs in any case.
_IS_MIRROR: Final = (
    "'system:nodes' in request.userInfo.groups && "
    "'kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({})"
)


def gated_namespaces(selector: LabelSelector | None, home: str) -> LabelSelector:
    """The namespaces in which AAQ gates pods, without its own and kube-system."""
    by_label = LabelExpression(key=GATING_LABEL, operator="Exists")
    wanted = selector or LabelSelector()
    expressions = wanted.match_expressions if selector is not None else (by_label,)
    return LabelSelector(
        match_labels=wanted.match_labels, match_expressions=(*expressions, spared(home))
    )


def guard_documents(selector: LabelSelector | None, home: str) -> tuple[Document, Document]:
    """The policy and its binding."""
    spec: Document = {
        "matchConstraints": {"resourceRules": [rule(["CREATE"], "pods")]},
        "matchConditions": [{"name": "no-mirror", "expression": f"!({_IS_MIRROR})"}],
        "validations": [validation(_HAS_GATE, REFUSED)],
    }
    namespaces = selector_document(gated_namespaces(selector, home))
    where: Document = {"matchResources": {"namespaceSelector": namespaces}}
    return admission_policy("Validating", GUARD, spec, where, labels={GROUP: ""})


def shared_gate_conditions(home: str) -> list[Document]:
    """Match conditions for AAQ's webhook, which gates a pod a second time, and so refuses it.

    It does not see pods that Bursar's policy has gated, nor Bursar's own pods. It does not see
    dry-runs either, so that a dry-run shows whether Bursar gates pods.
    """
    expressions = (
        f"!({_HAS_GATE})",
        f"!(request.namespace in ['{KUBE_SYSTEM}', '{home}'])",
        "!request.?dryRun.orValue(false)",
    )
    return [
        {"name": name, "expression": expression}
        for name, expression in zip(SHARED_GATE, expressions, strict=True)
    ]
