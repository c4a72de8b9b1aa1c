"""The control plane that the rest is tested on: `make cluster`, and where its programs are."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assets import ROOT, ensure
from support.install.kubernetes_features import SINCE, missing_features
from support.until import PATIENCE_SECONDS, until_sync

CLUSTER = [sys.executable, str(ROOT / "tools" / "cluster.py"), "--nodes", "2"]


def nodes_ready(kubeconfig: str) -> list[str]:
    listed = subprocess.run(
        [str(ensure("kubectl")), "--kubeconfig", kubeconfig, "get", "nodes", "-o", "json"],
        capture_output=True,
        check=True,
    )
    return [
        node["metadata"]["name"]
        for node in json.loads(listed.stdout)["items"]
        for condition in node["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]


def processes_naming(text: str) -> list[str]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            commands.append(command)
    return commands


def test_a_server_of_today_has_all_features_that_older_ones_lack(control_plane):
    expected = {since for since in SINCE if control_plane.minor < since}

    assert missing_features(control_plane) == expected


@pytest.mark.usefixtures("control_plane")
def test_make_cluster_prints_a_kubeconfig_and_ctrl_c_leaves_nothing_behind(tmp_path):
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(CLUSTER, stdout=subprocess.PIPE, stderr=said, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        kubeconfig = process.stdout.readline().strip()
        folder = Path(kubeconfig).parent
        until_sync(lambda: len(nodes_ready(kubeconfig)) == 2, "two nodes are ready")
        running = processes_naming(folder.name)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=PATIENCE_SECONDS)

    assert code == 0
    assert len(running) == 5
    assert processes_naming(folder.name) == []
    assert not folder.exists()


def test_ready_binaries_can_be_given_instead_of_building(tmp_path):
    given = tmp_path / "etcd"
    given.write_text("#!/bin/sh\n")
    given.chmod(0o755)
    code = "from assets import ensure; print(ensure('etcd'))"
    found = {}
    for variable in ("BURSAR_ASSETS", "KUBEBUILDER_ASSETS"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), variable: str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found[variable] = done.stdout.strip()

    assert found == {"BURSAR_ASSETS": str(given), "KUBEBUILDER_ASSETS": str(given)}
