"""`bursar top licences`, `bursar scheduler-config` and the options of `bursar extender`."""

import json

import pytest
import yaml
from click.testing import CliRunner

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.pools.extender import extender
from bursar.cli.pools.scheduler_config import scheduler_config
from bursar.cli.top.top import top
from support.builders.manifests import a_manifest, namespace_manifest
from support.extender.processes import cluster_resource, licensed_pod

LICENCE = "example.com/licence"
SCENE = [
    cluster_resource("pool", LICENCE, 3),
    cluster_resource("second", LICENCE, 9),
    namespace_manifest("wing", team="cfd"),
    licensed_pod("wing/one", LICENCE, 2, node="n", phase="Running"),
    licensed_pod("wing/done", LICENCE, 1, node="n", phase="Succeeded"),
    licensed_pod("rotor/over", LICENCE, 2, node="n", phase="Running"),
    licensed_pod("rotor/waits", LICENCE, 1),
    licensed_pod("rotor/gated", LICENCE, 1, schedulingGates=[{"name": "g"}]),
]


class Processes:
    """Starts nothing."""

    def __init__(self):
        self.started = []

    def extender(self, settings):
        self.started.append(settings)


def asked(command, *arguments, scene=SCENE):
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": scene})
    return CliRunner().invoke(command, arguments, input=text, standalone_mode=False)


def test_pools_are_shown_with_what_is_used_and_waits():
    shown = asked(top, "licences", "-f", "-")

    assert shown.stdout.splitlines() == [
        "NAME     RESOURCE              CAPACITY   FREE   USED   PODS   WAITING   WAITING PODS",
        "pool     example.com/licence   3          -1     4      2      1         1",
        "second   example.com/licence   9          9      0      0      0         0",
    ]
    assert shown.stderr == "bursar: second is not in use: pool is used instead\n"


def test_namespaces_are_shown_by_what_they_hold():
    shown = asked(top, "licences", "-f", "-", "--by-namespace")

    assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
        ["pool", "rotor", "2", "1", "1", "1"],
        ["pool", "wing", "2", "1", "0", "0"],
    ]


def test_pools_are_selected_sorted_and_named():
    shown = asked(top, "licences", "-f", "-", "--sort-by", "-capacity", "-o", "name")
    assert shown.stdout == "clusterresource/second\nclusterresource/pool\n"

    chosen = "metadata.name=second"
    shown = asked(top, "licences", "-f", "-", "--field-selector", chosen, "-o", "name")
    assert shown.stdout == "clusterresource/second\n"


def test_one_namespace_may_be_shown():
    shown = asked(top, "licences", "-f", "-", "--by-namespace", "-n", "wing", "--no-headers")

    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["pool", "wing", "2", "1", "0", "0"]
    ]


def test_the_document_has_shares_and_namespaces():
    share = {"name": "each", "namespaceSelector": {}, "maximum": 2, "perNamespace": True}
    scene = [cluster_resource("pool", LICENCE, 3, shares=[share]), *SCENE[2:]]
    found = json.loads(asked(top, "licences", "-f", "-", "-o", "json", scene=scene).stdout)

    (pool,) = found["clusterResources"]
    assert (pool["capacity"], pool["free"], pool["used"], pool["waiting"]) == ("3", "-1", "4", "1")
    assert [(each["namespace"], each["used"]) for each in pool["shares"]] == [
        ("rotor", "2"),
        ("wing", "2"),
    ]
    assert [each["namespace"] for each in pool["namespaces"]] == ["rotor", "wing"]


def test_without_pools_there_is_one_line_on_standard_error():
    shown = asked(top, "licences", "-f", "-", scene=SCENE[2:])

    assert (shown.stdout, shown.stderr) == ("", "bursar: no ClusterResource\n")


def test_a_pool_that_cannot_be_used_is_bad_input():
    wrong = cluster_resource("pool", "cpu", 3)
    failed = asked(top, "licences", "-f", "-", scene=[wrong])

    assert isinstance(failed.exception, BadInputError)
    assert "ClusterResource pool: spec.resourceName" in str(failed.exception)
    nameless = a_manifest("bursar.io/v1alpha1", "ClusterResource", "", spec={})
    assert isinstance(asked(top, "licences", "-f", "-", scene=[nameless]).exception, BadInputError)


def test_the_configuration_manages_the_resources_of_the_pools():
    config = yaml.safe_load(asked(scheduler_config, "-f", "-").stdout)

    (found,) = config["extenders"]
    assert found["urlPrefix"] == "https://bursar-extender.aaq.svc/scheduler"
    assert found["managedResources"] == [{"name": LICENCE, "ignoredByScheduler": True}]
    assert "serverName" not in found["tlsConfig"]
    assert config["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}


def test_the_configuration_with_named_resources_reads_nothing():
    arguments = ["--resource", LICENCE, "--url", "https://10.0.0.7", "--scheduler-kubeconfig="]
    arguments += ["--scheduler-name", "batch", "-o", "json"]
    config = json.loads(asked(scheduler_config, *arguments).stdout)

    assert config["profiles"] == [{"schedulerName": "batch"}]
    assert config["extenders"][0]["tlsConfig"]["serverName"] == "bursar-extender.aaq.svc"
    assert "clientConnection" not in config


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--resource", "cpu"], "cpu: not the name of an extended resource"),
        (["--resource", LICENCE, "--url", "http://x"], "--url must start with https://"),
        (["-f", "-"], "no ClusterResource, and no --resource"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(arguments, problem):
    assert problem in str(asked(scheduler_config, *arguments, scene=SCENE[2:]).exception)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give --client-ca, or --any-client for tests"),
        (["--client-ca=x", "--any-client"], "give --client-ca, or --any-client for tests"),
        (["--any-client", "--client-name=x"], "--client-name needs --client-ca"),
        (["--client-ca=x", "--lease-duration=500ms"], "--lease-duration: whole seconds"),
        (["--client-ca=x", "--renew-deadline=1h"], "renew deadlines"),
    ],
)
def test_an_extender_that_cannot_work_is_refused(arguments, problem):
    ran = CliRunner().invoke(extender, arguments, obj=Processes(), standalone_mode=False)

    assert problem in str(ran.exception)


def test_the_extender_gets_its_settings():
    processes = Processes()
    arguments = ["--client-ca=ca.crt", "--client-name=system:kube-scheduler", "--hold=10s"]
    ran = CliRunner().invoke(
        extender,
        [*arguments, "--bind=0.0.0.0:7443"],
        obj=processes,
        env={"POD_IP": "10.1.2.3"},
        standalone_mode=False,
    )

    assert ran.exception is None
    (settings,) = processes.started
    assert settings.address == ("10.1.2.3", 7443)
    assert (settings.hold_s, settings.client_names) == (10, ("system:kube-scheduler",))
