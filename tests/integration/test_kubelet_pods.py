"""Kubelet's own HTTP server, which asks a real API server who we are and what we may."""

import uuid

import pytest

from bursar.adapters.client_auth.credentials import REJECT_SECONDS, TOKEN_FILE_SECONDS
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kubelet.access import READ_ONLY, KubeletTrust, kubelet_access
from bursar.adapters.kubelet.endpoint import REREAD_SECONDS, FixedEndpoint, NodeEndpoint
from bursar.adapters.kubelet.http import KubeletLimits
from bursar.adapters.kubelet.pods import KubeletPods
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.devices.ports import SourceError
from bursar.wire.devices.pod import DevicePodDecoder
from certificates import Authority
from support.builders.kubeconfigs import HandClock, loaded
from support.cluster.access import a_client, access_of
from support.devices.kubelet_http import Asker, KubeletHttp, allow, annotated_pod, forbid

PODS = ["one", "two"]
PATIENT = KubeletLimits(seconds=20)


@pytest.fixture(scope="module")
def kubelet(control_plane, tmp_path_factory):
    kubelet = KubeletHttp(control_plane, tmp_path_factory.mktemp("kubelet"))
    kubelet.program.start()
    kubelet.program.wait_ready()
    kubelet.put([annotated_pod(name) for name in PODS])
    yield kubelet
    kubelet.program.stop()


@pytest.fixture
def stranger(control_plane, tmp_path):
    """A kubelet whose certificate is not the cluster's work, as most of them are."""
    kubelet = KubeletHttp(control_plane, tmp_path, authority=Authority(tmp_path))
    kubelet.put([annotated_pod(name) for name in PODS])
    kubelet.program.start()
    kubelet.program.wait_ready()
    yield kubelet
    kubelet.program.stop()


@pytest.fixture
def asker(control_plane):
    asker = Asker(control_plane)
    yield asker
    asker.remove()


READ = DevicePodDecoder(()).decode_list


async def asked(kubelet, access):
    endpoint = FixedEndpoint(kubelet.endpoint)
    async with KubeletPods(endpoint, access, decode=READ, limits=PATIENT) as source:
        return [pod.name for pod in await source.read()]


async def complaint(kubelet, access):
    with pytest.raises(SourceError) as caught:
        await asked(kubelet, access)
    text = str(caught.value)

    assert text.isprintable()
    return text.removeprefix(f"kubelet at 127.0.0.1:{kubelet.endpoint.port}: ")


def by_token(plane, tmp_path, token, clock=SYSTEM_CLOCK, **trust):
    """Known by a token in a file, and trusting the cluster's authority unless told otherwise."""
    (tmp_path / "token").write_text(token)
    cluster = loaded([str(plane.kubeconfig)])
    given = KubeletTrust(token_file=str(tmp_path / "token"), **trust)
    return kubelet_access(given, cluster=cluster, clock=clock)


# ------------------------------------------------------------------ who may


@pytest.mark.parametrize("right", ["nodes/pods", "nodes/proxy"])
async def test_either_right_is_enough(control_plane, kubelet, asker, tmp_path, right):
    asker.allow(right)

    assert await asked(kubelet, by_token(control_plane, tmp_path, asker.token())) == PODS


async def test_who_has_no_right_is_told_which_is_missing(control_plane, kubelet, asker, tmp_path):
    asker.allow("nodes")
    text = await complaint(kubelet, by_token(control_plane, tmp_path, asker.token()))

    assert text == (
        f"403: system:serviceaccount:default:{asker.name} may not read the kubelet's pods; "
        "it needs `get` on `nodes/pods`, or on `nodes/proxy` for a kubelet before 1.33"
    )


async def test_nobody_in_particular_is_not_let_in(control_plane, kubelet):
    trust = KubeletTrust(authority_file=str(control_plane._authority.certificate))
    access = kubelet_access(trust, cluster=None, clock=SYSTEM_CLOCK)

    assert (await complaint(kubelet, access)).startswith(
        "401: the kubelet does not accept our credentials"
    )


async def test_a_made_up_token_is_not_accepted(control_plane, kubelet, tmp_path):
    access = by_token(control_plane, tmp_path, "made.up.token")

    assert (await complaint(kubelet, access)).startswith(
        "401: the kubelet does not accept our credentials"
    )


async def test_a_client_certificate_of_the_cluster_is_enough(control_plane, kubelet):
    user = f"agent-{uuid.uuid4().hex[:8]}"
    pair = control_plane.client(user)
    rule = {"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}
    allow(control_plane, user, {"kind": "User"}, [rule])
    trust = KubeletTrust(
        authority_file=str(control_plane._authority.certificate),
        certificate_file=str(pair.certificate),
        key_file=str(pair.key),
    )
    try:
        access = kubelet_access(trust, cluster=None, clock=SYSTEM_CLOCK)

        assert await asked(kubelet, access) == PODS
    finally:
        forbid(control_plane, user)


async def test_a_client_certificate_of_somebody_else_is_not(control_plane, kubelet, tmp_path):
    pair = Authority(tmp_path).client("agent", "system:masters")
    trust = KubeletTrust(
        authority_file=str(control_plane._authority.certificate),
        certificate_file=str(pair.certificate),
        key_file=str(pair.key),
    )
    access = kubelet_access(trust, cluster=None, clock=SYSTEM_CLOCK)

    assert (await complaint(kubelet, access)).startswith(
        "401: the kubelet does not accept our credentials"
    )


async def test_unless_told_otherwise_we_are_who_we_are_to_the_api_server(control_plane, kubelet):
    cluster = loaded([str(control_plane.kubeconfig)])

    assert (
        await asked(kubelet, kubelet_access(KubeletTrust(), cluster=cluster, clock=SYSTEM_CLOCK))
        == PODS
    )


# ------------------------------------------------------------------ renewed tokens


async def test_a_renewed_token_is_used_without_a_refusal(control_plane, kubelet, asker, tmp_path):
    clock = HandClock()
    without_rights = Asker(control_plane)
    access = by_token(control_plane, tmp_path, without_rights.token(), clock)
    asker.allow("nodes/pods")
    try:
        assert (await complaint(kubelet, access)).startswith("403")
        (tmp_path / "token").write_text(asker.token())
        clock.seconds += TOKEN_FILE_SECONDS

        assert await asked(kubelet, access) == PODS
    finally:
        without_rights.remove()


async def test_a_token_that_has_ended_is_replaced_in_the_same_read(
    control_plane, kubelet, asker, tmp_path
):
    clock = HandClock()
    access = by_token(control_plane, tmp_path, "has.ended.long", clock)
    asker.allow("nodes/pods")
    (tmp_path / "token").write_text(asker.token())

    assert await asked(kubelet, access) == PODS

    # And again, once the time has passed in which refusals count as one.
    (tmp_path / "token").write_text("has.ended.long")
    clock.seconds += TOKEN_FILE_SECONDS
    await access.credentials.headers()
    (tmp_path / "token").write_text(asker.token())
    clock.seconds += REJECT_SECONDS

    assert await asked(kubelet, access) == PODS


# ------------------------------------------------------------------ whom we trust


async def test_a_kubelet_that_nobody_vouches_for_gets_no_token(
    control_plane, stranger, asker, tmp_path
):
    asker.allow("nodes/pods")
    text = await complaint(stranger, by_token(control_plane, tmp_path, asker.token()))

    assert text.startswith("the server's certificate is not trusted: ")
    assert text.endswith("give its CA with --kubelet-ca, or its name with --kubelet-server-name)")


async def test_its_own_authority_can_be_named(control_plane, stranger, asker, tmp_path):
    asker.allow("nodes/pods")
    authority = str(tmp_path / "ca.crt")
    access = by_token(control_plane, tmp_path, asker.token(), authority_file=authority)

    assert await asked(stranger, access) == PODS


async def test_its_own_authority_can_be_named_for_who_we_are_to_the_api_server(
    control_plane, stranger, tmp_path
):
    trust = KubeletTrust(authority_file=str(tmp_path / "ca.crt"))
    cluster = loaded([str(control_plane.kubeconfig)])
    access = kubelet_access(trust, cluster=cluster, clock=SYSTEM_CLOCK)

    assert await asked(stranger, access) == PODS


async def test_the_check_can_be_switched_off_by_name(control_plane, stranger, asker, tmp_path):
    asker.allow("nodes/pods")
    access = by_token(control_plane, tmp_path, asker.token(), is_insecure=True)

    assert await asked(stranger, access) == PODS


async def test_the_name_in_its_certificate_can_be_given(control_plane, kubelet, asker, tmp_path):
    asker.allow("nodes/pods")
    right = by_token(control_plane, tmp_path, asker.token(), server_name="localhost")
    wrong = by_token(control_plane, tmp_path, asker.token(), server_name="node-7")

    assert await asked(kubelet, right) == PODS
    assert "hostname mismatch" in await complaint(kubelet, wrong)


# ------------------------------------------------------------------ other ways, other days


async def test_the_read_only_port_answers_everybody(kubelet):
    async with KubeletPods(
        FixedEndpoint(kubelet.read_only), READ_ONLY, decode=READ, limits=PATIENT
    ) as source:
        assert [pod.name for pod in await source.read()] == PODS


async def test_plain_http_on_the_secure_port_is_an_error(kubelet):
    assert await complaint(kubelet, READ_ONLY) == "the answer was 400"


@pytest.fixture
def node(control_plane):
    name = f"node-{uuid.uuid4().hex[:8]}"
    code, answer = control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert code == 201, answer
    yield name
    control_plane.request("DELETE", f"/api/v1/nodes/{name}")


async def move(client, node, endpoint):
    """Let the Node object say that its kubelet is there."""
    status = {
        "addresses": [
            {"type": "Hostname", "address": "elsewhere"},
            {"type": "InternalIP", "address": endpoint.host},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": endpoint.port}},
    }
    patch = Patch(kind=PatchKind.MERGE, body={"status": status})
    await client.patch(NODES, Key("", node), patch, subresource="status")


async def test_kubelet_is_followed_to_where_its_node_says_it_is(
    control_plane, kubelet, stranger, node
):
    clock = HandClock()
    cluster = loaded([str(control_plane.kubeconfig)])
    access = kubelet_access(KubeletTrust(is_insecure=True), cluster=cluster, clock=SYSTEM_CLOCK)
    async with a_client(access_of(control_plane)) as client:
        endpoint = NodeEndpoint(client, node, clock=clock)
        with pytest.raises(SourceError, match="has no address of these types: InternalIP, "):
            await endpoint.find()
        await move(client, node, stranger.endpoint)
        async with KubeletPods(endpoint, access, decode=READ, limits=PATIENT) as source:
            await source.read()
            stranger.program.kill()
            await move(client, node, kubelet.endpoint)
            with pytest.raises(SourceError, match="connection refused"):
                await source.read()
            clock.seconds += REREAD_SECONDS

            assert [pod.name for pod in await source.read()] == PODS
