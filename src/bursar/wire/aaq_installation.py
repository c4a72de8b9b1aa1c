"""Decoding of the objects of an AAQ installation, with the fields that a move depends on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.core.model.selectors.selector import LabelSelector
from bursar.wire.quota.objects import RawSelector, label_selector
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import decode_texts
from bursar.wire.structs.metadata import Named, ObjectMeta, OwnerReference, PartialObjectMetadata
from bursar.wire.structs.struct import Struct

VMI_OPTION = "--VMI_CALCULATOR_CONFIGURATION"
"""Option of AAQ's controller. Without it, pods of VMs are counted as any other pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An entry of `ownerReferences`."""

    api_version: str
    kind: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[Owner, ...] = ()
    is_deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    metadata: Metadata
    replicas: int
    ready: int
    pod_labels: Mapping[str, str]
    """The labels by which the Deployment selects its pods."""
    arguments: tuple[str, ...] = ()
    """The arguments of all containers."""
    containers: tuple[str, ...] = ()

    @property
    def vmi_mode(self) -> str:
        """The mode in which AAQ's controller counts VMs; empty if the option is missing."""
        for index, argument in enumerate(self.arguments):
            name, equals, value = argument.partition("=")
            if name == VMI_OPTION:
                return value if equals else "".join(self.arguments[index + 1 : index + 2])
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AaqFacts:
    """The AAQ object."""

    metadata: Metadata
    selector: LabelSelector | None
    """The gated namespaces; None for those with AAQ's label."""
    vmi_mode: str
    sidecars: tuple[str, ...]
    allows_cluster_quotas: bool
    phase: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFacts:
    """A webhook configuration."""

    metadata: Metadata
    webhooks: tuple[str, ...]
    conditions: tuple[frozenset[str], ...]
    """The names of the match conditions of each webhook."""
    unselective: tuple[str, ...]
    """The webhooks that apply to every namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueFacts:
    """An AAQJobQueueConfig: the pods that AAQ is releasing, and its locks."""

    metadata: Metadata
    is_locked: bool
    is_fully_locked: bool
    pods: tuple[str, ...]


class _Container(Struct):
    name: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class _PodSpec(Struct):
    containers: list[_Container] | None = None


class _Template(Struct):
    spec: _PodSpec | None = None


class _DeploymentSpec(Struct):
    replicas: int | None = None
    selector: RawSelector | None = None
    template: _Template | None = None


class _DeploymentStatus(Struct):
    ready_replicas: int | None = None
    observed_generation: int | None = None


class _Deployment(Struct):
    metadata: ObjectMeta | None = None
    spec: _DeploymentSpec | None = None
    status: _DeploymentStatus | None = None


class _Vmi(Struct):
    config_name: str | None = None


class _Configuration(Struct):
    vmi_calculator_configuration: _Vmi | None = None
    sidecar_evaluators: list[Named] | None = None
    allow_application_aware_cluster_resource_quota: bool | None = None


class _AaqSpec(Struct):
    namespace_selector: RawSelector | None = None
    configuration: _Configuration | None = None


class _AaqStatus(Struct):
    phase: str | None = None
    observed_version: str | None = None


class _Aaq(Struct):
    metadata: ObjectMeta | None = None
    spec: _AaqSpec | None = None
    status: _AaqStatus | None = None


class _Webhook(Struct):
    name: str | None = None
    namespace_selector: RawSelector | None = None
    match_conditions: list[Named] | None = None


class _Webhooks(Struct):
    metadata: ObjectMeta | None = None
    webhooks: list[_Webhook] | None = None


class _JobQueueStatus(Struct):
    pods_in_job_queue: list[str] | None = None
    controller_lock: dict[str, bool] | None = None


class _JobQueue(Struct):
    metadata: ObjectMeta | None = None
    status: _JobQueueStatus | None = None


def decode_metadata(body: bytes) -> Metadata:
    """Read the metadata of an object of any kind. Raises `ValueError`."""
    return _metadata(decode_body(body, PartialObjectMetadata).metadata)


def decode_deployment(body: bytes) -> DeploymentFacts:
    """Read a Deployment. Raises `ValueError`."""
    raw = decode_body(body, _Deployment)
    spec, status = raw.spec or _DeploymentSpec(), raw.status or _DeploymentStatus()
    containers = ((spec.template or _Template()).spec or _PodSpec()).containers or []
    generation = (raw.metadata or ObjectMeta()).generation or 0
    is_observed = (status.observed_generation or 0) >= generation
    return DeploymentFacts(
        metadata=_metadata(raw.metadata),
        replicas=1 if spec.replicas is None else spec.replicas,
        ready=(status.ready_replicas or 0) if is_observed else 0,
        pod_labels=label_selector(spec.selector or RawSelector()).match_labels,
        arguments=tuple(
            text for each in containers for text in (*(each.command or ()), *(each.args or ()))
        ),
        containers=tuple(each.name or "" for each in containers),
    )


def decode_aaq(body: bytes) -> AaqFacts:
    """Read an AAQ object. Raises `ValueError`."""
    raw = decode_body(body, _Aaq)
    spec, status = raw.spec or _AaqSpec(), raw.status or _AaqStatus()
    chosen = spec.configuration or _Configuration()
    selector = spec.namespace_selector
    return AaqFacts(
        metadata=_metadata(raw.metadata),
        selector=None if selector is None else label_selector(selector),
        vmi_mode=(chosen.vmi_calculator_configuration or _Vmi()).config_name or "",
        sidecars=tuple(each.name or "" for each in chosen.sidecar_evaluators or ()),
        allows_cluster_quotas=bool(chosen.allow_application_aware_cluster_resource_quota),
        phase=status.phase or "",
        version=status.observed_version or "",
    )


def decode_webhooks(body: bytes) -> WebhookFacts:
    """Read a webhook configuration. Raises `ValueError`."""
    raw = decode_body(body, _Webhooks)
    listed = raw.webhooks or []
    return WebhookFacts(
        metadata=_metadata(raw.metadata),
        webhooks=tuple(each.name or "" for each in listed),
        conditions=tuple(
            frozenset(condition.name or "" for condition in each.match_conditions or ())
            for each in listed
        ),
        unselective=tuple(
            each.name or "" for each in listed if _selects_all(each.namespace_selector)
        ),
    )


def decode_job_queue(body: bytes, locks: Iterable[str]) -> JobQueueFacts:
    """Read an AAQJobQueueConfig. `locks` are the names of all locks. Raises `ValueError`."""
    raw = decode_body(body, _JobQueue)
    status = raw.status or _JobQueueStatus()
    held = status.controller_lock or {}
    return JobQueueFacts(
        metadata=_metadata(raw.metadata),
        is_locked=any(held.values()),
        is_fully_locked=all(held.get(name, False) for name in locks),
        pods=tuple(status.pods_in_job_queue or ()),
    )


def _selects_all(raw: RawSelector | None) -> bool:
    return raw is None or not (raw.match_labels or raw.match_expressions)


def _metadata(raw: ObjectMeta | None) -> Metadata:
    meta = raw or ObjectMeta()
    return Metadata(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        owners=tuple(map(_owner, meta.owner_references or ())),
        is_deleting=bool(meta.deletion_timestamp),
    )


def _owner(raw: OwnerReference) -> Owner:
    return Owner(api_version=raw.api_version or "", kind=raw.kind or "", name=raw.name or "")
