"""Rules for claims: PersistentVolumeClaim specs inside manifests, and a pod's resource claims."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import label_errors, subdomain_errors
from bursar.core.model.problem import (
    NO_VALUE,
    JsonText,
    Problem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bursar.wire.validation.formats import NOT_POSITIVE, each_invalid
from bursar.wire.validation.labels import annotations, label_selector, labels
from bursar.wire.validation.section import Section

_ACCESS_MODES: Final = (
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
)
_VOLUME_MODES: Final = ("Block", "Filesystem")
_TEMPLATE_METADATA: Final = frozenset({"annotations", "labels"})
_METADATA_NAMES: Final = {"uid": "uID"}
"""Fields whose Go name differs from that in JSON by more than its first letter."""
_UNSET: Final = (None, "", 0)
_POINTERS: Final = frozenset({"deletionGracePeriodSeconds"})
"""Numbers that are pointers in Go: 0 is a value there, and not the same as unset."""


def claim_template(template: Section) -> Iterator[Problem]:
    """The claim of an ephemeral volume."""
    meta = template.child("metadata")
    yield from annotations(meta.at("annotations"), meta.text_map("annotations"))
    yield from labels(meta.at("labels"), meta.text_map("labels"))
    for name in sorted(meta.value):
        unset = (None,) if name in _POINTERS else _UNSET
        if name not in _TEMPLATE_METADATA and meta.value[name] not in unset:
            yield forbidden(meta.at(_METADATA_NAMES.get(name, name)), "cannot be set")
    yield from claim_spec(template.child("spec"))


def claim_spec(spec: Section) -> Iterator[Problem]:
    modes = spec.texts("accessModes")
    if not modes:
        yield required(spec.at("accessModes"), "at least 1 access mode is required")
    yield from label_selector(spec.maybe_child("selector"))
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(spec.at("accessModes"), JsonText(mode), _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*_ACCESS_MODES[:3]}:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden(spec.at("accessModes"), detail)
    yield from _storage(spec)
    for name in ("storageClassName", "volumeAttributesClassName"):
        if given := spec.text(name):
            yield from each_invalid(spec.at(name), given, subdomain_errors(given))
    volume_mode = spec.maybe_text("volumeMode")
    if volume_mode is not None and volume_mode not in _VOLUME_MODES:
        yield not_supported(spec.at("volumeMode"), JsonText(volume_mode), _VOLUME_MODES)
    yield from _sources(spec)


def _storage(spec: Section) -> Iterator[Problem]:
    field = f"{spec.at('resources')}[storage]"
    requests = spec.child("resources").child("requests")
    amount = requests.quantity("storage")
    if "storage" not in requests.value:
        yield required(field)
    elif amount is None or amount.nanos <= 0:
        yield invalid(field, "0" if amount is None else str(amount), NOT_POSITIVE)


def _sources(spec: Section) -> Iterator[Problem]:
    source, reference = spec.maybe_child("dataSource"), spec.maybe_child("dataSourceRef")
    for each in (source, reference):
        if each is not None:
            yield from _source(each)
    namespace = "" if reference is None else reference.text("namespace")
    if reference is not None and namespace:
        field = reference.at("namespace")
        yield from each_invalid(field, namespace, label_errors(namespace))
    if source is None or reference is None:
        return
    if namespace:
        detail = "may not be specified when dataSourceRef.namespace is specified"
        yield invalid(spec.path, NO_VALUE, detail)
    elif any(
        source.value.get(name) != reference.value.get(name) for name in ("apiGroup", "kind", "name")
    ):
        yield invalid(spec.path, NO_VALUE, "must match dataSourceRef")


def _source(source: Section) -> Iterator[Problem]:
    for name in ("name", "kind"):
        if not source.text(name):
            yield required(source.at(name))
    group, kind = source.text("apiGroup"), source.text("kind")
    if group:
        yield from each_invalid(source.at("apiGroup"), group, subdomain_errors(group))
    elif kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(source.path, kind, detail)


def resource_claims(spec: Section) -> Iterator[Problem]:
    """Which claim each entry of `resourceClaims` means; their names are checked elsewhere."""
    for claim in spec.items("resourceClaims"):
        names = ("resourceClaimName", "resourceClaimTemplateName")
        given = [name for name in names if claim.maybe_text(name) is not None]
        if len(given) == 2:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            yield invalid(claim.path, NO_VALUE, detail)
        if not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid(claim.path, NO_VALUE, detail)
        for name in given:
            text = claim.text(name)
            yield from each_invalid(claim.at(name), text, subdomain_errors(text))
