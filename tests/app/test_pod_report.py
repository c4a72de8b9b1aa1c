"""The pod report: what a pod counts for and why, put together from one defaulted pod."""

from bursar.app.reports.pod import pod_report
from support.builders.random_objects import as_node, as_pod


def raw(containers: list[dict], **rest: object) -> dict:
    spec = {"containers": containers, **rest.pop("spec", {})}
    return {"metadata": {"name": "web", "namespace": "d", "uid": "u"}, "spec": spec, **rest}


def limited(name: str = "app", **limits: str) -> dict:
    return {"name": name, "image": "i", "resources": {"limits": limits}}


def test_a_limit_without_a_request_is_requested_and_makes_the_pod_guaranteed():
    report = pod_report(as_pod(raw([limited(cpu="1", memory="1Gi")])))

    assert {name: str(each.amount) for name, each in report.requests.items()} == {
        "cpu": "1",
        "memory": "1Gi",
    }
    assert report.qos.qos.value == "Guaranteed"
    assert str(report.containers[0].requests["cpu"]) == "1"


def test_containers_come_in_the_order_they_start():
    pod = raw(
        [limited("app")],
        spec={"initContainers": [limited("setup"), {**limited("mesh"), "restartPolicy": "Always"}]},
    )

    report = pod_report(as_pod(pod))

    assert [(c.name, c.cgroup.kind.value) for c in report.containers] == [
        ("setup", "init"),
        ("mesh", "sidecar"),
        ("app", "container"),
    ]


def test_how_a_container_ended_last_is_told_only_if_it_ended():
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod = raw(
        [limited("fat"), limited("fit")],
        status={
            "containerStatuses": [
                {"name": "fat", "state": {"running": {}}, "lastState": killed},
                {"name": "fit", "state": {"running": {}}},
            ]
        },
    )

    fat, fit = pod_report(as_pod(pod)).containers

    assert fat.last_state is not None
    assert (fat.last_state.reason, fat.last_state.exit_code) == ("OOMKilled", 137)
    assert fit.last_state is None


def test_the_oom_score_of_a_burstable_pod_needs_the_memory_of_its_node():
    pod = as_pod(raw([{"name": "app", "resources": {"requests": {"memory": "1Gi"}}}]))
    node = as_node({"metadata": {"name": "n"}, "status": {"capacity": {"memory": "4Gi"}}})

    assert pod_report(pod).containers[0].cgroup.oom_score_adj is None
    assert pod_report(pod, node).containers[0].cgroup.oom_score_adj == 750


def test_problems_and_warnings_are_those_of_the_stored_pod():
    pod = raw([limited(**{"example.com/foo": "1500m", "memory": "100m"})])

    report = pod_report(as_pod(pod))

    assert {text.partition(": ")[0] for text in report.errors} == {
        "spec.containers[0].resources.limits[example.com/foo]",
        "spec.containers[0].resources.requests[example.com/foo]",
    }
    assert len(report.warnings) == 2
    assert all("fractional byte value" in warning for warning in report.warnings)
