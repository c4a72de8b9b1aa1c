"""Features that API servers have from some version on, as a server itself shows them."""

import json
from http.client import CREATED
from typing import Any

from controlplane import ControlPlane
from support.builders.manifests import pod_manifest

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SINCE = (36, 34, 33)
"""The minor versions that brought a feature on which something of Bursar depends."""


def pod_with_resources_of_its_own(name: str) -> dict[str, Any]:
    """A pod of 3 CPUs, or of the one of its container if the server has no pod-level resources."""
    return pod_manifest(
        name,
        requests="cpu=1",
        resources={"requests": {"cpu": "3"}},
        nodeSelector={"bursar-test/nowhere": "true"},
        automountServiceAccountToken=False,
    )


def missing_features(plane: ControlPlane) -> set[int]:
    """Those of `SINCE` whose feature the server does not have."""

    def names(path: str) -> set[str]:
        return {each["name"] for each in json.loads(plane.request("GET", path)[1])["resources"]}

    # This namespace has no quotas, and nothing is stored in it.
    pods = "/api/v1/namespaces/kube-public/pods?dryRun=All"
    account = {"metadata": {"name": "default"}}
    plane.request("POST", "/api/v1/namespaces/kube-public/serviceaccounts", account)
    code, body = plane.request("POST", pods, pod_with_resources_of_its_own("probe"))
    assert code == CREATED, body
    has = {
        36: "mutatingadmissionpolicies" in names(ADMISSION),
        34: "resources" in json.loads(body)["spec"],
        33: "pods/resize" in names("/api/v1"),
    }
    assert "validatingadmissionpolicies" in names(ADMISSION)
    return {since for since in SINCE if not has[since]}
