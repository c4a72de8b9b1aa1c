"""A tour of everything that Bursar does in a cluster, so that each of its rights is used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from bursar.app.capacity.places import CAPACITY_CONFIG
from bursar.app.certificates.names import CA_SECRET, CERTIFICATE, TLS_SECRET
from bursar.app.certificates.secrets import CA_KEY
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.core.devices.source import KOORDINATOR
from real_node.images import BUSYBOX
from support.builders.manifests import AAQ_VERSION, ACRQ, ARQ, a_manifest
from support.cluster.audit import AuditLog
from support.install.endpoints import AGENT, Endpoints, metrics_code
from support.install.installed_bursar import HOME, SLEEP, InstalledBursar, Tenant, tenant
from support.until import until_sync

SOCKET_FOLDER = "bursar-sockets"
"""The folder of the agent's socket, below kubelet's: this machine sees it there."""
TEAM = {"team": "tour"}
SEAT = "example.com/seat"
APPLIED_PLURAL = "applicationawareappliedclusterresourcequotas"


@dataclass
class Tour:
    installed: InstalledBursar
    log: AuditLog

    def run(self) -> None:
        """Use everything once. Each step ends when the audit log shows its requests."""
        self.until_used(CONTROLLER, "patch", "serviceaccounts")
        self.until_webhooks_work()
        with self.policy(), tenant(self.installed, **TEAM) as shop, self.cluster_quota():
            shop.quota(requests_cpu="100m", services="5")
            shop.deploy("web", replicas=3, cpu="50m")
            shop.until(running=2, gated=1)
            self.until_used(CONTROLLER, "create", "resourcequotas", shop.name)
            self.wait_twice_for_the_same_reason(shop)
            self.renew_certificates()
            self.declare_capacity()
            self.claim_devices(shop)
            self.resize(shop)
            self.change_and_remove_quotas(shop)
            self.read_metrics(shop)

    def until_used(self, account: str, verb: str, resource: str, namespace: str = "") -> None:
        def is_used() -> bool:
            return any(
                (each.account, each.verb, each.resource) == (account, verb, resource)
                and namespace in {"", each.namespace}
                for each in self.log.requests()
            )

        until_sync(is_used, f"{account} sent: {verb} {resource} {namespace}")

    def until_webhooks_work(self) -> None:
        """The API server calls the webhooks only when it has read the CA that the leader wrote."""
        quota = a_manifest(AAQ_VERSION, ACRQ, "probe", spec={"quota": {}, "selector": {}})
        create = ("create", "--dry-run=server", "-f", "-")

        def is_checked() -> bool:
            return self.installed.try_kubectl(*create, stdin=json.dumps(quota)).code == 0

        until_sync(is_checked, lambda: self.installed.try_kubectl(*create, stdin=json.dumps(quota)))

    # ------------------------------------------------------------------ quotas

    @contextmanager
    def policy(self) -> Iterator[None]:
        spec = {"match": "object.metadata.name == 'notebook'", "charges": {"instances/n": "1"}}
        body = a_manifest("bursar.io/v1alpha1", "CountingPolicy", "tour", spec=spec)
        with self._created(body, "countingpolicy", "tour"):
            self.until_used(CONTROLLER, "patch", "countingpolicies/status")
            yield

    @contextmanager
    def cluster_quota(self) -> Iterator[None]:
        with self._created(cluster_quota("tour", TEAM), "acrq", "tour"):
            self.until_used(CONTROLLER, "create", APPLIED_PLURAL)
            self.until_used(CONTROLLER, "patch", "applicationawareclusterresourcequotas/status")
            yield

    def wait_twice_for_the_same_reason(self, shop: Tenant) -> None:
        """A further quota makes the controller decide again. The event repeats, in a patch."""
        self.until_used(CONTROLLER, "create", "events", shop.name)
        quota = a_manifest(AAQ_VERSION, ARQ, f"{shop.name}/roomy")
        quota["spec"] = {"hard": {"requests.cpu": "9"}}
        self.installed.kubectl("create", "-f", "-", stdin=json.dumps(quota))

    def resize(self, shop: Tenant) -> None:
        self.until_used(CONTROLLER, "patch", "events", shop.name)
        self._limit(shop, "500m")
        shop.until(running=4, gated=0)
        path = "/spec/containers/0/resources/requests/cpu"
        patch = json.dumps([{"op": "replace", "path": path, "value": "60m"}])
        where = ("-n", shop.name, "--subresource=resize", "--type=json", "-p", patch)
        web = next(each for each in shop.running() if each.startswith("web"))
        self.installed.kubectl("patch", "pod", web, *where)
        self.until_used(CONTROLLER, "create", "tokenreviews")
        self.until_used(CONTROLLER, "patch", "configmaps")
        self.until_used(WEBHOOK, "get", "leases")

    def change_and_remove_quotas(self, shop: Tenant) -> None:
        self._merge("arq", "limits", {"spec": {"hard": {"services": "6"}}}, shop.name)
        self.until_used(CONTROLLER, "patch", "resourcequotas", shop.name)
        grown = {"spec": {"quota": {"hard": {"requests.memory": "2Gi"}}}}
        self._merge("acrq", "tour", grown)
        self.until_used(CONTROLLER, "patch", APPLIED_PLURAL)
        self.installed.kubectl("label", "namespace", shop.name, *(f"{key}-" for key in TEAM))
        self.until_used(CONTROLLER, "delete", APPLIED_PLURAL)
        self._merge("arq", "limits", {"spec": {"hard": {"services": None}}}, shop.name)
        self.until_used(CONTROLLER, "delete", "resourcequotas", shop.name)

    def read_metrics(self, shop: Tenant) -> None:
        """As Prometheus reads them: with the token of an account that has the role for it."""
        account, binding = f"{shop.name}:scraper", f"scraper-{shop.name}"
        role = ("--clusterrole=bursar-metrics-reader", f"--serviceaccount={account}")
        self.installed.kubectl("create", "serviceaccount", "scraper", "-n", shop.name)
        self.installed.kubectl("create", "clusterrolebinding", binding, *role)
        try:
            token = self.installed.kubectl("create", "token", "scraper", "-n", shop.name).strip()
            for url in Endpoints(self.installed).every():
                until_sync(lambda url=url: metrics_code(url, token) == 200, url)
            for reader in (CONTROLLER, WEBHOOK, AGENT):
                self.until_used(reader, "create", "tokenreviews")
                self.until_used(reader, "create", "subjectaccessreviews")
        finally:
            self.installed.kubectl("delete", "clusterrolebinding", binding)

    def _limit(self, shop: Tenant, cpu: str) -> None:
        self._merge("arq", "limits", {"spec": {"hard": {"requests.cpu": cpu}}}, shop.name)

    # ------------------------------------------------------------------ the rest

    def renew_certificates(self) -> None:
        """An unusable pair is replaced, and then a CA without a key."""
        for name, key in ((TLS_SECRET, CERTIFICATE), (CA_SECRET, CA_KEY)):
            self._merge("secret", name, {"data": {key: ""}}, HOME)
            until_sync(lambda name=name, key=key: self._secret(name)[key], f"{name} is renewed")

    def declare_capacity(self) -> None:
        declared = json.dumps({"resource": SEAT, "amount": 5})
        body = a_manifest("v1", "ConfigMap", f"{HOME}/{CAPACITY_CONFIG}", data={"s": declared})
        with self._created(body, "configmap", CAPACITY_CONFIG, "-n", HOME):
            until_sync(lambda: self._seats() == "5", "the node offers seats")
        until_sync(lambda: self._seats() is None, "the node offers no seats")

    def claim_devices(self, shop: Tenant) -> None:
        """A pod with an unreadable annotation gets an event from the agent."""
        container = {"name": "main", "image": BUSYBOX, "command": SLEEP}
        pod = a_manifest("v1", "Pod", "claims", spec={"containers": [container]})
        pod["metadata"]["annotations"] = {KOORDINATOR.annotation: "{"}
        shop.create_pod(pod)
        until_sync(lambda: "claims" in shop.running(), "the pod runs")
        until_sync(self._is_agent_ready, self.installed.pods)

        def is_told() -> bool:
            self._list_devices()
            return any(
                (each.account, each.verb, each.resource) == (AGENT, "create", "events")
                for each in self.log.requests()
            )

        until_sync(is_told, self.installed.pods)

    def _is_agent_ready(self) -> bool:
        found = self.installed.kubectl("get", "daemonset", "-n", HOME, AGENT, "-o", "json")
        ready: int = json.loads(found)["status"].get("numberReady", 0)
        return ready == 1

    def _list_devices(self) -> None:
        path = self.installed.node.kubelet_folder / SOCKET_FOLDER / "kubelet.sock"
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix:{path}", options) as channel:
            channel.unary_unary("/v1.PodResourcesLister/List")(b"", timeout=60)

    def _seats(self) -> str | None:
        node = self.installed.kubectl("get", "node", self.installed.node.name, "-o", "json")
        amount: str | None = json.loads(node)["status"]["capacity"].get(SEAT)
        return amount

    def _secret(self, name: str) -> dict[str, str]:
        found = self.installed.kubectl("get", "secret", "-n", HOME, name, "-o", "json")
        data: dict[str, str] = json.loads(found)["data"]
        return data

    # ------------------------------------------------------------------ kubectl

    @contextmanager
    def _created(self, body: dict[str, Any], *named: str) -> Iterator[None]:
        self.installed.kubectl("create", "-f", "-", stdin=json.dumps(body))
        try:
            yield
        finally:
            self.installed.kubectl("delete", *named)

    def _merge(self, kind: str, name: str, patch: dict[str, Any], namespace: str = "") -> None:
        where = ("-n", namespace) if namespace else ()
        written = json.dumps(patch)
        self.installed.kubectl("patch", kind, name, *where, "--type=merge", "-p", written)


def cluster_quota(name: str, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"labels": {"matchLabels": labels}}
    spec = {"quota": {"hard": {"requests.memory": "1Gi"}}, "selector": selector}
    return a_manifest(AAQ_VERSION, ACRQ, name, spec=spec)
