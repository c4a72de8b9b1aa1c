"""Decoding of rules about other pods."""

from typing import Any

import pytest

from bursar.core.model.pod import NO_RULES, HostPort
from bursar.wire.structs.fields import FieldError
from support.builders.random_objects import as_pod


def decoded(spec: dict[str, Any], **labels: str) -> Any:
    return as_pod({"metadata": {"name": "p", "labels": labels}, "spec": spec}).rules


def term(**fields: Any) -> dict[str, Any]:
    wanted = {"topologyKey": "zone", **fields}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}}


def test_most_pods_share_the_same_empty_rules():
    assert decoded({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}) is NO_RULES


def test_ports_of_containers_and_sidecars_are_taken_from_the_node():
    port = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    spec = {
        "containers": [
            {"name": "c", "ports": [{"hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}]}
        ],
        "initContainers": [
            {"name": "i", "ports": [{"hostPort": 99}]},
            {"name": "s", "restartPolicy": "Always", **port},
        ],
    }

    assert decoded(spec).host_ports == (
        HostPort(port=81, protocol="UDP", address="10.0.0.1"),
        HostPort(port=80),
    )


def test_with_host_network_each_port_is_one_of_the_node():
    spec = {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}

    assert decoded(spec).host_ports == (HostPort(port=80),)


def test_a_term_is_about_its_own_namespace_unless_it_says_otherwise():
    def of(**fields: Any) -> Any:
        return decoded({"affinity": term(**fields)}).affinity[0]

    assert of().own_namespace
    assert of(namespaces=[]).own_namespace
    assert not of(namespaces=["a", None]).own_namespace
    assert of(namespaces=["a"]).namespaces == ("a",)
    assert not of(namespaceSelector={}).own_namespace
    assert of(namespaceSelector={}).namespace_selector.is_empty


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    def selector(**fields: Any) -> Any:
        return decoded({"affinity": term(**fields)}).affinity[0].selector

    assert not selector().matches({})
    assert selector(labelSelector={}).matches({})
    expressions = [{"key": "app", "operator": "In", "values": ["a", None]}]
    assert selector(labelSelector={"matchExpressions": expressions}).matches({"app": "a"})


def test_label_keys_are_added_as_the_api_server_adds_them():
    fields = {"matchLabelKeys": ["hash", "none"], "mismatchLabelKeys": ["tenant"]}
    spec = {"affinity": term(labelSelector={"matchLabels": {"app": "web"}}, **fields)}
    [found] = decoded(spec, hash="1", tenant="me").affinity

    assert str(found.selector) == "app=web,hash in (1),tenant notin (me)"


def test_only_constraints_that_can_refuse_a_node_are_kept():
    spec = {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            {
                "topologyKey": "zone",
                "maxSkew": 2,
                "whenUnsatisfiable": "DoNotSchedule",
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            },
        ]
    }
    [rule] = decoded(spec).spread

    assert (rule.max_skew, rule.min_domains) == (2, 1)
    assert (rule.honors_affinity, rule.honors_taints) == (False, True)


def test_an_unreadable_selector_is_named_by_its_field():
    wrong = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["a"]}]}
    with pytest.raises(FieldError, match=r"podAffinity.*labelSelector.*Like"):
        decoded({"affinity": term(labelSelector=wrong)})


def test_volumes_that_tie_a_pod_to_nodes_are_named():
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    volumes = [{"name": "a", **claim}, {"name": "b", "emptyDir": {}}, {"name": "c", "csi": {}}]

    assert decoded({"volumes": volumes}).volumes == ("a", "c")


def test_the_kind_of_the_controller_is_kept():
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    metadata = {"name": "p", "ownerReferences": [{**owner, "controller": True}]}

    assert as_pod({"metadata": metadata}).controller_kind == "DaemonSet"
    assert as_pod({"metadata": {"name": "p"}}).controller_kind == ""
