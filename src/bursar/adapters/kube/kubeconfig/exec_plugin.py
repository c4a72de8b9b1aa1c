"""Credentials from a program: the exec plugins of a kubeconfig.

The program is started without a shell. It may use the terminal only if its interactive mode
allows it and standard input is a terminal. Its standard error is passed through. Its standard
output is bounded, and no error shows any of it.
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

from bursar.adapters.client_auth.credentials import REJECT_SECONDS, bearer, is_sendable
from bursar.adapters.client_auth.tls import ClientCertificate
from bursar.adapters.http1.request import Headers
from bursar.app.cluster.ports import Clock, UnauthorizedError
from bursar.wire.cluster.exec_credential import (
    ExecCredential,
    ExecCredentialError,
    decode_exec_credential,
    encode_exec_info,
)
from bursar.wire.cluster.kubeconfig import Plain
from bursar.wire.structs.fields import printable

RUN_SECONDS_MAX: Final = 60
INTERACTIVE_SECONDS_MAX: Final = 300
"""Timeout of a run in which the user may have to log in."""
OUTPUT_BYTES_MAX: Final = 2**20
RENEW_BEFORE: Final = timedelta(seconds=10)
"""Credentials are renewed this long before they expire, or a tenth of their life if that is
less."""
LIFE_MIN: Final = timedelta(seconds=1)
"""Credentials are used for at least this long, even if the plugin returns expired ones, so that not
every request runs the plugin."""
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
    """The configuration key, for errors."""
    command: str
    """A path, or a name to look up in PATH."""
    arguments: Sequence[str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    """Variables added to `environment`."""
    api_version: str
    mode: str
    install_hint: str = ""
    cluster: Mapping[str, Plain] | None = field(repr=False, default=None)
    """`spec.cluster` of the ExecCredential; None to leave it out."""
    seconds_max: float = RUN_SECONDS_MAX
    """Timeout of a run that is not interactive."""

    async def run(self) -> ExecCredential:
        """Run it once. Raises `UnauthorizedError`."""
        is_interactive = self._is_interactive()
        program = self._program()
        question = encode_exec_info(
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
                # A process group can be killed as a whole, but may not use the terminal.
                start_new_session=not is_interactive,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise self.error(f"cannot be started: {(reason or 'bad argument').lower()}") from None
        seconds = INTERACTIVE_SECONDS_MAX if is_interactive else self.seconds_max
        output = await self._output(process, seconds)
        try:
            return decode_exec_credential(output, self.api_version)
        except ExecCredentialError as error:
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
        """The program's path, looked up in PATH and never in the current folder."""
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
    """Kill the program and, if it has its own process group, its children.

    asyncio waits for the end of the output, which does not come while output is unread, or while a
    child outside of the process group keeps it open. So the output is closed first.
    """
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    # asyncio has no public way to close the pipe.
    output = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]  # noqa: SLF001
    if output is not None:
        output.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


class ExecCredentials:
    """Credentials of a plugin, cached until they expire or are rejected.

    Concurrent callers share one run of the plugin.
    """

    def __init__(self, plugin: Plugin, *, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._running = asyncio.Lock()
        self._issued: _Issued | None = None
        self._failures = 0
        self._failure: UnauthorizedError | None = None
        self._rejected_at: float | None = None

    async def headers(self) -> Headers:
        return (await self._current()).headers

    async def client_certificate(self) -> ClientCertificate | None:
        """The client certificate, if the plugin returns one."""
        return (await self._current()).certificate

    def reject(self) -> None:
        now = self._clock.monotonic()
        if self._rejected_at is None or now - self._rejected_at >= REJECT_SECONDS:
            self._rejected_at = now
            self._issued = None

    async def _current(self) -> "_Issued":
        if self._issued is not None and self._is_fresh(self._issued):
            return self._issued
        failures = self._failures
        async with self._running:
            if self._issued is not None and self._is_fresh(self._issued):
                return self._issued
            if self._failure is not None and self._failures != failures:
                # The run that this caller waited for has just failed; another would fail too.
                raise UnauthorizedError(self._failure.message)
            try:
                answer = await self._plugin.run()
                self._issued = self._accept(answer)
            except UnauthorizedError as error:
                self._failures += 1
                self._failure = error
                raise
            return self._issued

    def _is_fresh(self, issued: "_Issued") -> bool:
        return issued.renew_at is None or self._clock.now() < issued.renew_at

    def _accept(self, answer: ExecCredential) -> "_Issued":
        if not is_sendable(answer.token):
            raise self._plugin.error("status.token cannot be sent: it has control characters")
        certificate = None
        if answer.certificate:
            place = f"{self._plugin.place}: exec plugin {printable(self._plugin.command, 256)}"
            certificate = ClientCertificate(
                certificate=answer.certificate.encode(),
                key=answer.key.encode(),
                certificate_place=f"{place}: status.clientCertificateData",
                key_place=f"{place}: status.clientKeyData",
            )
        renew_at = None
        if answer.expires is not None:
            now = self._clock.now()
            early = min(RENEW_BEFORE, max(answer.expires - now, timedelta()) / 10)
            renew_at = max(answer.expires - early, now + LIFE_MIN)
        headers = bearer(answer.token) if answer.token else ()
        return _Issued(headers=headers, certificate=certificate, renew_at=renew_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Issued:
    headers: Headers = field(repr=False)
    certificate: ClientCertificate | None
    renew_at: datetime | None
