"""Prometheus' own rule engine (`promtool test rules`), fed with the pages of Bursar's processes.

A page is taken once a minute, and gets the labels that Prometheus gives to a target which the
ServiceMonitors describe. With `honorLabels`, the labels of the page win.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bursar.app.install.monitoring import monitoring_documents
from bursar.app.names import CONTROLLER, WEBHOOK
from support.metrics.printed_metrics import series_of

HOME = "aaq"
MISSING = "_"
"""A minute without a sample, in promtool's notation."""


def target(service: str, replica: int = 0) -> dict[str, str]:
    """The labels of a pod behind a Service, as the Prometheus operator sets them."""
    return {
        "job": service,
        "service": service,
        "namespace": HOME,
        "pod": f"{service}-{replica}",
        "container": service,
        "endpoint": "https",
        "instance": f"10.0.0.{replica}:8443",
    }


AT_CONTROLLER = target(CONTROLLER)
AT_WEBHOOK = target(WEBHOOK)


class Scrapes:
    """What a Prometheus has read so far."""

    def __init__(self) -> None:
        self.minutes = 0
        self._values: dict[str, dict[int, str]] = {}

    def take(self, text: str, labels: Mapping[str, str] = AT_CONTROLLER) -> None:
        """A page of one target in the present minute."""
        for each in series_of(text):
            self.put(each.name, {**labels, **each.labels}, each.value)
        self.put("up", labels, "1")

    def miss(self, labels: Mapping[str, str]) -> None:
        """A target that does not answer."""
        self.put("up", labels, "0")

    def put(self, name: str, labels: Mapping[str, str], value: str) -> None:
        written = ",".join(f"{key}={json.dumps(text)}" for key, text in sorted(labels.items()))
        self._values.setdefault(f"{name}{{{written}}}", {})[self.minutes] = value.lstrip("+")

    def pass_minute(self) -> None:
        self.minutes += 1

    def input_series(self) -> list[dict[str, str]]:
        moments = range(self.minutes + 1)
        return [
            {"series": name, "values": " ".join(values.get(at, MISSING) for at in moments)}
            for name, values in self._values.items()
        ]


def rule_groups() -> list[Any]:
    """The groups of the installed PrometheusRule."""
    [found] = [each for each in monitoring_documents(HOME) if each["kind"] == "PrometheusRule"]
    groups: list[Any] = found["spec"]["groups"]  # type: ignore[index,call-overload,assignment]
    return groups


class Promtool:
    """Evaluates rules over scrapes."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder

    def check(self, groups: Sequence[Any]) -> str:
        """What is wrong with rules; empty if nothing is."""
        return self._run("check", "rules", "--lint=all", "--lint-fatal", self._write(groups))

    def test(
        self, groups: Sequence[Any], scrapes: Scrapes, expected: Mapping[str, Iterable[Any]]
    ) -> str:
        """How the alerts that fire in the last minute differ from the expected; else empty.

        `expected` has labels and annotations of every instance, by the name of the alert.
        """
        rules = [rule["alert"] for group in groups for rule in group["rules"]]
        moment = f"{scrapes.minutes}m"
        tests = {
            "rule_files": [self._write(groups)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": scrapes.input_series(),
                    "alert_rule_test": [
                        {
                            "eval_time": moment,
                            "alertname": name,
                            "exp_alerts": list(expected.get(name, ())),
                        }
                        for name in rules
                    ],
                }
            ],
        }
        path = self._folder / "test.json"
        path.write_text(json.dumps(tests))
        return self._run("test", "rules", str(path))

    def _write(self, groups: Sequence[Any]) -> str:
        path = self._folder / "rules.json"
        path.write_text(json.dumps({"groups": groups}))
        return str(path)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._program), *arguments], capture_output=True, text=True, check=False
        )
        return "" if done.returncode == 0 else done.stdout + done.stderr
