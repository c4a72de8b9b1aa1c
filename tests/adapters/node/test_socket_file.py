"""The name under which our socket is found: moved into place whole, and only over a socket."""

import grp
import os
import socket
import stat
from pathlib import Path

import pytest

from bursar.adapters.node.socket_file import SocketFileError, SocketPlace, held, publish


def listen(path):
    """A socket that somebody listens on; the test ends before it matters."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def place_in(folder, **rules):
    return SocketPlace(path=str(folder / "kubelet.sock"), **rules)


def serve(place):
    with held(place):
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


def test_socket_is_made_where_nobody_else_may_enter(tmp_path):
    place = place_in(tmp_path)
    modes = []

    def watched(path):
        modes.append(stat.S_IMODE(Path(path).parent.stat().st_mode))
        assert not Path(place.path).exists()
        listen(path)

    with held(place):
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

    with held(place):
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
    before = os.lstat(place.path).st_ino

    with held(place), pytest.raises(SocketFileError, match="no socket"):
        publish(place, listen)
    assert os.lstat(place.path).st_ino == before


def test_second_agent_is_turned_away_until_the_first_has_ended(tmp_path):
    place = place_in(tmp_path)
    with held(place), pytest.raises(SocketFileError, match="another agent"), held(place):
        pass
    with held(place):
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
        held(place),
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
        ({"path": "relative.sock"}, "begins with a slash"),
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
