"""Options of `bursar manifests` that a process does not have, or that have no effect."""

import pytest

from bursar.cli.install.manifests import PARTS, manifests
from bursar.cli.install.option_parts import PARTS_OF
from support.processes.command_line import run_bursar


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("controller", "--controller-option=--log-levl=debug"),
            "bursar controller has no option '--log-levl'; did you mean '--log-level'?",
        ),
        (
            ("controller", "webhook", "--webhook-option=--zzz"),
            "--webhook-option: bursar webhook has no option '--zzz'; it has ",
        ),
        (
            ("extender", "--extender-option=hold"),
            "'hold' is not an option of bursar extender; --NAME=VALUE is expected",
        ),
        (
            ("controller", "--controller-option=--log-level"),
            "--controller-option: Option '--log-level' requires an argument",
        ),
    ],
)
def test_an_option_that_the_process_does_not_have_is_refused(arguments, problem):
    ran = run_bursar("manifests", *arguments)

    assert ran.code == 2
    assert problem in ran.err


def test_an_unknown_option_is_refused_with_those_that_exist():
    ran = run_bursar("manifests", "controller", "--controller-option=--nonsense")

    assert "it has --aaq-certificates, " in ran.err
    assert " --counting-policies, " in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--disk",), "bursar: --disk has no effect without the part agent\n"),
        (("agent", "--disk"), ""),
        (
            ("crds", "--vm-resource=example.com/vm"),
            "bursar: --vm-resource has no effect without one of the parts peerpods, webhook\n",
        ),
        (("crds", "-n", "shop"), ""),
    ],
)
def test_an_option_for_a_part_that_is_not_printed_is_named(arguments, said):
    ran = run_bursar("manifests", *arguments)

    assert (ran.code, ran.err) == (0, said)


def test_every_option_that_is_for_some_parts_exists():
    names = {option.name for option in manifests.params}

    assert set(PARTS_OF) <= names
    assert {part for parts in PARTS_OF.values() for part in parts} <= set(PARTS)
