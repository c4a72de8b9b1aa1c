"""Own certificates on a real API server: made, rotated under load, and healed; no request fails."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.x509.certificates import Certificates
from bursar.app.cluster.kinds import MUTATING_WEBHOOKS, SECRETS
from bursar.app.cluster.ports import NotFoundError, Patch, PatchKind
from controlplane import ControlPlane
from support.install.printed import printed
from support.processes.certified import (
    CA,
    GATER,
    TLS,
    Installation,
    Load,
    a_load,
    installed,
    loaded,
)
from support.processes.kubectl import kubectl
from support.quota.controller_processes import HOME
from support.until import until

PATIENCE_LONG = 400
"""A CA is renewed every 40 s, and machines may be busy."""


@pytest.fixture(scope="module")
def control_plane(quota_cluster) -> ControlPlane:
    return quota_cluster


@pytest.fixture(scope="module")
def installation(control_plane, tmp_path_factory) -> Iterator[Installation]:
    with installed(control_plane, tmp_path_factory.mktemp("certified")) as found:
        yield found


async def test_pair_and_ca_rotate_under_load_without_a_failed_request(installation, people):
    load = await a_load(installation, people)
    async with loaded(load, installation.plane):

        def has_rotated() -> bool:
            return len(load.signers) >= 3 and len(load.pairs) >= 6

        await until(
            has_rotated,
            lambda: f"{len(load.signers)} CAs, {len(load.pairs)} pairs\n{installation.logs()}",
            PATIENCE_LONG,
        )

    assert load.failures == [], installation.logs()
    assert min(load.admitted, load.handshakes, load.resizes) > 0


@pytest.mark.parametrize("key", [TLS, CA], ids=["pair", "ca"])
async def test_a_deleted_secret_heals_without_a_failed_request(installation, people, key):
    load = await a_load(installation, people)
    async with loaded(load, installation.plane):
        before = (await people.read(SECRETS, key))["metadata"]["uid"]
        await people.client.delete(SECRETS, key)

        async def is_healed() -> bool:
            try:
                after = (await people.read(SECRETS, key))["metadata"]["uid"]
            except NotFoundError:
                return False
            return after != before and await load.observer.is_whole()

        await until(is_healed, installation.logs)
        await go_on(load, installation)

    assert load.failures == [], installation.logs()


async def go_on(load: Load, installation: Installation) -> None:
    """Every server is asked a few times more."""
    seen, admitted = load.handshakes + 4 * len(load.servers), load.admitted
    await until(lambda: load.handshakes > seen and load.admitted > admitted + 4, installation.logs)


@pytest.mark.parametrize("kind", ["garbage", "stolen"])
async def test_a_spoiled_pair_is_not_served_and_is_replaced(installation, people, kind):
    load = await a_load(installation, people)
    x509, now = Certificates(), SYSTEM_CLOCK.now()
    spoiled = {"tls_crt": b"garbage", "tls_key": b"garbage"}
    if kind == "stolen":
        foreign = x509.make_authority(now, now + timedelta(days=1))
        pair = x509.make_pair(foreign, [f"aaq-server.{HOME}.svc"], now, now + timedelta(hours=1))
        spoiled = {"tls_crt": pair.certificate, "tls_key": pair.key}
    async with loaded(load, installation.plane):
        await load.observer.write(TLS, **spoiled)

        async def is_replaced() -> bool:
            found = (await load.observer.secret(TLS))["tls.crt"]
            return found not in (b"", spoiled["tls_crt"])

        await until(is_replaced, installation.logs)
        await go_on(load, installation)

    assert load.failures == [], installation.logs()
    for server in installation.webhooks:
        assert "the certificate cannot be used" in server.program.log_end(400)


async def test_a_bundle_that_an_apply_removed_comes_back(installation, people):
    load = await a_load(installation, people)
    hooks = printed("webhooks", f"--url=https://127.0.0.1:{installation.webhooks[0].port}")
    kubectl(installation.plane, "replace", "-f", "-", stdin=hooks)

    async def is_back() -> bool:
        return await load.observer.bundle() == (await load.observer.secret(TLS))["ca.crt"]

    await until(is_back, installation.logs)


async def test_a_url_that_leads_elsewhere_keeps_its_bundle(installation, people):
    load = await a_load(installation, people)
    stored = await people.read(MUTATING_WEBHOOKS, GATER)
    other = {
        **stored["webhooks"][0],
        "name": "other.bursar-test.io",
        "clientConfig": {"url": "https://elsewhere.invalid/x"},
        "failurePolicy": "Ignore",
        "objectSelector": {"matchLabels": {"bursar-test": "nobody"}},
    }
    added = Patch(kind=PatchKind.JSON, body=[{"op": "add", "path": "/webhooks/-", "value": other}])
    await people.client.patch(MUTATING_WEBHOOKS, GATER, added)
    before = await load.observer.bundle()

    async def is_renewed() -> bool:
        return await load.observer.bundle() != before

    await until(is_renewed, installation.logs, PATIENCE_LONG)
    hooks = (await people.read(MUTATING_WEBHOOKS, GATER))["webhooks"]
    removed = Patch(kind=PatchKind.JSON, body=[{"op": "remove", "path": "/webhooks/1"}])
    await people.client.patch(MUTATING_WEBHOOKS, GATER, removed)

    assert hooks[1]["clientConfig"] == {"url": "https://elsewhere.invalid/x"}


async def test_without_an_api_server_the_last_pair_stays_in_use(installation, people):
    load = await a_load(installation, people)
    bundle = await load.observer.bundle()
    installation.plane.apiserver.pause()
    try:
        for server in installation.webhooks:
            async with server.connected(bundle) as peer:
                assert (await peer.ask("GET", "/healthz")).code == 200
    finally:
        installation.plane.apiserver.resume()


async def test_metrics_tell_until_when_certificates_are_valid(installation, people):
    load = await a_load(installation, people)

    async def scrapes() -> list[str]:
        texts = []
        for server in load.servers:
            async with server.connected(await load.observer.bundle()) as peer:
                texts.append((await peer.ask("GET", "/metrics")).text)
        return texts

    async def settled() -> list[str] | None:
        """Scrapes while one of them leads, and has made the next pair."""
        texts = await scrapes()
        leading = [text for text in texts if "bursar_kept_certificates_made_total{" in text]
        return texts if len(leading) == 1 else None

    texts = await until(settled, installation.logs)
    [leading] = [text for text in texts if "bursar_kept_certificates_made_total{" in text]

    assert all("bursar_serving_certificate_expires_seconds " in text for text in texts)
    assert "bursar_leader 1" in leading
    for part in ("ca", "serving"):
        assert f'bursar_kept_certificate_expires_seconds{{certificate="{part}"}}' in leading


def test_private_keys_are_not_logged(installation):
    text = installation.logs()

    assert "a serving certificate was made" in text
    assert "PRIVATE" not in text
