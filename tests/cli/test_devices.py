"""`bursar devices` as a user meets it, with files."""

import json
from pathlib import Path

import pytest
import yaml

from support.devices.agent import annotated_pod
from support.processes.command_line import run_bursar

EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"
KUBELET = EXAMPLES / "kubelet" / "node-a.json"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
HEADS = (
    *("NODE", "NAMESPACE", "POD", "CONTAINER", "RESOURCE", "DEVICE", "NUMA"),
    *("SHARE", "SOURCE", "NOTE"),
)


def gpu_pod(name, annotation, *, node="n1", asks="nvidia.com/gpu", phase="Running", key=ALLOCATED):
    pod = annotated_pod(name, annotation, asks={asks: "1"})
    pod["metadata"]["annotations"] = {key: annotation}
    pod["spec"]["nodeName"], pod["status"]["phase"] = node, phase
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def a_gpu(device, minor=0):
    return json.dumps({"gpu": [{"minor": minor, "id": device}]})


def a_device(name, *ids):
    devices = [
        {"type": "gpu", "id": each, "minor": n, "health": True} for n, each in enumerate(ids)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }


WIDE = ("-o", "wide")


def run_on(*objects, words=WIDE):
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    return run_bursar("devices", "-f", "-", *words, stdin=body.encode())


def cells(ran):
    """The lines of a table, cut where columns end."""
    return [[cell for cell in line.split("   ") if cell] for line in ran.out.splitlines()]


def stripped(ran):
    return [[cell.strip() for cell in line] for line in cells(ran)]


def without_facts(ran):
    """The lines of a wide table, without what the inventory says of a device."""
    return [[*line[:9], *line[12:]] for line in stripped(ran)]


# ------------------------------------------------------------------ tables


def test_example_shows_who_has_what_and_what_is_wrong():
    ran = run_bursar("devices", "-f", str(EXAMPLES), *WIDE)

    gpu, rdma, said = "nvidia.com/gpu", "koordinator.sh/rdma", "koordinator"
    shared = "also held by {} (100 %)"
    unreadable = 'the annotation cannot be read: "gpu"[0].minor: a whole number is expected'
    elsewhere = "gpu: 'GPU-8c25ea37' is not a device of this node"
    nothing = ["-", "-", "-", "-", "-", said]
    a, b, mine, theirs = "node-a", "node-b", "research", "web"
    port, first, second = "0000:1f:00.2", "GPU-8c25ea37", "GPU-b04f9d11"
    assert (ran.code, ran.err) == (0, "")
    assert without_facts(ran) == [
        list(HEADS),
        [a, mine, "notebook", "jupyter", gpu, second, "1", "50%", said, "not healthy"],
        [a, mine, "trainer-0", "train", rdma, port, "0", "100%", said, "-"],
        [
            a,
            mine,
            "trainer-0",
            "train",
            gpu,
            first,
            "0",
            "100%",
            said,
            shared.format("web/copycat"),
        ],
        [a, theirs, "broken", *nothing, unreadable],
        [
            *(a, theirs, "copycat", "main", gpu, first, "0", "100%", said),
            shared.format("research/trainer-0"),
        ],
        [
            b,
            theirs,
            "encoder",
            "-",
            "codecs.example.com",
            "node-b/codec-0",
            "-",
            "100%",
            "dra",
            "-",
        ],
        [b, theirs, "moved", *nothing, elsewhere],
    ]


def test_kubelets_answer_is_compared_on_the_node_whose_pods_are_in_it():
    words = ("--pod-resources", str(KUBELET), "--node", "")
    ran = run_bursar("devices", "-f", str(EXAMPLES), *words, *WIDE)
    lines = [line for line in without_facts(ran) if line[2] == "trainer-0" and "gpu" in line[4]]

    assert ran.code == 0
    assert [(line[5], line[8], line[9]) for line in lines] == [
        ("GPU-5d3e90ab", "kubelet", "koordinator says 'GPU-8c25ea37'; not in the inventory"),
        (
            "GPU-8c25ea37",
            "koordinator",
            "kubelet says 'GPU-5d3e90ab'; also held by web/copycat (100 %)",
        ),
    ]


def test_kubelets_answer_alone_is_shown_without_asking_any_cluster():
    ran = run_bursar("devices", "--pod-resources", str(KUBELET), *WIDE, KUBECONFIG="/nowhere")

    assert (ran.code, ran.err) == (0, "")
    assert stripped(ran)[1][:6] == [
        *("-", "research", "trainer-0", "train", "nvidia.com/gpu", "GPU-5d3e90ab")
    ]


def test_wide_adds_what_the_inventory_says():
    ran = run_bursar("devices", "-f", str(EXAMPLES), "--node", "node-a", "-o", "wide")
    head, first, *_ = stripped(ran)

    assert head[9:] == ["HEALTH", "VENDOR", "MODEL", "NOTE"]
    assert first[9:] == ["unhealthy", "nvidia", "A100", "not healthy"]


def test_namespace_and_node_narrow_what_is_shown():
    ran = run_bursar("devices", "-f", str(EXAMPLES), "-n", "web", "--node", "node-a")

    assert [line[2] for line in stripped(ran)[1:]] == ["broken", "copycat"]


def test_long_table_is_as_a_short_one():
    pods = [gpu_pod(f"p{n:04}", a_gpu(f"GPU-{n}")) for n in range(600)]
    short = run_on(*pods[:3])
    long = run_on(*pods)

    assert [line.split() for line in long.out.splitlines()[:4]] == [
        line.split() for line in short.out.splitlines()
    ]
    assert len(long.out.splitlines()) == 601


def test_nothing_found_is_said():
    ran = run_on(a_device("n1", "GPU-1"))
    narrow = run_on(a_device("n1", "GPU-1"), words=("-n", "shop", "--node", "n1"))

    assert (ran.code, ran.out, ran.err) == (0, "", "bursar: no pod has a device\n")
    assert narrow.err == "bursar: no pod has a device in namespace shop on node n1\n"


# ------------------------------------------------------------------ devices nobody has


def test_free_lists_what_nobody_has():
    ran = run_bursar("devices", "-f", str(EXAMPLES), "--free")
    wide = run_bursar("devices", "-f", str(EXAMPLES), "--free", "-o", "wide")

    assert stripped(ran) == [
        ["NODE", "RESOURCE", "DEVICE", "NUMA"],
        ["node-a", "koordinator.sh/rdma", "0000:1f:00.3", "0"],
        ["node-b", "nvidia.com/gpu", "GPU-f7a1c3e2", "0"],
    ]
    assert [line[4:] for line in stripped(wide)] == [
        ["PART OF", "VENDOR", "MODEL"],
        ["0000:1f:00.0", "-", "-"],
        ["-", "nvidia", "L40S"],
    ]


def test_free_as_document_and_where_there_is_none():
    found = run_on(a_device("n1", "GPU-1"), words=("--free", "-o", "json"))
    none = run_on(gpu_pod("a", a_gpu("GPU-1")), words=("--free", "--node", "n1"))

    (idle,) = json.loads(found.out)
    assert (idle["device"], idle["inventory"]["kind"]) == ("GPU-1", "gpu")
    assert none.err == "bursar: no inventory lists an idle device on node n1\n"


# ------------------------------------------------------------------ documents


def test_documents_hold_everything_a_table_shows():
    found = json.loads(run_bursar("devices", "-f", str(EXAMPLES), "-o", "json").out)
    same = yaml.safe_load(run_bursar("devices", "-f", str(EXAMPLES), "-o", "yaml").out)

    assert found == same
    assert found[0] == {
        "node": "node-a",
        "namespace": "research",
        "pod": "notebook",
        "container": "jupyter",
        "resource": "nvidia.com/gpu",
        "device": "GPU-b04f9d11",
        "numa": 1,
        "share": 50,
        "sources": ["koordinator"],
        "inventory": {
            "kind": "gpu",
            "minor": 1,
            "id": "GPU-b04f9d11",
            "healthy": False,
            "vendor": "nvidia",
            "model": "A100",
        },
        "disagreements": ["not healthy"],
    }
    broken = next(each for each in found if each["pod"] == "broken")
    assert [broken[key] for key in ("container", "device", "share", "inventory")] == [None] * 4


def test_nothing_found_is_an_empty_document():
    assert json.loads(run_on(a_device("n1"), words=("-o", "json")).out) == []


# ------------------------------------------------------------------ checking


def test_check_fails_where_sources_disagree():
    pods = (gpu_pod("a", a_gpu("GPU-1")), gpu_pod("b", a_gpu("GPU-1")))

    assert run_on(*pods).code == 0
    assert run_on(*pods, words=("--check",)).code == 1
    assert run_on(*pods[:1], words=("--check",)).code == 0


def test_check_finds_what_two_have_whoever_says_so():
    def stated(name):
        device = {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1"}]}
        status = {"name": "main", "allocatedResourcesStatus": [device]}
        pod = gpu_pod(name, "{}")
        return pod | {"status": {"phase": "Running", "containerStatuses": [status]}}

    ran = run_on(stated("a"), stated("b"), gpu_pod("c", a_gpu("GPU-1")), words=("--check",))

    assert ran.code == 1
    assert [line[-1].count("also held by") for line in stripped(ran)[1:]] == [1, 1, 1]


def test_vendor_in_an_annotation_does_not_make_it_another_device():
    spoof = json.dumps({"gpu": [{"id": "GPU-1", "vendor": "huawei"}]})
    ran = run_on(gpu_pod("a", a_gpu("GPU-1")), gpu_pod("b", spoof), words=("--check", *WIDE))

    assert ran.code == 1
    assert {line[4] for line in stripped(ran)[1:]} == {"nvidia.com/gpu"}


def test_device_that_only_an_init_container_asks_for_is_shown():
    pod = gpu_pod("a", a_gpu("GPU-1"), asks="example.com/other")
    prep = {"name": "prep", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod["spec"]["initContainers"] = [prep]
    ran = run_on(pod, words=("--check", *WIDE))

    assert (ran.code, stripped(ran)[1][3:6]) == (0, ["main", "nvidia.com/gpu", "GPU-1"])


def test_more_devices_than_asked_for_are_not_shown():
    eight = json.dumps({"gpu": [{"id": f"GPU-{number}"} for number in range(8)]})
    ran = run_on(gpu_pod("a", eight), words=("--check", *WIDE))

    assert ran.code == 1
    assert [line[5] for line in stripped(ran)[1:]] == ["GPU-0", "-"]
    assert "gpu: 'GPU-1' is more than the 1 that the pod asks for, and 6 more" in ran.out


def test_ended_pods_have_nothing_and_disagree_with_nobody():
    pods = (gpu_pod("a", a_gpu("GPU-1"), phase="Succeeded"), gpu_pod("b", a_gpu("GPU-1")))
    ran = run_on(*pods, words=("--check",))

    assert ran.code == 0
    assert [line[2] for line in stripped(ran)[1:]] == ["b"]


# ------------------------------------------------------------------ what is read


def test_lists_of_devices_and_claims_are_opened():
    listed = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "DeviceList",
        "items": [{"metadata": {"name": "n1"}, "spec": {"devices": []}}],
    }
    body = "\n---\n".join(json.dumps(each) for each in (listed, gpu_pod("a", a_gpu("GPU-1"))))
    ran = run_bursar("devices", "-f", "-", stdin=body.encode())

    assert "is not a device of this node" in ran.out


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_of_all_versions_are_read(version):
    results = [{"request": "r", "driver": "d.example", "pool": "p", "device": "0"}]
    claim = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}],
        },
    }
    ran = run_on(gpu_pod("a", "{}"), claim)

    assert (ran.err, stripped(ran)[1][4:6]) == ("", ["d.example", "p/0"])


def test_other_kinds_are_passed_over_with_a_word():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    foreign = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    ran = run_on(gpu_pod("a", a_gpu("GPU-1")), other, foreign, foreign)

    assert ran.code == 0
    assert ran.err == "bursar: skipped: 1 ConfigMap, 2 Thing.example.com\n"


def test_entry_of_an_inventory_that_cannot_be_read_is_told():
    device = a_device("n1", "GPU-1")
    device["spec"]["devices"].append({"minor": 4})
    ran = run_on(device, gpu_pod("a", a_gpu("GPU-1")))

    assert ran.code == 0
    assert "devices.scheduling.koordinator.sh n1: spec.devices[1]: no type" in ran.err


def test_another_allocator_needs_a_table_and_no_code(tmp_path):
    table = tmp_path / "sources.yaml"
    table.write_text(
        """
sources:
  - name: hami
    annotation: hami.io/vgpu-devices-allocated
    layout:
      shape: delimited
      kind: gpu
      delimiters: {order: [device, vendor, nvidia.com/gpumem, nvidia.com/gpucores]}
    kinds:
      gpu: {resource: nvidia.com/gpu, askedBy: [nvidia.com/gpu], percent: [nvidia.com/gpucores]}
"""
    )
    pod = gpu_pod("a", "GPU-1,NVIDIA,3000,30:;", key="hami.io/vgpu-devices-allocated")
    ran = run_on(pod, words=("--sources", str(table), *WIDE))

    assert stripped(ran)[1][3:9] == ["main", "nvidia.com/gpu", "GPU-1", "-", "30%", "hami"]


def test_two_annotations_about_one_device_are_both_named(tmp_path):
    table = tmp_path / "sources.yaml"
    table.write_text(
        """
sources:
  - name: hami
    annotation: hami.io/vgpu-devices-allocated
    layout: {shape: delimited, kind: gpu, delimiters: {order: [device, nvidia.com/gpucores]}}
    kinds: {gpu: {resource: nvidia.com/gpu, percent: [nvidia.com/gpucores]}}
"""
    )
    half = {"gpu": [{"id": "GPU-1", "resources": {"koordinator.sh/gpu-core": "50"}}]}
    pod = gpu_pod("a", json.dumps(half))
    pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "GPU-1,30:;"
    ran = run_on(pod, words=("--sources", str(table), "--check", *WIDE))

    assert ran.code == 1
    assert without_facts(ran)[1][7:] == [
        "50%",
        "koordinator, hami",
        "koordinator says 50 %, hami 30 %",
    ]


def test_control_characters_of_tenants_do_not_reach_the_terminal():
    evil = "\x1b[2J\x9b2J"
    pods = (
        gpu_pod("a", json.dumps({"gpu": [{"minor": 0, "id": f"GPU{evil}"}]})),
        gpu_pod("b", json.dumps({f"gpu{evil}": [{"minor": 0, "id": "x"}]})),
        gpu_pod("c", f"{{{evil}"),
    )
    for words in ((), ("-o", "wide"), ("-o", "json"), ("-o", "yaml")):
        ran = run_on(*pods, words=words)

        assert ran.code == 0
        assert (ran.out + ran.err).replace("\n", "").isprintable()


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-n", "a", "-A"), "-n is for one namespace, -A for all"),
        (("--free", "-n", "a"), "--free lists devices of nodes; it excludes -n and --check"),
        (("--free", "--check"), "--free lists devices of nodes; it excludes -n and --check"),
        (("--context", "c", "-f", "x"), "-f and -k read files"),
        (("--socket", "a", "--pod-resources", "b"), "exclude each other"),
        (("-o", "pod-resources"), "-o pod-resources is for an answer of --socket"),
    ],
)
def test_contradictions_are_usage_errors(words, complaint):
    ran = run_bursar("devices", *words)

    assert ran.code == 2
    assert complaint in ran.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-f", "/nowhere"), "bursar: /nowhere: no such file or directory\n"),
        (("--pod-resources", "/nowhere"), "bursar: /nowhere: no such file or directory\n"),
        (("--kubeconfig", "/nowhere"), "bursar: /nowhere: "),
        (("--socket", "/nowhere/kubelet.sock"), "bursar: /nowhere/kubelet.sock: "),
        (("--sources", "/nowhere", "-f", "-"), "bursar: /nowhere: "),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(words, complaint):
    ran = run_bursar("devices", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(complaint)
    assert ran.err.count("\n") == 1


def test_dump_that_is_no_answer_is_refused(tmp_path):
    dump = tmp_path / "kubelet.json"
    dump.write_text('{"podResources": 5}')
    ran = run_bursar("devices", "--pod-resources", str(dump))

    assert ran.code == 2
    assert ran.err.startswith(f"bursar: {dump}: not kubelet's answer about pods as JSON")


def test_node_of_an_answer_must_be_certain():
    words = ("--pod-resources", str(KUBELET))
    lost = run_on(gpu_pod("a", a_gpu("GPU-1")), words=words)
    named = run_on(gpu_pod("a", a_gpu("GPU-1")), words=(*words, "--node", "n1"))

    assert lost.code == 2
    assert lost.err == ("bursar: the node of kubelet's answer is not certain; give --node\n")
    assert [line[2] for line in stripped(named)[1:]] == ["a", "trainer-0"]


def test_answer_beside_a_single_inventory_is_of_its_node():
    ran = run_on(a_device("n1", "GPU-5d3e90ab"), words=("--pod-resources", str(KUBELET), *WIDE))

    assert without_facts(ran)[1] == [
        *("n1", "research", "trainer-0", "train", "nvidia.com/gpu", "GPU-5d3e90ab", "1", "100%"),
        *("kubelet", "-"),
    ]


def test_pod_that_is_none_is_named():
    broken = gpu_pod("a", a_gpu("GPU-1"))
    broken["spec"]["containers"] = 5
    ran = run_on(broken)

    assert ran.code == 2
    assert "Pod default/a: spec.containers: a list is expected" in ran.err
