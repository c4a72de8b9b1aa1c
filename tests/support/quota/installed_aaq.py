"""Bursar as installed on a real cluster: its manifests, its two processes, and people who use it.

What is installed affects the whole cluster, so it lives as long as one module of tests, and
is gone for certain before the next module begins: whoever removes a webhook or a policy has
to wait until the API server has noticed.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import ACCEPTED, CREATED, NOT_FOUND, OK
from pathlib import Path
from typing import Any

import yaml

from bursar.adapters.files.crds import crd_folder
from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE
from bursar.app.quota.kinds import CUSTOM_KINDS
from bursar.app.quota.managed.names import MANAGED_SUFFIX
from bursar.core.model.quantity import Quantity
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from controlplane import ControlPlane
from program import Program
from support.builders.manifests import pod_manifest
from support.builders.pods import listed
from support.install.printed import printed_objects
from support.processes.command_line import COMMAND, Ran
from support.processes.kubectl import try_kubectl
from support.processes.webhook import Webhook
from support.until import until_sync

Raw = dict[str, Any]
ARQ = "applicationawareresourcequotas"
ACRQ = "applicationawareclusterresourcequotas"
AACRQ = "applicationawareappliedclusterresourcequotas"
COUNT_ARQ = f"count/{ARQ}.aaq.kubevirt.io"
KINDS = {
    ARQ: "ApplicationAwareResourceQuota",
    ACRQ: "ApplicationAwareClusterResourceQuota",
}
GROUPS = {
    **dict.fromkeys((ARQ, ACRQ, AACRQ), "/apis/aaq.kubevirt.io/v1alpha1"),
    "events": "/apis/events.k8s.io/v1",
    "replicasets": "/apis/apps/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
}
TEST_QUOTA = listed(
    "pods=5 cpu=1 memory=500Mi ephemeral-storage=50Gi requests.example.com/dongle=3"
    " services=10 services.nodeports=1 services.loadbalancers=1 replicationcontrollers=10"
    " resourcequotas=2 configmaps=10 secrets=10 persistentvolumeclaims=10 requests.storage=10Gi"
    " gold.storageclass.storage.k8s.io/persistentvolumeclaims=10"
    " gold.storageclass.storage.k8s.io/requests.storage=10Gi"
    f" count/replicasets.apps=5 {COUNT_ARQ}=2"
)
"""What AAQ's own tests call test-quota."""
VALIDATORS = {
    "application.resource.quota.validator",
    "cluster.apps.resource.quota.validator",
    "aaq.cr.validator",
    "counting.policy.validator",
}


def mark() -> str:
    return uuid.uuid4().hex[:8]


# ------------------------------------------------------------------ the installation


@dataclass
class System:
    """A cluster on which Bursar is at work."""

    plane: ControlPlane
    home: str
    controller: Program
    webhook: Webhook

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Raw]:
        code, answer = self.plane.request(method, path, body)
        return code, json.loads(answer)

    def kubectl(self, *arguments: str, stdin: str = "") -> Ran:
        return try_kubectl(self.plane, *arguments, stdin=stdin)

    def run(self, *arguments: str, stdin: str = "") -> str:
        ran = self.kubectl(*arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran.out

    @contextmanager
    def namespace(self, **labels: str) -> Iterator["Place"]:
        """A namespace of its own, in which pods are held back."""
        place = Place(self, f"aaq-rows-{mark()}")
        body = {"metadata": {"name": place.name, "labels": {GATING_LABEL: "", **labels}}}
        code, answer = self.request("POST", "/api/v1/namespaces", body)
        assert code == CREATED, answer
        try:
            # Pods are refused without it, and its controller need not be waited for.
            self.request("POST", place.path("serviceaccounts"), {"metadata": {"name": "default"}})
            yield place
        finally:
            self.request("DELETE", f"/api/v1/namespaces/{place.name}")

    @contextmanager
    def cluster_quota(self, quota: Raw, selector: Raw) -> Iterator["ClusterQuota"]:
        made = ClusterQuota(self, f"rows-{mark()}")
        spec = {"quota": quota, "selector": selector}
        code, answer = self.request("POST", cluster_path(ACRQ), custom(ACRQ, made.name, spec))
        assert code == CREATED, answer
        try:
            yield made
        finally:
            made.delete()


def cluster_path(plural: str, name: str = "") -> str:
    return "/".join(filter(None, (GROUPS.get(plural, "/api/v1"), plural, name)))


def custom(plural: str, name: str, spec: Raw) -> Raw:
    return {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": KINDS[plural],
        "metadata": {"name": name},
        "spec": spec,
    }


@contextmanager
def a_system(plane: ControlPlane, folder: Path, *options: str) -> Iterator[System]:
    """Install as documented, run both processes, and leave nothing behind but definitions.

    `options` are the controller's.
    """
    home = f"aaq-{mark()}"
    webhook = Webhook(plane, folder, home, f"--kubeconfig={_account(plane, home, 'aaq-server')}")
    system = System(plane, home, _controller(plane, folder, home, *options), webhook)
    # Definitions stay: other tests ask for them, too.
    system.run("apply", "--server-side", "--force-conflicts", "-f", str(crd_folder()))
    names = [f"crd/{resource}" for resource in CUSTOM_KINDS]
    system.run("wait", "--for=condition=Established", "--timeout=120s", *names)
    documents = [*printed_objects("rbac", "-n", home), *_admission(plane, webhook, home)]
    written = yaml.safe_dump_all(documents)
    try:
        webhook.program.start()
        webhook.program.wait_ready()
        system.run("apply", "-f", "-", stdin=written)
        system.controller.start()
        system.controller.wait_ready()
        with system.namespace() as probe:
            until_sync(lambda: is_in_force(probe) == {"gates", "rules"}, "it is in force")
        yield system
    finally:
        system.run("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=written)
        system.controller.stop()
        with system.namespace() as probe:
            until_sync(lambda: not is_in_force(probe), "it is no longer in force")
        webhook.program.stop()
        logs = system.controller.log.read_text() + webhook.log()
        assert "Traceback" not in logs, logs


def _account(plane: ControlPlane, home: str, name: str) -> Path:
    """Access with the rights of a service account, and no others."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated")
    pair = plane.client(f"system:serviceaccount:{home}:{name}", *groups)
    return plane.write_kubeconfig(f"{home}-{name}", pair)


def _controller(plane: ControlPlane, folder: Path, home: str, *options: str) -> Program:
    log = folder / "controller.log"
    access = _account(plane, home, "aaq-controller")
    return Program(
        "controller",
        [
            *(str(COMMAND), "controller", f"--namespace={home}", f"--kubeconfig={access}"),
            *("--tls-dir=", "--counting-policies"),
            *options,
        ],
        log=log,
        is_ready=lambda: "leading as" in log.read_text(),
    )


def _admission(plane: ControlPlane, webhook: Webhook, home: str) -> list[Raw]:
    """Policies gate pods, and webhooks judge quotas. On older servers webhooks do both."""
    arguments = ("--url", webhook.url, "--ca-bundle", str(webhook.authority.certificate))
    found = printed_objects("webhooks", "-n", home, "--configuration-exists", *arguments)
    if plane.minor < MUTATING_POLICIES_SINCE:
        return found
    validating = next(each for each in found if each["kind"] == "ValidatingWebhookConfiguration")
    validating["webhooks"] = [hook for hook in validating["webhooks"] if hook["name"] in VALIDATORS]
    return [*printed_objects("policies", "-n", home), validating]


def is_in_force(place: "Place") -> set[str]:
    """What of the installation the API server has taken notice of."""
    trial = "?dryRun=All"
    request = place.system.request
    _, pod = request("POST", place.path("pods") + trial, idle_pod("probe"))
    quota = custom(ARQ, "probe", {"hard": {"illegalName": "1"}})
    code, _ = request("POST", place.path(ARQ) + trial, quota)
    gates = {"gates"} if pod.get("spec", {}).get("schedulingGates") else set()
    return gates | (set() if code == CREATED else {"rules"})


# ------------------------------------------------------------------ what is in it


def idle_pod(name: str, requests: str = "", limits: str = "", **spec: object) -> Raw:
    """A pod that no node can take, so that nothing happens to it but what the test does."""
    nowhere = {
        "nodeSelector": {"bursar-test/nowhere": "true"},
        "automountServiceAccountToken": False,
    }
    return pod_manifest(name, requests=requests, limits=limits, **{**nowhere, **spec})


@dataclass
class ClusterQuota:
    system: System
    name: str

    def read(self) -> Raw:
        return self.system.request("GET", cluster_path(ACRQ, self.name))[1]

    def change(self, **spec: object) -> None:
        """Replace fields of the spec."""
        patch = json.dumps({"spec": spec})
        self.system.run("patch", ACRQ, self.name, "--type=merge", "-p", patch)

    def namespaces(self) -> dict[str, Raw]:
        """The use of each namespace, as the status has it."""
        listed = self.read().get("status", {}).get("namespaces") or []
        return {each["namespace"]: each["status"] for each in listed}

    def delete(self) -> None:
        self.system.request("DELETE", cluster_path(ACRQ, self.name))


@dataclass
class Place:
    """A namespace, and what a person does in it."""

    system: System
    name: str

    def path(self, plural: str, name: str = "") -> str:
        parts = (GROUPS.get(plural, "/api/v1"), "namespaces", self.name, plural, name)
        return "/".join(filter(None, parts))

    def try_create(self, plural: str, body: Raw) -> tuple[int, Raw]:
        return self.system.request("POST", self.path(plural), body)

    def create(self, plural: str, name: str, **fields: object) -> None:
        """Create an object, if need be again: a new quota counts only after a moment."""
        body = {"metadata": {"name": name}, **fields}
        answers: list[tuple[int, Raw]] = []

        def is_created() -> bool:
            answers.append(self.try_create(plural, body))
            return answers[-1][0] == CREATED

        until_sync(is_created, lambda: answers[-1])

    def find(self, plural: str, name: str) -> Raw | None:
        code, found = self.system.request("GET", self.path(plural, name))
        assert code in {OK, NOT_FOUND}, found
        return found if code == OK else None

    def read(self, plural: str, name: str) -> Raw:
        found = self.find(plural, name)
        assert found is not None, name
        return found

    def exists(self, plural: str, name: str) -> bool:
        return self.find(plural, name) is not None

    def delete(self, plural: str, *names: str) -> None:
        for name in names:
            code, answer = self.system.request("DELETE", self.path(plural, name))
            assert code in {OK, ACCEPTED}, answer

    def patch(self, plural: str, name: str, change: object, *arguments: str) -> Ran:
        return self.system.kubectl(
            *("patch", plural, name, "-n", self.name, "-p", json.dumps(change), *arguments)
        )

    def label(self, **labels: str | None) -> None:
        change = json.dumps({"metadata": {"labels": labels}})
        self.system.run("patch", "namespace", self.name, "--type=merge", "-p", change)

    # -------------------------------------------------------------- quotas

    def quota(self, hard: Mapping[str, str], name: str = "test-quota", **spec: object) -> None:
        quota = custom(ARQ, name, {"hard": dict(hard), **spec})
        code, answer = self.try_create(ARQ, quota)
        assert code == CREATED, answer
        until_sync(lambda: self.status(name).get("hard") == hard, lambda: self.status(name))
        if any(not is_schedulable(each) for each in hard):
            # Kubernetes counts an object only if its quota is in force when it is created.
            until_sync(lambda: self._is_delegated(name), "Kubernetes enforces its part")

    def _is_delegated(self, name: str) -> bool:
        managed = self.find("resourcequotas", name + MANAGED_SUFFIX) or {"spec": {}}
        return managed.get("status", {}).get("hard", {}) == managed["spec"].get("hard")

    def limit(self, hard: str, name: str = "test-quota") -> None:
        """Change some limits."""
        change = {"spec": {"hard": listed(hard)}}
        ran = self.patch(ARQ, name, change, "--type=merge")
        assert ran.code == 0, ran.err

    def status(self, name: str = "test-quota") -> Raw:
        return self.read(ARQ, name).get("status", {})

    def wait_used(self, expected: str, name: str = "test-quota") -> None:
        """Until the quota shows this use, compared as amounts."""
        wanted = {key: Quantity.parse(text) for key, text in listed(expected).items()}

        def is_used() -> bool:
            used = self.status(name).get("used", {})
            shown = {key: Quantity.parse(used.get(key, "-1")) for key in wanted}
            return shown == wanted

        until_sync(is_used, lambda: (expected, self.status(name)))

    # -------------------------------------------------------------- pods

    def pod(self, name: str, requests: str = "", limits: str = "", **spec: object) -> None:
        code, answer = self.try_create("pods", idle_pod(name, requests, limits, **spec))
        assert code == CREATED, answer
        assert gates_of(answer)[-1] == GATE

    def is_gated(self, name: str) -> bool:
        return GATE in gates_of(self.read("pods", name))

    def wait_released(self, name: str) -> None:
        until_sync(lambda: not gates_of(self.read("pods", name)), lambda: self.notes(name))

    def admit(self, name: str, requests: str = "", limits: str = "", **spec: object) -> None:
        """A pod for which there is room."""
        self.pod(name, requests, limits, **spec)
        self.wait_released(name)

    def all_notes(self) -> list[tuple[str, str]]:
        """What events say, and about whom."""
        _, events = self.system.request("GET", self.path("events"))
        return [(each["regarding"]["name"], each["note"]) for each in events["items"]]

    def notes(self, name: str) -> list[str]:
        return [note for about, note in self.all_notes() if about == name]

    def check_stays_gated(self, *names: str, note: str = "exceeded quota") -> None:
        """They are told why they wait, and wait on."""
        until_sync(lambda: all(note in "".join(self.notes(name)) for name in names), self.all_notes)
        self.check_still_gated(*names)

    def check_still_gated(self, *names: str) -> None:
        """They wait on, after the controller has decided about a pod that came later."""
        with self.system.namespace() as elsewhere:
            elsewhere.admit("canary")
        assert [name for name in names if not self.is_gated(name)] == []


def gates_of(pod: Raw) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
