"""`make fuzz`: hostile annotations and frames at a real agent, for as long as you like.

python tools/fuzz_agent.py --for 5m --seed 7
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bursar.cli.output.durations import parse_duration  # noqa: E402 - likewise
from support.faults.agent_under_attack import fuzz_agent  # noqa: E402 - found only now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="seconds", type=parse_duration, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bursar-fuzz-") as folder:
        tally = asyncio.run(fuzz_agent(Path(folder), seconds=chosen.seconds, seed=chosen.seed))
    print(tally)
    for line in tally.wrong:
        print(f"wrong: {line}")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
