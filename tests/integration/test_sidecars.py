"""A sidecar in Go counts pods for the controller on a real cluster, and misbehaves in every way."""

from collections.abc import Iterator

import pytest

from support.counting.go_sidecar import GoSidecar, go_sidecar
from support.quota.installed_aaq import Place, System, a_system
from support.until import until_sync

pytestmark = pytest.mark.integration
MINE = {"labels": {"label-app": "shop"}}


@pytest.fixture(scope="module")
def sidecar() -> Iterator[GoSidecar]:
    with go_sidecar() as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def system(control_plane, sidecar, tmp_path_factory) -> Iterator[System]:
    options = (
        *("--sidecars=1", f"--sidecar-sockets={sidecar.sockets}"),
        "--sidecar-timeout=2s",
    )
    folder = tmp_path_factory.mktemp("system")
    with a_system(control_plane, folder, *options) as system:
        yield system


@pytest.fixture
def place(system, sidecar) -> Iterator[Place]:
    with system.namespace() as place:
        place.quota({"requests.memory": "4Gi"})
        yield place
    sidecar.set_mode("double")


def mine(place: Place, name: str) -> None:
    place.pod(name, "memory=256Mi", metadata=MINE)


def test_e_side_01_a_sidecar_counts_pods_and_counts_them_anew_after_a_change(place, sidecar):
    mine(place, "first")
    place.pod("other", "memory=256Mi")
    for name in ("first", "other"):
        place.wait_released(name)
    place.wait_used("requests.memory=768Mi")

    # AAQ's operator starts the pod of the controller anew with the new arguments.
    sidecar.program.stop()
    sidecar.set_mode("triple")
    sidecar.start()

    place.wait_used("requests.memory=1Gi")


def test_a_sidecar_that_was_killed_holds_pods_until_it_is_back(place, sidecar):
    mine(place, "first")
    place.wait_released("first")
    sidecar.program.kill()
    mine(place, "second")
    try:
        wait_noted(place, "second", "0 of 1 sidecars are connected")
        assert place.is_gated("second")
        place.wait_used("requests.memory=512Mi")
    finally:
        sidecar.start()

    place.wait_released("second")
    place.wait_used("requests.memory=1Gi")
    assert len(sidecar.living()) > 1, "a killed sidecar leaves its socket behind"


@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("slow", "no answer within 2 s"),
        ("garbage", "its resource list is not JSON of amounts"),
        ("huge", "its resource list has 10485760 bytes"),
        ("negative", "which no pod can cost"),
        ("absurd", "which no pod can cost"),
        ("empty", "the answer has no `error`"),
        ("error", "it reports: the licence server is down"),
    ],
)
def test_a_bad_answer_holds_the_pod_with_the_reason_and_changes_no_charge(
    place, sidecar, mode, note
):
    mine(place, "first")
    place.wait_released("first")
    place.wait_used("requests.memory=512Mi")

    sidecar.set_mode(mode)
    mine(place, "second")
    wait_noted(place, "second", note)
    assert place.is_gated("second")
    place.wait_used("requests.memory=512Mi")

    sidecar.set_mode("double")
    place.wait_released("second")
    place.wait_used("requests.memory=1Gi")


def test_after_a_restart_of_the_controller_a_pod_that_does_not_fit_still_waits(place):
    place.limit("requests.memory=1Gi")
    for name in ("first", "second"):
        mine(place, name)
        place.wait_released(name)
    place.wait_used("requests.memory=1Gi")
    mine(place, "third")
    place.check_stays_gated("third")

    # By their requests the running pods use 512Mi, and the third would fit.
    place.system.controller.stop()
    place.system.controller.start()

    place.check_still_gated("third")
    place.wait_used("requests.memory=1Gi")


def test_an_answer_may_depend_on_the_other_pods_of_the_namespace(place, sidecar):
    sidecar.set_mode("peers")
    place.quota({"instances/peers": "100"}, name="peers")
    for name in ("first", "second"):
        mine(place, name)
        place.wait_released(name)

    place.wait_used("instances/peers=4", name="peers")


def wait_noted(place: Place, name: str, note: str) -> None:
    """Until an event tells the pod's owner so."""
    until_sync(lambda: note in "".join(place.notes(name)), place.all_notes)
