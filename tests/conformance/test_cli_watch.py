"""`sideband watch`: what it tells a session, how it ends, and what it refuses."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest

import sideband as sb
from sideband.cli.pending import pending
from sideband.cli.request import tell
from sideband.cli.server_session import Server, ServerRecipient
from sideband.cli.watch import MAX_DEBOUNCE_MS, _relay, watch
from sideband.core.errors import TooManyPending, UnknownSession
from sideband.core.reminder import ReminderId
from sideband.core.state import Pending
from sideband.core.trust import Trust
from sideband.runtime.producer import Accepted
from sideband.watch.notice import Notice, NoticeWatcher
from tests.programs import ROOT
from tests.unit.cli.test_server_targets import FakeServer, http, quick
from tests.waiting import until
from tests.watching import filled

Captured = pytest.CaptureFixture[str]

_T = TypeVar("_T")
SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun") / "store.db"
    in_store(f"sqlite:///{path}", lambda store: store.begin("s"))
    return path


@pytest.fixture
def url(begun: Path, tmp_path: Path) -> str:
    """A store with one session, `s`: a copy, because that takes less time than to begin one."""
    return f"sqlite:///{shutil.copy(begun, tmp_path)}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def in_store(url: str, act: Callable[[sb.Store], Awaitable[_T]]) -> _T:
    async def story() -> _T:
        async with sb.open_store(url) as store:
            return await act(store)

    return asyncio.run(story())


async def pending_in(store: sb.Store, session_id: str = "s") -> Sequence[Pending]:
    return await (await store.session(session_id)).pending()


def a_notice(subject: str) -> Notice:
    return Notice(body=f"{subject} changed.\nMore.", dedupe_key=f"key:{subject}", ttl_turns=2, tags=("t",))


class Fake:
    """A watcher that tells the notices, runs the acts among them, and then ends, or waits if it `stays`."""

    def __init__(self, *steps: Notice | Callable[[], object], stays: bool = True) -> None:
        self.ready = asyncio.Event()
        self._steps = steps
        self._stays = stays

    async def notices(self) -> AsyncGenerator[Notice, None]:
        self.ready.set()
        for step in self._steps:
            if isinstance(step, Notice):
                yield step
            else:
                step()
        if self._stays:
            await asyncio.Event().wait()


def stop(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def relay(url: str, watchers: Mapping[str, NoticeWatcher], *, as_json: bool = False) -> int:
    _, status = tell("s", url, lambda recipient: _relay(recipient, watchers, session_id="s", json=as_json))
    return status


# What is told.


@pytest.mark.requirement("cli:watch:tells-as-operator")
def test_each_notice_becomes_a_reminder_of_the_operator(url: str, capsys: Captured) -> None:
    watchers = {"--files a": Fake(a_notice("a"), a_notice("b"), a_notice("a"), stop)}
    assert relay(url, watchers) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["told s: a changed.", "told s: b changed.", "told s: a changed."]
    assert "watching for session s: --files a; Ctrl-C ends it" in captured.err
    assert pending(store=url, json=True) == 0
    rows = json.loads(capsys.readouterr().out)["pending"]
    assert [row["reminder"]["dedupe_key"] for row in rows] == ["key:b", "key:a"]
    assert rows[1]["reminder"]["body"] == "a changed.\nMore."
    assert (rows[1]["reminder"]["ttl_turns"], rows[1]["reminder"]["tags"]) == (2, ["t"])
    assert rows[1]["reminder"]["source"] == "in_pipeline"
    assert [item.provenance.trust for item in in_store(url, pending_in)] == [Trust.OPERATOR, Trust.OPERATOR]


@pytest.mark.requirement("cli:watch:target-and-json")
def test_programs_get_json_lines(url: str, capsys: Captured) -> None:
    assert relay(url, {"--git": Fake(a_notice("a"), a_notice("a"), stop)}, as_json=True) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert {**first, "reminder_id": ""} == {
        "session": "s",
        "reminder_id": "",
        "deduped_count": 0,
        "body": "a changed.\nMore.",
        "dedupe_key": "key:a",
        "ttl_turns": 2,
        "tags": ["t"],
    }
    assert second["deduped_count"] == 1


class Refusing:
    """A session that refuses its first reminder."""

    def __init__(self) -> None:
        self.reminders = 0

    async def remind(self, _: Mapping[str, object], /) -> Accepted:
        self.reminders += 1
        if self.reminders == 1:
            raise TooManyPending(256, 256, scope="session")
        return Accepted(ReminderId("r"), 0, {}, {})


@pytest.mark.requirement("cli:watch:survives-refusals")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_refused_reminder_is_printed_and_the_next_one_told(capsys: Captured, *, as_json: bool) -> None:
    watchers = {"--git": Fake(a_notice("a"), a_notice("b"), stop)}
    recipient: Any = Refusing()
    assert asyncio.run(_relay(recipient, watchers, session_id="s", json=as_json)) == 0
    first, second = capsys.readouterr().out.splitlines()
    if as_json:
        assert json.loads(first)["refused"] == TooManyPending.reason
        assert json.loads(second)["reminder_id"] == "r"
    else:
        assert first.startswith("refused by s: a changed. (")
        assert second == "told s: b changed."


@pytest.mark.requirement("cli:watch:lost-server")
def test_what_a_lost_server_has_missed_is_told_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    newer = msgspec.structs.replace(a_notice("a"), body="a changed again.")
    answer = {"reminderId": "r", "dedupedCount": 0, "acceptedAt": "2026-01-01T00:00:00Z"}
    accepted = http("200 OK", json.dumps(answer).encode())
    said: list[str] = []

    def is_back() -> bool:
        said.append(capsys.readouterr().err)
        return "connected" in "".join(said)

    async def story(server_url: str) -> int:
        recipient = ServerRecipient(Server(server_url), "s")
        watchers = {"--files a": Fake(a_notice("a"), newer), "--git": Fake(a_notice("b"))}
        relaying = asyncio.create_task(_relay(recipient, watchers, session_id="s", json=False))
        await until(is_back)
        stop()
        return await relaying

    quick(monkeypatch)
    # Both watchers lose the server, which is lost once more before it is back.
    with FakeServer(None, None, None, accepted, accepted) as fake:
        assert asyncio.run(story(fake.url)) == 0
    told = [json.loads(request.partition("\r\n\r\n")[2])["body"] for request in fake.requests[-2:]]
    assert sorted(told) == ["a changed again.", "b changed.\nMore."]
    notes = [line for line in "".join(said).splitlines() if "watching" not in line]
    assert notes == ["lost the server (Connection reset by peer); trying again", "connected to the server again"]


# How it ends.


@pytest.mark.requirement("cli:watch:signals-end-with-0")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_with_success(url: str, number: int) -> None:
    assert relay(url, {"--git": Fake(lambda: stop(number))}) == 0


@pytest.mark.requirement("cli:watch:signals-end-with-0")
def test_a_hangup_that_is_ignored_does_not_end_it(url: str, capsys: Captured) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert relay(url, {"--git": Fake(lambda: stop(signal.SIGHUP), a_notice("a"), stop)}) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capsys.readouterr().out == "told s: a changed.\n"


async def closed(store: sb.Store) -> None:
    await (await store.session("s")).close()


async def deleted(store: sb.Store) -> None:
    await store.delete("s")


@pytest.mark.requirement("cli:watch:session-end")
@pytest.mark.parametrize("end", [closed, deleted])
def test_the_end_of_the_session_ends_it(
    end: Callable[[sb.Store], Any], url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def act() -> None:
        # Another store of the same file, as in another process.
        thread = threading.Thread(target=in_store, args=(url, end))
        thread.start()
        thread.join()

    monkeypatch.setattr("sideband.cli.watch._watchers", lambda *_, **__: {"--git": Fake(act, a_notice("a"))})
    assert watch(git=True, store=url) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()[-2:]
    assert first.startswith("error: the session ")
    assert second.startswith(f"code: {UnknownSession.code};")


@pytest.mark.requirement("cli:watch:nothing-left")
def test_when_nothing_is_left_to_watch_it_fails(url: str, capsys: Captured) -> None:
    assert relay(url, {"--files a": Fake(stays=False), "--files b": Fake(stays=False)}) == 2
    said = capsys.readouterr().err
    assert "--files a: what was watched no longer exists" in said
    assert "--files b: what was watched no longer exists" in said


# What is refused.


@pytest.mark.requirement("cli:watch:mistakes")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            {}, "nothing is watched; name at least one of --files PATH, --tests CMD, --command CMD", id="nothing"
        ),
        pytest.param({"files": (Path("missing"),)}, "--files must be a directory or a file that exists", id="files"),
        pytest.param({"tests": "npx jest"}, "--junit must name the file", id="tests-without-junit"),
        pytest.param({"junit": Path("x"), "git": True}, "--junit names the results of --tests CMD", id="only-junit"),
        pytest.param({"command": ("make 'x",)}, '--command: "make \'x" cannot be split into words', id="quotes"),
        pytest.param({"command": ("",)}, "--command must be a command, not ''", id="no-command"),
        pytest.param({"command": ("a", "b"), "name": "n"}, "--name names one command, and there are 2", id="one-name"),
        pytest.param({"command": ("make", "make")}, "two commands have the name 'make'", id="the-same-name"),
        pytest.param({"command": ("make",), "name": "a b"}, "error: --name must have 1 to 64", id="a-wrong-name"),
        pytest.param({"git": True, "debounce": 0}, "--debounce must be between 1 and 60,000", id="no-debounce"),
        pytest.param(
            {"git": True, "debounce": MAX_DEBOUNCE_MS + 1}, "--debounce must be between", id="a-long-debounce"
        ),
        pytest.param(
            {"git": True, "to": "acp:agent#s", "store": None}, "a session of an agent over ACP", id="an-agent"
        ),
        pytest.param({"git": True, "to": "other"}, "other", id="an-unknown-session"),
        pytest.param({"git": True}, "--git: the current directory must be in a Git repository", id="no-repository"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_told(
    options: dict[str, Any], said: str, url: str, root: Path, capsys: Captured
) -> None:
    assert root == Path.cwd()
    assert watch(**{"store": url, **options}) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert said in captured.err


@pytest.mark.requirement("cli:watch:mistakes", "watch:files:extra-missing")
def test_a_missing_extra_is_named(url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    for module in [name for name in sys.modules if name.startswith("sideband.watch.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert watch(git=True, store=url) == 2
    assert capsys.readouterr().err == (
        "error: a watcher needs watchfiles, which is not installed: pip install 'sideband[watch]'\n"
    )


# As a user runs it.


@contextmanager
def started(
    *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A command that runs meanwhile; it is killed after a while, so that a test does not wait for its output for ever."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sideband.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    limit = threading.Timer(SECONDS, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.communicate()


# Writes a report of one test, which passes if a.txt says so.
SUITE: Final = """
grep -q ok a.txt || failure='<failure message="not ok"/>'
echo "<testsuite><testcase file='test_a.sh' name='a'>$failure</testcase></testsuite>" > report.xml
test -z "$failure"
"""


@pytest.mark.requirement("cli:watch:reminds", "cli:watch:target-and-json", "cli:watch:store-not-told")
def test_a_user_watches_a_workspace_with_its_store_in_it(root: Path) -> None:
    url = f"sqlite:///{root / 'store.db'}"
    for session_id in ("s", "other"):
        in_store(url, partial(sb.Store.begin, session_id=session_id))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    filled(root, {"a.txt": "1", "suite.sh": SUITE, ".gitignore": "report.xml\n"})
    suite = ["--tests", "sh suite.sh", "--junit", "report.xml"]
    others = ["--files", ".", "--command", "grep -q ok a.txt", "--git"]
    with started(
        "watch", "--to", "s", "--store", url, *suite, *others, "--debounce", "30", "--json", cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        output = process.stdout

        def told(count: int) -> dict[str, str]:
            lines = [json.loads(output.readline()) for _ in range(count)]
            assert {line["session"] for line in lines} == {"s"}
            return {line["dedupe_key"]: line["body"] for line in lines}

        assert told(2) == {
            "grep-ok:status": "grep -q ok a.txt failed (exit status 1) when the watch started.",
            "test:test_a.sh": "test_a.sh: a fails now.\na: not ok",
        }
        assert process.stderr.readline().startswith(
            "watching for session s: --files ., --tests sh suite.sh, --command grep -q ok a.txt, --git;"
        )
        filled(root, {"a.txt": "ok"})
        assert told(3) == {
            "file_changed:a.txt": "a.txt changed on disk; re-read it before editing.",
            "grep-ok:status": "grep -q ok a.txt passed after the last change.",
            "test:test_a.sh": "test_a.sh: a passes now.",
        }
        author = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "hello"], cwd=root, check=True)
        (said,) = told(1).values()
        assert said.startswith("main has its first commit: ")
        filled(root, {"last.txt": "x"})
        assert told(2) == {
            "file_changed:last.txt": "last.txt was created on disk; read it before editing.",
            "grep-ok:status": "grep -q ok a.txt passed after the last change.",
        }
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert (output.read(), process.stderr.read()) == ("", "")
    keys = {item.reminder.dedupe_key for item in in_store(url, pending_in)}
    assert keys == {"file_changed:a.txt", "file_changed:last.txt", "grep-ok:status", "test:test_a.sh", "git:branch"}
    assert in_store(url, partial(pending_in, session_id="other")) == ()
