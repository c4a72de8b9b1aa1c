"""The chart on a real node: installed, upgraded and uninstalled, all processes as pods."""

import json

import pytest

from support.install.helm_release import HelmRelease
from support.install.installed_bursar import HOME, is_gated, peer_pod, tenant
from support.until import until_sync

VALUES = (
    "peerPods.enabled=true",
    "capacity.enabled=true",
    f"capacity.peerPodsNamespace={HOME}",
    "agent.enabled=true",
)
KEPT = ("customresourcedefinition.", "apiservice.", f"namespace/{HOME}")
"""What Helm leaves: the kinds of quotas, and the namespace."""
OF_EVERY_NAMESPACE = {"configmap/kube-root-ca.crt", "serviceaccount/default"}


@pytest.fixture(scope="module")
def release(real_node, image):  # noqa: ARG001 - the node must have the image
    found = HelmRelease(real_node, values=VALUES)
    before = found.objects()
    found.install()
    try:
        yield found, before
    finally:
        # The last test uninstalls. This is for the case that a test before it failed.
        found.helm("uninstall", "bursar", "--no-hooks", "--ignore-not-found")
        found.kubectl("delete", "namespace", HOME, "--ignore-not-found")


@pytest.fixture
def installed(release):
    found, _ = release
    return found


def test_pods_of_a_tenant_wait_for_their_quota_and_peer_pods_are_rewritten(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="100m")
        shop.deploy("web", replicas=3, cpu="50m")
        shop.until(running=2, gated=1)

        made = shop.create_pod(peer_pod())
        (rewritten,) = made["spec"]["containers"]
        assert rewritten["resources"]["requests"] == {"kata.peerpods.io/vm": "1"}
        assert is_gated(made)


def test_an_upgrade_rolls_out_and_the_gate_stays(installed):
    with tenant(installed) as shop:
        shop.quota(requests_cpu="50m")
        shop.deploy("web", replicas=2, cpu="50m")
        shop.until(running=1, gated=1)

        installed.install("replicas=1", "logLevel=debug")

        # The new replica is not ready for a moment between the end of the old leader and its own
        # first books, which Helm may not see.
        installed.wait_ready()
        for name in ("aaq-controller", "aaq-server"):
            body = json.loads(installed.kubectl("get", "deploy", "-n", HOME, name, "-o", "json"))
            (container,) = body["spec"]["template"]["spec"]["containers"]
            assert "--log-level=debug" in container["args"]
            assert body["spec"]["replicas"] == 1
        shop.until(running=1, gated=1)
        installed.kubectl("delete", "pod", "-n", shop.name, shop.running()[0], "--now")
        shop.until(running=1, gated=1)


def test_zz_uninstalled_it_leaves_no_gate_and_nothing_but_the_quotas(release):
    installed, before = release
    with tenant(installed) as shop:
        shop.quota(requests_cpu="50m")
        shop.deploy("web", replicas=3, cpu="50m")
        shop.until(running=1, gated=2)

        ran = installed.uninstall()

        assert ran.code == 0, (ran.err, removal_log(installed))
        shop.until(running=3, gated=0)
        assert installed.kubectl("get", "arq", "-n", shop.name, "-o", "name").strip()
        shop.deploy("later", replicas=1, cpu="50m")
        shop.until(running=4, gated=0)
        until_sync(
            lambda: not left_behind(installed, before), lambda: left_behind(installed, before)
        )


def left_behind(installed: HelmRelease, before: set[str]) -> list[str]:
    """Objects that were not there before the installation, except those that are to stay."""
    new = installed.objects() - before - OF_EVERY_NAMESPACE
    return sorted(
        name for name in new if not name.startswith(KEPT) and not name.startswith("namespace/shop-")
    )


def removal_log(installed: HelmRelease) -> str:
    chosen = ("-n", HOME, "-l", "app.kubernetes.io/component=removal")
    described = installed.try_kubectl("describe", "pods", *chosen).out
    return f"{installed.try_kubectl('logs', *chosen).out}\n{described}"
