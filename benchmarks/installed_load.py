"""Pods are created without a pause while an installation changes: which requests fail?

    python benchmarks/installed_load.py rotation    certificates are renewed every 10 seconds
    python benchmarks/installed_load.py upgrade     all replicas are replaced, again and again

Bursar runs as pods of its own image on a real control plane with a real node, where the webhook
gates every pod of the load and the API server refuses a pod if the webhook cannot be called. No
request of the load is repeated. The exit code is 1 if a request failed or a pod was lost.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from real_node.cluster import real_cluster
from support.install.installed_bursar import InstalledBursar, Tenant, built_image, tenant
from support.install.pod_load import PodLoad, pod_load
from support.install.seen_certificates import seeing_certificates
from support.until import until_blocking

PARTS = ("crds", "rbac", "controller", "webhook", "webhooks")
CHANGED = (
    *("--replicas", "3"),
    *("--controller-option", "--log-level=debug"),
    *("--webhook-option", "--log-level=debug"),
)
NO_DELAY = ("--webhook-option", "--shutdown-delay=0s")
ROLLOUT_SECONDS = 600
AFTER_ROLLOUT_SECONDS = 5
"""Requests that the API server sends to replicas that have just ended count for the upgrade."""
WORDS_MAX = 20
"""Failures that are printed."""


@dataclass(frozen=True)
class Upgrade:
    """Settings that replace those before."""

    options: Sequence[str]
    is_delayed: bool
    """Whether the replicas that end have the shutdown delay of the manifests."""


UPGRADES = (
    Upgrade(CHANGED, is_delayed=True),
    Upgrade((), is_delayed=True),
)
WITHOUT_DELAY = (
    Upgrade((*CHANGED, *NO_DELAY), is_delayed=True),
    Upgrade(NO_DELAY, is_delayed=False),
    Upgrade(CHANGED, is_delayed=False),
)


class Progress:
    """The requests of a load since the last line that was printed."""

    def __init__(self, load: PodLoad) -> None:
        self._load = load
        self.go_on()

    def go_on(self) -> None:
        load = self._load
        self._began = time.monotonic()
        self._attempts, self._refused = load.attempts, len(load.refused)

    @property
    def refused(self) -> int:
        return len(self._load.refused) - self._refused

    def report(self, what: str) -> None:
        attempts, seconds = self._load.attempts - self._attempts, time.monotonic() - self._began
        print(
            f"{what:<52}{attempts:>8} requests{seconds:>8.0f} s{attempts / seconds:>8.1f} a second"
            f"{self.refused:>6} refused",
            flush=True,
        )


@contextmanager
def installed_bursar(options: Sequence[str]) -> Iterator[InstalledBursar]:
    with tempfile.TemporaryDirectory() as folder, real_cluster() as node:
        node.import_image(built_image(Path(folder)))
        installed = InstalledBursar(node, PARTS, options)
        installed.apply()
        installed.wait_ready()
        installed.wait_gating()
        yield installed


@contextmanager
def quota_tenant(installed: InstalledBursar) -> Iterator[Tenant]:
    with tenant(installed) as shop:
        shop.quota(pods="1000000", requests_cpu="1000")
        yield shop


async def rotate(arguments: argparse.Namespace) -> bool:
    """Renew certificates under load; return whether all requests succeeded."""
    lives = (
        *("--controller-option", f"--certificate-lifetime={arguments.certificate_lifetime}"),
        *("--controller-option", f"--ca-lifetime={arguments.ca_lifetime}"),
    )
    with installed_bursar(lives) as installed, quota_tenant(installed) as shop:
        async with (
            seeing_certificates(installed) as seen,
            pod_load(
                shop, pods_per_second=arguments.rate, dry_run_every=2, is_deleting=True
            ) as load,
        ):
            progress = Progress(load)
            await asyncio.sleep(arguments.seconds)
            progress.report("certificates renewed")
            print(seen.summary(), flush=True)
        if seen.failures or load.refused:
            print(installed.logs("webhook")[-8000:], file=sys.stderr)
            print(installed.logs("controller")[-8000:], file=sys.stderr)
    return ended_well(load, [*load.refused, *seen.failures])


async def upgrade(arguments: argparse.Namespace) -> bool:
    """Upgrade under load; return whether all requests succeeded but for those without a delay."""
    unexpected: list[str] = []
    plan = UPGRADES * arguments.rounds + (() if arguments.only_delayed else WITHOUT_DELAY)
    with installed_bursar(()) as installed, quota_tenant(installed) as shop:
        async with pod_load(shop, pods_per_second=arguments.rate, is_deleting=True) as load:
            progress = Progress(load)
            await asyncio.sleep(AFTER_ROLLOUT_SECONDS)
            progress.report("before the upgrades")
            for number, each in enumerate(plan, 1):
                progress.go_on()
                refused = len(load.refused)
                await roll_out(InstalledBursar(installed.node, PARTS, each.options))
                await asyncio.sleep(AFTER_ROLLOUT_SECONDS)
                ending = "with" if each.is_delayed else "without"
                progress.report(f"upgrade {number}, replicas end {ending} a delay")
                if each.is_delayed:
                    unexpected += load.refused[refused:]
        print(installed.pods(), file=sys.stderr)
    return ended_well(load, unexpected)


async def roll_out(installed: InstalledBursar) -> None:
    await asyncio.to_thread(installed.apply)
    await until_blocking(installed.is_upgraded, installed.pods, ROLLOUT_SECONDS)


def ended_well(load: PodLoad, failures: list[str]) -> bool:
    """Print what became of the pods, and the words of the API server."""
    print(
        f"{len(load.created)} pods created, {len(load.released)} released, after at most "
        f"{load.release_seconds_max:.0f} s, {len(load.unreleased)} lost, "
        f"{len(load.ungated)} not gated; {load.dry_runs} dry runs"
    )
    for each in dict.fromkeys((*failures, *load.refused[:WORDS_MAX])):
        print(f"  {each}")
    return not (failures or load.unreleased or load.ungated)


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    modes = parser.add_subparsers(required=True)
    rotation = modes.add_parser("rotation", help="renew certificates under load")
    rotation.add_argument("--seconds", type=int, default=300, help="how long the load lasts")
    rotation.add_argument("--rate", type=int, default=20, help="pods a second")
    rotation.add_argument("--certificate-lifetime", default="15s", help="renewed after 2/3 of it")
    rotation.add_argument("--ca-lifetime", default="45s", help="renewed after 2/3 of it")
    rotation.set_defaults(run=rotate)
    upgrades = modes.add_parser("upgrade", help="replace all replicas under load")
    upgrades.add_argument("--rate", type=int, default=50, help="pods a second")
    upgrades.add_argument("--rounds", type=int, default=1, help="of two upgrades each")
    upgrades.add_argument(
        "--only-delayed", action="store_true", help="no upgrades without a shutdown delay"
    )
    upgrades.set_defaults(run=upgrade)
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed(sys.argv[1:])
    sys.exit(0 if asyncio.run(arguments.run(arguments)) else 1)


if __name__ == "__main__":
    main()
