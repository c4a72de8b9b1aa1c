"""Options of certificates: what excludes what, and what the processes are given."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from click.testing import CliRunner

from bursar.cli.processes.controller import controller
from bursar.cli.processes.options.process import TLS_FOLDER
from bursar.cli.processes.webhook import webhook


@dataclass
class Started:
    """`Processes` that note their settings and start nothing."""

    settings: list = field(default_factory=list)

    def controller(self, settings) -> None:
        self.settings.append(settings)

    webhook = controller


def settings_of(verb, *arguments):
    started = Started()
    ran = CliRunner().invoke(verb, ["--namespace=home", *arguments], obj=started)
    assert ran.exit_code == 0, ran.output
    return started.settings[0]


def refusal_of(verb, *arguments) -> str:
    ran = CliRunner().invoke(verb, arguments, obj=Started())
    assert ran.exit_code == 2, ran.output
    return ran.output


@pytest.mark.parametrize("verb", [controller, webhook])
def test_a_folder_is_the_default_and_a_secret_replaces_it(verb):
    folder, secret = settings_of(verb), settings_of(verb, "--tls-secret=mine")

    assert (folder.tls_source.folder, folder.tls_source.secret) == (TLS_FOLDER, "")
    assert (secret.tls_source.folder, secret.tls_source.secret) == ("", "mine")


@pytest.mark.parametrize("verb", [controller, webhook])
def test_both_are_a_usage_error(verb):
    assert "exclude each other" in refusal_of(verb, "--tls-dir=/x", "--tls-secret=mine")


def test_an_empty_folder_is_no_folder():
    source = settings_of(controller, "--tls-dir=", "--tls-secret=mine").tls_source

    assert (source.folder, source.secret) == ("", "mine")


def test_the_leader_is_trusted_by_the_secret_unless_a_file_is_named():
    assert settings_of(webhook, "--tls-secret=mine").trusts_secret
    assert not settings_of(webhook, "--tls-secret=mine", "--leader-ca=/ca").trusts_secret
    assert not settings_of(webhook).trusts_secret


def test_certificates_are_kept_only_if_asked_for():
    assert settings_of(controller, "--tls-secret=mine").certificates is None

    kept = settings_of(
        controller,
        *("--tls-secret=mine", "--keep-certificates", "--certificate-lifetime=24h"),
        *("--ca-lifetime=96h", "--certificate-name=Hook.Example.COM", "--certificate-name=FD00::1"),
    ).certificates
    assert (kept.tls_secret, kept.ca_secret, kept.namespace) == ("mine", "bursar-ca", "home")
    assert kept.certificates.lifetime == timedelta(days=1)
    assert kept.certificates.ca_lifetime == timedelta(days=4)
    assert kept.certificates.names == (
        "aaq-server.home.svc",
        "aaq-server.home.svc.cluster.local",
        "aaq-server.home",
        "aaq-controller.home.svc",
        "bursar-extender.home.svc",
        "hook.example.com",
        "fd00::1",
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--keep-certificates needs --tls-secret"),
        (["--tls-secret=mine", "--certificate-lifetime=8000h"], "at least 3 times as long"),
        (["--tls-secret=mine", "--certificate-lifetime=1ms"], "a second or longer"),
        (["--tls-secret=mine", "--ca-lifetime=999999999h"], "--ca-lifetime"),
        (["--tls-secret=mine", "--certificate-name=no name"], "no DNS name or IP address"),
    ],
)
def test_settings_that_cannot_work_are_usage_errors(arguments, problem):
    assert problem in refusal_of(controller, "--keep-certificates", *arguments)


def test_lifetimes_without_certificates_are_reported_as_ignored():
    ignored = settings_of(controller, "--tls-secret=mine", "--ca-lifetime=1h").ignored

    assert ignored == ("--ca-lifetime",)
