"""Write the Helm chart and the kustomize base afresh: `make chart`."""

from chart.chart_files import ROOT, files, present


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


if __name__ == "__main__":
    main()
