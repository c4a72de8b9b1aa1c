"""The protocols by which shells and kubectl ask for completions, and get them.

Shells ask with click's environment variables, since `bursar completion` prints click's scripts.
kubectl runs `kubectl_complete-bursar` with the words, and expects what cobra's programs print.
"""

from collections.abc import Mapping
from typing import Final

from bursar.cli.help.completing import Suggestions, ValueQuery, suggestions

VARIABLE: Final = "_BURSAR_COMPLETE"
# cobra's directives: what the shell does with the suggestions.
_WITH_FILES: Final = 0
_WITHOUT_FILES: Final = 4
_FOLDERS: Final = 16
_TYPES: Final = {"files": "file", "folders": "dir"}


def shell_answer(environment: Mapping[str, str]) -> str:
    """What the script of `bursar completion` reads; `_BURSAR_COMPLETE` names the shell."""
    shell = environment[VARIABLE].partition("_")[0]
    words = _split(environment.get("COMP_WORDS", ""))
    told = environment.get("COMP_CWORD", "")
    if shell == "fish":
        incomplete = next(iter(_split(told)), "")
        words = words[1:]
        if incomplete and words[-1:] == [incomplete]:
            words.pop()
    else:
        position = int(told) if told.isdecimal() else len(words)
        incomplete = next(iter(words[position : position + 1]), "")
        words = words[1:position]
    found = suggestions(words, incomplete, _find_values)
    lines = [_line(shell, "plain", *each) for each in found.listed]
    if found.paths:
        lines.append(_line(shell, _TYPES[found.paths], incomplete, ""))
    return "".join(f"{line}\n" for line in lines)


def _line(shell: str, kind: str, value: str, help: str) -> str:
    if shell == "zsh":
        # The script splits at the first colon that is not escaped, if there is a help text.
        return f"{kind}\n{value.replace(':', chr(92) + ':') if help else value}\n{help or '_'}"
    if shell == "fish" and help:
        return f"{kind},{value}\t{help}"
    return f"{kind},{value}"


def kubectl_answer(arguments: list[str]) -> str:
    """What kubectl reads of `kubectl_complete-bursar`; the last argument is incomplete."""
    *words, incomplete = arguments or [""]
    found = suggestions(words, incomplete, _find_values)
    lines = [f"{each.value}\t{each.help}" if each.help else each.value for each in found.listed]
    return "".join(f"{line}\n" for line in [*lines, f":{_directive(found)}"])


def _directive(found: Suggestions) -> int:
    if found.paths == "files":
        return _WITH_FILES
    return _FOLDERS if found.paths == "folders" else _WITHOUT_FILES


def _find_values(query: ValueQuery) -> list[str]:
    from bursar.cli.help.cluster_values import cluster_values  # noqa: PLC0415 - rarely needed

    return list(cluster_values(query))


def _split(text: str) -> list[str]:
    """The words of a line; the last of them may end within quotes."""
    if not set(text) & {"'", '"', "\\"}:
        return text.split("\n") if "\n" in text else text.split()
    from shlex import shlex  # noqa: PLC0415 - rarely needed

    lexer = shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        # An open quotation, or a backslash at the end: the user is typing.
        words.append(lexer.token)
    return words
