"""The YAML we write, read by the library inside kubectl."""

import json

from hypothesis import strategies as st

from bursar.wire.documents.yaml_writing import yaml_text
from support.faults.ambiguous_yaml import NASTY
from wire.test_yaml_writing import TEXTS, TREES, typed


def whole(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def test_texts_are_texts_to_kubectl(oracle, for_all):
    def compare(texts: list[str]) -> None:
        written = [yaml_text({text: [text]}) for text in texts]
        for text, answer in zip(texts, oracle.ask("yaml", texts=written), strict=True):
            oracle.assert_same({text: [text]}, json.loads(answer["json"]), about=repr(text))

    compare(list(NASTY))
    for_all(st.lists(TEXTS, min_size=60, max_size=90), compare, examples=25)


def test_trees_are_the_same_trees_to_kubectl(oracle, for_all):
    def compare(trees: list[object]) -> None:
        written = [yaml_text({"tree": tree}) for tree in trees]
        for tree, answer in zip(trees, oracle.ask("yaml", texts=written), strict=True):
            read = json.loads(answer["json"], parse_int=whole)
            oracle.assert_same(typed({"tree": tree}), typed(read), about=repr(tree))

    for_all(st.lists(TREES, min_size=20, max_size=30), compare, examples=25)
