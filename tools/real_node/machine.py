"""A virtual machine of qemu without hardware support, from Debian's packages and files of ours.

Nothing is installed, and the machine cannot change anything of this one. Its kernel is that of
Debian's cloud images, and has cgroup v2.
"""

import fnmatch
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from real_node import RealNodeError

PORT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console")
"""For the disks and the ports of a machine."""
NODE_MODULES = (
    *(*PORT_MODULES, "virtio_net", "overlay", "veth"),
    # For kube-proxy, together with all modules that are parts of rules.
    *("nf_conntrack", "nf_conntrack_netlink", "nf_tables", "nft_*"),
)
C_LIBRARIES = ("libc", "libdl", "libm", "libpthread", "libresolv", "librt")
"""Parts of the C library that programs of the node are linked with."""
FOLDERS = ("bin", "dev", "etc/node", "proc", "root", "run", "sbin", "sys", "tmp", "var/log/pods")
FILES = {
    "group": "root:x:0:\n",
    "hosts": "127.0.0.1 localhost\n",
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "resolv.conf": "",
}
"""Files in /etc that kubelet or containerd read."""
GUEST = Path(__file__).with_name("guest")
MEMORY_MIB = 2048
DISK_SIZE = "8G"
"""At most. The file takes what is written to it."""
KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 mitigations=off rcupdate.rcu_cpu_stall_suppress=1"
LIBRARY_FOLDER = "lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"


def write_base(root: Path, busybox: Path, init: str, files: Iterable[Path]) -> None:
    """Write the root folder of a machine: its first program, busybox, and files at their paths."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    _link(busybox, root / "bin" / "busybox")
    (root / "bin" / "sh").symlink_to("busybox")
    (root / "sbin" / "init").write_text(init)
    (root / "sbin" / "init").chmod(0o755)
    for path in files:
        _link_all(path, root / path.relative_to("/"))


def write_root(root: Path, packages: Path, busybox: Path, files: Sequence[Path]) -> None:
    """Write the root folder of a node: `write_base`, the C library, and settings."""
    write_base(root, busybox, (GUEST / "init.sh").read_text(), files)
    for folder in ("lib64", LIBRARY_FOLDER):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (root / "etc" / name).write_text(content)
    _link(_library(packages, LOADER), root / "lib64" / LOADER)
    for name in C_LIBRARIES:
        library = _library(packages, f"{name}.so.[0-9]*")
        _link(library, root / LIBRARY_FOLDER / library.name)


def write_disk(disk: Path, root: Path) -> None:
    """Write a disk whose file system has the content of a folder. It needs no journal."""
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(root)]
    _checked([*command, str(disk), DISK_SIZE])


def write_initrd(
    initrd: Path, packages: Path, busybox: Path, modules: Sequence[str] = NODE_MODULES
) -> None:
    """Write what the kernel has in memory before it has a disk: its modules, in order."""
    folder = initrd.with_suffix(".folder")
    (folder / "bin").mkdir(parents=True)
    (folder / "modules").mkdir()
    _link(busybox, folder / "bin" / "busybox")
    shutil.copy(GUEST / "initrd.sh", folder / "init")
    (folder / "init").chmod(0o755)
    for number, (name, content) in enumerate(ordered_modules(packages, modules).items()):
        (folder / "modules" / f"{number:03}-{name}.ko").write_bytes(content)
    names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    command = [str(busybox), "cpio", "-o", "-H", "newc"]
    initrd.write_bytes(_checked(command, folder=folder, given=names.encode()))


def ordered_modules(packages: Path, wanted: Sequence[str] = NODE_MODULES) -> dict[str, bytes]:
    """The kernel modules of a machine by name, each after those that it depends on.

    `wanted` are names or patterns. A module that the packages lack is part of the kernel itself.
    """
    files = {
        path.name.partition(".")[0].replace("-", "_"): path for path in packages.rglob("*.ko*")
    }
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in ordered or name not in files:
            return
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for needed in depends[1].decode().split(",") if depends else ():
            add(needed.replace("-", "_"))
        ordered[name] = content

    for pattern in wanted:
        for name in fnmatch.filter(sorted(files), pattern):
            add(name)
    return ordered


def qemu_command(
    packages: Path,
    *,
    initrd: Path,
    disks: Sequence[Path],
    console: Path,
    ports: Mapping[str, str],
    tap: str = "",
) -> list[str]:
    """The command that runs a machine. The first disk is its root; without a tap it has no network.

    `console` is the file that the kernel's messages go to. `ports` are the machine's serial ports
    by name, each with its other end on this machine: the backend of a character device of qemu.
    """
    share = packages / "usr" / "share"
    libraries = sorted({str(path.parent) for path in packages.rglob("*.so.*")})
    [modules] = packages.glob("usr/lib/*/qemu")
    [kernel] = packages.glob("boot/vmlinuz-*")
    # With the C library of the packages, since the other libraries are made for it.
    command = ["env", f"QEMU_MODULE_DIR={modules}", str(_library(packages, LOADER))]
    command += ["--library-path", ":".join(libraries)]
    command += [str(packages / "usr" / "bin" / "qemu-system-x86_64")]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]
    command += ["-smp", "2", "-m", str(MEMORY_MIB)]
    command += ["-L", str(share / "seabios"), "-L", str(share / "qemu")]
    command += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", KERNEL_ARGUMENTS]
    for number, disk in enumerate(disks):
        command += ["-drive", f"if=none,id=disk{number},format=raw,cache=unsafe,file={disk}"]
        command += ["-device", f"virtio-blk-pci,drive=disk{number}"]
    if tap:
        command += ["-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no"]
        command += ["-device", "virtio-net-pci,netdev=net,romfile="]
    command += ["-chardev", f"file,id=console,path={console},append=on"]
    command += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
    for name, backend in ports.items():
        command += ["-chardev", backend.replace(",", f",id={name},", 1)]
        command += ["-device", f"virtserialport,chardev={name},name={name}"]
    return command


def _library(packages: Path, pattern: str) -> Path:
    """A file of the C library; releases differ in the folder."""
    [found] = [
        path for path in packages.rglob(pattern) if path.parent.name == Path(LIBRARY_FOLDER).name
    ]
    return found


def _link_all(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=_link, dirs_exist_ok=True)
    else:
        _link(source, target)


def _link(source: Path | str, target: Path | str) -> None:
    """A second name of the file, or a copy if the file is on another disk."""
    try:
        os.link(Path(source).resolve(), target)
    except OSError:
        shutil.copy2(source, target)


def _checked(command: Sequence[str], *, folder: Path | None = None, given: bytes = b"") -> bytes:
    """Run a command with some input; returns its output."""
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, input=given)
    if done.returncode != 0:
        raise RealNodeError(f"{Path(command[0]).name} failed: {done.stderr.decode().strip()}")
    return done.stdout
