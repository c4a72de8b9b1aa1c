"""What a hostile tenant can do at the API server and at Bursar's ports, all of it at once.

Each means is a task of its own. It repeats its requests at a bounded pace, as the fair queuing
of an API server would allow, and goes on whatever it is answered.
"""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import SystemRandom
from secrets import token_hex
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.kubeconfig.config import load_kubeconfig
from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import AlreadyExistsError, ClusterError, Key, Patch, PatchKind
from controlplane import LOOPBACK, ControlPlane

PRIORITY_CLASS: Final = "anybody-may-use-this"
OWN_GATE: Final = "mallory.example.com/mine"
BROKEN_LABEL: Final = "broken"
"""Pods with this label meet somebody's webhook that is down."""
PACE_SECONDS: Final = 0.2
NAMES: Final = 2_000
"""Resource names of one pod."""
STRANGERS: Final = 10
IDLE_CONNECTIONS: Final = 200


@dataclass(frozen=True)
class Target:
    namespace: str
    leader_port: int
    webhook_port: int


@asynccontextmanager
async def attack(plane: ControlPlane, target: Target) -> AsyncIterator[Counter[str]]:
    """Do everything until the block ends. Afterwards the counter says what was answered.

    Mallory is a process of his own, so that his work does not delay the measuring one.
    """
    _break_a_webhook(plane, target.namespace)
    arguments = [str(_tenant(plane, target.namespace)), target.namespace]
    arguments += [str(target.leader_port), str(target.webhook_port)]
    command = [sys.executable, __file__, *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    answers: Counter[str] = Counter()
    try:
        yield answers
    finally:
        process.terminate()
        printed, _ = await process.communicate()
        answers.update(json.loads(printed))


async def _attack(kubeconfig: str, target: Target) -> Counter[str]:
    access = load_kubeconfig([kubeconfig], environment=os.environ, clock=SYSTEM_CLOCK)
    limits = Limits(in_flight_max=32, attempts_max=1)
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom(), limits=limits) as client:
        mallory = Mallory(client, target)
        tasks = [asyncio.create_task(mallory.repeat(each)) for each in mallory.means()]
        await is_over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        mallory.hang_up()
    return mallory.answers


def _tenant(plane: ControlPlane, namespace: str) -> Path:
    """A user who may do everything with pods of one namespace."""
    user, group = "mallory", "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/resize"], "verbs": ["*"]}]
    role = {"metadata": {"name": user}, "rules": rules}
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    for plural, document in (("roles", role), ("rolebindings", binding)):
        path = f"/apis/{group}/v1/namespaces/{namespace}/{plural}"
        code, answer = plane.request("POST", path, document)
        assert code == 201, answer
    return plane.write_kubeconfig(user, plane.client(user, "system:authenticated"))


def _break_a_webhook(plane: ControlPlane, namespace: str) -> None:
    """An administrator's webhook that is down: changes of labelled pods of the tenant fail."""
    webhook = {
        "name": "broken.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "clientConfig": {"url": f"https://{LOOPBACK}:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": {BROKEN_LABEL: "yes"}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["pods"],
            }
        ],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    document = {"metadata": {"name": "broken"}, "webhooks": [webhook]}
    code, answer = plane.request("POST", path, document)
    assert code == 201, answer


@dataclass
class Mallory:
    client: KubeClient
    target: Target
    answers: Counter[str] = field(default_factory=Counter)
    _numbers: "count[int]" = field(default_factory=count)
    _idle: list[asyncio.StreamWriter] = field(default_factory=list)

    def means(self) -> list[Callable[[], Awaitable[object]]]:
        return [
            self.hold_the_quota,
            self.bank_age,
            self.outrank,
            self.send_sizes,
            self.send_a_huge_pod,
            self.change_a_huge_pod,
            self.change_labels,
            self.flip_the_scope,
            self.grow,
            self.meet_a_broken_webhook,
            self.forge_a_resize,
            self.bring_strange_tokens,
            self.stay_connected,
        ]

    async def repeat(self, means: Callable[[], Awaitable[object]]) -> None:
        name = getattr(means, "__name__", "")
        while True:
            try:
                await means()
            except ClusterError as error:
                self.answers[f"{name}: {type(error).__name__}"] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                self.answers[f"{name}: {type(error).__name__}"] += 1
            else:
                self.answers[f"{name}: done"] += 1
            await asyncio.sleep(PACE_SECONDS)

    # -------------------------------------------------------------- means of the API

    async def hold_the_quota(self) -> None:
        """A pod that runs 1m for ever, and one that asks for the whole quota."""
        await self._create("tiny", {"cpu": "1m"}, number=0)
        await self._create("plug", {"cpu": "100"})

    async def bank_age(self) -> None:
        """A pod behind an own gate, which is taken away later."""
        name = await self._create("banked", {"cpu": "100"}, gates=[OWN_GATE])
        await asyncio.sleep(5)
        await self._remove_own_gate(name)

    async def outrank(self) -> None:
        await self._create("urgent", {"cpu": "40"}, priorityClassName=PRIORITY_CLASS)

    async def send_sizes(self) -> None:
        """Pods of which no two are alike."""
        for _ in range(5):
            await self._create("sized", {"cpu": f"{50_000 + next(self._numbers)}m"})

    async def send_a_huge_pod(self) -> None:
        await self._create("huge", _many_names("a"), number=0)

    async def change_a_huge_pod(self) -> None:
        await self._label("huge-0")

    async def change_labels(self) -> None:
        await self._create("changing", {"cpu": "90"}, number=0)
        for _ in range(5):
            await self._label("changing-0")

    async def flip_the_scope(self) -> None:
        name = await self._create("flip", {"cpu": "10m"})
        await asyncio.sleep(1)
        patch = {"spec": {"activeDeadlineSeconds": 3600}}
        await self._patch(name, patch)
        await self.client.delete(PODS, Key(self.target.namespace, name))

    async def grow(self) -> None:
        """A resize of a running pod, as often as it is answered."""
        path = "/spec/containers/0/resources/requests/cpu"
        steps = [{"op": "replace", "path": path, "value": "99"}]
        patch, key = Patch(kind=PatchKind.JSON, body=steps), Key(self.target.namespace, "tiny-0")
        await self.client.patch(PODS, key, patch, subresource="resize")

    async def meet_a_broken_webhook(self) -> None:
        await self._create("stuck", {"cpu": "1m"}, labels={BROKEN_LABEL: "yes"})

    async def _create(
        self,
        kind: str,
        requests: dict[str, str],
        *,
        number: int | None = None,
        gates: list[str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: object,
    ) -> str:
        name = f"{kind}-{next(self._numbers) if number is None else number}"
        resources = {"requests": requests, "limits": _limits(requests)}
        container = {"name": "c", "image": "example.com/c", "resources": resources}
        gated = [{"name": gate} for gate in gates or []]
        pod = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [container], "schedulingGates": gated, **spec},
        }
        with contextlib.suppress(AlreadyExistsError):
            await self.client.create(PODS, pod, namespace=self.target.namespace)
        return name

    async def _label(self, name: str) -> None:
        await self._patch(name, {"metadata": {"labels": {"changed": token_hex(8)}}})

    async def _remove_own_gate(self, name: str) -> None:
        key = Key(self.target.namespace, name)
        pod = json.loads(await self.client.get(PODS, key))
        gates = [each["name"] for each in pod["spec"].get("schedulingGates", [])]
        if OWN_GATE in gates:
            steps = [{"op": "remove", "path": f"/spec/schedulingGates/{gates.index(OWN_GATE)}"}]
            await self.client.patch(PODS, key, Patch(kind=PatchKind.JSON, body=steps))

    async def _patch(self, name: str, body: object) -> None:
        patch = Patch(kind=PatchKind.MERGE, body=body)
        await self.client.patch(PODS, Key(self.target.namespace, name), patch)

    # -------------------------------------------------------------- means of the network

    async def forge_a_resize(self) -> None:
        """A made-up review of a resize of Alice's pod."""
        metadata = {"name": "web", "namespace": "alice", "uid": token_hex(8)}
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            }
            for cpu in ("90", "1")
        ]
        request = {
            "uid": token_hex(8),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "resize",
            "namespace": "alice",
            "name": "web",
            "operation": "UPDATE",
            "object": pods[0],
            "oldObject": pods[1],
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps(review | {"request": request}).encode()
        await self._post(self.target.webhook_port, "/validate", body)

    async def bring_strange_tokens(self) -> None:
        """Strangers ask the leader, each with a token that nobody issued."""
        port = self.target.leader_port
        await asyncio.gather(
            *(self._post(port, "/v1/resizes", b"{}", token=token_hex(32)) for _ in range(STRANGERS))
        )

    async def stay_connected(self) -> None:
        """Connections that say nothing."""
        self._idle = [each for each in self._idle if not each.transport.is_closing()]
        if len(self._idle) < IDLE_CONNECTIONS:
            for port in (self.target.leader_port, self.target.webhook_port):
                self._idle.append((await self._connect(port))[1])

    def hang_up(self) -> None:
        for each in self._idle:
            each.transport.abort()

    async def _post(self, port: int, path: str, body: bytes, token: str = "") -> None:
        reader, writer = await self._connect(port)
        try:
            head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
            head += [f"Authorization: Bearer {token}"] if token else []
            head += ["Content-Type: application/json", "Connection: close", "", ""]
            writer.write("\r\n".join(head).encode() + body)
            async with asyncio.timeout(10):
                line = await reader.readline()
            self.answers[f"{path}: {line.decode(errors='replace')[9:12]}"] += 1
        finally:
            writer.transport.abort()

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(LOOPBACK, port, ssl=context)


def _many_names(prefix: str) -> dict[str, str]:
    return {f"{prefix}.example.com/r{number:05d}": "1" for number in range(NAMES)}


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources need equal limits; CPU needs none."""
    return {name: amount for name, amount in requests.items() if "/" in name}


if __name__ == "__main__":
    chosen = Target(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps(asyncio.run(_attack(sys.argv[1], chosen))))
