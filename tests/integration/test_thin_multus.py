"""The program that the how-to page puts in the place of thin Multus, run as it is printed there."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from assets import ensure
from support.devices.kubelet_server import Pod, kubelet_server

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "show-devices-to-multus-and-dcgm.md"
SCRIPT = re.compile(r"^cat > /opt/cni/bin/multus <<'EOF'\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)


def put_program(folder: Path, kubelet: Path, agent: Path, multus: Path) -> Path:
    """The page's, with folders of a test instead of the host's."""
    (script,) = SCRIPT.findall(PAGE.read_text())
    for written, meant in {
        "/var/run/koordlet/pod-resources": agent,
        "/var/lib/kubelet/pod-resources": kubelet,
        "/opt/cni/bin/thin/multus": multus,
    }.items():
        assert written in script
        script = script.replace(written, str(meant))
    program = folder / "multus"
    program.write_text(script)
    program.chmod(0o755)
    return program


async def pods_seen_by(program: Path, socket: Path) -> list[str]:
    """The names in the answer, for a client that opens kubelet's usual path."""
    process = await asyncio.create_subprocess_exec(
        str(program), "ask", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    question = {"op": "call", "args": {"socket": str(socket), "method": "List"}}
    out, _ = await process.communicate(json.dumps(question).encode() + b"\n")
    assert process.returncode == 0
    ((answer,),) = [json.loads(line)["result"] for line in out.splitlines()[1:]]
    return [pod["name"] for pod in answer["message"]["pod_resources"]]


async def test_only_multus_sees_the_agent_where_kubelets_socket_is(tmp_path):
    """It takes root, as Multus has it."""
    multus = await asyncio.to_thread(ensure, "podresources")
    usual, ours = tmp_path / "kubelet" / "kubelet.sock", tmp_path / "agent" / "kubelet.sock"
    async with (
        kubelet_server(Pod("of-kubelet"), socket=usual) as kubelet,
        kubelet_server(Pod("of-agent"), socket=ours),
    ):
        program = put_program(tmp_path, usual.parent, ours.parent, multus)

        assert await pods_seen_by(multus, usual) == ["of-kubelet"]
        assert await pods_seen_by(program, usual) == ["of-agent"]
        await kubelet.restart()
        assert await pods_seen_by(multus, usual) == ["of-kubelet"]
        assert await pods_seen_by(program, usual) == ["of-agent"]
    assert str(usual.parent) not in Path("/proc/self/mountinfo").read_text()  # noqa: ASYNC240
