"""The front page: what `bursar --help` prints. It imports nothing, so that it comes at once."""

from typing import Final

VERBS: Final = {
    "agent": (
        "bursar.cli.processes.agent:agent",
        "Show a node's devices to those who ask kubelet for them.",
    ),
    "capacity": (
        "bursar.cli.capacity.capacity:capacity",
        "Look at and set what nodes offer of extended resources.",
    ),
    "completion": ("bursar.cli.completion:completion", "Print the shell completion script."),
    "controller": (
        "bursar.cli.processes.controller:controller",
        "Keep the books of a cluster, and let pods go as there is room.",
    ),
    "describe": (
        "bursar.cli.reports.describe:describe",
        "Show what pods, nodes and quotas consume.",
    ),
    "devices": (
        "bursar.cli.devices.devices:devices",
        "List who has which device, and who says so.",
    ),
    "manifests": (
        "bursar.cli.install.manifests:manifests",
        "Print what gates, rewrites or shows the pods of a cluster.",
    ),
    "peerpod": (
        "bursar.cli.peerpods.peerpod:peerpod",
        "Rewrite peer pods and choose their instance types, offline.",
    ),
    "quantity": ("bursar.cli.reports.quantity:quantity", "Read quantities as Kubernetes does."),
    "queue": ("bursar.cli.quota.queue:queue", "List the pods that wait for a quota, and why."),
    "release": ("bursar.cli.quota.release:release", "Let pods go without asking a quota."),
    "top": ("bursar.cli.quota.top:top", "Show how much there is, what is used, and what waits."),
    "up": ("bursar.cli.processes.up:up", "Run a cluster and watch it live."),
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
EXIT_CODES: Final = "Exit codes: 0 done, 1 the answer is no, 2 bad input, 130 interrupted."


def front_page() -> str:
    verbs = {verb: line for verb, (_, line) in VERBS.items()}
    return (
        f"Usage: bursar [OPTIONS] COMMAND [ARGS]...\n\n  {TITLE}\n\n"
        f"Options:\n{_listed(OPTIONS)}\n\n"
        f"Commands:\n{_listed(verbs)}\n\n"
        f"{EXIT_CODES}\n"
    )


def _listed(entries: dict[str, str]) -> str:
    width = max(map(len, entries))
    return "\n".join(f"  {name:<{width}}  {line}" for name, line in entries.items())
