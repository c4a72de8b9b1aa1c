"""Our verdicts on manifests beside upstream's, as tools/record_verdicts.py recorded them."""

import json
from pathlib import Path

from support.manifests.verdicts import difference, our_errors

RECORD = Path(__file__).parent / "recorded_verdicts.jsonl"


def test_verdicts_are_those_that_were_recorded():
    wrong = []
    for number, line in enumerate(RECORD.read_text().splitlines(), 1):
        recorded = json.loads(line)
        manifest, upstream = recorded["manifest"], recorded["upstream"]
        if found := difference(manifest, our_errors(manifest), upstream):
            wrong.append(f"line {number}: {found}")

    assert wrong == []
