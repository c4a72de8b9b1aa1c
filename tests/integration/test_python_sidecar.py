"""A sidecar on `bursar.sidecar` asked in the way of AAQ's controller, and limits of one in Go."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from assets import ROOT
from bursar.adapters.sidecars.connection import CallLimits, SidecarConnection
from bursar.app.counting.sidecars.ports import SidecarError, SidecarFailure
from bursar.sidecar.server import serving
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.pod_usage import PodUsageRequests, decode_answer
from program import Program
from support.builders.manifests import pod_manifest
from support.counting.go_sidecar import ask_as_aaq, go_sidecar

pytestmark = pytest.mark.integration
EXAMPLE = ROOT / "examples" / "sidecar" / "notebooks.py"


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="sidecar-") as folder:
        yield Path(folder)


def a_notebook(name: str):
    return pod_manifest(name, requests="cpu=1", metadata={"labels": {"notebook-name": name}})


def test_the_example_counts_a_notebook_for_aaqs_client_and_ends_cleanly(folder, tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, str(EXAMPLE), str(folder)]
    program = Program("sidecar", command, log=log, is_ready=lambda: "answering" in log.read_text())
    program.start()
    try:
        program.wait_ready()
        [socket] = list(folder.glob("sidecar-????.sock"))

        counted = ask_as_aaq(socket, a_notebook("nb"), pod_manifest("web"))
        assert counted["healthy"]
        assert (counted["match"], counted["resources"]) == (True, {"instances/notebook": "1"})
        other = ask_as_aaq(socket, pod_manifest("web"))
        assert (other["match"], other["resources"], other["error"]) == (False, {}, "")
    finally:
        program.stop()

    assert list(folder.glob("sidecar-????.sock")) == []
    assert "Traceback" not in log.read_text()


def test_the_error_of_a_python_sidecar_reaches_aaqs_client(folder):
    with serving(lambda pod: pod["nothing"], folder=str(folder)) as socket:
        answer = ask_as_aaq(socket, pod_manifest("web"))

    assert answer["error"] == "KeyError: 'nothing'"
    assert not answer["match"]


def test_aaqs_client_sends_the_pods_of_the_namespace(folder):
    with serving(lambda _, existing: {"pods": len(existing)}, folder=str(folder)) as socket:
        answer = ask_as_aaq(socket, pod_manifest("web"), a_notebook("a"), a_notebook("b"))

    assert answer["resources"] == {"pods": "2"}


async def test_a_go_sidecar_refuses_large_namespaces_and_the_reason_says_what_to_do():
    with go_sidecar() as sidecar:
        [socket] = sidecar.living()
        connection = SidecarConnection(socket, CallLimits())
        small, large = (
            keep_body(json.dumps({"metadata": {"annotations": {"pad": "x" * size}}}).encode())
            for size in (10, 5 * 2**20)
        )
        requests = PodUsageRequests()
        try:
            assert await connection.is_healthy()
            assert decode_answer(await connection.evaluate(requests.encode(small))) is None
            with pytest.raises(SidecarError) as refused:
                await connection.evaluate(requests.encode(large))
        finally:
            await connection.close()

    assert refused.value.failure is SidecarFailure.TOO_LARGE
    assert "grpc.MaxRecvMsgSize" in str(refused.value)
