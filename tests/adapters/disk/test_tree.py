"""Scans of a volume that remember what they saw, against `du` and against hostile tenants."""

import os
import subprocess
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from bursar.adapters.disk import beneath, tree
from bursar.adapters.disk.beneath import open_beneath, open_by_steps
from bursar.adapters.disk.budgets import Budgets
from bursar.adapters.disk.tree import DEFAULT_LIMITS, FolderTree, ScanLimits
from support.seeds import one_quick

ROUND_MS = 10_000


class Scans:
    """A tree, and the clock of its rounds."""

    def __init__(self, path, limits=DEFAULT_LIMITS, **options):
        self.tree = FolderTree(str(path), limits, **options)
        self.now_ms = 0

    def round(self, elapsed_ms=ROUND_MS):
        self.now_ms += elapsed_ms
        for _ in self.tree.scan(self.now_ms):
            pass
        return self.measure

    @property
    def measure(self):
        return self.tree.measure(self.now_ms)


def du(path):
    """Bytes and inodes by coreutils, which count as the kubelet does."""
    found = []
    for option in ("--block-size=512", "--inodes"):
        command = ["du", "-sx", option, str(path)]
        found.append(
            int(subprocess.run(command, check=True, capture_output=True).stdout.split()[0])
        )
    return found[0] * 512, found[1]


def sizes(measure):
    return measure.used, measure.inodes


def remembered(budgets):
    return budgets.folders.used, budgets.names.used, budgets.hot.used


def written(path, kib=8):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * kib * 1024)
    return path


QUIET = ScanLimits(hot_ns=0, racy_ns=0)
"""Takes every file as one that has not changed for long."""
TURN_MS = ScanLimits().turn_ms


# ------------------------------------------------------------------ the same as du


def test_the_first_scan_counts_as_du_does(tmp_path):
    written(tmp_path / "a/b/c/deep")
    written(tmp_path / "a/other", 100)
    os.link(tmp_path / "a/other", tmp_path / "second-name")
    (tmp_path / "out").symlink_to("/")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**40)
    written(tmp_path / os.fsdecode(b"not-\xff-utf8") / ("n" * 255))
    found = Scans(tmp_path).round()
    assert sizes(found) == du(tmp_path)
    assert (found.is_complete, found.problem) == (True, "")


def _change(root, random):
    """One random change by a tenant."""
    found = sorted(root.rglob("*"))
    folders = [path for path in found if path.is_dir() and not path.is_symlink()]
    files = [path for path in found if path.is_symlink() or not path.is_dir()]
    name = random.choice([root, *folders]) / f"n{random.randrange(40)}"
    act = random.randrange(7)
    with suppress(OSError):
        if act == 0:
            name.mkdir()
        elif act == 1 and files:
            random.choice(files).unlink()
        elif act == 2 and files:
            os.link(random.choice(files), name, follow_symlinks=False)
        elif act == 3 and folders:
            random.choice(folders).rename(name)
        elif act == 4 and folders:
            random.choice(folders).rmdir()
        elif act == 5:
            name.symlink_to("..")
        else:
            with (random.choice(files) if files and act == 6 else name).open("ab") as file:
                file.write(b"x" * random.randrange(30_000))


@pytest.mark.parametrize("seed", one_quick(range(6)))
def test_after_any_history_a_whole_turn_equals_du(tmp_path, seed):
    random, budgets = Random(seed), Budgets()  # noqa: S311 - a test
    scans = Scans(tmp_path, budgets=budgets)
    for _ in range(40):
        for _ in range(random.randrange(1, 12)):
            _change(tmp_path, random)
        assert sizes(scans.round(TURN_MS)) == du(tmp_path)
    assert budgets.folders.used == scans.tree.folders
    scans.tree.forget()
    assert remembered(budgets) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_a_scan_that_is_cut_short_again_and_again_still_ends_right(tmp_path, seed):
    random = Random(seed)  # noqa: S311 - a test
    for number in range(60):
        written(tmp_path / f"d{number % 7}/e{number % 3}/f{number}")
        os.link(tmp_path / f"d{number % 7}/e{number % 3}/f{number}", tmp_path / f"l{number}")
    budgets = Budgets()
    scans = Scans(tmp_path, ScanLimits(step=3), budgets=budgets)
    for _ in range(30):
        scans.now_ms += ROUND_MS
        cut = scans.tree.scan(scans.now_ms)
        for _ in range(random.randrange(4)):
            next(cut, None)
        cut.close()
    assert sizes(scans.round(TURN_MS)) == du(tmp_path)
    scans.tree.forget()
    assert remembered(budgets) == (0, 0, 0)


# ------------------------------------------------------------------ what later scans look at


def test_a_file_that_grows_is_seen_in_the_next_scan(tmp_path):
    growing = written(tmp_path / "a/growing")
    scans = Scans(tmp_path)
    before = scans.round().used
    with growing.open("ab") as file:
        file.write(b"x" * 65536)
    assert scans.round(1).used == before + 65536


def test_a_quiet_file_that_grows_is_seen_within_a_whole_turn(tmp_path):
    files = [written(tmp_path / f"d{number}/f") for number in range(12)]
    scans = Scans(tmp_path, QUIET)
    before = scans.round().used
    for file in files:
        written(file, 72)
    seen = [(scans.round().used - before) // 65536 for _ in range(12)]
    assert seen == sorted(seen)
    assert seen[0] < 12
    assert seen[-1] == 12
    assert scans.measure.age_ms < TURN_MS


def test_a_later_scan_looks_at_a_part_of_quiet_files_only(tmp_path):
    for number in range(600):
        written(tmp_path / f"d{number % 60}/f{number}", 1)
    scans = Scans(tmp_path, QUIET)
    scans.round()
    looks = [scans.tree.looks]
    for _ in range(12):
        scans.round()
        looks.append(scans.tree.looks)
    rounds = [after - before for before, after in pairwise(looks)]
    # Every folder, and a twelfth of the files.
    assert max(rounds) <= 60 + 2 * 60


def test_the_age_is_that_of_the_oldest_figure(tmp_path):
    for number in range(24):
        written(tmp_path / f"d{number}/f")
    scans = Scans(tmp_path, QUIET)
    scans.round()
    assert scans.measure.age_ms == 0
    assert [scans.round().age_ms for _ in range(3)] == [10_000, 20_000, 30_000]


def test_a_volume_that_was_replaced_is_scanned_anew(tmp_path):
    written(tmp_path / "volume/a/file", 100)
    scans = Scans(tmp_path / "volume")
    scans.round()
    (tmp_path / "volume").rename(tmp_path / "old")
    written(tmp_path / "volume/b/file")
    assert sizes(scans.round()) == du(tmp_path / "volume")


# ------------------------------------------------------------------ hostile tenants


def test_a_folder_that_becomes_a_symlink_is_not_followed(tmp_path):
    written(tmp_path / "elsewhere/secret", 500)
    volume = tmp_path / "volume"
    written(volume / "a/b/file")
    scans = Scans(volume)
    scans.round()
    (volume / "a").rename(volume / "moved")
    (volume / "a").symlink_to(tmp_path / "elsewhere")
    assert sizes(scans.round()) == du(volume)


def test_a_path_that_is_too_long_is_reported_and_the_rest_counted(tmp_path):
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=at)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    written(tmp_path / "near", 100)
    found = Scans(tmp_path).round()
    assert (found.is_complete, found.problem) == (False, tree.TOO_DEEP)
    assert found.used > 100 * 1024


def test_more_folders_than_remembered_are_reported(tmp_path):
    for number in range(20):
        written(tmp_path / f"d{number}/f")
    scans = Scans(tmp_path, ScanLimits(folders_max=10))
    assert (scans.round().is_complete, scans.measure.problem) == (False, tree.TOO_MANY_FOLDERS)
    assert scans.tree.folders == 10
    assert not scans.round().is_complete
    for number in range(15):
        (tmp_path / f"d{number}/f").unlink()
        (tmp_path / f"d{number}").rmdir()
    scans.round()
    assert sizes(scans.round(TURN_MS)) == du(tmp_path)
    assert scans.measure.is_complete


def test_names_of_hard_links_of_all_volumes_together_are_bounded(tmp_path):
    budgets = Budgets(names=10)
    for volume in ("first", "second"):
        file = written(tmp_path / volume / "d/file")
        for number in range(7):
            os.link(file, tmp_path / volume / f"name{number}")
    trees = [Scans(tmp_path / volume, budgets=budgets) for volume in ("first", "second")]
    assert [each.round().problem for each in trees] == ["", tree.TOO_MANY_NAMES]
    assert budgets.names.used == 10
    assert [each.round().is_complete for each in trees] == [True, False]
    for number in range(7):
        (tmp_path / "first" / f"name{number}").unlink()
    trees[0].round()
    assert sizes(trees[1].round(TURN_MS)) == du(tmp_path / "second")
    assert trees[1].measure.is_complete


def test_a_folder_whose_names_fill_the_room_can_be_listed_again(tmp_path):
    file = written(tmp_path / "file")
    for number in range(9):
        os.link(file, tmp_path / f"name{number}")
    scans = Scans(tmp_path, budgets=Budgets(names=10))
    for _ in range(3):
        assert sizes(scans.round(TURN_MS)) == du(tmp_path)
        assert scans.measure.is_complete


def test_folders_take_room_while_they_are_listed(tmp_path):
    budgets, limits = Budgets(folders=10), ScanLimits(step=4)
    for volume in ("first", "second"):
        for number in range(20):
            (tmp_path / volume / f"d{number}").mkdir(parents=True)
    scans = [
        FolderTree(str(tmp_path / volume), limits, budgets=budgets).scan(1)
        for volume in ("first", "second")
    ]
    for _ in range(3):
        for scan in scans:
            next(scan)
    assert 10 <= budgets.folders.used <= 11
    scans[0].close()
    assert budgets.folders.used < 10


def test_hot_files_of_all_volumes_together_are_bounded(tmp_path):
    budgets = Budgets(hot=5)
    for volume in ("first", "second"):
        for number in range(4):
            written(tmp_path / volume / f"f{number}")
    for volume in ("first", "second"):
        scans = Scans(tmp_path / volume, budgets=budgets)
        scans.round()
        assert sizes(scans.round()) == du(tmp_path / volume)
    assert budgets.hot.used == 5


def test_more_files_than_allowed_are_reported(tmp_path):
    for number in range(50):
        written(tmp_path / f"f{number}", 4)
    found = Scans(tmp_path, ScanLimits(entries_max=20, step=4)).round()
    assert (found.is_complete, found.problem) == (False, tree.TOO_MANY_ENTRIES)
    assert found.inodes < 50


def test_more_hot_files_than_remembered_are_still_counted(tmp_path):
    for number in range(50):
        written(tmp_path / f"d{number % 3}/f{number}")
    scans = Scans(tmp_path, ScanLimits(hot_max=5))
    scans.round()
    assert sizes(scans.round()) == du(tmp_path)


def test_a_volume_that_is_gone_raises_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Scans(tmp_path / "gone").round()


def test_before_the_first_scan_has_ended_the_measure_is_a_least(tmp_path):
    for number in range(50):
        written(tmp_path / f"d{number}/f")
    scans = Scans(tmp_path, ScanLimits(step=2))
    cut = scans.tree.scan(1)
    for _ in range(9):
        next(cut)
    found = scans.tree.measure(1)
    cut.close()
    assert (found.is_complete, found.problem) == (False, tree.UNDER_WAY)
    assert found.used < du(tmp_path)[0]


# ------------------------------------------------------------------ opening


@pytest.mark.parametrize("open_folder", [open_beneath, open_by_steps])
def test_only_folders_beneath_are_opened(tmp_path, open_folder):
    written(tmp_path / "a/b/file")
    (tmp_path / "a/link").symlink_to("b")
    os.mkfifo(tmp_path / "a/pipe")
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        opened = open_folder(root, "a/b")
        assert os.listdir(opened) == ["file"]  # noqa: PTH208 - a descriptor
        os.close(opened)
        for path in ("a/link", "a/pipe", "a/b/file", "missing"):
            with pytest.raises(OSError) as error:  # noqa: PT011 - the number is checked
                open_folder(root, path)
            assert error.value.errno in beneath.MISSING
    finally:
        os.close(root)


def test_a_kernel_without_openat2_is_served_by_steps(tmp_path):
    written(tmp_path / "a/b/file")
    assert sizes(Scans(tmp_path, open_folder=open_by_steps).round()) == du(tmp_path)
