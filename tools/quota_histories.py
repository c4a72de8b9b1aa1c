"""`make histories`: random histories of a cluster with quotas, one seed for each.

python tools/quota_histories.py --count 100000 --seed 1 --steps 15

A line says after every thousand how far it is. A history that fails is named with its error, and
the others go on; `--seed` with its number and `--count 1` repeats it.
"""

import argparse
import logging
import sys
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.histories.controller.history import run_controller_history  # noqa: E402 - found now
from support.histories.counting.history import run_counting_history  # noqa: E402 - likewise
from support.histories.history import run_history  # noqa: E402 - likewise

BATCH = 1_000
KINDS = {
    "books": run_history,
    "counters": run_counting_history,
    "controller": run_controller_history,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000, help="number of histories")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first; the next is +1")
    parser.add_argument("--steps", type=int, help="steps of each; without it, it is drawn")
    parser.add_argument("--of", choices=KINDS, default="books", help="what the histories are of")
    chosen = parser.parse_args()
    logging.disable()  # The controller writes about each fault.
    met, failed = Counter[str](), 0
    for number in range(1, chosen.count + 1):
        try:
            met += KINDS[chosen.of](chosen.seed + number - 1, steps=chosen.steps)
        except Exception:  # noqa: BLE001 - whatever goes wrong in one history
            failed += 1
            traceback.print_exc()
            continue
        if number % BATCH == 0 or number == chosen.count:
            print(f"{number} histories, {met['steps']} steps, {met['audits']} audits", flush=True)
    for name, count in sorted(met.items()):
        print(f"{count:>10} {name}")
    print(f"{failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
