"""The kinds that the embedded cluster serves: built-in kinds, and kinds that CRDs define.

A kind has settings for how its objects behave: whether status is a subresource, whether
`metadata.generation` is counted, which field selectors exist. Built-in kinds have no schema:
fields that Bursar does not read are stored unchecked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bursar.adapters.memory import errors
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import (
    CONFIG_MAPS,
    CRDS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from bursar.app.cluster.ports import Resource

COMMON_FIELDS: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the objects of one resource behave."""

    resource: Resource
    has_status: bool = False
    """Status is a subresource: only writes to it change the status."""
    status_at_creation: bool = False
    """A status in the created object is kept, although status is a subresource."""
    counts_generation: bool = False
    annotations_count: bool = False
    """A change of annotations increments `metadata.generation`."""
    has_label_name: bool = False
    """Names are RFC 1123 labels, which have no dots."""
    has_spec: bool = False
    """An object without a spec is stored with an empty one."""
    needs_revision: bool = False
    """An update must contain a resourceVersion."""
    has_free_finalizers: bool = False
    """Finalizers need no domain prefix."""
    is_graceful: bool = False
    """Deletion has a grace period, in which the node stops the object."""
    is_custom: bool = False
    fields: tuple[str, ...] | None = None
    """Field selectors of the kind; None if there are only those that all kinds have."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The OpenAPI schema of a custom kind. Server-side apply reads list keys from it."""

    @property
    def place(self) -> str:
        """The key under which the objects are stored, without the API version."""
        return str(self.resource)


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
    Kind(resource=CRON_JOBS, has_status=True, counts_generation=True),
    Kind(resource=CRDS, has_status=True, counts_generation=True, needs_revision=True),
)


class Kinds:
    """The kinds of one cluster, by resource and by the `apiVersion` and `kind` of documents."""

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
        """The kind of a resource. Raises `NotFoundError`."""
        kind = self._served.get((resource.group, resource.version, resource.plural))
        if kind is None:
            raise errors.unknown_kind(resource)
        return kind

    def named(self, api_version: object, kind: object) -> Kind | None:
        """The kind with this `apiVersion` and `kind`; None if there is none."""
        return self._named.get((str(api_version), str(kind)))


def custom_kind(definition: JsonObject) -> Kind | None:
    """The kind that a CRD defines, in its storage version; None if the CRD is invalid."""
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
