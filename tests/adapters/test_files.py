"""Manifests from files, folders and standard input."""

import io
import os
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.adapters.files.manifests import (
    ManifestError,
    Manifests,
    read_manifests,
    read_objects_as_written,
)
from bursar.adapters.files.sources import EXTENSIONS, SourceError, chunks_of_file, manifests_in
from bursar.core.model.quantity import FORMAT_ERROR, Quantity
from bursar.wire.documents.text import SOURCE_BYTES_MAX

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
  - name: main
    resources: {{limits: {{cpu: {cpu}}}}}
"""


def pod_yaml(name: str = "web", cpu: str = "1") -> str:
    return POD.format(name=name, cpu=cpu)


def read(*paths: str | Path, stdin: bytes = b"") -> Manifests:
    return read_manifests([str(path) for path in paths], io.BytesIO(stdin))


def read_text(text: str | bytes) -> Manifests:
    return read("-", stdin=text if isinstance(text, bytes) else text.encode())


def refusal(*paths: str | Path, stdin: bytes = b"") -> str:
    with pytest.raises(ManifestError) as caught:
        read(*paths, stdin=stdin)
    return str(caught.value)


def names(manifests: Manifests) -> list[str]:
    return [pod.name for pod in manifests.pods]


def test_files_and_standard_input_are_read_in_the_order_given(tmp_path):
    (tmp_path / "a.yaml").write_text(pod_yaml("a"))
    (tmp_path / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}'
    )
    found = read(tmp_path / "b.json", "-", tmp_path / "a.yaml", stdin=pod_yaml("in").encode())

    assert names(found) == ["b", "in", "a"]


def test_the_same_file_may_be_given_twice_but_not_standard_input(tmp_path):
    path = tmp_path / "a"
    path.write_text(pod_yaml())

    assert names(read(path, path)) == ["web", "web"]
    assert refusal("-", "-", stdin=pod_yaml().encode()) == "<stdin>: can be read only once"


def test_a_folder_gives_its_own_manifests_in_order_of_name(tmp_path):
    for name in ("b.yml", "a.yaml", "c.json", "d.txt", "e.yaml~"):
        (tmp_path / name).write_text(pod_yaml(name[0]))
    (tmp_path / "below.yaml").mkdir()
    (tmp_path / "below.yaml" / "f.yaml").write_text(pod_yaml("f"))
    (tmp_path / "link.yaml").symlink_to(tmp_path / "d.txt")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    os.mkfifo(tmp_path / "pipe.yaml")

    assert names(read(tmp_path)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("written", ["{}", "{}/", "{}//", "./{}", "{}/.", "{}/../{}", "."])
def test_manifests_of_a_folder_are_named_as_pathlib_names_them(written, tmp_path):
    (tmp_path / "a b").mkdir()
    for name in ("b.yml", ".yaml", "a.YAML", "é.yaml", "c.d.json", "e."):
        (tmp_path / "a b" / name).touch()
    (tmp_path / "a b" / "lost.yaml").symlink_to("nowhere")
    (tmp_path / "a b" / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "top.yaml").touch()
    with chdir(tmp_path):
        for start in ("", f"{tmp_path}/"):
            folder = start + written.format("a b", "a b")
            paths = sorted(Path(folder).iterdir())

            assert manifests_in(folder) == [
                str(path) for path in paths if path.suffix in EXTENSIONS and path.is_file()
            ]


def test_objects_know_their_document_and_line(tmp_path):
    path = tmp_path / "all.yaml"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
    workload = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {}}\n"
    path.write_text(f"{pod_yaml()}---\n---\n{node}---\n{workload}---\n{pod_yaml('x')}")
    origins = [origin for _, origin in read_objects_as_written([str(path)], io.BytesIO())]

    assert [str(origin) for origin in origins] == [f"{path}:{line}" for line in (1, 11, 15, 20)]
    assert [origin.document for origin in origins] == [1, 3, 4, 5]
    assert [template.owner_kind for template in read(path).templates] == ["Job"]


def test_what_is_passed_over_is_counted():
    kinds = ["v1\nkind: Secret", "v1\nkind: Event", "x.io/v1\nkind: Thing", "v1\nkind: Event"]
    found = read_text("---\n".join(f"apiVersion: {kind}\n" for kind in kinds))

    assert replace(found, values=()) == Manifests(
        skipped=(("Event", 2), ("Secret", 1), ("Thing.x.io", 1))
    )
    assert [value["kind"] for value in found.values] == ["Secret", "Event", "Thing", "Event"]


def test_what_kubectl_prints_can_be_read():
    found = read_text(
        """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2026-01-02T03:04:05Z"
    managedFields:
    - fieldsV1:
        f:metadata: {f:labels: {.: {}, 'f:app': {}}}
    name: web
  spec: {containers: [{name: a, resources: {requests: {cpu: 500m}}}]}
kind: List
metadata:
  resourceVersion: ""
"""
    )

    assert names(found) == ["web"]
    assert found.pods[0].containers[0].resources.requests == {"cpu": Quantity.parse("500m")}


@pytest.mark.parametrize(
    "data",
    [pod_yaml().encode().replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + pod_yaml().encode()],
    ids=["windows", "mark"],
)
def test_foreign_line_ends_and_a_utf8_mark_do_no_harm(data):
    assert names(read_text(data)) == ["web"]


@pytest.mark.parametrize(
    "text",
    ["{{- if .Values.on }}\na: b\n{{- end }}\n", "a: {{ .Values.a }}\n", "a: b\n{{ include x }}\n"],
)
def test_a_template_is_recognized_if_it_is_not_yaml(tmp_path, text):
    path = tmp_path / "template.yaml"
    path.write_text(text)
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [\n")

    assert refusal(path).endswith(
        "; it looks like a Helm template: render it first, as in: "
        "helm template CHART | bursar ... -f -"
    )
    assert "Helm" not in refusal(broken)


def test_a_quantity_in_json_keeps_its_spelling_and_in_yaml_becomes_a_number():
    text = (
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"overhead":{"cpu":1e3}}}'
    )

    assert str(read_text(text).pods[0].overhead["cpu"]) == "1e3"
    assert str(read_text(f"---\n{text}").pods[0].overhead["cpu"]) == "1k"


def test_an_error_is_one_line_that_names_file_place_object_and_field(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(
        pod_yaml().replace("web", "web\n  namespace: default").replace("cpu: 1", "cpu: 1 Gi")
    )

    assert refusal(path) == (
        f"{path}:9:31: Pod default/web: spec.containers[0].resources.limits[cpu]: {FORMAT_ERROR}"
        ' (found "1 Gi"; did you mean 1Gi?)'
    )


LIMIT = "Pod web: spec.containers[0].resources.limits[cpu]"
NUMBER = "found a number; quote it to make it one"
NO_NAME = "not a name that Kubernetes could have given"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            pod_yaml(cpu="-1"),
            f'8:31: {LIMIT}: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (pod_yaml(cpu="[1]"), f"8:31: {LIMIT}: a quantity is expected, found a list"),
        (
            pod_yaml("5"),
            f"4:9: Pod: metadata.name: a string is expected, {NUMBER}",
        ),
        (pod_yaml() + "spec: {}", "9:1: spec: duplicate key"),
        (pod_yaml() + "x: *y", '9:4: x: unknown anchor "y"'),
        (pod_yaml() + " x: 1", "9:2: while parsing a block mapping: did not find expected key"),
        (pod_yaml() + "x: '\x00'", "9:5: control character U+0000"),
        ("kind: Pod", "1:1: Pod: apiVersion: required, but missing"),
        (
            "apiVersion: v1\nkind: P\u202eod",
            f'2:7: P\\u202eod: kind: {NO_NAME} (found "P\\u202eod")',
        ),
    ],
)
def test_errors(text, message):
    assert refusal("-", stdin=text.encode()) == f"<stdin>:{message}"


@pytest.mark.parametrize("text", ["", "---\n# nothing\n---\n~\n"])
def test_a_source_without_objects_is_refused(text):
    assert refusal("-", stdin=text.encode()) == "<stdin>: no Kubernetes object in it"


def test_bytes_that_are_no_text_are_refused():
    assert refusal("-", stdin=b"a: b\nc: \xff") == "<stdin>:2:4: byte 0xff at offset 8 is not UTF-8"
    assert "UTF-16" in refusal("-", stdin="a: b".encode("utf-16"))


def test_paths_that_cannot_be_read_are_named(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)

    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file or directory"
    assert refusal(loop) == f"{loop}: too many levels of symbolic links"
    assert refusal("") == '"": no such file or directory'
    assert refusal("a\0b\n") == r"a\x00b\n: embedded null byte"
    assert refusal("x" * 5000) == "x" * 1024 + "...: file name too long"


def test_what_turns_out_not_to_be_a_file_is_refused(tmp_path):
    with pytest.raises(SourceError, match="is a directory"):
        next(chunks_of_file(str(tmp_path), bytes_max=1))
    with pytest.raises(SourceError, match="no such file"):
        manifests_in(str(tmp_path / "gone"))


class Broken(io.RawIOBase):
    """A stream that fails after its first bytes, as a lost network share does."""

    def __init__(self) -> None:
        self._chunks = [pod_yaml().encode()]

    def read(self, _size: int = -1) -> bytes:
        if self._chunks:
            return self._chunks.pop()
        raise OSError(5, "Input/output error")


def test_a_stream_that_breaks_is_an_error_even_after_good_objects():
    with pytest.raises(ManifestError, match=r"^<stdin>: input/output error$"):
        read_manifests(["-"], Broken())


def test_folders_without_objects_are_refused(tmp_path):
    assert refusal(tmp_path) == (
        f"{tmp_path}: no manifest in this folder (looked for .json, .yaml, .yml)"
    )
    (tmp_path / "a.yaml").write_text("")
    (tmp_path / "b.yaml").write_text("---\n")
    assert refusal(tmp_path) == f"{tmp_path}: no Kubernetes object in the manifests of this folder"
    assert refusal(tmp_path / "a.yaml") == f"{tmp_path}/a.yaml: no Kubernetes object in it"


def test_a_folder_with_manifests_in_subfolders_alone_names_the_option_that_reads_them(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.yaml").write_text(pod_yaml())
    none = f"{tmp_path}: no manifest in this folder (looked for .json, .yaml, .yml)"

    assert refusal(tmp_path) == f"{none}; -R looks in its subfolders as well"
    assert len(read_manifests([str(tmp_path)], io.BytesIO(), is_recursive=True).pods) == 1
    (tmp_path / "below" / "a.yaml").unlink()
    with pytest.raises(ManifestError) as error:
        read_manifests([str(tmp_path)], io.BytesIO(), is_recursive=True)
    assert str(error.value) == none


def test_an_empty_list_is_not_an_empty_source():
    assert read_text("apiVersion: v1\nkind: List\nitems: []") == Manifests()


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(SOURCE_BYTES_MAX + 1)

    assert refusal(path) == f"{path}: larger than {SOURCE_BYTES_MAX} bytes"


def test_what_tells_no_size_is_not_read_for_ever():
    with pytest.raises(SourceError, match="larger than 100000 bytes"):
        for _ in chunks_of_file("/dev/zero", bytes_max=100_000):
            pass


CONFIDED = "hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"{pod_yaml()}metadata: {CONFIDED}",
        pod_yaml().replace("name: web", f"name: web\n  annotations: [{CONFIDED}]"),
        pod_yaml().replace("name: web", f"name: web\n  labels: {CONFIDED}"),
        pod_yaml().replace("spec:", f"spec: {CONFIDED}\nold:"),
        f"apiVersion: v1\nkind: Secret\nstringData:\n  a: {CONFIDED}\n  a: {CONFIDED}\n",
        f"apiVersion: v1\nkind: Secret\nstringData:\n  a: !x {CONFIDED}\n",
        f"apiVersion: v1\nkind: Secret\nstringData:\n  a: {CONFIDED}: {CONFIDED}\n",
        f'{{"apiVersion": "v1", "kind": "Secret", "data": {{"a": "{CONFIDED}" "{CONFIDED}"}}}}',
        CONFIDED,
        f"- {CONFIDED}",
    ],
)
def test_errors_do_not_tell_secrets(text):
    assert CONFIDED not in refusal("-", stdin=text.encode())


def is_fit_to_print(message: str) -> bool:
    return message.isprintable() and len(message) < 2000


def outcome(data: bytes) -> str:
    """What came of reading: a message, or nothing to complain about."""
    try:
        read_text(data)
    except ManifestError as error:
        return str(error)
    return ""


@given(st.binary(max_size=200))
@settings(max_examples=400, deadline=None)
def test_arbitrary_bytes_are_read_or_refused(data):
    assert is_fit_to_print(outcome(data))


FRAGMENTS = st.lists(
    st.sampled_from(
        ["apiVersion: v1\n", "kind: Pod\n", "kind: List\n", "kind: Node\n", "metadata: {name: x}\n"]
        + ["spec:\n", "  containers:\n", "  - name: a\n", "    resources: {limits: {cpu: 1}}\n"]
        + [
            "items:\n",
            "- ",
            "  ",
            "{",
            "}",
            "[",
            "]",
            '"',
            "'",
            ": ",
            ", ",
            "&a ",
            "*a",
            "<<: ",
            "!x ",
        ]
        + [
            "\n",
            "---\n",
            "\t",
            "\r",
            "\x00",
            "\ufeff",
            "|\n",
            "? ",
            "%",
            "null",
            "-1",
            "1e999",
            "\\",
        ]
        + ['{"apiVersion":"v1","kind":"PodList","items":[', '{"metadata":{"name":"x"}}', "NaN"]
    ),
    max_size=25,
).map("".join)


@given(FRAGMENTS)
@settings(max_examples=400, deadline=None)
def test_jumbled_manifests_are_read_or_refused(text):
    assert is_fit_to_print(outcome(text.encode()))


WHOLE = (
    pod_yaml()
    + "---\n"
    + '{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},'
    + ' "spec": {"replicas": 2, "template": {"spec": {"overhead": {"cpu": 0.5, "m": "1Gi"}}}}}\n'
    + "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4}}\n"
).encode()


@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 4), st.binary(max_size=4)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_manifests_with_damage_are_read_or_refused(damages, json_first):
    data = WHOLE[WHOLE.index(b'{"apiVersion') :] if json_first else WHOLE
    for position, removed, inserted in damages:
        data = data[:position] + inserted + data[position + removed :]

    assert is_fit_to_print(outcome(data))
