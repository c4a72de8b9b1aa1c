"""The text of a source: decoding, bounds, places, reading again."""

import pytest

from bursar.wire.documents.text import SOURCE_BYTES_MAX, DocumentError, Place, Text


def whole(text: Text) -> str:
    return "".join(text.pieces())


def refusal(*chunks: bytes) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        whole(Text(chunks))
    return caught.value


def test_characters_may_be_cut_between_chunks():
    data = "aé€😀z".encode()

    assert whole(Text([data[i : i + 1] for i in range(len(data))])) == "aé€😀z"


def test_empty_chunks_end_a_source_without_harm():
    assert whole(Text([])) == ""
    assert whole(Text([b""])) == ""


def test_a_utf8_mark_at_the_start_is_dropped_even_if_it_comes_in_two_chunks():
    assert whole(Text([b"\xef\xbb", b"\xbfa"])) == "a"


def test_a_utf8_mark_elsewhere_is_an_ordinary_character():
    assert whole(Text([b"a", b"\xef\xbb\xbf"])) == "a\ufeff"


@pytest.mark.parametrize("data", [b"\xff\xfea\x00", b"\xfe\xff\x00a"])
def test_utf16_is_refused_by_name(data):
    assert "UTF-16" in refusal(data).problem


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([b"\xff"], "1:1: byte 0xff at offset 0 is not UTF-8"),
        ([b"ab\n\xc3", b"("], "2:1: byte 0xc3 at offset 3 is not UTF-8"),
        ([b"ab\xe2\x82"], "1:3: byte 0xe2 at offset 2 is not UTF-8"),
        ([b"x" * 9, b"\n\nab\xed\xa0\x80"], "3:3: byte 0xed at offset 13 is not UTF-8"),
        ([b"a: b\nc: \x00"], "2:4: control character U+0000"),
        ([b"a\x1b"], "1:2: control character U+001B"),
    ],
)
def test_a_bad_byte_is_named_with_its_place(chunks, message):
    assert str(refusal(*chunks)) == message


def test_a_source_too_large_is_refused_without_reading_on():
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield b"x" * 2**20

    with pytest.raises(DocumentError, match=f"larger than {SOURCE_BYTES_MAX} bytes"):
        whole(Text(endless()))
    assert read == SOURCE_BYTES_MAX // 2**20 + 1


def test_a_text_can_be_read_again_from_any_character():
    text = Text(iter([b"ab", b"cd", b"ef"]))

    assert whole(text) == "abcdef"
    assert ["".join(text.pieces(offset)) for offset in range(7)] == [
        "abcdef", "bcdef", "cdef", "def", "ef", "f", "",
    ]  # fmt: skip


def test_nothing_is_read_before_it_is_wanted():
    chunks = iter([b"a", b"b", b"c"])
    next(Text(chunks).pieces())

    assert next(chunks) == b"b"


def test_places_count_lines_and_columns_across_pieces():
    text = Text([b"a\nb", b"c\n", b"\nd"])
    whole(text)

    assert [text.place(offset) for offset in range(8)] == [
        Place(1, 1), Place(1, 2), Place(2, 1), Place(2, 2),
        Place(2, 3), Place(3, 1), Place(4, 1), Place(4, 2),
    ]  # fmt: skip


def test_a_later_line_is_after_a_later_column():
    assert Place(2, 1).is_after(Place(1, 9))
    assert Place(1, 9).is_after(Place(1, 8))
    assert not Place(1, 1).is_after(Place(1, 1))
