"""The Dockerfile agrees with `make image`. It is read, not run: that needs a registry of images."""

import re
import shlex
from pathlib import Path

import pytest

from image import ENVIRONMENT, UID
from image_parts.archive import full_name
from image_parts.debian import PYTHON, SUITE
from image_parts.wheels import LOCKED

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = {"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in kept)]


def of(wanted: str) -> list[str]:
    return [rest for word, rest in instructions() if word == wanted]


def copied() -> list[str]:
    """Files of the tree that the image is made of."""
    own = [shlex.split(rest) for rest in of("COPY") if not rest.startswith("--from=")]
    return [source for words in own for source in words[:-1]]


def test_every_line_is_an_instruction():
    assert {word for word, _ in instructions()} <= INSTRUCTIONS


def test_every_copied_file_exists_and_is_sent_to_the_engine():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]

    assert copied()
    assert [path for path in copied() if not (ROOT / path).exists()] == []
    assert [path for path in copied() if not any(is_below(path, top) for top in sent)] == []
    assert [top for top in sent if not any(is_below(path, top) for path in copied())] == []


def is_below(path: str, top: str) -> bool:
    return Path(path).is_relative_to(top)


def test_dependencies_are_those_of_make_image():
    installs = [rest.split() for rest in of("RUN") if "requirements/runtime.txt" in rest]

    assert len(installs) == 1
    assert set(LOCKED) <= set(installs[0])


def test_python_user_command_and_environment_are_those_of_make_image():
    bases = {rest.split(" AS ")[0] for rest in of("FROM")}
    environment = [setting for rest in of("ENV") for setting in rest.split()]

    assert bases == {f"python:{PYTHON}-slim-{SUITE}"}
    assert of("USER") == [f"{UID}:{UID}"]
    assert of("ENTRYPOINT") == ['["bursar"]']
    assert of("WORKDIR")[-1] == "/"
    assert set(environment) == {item for item in ENVIRONMENT if not item.startswith("PATH=")}


def test_packaged_files_of_the_wheel_are_copied():
    """hatchling fails if a file is missing that pyproject.toml includes."""
    settings = (ROOT / "pyproject.toml").read_text()
    included = re.search(r"force-include\]\n((?:\".*\n)+)", settings)
    assert included

    assert set(re.findall(r'^"([^"]+)"', included[1], re.MULTILINE)) <= set(copied())


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("bursar", "docker.io/library/bursar:1.0"),
        ("team/bursar:test", "docker.io/team/bursar:test"),
        ("localhost/bursar", "localhost/bursar:1.0"),
        ("registry:5000/team/bursar", "registry:5000/team/bursar:1.0"),
        ("registry.example/bursar:test", "registry.example/bursar:test"),
    ],
)
def test_an_image_is_named_as_containerd_would_look_for_it(name, stored):
    assert full_name(name, "1.0") == stored
