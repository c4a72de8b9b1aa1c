"""A base and overlays for kustomize, which give the same objects as `bursar manifests`.

An overlay has the objects that its parts and options add, deletes those that they leave out, and
patches those that they change.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bursar.cli.install.manifests import WITHOUT_WEBHOOK
from bursar.wire.documents.yaml_writing import yaml_stream, yaml_text
from bursar.wire.peerpods.json_patch import patch_between
from chart.printed import Manifest, documents, documents_of_part, identity

FOLDER: Final = "kustomize"
BASE: Final = WITHOUT_WEBHOOK
HEADER: Final = "# Written by `make chart`.\n"
_WITHOUT_POLICIES: Final = tuple(part for part in BASE if part != "policies")


@dataclass(frozen=True)
class Overlay:
    """What `bursar manifests` is asked for, beside the parts of the base."""

    name: str
    parts: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.parts, *self.options)


OVERLAYS: Final = (
    Overlay("webhook", (*_WITHOUT_POLICIES, "webhook", "webhooks")),
    Overlay(
        "cert-manager",
        (*_WITHOUT_POLICIES, "webhook", "webhooks", "certificates"),
        ("--cert-manager",),
    ),
    Overlay("peer-pods", (*BASE, "webhook", "peerpods")),
    Overlay("extender", (*BASE, "extender")),
)


def kustomize_files() -> dict[str, str]:
    found = {}
    for part in BASE:
        others = tuple(each for each in BASE if each != part)
        found[f"base/{part}.yaml"] = _stream(documents_of_part(part, others, ()))
    found["base/kustomization.yaml"] = _kustomization([f"{part}.yaml" for part in BASE])
    for overlay in OVERLAYS:
        for name, text in _overlay_files(overlay).items():
            found[f"overlays/{overlay.name}/{name}"] = text
    return {f"{FOLDER}/{name}": text for name, text in found.items()}


def _overlay_files(overlay: Overlay) -> dict[str, str]:
    base = {identity(each): each for each in documents(*BASE)}
    wanted = {identity(each): each for each in documents(*overlay.arguments)}
    found, resources = {}, ["../../base"]
    for part in overlay.parts:
        others = tuple(each for each in overlay.parts if each != part)
        printed = documents_of_part(part, others, overlay.options)
        added = [each for each in printed if identity(each) not in base]
        if added:
            found[f"{part}.yaml"] = _stream(added)
            resources.append(f"{part}.yaml")
    patches = [_deletion(each) for key, each in base.items() if key not in wanted]
    for key, before in base.items():
        if key in wanted and wanted[key] != before:
            patches.append(_change(before, wanted[key]))
    found["kustomization.yaml"] = _kustomization(resources, patches)
    return found


def _deletion(manifest: Manifest) -> Manifest:
    place = {key: manifest["metadata"][key] for key in ("name",)}
    gone = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": place}
    return {"patch": yaml_text({"$patch": "delete", **gone})}


def _change(before: Manifest, after: Manifest) -> Manifest:
    _, kind, namespace, name = identity(before)
    place = {"namespace": namespace} if namespace else {}
    steps = list(patch_between(before, after))
    return {"target": {"kind": kind, "name": name, **place}, "patch": json.dumps(steps, indent=2)}


def _kustomization(resources: Iterable[str], patches: Iterable[Manifest] = ()) -> str:
    listed = list(patches)
    return HEADER + yaml_text(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": list(resources),
            **({"patches": listed} if listed else {}),
        }
    )


def _stream(manifests: Iterable[Manifest]) -> str:
    return HEADER + yaml_stream(manifests)
