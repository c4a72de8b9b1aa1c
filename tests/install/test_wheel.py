"""The wheel as pip, pipx and uv install it: commands, examples, manual page, kubectl's plugin."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from assets import ensure
from bursar import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """An environment with the wheel. What it depends on comes from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("bursar-*.whl")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run(
        [*pip, f"--python={python}", "install", "--no-deps", "--no-index", str(wheel)], check=True
    )
    (site,) = (folder / "env" / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env"


def run(
    command: list[str], installed: Path, folder: Path, code: int = 0, **more: str
) -> tuple[str, str]:
    environment = {
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        **more,
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_the_commands_are_those_of_the_wheel(installed, tmp_path):
    where = "import bursar; print(bursar.__file__)"
    python = str(installed / "bin" / "python")

    assert run([python, "-c", where], installed, tmp_path)[0].startswith(str(installed))
    assert run(["bursar", "--version"], installed, tmp_path)[0] == f"bursar {__version__}\n"
    assert run([python, "-m", "bursar", "-V"], installed, tmp_path)[0] == f"bursar {__version__}\n"


def test_the_pages_are_in_the_wheel(installed, tmp_path):
    manual = (installed / "share" / "man" / "man1" / "bursar.1").read_text()

    assert run(["bursar", "man"], installed, tmp_path)[0] == manual
    assert run(["bursar", "describe", "pod", "-h"], installed, tmp_path)[0].startswith("Usage: ")
    assert "_BURSAR_COMPLETE" in run(["bursar", "completion", "fish"], installed, tmp_path)[0]


def test_the_examples_are_in_the_wheel_and_work(installed, tmp_path):
    assert "frontend.yaml" in run(["bursar", "examples"], installed, tmp_path)[0]
    run(["bursar", "examples", "copy", "examples"], installed, tmp_path)
    described = run(
        ["bursar", "describe", "pod", "-f", "examples/frontend.yaml"], installed, tmp_path
    )

    assert "default/frontend" in described[0]
    assert "kind: CustomResourceDefinition" in run(
        ["bursar", "manifests", "crds"], installed, tmp_path
    )[0].replace('"', "")


# ------------------------------------------------------------------ kubectl

with_kubectl = pytest.mark.integration


@with_kubectl
def test_kubectl_finds_the_plugin_and_its_usage_is_what_the_user_types(installed, tmp_path):
    kubectl = str(ensure("kubectl"))
    front, _ = run([kubectl, "bursar", "--help"], installed, tmp_path)
    page, _ = run([kubectl, "bursar", "describe", "pod", "--help"], installed, tmp_path)
    narrow, _ = run([kubectl, "bursar", "queue", "-h"], installed, tmp_path, COLUMNS="60")
    _, error = run([kubectl, "bursar", "descibe"], installed, tmp_path, code=2)
    value, _ = run([kubectl, "bursar", "quantity", "1Gi", "-o", "json"], installed, tmp_path)

    assert front.startswith("Usage: kubectl bursar [OPTIONS] COMMAND")
    assert "\nkubectl bursar COMMAND --help has" in front
    assert page.startswith("Usage: kubectl bursar describe pod [OPTIONS]")
    assert "\n    kubectl bursar describe pod -f examples/frontend.yaml\n" in page
    assert "helm template ./chart | kubectl bursar describe pod -f -" in page
    assert narrow.startswith("Usage: kubectl bursar queue")
    assert error == (
        "bursar: no such command 'descibe'; did you mean 'describe'? See kubectl bursar --help\n"
    )
    assert '"canonical": "1Gi"' in value


@with_kubectl
@pytest.mark.parametrize(
    ("words", "expected", "directive"),
    [
        (("des",), ["describe\tShow what pods, nodes and quotas consume."], 4),
        (("completion", "z"), ["zsh"], 4),
        (("queue", "--output", "j"), ["json"], 4),
        (("queue", "-f", ""), [], 0),
    ],
)
def test_kubectl_completes_the_plugin(words, expected, directive, installed, tmp_path):
    kubectl = str(ensure("kubectl"))
    answer, _ = run([kubectl, "__complete", "bursar", *words], installed, tmp_path)

    assert answer.splitlines() == [*expected, f":{directive}"]


@with_kubectl
def test_kubectl_completes_contexts(installed, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncontexts:\n"
        "- {name: staging, context: {cluster: a}}\n- {name: production, context: {cluster: a}}\n"
    )
    kubectl = str(ensure("kubectl"))
    asked = [kubectl, "__complete", "bursar", "queue", "--context", "st"]

    assert run(asked, installed, tmp_path, KUBECONFIG=str(config))[0] == "staging\n:4\n"
