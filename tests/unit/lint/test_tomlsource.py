"""TOML with places: the values of the standard reader, each where it is written."""

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.lint.literals import MAX_DEPTH, Array, Table, Unreadable, Value, plain
from sideband.lint.tomlsource import read_toml

DOCUMENT = '''\
# a comment with [brackets] and "quotes
title = "a # b" # another
"quoted key" = 'its'
dotted.inner . key = 1979-05-27 07:32:00
list = [
    "first", # with a comment ]
    { name = "inline", "odd key" = [1, 2] },
]
text = """
[not.a.header]
key = "no key" \\""" still inside
"""""
raw = \'\'\'
it's ' and '' inside\'\'\'

[table]
"ünï" = 2

[[array]]
number = 1
[array.below]
deep = true
[[array]]
number = 2
[[array.nested]]
leaf = "x"
[[array.nested]]
leaf = "y"
'''


def places(value: Value, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Every key and item of a value with its place."""
    if isinstance(value, Table):
        for entry in value.entries:
            yield f"{path}/{entry.key}", *entry.at
            yield from places(entry.value, f"{path}/{entry.key}")
    elif isinstance(value, Array):
        for number, item in enumerate(value.items):
            yield f"{path}/{number}", *item.at
            yield from places(item, f"{path}/{number}")


def test_the_values_are_those_of_the_standard_reader() -> None:
    assert plain(read_toml(DOCUMENT)) == tomllib.loads(DOCUMENT)


def test_keys_and_items_stand_where_they_are_written() -> None:
    assert list(places(read_toml(DOCUMENT))) == [
        ("/title", 2, 1),
        ("/quoted key", 3, 1),
        ("/dotted", 4, 1),
        ("/dotted/inner", 4, 1),
        ("/dotted/inner/key", 4, 1),
        ("/list", 5, 1),
        ("/list/0", 6, 5),
        ("/list/1", 7, 5),
        ("/list/1/name", 7, 7),
        ("/list/1/odd key", 7, 24),
        ("/list/1/odd key/0", 7, 37),
        ("/list/1/odd key/1", 7, 40),
        ("/text", 9, 1),
        ("/raw", 13, 1),
        ("/table", 16, 1),
        ("/table/ünï", 17, 1),
        ("/array", 19, 1),
        ("/array/0", 19, 1),
        ("/array/0/number", 20, 1),
        ("/array/0/below", 21, 1),
        ("/array/0/below/deep", 22, 1),
        ("/array/1", 23, 1),
        ("/array/1/number", 24, 1),
        ("/array/1/nested", 25, 1),
        ("/array/1/nested/0", 25, 1),
        ("/array/1/nested/0/leaf", 26, 1),
        ("/array/1/nested/1", 27, 1),
        ("/array/1/nested/1/leaf", 28, 1),
    ]


def test_windows_line_ends_make_no_difference() -> None:
    assert list(places(read_toml(DOCUMENT.replace("\n", "\r\n")))) == list(places(read_toml(DOCUMENT)))


SCALARS = st.sampled_from(
    ['"a"', "'b'", '"""c\n"d" \\" """', "'''e\n'f' '''", "1", "-2.5", "true", "1979-05-27", '"#"']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[ {' , '.join(items)} ]")
        | st.lists(inner, max_size=3).map(lambda items: "[\n" + "".join(f"  {item},  # ]\n" for item in items) + "]")
        | st.lists(inner, max_size=3).map(
            lambda items: f"{{ {', '.join(f'k{n} = {item}' for n, item in enumerate(items))} }}"
        )
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from(["", "[t]\n", "[[t]]\n", '[ "q.r" . s ]\n']))
def test_every_key_is_found_on_a_line_that_has_it(values: list[str], header: str) -> None:
    text = header + "".join(f"key{number} = {value}\n" for number, value in enumerate(values))
    lines = text.splitlines()
    for path, line, column in places(read_toml(text)):
        key = path.rpartition("/")[2]
        if key.startswith(("k0", "k1", "k2", "key")):
            assert lines[line - 1][column - 1 :].startswith(f"{key} ")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("a = 1\nb = \n", (2, 5), id="no-value"),
        pytest.param("a = 1\na = 2\n", (2, 6), id="a-key-twice"),
        pytest.param('a = "open', (1, 1), id="a-string-without-end"),
        pytest.param("a = " + "1" * 5000, (1, 1), id="a-number-beyond-what-python-reads"),
        pytest.param("a = " + "[" * 5000, (1, 1), id="nested-without-end"),
    ],
)
def test_what_is_not_toml_is_refused_where_it_is_noticed(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(Unreadable, match="not TOML: ") as refused:
        read_toml(text)
    assert refused.value.at == place


def test_what_is_nested_deeper_than_anybody_writes_is_refused() -> None:
    with pytest.raises(Unreadable, match="deep"):
        read_toml(f"a = {'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)}")


def test_a_document_without_anything_is_an_empty_table() -> None:
    assert plain(read_toml("  \n# nothing\n")) == {}
