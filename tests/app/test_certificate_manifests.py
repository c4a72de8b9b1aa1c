"""The permissions for certificates are those that are needed, and name what is installed."""

from bursar.app.certificates.names import CONFIGURATIONS
from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from bursar.app.install.admission import GatingSettings, webhook_documents
from bursar.app.install.certificates import bundle_rules, keeping_rules, serving_rules
from bursar.app.install.documents import Endpoint
from bursar.app.install.peerpods import PeerPodInstallation, webhook_document

OBSERVE = ["list", "watch"]


def test_the_configurations_are_those_of_the_manifests():
    documents = [
        *webhook_documents(GatingSettings()),
        webhook_document(PeerPodInstallation(), Endpoint()),
    ]
    printed = {(each["kind"], each["metadata"]["name"]) for each in documents}

    assert {(resource.kind, name) for resource, name in CONFIGURATIONS} == printed


def test_a_server_may_only_read_its_secret():
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": OBSERVE}

    assert serving_rules() == [{**rule, "resourceNames": ["bursar-tls"]}]
    assert serving_rules("mine") == [{**rule, "resourceNames": ["mine"]}]


def test_the_keeper_may_change_two_secrets_and_create_any():
    secrets = {"apiGroups": [""], "resources": ["secrets"]}

    assert keeping_rules() == [
        {**secrets, "verbs": [*OBSERVE, "patch"], "resourceNames": ["bursar-ca", "bursar-tls"]},
        {**secrets, "verbs": ["create"]},
    ]


def test_with_aaqs_names_the_keeper_has_its_secrets_and_its_config_map():
    secrets, create, config_maps = keeping_rules(is_like_aaq=True)

    assert secrets["resourceNames"] == ["aaq-server", "aaq-server-cert"]
    assert create["resources"] == ["secrets"]
    assert config_maps["resources"] == ["configmaps"]
    assert config_maps["resourceNames"] == ["aaq-server-signer-bundle"]


def test_the_keeper_may_patch_only_the_named_configurations():
    group = "admissionregistration.k8s.io"
    mutating = ["gating-mutator", "peer-pods-webhook-mutating-webhook-configuration"]

    assert bundle_rules() == [
        {
            "apiGroups": [group],
            "resources": [resource.plural],
            "verbs": [*OBSERVE, "patch"],
            "resourceNames": names,
        }
        for resource, names in (
            (MUTATING_WEBHOOKS, mutating),
            (VALIDATING_WEBHOOKS, ["aaq-validator"]),
        )
    ]
