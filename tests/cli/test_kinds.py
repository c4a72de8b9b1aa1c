"""Kinds as kubectl takes them, in the groups whose commands are about kinds."""

import json

import pytest

from support.builders.manifests import arq_manifest, pod_manifest
from support.processes.command_line import run_bursar

SCENE = "\n---\n".join(
    json.dumps(each)
    for each in (
        pod_manifest("shop/web", requests="cpu=1"),
        pod_manifest("shop/db", requests="cpu=1"),
        arq_manifest("shop/team-a", {"memory": "1Gi"}),
    )
).encode()


def described(*arguments):
    return run_bursar("describe", *arguments, "-f", "-", stdin=SCENE)


@pytest.mark.parametrize(
    "typed",
    [("po", "web"), ("pods", "web"), ("pod/web",), ("pods/web",), ("po/web",), ("Pod", "web")],
)
def test_a_pod_is_found_by_every_name_that_kubectl_takes(typed):
    plain = described("pod", "web")

    assert plain.code == 0, plain.err
    assert described(*typed) == plain


@pytest.mark.parametrize(
    "typed",
    [
        *(("quotas",), ("resourcequota",), ("resourcequotas",), ("arq", "team-a")),
        *(("arq/team-a",), ("applicationawareresourcequotas.aaq.kubevirt.io", "team-a")),
    ],
)
def test_a_quota_is_found_by_the_names_of_its_kinds(typed):
    plain = described("quota")

    assert plain.code == 0, plain.err
    assert described(*typed) == plain


@pytest.mark.parametrize("typed", ["service/web", "web", "/web"])
def test_a_kind_that_no_command_is_about_is_named_in_the_error(typed):
    ran = described(typed)

    assert ran.code == 2
    assert ran.err == f"bursar: describe: no such command '{typed}'; see bursar describe --help\n"


def test_a_kind_without_a_name_is_corrected():
    ran = described("pod/")

    assert ran.err == (
        "bursar: describe: no such command 'pod/'; did you mean 'pod'? See bursar describe --help\n"
    )


def test_errors_name_the_command_by_its_own_name():
    ran = described("po/web", "--no-such-option")

    assert ran.err.endswith("; see bursar describe pod --help\n")


@pytest.mark.parametrize("typed", ["deploy", "StatefulSets", "deployment.apps/web"])
def test_a_workload_is_shown_as_pods(typed):
    ran = described(typed)

    assert ran.code == 2
    assert ran.err == (
        f"bursar: describe: '{typed.partition('/')[0]}' is shown as pods; "
        "did you mean 'bursar describe pod'? See bursar describe --help\n"
    )
