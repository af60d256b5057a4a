"""Python as values with places: what can be known of an expression without running it."""

import ast

import pytest

from sideband.lint.literals import MAX_DEPTH, Position, Scalar, Table, Unknown, Unreadable, Value, plain
from sideband.lint.pysource import MAX_REPEATED_TEXT, Source, ignored_codes


def a_value(expression: str) -> Value:
    """What the checker knows of an expression."""
    source = Source(expression.encode())
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr)
    return source.value(statement.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("'a' 'b'", "ab", id="strings-side-by-side"),
        pytest.param("'a' + ('b' + 'c')", "abc", id="strings-added"),
        pytest.param("'ab' * 3", "ababab", id="a-string-repeated"),
        pytest.param("-1", -1, id="a-negative-number"),
        pytest.param("1.5", 1.5, id="a-fraction"),
        pytest.param("True", True, id="a-truth"),
        pytest.param("None", None, id="nothing"),
        pytest.param("['a', ('b', 2)]", ["a", ["b", 2]], id="lists-and-tuples"),
        pytest.param("['a', *more]", ["a"], id="a-list-with-more-in-it"),
        pytest.param("{'a', 'b'}", frozenset({"a", "b"}), id="a-set"),
        pytest.param("{{'a'}, 'b'}", frozenset({frozenset({"a"}), "b"}), id="a-set-that-python-refuses"),
        pytest.param("{'a': {'b': [1]}, 2: 3}", {"a": {"b": [1]}, 2: 3}, id="dicts"),
        pytest.param("{'a': 1, **{'a': 2, 'b': 3}}", {"a": 2, "b": 3}, id="a-dict-poured-into-another"),
        pytest.param("dict(a=1, **{'b': 2})", {"a": 1, "b": 2}, id="a-dict-by-its-name"),
        pytest.param("RoleHint.USER_BLOCK", "user_block", id="a-role-hint"),
        pytest.param("sb.Propagate.ALL", "all", id="how-far"),
        pytest.param("sideband.core.seams.Mode.AUDIT_ONLY", "audit_only", id="a-mode-by-its-long-name"),
        pytest.param("WorkerEvent.WORKER_FAILED", "worker_failed", id="an-event"),
    ],
)
def test_what_is_written_out_is_known(expression: str, value: object) -> None:
    found = a_value(expression)
    assert plain(found) == value
    assert type(plain(found)) is type(value)


@pytest.mark.parametrize(
    ("expression", "text", "calls"),
    [
        pytest.param("name", "{}", (), id="a-name"),
        pytest.param("f'at {now()}: {x!r:>{width}}'", "at {}: {}", ("now",), id="an-f-string"),
        pytest.param("'a ' + name + ' b'", "a {} b", (), id="strings-and-names-added"),
        pytest.param("'a %s' % time.time()", "a %s", ("time.time",), id="the-percent-sign"),
        pytest.param("'a {}'.format(uuid.uuid4())", "a {}", ("format", "uuid.uuid4"), id="format"),
        pytest.param("str(datetime.datetime.now())", "{}", ("str", "datetime.datetime.now"), id="a-call"),
        pytest.param("RoleHint.SHOUTED", "{}", (), id="a-word-that-does-not-exist"),
        pytest.param("not True", "{}", (), id="a-negation"),
        pytest.param("-'a'", "{}", (), id="a-sign-in-front-of-text"),
        pytest.param("1 + 2", "{}{}", (), id="a-sum"),
        pytest.param("'a' * n", "{}", (), id="a-string-repeated-who-knows-how-often"),
        pytest.param(f"'a' * {MAX_REPEATED_TEXT + 1}", "{}", (), id="a-string-repeated-without-end"),
        pytest.param("{'a', b}", "", (), id="a-set-with-a-name"),
        pytest.param("f()()", "{}", ("f",), id="a-call-of-what-a-call-returns"),
    ],
)
def test_what_is_computed_is_unknown_but_not_a_blank(expression: str, text: str, calls: tuple[str, ...]) -> None:
    found = a_value(expression)
    assert isinstance(found, Unknown)
    assert (found.text, found.calls) == (text, calls)


@pytest.mark.parametrize(
    "expression", ["{'a': 1, **more}", "{'a': 1, name: 2}", "{'a': 1, [1]: 2}", "dict(a=1, **more)"]
)
def test_a_dict_with_keys_that_nobody_knows_is_open(expression: str) -> None:
    found = a_value(expression)
    assert isinstance(found, Table)
    assert found.open
    assert plain(found) == {"a": 1}


@pytest.mark.parametrize("expression", ["{**{'a': 1, **more}}", "dict(**{'a': 1, **more})"])
def test_what_is_poured_in_keeps_the_dict_open(expression: str) -> None:
    found = a_value(expression)
    assert isinstance(found, Table)
    assert found.open


def test_a_key_that_comes_twice_in_python_is_not_ours_to_report() -> None:
    found = a_value("{'a': 1, 'a': 2}")
    assert isinstance(found, Table)
    assert (found.repeated, plain(found)) == ((), {"a": 2})


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("[" * (MAX_DEPTH + 20) + "]" * (MAX_DEPTH + 20), id="lists"),
        pytest.param(" + ".join(["'a'"] * 400), id="a-long-sum"),
        pytest.param("f'{x}' + " * 300 + "'a'", id="a-long-text"),
    ],
)
def test_what_is_nested_too_deeply_is_unknown_at_its_end(expression: str) -> None:
    assert plain(a_value(expression)) is not None


def test_places_count_characters_and_not_bytes() -> None:
    source = Source("x = {'ü🙂': 1, 'after': 2}".encode())
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Assign)
    table = source.value(statement.value)
    assert isinstance(table, Table)
    assert [entry.at for entry in table.entries] == [Position(1, 6), Position(1, 15)]


def test_the_encoding_that_a_file_declares_is_used() -> None:
    source = Source("# coding: latin-1\n'ü'".encode("latin-1"))
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr)
    assert source.value(statement.value) == Scalar(value="ü", at=Position(2, 1))


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        pytest.param(b"x = (\n", 1, id="a-bracket-left-open"),
        pytest.param(b"x = 1\n  y = 2\n", 2, id="an-indent-from-nowhere"),
        pytest.param("x = 'ü'".encode("latin-1"), 1, id="not-utf-8"),
        pytest.param(b"# coding: no-such-thing\n", 1, id="an-encoding-that-does-not-exist"),
        pytest.param(b"# coding: hex\n00", 1, id="an-encoding-that-is-not-text"),
        pytest.param(b"x = '\x00'", 1, id="a-zero-byte"),
        pytest.param(b"x = " + b"(" * 300 + b")" * 300, 1, id="too-many-brackets"),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", 1, id="too-many-signs"),
    ],
)
def test_what_is_not_python_is_refused_where_it_is_noticed(raw: bytes, line: int) -> None:
    with pytest.raises(Unreadable, match=r"not Python: .") as refused:
        Source(raw)
    assert refused.value.at.line == line
    assert refused.value.at.column >= 1


def test_a_doubtful_escape_is_no_reason_to_complain() -> None:
    assert plain(a_value(r"'\d'")) == r"\d"


IGNORING = """\
first()  # sideband: ignore[HARN-RMD-004]
# sideband: ignore[rmd-001, 005,nonsense]  because of this and that
third()
'# sideband: ignore[HARN-RMD-002]'
fifth()  # an ordinary comment
sixth()  #sideband:ignore[003] and # sideband: ignore[004]
  # sideband: ignore[006]
"""


def test_comments_silence_their_own_line_and_alone_the_next() -> None:
    assert {line: sorted(codes) for line, codes in ignored_codes(IGNORING).items()} == {
        1: ["HARN-RMD-004"],
        2: ["HARN-RMD-001", "HARN-RMD-005"],
        3: ["HARN-RMD-001", "HARN-RMD-005"],
        6: ["HARN-RMD-003"],
        7: ["HARN-RMD-006"],
        8: ["HARN-RMD-006"],
    }


def test_comments_are_found_whatever_ends_a_line() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        source = Source(b"x = 1" + end + b"y = 2  # sideband: ignore[004]" + end)
        assert source.ignored() == {2: {"HARN-RMD-004"}}


def test_comments_behind_what_cannot_be_read_are_not_found() -> None:
    assert ignored_codes("x = 1  # sideband: ignore[004]\ny = (\n") == {1: {"HARN-RMD-004"}}
