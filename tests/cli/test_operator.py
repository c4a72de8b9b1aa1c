"""The options of `bursar operator`, and its part of `bursar manifests`."""

import pytest
from click.testing import CliRunner

from bursar.app.certificates.aaq_names import TLS_SECRET
from bursar.cli.processes.controller import controller
from bursar.cli.processes.operator import operator
from support.install.printed import printed_objects

RUN = {"Deployment", "ServiceAccount", "ClusterRole", "Role"}


class Chosen:
    """Takes the place of the processes, and keeps what would be started."""

    settings = None

    def operator(self, settings):
        self.settings = settings

    controller = operator


def chosen(*arguments, command=operator, **environment):
    processes = Chosen()
    ran = CliRunner().invoke(command, arguments, obj=processes, env=environment)
    return ran, processes.settings


def test_settings_are_those_of_the_options():
    ran, settings = chosen(
        *("--image=b:2", "--namespace=home", "--replicas=3", "--probes=127.0.0.1:1"),
        f"--tls-secret={TLS_SECRET}",
    )

    assert ran.exit_code == 0
    assert (settings.image, settings.namespace, settings.replicas) == ("b:2", "home", 3)
    assert settings.probes == ("127.0.0.1", 1)
    assert settings.tls_source.secret == TLS_SECRET
    names = {each["metadata"]["name"] for each in settings.definitions}
    assert "applicationawareresourcequotas.aaq.kubevirt.io" in names
    assert "aaqs.aaq.kubevirt.io" not in names


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["--image= "], "not the name of an image"), (["--probes=here"], "host:port is expected")],
)
def test_bad_options_are_refused(arguments, problem):
    ran, settings = chosen(*arguments)

    assert ran.exit_code == 2
    assert problem in ran.output
    assert settings is None


def test_the_controller_takes_tls_from_its_environment():
    _, settings = chosen("--namespace=aaq", command=controller, TLS_MIN_VERSION="VersionTLS13")

    assert settings.tls.least.name == "TLSv1_3"


def test_the_deployment_starts_with_options_that_the_command_has():
    (deployment,) = [
        each
        for each in printed_objects("operator", "--image", "b:2")
        if each["kind"] == "Deployment"
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    verb, *arguments = container["args"]
    ran, settings = chosen(*arguments)

    assert (verb, ran.exit_code) == ("operator", 0)
    assert settings.image == container["image"] == "b:2"


def test_the_operator_writes_only_objects_that_are_named():
    """Except that RBAC cannot name what is created, and what other roles permit anyway."""
    role, home = (
        next(each for each in printed_objects("operator") if each["kind"] == kind)
        for kind in ("ClusterRole", "Role")
    )
    free = {
        (each["apiGroups"][0], resource, verb)
        for rules in (role["rules"], home["rules"])
        for each in rules
        if "resourceNames" not in each and "nonResourceURLs" not in each
        for resource in each["resources"]
        for verb in each["verbs"]
        if verb not in {"get", "list", "watch"}
    }

    assert "*" not in {each for three in free for each in three}
    admission = {each for each in free if each[0] == "admissionregistration.k8s.io"}
    rbac = {each for each in free if each[0] == "rbac.authorization.k8s.io"}
    assert admission == rbac == set()
    assert ("apps", "deployments", "patch") not in free
    assert ("apiextensions.k8s.io", "customresourcedefinitions", "delete") not in free


def test_the_part_is_complete_in_itself():
    found = printed_objects("operator", "-n", "home")

    assert {each["kind"] for each in found} >= RUN
    places = {each["metadata"].get("namespace") for each in found}
    assert places == {None, "home"}
