"""What becomes of a pod's document: what is removed, what stays, and what is said about it."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.peerpods.decision import Denied, Untouched
from bursar.core.peerpods.settings import OwnSizes, PeerPodSettings
from support.builders.peer_pods import (
    EFFECTIVE,
    KATA,
    ONE_VM,
    PEER_PODS,
    RECORD,
    UPSTREAM,
    VM,
    a_peer_pod,
    decided,
    init,
    main,
    resources_of,
    rewritten,
    sized,
    sizes,
)

BOTH = [UPSTREAM, EFFECTIVE]
VCPUS, MEMORY, ALIAS = (f"{KATA}default_{key}" for key in ("vcpus", "memory", "mem"))
MACHINE_TYPE = f"{KATA}machine_type"


def removed(outcome):
    return json.loads(outcome.document["metadata"]["annotations"][RECORD])


# ------------------------------------------------------------------ whose pods


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("name", [None, "", "different-runtime", "Kata-Remote", "kata-remote-2"])
def test_u8_another_runtime_class_is_left_alone(name, chosen):
    assert decided(a_peer_pod(main("cpu=1"), runtimeClassName=name), chosen) == Untouched()


def test_w23_several_classes_may_be_ours():
    chosen = PeerPodSettings(runtime_classes=frozenset({"kata-remote", "kata-gpu"}))
    raw = a_peer_pod(main("cpu=1"), runtimeClassName="kata-gpu")

    assert sizes(rewritten(raw, chosen)) == "1 - -"


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("spec", [{"containers": []}, {"containers": None}])
def test_w22_a_pod_without_containers_is_left_to_the_api_server(spec, chosen):
    assert decided(a_peer_pod(**spec), chosen) == Untouched()


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"spec": []}])
def test_what_is_no_pod_is_left_alone(document):
    assert decided(document) == Untouched()


# ------------------------------------------------------------------ the patch


def test_the_pod_of_upstreams_readme():
    raw = a_peer_pod(main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi"))
    outcome = rewritten(raw, UPSTREAM)

    place = "/spec/containers/0/resources"
    assert list(outcome.steps) == [
        {"op": "add", "path": "/metadata/annotations", "value": {VCPUS: "1", MEMORY: "2048"}},
        {"op": "remove", "path": f"{place}/requests/cpu"},
        {"op": "remove", "path": f"{place}/requests/memory"},
        {"op": "add", "path": f"{place}/requests/kata.peerpods.io~1vm", "value": "1"},
        {"op": "remove", "path": f"{place}/limits/cpu"},
        {"op": "remove", "path": f"{place}/limits/memory"},
        {"op": "add", "path": f"{place}/limits/kata.peerpods.io~1vm", "value": "1"},
    ]
    assert sizes(rewritten(raw)) == "1 2048 -"


def test_annotations_are_added_one_by_one_where_there_are_some():
    raw = a_peer_pod(main("cpu=1"), annotations={"example.com/a~b": "kept", VCPUS: "1"})
    outcome = rewritten(raw)

    assert [step["path"] for step in outcome.steps if "metadata" in step["path"]] == [
        "/metadata/annotations/bursar.io~1peerpod-removed"
    ]


def test_an_annotation_without_a_text_stays_as_it_is():
    raw = a_peer_pod(main("cpu=1"), annotations={"example.com/nothing": None})

    assert rewritten(raw).document["metadata"]["annotations"]["example.com/nothing"] is None


def test_a_pod_without_metadata_or_resources_gets_them():
    raw = {
        "spec": {"runtimeClassName": "kata-remote", "containers": [{"name": "a"}, {"name": "b"}]}
    }

    assert list(rewritten(raw).steps) == [
        {"op": "add", "path": "/spec/containers/0/resources", "value": ONE_VM}
    ]


FUTURE = {"from": ["a", {"later": 1.5}], "is": None}


@pytest.mark.parametrize("chosen", BOTH)
def test_w20_fields_newer_than_we_are_survive(chosen):
    raw = a_peer_pod(
        main("cpu=1", env=[{"name": "A", "future": FUTURE}], future=FUTURE), future=FUTURE
    )
    raw["future"] = raw["metadata"]["future"] = FUTURE
    before = copy.deepcopy(raw)
    after = rewritten(raw, chosen).document

    assert raw == before
    assert after["future"] is FUTURE
    assert after["metadata"]["future"] is FUTURE
    assert after["spec"]["future"] is FUTURE
    assert after["spec"]["containers"][0]["env"] is raw["spec"]["containers"][0]["env"]
    assert after["spec"]["containers"][0]["future"] is FUTURE


def test_w20_even_inside_resources():
    raw = a_peer_pod(main(), main("cpu=1"), resources={"requests": {"cpu": "1"}, "future": FUTURE})
    raw["spec"]["containers"][1]["resources"]["future"] = FUTURE
    after = rewritten(raw)

    assert resources_of(after) == [ONE_VM, {"future": FUTURE}]
    assert after.document["spec"]["resources"] == {"future": FUTURE}
    assert rewritten(after.document).steps == ()


# ------------------------------------------------------------------ what else is removed

ODD = "ephemeral-storage=10Gi amd.com/gpu=1 hugepages-2Mi=2Mi"


def test_w11_what_the_vm_does_not_get_is_recorded_and_said():
    raw = a_peer_pod(
        main(f"cpu=1 {ODD}", f"cpu=1 {ODD}"),
        main("ephemeral-storage=1Gi", resourceClaims=[]),
        resourceClaims=[{"name": "card"}],
    )
    raw["spec"]["containers"][1]["resources"]["claims"] = [{"name": "card", "request": "one"}]
    outcome = rewritten(raw)

    assert resources_of(outcome) == [ONE_VM, {}]
    assert outcome.warnings == (
        "removed, and not passed on to the VM: ephemeral-storage, amd.com/gpu, hugepages-2Mi",
        "claims are not passed on to the VM: card",
    )
    assert removed(outcome)["containers"] == [
        {"name": "c0", "kind": "container", **sized(f"cpu=1 {ODD}", f"cpu=1 {ODD}")},
        {
            "name": "c1",
            "kind": "container",
            **sized("ephemeral-storage=1Gi"),
            "claims": [{"name": "card", "request": "one"}],
        },
    ]
    again = rewritten(outcome.document)
    assert (again.steps, again.warnings) == ((), ())
    assert outcome.document["spec"]["resourceClaims"] == [{"name": "card"}]


def test_w11_what_the_pod_as_a_whole_loses_is_said_as_well():
    whole = sized("cpu=1 hugepages-2Mi=2Mi", "cpu=1 hugepages-2Mi=2Mi")
    outcome = rewritten(a_peer_pod(main(), resources=whole))

    assert outcome.warnings == ("removed, and not passed on to the VM: hugepages-2Mi",)
    assert removed(outcome)["pod"] == whole
    again = copy.deepcopy(outcome.document)
    again["spec"]["resources"] = whole
    assert rewritten(again).warnings == ()


def test_w11_what_the_worker_has_can_be_kept():
    chosen = PeerPodSettings(kept=frozenset({"example.com/foo", "ephemeral-storage"}))
    amounts = "cpu=1 example.com/foo=2 ephemeral-storage=1Gi"
    outcome = rewritten(a_peer_pod(main(amounts, amounts), main(amounts, amounts)), chosen)

    kept = {"example.com/foo": "2", "ephemeral-storage": "1Gi"}
    with_vm = {**kept, VM: "1"}
    assert resources_of(outcome) == [
        {"requests": with_vm, "limits": with_vm},
        {"requests": kept, "limits": kept},
    ]
    assert removed(outcome)["containers"][0]["requests"] == {"cpu": "1"}
    assert outcome.warnings == ()
    assert rewritten(outcome.document, chosen).steps == ()


def test_a_pod_has_one_vm_whatever_it_asks_for():
    outcome = rewritten(a_peer_pod(main(), main(f"{VM}=2", f"{VM}=2")))

    assert resources_of(outcome) == [ONE_VM, {}]
    assert outcome.warnings == (f"{VM}: a peer pod has exactly one, not 2",)
    assert RECORD not in outcome.document["metadata"].get("annotations", {})


# ------------------------------------------------------------------ sizes of the author's own

OWN = {
    "W12: enough": ({VCPUS: "8"}, "8 1024 -", ""),
    "W12: just enough": ({VCPUS: "2", MEMORY: "1024"}, "2 1024 -", ""),
    "W12: too small": (
        {MEMORY: "512"},
        "2 1024 -",
        f"annotation {MEMORY}: 512 is less than the containers need; it becomes 1024",
    ),
    "no number": (
        {VCPUS: "2.5"},
        "2 1024 -",
        f"annotation {VCPUS}: not a whole number; it becomes 2, as the containers need",
    ),
    "of something nobody asks for": ({f"{KATA}default_gpus": "1"}, "2 1024 1", ""),
    "no number, of something nobody asks for": (
        {f"{KATA}default_gpus": "one"},
        "2 1024 one",
        f"annotation {KATA}default_gpus: not a whole number, and taken for none",
    ),
    "seed 000's name for memory": ({ALIAS: "4096"}, "2 4096 -", ""),
    "both names": ({ALIAS: "4096", MEMORY: "2048"}, "2 2048 -", ""),
}


@pytest.mark.parametrize("case", OWN)
def test_sizes_of_the_author_stay_if_they_are_enough(case):
    annotations, expected, warning = OWN[case]
    outcome = rewritten(a_peer_pod(main("cpu=2 memory=1Gi"), annotations=annotations))

    assert sizes(outcome) == expected
    assert outcome.warnings == ((warning,) if warning else ())
    again = rewritten(outcome.document)
    assert (again.steps, again.warnings) == ((), ())


def test_sizes_of_the_author_can_be_overridden():
    chosen = PeerPodSettings(own_sizes=OwnSizes.OVERRIDE)
    raw = a_peer_pod(main("cpu=2"), annotations={VCPUS: "8", MEMORY: "64"})
    outcome = rewritten(raw, chosen)

    assert sizes(outcome) == "2 - -"
    assert outcome.warnings == (
        f"annotation {VCPUS}: 8 is overridden by what the containers need, 2",
        f"annotation {MEMORY}: overridden: the containers ask for none",
    )
    again = rewritten(outcome.document, chosen)
    assert (again.steps, again.warnings) == ((), ())


def test_overridden_sizes_go_even_if_nobody_asks_for_anything():
    chosen = PeerPodSettings(own_sizes=OwnSizes.OVERRIDE)
    own = {VCPUS: "96", ALIAS: "64", f"{KATA}default_gpus": "eight", MACHINE_TYPE: "m5.large"}
    outcome = rewritten(a_peer_pod(main(), annotations=own), chosen)

    assert outcome.document["metadata"]["annotations"] == {MACHINE_TYPE: "m5.large"}
    assert [warning.partition(":")[0] for warning in outcome.warnings] == [
        f"annotation {key}" for key in (VCPUS, MEMORY, f"{KATA}default_gpus")
    ]


def test_a_size_of_the_author_is_on_record_also_where_nothing_was_removed():
    outcome = rewritten(a_peer_pod(main(), annotations={VCPUS: "96"}))

    assert removed(outcome) == {"v": "1", "size": {"vcpus": "96"}}
    again = rewritten(outcome.document)
    assert (again.steps, again.warnings) == ((), ())


@pytest.mark.parametrize("mode", [EFFECTIVE.mode, UPSTREAM.mode])
def test_the_other_name_for_memory_is_written_on_request(mode):
    chosen = PeerPodSettings(mode=mode, writes_memory_alias=True)
    outcome = rewritten(a_peer_pod(main("memory=1Gi")), chosen)

    assert outcome.document["metadata"]["annotations"][ALIAS] == "1024"


# ------------------------------------------------------------------ once more

DEFAULTS = sized("cpu=500m memory=512Mi", "cpu=1 memory=1Gi")


def refilled(document):
    """As LimitRanger leaves the pod: its defaults wherever a container names nothing."""
    document = copy.deepcopy(document)
    spec = document["spec"]
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        resources = container.setdefault("resources", {})
        for side, amounts in DEFAULTS.items():
            resources[side] = {**amounts, **resources.get(side, {})}
    return document


@pytest.mark.parametrize("amounts", ["cpu=4 memory=8Gi", "cpu=100m memory=64Mi"])
def test_w1_defaults_of_the_namespace_do_not_replace_what_was_asked_for(amounts):
    first = rewritten(refilled(a_peer_pod(init("cpu=50m"), main(amounts, amounts))))
    second = rewritten(refilled(first.document))

    assert second.document == first.document
    assert (second.size, second.warnings) == (first.size, ())
    assert rewritten(second.document).steps == ()


@pytest.mark.parametrize("place", [0, 1])
def test_w1_a_container_injected_later_is_added(place):
    first = rewritten(a_peer_pod(main("cpu=4 memory=1Gi", "cpu=4 memory=1Gi")))
    later = copy.deepcopy(first.document)
    proxy = {"name": "proxy", "resources": sized("cpu=100m memory=128Mi")}
    later["spec"]["containers"].insert(place, proxy)
    second = rewritten(later)

    assert sizes(second) == "5 1152 -"
    assert resources_of(second) == [ONE_VM, {}]
    assert second.warnings == ()
    assert [each["name"] for each in removed(second)["containers"]] == [
        each["name"] for each in later["spec"]["containers"]
    ]
    assert rewritten(second.document).steps == ()


def test_w1_a_container_injected_later_gets_defaults_as_it_would_without_us():
    first = rewritten(a_peer_pod(main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi")))
    later = copy.deepcopy(first.document)
    later["spec"]["containers"].append({"name": "proxy", "resources": sized("cpu=100m")})
    second = rewritten(refilled(later))

    assert sizes(second) == "5 9216 -"
    assert removed(second)["containers"][1] == {
        "name": "proxy",
        "kind": "container",
        **sized("cpu=100m memory=512Mi", "cpu=1 memory=1Gi"),
    }
    assert rewritten(refilled(second.document)).document == second.document


def test_w1_upstream_forgets_what_was_asked_for():
    first = rewritten(a_peer_pod(main("cpu=4 memory=8Gi", "cpu=4 memory=8Gi")), UPSTREAM)

    assert sizes(rewritten(refilled(first.document), UPSTREAM)) == "1 1024 -"


def test_a_resource_added_later_to_a_known_container_is_added():
    first = rewritten(a_peer_pod(main("cpu=1")))
    later = copy.deepcopy(first.document)
    for side in ("requests", "limits"):
        later["spec"]["containers"][0]["resources"][side]["nvidia.com/gpu"] = "1"

    assert sizes(rewritten(later)) == "1 - 1"


def test_sizes_do_not_shrink_when_a_container_goes():
    first = rewritten(a_peer_pod(main("cpu=1"), main("cpu=4")))
    later = copy.deepcopy(first.document)
    del later["spec"]["containers"][1]

    assert sizes(rewritten(later)) == "5 - -"


FORGED = '{"v":"1","containers":[{"name":"c0","kind":"container","requests":{"cpu":"1m"}}]}'


@pytest.mark.parametrize(
    "raw",
    [
        a_peer_pod(main("cpu=4"), annotations={RECORD: FORGED}),
        a_peer_pod(main(f"cpu=4 {VM}=1", f"{VM}=1"), annotations={RECORD: "{}"}),
    ],
)
def test_a_record_that_is_not_ours_is_ignored(raw):
    outcome = rewritten(raw)

    assert sizes(outcome) == "4 - -"
    assert removed(outcome)["containers"][0]["requests"] == {"cpu": "4"}
    assert outcome.warnings == (f"annotation {RECORD} is not for users: what it said is ignored",)


def test_a_forged_record_on_a_pod_that_asks_for_nothing_is_removed():
    outcome = rewritten(a_peer_pod(main(), annotations={RECORD: FORGED}))

    assert outcome.document["metadata"]["annotations"] == {}


# ------------------------------------------------------------------ denied


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            a_peer_pod(main("cpu=-1")),
            'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            a_peer_pod(main("cpu=3", "cpu=2")),
            'resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2',
        ),
        (
            a_peer_pod(main(), init("nvidia.com/gpu=500m", "nvidia.com/gpu=500m")),
            "spec.initContainers[0].resources.limits[nvidia.com/gpu]",
        ),
        (
            a_peer_pod(main("memory=7Ei")),
            "the pod asks for 7696581394432 MiB of memory; a VM can have at most 2147483647",
        ),
        (a_peer_pod(main("cpu=1x")), "spec.containers[0].resources.requests[cpu]: quantities must"),
        (a_peer_pod(main(resources={"requests": {"cpu": True}})), "requests[cpu]: a quantity"),
        (a_peer_pod(main(resources={"requests": []})), "resources.requests: an object is expected"),
        (a_peer_pod(main(), initContainers={}), "spec.initContainers: a list is expected"),
        (a_peer_pod(main(), initContainers=[1]), "spec.initContainers[0]: an object is expected"),
    ],
)
def test_what_cannot_be_met_is_denied(raw, message):
    outcome = decided(raw)

    assert message in (outcome.message if isinstance(outcome, Denied) else str(outcome))


def test_amounts_may_be_numbers_or_null():
    raw = a_peer_pod(main(resources={"requests": {"cpu": 2, "memory": None}}))

    assert sizes(rewritten(raw)) == "2 - -"


def test_a_record_that_does_not_fit_is_denied():
    raw = a_peer_pod(main("cpu=1"), annotations={"example.com/large": "x" * 262_000})
    outcome = decided(raw)

    assert isinstance(outcome, Denied)
    assert outcome.message.startswith("metadata.annotations: what is removed from the containers")
    assert outcome.message.endswith("Kubernetes allows 262144")


# ------------------------------------------------------------------ for any pod


def bare(document):
    """The document without what a rewrite is about."""
    document = copy.deepcopy(document)
    document["metadata"].pop("annotations", None)
    spec = document["spec"]
    spec.pop("resources", None)
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        container.pop("resources", None)
    return document


@settings(max_examples=60)
@given(raw=PEER_PODS, chosen=st.sampled_from(BOTH), again=st.booleans())
def test_rewriting_twice_is_rewriting_once(raw, chosen, again):
    outcome = decided(raw, chosen)
    if isinstance(outcome, Denied):
        assert chosen is EFFECTIVE
        return
    first = rewritten(raw, chosen)

    assert rewritten(first.document, chosen).steps == ()
    assert bare(first.document) == bare(raw)
    if again and chosen is EFFECTIVE:
        if isinstance(decided(refilled(first.document)), Denied):
            # The pod itself asks for less than these defaults make of its containers.
            assert isinstance(decided(refilled(raw)), Denied)
            return
        settled = rewritten(refilled(first.document))
        assert rewritten(refilled(settled.document)).document == settled.document
        assert bare(settled.document) == bare(raw)


@settings(max_examples=40)
@given(raw=PEER_PODS)
def test_defaults_put_in_before_and_after_change_nothing(raw):
    if isinstance(decided(refilled(raw)), Denied):
        return
    outcome = rewritten(refilled(raw))

    assert rewritten(refilled(outcome.document)).document == outcome.document
