"""Koordinator's kind `Device`, as far as a cluster has to know it."""

from typing import Any

from bursar.app.devices.kinds import DEVICES

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{DEVICES.plural}.{DEVICES.group}"},
    "spec": {
        "group": DEVICES.group,
        "scope": "Cluster",
        "names": {"plural": DEVICES.plural, "singular": "device", "kind": DEVICES.kind},
        "versions": [
            {
                "name": DEVICES.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
