"""The log of a process as tests read it: JSON lines, by their message."""

import json


def messages(log: str) -> list[str]:
    """The message of each line; a line that is not JSON, such as a traceback, as it is."""
    return [
        json.loads(line)["message"] if line.startswith("{") else line for line in log.splitlines()
    ]
