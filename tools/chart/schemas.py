"""The schemas of single values of the chart."""

from typing import Any, Final

Schema = dict[str, Any]

NAME: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY: Final = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_LABEL_VALUE: Final = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
BOOLEAN: Final[Schema] = {"type": "boolean"}
NAMESPACE: Final[Schema] = {"type": "string", "maxLength": 63, "pattern": f"^{NAME}$"}
AMOUNT: Final[Schema] = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|Ki|Mi|Gi)?$"}
FOLDER: Final[Schema] = {"type": "string", "pattern": "^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"}
OPTIONS: Final[Schema] = {"type": "array", "items": {"type": "string", "pattern": "^--[a-z]"}}
OBJECT: Final[Schema] = {"type": "object"}
OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
LABELS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": _LABEL_KEY},
    "additionalProperties": {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE},
}
_EXPRESSION: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["key", "operator"],
    "properties": {
        "key": {"type": "string", "pattern": _LABEL_KEY},
        "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
        "values": {
            "type": "array",
            "items": {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE},
        },
    },
    "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}},
    "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
    "else": {"properties": {"values": {"maxItems": 0}}},
}
SELECTOR: Final[Schema] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "matchLabels": LABELS,
        "matchExpressions": {"type": "array", "items": _EXPRESSION},
    },
}


def one_of(*texts: str) -> Schema:
    return {"enum": list(texts)}
