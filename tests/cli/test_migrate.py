"""`bursar migrate`: its command lines, and manifests that it makes from files."""

import json

import pytest
import yaml

from support.processes.command_line import run_bursar

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "team"},
    "spec": {"hard": {"pods": "5", "limits.cpu": "2"}},
}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("aaq", "--apply", "--back"), "--apply excludes --check and --back"),
        (("aaq", "--apply", "--check"), "--apply excludes --check and --back"),
        (("aaq", "--apply"), "name Bursar's manifests with -f"),
        (("aaq", "--back"), "name Bursar's manifests with -f"),
        (("resourcequotas", "--delete-originals"), "--delete-originals needs --apply"),
        (("resourcequotas", "-f", "x", "--apply"), "-f prints manifests"),
        (("resourcequotas", "-f", "x", "--context", "c"), "-f reads files"),
    ],
)
def test_what_is_wanted_has_to_be_said_in_one_way(arguments, complaint):
    ran = run_bursar("migrate", *arguments)

    assert ran.code == 2
    assert complaint in ran.err


def test_a_cluster_that_is_not_known_is_said_in_one_line(tmp_path):
    ran = run_bursar("migrate", "aaq", "--kubeconfig", str(tmp_path / "none"))

    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1


def test_manifests_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "bursar.yaml"
    path.write_text("a: [")
    ran = run_bursar("migrate", "aaq", "--check", "-f", str(path))

    assert ran.code == 2
    assert "bursar.yaml" in ran.err


def test_quotas_of_files_become_manifests_and_what_differs_is_told():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    stdin = yaml.safe_dump_all([QUOTA, other]).encode()
    ran = run_bursar("migrate", "resourcequotas", "-f", "-", stdin=stdin)

    assert ran.code == 0, ran.err
    (made,) = yaml.safe_load_all(ran.out)
    assert made["kind"] == "ApplicationAwareResourceQuota"
    assert made["spec"] == QUOTA["spec"]
    assert "ResourceQuota team/q: The original refuses pods that state nothing" in ran.err
    assert "Both quotas count while both exist" in ran.err


def test_json_is_a_list_that_kubectl_reads():
    stdin = yaml.safe_dump(QUOTA).encode()
    ran = run_bursar("migrate", "resourcequotas", "q", "-f", "-", "-o", "json", stdin=stdin)

    assert json.loads(ran.out)["kind"] == "List"
    assert [each["metadata"]["name"] for each in json.loads(ran.out)["items"]] == ["q"]


def test_a_quota_that_is_named_and_missing_is_an_error():
    stdin = yaml.safe_dump(QUOTA).encode()
    ran = run_bursar("migrate", "resourcequotas", "other", "-f", "-", stdin=stdin)

    assert (ran.code, ran.err) == (2, "bursar: no quota is named other\n")


def test_without_a_quota_nothing_is_printed():
    stdin = yaml.safe_dump(QUOTA).encode()
    ran = run_bursar("migrate", "resourcequotas", "-n", "no", "-f", "-", stdin=stdin)

    assert (ran.code, ran.out) == (0, "")
    assert "there is no quota to import" in ran.err
