"""Writes the tables of docs/reference/metrics.md from the list of metrics.

The text around the tables is written by hand. `--check` only compares.
"""

import re
import sys
from pathlib import Path

from bursar.adapters.telemetry.catalogue.index import SECTIONS
from bursar.adapters.telemetry.catalogue.metric import Metric, Section

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"
TABLE = re.compile(r"(<!-- metrics: ([a-z-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
HEAD = "| metric | type | labels | unit | process | value |\n|---|---|---|---|---|---|\n"


def written(page: str) -> str:
    """The page with every table as the list has it."""
    sections = {section.name: section for section in SECTIONS}
    return TABLE.sub(lambda found: found[1] + table(sections[found[2]]) + found[3], page)


def table(section: Section) -> str:
    return HEAD + "".join(row(each) for each in section.metrics)


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    processes = ", ".join(each.value for each in metric.processes)
    text = metric.help.removesuffix(".").replace("|", "\\|")
    cells = (f"`{metric.name}`", metric.kind.value, labels, metric.unit, processes, text)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


def main(arguments: list[str]) -> int:
    now = PAGE.read_text()
    then = written(now)
    if "--check" in arguments:
        if now != then:
            print(f"{PAGE.name} differs from the list of metrics: run `make docs`", file=sys.stderr)
        return int(now != then)
    PAGE.write_text(then)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
