"""Options of `bursar peerpod`: what means nothing is refused, and so is what would do nothing."""

import shlex

import pytest

from cli.test_peerpod import EXAMPLES, POD, run


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--gpu-resource cpu", "--gpu-resource: 'cpu' is not the name of an extended resource"),
        ("--gpu-resource ''", "--gpu-resource: '' is not the name of an extended resource"),
        ("--gpu-resource kata.peerpods.io/vm", "kata.peerpods.io/vm cannot stand for a GPU and"),
        ("--vm-resource nvidia.com/gpu", "nvidia.com/gpu cannot stand for a GPU and for a VM"),
        (
            "--vm-resource a.io/vm --gpu-resource kata.peerpods.io/vm",
            "kata.peerpods.io/vm cannot stand for a GPU and for a VM",
        ),
        ("--vm-resource a.io/b --gpu-resource a.io/b", "a.io/b cannot stand for a GPU and for"),
        ("--keep bogus", "--keep: 'bogus' is not a resource that can stay; ephemeral-storage can"),
        ("--keep ''", "--keep: '' is not a resource that can stay"),
        ("--keep hugepages-2Mi", "hugepages-2Mi cannot be kept without cpu or memory"),
        ("--provider aws", "--provider has no effect without --catalogue"),
        ("--arch arm64", "--arch has no effect without --catalogue"),
    ],
)
def test_options_that_cannot_mean_anything_are_refused(options, complaint):
    ran = run("rewrite", "-f", POD, *shlex.split(options))

    assert ran.code == 2
    assert complaint in ran.err


SIZING_OPTIONS = [
    "--gpu-resource amd.com/gpu",
    "--headroom-cpu 1",
    "--headroom-memory 1Gi",
    "--floor-vcpus 1",
    "--floor-memory 1Gi",
    "--own-sizes override",
]


@pytest.mark.parametrize(
    "options", [*SIZING_OPTIONS, "--keep a.io/b", f"--catalogue {EXAMPLES / 'catalogue.yaml'}"]
)
def test_what_upstream_does_not_have_is_refused_in_its_mode(options):
    ran = run("rewrite", "-f", POD, "--mode", "upstream", *shlex.split(options))

    assert ran.code == 2
    assert ran.err == f"{options.split()[0]} has no effect with --mode upstream"
    assert run("rewrite", "-f", POD, *shlex.split(options)).code == 0


@pytest.mark.parametrize("options", SIZING_OPTIONS)
def test_so_it_is_where_types_are_chosen(options):
    name, text = options.split()
    as_upstream = run("instance", "-f", POD, "--mode", "upstream", name, text)
    for_a_size = run("instance", "--vcpus", "1", name, text)

    assert (as_upstream.code, for_a_size.code) == (2, 2)
    assert as_upstream.err == f"{name} has no effect with --mode upstream"
    assert for_a_size.err == f"{name} has no effect without files"


def test_what_is_as_usual_may_be_said():
    usual = ("--headroom-cpu", "0", "--floor-vcpus", "0", "--own-sizes", "at-least")

    assert run("rewrite", "-f", POD, "--mode", "upstream", *usual).code == 0
    assert run("instance", "--vcpus", "1", *usual).code == 0
