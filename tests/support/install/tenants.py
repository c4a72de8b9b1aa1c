"""What tenants try against Bursar: requests to the API server, and to Bursar's own endpoints."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.core.quota.targeting import GATING_LABEL
from support.builders.reviews import a_review, raw_pod
from support.install.endpoints import Endpoints, any_server
from support.install.installed_bursar import HOME, SLEEP, InstalledBursar, Tenant, tenant
from support.install.tour import cluster_quota
from support.until import until_sync

TEAM = {"team": "estate"}
AAQ = "/apis/aaq.kubevirt.io/v1alpha1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MERGE = "application/merge-patch+json"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
DENIED_BY_RBAC = " cannot "
"""A part of every answer of the authorizer, and of no answer of Bursar's policies."""
ROLES = ("edit", "admin")


@dataclass(frozen=True)
class Answer:
    code: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One request, and what is expected of it."""

    what: str
    method: str
    path: str
    body: Any = None
    code: int
    word: str = ""
    """A part of the answer."""

    as_user: str = ""
    """The user to impersonate."""

    def headers(self, token: str) -> dict[str, str]:
        is_merge = self.method == "PATCH" and not isinstance(self.body, list)
        kind = MERGE if is_merge else JSON_PATCH if self.method == "PATCH" else JSON
        found = {
            "Authorization": f"Bearer {token}" if token else "",
            "Impersonate-User": self.as_user,
        }
        return {"Content-Type": kind} | {name: text for name, text in found.items() if text}


def call(
    url: str, attempt: Attempt, *, token: str = "", context: ssl.SSLContext | None = None
) -> Answer:
    """Send the request of an attempt."""
    parts = urlsplit(url)
    host = parts.netloc
    connection = (
        http.client.HTTPSConnection(host, context=context, timeout=60)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, timeout=60)
    )
    payload = None if attempt.body is None else json.dumps(attempt.body)
    try:
        connection.request(attempt.method, attempt.path, payload, attempt.headers(token))
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())
    finally:
        connection.close()


def surprises(attempts: list[Attempt], answers: dict[str, Answer]) -> dict[str, Answer]:
    """The answers that are not as expected, by what was tried."""
    return {
        each.what: answers[each.what]
        for each in attempts
        if answers[each.what].code != each.code or each.word not in answers[each.what].text
    }


@dataclass
class Estate:
    """Two tenants whose namespaces have the same quotas; `own` has users with `edit` and `admin`.

    One pod of each tenant runs, and one waits.
    """

    installed: InstalledBursar
    own: Tenant
    other: Tenant
    tokens: dict[str, str]
    """By role."""

    def ask_cluster(self, attempt: Attempt, role: str) -> Answer:
        plane = self.installed.node.plane
        trusted = ssl.create_default_context(cafile=str(plane.authority_certificate))
        return call(plane.url, attempt, token=self.tokens[role], context=trusted)

    def ask_bursar(self, url: str, attempt: Attempt, token: str) -> Answer:
        return call(url, attempt, token=token, context=any_server())

    @property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.installed)


@contextmanager
def estate(installed: InstalledBursar) -> Iterator[Estate]:
    quota = json.dumps(cluster_quota("estate", TEAM))
    with tenant(installed, **TEAM) as own, tenant(installed, **TEAM) as other:
        installed.kubectl("create", "-f", "-", stdin=quota)
        try:
            for each in (own, other):
                each.quota(requests_cpu="50m", services="5")
                each.deploy("web", replicas=2, cpu="50m")
            for each in (own, other):
                each.until(running=1, gated=1)
                until_sync(lambda each=each: _managed(installed, each), "there are managed quotas")
            tokens = {role: _token(installed, own.name, role) for role in ROLES}
            yield Estate(installed, own, other, tokens)
        finally:
            installed.kubectl("delete", "acrq", "estate")


def _token(installed: InstalledBursar, namespace: str, role: str) -> str:
    """The token of a service account with a built-in role in its namespace.

    It may resize pods too, which neither role permits by itself.
    """
    user = f"user-{role}"
    here, account = ("-n", namespace), f"--serviceaccount={namespace}:{user}"
    resizer = f"{user}-resizes"
    resizes = ("--verb=patch", "--resource=pods/resize")
    installed.kubectl("create", "serviceaccount", user, *here)
    installed.kubectl("create", "role", resizer, *resizes, *here)
    installed.kubectl("create", "rolebinding", resizer, f"--role={resizer}", account, *here)
    installed.kubectl("create", "rolebinding", user, f"--clusterrole={role}", account, *here)
    return installed.kubectl("create", "token", user, "-n", namespace).strip()


def _managed(installed: InstalledBursar, each: Tenant) -> bool:
    """Whether the tenant has a managed ResourceQuota and an applied copy."""
    found = installed.kubectl("get", "resourcequota,aacrq", "-n", each.name, "-o", "name")
    return len(found.split()) == 2


def managed_name(estate: Estate) -> str:
    found = estate.installed.kubectl("get", "resourcequota", "-n", estate.own.name, "-o", "name")
    return found.strip().removeprefix("resourcequota/")


# ------------------------------------------------------------------ attempts at the API server


def cluster_attempts(estate: Estate) -> list[Attempt]:
    own, other = (f"/api/v1/namespaces/{each.name}" for each in (estate.own, estate.other))
    return [
        *_pod_attempts(estate, own, other),
        *_quota_attempts(estate, own),
        *_home_attempts(),
        *_cluster_wide_attempts(estate),
    ]


def _pod_attempts(estate: Estate, own: str, other: str) -> Iterator[Attempt]:
    bare = {"spec": {"schedulingGates": None}}
    [gated], [running], [foreign] = (
        estate.own.gated(),
        estate.own.running(),
        estate.other.gated(),
    )
    yield _patch("remove the gate of an own pod", f"{own}/pods/{gated}", bare, "protect-gate")
    yield _patch("remove the gate of another's pod", f"{other}/pods/{foreign}", bare)
    bound = raw_pod(node=estate.installed.node.name)
    bound["metadata"] = {"name": "bound"}
    yield _post(
        "create a pod that names its node", f"{own}/pods", bound, "ApplicationAwareQuotaGate"
    )
    target = {"apiVersion": "v1", "kind": "Node", "name": estate.installed.node.name}
    binding = {"metadata": {"name": gated}, "target": target}
    yield _post("bind an own gated pod", f"{own}/pods/{gated}/binding", binding)
    path = "/spec/containers/0/resources/requests/cpu"
    grown = [{"op": "replace", "path": path, "value": "1"}]
    resize = f"{own}/pods/{running}/resize"
    yield _patch("resize an own pod above the quota", resize, grown, "exceeded quota")
    yield _patch(
        "stop the gating of the own namespace", own, {"metadata": {"labels": {GATING_LABEL: None}}}
    )
    controller = f"system:serviceaccount:{HOME}:{CONTROLLER}"
    yield Attempt(
        what="act as the controller",
        method="GET",
        path=f"{own}/pods",
        code=403,
        word=DENIED_BY_RBAC,
        as_user=controller,
    )


def _quota_attempts(estate: Estate, own: str) -> Iterator[Attempt]:
    here, there = (f"{AAQ}/namespaces/{each.name}" for each in (estate.own, estate.other))
    arqs, applied = "applicationawareresourcequotas", "applicationawareappliedclusterresourcequotas"
    clusters = f"{AAQ}/applicationawareclusterresourcequotas"
    hard, used = {"spec": {"hard": {"requests.cpu": "9"}}}, {"status": {"used": {}}}
    yield _get("read own quotas", f"{here}/{arqs}", 200)
    yield _get("read own applied copies", f"{here}/{applied}", 200)
    yield _get("read another's quotas", f"{there}/{arqs}")
    yield _get("read another's applied copies", f"{there}/{applied}")
    yield _get("read quotas of all namespaces", f"{AAQ}/{arqs}")
    yield _get("read cluster quotas", clusters)
    yield _patch("change an own quota", f"{here}/{arqs}/limits", hard)
    yield _patch("change the status of an own quota", f"{here}/{arqs}/limits/status", used)
    yield _delete("delete an own quota", f"{here}/{arqs}/limits")
    yield _post("create an own quota", f"{here}/{arqs}", {"metadata": {"name": "x"}, **hard})
    yield _patch("change a cluster quota", f"{clusters}/estate", hard)
    yield _patch("change the status of a cluster quota", f"{clusters}/estate/status", used)
    yield _patch("change an own applied copy", f"{here}/{applied}/estate", used)
    yield _delete("delete an own applied copy", f"{here}/{applied}/estate")
    managed = f"{own}/resourcequotas/{managed_name(estate)}"
    yield _get("read the managed ResourceQuota", managed, 200)
    yield _patch("change the managed ResourceQuota", managed, {"spec": {"hard": {"services": "9"}}})
    yield _delete("delete the managed ResourceQuota", managed)


def _home_attempts() -> Iterator[Attempt]:
    home = f"/api/v1/namespaces/{HOME}"
    account = f"{home}/serviceaccounts/{CONTROLLER}"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/{CONTROLLER}"
    note = {"metadata": {"annotations": {"bursar.io/gating": ""}}}
    yield _patch("annotate the controller's service account", account, note)
    yield _post("make a token of the controller", f"{account}/token", {"spec": {}})
    yield _get("list Bursar's Secrets", f"{home}/secrets")
    yield _get("read Bursar's CA", f"{home}/secrets/bursar-ca")
    yield _get("read Bursar's serving key", f"{home}/secrets/bursar-tls")
    yield _get("read the Lease", lease)
    yield _patch("write another address on the Lease", lease, note)
    yield _get("read Bursar's pods", f"{home}/pods")
    proxied = f"{home}/services/https:{WEBHOOK}:443/proxy/metrics"
    yield _get("reach the webhook through the API server", proxied)


def _cluster_wide_attempts(estate: Estate) -> Iterator[Attempt]:
    rules = {"webhooks": []}
    yield _patch(
        "change the gating webhook",
        f"{ADMISSION}/mutatingwebhookconfigurations/gating-mutator",
        rules,
    )
    yield _delete(
        "delete the gating policy's binding",
        f"{ADMISSION}/mutatingadmissionpolicybindings/gate-pods.bursar.io",
    )
    policies = "/apis/bursar.io/v1alpha1/countingpolicies"
    body = {"metadata": {"name": "mine"}, "spec": {"match": "true", "ignore": True}}
    yield _get("read counting policies", policies)
    yield _post("create a counting policy", policies, body)
    yield _post("create an AAQ object", f"{AAQ}/aaqs", {"metadata": {"name": "aaq"}})
    seats = {"metadata": {"annotations": {"bursar.io/capacity": "{}"}}}
    node = f"/api/v1/nodes/{estate.installed.node.name}"
    yield _patch("set the capacity of a node", node, seats)


def _get(what: str, path: str, code: int = 403) -> Attempt:
    word = DENIED_BY_RBAC if code == 403 else ""
    return Attempt(what=what, method="GET", path=path, code=code, word=word)


def _delete(what: str, path: str) -> Attempt:
    return Attempt(what=what, method="DELETE", path=path, code=403, word=DENIED_BY_RBAC)


def _patch(what: str, path: str, body: Any, word: str = DENIED_BY_RBAC) -> Attempt:
    return Attempt(what=what, method="PATCH", path=path, body=body, code=403, word=word)


def _post(what: str, path: str, body: Any, word: str = DENIED_BY_RBAC) -> Attempt:
    return Attempt(what=what, method="POST", path=path, body=body, code=403, word=word)


# ------------------------------------------------------------------ attempts at Bursar's endpoints


def probes(code: int) -> list[Attempt]:
    """The routes of every process. Probes answer any caller, the others with this code."""
    return [
        _get("ask whether it lives", "/healthz", 200),
        _get("ask whether it is ready", "/readyz", 200),
        Attempt(what="read metrics", method="GET", path="/metrics", code=code),
        Attempt(what="read the state", method="GET", path="/statusz", code=code),
        _get("read another path", "/debug", 404),
    ]


def controller_attempts(code: int) -> list[Attempt]:
    """Metrics and resizes are answered with the code."""
    return [
        *probes(code),
        Attempt(what="ask who leads", method="GET", path="/leader", code=200, word="leader"),
        Attempt(what="ask for a resize", method="POST", path="/v1/resizes", body={}, code=code),
    ]


def webhook_attempts(estate: Estate, code: int) -> list[Attempt]:
    """Metrics are answered with the code.

    Without --client-ca the webhook does not authenticate callers, and answers reviews of each.
    """
    review = a_review("Pod", "CREATE", raw_pod(), namespace=estate.own.name)
    paths = ("/serve-path", "/gate", "/validate", "/mutate-v1-pod")
    return [
        *probes(code),
        *(
            Attempt(
                what=f"send a review to {path}", method="POST", path=path, body=review, code=200
            )
            for path in paths
        ),
        # The leader does not know a pod of this uid, so the answer shows no amounts.
        Attempt(
            what="send a review of a resize in another's namespace",
            method="POST",
            path="/serve-path",
            body=_forged_resize(estate.other),
            code=200,
            word="the controller does not know this pod",
        ),
    ]


def _forged_resize(other: Tenant) -> dict[str, Any]:
    def pod(cpu: str) -> dict[str, Any]:
        made = raw_pod(cpu=cpu)
        made["metadata"] |= {"namespace": other.name}
        made["spec"]["containers"][0]["command"] = SLEEP
        return made

    asked = {"namespace": other.name, "subResource": "resize", "dryRun": False}
    return a_review("Pod", "UPDATE", pod("2"), pod("1"), **asked)
