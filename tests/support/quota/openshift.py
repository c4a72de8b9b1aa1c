"""OpenShift's ClusterResourceQuota for clusters that do not have it: its definition."""

from typing import Any

NAME = "clusterresourcequotas.quota.openshift.io"


def _free(**fields: Any) -> dict[str, Any]:
    return {"type": "object", **fields}


_AMOUNT = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",  # noqa: E501
    "x-kubernetes-int-or-string": True,
}
_AMOUNTS = _free(additionalProperties=_AMOUNT)
_TEXTS = _free(additionalProperties={"type": "string"})
_LIST_OF_TEXTS = {"type": "array", "items": {"type": "string"}}
_TOTALS = _free(properties={"hard": _AMOUNTS, "used": _AMOUNTS})
_SCOPE = _free(
    required=["operator", "scopeName"],
    properties={
        "operator": {"type": "string"},
        "scopeName": {"type": "string"},
        "values": _LIST_OF_TEXTS,
    },
)
_LABEL = _free(
    required=["key", "operator"],
    properties={
        "key": {"type": "string"},
        "operator": {"type": "string"},
        "values": _LIST_OF_TEXTS,
    },
)
_LABELS = _free(
    nullable=True,
    properties={"matchLabels": _TEXTS, "matchExpressions": {"type": "array", "items": _LABEL}},
)
_SPEC = _free(
    required=["quota", "selector"],
    properties={
        "quota": _free(
            properties={
                "hard": _AMOUNTS,
                "scopes": _LIST_OF_TEXTS,
                "scopeSelector": _free(
                    properties={"matchExpressions": {"type": "array", "items": _SCOPE}}
                ),
            }
        ),
        "selector": _free(
            properties={"annotations": {**_TEXTS, "nullable": True}, "labels": _LABELS}
        ),
    },
)
_PART = _free(
    required=["namespace", "status"],
    properties={"namespace": {"type": "string"}, "status": _TOTALS},
)
_STATUS = _free(
    required=["total"],
    properties={
        "total": _TOTALS,
        "namespaces": {"type": "array", "nullable": True, "items": _PART},
    },
)

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": "quota.openshift.io",
        "names": {
            "kind": "ClusterResourceQuota",
            "listKind": "ClusterResourceQuotaList",
            "plural": "clusterresourcequotas",
            "singular": "clusterresourcequota",
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": _free(
                        required=["metadata", "spec"],
                        properties={
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": _SPEC,
                            "status": _STATUS,
                        },
                    )
                },
            }
        ],
    },
}
"""The kind, with the fields that OpenShift gives it. Its controller is not part of this."""
