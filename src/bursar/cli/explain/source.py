"""Where `bursar explain` reads from, and the explanations of what it finds there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import WorkloadTemplate
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
class ExplainRequest:
    """Which pods to explain, where to read them, and how pods are counted."""

    name: str | None
    reading: Reading
    shown_namespace: str
    """The namespace of the pods; empty for all."""
    counting: "Callable[[], Counting]"
    """Makes counters that know nothing yet. Reading tells them what they need."""
    targeting: Targeting


Show = Callable[[list[PodExplanation]], int]
"""Shows the explanations of pods, and returns the exit code."""
WATCHED: Final = (PODS, NODES, NAMESPACES, APPLICATION_QUOTAS, CLUSTER_QUOTAS)


def show_explanations(request: ExplainRequest, show: Show) -> int:
    """Explain the requested pods; with `-w` again. Raises `BadInputError`."""
    if not request.reading.is_live:
        return show(_from_files(request))

    async def work(cluster: LiveCluster) -> int:
        return show(await _from_cluster(cluster, request))

    return request.reading.repeat([Wanted(resource=each) for each in WATCHED], work)


# ------------------------------------------------------------------ from files


def _from_files(request: ExplainRequest) -> list[PodExplanation]:
    counting = request.counting()
    objects = request.reading.read([], kept=counting.whole_kinds)
    manifests = objects.manifests
    pods = [
        pod.with_namespace()
        for pod in manifests.pods
        if _is_asked(pod, request) and objects.is_selected("Pod", pod.namespace, pod.name)
    ]
    templates = [
        each
        for each in manifests.templates
        if _is_asked(each.pod, request)
        and objects.is_selected(each.owner_kind, each.pod.namespace, each.owner_name)
    ]
    if not pods and not templates:
        raise BadInputError(f"{request.reading}: no pod{_asked(request)}")
    everything = surroundings_of(
        manifests.nodes, [pod.with_namespace() for pod in manifests.pods], manifests.namespaces
    )
    if not everything.nodes and (templates or any(map(needs_surroundings, pods))):
        raise BadInputError(
            f"{request.reading}: no node in it. Add the nodes and the pods on them, as in: "
            "kubectl get nodes,pods,namespaces -A -o yaml | bursar explain pod -f -"
        )
    reasons: Mapping[PodKey, str] = {}
    if any(map(waits_for_quota, pods)):
        # Few pods wait for a quota.
        from bursar.cli.reading.inventory import inventory_in  # noqa: PLC0415

        reasons = _reasons(inventory_in(manifests, counting), request)
    explained = _explained(pods, everything, reasons, request)
    return explained + [_explained_template(each, everything) for each in templates]


def _explained_template(template: WorkloadTemplate, everything: Surroundings) -> PodExplanation:
    return explain_pod(
        with_defaults(template.pod.with_namespace()),
        everything,
        owner=str(template),
        replicas=template.replicas,
    )


def _is_asked(pod: Pod, request: ExplainRequest) -> bool:
    namespace = pod.namespace or DEFAULT_NAMESPACE
    return request.name in {None, pod.name} and request.shown_namespace in {"", namespace}


def _asked(request: ExplainRequest) -> str:
    called = "" if request.name is None else f" called {printable(request.name)}"
    return (
        f"{called} in namespace {printable(request.shown_namespace)}"
        if request.shown_namespace
        else called
    )


# ------------------------------------------------------------------ from a cluster


async def _from_cluster(cluster: LiveCluster, request: ExplainRequest) -> list[PodExplanation]:
    with shown_progress() as progress:
        pods = await _read_pods(cluster, request)
        everything = Surroundings()
        if any(map(needs_surroundings, pods)):
            everything = await read_surroundings(cluster, progress=progress)
        inventory = None
        if any(map(waits_for_quota, pods)):
            from bursar.app.quota.views.inventory import read_inventory  # noqa: PLC0415 - see above

            inventory = await read_inventory(
                cluster,
                namespace=request.shown_namespace,
                counting=request.counting(),
                progress=progress,
            )
    reasons = {} if inventory is None else _reasons(inventory, request)
    return _explained(pods, everything, reasons, request)


async def _read_pods(cluster: LiveCluster, request: ExplainRequest) -> list[Pod]:
    shown_namespace = request.shown_namespace
    if request.name is not None and shown_namespace:
        try:
            return [await read_pod(cluster, shown_namespace, request.name)]
        except NotFoundError:
            raise BadInputError(_not_found(request.name, shown_namespace)) from None
    problems: list[str] = []
    selects = await request.reading.selected_in(cluster, PODS)
    pods = [
        pod
        for pod in await read_pods(cluster, shown_namespace, problems)
        if request.name in {None, pod.name} and selects(pod.namespace, pod.name)
    ]
    for problem in problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    if request.name is not None and not pods:
        raise BadInputError(_not_found(request.name, shown_namespace))
    return pods


def _not_found(name: str, shown_namespace: str) -> str:
    where = f"namespace {printable(shown_namespace)}" if shown_namespace else "any namespace"
    return f"no pod called {printable(name)} in {where}"


# ------------------------------------------------------------------ both


def _reasons(inventory: "Inventory", request: ExplainRequest) -> Mapping[PodKey, str]:
    """Why pods wait behind Bursar's gate."""
    # Few pods do, and the queue with its books takes long to import.
    from bursar.app.quota.views.read_model import queue_report  # noqa: PLC0415
    from bursar.app.quota.wait_text import wait_text  # noqa: PLC0415
    from bursar.cli.reading.inventory import print_problems  # noqa: PLC0415

    print_problems(inventory)
    now_s = int(SYSTEM_CLOCK.now().timestamp())
    return {
        PodKey(each.row.namespace, each.row.name): wait_text(each.refusals)
        or "its quotas have room, and it is about to be released"
        for each in queue_report(inventory, request.targeting, now_s)
    }


def _explained(
    pods: Sequence[Pod],
    everything: Surroundings,
    reasons: Mapping[PodKey, str],
    request: ExplainRequest,
) -> list[PodExplanation]:
    stored = [with_defaults(pod) for pod in pods]
    if request.name is None and len(stored) > 1:
        return explain_pods(stored, everything, reasons)
    return [
        explain_pod(pod, everything, quota=reasons.get(PodKey(pod.namespace, pod.name), ""))
        for pod in stored
    ]
