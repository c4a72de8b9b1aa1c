"""Every ```console block in the documentation is run, and must print what the page shows."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.processes.command_line import COMMAND

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sessions(page: Path) -> list[tuple[str, str]]:
    """The commands of a page, each with the output shown below it."""
    found = []
    for block in BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


CASES = [
    pytest.param(command, output, id=f"{page.relative_to(ROOT)}: {command[:60]}")
    for page in PAGES
    for command, output in sessions(page)
]


def pattern(shown: str) -> re.Pattern[str]:
    """The shown text, in which a line of three dots stands for any number of lines."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    return re.compile(r"(?:.*\n)*?".join(re.escape(part) for part in parts))


@pytest.mark.parametrize(("command", "shown"), CASES)
def test_the_page_shows_what_the_command_prints(command, shown):
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "TZ": "UTC"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )

    assert pattern(shown).fullmatch(done.stdout), f"the command now prints:\n{done.stdout}"


def test_pages_show_sessions():
    assert len(CASES) >= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []
