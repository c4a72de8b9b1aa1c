"""Options that say how quotas count peer pods."""

import click
import pytest

from bursar.app.bad_input import BadInputError
from bursar.app.counting.settings import CountingSettings
from bursar.cli.processes.options.counting import counting_from, counting_options
from bursar.core.counting.peer_pods import PeerPodCounting, PeerPodMode


@click.command()
@counting_options
def count(**chosen) -> CountingSettings:
    return counting_from(chosen)


def counting(*arguments: str) -> PeerPodCounting:
    return count.main(list(arguments), standalone_mode=False).peer_pods


def test_without_options_the_usual_peer_pods_are_charged():
    assert counting() == PeerPodCounting()


def test_every_option_is_a_setting(tmp_path):
    file = tmp_path / "types.yaml"
    file.write_text("instanceTypes: [{name: small, vcpus: 2, memory: 4Gi}]")
    chosen = counting(
        *("--peerpod-mode", "DedicatedVirtualResources"),
        *("--peerpod-runtime-class", "a", "--peerpod-runtime-class", "b"),
        *("--peerpod-gpu-resource", "amd.com/gpu"),
        *("--peerpod-catalogue", str(file), "--peerpod-default-type", "small"),
    )

    [small] = chosen.catalogue
    assert (small.name, small.vcpus, small.memory_mib) == ("small", 2, 4096)
    assert chosen == PeerPodCounting(
        mode=PeerPodMode.DEDICATED,
        runtime_classes=frozenset({"a", "b"}),
        gpu_resources=("amd.com/gpu",),
        catalogue=(small,),
        default_type="small",
    )


def test_a_gpu_resource_that_is_given_twice_counts_once():
    """Else each such GPU would count twice, and hide one that only the annotation tells of."""
    twice = ("--peerpod-gpu-resource", "amd.com/gpu") * 2

    assert counting(*twice).gpu_resources == ("amd.com/gpu",)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--peerpod-mode", "Free", "'Free' is not one of 'VirtualResources'"),
        ("--peerpod-runtime-class", "", "runtime classes: at least one is needed"),
        ("--peerpod-gpu-resource", "gpu", "'gpu' is not the name of an extended resource"),
        ("--peerpod-default-type", "large", "default type 'large' is not in the catalogue"),
    ],
)
def test_values_that_mean_nothing_are_refused(option, value, complaint):
    with pytest.raises(click.UsageError, match=complaint):
        counting(option, value)


def test_a_catalogue_that_cannot_be_read_is_bad_input(tmp_path):
    file = tmp_path / "types.yaml"
    file.write_text("instanceTypes: [{name: small, vcpus: 2, memory: 4Gi, gpu: 1}]")
    with pytest.raises(BadInputError, match=r"types.yaml:1:.*gpu: unknown field"):
        counting("--peerpod-catalogue", str(file))
    with pytest.raises(BadInputError, match=r"none\.yaml"):
        counting("--peerpod-catalogue", str(tmp_path / "none.yaml"))
