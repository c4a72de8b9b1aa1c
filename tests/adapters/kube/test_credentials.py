import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bursar.adapters.kube.kubeconfig.exec_plugin import ExecCredentials, Plugin
from bursar.app.cluster.ports import UnauthorizedError
from support.builders.kubeconfigs import (
    V1,
    V1BETA1,
    HandClock,
    PluginScript,
    a_config,
    loaded,
    write,
)
from support.until import PATIENCE_SECONDS, until, until_sync


@pytest.fixture
def clock():
    return HandClock()


def access_of(tmp_path, user, clock, cluster=None, environment=None):
    path = write(tmp_path / "config", a_config(cluster, user))
    found = os.environ if environment is None else environment
    return loaded([path], clock=clock, environment=found)


async def sent(access):
    return list(await access.credentials.headers())


async def complaint(access, tmp_path):
    with pytest.raises(UnauthorizedError) as caught:
        await access.credentials.headers()
    text = str(caught.value)

    assert text.isprintable()
    return text.removeprefix(f"{tmp_path}/config: users[0].user.exec: exec plugin ")


# ------------------------------------------------------------------ fixed credentials


async def test_a_token_is_a_bearer_header(tmp_path, clock):
    assert await sent(access_of(tmp_path, {"token": "abc"}, clock)) == [
        ("Authorization", "Bearer abc")
    ]


async def test_name_and_password_are_a_basic_header(tmp_path, clock):
    user = {"username": "joe", "password": "ä:b"}

    assert await sent(access_of(tmp_path, user, clock)) == [("Authorization", "Basic am9lOsOkOmI=")]


async def test_an_anonymous_user_sends_no_headers(tmp_path, clock):
    assert await sent(access_of(tmp_path, {}, clock)) == []


async def test_impersonation_sends_a_header_for_each_group_and_extra_value(tmp_path, clock):
    user = {
        "token": "abc",
        "as": "joe",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.org/scope %": ["a", "b"]},
    }

    assert await sent(access_of(tmp_path, user, clock)) == [
        ("Authorization", "Bearer abc"),
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.org%2Fscope%20%25", "a"),
        ("Impersonate-Extra-example.org%2Fscope%20%25", "b"),
    ]


# ------------------------------------------------------------------ token files


async def test_a_token_file_wins_over_a_token(tmp_path, clock):
    (tmp_path / "token").write_text(" from-file\n")
    access = access_of(tmp_path, {"token": "abc", "tokenFile": "token"}, clock)

    assert await sent(access) == [("Authorization", "Bearer from-file")]


async def test_the_token_is_used_while_the_token_file_is_missing(tmp_path, clock):
    access = access_of(tmp_path, {"token": "abc", "tokenFile": "token"}, clock)
    before = await sent(access)
    (tmp_path / "token").write_text("from-file")

    assert before == [("Authorization", "Bearer abc")]
    assert await sent(access) == [("Authorization", "Bearer from-file")]


async def test_a_token_file_is_read_again_within_a_minute(tmp_path, clock):
    (tmp_path / "token").write_text("one")
    access = access_of(tmp_path, {"tokenFile": "token"}, clock)
    (tmp_path / "token").write_text("two")

    seen = [await sent(access)]
    clock.seconds = 59
    seen.append(await sent(access))

    assert [headers[0][1] for headers in seen] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("content", [None, "", "a\x00b", b"\xff"])
async def test_a_token_file_that_became_unreadable_keeps_the_last_token(tmp_path, clock, content):
    (tmp_path / "token").write_text("one")
    access = access_of(tmp_path, {"tokenFile": "token"}, clock)
    if content is None:
        (tmp_path / "token").unlink()
    else:
        (tmp_path / "token").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    clock.seconds = 100

    assert await sent(access) == [("Authorization", "Bearer one")]


async def test_a_rejected_token_is_read_again_at_most_every_ten_seconds(tmp_path, clock):
    (tmp_path / "token").write_text("one")
    access = access_of(tmp_path, {"tokenFile": "token"}, clock)
    seen = []
    for token in ("two", "three"):
        (tmp_path / "token").write_text(token)
        access.credentials.reject()
        seen.append((await sent(access))[0][1])
    clock.seconds = 10
    access.credentials.reject()
    seen.append((await sent(access))[0][1])

    assert seen == ["Bearer two", "Bearer two", "Bearer three"]


# ------------------------------------------------------------------ exec plugins


@pytest.fixture
def script(tmp_path):
    return PluginScript(tmp_path / "plugin")


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_all_requests_share_one_run_of_a_plugin(tmp_path, clock, script, version):
    script.gives("abc", version)
    access = access_of(tmp_path, script.user(version), clock)

    seen = await asyncio.gather(*(sent(access) for _ in range(20)))

    assert seen == [[("Authorization", "Bearer abc")]] * 20
    assert script.runs == 1


async def test_a_plugin_does_not_run_before_the_first_request(tmp_path, clock, script):
    access_of(tmp_path, script.user(), clock)

    assert script.runs == 0


async def test_credentials_are_renewed_before_they_expire(tmp_path, clock, script):
    script.gives("one", expirationTimestamp=clock.text(100))
    access = access_of(tmp_path, script.user(), clock)
    seen = [(await sent(access))[0][1]]
    script.gives("two", expirationTimestamp=clock.text(3600))
    for clock.seconds in (89, 90, 91, 3000):
        seen.append((await sent(access))[0][1])

    assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two", "Bearer two"]
    assert script.runs == 2


async def test_expired_credentials_do_not_run_the_plugin_for_each_request(tmp_path, clock, script):
    script.gives("one", expirationTimestamp=clock.text(-100))
    access = access_of(tmp_path, script.user(), clock)
    for _ in range(5):
        await sent(access)
    runs = script.runs
    clock.seconds = 1
    await sent(access)

    assert (runs, script.runs) == (1, 2)


async def test_a_rejection_runs_the_plugin_again_once(tmp_path, clock, script):
    script.gives("one")
    access = access_of(tmp_path, script.user(), clock)
    await sent(access)
    script.gives("two")
    for _ in range(3):
        access.credentials.reject()
    seen = await sent(access)
    access.credentials.reject()
    await sent(access)

    assert seen == [("Authorization", "Bearer two")]
    assert script.runs == 2


async def test_a_token_wins_over_a_plugin(tmp_path, clock, script):
    access = access_of(tmp_path, script.user() | {"token": "abc"}, clock)

    assert await sent(access) == [("Authorization", "Bearer abc")]
    assert script.runs == 0


async def test_callers_that_wait_for_a_failing_run_share_its_failure(tmp_path, clock):
    script = PluginScript(tmp_path / "plugin", then="sleep 0.1; exit 3")
    access = access_of(tmp_path, script.user(), clock)

    seen = await asyncio.gather(*(sent(access) for _ in range(5)), return_exceptions=True)

    assert {str(error).rpartition(": ")[2] for error in seen} == {"failed with exit code 3"}
    assert script.runs == 1


async def test_a_plugin_receives_its_version_arguments_and_variables(tmp_path, clock):
    script = PluginScript(tmp_path / "plugin", then=f'echo "$1 $OWN $HOME" > {tmp_path}/seen')
    script.gives("abc")
    user = script.user(args=["one;two"], env=[{"name": "OWN", "value": "x"}])
    environment = {"HOME": "/nowhere", "PATH": os.environ["PATH"], "OWN": "hidden"}

    await sent(access_of(tmp_path, user, clock, environment=environment))

    assert (tmp_path / "seen").read_text() == "one;two x /nowhere\n"
    assert script.told == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False},
    }


async def test_a_plugin_is_found_beside_the_kubeconfig_or_in_path(tmp_path, clock, script):
    script.gives("abc")
    beside = script.user(command="./plugin/plugin")
    in_path = script.user(command="plugin")
    environment = {"PATH": f"{tmp_path}/plugin:{os.environ['PATH']}"}

    assert await sent(access_of(tmp_path, beside, clock))
    assert await sent(access_of(tmp_path, in_path, clock, environment=environment))
    assert script.runs == 2


async def test_a_plugin_is_not_looked_for_in_the_current_folder(tmp_path, clock, script):
    """A program in a folder that others can write to must not run as the caller."""
    environment = {"PATH": f":.:{os.path.relpath(script.path.parent)}"}  # noqa: ASYNC240 - no I/O
    access = access_of(tmp_path, script.user(command="plugin"), clock, environment=environment)

    assert await complaint(access, tmp_path) == "plugin: not found"


async def test_a_missing_plugin_shows_its_hint_in_one_line(tmp_path, clock):
    hint = "Run:\n  install \x1b[1mit"
    user = {"exec": {"command": "nope", "apiVersion": V1BETA1, "installHint": hint}}

    found = await complaint(access_of(tmp_path, user, clock), tmp_path)

    assert found == r"nope: not found. Run: install \x1b[1mit"


async def test_a_file_that_cannot_be_run_is_an_error(tmp_path, clock, script):
    script.path.chmod(0o600)

    found = await complaint(access_of(tmp_path, script.user(), clock), tmp_path)

    assert found.endswith("cannot be started: permission denied")


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("", "it is empty"),
        ("hunter2", "an object is expected, found a string"),
        ('{"token": "hunter2', "1:"),
        ('{"kind": "hunter2"}', "kind: ExecCredential is expected"),
        (
            f'{{"kind": "ExecCredential", "apiVersion": "{V1BETA1}"}}',
            f"apiVersion: {V1} is configured, {V1BETA1} was returned",
        ),
        (
            '{"kind": "ExecCredential", "apiVersion": "hunter2"}',
            f"apiVersion: {V1} is configured, another version was returned",
        ),
    ],
)
async def test_output_that_is_not_a_credential_is_refused(
    tmp_path, clock, script, printed, problem
):
    script.prints(printed)

    found = await complaint(access_of(tmp_path, script.user(), clock), tmp_path)

    assert "hunter2" not in found
    assert f"its output is not an ExecCredential: {problem}" in found


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({}, "status: neither a token nor a certificate with its key"),
        ({"clientKeyData": "hunter2"}, "status: a certificate needs its key, and a key its"),
        ({"token": 5}, "status.token: a string is expected, found a number"),
        (
            {"token": "a", "expirationTimestamp": "soon"},
            "status.expirationTimestamp: not an RFC 3339",
        ),
    ],
)
async def test_an_incomplete_credential_is_refused(tmp_path, clock, script, status, problem):
    script.answers(**status)

    found = await complaint(access_of(tmp_path, script.user(), clock), tmp_path)

    assert problem in found


async def test_an_invalid_certificate_is_refused(tmp_path, clock, script):
    script.answers(clientCertificateData="hunter2", clientKeyData="hunter2")

    found = await complaint(access_of(tmp_path, script.user(), clock), tmp_path)

    assert found.endswith("status.clientCertificateData: no PEM certificate in it")


async def test_output_is_bounded(tmp_path, clock):
    script = PluginScript(tmp_path / "plugin", then="exec cat /dev/zero")

    found = await complaint(access_of(tmp_path, script.user(), clock), tmp_path)

    assert found.endswith("it printed more than 1048576 bytes")


def a_plugin(script, seconds):
    return Plugin(
        place="here",
        command=str(script.path),
        arguments=(),
        environment=os.environ,
        variables={},
        api_version=V1,
        mode="Never",
        seconds_max=seconds,
    )


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def open_pipes():
    """The pipes of this process, by what each descriptor refers to."""
    pipes = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            pipes.add(str(descriptor.readlink()))
    return {pipe for pipe in pipes if pipe.startswith("pipe:")}


async def test_a_plugin_that_is_killed_leaves_no_open_pipe(tmp_path, clock):
    """A child that left the process group is not killed, and keeps its end of the pipe."""
    pid = tmp_path / "pid"
    script = PluginScript(tmp_path / "plugin", then=f"setsid sh -c 'echo $$ > {pid}; sleep 600'")
    before = open_pipes()

    asking = asyncio.ensure_future(ExecCredentials(a_plugin(script, 60), clock=clock).headers())
    await until(lambda: pid.exists() and pid.read_text(), "the child runs")
    try:
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert open_pipes() == before
    finally:
        os.killpg(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("then", ["wait", "exit 0"], ids=["hangs", "is outlived by a child"])
async def test_a_plugin_that_does_not_end_is_killed_with_its_children(tmp_path, clock, then):
    """A child that keeps the output open keeps the plugin from ending."""
    child = f"sleep 60 & echo $! > {tmp_path}/pid"
    script = PluginScript(tmp_path / "plugin", then=f"{child}; {then}")
    credentials = ExecCredentials(a_plugin(script, 2), clock=clock)

    with pytest.raises(UnauthorizedError, match=r"no answer within 2 s$"):
        await credentials.headers()
    until_sync(lambda: not is_alive(int((tmp_path / "pid").read_text())), "the process is gone")


async def test_a_cancelled_request_kills_the_plugin(tmp_path, clock):
    script = PluginScript(tmp_path / "plugin", then=f"echo $$ > {tmp_path}/pid; exec sleep 60")
    credentials = ExecCredentials(a_plugin(script, 60), clock=clock)

    asking = asyncio.ensure_future(credentials.headers())
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text(), "the plugin runs")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    until_sync(lambda: not is_alive(int(pid.read_text())), "the process is gone")


async def test_the_standard_error_of_a_plugin_is_passed_through(tmp_path, clock, capfd):
    script = PluginScript(tmp_path / "plugin", then="echo please log in >&2")
    script.gives("abc")

    await sent(access_of(tmp_path, script.user(), clock))

    assert capfd.readouterr().err == "please log in\n"


# ------------------------------------------------------------------ terminals

ASK = """
import asyncio, os, sys
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.kubeconfig.config import load_kubeconfig
access = load_kubeconfig([sys.argv[1]], environment=os.environ, clock=SYSTEM_CLOCK)
try:
    print(dict(asyncio.run(access.credentials.headers()))["Authorization"])
except Exception as error:
    print(error)
"""


def run_with(stdin, path):
    done = subprocess.run(
        [sys.executable, "-c", ASK, path],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("mode", "at_terminal", "elsewhere"),
    [
        ("Never", (False, "Bearer abc"), (False, "Bearer abc")),
        ("IfAvailable", (True, "Bearer abc"), (False, "Bearer abc")),
        ("Always", (True, "Bearer abc"), (None, "it needs a terminal, and standard input is none")),
    ],
)
def test_a_plugin_gets_the_terminal_its_mode_asks_for(tmp_path, mode, at_terminal, elsewhere):
    seen = []
    for kind in ("terminal", "null"):
        script = PluginScript(tmp_path / kind)
        script.gives("abc")
        user = script.user(interactiveMode=mode)
        path = write(tmp_path / kind / "config", a_config(user=user))
        ours, theirs = pty.openpty()
        answer = run_with(theirs if kind == "terminal" else subprocess.DEVNULL, path)
        os.close(ours)
        os.close(theirs)
        told = script.told["spec"]["interactive"] if script.runs else None
        seen.append((told, answer.rpartition(": ")[2]))

    assert seen == [at_terminal, elsewhere]
