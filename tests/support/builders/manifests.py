"""Kubernetes objects as manifests: `pod_manifest("shop/web", "my-gate", requests="cpu=1")`.

An object is named `namespace/name`, or `name` alone. Amounts are written `cpu=1 memory=1Gi`.
"""

from collections.abc import Mapping
from typing import Any

from bursar.adapters.files.crds import crd_documents
from support.builders.pods import listed

Raw = dict[str, Any]
DEFINITIONS = crd_documents()
"""The kinds of AAQ. Reading them takes longer than most tests, so it is done once."""
AAQ_VERSION = "aaq.kubevirt.io/v1alpha1"
ARQ = "ApplicationAwareResourceQuota"
ACRQ = "ApplicationAwareClusterResourceQuota"


def a_manifest(api_version: str, kind: str, where: str, metadata: Raw | None = None, **fields: Any):
    namespace, _, name = where.rpartition("/")
    place = {"namespace": namespace} if namespace else {}
    named = {"name": name, **place, **(metadata or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": named, **fields}


def pod_manifest(  # noqa: PLR0913 - all by name, and all of a pod
    where: str,
    *gates: str,
    requests: str = "",
    limits: str = "",
    node: str = "",
    phase: str = "",
    metadata: Raw | None = None,
    container: str = "c",
    **spec: Any,
) -> Raw:
    """A pod with one container and these scheduling gates; `spec` adds fields or replaces them."""
    amounts = {"requests": listed(requests), "limits": listed(limits)}
    resources = {side: named for side, named in amounts.items() if named}
    optional = {
        "schedulingGates": [{"name": gate} for gate in gates],
        "nodeName": node,
    }
    spec = {
        "containers": [{"name": container, "image": "i", "resources": resources}],
        **{field: value for field, value in optional.items() if value},
        **spec,
    }
    status = {"status": {"phase": phase}} if phase else {}
    return a_manifest("v1", "Pod", where, metadata, spec=spec, **status)


def node_manifest(name: str, amounts: str, *, metadata: Raw | None = None, **status: Any) -> Raw:
    """A node that offers all it has, unless `status` says otherwise."""
    both = {"capacity": listed(amounts), "allocatable": listed(amounts)}
    return a_manifest("v1", "Node", name, metadata, status=both | status)


def namespace_manifest(name: str, **labels: str) -> Raw:
    return a_manifest("v1", "Namespace", name, {"labels": labels} if labels else {})


def arq_manifest(where: str, hard: Mapping[str, str], **fields: Any) -> Raw:
    """The quota of a namespace, in AAQ's kind."""
    return a_manifest(AAQ_VERSION, ARQ, where, spec={"hard": dict(hard)}, **fields)
