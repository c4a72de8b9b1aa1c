"""The size of one volume, by scans that remember what they saw.

The first scan looks at every file, as `du` does. Later scans look at

- every folder: if its change time is the same, no file was added, removed or renamed in it;
- files that changed lately ("hot" files), because these are the ones that grow;
- a part of all other files in turn, because a file that grows does not change its folder.

So growth of a file that had been quiet is seen late, but not later than the whole turn takes.
`Measure.age_ms` says how old the oldest figure is. A scan that is cut short loses nothing but the
folder it was in: the next one goes on from there.
"""

import errno
import os
import stat
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bursar.adapters.disk.beneath import FOLDER, MISSING, open_beneath
from bursar.adapters.disk.budgets import Budgets
from bursar.adapters.disk.folder import Folder, Listing
from bursar.adapters.disk.links import LinkedFiles
from bursar.core.storage.usage import Measure, Way

BLOCK: Final = 512
"""Unit of `st_blocks`, whatever the filesystem's block size is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    step: int = 256
    """Files that are looked at between two points at which a scan can be paused."""
    hot_ns: int = 30 * 10**9
    """How long after its last change a file is looked at in every scan."""
    hot_max: int = 1024
    """Maximum hot files of one volume. Others are looked at in turn."""
    racy_ns: int = 2 * 10**9
    """A folder that changed so shortly before it was read may change again with the same stamp."""
    folders_max: int = 50_000
    entries_max: int = 2_000_000
    turn_ms: int = 120_000
    """In this time every file is looked at. The kubelet measures each volume once in one to two
    minutes."""


DEFAULT_LIMITS: Final = ScanLimits()
TOO_MANY_FOLDERS: Final = "more folders than the agent remembers"
TOO_MANY_ENTRIES: Final = "more files than are scanned"
TOO_MANY_NAMES: Final = "more names of files with several names than the agent remembers"
TOO_DEEP: Final = "a path is too long"
UNREADABLE: Final = "a folder cannot be read"
UNDER_WAY: Final = "the first scan is under way"


class FolderTree:
    """One volume. Not for use by two threads at once."""

    def __init__(
        self,
        path: str,
        limits: ScanLimits = DEFAULT_LIMITS,
        *,
        budgets: Budgets | None = None,
        open_folder: Callable[[int, str], int] = open_beneath,
    ) -> None:
        self.path = path
        self._limits = limits
        self._budgets = budgets or Budgets()
        self._open_folder = open_folder
        self._root = -1
        """Descriptor of the volume, open only during a scan."""
        self._device = 0
        self._top: Folder | None = None
        self._turn: OrderedDict[Folder, None] = OrderedDict()
        """All folders, the one that was scanned longest ago first."""
        self._with_hot: set[Folder] = set()
        self._blocks = self._entries = self._hot = 0
        self._links = LinkedFiles(self._budgets.names)
        self._problems: Counter[str] = Counter()
        self._last_ms: int | None = None
        """When the last whole scan began; None before the end of the first."""
        self.looks = 0
        """Files and folders that were looked at so far."""

    # -------------------------------------------------------------- results

    @property
    def folders(self) -> int:
        return len(self._turn)

    @property
    def is_scanned(self) -> bool:
        return self._last_ms is not None

    def measure(self, now_ms: int) -> Measure:
        """The size as far as it is known. It is not complete before the first scan has ended."""
        problem = next((text for text, count in self._problems.items() if count), "")
        problem = problem if self.is_scanned else UNDER_WAY
        oldest_ms = next(iter(self._turn)).scanned_ms if self.is_scanned and self._turn else now_ms
        return Measure(
            used=(self._blocks + self._links.blocks) * BLOCK,
            inodes=self._entries + len(self._links),
            way=Way.SCAN,
            is_complete=not problem,
            problem=problem,
            age_ms=max(0, now_ms - oldest_ms),
        )

    def forget(self) -> None:
        """Return all that is kept to the budgets. Do not use the tree any more."""
        self._budgets.folders.used -= len(self._turn)
        self._budgets.hot.used -= self._hot
        self._links.forget()
        self._turn.clear()

    # -------------------------------------------------------------- one scan

    def scan(self, now_ms: int) -> Iterator[None]:
        """Look at what may have changed. The caller may pause after each step, or close it.

        A problem of a single folder becomes the measure's `problem`. Raises `OSError` if the
        volume itself cannot be opened.
        """
        try:
            self._root = os.open(self.path, FOLDER)
            yield from self._scan(now_ms)
        finally:
            if self._root >= 0:
                os.close(self._root)
                self._root = -1

    def _scan(self, now_ms: int) -> Iterator[None]:
        found = os.fstat(self._root)
        self._device = found.st_dev
        if self._top is None or self._top.inode != found.st_ino:
            if self._top is not None:
                self._remove(self._top)
            self._top = self._add_folder("", None, found.st_ino)
        yield from self._look_at_hot()
        dirty: list[Folder] = []
        if self._top.changed_ns != found.st_ctime_ns or self._top.is_racy:
            dirty.append(self._top)
        yield from self._compare_folders(self._top, dirty)
        while dirty:
            yield from self._rescan(dirty.pop(), now_ms, dirty)
        if self._last_ms is not None:
            yield from self._take_turn(now_ms, now_ms - self._last_ms)
        self._last_ms = now_ms

    def _compare_folders(self, top: Folder, dirty: list[Folder]) -> Iterator[None]:
        """Find folders whose stamps changed. A folder without folders in it costs one `lstat`."""
        waiting, pending = [top], 0
        while waiting:
            folder = waiting.pop()
            opened = self._open(folder) if folder.children else None
            if opened is None:
                continue
            try:
                children = list((folder.children or {}).values())
                for child in children:
                    state = self._has_changed(opened, child)
                    if state:
                        dirty.append(child)
                    if state is not None and child.children:
                        waiting.append(child)
            finally:
                os.close(opened)
            pending += len(children)
            if pending >= self._limits.step:
                pending = 0
                yield

    def _has_changed(self, parent: int, child: Folder) -> bool | None:
        """Whether a folder changed since it was scanned; None if it is gone."""
        self.looks += 1
        try:
            found = os.stat(child.name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            self._remove(child)
            return None
        is_same = found.st_ino == child.inode and found.st_dev == self._device
        if not is_same or not stat.S_ISDIR(found.st_mode):
            self._remove(child)
            return None
        return found.st_ctime_ns != child.changed_ns or child.is_racy

    def _take_turn(self, now_ms: int, elapsed_ms: int) -> Iterator[None]:
        """Look at the part of all files that is due: all of them within `turn_ms`."""
        share_ms = min(elapsed_ms, self._limits.turn_ms)
        due = -(-(self._entries + len(self._links)) * share_ms // self._limits.turn_ms)
        dirty: list[Folder] = []
        while due > 0 and self._turn:
            folder = dirty.pop() if dirty else next(iter(self._turn))
            if folder.scanned_ms == now_ms and not dirty:
                break
            yield from self._rescan(folder, now_ms, dirty)
            due -= folder.entries
        while dirty:
            yield from self._rescan(dirty.pop(), now_ms, dirty)

    # -------------------------------------------------------------- hot files

    def _look_at_hot(self) -> Iterator[None]:
        pending = 0
        for folder in list(self._with_hot):
            opened = self._open(folder)
            if opened is None:
                continue
            try:
                pending += self._refresh(folder, opened)
            finally:
                os.close(opened)
            if pending >= self._limits.step:
                pending = 0
                yield

    def _refresh(self, folder: Folder, opened: int) -> int:
        """Look at the hot files of a folder again. A file that is quiet is no longer hot."""
        hot, quiet_ns = folder.hot or {}, time.time_ns() - self._limits.hot_ns
        for name, blocks in list(hot.items()):
            self.looks += 1
            try:
                found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except OSError:
                # The file was deleted, so its folder has another stamp and is scanned again.
                continue
            if found.st_nlink > 1 or stat.S_ISDIR(found.st_mode):
                folder.is_racy = True
                continue
            folder.blocks += found.st_blocks - blocks
            self._blocks += found.st_blocks - blocks
            hot[name] = found.st_blocks
            if found.st_ctime_ns < quiet_ns:
                del hot[name]
                self._hot -= 1
                self._budgets.hot.used -= 1
        if not hot:
            folder.hot = None
            self._with_hot.discard(folder)
        return 1 + len(hot)

    # -------------------------------------------------------------- one folder

    def _open(self, folder: Folder) -> int | None:
        """Open a folder; None if it is gone or cannot be read."""
        if folder.is_gone:
            return None
        try:
            return self._open_folder(self._root, folder.path)
        except OSError as error:
            if error.errno in MISSING and folder.parent is not None:
                self._remove(folder)
            else:
                self._set_problem(folder, _problem_of(error))
            return None

    def _rescan(self, folder: Folder, now_ms: int, dirty: list[Folder]) -> Iterator[None]:
        """Look at all files of a folder. New folders in it are added to `dirty`."""
        opened = self._open(folder)
        if opened is None:
            self._move_last(folder, now_ms)
            return
        listing: Listing | None = None
        try:
            # Read the stamp before the files: a change during the scan makes it another one.
            before = os.fstat(opened)
            listing = Listing(blocks=before.st_blocks)
            yield from self._list(opened, listing, folder)
            listing.is_racy |= before.st_ctime_ns > time.time_ns() - self._limits.racy_ns
            if not folder.is_gone:
                folder.changed_ns = before.st_ctime_ns
                self._take(folder, listing, dirty)
                listing = None
        except OSError as error:
            self._set_problem(folder, _problem_of(error))
        finally:
            os.close(opened)
            if listing is not None:
                self._give_back(listing)
        self._move_last(folder, now_ms)

    def _list(self, opened: int, listing: Listing, folder: Folder) -> Iterator[None]:
        # The loop runs once for every file of a node: what it needs is in local variables.
        hot_ns, entries_max = (
            time.time_ns() - self._limits.hot_ns,
            self._limits.entries_max - self._entries + folder.entries,
        )
        replaced = len(folder.hot or ())
        hot_max, hot_budget = self._limits.hot_max - self._hot + replaced, self._budgets.hot
        device, hot, step = self._device, listing.hot, self._limits.step
        seen = blocks = plain = 0
        with os.scandir(opened) as entries:
            for entry in entries:
                seen += 1
                if not seen % step:
                    yield
                    if seen > entries_max:
                        listing.problem = TOO_MANY_ENTRIES
                        break
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    # The entry was deleted meanwhile, so the folder has another stamp.
                    continue
                if found.st_dev != device:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    self._list_folder(listing, folder, entry.name, found.st_ino)
                elif found.st_nlink > 1:
                    listing.is_racy |= found.st_ctime_ns > hot_ns
                    self._list_linked(listing, folder, found)
                else:
                    plain += 1
                    blocks += found.st_blocks
                    is_hot = found.st_ctime_ns > hot_ns
                    if is_hot and len(hot) < hot_max and hot_budget.has_more(replaced):
                        # A name that is listed twice counts once.
                        hot_budget.used += entry.name not in hot
                        hot[entry.name] = found.st_blocks
        listing.blocks += blocks
        listing.entries += plain
        self.looks += seen

    def _list_folder(self, listing: Listing, folder: Folder, name: str, inode: int) -> None:
        """Note a folder. A new one is in the budget at once: a listing may pause for long."""
        if name not in listing.folders and name not in (folder.children or {}):
            budget, known = self._budgets.folders, len(self._turn) + listing.new_folders
            if known >= self._limits.folders_max or not budget.has_more():
                listing.problem = TOO_MANY_FOLDERS
                return
            budget.used += 1
            listing.new_folders += 1
        listing.folders[name] = inode

    def _list_linked(self, listing: Listing, folder: Folder, found: os.stat_result) -> None:
        if self._links.add(found.st_ino, found.st_blocks, spare=len(folder.links or ())):
            listing.links.append(found.st_ino)
        else:
            listing.problem = TOO_MANY_NAMES

    def _give_back(self, listing: Listing) -> None:
        """Return to the budgets what a listing holds that is not taken."""
        self._links.drop(listing.links)
        self._budgets.folders.used -= listing.new_folders
        self._budgets.hot.used -= len(listing.hot)

    def _take(self, folder: Folder, listing: Listing, dirty: list[Folder]) -> None:
        """Replace what is remembered of a folder by what was found in it."""
        self._links.drop(folder.links or ())
        folder.links = listing.links or None
        self._blocks += listing.blocks - folder.blocks
        self._entries += listing.entries - folder.entries
        self._hot += len(listing.hot) - len(folder.hot or ())
        self._budgets.hot.used -= len(folder.hot or ())
        self._budgets.folders.used -= listing.new_folders
        folder.blocks, folder.entries = listing.blocks, listing.entries
        folder.hot, folder.is_racy = listing.hot or None, listing.is_racy
        if listing.hot:
            self._with_hot.add(folder)
        else:
            self._with_hot.discard(folder)
        for child in list((folder.children or {}).values()):
            if listing.folders.get(child.name) != child.inode:
                self._remove(child)
        children = folder.children or {}
        for name, inode in listing.folders.items():
            if name not in children:
                children[name] = self._add_folder(name, folder, inode)
                dirty.append(children[name])
        folder.children = children or None
        self._set_problem(folder, listing.problem)

    def _add_folder(self, name: str, parent: Folder | None, inode: int) -> Folder:
        folder = Folder(name, parent, inode)
        self._turn[folder] = None
        self._budgets.folders.used += 1
        return folder

    def _move_last(self, folder: Folder, now_ms: int) -> None:
        if not folder.is_gone:
            folder.scanned_ms = now_ms
            self._turn.move_to_end(folder)

    def _set_problem(self, folder: Folder, problem: str) -> None:
        self._problems[folder.problem] -= bool(folder.problem)
        self._problems[problem] += bool(problem)
        folder.problem = problem

    def _remove(self, folder: Folder) -> None:
        if folder.parent is not None and folder.parent.children is not None:
            folder.parent.children.pop(folder.name, None)
        waiting = [folder]
        while waiting:
            each = waiting.pop()
            waiting += (each.children or {}).values()
            self._links.drop(each.links or ())
            self._blocks -= each.blocks
            self._entries -= each.entries
            self._hot -= len(each.hot or ())
            self._budgets.hot.used -= len(each.hot or ())
            self._set_problem(each, "")
            self._with_hot.discard(each)
            del self._turn[each]
            self._budgets.folders.used -= 1
            each.is_gone, each.children = True, None


def _problem_of(error: OSError) -> str:
    return TOO_DEEP if error.errno == errno.ENAMETOOLONG else UNREADABLE
