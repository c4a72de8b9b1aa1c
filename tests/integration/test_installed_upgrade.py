"""Settings and certificates change while pods are created: none is refused, none is lost."""

import asyncio

import pytest

from bursar.app.names import CONTROLLER, WEBHOOK
from support.install.installed_bursar import InstalledBursar, tenant
from support.install.pod_load import assert_none_lost, pod_load
from support.install.seen_certificates import seeing_certificates
from support.until import until, until_blocking, until_sync

OTHER_SETTINGS = (
    *("--controller-option", "--log-level=debug"),
    *("--webhook-option", "--log-level=debug"),
)
SHORT_LIVES = (
    *("--controller-option", "--certificate-lifetime=30s"),
    *("--controller-option", "--ca-lifetime=90s"),
)
"""A serving certificate every 20 s, a CA every 60 s. On a busy machine a renewal takes seconds."""
ROLLOUT_SECONDS = 900
"""All replicas are replaced one after the other, and the node is under load."""
ROTATION_SECONDS = 600
SOME = 50
"""Pods that are created before the upgrade, and again after it."""


@pytest.fixture
def shop(behind_webhook):
    with tenant(behind_webhook) as shop:
        shop.quota(pods="100000", requests_cpu="100")
        yield shop


async def test_pods_are_created_and_released_while_all_replicas_are_replaced(behind_webhook, shop):
    shop.run_pod("grows", cpu="10m")
    before = replicas(behind_webhook)
    upgraded = InstalledBursar(behind_webhook.node, behind_webhook.parts, OTHER_SETTINGS)

    async with pod_load(shop) as load:
        await load.until_more(SOME)
        await upgrade(upgraded)
        await load.until_more(SOME)

    assert not before & replicas(upgraded)
    assert_none_lost(load)
    # Until a leader has read the cluster, a resize is refused with the words "try again".
    until_sync(lambda: shop.try_resize("grows", "20m").code == 0, lambda: upgraded.logs("webhook"))


async def test_pods_are_created_while_certificates_and_cas_are_renewed(behind_webhook, shop):
    await upgrade(InstalledBursar(behind_webhook.node, behind_webhook.parts, SHORT_LIVES))

    async with seeing_certificates(behind_webhook) as seen, pod_load(shop, dry_run_every=2) as load:

        def has_rotated() -> bool:
            return len(seen.serving) >= 4 and len(seen.authorities) >= 2

        await until(has_rotated, seen.summary, ROTATION_SECONDS)
        await load.until_more(SOME)

    assert not seen.failures, behind_webhook.logs("webhook")
    assert_none_lost(load)


def replicas(installed: InstalledBursar) -> set[str]:
    return {*installed.pods_of(CONTROLLER), *installed.pods_of(WEBHOOK)}


async def upgrade(installed: InstalledBursar) -> None:
    """Apply other settings, and wait until every replica has them."""
    await asyncio.to_thread(installed.apply)
    await until_blocking(installed.is_upgraded, installed.pods, ROLLOUT_SECONDS)
