"""Files about the values of the chart: values.yaml, its schema, and tables for readers."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from bursar.wire.documents.yaml_writing import yaml_text
from chart.values import GROUPS, Group, Value, all_values

WIDTH = 100
STEP = "  "


def values_yaml() -> str:
    blocks = ["\n".join(_group(group)) for group in GROUPS]
    return "# Values of the chart. Written by `make chart`.\n\n" + "\n\n".join(blocks) + "\n"


def _group(group: Group) -> Iterator[str]:
    if group.key:
        yield from _comment(group.text, "")
        yield f"{group.key}:"
    seen: list[str] = []
    for value in group.values:
        *parents, key = value.path.split(".")[1 if group.key else 0 :]
        indent = STEP if group.key else ""
        for parent in parents:
            if parent not in seen:
                seen.append(parent)
                yield f"{indent}{parent}:"
            indent += STEP
        yield from _comment(value.text, indent)
        for line in yaml_text({key: value.default}).splitlines():
            yield indent + line


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - len(indent) - 2, break_long_words=False):
        yield f"{indent}# {line}"


def schema_json() -> str:
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart bursar",
        **_no_others(),
    }
    for group in GROUPS:
        if group.key:
            schema["properties"][group.key] = {"description": group.text, **_no_others()}
    for value in all_values():
        *parents, key = value.path.split(".")
        place = schema
        for parent in parents:
            place = place["properties"].setdefault(parent, _no_others())
        place["properties"][key] = {"description": value.text, **value.schema}
    # Helm gives every chart a key of this name.
    schema["properties"]["global"] = {"type": "object"}
    return json.dumps(schema, indent=2) + "\n"


def _no_others() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def table() -> str:
    rows = ["| value | default | |", "|---|---|---|"]
    rows += [f"| `{each.path}` | {_default(each)} | {each.text} |" for each in all_values()]
    return "\n".join(rows) + "\n"


def _default(value: Value) -> str:
    text = json.dumps(value.default)
    return f"`{text}`"
