"""`bursar manifests` as a user meets it."""

import base64
import json

import pytest
import yaml
from click.testing import CliRunner

from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.install.manifests import PARTS, manifests
from support.install.printed import printed, printed_objects

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"


def kinds(*arguments):
    return [document["kind"] for document in printed_objects(*arguments)]


def test_without_a_part_all_that_gating_without_a_webhook_needs_is_printed():
    found = kinds()

    assert found == [*kinds("crds"), *kinds("rbac"), *kinds("controller"), *kinds("policies")]
    assert not any("Webhook" in kind for kind in found)
    assert set(kinds("crds")) == {"CustomResourceDefinition"}
    assert len(kinds("crds")) == 7


def test_parts_come_once_and_in_the_order_in_which_they_are_applied():
    assert kinds("webhooks", "crds", "webhooks") == [*kinds("crds"), *kinds("webhooks")]


# ------------------------------------------------------------------ older versions of Kubernetes


@pytest.mark.parametrize("version", ["1.32", "v1.35.2", "1.34+"])
def test_for_an_older_version_the_webhook_gates_and_no_kind_is_printed_that_it_lacks(version):
    found = kinds(f"--kubernetes={version}")

    assert found == kinds("crds", "rbac", "controller", "webhook", "webhooks")
    assert not any(kind.startswith("MutatingAdmissionPolicy") for kind in found)


def test_for_a_version_that_has_all_kinds_policies_gate():
    assert kinds("--kubernetes=1.36") == kinds()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("policies", "--kubernetes=1.34"),
            "not 1.34: name the parts webhook and webhooks instead of policies",
        ),
        (
            ("peerpods", "--without-webhook", "--kubernetes=1.35"),
            "needs Kubernetes 1.36, not 1.35: leave out --without-webhook",
        ),
        (("--kubernetes=1.31",), "1.32 is the oldest version Bursar supports"),
        (("--kubernetes=2.0",), "a version such as 1.34 is expected, not '2.0'"),
    ],
)
def test_what_a_version_lacks_is_refused(arguments, problem):
    ran = CliRunner().invoke(manifests, arguments)

    assert ran.exit_code == 2
    assert problem in " ".join(ran.output.split())
    assert ran.stdout == ""


def test_an_aaq_object_is_refused_if_its_gate_needs_a_newer_version(tmp_path):
    file = tmp_path / "aaq.json"
    metadata = {"name": "aaq", "annotations": {"bursar.io/gate": "policies"}}
    kind = {"apiVersion": "aaq.kubevirt.io/v1alpha1", "kind": "AAQ"}
    file.write_text(json.dumps({**kind, "metadata": metadata, "spec": {}}))

    assert "gate-pods.bursar.io" in printed(f"--aaq={file}")
    ran = CliRunner().invoke(
        manifests, [f"--aaq={file}", "--kubernetes=1.34"], standalone_mode=False
    )
    assert isinstance(ran.exception, BadInputError)
    assert "so policies cannot gate pods; choose webhooks" in str(ran.exception)


def test_an_account_has_all_its_permissions_before_its_process_starts():
    rights = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"}
    parts = [part for part in reversed(PARTS) if part != "removal"]
    found = printed_objects(*parts, "--image", "example.com/bursar")
    started = set()

    for each in found:
        kind, subjects = each["kind"], each.get("subjects", ())
        if kind in {"Deployment", "DaemonSet", "Job"}:
            started.add(each["spec"]["template"]["spec"]["serviceAccountName"])
        if kind in rights:
            assert each["metadata"]["name"] not in started
            assert not started & {subject["name"] for subject in subjects}
    assert started == {CONTROLLER, WEBHOOK, "bursar-agent", "bursar-extender", "aaq-operator"}


def test_both_formats_say_the_same():
    as_json = json.loads(printed("rbac", "policies", "webhooks", "crds", "-o", "json"))

    assert (as_json["apiVersion"], as_json["kind"]) == ("v1", "List")
    assert as_json["items"] == printed_objects("rbac", "policies", "webhooks", "crds")


def test_yaml_repeats_rather_than_refers():
    text = printed("policies", "webhooks")

    assert "&id" not in text
    assert text.startswith("---\n")


def test_a_selector_is_written_as_objects_carry_it():
    text = printed("policies", "-l", "team in (b,a),tier=batch,env!=dev,gated,!exempt", "-n", "q")
    (binding,) = [
        d for d in yaml.safe_load_all(text) if d["kind"] == "MutatingAdmissionPolicyBinding"
    ]

    assert binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"] == [
        {"key": "env", "operator": "NotIn", "values": ["dev"]},
        {"key": "exempt", "operator": "DoesNotExist"},
        {"key": "gated", "operator": "Exists"},
        {"key": "team", "operator": "In", "values": ["a", "b"]},
        {"key": "tier", "operator": "In", "values": ["batch"]},
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "q"],
        },
    ]


def test_an_empty_selector_means_all_namespaces_but_two():
    (binding,) = [
        d
        for d in printed_objects("policies", "-l", "")
        if d["kind"] == "MutatingAdmissionPolicyBinding"
    ]
    (expression,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]

    assert expression["values"] == ["aaq", "kube-system"]


def test_without_cluster_quotas_their_definitions_are_left_out():
    names = [d["metadata"]["name"] for d in printed_objects("crds", "--without-cluster-quota")]

    assert "applicationawareresourcequotas.aaq.kubevirt.io" in names
    assert not any("clusterresourcequotas" in name for name in names)


def test_what_is_printed_by_default_refuses_growth_that_no_quota_is_asked_about():
    kept = [d["metadata"]["name"] for d in printed_objects()]

    assert kept.count("refuse-growth.bursar.io") == 2


def test_the_scope_of_pods_is_kept_beside_webhooks_too():
    kept = [d["metadata"]["name"] for d in printed_objects("webhooks")]

    assert kept.count("keep-scope.bursar.io") == kept.count("keep-cluster-scope.bursar.io") == 2


def test_switches_reach_their_part():
    grown = [d["metadata"]["name"] for d in printed_objects("policies", "--resizes=allow")]
    both = [d["metadata"]["name"] for d in printed_objects("policies", "webhooks")]
    validating = printed_objects("webhooks", "--configuration-exists")[1]

    assert "refuse-growth.bursar.io" not in grown
    assert "refuse-growth.bursar.io" not in both, "the webhook asks about growth"
    assert both.count("keep-scope.bursar.io") == 2
    assert "aaq.cr.validator" in [w["name"] for w in validating["webhooks"]]


def test_certificates_and_address_go_into_the_webhooks(tmp_path):
    bundle = tmp_path / "ca.crt"
    bundle.write_text(CERTIFICATE)
    mutating, *_ = printed_objects(
        "webhooks", "--ca-bundle", str(bundle), "--url", "https://127.0.0.1:9443"
    )

    assert mutating["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:9443/serve-path",
        "caBundle": base64.b64encode(CERTIFICATE.encode()).decode(),
    }


def test_the_bound_of_waiting_pods_is_a_policy_with_and_without_webhooks():
    name = "limit-waiting-pods.bursar.io"
    for parts in (["policies"], ["webhooks"], ["policies", "webhooks"]):
        assert [d["metadata"]["name"] for d in printed_objects(*parts)].count(name) == 2


def test_another_bound_of_waiting_pods_is_an_option_of_the_controller():
    def arguments(*options):
        [found] = [d for d in printed_objects("controller", *options) if d["kind"] == "Deployment"]
        return found["spec"]["template"]["spec"]["containers"][0]["args"]

    assert "--waiting-pods-max=7" in arguments("--waiting-pods-max", "7")
    assert not [each for each in arguments() if each.startswith("--waiting-pods-max")]


def test_a_selector_of_all_namespaces_is_empty_and_present_in_webhooks():
    """E-OP-12, E-OP-14: AAQ's own tests compare the first webhook with the AAQ object."""
    mutating, validating, *_ = printed_objects("webhooks", "--selector", "")
    assert mutating["webhooks"][0]["namespaceSelector"] == {}
    about_pods = [each for each in validating["webhooks"] if "pod" in each["name"]]
    assert [each["namespaceSelector"] for each in about_pods] == [{}, {}]

    mutating, *_ = printed_objects("webhooks", "--selector", "team in (a)")
    [chosen] = mutating["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert chosen == {"key": "team", "operator": "In", "values": ["a"]}


def test_copies_with_the_use_of_all_namespaces_are_an_option_of_the_controller():
    def arguments(*options):
        [found] = [d for d in printed_objects("controller", *options) if d["kind"] == "Deployment"]
        return found["spec"]["template"]["spec"]["containers"][0]["args"]

    assert "--applied-quotas=all" in arguments("--applied-quotas", "all")
    assert not [each for each in arguments() if each.startswith("--applied-quotas")]


def test_peer_pods_are_a_part_of_their_own():
    runtime_class, *_, webhook = printed_objects(
        *("peerpods", "--runtime-class", "kata-gpu", "--node-label", "gpu=yes"),
        *("--url", "https://127.0.0.1:9443", "-n", "home"),
    )

    assert runtime_class["metadata"]["name"] == "kata-gpu"
    assert runtime_class["scheduling"]["nodeSelector"] == {"gpu": "yes"}
    assert webhook["webhooks"][0]["clientConfig"] == {"url": "https://127.0.0.1:9443/mutate-v1-pod"}
    assert "home" in json.dumps(webhook["webhooks"][0]["namespaceSelector"])
    assert "['kata-gpu']" in json.dumps(webhook["webhooks"][0]["matchConditions"])


def test_naming_the_default_class_changes_nothing():
    parts = ("controller", "webhook", "peerpods")

    assert printed_objects(*parts, "--runtime-class", "kata-remote") == printed_objects(*parts)
    assert printed_objects(*parts, "--runtime-class", "kata-gpu") != printed_objects(*parts)


def test_the_class_of_peer_pods_is_as_said_or_left_out():
    said = ("--handler=kata", "--overhead-cpu=100m", "--overhead-memory=64Mi")
    runtime_class, *rest = printed_objects("peerpods", *said)

    assert runtime_class["handler"] == "kata"
    assert runtime_class["overhead"] == {"podFixed": {"cpu": "100m", "memory": "64Mi"}}
    assert printed_objects("peerpods", "--without-runtime-class") == rest


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--handler=Kata", "'Kata' is not the name of a handler"),
        ("--overhead-cpu=much", "--overhead-cpu: 'much' is not an amount, such as 250m"),
        ("--overhead-memory=-1", "an overhead cannot be negative"),
    ],
)
def test_a_class_that_the_api_would_refuse_is_a_usage_error(option, complaint):
    ran = CliRunner().invoke(manifests, ["peerpods", option])

    assert ran.exit_code == 2
    assert complaint in ran.stderr


def test_peer_pods_are_sent_all_together_or_left_to_a_policy():
    *_, webhook = printed_objects("peerpods", "--all-pods")
    *_, policy, _ = printed_objects(
        "peerpods", "--without-webhook", "--vm-resource", "example.com/vm"
    )

    assert "matchConditions" not in webhook["webhooks"][0]
    assert policy["kind"] == "MutatingAdmissionPolicy"
    assert "example.com/vm" in json.dumps(policy["spec"]["mutations"])


def test_beside_upstreams_webhook_only_policies_are_brought():
    kinds = {each["kind"] for each in printed_objects("peerpods", "--upstream-webhook")}
    assert kinds == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

    both = ["peerpods", "--upstream-webhook", "--without-webhook"]
    assert "exclude each other" in CliRunner().invoke(manifests, both).stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file or directory"),
        ("hello", "not a PEM file with certificates"),
        (CERTIFICATE + KEY, "holds a private key; give certificates only"),
        (CERTIFICATE + "x" * (1 << 20), "not a PEM file with certificates"),
    ],
)
def test_a_bundle_that_is_none_is_bad_input(tmp_path, content, complaint):
    bundle = tmp_path / "ca.crt"
    if content is not None:
        bundle.write_text(content)
    ran = CliRunner().invoke(manifests, ["webhooks", "--ca-bundle", str(bundle)])

    assert isinstance(ran.exception, BadInputError)
    assert str(ran.exception) == f"{bundle}: {complaint}"
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["policies", "-n", "a'b"], "is not the name of a namespace"),
        (["policies", "-l", "a in"], "unable to parse requirement"),
        (["policies", "-l", "cores > 5"], "cannot be selected by greater or less"),
        (["webhooks", "--url", "http://127.0.0.1"], "--url must start with https://"),
        (["peerpods", "--node-label", "gpu"], "KEY=VALUE is expected, not gpu"),
        (["peerpods", "--runtime-class", "a'b"], "is not the name of a runtime class"),
        (["peerpods", "--vm-resource", "vm"], "is not the name of an extended resource"),
        (["deployments"], "is not one of"),
        (["policies", "-o", "table"], "is not one of"),
    ],
)
def test_usage_errors_say_what_is_wrong_and_print_nothing(arguments, complaint):
    ran = CliRunner().invoke(manifests, arguments)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert complaint in ran.stderr


def test_policies_for_launchers_trust_the_service_accounts_of_one_namespace():
    text = printed("kubevirt", "--kubevirt-namespace=virt", "-l", "team=a")
    found = list(yaml.safe_load_all(text))

    kind = "ValidatingAdmissionPolicy"
    assert [each["kind"] for each in found] == [kind, f"{kind}Binding"] * 3
    assert text.count("system:serviceaccounts:virt") == 3
    assert all(
        "team" in json.dumps(each["spec"]["matchResources"]["namespaceSelector"])
        for each in found[1::2]
    )


def test_a_namespace_of_kubevirt_that_is_none_is_refused():
    ran = CliRunner().invoke(manifests, ["kubevirt", "--kubevirt-namespace=a'b"])

    assert ran.exit_code == 2
    assert '--kubevirt-namespace: "a\'b" is not the name of a namespace' in ran.stderr


def test_the_controller_may_read_vms_and_change_nothing_of_them():
    [rule] = [
        rule
        for document in printed_objects("rbac")
        for rule in document.get("rules", [])
        if rule.get("apiGroups") == ["kubevirt.io"]
    ]

    assert rule["verbs"] == ["list", "watch"]
    assert rule["resources"] == [
        *("virtualmachineinstances", "virtualmachineinstancemigrations", "kubevirts"),
    ]


def arguments_of(name, *options):
    (deployment,) = [
        each
        for each in printed_objects("controller", "webhook", *options)
        if each["kind"] == "Deployment" and each["metadata"]["name"] == name
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container["args"]


def test_the_processes_are_started_as_the_other_parts_need_it():
    options = (
        *("capacity", "-l", "team in (a,b)", "--without-cluster-quota"),
        *("--peerpods-namespace", "caa", "--runtime-class", "kata-a", "--runtime-class", "kata-b"),
        *("--vm-resource", "example.com/vm", "--controller-option=--patience=5m"),
        "--webhook-option=--log-level=debug",
    )

    assert arguments_of("aaq-controller", *options)[-7:] == [
        "--namespace-selector=team in (a,b)",
        "--without-cluster-quota",
        "--keep-capacity",
        "--peerpods-namespace=caa",
        "--peerpod-runtime-class=kata-a",
        "--peerpod-runtime-class=kata-b",
        "--patience=5m",
    ]
    assert arguments_of("aaq-server", *options)[-4:] == [
        "--runtime-class=kata-a",
        "--runtime-class=kata-b",
        "--vm-resource=example.com/vm",
        "--log-level=debug",
    ]


def test_with_cert_manager_the_webhooks_ask_for_its_ca():
    annotated = [
        document["metadata"]["annotations"]
        for document in printed_objects("webhooks", "peerpods", "--cert-manager")
        if document["kind"].endswith("WebhookConfiguration")
    ]

    assert annotated == [{"cert-manager.io/inject-ca-from": "aaq/bursar-serving"}] * 3
    assert "--keep-certificates" not in arguments_of("aaq-controller", "--cert-manager")


def test_the_certificates_and_monitors_are_those_of_the_namespace():
    found = printed_objects("certificates", "monitoring", "-n", "q")

    assert {each["metadata"]["namespace"] for each in found} == {"q"}
    assert [each["kind"] for each in found] == [
        *("Issuer", "Certificate", "Issuer", "Certificate"),
        *("ServiceMonitor", "ServiceMonitor", "PrometheusRule"),
    ]


def test_with_the_operator_there_is_a_monitor_for_it():
    found = [
        each["metadata"]["name"]
        for each in printed_objects("monitoring", "operator", "--image=b:1")
        if each["kind"] == "ServiceMonitor"
    ]

    assert found == ["aaq-controller", "aaq-server", "aaq-operator"]


def test_the_dashboard_is_a_config_map_that_grafana_finds():
    [found] = printed_objects("dashboard", "-n", "q")

    assert (found["kind"], found["metadata"]["namespace"]) == ("ConfigMap", "q")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert [panel["title"] for panel in json.loads(found["data"]["bursar.json"])["panels"]]


def test_prometheus_shows_its_own_token_and_there_is_a_role_for_it():
    monitors = [each for each in printed_objects("monitoring") if each["kind"] == "ServiceMonitor"]
    [role] = [
        each for each in printed_objects("rbac") if each["metadata"]["name"].endswith("-reader")
    ]

    assert [each["spec"]["endpoints"][0]["bearerTokenFile"] for each in monitors] == [
        "/var/run/secrets/kubernetes.io/serviceaccount/token"
    ] * 2
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "bursar-metrics-reader")
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


def test_the_webhook_is_started_with_the_ca_of_client_certificates():
    options = ("--client-ca-config=api-server-ca", "--client-name=a", "--client-name=b")

    assert [each for each in arguments_of("aaq-server", *options) if "--client" in each] == [
        "--client-ca=/etc/bursar/client-ca/ca.crt",
        "--client-name=a",
        "--client-name=b",
    ]
    ran = CliRunner().invoke(manifests, ["webhook", "--client-name=a"])
    assert ran.exit_code == 2
    assert "need a ConfigMap with their CA" in ran.stderr
