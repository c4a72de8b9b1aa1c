"""The glossary explains each word once."""

from collections import Counter
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()


def words() -> list[str]:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    return [word for row in rows for word in row.strip().split(", ") if word != "word"]


def test_the_glossary_has_no_word_twice() -> None:
    counts = Counter(words())

    assert len(counts) > 100
    assert [word for word, count in counts.items() if count > 1] == []
