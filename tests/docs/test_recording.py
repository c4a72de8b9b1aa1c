"""The recording of the README: what a terminal showed, as a picture without scripts."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from recording import STORY, Step, recorded, svg  # noqa: E402 - a tool, not a package

SVG = "{http://www.w3.org/2000/svg}"


def lines_of(picture: str) -> list[list[str]]:
    """The texts of each frame, line by line."""
    root = ET.fromstring(picture)  # noqa: S314 - our own picture
    stored = {
        group.get("id"): "".join(text.text or "" for text in group.iter(f"{SVG}text"))
        for group in root.iter(f"{SVG}g")
        if (group.get("id") or "").startswith("l")
    }
    frames = [group for group in root.iter(f"{SVG}g") if group.get("class") == "f"]
    return [
        [stored[(use.get("href") or "")[1:]] for use in frame.iter(f"{SVG}use")] for frame in frames
    ]


def test_each_frame_is_what_the_terminal_showed():
    story = [Step("printf '\\033[31mred\\033[0m & <plain>\\n'"), Step("stty size")]
    recorder = recorded(story, columns=60, rows=8)

    frames = lines_of(svg(recorder, "a title"))

    assert frames[0] == ["$ p"]
    assert frames[-1][1:] == ["red & <plain>", "$ stty size", "8 60"]
    assert 'fill="#f38ba8"' in svg(recorder, "a title")


def test_the_picture_of_the_readme_shows_the_story():
    picture = (ROOT / "docs/images/first-minute.svg").read_text()
    frames = lines_of(picture)

    assert "docs/images/first-minute.svg" in (ROOT / "README.md").read_text()
    assert "<script" not in picture
    shown = {line for frame in frames for line in frame}
    assert {f"$ {step.command}" for step in STORY} <= shown
    assert any(re.match(r"WAITING [1-9]", line) for line in shown)
