"""Where `bursar explain` reads from, and the explanations of what it finds there."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import Manifests, WorkloadTemplate, read_manifests
from bursar.app.cluster.ports import NotFoundError, Reader
from bursar.app.counting.feeds import Counting
from bursar.app.quota.inventory import (
    Inventory,
    inventory_of,
    kept_kinds,
    read_inventory,
)
from bursar.app.quota.read_model import queue_report
from bursar.app.quota.wait_text import wait_text
from bursar.app.reports.explain import (
    PodExplanation,
    explain_pod,
    explain_pods,
    needs_surroundings,
    waits_for_quota,
)
from bursar.app.reports.surroundings import (
    Surroundings,
    read_pod,
    read_pods,
    read_surroundings,
    surroundings_of,
)
from bursar.cli.exit_codes import BadInputError
from bursar.cli.live_cluster import answer_of, kubectls_namespace, live_cluster
from bursar.cli.output.formats import printable
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.model.pod import Pod
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.targeting import Targeting


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the command line asks for."""

    name: str | None
    files: Sequence[str]
    kubeconfig: str | None
    context: str
    namespace: str | None
    all_namespaces: bool
    counting: Counting
    targeting: Targeting


def explanations(question: Question) -> list[PodExplanation]:
    """Explain the pods that the question is about. Raises `BadInputError`."""
    if question.files:
        return _from_files(question)
    return answer_of(_from_cluster(question))


# ------------------------------------------------------------------ from files


def _from_files(question: Question) -> list[PodExplanation]:
    kept = kept_kinds(question.counting)
    manifests = read_manifests(question.files, sys.stdin.buffer, kept=kept)
    pods = [_placed(pod) for pod in manifests.pods if _is_asked(pod, question)]
    templates = [each for each in manifests.templates if _is_asked(each.pod, question)]
    if not pods and not templates:
        raise BadInputError(f"{_files(question)}: no pod{_asked(question)}")
    everything = surroundings_of(
        manifests.nodes, [_placed(pod) for pod in manifests.pods], manifests.namespaces
    )
    if not everything.nodes and (templates or any(map(needs_surroundings, pods))):
        raise BadInputError(
            f"{_files(question)}: no node in it. Add the nodes and the pods on them, as in: "
            "kubectl get nodes,pods,namespaces -A -o yaml | bursar explain pod -f -"
        )
    reasons = _reasons(_inventory_of(manifests, question), question, pods)
    explained = _explained(pods, everything, reasons, question)
    return explained + [_explained_template(each, everything) for each in templates]


def _inventory_of(manifests: Manifests, question: Question) -> Inventory:
    return inventory_of(
        manifests.pods,
        manifests.namespaces,
        manifests.quotas,
        counting=question.counting,
        bodies=manifests.bodies,
    )


def _explained_template(template: WorkloadTemplate, everything: Surroundings) -> PodExplanation:
    count = template.replicas
    many = "" if count is None else f", {count} replica{'' if count == 1 else 's'}"
    return explain_pod(
        with_defaults(_placed(template.pod)),
        everything,
        owner=f"{template.owner_kind} {template.owner_name}{many}",
        replicas=count,
    )


def _placed(pod: Pod) -> Pod:
    return pod if pod.namespace else replace(pod, namespace=DEFAULT_NAMESPACE)


def _is_asked(pod: Pod, question: Question) -> bool:
    namespace = pod.namespace or DEFAULT_NAMESPACE
    return question.name in {None, pod.name} and question.namespace in {None, namespace}


def _files(question: Question) -> str:
    return ", ".join(map(printable, question.files))


def _asked(question: Question) -> str:
    called = "" if question.name is None else f" called {printable(question.name)}"
    space = question.namespace
    return called if space is None else f"{called} in namespace {printable(space)}"


# ------------------------------------------------------------------ from a cluster


async def _from_cluster(question: Question) -> list[PodExplanation]:
    async with live_cluster(question.kubeconfig, question.context) as cluster:
        pods = await _read_pods(cluster, question)
        everything = Surroundings()
        if any(map(needs_surroundings, pods)):
            everything = await read_surroundings(cluster)
        inventory = Inventory()
        gated = [pod for pod in pods if waits_for_quota(pod)]
        if gated:
            place = "" if question.all_namespaces else gated[0].namespace
            inventory = await read_inventory(cluster, namespace=place, counting=question.counting)
    return _explained(pods, everything, _reasons(inventory, question, gated), question)


async def _read_pods(cluster: Reader, question: Question) -> list[Pod]:
    place = question.namespace or kubectls_namespace(question.kubeconfig, question.context)
    if question.name is not None:
        try:
            return [await read_pod(cluster, place, question.name)]
        except NotFoundError:
            raise BadInputError(
                f"no pod called {printable(question.name)} in namespace {printable(place)}"
            ) from None
    problems: list[str] = []
    pods = await read_pods(cluster, "" if question.all_namespaces else place, problems)
    for problem in problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    return pods


# ------------------------------------------------------------------ both


def _reasons(inventory: Inventory, question: Question, pods: Sequence[Pod]) -> Mapping[PodKey, str]:
    """Why pods wait behind Bursar's gate."""
    for problem in inventory.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    if not any(map(waits_for_quota, pods)):
        return {}
    now_s = int(SYSTEM_CLOCK.now().timestamp())
    return {
        PodKey(each.row.namespace, each.row.name): wait_text(each.refusals)
        or "its quotas have room, and it is about to be released"
        for each in queue_report(inventory, question.targeting, now_s)
    }


def _explained(
    pods: Sequence[Pod],
    everything: Surroundings,
    reasons: Mapping[PodKey, str],
    question: Question,
) -> list[PodExplanation]:
    stored = [with_defaults(pod) for pod in pods]
    if question.name is None and len(stored) > 1:
        return explain_pods(stored, everything, reasons)
    return [
        explain_pod(pod, everything, quota=reasons.get(PodKey(pod.namespace, pod.name), ""))
        for pod in stored
    ]
