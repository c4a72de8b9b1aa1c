"""Requests in the name of users and of Bursar's service accounts, without its processes."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from controlplane import ControlPlane
from support.builders.manifests import pod_manifest

JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


@dataclass
class Confined:
    """Bursar's rights, without its processes, and a namespace of a tenant."""

    plane: ControlPlane
    home: str
    namespace: str

    def ask(
        self, user: str, method: str, path: str, body: Any = None, headers: Any = None
    ) -> tuple[int, Any]:
        sent = {"Impersonate-User": user, **(headers or {})} if user else headers
        code, answer = self.plane.request(method, path, body, sent)
        return code, json.loads(answer)

    def account(self, name: str) -> str:
        return f"system:serviceaccount:{self.home}:{name}"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def quotas(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/resourcequotas"

    def create_pod(self, *gates: str) -> str:
        name = f"p-{uuid.uuid4().hex[:6]}"
        pod = pod_manifest(name, *gates, requests="cpu=1")
        pod["spec"]["nodeSelector"] = {"no": "such-node"}
        code, answer = self.ask("", "POST", self.pods, pod)
        assert code == 201, answer
        return f"{self.pods}/{name}"

    def grant(self, user: str, *rules: dict) -> None:
        role = f"role-of-{user}"
        place = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}"
        self.ask("", "POST", f"{place}/roles", {"metadata": {"name": role}, "rules": list(rules)})
        api = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": role},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        }
        assert self.ask("", "POST", f"{place}/rolebindings", binding)[0] == 201
