"""Checks of project quotas, run as the first process of a kernel that has them.

The kernel is that of a virtual machine. Results go to a port of the machine as JSON.
"""

import json
import os
import subprocess
import traceback
from pathlib import Path

from bursar.adapters.disk.mounts import mount_of, read_mounts
from bursar.adapters.disk.project_files import FIRST_ID, ProjectFiles
from bursar.adapters.disk.projects import QuotaCounter
from bursar.adapters.disk.quota_facts import read_facts
from bursar.adapters.disk.quotactl import has_accounting, project_of
from bursar.adapters.disk.tree import FolderTree
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.quota_check import missing_parts
from support.until import until_sync

RESULTS = "results"
"""The port of the machine that results go to."""
MIB = 2**20
POD = StoragePod(namespace="shop", name="web", uid="u1", has_user_namespace=True)
OTHERS = "1048577:/srv/archive\n# a comment\nnot a line\n"


def main() -> None:
    results = {}
    try:
        for device, kind in (("vdb", "ext4"), ("vdc", "xfs")):
            mount(device, kind, "prjquota")
            results[kind] = checked(Path("/mnt", kind))
        mount("vdd", "ext4", "", "plain")
        results["plain"] = plain(Path("/mnt/plain"))
        mount("vdc", "xfs", "", "xfs-plain", is_again=True)
        results["xfs-plain"] = plain(Path("/mnt/xfs-plain"))
    except Exception:  # noqa: BLE001 - the caller prints it
        results["error"] = traceback.format_exc()
    port(RESULTS).write_text(json.dumps(results))
    os.sync()
    Path("/proc/sysrq-trigger").write_text("o")


def port(name: str) -> Path:
    """The device of a port of the machine."""
    ports = Path("/sys/class/virtio-ports")
    [found] = [each for each in ports.iterdir() if (each / "name").read_text().strip() == name]
    return Path("/dev", found.name)


def mount(device: str, kind: str, options: str, name: str = "", *, is_again: bool = False) -> None:
    folder = Path("/mnt", name or kind)
    folder.mkdir()
    if is_again:
        run("umount", f"/mnt/{kind}")
    run("mount", "-t", kind, *(("-o", options) if options else ()), f"/dev/{device}", str(folder))


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def checked(root: Path) -> dict[str, object]:
    settings = root / "etc"
    settings.mkdir()
    (settings / "projects").write_text(OTHERS)
    volume = root / "pods/u1/volumes/kubernetes.io~empty-dir/cache"
    write(volume / "a/b/before", 3)
    os.mkfifo(volume / "pipe")
    (volume / "link").symlink_to("/")
    counter = QuotaCounter(ProjectFiles(str(settings)))
    reader = QuotaCounter()
    found: dict[str, object] = {"unassigned": reader.measure(str(volume), POD)}
    found["first"] = both(counter, volume)
    write(volume / "a/after", 2)
    write(volume / "new/folder/file", 1)
    found["grown"] = both(counter, volume)
    with (volume / "deleted").open("wb") as held:
        held.write(b"x" * MIB)
        held.flush()
        os.fsync(held.fileno())
        (volume / "deleted").unlink()
        found["deleted but open"] = both(counter, volume)
    found["closed"] = settled(counter, volume)
    found["read only"] = shown(reader.measure(str(volume), POD))
    stranger = StoragePod(namespace="shop", name="web", uid="u1")
    found["without user namespace"] = reader.measure(str(volume), stranger)
    inherited = volume / "a"
    found["inherited"] = reader.measure(str(inherited), POD)
    opened = os.open(volume, os.O_RDONLY)
    found["id"] = project_of(opened)
    found["accounting"] = has_accounting(opened, "")
    os.close(opened)
    found["projects"] = (settings / "projects").read_text()
    found["projid"] = (settings / "projid").read_text()
    run("rm", "-r", str(volume))
    found["forgotten"] = counter.forget_gone()
    found["projects after"] = (settings / "projects").read_text()
    found["projid after"] = (settings / "projid").read_text()
    found["missing"] = [str(each.what) for each in missing_parts(read_facts(str(root)))]
    assert mount_of(str(root), read_mounts()).folder == str(root)
    assert found["id"] == FIRST_ID + 1
    return found


def both(counter: QuotaCounter, volume: Path) -> dict[str, object]:
    os.sync()
    tree = FolderTree(str(volume))
    for _ in tree.scan(0):
        pass
    return {"quota": shown(counter.measure(str(volume), POD)), "scan": shown(tree.measure(0))}


def settled(counter: QuotaCounter, volume: Path) -> dict[str, object]:
    """As `both`, after XFS has freed the blocks of deleted files, which it does later."""

    def equal() -> dict[str, object] | None:
        found = both(counter, volume)
        return found if found["quota"][0] == found["scan"][0] else None

    return until_sync(equal, "scan and quota agree", 60)


def shown(measure) -> tuple[int, int, str] | None:
    return None if measure is None else (measure.used, measure.inodes, measure.way.value)


def write(path: Path, mib: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * mib * MIB)


def plain(root: Path) -> dict[str, object]:
    volume = root / "cache"
    volume.mkdir()
    return {
        "measured": QuotaCounter().measure(str(volume), POD),
        "missing": [str(each.what) for each in missing_parts(read_facts(str(root)))],
    }


if __name__ == "__main__":
    main()
