"""The chart and the kustomize base are those that `make chart` writes, and say what they are."""

import itertools
import json

import pytest
import yaml

from chart.chart_files import CHART, ROOT, files, present
from chart.merging import Choice, Switch, flag, merged, text_lines
from chart.sentinels import template_lines
from chart.value_files import schema_json, values_yaml
from chart.values import all_values


@pytest.mark.slow
def test_the_files_are_fresh():
    """`bursar manifests` is called for every combination of values."""
    wanted, found = files(), present()

    assert sorted(found) == sorted(wanted), "run `make chart`"
    assert [name for name in wanted if wanted[name] != found[name]] == [], "run `make chart`"


def test_every_value_of_the_file_has_a_comment_and_a_default():
    written = yaml.safe_load(values_yaml())
    lines = values_yaml().splitlines()

    for value in all_values():
        found = written
        for step in value.path.split("."):
            found = found[step]
        key = value.path.rpartition(".")[2]
        above = [before for before, line in itertools.pairwise(lines) if f"{key}:" in line]
        assert found == value.default, value.path
        assert any(line.strip().startswith("# ") for line in above), value.path


def test_every_value_is_in_the_schema_and_no_other_is_allowed():
    schema = json.loads(schema_json())

    for value in all_values():
        place = schema
        for step in value.path.split("."):
            assert place["additionalProperties"] is False
            place = place["properties"][step]
        assert place["description"] == value.text


def test_definitions_are_copies():
    crds = ROOT / "api" / "crds"

    for path in crds.glob("*.yaml"):
        assert (ROOT / CHART / "crds" / path.name).read_text() == path.read_text()


# ------------------------------------------------------------------ how templates are made


def chosen_lines(nodes, holding):
    """The lines of a template if these conditions hold."""
    for node in nodes:
        if isinstance(node, Choice):
            branch = node.then if node.condition in holding else node.otherwise
            yield from chosen_lines(branch, holding)
        else:
            yield node


SWITCHES = (
    flag("a", "A"),
    Switch((("b", ("B", "b")), ("c", ("C",)), ("", ("rest",)))),
    flag("d", "x", "D"),
)


def some_lines(arguments):
    """Lines that repeat, move and differ, which is hard to compare."""
    listed = [f"- {each}" for each in arguments]
    moved = reversed(listed) if "A" in arguments else listed
    return ("x:", *listed, "x:", "- x", *moved, *(["y: x"] if "D" in arguments else []))


@pytest.mark.parametrize("holding", [*itertools.product("a-", "bc-", "d-")], ids="".join)
def test_a_template_has_for_every_combination_the_lines_that_were_printed_for_it(holding):
    arguments = []
    for switch in SWITCHES:
        conditions = {condition: each for condition, each in switch.cases if condition}
        (taken,) = [conditions[c] for c in conditions if c in holding] or [switch.cases[-1][1]]
        arguments += taken

    found = chosen_lines(merged(SWITCHES, some_lines), holding)

    assert tuple(found) == some_lines(arguments)


def test_a_condition_without_lines_of_its_own_is_turned_round():
    nodes = merged([flag("not .a", "A")], lambda chosen: () if chosen else ("line",))

    assert list(text_lines(nodes)) == ["{{- if .a }}", "line", "{{- end }}"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("  name: zz-namespace", ["  name: {{ $.Release.Namespace | quote }}"]),
        ("- a.zz-namespace.svc", ["- a.{{ $.Release.Namespace }}.svc"]),
        ("summary: '{{ $value }}'", ["summary: '{{ \"{{\" }} $value }}'"]),
        (
            "x: a in [''zz-class'']",
            ["x: a in [''{{ join \"'', ''\" $.Values.peerPods.runtimeClasses }}'']"],
        ),
        (
            "- --otlp-endpoint=zz-webhook-option",
            ["{{- range $.Values.webhook.extraArgs }}", "- {{ . | quote }}", "{{- end }}"],
        ),
    ],
)
def test_expressions_take_the_place_of_sentinels(line, lines):
    assert template_lines(line) == lines


def test_a_sentinel_without_an_expression_is_an_error():
    with pytest.raises(ValueError, match="no expression stands for"):
        template_lines("- --option=zz-unheard-of")
