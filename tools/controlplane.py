"""A real control plane on loopback: etcd, API server, scheduler, controllers, and simulated nodes.

It is what the tests run against and what `make cluster` starts. RBAC is on, client
certificates identify users, service accounts have tokens, admission plugins are the
default ones. Everything lives in one folder and in processes that die with us.

A node with real containers can be added: see `real_node/cluster.py`.

Its version is that of `controlplane/go.mod`. The variable BURSAR_KUBERNETES chooses another one for
all control planes of a run: `1.32`, whose programs are built from a module of their own, or
`emulated-1.34`, for which the API server of today offers the APIs and features of that version.
"""

import http.client
import ipaddress
import json
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from assets import ASSETS, CONTROLPLANE, OLDER, SERVERS, AssetError, ensure
from certificates import Authority, Pair, service_account_key
from program import Program, free_port

LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.0.0.0/24"
SIMULATED = ("kwok.x-k8s.io/node", "fake")
"""The annotation of nodes that kwok keeps alive, and whose pods it pretends to run."""
EMULATED = "emulated-"
NODE_CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "512Gi", "pods": "110"}


def chosen_version() -> str:
    """The version of BURSAR_KUBERNETES; empty for the usual one. Raises `AssetError`."""
    version = os.environ.get("BURSAR_KUBERNETES", "")
    if version and version not in OLDER and not re.fullmatch(rf"{EMULATED}1\.\d+", version):
        known = ", ".join((*OLDER, f"{EMULATED}1.34"))
        raise AssetError(f"BURSAR_KUBERNETES: {version!r} is none of {known}")
    return version


def minor_version(version: str) -> int:
    """The minor version of Kubernetes that an API server of a chosen version is, or emulates."""
    full = version.removeprefix(EMULATED) or ASSETS["kube-apiserver"].version
    return int(full.split(".")[1])


class ControlPlane:
    """Build it, `start()` it, use `kubeconfig`, `stop()` it. The parts can be hurt one by one.

    The API server listens on `address`, which must exist on this machine. For real nodes that is
    an address that they reach, and they are what `service_range` is routed to. With an
    `audit_policy`, the spec of an audit.k8s.io/v1 Policy, the API server writes `audit_log`. To
    the webhooks of `webhook_clients`, by host and port, it shows a client certificate. `version` is
    one of `assets.OLDER`, or `emulated-` and a minor version that the API server can emulate. The
    API server has the `features` besides those that its version has by default.
    """

    def __init__(
        self,
        *,
        address: str = LOOPBACK,
        service_range: str = SERVICE_RANGE,
        audit_policy: Mapping[str, object] | None = None,
        webhook_clients: Mapping[str, Pair] | None = None,
        version: str | None = None,
        features: Sequence[str] = (),
    ) -> None:
        self.version = chosen_version() if version is None else version
        self._features = features
        self.address, self._service_range = address, service_range
        self._audit_policy = audit_policy
        self._webhook_clients = webhook_clients or {}
        self.folder = Path(tempfile.mkdtemp(prefix="bursar-cluster-"))
        self.audit_log = self.folder / "audit.log"
        pki = self.folder / "pki"
        pki.mkdir()
        self._authority = Authority(pki)
        self._tokens_key = service_account_key(pki)
        self._admin = self._authority.client("bursar-admin", "system:masters")
        self.etcd_port, self.api_port = free_port(), free_port()
        self.kubeconfig = self.write_kubeconfig("admin", self._admin)
        self.etcd = self._etcd(free_port())
        self.apiserver = self._apiserver(pki)
        self.scheduler = self._component("kube-scheduler", [])
        self.controllers = self._component(
            "kube-controller-manager",
            [
                f"--service-account-private-key-file={self._tokens_key}",
                f"--root-ca-file={self._authority.certificate}",
                "--use-service-account-credentials=true",
            ],
        )
        self.kwok = self._kwok()
        self.parts = [self.etcd, self.apiserver, self.scheduler, self.controllers, self.kwok]

    @property
    def minor(self) -> int:
        return minor_version(self.version)

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    def start(self, *, nodes: int = 0, parts: list[Program] | None = None) -> None:
        """Start the parts in order, wait for each, and register simulated nodes."""
        try:
            for part in self.parts if parts is None else parts:
                part.start()
                part.wait_ready()
            for number in range(nodes):
                self.add_node(f"node-{number}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything and remove the folder."""
        for part in reversed(self.parts):
            part.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_node(self, name: str) -> None:
        """Register a node that kwok keeps alive."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": dict([SIMULATED]),
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            },
            "status": {"capacity": NODE_CAPACITY, "allocatable": NODE_CAPACITY},
        }
        self.request("POST", "/api/v1/nodes", node)

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """One call as administrator, with nothing of ours in between."""
        context = ssl.create_default_context(cafile=str(self._authority.certificate))
        context.load_cert_chain(self._admin.certificate, self._admin.key)
        connection = http.client.HTTPSConnection(
            self.address, self.api_port, context=context, timeout=60
        )
        try:
            payload = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, payload, sent)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def client(self, user: str, *groups: str) -> Pair:
        """A client certificate for another user."""
        return self._authority.client(user, *groups)

    def server_certificate(self, name: str, *addresses: str) -> Pair:
        """A serving certificate that clients of this control plane trust."""
        return self._authority.server(name, *addresses)

    @property
    def authority_certificate(self) -> Path:
        """The CA certificate (PEM) of everything in this control plane."""
        return self._authority.certificate

    def write_kubeconfig(self, name: str, pair: Pair) -> Path:
        """A kubeconfig for the user of a client certificate."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bursar",
            "clusters": [
                {
                    "name": "bursar",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority": str(self._authority.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate": str(pair.certificate),
                        "client-key": str(pair.key),
                    },
                }
            ],
            "contexts": [{"name": "bursar", "context": {"cluster": "bursar", "user": name}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2))
        return path

    # -------------------------------------------------------------- the parts

    def _program(self, name: str, arguments: list[str], probe: "_Probe") -> Program:
        is_older = name in SERVERS and self.version in OLDER
        command = [str(ensure(f"{name}-{self.version}" if is_older else name)), *arguments]
        return Program(name, command, log=self.folder / f"{name}.log", is_ready=probe)

    def _etcd(self, peer_port: int) -> Program:
        client, peer = f"http://{LOOPBACK}:{self.etcd_port}", f"http://{LOOPBACK}:{peer_port}"
        arguments = [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        return self._program("etcd", arguments, _Probe(self.etcd_port, "/health", secure=False))

    def _apiserver(self, pki: Path) -> Program:
        first_service = str(ipaddress.ip_network(self._service_range)[1])
        serving = self._authority.server("kube-apiserver", self.address, first_service)
        at_kubelets = self._authority.client("kube-apiserver-kubelet-client", "system:masters")
        arguments = [
            f"--etcd-servers=http://{LOOPBACK}:{self.etcd_port}",
            f"--bind-address={self.address}",
            f"--secure-port={self.api_port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self._authority.certificate}",
            f"--cert-dir={pki}",
            f"--service-account-key-file={self._tokens_key}",
            f"--service-account-signing-key-file={self._tokens_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            f"--kubelet-client-certificate={at_kubelets.certificate}",
            f"--kubelet-client-key={at_kubelets.key}",
            f"--kubelet-certificate-authority={self._authority.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-cluster-ip-range={self._service_range}",
            "--allow-privileged=true",
        ]
        if self.version.startswith(EMULATED):
            arguments.append(f"--emulated-version={self.version.removeprefix(EMULATED)}")
        if self._features:
            gates = ",".join(f"{each}=true" for each in self._features)
            arguments.append(f"--feature-gates={gates}")
        if self.address != LOOPBACK:  # which no other machine's Service could lead to
            arguments.append(f"--advertise-address={self.address}")
        if self._audit_policy is not None:
            arguments += self._audit_arguments(self._audit_policy)
        if self._webhook_clients:
            arguments.append(f"--admission-control-config-file={self._admission_configuration()}")
        probe = _Probe(self.api_port, "/readyz", client=self._admin, address=self.address)
        return self._program("kube-apiserver", arguments, probe)

    def _audit_arguments(self, policy: Mapping[str, object]) -> list[str]:
        path = self.folder / "audit-policy.json"
        path.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **policy}))
        return [f"--audit-policy-file={path}", f"--audit-log-path={self.audit_log}"]

    def _admission_configuration(self) -> Path:
        """The file that tells the API server its credentials for webhooks."""
        users = [
            {
                "name": host,
                "user": {
                    "client-certificate": str(pair.certificate),
                    "client-key": str(pair.key),
                },
            }
            for host, pair in self._webhook_clients.items()
        ]
        credentials = self.folder / "webhooks.kubeconfig"
        credentials.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
        version = "apiserver.config.k8s.io/v1"
        configuration = {
            "apiVersion": version,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(credentials),
        }
        plugins = [
            {"name": f"{sort}AdmissionWebhook", "configuration": configuration}
            for sort in ("Mutating", "Validating")
        ]
        path = self.folder / "admission.json"
        path.write_text(
            json.dumps(
                {"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}
            )
        )
        return path

    def _component(self, name: str, arguments: list[str]) -> Program:
        """Scheduler and controller manager, each as the user its own RBAC rules are made for."""
        user = f"system:{name}"
        port = free_port()
        common = [
            f"--kubeconfig={self.write_kubeconfig(name, self._authority.client(user))}",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            "--authorization-always-allow-paths=/healthz",
        ]
        return self._program(name, [*common, *arguments], _Probe(port, "/healthz"))

    def configured_scheduler(self, name: str, configuration: Mapping[str, object]) -> Program:
        """A kube-scheduler with a KubeSchedulerConfiguration, beside or instead of `scheduler`.

        How it reaches the API server is added to the configuration.
        """
        user = "system:kube-scheduler"
        kubeconfig = self.write_kubeconfig(name, self._authority.client(user))
        path = self.folder / f"{name}.json"
        path.write_text(
            json.dumps(
                {
                    **configuration,
                    "clientConnection": {"kubeconfig": str(kubeconfig)},
                    "leaderElection": {"leaderElect": False},
                }
            )
        )
        port = free_port()
        arguments = [
            f"--config={path}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            "--authorization-always-allow-paths=/healthz",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ]
        command = [str(ensure("kube-scheduler")), *arguments]
        log = self.folder / f"{name}.log"
        return Program(name, command, log=log, is_ready=_Probe(port, "/healthz"))

    def _kwok(self) -> Program:
        port = free_port()
        arguments = [
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={'='.join(SIMULATED)}",
            f"--node-ip={LOOPBACK}",
            f"--server-address={LOOPBACK}:{port}",
            f"--config={CONTROLPLANE / 'kwok' / 'stages.yaml'}",
        ]
        return self._program("kwok", arguments, _Probe(port, "/healthz", secure=False))


class _Probe:
    """Asks a health endpoint; true when it answers 200."""

    def __init__(
        self,
        port: int,
        path: str,
        *,
        secure: bool = True,
        client: Pair | None = None,
        address: str = LOOPBACK,
    ) -> None:
        self._port, self._path, self._secure, self._client = port, path, secure, client
        self._address = address

    def __call__(self) -> bool:
        connection = self._connection()
        try:
            connection.request("GET", self._path)
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(LOOPBACK, self._port, timeout=10)
        # Only this machine, and only the question whether something is up.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        if self._client is not None:
            context.load_cert_chain(self._client.certificate, self._client.key)
        return http.client.HTTPSConnection(self._address, self._port, context=context, timeout=10)
