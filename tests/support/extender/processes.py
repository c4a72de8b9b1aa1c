"""`bursar extender` as a process, kube-schedulers that call it, and an observer of bound pods."""

import asyncio
import contextlib
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, EventKind, Query
from bursar.app.extender.scheduler_config import SchedulerConfig, scheduler_configuration
from certificates import Authority, Pair
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.builders.manifests import pod_manifest
from support.builders.reviews import put_pair
from support.cluster.access import a_client, access_of
from support.processes.command_line import COMMAND
from support.processes.kubectl import kubectl

HOME = "aaq"
ACCOUNT = f"system:serviceaccount:{HOME}:bursar-extender"
SCHEDULER = "system:kube-scheduler"
SHORT_TERMS = ("--lease-duration=3s", "--renew-deadline=1500ms", "--retry-period=200ms")


class ExtenderProcess:
    """The verb as a process, with certificates of its own authorities."""

    def __init__(self, plane: ControlPlane, folder: Path, *more: str) -> None:
        self.plane, self.folder = plane, folder
        (folder / "clients").mkdir()
        self.authority, self.clients = Authority(folder), Authority(folder / "clients")
        self.port = free_port()
        put_pair(folder, self.authority.server("extender"))
        self.scheduler_pair = self.clients.client(SCHEDULER)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}")
        pair = plane.client(ACCOUNT, *groups, "system:authenticated")
        arguments = [
            f"--bind={LOOPBACK}:{self.port}",
            f"--tls-dir={folder}",
            f"--client-ca={self.clients.certificate}",
            f"--client-name={SCHEDULER}",
            f"--namespace={HOME}",
            f"--kubeconfig={plane.write_kubeconfig(f'extender-{self.port}', pair)}",
            "--metrics-auth=none",
            *SHORT_TERMS,
            *more,
        ]
        self.program = Program(
            "extender",
            [str(COMMAND), "extender", *arguments],
            log=folder / "extender.log",
            is_ready=self.is_ready,
        )

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def ask(
        self, method: str, path: str, body: object = None, pair: Pair | None = None
    ) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection(LOOPBACK, self.port, context=context, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz")[0] == http.client.OK
        except OSError:
            return False

    def log(self) -> str:
        return self.program.log_end(60)

    def configuration(self, *resources: str, scheduler: str = "") -> dict[str, Any]:
        names = (scheduler,) if scheduler else ("default-scheduler",)
        return dict(
            scheduler_configuration(
                SchedulerConfig(
                    url=self.url,
                    resources=resources,
                    ca_file=str(self.authority.certificate),
                    cert_file=str(self.scheduler_pair.certificate),
                    key_file=str(self.scheduler_pair.key),
                    scheduler_names=names,
                )
            )
        )


@contextlib.contextmanager
def running(*programs: Program) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for program in programs:
            program.start()
            stack.callback(program.stop)
        for program in programs:
            program.wait_ready()
        yield


def cluster_resource(name: str, resource: str, capacity: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "ClusterResource",
        "metadata": {"name": name},
        "spec": {"resourceName": resource, "capacity": capacity, **spec},
    }


def apply(plane: ControlPlane, *documents: object) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)


def licensed_pod(where: str, resource: str, amount: int = 1, **spec: Any) -> dict[str, Any]:
    amounts = f"{resource}={amount}"
    spec = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, **spec}
    return pod_manifest(where, requests=f"cpu=10m {amounts}", limits=amounts, **spec)


class Observer:
    """Follows the pods of a namespace and knows the most that were bound at the same time."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self.bound: dict[str, str] = {}
        """The node of each pod that has one and has not ended, by the name of the pod."""
        self.pods: dict[str, dict[str, Any]] = {}
        self.most = 0

    async def follow(self) -> None:
        while True:
            with contextlib.suppress(ClusterError):
                await self._watch()
            await asyncio.sleep(0.05)

    async def _watch(self) -> None:
        query = Query(namespace=self._namespace)
        seen: set[str] | None = set()
        async for event in self._client.watch(PODS, query, send_initial=True):
            if event.kind is EventKind.BOOKMARK:
                if seen is not None and event.ends_initial:
                    for gone in set(self.pods) - seen:
                        self._drop(gone)
                    seen = None
                continue
            pod = json.loads(event.body)
            name = pod["metadata"]["name"]
            if seen is not None:
                seen.add(name)
            self._drop(name)
            if event.kind is not EventKind.DELETED:
                self.pods[name] = pod
                node = pod["spec"].get("nodeName")
                if node and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                    self.bound[name] = node
            self.most = max(self.most, len(self.bound))

    def _drop(self, name: str) -> None:
        self.pods.pop(name, None)
        self.bound.pop(name, None)


@contextlib.asynccontextmanager
async def observed(plane: ControlPlane, namespace: str) -> AsyncIterator[Observer]:
    async with a_client(access_of(plane)) as client:
        observer = Observer(client, namespace)
        following = asyncio.create_task(observer.follow())
        try:
            yield observer
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
