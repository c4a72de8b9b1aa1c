"""The front page: what `bursar --help` prints. It imports nothing, to start fast."""

from typing import Final

PROGRAM: Final = "bursar"

VERBS: Final = {
    "agent": (
        "bursar.cli.processes.agent:agent",
        "Serve kubelet's PodResources API with all devices of a node's pods.",
    ),
    "capacity": (
        "bursar.cli.capacity.capacity:capacity",
        "Show and set the capacity of extended resources on nodes.",
    ),
    "completion": ("bursar.cli.completion:completion", "Print the shell completion script."),
    "controller": (
        "bursar.cli.processes.controller:controller",
        "Keep the books of a cluster and release pods as quotas have room.",
    ),
    "describe": (
        "bursar.cli.reports.describe:describe",
        "Show what pods, nodes and quotas consume.",
    ),
    "devices": (
        "bursar.cli.devices.devices:devices",
        "List which pod holds which device.",
    ),
    "doctor": (
        "bursar.cli.install.doctor:doctor",
        "Check an installation, and what the version of the cluster lacks.",
    ),
    "dump": (
        "bursar.cli.reports.dump:dump",
        "Write the objects that a command would read, without secrets.",
    ),
    "examples": (
        "bursar.cli.packaged_examples:examples",
        "List the example files, and copy them.",
    ),
    "explain": (
        "bursar.cli.explain.explain:explain",
        "Say why a pod does not run, and what would let it run.",
    ),
    "extender": (
        "bursar.cli.pools.extender:extender",
        "Limit cluster-level resources, such as licences, for kube-scheduler.",
    ),
    "man": ("bursar.cli.help.man:man", "Print the manual page."),
    "manifests": (
        "bursar.cli.install.manifests:manifests",
        "Print the manifests that install parts of Bursar.",
    ),
    "migrate": (
        "bursar.cli.migrate.migrate:migrate",
        "Move to Bursar from AAQ, ResourceQuotas or ClusterResourceQuotas.",
    ),
    "operator": (
        "bursar.cli.processes.operator:operator",
        "Install Bursar as an AAQ object says, and keep it so.",
    ),
    "peerpod": (
        "bursar.cli.peerpods.peerpod:peerpod",
        "Rewrite peer pods and choose their instance types, offline.",
    ),
    "policy": (
        "bursar.cli.policies.policy:policy",
        "Check CountingPolicies and what they charge.",
    ),
    "quantity": (
        "bursar.cli.reports.quantity:quantity",
        "Parse, compare and add quantities as Kubernetes does.",
    ),
    "queue": ("bursar.cli.quota.queue:queue", "List the pods that wait for a quota, and why."),
    "release": (
        "bursar.cli.quota.release:release",
        "Remove the quota gate from pods, without checking quotas.",
    ),
    "scheduler-config": (
        "bursar.cli.pools.scheduler_config:scheduler_config",
        "Print the KubeSchedulerConfiguration that calls the extender.",
    ),
    "top": ("bursar.cli.top.top:top", "Show what is requested, used and free."),
    "up": ("bursar.cli.processes.up:up", "Run the embedded cluster, or watch a real one, live."),
    "version": ("bursar.cli.version:version", "Show the version of Bursar, Python and a cluster."),
    "webhook": (
        "bursar.cli.processes.webhook:webhook",
        "Gate new pods, rewrite peer pods and check quotas for an API server.",
    ),
}
"""Each verb, where its command lives, and its line on the front page."""

TITLE: Final = "One set of books for everything a Kubernetes pod consumes."
OPTIONS: Final = {
    "-V, --version": "Show the version and exit.",
    "-h, --help": "Show this message and exit.",
}
EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 the answer is no, 2 bad input, 3 cannot write, 130 Ctrl-C."
)
NEXT: Final = "bursar COMMAND --help has the options and examples of a command."


def front_page() -> str:
    verbs = {verb: line for verb, (_, line) in VERBS.items()}
    return (
        f"Usage: bursar [OPTIONS] COMMAND [ARGS]...\n\n  {TITLE}\n\n"
        f"Options:\n{_listed(OPTIONS)}\n\n"
        f"Commands:\n{_listed(verbs)}\n\n"
        f"{NEXT}\n{EXIT_CODES}\n"
    )


def as_typed(text: str, program: str) -> str:
    """A help page as the user of `program` has to type it: `kubectl bursar` for the plugin."""
    if program == PROGRAM:
        return text
    for before in ("Usage: ", "\n  ", "\n    ", "| "):
        text = text.replace(f"{before}{PROGRAM} ", f"{before}{program} ")
    return text.replace(f"\n{PROGRAM} COMMAND", f"\n{program} COMMAND")


def _listed(entries: dict[str, str]) -> str:
    width = max(map(len, entries))
    return "\n".join(f"  {name:<{width}}  {line}" for name, line in entries.items())
