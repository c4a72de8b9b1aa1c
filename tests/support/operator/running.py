"""A running `bursar operator` on a real control plane, with no more than its own rights."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE
from bursar.app.operator.names import OPERATOR
from controlplane import ControlPlane
from program import Program
from support.install.printed import printed_objects
from support.processes.command_line import COMMAND, Ran
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until_sync

Raw = dict[str, Any]
HOME = "aaq"
EXAMPLES = Path(__file__).parents[3] / "examples" / "operator"
LABEL = "app.kubernetes.io/managed-by=bursar-operator"
POLICIES = "mutatingadmissionpolic"
KINDS = (
    *("deployments", "services", "serviceaccounts", "resourcequotas", "poddisruptionbudgets"),
    *("networkpolicies", "roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    *(f"{POLICIES}ies", f"{POLICIES}ybindings"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
)
HOOKS = (
    "mutatingwebhookconfiguration/gating-mutator",
    "validatingwebhookconfiguration/aaq-validator",
)


@dataclass
class RunningOperator:
    """The cluster, and what administrators do with the AAQ object."""

    plane: ControlPlane
    program: Program

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return kubectl(self.plane, *arguments, stdin=stdin)

    def try_kubectl(self, *arguments: str, stdin: str = "") -> Ran:
        return try_kubectl(self.plane, *arguments, stdin=stdin)

    def get(self, *names: str) -> Raw:
        found: Raw = json.loads(self.kubectl("get", "-n", HOME, *names, "-o", "json"))
        return found

    def apply_aaq(self, annotations: Raw | None = None, **spec: Any) -> None:
        """Create the AAQ object, or replace it: fields that are not given go."""
        body = yaml.safe_load((EXAMPLES / "aaq.yaml").read_text())
        body["metadata"]["annotations"] = annotations or {}
        body["spec"].update(spec)

        def is_written() -> bool:
            # The operator writes finalizers and status meanwhile, so a replacement may conflict.
            verbs = ("create", "replace")
            return any(
                not self.try_kubectl(verb, "-f", "-", stdin=json.dumps(body)).code for verb in verbs
            )

        until_sync(is_written, "the AAQ object is written")

    def edit(self, **spec: Any) -> None:
        change = json.dumps({"spec": spec})
        self.kubectl("patch", "aaq", "aaq", "--type=merge", "-p", change)

    @property
    def status(self) -> Raw:
        found: Raw = json.loads(self.kubectl("get", "aaq", "aaq", "-o", "json")).get("status", {})
        return found

    def conditions(self) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.status.get("conditions", [])}

    def trust(self) -> None:
        """What a controller does whose certificate serves: write the CA into the webhooks."""
        for name in HOOKS:
            found = self.try_kubectl("get", name, "-o", "json")
            if found.code == 0:
                count = len(json.loads(found.out)["webhooks"])
                path = "/webhooks/{}/clientConfig/caBundle"
                change = [
                    {"op": "add", "path": path.format(number), "value": self.bundle}
                    for number in range(count)
                ]
                self.try_kubectl("patch", name, "--type=json", "-p", json.dumps(change))

    @property
    def bundle(self) -> str:
        return base64.b64encode(Path(self.plane._authority.certificate).read_bytes()).decode()

    def wait_deployed(self) -> None:
        def is_deployed() -> bool:
            self.trust()
            return (
                self.conditions().get("Available") == "True" and self.status["phase"] == "Deployed"
            )

        until_sync(is_deployed, lambda: f"{self.status}\n{self.program.log_end(50)}", 240)

    def wait_for(self, condition: Any, what: str = "") -> None:
        until_sync(condition, lambda: f"{what}\n{self.status}\n{self.program.log_end(50)}")

    def delete_aaq(self) -> None:
        self.kubectl("delete", "aaq", "aaq", "--timeout=240s")

    def owned(self) -> set[str]:
        """All objects of the installation, except definitions and the namespace."""
        kinds = (
            each
            for each in KINDS
            if self.plane.minor >= MUTATING_POLICIES_SINCE or not each.startswith(POLICIES)
        )
        listed = self.kubectl("get", ",".join(kinds), "-n", HOME, "-l", LABEL, "-o", "name")
        return set(listed.split())


@contextmanager
def running_operator(plane: ControlPlane, folder: Path) -> Iterator[RunningOperator]:
    """Installed by its own manifests; the process runs here instead of in a pod."""
    written = printed_objects("operator", "--image", "bursar:test")
    others = [each for each in written if each["kind"] != "Deployment"]
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(others))
    kubectl(plane, "wait", "--for=condition=Established", "crd/aaqs.aaq.kubevirt.io")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
    pair = plane.client(f"system:serviceaccount:{HOME}:{OPERATOR}", *groups)
    command = [
        *(str(COMMAND), "operator", "--image=bursar:test", "--tls-dir=", "--probes=127.0.0.1:0"),
        f"--kubeconfig={plane.write_kubeconfig('operator', pair)}",
        f"--namespace={HOME}",
    ]
    log = folder / "operator.log"
    program = Program("operator", command, log=log, is_ready=lambda: True)
    program.start()
    try:
        yield RunningOperator(plane, program)
    finally:
        program.stop()
