"""`bursar examples` lists and copies what is packaged; `bursar version` says what runs."""

import json
import platform
from pathlib import Path

import pytest

from bursar import __version__
from bursar.adapters.files.examples import example_lines
from support.processes.command_line import run_bursar

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_example_is_listed_with_a_line():
    there = {path.name for path in EXAMPLES.iterdir()} - {"README.md"}

    assert set(example_lines()) == there
    assert [line.split()[0] for line in run_bursar("examples").out.splitlines()] == sorted(there)
    listed = json.loads(run_bursar("examples", "list", "-o", "json").out)
    assert {each["name"] for each in listed} == there


def test_all_of_them_are_copied(tmp_path):
    ran = run_bursar("examples", "copy", str(tmp_path / "new" / "folder"))
    copied = {
        path.relative_to(tmp_path / "new" / "folder"): path.read_bytes()
        for path in (tmp_path / "new" / "folder").rglob("*")
        if path.is_file()
    }

    assert ran.code == 0, ran.err
    assert copied == {
        path.relative_to(EXAMPLES): path.read_bytes()
        for path in EXAMPLES.rglob("*")
        if path.is_file() and path.name != "README.md" and "__pycache__" not in path.parts
    }
    assert ran.out == f"{len(copied)} files copied to {tmp_path / 'new' / 'folder'}\n"


def test_some_of_them_are_copied_and_nothing_is_overwritten(tmp_path):
    assert run_bursar("examples", "copy", "queue", "frontend.yaml", str(tmp_path)).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frontend.yaml", "queue"]
    (tmp_path / "frontend.yaml").write_text("mine")

    refused = run_bursar("examples", "copy", "scratch.yaml", "frontend.yaml", str(tmp_path))
    assert (refused.code, refused.err) == (
        2,
        f"bursar: {tmp_path}/frontend.yaml: already there; --force overwrites them\n",
    )
    assert (tmp_path / "frontend.yaml").read_text() == "mine"
    assert not (tmp_path / "scratch.yaml").exists()

    assert run_bursar("examples", "copy", "frontend.yaml", str(tmp_path), "--force").code == 0
    assert (tmp_path / "frontend.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("quue", "no example is called quue; did you mean queue?"),
        ("../api", "no example is called ../api: see bursar examples"),
        ("a\x1b[2J", "no example is called a\\x1b[2J: see bursar examples"),
    ],
)
def test_a_name_that_is_no_example_is_refused(name, problem, tmp_path):
    ran = run_bursar("examples", "copy", name, str(tmp_path))

    assert (ran.code, ran.err) == (2, f"bursar: {problem}\n")


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    ran = run_bursar("examples", "copy", "queue", str(tmp_path / "file" / "below"))

    assert ran.code == 2
    assert "Not a directory" in ran.err


def test_the_version_of_this_program_and_its_python():
    assert run_bursar("version").out == (
        f"bursar {__version__}\npython {platform.python_version()}\n"
    )
    assert json.loads(run_bursar("version", "-o", "json").out) == {
        "bursar": __version__,
        "python": platform.python_version(),
    }


def test_the_version_of_a_cluster_that_is_named(tmp_path):
    ran = run_bursar("version", "--kubeconfig", str(tmp_path / "none"))

    assert ran.code == 2
    assert "no such file" in ran.err
