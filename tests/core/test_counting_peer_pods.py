"""What quotas charge for peer pods: by every rewrite, in every mode, and against forged facts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.peer_pods import (
    TYPE_LENGTH_MAX,
    UNREAD,
    PeerPodFacts,
    UnreadablePeerPod,
)
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod_row import PodDemand
from bursar.core.model.quantity import NANOS_PER_UNIT, ZERO
from bursar.core.peerpods.decision import Denied
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.quota.counting import NotReady
from bursar.core.quota.usage import native_usage
from bursar.wire.peerpods import facts
from bursar.wire.peerpods.facts import RECORD_LENGTH_MAX
from bursar.wire.peerpods.recognition import derive_peer_pod
from support.builders.peer_pods import (
    KATA,
    PEER_PODS,
    RECORD,
    UPSTREAM,
    VM,
    a_peer_pod,
    decided,
    init,
    main,
    rewritten,
    sidecar,
)
from support.builders.random_objects import as_pod
from support.counting.peer_pods import (
    CATALOGUE,
    FORGED,
    GPU,
    OVERHEAD,
    a_counter,
    annotated,
    charged,
    counted,
    cpus,
    row_of,
)
from support.kept_bytes import kept_bytes

# ------------------------------------------------------------------ honest pods


@pytest.mark.parametrize("rewrite", [PeerPodSettings(), UPSTREAM], ids=["ours", "upstream's"])
def test_a_rewritten_pod_costs_its_vm_by_the_names_that_all_pods_use(rewrite):
    raw = a_peer_pod(main(f"cpu=96 memory=384Gi {GPU}=8", f"cpu=96 memory=384Gi {GPU}=8"))

    amounts = charged(rewritten(raw, rewrite).document)

    assert amounts == {
        **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), "96"),
        **dict.fromkeys(("memory", "requests.memory", "limits.memory"), "384Gi"),
        f"requests.{GPU}": "8",
        f"requests.{VM}": "1",
    }


def test_overhead_is_charged_on_top_because_the_worker_provides_it():
    raw = a_peer_pod(main("cpu=4", "cpu=4"), overhead=OVERHEAD)

    for rewrite in (PeerPodSettings(), UPSTREAM):
        amounts = charged(rewritten(raw, rewrite).document)
        assert (amounts["requests.cpu"], amounts["limits.cpu"]) == ("4250m", "4250m")
        assert amounts["requests.memory"] == "120Mi"
        assert "limits.memory" not in amounts


def test_a_vm_costs_its_whole_size_because_no_other_pod_can_use_the_rest_of_it():
    """A request of 1m under a limit of 96 CPUs gets a VM of 96 vCPUs."""
    raw = a_peer_pod(main("cpu=1m memory=1Gi", "cpu=96 memory=2Gi"))

    for rewrite in (PeerPodSettings(), UPSTREAM):
        assert cpus(rewritten(raw, rewrite).document) == ("96", "96")


def test_what_else_was_removed_is_charged_by_the_record():
    raw = a_peer_pod(
        main("cpu=1 example.com/licence=2 ephemeral-storage=3Gi", "example.com/licence=2"),
        init("cpu=4"),
        sidecar("cpu=2"),
    )

    amounts = charged(rewritten(raw).document)

    assert amounts["requests.cpu"] == "4"
    assert amounts["requests.example.com/licence"] == "2"
    assert amounts["requests.ephemeral-storage"] == "3Gi"


def test_gpus_of_several_names_are_charged_once():
    names = {"gpu_resources": (GPU, "amd.com/gpu")}
    raw = a_peer_pod(main(f"{GPU}=1 amd.com/gpu=2", f"{GPU}=1 amd.com/gpu=2"))
    document = rewritten(raw, PeerPodSettings(**names)).document
    assert document["metadata"]["annotations"][f"{KATA}default_gpus"] == "3"

    amounts = charged(document, a_counter(**names))
    assert (amounts[f"requests.{GPU}"], amounts["requests.amd.com/gpu"]) == ("1", "2")

    document["metadata"]["annotations"][f"{KATA}default_gpus"] = "8"
    amounts = charged(document, a_counter(**names))
    assert (amounts[f"requests.{GPU}"], amounts["requests.amd.com/gpu"]) == ("6", "2")


# ------------------------------------------------------------------ the instance type


def test_an_instance_type_costs_its_size_and_never_less_than_was_asked_for():
    counter = a_counter(catalogue=CATALOGUE)

    large = charged(annotated(machine_type="large", default_vcpus="1"), counter)
    assert (large["cpu"], large["memory"], large[f"requests.{GPU}"]) == ("96", "768Gi", "8")
    small = charged(annotated(main("cpu=16"), machine_type="small"), counter)
    assert (small["cpu"], small["memory"]) == ("16", "4Gi")


def test_an_instance_type_does_not_lower_what_the_size_annotations_say():
    """The adaptor's catalogue may know a larger type by the same name."""
    larger = annotated(
        machine_type="small", default_vcpus="8", default_memory="8192", default_gpus="1"
    )

    amounts = charged(larger, a_counter(catalogue=CATALOGUE))

    assert (amounts["requests.cpu"], amounts["requests.memory"]) == ("8", "8Gi")
    assert amounts[f"requests.{GPU}"] == "1"


def test_a_pod_with_a_type_of_unknown_size_waits_whatever_else_it_says():
    raw = annotated(machine_type="p5.48xlarge", default_vcpus="7", default_memory="1")
    counter = a_counter(catalogue=CATALOGUE)

    answer = Counters((counter,)).count(row_of(raw, counter))

    assert isinstance(answer, NotReady)
    # If it runs already, it costs at least what is known of it.
    assert answer.provisional.amounts["requests.cpu"][0] == 7 * NANOS_PER_UNIT
    assert answer.detail == (
        "peer pods: the size of instance type 'p5.48xlarge' is not known: it must be in the "
        "catalogue of the controller (--peerpod-catalogue), or the pod must not name it"
    )


def test_a_type_that_a_tenant_wrote_is_quoted_and_cut():
    hostile = "large\n\u202e" + "x" * 10_000
    answer = counted(annotated(machine_type=hostile), a_counter(catalogue=CATALOGUE))

    assert isinstance(answer, Pending)
    assert r"'large\n\u202exxx" in answer.detail
    assert answer.detail.count("x") < 2 * TYPE_LENGTH_MAX


def test_pods_without_a_full_size_cost_the_default_type():
    """By the adaptor's rule: both sizes, or GPUs, or it takes its default."""
    counter = a_counter(catalogue=CATALOGUE, default_type="small")

    for sizes in ({}, {"default_vcpus": "1"}, {"default_memory": "1"}, {"default_vcpus": "many"}):
        amounts = charged(annotated(**sizes), counter)
        assert (amounts["cpu"], amounts["memory"]) == ("2", "4Gi")
    full = charged(annotated(default_vcpus="1", default_memory="1"), counter)
    assert (full["cpu"], full["memory"]) == ("1", "1Mi")
    assert "cpu" not in charged(annotated(default_gpus="1"), counter)
    assert charged(annotated()) == {f"requests.{VM}": "1"}


# ------------------------------------------------------------------ forged and missing facts

LARGE = main("cpu=64 memory=256Gi", "cpu=64 memory=256Gi")
LARGE_WITH_VM = main(f"cpu=64 memory=256Gi {VM}=1", f"cpu=64 memory=256Gi {VM}=1")
LOW = {RECORD: FORGED, f"{KATA}default_vcpus": "1", f"{KATA}default_memory": "1"}


def test_a_pod_that_nobody_rewrote_costs_what_its_containers_ask_for():
    """As before the webhook was installed, or without one. Forged annotations change nothing."""
    for container in (LARGE, LARGE_WITH_VM):
        for annotations in (None, LOW, {RECORD: FORGED}):
            assert cpus(a_peer_pod(container, annotations=annotations)) == ("64", "64")


def test_a_record_that_is_forged_low_changes_nothing_where_upstream_sizes_the_vm():
    """Upstream's webhook knows no record and leaves it alone."""
    raw = a_peer_pod(LARGE_WITH_VM, annotations=LOW)
    document = rewritten(raw, UPSTREAM).document
    document["metadata"]["annotations"][RECORD] = FORGED

    assert cpus(document) == ("64", "64")
    assert charged(document)["memory"] == "256Gi"


def test_a_record_that_is_forged_before_our_rewrite_costs_the_vm_that_it_leads_to():
    document = rewritten(a_peer_pod(LARGE, annotations=LOW)).document
    assert cpus(document) == ("64", "64")

    document = rewritten(a_peer_pod(LARGE_WITH_VM, annotations={RECORD: FORGED})).document
    assert document["metadata"]["annotations"][f"{KATA}default_vcpus"] == "1"
    assert cpus(document) == ("1", "1")


@pytest.mark.parametrize("record", [None, "", "{}", "[", FORGED, '{"v":"2"}', '{"v":"1"}'])
def test_the_sizes_cost_as_much_without_the_record(record):
    document = rewritten(a_peer_pod(LARGE)).document
    annotations = document["metadata"]["annotations"]
    annotations.pop(RECORD)
    if record is not None:
        annotations[RECORD] = record

    assert cpus(document) == ("64", "64")
    assert charged(document)["memory"] == "256Gi"


@pytest.mark.parametrize("text", [None, "", "0", "-5", "1", "many", "9" * 30, "1e3"])
def test_the_record_costs_as_much_without_the_sizes(text):
    document = rewritten(a_peer_pod(LARGE)).document
    annotations = document["metadata"]["annotations"]
    for key in ("default_vcpus", "default_memory"):
        annotations.pop(KATA + key)
        if text is not None:
            annotations[KATA + key] = text

    assert cpus(document) == ("64", "64")
    assert charged(document)["memory"] == "256Gi"


TAMPERED = st.fixed_dictionaries(
    {},
    optional={
        RECORD: st.sampled_from([None, FORGED, "", "{}", '{"v":"1"}', "["]),
        **{
            KATA + key: st.sampled_from([None, "", "0", "1", "-1", "4096", "many"])
            for key in ("default_vcpus", "default_memory", "default_gpus")
        },
    },
)


def tampered(raw, changes):
    held = {**raw["metadata"].get("annotations", {}), **changes}
    kept = {key: text for key, text in held.items() if text is not None}
    return {**raw, "metadata": {**raw["metadata"], "annotations": kept}}


def assert_at_least(wanted, raw):
    answer = counted(raw)
    assert isinstance(answer, Counted)
    for name, amount in wanted.items():
        assert answer.amounts.get(name, ZERO) >= amount, name


@settings(max_examples=100)
@given(PEER_PODS, TAMPERED)
def test_no_annotation_lowers_the_charge_of_random_pods(raw, changes):
    """Of pods that nobody rewrote, and of rewritten ones if one place is left as it was."""
    native = native_usage(PodDemand.of(with_defaults(as_pod(raw))), is_counted=True)
    assert_at_least(native, tampered(raw, changes))
    if isinstance(decided(raw), Denied):
        return

    document = rewritten(raw).document
    sizes_alone = {key: text for key, text in changes.items() if key != RECORD}
    assert_at_least(native, tampered(document, sizes_alone))
    by_size = {name: native[name] for name in ("cpu", "memory") if name in native}
    assert_at_least(by_size, tampered(document, {RECORD: changes.get(RECORD)}))


def test_a_record_lowers_no_container_that_kept_its_resources():
    """Of two containers, the record is forged low for one and tells the truth about the other."""
    record = {
        "v": "1",
        "containers": [
            {"name": name, "kind": "container", "requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
            for name, cpu in (("c0", "1m"), ("c1", "4"))
        ],
    }
    raw = a_peer_pod(main("cpu=4", "cpu=4"), main(), annotations={RECORD: json.dumps(record)})

    assert [each["name"] for each in raw["spec"]["containers"]] == ["c0", "c1"]
    assert cpus(raw) == ("8", "8")


def test_sizes_below_zero_count_as_none():
    raw = annotated(main("memory=1Gi"), default_vcpus="-5", default_memory="-1", default_gpus="-2")

    amounts = charged(raw)

    assert amounts == dict.fromkeys(("memory", "requests.memory"), "1Gi")


def test_a_size_that_a_tenant_raised_is_charged():
    document = rewritten(a_peer_pod(LARGE)).document
    document["metadata"]["annotations"][f"{KATA}default_vcpus"] = "96"

    assert cpus(document) == ("96", "96")


@pytest.mark.parametrize(
    "record",
    [
        {"pod": {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}}},
        {"containers": [{"name": "c0", "kind": "container", "limits": {"cpu": "1m"}}]},
        {"containers": [{"name": "other", "kind": "container", "requests": {"cpu": "1m"}}]},
        {"containers": [{"name": "c0", "kind": "container", "requests": {GPU: "1n"}}]},
    ],
)
def test_a_record_that_the_api_server_would_refuse_in_the_containers_lowers_nothing(record):
    """Resources of the pod as a whole replace those of its containers."""
    raw = a_peer_pod(LARGE_WITH_VM, annotations={RECORD: json.dumps({"v": "1", **record})})

    assert cpus(raw) == ("64", "64")
    assert charged(raw)["memory"] == "256Gi"


def test_absurd_sizes_hold_the_pod():
    counter = a_counter()
    row = row_of(annotated(default_memory=str(2**63 - 1)), counter)

    answer = Counters((counter,)).count(row)

    assert isinstance(answer, NotReady)
    assert "which no pod can cost" in answer.detail


def test_a_peer_pod_that_cannot_be_read_waits():
    counter = a_counter()
    derive = derive_peer_pod({"kata-remote"})
    raw = a_peer_pod(main("cpu=1"))
    row = row_of(raw, counter)._replace(extras=None)
    assert counter.count(row) == Pending(UNREAD)

    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1"
    negative = derive(json.dumps(raw).encode())
    assert isinstance(negative, UnreadablePeerPod)
    assert negative.problem.startswith("spec.containers[0].resources.requests[cpu]: Invalid value")
    assert isinstance(derive(b'{"spec": {"runtimeClassName"'), UnreadablePeerPod)


def test_a_record_that_takes_long_to_read_holds_the_pod():
    raw = annotated(default_vcpus="2")
    raw["metadata"]["annotations"][RECORD] = FORGED + " " * RECORD_LENGTH_MAX

    assert counted(raw) == Pending(
        f"annotation {RECORD} is longer than {RECORD_LENGTH_MAX} characters: split the pod, or "
        "give its containers fewer resource names"
    )


def test_an_in_place_resize_counts_where_the_containers_keep_their_resources():
    raw = a_peer_pod(main("cpu=4", "cpu=4"))
    raw["status"] = {"containerStatuses": [{"name": "c0", "resources": {"requests": {"cpu": "8"}}}]}

    assert charged(raw)["requests.cpu"] == "8"


def test_facts_are_read_once_for_all_updates_of_a_pod():
    """A tenant can write thousands of containers, which take forty milliseconds to read."""
    derive = derive_peer_pod({"kata-remote"})
    raw = a_peer_pod(main(" ".join(f"example.com/r{number}=1" for number in range(100))))
    wide = a_peer_pod(main(" ".join(f"example.com/r{number}=1" for number in range(200))))

    for pod in (raw, wide):
        first, second = (
            derive(json.dumps({**pod, "metadata": {"labels": {"changed": text}}}).encode())
            for text in ("once", "again")
        )
        assert first is second


def test_facts_that_are_remembered_are_bounded_by_bytes():
    """A tenant can invent any number of names, and facts stay after their pods."""
    derive = derive_peer_pod({"kata-remote"})
    for version in range(200):
        names = (f"example.com/{version:050}-{number}" for number in range(60))
        assert isinstance(
            derive(json.dumps(a_peer_pod(main(" ".join(f"{name}=1" for name in names)))).encode()),
            PeerPodFacts,
        )

    assert facts._KNOWN.weight <= 2 * facts.FACTS_BYTES_MAX
    assert kept_bytes(facts._KNOWN) < 4 * facts.FACTS_BYTES_MAX


def test_names_and_statuses_of_containers_matter_beside_a_record():
    derive = derive_peer_pod({"kata-remote"})
    raw = annotated(default_vcpus="2")
    raw["metadata"]["annotations"][RECORD] = FORGED
    first = derive(json.dumps(raw).encode())

    raw["spec"]["containers"][0]["name"] = "renamed"
    renamed = derive(json.dumps(raw).encode())
    raw["status"] = {"containerStatuses": [{"name": "renamed", "resources": {}}]}
    reported = derive(json.dumps(raw).encode())

    assert first is not renamed
    assert renamed is not reported


def test_equal_facts_share_memory_but_keep_their_own_formats():
    derive = derive_peer_pod({"kata-remote"})
    one, same, other = (
        derive(json.dumps(a_peer_pod(main(f"memory={amount}"), hostname=name)).encode())
        for amount, name in (("1Gi", "a"), ("1Gi", "b"), ("1073741824", "a"))
    )

    assert isinstance(one, PeerPodFacts)
    assert one is same
    assert one == other
    assert one is not other
