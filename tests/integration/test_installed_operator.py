"""The operator as a user installs it: its image on a real node, and an AAQ object."""

import json
from datetime import datetime

import pytest
import yaml

from support.install.installed_bursar import HOME, InstalledBursar, tenant
from support.operator.running import EXAMPLES, KINDS, LABEL
from support.until import until_sync

NOT_AFTER = "auth.openshift.io/certificate-not-after"
NOT_BEFORE = "auth.openshift.io/certificate-not-before"
PATIENCE_S = 300


class ByOperator(InstalledBursar):
    """The operator, and what it has installed."""

    def conditions(self):
        listed = json.loads(self.kubectl("get", "aaq", "aaq", "-o", "json")).get("status", {})
        return {each["type"]: each["status"] for each in listed.get("conditions", [])}

    def create_aaq(self):
        body = yaml.safe_load((EXAMPLES / "aaq.yaml").read_text())
        # The image is on the node, and in no registry.
        body["spec"]["imagePullPolicy"] = "Never"
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def wait_available(self):
        def is_available():
            found = self.conditions()
            return (found.get("Available"), found.get("Degraded")) == ("True", "False")

        until_sync(is_available, lambda: (self.conditions(), self.pods()), PATIENCE_S)

    def owned(self):
        found = self.kubectl("get", ",".join(KINDS), "-n", HOME, "-l", LABEL, "-o", "name")
        return set(found.split())

    def secret(self, name):
        return json.loads(self.kubectl("get", "secret", "-n", HOME, name, "-o", "json"))


@pytest.fixture(scope="module")
def installed(real_node, image):  # noqa: ARG001 - the node must have the image
    found = ByOperator(real_node, ("operator",))
    found.apply()
    try:
        until_sync(lambda: found.is_rolled_out("aaq-operator"), found.pods, PATIENCE_S)
        found.create_aaq()
        found.wait_available()
        found.wait_gating()
        yield found
    finally:
        found.try_kubectl("delete", "aaq", "aaq", "--ignore-not-found", "--timeout=240s")
        found.try_kubectl("delete", "--ignore-not-found", "-f", "-", stdin=found.text)


def test_pods_wait_for_their_quota(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="100m")
        shop.deploy("web", replicas=3, cpu="50m")
        shop.until(running=2, gated=1)


def test_an_end_in_the_past_renews_the_certificate_that_is_served(installed):
    def served():
        """The certificate that the webhook's Secret has, and so the webhook serves."""
        return installed.secret("aaq-server-cert")["data"]["tls.crt"]

    before = served()
    begin = installed.secret("aaq-server-cert")["metadata"]["annotations"][NOT_BEFORE]
    assert datetime.fromisoformat(begin).tzinfo is not None
    installed.kubectl(
        *("annotate", "--overwrite", "secret", "-n", HOME, "aaq-server-cert"),
        f"{NOT_AFTER}={begin}",
    )

    until_sync(lambda: served() != before, installed.pods)


def test_a_webhook_without_replicas_is_reported_and_repaired(installed):
    installed.kubectl("delete", "deployment", "-n", HOME, "aaq-server", "--wait=false")

    until_sync(lambda: installed.conditions().get("Available") == "False", installed.pods)
    installed.wait_available()


def test_zz_deleting_the_object_frees_pods_and_leaves_only_quotas(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="50m")
        shop.deploy("web", replicas=4, cpu="50m")
        shop.until(running=1, gated=3)

        installed.kubectl("delete", "aaq", "aaq", "--timeout=240s")

        shop.until(running=4, gated=0)
        assert installed.owned() == set()
        assert installed.kubectl("get", "arq", "-n", shop.name, "-o", "name").strip()
        left = ("get", "secrets,configmaps,leases", "-n", HOME, "-o", "name")

        def is_empty():
            names = installed.kubectl(*left).split()
            return {each.partition("/")[2] for each in names} <= {
                "kube-root-ca.crt",
                "aaq-operator-leader-election-helper",
            }

        until_sync(is_empty, lambda: installed.kubectl(*left))
