"""The oracle process: upstream Go code that answers one question per line."""

import json
import subprocess
from pathlib import Path
from typing import Any


class OracleError(Exception):
    """The oracle did not understand the question, or upstream code panicked on it."""


class Oracle:
    """One running oracle process. `compared` counts answers held against ours."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.compared = 0

    def ask(self, op: str, **args: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise OracleError(answer["error"])
        return answer.get("result")

    def assert_same(self, ours: Any, upstream: Any, *, about: Any) -> None:
        """Count one comparison and fail with both answers if they differ."""
        self.compared += 1
        assert ours == upstream, f"\n  about: {about!r}\n  ours: {ours!r}\n  upstream: {upstream!r}"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()
