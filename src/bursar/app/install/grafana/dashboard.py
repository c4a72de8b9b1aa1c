"""The dashboard as a ConfigMap, from which Grafana's sidecar for dashboards loads it.

Whether its queries parse, and name metrics and labels that exist, is tested with Prometheus'
own engine.
"""

import json
from collections.abc import Iterator
from typing import Final

from bursar.app.install.documents import Document, document, require_namespace
from bursar.app.install.grafana.panels import ROWS, Panel
from bursar.app.install.workloads import labels_of

NAME: Final = "bursar-dashboard"
FILE: Final = "bursar.json"
LOAD_LABEL: Final = "grafana_dashboard"
"""The label by which the sidecar of Grafana's chart finds dashboards."""
WIDTH: Final = 24
"""Columns of Grafana's grid."""
PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 8
DATASOURCE: Final[Document] = {"type": "prometheus", "uid": "${datasource}"}


def dashboard_documents(namespace: str) -> tuple[Document, ...]:
    """A ConfigMap with the dashboard."""
    require_namespace(namespace)
    labels = {**labels_of("dashboard"), LOAD_LABEL: "1"}
    found = document("v1", "ConfigMap", NAME, namespace=namespace, labels=labels)
    found["data"] = {FILE: json.dumps(dashboard(), indent=1) + "\n"}
    return (found,)


def dashboard() -> Document:
    """The dashboard in Grafana's JSON model."""
    return {
        "uid": "bursar",
        "title": "Bursar",
        "description": "Quotas, waiting pods and the processes of Bursar.",
        "tags": ["bursar", "kubernetes"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": list(_panels()),
    }


def _panels() -> Iterator[Document]:
    number = top = 0
    for row in ROWS:
        number += 1
        place: Document = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        top += 1
        for index, panel in enumerate(row.panels):
            line, column = divmod(index * PANEL_WIDTH, WIDTH)
            number += 1
            yield _panel(number, panel, column, top + line * PANEL_HEIGHT)
        top += -(-len(row.panels) * PANEL_WIDTH // WIDTH) * PANEL_HEIGHT


def _panel(number: int, panel: Panel, x: int, y: int) -> Document:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": PANEL_WIDTH, "h": PANEL_HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
