"""The options of counting by sidecars, as `bursar controller` receives them."""

import pytest
from click.testing import CliRunner

from bursar.app.counting.sidecars.settings import (
    SidecarFallback,
    SidecarScope,
    SidecarSettings,
    SidecarTrust,
)
from bursar.cli.processes.controller import controller


class Chosen:
    """Takes the place of the processes, and keeps what would be started."""

    settings = None

    def controller(self, settings):
        self.settings = settings


def chosen(*arguments: str):
    processes = Chosen()
    ran = CliRunner().invoke(
        controller, ["--namespace=aaq", "--tls-dir=", *arguments], obj=processes
    )
    return ran, None if processes.settings is None else processes.settings.counting.sidecars


def test_without_the_option_there_are_no_sidecars():
    ran, sidecars = chosen()

    assert (ran.exit_code, sidecars) == (0, None)


@pytest.mark.parametrize("option", ["--sidecars=2", "--evaluators-sidecars=2"])
def test_the_number_of_sidecars_is_given_in_our_words_or_aaqs(option):
    _, sidecars = chosen(option)

    assert sidecars == SidecarSettings(expected=2)
    assert sidecars.folder == "/var/run/aaq-sockets"


def test_everything_can_be_chosen():
    _, sidecars = chosen(
        *("--sidecars=1", "--sidecar-sockets=/run/s", "--sidecar-scope=pod"),
        *("--sidecar-failure=native", "--sidecar-timeout=500ms", "--sidecar-trust=owner"),
    )

    assert sidecars == SidecarSettings(
        expected=1,
        folder="/run/s",
        scope=SidecarScope.POD,
        fallback=SidecarFallback.NATIVE,
        trust=SidecarTrust.OWNER,
        timeout_s=0.5,
    )


@pytest.mark.parametrize(
    "wrong", ["--sidecars=-1", "--sidecars=33", "--sidecar-scope=node", "--sidecar-timeout=0s"]
)
def test_a_wrong_value_is_refused_with_the_name_of_the_option(wrong):
    ran, _ = chosen("--sidecars=1", wrong)

    assert ran.exit_code == 2
    assert wrong.partition("=")[0] in ran.output
