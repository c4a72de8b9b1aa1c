"""Launcher pods of VMs: AAQ's own calculator on generated VMs, pods and migrations.

Where Bursar differs on purpose:

- The target of a migration is compared with the real source pod in the modes that count pods;
  AAQ compares it with itself, so that it is always free (weakness 9.1.10).
- An orphan costs AAQ nothing. Here only a pod that a migration left over is free (ADR 0016).
- A pod whose VM or migration is not known waits; AAQ counts it natively, or charges nothing.
- AAQ ends with a panic if no launcher is on the VM's node, or `guestRequested` is missing.
- vCPUs are multiplied exactly; AAQ multiplies in 32 bits, so that 65536 x 65536 is 0.
- The overhead of arm64 goes by the VM's architecture; AAQ takes that of its own process.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from assets import AssetError, ensure
from bursar.core.counting.counter import Counted, Pending
from bursar.core.kubevirt.launchers import Role
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.quota.usage import native_usage
from support.builders.pods import texts
from support.builders.random_objects import MEMORY, amounts, pods, requirements
from support.builders.vms import a_kubevirt, a_launcher, a_migration, a_vmi
from support.counting.vm_scene import VmScene
from support.processes.oracle import Oracle
from support.seeds import IS_FIXED

MODES = [each for each in VmiMode if each is not VmiMode.IGNORE]
NODES = st.sampled_from(["n1", "n1", "n1", "n2", ""])
COUNTS = st.sampled_from([0, 1, 2, 3, 16])
TOPOLOGIES = st.fixed_dictionaries(
    {}, optional={"cores": COUNTS, "sockets": COUNTS, "threads": COUNTS}
)
PROBES = st.sampled_from([None, {"httpGet": {"port": 80}}, {"exec": {"command": ["true"]}}])
PLUGINS = ["passt", "slirp", "unknown"]
INTERFACES = st.lists(
    st.sampled_from(
        [{"name": "a", "sriov": {}}, {"name": "b", "bridge": {}}]
        + [{"name": "c", "binding": {"name": each}} for each in PLUGINS]
    ),
    max_size=4,
)
DEVICES = st.fixed_dictionaries(
    {},
    optional={
        "autoattachGraphicsDevice": st.booleans(),
        "tpm": st.sampled_from([{}, {"enabled": True}, {"enabled": False}]),
        "gpus": st.sampled_from([[], [{"name": "g", "deviceName": "d"}]]),
        "hostDevices": st.sampled_from([[], [{"name": "h", "deviceName": "d"}]]),
        "interfaces": INTERFACES,
    },
)
DOMAINS = st.fixed_dictionaries(
    {"devices": DEVICES},
    optional={
        "resources": requirements(amounts("cpu", "memory")),
        "memory": st.fixed_dictionaries({}, optional={"guest": MEMORY}),
        "cpu": st.builds(
            lambda topology, dedicated: {**topology, "dedicatedCpuPlacement": dedicated},
            TOPOLOGIES,
            st.booleans(),
        ),
        "launchSecurity": st.sampled_from([{}, {"sev": {}}, {"snp": {}}]),
    },
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.builds(lambda memory: {"guestRequested": memory}, MEMORY),
        "currentCPUTopology": TOPOLOGIES,
        "migrationState": st.just({"sourcePod": "p0", "targetPod": "p1"}),
    },
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "additionalGuestMemoryOverheadRatio": st.sampled_from(
            ["", "1", "1.0", "1.5", "2.7", "0.5", "1e1", "-1", "+3.25", "two", "1.123456789"]
        ),
        "network": st.just(
            {
                "binding": {
                    "passt": {"computeResourceOverhead": {"requests": {"memory": "500Mi"}}},
                    "slirp": {"sidecarImage": "i"},
                }
            }
        ),
    },
)


@st.composite
def vmis(draw: st.DrawFn) -> dict[str, Any]:
    vmi = a_vmi(node=draw(NODES), **draw(STATUS))
    vmi["spec"] = {
        "domain": draw(DOMAINS),
        "volumes": draw(
            st.sampled_from([[], [{"name": "v"}], [{"name": "m", "downwardMetrics": {}}]])
        ),
        "livenessProbe": draw(PROBES),
        "readinessProbe": draw(PROBES),
    }
    return vmi


@st.composite
def launchers(draw: st.DrawFn, name: str, created: int) -> dict[str, Any]:
    owners = [("db", "vmi-of-db")] * 28 + [("db", "another"), ("unknown", "vmi-of-unknown")]
    vmi, uid = draw(st.sampled_from(owners))
    pod = a_launcher(
        name,
        vmi=vmi,
        uid=uid,
        node=draw(NODES),
        migration=draw(st.sampled_from(["", "", "move", "later", "later", "gone"])),
        created=created,
    )
    spec = draw(pods(resized=False))["spec"]
    if draw(st.integers(0, 9)):
        spec["containers"][-1]["name"] = "compute"
    pod["spec"] = {**spec, "nodeName": pod["spec"].get("nodeName", "")}
    pod["status"] = {"phase": draw(st.sampled_from(["Pending", "Running", "Running", "Failed"]))}
    if draw(st.integers(0, 29)) == 0:
        pod["metadata"]["labels"].pop("kubevirt.io")
    return pod


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    present = [draw(launchers(f"p{n}", n)) for n in range(draw(st.integers(1, 3)))]
    phases = st.sampled_from(["", "Running", "Succeeded", "Failed"])
    moves = [a_migration(phase=draw(phases)), a_migration("later", phase=draw(phases), created=2)]
    return {
        "mode": draw(st.sampled_from(MODES)).value,
        "pod": draw(st.sampled_from(present)),
        "pods": present,
        "vmis": [draw(vmis())],
        "migrations": moves[: draw(st.integers(0, 2))],
        "kubevirts": [a_kubevirt(**draw(SETTINGS)) for _ in range(draw(st.integers(0, 1)))],
    }


@pytest.fixture(scope="module")
def vmi_oracle() -> Iterator[Oracle]:
    try:
        program = ensure("vmi-oracle")
    except AssetError as error:
        pytest.fail(f"the comparison with AAQ could not be made: {error}", pytrace=False)
    running = Oracle(program)
    yield running
    running.close()


def scene_of(case: dict[str, Any]) -> VmScene:
    scene = VmScene(VmiMode(case["mode"]))
    scene.see(*case["vmis"], *case["migrations"], *case["kubevirts"], *case["pods"])
    return scene


def check(vmi_oracle: Oracle, case: dict[str, Any], answer: dict[str, Any]) -> str:
    """Compare, and say in which way the two answers relate."""
    scene, name = scene_of(case), case["pod"]["metadata"]["name"]
    ours, mode = scene.count(name), VmiMode(case["mode"])
    if answer["panic"]:
        return "AAQ panics"
    if not answer["match"] or answer["error"]:
        vmi_oracle.assert_same(isinstance(ours, Counted), False, about=case)
        return "not recognised"
    theirs = answer["usage"] or {}
    if ours is None or isinstance(ours, Pending):
        vmi_oracle.assert_same({}, theirs, about=case)
        return "free in AAQ"
    role = next(iter(scene.counter._vms.values())).roles.of(name)
    if role is Role.LEFTOVER:
        vmi_oracle.assert_same({}, theirs, about=case)
    elif role is Role.TARGET and mode in (VmiMode.POD_USAGE, VmiMode.GUEST_EFFECTIVE):
        own = set(native_usage(scene.rows[name].demand, is_counted=True))
        assert set(theirs.values()) == {"0"}
        assert own >= set(theirs), case
    else:
        vmi_oracle.assert_same(texts(ours.amounts), theirs, about=case)
    return str(role)


@pytest.mark.oracle
def test_aaqs_calculator_and_ours_agree(vmi_oracle: Oracle, for_all: Callable[..., None]) -> None:
    met: set[str] = set()

    def compare(asked: list[dict[str, Any]]) -> None:
        answers = vmi_oracle.ask("vmi-usage", cases=asked)
        for case, answer in zip(asked, answers, strict=True):
            met.add(check(vmi_oracle, case, answer))

    for_all(st.lists(cases(), min_size=4, max_size=8), compare, examples=90)

    expected = {"AAQ panics", "not recognised", "free in AAQ", *map(str, Role)}
    assert met <= expected
    # Another seed may happen to meet no case of a kind. The fixed one is known to meet all.
    if IS_FIXED:
        assert met == expected


# ------------------------------------------------------------------ differences on purpose


def asked(vmi_oracle: Oracle, mode: VmiMode, vmi: dict[str, Any], *pods: Any) -> dict[str, Any]:
    case = {"mode": mode.value, "pod": pods[-1], "pods": pods, "vmis": [vmi]}
    case |= {"migrations": [a_migration()], "kubevirts": [a_kubevirt()]}
    [answer] = vmi_oracle.ask("vmi-usage", cases=[case])
    return {**answer, "ours": scene_of(case).cost(pods[-1]["metadata"]["name"])}


SOURCE = a_launcher("old", node="n1")


@pytest.mark.oracle
def test_aaq_multiplies_vcpus_in_32_bits(vmi_oracle: Oracle) -> None:
    vmi = a_vmi(node="n1", cores=2**16)
    vmi["spec"]["domain"]["cpu"]["sockets"] = 2**16

    answer = asked(vmi_oracle, VmiMode.DEDICATED, vmi, SOURCE)

    assert (answer["usage"]["cpu/vmi"], answer["ours"]["cpu/vmi"]) == ("0", "4Gi")


@pytest.mark.oracle
def test_aaq_takes_the_architecture_of_its_own_process(vmi_oracle: Oracle) -> None:
    vmi = a_vmi(node="n1")
    vmi["spec"]["architecture"] = "arm64"

    answer = asked(vmi_oracle, VmiMode.GUEST_EFFECTIVE, vmi, SOURCE)

    # 9Gi less 292Mi of overhead, and 128Mi more for the firmware of arm64.
    assert answer["usage"]["requests.memory"] == "8924Mi"
    assert answer["ours"]["requests.memory"] == "8796Mi"


@pytest.mark.oracle
def test_aaq_gives_growth_by_hotplug_away(vmi_oracle: Oracle) -> None:
    grown = a_launcher("new", "cpu=4", node="n2", migration="move")

    answer = asked(vmi_oracle, VmiMode.POD_USAGE, a_vmi(node="n1"), SOURCE, grown)

    assert (answer["usage"]["cpu"], answer["ours"]["cpu"]) == ("0", "3600m")


@pytest.mark.oracle
@pytest.mark.parametrize(
    "vmi", [a_vmi(node="n9"), a_vmi(node="n1", memory={})], ids=["no source", "no guestRequested"]
)
def test_aaq_panics(vmi_oracle: Oracle, vmi: dict[str, Any]) -> None:
    answer = asked(vmi_oracle, VmiMode.DEDICATED, vmi, SOURCE)

    assert "nil pointer" in answer["panic"]
    assert answer["ours"]["cpu/vmi"] == "4"
