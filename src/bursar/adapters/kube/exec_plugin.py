"""Credentials from a program: the exec plugins of a kubeconfig.

The program is started without a shell and may use the terminal only if its mode
says so and there is one. What it prints for people goes to our standard error as
it is; what it prints for us is bounded, and no error of ours shows any of it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from bursar.adapters.kube.credentials import REJECT_SECONDS, bearer, is_sendable
from bursar.adapters.kube.tls import Pair
from bursar.app.cluster.ports import Clock, UnauthorizedError
from bursar.wire.cluster.exec_credential import Answer, AnswerError, decode_answer, encode_question
from bursar.wire.cluster.kubeconfig import Plain
from bursar.wire.structs.fields import printable

RUN_SECONDS_MAX: Final = 60
INTERACTIVE_SECONDS_MAX: Final = 300
"""A person may have to log in."""
OUTPUT_BYTES_MAX: Final = 2**20
EARLY: Final = timedelta(seconds=10)
"""How long before their end credentials are renewed, or a tenth of their life if that is less."""
LIFE_MIN: Final = timedelta(seconds=1)
_END_SECONDS: Final = 5
_HINT_LENGTH_MAX: Final = 500

NEVER: Final = "Never"
IF_AVAILABLE: Final = "IfAvailable"
ALWAYS: Final = "Always"
MODES: Final = (NEVER, IF_AVAILABLE, ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """How to run a program that prints credentials."""

    place: str
    """Where it is configured, for errors."""
    command: str
    """A path, or a name to be looked up in PATH."""
    arguments: Sequence[str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    """What is added to the environment."""
    api_version: str
    mode: str
    install_hint: str = ""
    cluster: Mapping[str, Plain] | None = field(repr=False, default=None)
    """What to tell it about the cluster, if anything."""
    seconds_max: float = RUN_SECONDS_MAX
    """How long it may take, unless a person can talk to it."""

    async def run(self) -> Answer:
        """Run it once. Raises `UnauthorizedError`."""
        is_interactive = self._is_interactive()
        program = self._program()
        question = encode_question(
            self.api_version, is_interactive=is_interactive, cluster=self.cluster
        )
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.arguments,
                executable=program,
                env={**self.environment, **self.variables, "KUBERNETES_EXEC_INFO": question},
                stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # A group of its own can be ended as a whole, but may not use the terminal.
                start_new_session=not is_interactive,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise self.error(f"cannot be started: {(reason or 'bad argument').lower()}") from None
        seconds = INTERACTIVE_SECONDS_MAX if is_interactive else self.seconds_max
        output = await self._output(process, seconds)
        try:
            return decode_answer(output, self.api_version)
        except AnswerError as error:
            raise self.error(f"its output is not an ExecCredential: {error}") from None

    def error(self, problem: str) -> UnauthorizedError:
        command = printable(self.command, 256)
        return UnauthorizedError(f"{self.place}: exec plugin {command}: {problem}")

    def _is_interactive(self) -> bool:
        is_terminal = sys.stdin is not None and os.isatty(0)
        if self.mode == ALWAYS and not is_terminal:
            raise self.error("it needs a terminal, and standard input is none")
        return self.mode != NEVER and is_terminal

    def _program(self) -> str:
        """The program's path, looked up in our own PATH and never in the current folder."""
        if os.sep in self.command:
            found = self.command if os.path.lexists(self.command) else None
        else:
            found = shutil.which(self.command, path=self.environment.get("PATH", ""))
        if found is not None and found.startswith(os.sep):
            return found
        hint = printable(" ".join(self.install_hint.split()), _HINT_LENGTH_MAX)
        raise self.error(f"not found. {hint}" if hint else "not found")

    async def _output(self, process: asyncio.subprocess.Process, seconds: float) -> bytes:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                output = await self._read(process.stdout)
                code = await process.wait()
        except BaseException as error:
            await _end(process)
            if isinstance(error, TimeoutError):
                raise self.error(f"no answer within {seconds:g} s") from None
            raise
        if code != 0:
            raise self.error(f"failed with exit code {code}")
        return output

    async def _read(self, stream: asyncio.StreamReader) -> bytes:
        output = bytearray()
        while piece := await stream.read(2**16):
            output += piece
            if len(output) > OUTPUT_BYTES_MAX:
                raise self.error(f"it printed more than {OUTPUT_BYTES_MAX} bytes")
        return bytes(output)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind: not the program, and not what it started if the group is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


class ExecCredentials:
    """What a plugin gave, until it ends or is rejected. Many may ask; one run answers all."""

    def __init__(self, plugin: Plugin, *, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._turn = asyncio.Lock()
        self._given: _Given | None = None
        self._failures = 0
        self._failure: UnauthorizedError | None = None
        self._rejected_at: float | None = None

    async def headers(self) -> Mapping[str, str]:
        return (await self._current()).headers

    async def pair(self) -> Pair | None:
        """The client certificate, if it gives one."""
        return (await self._current()).pair

    def reject(self) -> None:
        now = self._clock.monotonic()
        if self._rejected_at is None or now - self._rejected_at >= REJECT_SECONDS:
            self._rejected_at = now
            self._given = None

    async def _current(self) -> "_Given":
        if self._given is not None and self._is_fresh(self._given):
            return self._given
        failures = self._failures
        async with self._turn:
            if self._given is not None and self._is_fresh(self._given):
                return self._given
            if self._failure is not None and self._failures != failures:
                # The run that we waited for failed. It would not go better right now.
                raise UnauthorizedError(self._failure.message)
            try:
                answer = await self._plugin.run()
                self._given = self._accept(answer)
            except UnauthorizedError as error:
                self._failures += 1
                self._failure = error
                raise
            return self._given

    def _is_fresh(self, given: "_Given") -> bool:
        return given.renew_at is None or self._clock.now() < given.renew_at

    def _accept(self, answer: Answer) -> "_Given":
        if not is_sendable(answer.token):
            raise self._plugin.error("status.token cannot be sent: it has control characters")
        headers = CIMultiDictProxy(CIMultiDict(bearer(answer.token) if answer.token else {}))
        pair = None
        if answer.certificate:
            place = f"{self._plugin.place}: exec plugin {printable(self._plugin.command, 256)}"
            pair = Pair(
                certificate=answer.certificate.encode(),
                key=answer.key.encode(),
                certificate_place=f"{place}: status.clientCertificateData",
                key_place=f"{place}: status.clientKeyData",
            )
        renew_at = None
        if answer.expires is not None:
            now = self._clock.now()
            early = min(EARLY, max(answer.expires - now, timedelta()) / 10)
            # Credentials that are over already must not start a program for every request.
            renew_at = max(answer.expires - early, now + LIFE_MIN)
        return _Given(headers=headers, pair=pair, renew_at=renew_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    headers: Mapping[str, str] = field(repr=False)
    pair: Pair | None
    renew_at: datetime | None
