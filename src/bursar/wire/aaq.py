"""Decoding of AAQ objects: how an administrator wants the installation to be, and its status."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.cel.errors import EvalError
from bursar.core.cel.times import duration_of
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.selectors.selector import LabelSelector, SelectorError, selector_of
from bursar.core.operator.tls import TlsSecurityProfile
from bursar.wire.documents.tree import Json
from bursar.wire.quota.objects import RawSelector, label_selector
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import FieldError, decode_texts
from bursar.wire.structs.metadata import Condition, ObjectMeta
from bursar.wire.structs.struct import Struct

HOUR: Final = 3600
SECOND_NS: Final = 1_000_000_000
PULL_POLICIES: Final = ("", "Always", "IfNotPresent", "Never")


# ------------------------------------------------------------------ what is read


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateLife:
    """How long certificates live, and how long before their end they are renewed, in seconds."""

    duration_s: int
    renew_before_s: int


CA_LIFE: Final = CertificateLife(duration_s=48 * HOUR, renew_before_s=24 * HOUR)
SERVER_LIFE: Final = CertificateLife(duration_s=24 * HOUR, renew_before_s=12 * HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class AaqSpec:
    """`spec` of an AAQ object, with AAQ's defaults."""

    pull_policy: str = ""
    """Empty: as Kubernetes decides by the tag of the image."""
    infra: Mapping[str, Json] = field(default_factory=dict)
    """`nodeSelector`, `affinity` and `tolerations` of the pods, as they are written."""
    has_workload: bool = False
    """Whether `spec.workload` places anything."""
    ca: CertificateLife = CA_LIFE
    server: CertificateLife = SERVER_LIFE
    priority_class: str = ""
    namespace_selector: LabelSelector | None = None
    """The gated namespaces; it is valid. None: the namespaces with AAQ's label."""
    vmi_mode: VmiMode = VmiMode.DEDICATED
    sidecars: Sequence[Mapping[str, Json]] = ()
    """Containers of the sidecars, as they are written."""
    allows_cluster_quota: bool = False
    tls: TlsSecurityProfile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """A condition as the status has it."""

    type: str
    status: str
    reason: str
    message: str
    since: str
    """`lastTransitionTime`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AaqStatus:
    phase: str = ""
    operator_version: str = ""
    target_version: str = ""
    observed_version: str = ""
    conditions: tuple[WrittenCondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AaqObject:
    name: str
    uid: str
    created: str
    """`creationTimestamp`; texts of this form sort by time."""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: AaqSpec | None
    """None if it cannot be read; `problem` says why."""
    problem: str = ""
    status: AaqStatus = AaqStatus()


# ------------------------------------------------------------------ structs


class _Status(Struct):
    phase: str | None = None
    operator_version: str | None = None
    target_version: str | None = None
    observed_version: str | None = None
    conditions: list[Condition] | None = None


class _Head(Struct):
    """An AAQ object without its spec, which can be read even if the spec cannot."""

    metadata: ObjectMeta | None = None
    status: _Status | None = None


class _Life(Struct):
    duration: str | None = None
    renew_before: str | None = None


class _Lives(Struct):
    ca: _Life | None = None
    server: _Life | None = None


class _Calculator(Struct):
    config_name: str | None = None


class _Configuration(Struct):
    vmi_calculator_configuration: _Calculator | None = None
    allow_application_aware_cluster_resource_quota: bool | None = None


class _Custom(Struct):
    ciphers: list[str] | None = None
    min_t_l_s_version: str | None = None


class _Tls(Struct):
    type: str | None = None
    custom: _Custom | None = None


class _Spec(Struct):
    image_pull_policy: str | None = None
    cert_config: _Lives | None = None
    priority_class: str | None = None
    namespace_selector: RawSelector | None = None
    configuration: _Configuration | None = None
    tls_security_profile: _Tls | None = None


class _Body(Struct):
    spec: _Spec | None = None


# ------------------------------------------------------------------ decoding


def decode_aaq(body: bytes) -> AaqObject:
    """Read an AAQ object. Raises `ValueError` only if not even its metadata can be read."""
    head = decode_body(body, _Head)
    meta = head.metadata or ObjectMeta()
    spec, problem = None, ""
    try:
        spec = _spec(decode_body(body, _Body).spec or _Spec(), json.loads(body).get("spec") or {})
    except ValueError as error:
        problem = str(error)
    return AaqObject(
        name=meta.name or "",
        uid=meta.uid or "",
        created=meta.creation_timestamp or "",
        is_deleting=meta.deletion_timestamp is not None,
        finalizers=tuple(meta.finalizers or ()),
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        spec=spec,
        problem=problem,
        status=_status(head.status or _Status()),
    )


def _status(raw: _Status) -> AaqStatus:
    return AaqStatus(
        phase=raw.phase or "",
        operator_version=raw.operator_version or "",
        target_version=raw.target_version or "",
        observed_version=raw.observed_version or "",
        conditions=tuple(
            WrittenCondition(
                type=each.type or "",
                status=each.status or "",
                reason=each.reason or "",
                message=each.message or "",
                since=each.last_transition_time or "",
            )
            for each in raw.conditions or ()
        ),
    )


def _spec(raw: _Spec, tree: Mapping[str, Json]) -> AaqSpec:
    lives, configuration = raw.cert_config or _Lives(), raw.configuration or _Configuration()
    policy = raw.image_pull_policy or ""
    if policy not in PULL_POLICIES:
        raise FieldError("spec.imagePullPolicy", "Always, IfNotPresent or Never is expected")
    return AaqSpec(
        pull_policy=policy,
        infra=_placement(tree.get("infra")),
        has_workload=bool(_placement(tree.get("workload"))),
        ca=_life(lives.ca or _Life(), CA_LIFE, "spec.certConfig.ca"),
        server=_life(lives.server or _Life(), SERVER_LIFE, "spec.certConfig.server"),
        priority_class=raw.priority_class or "",
        namespace_selector=_selector(raw.namespace_selector),
        vmi_mode=_mode(configuration.vmi_calculator_configuration or _Calculator()),
        sidecars=_sidecars(tree.get("configuration")),
        allows_cluster_quota=bool(configuration.allow_application_aware_cluster_resource_quota),
        tls=_tls(raw.tls_security_profile),
    )


def _placement(value: Json) -> Mapping[str, Json]:
    """The fields of a NodePlacement that say something."""
    if not isinstance(value, dict):
        return {}
    names = ("nodeSelector", "affinity", "tolerations")
    return {name: value[name] for name in names if value.get(name)}


def _sidecars(configuration: Json) -> tuple[Mapping[str, Json], ...]:
    found = configuration.get("sidecarEvaluators") if isinstance(configuration, dict) else None
    return tuple(each for each in found if isinstance(each, dict)) if found else ()


def _life(raw: _Life, default: CertificateLife, place: str) -> CertificateLife:
    duration = _seconds(raw.duration, default.duration_s, f"{place}.duration")
    usual = min(default.renew_before_s, duration // 2)
    renew = _seconds(raw.renew_before, usual, f"{place}.renewBefore")
    if not 0 < renew < duration:
        raise FieldError(f"{place}.renewBefore", "more than 0s and less than duration is expected")
    return CertificateLife(duration_s=duration, renew_before_s=renew)


def _seconds(text: str | None, default: int, place: str) -> int:
    if not text:
        return default
    try:
        nanoseconds = duration_of(text).nanos
    except EvalError:
        raise FieldError(place, "a duration such as 48h or 30m is expected") from None
    return nanoseconds // SECOND_NS


def _selector(raw: RawSelector | None) -> LabelSelector | None:
    if raw is None:
        return None
    found = label_selector(raw)
    try:
        selector_of(found)
    except SelectorError as error:
        raise FieldError("spec.namespaceSelector", str(error)) from None
    return found


def _mode(raw: _Calculator) -> VmiMode:
    name = raw.config_name or VmiMode.DEDICATED.value
    try:
        return VmiMode(name)
    except ValueError:
        place = "spec.configuration.vmiCalculatorConfiguration.configName"
        known = ", ".join(each.value for each in VmiMode)
        raise FieldError(place, f"one of {known} is expected") from None


def _tls(raw: _Tls | None) -> TlsSecurityProfile | None:
    if raw is None:
        return None
    if raw.custom is None:
        return TlsSecurityProfile(type=raw.type or "Intermediate")
    return TlsSecurityProfile(
        type="Custom",
        version=raw.custom.min_t_l_s_version or "",
        ciphers=tuple(raw.custom.ciphers or ()),
    )
