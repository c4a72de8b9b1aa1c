"""The rules for whole pods and pod templates."""

from collections.abc import Iterator
from dataclasses import replace

from bursar.core.model.defaulting import with_defaults, with_template_defaults
from bursar.core.model.names import subdomain_errors
from bursar.core.model.pod import Pod
from bursar.core.model.problem import Problem, forbidden
from bursar.core.model.validation.pod import validate_pod, validate_pod_spec
from bursar.core.sharing import NO_LABELS
from bursar.wire.validation.labels import annotations, labels
from bursar.wire.validation.metadata import object_metadata, object_name
from bursar.wire.validation.pods.annotations import agreement, pod_annotations
from bursar.wire.validation.pods.containers import image_spaces
from bursar.wire.validation.pods.spec import pod_spec, visited
from bursar.wire.validation.section import Section


def pod_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    """Check a pod that is created. `pod` is the document as the core reads it."""
    meta, spec = document.child("metadata"), document.child("spec")
    containers, found = visited(spec), meta.text_map("annotations")
    yield from object_metadata(meta, subdomain_errors)
    yield from pod_annotations(meta.at("annotations"), found, spec, containers)
    yield from validate_pod(with_defaults(pod))
    yield from pod_spec(spec, pod_name=object_name(meta), labels=meta.text_map("labels"))
    for name in ("containers", "initContainers"):
        for container in spec.items(name):
            yield from image_spaces(container)
    if spec.count("ephemeralContainers") and not meta.text("uid"):
        # A pod with a UID has been created, and was given these containers afterwards.
        yield forbidden(spec.at("ephemeralContainers"), "cannot be set on create")
    yield from agreement(found, spec, containers, is_pod=True)


def template_problems(template: Section, pod: Pod) -> Iterator[Problem]:
    """Check a pod template. `pod` is the pod that it describes, before defaults."""
    meta, spec = template.child("metadata"), template.child("spec")
    containers, found = visited(spec), meta.text_map("annotations")
    # Upstream leaves `metadata` out of these paths.
    yield from labels(template.at("labels"), meta.text_map("labels"))
    yield from annotations(template.at("annotations"), found)
    yield from pod_annotations(template.at("annotations"), found, spec, containers)
    # A template is no mirror pod, whatever its annotations are.
    stored = with_template_defaults(replace(pod, annotations=NO_LABELS))
    for problem in validate_pod_spec(stored):
        yield replace(problem, field=f"{template.path}.{problem.field}")
    yield from pod_spec(spec)
    yield from agreement(found, spec, containers, is_pod=False)
    if spec.count("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden(spec.at("ephemeralContainers"), detail)
