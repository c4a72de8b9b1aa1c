"""ARCHITECTURE.md names only files and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCES = ROOT / "src" / "bursar"
FLOORS = ("core", "wire", "app", "adapters", "cli", "entry", "sidecar")
QUOTED = re.compile(r"`([^`\s]+)`")
WALK_MAX = 12
"""A newcomer follows one pod through this many files at most."""


def exists(name: str) -> bool:
    """Whether this is a file, a folder, a module without its ending, or a pattern of such."""
    places = [ROOT, SOURCES] if name.split("/", 1)[0] in FLOORS else [ROOT]
    return any(
        list(place.glob(name.rstrip("/") + ending)) for place in places for ending in ("", ".py")
    )


def paths_named() -> set[str]:
    top = {path.name for path in ROOT.iterdir()} | set(FLOORS)
    # `growth/promises` in a table of `core/quota` is relative to it; those are not checked here.
    return {name for name in QUOTED.findall(PAGE) if "/" in name and name.split("/", 1)[0] in top}


def test_every_path_that_the_page_names_exists() -> None:
    named = paths_named()

    assert len(named) > 100
    assert [name for name in sorted(named) if not exists(name)] == []


def test_every_test_that_the_page_names_exists() -> None:
    named = {name for name in QUOTED.findall(PAGE) if name.startswith("test_")}

    assert len(named) > 10
    assert [name for name in sorted(named) if not list((ROOT / "tests").rglob(name))] == []


def test_the_walk_of_one_pod_names_at_most_twelve_files_that_exist() -> None:
    walk = PAGE.split("## The life of one pod under a quota", 1)[1].split("\nThe pod ends", 1)[0]
    steps = re.findall(r"^(\d+)\. `([^`]+\.py)`", walk, re.MULTILINE)

    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 0 < len(steps) <= WALK_MAX
    assert [path for _, path in steps if not (SOURCES / path).is_file()] == []
