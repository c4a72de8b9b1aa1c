"""Who may do what: Bursar's service accounts use all their rights, and tenants cannot evade quotas.

Bursar runs as pods of its own image, installed by its own manifests with all parts. The audit log
of the API server shows each request of its service accounts.
"""

from dataclasses import replace

import pytest
import yaml

from bursar.app.install.removal import REMOVAL
from bursar.app.names import CONTROLLER, PROTECTION_POLICY, PROTECTION_WEBHOOKS, WEBHOOK
from support.cluster.audit import AuditLog
from support.install.endpoints import AGENT
from support.install.installed_bursar import HOME, IMAGE, InstalledBursar
from support.install.rights import Right, granted_rights, ungranted_requests, unused_rights
from support.install.tenants import (
    ROLES,
    cluster_attempts,
    controller_attempts,
    estate,
    probes,
    surprises,
    webhook_attempts,
)
from support.install.tour import SOCKET_FOLDER, Tour
from support.processes.command_line import run_bursar
from support.until import until_sync

PARTS = (
    *("crds", "rbac", "controller", "webhook", "policies", "webhooks"),
    *("peerpods", "capacity", "kubevirt", "agent"),
)
OPTIONS = (
    *("--peerpods-namespace", HOME),
    *("--socket-dir", f"/var/lib/kubelet/{SOCKET_FOLDER}"),
    "--controller-option=--counting-policies",
)
VM_KINDS = ("virtualmachineinstances", "virtualmachineinstancemigrations", "kubevirts")
NO_KUBEVIRT = "without KubeVirt the kinds do not exist: the controller asks for them and gets 404"
CRQ = ("quota.openshift.io", "clusterresourcequotas")
NO_OPENSHIFT = "without OpenShift the kind does not exist (`test_openshift_quotas.py` brings it)"
UNUSED = {
    **{Right(CONTROLLER, v, *CRQ): NO_OPENSHIFT for v in ("watch", "create", "patch", "delete")},
    Right(WEBHOOK, "create", *CRQ): NO_OPENSHIFT,
    **{Right(CONTROLLER, "watch", "kubevirt.io", kind): NO_KUBEVIRT for kind in VM_KINDS},
    Right(AGENT, "patch", "events.k8s.io", "events"): (
        "the agent reports each problem of a pod once, so an event of the agent grows only if a "
        "pod has so many problems that they are combined, or if an answer was lost"
    ),
}
"""Rights that the tour cannot use, each with its reason."""
ADMISSION = "admissionregistration.k8s.io"


@pytest.fixture(scope="module")
def log(real_node):
    return AuditLog(real_node.plane.audit_log)


@pytest.fixture(scope="module")
def installed(real_node, image, log):  # noqa: ARG001 - the node has the image, the log is open
    found = InstalledBursar(real_node, PARTS, OPTIONS)
    found.apply()
    try:
        found.wait_ready()
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="module")
def requests(installed, log):
    Tour(installed, log).run()
    return log.requests()


@pytest.mark.parametrize("account", [CONTROLLER, WEBHOOK, AGENT])
def test_every_right_is_used(installed, requests, account):
    rights = {each for each in granted_rights(installed.documents) if each.account == account}
    unused = unused_rights(rights, requests)
    # An informer lists only where the API server cannot stream the objects with the watch.
    lists = {each for each in unused if each.verb == "list"}
    watches = {replace(each, verb="watch") for each in lists}

    assert rights
    assert watches <= rights
    assert unused - lists == {each for each in UNUSED if each.account == account}


def test_every_request_is_permitted_by_a_right_that_was_granted_for_it(installed, requests):
    rights = granted_rights(installed.documents)

    assert not [each for each in requests if not each.is_permitted or each.code == 403]
    assert not ungranted_requests(rights, requests)


# ------------------------------------------------------------------ tenants


@pytest.fixture(scope="module")
def two_tenants(installed, requests):  # noqa: ARG001 - the tour does not count what tenants cause
    with estate(installed) as found:
        yield found


@pytest.mark.parametrize("role", ROLES)
def test_a_tenant_cannot_change_what_limits_it(two_tenants, role):
    attempts = cluster_attempts(two_tenants)

    answers = {each.what: two_tenants.ask_cluster(each, role) for each in attempts}

    assert surprises(attempts, answers) == {}
    for each in (two_tenants.own, two_tenants.other):
        each.until(running=1, gated=1)


@pytest.mark.parametrize(("role", "code"), [("", 401), ("edit", 403), ("admin", 403)])
def test_metrics_and_resizes_ask_callers_who_they_are(two_tenants, role, code):
    """Without --client-ca, the reviews of the webhook answer any caller."""
    token, urls = two_tenants.tokens[role] if role else "", two_tenants.endpoints
    rows = {
        urls.controller(): controller_attempts(code),
        urls.webhook(): webhook_attempts(two_tenants, code),
        urls.agent(): probes(code),
    }

    for url, attempts in rows.items():
        answers = {each.what: two_tenants.ask_bursar(url, each, token) for each in attempts}
        assert surprises(attempts, answers) == {}


# ------------------------------------------------------------------ the removal


def test_zz_the_job_of_the_removal_uses_its_rights_and_is_denied_the_protection(installed, log):
    ran = run_bursar("manifests", "removal", "--image", IMAGE)
    assert ran.code == 0, ran.err
    documents = list(yaml.safe_load_all(ran.out))
    before = log.requests()
    installed.kubectl("apply", "-f", "-", stdin=ran.out)
    job = ("get", "job", "-n", HOME, REMOVAL, "-o", "jsonpath={.status.succeeded}")
    try:
        until_sync(lambda: installed.kubectl(*job) == "1", lambda: installed.logs("removal"))
    finally:
        installed.kubectl("delete", "-f", "-", stdin=ran.out)
    requests = log.requests() - before

    # The Job reads a pod only if the pod changes while its gate is removed.
    rereading = Right(CONTROLLER, "get", "", "pods")
    assert unused_rights(granted_rights(documents), requests) <= {rereading}
    # Only a user may delete the objects that protect gates. The Job tries, and goes on.
    denied = {(each.verb, each.group, each.name) for each in requests if not each.is_permitted}
    assert denied == {
        ("delete", ADMISSION, PROTECTION_POLICY),
        ("delete", ADMISSION, PROTECTION_WEBHOOKS),
    }
