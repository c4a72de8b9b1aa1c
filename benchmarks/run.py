"""Run the benchmarks and print ratios measured in one run: `python benchmarks/run.py [NAME...]`."""

import importlib
import sys
from pathlib import Path

NAMES = [
    *("quantity", "cold_start", "watch", "sync", "informer"),
    *("hostile_pods", "ledger", "deciding", "release"),
    *("admission", "admission_peerpods", "podresources"),
    *("agent_memory", "http_client", "policies"),
    *("sidecars", "simulation", "describe", "top", "fit", "disk_scan", "extender"),
]


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    chosen = sys.argv[1:] or NAMES
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(NAMES)})")
    print(
        f"{'what':<32}{'ours':>14}  {'against':<18}{'theirs':>14}  {'unit':<14}{'ratio':>8}  goal"
    )
    for name in chosen:
        for row in importlib.import_module(name).measure():
            print(
                f"{row.what:<32}{row.ours:>14,.1f}  {row.against:<18}{row.theirs:>14,.1f}"
                f"  {row.unit:<14}{row.ratio:>8.3f}  {row.goal}",
                flush=True,
            )


if __name__ == "__main__":
    main()
