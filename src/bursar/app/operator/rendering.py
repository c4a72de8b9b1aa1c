"""The objects that an AAQ object stands for.

They are made by the functions of `app/install`, from which `bursar manifests` and the chart are
made too. The operator adds one label, by which it finds its objects again, and copies two labels of
the AAQ object, as AAQ does: an installer of many operators finds all objects by them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final

from bursar.app.cluster.kinds import DEPLOYMENTS
from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE
from bursar.app.install.access import access_documents
from bursar.app.install.admission import (
    GatingSettings,
    policy_documents,
    scope_policy_documents,
    single_configuration_documents,
    waiting_pods_documents,
    webhook_documents,
)
from bursar.app.install.documents import Document, wanted_definitions
from bursar.app.install.workloads import (
    PART_OF,
    PRIORITY_CLASS,
    REPLICAS,
    WorkloadSettings,
    controller_documents,
)
from bursar.app.install.workloads import webhook_documents as webhook_workload_documents
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.core.certificates.facts import CertificateSettings
from bursar.core.model.selectors.selector import selector_of
from bursar.core.operator.tls import tls_choice
from bursar.wire.aaq import AaqObject, AaqSpec, CertificateLife

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OPERATOR_NAME: Final = "bursar-operator"
"""Field manager of the operator, and the value of the label of its objects."""
INSTALLER_LABELS: Final = (PART_OF, "app.kubernetes.io/version")
"""Labels of the AAQ object that all objects and pods of the installation get."""
KUBEVIRT_CLASS: Final = "kubevirt-cluster-critical"
"""The PriorityClass that AAQ takes if the AAQ object names none and this one exists."""
GATE_ANNOTATION: Final = "bursar.io/gate"
"""Annotation of the AAQ object: whether pods are gated by webhooks, as in AAQ, or by policies."""
NO_MUTATING_POLICIES: Final = (
    "the API server has no MutatingAdmissionPolicy v1, which Kubernetes has from "
    f"1.{MUTATING_POLICIES_SINCE} on, so policies cannot gate pods; choose webhooks"
)


class Gate(Enum):
    """How pods get the gate."""

    WEBHOOKS = "webhooks"
    POLICIES = "policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the objects depend on besides the AAQ object."""

    namespace: str
    """The namespace of the operator. The installation goes there."""
    image: str
    replicas: int = REPLICAS
    has_kubevirt_class: bool = False
    has_mutating_policies: bool = True
    """The API server has MutatingAdmissionPolicy v1."""
    has_cluster_resource_quotas: bool = False
    """Whether the API server serves OpenShift's ClusterResourceQuota."""
    applied: AppliedUsage = AppliedUsage.OWN
    """Whose usage the copies of cluster quotas show, if the AAQ object does not say so."""
    definitions: Sequence[Document] = ()
    """The CustomResourceDefinitions that Bursar has, except that of AAQ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects of an installation, in the order in which they are applied."""

    definitions: tuple[Document, ...]
    base: tuple[Document, ...]
    """Everything that gates no pod."""
    gate: tuple[Document, ...]
    """The objects that gate or refuse pods. They go last: a webhook that does not answer yet would
    refuse every pod of the selected namespaces."""
    ignored: tuple[str, ...] = ()
    """Fields of the AAQ object without effect, one sentence each."""

    @property
    def every(self) -> tuple[Document, ...]:
        return (*self.definitions, *self.base, *self.gate)


def rendered(aaq: AaqObject, around: Surroundings) -> Rendered:
    """The objects for an AAQ object. Raises `ValueError` for a spec that cannot be installed."""
    spec, gate = aaq.spec, _gate(aaq)
    if spec is None:
        raise ValueError(aaq.problem)
    if gate is Gate.POLICIES and not around.has_mutating_policies:
        raise ValueError(f"metadata.annotations[{GATE_ANNOTATION}]: {NO_MUTATING_POLICIES}")
    gating = GatingSettings(
        namespace=around.namespace,
        namespace_selector=spec.namespace_selector,
        allow_cluster_quota=spec.allows_cluster_quota,
        has_cluster_resource_quotas=around.has_cluster_resource_quotas,
    )
    workload = workload_settings(spec, around, AppliedUsage.of_aaq(aaq.annotations, around.applied))
    if gate is Gate.WEBHOOKS:
        servers = webhook_workload_documents(workload)
        gates: tuple[Document, ...] = (
            *webhook_documents(gating),
            *scope_policy_documents(gating),
            *waiting_pods_documents(gating),
        )
    else:
        servers = ()
        # The operator's own manifests have the policy about AAQ objects.
        single = [each["metadata"] for each in single_configuration_documents()]
        gates = tuple(each for each in policy_documents(gating) if each["metadata"] not in single)
    base = (*access_documents(gating), *controller_documents(workload), *servers)
    definitions = wanted_definitions(
        around.definitions, has_cluster_quota=spec.allows_cluster_quota
    )
    copied = {name: aaq.labels[name] for name in INSTALLER_LABELS if name in aaq.labels}
    return Rendered(
        definitions=tuple(owned(each, copied) for each in definitions),
        base=tuple(owned(each, copied) for each in base),
        gate=tuple(owned(each, copied) for each in gates),
        ignored=(*_unused(spec), *tls_choice(spec.tls).ignored),
    )


def workload_settings(
    spec: AaqSpec, around: Surroundings, applied: AppliedUsage = AppliedUsage.OWN
) -> WorkloadSettings:
    require_lives(spec)
    default = KUBEVIRT_CLASS if around.has_kubevirt_class else PRIORITY_CLASS
    return WorkloadSettings(
        image=around.image,
        namespace=around.namespace,
        replicas=around.replicas,
        has_aaq_certificates=True,
        controller_options=(*_controller_options(spec, applied), *_certificate_options(spec)),
        pull_policy=spec.pull_policy,
        priority_class=spec.priority_class or default,
        placement=spec.infra,
        sidecars=spec.sidecars,
        tls=tls_choice(spec.tls),
    )


def _controller_options(spec: AaqSpec, applied: AppliedUsage) -> list[str]:
    found = []
    if spec.namespace_selector is not None:
        found.append(f"--namespace-selector={selector_of(spec.namespace_selector)}")
    if not spec.allows_cluster_quota:
        found.append("--without-cluster-quota")
    if applied is not AppliedUsage.OWN:
        found.append(f"--applied-quotas={applied.value}")
    found.append(f"--vmi-mode={spec.vmi_mode.value}")
    if spec.sidecars:
        found.append(f"--sidecars={len(spec.sidecars)}")
    return found


def _certificate_options(spec: AaqSpec) -> list[str]:
    return [*_life("certificate", spec.server), *_life("ca", spec.ca)]


def require_lives(spec: AaqSpec) -> None:
    """Raises `ValueError` for lives with which the controller would not start."""
    try:
        CertificateSettings(
            names=(),
            lifetime=timedelta(seconds=spec.server.duration_s),
            ca_lifetime=timedelta(seconds=spec.ca.duration_s),
            renew_before=timedelta(seconds=spec.server.renew_before_s),
            ca_renew_before=timedelta(seconds=spec.ca.renew_before_s),
        )
    except (ValueError, OverflowError) as error:
        raise ValueError(f"spec.certConfig: {error}") from None


def _life(sort: str, life: CertificateLife) -> list[str]:
    return [
        f"--{sort}-lifetime={life.duration_s}s",
        f"--{sort}-renew-before={life.renew_before_s}s",
    ]


def _gate(aaq: AaqObject) -> Gate:
    text = aaq.annotations.get(GATE_ANNOTATION, Gate.WEBHOOKS.value)
    try:
        return Gate(text)
    except ValueError:
        known = " or ".join(each.value for each in Gate)
        raise ValueError(f"metadata.annotations[{GATE_ANNOTATION}]: {known} is expected") from None


def _unused(spec: AaqSpec) -> list[str]:
    if not spec.has_workload:
        return []
    return ["spec.workload: Bursar has no pods besides those of spec.infra"]


def owned(document: Document, copied: Mapping[str, str]) -> Document:
    """The document with the operator's label and the copied ones, which its pods get as well."""
    found = _labelled(document, {**copied, MANAGED_BY: OPERATOR_NAME})
    if copied and document["kind"] == DEPLOYMENTS.kind:
        spec = document["spec"]
        assert isinstance(spec, dict)
        template = spec["template"]
        assert isinstance(template, dict)
        found["spec"] = {**spec, "template": _labelled(template, copied)}
    return found


def _labelled(document: Document, added: Mapping[str, str]) -> Document:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata.get("labels")
    known = labels if isinstance(labels, Mapping) else {}
    return {**document, "metadata": {**metadata, "labels": {**known, **added}}}
