"""Searching the files of a workspace: literal text, regular expressions and globs."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.ports import ToolOutput
from sideband.tools import matcher, search
from sideband.tools.root import WorkspacePath
from sideband.tools.search import MAX_ALTERNATIVES, MAX_SEARCHED_BYTES, Glob, Match, Matching, literal, regular
from sideband.tools.text import Caps
from sideband.tools.tool import Halt, Halted, Refused
from sideband.tools.workspace import Workspace, workspace_tools
from tests.unit.workspace_tools.calling import (
    Notes,
    a_public_folder,
    acall,
    call,
    done,
    filled,
    measured,
    refusal,
    tool,
    without_privileges,
)
from tests.waiting import let_pass

# Backtracking tries every way of cutting up the a's: not in the lifetime of this machine.
ENDLESS = {"pattern": "(a+)+$", "regex": True}
ENDLESS_TEXT = "a" * 60 + "b\n"
PATIENCE_SECONDS = 30


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    filled(
        tmp_path,
        {
            "a.py": "import os\nprint(os.name)\n",
            "src/b.py": "x = 1\nimport re\r\n",
            "src/c.js": "import x\n",
            ".hidden": "import hidden\n",
            "image.png": b"import\0",
            "empty": "",
            ".git/config": "import\n",
            "node_modules/m/index.js": "import\n",
            ".venv/lib/site.py": "import\n",
        },
    )
    (tmp_path / "link.py").symlink_to("a.py")
    os.mkfifo(tmp_path / "pipe")
    return workspace_tools(tmp_path)


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        pytest.param(
            {"pattern": "import"},
            [".hidden:1: import hidden", "a.py:1: import os", "src/b.py:2: import re", "src/c.js:1: import x"],
            id="literally-everywhere",
        ),
        pytest.param({"pattern": "os.name"}, ["a.py:2: print(os.name)"], id="a-dot-is-a-dot"),
        pytest.param({"pattern": "import", "path": "src", "glob": "*.py"}, ["src/b.py:2: import re"], id="narrowed"),
        pytest.param({"pattern": "import", "glob": "src/*.js"}, ["src/c.js:1: import x"], id="with-a-glob-of-a-path"),
        pytest.param({"pattern": "import", "path": "a.py"}, ["a.py:1: import os"], id="in-one-file"),
        pytest.param(
            {"pattern": "import", "path": "node_modules"}, ["node_modules/m/index.js:1: import"], id="asked-for"
        ),
        pytest.param(
            {"pattern": r"^import (os|re)$", "regex": True},
            ["a.py:1: import os", "src/b.py:2: import re"],
            id="a-regex",
        ),
        pytest.param({"pattern": r"(?i)X = \d", "regex": True}, ["src/b.py:1: x = 1"], id="a-regex-with-a-flag"),
        pytest.param({"pattern": "import", "glob": None, "path": "src/c.js"}, ["src/c.js:1: import x"], id="null-glob"),
    ],
)
def test_lines_that_match_are_found(workspace: Workspace, args: dict[str, object], lines: list[str]) -> None:
    output = call(workspace, "search", **args)
    header, *found = output.text.splitlines()
    files = {line.partition(":")[0] for line in lines}
    assert found == lines
    assert header == f"[matches: {len(lines)}, files with one: {len(files)}]"
    assert output.data == {"matches": len(lines), "files": len(files)}
    assert not output.truncated


def test_no_match_says_how_many_files_there_were(workspace: Workspace) -> None:
    assert done(workspace, "search", pattern="not there") == "[no match, files searched: 4]\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param({"pattern": "a\nb"}, "line break", id="over-lines"),
        pytest.param({"pattern": "(a", "regex": True}, "not a valid regular expression: missing )", id="not-a-regex"),
        pytest.param(
            {"pattern": "a{99999999999999999999}", "regex": True},
            "not a valid regular expression",
            id="too-large-a-regex",
        ),
        pytest.param({"pattern": "a", "path": ".git"}, "git's own data", id="git"),
        pytest.param({"pattern": "a", "path": "missing"}, "missing: No such file", id="missing"),
        pytest.param({"pattern": "a", "glob": "{a,b}" * 10}, "glob", id="a-glob-of-too-many"),
    ],
)
def test_what_cannot_be_searched_is_refused(workspace: Workspace, args: dict[str, object], why: str) -> None:
    assert why in refusal(workspace, "search", **args)


@pytest.mark.parametrize("regex", [False, True])
def test_all_matches_are_counted_although_some_are_shown(tmp_path: Path, *, regex: bool) -> None:
    filled(tmp_path, {f"{name}.txt": "match\n" * 5 for name in "ab"})
    workspace = workspace_tools(tmp_path, caps=Caps(search_matches=3))
    output = call(workspace, "search", pattern="match", regex=regex)
    assert output.text == (
        "[truncated: 3 of 10 matches in 2 files, 45 of 150 bytes; narrow the pattern, path or glob]\n"
        "a.txt:1: match\na.txt:2: match\na.txt:3: match\n"
    )
    assert (output.original_bytes, output.data) == (150, {"matches": 10, "files": 2})


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param("é" * 30 + "match" + "x" * 30, "…ééééématchxxxxxxxxxx…", id="in-the-middle"),
        pytest.param("match" + "x" * 30, "matchxxxxxxxxxxxxxxx…", id="at-the-beginning"),
        pytest.param("x" * 30 + "match", "…xxxxxxxxxxxxxxxmatch", id="at-the-end"),
    ],
)
def test_a_long_line_is_cut_around_its_match_and_says_so(tmp_path: Path, line: str, shown: str, *, regex: bool) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": line}), caps=Caps(line_characters=20))
    output = call(workspace, "search", pattern="match", regex=regex)
    header, found = output.text.splitlines()
    assert found == f"a.txt:1: {shown}"
    assert header.startswith("[truncated: 1 of 1 matches")
    assert output.original_bytes == len(f"a.txt:1: {line}\n".encode())


def test_what_was_not_searched_is_counted() -> None:
    with a_public_folder() as folder:
        filled(folder, {"a.txt": "match", "private.txt": "match", "closed/b.txt": "match"})
        with (folder / "huge.txt").open("wb") as sparse:
            sparse.truncate(MAX_SEARCHED_BYTES + 1)
        (folder / "private.txt").chmod(0)
        (folder / "closed").chmod(0)
        workspace = workspace_tools(folder)
        with without_privileges():
            answer = done(workspace, "search", pattern="match")
        (folder / "closed").chmod(0o700)
    header = "[matches: 1, files with one: 1; too large or unreadable, not searched: 3]"
    assert answer == f"{header}\na.txt:1: match\n"


def test_text_in_another_encoding_is_searched(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": b"caf\xe9 match\n"}))
    assert done(workspace, "search", pattern="match").endswith("a.txt:1: caf\ufffd match\n")


def test_every_line_of_a_file_can_match(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "one\n\n\u2028\n\nlast"}))
    found = done(workspace, "search", pattern="^", regex=True).split("\n")[1:-1]
    assert [line.partition(": ")[0] for line in found] == [f"a.txt:{number}" for number in range(1, 6)]


@given(text=st.text(alphabet="ab\né\r", max_size=30), pattern=st.text(alphabet="abé", min_size=1, max_size=3))
def test_a_literal_text_is_found_where_a_regular_expression_finds_it(text: str, pattern: str) -> None:
    data = text.encode()
    with literal(pattern) as matches, regular_here(pattern) as others:
        assert [*matches(data)] == [*others(data)]


@contextmanager
def regular_here(pattern: str) -> Iterator[Matching]:
    """The matcher in this process."""
    yield lambda data: map(
        Match._make, matcher.FOUND.iter_unpack(served(matcher.frame(pattern.encode()), matcher.frame(data))[1])
    )


@pytest.mark.parametrize("regex", [False, True])
def test_a_file_of_many_matches_takes_little_more_memory_than_its_size(tmp_path: Path, *, regex: bool) -> None:
    data = b"ab\n" * 100_000
    workspace = workspace_tools(filled(tmp_path, {"a.txt": data}))
    with measured() as peak:
        assert call(workspace, "search", pattern="a", regex=regex).data["matches"] == 100_000
    # The matcher tells twelve bytes of each.
    assert peak() < 12 * len(data)


def test_a_search_stops_also_inside_a_file_of_many_matches() -> None:
    halt, findings = Halt(), search._Findings(Caps())

    def many() -> Iterator[Match]:
        for number in range(1, 100):
            yield Match(number, 0, 0)
            halt.set()

    with pytest.raises(Halted):
        findings.add(WorkspacePath(("a.txt",)), b"match\n", many(), halt)
    assert findings.output().data["matches"] == 1


def test_a_file_that_goes_while_others_are_searched_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": "match", "b.txt": "match"}))
    open_file = os.open

    def deleting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "a.txt":
            (tmp_path / "b.txt").unlink()
        return open_file(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", deleting)
    assert done(workspace, "search", pattern="match").splitlines()[1:] == ["a.txt:1: match"]


# Patterns that never end.


def test_a_pattern_that_takes_for_ever_is_stopped_and_what_was_found_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = workspace_tools(
        filled(tmp_path, {"a.txt": "aaa\n", "b.txt": ENDLESS_TEXT}), caps=Caps(search_seconds=PATIENCE_SECONDS)
    )
    open_file, reached = os.open, threading.Event()

    def noting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "b.txt":
            reached.set()
        return open_file(path, flags, mode, dir_fd=dir_fd)

    async def scenario() -> ToolOutput:
        task = asyncio.create_task(acall(workspace, "search", **ENDLESS))
        assert await asyncio.to_thread(reached.wait, PATIENCE_SECONDS)
        let_pass(PATIENCE_SECONDS)
        return await task

    monkeypatch.setattr(os, "open", noting)
    output = asyncio.run(scenario())
    assert output.is_error
    assert output.text == (
        f"[stopped after {PATIENCE_SECONDS} s, there may be more; narrow the search; matches: 1, files with one: 1]\n"
        "a.txt:1: aaa\n"
    )


def test_the_event_loop_goes_on_while_a_pattern_takes_for_ever_and_cancelling_ends_it(tmp_path: Path) -> None:
    workspace = workspace_tools(filled(tmp_path, {"a.txt": ENDLESS_TEXT}), caps=Caps(search_seconds=600))

    async def scenario() -> None:
        task = asyncio.create_task(tool(workspace, "search").call(ENDLESS, Notes()))
        # Only a loop that is free gets an answer from another search meanwhile.
        other = await acall(workspace, "search", pattern="b")
        assert other.data["matches"] == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_matcher_that_has_ended_is_reported(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MATCHER", ("true",))
    assert "try a simpler pattern" in refusal(workspace, "search", pattern="x", regex=True)


def test_a_matcher_without_a_parent_ends_when_its_time_is_used_up() -> None:
    requests = matcher.frame(b"(a+)+$") + matcher.frame(ENDLESS_TEXT.encode())
    ended = subprocess.run([*search.MATCHER, "1"], input=requests, capture_output=True, check=False)
    assert ended.returncode in {-signal.SIGXCPU, -signal.SIGKILL}
    assert ended.stdout == matcher.frame(b"")


def test_a_matcher_is_not_asked_after_a_halt() -> None:
    halt = Halt()
    with regular("x", halt, seconds=10) as matches:
        halt.set()
        with pytest.raises(Halted):
            matches(b"x")


def test_no_matcher_is_asked_anything_when_the_halt_came_first() -> None:
    halt = Halt()
    halt.set()
    with pytest.raises(Halted), regular("x", halt, seconds=10):
        pytest.fail("entered although halted")


# The matcher's side of the conversation.


def served(*requests: bytes) -> list[bytes]:
    answers = BytesIO()
    matcher.serve(BytesIO(b"".join(requests)), answers)
    answers.seek(0)
    return list(iter(lambda: matcher.receive(answers), None))


def found(*matches: tuple[int, int, int]) -> bytes:
    return b"".join(matcher.FOUND.pack(*match) for match in matches)


@pytest.mark.parametrize(
    ("requests", "answers"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([b"o."], [b""], id="a-pattern"),
        pytest.param([b"("], [b"missing ), unterminated subpattern at position 0"], id="no-pattern"),
        pytest.param([b"o.", b"one\nno\nfoo\r\n", b""], [b"", found((1, 0, 0), (3, 7, 1)), b""], id="files"),
        pytest.param(["é$".encode(), "ß\naé\r\nb".encode()], [b"", found((2, 3, 1))], id="columns-are-characters"),
        pytest.param([b"^$", b"\n\na\n\n"], [b"", found((1, 0, 0), (2, 1, 0), (4, 4, 0))], id="empty-lines"),
        pytest.param([b"a$", b"a\r\na\r"], [b"", found((1, 0, 0))], id="no-line-end-behind-the-last"),
    ],
)
def test_the_matcher_answers_frame_by_frame(requests: list[bytes], answers: list[bytes]) -> None:
    assert served(*map(matcher.frame, requests)) == answers


@pytest.mark.parametrize("kept", [1, 8, 9])
def test_a_frame_that_is_cut_off_is_the_end(kept: int) -> None:
    assert served(matcher.frame(b"abc")[:kept]) == []


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        pytest.param("*.py", ["a.py", "src/deep/a.py", ".py"], ["a.pyc", "a.py/b"], id="a-name-anywhere"),
        pytest.param("src/*.py", ["src/a.py"], ["src/deep/a.py", "a.py", "lib/src/a.py"], id="a-path-from-the-root"),
        pytest.param("./src/*.py", ["src/a.py"], ["src/deep/a.py"], id="with-a-dot"),
        pytest.param("/src/*.py", ["src/a.py"], ["src/deep/a.py"], id="with-a-slash"),
        pytest.param("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.js"], id="any-folders"),
        pytest.param("**/test_*", ["test_a", "x/y/test_a"], ["x/a"], id="any-folders-first"),
        pytest.param("src/**", ["src/a", "src/x/a"], ["lib/a"], id="everything-below"),
        pytest.param("**", ["a", "x/a"], [], id="everything"),
        pytest.param("**/**/a", ["a", "x/y/a"], ["b"], id="any-folders-twice"),
        pytest.param("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js", "a.{ts,tsx}"], id="either"),
        pytest.param("{src,lib}/{a,b}.py", ["src/a.py", "lib/b.py"], ["src/c.py"], id="either-twice"),
        pytest.param("a.{p{y,l},c}", ["a.py", "a.pl", "a.c"], ["a.p"], id="either-inside-either"),
        pytest.param("?.[ch]", ["a.c", "b.h"], ["ab.c", "a.o"], id="one-character"),
        pytest.param("[!a].c", ["b.c"], ["a.c"], id="not-this-character"),
        pytest.param("*.PY", ["a.PY"], ["a.py"], id="upper-and-lower-case-differ"),
        pytest.param("a{b", ["a{b"], ["ab"], id="a-brace-that-is-not-closed"),
    ],
)
def test_a_glob_matches(glob: str, matching: list[str], others: list[str]) -> None:
    compiled = Glob(glob)
    assert [path for path in matching + others if compiled.matches(path.split("/"))] == matching


def test_a_glob_that_stands_for_too_many_is_refused() -> None:
    with pytest.raises(Refused, match=str(MAX_ALTERNATIVES)):
        Glob("{a,b}" * 10)


def test_a_glob_with_many_stars_is_answered() -> None:
    # Tried choice by choice, either of these would take practically for ever.
    assert not Glob("*a" * 30 + "b").matches(["a" * 200])
    assert not Glob("**/a/" * 20 + "b").matches(["a"] * 60)
