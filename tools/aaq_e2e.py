"""`make test-aaq`: run AAQ's own end-to-end tests, unchanged, on an installation by the operator.

A control plane with a real node is started. Bursar's image is built and given to the node,
`bursar manifests operator --applied-quotas=all` is applied, and AAQ's own AAQ object is created.
Then the tests run. They are AAQ's program, built from its module (`controlplane/aaq-e2e`). At the
end everything is removed.

The options choose tests by parts of their names, as Ginkgo's `--focus` and `--skip` do.
"""

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import image
from assets import ROOT, AssetError, ensure
from image_parts.tree import ImageError
from program import ProgramError
from real_node import RealNodeError, node
from real_node.cluster import real_cluster
from real_node.images import ImageConfig, write_image

HOME = "aaq"
BURSAR_IMAGE = "localhost/bursar:aaq-e2e"
REGISTRY, TAG = "localhost", "aaq-e2e"
"""Where the tests look for AAQ's example of a sidecar. With the tag `latest`, which they take by
default, the kubelet would ask a registry, and the test would be left out."""
SIDECAR = "label-sidecar"
SIMULATED_NODES = 2
"""The tests of priority classes want three nodes. No pod runs on these."""
AWAY = {"key": "bursar.io/simulated", "effect": "NoSchedule"}
WORKER = "node-role.kubernetes.io/worker"
"""The tests place pods on a node with this label."""
ALONE = "should use openshift priority class if not set and available"
"""This test expects that no priority class is chosen, but the one before it chooses one and does
not take it back. So the test fails beside the other one, with AAQ as well. It gets its own run."""
NEEDS_WEBHOOKS = "ALL Operator tests|Cert rotation tests"
"""Tests about the webhook's configuration, Deployment and certificate."""
PATIENCE_SECONDS = 600
POLL_SECONDS = 1.0
Raw = dict[str, Any]


class SuiteError(Exception):
    """The tests could not be run; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """One test."""

    name: str
    state: str
    """Ginkgo's: passed, failed, skipped, panicked, timedout, interrupted."""
    seconds: float
    words: str = ""
    """Why it failed or was left out."""

    @property
    def has_passed(self) -> bool:
        return self.state == "passed"

    @property
    def was_left_out(self) -> bool:
        return self.state in {"skipped", "pending"}


@dataclass(frozen=True)
class Chosen:
    gate: str
    focus: str
    skip: str
    keep: Path


def main() -> int:
    chosen = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    lacking = node.missing()
    if lacking:
        _say(f"test-aaq: {lacking}")
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="aaq-e2e-") as scratch:
            outcomes = _run(chosen, Path(scratch))
    except (AssetError, ImageError, ProgramError, RealNodeError, SuiteError) as error:
        _say(f"test-aaq: {error}")
        return 1
    for line in report_lines(outcomes):
        print(line)
    return 0 if outcomes and all(each.has_passed or each.was_left_out for each in outcomes) else 1


def _end(number: int, _: object) -> None:
    """Leave by an exception, so that node, control plane and files are removed."""
    sys.exit(128 + number)


def _options() -> Chosen:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gate", choices=("webhooks", "policies"), default="webhooks")
    parser.add_argument("--focus", default="", help="run only tests whose names match")
    parser.add_argument("--skip", default="", help="leave out tests whose names match")
    parser.add_argument(
        "--keep", type=Path, default=Path("dist/aaq-e2e"), help="folder for the log and the reports"
    )
    options = parser.parse_args()
    return Chosen(options.gate, options.focus, options.skip, options.keep)


def _run(chosen: Chosen, scratch: Path) -> list[Outcome]:
    suite, sidecar = ensure("aaq-e2e"), ensure("aaq-sidecar")
    kubectl = ensure("kubectl")
    _say("building the image ...")
    built = image.build(image.native_architecture(), BURSAR_IMAGE)
    archive, _ = image.write(built, scratch)
    chosen.keep.mkdir(parents=True, exist_ok=True)
    _say("starting a control plane and a node ...")
    with real_cluster(nodes=SIMULATED_NODES) as started:
        cluster = _Cluster(kubectl, started.plane.kubeconfig)
        _prepare_nodes(cluster, started.name)
        started.import_image(archive)
        started.import_image(_sidecar_image(scratch / "sidecar.tar", sidecar))
        _say("installing ...")
        _install(cluster, chosen.gate)
        found: list[Outcome] = []
        for number, (focus, skip) in enumerate(runs(chosen), 1):
            found += _run_suite(suite, cluster, chosen.keep / f"run-{number}", focus, skip)
        return found


def runs(chosen: Chosen) -> list[tuple[str, str]]:
    """Focus and skip of each run of the tests."""
    left_out = [chosen.skip] if chosen.skip else []
    if chosen.gate == "policies":
        return [(chosen.focus, "|".join([*left_out, NEEDS_WEBHOOKS]))]
    found = [(chosen.focus, "|".join([*left_out, ALONE]))]
    is_wanted = not chosen.focus or re.search(chosen.focus, f"ALL Operator tests {ALONE}")
    if is_wanted and not (chosen.skip and re.search(chosen.skip, ALONE)):
        found.append((ALONE, ""))
    return found


# ------------------------------------------------------------------ the cluster


@dataclass(frozen=True)
class _Cluster:
    program: Path
    kubeconfig: Path

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Raises `SuiteError`."""
        done = self.try_kubectl(*arguments, stdin=stdin)
        if done.returncode:
            raise SuiteError(f"kubectl {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def try_kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def _prepare_nodes(cluster: _Cluster, real: str) -> None:
    """Keep pods on the real node: on the others they only seem to run."""
    taint = "{key}:{effect}".format(**AWAY)
    for number in range(SIMULATED_NODES):
        cluster.kubectl("taint", "node", f"node-{number}", taint)
    cluster.kubectl("label", "node", real, f"{WORKER}=")


def _install(cluster: _Cluster, gate: str) -> None:
    command = [str(Path(sys.executable).with_name("bursar")), "manifests", "operator"]
    # A test expects AAQ's form of the copies of cluster quotas, which shows tenants the usage of
    # others. An annotation of the AAQ object would not do: tests create the object anew without it.
    options = [f"--image={BURSAR_IMAGE}", "--applied-quotas=all"]
    manifests = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=True
    ).stdout
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
    cluster.kubectl("wait", "--for=condition=Established", "crd/aaqs.aaq.kubevirt.io")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(aaq_object(gate)))
    end = time.monotonic() + PATIENCE_SECONDS
    wanted = "jsonpath={.status.conditions[?(@.type=='Available')].status}"
    while cluster.try_kubectl("get", "aaq", "aaq", "-o", wanted).stdout != "True":
        if time.monotonic() > end:
            seen = cluster.kubectl("get", "pods,aaq", "-n", HOME, "-o", "yaml")
            raise SuiteError(f"the installation is not available:\n{seen}")
        time.sleep(POLL_SECONDS)


def aaq_object(gate: str) -> Raw:
    """AAQ's own object; with policies, an annotation asks for them.

    The tests want to see a webhook's selector change to all namespaces, unless the object selects
    all of them from the beginning. With policies there is no such webhook.
    """
    body: Raw = yaml.safe_load((ROOT / "examples" / "operator" / "aaq.yaml").read_text())
    if gate == "policies":
        body["metadata"]["annotations"] = {"bursar.io/gate": gate}
        body["spec"]["namespaceSelector"] = {}
    return body


def _sidecar_image(archive: Path, program: Path) -> Path:
    """An image for AAQ's example of a sidecar: our program on AAQ's protocol and library."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(program, "sidecar")
    config = ImageConfig(entrypoint=["/sidecar", "serve"], user=str(image.UID))
    return write_image(archive, f"{REGISTRY}/{SIDECAR}:{TAG}", buffer.getvalue(), config)


# ------------------------------------------------------------------ the tests


def _run_suite(
    suite: Path, cluster: _Cluster, folder: Path, focus: str, skip: str
) -> list[Outcome]:
    folder.mkdir(parents=True, exist_ok=True)
    report, log = folder / "report.json", folder / "tests.log"
    report.unlink(missing_ok=True)
    # Ginkgo leaves files in the folder it runs in.
    command = [str(suite), *_arguments(cluster, report.resolve(), focus, skip)]
    _say(f"running AAQ's tests; their log is {log} ...")
    environment = {**os.environ, "ARTIFACTS": str((folder / "artifacts").resolve())}
    with log.open("w") as written:
        subprocess.run(
            command, stdout=written, stderr=written, cwd=folder, env=environment, check=False
        )
    if not report.exists():
        raise SuiteError(f"the tests did not end as they should: see {log}")
    return outcomes_of(json.loads(report.read_text()))


def _arguments(cluster: _Cluster, report: Path, focus: str, skip: str) -> list[str]:
    chosen = [f"-ginkgo.focus={focus}"] if focus else []
    chosen += [f"-ginkgo.skip={skip}"] if skip else []
    return [
        *("-ginkgo.v", "-ginkgo.no-color", "-ginkgo.trace", "-ginkgo.timeout=4h"),
        f"-ginkgo.json-report={report}",
        *chosen,
        f"-kubeconfig-aaq={cluster.kubeconfig}",
        f"-kubeconfig={cluster.kubeconfig}",
        f"-kubectl-path-aaq={cluster.program}",
        f"-oc-path-aaq={cluster.program}",
        f"-aaq-namespace={HOME}",
        f"-utility-container-prefix={REGISTRY}",
        f"-utility-container-tag={TAG}",
    ]


def outcomes_of(report: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """The tests of Ginkgo's report that were chosen, and set-up that failed."""
    return [
        _outcome(spec)
        for suite in report
        for spec in suite["SpecReports"] or ()
        if not _is_unchosen(spec)
    ]


def _is_unchosen(spec: Mapping[str, Any]) -> bool:
    """Set-up that did well, and tests that were not chosen: Ginkgo skips them without a word."""
    is_test = spec["LeafNodeType"] == "It"
    is_skipped = spec["State"] == "skipped" and not spec.get("Failure", {}).get("Message")
    return is_skipped if is_test else spec["State"] == "passed"


def _outcome(spec: Mapping[str, Any]) -> Outcome:
    names = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"] or spec["LeafNodeType"]]
    failure = spec.get("Failure", {})
    return Outcome(
        name=" ".join(names),
        state=spec["State"],
        seconds=spec["RunTime"] / 1e9,
        words=str(failure.get("Message", "")),
    )


def report_lines(outcomes: Iterable[Outcome]) -> list[str]:
    """One line for each test, those that failed last, and a line that counts them."""
    every = sorted(outcomes, key=lambda each: (not each.has_passed, not each.was_left_out))
    lines = [_line(each) for each in every]
    passed = sum(each.has_passed for each in every)
    left = sum(each.was_left_out for each in every)
    failed = len(every) - passed - left
    return [*lines, f"{passed} passed, {failed} failed, {left} left out"]


def _line(each: Outcome) -> str:
    words = "" if each.has_passed else f"\n    {' '.join(each.words.split())[:300]}"
    return f"{each.state:<8} {each.seconds:>5.0f} s  {each.name}{words}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
