"""Record what upstream says about manifests that together reach every rule of `wire/validation`.

    .venv/bin/python tools/record_verdicts.py [COUNT] [SEED]

Random manifests are judged one after the other. Those that take a branch of our code for the first
time are kept, with the oracle's answer, in tests/wire/recorded_verdicts.jsonl. The tests compare
our verdicts with the recorded ones where there is no Go.
"""

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "src")]

from assets import ensure  # noqa: E402 - the path is set above
from support.manifests.odd_manifests import odd_manifests  # noqa: E402
from support.manifests.random_manifests import Manifests  # noqa: E402
from support.manifests.verdicts import difference, our_errors  # noqa: E402
from support.processes.oracle import Oracle  # noqa: E402

RECORD: Final = ROOT / "tests/wire/recorded_verdicts.jsonl"
RULES: Final = str(ROOT / "src/bursar/wire/validation")


class Branches:
    """The jumps from line to line that the rules have taken so far."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, int, int]] = set()
        self._last: dict[FrameType, int] = {}

    def trace(self, frame: FrameType, event: str, argument: object) -> object:  # noqa: ARG002
        name = frame.f_code.co_filename
        if not name.startswith(RULES):
            return None
        self.taken.add((name, self._last.get(frame, -1), frame.f_lineno))
        self._last[frame] = frame.f_lineno
        if event == "return":
            self.taken.add((name, frame.f_lineno, -1))
            self._last.pop(frame, None)
        return self.trace

    def judge(self, manifest: dict[str, Any]) -> tuple[list[str], bool]:
        """Our errors, and whether a branch was new."""
        before = len(self.taken)
        sys.settrace(self.trace)  # type: ignore[arg-type]
        try:
            errors = our_errors(manifest)
        finally:
            sys.settrace(None)
        return errors, len(self.taken) > before


def main() -> None:
    count, seed = (int(text) for text in (*sys.argv[1:], "40000", "1")[:2])
    manifests, branches, oracle = Manifests(seed), Branches(), Oracle(ensure("oracle"))
    kept: list[str] = []
    random_ones = (manifests.manifest() for _ in range(count))
    for number, manifest in enumerate((*odd_manifests(), *random_ones)):
        errors, is_new = branches.judge(manifest)
        if not is_new:
            continue
        (answer,) = oracle.ask("create", objects=[manifest])
        if answer.get("panic"):
            continue
        if found := difference(manifest, errors, answer):
            print(f"{number}: {found}", file=sys.stderr)
            continue
        kept.append(json.dumps({"manifest": manifest, "upstream": answer}, ensure_ascii=False))
    RECORD.write_text("\n".join(kept) + "\n")
    print(f"{len(kept)} manifests, {len(branches.taken)} branches", file=sys.stderr)
    oracle.close()


if __name__ == "__main__":
    main()
