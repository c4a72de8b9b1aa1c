"""Several variants of documents as one template with conditions.

`bursar manifests` is run once for every combination of the chart's switches. Two variants that
differ in one switch are merged: lines that both have stay, others get a condition. So for every
combination the template has exactly the lines that were printed for it, whatever the comparison
takes for equal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

Identity: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True)
class Switch:
    """A choice between variants. Each case has a condition, except the last, which is the rest."""

    cases: tuple[tuple[str, tuple[str, ...]], ...]
    """Conditions of Helm, and the arguments of `bursar manifests` that stand for them."""


def flag(condition: str, *arguments: str) -> Switch:
    return Switch(((condition, arguments), ("", ())))


@dataclass(frozen=True)
class Choice:
    """Nodes that depend on a condition."""

    condition: str
    then: tuple["Node", ...]
    otherwise: tuple["Node", ...]


@dataclass(frozen=True)
class Body:
    """A document."""

    identity: Identity
    lines: tuple["Node", ...]
    each: str = ""
    """The value whose items the document is repeated for; empty: it is not repeated."""


Node: TypeAlias = str | Choice | Body
Render: TypeAlias = Callable[[tuple[str, ...]], tuple[Node, ...]]


def merged(switches: Sequence[Switch], render: Render) -> tuple[Node, ...]:
    """A template of all combinations. `render` gets the arguments of one combination."""
    return _merged(tuple(switches), (), render)


def _merged(switches: tuple[Switch, ...], chosen: tuple[str, ...], render: Render) -> tuple:
    if not switches:
        return render(chosen)
    first, *others = switches
    *cases, (_, rest) = first.cases
    found = _merged(tuple(others), (*chosen, *rest), render)
    for condition, arguments in reversed(cases):
        wanted = _merged(tuple(others), (*chosen, *arguments), render)
        found = _either(condition, wanted, found)
    return found


def _either(
    condition: str, then: tuple[Node, ...], otherwise: tuple[Node, ...]
) -> tuple[Node, ...]:
    """Nodes that are `then` if the condition holds, and `otherwise` if not."""
    keys = [[_key(node) for node in nodes] for nodes in (otherwise, then)]
    found: list[Node] = []
    for tag, low, high, start, end in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs = zip(then[start:end], otherwise[low:high], strict=True)
            found += [_both(condition, *pair) for pair in pairs]
        else:
            found.append(Choice(condition, then[start:end], otherwise[low:high]))
    return tuple(found)


def _key(node: Node) -> object:
    """Bodies of one object are the same node, with lines to be merged."""
    return (node.identity, node.each) if isinstance(node, Body) else node


def _both(condition: str, then: Node, otherwise: Node) -> Node:
    if isinstance(then, Body) and isinstance(otherwise, Body):
        lines = _either(condition, then.lines, otherwise.lines)
        return Body(then.identity, lines, then.each)
    return then


def text_lines(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, Body):
            if node.each:
                yield f"{{{{- range $class := {node.each} }}}}"
            yield "---"
            yield from text_lines(node.lines)
            if node.each:
                yield "{{- end }}"
        else:
            yield from _choice_lines(node)


def _choice_lines(choice: Choice) -> Iterator[str]:
    if not choice.then:
        yield f"{{{{- if {_negated(choice.condition)} }}}}"
        yield from text_lines(choice.otherwise)
    else:
        yield f"{{{{- if {choice.condition} }}}}"
        yield from text_lines(choice.then)
        if choice.otherwise:
            yield "{{- else }}"
            yield from text_lines(choice.otherwise)
    yield "{{- end }}"


def _negated(condition: str) -> str:
    """The opposite of a condition.

    >>> _negated("not .a"), _negated(".a"), _negated("eq .a .b")
    ('.a', 'not .a', 'not (eq .a .b)')
    """
    if condition.startswith("not "):
        return condition.removeprefix("not ")
    return f"not ({condition})" if " " in condition else f"not {condition}"
