"""Editing: one exact place or a reason why not."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sideband.tools.workspace import workspace_tools
from tests.unit.workspace_tools.calling import Notes, acall, call, done, filled, measured, refusal

SOURCE = """\
def greet(name):
    if name:
        return "hello " + name
    return "hello"


def part(name):
    return "bye " + name
"""


def edited(folder: Path, content: str | bytes, **args: object) -> bytes:
    """What is in a file of this content after it was read and edited."""
    workspace = workspace_tools(filled(folder, {"a.py": content}))
    done(workspace, "read_file", path="a.py")
    done(workspace, "edit_file", path="a.py", **args)
    return (folder / "a.py").read_bytes()


def why_not(folder: Path, content: str | bytes, **args: object) -> str:
    """Why a file of this content cannot be edited like this; it is still as it was."""
    workspace = workspace_tools(filled(folder, {"a.py": content}))
    before = (folder / "a.py").read_bytes()
    done(workspace, "read_file", path="a.py")
    answer = refusal(workspace, "edit_file", path="a.py", **args)
    assert (folder / "a.py").read_bytes() == before
    return answer


def test_the_only_occurrence_is_replaced(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": SOURCE}))
    notes = Notes()
    done(workspace, "read_file", path="a.py")
    output = call(workspace, "edit_file", notes, path="a.py", old_string='"bye "', new_string='"good bye "')
    assert output.text == "edited a.py, 1 replacement at line 8"
    assert output.data == {"path": "a.py", "replacements": 1}
    assert notes.applied_changes == [output.text]
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == SOURCE.replace('"bye "', '"good bye "')


def test_every_occurrence_is_replaced_when_asked_for(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": SOURCE}))
    done(workspace, "read_file", path="a.py")
    output = call(workspace, "edit_file", path="a.py", old_string="name", new_string="who", replace_all=True)
    assert output.text == "edited a.py, 5 replacements at lines 1, 2, 3, 7, 8"
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == SOURCE.replace("name", "who")


def test_only_the_first_lines_of_many_are_listed(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": "x\n" * 1000}))
    done(workspace, "read_file", path="a.py")
    answer = done(workspace, "edit_file", path="a.py", old_string="x", new_string="y", replace_all=True)
    assert answer == "edited a.py, 1000 replacements at lines 1, 2, 3, 4, 5 and more"


def test_text_can_be_deleted(tmp_path: Path) -> None:
    assert edited(tmp_path, "abc", old_string="b", new_string="") == b"ac"


def test_bytes_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    assert edited(tmp_path, b"caf\xe9 one\n", old_string="one", new_string="deux") == b"caf\xe9 deux\n"


def test_several_edits_need_one_read(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": "one two"}))
    done(workspace, "read_file", path="a.py")
    done(workspace, "edit_file", path="a.py", old_string="one", new_string="1")
    done(workspace, "edit_file", path="a.py", old_string="two", new_string="2")
    assert (tmp_path / "a.py").read_bytes() == b"1 2"


@pytest.mark.parametrize(
    ("content", "old", "why"),
    [
        pytest.param(
            SOURCE,
            "return",
            "old_string is 3 times in a.py, at lines 3, 4, 8; add lines around it until it is there once, or set replace_all",
            id="several-times",
        ),
        pytest.param("aaa", "aa", "old_string is 2 times in a.py, at line 1;", id="overlapping"),
        pytest.param("x\n" * 7, "x", "is 7 times in a.py, at lines 1, 2, 3, 4, 5 and more;", id="many-times"),
        pytest.param(
            SOURCE,
            "if name:\n    return",
            "old_string is not in a.py; line 2, 'if name:', is like its first line, so white space or the following lines differ",
            id="other-indentation",
        ),
        pytest.param(
            SOURCE,
            "\ndef great(name):\n",
            "old_string is not in a.py; nearest is line 1, 'def greet(name):',",
            id="a-line-like-it",
        ),
        pytest.param(SOURCE, "while 1 < 2", "a.py; no line of it is like its first line", id="nothing-like-it"),
        pytest.param("x", " \n ", "no line of it is like its first line", id="only-white-space"),
        pytest.param(
            "a = 1\r\nb = 2\r\n",
            "a = 1\nb = 2\n",
            r"the lines of the file end in \r\n, those of old_string in \n",
            id="crlf",
        ),
        pytest.param("x = new", "new", "the same; there is nothing to change", id="no-change"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_reason(tmp_path: Path, content: str, old: str, why: str) -> None:
    assert why in why_not(tmp_path, content, old_string=old, new_string="new")


def test_a_hint_about_a_long_file_takes_little_more_memory_than_its_size(tmp_path: Path) -> None:
    data = b"ab\n" * 300_000
    workspace = workspace_tools(filled(tmp_path, {"a.txt": data}))
    done(workspace, "read_file", path="a.txt", end=1)
    with measured() as peak:
        assert "300000 times" in refusal(workspace, "edit_file", path="a.txt", old_string="b", new_string="c")
        assert "no line of it" in refusal(workspace, "edit_file", path="a.txt", old_string="xyz", new_string="c")
    assert peak() < 4 * len(data)


def test_a_hint_shows_no_more_of_a_long_line_than_it_needs(tmp_path: Path) -> None:
    assert len(why_not(tmp_path, "x" * 10_000, old_string="x" * 9_000 + "y", new_string="")) < 400


def test_a_file_that_was_not_read_is_not_edited(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": "x = 1"}))
    answer = refusal(workspace, "edit_file", path="a.py", old_string="1", new_string="2")
    assert "a.py was not read yet; read_file it first" in answer


def test_a_file_that_changed_since_it_was_read_is_not_edited(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.py": "x = 1"}))
    done(workspace, "read_file", path="a.py")
    filled(tmp_path, {"a.py": "x = 1 # by another process"})
    answer = refusal(workspace, "edit_file", path="a.py", old_string="1", new_string="2")
    assert answer == "a.py has changed since it was read; read_file it again"


@pytest.mark.parametrize("path", ["missing.py", "."])
def test_a_file_that_is_not_there_is_not_edited(tmp_path: Path, path: str) -> None:
    assert refusal(workspace_tools(tmp_path), "edit_file", path=path, old_string="1", new_string="2")


def test_concurrent_edits_of_one_file_are_all_made(tmp_path: Path) -> None:
    lines = [f"line {number:03}\n" for number in range(40)]
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "".join(lines)}))

    async def scenario() -> list[str]:
        await acall(workspace, "read_file", path="a.txt")
        edits = (
            acall(workspace, "edit_file", path="a.txt", old_string=line, new_string=line.upper()) for line in lines
        )
        return [output.text for output in await asyncio.gather(*edits) if output.is_error]

    assert asyncio.run(scenario()) == []
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "".join(lines).upper()
    assert workspace.changes() == ()


def test_of_concurrent_edits_of_the_same_text_one_is_made(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "old"}))

    async def scenario() -> list[bool]:
        await acall(workspace, "read_file", path="a.txt")
        edits = (
            acall(workspace, "edit_file", path="a.txt", old_string="old", new_string=f"new {number}")
            for number in range(8)
        )
        return [output.is_error for output in await asyncio.gather(*edits)]

    assert sorted(asyncio.run(scenario())) == [False] + [True] * 7


TEXTS = st.text(alphabet="ab\n\r é\u2028\U0001f600", max_size=30)


@given(before=TEXTS, old=TEXTS, after=TEXTS, new=TEXTS)
def test_a_unique_replacement_is_that_of_str_replace(
    tmp_path_factory: pytest.TempPathFactory, before: str, old: str, after: str, new: str
) -> None:
    content = before + old + after
    assume(old and old != new)
    assume(content.find(old, content.find(old) + 1) < 0)
    result = edited(tmp_path_factory.mktemp("root"), content, old_string=old, new_string=new)
    assert result.decode("utf-8") == content.replace(old, new) == before + new + after


@given(content=TEXTS, old=TEXTS.filter(bool), new=TEXTS)
def test_replacing_all_is_str_replace_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, content: str, old: str, new: str
) -> None:
    assume(old != new)
    folder = tmp_path_factory.mktemp("root")
    args = {"old_string": old, "new_string": new, "replace_all": True}
    if old in content:
        assert edited(folder, content, **args).decode("utf-8") == content.replace(old, new)
    else:
        assert "not in a.py" in why_not(folder, content, **args)
