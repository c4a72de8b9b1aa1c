"""Verdicts on manifests: what random and recorded manifests cannot show."""

import sys

import pytest

from bursar.core.model.names import subdomain_errors
from bursar.wire.documents.stream import read_documents
from bursar.wire.model.objects import read_objects
from bursar.wire.validation.metadata import object_metadata
from bursar.wire.validation.section import Section
from bursar.wire.validation.verdict import Verdict, verdict_on
from bursar.wire.validation.workloads import replication_controller_problems
from support.builders.random_objects import as_pod

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: web{meta}}}
spec:
  containers: [{containers}]
"""
CONTAINER = "{name: app, image: example.com/app%s}"


def verdict(text: str) -> Verdict:
    (entry,) = [each for doc in read_documents([text.encode()]) for each in read_objects(doc)]
    kind = entry.value["kind"]
    return verdict_on(kind, entry.value, entry.decoded if kind == "Pod" else entry.decoded.pod)


def pod_yaml(container: str = "", meta: str = "", spec: str = "") -> str:
    return POD.format(meta=meta, containers=CONTAINER % container) + spec


def test_a_good_pod_has_no_errors_and_nothing_left_open():
    assert verdict(pod_yaml()) == Verdict(errors=(), not_checked=())


def test_a_misspelt_policy_and_an_unknown_field_are_refused_in_the_servers_words():
    found = verdict(pod_yaml(spec="  restartPolicy: Alwyas\n  hostNetwrok: true\n"))

    assert found.errors == (
        'strict decoding error: unknown field "spec.hostNetwrok"',
        (
            'spec.restartPolicy: Unsupported value: "Alwyas": '
            'supported values: "Always", "OnFailure", "Never"'
        ),
    )


@pytest.mark.parametrize(
    ("number", "is_accepted"),
    [("1.0", True), ("1.5", False), ("3000000000", False), ("0x10", True)],
)
def test_numbers_are_read_as_kubectl_sends_them(number, is_accepted):
    probe = f"{{tcpSocket: {{port: 80}}, initialDelaySeconds: {number}}}"
    found = verdict(pod_yaml(f", livenessProbe: {probe}"))

    assert (not found.errors) == is_accepted


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (", managedFields: [{time: 5}]", "metadata.managedFields[0].time: a time is expected"),
        (", managedFields: [{time: x}]", "metadata.managedFields[0].time: not an RFC 3339 time"),
        (", managedFields: [{fieldsV1: 5}]", "metadata.managedFields[0].fieldsV1: an object is"),
    ],
)
def test_values_of_a_wrong_type_are_named(meta, text):
    (error,) = verdict(pod_yaml(meta=meta)).errors

    assert error.startswith(text)


def test_no_more_errors_are_listed_than_the_server_lists():
    wrong = ", ".join(f"{{name: a{n}, value: [x]}}" for n in range(120))
    unknown = ", ".join(f"x{n}: 1" for n in range(120))

    assert len(verdict(pod_yaml(f", env: [{wrong}]")).errors) == 100
    assert verdict(pod_yaml(f", {unknown}")).errors[0].count("unknown field") == 100


def test_what_is_not_checked_is_said():
    annotation = "scheduler.alpha.kubernetes.io/tolerations"
    privileged = verdict(pod_yaml(", securityContext: {privileged: true}"))
    annotated = verdict(pod_yaml(meta=f", annotations: {{{annotation}: x}}"))
    cron = verdict(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: web}\nspec:\n"
        "  schedule: '@daily'\n  timeZone: Mars/Base\n"
        "  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: ["
        "{name: a, image: b}]}}}}\n"
    )

    assert privileged.not_checked == (
        "privileged containers: whether the API server runs with --allow-privileged",
    )
    assert annotated.not_checked == (f"metadata.annotations[{annotation}]: its content",)
    assert cron.not_checked == (
        'spec.timeZone: whether the API server knows a time zone "Mars/Base"',
    )


def test_large_texts_are_refused():
    big = "x" * (256 * 1024)
    annotated = verdict(pod_yaml(meta=f", annotations: {{a: {big}}}"))
    options = f"{{windowsOptions: {{gmsaCredentialSpec: {big}}}}}"
    credential = verdict(pod_yaml(f", securityContext: {options}"))

    assert annotated.errors == (
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    )
    assert credential.errors[0].endswith("gmsaCredentialSpec size must be under 64 KiB")


def test_a_stored_pod_may_have_ephemeral_containers():
    debug = "  ephemeralContainers: [{name: d, image: i}]\n"

    assert verdict(pod_yaml(spec=debug)).errors == (
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
    )
    assert verdict(pod_yaml(meta=", uid: u", spec=debug)).errors == ()


def test_zero_is_a_value_where_go_has_a_pointer():
    def errors(metadata: str) -> list[str]:
        claim = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
        template = f"{{metadata: {{{metadata}}}, spec: {claim}}}"
        volume = f"{{name: v, ephemeral: {{volumeClaimTemplate: {template}}}}}"
        return list(verdict(pod_yaml(spec=f"  volumes: [{volume}]\n")).errors)

    field = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.deletionGracePeriodSeconds"
    assert errors("deletionGracePeriodSeconds: 0") == [f"{field}: Forbidden: cannot be set"]
    assert errors("deletionGracePeriodSeconds: null, generation: 0, name: ''") == []


def test_metadata_without_a_name_or_with_a_bad_namespace():
    def texts(**meta: str) -> list[str]:
        section = Section(dict(meta), "metadata")
        return [str(problem) for problem in object_metadata(section, subdomain_errors)]

    assert texts() == ["metadata.name: Required value: name or generateName is required"]
    (error,) = texts(name="web", namespace="Bad")
    assert error.startswith('metadata.namespace: Invalid value: "Bad"')


def test_a_replication_controller_needs_a_template():
    document = Section({"metadata": {"name": "web"}, "spec": {"selector": {"a": "b"}}}, "")
    pod = as_pod({"metadata": {"name": "web"}})

    found = [str(problem) for problem in replication_controller_problems(document, pod)]

    assert found == ["spec.template: Required value"]


def job(policy: str, completions: str = "") -> str:
    return (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec:\n"
        f"  completionMode: Indexed\n  parallelism: 1\n{completions}"
        f"  successPolicy: {{rules: [{policy}]}}\n"
        "  template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}\n"
    )


def test_rules_of_success_wait_for_the_completions_that_they_refer_to():
    found = verdict(job("{succeededCount: 5}"))

    assert found.errors == ("spec.completions: Required value: when completion mode is Indexed",)


def test_a_text_of_indexes_is_bounded():
    indexes = ",".join(str(n) for n in range(20_000))
    found = verdict(job(f"{{succeededIndexes: '{indexes}'}}", "  completions: 20000\n"))

    assert found.errors == (
        "spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes",
    )


def calls_for(count: int) -> int:
    """How many calls a verdict on a pod with so many containers, volumes and mounts takes."""
    names = [f"c{n}" for n in range(count)]
    containers = [
        {"name": name, "image": "i", "volumeMounts": [{"name": name, "mountPath": "/x"}]}
        for name in names
    ]
    spec = {"containers": containers, "volumes": [{"name": name} for name in names]}
    manifest = {"metadata": {"name": "web"}, "spec": spec}
    pod, calls = as_pod(manifest), 0

    def count_call(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count_call)
    try:
        found = verdict_on("Pod", manifest, pod)
    finally:
        sys.setprofile(None)
    assert found.errors == ()
    return calls


def test_a_pod_of_many_containers_takes_work_in_proportion():
    assert calls_for(2000) < 2.1 * calls_for(1000)
