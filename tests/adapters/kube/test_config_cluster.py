"""The same kubeconfig gives the same user at a real API server as with the real kubectl."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import random
import shutil
import subprocess

import pytest

from assets import ensure
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import UntrustedError
from bursar.adapters.http1.request import HttpRequest
from bursar.adapters.http1.route import Route, parse_origin
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import PODS
from support.builders.kubeconfigs import (
    V1,
    V1BETA1,
    HandClock,
    PluginScript,
    in_cluster,
    loaded,
    write,
)
from support.cluster.http_requests import tunnel
from support.until import PATIENCE_SECONDS

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
NUMBERS = itertools.count(1)
MASTERS = "system:masters"


@pytest.fixture(scope="module")
def kubectl():
    return str(ensure("kubectl"))


@pytest.fixture
def cluster(control_plane):
    """The cluster entry of the kubeconfig of the real cluster."""
    config = json.loads(control_plane.kubeconfig.read_text())
    return dict(config["clusters"][0]["cluster"])


@pytest.fixture
def service_account(control_plane):
    """Makes service account tokens in a namespace of this test."""
    namespace = f"kubeconfig-{os.getpid()}-{next(NUMBERS)}"

    def post(path, body):
        status, answer = control_plane.request("POST", path, body)
        assert status == 201, answer
        return json.loads(answer)

    def token(name):
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        post(accounts, {"metadata": {"name": name}})
        request = {"spec": {"expirationSeconds": 600}}
        return post(f"{accounts}/{name}/token", request)["status"]["token"]

    token.namespace = namespace
    post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    yield token
    control_plane.request("DELETE", f"/api/v1/namespaces/{namespace}")


def a_config(cluster, user, **context):
    return {
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "real", "user": "me", **context}}],
        "current-context": "it",
    }


def kubectl_identity(kubectl, *paths, **environment):
    """The user that the server sees for kubectl."""
    done = subprocess.run(
        [kubectl, "auth", "whoami", "-o", "json"],
        env=os.environ | environment | {"KUBECONFIG": ":".join(paths)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["status"]["userInfo"]


async def attempt(session, access):
    """One request as `ClusterAccess` demands it: first the headers, then the TLS context."""
    headers = await access.credentials.headers()
    origin, _ = parse_origin(access.server)
    route = Route(
        origin=origin,
        context=access.ssl_context,
        server_name=access.tls_server_name,
        proxy_url=access.proxy_url,
    )
    request = HttpRequest(
        method="POST",
        target="/apis/authentication.k8s.io/v1/selfsubjectreviews",
        headers=[("Content-Type", "application/json"), *headers],
        body=json.dumps(REVIEW).encode(),
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await session.send(route, request)
        return answer.status, json.loads(await answer.read(2**20))


async def identity(access, session=None):
    """The user that the server sees for us; after a 401 there is one more attempt."""
    async with contextlib.AsyncExitStack() as stack:
        session = session or await stack.enter_async_context(HttpClient())
        status, body = await attempt(session, access)
        if status == 401:
            access.credentials.reject()
            status, body = await attempt(session, access)
    assert status == 201, body
    return body["status"]["userInfo"]


async def both(kubectl, *paths):
    """The user that the server sees, which is the same for kubectl."""
    ours = await identity(loaded(paths))

    assert ours == kubectl_identity(kubectl, *paths)
    return ours


async def test_a_client_certificate(control_plane, kubectl):
    found = await both(kubectl, str(control_plane.kubeconfig))

    assert found["username"] == "bursar-admin"
    assert MASTERS in found["groups"]


async def test_a_client_certificate_as_data(control_plane, kubectl, cluster, tmp_path):
    pair = control_plane.client("joe", "dev", "ops")
    user = {
        f"client-{name}-data": base64.b64encode(path.read_bytes()).decode()
        for name, path in (("certificate", pair.certificate), ("key", pair.key))
    }

    found = await both(kubectl, write(tmp_path / "config", a_config(cluster, user)))

    assert (found["username"], found["groups"][:2]) == ("joe", ["dev", "ops"])


async def test_a_token(kubectl, cluster, service_account, tmp_path):
    user = {"token": service_account("robot")}

    found = await both(kubectl, write(tmp_path / "config", a_config(cluster, user)))

    assert found["username"] == f"system:serviceaccount:{service_account.namespace}:robot"


async def test_a_token_file_rotated_in_use(kubectl, cluster, service_account, tmp_path):
    clock = HandClock()
    tokens = [service_account(f"robot-{number}") for number in range(3)]
    path = write(tmp_path / "config", a_config(cluster, {"tokenFile": "token"}))
    (tmp_path / "token").write_text(tokens[0])
    access = loaded([path], clock=clock)
    seen = []

    async with HttpClient() as session:
        for token in tokens:
            (tmp_path / "token").write_text(token)
            seen.append((await identity(access, session))["username"])
            clock.seconds += 60
    wanted = [f"system:serviceaccount:{service_account.namespace}:robot-{n}" for n in range(3)]

    assert seen == wanted
    assert kubectl_identity(kubectl, path)["username"] == wanted[2]


async def test_a_token_file_whose_token_is_refused(cluster, service_account, tmp_path):
    path = write(tmp_path / "config", a_config(cluster, {"tokenFile": "token"}))
    (tmp_path / "token").write_text("worthless")
    access = loaded([path], clock=HandClock())
    (tmp_path / "token").write_text(service_account("robot"))

    assert (await identity(access))["username"].endswith(":robot")


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_with_a_token(kubectl, cluster, service_account, tmp_path, version):
    script = PluginScript(tmp_path / "bin")
    script.gives(service_account("robot"), version)
    user = script.user(version, command="bin/plugin")

    found = await both(kubectl, write(tmp_path / "config", a_config(cluster, user)))

    assert found["username"].endswith(":robot")
    assert script.runs == 2, "once for kubectl, once for us"


async def test_a_plugin_with_a_client_certificate(control_plane, kubectl, cluster, tmp_path):
    script = PluginScript(tmp_path / "bin")
    answer_with(script, control_plane.client("plugged", "dev"))
    path = write(tmp_path / "config", a_config(cluster, script.user()))

    found = await both(kubectl, path)

    assert found["username"] == "plugged"


def answer_with(script, pair):
    script.answers(
        clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text()
    )


async def test_a_new_certificate_of_a_plugin_is_used_although_connections_are_kept(
    control_plane, cluster, tmp_path
):
    clock = HandClock()
    script = PluginScript(tmp_path / "bin")
    access = loaded([write(tmp_path / "config", a_config(cluster, script.user()))], clock=clock)
    seen = []

    async with HttpClient() as session:
        for name in ("first", "second", "second"):
            answer_with(script, control_plane.client(name))
            seen.append((await identity(access, session))["username"])
            access.credentials.reject()
            clock.seconds += 20

    assert seen == ["first", "second", "second"]


async def test_a_certificate_rotated_on_disk_is_used_although_connections_are_kept(
    control_plane, cluster, tmp_path
):
    clock = HandClock()
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    path = write(tmp_path / "config", a_config(cluster, user))

    def put(name):
        pair = control_plane.client(name)
        (tmp_path / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (tmp_path / "tls.key").write_bytes(pair.key.read_bytes())

    put("one")
    access = loaded([path], clock=clock)
    async with HttpClient() as session:
        seen = [(await identity(access, session))["username"]]
        put("two")
        clock.seconds += 10
        seen.append((await identity(access, session))["username"])

    assert seen == ["one", "two"]


async def test_a_plugin_whose_token_is_refused_is_run_again(cluster, service_account, tmp_path):
    script = PluginScript(tmp_path / "bin")
    script.gives("worthless")
    path = write(tmp_path / "config", a_config(cluster, script.user()))
    access = loaded([path], clock=HandClock())
    await access.credentials.headers()
    script.gives(service_account("robot"))

    assert (await identity(access))["username"].endswith(":robot")
    assert script.runs == 2


async def test_impersonation(control_plane, kubectl, cluster, tmp_path):
    pair = control_plane.client("boss", MASTERS)
    user = {
        "client-certificate": str(pair.certificate),
        "client-key": str(pair.key),
        "as": "joe",
        "as-uid": "42",
        "as-groups": ["dev", "ops", "system:authenticated"],
        "as-user-extra": {"example.org/scope": ["a", "b"], "odd %key": ["ü"]},
    }

    found = await both(kubectl, write(tmp_path / "config", a_config(cluster, user)))

    assert (found["username"], found["uid"]) == ("joe", "42")
    assert found["groups"] == ["dev", "ops", "system:authenticated"]
    assert found["extra"]["example.org/scope"] == ["a", "b"]


async def test_several_files_with_relative_paths(control_plane, kubectl, cluster, tmp_path):
    pair = control_plane.client("merged")
    whole = a_config(
        cluster | {"certificate-authority": "../pki/ca.crt"},
        {"client-certificate": "./me.crt", "client-key": "me.key"},
    )
    for name, source in (
        ("pki/ca.crt", cluster["certificate-authority"]),
        ("users/me.crt", pair.certificate),
        ("users/me.key", pair.key),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, tmp_path / name)
    paths = [
        write(tmp_path / part / "config", {part: whole[part]})
        for part in ("clusters", "users", "contexts", "current-context")
    ]

    found = await both(kubectl, str(tmp_path / "missing"), *paths)

    assert found["username"] == "merged"


async def test_a_server_name_for_tls(control_plane, kubectl, cluster, tmp_path):
    pair = control_plane.client("named")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    good = a_config(cluster | {"tls-server-name": "kubernetes.default.svc"}, user)
    bad = loaded(
        [write(tmp_path / "bad", a_config(cluster | {"tls-server-name": "example.org"}, user))]
    )

    assert (await both(kubectl, write(tmp_path / "good", good)))["username"] == "named"
    with pytest.raises(UntrustedError):
        await identity(bad)


async def test_a_proxy(control_plane, kubectl, cluster, tmp_path):
    pair = control_plane.client("proxied")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    async with tunnel() as proxy:
        path = write(tmp_path / "config", a_config(cluster | {"proxy-url": proxy.url}, user))
        theirs = await asyncio.to_thread(kubectl_identity, kubectl, path)
        ours = await identity(loaded([path]))

    assert ours == theirs
    assert set(proxy.asked) == {f"127.0.0.1:{control_plane.api_port}"}
    assert len(proxy.asked) >= 2


async def test_a_proxy_of_the_environment(control_plane, kubectl, cluster, tmp_path):
    """Only the proxy can resolve the name of the server."""
    hidden = f"cluster.invalid:{control_plane.api_port}"
    pair = control_plane.client("proxied", MASTERS)
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    named = {"server": f"https://{hidden}", "tls-server-name": "localhost"}
    path = write(tmp_path / "config", a_config(cluster | named, user))
    async with tunnel(known={"cluster.invalid": "127.0.0.1"}) as proxy:
        variables = {"HTTPS_PROXY": proxy.url, "NO_PROXY": "example.com,10.0.0.0/8"}
        theirs = await asyncio.to_thread(kubectl_identity, kubectl, path, **variables)
        access = loaded([path], environment=variables)
        ours = await identity(access)
        async with KubeClient(access, clock=SYSTEM_CLOCK, rng=random.SystemRandom()) as client:
            answer = await client.list(PODS, limit=1)

    assert ours == theirs
    assert answer.resource_version
    assert set(proxy.asked) == {hidden}
    assert len(proxy.asked) >= 3


async def test_a_server_that_is_not_verified(cluster, kubectl, service_account, tmp_path):
    insecure = {"server": cluster["server"], "insecure-skip-tls-verify": True}
    user = {"token": service_account("robot")}

    found = await both(kubectl, write(tmp_path / "config", a_config(insecure, user)))

    assert found["username"].endswith(":robot")


async def test_a_service_account_in_a_pod(control_plane, cluster, service_account, tmp_path):
    (tmp_path / "token").write_text(service_account("robot"))
    shutil.copy(cluster["certificate-authority"], tmp_path / "ca.crt")
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(control_plane.api_port),
    }
    access = in_cluster(str(tmp_path), environment)

    assert (await identity(access))["username"].endswith(":robot")


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_receives_the_exec_info_that_kubectl_passes(
    kubectl, cluster, service_account, tmp_path, version
):
    extension = {"audience": "x", "deep": [1, 1.5, None, {"a": True}]}
    script = PluginScript(tmp_path / "bin")
    script.gives(service_account("robot"), version)
    more = {
        "tls-server-name": "localhost",
        "disable-compression": True,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": extension}],
    }
    user = script.user(version, provideClusterInfo=True, interactiveMode="Never")
    told = []
    for described in (cluster, cluster | more):
        path = write(tmp_path / "config", a_config(described, user))
        kubectl_identity(kubectl, path)
        theirs = script.told
        await identity(loaded([path]))
        told.append((script.told, theirs))

    assert told[0][0] == told[0][1]
    assert told[1][0] == told[1][1]


async def test_many_requests_share_one_run(cluster, service_account, tmp_path):
    script = PluginScript(tmp_path / "bin")
    script.gives(service_account("robot"))
    access = loaded([write(tmp_path / "config", a_config(cluster, script.user()))])

    async with HttpClient() as session:
        seen = await asyncio.gather(*(identity(access, session) for _ in range(10)))

    assert len({found["username"] for found in seen}) == 1
    assert script.runs == 1
