"""AAQ objects are read with AAQ's defaults, and mistakes name their field."""

import json

import pytest

from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.operator.tls import TlsSecurityProfile
from bursar.wire.aaq import AaqSpec, AaqStatus, CertificateLife, WrittenCondition, decode_aaq


def decoded(spec=None, **more):
    body = {"metadata": {"name": "aaq", "uid": "u"}, "spec": spec, **more}
    return decode_aaq(json.dumps(body).encode())


@pytest.mark.parametrize("spec", [None, {}, {"configuration": {}, "infra": None}])
def test_an_empty_spec_has_the_defaults_of_aaq(spec):
    found = decoded(spec)

    assert found.spec == AaqSpec()
    assert (found.problem, found.status) == ("", AaqStatus())
    assert found.spec.ca == CertificateLife(duration_s=172_800, renew_before_s=86_400)
    assert found.spec.server == CertificateLife(duration_s=86_400, renew_before_s=43_200)
    assert found.spec.vmi_mode is VmiMode.DEDICATED


def test_every_field_is_read():
    placement = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "affinity": {"x": {}}}
    sidecar = {"name": "counter", "image": "counter:1", "args": ["--x"]}
    found = decoded(
        {
            "imagePullPolicy": "Never",
            "infra": placement,
            "workload": {"nodeSelector": {"a": "b"}},
            "certConfig": {
                "ca": {"duration": "20m", "renewBefore": "5m0s"},
                "server": {"duration": "5m0s"},
            },
            "priorityClass": "system-cluster-critical",
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "configuration": {
                "vmiCalculatorConfiguration": {"configName": "VirtualResources"},
                "sidecarEvaluators": [sidecar],
                "allowApplicationAwareClusterResourceQuota": True,
            },
            "tlsSecurityProfile": {
                "type": "Custom",
                "custom": {"ciphers": ["AES128-SHA"], "minTLSVersion": "VersionTLS12"},
            },
        }
    )

    assert found.spec == AaqSpec(
        pull_policy="Never",
        infra=placement,
        has_workload=True,
        ca=CertificateLife(duration_s=1200, renew_before_s=300),
        server=CertificateLife(duration_s=300, renew_before_s=150),
        priority_class="system-cluster-critical",
        namespace_selector=LabelSelector(
            match_expressions=(LabelExpression(key="a", operator="Exists"),)
        ),
        vmi_mode=VmiMode.VIRTUAL,
        sidecars=(sidecar,),
        allows_cluster_quota=True,
        tls=TlsSecurityProfile(type="Custom", version="VersionTLS12", ciphers=("AES128-SHA",)),
    )


def test_no_selector_and_an_empty_one_are_different():
    assert decoded({"namespaceSelector": None}).spec.namespace_selector is None
    assert decoded({"namespaceSelector": {}}).spec.namespace_selector == LabelSelector()


@pytest.mark.parametrize(
    ("written", "profile"),
    [
        ({}, TlsSecurityProfile(type="Intermediate")),
        ({"type": "Modern", "modern": {}}, TlsSecurityProfile(type="Modern")),
        ({"type": "Old", "custom": {}}, TlsSecurityProfile(type="Custom")),
    ],
)
def test_tls_profiles(written, profile):
    assert decoded({"tlsSecurityProfile": written}).spec.tls == profile


def test_what_is_no_placement_and_no_sidecar_places_and_counts_nothing():
    found = decoded({"infra": [], "configuration": {"sidecarEvaluators": []}}).spec

    assert (found.infra, found.sidecars) == ({}, ())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"imagePullPolicy": "Often"}, "spec.imagePullPolicy: Always"),
        ({"certConfig": {"ca": {"duration": "soon"}}}, "spec.certConfig.ca.duration: a duration"),
        (
            {"certConfig": {"server": {"duration": "1h", "renewBefore": "2h"}}},
            "spec.certConfig.server.renewBefore: more than 0s",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}},
            "spec.namespaceSelector: ",
        ),
        (
            {"configuration": {"vmiCalculatorConfiguration": {"configName": "Guess"}}},
            "spec.configuration.vmiCalculatorConfiguration.configName: one of VmiPodUsage",
        ),
        ({"priorityClass": 7}, "spec.priorityClass: "),
    ],
)
def test_a_spec_that_cannot_be_read_leaves_the_object_known(spec, problem):
    found = decoded(spec)

    assert found.spec is None
    assert found.problem.startswith(problem)
    assert (found.name, found.uid) == ("aaq", "u")


def test_metadata_and_status_are_read():
    found = decode_aaq(
        json.dumps(
            {
                "metadata": {
                    "name": "aaq",
                    "creationTimestamp": "2026-11-17T00:00:00Z",
                    "deletionTimestamp": "2026-11-17T01:00:00Z",
                    "finalizers": ["f"],
                    "labels": {"c": "d"},
                    "annotations": {"a": "b"},
                },
                "status": {
                    "phase": "Deployed",
                    "operatorVersion": "1",
                    "targetVersion": "2",
                    "observedVersion": "3",
                    "conditions": [
                        {"type": "Available", "status": "True", "lastTransitionTime": "t"},
                        {},
                    ],
                },
            }
        ).encode()
    )

    assert found.is_deleting
    assert found.finalizers == ("f",)
    assert found.labels == {"c": "d"}
    assert found.annotations == {"a": "b"}
    empty = WrittenCondition(type="", status="", reason="", message="", since="")
    assert found.status == AaqStatus(
        phase="Deployed",
        operator_version="1",
        target_version="2",
        observed_version="3",
        conditions=(
            WrittenCondition(type="Available", status="True", reason="", message="", since="t"),
            empty,
        ),
    )


def test_a_body_without_anything_is_an_object_without_a_name():
    assert decode_aaq(b"{}").name == ""
