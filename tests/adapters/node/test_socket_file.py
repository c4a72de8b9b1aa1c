"""The socket file is replaced atomically, and nothing but a socket is replaced."""

import grp
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bursar.adapters.node.socket_file import (
    SocketFileError,
    SocketPlace,
    check_path,
    identity,
    is_same,
    lock_socket,
    publish,
)


def listen(path):
    """A socket that somebody listens on; the test ends before it matters."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def place_in(folder, **rules):
    return SocketPlace(path=str(folder / "kubelet.sock"), **rules)


def serve(place):
    with lock_socket(place):
        publish(place, listen)


def test_folder_is_made_for_owner_and_group_and_the_socket_for_the_owner_alone(tmp_path):
    place = place_in(tmp_path / "run" / "pod-resources")
    serve(place)
    made = Path(place.path).stat()

    assert stat.S_ISSOCK(made.st_mode)
    assert stat.S_IMODE(made.st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "run" / "pod-resources").stat().st_mode) == 0o750
    assert names(tmp_path / "run" / "pod-resources") == [
        "kubelet.sock",
        "kubelet.sock.lock",
    ]


def test_mode_and_group_are_as_set(tmp_path):
    place = place_in(tmp_path, mode=0o660, group=grp.getgrgid(os.getgid()).gr_name)
    serve(place)
    made = Path(place.path).stat()

    assert (stat.S_IMODE(made.st_mode), made.st_gid) == (0o660, os.getgid())


@pytest.mark.integration
def test_folder_that_is_made_is_given_to_the_group(tmp_path):
    """A group that is not ours, so it takes root."""
    group = 54321
    made = tmp_path / "run" / "pod-resources"
    serve(place_in(made, mode=0o660, group=group))
    there = tmp_path / "there"
    there.mkdir()
    serve(place_in(there, mode=0o660, group=group))

    assert (made.stat().st_gid, stat.S_IMODE(made.stat().st_mode)) == (group, 0o750)
    assert (made / "kubelet.sock").stat().st_gid == group
    # A folder that was there is somebody else's business.
    assert there.stat().st_gid != group


def test_folder_for_a_group_that_is_not_there_is_not_left_behind(tmp_path):
    place = place_in(tmp_path / "run", group="no-such-group")
    with pytest.raises(SocketFileError, match="no such group"), lock_socket(place):
        pass

    assert names(tmp_path) == []


def test_what_is_published_can_be_told_from_what_others_put_there(tmp_path):
    place = place_in(tmp_path)
    with lock_socket(place):
        first = publish(place, listen)
        found = identity(place.path)
        second = publish(place, listen)

    assert first == found
    assert second == identity(place.path)
    assert identity(tmp_path / "nothing") is None


def test_socket_is_made_where_nobody_else_may_enter(tmp_path):
    place = place_in(tmp_path)
    modes = []

    def watched(path):
        modes.append(stat.S_IMODE(Path(path).parent.stat().st_mode))
        assert not Path(place.path).exists()
        listen(path)

    with lock_socket(place):
        publish(place, watched)

    assert modes == [0o700]


def test_old_socket_is_replaced_in_one_step(tmp_path):
    place = place_in(tmp_path)
    serve(place)
    before = Path(place.path).stat().st_ino
    during = []

    def watched(path):
        listen(path)
        during.append(Path(place.path).stat().st_ino)

    with lock_socket(place):
        publish(place, watched)

    assert during == [before]
    assert Path(place.path).stat().st_ino != before


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_is_not_replaced(tmp_path, kind):
    place = place_in(tmp_path)
    if kind == "file":
        (tmp_path / "kubelet.sock").write_text("precious")
    elif kind == "folder":
        (tmp_path / "kubelet.sock").mkdir()
    else:
        (tmp_path / "kubelet.sock").symlink_to("elsewhere")
    before = identity(place.path)

    with pytest.raises(SocketFileError, match="not a socket"):
        publish(place, listen)
    with pytest.raises(SocketFileError, match="not a socket"), lock_socket(place):
        pass
    assert identity(place.path) == before
    assert names(tmp_path) == ["kubelet.sock"]


def test_second_agent_is_turned_away_until_the_first_has_ended(tmp_path):
    place = place_in(tmp_path)
    with (
        lock_socket(place),
        pytest.raises(SocketFileError, match="another agent"),
        lock_socket(place),
    ):
        pass
    with lock_socket(place):
        publish(place, listen)

    assert Path(place.path).exists()


def test_what_a_killed_agent_left_is_swept_and_nothing_else(tmp_path):
    (tmp_path / ".0a1f").mkdir()
    listen(str(tmp_path / ".0a1f" / "s"))
    for name in (".beef", ".0b2f"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes").touch()
    serve(place_in(tmp_path))

    left = names(tmp_path)
    assert left == [".0b2f", ".beef", "kubelet.sock", "kubelet.sock.lock"]


def test_path_too_long_for_a_socket_is_refused_with_numbers():
    place = SocketPlace(path="/run/" + "x" * 95 + "/kubelet.sock")
    with (
        pytest.raises(SocketFileError, match="113 bytes are too many for a socket, 107"),
        lock_socket(place),
    ):
        pass


def test_longest_possible_path_works(tmp_path):
    folder = tmp_path / ("x" * (107 - len("/kubelet.sock") - len(os.fsencode(tmp_path)) - 1))
    place = place_in(folder)
    serve(place)

    assert len(place.path) == 107
    assert stat.S_ISSOCK(Path(place.path).stat().st_mode)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"path": ""}, "is not empty"),
        ({"path": "relative.sock"}, "begins with a slash"),
        ({"path": "/"}, "ends with the name of a file"),
        ({"path": "/run/"}, "ends with the name of a file"),
        ({"path": "/run/.."}, "ends with the name of a file"),
        ({"path": "/proc/nowhere/kubelet.sock"}, "no such file"),
        ({"group": "no-such-group"}, "no such group"),
    ],
)
def test_complaints_are_one_line(tmp_path, rules, complaint):
    place = SocketPlace(**{"path": str(tmp_path / "kubelet.sock"), **rules})
    with pytest.raises(SocketFileError, match=complaint) as told:
        serve(place)

    assert "\n" not in str(told.value)
    assert not (tmp_path / "kubelet.sock").exists()


@pytest.mark.parametrize("below", ["", "deeper/"])
def test_file_in_the_place_of_the_folder_is_named(tmp_path, below):
    file = tmp_path / "run"
    file.write_text("precious")
    place = SocketPlace(path=f"{file}/{below}kubelet.sock")
    with pytest.raises(SocketFileError) as told, lock_socket(place):
        pass

    assert str(told.value) == f"{place.path}: {file} is no folder"


def test_path_of_somebody_elses_socket_may_be_as_long_as_the_kernel_allows():
    check_path("/" + "x" * 106)
    with pytest.raises(SocketFileError, match="108 bytes"):
        check_path("/" + "x" * 107)


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "not there yet"])
def test_two_names_of_one_socket_are_known_for_what_they_are(tmp_path, is_there):
    folder, linked = tmp_path / "folder", tmp_path / "linked"
    folder.mkdir()
    linked.symlink_to(folder)
    (folder / "other.sock").symlink_to("k.sock")
    if is_there:
        listen(str(folder / "k.sock"))
        (tmp_path / "hard.sock").hardlink_to(folder / "k.sock")
    kubelets = str(folder / "k.sock")

    assert is_same(f"{tmp_path}//folder/./k.sock", kubelets)
    assert is_same(str(linked / "k.sock"), kubelets)
    assert is_same(str(folder / "other.sock"), kubelets)
    assert is_same(str(tmp_path / "hard.sock"), kubelets) is is_there
    assert not is_same(str(folder / "ours.sock"), kubelets)
    assert not is_same(str(tmp_path / "k.sock"), kubelets)


@pytest.mark.integration
def test_folder_that_is_mounted_twice_is_one_folder(tmp_path):
    """As in a container that has the same folder of the host under two names."""
    for name in ("ours", "kubelets"):
        (tmp_path / name).mkdir()
    asking = (
        "from bursar.adapters.node.socket_file import is_same;"
        "print(is_same('ours/k.sock', 'kubelets/k.sock'))"
    )
    alone = [sys.executable, "-c", asking]
    mounted = ["sh", "-c", 'mount --bind kubelets ours && exec "$0" "$@"', *alone]

    def told(*command):
        return subprocess.run(
            command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=60
        ).stdout

    assert told(*alone) == "False\n"
    assert told("unshare", "--mount", "--propagation", "private", *mounted) == "True\n"
