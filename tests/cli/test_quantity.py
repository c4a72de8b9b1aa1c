"""`bursar quantity` as a user meets it."""

import json
import subprocess

import pytest
import yaml

from support.processes.command_line import COMMAND, run_bursar

NO_SUFFIX = "beyond 999E there is no suffix, and Kubernetes prints none"


def test_each_input_becomes_a_row_with_its_surprises_noted():
    ran = run_bursar("quantity", "128974848", "1.500", "1000E", ".5Gi")

    assert ran.code == 0
    assert ran.err == ""
    header, *rows = [line.split("   ") for line in ran.out.splitlines()]
    assert [cell.strip() for cell in header if cell] == [
        "INPUT", "CANONICAL", "VALUE", "FORMAT", "NOTE",
    ]  # fmt: skip
    assert [[cell.strip() for cell in row if cell] for row in rows] == [
        ["128974848", "128974848", "128974848", "DecimalSI"],
        ["1.500", "1.500", "1.5", "DecimalSI", "kept as typed; normal form 1500m"],
        ["1000E", "1", "1" + "0" * 21, "DecimalSI", NO_SUFFIX],
        [".5Gi", "512Mi", "536870912", "BinarySI"],
    ]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_are_lists_and_an_invalid_input_makes_the_answer_no(output, load):
    ran = run_bursar("quantity", "-100m", "200K", "-o", output)

    assert ran.code == 1
    assert load(ran.out) == [
        {"input": "-100m", "canonical": "-100m", "value": "-0.1", "format": "DecimalSI"},
        {"input": "200K", "error": "unable to parse quantity's suffix", "meant": "200Ki"},
    ]


def test_an_amount_as_other_programs_write_it_is_recognised():
    assert "error: did you mean 512Mi? quantities must" in run_bursar("quantity", "512mb").out
    assert "5Gib: did you mean 5Gi?" in run_bursar("quantity", "--sum", "5Gib", "1Gi").err
    assert "did you mean" not in run_bursar("quantity", "1.5.2").out


@pytest.mark.parametrize(
    ("left", "right", "relation", "order"),
    [("1Gi", "1G", ">", 1), ("1024Mi", "1Gi", "=", 0), ("100n", "1m", "<", -1)],
)
def test_compare_says_which_is_greater(left, right, relation, order):
    assert run_bursar("quantity", "--compare", left, right).out == f"{left} {relation} {right}\n"

    document = json.loads(run_bursar("quantity", "--compare", left, right, "-o", "json").out)
    assert (document["compare"], document["relation"]) == (order, relation)


def test_sum_prints_in_the_format_of_the_first_addend():
    document = json.loads(run_bursar("quantity", "--sum", "1Gi", "1Gi", "512Mi", "-o", "json").out)

    assert document == {
        "inputs": ["1Gi", "1Gi", "512Mi"],
        "canonical": "2560Mi",
        "value": "2684354560",
        "format": "BinarySI",
    }
    assert run_bursar("quantity", "--sum", "0.5", "500m").out.splitlines()[1].split()[0] == "1"


def test_an_invalid_addend_is_named_on_stderr_and_nothing_is_printed():
    ran = run_bursar("quantity", "--sum", "1", "1Zi")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("bursar: 1Zi: quantities must match")


def test_without_arguments_one_quantity_is_read_per_line():
    ran = run_bursar("quantity", "-o", "json", stdin=b"1Gi\n\n 5m \n")

    assert [entry["input"] for entry in json.loads(ran.out)] == ["1Gi", "5m"]


def test_a_line_of_megabytes_is_refused_without_being_echoed():
    ran = run_bursar("quantity", stdin=b"9" * 5_000_000)

    assert ran.code == 1
    assert "characters long; at most 1024 are accepted" in ran.out
    assert max(map(len, ran.out.splitlines())) < 300


def test_stdin_that_is_not_text_is_bad_input():
    ran = run_bursar("quantity", stdin=b"1Gi\n\xff\xfe1Gi\n")

    assert ran.code == 2
    assert ran.err.startswith("bursar: standard input, line 2: not UTF-8")
    assert len(ran.err.splitlines()) == 1


def test_control_characters_do_not_reach_the_terminal():
    ran = run_bursar("quantity", "1\x1b[2J")

    assert "\x1b" not in ran.out
    assert "1\\x1b[2J" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["quantity", "--compare", "1"],
        ["quantity", "--compare", "--sum", "1", "2"],
        ["quantity", "1", "-o", "xml"],
        ["no-such-verb"],
    ],
)
def test_usage_errors_exit_with_two_and_leave_stdout_alone(arguments):
    ran = run_bursar(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert (ran.err.startswith("bursar: "), ran.err.count("\n")) == (True, 1)


def test_a_reader_that_goes_away_is_no_error():
    shell = f"{COMMAND} quantity {' '.join(['1Gi'] * 5000)} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)

    assert done.stdout.startswith("INPUT")
    assert done.stderr == ""
