"""The control plane that the rest is tested on: it starts, can be hurt, and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assets import ROOT, ensure
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


def test_a_killed_api_server_comes_back_with_what_it_knew(control_plane):
    body = {"metadata": {"name": "survivor"}}
    created, _ = control_plane.request("POST", "/api/v1/namespaces", body)
    control_plane.apiserver.kill()
    was_running = control_plane.apiserver.is_running
    control_plane.apiserver.restart()
    status, _ = control_plane.request("GET", "/api/v1/namespaces/survivor")
    control_plane.request("DELETE", "/api/v1/namespaces/survivor")

    assert created == 201
    assert not was_running
    assert status == 200


def test_a_paused_part_keeps_its_process_and_answers_again_when_resumed(control_plane):
    pid = control_plane.apiserver.pid
    control_plane.apiserver.pause()
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    finally:
        control_plane.apiserver.resume()
    control_plane.apiserver.wait_ready()

    assert state in {"T", "t"}
    assert control_plane.apiserver.pid == pid


def test_users_are_who_their_certificate_says_and_may_do_only_what_rbac_allows(control_plane):
    pair = control_plane.client("nobody-special", "tenants")
    kubeconfig = control_plane.write_kubeconfig("nobody", pair)
    kubectl = [str(ensure("kubectl")), "--kubeconfig", str(kubeconfig)]
    who = subprocess.run(
        [*kubectl, "auth", "whoami", "-o", "json"], capture_output=True, check=True
    )
    listing = subprocess.run(
        [*kubectl, "get", "secrets"], capture_output=True, text=True, check=False
    )

    user = json.loads(who.stdout)["status"]["userInfo"]
    assert user["username"] == "nobody-special"
    assert "tenants" in user["groups"]
    assert listing.returncode == 1
    assert "Forbidden" in listing.stderr


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
