"""Files: each change of content is told once, what is ignored or unchanged is not, and many changes stay few notices."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import watchfiles
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption
from sideband.watch import contents as contents_module
from sideband.watch import events
from sideband.watch.contents import ChangedFile, ChangeKind, Contents
from sideband.watch.files import FileWatcher, file_notices
from sideband.watch.ignore import IgnoreRules
from sideband.watch.notice import MAX_SEPARATE
from sideband.watch.text import MAX_BODY_BYTES, MAX_KEY_BYTES
from tests.watching import Watching, filled, replaced, run, watching

FAST = 0.03


def keys_after(root: Path, act: Callable[[], object], *, prepare: Callable[[], object] = lambda: None) -> set[str]:
    """The keys of what is told of `act`; `prepare` is done and told before it."""

    async def scenario() -> set[str]:
        async with watching(FileWatcher(root, debounce_seconds=FAST)) as seen:
            filled(root, {"first": "1"})
            prepare()
            await _all_told(seen, "first")
            act()
            filled(root, {"last": "1"})
            return await _all_told(seen, "last")

    return run(scenario())


async def _all_told(seen: Watching, marker: str) -> set[str]:
    keys = set()
    while (key := (await seen.next()).dedupe_key) != f"file_changed:{marker}":
        keys.add(key.removeprefix("file_changed:"))
    while not seen.told.empty():
        keys.add(seen.told.get_nowait().dedupe_key.removeprefix("file_changed:"))
    return keys


# What is told.


@pytest.mark.requirement("watch:files:change-told")
@pytest.mark.parametrize(
    ("act", "body"),
    [
        pytest.param(
            lambda path: path.write_text("new", encoding="utf-8"),
            "src/lib.rs changed on disk; re-read it before editing.",
            id="a-change",
        ),
        pytest.param(
            lambda path: replaced(path, "new"), "src/lib.rs changed on disk; re-read it before editing.", id="a-rename"
        ),
        pytest.param(
            lambda path: path.unlink(), "src/lib.rs was deleted on disk; do not expect it to exist.", id="a-deletion"
        ),
    ],
)
def test_a_change_is_told_with_what_to_do(tmp_path: Path, act: Callable[[Path], object], body: str) -> None:
    path = filled(tmp_path, {"src/lib.rs": "old"}) / "src" / "lib.rs"

    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path)) as seen:
            act(path)
            notice = await seen.next()
        assert notice.body == body
        assert notice.dedupe_key == "file_changed:src/lib.rs"
        assert notice.ttl_turns == 2
        assert notice.tags == ("workspace", "file_changed")
        assert notice.uris == (path.as_uri(),)

    run(scenario())


@pytest.mark.requirement("watch:files:change-told")
def test_a_new_file_is_told_as_created(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {"a/b.txt": "x"})
            assert await seen.bodies(1) == ["a/b.txt was created on disk; read it before editing."]
            (tmp_path / "a" / "b.txt").write_text("y", encoding="utf-8")
            assert await seen.bodies(1) == ["a/b.txt changed on disk; re-read it before editing."]

    run(scenario())


@pytest.mark.requirement("watch:files:constant-change-told")
def test_a_file_that_changes_all_the_time_is_told_all_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            number = 0
            while seen.told.empty():
                number += 1
                filled(tmp_path, {"a.log": str(number)})
                await asyncio.sleep(FAST / 10)
            assert (await seen.next()).dedupe_key == "file_changed:a.log"

    run(scenario())


@pytest.mark.requirement("watch:files:directory-moves")
def test_a_directory_that_is_moved_is_told_file_by_file(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    filled(root / "old", {"a.txt": "a", "sub/b.txt": "b"})
    filled(outside, {"c.txt": "c", "sub/d.txt": "d"})

    def act() -> None:
        (root / "old").rename(tmp_path / "gone")
        outside.rename(root / "new")

    assert keys_after(root, act) == {"old/a.txt", "old/sub/b.txt", "new/c.txt", "new/sub/d.txt"}


# What is not told.


def _touch(root: Path) -> None:
    os.utime(root / "a.txt", (1, 1))


def _rewrite(root: Path) -> None:
    (root / "a.txt").write_text("same", encoding="utf-8")


def _recreate(root: Path) -> None:
    (root / "a.txt").unlink()
    _rewrite(root)


def _come_and_go(root: Path) -> None:
    (root / "new.txt").write_text("x", encoding="utf-8")
    (root / "new.txt").unlink()


@pytest.mark.requirement("watch:files:no-op-save-is-silent")
@pytest.mark.parametrize(
    "save",
    [
        pytest.param(_rewrite, id="the-same-bytes"),
        pytest.param(_touch, id="another-time"),
        pytest.param(lambda root: replaced(root / "a.txt", "same"), id="a-rename-with-the-same-bytes"),
        pytest.param(_recreate, id="deleted-and-created-with-the-same-bytes"),
        pytest.param(lambda root: (root / "a.txt").chmod(0o600), id="other-permissions"),
        pytest.param(_come_and_go, id="a-temporary-file"),
        pytest.param(lambda root: (root / "empty").mkdir(), id="an-empty-directory"),
        pytest.param(lambda root: os.mkfifo(root / "pipe"), id="a-named-pipe"),
    ],
)
def test_a_save_that_changes_no_bytes_is_silent(tmp_path: Path, save: Callable[[Path], object]) -> None:
    assert keys_after(tmp_path, lambda: save(tmp_path), prepare=lambda: _rewrite(tmp_path)) == set()


@pytest.mark.requirement("watch:files:no-op-save-is-silent")
def test_the_content_at_the_start_is_known(tmp_path: Path) -> None:
    filled(tmp_path, {"a.txt": "same", "b.txt": "old", "big.bin": "x"})
    contents = Contents(tmp_path, IgnoreRules(tmp_path))
    # As if the watch had begun a while after the files were written.
    contents.record(time.time_ns() + 10 * contents_module.START_SLACK_NS)
    while not contents.hashed:
        contents.hash_some(0.01)
    _rewrite(tmp_path)
    filled(tmp_path, {"b.txt": "new"})
    assert contents.compare(["a.txt", "b.txt"]) == (ChangedFile("b.txt", ChangeKind.CHANGED),)


@pytest.mark.requirement("watch:files:unknown-content-counts-as-changed")
@pytest.mark.parametrize("limit", ["MAX_START_BYTES", "MAX_HASHED_BYTES"])
def test_what_could_not_be_hashed_at_the_start_counts_as_changed(
    tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents_module, limit, 0)
    filled(tmp_path, {"a.txt": "same"})
    contents = Contents(tmp_path, IgnoreRules(tmp_path))
    contents.record(time.time_ns() + 10 * contents_module.START_SLACK_NS)
    while not contents.hashed:
        contents.hash_some(0.01)
    _rewrite(tmp_path)
    _touch(tmp_path)
    assert contents.compare(["a.txt"]) == (ChangedFile("a.txt", ChangeKind.CHANGED),)


@pytest.mark.requirement("watch:files:unknown-content-counts-as-changed")
def test_a_file_that_was_changed_since_the_start_is_not_hashed_as_it_was_before(tmp_path: Path) -> None:
    contents = Contents(tmp_path, IgnoreRules(tmp_path))
    start = time.time_ns()
    filled(tmp_path, {"a.txt": "changed after the start"})
    contents.record(start)
    while not contents.hashed:
        contents.hash_some(0.01)
    assert contents.compare(["a.txt"]) == (ChangedFile("a.txt", ChangeKind.CHANGED),)


@pytest.mark.requirement("watch:files:unknown-content-counts-as-changed")
def test_of_more_files_than_are_remembered_a_new_one_counts_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents_module, "MAX_FILES", 2)
    contents = Contents(filled(tmp_path, {"a": "", "b": "", "c": ""}), IgnoreRules(tmp_path))
    contents.record(time.time_ns())
    filled(tmp_path, {"d": "x"})
    assert contents.compare(["d"]) == (ChangedFile("d", ChangeKind.CHANGED),)


SILENT: Final = {
    "git itself": ".git/HEAD",
    "a nested repository": "vendor/.git/config",
    "gitignore": "out.log",
    "below an ignored directory": "build/a/b.o",
    "nested gitignore": "sub/only.here",
    "info/exclude": "mine.txt",
    "node_modules": "web/node_modules/a/index.js",
    "pycache": "pkg/__pycache__/a.pyc",
    "venv": ".venv/lib/a.py",
    "swap file": "src/.a.py.swp",
    "backup file": "src/a.py~",
}
TOLD: Final = {
    "gitignore takes back": "keep.log",
    "nested gitignore elsewhere": "only.here",
    "nested gitignore takes back": "sub/x.log",
    "source": "src/a.py",
}


@pytest.mark.requirement("watch:files:ignored-is-silent")
def test_what_git_ignores_and_caches_are_silent(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    filled(
        tmp_path,
        {
            ".gitignore": "*.log\n!keep.log\nbuild/\n",
            "sub/.gitignore": "only.here\n!x.log\n",
            ".git/info/exclude": "mine.txt\n",
            "src/b.py": "",
        },
    )
    paths = [*SILENT.values(), *TOLD.values()]
    assert keys_after(tmp_path, lambda: filled(tmp_path, dict.fromkeys(paths, "x"))) == {*TOLD.values()}


@pytest.mark.requirement("watch:files:gitignore-change")
def test_a_changed_gitignore_takes_effect(tmp_path: Path) -> None:
    filled(tmp_path, {".gitignore": "*.a\n", "x.a": "1", "x.b": "1"})

    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {".gitignore": "*.b\n"})
            assert (await seen.next()).dedupe_key == "file_changed:.gitignore"
            filled(tmp_path, {"x.a": "2", "x.b": "2", "y.a": "2"})
            assert sorted(await seen.bodies(2)) == [
                "x.a changed on disk; re-read it before editing.",
                "y.a was created on disk; read it before editing.",
            ]

    run(scenario())


@pytest.mark.requirement("watch:files:named-root-is-watched")
def test_the_rules_of_the_enclosing_repository_apply_but_do_not_hide_what_was_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    filled(tmp_path, {".gitignore": "*.log\nbuild/\nsrc/gen/\n", "src/a.py": "", "build/a.txt": ""})
    inner = IgnoreRules(tmp_path / "src")
    assert inner.ignores("x.log")
    assert inner.ignores("gen/a.py")
    assert not inner.ignores("a.py")
    assert not IgnoreRules(tmp_path / "build").ignores("a.txt")


@pytest.mark.requirement("watch:files:ignored-is-silent")
def test_a_worktree_uses_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    main = tmp_path / "main"
    subprocess.run(["git", "init", "-q", main], check=True)
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    subprocess.run(["git", "worktree", "add", "-q", tmp_path / "tree"], cwd=main, check=True, capture_output=True)
    filled(main, {".git/info/exclude": "mine.txt\n"})
    assert IgnoreRules(tmp_path / "tree").ignores("mine.txt")


@pytest.mark.requirement("watch:files:links-not-followed")
def test_a_directory_that_is_reached_through_a_link_is_not_watched(tmp_path: Path) -> None:
    real = filled(tmp_path / "outside", {"a.txt": "x"})
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(real)
    assert keys_after(root, lambda: filled(real, {"a.txt": "y"})) == set()


NAMES = st.sampled_from(["a", "b", "a.x", "b.x", "d", "aabab", "\u2028a"])
LINES = [
    *(
        "a",
        "*.x",
        "!a.x",
        "/a",
        "d/",
        "!d/",
        "d/*",
        "!d/b",
        "**/b",
        "a/**",
        "/*",
        "!/d",
        "b.?",
        "\\!a",
        "*",
        "*/",
        "!*/",
    ),
    *(
        "!*.x",
        "!a/b/",
        "**",
        "**/",
        "a/**/",
        "d/**/b",
        "/d/**",
        "a*a*b",
        "*a*b*",
        "?a*b",
        "[ab]*[!x]",
        "d/a*a*b/*",
        "**/**/a",
    ),
    *("!/*/", "/*/", "!**/", "d/**/*.x", "\x0ca", "\u2028a", "a\r", "# a", "!"),
]
PATTERNS = st.lists(st.sampled_from(LINES), max_size=5)
WHITELIST = ["*", "!*/", "!*.x"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@pytest.mark.requirement("watch:files:ignored-is-silent")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    outer=PATTERNS,
    inner=PATTERNS,
    exclude=PATTERNS,
    paths=st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1),
)
@example(outer=WHITELIST, inner=[], exclude=[], paths={"d/a.x", "d/a", "a.x", "b"})
@example(outer=["a/**", "!a/b/", "!a/b/a"], inner=[], exclude=[], paths={"a/b/a", "a/b/b", "a/d"})
@example(outer=[], inner=[], exclude=["/d/a", "/b"], paths={"d/a/b", "d/b", "b"})
@example(outer=["\ufeffa"], inner=["\ufeffa"], exclude=[], paths={"a", "d/a"})
def test_the_rules_are_those_of_git(
    repository: Path, outer: list[str], inner: list[str], exclude: list[str], paths: set[str]
) -> None:
    for entry in repository.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    files = {".gitignore": outer, "d/.gitignore": inner, ".git/info/exclude": exclude}
    filled(repository, {name: "\n".join(lines) for name, lines in files.items()})
    given_paths = sorted(path for path in paths if path != "d")
    ignored = _ignored_by_git(repository, given_paths)
    rules = IgnoreRules(repository)
    assert {path for path in given_paths if rules.ignores(path)} == ignored
    if not _ignored_by_git(repository, ["d/"]):
        below = {path.removeprefix("d/") for path in given_paths if path.startswith("d/")}
        inner_rules = IgnoreRules(repository / "d")
        assert {f"d/{path}" for path in below if inner_rules.ignores(path)} == {
            path for path in ignored if path.startswith("d/")
        }


def _ignored_by_git(repository: Path, paths: Sequence[str]) -> set[str]:
    answer = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repository,
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    return {*filter(None, answer.stdout.split("\0"))}


@pytest.mark.requirement("watch:files:hostile-patterns")
def test_no_pattern_makes_matching_slow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hostile = ["a*" * 30 + "b", "*a" * 100 + "*b", "a/**/" * 20 + "b", "**/" * 200 + "b", "*.log"]
    rules = IgnoreRules(filled(tmp_path, {".gitignore": "\n".join(hostile)}))
    began = time.monotonic()
    assert not rules.ignores("a" * 250)
    assert not rules.ignores("/".join("a" * 100))
    assert rules.ignores("a" * 250 + "b")
    assert rules.ignores("x.log")
    assert time.monotonic() - began < 2
    (record,) = caplog.records
    assert record.getMessage().startswith("a pattern with more than 3 ** is not used: 'a/**/a/**/")


# Many changes, and names that are no text.


@pytest.mark.requirement("watch:files:many-collapse")
def test_many_changes_are_one_notice_for_each_top_directory(tmp_path: Path) -> None:
    names = (
        [f"src/m{number:03}.py" for number in range(250)] + [f"docs/d/{number}.md" for number in range(49)] + ["top"]
    )

    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path)) as seen:
            filled(tmp_path, dict.fromkeys(names, "x"))
            told = {notice.dedupe_key: notice for notice in [await seen.next() for _ in range(3)]}
        assert told["file_changed:src/"].body == (
            "250 files in src/ were created on disk; read them before editing: src/m000.py, src/m001.py, src/m002.py, "
            "src/m003.py, src/m004.py and 245 more."
        )
        assert told["file_changed:docs/"].body.startswith("49 files in docs/ were created on disk;")
        assert told["file_changed:./"].body.startswith("1 file directly in the watched directory was created on disk;")
        uris = {uri for notice in told.values() for uri in notice.uris}
        assert uris == {(tmp_path / name).as_uri() for name in names}

    run(scenario())


SEGMENT = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=120).filter(
    lambda name: name not in {".", ".."}
)
CHANGES = st.lists(
    st.builds(ChangedFile, st.lists(SEGMENT, min_size=1, max_size=8).map("/".join), st.sampled_from(ChangeKind)),
    max_size=60,
    unique_by=lambda change: change.path,
)


@pytest.mark.requirement("watch:files:many-collapse")
@settings(deadline=None)
@given(CHANGES)
def test_notices_are_bounded_and_account_for_every_file(changes: list[ChangedFile]) -> None:
    folder = Path("/w")
    notices = list(file_notices(folder, changes))
    uris = [uri for notice in notices for uri in notice.uris]
    assert sorted(uris) == sorted((folder / change.path).as_uri() for change in changes)
    if len(changes) <= MAX_SEPARATE:
        assert len(notices) == len(changes)
    else:
        assert len(notices) == len({change.path.partition("/")[0] if "/" in change.path else "." for change in changes})
        assert sum(int(notice.body.split()[0].replace(",", "")) for notice in notices) == len(changes)
    assert len({notice.dedupe_key for notice in notices}) == len(notices)
    for notice in notices:
        assert len(notice.body.encode()) <= MAX_BODY_BYTES
        assert len(notice.dedupe_key.encode()) <= MAX_KEY_BYTES
        assert (notice.body + notice.dedupe_key).isprintable()


@pytest.mark.requirement("watch:files:names-printable")
def test_control_characters_in_a_name_are_shown_as_escapes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {"a\n\x1b[31m.txt": "x"})
            notice = await seen.next()
        assert notice.body == r"a\n\x1b[31m.txt was created on disk; read it before editing."
        assert notice.dedupe_key.startswith(r"file_changed:a\n\x1b[31m.txt…")

    run(scenario())


@pytest.mark.requirement("watch:files:names-printable")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_a_name_that_is_not_utf_8_is_told_and_does_not_end_the_watch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {os.fsdecode(b"\xff.txt"): "x"})
            assert (await seen.next()).body == r"\udcff.txt was created on disk; read it before editing."
            filled(tmp_path, {"a.txt": "x"})
            assert (await seen.next()).dedupe_key == "file_changed:a.txt"

    run(scenario())


# What is watched.


@pytest.mark.requirement("watch:files:single-file")
def test_a_single_file_is_watched_also_while_it_does_not_exist(tmp_path: Path) -> None:
    path = filled(tmp_path, {"a.txt": "1", "b.txt": "1", ".gitignore": "*\n"}) / "a.txt"

    async def scenario() -> None:
        async with watching(FileWatcher(path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {"b.txt": "2"})
            path.unlink()
            assert await seen.bodies(1) == ["a.txt was deleted on disk; do not expect it to exist."]
            replaced(path, "2")
            assert await seen.bodies(1) == ["a.txt was created on disk; read it before editing."]

    run(scenario())


@pytest.mark.requirement("watch:files:vanished-root")
@pytest.mark.parametrize("how", [shutil.rmtree, lambda root: root.rename(root.with_name("elsewhere"))])
def test_a_directory_that_vanishes_is_told_and_ends_the_watch(tmp_path: Path, how: Callable[[Path], object]) -> None:
    root = filled(tmp_path / "root", {"a.txt": "x"})

    async def scenario() -> list[str]:
        watcher = FileWatcher(root, debounce_seconds=FAST)
        bodies: list[str] = []

        async def collect() -> None:
            bodies.extend([notice.body async for notice in watcher.notices()])

        collecting = asyncio.create_task(collect())
        await watcher.ready.wait()
        how(root)
        await collecting
        return bodies

    assert run(scenario()) == ["a.txt was deleted on disk; do not expect it to exist."]


# The operating system.


@pytest.mark.requirement("watch:files:polling-fallback")
def test_a_watch_that_the_system_refuses_becomes_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    def limited(*paths: Path, force_polling: bool | None = None, **options: Any) -> Iterator[Any]:  # noqa: ANN401 - passed on
        if not force_polling:
            raise OSError("OS file watch limit reached.")
        return watchfiles.watch(*paths, force_polling=True, poll_delay_ms=10, **options)

    monkeypatch.setattr(events, "watch", limited)

    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {"a.txt": "x"})
            assert (await seen.next()).dedupe_key == "file_changed:a.txt"

    run(scenario())
    (record,) = caplog.records
    assert record.getMessage() == f"the watch of {tmp_path} failed, now polling it: OS file watch limit reached."


@pytest.mark.requirement("watch:files:interrupted-watch")
def test_what_happened_while_the_watch_was_interrupted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, {"a.txt": "old", "b.txt": "old"})
    interrupt = threading.Event()

    def interrupted(*paths: Path, **options: Any) -> Iterator[Any]:  # noqa: ANN401 - passed on
        if interrupt.is_set():
            yield from watchfiles.watch(*paths, **options)
            return
        options["stop_event"].is_set()
        interrupt.wait()
        raise RuntimeError("the queue of events has overflowed")

    monkeypatch.setattr(events, "watch", interrupted)

    async def scenario() -> None:
        async with watching(FileWatcher(tmp_path, debounce_seconds=FAST)) as seen:
            filled(tmp_path, {"a.txt": "newer", "c.txt": "x"})
            (tmp_path / "b.txt").unlink()
            interrupt.set()
            keys = [(await seen.next()).dedupe_key for _ in range(3)]
            assert keys == ["file_changed:a.txt", "file_changed:b.txt", "file_changed:c.txt"]

    run(scenario())


@pytest.mark.requirement("watch:command:close-ends-everything")
def test_closing_ends_the_threads(tmp_path: Path) -> None:
    async def scenario() -> None:
        watcher = FileWatcher(tmp_path)
        notices = watcher.notices()
        awaited = asyncio.ensure_future(anext(notices))
        await watcher.ready.wait()
        assert any(thread.name == "sideband-watch" for thread in threading.enumerate())
        awaited.cancel()
        await asyncio.wait({awaited})
        await notices.aclose()
        assert not any(thread.name == "sideband-watch" for thread in threading.enumerate())

    run(scenario())


@pytest.mark.requirement("watch:files:extra-missing")
@pytest.mark.parametrize("package", ["watchfiles", "pathspec"])
def test_a_missing_package_is_named_with_how_to_install_it(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; import sideband.watch.files"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    last = answer.stderr.splitlines()[-1]
    assert (
        last == f"ModuleNotFoundError: a watcher needs {package}, which is not installed: pip install 'sideband[watch]'"
    )


@pytest.mark.requirement("watch:files:many-collapse")
@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        pytest.param(
            [ChangeKind.DELETED] * 25,
            "25 files in lib/ were deleted on disk; do not expect them to exist: ",
            id="deleted",
        ),
        pytest.param(
            [ChangeKind.CHANGED] * 25, "25 files in lib/ changed on disk; re-read them before editing: ", id="changed"
        ),
        pytest.param(
            [ChangeKind.DELETED] * 20 + [ChangeKind.CREATED] * 5,
            "25 files in lib/ changed on disk (5 created, 20 deleted); re-read those that exist before editing: ",
            id="mixed",
        ),
    ],
)
def test_many_changes_are_counted_by_kind(kinds: list[ChangeKind], said: str) -> None:
    changes = [ChangedFile(f"lib/f{number}", kind) for number, kind in enumerate(kinds)]
    (notice,) = file_notices(Path("/w"), changes)
    assert notice.body.startswith(said)


def _delete_and_create(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def _move_and_create(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))
    root.mkdir()


@pytest.mark.requirement("watch:files:replaced-root")
@pytest.mark.parametrize("replace", [_delete_and_create, _move_and_create])
def test_a_directory_that_is_replaced_is_watched_again(tmp_path: Path, replace: Callable[[Path], object]) -> None:
    root = filled(tmp_path / "root", {"a.txt": "x"})

    async def scenario() -> None:
        async with watching(FileWatcher(root, debounce_seconds=FAST)) as seen:
            replace(root)
            assert await seen.bodies(1) == ["a.txt was deleted on disk; do not expect it to exist."]
            for text in ("1", "2"):
                filled(root, {"b.txt": text})
                assert (await seen.next()).dedupe_key == "file_changed:b.txt"

    run(scenario())


@pytest.mark.requirement("watch:files:unreadable-part")
def test_a_part_that_cannot_be_read_does_not_hide_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def denied(*_: Path, ignore_permission_denied: bool, **__: object) -> Iterator[Any]:
        # With True watchfiles would leave out other directories without an error.
        assert not ignore_permission_denied
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(events, "watch", denied)
    monkeypatch.setattr(events, "COMPARE_SECONDS", FAST)
    root = filled(tmp_path / "root", {"sub/a.txt": "1"})

    async def scenario() -> list[str]:
        watcher = FileWatcher(root, debounce_seconds=FAST)
        bodies: list[str] = []

        async def collect() -> None:
            async for notice in watcher.notices():
                bodies.append(notice.body)
                if "created" in notice.body:
                    shutil.rmtree(root)

        collecting = asyncio.create_task(collect())
        await watcher.ready.wait()
        filled(root, {"sub/b.txt": "1"})
        await collecting
        return bodies

    created, *deleted = run(scenario())
    assert created == "sub/b.txt was created on disk; read it before editing."
    assert len(deleted) == 2
    (record,) = caplog.records
    assert "has parts that cannot be read, now comparing it every second" in record.getMessage()


@pytest.mark.requirement("watch:files:unreadable-part")
def test_a_root_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InvalidOption, match="root must be a directory or a file that can be read, not "):
        FileWatcher(tmp_path)
