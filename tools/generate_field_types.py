"""Write the fields of the kinds that `bursar describe pod` validates, from upstream's OpenAPI.

The OpenAPI files are part of the Go module `k8s.io/kubernetes` that controlplane/go.mod pins, so
the fields are exactly those of that version. The module is kept in the repository: an installed
Bursar needs neither Go nor the network.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
MODULE: Final = ROOT / "src/bursar/wire/validation/field_types.py"
SPECS: Final = ("api__v1", "apis__apps__v1", "apis__batch__v1")
ROOTS: Final = {
    "api.core.v1": ("Pod", "PodTemplate", "ReplicationController"),
    "api.apps.v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "api.batch.v1": ("CronJob", "Job"),
}
SCALARS: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "q",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "x",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "t",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "t",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "o",
}
HEAD: Final = '''"""The fields of pods and workloads in Kubernetes {version}, by Go type.

Generated from upstream's OpenAPI: do not edit; `make field-types` writes it again.

Each type is one text of `field=type` pairs. A type is the name of another type, or one letter: s
string, i int32, l int64, b bool, q quantity, t time, x integer or string, o any object. `[T]` is a
list of T, `{{T}}` an object whose values are T.
"""

from typing import Final

VERSION: Final = "{version}"

FIELD_TYPES: Final = {{
'''


def source() -> tuple[str, Path]:
    """The version of upstream and the folder of its module. Go downloads it if it is missing."""
    listed = subprocess.run(
        ["go", "mod", "download", "-json", "k8s.io/kubernetes"],
        cwd=ROOT / "controlplane",
        capture_output=True,
        text=True,
        check=True,
    )
    module = json.loads(listed.stdout)
    return module["Version"], Path(module["Dir"])


def schemas(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in SPECS:
        text = (folder / f"api/openapi-spec/v3/{name}_openapi.json").read_text()
        found |= json.loads(text)["components"]["schemas"]
    return found


def type_text(schema: dict[str, Any]) -> tuple[str, list[str]]:
    """A type in the notation of the module, and the names of the types that it refers to."""
    (reference,) = [part["$ref"] for part in schema.get("allOf", [])] or [schema.get("$ref")]
    if reference is not None:
        name = reference.rpartition("/")[2]
        return (SCALARS[name], []) if name in SCALARS else (short(name), [name])
    match schema["type"]:
        case "array":
            inner, names = type_text(schema["items"])
            return f"[{inner}]", names
        case "object" if "additionalProperties" in schema:
            inner, names = type_text(schema["additionalProperties"])
            return f"{{{inner}}}", names
        case "object":
            return "o", []
        case "integer":
            return {"int32": "i", "int64": "l"}[schema["format"]], []
        case kind:
            return {"string": "s", "boolean": "b"}[kind], []


def short(name: str) -> str:
    return name.rpartition(".")[2]


def render() -> str:
    """The text of the module."""
    version, folder = source()
    known = schemas(folder)
    wanted = [f"io.k8s.{group}.{kind}" for group, kinds in ROOTS.items() for kind in kinds]
    types: dict[str, str] = {}
    origin: dict[str, str] = {}
    while wanted:
        name = wanted.pop()
        if origin.setdefault(short(name), name) != name:
            raise SystemExit(f"two types called {short(name)}: {name} and {origin[short(name)]}")
        if short(name) in types:
            continue
        parts = []
        for field, schema in sorted(known[name].get("properties", {}).items()):
            text, names = type_text(schema)
            parts.append(f"{field}={text}")
            wanted += names
        types[short(name)] = " ".join(parts)
    lines = [f'    "{name}": "{fields}",\n' for name, fields in sorted(types.items())]
    return HEAD.format(version=version) + "".join(lines) + "}\n"


if __name__ == "__main__":
    MODULE.write_text(render())
    print(MODULE.relative_to(ROOT), file=sys.stderr)
