"""What annotations and ConfigMaps say about capacity, and what of it cannot be read."""

import json

import pytest

from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.wire.capacity import decode_capacity_node, decode_declarations, preset_decoder

FOO = "example.com/foo"


def a_node(*, annotations=None, **fields) -> bytes:
    metadata = {"name": "a", "labels": {"zone": "a"}}
    if annotations is not None:
        metadata["annotations"] = annotations
    return json.dumps({"metadata": metadata, **fields}).encode()


def a_map(**data: str) -> bytes:
    return json.dumps({"metadata": {"name": "m"}, "data": data}).encode()


# ------------------------------------------------------------------ nodes


def test_node_is_read_with_mark_and_override():
    annotations = {
        "bursar.io/capacity-owner": json.dumps({FOO: 5}),
        "bursar.io/capacity": json.dumps({FOO: 7, VM_RESOURCE: None}),
        "kata.peerpods.io/caa-owner": "some-uid",
    }
    status = {"capacity": {"cpu": "4", FOO: "5"}, "allocatable": {"cpu": "3"}}
    node = decode_capacity_node(a_node(annotations=annotations, status=status))

    assert (node.name, node.labels, node.problem) == ("a", {"zone": "a"}, "")
    assert node.marked == {FOO: 5}
    assert node.override == {FOO: 7, VM_RESOURCE: None}
    assert node.is_adaptors
    assert {name: str(amount) for name, amount in node.capacity.items()} == status["capacity"]
    assert {name: str(amount) for name, amount in node.allocatable.items()} == {"cpu": "3"}


def test_bare_node_says_that_it_is_bare():
    node = decode_capacity_node(a_node())

    assert (node.has_annotations, node.has_capacity, node.has_allocatable) == (False,) * 3
    assert (node.marked, node.override, node.is_adaptors) == ({}, {}, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a JSON object"),
        ("[" * 2000, "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"cpu": 1}', '"cpu": not the name of an extended resource'),
        ('{"example.com/foo": "5"}', '"example.com/foo": the amount must be a whole number'),
        ('{"example.com/foo": 1.5}', '"example.com/foo": the amount must be a whole number'),
        ('{"example.com/foo": true}', '"example.com/foo": the amount must be a whole number'),
        ('{"example.com/foo": -1}', '"example.com/foo": the amount must be between'),
        ('{"example.com/foo": 99999999999}', '"example.com/foo": the amount must be between'),
        (json.dumps({f"example.com/r{n}": 1 for n in range(65)}), "more than 64 resources"),
        ("x" * 9000, "longer than 8192 characters"),
    ],
)
def test_override_that_cannot_be_read_is_a_problem_and_such_a_mark_marks_nothing(text, problem):
    annotations = {"bursar.io/capacity": text, "bursar.io/capacity-owner": text}
    node = decode_capacity_node(a_node(annotations=annotations))

    assert node.problem.startswith(f"annotation bursar.io/capacity: {problem}")
    assert (node.override, node.marked) == ({}, {})


# ------------------------------------------------------------------ ConfigMaps


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("resource: example.com/foo\namount: 5", ""),
        ('{"resource": "example.com/foo", "amount": 5}', ""),
        ("{resource: example.com/foo, amount: 5, nodeSelector: {zone: a}}", "zone=a"),
        ("resource: example.com/foo\namount: 5\nnodeSelector: zone in (a,b),!old", None),
    ],
)
def test_declaration_is_read(text, selector):
    found = decode_declarations(a_map(licences=text))
    (declaration,) = found.declarations

    assert found.problems == ()
    assert (declaration.name, declaration.resource, declaration.amount) == ("licences", FOO, 5)
    expected = "!old,zone in (a,b)" if selector is None else selector
    assert str(declaration.selector) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "an object with resource and amount is expected"),
        ("[1]", "an object with resource and amount is expected"),
        ("a: 1\n---\nb: 2", "an object with resource and amount is expected"),
        ("a: [", "1:"),
        ("amount: 5", "resource: a string is expected, found null"),
        ("resource: cpu\namount: 5", 'resource: "cpu": not the name of an extended resource'),
        ("resource: a.b/c", "amount: a whole number is expected, found null"),
        ("resource: a.b/c\namount: '5'", "amount: a whole number is expected, found a string"),
        ("resource: a.b/c\namount: 1.5", "amount: a whole number is expected"),
        ("resource: a.b/c\namount: yes", "amount: a whole number is expected"),
        ("resource: a.b/c\namount: -1", "amount: the amount must be between"),
        ("resource: a.b/c\namount: 1\nnodes: x", 'unknown field "nodes"'),
        ("resource: a.b/c\namount: 1\nnodeSelector: ((", "nodeSelector: "),
        (
            "resource: a.b/c\namount: 1\nnodeSelector: [a]",
            "nodeSelector: an object of labels or a text is expected, found a list",
        ),
        *(
            (
                f"resource: a.b/c\namount: 1\nnodeSelector: {{b: x, example.com/a: {value}}}",
                f'nodeSelector."example.com/a": the value of a label is a string, found {found}',
            )
            for value, found in (
                ("1", "a number; put it in quotes"),
                ("1.5", "a number; put it in quotes"),
                ("true", "true or false; put it in quotes"),
                ("", "null"),
                ("[x]", "a list"),
                ("{x: y}", "an object"),
            )
        ),
        ("#" * 20000, "longer than 16384 characters"),
    ],
)
def test_declaration_that_cannot_be_read_is_told_and_others_hold(text, problem):
    good = "resource: example.com/foo\namount: 5"
    found = decode_declarations(a_map(good=good, bad=text))

    assert [each.name for each in found.declarations] == ["good"]
    (told,) = found.problems
    assert told.startswith(f"bad: {problem}")


def test_declarations_are_bounded():
    good = "resource: example.com/foo\namount: 5"
    found = decode_declarations(a_map(**{f"d{n}": good for n in range(300)}))

    assert len(found.declarations) == 256
    assert len(found.problems) == 1


def test_map_without_data_declares_nothing_of_ours_and_the_default_of_upstream():
    body = b'{"metadata": {"name": "m"}}'
    (declaration,) = preset_decoder(parse_selector("kata=true"))(body).declarations

    assert decode_declarations(body).declarations == ()
    assert (declaration.resource, declaration.amount) == (VM_RESOURCE, 10)
    assert str(declaration.selector) == "kata=true"
