"""Lists: which columns, in which order, in which form."""

import pytest

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import Output
from bursar.cli.output.listing import Column, Format, Listing, ListingPrinter, Row, emit_listing
from bursar.core.model.quantity import Quantity

COLUMNS = (Column("NAME"), Column("CPU"), Column("AGE"), Column("REASON", is_wide=True))


def row(name: str, cpu: str, age: str, seconds: int, reason: str = "none") -> Row:
    return Row(
        cells=(name, cpu, age, reason),
        document={"name": name},
        name=f"pod/{name}",
        order={"AGE": seconds},
    )


LISTING = Listing(
    columns=COLUMNS,
    rows=(
        row("b", "1500m", "5m", 300, "=HYPERLINK(1)"),
        row("a", "2 (50%)", "2h", 7200, "full\x1b[2J"),
        row("c", "-", "3d", 259200),
    ),
    total=row("(all)", "3500m", "", 0, ""),
    nothing="no pods",
)


def printed(capsys: pytest.CaptureFixture[str], listing: Listing, **how: object) -> str:
    emit_listing(listing, Format(**how))  # type: ignore[arg-type] - a test names what it needs
    return capsys.readouterr().out


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_a_table_hides_wide_columns_and_ends_with_the_total(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys, LISTING).splitlines() == [
        "NAME    CPU       AGE",
        "b       1500m     5m",
        "a       2 (50%)   2h",
        "c       -         3d",
        "(all)   3500m",
    ]


def test_wide_has_all_columns_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, LISTING, output=Output.WIDE)
    assert "REASON" in text
    assert "full\\x1b[2J" in text


def test_csv_has_all_columns_no_total_and_no_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, LISTING, output=Output.CSV).splitlines() == [
        "NAME,CPU,AGE,REASON",
        "b,1500m,5m,'=HYPERLINK(1)",
        "a,2 (50%),2h,full\\x1b[2J",
        "c,,3d,none",
    ]


def test_names_of_columns_have_no_control_characters_and_no_formulas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listing = Listing(
        columns=(Column("=A\x1b[2J"),), rows=(Row(cells=("1",), document=1, name="a"),)
    )

    assert printed(capsys, listing).splitlines() == ["=A\\x1b[2J", "1"]
    assert printed(capsys, listing, output=Output.CSV).splitlines() == ["'=A\\x1b[2J", "1"]


def test_rounded_cells_are_sorted_and_written_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (Column("NODE"), Column("MEM ALLOC", is_wide=True), Column("MEM FREE"))
    small, large = Quantity.parse("1048575Ki"), Quantity.parse("1Gi")
    rows = tuple(
        Row(cells=(name, "2Gi", "1Gi"), document=name, name="node/a", exact={"MEM FREE": amount})
        for name, amount in (("large", large), ("small", small))
    )
    listing = Listing(
        columns=columns, rows=rows, totals=rows[:1], wrapped=lambda found: {"all": found}
    )

    for sort_by in ("mem-free", "MEM FREE", "mem"):
        assert names(printed(capsys, listing, sort_by=sort_by)) == ["small", "large", "large"]
    csv = printed(capsys, listing, output=Output.CSV, sort_by="-mem-free")
    assert csv.splitlines()[1:] == ["large,2Gi,1Gi", "small,2Gi,1048575Ki"]
    assert printed(capsys, listing, output=Output.NAME) == "node/a\n"
    document = printed(capsys, listing, output=Output.YAML, sort_by="mem-free")
    assert document == "all:\n- small\n- large\n"


def test_name_is_for_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, LISTING, output=Output.NAME) == "pod/b\npod/a\npod/c\n"
    empty = Listing(columns=COLUMNS, rows=())
    assert printed(capsys, empty, output=Output.NAME) == ""


def test_documents_are_the_rows_or_what_the_verb_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, LISTING, output=Output.YAML) == "- name: b\n- name: a\n- name: c\n"
    whole = Listing(columns=COLUMNS, rows=(), document={"total": "1"})
    assert printed(capsys, whole, output=Output.YAML) == "total: '1'\n"


def test_without_headers(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, LISTING, has_headers=False).startswith("b  ")
    assert printed(capsys, LISTING, has_headers=False, output=Output.CSV).startswith("b,")


@pytest.mark.parametrize(
    ("sort_by", "expected"),
    [
        ("name", ["a", "b", "c", "(all)"]),
        ("-NAME", ["c", "b", "a", "(all)"]),
        ("cpu", ["c", "b", "a", "(all)"]),
        ("age", ["b", "a", "c", "(all)"]),
        ("-age", ["c", "a", "b", "(all)"]),
    ],
)
def test_rows_are_sorted_by_size_and_the_total_stays_last(
    capsys: pytest.CaptureFixture[str], sort_by: str, expected: list[str]
) -> None:
    assert names(printed(capsys, LISTING, sort_by=sort_by)) == expected


def test_an_unknown_column_is_refused_with_those_that_exist() -> None:
    with pytest.raises(BadInputError, match="no column memory; the columns are: name, cpu, age"):
        emit_listing(LISTING, Format(sort_by="memory"))


def test_an_empty_list_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    emit_listing(Listing(columns=COLUMNS, rows=(), nothing="no pods"), Format())
    assert capsys.readouterr() == ("", "bursar: no pods\n")


def test_while_following_only_changed_rows_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printer = ListingPrinter(Format())
    printer.show(LISTING)
    capsys.readouterr()
    later = (row("b", "1500m", "6m", 360, "=HYPERLINK(1)"), row("a", "3", "2h", 7200))
    printer.show(Listing(columns=COLUMNS, rows=later))
    assert capsys.readouterr().out == "a   3   2h\n"
    printer.show(Listing(columns=COLUMNS, rows=later))
    assert capsys.readouterr().out == ""
