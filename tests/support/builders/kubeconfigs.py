"""Builders of kubeconfig files and exec plugins, and a clock that tests set."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import load_in_cluster
from bursar.adapters.kube.kubeconfig.config import load_kubeconfig

SERVER = "https://127.0.0.1:6443"
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class HandClock:
    """A clock that advances only when a test says so."""

    def __init__(self):
        self._start = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = 0.0

    def now(self):
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)

    def text(self, seconds):
        """The time `seconds` from now in RFC 3339, as Kubernetes writes it."""
        return (self.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def loaded(paths, *, context="", environment=os.environ, clock=SYSTEM_CLOCK):
    """The access of kubeconfig files, in the environment and at the time of this process."""
    return load_kubeconfig(paths, context=context, environment=environment, clock=clock)


def in_cluster(folder, environment, *, clock=SYSTEM_CLOCK):
    """The access of the service account whose files are in a folder."""
    return load_in_cluster(environment, folder=folder, clock=clock)


def a_config(cluster=None, user=None, context=None, **top):
    """A kubeconfig of one context `here` with cluster `c` and user `u`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "here",
        **top,
    }


def write(path: Path, config) -> str:
    """Write a config, which is YAML too when it is JSON, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return str(path)


class PluginScript:
    """An exec plugin that prints a file, and records its runs and its `KUBERNETES_EXEC_INFO`."""

    def __init__(self, folder: Path, *, then: str = ""):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "plugin"
        self._answer = folder / "answer"
        self._runs = folder / "runs"
        self._told = folder / "told"
        self.path.write_text(
            "#!/bin/sh\n"
            f"echo run >> '{self._runs}'\n"
            f"printf '%s' \"$KUBERNETES_EXEC_INFO\" > '{self._told}'\n"
            f"{then}\n"
            f"cat '{self._answer}'\n"
        )
        self.path.chmod(0o700)

    def answers(self, api_version=V1, **status):
        self.prints(
            json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})
        )

    def gives(self, token, api_version=V1, **status):
        self.answers(api_version, token=token, **status)

    def prints(self, text):
        self._answer.write_text(text)

    @property
    def runs(self):
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    @property
    def told(self):
        return json.loads(self._told.read_text())

    def user(self, api_version=V1, **more):
        mode = {"interactiveMode": "Never"} if api_version == V1 else {}
        return {"exec": {"command": str(self.path), "apiVersion": api_version, **mode, **more}}
