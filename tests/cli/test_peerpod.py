"""`bursar peerpod` with files: what it reads and prints. Decisions are tested with the core."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import ClickException
from click.testing import CliRunner

from bursar.adapters.memory.objects.patches import json_patched
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.peerpods.peerpod import peerpod
from bursar.wire.documents.stream import read_documents
from support.builders.peer_pods import KATA, ONE_VM, RECORD, a_peer_pod, main
from support.faults.ambiguous_yaml import NASTY
from support.processes.command_line import Ran

EXAMPLES = Path(__file__).parents[2] / "examples" / "peerpods"
POD = str(EXAMPLES / "pod.yaml")


def run(*arguments: str, stdin: Any = "") -> Ran:
    text = stdin if isinstance(stdin, str) else json.dumps(stdin)
    done = CliRunner().invoke(peerpod, arguments, input=text, standalone_mode=False)
    if isinstance(done.exception, BadInputError | ClickException):
        return Ran(2, "", str(done.exception))
    if done.exception is not None:
        raise done.exception
    return Ran(done.return_value, done.stdout, done.stderr)


def rewritten(*arguments: str, stdin: Any = "", output: str = "json") -> Any:
    ran = run("rewrite", "-f", "-", "-o", output, *arguments, stdin=stdin)
    assert ran.code == 0, ran.err
    return yaml.safe_load(ran.out)


def a_list(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def named(pod: Any, name: str) -> Any:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def annotations(document: Any) -> dict[str, str]:
    return {
        key.removeprefix(KATA): text
        for key, text in document["metadata"]["annotations"].items()
        if key.startswith(KATA)
    }


# ------------------------------------------------------------------ rewrite


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_one_pod_comes_out_as_itself(output):
    raw = a_peer_pod(main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi"))
    document = rewritten(stdin=raw, output=output)

    assert document["kind"] == "Pod"
    assert annotations(document) == {"default_vcpus": "1", "default_memory": "2048"}
    assert document["spec"]["containers"][0]["resources"] == ONE_VM


def test_several_objects_come_out_as_one_list_in_their_order():
    first = a_peer_pod(main("cpu=1"))
    other = a_peer_pod(main("cpu=2"), runtimeClassName="runc")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    last = a_peer_pod(main("cpu=3"))
    whole = {"apiVersion": "v1", "kind": "List", "items": [first, other, service, last]}
    document = rewritten(stdin=whole)

    assert document["kind"] == "List"
    items = document["items"]
    assert items[1:3] == [other, service]
    assert [annotations(items[index])["default_vcpus"] for index in (0, 3)] == ["1", "3"]


def test_w20_what_we_do_not_know_is_printed_as_it_was():
    raw = a_peer_pod(main("cpu=1", future=[1.25, {"a": None}]), newer={"b": [True, 2**53]})
    document = rewritten(stdin=raw)

    assert document["spec"]["newer"] == raw["spec"]["newer"]
    assert document["spec"]["containers"][0]["future"] == [1.25, {"a": None}]


@pytest.mark.parametrize("mode", ["upstream", "effective"])
def test_row_12_limits_alone_are_requests_first(mode):
    raw = a_peer_pod(main("", "cpu=2 memory=1Gi"))
    document = rewritten("--mode", mode, stdin=raw)

    assert annotations(document) == {"default_vcpus": "2", "default_memory": "1024"}


def test_amounts_may_be_written_as_numbers():
    text = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  runtimeClassName: kata-remote
  containers: [{name: c, resources: {limits: {cpu: 0.5, memory: 129e6}}}]
  resources: {limits: {cpu: 1.5}}
"""
    document = rewritten(stdin=text)

    assert annotations(document) == {"default_vcpus": "2", "default_memory": "124"}
    assert "resources" not in document["spec"]
    assert json.loads(document["metadata"]["annotations"][RECORD])["pod"] == {
        "requests": {"cpu": "500m", "memory": "129M"},
        "limits": {"cpu": "1500m"},
    }


@pytest.mark.parametrize("mode", ["upstream", "effective"])
def test_the_patch_starts_from_what_the_file_says(mode):
    raw = a_peer_pod(main("", "cpu=2 memory=1Gi"), main("cpu=1"))
    patch = rewritten("--mode", mode, stdin=raw, output="patch")

    assert json_patched(raw, patch) == rewritten("--mode", mode, stdin=raw)


def test_each_of_several_pods_has_its_patch():
    peer, other = a_peer_pod(main("cpu=1")), a_peer_pod(main(), runtimeClassName="runc")
    other["metadata"] = {"name": "api"}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [peer, other]}
    patches = rewritten(stdin=pods, output="patch")

    assert [(each["pod"], bool(each["patch"])) for each in patches] == [
        ("shop/web", True),
        ("default/api", False),
    ]


def test_settings_are_options():
    raw = a_peer_pod(
        main("cpu=1 memory=1Gi amd.com/gpu=1 example.com/foo=1", "amd.com/gpu=1 example.com/foo=1"),
        runtimeClassName="mine",
        annotations={f"{KATA}default_vcpus": "64"},
    )
    document = rewritten(
        *("--runtime-class", "other", "--runtime-class", "mine", "--gpu-resource", "amd.com/gpu"),
        *("--headroom-cpu", "100m", "--headroom-memory", "256Mi", "--floor-vcpus", "4"),
        *("--floor-memory", "1Gi", "--own-sizes", "override", "--keep", "example.com/foo"),
        *("--vm-resource", "example.com/vm", "--default-mem"),
        *("--catalogue", str(EXAMPLES / "catalogue.yaml"), "--provider", "aws"),
        stdin=raw,
    )

    assert annotations(document) == {
        "default_vcpus": "4",
        "default_memory": "1280",
        "default_mem": "1280",
        "default_gpus": "1",
        "machine_type": "g4dn.xlarge",
    }
    resources = document["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"example.com/foo": "1", "example.com/vm": "1"}


def test_warnings_go_to_stderr():
    ran = run("rewrite", "-f", "-", stdin=a_peer_pod(main("ephemeral-storage=1Gi")))

    assert ran.code == 0
    assert ran.err == (
        "bursar: Pod shop/web: removed, and not passed on to the VM: ephemeral-storage\n"
    )


def test_a_pod_that_is_denied_is_left_out_and_the_answer_is_no():
    ran = run("rewrite", "-f", "-", stdin=a_peer_pod(main("cpu=2", "cpu=1")))

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "bursar: Pod shop/web: denied: spec.containers[0].resources.requests: Invalid value: "
        '"2": must be less than or equal to cpu limit of 1\n'
    )


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_an_empty_list_comes_out_as_one(output):
    assert rewritten(stdin=a_list(), output=output) == a_list()


def test_an_empty_list_has_no_patches():
    assert rewritten(stdin=a_list(), output="patch") == []


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_what_is_left_of_a_list_is_a_list(output):
    pods = a_list(a_peer_pod(main("cpu=1")), a_peer_pod(main("cpu=2", "cpu=1")))
    ran = run("rewrite", "-f", "-", "-o", output, stdin=pods)

    document = yaml.safe_load(ran.out)
    assert (ran.code, document["kind"], len(document["items"])) == (1, "List", 1)


def test_a_patch_has_its_pods_name_though_the_other_was_denied():
    denied = named(a_peer_pod(main("cpu=2", "cpu=1")), "denied")
    pods = a_list(denied, a_peer_pod(main("cpu=1")))
    ran = run("rewrite", "-f", "-", "-o", "patch", stdin=pods)

    assert ran.code == 1
    assert [each["pod"] for each in json.loads(ran.out)] == ["shop/web"]
    alone = run("rewrite", "-f", "-", "-o", "patch", stdin=denied)
    assert (alone.code, alone.out) == (1, "")


@pytest.mark.parametrize("output", ["yaml", "json", "patch"])
@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_a_number_that_nothing_can_hold_is_refused(output, number):
    text = json.dumps(a_peer_pod(main("cpu=1"), future=[1, 12345])).replace("12345", number)
    ran = run("rewrite", "-f", "-", "-o", output, stdin=text)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "Pod shop/web: spec.future[1]: the number is too large, or none"


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_texts_stay_texts(output):
    raw = a_peer_pod(main("cpu=1", args=list(NASTY)))
    ran = run("rewrite", "-f", "-", "-o", output, stdin=raw)
    [document] = read_documents([ran.out.encode()])

    assert isinstance(document.value, dict)
    assert document.value["spec"]["containers"][0]["args"] == list(NASTY)


def test_the_name_of_a_size_that_is_no_pods_is_its_instance_type():
    asked = ("instance", "--vcpus", "4", "--memory", "6Gi")
    [found] = json.loads(run(*asked, "-o", "json").out)
    assert run(*asked, "-o", "name").out == f"{found['instance']}\n"


@pytest.mark.parametrize("verb", ["rewrite", "instance"])
@pytest.mark.parametrize(
    ("requests", "limits", "code"),
    [
        ("cpu=1", "cpu=1", 0),
        ("cpu=2", "cpu=1", 1),
        ("example.com/foo=1500m", "example.com/foo=1500m", 1),
        ("cpu=-1", "", 2),
        ("cpu=one", "", 2),
    ],
)
def test_what_can_be_read_is_judged_and_what_cannot_is_bad_input(verb, requests, limits, code):
    assert run(verb, "-f", "-", stdin=a_peer_pod(main(requests, limits))).code == code


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-f", "no-such-file"], "no-such-file: no such file"),
        (["-f", POD, "--catalogue", "no-such-file"], "no-such-file: no such file"),
        (["-f", POD, "--catalogue", POD], "kind: InstanceCatalogue is expected"),
        (["-f", POD, "--keep", "cpu"], "cpu goes to the VM"),
        (["-f", POD, "--headroom-cpu", "-1"], "is negative"),
        (["-f", POD, "--headroom-cpu", "1x"], "quantit"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(arguments, complaint):
    ran = run("rewrite", *arguments)

    assert ran.code == 2
    assert complaint in ran.err


# ------------------------------------------------------------------ instance


def chosen(*arguments: str, stdin: Any = "", code: int = 0) -> Any:
    ran = run("instance", "-o", "json", *arguments, stdin=stdin)
    assert ran.code == code, ran.err
    return json.loads(ran.out)


SMALL_CATALOGUE = """
instanceTypes:
- {name: m5.large, vcpus: 2, memory: 8Gi}
- {name: c5.4xlarge, vcpus: 16, memory: 32Gi, price: 0.68}
- {name: r5.2xlarge, vcpus: 8, memory: 64Gi}
- {name: x1e.xlarge, vcpus: 4, memory: 122Gi}
"""


@pytest.fixture
def catalogue(tmp_path):
    path = tmp_path / "catalogue.yaml"
    path.write_text(SMALL_CATALOGUE)
    return str(path)


def test_w9_the_best_is_found_where_upstream_finds_nothing(catalogue):
    size = ("--catalogue", catalogue, "--vcpus", "16", "--memory", "8Gi")

    [best] = chosen(*size)
    assert best == {
        "vcpus": 16,
        "memoryMiB": 8192,
        "gpus": 0,
        "instance": "c5.4xlarge",
        "price": "0.68",
        "alsoFits": [],
    }
    [upstream] = chosen(*size, "--mode", "upstream", code=1)
    assert upstream["instance"] is None
    assert upstream["error"].endswith("vcpus (16) and memory (8192)")
    assert [each["name"] for each in upstream["alsoFits"]] == ["c5.4xlarge"]


def test_pods_in_files_are_sized_first(catalogue):
    asks = ("--catalogue", catalogue, "-f", "-", "--default", "small")
    items = [
        a_peer_pod(main("cpu=4 memory=4Gi")),
        a_peer_pod(main()),
        a_peer_pod(main("cpu=4"), annotations={f"{KATA}machine_type": "r5.2xlarge"}),
        a_peer_pod(main("cpu=9"), runtimeClassName="runc"),
    ]
    pods = {"apiVersion": "v1", "kind": "List", "items": items}

    assert [each["instance"] for each in chosen(*asks, stdin=pods)] == [
        "c5.4xlarge",
        "small",
        "r5.2xlarge",
    ]
    assert [each["instance"] for each in chosen(*asks, "--mode", "upstream", stdin=pods)] == [
        "c5.4xlarge",
        "small",
        "r5.2xlarge",
    ]


def test_a_table_names_the_choice_and_what_else_fits():
    ran = run("instance", "-f", str(EXAMPLES), "--provider", "ibmcloud", "--arch", "amd64")

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "POD            VCPUS   MEMORY   GPUS   INSTANCE   PRICE   ALSO FITS",
        "default/shop   2       3072Mi   -      cx2-2x4    0.081   bx2-2x8, mx2-2x16 and 1 more",
    ]


def test_a_table_for_a_size_has_no_pod_and_says_what_is_missing(catalogue):
    ran = run("instance", "--catalogue", catalogue, "--gpus", "1")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "VCPUS   MEMORY   GPUS   INSTANCE   PRICE   ALSO FITS",
        "-       -        1      -          -       -",
    ]
    assert ran.err == (
        "bursar: this size: no instance type of 4 in the catalogue has 0 vCPUs, 0 MiB of memory "
        "and 1 GPUs\n"
    )


def test_many_that_fit_are_not_all_named_and_a_default_need_not_have_a_name():
    wide = run("instance", "--vcpus", "2", "--provider", "aws")
    named = run("instance", "--type", "t3.small", "--mode", "upstream")
    nothing = run("instance", "-f", "-", "--mode", "upstream", stdin=a_peer_pod(main()))

    assert " more" in wide.out
    assert "t3.small" in named.out
    assert "<default>" in nothing.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give a size"),
        (["--vcpus", "1", "-f", POD], "either a size or files"),
        (["--vcpus", "1", "--provider", "nobody"], "no instance type of that provider"),
        (["-f", POD, "--runtime-class", "other"], "no peer pod in these files"),
        (["-f", "no-such-file"], "no-such-file"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, complaint):
    ran = run("instance", *arguments)

    assert ran.code == 2
    assert complaint in ran.err


def test_a_pod_that_is_denied_does_not_hide_the_others(catalogue):
    items = [
        named(a_peer_pod(main("cpu=2", "cpu=1")), "denied"),
        a_peer_pod(main("cpu=4 memory=4Gi")),
        named(a_peer_pod(main("memory=2", "memory=1")), "too"),
    ]
    asks = ("--catalogue", catalogue, "-f", "-")
    denied, web, too = chosen(*asks, stdin=a_list(*items), code=1)

    assert web["instance"] == "c5.4xlarge"
    assert {key: denied[key] for key in ("pod", "vcpus", "instance", "alsoFits")} == {
        "pod": "shop/denied",
        "vcpus": None,
        "instance": None,
        "alsoFits": [],
    }
    assert "must be less than or equal to cpu limit" in denied["error"]
    assert "must be less than or equal to memory limit" in too["error"]
    ran = run("instance", *asks, stdin=a_list(*items))
    assert [line.split(": denied:")[0] for line in ran.err.splitlines()] == [
        "bursar: shop/denied",
        "bursar: shop/too",
    ]
    assert ran.out.splitlines()[1].split() == ["shop/denied", *"------"]


def test_a_type_that_is_too_small_is_told(catalogue):
    ran = run("instance", "--catalogue", catalogue, "--type", "m5.large", "--vcpus", "400")
    as_upstream = run(
        *("instance", "--catalogue", catalogue, "--type", "m5.large", "--vcpus", "400"),
        *("--mode", "upstream"),
    )
    enough = run("instance", "--catalogue", catalogue, "--type", "m5.large", "--vcpus", "2")

    assert (ran.code, as_upstream.code) == (1, 0)
    assert ran.err == as_upstream.err
    assert ran.err == (
        'bursar: this size: the instance type "m5.large" named by the pod has 2 vCPUs, 8192 MiB '
        "of memory and 0 GPUs; the containers need 400, 0 and 0\n"
    )
    assert (enough.code, enough.err) == (0, "")


# ------------------------------------------------------------------ catalogues


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "an object with instanceTypes is expected"),
        ("instanceTypes: []", "instanceTypes: required, but missing or empty"),
        ("instanceTypes: [{vcpus: 1}]", "instanceTypes[0].name: required"),
        ("instanceTypes: [{name: a, vcpus: 1}]", "instanceTypes[0].memory: must be at least 1Mi"),
        ("instanceTypes: [{name: a, memory: 1Gi}]", "1:17: instanceTypes[0].vcpus: must be at"),
        ("instanceTypes: [{name: a, memory: x, vcpus: 1}]", "instanceTypes[0].memory: quantities"),
        ("instanceTypes: [{name: a, memory: 1Gi, vcpus: 1, gpus: -1}]", "gpus: must not be neg"),
        ("instanceTypes: [{name: a, memory: 1Gi, vcpus: 1, price: -1}]", "price: must not be neg"),
        (
            "instanceTypes: [{name: a, memory: 1Gi, vcpus: 1}, {name: a, memory: 1Gi, vcpus: 1}]",
            "instanceTypes[1].name: is there already",
        ),
        (
            "instanceTypes:\n- name: a\n  memory: 1Gi\n  vcpus: 1\n  gpu: 1",
            "catalogue.yaml:5:8: instanceTypes[0].gpu: unknown field",
        ),
        ("{", "catalogue.yaml:"),
        ("a: 1\n---\nb: 1", "one document is expected, found 2"),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_refused(tmp_path, text, complaint):
    path = tmp_path / "catalogue.yaml"
    path.write_text(text)
    ran = run("instance", "--vcpus", "1", "--catalogue", str(path))

    assert ran.code == 2
    assert complaint in ran.err
