"""The two ends of kubelet's PodResources API, each a process of upstream code that we talk to."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any

from assets import ensure

PATIENCE_SECONDS = 60
LONGEST_LINE = 256 << 20
"""Replies are compared up to the size where clients refuse them, and are longer as JSON."""


class DialogueError(Exception):
    """The program did not understand the question, or is not there any more."""


class Dialogue:
    """One running program: one question, one answer, in turn."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, *arguments: str) -> "Dialogue":
        program = await asyncio.to_thread(ensure, "podresources")
        process = await asyncio.create_subprocess_exec(
            str(program), *arguments, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE
        )
        dialogue = cls(process)
        await dialogue._answer()
        return dialogue

    async def ask(self, op: str, **args: Any) -> Any:
        stdin = self._process.stdin
        assert stdin is not None
        async with self._turn:
            stdin.write(json.dumps({"op": op, "args": args}).encode() + b"\n")
            await stdin.drain()
            return await self._answer()

    async def close(self) -> None:
        """It ends by itself when it is asked nothing more."""
        assert self._process.stdin is not None
        self.resume()
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._process.wait()

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.close()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _signal(self, number: int) -> None:
        # Popen's own way looks whether the child has ended, and so takes the news from asyncio.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _answer(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise DialogueError(f"podresources ended with {await self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise DialogueError(answer["error"])
        return answer["result"]
