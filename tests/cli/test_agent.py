"""`bursar agent` as an operator meets it: its options, and a process with nobody around it."""

import asyncio
import os
import re
import signal
import socket
import stat
import sys
from pathlib import Path

import click
import grpc
import pytest
from click.testing import CliRunner

from bursar.adapters.files.device_sources import read_sources
from bursar.adapters.node.socket_file import identity
from bursar.adapters.node.socket_keeper import ADVICE
from bursar.app.devices.defaults import PodsFrom
from bursar.app.install.agent import AgentInstallation, agent_documents
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.processes.agent import agent
from bursar.cli.processes.options.agent import agent_options, settings_from
from bursar.core.devices.resolve import Trust
from bursar.entry.processes import ComposedProcesses
from support.devices.agent import AgentProcess, pods_port
from support.log_lines import messages
from support.processes.command_line import run_bursar
from support.until import PATIENCE_SECONDS, until_blocking

LIST = "/v1.PodResourcesLister/List"


def settings(*arguments, **environment):
    """What the agent makes of its command line."""
    found = []

    @click.command()
    @agent_options
    def reading(**chosen):
        found.append(settings_from(chosen))

    ran = CliRunner(env=environment).invoke(reading, arguments, standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    (only,) = found
    return only


# ------------------------------------------------------------------ options


def test_without_options_it_takes_the_place_of_koordinators_proxy():
    found = settings(NODE_NAME="node-7")

    assert found.place.path == "/var/run/koordlet/pod-resources/kubelet.sock"
    assert (found.place.mode, found.place.group) == (0o600, None)
    assert found.kubelet_socket == "/var/lib/kubelet/pod-resources/kubelet.sock"
    assert found.node == "node-7"
    assert found.pods_from is PodsFrom.KUBELET
    assert found.kubelet.answer_bytes_max == 16 << 20
    assert (found.rate.per_second, found.rate.burst) == (100, 10)
    assert (found.freshness.fresh_s, found.freshness.last_good_s) == (1.0, 300.0)
    assert not found.proxy.fails_closed
    assert found.proxy.trims_above_bytes == 0
    assert found.rules.trust is Trust.ASKED
    assert not found.trust_in_kubelet.is_insecure
    assert found.bind == ("127.0.0.1", 9479)
    assert found.tells_events


def test_every_option_has_its_effect():
    found = settings(
        *("--socket-mode", "0660", "--socket-group", "1234"),
        *("--node", "n", "--pods-from", "api", "--when-unknown", "refuse"),
        *("--trust", "any", "--scheduler", "a", "--scheduler", "b", "--share-suffix"),
        *("--max-message", "32Mi", "--trim-above", "4Mi", "--rate", "0"),
        *("--pods-max-age", "250ms", "--stale-for", "1h", "--kubelet-timeout", "5s"),
        *("--kubelet-ca", "ca", "--kubelet-server-name", "n", "--kubelet-token-file", "t"),
        *("--kubelet-client-cert", "c", "--kubelet-client-key", "k", "--kubelet-insecure"),
        *("--no-events", "--bind", ""),
    )

    assert (found.place.mode, found.place.group) == (0o660, 1234)
    assert found.pods_from is PodsFrom.API
    assert found.proxy.fails_closed
    assert found.proxy.trims_above_bytes == 4 << 20
    assert found.rules.trust is Trust.ANY
    assert found.rules.schedulers == {"a", "b"}
    assert found.rules.numbers_shares
    assert found.kubelet.answer_bytes_max == 32 << 20
    assert found.rate.per_second == 0
    assert found.freshness.fresh_s == 0.25
    assert (found.freshness.last_good_s, found.freshness.read_s) == (3600, 5)
    trust = found.trust_in_kubelet
    assert (trust.authority_file, trust.server_name, trust.token_file) == ("ca", "n", "t")
    assert (trust.certificate_file, trust.key_file, trust.is_insecure) == ("c", "k", True)
    assert not found.tells_events
    assert found.bind is None


def test_compat_fills_list_only_and_can_be_trimmed():
    found = settings("--mode=compat", "--only-with-devices", "--when-unknown=refuse")

    assert found.is_compat
    assert found.proxy.fills_list_only
    assert found.proxy.trims_above_bytes == 1


@pytest.mark.parametrize("address", ["10.0.0.7", "[fd00::7]", "fd00::7", "node-7.example.com"])
def test_kubelet_may_be_called_by_address_or_name(address):
    assert settings("--kubelet-address", address).kubelet_address == address.strip("[]")


def test_a_group_can_be_named():
    assert settings("--socket-group", "video").place.group == "video"


def test_pods_without_devices_can_always_be_left_out():
    assert settings("--only-with-devices").proxy.trims_above_bytes == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ["--socket-mode", "999"],
        ["--socket-mode", "7777"],
        ["--max-message", "lots"],
        ["--trim-above", "3Gi"],
        ["--bind", "9479"],
        ["--stale-for", "100ms"],
        ["--pods-from", "etcd"],
        ["--kubelet-port", "70000"],
        ["--burst", "0"],
        ["--bind", "localhost:" + "9" * 5000],
        ["--socket", ""],
        ["--socket", "/"],
        ["--socket", "/run/"],
        ["--socket", "kubelet.sock"],
        ["--socket", "/" + "x" * 107],
        ["--socket-group", "99999999999"],
        ["--socket-group", "4294967295"],
        ["--max-message", "0"],
        ["--kubelet-timeout", "0s"],
        ["--kubelet-socket", ""],
        ["--kubelet-socket", "kubelet.sock"],
        ["--kubelet-socket", "/" + "x" * 107],
        ["--kubelet-address", "http://node-7"],
        ["--kubelet-address", "10.0.0.7:10250"],
        ["--mode", "compat", "--share-suffix"],
        ["--mode", "compat", "--trust", "asked"],
        ["--mode", "compat", "--scheduler", "koord"],
        ["--mode", "compat", "--sources", "sources.yaml"],
    ],
    ids=lambda wrong: " ".join(wrong)[:40],
)
def test_what_cannot_be_meant_is_refused(wrong):
    with pytest.raises(click.UsageError) as told:
        settings(*wrong)
    assert "\n" not in told.value.format_message()


@pytest.mark.parametrize("name", ["k.sock", "./k.sock", "../folder/k.sock", "../linked/k.sock"])
def test_the_socket_of_kubelet_is_not_taken_by_any_name(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "linked").symlink_to(folder)
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(folder / "k.sock"))
        kubelet.listen()
        before = identity(folder / "k.sock")
        ran = run_bursar(
            "agent", f"--socket={folder}/{name}", f"--kubelet-socket={folder}/k.sock", "--bind="
        )

    assert ran.code == 2
    assert f"--socket: {folder}/{name}: the agent needs a socket of its own" in ran.err
    assert identity(folder / "k.sock") == before
    assert [each.name for each in folder.iterdir()] == ["k.sock"]


def test_the_manifests_pass_options_that_the_agent_has():
    installation = AgentInstallation(
        image="i", kubelet_certificate="/a", sources_config="s", pods_from=PodsFrom.READ_ONLY
    )
    *_, daemon_set = agent_documents(installation)
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    arguments = [re.sub(r"\$\([A-Z]+_IP\)", "fd00::7", each) for each in container["args"]]
    found = settings(*arguments)

    assert found.pods_from is PodsFrom.READ_ONLY
    assert found.bind == ("fd00::7", 9479)
    assert found.kubelet_address == "fd00::7"
    assert found.sources_file == "/etc/bursar/sources/sources.yaml"


def refused(*arguments):
    ran = CliRunner().invoke(agent, arguments, standalone_mode=False, obj=ComposedProcesses())
    assert isinstance(ran.exception, BadInputError), ran.exception
    return str(ran.exception)


def test_a_file_of_sources_that_cannot_be_read_is_named(tmp_path):
    missing, wrong = tmp_path / "missing.yaml", tmp_path / "wrong.yaml"
    wrong.write_text("sources:\n- name: x\n  colour: red\n")

    assert refused("--sources", str(missing)) == f"{missing}: No such file or directory"
    problem = refused("--sources", str(wrong))
    assert problem.startswith(f"{wrong}: 3:")
    assert "colour" in problem


def test_every_option_is_on_the_reference_page():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "agent.md").read_text()
    known = {
        name
        for parameter in agent.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name not in {"--help", "--events"}
    }

    assert {name for name in known if not re.search(rf"`{name}\b", page)} == set()


def test_the_table_of_the_reference_page_is_one_that_works(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "reference" / "agent.md"
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "sources.yaml"
    file.write_text(example)

    assert [each.name for each in read_sources(str(file))] == ["koordinator", "hami", "cards"]


def test_pods_of_the_api_server_need_an_api_server(tmp_path):
    problem = refused("--pods-from", "api", "--kubeconfig", str(tmp_path / "none"))

    assert "none" in problem


def test_a_folder_that_cannot_be_made_is_told_in_one_line():
    assert run_bursar("agent", "--socket", "/proc/here/kubelet.sock", "--bind", "").code == 2


def test_a_group_with_too_high_a_number_is_told_in_one_line(tmp_path):
    ran = run_bursar("agent", f"--socket={tmp_path}/k.sock", "--socket-group=99999999999")

    assert ran.code == 2
    assert ran.err == (
        "bursar: agent: invalid value for '--socket-group': 99999999999: groups have numbers up to "
        "4294967294; see bursar agent --help\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--kubelet-ca={0}/ca.crt"], "--kubelet-ca {0}/ca.crt: no such file"),
        (["--kubelet-ca={0}/ca.crt", "--kubelet-insecure"], "--kubelet-ca, --kubelet-insecure: "),
        (["--kubelet-client-cert={0}/c"], "--kubelet-client-cert, --kubelet-client-key: "),
        (
            ["--kubelet-client-cert={0}/c", "--kubelet-client-key={0}/k"],
            "--kubelet-client-cert: no such file",
        ),
    ],
)
def test_what_is_wrong_with_certificates_is_told_by_option(tmp_path, options, told):
    place = tmp_path / "agent" / "k.sock"
    problem = refused(f"--socket={place}", *(each.format(tmp_path) for each in options))

    assert problem.startswith(told.format(tmp_path))
    assert not place.exists()


# ------------------------------------------------------------------ a process with nobody around


async def call(socket: Path, method=LIST):
    """What becomes of a call: the code's name and the answer."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        try:
            return "OK", await channel.unary_unary(method)(b"", timeout=PATIENCE_SECONDS)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details()


@pytest.mark.slow
async def test_weakness_4_it_starts_and_answers_without_kubelet_and_without_an_api_server(tmp_path):
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as process:
        code, _ = await call(process.socket)
        ready, _ = await asyncio.to_thread(process.page, "/readyz")
        parts = await asyncio.to_thread(process.health)

        assert code == "UNAVAILABLE"
        assert ready == 503
        assert parts["serving"] == "OK"
        assert parts["kubelet"] == f"{tmp_path}/nobody.sock: no such file or directory"
        assert parts["pods"].startswith("OK, ")
        assert parts["inventory"] == "OK, not followed"
        assert process.metrics()["bursar_pod_resources_serving"] == 1
        assert "no API server: devices have no inventory and pods get no events" in messages(
            process.log()
        )


@pytest.mark.slow
async def test_weakness_24_on_sigterm_it_ends_in_order_and_its_socket_stays(tmp_path):
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as process:
        mode = stat.S_IMODE(process.socket.stat().st_mode)
        process.program._signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.program._process.wait, PATIENCE_SECONDS)

    assert mode == 0o600
    assert code == 0
    assert process.socket.is_socket()
    assert messages(process.log())[-1] == "ended"
    assert sorted(path.name for path in process.socket.parent.iterdir()) == [
        "kubelet.sock",
        "kubelet.sock.lock",
    ]


@pytest.mark.slow
async def test_a_second_agent_on_the_same_socket_does_not_disturb_the_first(tmp_path):
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as process:
        second = await asyncio.to_thread(
            run_bursar, "agent", f"--socket={process.socket}", "--bind=", *port.options
        )
        code, _ = await call(process.socket)

        assert second.code == 2
        assert "another agent serves this socket" in second.err
        assert code == "UNAVAILABLE"


@pytest.mark.slow
async def test_a_port_that_is_taken_is_told_and_the_agent_ends(tmp_path):
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as process:
        elsewhere = tmp_path / "elsewhere" / "kubelet.sock"
        taken = f"--bind=127.0.0.1:{process.port}"
        second = await asyncio.to_thread(
            run_bursar, "agent", f"--socket={elsewhere}", taken, *port.options
        )

    assert second.code == 2
    assert "cannot listen on 127.0.0.1" in second.err.splitlines()[-1]
    assert not elsewhere.exists()


@pytest.mark.slow
async def test_another_program_on_the_same_socket_makes_the_agent_unready_until_it_leaves(tmp_path):
    """Koordlet's own proxy has the same path; the two must not take turns."""
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as process:
        told = f"{process.socket}: {ADVICE}"
        with socket.socket(socket.AF_UNIX) as another:
            beside = process.socket.with_name("another")
            another.bind(str(beside))
            another.listen(100)
            beside.rename(process.socket)
            theirs = identity(process.socket)
            await until_blocking(lambda: process.health()["serving"] == told)
            ready, _ = await asyncio.to_thread(process.page, "/readyz")
            serving = process.metrics()["bursar_pod_resources_serving"]
            left = identity(process.socket)
            said = process.log()
            os.unlink(process.socket)  # noqa: PTH108 - as koordlet does when it ends
        await until_blocking(lambda: process.health()["serving"] == "OK")
        again = process.metrics()["bursar_pod_resources_serving"]
        code, _ = await call(process.socket)

    assert (ready, serving, left) == (503, 0, theirs)
    assert said.count(ADVICE) == 1
    assert (again, code) == (1, "UNAVAILABLE")
    assert process.log().count("answering on the socket") == 2


@pytest.mark.slow
async def test_an_agent_that_follows_another_takes_its_place_without_a_word(tmp_path):
    with pods_port() as port, AgentProcess(tmp_path, *port.options) as old:
        old.program._signal(signal.SIGTERM)
        await asyncio.to_thread(old.program._process.wait, PATIENCE_SECONDS)
        before = old.log()
        with AgentProcess(tmp_path, *port.options) as new:
            await until_blocking(lambda: new.health()["serving"] == "OK")

    assert ADVICE not in before + new.log()


@pytest.mark.slow
async def test_what_people_and_controllers_need_is_not_loaded_on_every_node():
    listing = "import sys, bursar.entry.agent; print(*sys.modules)"
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", listing, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await done.communicate()
    loaded = set(out.decode().split())

    assert "grpc" in loaded
    unwanted = {
        *("rich", "aiohttp", "yaml", "email", "shutil"),
        *("bursar.core.quota", "bursar.app.admission", "bursar.core.model.node"),
        *("bursar.core.model.pod_row", "bursar.adapters.serving.tls.profile"),
        *("bursar.core.storage", "fractions", "bursar.app.tracing", "hmac", "grp"),
    }
    assert not unwanted & loaded
