"""The real helm, and kubectl's kustomize, run on the chart and the overlays of this tree."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from assets import ensure
from chart.printed import identity
from support.processes.command_line import Ran

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "bursar"
PATIENCE_S = 300
HOOKS = "helm.sh/"
Objects = dict[tuple[str, str, str, str], dict[str, Any]]


def try_helm(*arguments: str, home: Path | None = None) -> Ran:
    """Run it, whatever comes of it. It sees nothing of the caller's environment."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(ensure("helm")), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env={"HOME": str(home or folder)},
        )
    return Ran(done.returncode, done.stdout, done.stderr)


def rendered(values: dict[str, Any], namespace: str = "aaq", *options: str) -> str:
    ran = try_template(values, namespace, *options)
    assert ran.code == 0, ran.err
    return ran.out


def try_template(values: dict[str, Any], namespace: str = "aaq", *options: str) -> Ran:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        named = ("--namespace", namespace, "--values", file.name)
        return try_helm("template", "bursar", str(CHART), *named, *options)


def kustomized(folder: str) -> str:
    ran = subprocess.run(
        [str(ensure("kubectl")), "kustomize", str(ROOT / "kustomize" / folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return ran.stdout


def objects_of(text: str) -> Objects:
    """The objects in a text, without the annotations that are for helm itself."""
    found: Objects = {}
    for each in yaml.safe_load_all(text):
        if each is None:
            continue
        _drop_hooks(each["metadata"])
        assert identity(each) not in found, identity(each)
        found[identity(each)] = each
    return found


def _drop_hooks(metadata: dict[str, Any]) -> None:
    annotations = metadata.get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if not key.startswith(HOOKS)}
    if annotations and not kept:
        del metadata["annotations"]
    elif kept:
        metadata["annotations"] = kept
