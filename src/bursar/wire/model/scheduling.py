"""Decoding of what a pod wants of other pods: host ports, pod affinity, topology spread."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from bursar.core.model import pod as core
from bursar.core.model.selectors.selector import (
    NOTHING,
    LabelExpression,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    all_of,
    selector_of,
)
from bursar.core.model.selectors.selector import LabelSelector as CoreLabelSelector
from bursar.wire.structs.fields import FieldError, RawTexts, decode_texts
from bursar.wire.structs.metadata import MatchExpression
from bursar.wire.structs.struct import Struct

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


class ContainerPort(Struct):
    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)
    protocol: str | None = None


class LabelSelector(Struct):
    match_labels: RawTexts | None = None
    match_expressions: list[MatchExpression] | None = None


class PodTerm(Struct):
    label_selector: LabelSelector | None = None
    topology_key: str | None = None
    namespaces: list[str | None] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Struct):
    pod_affinity_term: PodTerm | None = None


class PodAffinity(Struct):
    """`podAffinity` or `podAntiAffinity`, which have the same fields."""

    required: list[PodTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class SpreadConstraint(Struct):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class HasPorts(Protocol):
    ports: list[ContainerPort] | None


def host_ports(containers: Iterable[HasPorts], *, host_network: bool) -> tuple[core.HostPort, ...]:
    """The ports of the node. With `hostNetwork`, each port of a container is one of them."""
    return tuple(
        core.HostPort(
            port=number,
            protocol=port.protocol or core.TCP,
            address=port.host_ip or core.ANY_ADDRESS,
        )
        for container in containers
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if host_network else 0) or 0) > 0
    )


def pod_terms(
    affinity: PodAffinity | None, labels: Mapping[str, str], field: str
) -> tuple[core.PodTerm, ...]:
    """The required terms. A term that names no namespaces is about the pod's own namespace."""
    required = [] if affinity is None else affinity.required or []
    return tuple(
        core.PodTerm(
            topology_key=term.topology_key or "",
            selector=_selector(
                term.label_selector,
                labels,
                f"{field}[{index}].labelSelector",
                equal=term.match_label_keys or (),
                different=term.mismatch_label_keys or (),
            ),
            own_namespace=not term.namespaces and term.namespace_selector is None,
            namespaces=tuple(name or "" for name in term.namespaces or ()),
            namespace_selector=_selector(
                term.namespace_selector, {}, f"{field}[{index}].namespaceSelector"
            ),
        )
        for index, term in enumerate(required)
    )


def spread_constraints(
    raw: list[SpreadConstraint] | None, labels: Mapping[str, str]
) -> tuple[core.SpreadConstraint, ...]:
    """The constraints that can keep a pod from a node."""
    return tuple(
        core.SpreadConstraint(
            topology_key=each.topology_key or "",
            max_skew=each.max_skew or 0,
            selector=_selector(
                each.label_selector,
                labels,
                f"spec.topologySpreadConstraints[{index}].labelSelector",
                equal=each.match_label_keys or (),
            ),
            min_domains=each.min_domains or 1,
            honors_affinity=(each.node_affinity_policy or HONOR) == HONOR,
            honors_taints=(each.node_taints_policy or IGNORE) == HONOR,
        )
        for index, each in enumerate(raw or ())
        if each.when_unsatisfiable == DO_NOT_SCHEDULE
    )


def _selector(
    raw: LabelSelector | None,
    labels: Mapping[str, str],
    field: str,
    *,
    equal: Sequence[str] = (),
    different: Sequence[str] = (),
) -> Selector:
    """The selector with `matchLabelKeys`, which the API server adds when it stores a pod."""
    if raw is None:
        return NOTHING
    try:
        selector = selector_of(
            CoreLabelSelector(
                match_labels=decode_texts(raw.match_labels),
                match_expressions=tuple(
                    LabelExpression(
                        key=each.key or "",
                        operator=each.operator or "",
                        values=tuple(value or "" for value in each.values or ()),
                    )
                    for each in raw.match_expressions or ()
                ),
            )
        )
    except SelectorError as error:
        raise FieldError(field, str(error)) from None
    added = [*_of_keys(equal, Operator.IN, labels), *_of_keys(different, Operator.NOT_IN, labels)]
    return all_of([*selector.requirements, *added]) if added else selector


def _of_keys(
    keys: Sequence[str], operator: Operator, labels: Mapping[str, str]
) -> Iterator[Requirement]:
    for key in keys:
        if key in labels:
            yield Requirement(key=key, operator=operator, values=(labels[key],))
