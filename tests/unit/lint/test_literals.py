"""Values with places: tables, and what is left of a value that is only known at run time."""

from sideband.lint.literals import (
    START,
    Array,
    Position,
    Scalar,
    Table,
    TableEntry,
    Unknown,
    Value,
    plain,
    table_of,
    tables_in,
    text_of,
)


def a_scalar(value: object, line: int = 1) -> Scalar:
    return Scalar(value=value, at=Position(line, 1))


def an_entry(key: object, value: Value, line: int = 1) -> TableEntry:
    return TableEntry(key=key, value=value, at=Position(line, 1))


def test_of_equal_keys_the_last_counts_and_each_further_one_is_remembered() -> None:
    entries = [an_entry("a", a_scalar(number), number) for number in (1, 2, 3)]
    table = table_of(entries, START)
    assert table.entries == (entries[2],)
    assert table.repeated == (entries[1], entries[2])


def test_a_table_finds_its_entries_by_key() -> None:
    table = table_of([an_entry("a", a_scalar(1)), an_entry(2, a_scalar("two"))], START)
    assert "a" in table
    assert "b" not in table
    assert text_of(table.value(2)) == "two"
    assert table.value("b") is None
    assert [entry.key for entry in table.without("a").entries] == [2]


def test_a_plain_value_has_a_word_where_nothing_is_known() -> None:
    inner = table_of([an_entry("k", Unknown(at=START))], START)
    value = Array(items=(a_scalar(1), inner, Unknown(at=START)), at=START)
    assert plain(value) == [1, {"k": "x"}, "x"]


def test_only_a_written_string_is_text() -> None:
    values: list[Value | None] = [a_scalar("word"), a_scalar(1), Unknown(at=START), None]
    assert [text_of(value) for value in values] == ["word", None, None, None]


def test_tables_are_found_in_the_order_in_which_they_begin() -> None:
    def a_table(name: str, *inner: Value) -> Table:
        return table_of([an_entry("name", a_scalar(name)), an_entry("in", Array(items=inner, at=START))], START)

    nested = a_table("a", a_table("b", a_table("c")), a_scalar(0), a_table("d"))
    assert [text_of(table.value("name")) for table in tables_in(nested)] == ["a", "b", "c", "d"]
