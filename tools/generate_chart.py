"""Write the Helm chart and the kustomize base afresh: `make chart`.

With `--golden` also the texts in tests/golden/chart, which the real helm renders.
"""

import subprocess
import sys

from assets import ensure
from chart.chart_files import CHART, ROOT, files, present


def main() -> None:
    wanted = files()
    for name in present():
        if name not in wanted:
            (ROOT / name).unlink()
    for name, text in wanted.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(wanted)} files")
    if "--golden" in sys.argv[1:]:
        for values in sorted((ROOT / "tests" / "golden" / "chart").glob("*.values.yaml")):
            name = values.name.removesuffix(".values.yaml")
            values.with_name(f"{name}.txt").write_text(rendered(str(values)))


def rendered(values: str) -> str:
    """What `helm template` prints for a file of values."""
    named = ("--namespace", "aaq", "--values", values)
    command = [str(ensure("helm")), "template", "bursar", str(ROOT / CHART), *named]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
