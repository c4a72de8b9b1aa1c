"""All files that `make chart` writes, by their path below the root of the repository."""

import re
from pathlib import Path
from typing import Final

import bursar
from bursar.wire.documents.yaml_writing import yaml_text
from chart.kustomize import kustomize_files
from chart.parts import TEMPLATES
from chart.value_files import schema_json, table, values_yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = "charts/bursar"
GENERATED: Final = (
    *(f"{CHART}/Chart.yaml", f"{CHART}/values.yaml", f"{CHART}/values.schema.json"),
    *(f"{CHART}/README.md", f"{CHART}/crds/*", f"{CHART}/templates/*.yaml"),
    *("kustomize/**/*.yaml", "docs/reference/chart.md"),
)
"""Patterns of files that are removed if they are no longer made."""

README: Final = """# bursar

Installs [Bursar](../../README.md): application-aware quotas, peer pods, the capacity of nodes and
the agents of nodes. [Install with Helm](../../docs/how-to/install-with-helm.md) says how to use it.
`make chart` writes this file and the templates from what `bursar manifests` prints.

## Values

{table}"""
REFERENCE: Final = """# Values of the Helm chart

The chart is in `charts/bursar`; [install with Helm](../how-to/install-with-helm.md) says how to use
it. Values that are not in this table are an error. `make chart` writes this page.

{table}
`bursar manifests` has no options for what Helm and kustomize can do as well: `resources`,
`nodeSelector`, `tolerations`, `affinity`, `pullPolicy` and `pullSecrets`. The log level is a
further option there: `--controller-option=--log-level=debug`.
"""


def files() -> dict[str, str]:
    found = {
        f"{CHART}/Chart.yaml": _chart_yaml(),
        f"{CHART}/values.yaml": values_yaml(),
        f"{CHART}/values.schema.json": schema_json(),
        f"{CHART}/README.md": README.format(table=table()),
        "docs/reference/chart.md": REFERENCE.format(table=table()),
    }
    for definition in sorted((ROOT / "api" / "crds").glob("*.yaml")):
        found[f"{CHART}/crds/{definition.name}"] = definition.read_text()
    for template in TEMPLATES:
        found[f"{CHART}/templates/{template.part}.yaml"] = template.text()
    return {**found, **kustomize_files()}


def _chart_yaml() -> str:
    return yaml_text(
        {
            "apiVersion": "v2",
            "name": "bursar",
            "description": "One set of books for everything a Kubernetes pod consumes",
            "type": "application",
            "version": semantic_version(bursar.__version__),
            "appVersion": bursar.__version__,
            "keywords": ["quota", "admission", "kubevirt", "peer-pods", "devices"],
        }
    )


def semantic_version(version: str) -> str:
    """A version of Python as Helm requires it.

    >>> semantic_version("0.1.0.dev0"), semantic_version("1.2.0rc1"), semantic_version("1.2.0")
    ('0.1.0-dev.0', '1.2.0-rc.1', '1.2.0')
    """
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?([a-z]+)(\d+))?", version)
    assert found is not None, version
    release, word, number = found.groups()
    return f"{release}-{word}.{number}" if word else release


def present(root: Path = ROOT) -> dict[str, str]:
    """The files of the tree that this tool would write."""
    paths = {path for pattern in GENERATED for path in root.glob(pattern) if path.is_file()}
    return {str(path.relative_to(root)): path.read_text() for path in sorted(paths)}
