"""The how-to page about extended resources, followed command by command on a real kubelet."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets import ensure
from real_node.images import BUSYBOX
from real_node.node import RealNode
from support.processes.command_line import COMMAND
from support.until import PATIENCE_SECONDS, until_sync

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "advertise-extended-resources.md"
FOO, BAR = "example.com/foo", "example.com/bar"


def blocks(heading: str) -> list[str]:
    """The commands below a heading, block by block; above all headings if it is empty."""
    sections = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    found = dict(zip(["", *sections[1::2]], sections[::2], strict=True))
    return re.findall(r"^```sh\n(.*?)^```", found[heading], re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody who types what the page says."""

    def __init__(self, node: RealNode, folder: Path) -> None:
        self.node, self._folder = node, folder
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(ensure("kubectl"))
        self._preamble = "".join(blocks(""))

    def type(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._preamble + commands],
            cwd=self._folder,
            env={
                "PATH": f"{self._folder / 'bin'}:{COMMAND.parent}:/usr/bin:/bin",
                "KUBECONFIG": str(self.node.plane.kubeconfig),
                "HOME": str(self._folder),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS * 2,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        _, body = self.node.plane.request("GET", f"/api/v1/nodes/{self.node.name}")
        found: dict[str, Any] = json.loads(body)["status"]
        return found

    def until_allocatable(self, name: str, amount: str | None) -> None:
        until_sync(
            lambda: self.status()["allocatable"].get(name) == amount,
            lambda: f"{name} is {amount} in {self.status()['allocatable']}",
        )

    def forget(self) -> None:
        """Take the resource off the node, and wait until the kubelet has noticed."""
        patch = [{"op": "remove", "path": "/status/capacity/example.com~1foo"}]
        kind = {"Content-Type": "application/json-patch+json"}
        path = f"/api/v1/nodes/{self.node.name}/status"
        code, answer = self.node.plane.request("PATCH", path, patch, kind)
        assert code == 200, answer
        self.until_allocatable(FOO, None)


@pytest.fixture(scope="module")
def reader(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    reader = Reader(real_node, tmp_path_factory.mktemp("reader"))
    yield reader
    if FOO in reader.status()["capacity"]:
        reader.forget()


def test_each_way_to_advertise_reaches_the_scheduler_through_the_kubelet(reader: Reader):
    [patch] = blocks("With kubectl")
    through_proxy, from_program = blocks("With curl")
    answers = []
    for number, commands in enumerate((patch + "  -o json\n", through_proxy, from_program)):
        if number:
            reader.forget()
        # kubectl takes its options in any place, also on the line after the patch.
        text = reader.type(commands.replace("]'\n  -o json", "]' -o json"))
        answers.append(json.loads(text[text.index("{\n") :]))
        reader.until_allocatable(FOO, "5")

    for answer in answers:
        # The delay of the page: the answer to the patch has the capacity alone.
        assert answer["status"]["capacity"][FOO] == "5"
        assert FOO not in answer["status"]["allocatable"]


def test_a_pod_runs_with_it_and_it_is_removed(reader: Reader):
    if FOO not in reader.status()["capacity"]:
        reader.type(blocks("With kubectl")[0])
    reader.type(blocks("Wait for the kubelet")[0])
    [run] = blocks("Run a pod with it")
    explained = reader.type(run.replace("image: busybox", f"image: {BUSYBOX}"))

    assert "Runs: the pod runs on" in explained
    assert reader.type(blocks("With Bursar")[0]).endswith("3")
    reader.type(blocks("Remove it")[0])
    for name in (FOO, BAR):
        reader.until_allocatable(name, None)
