"""Bursar on a real node, installed by the real helm with the chart of this tree."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from support.chart.helm import CHART, try_helm
from support.install.installed_bursar import HOME, IMAGE, InstalledBursar
from support.processes.command_line import Ran

RELEASE = "bursar"
PATIENCE = "--timeout=4m"
PASSING = frozenset({"events", "events.events.k8s.io", "componentstatuses"})
"""Kinds whose objects come and go by themselves."""


@dataclass
class HelmRelease(InstalledBursar):
    """A release. Call `install` first."""

    parts: Sequence[str] = ()
    values: Sequence[str] = ()
    """What is given as `--set`."""
    _documents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def documents(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self._documents

    def install(self, *values: str) -> None:
        """Install or upgrade, with further values, and wait until all pods are ready."""
        repository, _, tag = IMAGE.rpartition(":")
        chosen = (f"image.repository={repository}", f"image.tag={tag}", *self.values, *values)
        sets = [f"--set={each}" for each in chosen]
        upgrade = ("upgrade", "--install", RELEASE, str(CHART), "--create-namespace")
        ran = self.helm(*upgrade, "--wait", PATIENCE, *sets)
        assert ran.code == 0, (ran.err, self.pods())
        manifest = self.helm("get", "manifest", RELEASE).out
        self._documents = [each for each in yaml.safe_load_all(manifest) if each]

    def uninstall(self) -> Ran:
        return self.helm("uninstall", RELEASE, "--wait", PATIENCE)

    def helm(self, *arguments: str) -> Ran:
        plane = self.node.plane
        named = ("--kubeconfig", str(plane.kubeconfig), "--namespace", HOME)
        return try_helm(*arguments, *named, home=plane.folder)

    def objects(self) -> set[str]:
        """All objects of the namespace, and all that are in no namespace, with their kinds."""
        everywhere = self._names(self._kinds(is_namespaced=False))
        return everywhere | self._names(self._kinds(is_namespaced=True), "-n", HOME)

    def _kinds(self, *, is_namespaced: bool) -> list[str]:
        choice = f"--namespaced={str(is_namespaced).lower()}"
        listed = self.kubectl("api-resources", "--verbs=list", choice, "-o", "name")
        return sorted(set(listed.split()) - PASSING)

    def _names(self, kinds: list[str], *place: str) -> set[str]:
        found = self.kubectl("get", ",".join(kinds), *place, "-o", "name", "--ignore-not-found")
        return set(found.split())
