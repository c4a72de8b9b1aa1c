"""Rules for an object's metadata."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from bursar.core.model.names import label_errors, qualified_name_errors, subdomain_errors
from bursar.core.model.problem import NO_VALUE, JsonText, Problem, invalid, required
from bursar.wire.validation.formats import (
    each_invalid,
    label_of_prefix,
    subdomain_of_prefix,
)
from bursar.wire.validation.labels import annotations, labels
from bursar.wire.validation.section import Section

NameErrors: TypeAlias = Callable[[str], tuple[str, ...]]
_PREFIX_RULE: Final[dict[NameErrors, NameErrors]] = {
    label_errors: label_of_prefix,
    subdomain_errors: subdomain_of_prefix,
}
_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_GENERATED: Final = "xxxxx"
_GENERATED_BASE_MAX: Final = 58


def object_name(meta: Section) -> str:
    """The name, or one as the server would make it from generateName."""
    name, prefix = meta.text("name"), meta.text("generateName")
    if name or not prefix:
        return name
    return prefix[:_GENERATED_BASE_MAX] + _GENERATED


def object_metadata(
    meta: Section, name_errors: NameErrors, *, prefix_checked: bool = True
) -> Iterator[Problem]:
    """Check the metadata of a namespaced object."""
    prefix, name = meta.text("generateName"), object_name(meta)
    if prefix and prefix_checked:
        yield from each_invalid(meta.at("generateName"), prefix, _PREFIX_RULE[name_errors](prefix))
    if name:
        yield from each_invalid(meta.at("name"), name, name_errors(name))
    else:
        yield required(meta.at("name"), "name or generateName is required")
    if namespace := meta.text("namespace"):
        yield from each_invalid(meta.at("namespace"), namespace, label_errors(namespace))
    yield from labels(meta.at("labels"), meta.text_map("labels"))
    yield from annotations(meta.at("annotations"), meta.text_map("annotations"))
    yield from _owners(meta)
    yield from _finalizers(meta)


def _owners(meta: Section) -> Iterator[Problem]:
    field, controller = meta.at("ownerReferences"), ""
    for owner in meta.items("ownerReferences"):
        yield from _owner(field, owner)
        if not owner.flag("controller"):
            continue
        named = f"{owner.text('kind')}/{owner.text('name')}"
        if controller:
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {named}'
            )
            yield invalid(field, NO_VALUE, detail)
        else:
            controller = named


def _owner(field: str, owner: Section) -> Iterator[Problem]:
    version, kind = owner.text("apiVersion"), owner.text("kind")
    # A version with two slashes is no version to upstream.
    if not version or version.count("/") > 1 or version.endswith("/"):
        yield invalid(f"{field}.apiVersion", version, "version must not be empty")
    if not kind:
        yield invalid(f"{field}.kind", kind, "must not be empty")
    if not owner.text("name"):
        yield invalid(f"{field}.name", "", "must not be empty")
    if not owner.text("uid"):
        yield invalid(f"{field}.uid", JsonText(""), "must not be empty")
    if (version, kind) == ("v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        yield invalid(field, NO_VALUE, detail)


def _finalizers(meta: Section) -> Iterator[Problem]:
    field, finalizers = meta.at("finalizers"), meta.texts("finalizers")
    for index, finalizer in enumerate(finalizers):
        yield from each_invalid(field, finalizer, qualified_name_errors(finalizer))
        if "/" not in finalizer and finalizer not in _FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{field}[{index}]", finalizer, detail)
    if {"orphan", "foregroundDeletion"} <= {*finalizers}:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid(field, finalizers, detail)
