"""What commands say of a cluster that they cannot reach: which one, why, and what to do next."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bursar.adapters.http1.command_loop import CommandLoop
from certificates import Authority
from support.processes.command_line import run_bursar

ANOTHER = "name another cluster with --context or --kubeconfig"
FILES = ", or read files with -f"


@pytest.fixture
def kubeconfig(tmp_path):
    def write(server: str, **cluster: str) -> str:
        (tmp_path / "config").write_text(
            yaml.safe_dump(
                {
                    "current-context": "prod",
                    "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                    "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
                    "users": [{"name": "u", "user": {"token": "secret"}}],
                }
            )
        )
        return server

    return write


@pytest.fixture
def said(tmp_path):
    def run_and_read(*arguments: str, **environment: str) -> str:
        ran = run_bursar(*arguments, **{"KUBECONFIG": f"{tmp_path}/config", **environment})
        assert (ran.code, ran.out) == (2, "")
        return ran.err

    return run_and_read


@contextlib.contextmanager
def listener(backlog: int = 16) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"https://127.0.0.1:{server.getsockname()[1]}"


VERBS = [
    ("queue",),
    ("explain", "pod", "web"),
    ("capacity", "get"),
    ("capacity", "set", "n1", "example.com/vm=1"),
    ("devices",),
    ("doctor",),
    ("release", "--all", "--yes"),
    ("migrate", "aaq", "--check"),
    ("migrate", "resourcequotas"),
    ("describe", "quota"),
    ("top", "peerpods"),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_names_the_server_that_refuses_and_its_context(kubeconfig, said, verb):
    with listener() as server:
        place = kubeconfig(address(server))

    error = said(*verb)

    assert error.count("\n") == 1
    assert f"{place} (context prod): no connection: connection refused; {ANOTHER}" in error


def test_files_are_offered_where_a_verb_reads_them(kubeconfig, said):
    with listener() as server:
        kubeconfig(address(server))

    assert said("queue").endswith(f"; {ANOTHER}{FILES}\n")
    assert said("doctor").endswith(f"; {ANOTHER}\n")


def test_an_address_that_swallows_packets_is_given_up(kubeconfig, said):
    with listener(backlog=0) as server, contextlib.ExitStack() as stack:
        # The queue of connections that nobody accepts is full; the kernel drops further ones.
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(server.getsockname())
        place = kubeconfig(address(server))

        assert said("queue") == (
            f"bursar: {place} (context prod): no connection within 1.3 s; {ANOTHER}{FILES}\n"
        )


def test_a_server_that_never_speaks_tls_is_given_up(kubeconfig, said):
    with listener() as server:
        place = kubeconfig(address(server))

        assert said("doctor").startswith(f"bursar: {place} (context prod): no connection within")


def test_a_server_that_accepts_a_request_and_is_silent_is_named_while_it_is_waited_for(
    kubeconfig, said
):
    """It may only be busy. So the command says what it waits for, and goes on."""
    with listener() as server:
        place = kubeconfig(address(server).replace("https", "http"))

        def hang_up_after_a_while() -> None:
            connection, _ = server.accept()
            with connection:
                threading.Event().wait(3)

        thread = threading.Thread(target=hang_up_after_a_while)
        thread.start()
        first, last = said("queue").splitlines()
        thread.join()

    assert first == f"bursar: {place} (context prod): no answer yet; waiting, Ctrl-C ends it"
    assert last.endswith("the connection was closed before the answer; try again later")


def test_a_certificate_of_another_authority_is_named(kubeconfig, said, tmp_path):
    with serving_tls(tmp_path) as server:
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other").certificate
        place = kubeconfig(address(server), **{"certificate-authority": str(other)})
        error = said("queue")

    assert error.startswith(
        f"bursar: {place} (context prod): the server's certificate is not trusted: "
    )
    assert error.endswith(
        f"; correct certificate-authority in the kubeconfig, or {ANOTHER}{FILES}\n"
    )


@contextlib.contextmanager
def serving_tls(folder: Path) -> Iterator[socket.socket]:
    pair = Authority(folder).server("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    with listener() as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection, context.wrap_socket(connection, server_side=True):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield server
        thread.join()


def test_a_name_that_does_not_exist_is_said(kubeconfig, said):
    place = kubeconfig("https://cluster.invalid:6443")

    assert said("queue") == (
        f"bursar: {place} (context prod): the server's name cannot be resolved; {ANOTHER}{FILES}\n"
    )


def test_a_name_server_that_does_not_answer_delays_no_end():
    """The loop is closed while the question is still open, and does not wait for its thread."""
    asked, answer = threading.Event(), threading.Event()

    def unanswered(*_: object) -> list[object]:
        asked.set()
        answer.wait()
        return []

    loop = CommandLoop(unanswered)
    question = loop.create_task(loop.getaddrinfo("cluster.example.com", 443))
    loop.call_soon(loop.stop)
    loop.run_forever()
    asked.wait()
    question.cancel()
    with contextlib.suppress(BaseException):
        loop.run_until_complete(question)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()

    assert not answer.is_set()
    answer.set()


def test_a_context_that_does_not_exist_is_named_with_those_that_do(kubeconfig, said, tmp_path):
    kubeconfig("https://127.0.0.1:1")

    assert said("queue", "--context", "nope") == (
        f'bursar: context "nope" does not exist in {tmp_path}/config; '
        'name one with --context: "prod"\n'
    )


def test_without_a_kubeconfig_the_paths_are_named(said, tmp_path):
    nothing = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "HOME": str(tmp_path)}

    assert said("doctor", **nothing) == (
        f"bursar: no kubeconfig: $KUBECONFIG is not set, and there is no {tmp_path}/.kube/config; "
        "name one with --kubeconfig\n"
    )
    assert said("doctor", "--kubeconfig", "/nowhere") == (
        "bursar: /nowhere: no such file; name a kubeconfig that exists\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["queue", "--nope"], "queue: no such option '--nope'; see bursar queue --help"),
        (["nope"], "no such command 'nope'; see bursar --help"),
        (
            ["policy", "chekc"],
            "policy: no such command 'chekc'; did you mean 'check'? See bursar policy --help",
        ),
        (
            ["release"],
            "release: name pods, or give --all; see bursar release --help",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_help_to_read(said, arguments, text):
    assert said(*arguments) == f"bursar: {text}\n"
