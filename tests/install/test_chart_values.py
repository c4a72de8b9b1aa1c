"""What helm makes of the chart's values: texts, refusals, and settings that only the chart has."""

import pytest

from chart.chart_files import ROOT
from generate_chart import rendered as rendered_file
from support.chart.helm import CHART, objects_of, rendered, try_helm, try_template

pytestmark = pytest.mark.integration

GOLDEN = ROOT / "tests" / "golden" / "chart"


def test_helm_finds_nothing_to_complain_about():
    ran = try_helm("lint", "--strict", str(CHART))

    assert ran.code == 0, ran.out + ran.err
    assert "1 chart(s) linted, 0 chart(s) failed" in ran.out


@pytest.mark.parametrize("name", ["defaults", "everything", "webhooks-and-cert-manager"])
def test_the_text_is_as_before(name):
    wanted = (GOLDEN / f"{name}.txt").read_text()

    assert rendered_file(str(GOLDEN / f"{name}.values.yaml")) == wanted, (
        "if that is meant: python tools/generate_chart.py --golden"
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "many"}, "at '/replicas': got string, want integer"),
        ({"typo": 1}, "additional properties 'typo' not allowed"),
        ({"quota": {"typo": 1}}, "at '/quota': additional properties 'typo' not allowed"),
        ({"quota": {"enabled": "maybe"}}, "at '/quota/enabled': got string, want boolean"),
        (
            {"quota": {"gate": "sometimes"}},
            "at '/quota/gate': value must be one of 'policies', 'webhooks'",
        ),
        (
            {"quota": {"namespaceSelector": "a=b"}},
            "at '/quota/namespaceSelector': got string, want null or object",
        ),
        (
            {"quota": {"namespaceSelector": {"matchExpressions": [{"key": "a"}]}}},
            "missing property 'operator'",
        ),
        (
            {
                "quota": {
                    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}
                }
            },
            "missing property 'values'",
        ),
        (
            {"quota": {"namespaceSelector": {"matchLabels": {"team": "a b"}}}},
            "at '/quota/namespaceSelector/matchLabels/team': 'a b' does not match pattern",
        ),
        ({"logLevel": "loud"}, "value must be one of 'debug', 'info', 'warning', 'error'"),
        (
            {"image": {"pullPolicy": "Sometimes"}},
            "value must be one of '', 'Always', 'IfNotPresent', 'Never'",
        ),
        ({"image": {"pullSecrets": ["x"]}}, "at '/image/pullSecrets/0': got string, want object"),
        ({"image": {"repository": ""}}, "at '/image/repository': minLength: got 0, want 1"),
        ({"controller": {"extraArgs": ["verbose"]}}, "'verbose' does not match pattern '^--[a-z]'"),
        (
            {"peerPods": {"runtimeClasses": []}},
            "at '/peerPods/runtimeClasses': minItems: got 0, want 1",
        ),
        ({"peerPods": {"runtimeClasses": ["a'b"]}}, "does not match pattern"),
        ({"peerPods": {"overhead": {"cpu": "much"}}}, "at '/peerPods/overhead/cpu': 'much'"),
        ({"capacity": {"peerPodsNamespace": "A"}}, "at '/capacity/peerPodsNamespace': 'A'"),
        ({"agent": {"socketDir": "relative"}}, "at '/agent/socketDir': 'relative'"),
        (
            {
                "agent": {
                    "enabled": True,
                    "kubeletDir": "/data/kubelet",
                    "socketDir": "/data/kubelet/pod-resources",
                }
            },
            "agent.socketDir: /data/kubelet/pod-resources is a folder of kubelet",
        ),
        (
            {"quota": {"gate": "webhooks"}, "webhook": {"clientNames": ["api-server"]}},
            "webhook.clientNames: needs webhook.clientCAConfig",
        ),
    ],
)
def test_wrong_values_are_refused_with_the_reason(values, text):
    ran = try_template(values)

    assert ran.code == 1
    assert text in ran.err


def test_settings_of_pods_reach_every_pod():
    registry, taint = [{"name": "registry"}], [{"operator": "Exists"}]
    values = {
        "image": {"pullPolicy": "Always", "pullSecrets": registry},
        "quota": {"gate": "webhooks"},
        "agent": {"enabled": True, "nodeSelector": {"a": "b"}, "resources": {}},
        "controller": {"tolerations": taint, "resources": {"limits": {"memory": "2Gi"}}},
        "webhook": {"affinity": {"nodeAffinity": {}}},
    }
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects_of(rendered(values)).values()
        if "template" in each.get("spec", {})
    }

    assert sorted(pods) == ["aaq-controller", "aaq-server", "bursar-agent", "bursar-removal"]
    assert all(pod["imagePullSecrets"] == registry for pod in pods.values())
    assert {pod["containers"][0]["imagePullPolicy"] for pod in pods.values()} == {"Always"}
    assert pods["aaq-controller"]["tolerations"] == pods["bursar-removal"]["tolerations"] == taint
    assert pods["aaq-controller"]["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}
    assert pods["aaq-server"]["affinity"] == {"nodeAffinity": {}}
    assert pods["bursar-agent"]["nodeSelector"] == {"a": "b"}
