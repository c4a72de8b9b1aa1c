"""Where `bursar explain` reads from, and the explanations of what it finds there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import Manifests, WorkloadTemplate
from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.ports import NotFoundError
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
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
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.live_cluster import LiveCluster
from bursar.cli.output.formats import printable
from bursar.cli.reading.reading import Reading, shown_progress
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.model.pod import Pod
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.targeting import Targeting

if TYPE_CHECKING:
    from bursar.app.counting.feeds import Counting
    from bursar.app.quota.views.inventory import Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the command line asks for."""

    name: str | None
    reading: Reading
    place: str
    """The namespace of the pods; empty for all."""
    counting: "Callable[[], Counting]"
    """Makes counters that know nothing yet. Reading tells them what they need."""
    targeting: Targeting


Show = Callable[[list[PodExplanation]], int]
"""Shows the pods that the question is about, and returns the exit code."""
WATCHED: Final = (PODS, NODES, NAMESPACES, APPLICATION_QUOTAS, CLUSTER_QUOTAS)


def show_explanations(question: Question, show: Show) -> int:
    """Explain the pods that the question is about; with `-w` again. Raises `BadInputError`."""
    if not question.reading.is_live:
        return show(_from_files(question))

    async def work(cluster: LiveCluster) -> int:
        return show(await _from_cluster(cluster, question))

    return question.reading.repeat([Wanted(resource=each) for each in WATCHED], work)


# ------------------------------------------------------------------ from files


def _from_files(question: Question) -> list[PodExplanation]:
    counting = question.counting()
    objects = question.reading.read([], kept=counting.whole_kinds)
    manifests = objects.manifests
    pods = [
        _placed(pod)
        for pod in manifests.pods
        if _is_asked(pod, question) and objects.is_selected("Pod", pod.namespace, pod.name)
    ]
    templates = [
        each
        for each in manifests.templates
        if _is_asked(each.pod, question)
        and objects.is_selected(each.owner_kind, each.pod.namespace, each.owner_name)
    ]
    if not pods and not templates:
        raise BadInputError(f"{question.reading}: no pod{_asked(question)}")
    everything = surroundings_of(
        manifests.nodes, [_placed(pod) for pod in manifests.pods], manifests.namespaces
    )
    if not everything.nodes and (templates or any(map(needs_surroundings, pods))):
        raise BadInputError(
            f"{question.reading}: no node in it. Add the nodes and the pods on them, as in: "
            "kubectl get nodes,pods,namespaces -A -o yaml | bursar explain pod -f -"
        )
    reasons: Mapping[PodKey, str] = {}
    if any(map(waits_for_quota, pods)):
        reasons = _reasons(_inventory_of(manifests, counting), question)
    explained = _explained(pods, everything, reasons, question)
    return explained + [_explained_template(each, everything) for each in templates]


def _inventory_of(manifests: Manifests, counting: "Counting") -> "Inventory":
    # Few pods wait for a quota.
    from bursar.app.quota.views.inventory import inventory_of  # noqa: PLC0415

    return inventory_of(
        manifests.pods,
        manifests.namespaces,
        manifests.quotas,
        counting=counting,
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
    return question.name in {None, pod.name} and question.place in {"", namespace}


def _asked(question: Question) -> str:
    called = "" if question.name is None else f" called {printable(question.name)}"
    return f"{called} in namespace {printable(question.place)}" if question.place else called


# ------------------------------------------------------------------ from a cluster


async def _from_cluster(cluster: LiveCluster, question: Question) -> list[PodExplanation]:
    with shown_progress() as progress:
        pods = await _read_pods(cluster, question)
        everything = Surroundings()
        if any(map(needs_surroundings, pods)):
            everything = await read_surroundings(cluster, progress=progress)
        inventory = None
        if any(map(waits_for_quota, pods)):
            from bursar.app.quota.views.inventory import read_inventory  # noqa: PLC0415 - see above

            inventory = await read_inventory(
                cluster,
                namespace=question.place,
                counting=question.counting(),
                progress=progress,
            )
    reasons = {} if inventory is None else _reasons(inventory, question)
    return _explained(pods, everything, reasons, question)


async def _read_pods(cluster: LiveCluster, question: Question) -> list[Pod]:
    place = question.place
    if question.name is not None and place:
        try:
            return [await read_pod(cluster, place, question.name)]
        except NotFoundError:
            raise BadInputError(_not_found(question.name, place)) from None
    problems: list[str] = []
    selects = await question.reading.selected_in(cluster, PODS)
    pods = [
        pod
        for pod in await read_pods(cluster, place, problems)
        if question.name in {None, pod.name} and selects(pod.namespace, pod.name)
    ]
    for problem in problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    if question.name is not None and not pods:
        raise BadInputError(_not_found(question.name, place))
    return pods


def _not_found(name: str, place: str) -> str:
    where = f"namespace {printable(place)}" if place else "any namespace"
    return f"no pod called {printable(name)} in {where}"


# ------------------------------------------------------------------ both


def _reasons(inventory: "Inventory", question: Question) -> Mapping[PodKey, str]:
    """Why pods wait behind Bursar's gate."""
    # Few pods do, and the queue with its books takes long to import.
    from bursar.app.quota.views.read_model import queue_report  # noqa: PLC0415
    from bursar.app.quota.wait_text import wait_text  # noqa: PLC0415

    for problem in inventory.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
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
