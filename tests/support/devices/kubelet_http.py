"""The kubelet's own HTTP server as a process, with pods that a test makes up.

It is upstream's server with upstream's authentication and authorization: it sends TokenReviews and
SubjectAccessReviews to a real API server. See `controlplane/kubelet-http`.
"""

import http.client
import json
import ssl
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets import ensure
from bursar.adapters.kubelet.endpoint import Endpoint
from certificates import Authority
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.builders.manifests import pod_manifest

PATIENCE_S = 60

Raw = dict[str, Any]


class KubeletHttp:
    """Start it with `program.start()`. It also serves the read-only port."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        node: str = "node-0",
        authority: Authority | None = None,
    ) -> None:
        """The cluster's CA signs its certificate, unless another authority is given."""
        self.node = node
        self.endpoint = Endpoint(LOOPBACK, free_port())
        self.read_only = Endpoint(LOOPBACK, free_port())
        self._pods = folder / "pods.json"
        self.put([])
        shown = (authority or plane._authority).server(f"kubelet-{uuid.uuid4().hex[:8]}")
        self.program = Program(
            "kubelet-http",
            [
                str(ensure("kubelet-http")),
                f"-pods={self._pods}",
                f"-node={node}",
                f"-kubeconfig={plane.kubeconfig}",
                f"-client-ca={plane._authority.certificate}",
                f"-certificate={shown.certificate}",
                f"-key={shown.key}",
                f"-port={self.endpoint.port}",
                f"-read-only-port={self.read_only.port}",
            ],
            log=folder / "kubelet-http.log",
            is_ready=lambda: self._answers() and self._listens(),
        )

    def put(self, pods: Sequence[Raw]) -> None:
        """Set its pods, from the next request on."""
        draft = self._pods.with_suffix(".new")
        draft.write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": list(pods)}))
        draft.replace(self._pods)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(*self.read_only, timeout=PATIENCE_S)
        return _is_answered(connection)

    def _listens(self) -> bool:
        # The certificate does not matter: this only checks on loopback whether the port is open.
        context = ssl._create_unverified_context()  # noqa: S323
        return _is_answered(
            http.client.HTTPSConnection(*self.endpoint, context=context, timeout=PATIENCE_S)
        )


def _is_answered(connection: http.client.HTTPConnection) -> bool:
    try:
        connection.request("GET", "/pods")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def annotated_pod(name: str, annotations: Mapping[str, str] | None = None) -> Raw:
    metadata = {"uid": f"uid-{name}", "annotations": annotations or {}}
    return pod_manifest(f"default/{name}", container="app", metadata=metadata)


# ------------------------------------------------------------------ service accounts


class Asker:
    """A service account in namespace `default`, with the permissions that a test grants."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.name = f"asker-{uuid.uuid4().hex[:8]}"
        self._post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": self.name}})

    def token(self) -> str:
        """A new token; earlier tokens stay valid."""
        path = f"/api/v1/namespaces/default/serviceaccounts/{self.name}/token"
        answer: str = self._post(path, {"spec": {"expirationSeconds": 600}})["status"]["token"]
        return answer

    def allow(self, *resources: str) -> None:
        """Allow it to `get` these resources of any node."""
        self.allow_rules({"apiGroups": [""], "resources": list(resources), "verbs": ["get"]})

    def allow_rules(self, *rules: Raw) -> None:
        subject = {"kind": "ServiceAccount", "namespace": "default"}
        allow(self._plane, self.name, subject, rules)

    def remove(self) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self._plane.request("DELETE", f"{accounts}/{self.name}")
        forbid(self._plane, self.name)

    def _post(self, path: str, body: Raw) -> Raw:
        code, answer = self._plane.request("POST", path, body)
        assert code == http.client.CREATED, answer
        found: Raw = json.loads(answer)
        return found


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def allow(plane: ControlPlane, name: str, subject: Raw, rules: Sequence[Raw]) -> None:
    """Create a ClusterRole and its binding, both with this name."""
    role = {"metadata": {"name": name}, "rules": list(rules)}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"name": name, **subject}],
    }
    for kind, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        code, answer = plane.request("POST", f"{RBAC}/{kind}", body)
        assert code == http.client.CREATED, answer


def forbid(plane: ControlPlane, name: str) -> None:
    for kind in ("clusterrolebindings", "clusterroles"):
        plane.request("DELETE", f"{RBAC}/{kind}/{name}")
