"""/etc/projects and /etc/projid: others' lines stay, and replacements are whole."""

import os
import threading

import pytest

from bursar.adapters.disk.mounts import mount_of, parse_mounts, read_mounts
from bursar.adapters.disk.project_files import FIRST_ID, ProjectFiles, ProjectFilesError

PROJECTS = b"# mine\n10:/srv/a\n1048577:/var/lib/kubelet/pods/x\nnonsense\n"
NAMES = b"archive:10\nvolume1048577:1048577\nlonely:99\n#x:7\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "projects").write_bytes(PROJECTS)
    (tmp_path / "projid").write_bytes(NAMES)
    (tmp_path / "projid").chmod(0o640)
    return tmp_path


def test_ids_in_either_file_are_taken(folder):
    with ProjectFiles(str(folder)).locked() as found:
        assert found.ids == {10, 99, FIRST_ID}
        assert found.ours == {}


def test_lines_of_others_stay_as_they_are(folder):
    files = ProjectFiles(str(folder))
    with files.locked() as found:
        files.write(found.with_project(FIRST_ID + 1, "/pods/a b:c"))
    assert (folder / "projects").read_bytes() == PROJECTS + b"1048578:/pods/a b:c\n"
    assert (folder / "projid").read_bytes() == NAMES + b"bursar-1048578:1048578\n"
    assert (folder / "projid").stat().st_mode & 0o777 == 0o640
    with files.locked() as found:
        assert found.ours == {FIRST_ID + 1: "/pods/a b:c"}
        # The other two ids are not ours to remove.
        files.write(found.without(frozenset({10, FIRST_ID, FIRST_ID + 1})))
    assert (folder / "projects").read_bytes() == PROJECTS
    assert (folder / "projid").read_bytes() == NAMES
    assert sorted(os.listdir(folder)) == ["projects", "projid"]  # noqa: PTH208


def test_missing_files_are_created(tmp_path):
    files = ProjectFiles(str(tmp_path))
    with files.locked() as found:
        files.write(found.with_project(FIRST_ID, "/a"))
    assert (tmp_path / "projects").read_text() == "1048577:/a\n"


def test_a_symlink_is_not_written_through(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "projects").symlink_to("elsewhere")
    with pytest.raises(ProjectFilesError, match="projects"), ProjectFiles(str(tmp_path)).locked():
        pass


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "projects")
    with (
        pytest.raises(ProjectFilesError, match="plain file"),
        ProjectFiles(str(tmp_path)).locked(),
    ):
        pass


def test_concurrent_writers_lose_nothing(folder):
    def add():
        files = ProjectFiles(str(folder))
        for _ in range(20):
            with files.locked() as found:
                files.write(found.with_project(max(found.ids) + 1, "/p"))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ProjectFiles(str(folder)).locked() as found:
        assert sorted(found.ours) == list(range(FIRST_ID + 1, FIRST_ID + 81))


# ------------------------------------------------------------------ mounts

MOUNTS = rb"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,prjquota
22 21 8:2 /sub /var/with\040blank rw - xfs /dev/sdb rw,pquota
not a mount
"""


def test_mounts_have_options_of_both_sides_and_blanks_in_names():
    first, second = parse_mounts(MOUNTS)
    assert (first.folder, first.kind, first.source) == ("/", "ext4", "/dev/sda1")
    assert first.options == {"rw", "relatime", "prjquota"}
    assert (second.folder, second.device) == ("/var/with blank", "8:2")


def test_a_folder_is_on_the_innermost_mount_of_its_device(tmp_path):
    found = mount_of(str(tmp_path), read_mounts())
    assert found is not None
    assert str(tmp_path).startswith(found.folder)
    assert mount_of(str(tmp_path), parse_mounts(MOUNTS.replace(b"8:", b"250:"))) is None
