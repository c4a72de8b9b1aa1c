"""Which kinds the embedded cluster knows: the built-in ones, and those CRDs bring.

A kind says how its objects behave: whether their status is written apart, whether
they count generations, which fields can be selected by. There is no schema of the
built-in kinds: fields nobody reads are stored as they come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bursar.adapters.memory import faults
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import Resource

COMMON_FIELDS: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the objects of one resource behave."""

    resource: Resource
    has_status: bool = False
    """Status is written through the subresource only."""
    status_at_creation: bool = False
    """A status given at creation is kept, though it is written apart later."""
    counts_generation: bool = False
    annotations_count: bool = False
    """A change of annotations is a new generation, too."""
    has_label_name: bool = False
    """Names are RFC 1123 labels, that is, without dots."""
    has_spec: bool = False
    """A spec is there even if nobody wrote one."""
    needs_revision: bool = False
    """Whoever takes the revision out of an object cannot update it."""
    has_free_finalizers: bool = False
    """Finalizers of ours need no domain in front of them."""
    is_graceful: bool = False
    """Deletion gives whoever runs the object time to let go."""
    is_custom: bool = False
    fields: tuple[str, ...] | None = None
    """What can be selected by; None for kinds that know only the common fields."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """Of a custom kind, its OpenAPI schema: it says which lists are keyed."""

    @property
    def place(self) -> str:
        """Where the objects are kept, whichever version they are asked for in."""
        return str(self.resource)


def _core(plural: str, kind: str, *, is_namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, is_namespaced)


NAMESPACES: Final = _core("namespaces", "Namespace", is_namespaced=False)
PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", is_namespaced=False)
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = _core("limitranges", "LimitRange")
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
BINDINGS: Final = _core("bindings", "Binding")
"""Only created: a binding puts a pod on a node and is not kept."""
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False
)
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", is_namespaced=False
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRDS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    is_namespaced=False,
)

_POD_FIELDS: Final = (
    *COMMON_FIELDS,
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)

BUILT_IN: Final = (
    Kind(
        resource=NAMESPACES,
        has_status=True,
        has_label_name=True,
        fields=("metadata.name", "status.phase"),
    ),
    Kind(
        resource=PODS,
        has_status=True,
        counts_generation=True,
        is_graceful=True,
        fields=_POD_FIELDS,
    ),
    Kind(
        resource=NODES,
        has_status=True,
        status_at_creation=True,
        fields=("metadata.name", "spec.unschedulable"),
    ),
    Kind(resource=RESOURCE_QUOTAS, has_status=True),
    Kind(resource=LIMIT_RANGES, has_spec=True),
    Kind(resource=CONFIG_MAPS),
    Kind(resource=SECRETS, fields=(*COMMON_FIELDS, "type")),
    Kind(resource=SERVICE_ACCOUNTS),
    Kind(resource=EVENTS, fields=(*COMMON_FIELDS, "reason", "type", "regarding.name")),
    Kind(resource=LEASES, has_spec=True, needs_revision=True, has_free_finalizers=True),
    Kind(resource=PRIORITY_CLASSES, counts_generation=True),
    Kind(resource=RUNTIME_CLASSES, needs_revision=True),
    Kind(resource=DEPLOYMENTS, has_status=True, counts_generation=True, annotations_count=True),
    Kind(resource=REPLICA_SETS, has_status=True, counts_generation=True),
    Kind(resource=STATEFUL_SETS, has_status=True, counts_generation=True),
    Kind(resource=DAEMON_SETS, has_status=True, counts_generation=True),
    Kind(resource=JOBS, has_status=True, counts_generation=True),
    Kind(resource=CRDS, has_status=True, counts_generation=True, needs_revision=True),
)


class Kinds:
    """The kinds of one cluster, by where they are served and by what documents call them."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], Kind] = {}
        self._named: dict[tuple[str, str], Kind] = {}
        for kind in BUILT_IN:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._served.values())

    def add(self, kind: Kind) -> None:
        resource = kind.resource
        self._served[resource.group, resource.version, resource.plural] = kind
        self._named[resource.api_version, resource.kind] = kind

    def remove(self, kind: Kind) -> None:
        resource = kind.resource
        del self._served[resource.group, resource.version, resource.plural]
        del self._named[resource.api_version, resource.kind]

    def of(self, resource: Resource) -> Kind:
        """The kind served there. Raises `NotFoundError`."""
        kind = self._served.get((resource.group, resource.version, resource.plural))
        if kind is None:
            raise faults.unknown_kind(resource)
        return kind

    def named(self, api_version: object, kind: object) -> Kind | None:
        """The kind a document names with `apiVersion` and `kind`, if it is known."""
        return self._named.get((str(api_version), str(kind)))


def custom_kind(definition: JsonObject) -> Kind | None:
    """The kind a CRD defines, in the version it stores; None if the CRD is not sound."""
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return None
    names, group = spec.get("names") or {}, spec.get("group")
    stored = [
        version
        for version in spec.get("versions") or ()
        if version.get("storage") and version.get("served")
    ]
    if not stored or not group or not names.get("plural") or not names.get("kind"):
        return None
    version = stored[0]
    selectable = [
        str(entry.get("jsonPath", "")).removeprefix(".")
        for entry in version.get("selectableFields") or ()
    ]
    return Kind(
        resource=Resource(
            group,
            version["name"],
            names["plural"],
            names["kind"],
            spec.get("scope") == "Namespaced",
        ),
        has_status="status" in (version.get("subresources") or {}),
        counts_generation=True,
        needs_revision=True,
        has_free_finalizers=True,
        is_custom=True,
        fields=(*COMMON_FIELDS, *selectable),
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
    )
