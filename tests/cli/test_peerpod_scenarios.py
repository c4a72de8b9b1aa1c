"""Upstream's tests of instance types, by name, asked of `bursar peerpod instance`.

E* are its tests with real clouds: a pod carries annotations, and the VM that comes of it is
looked at, or the event of a pod that gets none. Here the same pod gets the same type, and
the same words.
"""

import json

import click
import pytest
from click.testing import CliRunner

from bursar.adapters.files.peerpods import read_catalogue
from bursar.cli.peerpods.options import catalogue_options, sizing_options
from bursar.cli.processes.webhook import peer_pod_settings
from cli.test_peerpod import EXAMPLES, chosen, run
from support.builders.peer_pods import KATA, a_peer_pod, main

IBM = """
instanceTypes:
- {name: cx2-2x4, vcpus: 2, memory: 4Gi, arch: amd64, price: 0.081}
- {name: bx2-2x8, vcpus: 2, memory: 8Gi, arch: amd64, price: 0.096}
- {name: mx2-2x16, vcpus: 2, memory: 16Gi, arch: amd64, price: 0.122}
"""
"""What upstream's tests on IBM's cloud have to choose from."""
AZURE = """
instanceTypes:
- {name: Standard_DC2as_v5, vcpus: 2, memory: 8Gi}
- {name: Standard_D4as_v5, vcpus: 4, memory: 16Gi}
"""
AWS = """
instanceTypes:
- {name: t2.medium, vcpus: 2, memory: 4096Mi}
- {name: p3.8xlarge, vcpus: 32, memory: 244000Mi, gpus: 4}
"""


@pytest.fixture
def a_file(tmp_path):
    def written(text: str) -> str:
        path = tmp_path / "catalogue.yaml"
        path.write_text(text)
        return str(path)

    return written


def kata_pod(**annotations: object) -> dict[str, object]:
    return a_peer_pod(
        main(), annotations={f"{KATA}{key}": str(value) for key, value in annotations.items()}
    )


# ------------------------------------------------------------------ E4 to E9: a type


@pytest.mark.parametrize(
    ("pod", "as_upstream", "best"),
    [
        pytest.param(
            kata_pod(default_vcpus=2, default_memory=12288), "mx2-2x16", "mx2-2x16", id="E4 both"
        ),
        pytest.param(kata_pod(default_vcpus=4), "bx2-2x8", "bx2-4x16", id="E5 vcpus only"),
        pytest.param(kata_pod(default_memory=7168), "bx2-2x8", "bx2-2x8", id="E6 memory only"),
        pytest.param(kata_pod(), "bx2-2x8", "bx2-2x8", id="E7 no annotations"),
        pytest.param(kata_pod(machine_type="cx2-2x4"), "cx2-2x4", "cx2-2x4", id="E8 IBM"),
    ],
)
def test_e4_to_e8_the_type_that_comes_of_annotations(pod, as_upstream, best):
    """Upstream takes the default if only one of CPU and memory is asked for."""
    asks = ("-f", "-", "--default", "bx2-2x8", "--provider", "ibmcloud", "--arch", "amd64")

    assert chosen(*asks, "--mode", "upstream", stdin=pod)[0]["instance"] == as_upstream
    assert chosen(*asks, stdin=pod)[0]["instance"] == best


@pytest.mark.parametrize(
    ("mode", "word", "code"), [("upstream", "warning", 0), ("best", "error", 1)]
)
def test_e8_a_type_of_azure_that_a_pod_names(a_file, mode, word, code):
    """It is smaller than the pod's own annotations; upstream says nothing about that."""
    asks = ("-f", "-", "--catalogue", a_file(AZURE), "--mode", mode)
    pod = kata_pod(machine_type="Standard_DC2as_v5", default_vcpus=4, default_memory=16384)
    [answer] = chosen(*asks, stdin=pod, code=code)

    assert answer["instance"] == "Standard_DC2as_v5"
    assert "has 2 vCPUs, 8192 MiB of memory and 0 GPUs" in answer[word]


# ------------------------------------------------------------------ E9 to E11: none


@pytest.mark.parametrize(
    ("types", "name"),
    [
        pytest.param(IBM, "bx2-2x4", id="E9 IBM"),
        pytest.param(AZURE, "Standard_D8as_v5", id="E9 Azure"),
    ],
)
def test_e9_a_type_that_is_not_in_the_list(a_file, types, name):
    asks = ("-f", "-", "--catalogue", a_file(types), "--default", "bx2-2x8")
    pod = kata_pod(machine_type=name)
    [upstream] = chosen(*asks, "--mode", "upstream", stdin=pod, code=1)
    [best] = chosen(*asks, stdin=pod, code=1)

    assert upstream["error"] == (
        f'failed to verify instance type: requested instance type ("{name}") is not part of '
        "supported instance types list"
    )
    assert best["error"] == f'the instance type "{name}" named by the pod is not in the catalogue'


@pytest.mark.parametrize(
    ("vcpus", "memory"),
    [pytest.param(2, 18432, id="E10 memory"), pytest.param(3, 12288, id="E11 vcpus")],
)
def test_e10_and_e11_nothing_in_the_list_is_large_enough(a_file, vcpus, memory):
    asks = ("-f", "-", "--catalogue", a_file(IBM), "--default", "bx2-2x8")
    pod = kata_pod(default_vcpus=vcpus, default_memory=memory)
    [upstream] = chosen(*asks, "--mode", "upstream", stdin=pod, code=1)
    [best] = chosen(*asks, stdin=pod, code=1)

    assert upstream["error"] == (
        "failed to get instance type based on vCPU and memory annotations: no instance type found "
        f"for the given vcpus ({vcpus}) and memory ({memory})"
    )
    assert best["error"] == (
        f"no instance type of 3 in the catalogue has {vcpus} vCPUs, {memory} MiB of memory and 0 "
        "GPUs"
    )


def test_a_stored_pod_is_asked_about_with_another_list(a_file):
    """The type that it carries was our choice, and not its author's."""
    raw = a_peer_pod(main("cpu=2 memory=4Gi"))
    ran = run("rewrite", "-f", "-", "-o", "json", "--catalogue", a_file(IBM), stdin=raw)
    stored = json.loads(ran.out)
    asks = ("-f", "-", "--catalogue", a_file(AZURE))

    assert stored["metadata"]["annotations"][f"{KATA}machine_type"] == "cx2-2x4"
    assert chosen(*asks, stdin=stored)[0]["instance"] == "Standard_DC2as_v5"
    # An adaptor goes by what is written there, whoever wrote it.
    [upstream] = chosen(*asks, "--mode", "upstream", stdin=stored, code=1)
    assert "is not part of supported instance types list" in upstream["error"]


# ------------------------------------------------------------------ what is known of a type


def facts(path: str, name: str) -> list[object]:
    return [
        (each.vcpus, each.memory_mib, each.gpus, each.arch)
        for each in read_catalogue(path)
        if each.name == name
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("t2.medium", [(2, 4096, 0, "")], id="t2.medium"),
        pytest.param("p3.8xlarge", [(32, 244_000, 4, "")], id="p3.8xlarge"),
        pytest.param("mycustominstance", [], id="unknown"),
    ],
)
def test_aws_info_is_in_the_catalogue(a_file, name, expected):
    path = a_file(AWS)
    ran = run("instance", "--type", name, "--catalogue", path)

    assert facts(path, name) == expected
    assert ran.code == (0 if expected else 1)
    assert (f'"{name}" named by the pod is not in the catalogue' in ran.err) == (not expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("bx2-2x8", [(2, 8192, 0, "amd64")], id="bx2-2x8"),
        pytest.param("mycustominstance", [], id="unknown"),
    ],
)
def test_ibm_info_is_in_the_example(name, expected):
    ran = run("instance", "--type", name, "--provider", "ibmcloud")

    assert facts(str(EXAMPLES / "catalogue.yaml"), name) == expected
    assert ran.code == (0 if expected else 1)


# ------------------------------------------------------------------ lists


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param("a,b", "a, b", id="a,b"),
        # Nothing is no list of nothing: it is as if nobody had said anything.
        pytest.param("", "kata-remote", id="empty"),
        pytest.param(" , ", "kata-remote", id="blanks"),
        pytest.param("kata-gpu, kata-remote,", "kata-gpu, kata-remote", id="blanks and a comma"),
    ],
)
def test_list_flag_is_a_list_of_classes(text, printed):
    @click.command()
    @sizing_options
    @catalogue_options
    def show(**options: object) -> None:
        settings = peer_pod_settings({"vm_resource": None, "mode": "effective", **options})
        click.echo(", ".join(sorted(settings.runtime_classes)))

    ran = CliRunner().invoke(show, [], env={"TARGET_RUNTIMECLASS": text})

    assert ran.output == f"{printed}\n"
