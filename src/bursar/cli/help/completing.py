"""What can follow the words that a user has typed, from the stored list of commands.

No verb is imported for it. Contexts come from the kubeconfig, and namespaces and names of objects
from the cluster (`cluster_values`); if it does not answer, they are left out.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypedDict

from bursar.cli.help.pages import COMMANDS, stored


class Parameter(TypedDict):
    """An option or an argument of a command, as `make pages` stores it."""

    names: list[str]
    """Empty for an argument."""
    values: str
    """`none` for a flag, `text`, `files`, `folders`, `choice`, or the values of a cluster."""
    choices: list[str]
    help: str
    is_repeatable: bool


class Command(TypedDict):
    commands: dict[str, str]
    """The commands of a group, each with its line of help."""
    other_names: dict[str, str]
    """Names that a group takes for a command as well, such as `po` for `pod`."""
    options: list[Parameter]
    arguments: list[Parameter]


class Suggestion(NamedTuple):
    value: str
    help: str = ""


class Suggestions(NamedTuple):
    listed: list[Suggestion]
    paths: str = ""
    """`files` or `folders` if the shell has to suggest those."""


class ValueQuery(NamedTuple):
    """Which values of a cluster or kubeconfig to suggest, and where to read them."""

    values: str
    kubeconfig: str | None
    context: str
    namespace: str | None


FindValues = Callable[[ValueQuery], Sequence[str]]

FROM_CLUSTER: Final = ("contexts", "namespaces", "nodes", "pods", "quotas", "resourcequotas")


class _Line:
    """The words before the one that is to be completed, read as click would read them."""

    def __init__(self, commands: dict[str, Command], words: Sequence[str]) -> None:
        self.path = ""
        self.command = commands[""]
        self.given: dict[str, str] = {}
        """Options by their longest name, with their values."""
        self.positions = 0
        """How many arguments there are."""
        self.open: Parameter | None = None
        """The option whose value comes next."""
        self.is_literal = False
        """Whether `--` has ended the options."""
        for word in words:
            self._read(word, commands)

    def _read(self, word: str, commands: dict[str, Command]) -> None:
        if self.open is not None:
            if word != "=":  # bash makes a word of its own of it
                self.given[_name(self.open)] = word
                self.open = None
        elif self.is_literal or not word.startswith("-") or word == "-":
            self._read_argument(word, commands)
        elif word == "--":
            self.is_literal = True
        else:
            self._read_option(word)

    def _read_argument(self, word: str, commands: dict[str, Command]) -> None:
        name = self.command["other_names"].get(word, word)
        if name in self.command["commands"] and not self.positions:
            self.path = f"{self.path} {name}".strip()
            self.command = commands[self.path]
        else:
            self.positions += 1

    def _read_option(self, word: str) -> None:
        name, has_value, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            name, has_value, value = word[:2], "glued", word[2:]
        for option in self.command["options"]:
            if name in option["names"]:
                if option["values"] != "none" and not has_value:
                    self.open = option
                else:
                    self.given[_name(option)] = value

    def options(self) -> list[Parameter]:
        """The options that may still follow."""
        return [
            option
            for option in self.command["options"]
            if option["is_repeatable"] or _name(option) not in self.given
        ]

    def argument(self) -> Parameter | None:
        arguments = self.command["arguments"]
        if self.positions < len(arguments):
            return arguments[self.positions]
        return arguments[-1] if arguments and arguments[-1]["is_repeatable"] else None


def suggestions(words: Sequence[str], incomplete: str, find_values: FindValues) -> Suggestions:
    """What can take the place of `incomplete`, after the complete words of a command line."""
    commands: dict[str, Command] = json.loads(stored(COMMANDS))
    line = _Line(commands, words)
    if line.open is not None:
        return _values(line, line.open, "" if incomplete == "=" else incomplete, find_values)
    if incomplete.startswith("--") and "=" in incomplete and not line.is_literal:
        name, _, start = incomplete.partition("=")
        for option in line.command["options"]:
            if name in option["names"]:
                found = _values(line, option, start, find_values)
                listed = [each._replace(value=f"{name}={each.value}") for each in found.listed]
                return Suggestions(listed, found.paths)
        return Suggestions([])
    if incomplete.startswith("-") and not line.is_literal:
        return Suggestions(
            [
                Suggestion(name, option["help"])
                for option in line.options()
                for name in option["names"]
                if name.startswith(incomplete)
            ]
        )
    listed = [
        Suggestion(name, line_of_help)
        for name, line_of_help in line.command["commands"].items()
        if name.startswith(incomplete) and not line.positions
    ]
    argument = line.argument()
    if argument is None:
        return Suggestions(listed)
    found = _values(line, argument, incomplete, find_values)
    return Suggestions(listed + found.listed, found.paths)


def _values(line: _Line, parameter: Parameter, start: str, find_values: FindValues) -> Suggestions:
    kind = parameter["values"]
    if kind in {"files", "folders"}:
        return Suggestions([], kind)
    values: Sequence[str] = parameter["choices"]
    if kind in FROM_CLUSTER:
        given = line.given
        values = find_values(
            ValueQuery(
                kind,
                given.get("--kubeconfig"),
                given.get("--context", ""),
                given.get("--namespace"),
            )
        )
    return Suggestions([Suggestion(each) for each in values if each.startswith(start)])


def _name(option: Parameter) -> str:
    return max(option["names"], key=len)
