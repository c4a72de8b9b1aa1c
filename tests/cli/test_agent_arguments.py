"""What a manifest may not carry to every node, as no agent would start with it."""

import click
import pytest
from click.testing import CliRunner

from bursar.cli.install.manifests import manifests


def ran(*options):
    return CliRunner().invoke(manifests, ("agent", *options), standalone_mode=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--socket-dir=/"], "'/' is not a folder that can be mounted"),
        (["--socket-dir=/var/lib/kubelet/pod-resources"], "kubelet has its kubelet.sock there"),
        (["--socket-dir=/" + "x" * 119], "133 bytes are too many for a socket"),
        (["--kubelet-dir=/" + "x" * 119], "147 bytes are too many for a socket"),
        (["--agent-option=foo"], "--agent-option: foo is not an option"),
        (["--agent-option=-v"], "--agent-option: -v is not an option"),
        (["--agent-option=--"], "--agent-option: -- is not an option"),
        (["--agent-option=--help"], "--agent-option: --help is not an option"),
        (["--agent-option=--colour=red"], "--agent-option: No such option '--colour'"),
        (["--agent-option=--mode"], "--agent-option: Option '--mode' requires an argument"),
        (["--agent-option=--max-message=0"], "at least 1Ki is expected"),
        (
            ["--sources-config=ours", "--agent-option=--mode=compat"],
            "bursar agent would not start: --sources: has no effect with --mode=compat",
        ),
        (
            ["--agent-option=--socket=/var/lib/kubelet/pod-resources/kubelet.sock"],
            "bursar agent would not start: --socket: ",
        ),
    ],
    ids=lambda each: " ".join(each)[:60] if isinstance(each, list) else "",
)
def test_what_no_agent_would_start_with_is_refused(options, told):
    found = ran(*options)

    assert isinstance(found.exception, click.UsageError), found.exception
    assert told in found.exception.format_message()
    assert found.stdout == ""


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--kubelet-cert=/a", "--sources-config=ours", "--pods-from=kubelet-read-only"],
        ["--agent-option=--stale-for=1s", "--agent-option=--pods-max-age=500ms"],
        ["--agent-option=--mode=compat", "--agent-option=--no-events"],
        ["--agent-option=--kubeconfig=/etc/kubeconfig"],
    ],
    ids=" ".join,
)
def test_what_an_agent_can_start_with_is_printed(options):
    found = ran(*options)

    assert found.exception is None
    assert "kind: DaemonSet" in found.stdout
