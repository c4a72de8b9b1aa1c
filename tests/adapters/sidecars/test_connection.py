"""Connections to sidecars over real sockets: a Python sidecar, a server that misbehaves, nobody."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from bursar.adapters.sidecars.connection import CallLimits, SidecarConnection
from bursar.adapters.sidecars.sockets import SOCKETS_MAX, SocketFolder
from bursar.app.counting.sidecars.ports import SidecarError, SidecarFailure
from bursar.app.counting.sidecars.settings import SidecarTrust
from bursar.sidecar.server import serving
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.pod_usage import (
    EVALUATE,
    PodUsageRequests,
    SidecarSaysError,
    decode_answer,
)
from support.builders.pods import texts

SHORT = CallLimits(evaluate_s=0.3, health_s=0.3)


@asynccontextmanager
async def connected(path, limits=None):
    sidecar = SidecarConnection(Path(path), limits or CallLimits())
    try:
        yield sidecar
    finally:
        await sidecar.close()


def a_request(name: str, *others: str, pad: int = 0) -> bytes:
    def body(each):
        pod = {"metadata": {"name": each, "annotations": {"pad": "x" * pad}}}
        return keep_body(json.dumps(pod).encode())

    requests = PodUsageRequests()
    requests.prepare("a", 1, [(each, body(each)) for each in others])
    return requests.encode(body(name), "a")


async def failure_of(call) -> SidecarError:
    with pytest.raises(SidecarError) as failed:
        await call
    return failed.value


# ------------------------------------------------------------------ bursar.sidecar


async def test_a_python_sidecar_counts_a_pod_with_all_pods_of_its_namespace(tmp_path):
    def count(pod, existing):
        assert [each["metadata"]["name"] for each in existing[:2]] == ["web", "db"]
        assert existing[0] == pod
        return {"instances/notebook": len(existing), "cpu": "500m"}

    with serving(count, folder=str(tmp_path)) as path:
        assert path.name.startswith("sidecar-")
        assert len(path.name) == len("sidecar-abcd.sock")
        async with connected(path) as sidecar:
            assert await sidecar.is_healthy()
            answer = decode_answer(await sidecar.evaluate(a_request("web", "web", "db")))

    assert texts(answer) == {"instances/notebook": "2", "cpu": "500m"}
    assert list(tmp_path.iterdir()) == []


async def test_messages_may_be_large(tmp_path):
    with serving(lambda pod: {"cpu": len(pod)}, folder=str(tmp_path)) as path:
        async with connected(path) as sidecar:
            request = a_request("web", *map(str, range(30)), pad=10**6)
            assert len(request) > 30 * 10**6
            assert texts(decode_answer(await sidecar.evaluate(request))) == {"cpu": "1"}


async def test_a_python_sidecar_does_not_count_a_pod(tmp_path):
    with serving(lambda pod: None, folder=str(tmp_path)) as path:  # noqa: ARG005 - a rule
        async with connected(path) as sidecar:
            assert decode_answer(await sidecar.evaluate(a_request("web"))) is None


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (lambda pod: pod["spec"], "KeyError: 'spec'"),
        (lambda _: {"cpu": 0.5}, "TypeError: cpu: 0.5 is neither a whole number nor text"),
        (lambda _: {"cpu": True}, "TypeError: cpu: True"),
    ],
)
async def test_an_error_of_a_python_sidecar_is_reported(tmp_path, count, words):
    with serving(count, folder=str(tmp_path)) as path:
        async with connected(path) as sidecar:
            with pytest.raises(SidecarSaysError, match=words):
                decode_answer(await sidecar.evaluate(a_request("web")))


def test_a_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(NotADirectoryError, match="mount the volume"),
        serving(lambda _: None, folder=str(tmp_path / "none")),
    ):
        pass


# ------------------------------------------------------------------ servers that misbehave


@asynccontextmanager
async def a_server(path, behave):
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(behave)
    method = EVALUATE.rpartition("/")[2]
    handlers = {method: handler, "HealthCheck": handler}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("evaluate.PodUsage", handlers),)
    )
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


async def test_a_sidecar_that_is_not_there_cannot_be_reached(tmp_path):
    async with connected(tmp_path / "none.sock", SHORT) as sidecar:
        for call in (sidecar.evaluate(b""), sidecar.is_healthy()):
            failure = await failure_of(call)
            assert failure.failure in {SidecarFailure.UNREACHABLE, SidecarFailure.TIMEOUT}


async def test_a_slow_sidecar_is_given_up(tmp_path):
    async def hang(request, context):  # noqa: ARG001 - a server's method
        await asyncio.Event().wait()

    async with a_server(tmp_path / "s", hang), connected(tmp_path / "s", SHORT) as sidecar:
        failure = await failure_of(sidecar.evaluate(b""))
        assert failure.failure is SidecarFailure.TIMEOUT
        assert str(failure) == "no answer within 0.3 s"


async def test_codes_of_a_server_are_explained(tmp_path):
    async def refuse(request, context):
        code = grpc.StatusCode[request.decode()] if request else grpc.StatusCode.INTERNAL
        await context.abort(code, "words\n" * 1000)

    async with a_server(tmp_path / "s", refuse), connected(tmp_path / "s") as sidecar:
        large = await failure_of(sidecar.evaluate(b"RESOURCE_EXHAUSTED"))
        assert large.failure is SidecarFailure.TOO_LARGE
        assert "grpc.MaxRecvMsgSize" in str(large)
        broken = await failure_of(sidecar.evaluate(b"INTERNAL"))
        assert broken.failure is SidecarFailure.SAYS_ERROR
        assert str(broken).startswith(r"the call failed: INTERNAL: words\nwords")
        assert len(str(broken)) < 400
        assert (await failure_of(sidecar.is_healthy())).failure is SidecarFailure.SAYS_ERROR


async def test_health_that_cannot_be_read_is_a_bad_answer(tmp_path):
    async def garbage(request, context):  # noqa: ARG001 - a server's method
        return b"\xff\xff"

    async with a_server(tmp_path / "s", garbage), connected(tmp_path / "s") as sidecar:
        assert (await failure_of(sidecar.is_healthy())).failure is SidecarFailure.BAD_ANSWER


# ------------------------------------------------------------------ the folder


async def test_only_sockets_are_found_the_newest_first(tmp_path):
    (tmp_path / "file.sock").touch()
    (tmp_path / "folder.sock").mkdir()
    (tmp_path / "link.sock").symlink_to(tmp_path / "first.sock")
    servers = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.sock"
        servers.append(await asyncio.start_unix_server(lambda *_: None, path))
    try:
        assert list(SocketFolder(str(tmp_path)).find()) == ["second.sock", "first.sock"]
    finally:
        for server in servers:
            server.close()
    assert SOCKETS_MAX > 2


def test_a_folder_that_does_not_exist_holds_no_sockets(tmp_path, caplog):
    assert list(SocketFolder(str(tmp_path / "none")).find()) == []
    assert "cannot be read" in caplog.text


async def test_a_folder_that_everybody_may_write_to_is_used_only_if_that_is_said(tmp_path, caplog):
    server = await asyncio.start_unix_server(lambda *_: None, tmp_path / "one.sock")
    tmp_path.chmod(0o777)
    try:
        open_folder = SocketFolder(str(tmp_path))
        assert [list(open_folder.find()) for _ in range(2)] == [["one.sock"]] * 2
        assert caplog.text.count("every user that reaches the folder") == 1

        strict = SocketFolder(str(tmp_path), trust=SidecarTrust.OWNER)
        assert list(strict.find()) == []
        assert "is not used" in caplog.text

        tmp_path.chmod(0o700)
        assert list(strict.find()) == ["one.sock"]
    finally:
        server.close()
