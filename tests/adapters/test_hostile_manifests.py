"""Manifests made to hurt: each is refused in a process with little memory, and soon.

What each case asserts is the refusal and its words. A regression shows as a
process that runs out of memory or out of time, both far above what is needed.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bursar.wire.documents.text import DEPTH_MAX, SCALAR_LENGTH_MAX

MEBIBYTE = 2**20
SECONDS_MAX = 120
READER = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from bursar.adapters.files.manifests import ManifestError, read_manifests
try:
    found = read_manifests(sys.argv[2:], sys.stdin.buffer)
    print(f"read {len(found.pods)} pods")
except ManifestError as error:
    print(error)
"""
HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  overhead:\n    cpu: "
FIELD = "spec.overhead[cpu]"
TOO_LONG = f"more than {SCALAR_LENGTH_MAX} characters in one value"
DIGITS = b"9" * MEBIBYTE


def outcome(path: str | Path, chunks: Iterable[bytes] = (), *, memory_mib: int) -> str:
    """Read in a process with that much address space, feeding its standard input as it asks."""
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(memory_mib * MEBIBYTE), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        try:
            for chunk in chunks:
                process.stdin.write(chunk)
        except BrokenPipeError:
            pass  # It has seen enough.
        try:
            said, complaint = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert complaint == b"", complaint.decode()[-2000:]
    return said.decode().rstrip("\n")


def a_quantity_of_100_megabytes(before: str, after: str) -> Iterator[bytes]:
    yield before.encode()
    for _ in range(100):
        yield DIGITS
    yield after.encode()


JSON_HEAD = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},\n"spec":{"overhead":{"cpu":'


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        (HEAD, "\n", "6:8"),
        (f'{HEAD}"', '"\n', "6:8"),
        (f"{HEAD}|\n      ", "\n", "6:8"),
        (JSON_HEAD, "}}}", "2:27"),
        (f'{JSON_HEAD}"', '"}}}', "2:27"),
    ],
    ids=["plain", "quoted", "block", "json number", "json string"],
)
def test_a_quantity_of_100_megabytes_is_refused_by_name_after_the_first(before, after, place):
    said = outcome("-", a_quantity_of_100_megabytes(before, after), memory_mib=256)

    assert said.startswith(f"<stdin>:{place}: {FIELD}: {TOO_LONG}")


def test_a_large_file_is_refused_as_early_as_a_pipe(tmp_path):
    path = tmp_path / "pod.yaml"
    with path.open("wb") as file:
        file.writelines(a_quantity_of_100_megabytes(HEAD, "\n"))

    assert outcome(path, memory_mib=256).startswith(f"{path}:6:8: {FIELD}: {TOO_LONG}")


def test_a_quantity_just_below_the_bound_of_a_text_is_refused_as_a_quantity():
    said = outcome("-", [HEAD.encode(), b"9" * (SCALAR_LENGTH_MAX - 1)], memory_mib=256)

    assert said.startswith(f"<stdin>:6:10: Pod x: {FIELD}: the text is 1048575 characters long")
    assert len(said) < 300


def laughs(levels: int) -> Iterator[bytes]:
    yield b"a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
    for level in range(1, levels):
        inner = ", ".join([f"*a{level - 1}"] * 10)
        yield f"a{level}: &a{level} [{inner}]\n".encode()


def test_a_billion_laughs_are_refused():
    said = outcome("-", laughs(10), memory_mib=256)

    assert "aliases expand to more than 400000 values" in said


def test_aliases_within_the_bound_cost_no_more_than_what_they_stand_for():
    """390 times 1,000 resource names in 390 containers, of which the file has one."""
    limits = ", ".join(f"x.io/{number}: 1" for number in range(1000))
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    first = f"- &c {{resources: {{limits: {{{limits}}}}}}}"
    text = f"{head}spec:\n  containers:\n  {first}\n" + "  - *c\n" * 390

    assert outcome("-", [text.encode()], memory_mib=512) == "read 1 pods"


@pytest.mark.parametrize(
    "opening",
    [b"[", b"{a: ", b"- ", b'{"a":', b'{"a":[', b"? ", b"!!seq [", b"&a ["],
    ids=["flow list", "flow map", "block list", "json", "json both", "keys", "tags", "anchors"],
)
def test_nesting_100_000_levels_deep_is_refused(opening):
    said = outcome("-", [opening * 100_000], memory_mib=256)

    assert f"nested more than {DEPTH_MAX} levels deep" in said or "cannot be a key" in said
    assert len(said) < 600


def test_block_nesting_far_to_the_right_is_refused():
    lines = (b" " * depth + b"a:\n" for depth in range(3000))

    assert f"nested more than {DEPTH_MAX} levels deep" in outcome("-", lines, memory_mib=256)


@pytest.mark.parametrize("pair", [b"a: b\n", b"? a\n"])
def test_a_million_equal_keys_are_refused_at_the_second(pair):
    said = outcome("-", [pair * MEBIBYTE], memory_mib=256)

    assert said == f"<stdin>:2:{pair.index(b'a') + 1}: a: duplicate key"


def test_a_million_equal_keys_in_json_are_refused_at_the_second():
    assert outcome("-", [b"{", b'"a":1,' * MEBIBYTE], memory_mib=256) == (
        "<stdin>:1:8: a: duplicate key"
    )


@pytest.mark.parametrize(
    "filler",
    [b" ", b"\n", b"#", b"a", b"-", b":", b"!", b"\xe2\x80\xa8", b"{", b'"', b"\\", b"%", b"\0"],
)
def test_a_hundred_megabytes_of_one_character_are_refused(filler):
    chunk = filler * (MEBIBYTE // len(filler))
    said = outcome("-", (chunk for _ in range(100)), memory_mib=256)

    assert said.startswith("<stdin>:")


@pytest.mark.slow
def test_directives_that_take_quadratic_time_are_cut_short():
    directives = (f"%TAG !{number}! x\n".encode() for number in range(500_000))

    assert "characters in one value or comment" in outcome("-", directives, memory_mib=256)


def test_a_source_without_end_is_refused():
    said = outcome("/dev/zero", memory_mib=256)

    assert said == "/dev/zero:1:1: control character U+0000"
