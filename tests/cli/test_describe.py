"""`bursar describe` as a user meets it: the examples, choices, and input that cannot be read."""

import json
from pathlib import Path

import pytest
import yaml

from support.processes.command_line import run_bursar

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers:
  - name: app
    image: example.com/app
    resources: {{limits: {{{limits}}}}}
"""


def described(kind: str, *arguments: str, stdin: bytes = b"") -> list[dict]:
    ran = run_bursar("describe", kind, *arguments, "-o", "json", stdin=stdin)
    assert ran.code in {0, 1}, ran.err
    return json.loads(ran.out)


def example(name: str) -> str:
    return str(EXAMPLES / name)


def test_two_containers_request_half_a_cpu_and_may_use_one():
    (pod,) = described("pod", "-f", example("frontend.yaml"))

    assert pod["effective"] == {
        "requests": {"cpu": "500m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "256Mi"},
    }
    assert pod["decidedBy"]["requests"]["cpu"] == {
        "rule": "sum of containers and sidecars",
        "parts": [
            {"source": "db", "kind": "container", "amount": "250m", "basis": "spec"},
            {"source": "wp", "kind": "container", "amount": "250m", "basis": "spec"},
        ],
    }
    assert (pod["qosClass"], pod["valid"], pod["errors"]) == ("Burstable", True, [])
    assert pod["containers"][0]["cgroup"]["v1"]["cpu.shares"] == "256"
    assert pod["cgroup"]["v2"]["cpu.max"] == "100000 100000"


def test_ephemeral_storage_adds_up_like_everything_else():
    (pod,) = described("pod", "-f", example("scratch.yaml"))

    assert pod["effective"] == {
        "requests": {"ephemeral-storage": "4Gi"},
        "limits": {"ephemeral-storage": "8Gi"},
    }


@pytest.mark.parametrize("amount", ["3", "3000m", "3Ki"])
def test_whole_amounts_of_an_extended_resource_are_valid(amount):
    manifest = POD.format(limits=f"example.com/foo: {amount}").encode()
    ran = run_bursar("describe", "pod", "-f", "-", "-o", "json", stdin=manifest)

    assert ran.code == 0
    assert json.loads(ran.out)[0]["valid"] is True


@pytest.mark.parametrize("amount", ["0.5", "1500m"])
def test_fractions_of_an_extended_resource_are_refused_in_upstreams_words(amount):
    manifest = POD.format(limits=f"example.com/foo: {amount}").encode()
    ran = run_bursar("describe", "pod", "-f", "-", "-o", "json", stdin=manifest)

    assert ran.code == 1
    (pod,) = json.loads(ran.out)
    assert pod["valid"] is False
    assert any(error.endswith(": must be an integer") for error in pod["errors"])
    text = run_bursar("describe", "pod", "-f", "-", stdin=manifest)
    assert "Validation errors:\n  spec.containers[0].resources" in text.out


def test_a_deployment_is_described_as_the_pod_it_would_create():
    (pod,) = described("pod", "-f", example("meshed.yaml"))

    assert pod["template"] == "Deployment shop, 3 replicas"
    assert (pod["namespace"], pod["name"]) == ("retail", "shop")
    assert pod["decidedBy"]["requests"]["cpu"]["rule"] == "init container peak"
    assert (
        "Template:   Deployment shop, 3 replicas"
        in run_bursar("describe", "pod", "-f", example("meshed.yaml")).out
    )


EVICTED = """
apiVersion: v1
kind: Pod
metadata: {name: cache}
spec: {containers: [{name: app}]}
status: {phase: Failed, reason: Evicted, message: Usage of EmptyDir volume exceeds the limit}
"""


def test_an_evicted_pod_is_described_with_the_reason_and_the_message():
    ran = run_bursar("describe", "pod", "-f", "-", stdin=EVICTED.encode())
    (pod,) = described("pod", "-f", "-", stdin=EVICTED.encode())

    assert ran.out.splitlines()[1:4] == [
        "Status:     Failed",
        "Reason:     Evicted",
        "Message:    Usage of EmptyDir volume exceeds the limit",
    ]
    assert (pod["phase"], pod["reason"]) == ("Failed", "Evicted")
    assert pod["message"] == "Usage of EmptyDir volume exceeds the limit"


def test_a_pod_that_nothing_ended_has_no_reason():
    (pod,) = described("pod", "-f", example("frontend.yaml"))

    assert (pod["phase"], pod["reason"], pod["message"]) == (None, None, None)


def test_name_and_namespace_choose_among_all_pods_of_a_folder():
    everything = described("pod", "-f", str(EXAMPLES))
    chosen = described("pod", "scratch", "-f", str(EXAMPLES))
    elsewhere = described("pod", "-f", str(EXAMPLES), "-n", "kube-system")

    assert len(everything) >= 9
    assert [pod["name"] for pod in chosen] == ["scratch"]
    assert len(elsewhere) == 5


def test_the_node_example_gives_the_numbers_of_its_page():
    (node,) = described("node", "e2e-test-node-pool-4lw4", "-f", example("node-pool.yaml"))

    assert node["allocated"]["cpu"] == {
        "requests": "680m",
        "limits": "400m",
        "requestsPercent": 37,
        "limitsPercent": 22,
    }
    assert node["allocated"]["memory"]["requests"] == "920Mi"
    assert node["stillFits"] == {"cpu": "1120m", "memory": "6532912Ki", "pods": "105"}


def test_yaml_output_says_the_same_as_json():
    ran = run_bursar("describe", "node", "-f", example("node-pool.yaml"), "-o", "yaml")

    assert yaml.safe_load(ran.out) == described("node", "-f", example("node-pool.yaml"))


def test_pods_in_the_files_that_have_no_node_are_held_against_it():
    ran = run_bursar("describe", "node", "-f", str(EXAMPLES))

    assert "  default    frontend  yes\n" in ran.out
    # The frontend, which comes first, has taken half a cpu.
    assert "no: Insufficient cpu (wants 2, 620m free), Insufficient example.com/foo" in ran.out


def test_amounts_of_a_node_that_the_api_server_would_refuse_are_shown():
    node = b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {pods: 0.5}}\n"
    shown = run_bursar("describe", "node", "-f", "-", stdin=node)
    (document,) = described("node", "-f", "-", stdin=node)

    errors = [
        f'status.{side}.pods: Invalid value: "500m": must be an integer'
        for side in ("capacity", "allocatable")
    ]
    assert shown.code == 1
    assert shown.out.endswith(
        "\n".join(["Validation errors:", *(f"  {each}" for each in errors), ""])
    )
    assert (document["valid"], document["errors"]) == (False, errors)


def test_a_node_with_valid_amounts_has_no_errors():
    ran = run_bursar("describe", "node", "-f", example("node-pool.yaml"))

    assert ran.code == 0
    assert "Validation errors" not in ran.out


def test_objects_that_are_neither_pod_nor_node_are_passed_over_with_a_word():
    service = b"---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
    manifest = POD.format(limits="cpu: 1").encode() + service
    ran = run_bursar("describe", "pod", "-f", "-", stdin=manifest)

    assert ran.code == 0
    assert ran.err == "bursar: skipped: 1 Service\n"


def test_if_nothing_is_left_that_is_said_after_what_was_passed_over():
    widget = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
    ran = run_bursar("describe", "pod", "-f", "-", stdin=widget)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "bursar: skipped: 1 Widget.example.com\nbursar: -: no pod\n"


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        (b"apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n", ["<stdin>:2:7", "kind", "Podd"]),
        (b"kind: Pod\n  broken: [\n", ["<stdin>:2:"]),
        (POD.format(limits="cpu: -1").encode(), ["limits[cpu]", "greater than or equal to 0"]),
        (POD.format(limits="cpu: 1x").encode(), ["limits[cpu]", "regular expression", "1x"]),
        (POD.format(limits="cpu: 1, cpu: 2").encode(), ["limits[cpu]", "duplicate"]),
        (b"\xff\xfe\x00", ["<stdin>", "UTF-"]),
        (b"apiVersion: v1\nkind: Pod\nspec: {containers: x}\n", ["spec.containers"]),
        (b"[" * 5000, ["<stdin>:1:", "deep"]),
        (b"", ["<stdin>", "no Kubernetes object"]),
    ],
    ids=["kind", "yaml", "negative", "quantity", "duplicate", "bytes", "type", "depth", "empty"],
)
def test_bad_input_is_one_line_that_names_the_place_and_exit_code_two(manifest, names):
    ran = run_bursar("describe", "pod", "-f", "-", stdin=manifest)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("bursar: <stdin>")
    assert len(ran.err.splitlines()) == 1
    assert [name for name in names if name not in ran.err] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pod", "-f", "/no/such/file"], "/no/such/file: no such file or directory"),
        (["pod", "nobody", "-f", example("frontend.yaml")], "no pod called nobody"),
        (["pod", "-n", "mars", "-f", example("frontend.yaml")], "no pod in namespace mars"),
        (["node", "-f", example("frontend.yaml")], "frontend.yaml: no node"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(arguments, message):
    ran = run_bursar("describe", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


def test_without_files_the_cluster_of_the_kubeconfig_is_read(tmp_path):
    ran = run_bursar("describe", "pod", KUBECONFIG=str(tmp_path / "none"))

    assert (ran.code, ran.out) == (2, "")
    assert str(tmp_path / "none") in ran.err


@pytest.mark.parametrize("kind", ["pods", "po", "Pod", "pod/scratch", "pods/scratch"])
def test_kinds_are_written_as_for_kubectl(kind):
    chosen = [] if "/" in kind else ["scratch"]
    ran = run_bursar("describe", kind, *chosen, "-f", str(EXAMPLES), "-o", "name")

    assert (ran.code, ran.out) == (0, "pod/scratch\n")
    assert run_bursar("describe", "no", "-f", example("node-pool.yaml")).code == 0


def test_a_list_has_a_row_for_each_object_in_the_order_of_a_column():
    ran = run_bursar(
        *("describe", "pod", "-f", str(EXAMPLES), "-n", "kube-system"),
        *("-o", "csv", "--sort-by", "-memory", "--no-headers"),
    )

    assert [line.split(",")[6] for line in ran.out.splitlines()] == [
        *("600Mi", "200Mi", "100Mi", "20Mi", ""),
    ]


def test_labels_and_fields_choose_workloads_and_pods():
    labelled = POD.format(limits="cpu: 1").replace("name: web", "name: web, labels: {a: b}")
    both = (labelled + "---" + POD.format(limits="cpu: 1")).replace("name: web}", "name: other}")

    for choice in (["-l", "a=b"], ["--field-selector", "metadata.name=web"]):
        ran = run_bursar("describe", "pod", "-f", "-", "-o", "name", *choice, stdin=both.encode())
        assert ran.out == "pod/web\n"


def test_output_is_plain_where_it_is_not_a_terminal():
    ran = run_bursar(
        "describe", "pod", "-f", example("frontend.yaml"), FORCE_COLOR="", NO_COLOR="1"
    )

    assert "\x1b" not in ran.out


# ------------------------------------------------------------------ the server's verdict

LIMITS = b"""
---
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec:
  limits:
  - {type: Container, default: {memory: 64Mi}, max: {cpu: 500m}}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: runsc
overhead: {podFixed: {memory: 32Mi}}
"""


def test_a_misspelt_word_is_refused_and_what_was_not_checked_is_listed():
    manifest = POD.format(limits="cpu: 1").encode() + b"  restartPolicy: Alwyas\n"
    ran = run_bursar("describe", "pod", "-f", "-", stdin=manifest)

    assert ran.code == 1
    assert 'spec.restartPolicy: Unsupported value: "Alwyas"' in ran.out
    assert "LimitRanges of namespace default: not in the input" in ran.out
    (pod,) = described("pod", "-f", "-", stdin=manifest)
    assert pod["valid"] is False
    assert len(pod["notChecked"]) == 2


def test_limit_ranges_and_runtime_classes_of_the_input_are_applied():
    manifest = POD.format(limits="cpu: 1").encode() + b"  runtimeClassName: sandbox\n" + LIMITS
    (pod,) = described("pod", "-f", "-", stdin=manifest)

    assert pod["effective"]["limits"] == {"cpu": "1", "memory": "96Mi"}
    assert pod["admission"] == [
        "LimitRange small: memory request for container app; memory limit for container app",
        "RuntimeClass sandbox: overhead memory 32Mi",
    ]
    assert pod["errors"] == [
        'pods "web" is forbidden: maximum cpu usage per Container is 500m, but limit is 1'
    ]
    assert len(pod["notChecked"]) == 1


def test_the_pods_of_an_accepted_workload_can_be_refused():
    workload = b"""
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: i, resources: {requests: {cpu: "2"}}}]
"""
    (pod,) = described("pod", "-f", "-", stdin=workload + LIMITS)

    assert pod["errors"] == [
        (
            "its pods: spec.containers[0].resources.requests: "
            'Invalid value: "2": must be less than or equal to cpu limit of 500m'
        ),
        (
            'its pods: pods "web" is forbidden: maximum cpu usage per Container is 500m, '
            "but request is 2"
        ),
    ]


# ------------------------------------------------------------------ waiting pods

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
"""
WAITING = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec:
  tolerations: %s
  containers: [{name: app, image: i, resources: {requests: {cpu: 1500m}}}]
"""
TOLERATED = "[{operator: Exists}]"


def waiting(*pods: str) -> list[dict]:
    (node,) = described("node", "-f", "-", stdin="".join((NODE, *pods)).encode())
    return node["waiting"]


def test_waiting_pods_are_judged_by_taints_as_well():
    (pod,) = waiting(WAITING % ("a", "[]"))

    assert pod["fits"] is False
    assert pod["reasons"] == ["node(s) had untolerated taint(s)"]


def test_a_waiting_pod_that_fits_takes_its_share_before_the_next_one():
    first, second = waiting(WAITING % ("a", TOLERATED), WAITING % ("b", TOLERATED))

    assert (first["fits"], second["fits"]) == (True, False)
    assert second["missing"]["cpu"] == {
        "reason": "Insufficient cpu",
        "requested": "1500m",
        "free": "500m",
    }


def test_a_waiting_pod_shuns_the_one_that_was_placed_before_it():
    term = "{labelSelector: {matchLabels: {app: web}}, topologyKey: zone}"
    required = f"{{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}"
    small = (WAITING % ("a", TOLERATED)).replace("1500m", "100m")
    shy = (WAITING % ("b", TOLERATED)).replace("1500m", "100m")
    first, second = waiting(small, shy + f"  affinity: {{podAntiAffinity: {required}}}\n")

    assert first["fits"] is True
    assert second["reasons"] == ["node(s) didn't match pod anti-affinity rules"]
