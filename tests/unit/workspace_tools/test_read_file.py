"""Reading: the text as it is, and a first line in brackets wherever that is not all of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.tools.root import MAX_FILE_BYTES
from sideband.tools.text import STRIDE_BYTES, Caps, line_count, line_start, lines_in, whole_characters
from sideband.tools.workspace import workspace_tools
from tests.unit.workspace_tools.calling import (
    a_public_folder,
    call,
    done,
    filled,
    measured,
    refusal,
    without_privileges,
)


def lines_of(text: str) -> list[str]:
    """Its lines with their ends, the slow way."""
    *ended, rest = text.split("\n")
    return [*(f"{line}\n" for line in ended), *([rest] if rest else [])]


FIVE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(FIVE, FIVE, id="a-whole-file-has-no-header"),
        pytest.param("no line end", "no line end", id="without-a-last-line-end"),
        pytest.param("a\r\nb\r\n", "a\r\nb\r\n", id="other-line-ends-are-kept"),
        pytest.param("\ufeffbom\n", "\ufeffbom\n", id="a-byte-order-mark-is-kept"),
        pytest.param("", "[the file is empty]", id="an-empty-file-says-so"),
        pytest.param(
            b"caf\xe9\n",
            "[not valid UTF-8: \ufffd replaces invalid bytes]\ncaf\ufffd\n",
            id="other-encodings-are-reported",
        ),
    ],
)
def test_a_file_is_given_as_it_is(tmp_path: Path, content: str | bytes, text: str) -> None:
    output = call(workspace_tools(filled(tmp_path, {"a.txt": content})), "read_file", path="a.txt")
    assert (output.text, output.is_error, output.truncated) == (text, False, False)
    assert output.data == {"path": "a.txt"}


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param({"start": 2, "end": 3}, "[lines 2-3 of 5]\ntwo\nthree\n", id="a-range"),
        pytest.param({"start": 4}, "[lines 4-5 of 5]\nfour\nfive\n", id="to-the-end"),
        pytest.param({"end": 1}, "[lines 1-1 of 5]\none\n", id="from-the-beginning"),
        pytest.param({"start": 5, "end": 99}, "[lines 5-5 of 5]\nfive\n", id="an-end-behind-the-end"),
        pytest.param({"start": 1, "end": 5}, FIVE, id="a-range-that-is-all-of-it"),
        pytest.param({"start": None, "end": None}, FIVE, id="nulls-are-no-range"),
    ],
)
def test_a_range_of_lines_says_which_lines_it_is(tmp_path: Path, lines: dict[str, int], text: str) -> None:
    output = call(workspace_tools(filled(tmp_path, {"a.txt": FIVE})), "read_file", path="a.txt", **lines)
    assert (output.text, output.truncated) == (text, False)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        pytest.param({"start": 6}, "a.txt has only 5 lines, start is 6", id="behind-the-end"),
        pytest.param({"start": 3, "end": 2}, "end is 2, which is before start, 3", id="backwards"),
        pytest.param({"start": 0}, "start: expected int >= 1", id="counted-from-0"),
    ],
)
def test_a_range_that_is_none_is_refused(tmp_path: Path, lines: dict[str, int], why: str) -> None:
    assert why in refusal(workspace_tools(filled(tmp_path, {"a.txt": FIVE})), "read_file", path="a.txt", **lines)


def test_other_characters_do_not_end_lines(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "one\u2028still\x0cone\ntwo\n"}))
    assert done(workspace, "read_file", path="a.txt", start=2) == "[lines 2-2 of 2]\ntwo\n"


def test_a_file_that_is_too_long_is_cut_after_a_line_and_says_how_to_read_on(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": FIVE}), caps=Caps(read_bytes=12))
    output = call(workspace, "read_file", path="a.txt")
    assert output.text == "[truncated: lines 1-2 of 5, 8 of 24 bytes; read on with start=3]\none\ntwo\n"
    assert (output.truncated, output.original_bytes, output.is_error) == (True, 24, False)


def test_a_range_that_is_too_long_tells_the_size_of_the_range(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": FIVE}), caps=Caps(read_bytes=12))
    output = call(workspace, "read_file", path="a.txt", start=2)
    assert output.text == "[truncated: lines 2-3 of 5, 10 of 20 bytes; read on with start=4]\ntwo\nthree\n"
    assert output.original_bytes == 20


def test_a_single_line_that_is_too_long_is_cut_between_characters(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "äöü" * 10}), caps=Caps(read_bytes=5))
    output = call(workspace, "read_file", path="a.txt")
    assert output.text == "[truncated: the beginning of line 1 of 1, 4 of 60 bytes]\näö"
    assert output.original_bytes == 60


def test_by_default_64_kib_are_given(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"fits.txt": "x" * 65536, "longer.txt": "x" * 65537}))
    assert not call(workspace, "read_file", path="fits.txt").truncated
    assert call(workspace, "read_file", path="longer.txt").original_bytes == 65537


@given(text=st.text(alphabet="ab\n\r\u2028é", max_size=60), cap=st.integers(1, 40))
def test_reading_on_as_told_gives_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, text: str, cap: int
) -> None:
    folder = filled(tmp_path_factory.mktemp("root"), {"a.txt": text})
    workspace = workspace_tools(folder, caps=Caps(read_bytes=cap))
    lines = lines_of(text)
    longest = max((len(line.encode()) for line in lines), default=0)
    read, start = "", 1
    while start <= len(lines) and longest <= cap:
        output = call(workspace, "read_file", path="a.txt", start=start)
        header, _, rest = output.text.partition("]\n") if output.text.startswith("[") else ("", "", output.text)
        read += rest
        if not output.truncated:
            break
        start = int(header.rpartition("start=")[2])
    assert read == text or longest > cap or not text


@given(data=st.binary(max_size=60), cap=st.integers(3, 40))
def test_what_is_given_of_any_bytes_is_no_longer_than_it_may_be(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cap: int
) -> None:
    data = data.replace(b"\0", b"\n") or b"\n"
    workspace = workspace_tools(filled(tmp_path_factory.mktemp("root"), {"a.txt": data}), caps=Caps(read_bytes=cap))
    output = call(workspace, "read_file", path="a.txt")
    header, _, rest = output.text.partition("]\n") if output.text.startswith("[") else ("", "", output.text)
    assert data.decode("utf-8", "replace").startswith(rest)
    assert len(rest.encode()) <= cap
    assert output.original_bytes == (len(data) if "truncated" in header else None)


def test_only_what_is_shown_is_said_to_be_no_utf_8(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": b"one\ncaf\xe9\n"}))
    assert done(workspace, "read_file", path="a.txt", end=1) == "[lines 1-1 of 2]\none\n"
    assert "not valid UTF-8" in done(workspace, "read_file", path="a.txt", start=2)


def test_a_file_of_many_lines_takes_little_more_memory_than_its_size(tmp_path: Path) -> None:
    data = b"ab\n" * 300_000
    workspace = workspace_tools(filled(tmp_path, {"a.txt": data}))
    with measured() as peak:
        assert done(workspace, "read_file", path="a.txt", start=299_999) == "[lines 299999-300000 of 300000]\nab\nab\n"
    assert peak() < 4 * len(data)


# Where lines are.


@given(text=st.text(alphabet="ab\n", max_size=3 * 8), stretch=st.integers(1, STRIDE_BYTES // 2))
def test_a_line_is_found_where_it_begins(text: str, stretch: int) -> None:
    text = text.replace("a", "a" * stretch)
    data, lines = text.encode(), lines_of(text)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    assert line_count(data) == len(lines)
    assert [line_start(data, number) for number in range(1, len(lines) + 1)] == starts
    assert line_start(data, len(lines) + 1) == len(data)
    assert [data[start:end].decode() for start, end in lines_in(data)] == [line.rstrip("\n") for line in lines]


@given(text=st.text(alphabet="aé€\U0001f600", min_size=1), cut=st.integers(1, 40))
def test_a_character_that_was_cut_is_left_out(text: str, cut: int) -> None:
    kept = whole_characters(text.encode()[:cut]).decode()
    assert text.startswith(kept)
    assert len(text.encode()[:cut]) - len(kept.encode()) < 4


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param("missing.txt", "missing.txt: No such file or directory", id="missing"),
        pytest.param("folder", "folder is a folder; list_dir", id="a-folder"),
        pytest.param(".", ". is a folder; list_dir", id="the-root"),
        pytest.param("image.png", "image.png is a binary file of 12 bytes", id="binary"),
        pytest.param("huge.bin", "too many for this tool", id="too-large"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(tmp_path: Path, path: str, why: str) -> None:
    filled(tmp_path, {"folder/a.txt": "", "image.png": b"\x89PNG\r\n\x1a\n\0\0\0\x0d"})
    with (tmp_path / "huge.bin").open("wb") as sparse:
        sparse.truncate(MAX_FILE_BYTES + 1)
    assert why in refusal(workspace_tools(tmp_path), "read_file", path=path)


def test_a_file_that_may_not_be_read_is_refused() -> None:
    with a_public_folder() as folder:
        filled(folder, {"private.txt": "secret", "closed/a.txt": "secret"})
        (folder / "private.txt").chmod(0)
        (folder / "closed").chmod(0)
        workspace = workspace_tools(folder)
        with without_privileges():
            assert refusal(workspace, "read_file", path="private.txt") == "private.txt: Permission denied"
            assert "Permission denied" in refusal(workspace, "read_file", path="closed/a.txt")
        (folder / "closed").chmod(0o700)
