"""A pod, with the fields that its consumption depends on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList, nothing
from bursar.core.model.selectors.selector import NOTHING, Selector
from bursar.core.sharing import no_labels

RESTART_ALWAYS: Final = "Always"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Set by the kubelet on the API's copy of a static pod."""
CONDITION_RESIZE_PENDING: Final = "PodResizePending"
REASON_INFEASIBLE: Final = "Infeasible"
PHASES_TERMINATED: Final = frozenset({"Succeeded", "Failed"})
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the text in a pod, nothing is bound to it
TCP: Final = "TCP"
DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReference:
    """`resources.claims[]`: a device claim, and optionally one request inside it."""

    name: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequirements:
    requests: ResourceList = field(default_factory=nothing)
    limits: ResourceList = field(default_factory=nothing)
    claims: tuple[ClaimReference, ...] = ()


NO_RESOURCES: Final = ResourceRequirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    name: str
    resources: ResourceRequirements = NO_RESOURCES
    restart_policy: str = ""
    """Only meaningful on init containers, where `Always` makes a sidecar."""
    image: str = ""

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container is a sidecar. Meaningless for other containers."""
        return self.restart_policy == RESTART_ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """`state` or `lastState` of a container: exactly one of waiting, running, terminated."""

    kind: str
    """`waiting`, `running` or `terminated`."""
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    signal: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    name: str
    resources: ResourceRequirements | None = None
    """The resources that the kubelet reports as applied; None is not the same as empty."""
    allocated: ResourceList = field(default_factory=nothing)
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDir:
    """An emptyDir volume, with its place in `spec.volumes` for messages."""

    index: int
    name: str
    medium: str = ""
    size_limit: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration. An empty key or effect tolerates every key or effect."""

    key: str = ""
    operator: str = ""
    """The operator as written: `Exists`, `Equal`, or empty for `Equal`."""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """One condition on a label or field of a node, with the operator as written."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """Conditions that must all hold. A term without conditions matches no node."""

    expressions: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the node that a container takes."""

    port: int
    protocol: str = TCP
    address: str = ANY_ADDRESS

    def conflicts_with(self, other: "HostPort") -> bool:
        """Whether both cannot be used on one node: same port and protocol, overlapping address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """One required term of `podAffinity` or `podAntiAffinity`."""

    topology_key: str
    selector: Selector = NOTHING
    own_namespace: bool = True
    """Whether the term is about the namespace of the pod that has it."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One of `topologySpreadConstraints` with `whenUnsatisfiable: DoNotSchedule`."""

    topology_key: str
    max_skew: int = 1
    selector: Selector = NOTHING
    min_domains: int = 1
    honors_affinity: bool = True
    """True: nodes that the pod's node selector or affinity excludes do not count."""
    honors_taints: bool = False
    """True: nodes whose taints the pod does not tolerate do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRules:
    """What a pod requires of the other pods of a cluster, and the volumes that it waits for.

    Preferred rules are not here: they change which node the scheduler chooses, never whether
    there is one.
    """

    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[str, ...] = ()
    """Names of volumes that may tie the pod to some nodes, such as PersistentVolumeClaims."""


NO_RULES: Final = SchedulingRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    """`metadata.deletionTimestamp`: when a deleted pod has to be removed."""
    deletion_grace_s: int | None = None
    """`metadata.deletionGracePeriodSeconds`, which `deleted_at` already includes."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    """Pod-level `spec.resources`; None is not the same as empty (see qos)."""
    overhead: ResourceList = field(default_factory=nothing)
    claim_names: tuple[str, ...] = ()
    """Names in `spec.resourceClaims`, which container claims must refer to."""
    empty_dirs: tuple[EmptyDir, ...] = ()
    node_name: str = ""
    os_name: str = ""
    priority: int | None = None
    priority_class: str = ""
    runtime_class: str = ""
    deadline_s: int | None = None
    """`activeDeadlineSeconds`: how long it may run."""
    preemption_policy: str = ""
    scheduling_gates: tuple[str, ...] = ()
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity, of which one term must hold; None is not the same as no terms."""
    crosses_namespaces: bool = False
    """Whether a term of its pod affinity or anti-affinity names or selects namespaces."""
    rules: SchedulingRules = NO_RULES
    controller_kind: str = ""
    """The kind of the object that made the pod, such as DaemonSet; empty if there is none."""
    controller_name: str = ""

    phase: str = ""
    reason: str = ""
    """`status.reason`: why the pod is in its phase, such as `Evicted`."""
    message: str = ""
    """`status.message`: the same for people, such as which limit the pod exceeded."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    reported_qos: str = ""
    """`status.qosClass` as the API server stored it, or empty."""
    status_resources: ResourceRequirements | None = None
    """Pod-level `status.resources`, reported during an in-place resize."""
    status_allocated: ResourceList = field(default_factory=nothing)
    """Pod-level `status.allocatedResources`."""

    @property
    def is_terminated(self) -> bool:
        return self.phase in PHASES_TERMINATED

    def with_namespace(self) -> "Pod":
        """The pod in the namespace where kubectl creates it."""
        return self if self.namespace else replace(self, namespace=DEFAULT_NAMESPACE)
