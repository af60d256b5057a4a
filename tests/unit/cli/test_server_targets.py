"""Commands about a session of a running server: the answers of a store, the same refusals, and what cannot be reached."""

import asyncio
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pytest

import sideband as sb
from sideband.cli import server_client
from sideband.cli.clear import clear
from sideband.cli.events import events
from sideband.cli.facts import add, list_facts, remove
from sideband.cli.inject import inject
from sideband.cli.pending import pending
from sideband.cli.remind import remind
from sideband.cli.revoke import revoke
from sideband.cli.server_client import ServerClient
from sideband.cli.server_session import Server
from sideband.cli.sessions import sessions
from sideband.cli.target import ServerLost
from sideband.cli.timeline import timeline
from sideband.cli.token import TOKEN_VARIABLE, token_for
from sideband.core.errors import CursorExpired, RateLimited, ReminderError, TooManyPending
from sideband.core.surfaces import Surface
from sideband.core.topic import TopicRecord
from sideband.core.trust import Provenance, Trust
from sideband.inspect.events import EventQuery
from sideband.inspect.report import CommandError
from sideband.runtime.workers import WORKER_RECORD
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool
from tests.unit.studio.studio_thread import StudioThread, a_studio_thread

Captured = pytest.CaptureFixture[str]
Command = Callable[..., int]
# Commands of a terminal in seven and eight bits, and characters that hide or turn what follows.
ESCAPE: Final = "\x1b[31mred\x1b[0m\x9b2J\x7f\x85\u202e\u2028\U000e0041"


class Served:
    """A server, the address of its store, and one session in which something has happened."""

    def __init__(self, running: StudioThread) -> None:
        self.running = running
        self.url = f"http://127.0.0.1:{running.port}"
        self.store = f"sqlite:///{running.folder}/store.db"
        self.session = "fix-login"

    @property
    def to(self) -> str:
        return f"{self.url}#{self.session}"


def said(capsys: Captured, command: Command, *args: object, **options: Any) -> tuple[int, str, str]:  # noqa: ANN401 - of the command
    status = command(*args, **options)
    told = capsys.readouterr()
    return status, told.out, told.err


async def fill(store: sb.Store) -> None:
    session = await store.begin("fix-login", attributes={"title": f"Login bug {ESCAPE}"})
    await session.remind("Never force-push.", dedupe_key="policy", preserve_on_compact=True, tags=["git"])
    await session.remind("CI is red.", dedupe_key="ci", ttl_turns=1)
    call = sb.Reply(text=f"I look. {ESCAPE}", tool_calls=(sb.ToolCall(id="c1", name="work", args={"path": ESCAPE}),))
    tool = ATool(do=lambda _args, _context: f"{ESCAPE} {ESCAPE}")
    await sb.agent_loop(
        f"Fix it. {ESCAPE}", session=session, model=ScriptedModel([call, "Done."]), tools=[tool], reminders=False
    )
    server = Provenance(trust=Trust.SERVER, principal="watcher", via="mcp")
    await sb.Producer(session, server, surface=Surface.MCP).remind(
        {"id": "b7", "body": "The build is \u2028\U000e0041red."}
    )
    await session.remind("Waits.", dedupe_key="waits", ttl_turns=2, role_hint="developer")
    await session.inject(f"For the record. {ESCAPE}", mode="audit_only")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(TOKEN_VARIABLE, raising=False)
        with a_studio_thread(tmp_path_factory.mktemp("served")) as running:
            found = Served(running)
            in_store(found.store, fill)
            yield found


def in_store(url: str, act: Callable[[sb.Store], Any]) -> Any:  # noqa: ANN401 - what it returns
    async def story() -> Any:  # noqa: ANN401 - the same
        async with sb.open_store(url) as store:
            return await act(store)

    return asyncio.run(story())


# Reading.


def test_events_of_all_sessions_and_in_pages(
    served: Served, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    by_store = said(capsys, events, store=served.store, every=True, json=True)
    assert said(capsys, events, to=served.url, every=True, json=True) == by_store
    get = ServerClient.get
    monkeypatch.setattr(
        ServerClient,
        "get",
        lambda self, *path, **query: get(self, *path, **query, **({"limit": 2} if "after" in query else {})),
    )
    in_pages = said(capsys, events, to=served.url, every=True, json=True)[1]
    assert [json.loads(line)["seq"] for line in in_pages.splitlines()] == [
        json.loads(line)["seq"] for line in by_store[1].splitlines()
    ]
    status, out, err = said(capsys, events, to=served.url, every=True, export=tmp_path / "e.jsonl")
    assert (status, out) == (0, "")
    assert (tmp_path / "e.jsonl").read_text(encoding="utf-8") == in_pages
    assert err.startswith("wrote ")


def test_the_sessions_of_a_server(served: Served, capsys: Captured) -> None:
    status, out, _ = said(capsys, sessions, to=served.url)
    heading, *rows, total = out.splitlines()
    assert status == 0
    assert heading.split() == ["session", "state", "turn", "pending", "changed", "about"]
    assert rows[-1].split()[:4] == ["fix-login", "idle", "2", "4"]
    assert "  Login bug " in rows[-1]
    assert total == f"{len(rows)} sessions"
    (found,) = [
        row
        for row in map(json.loads, said(capsys, sessions, to=served.url, json=True)[1].splitlines())
        if row["session"] == "fix-login"
    ]
    by_store = [json.loads(line) for line in said(capsys, sessions, store=served.store, json=True)[1].splitlines()]
    (same,) = [row for row in by_store if row["session"] == "fix-login"]
    assert {name: same[name] for name in found} == found


@pytest.mark.parametrize("to", ["http://127.0.0.1:1#s", "fix-login"])
def test_sessions_are_those_of_a_server_or_of_a_store(capsys: Captured, to: str) -> None:
    status, _, err = said(capsys, sessions, to=to)
    assert status == 2
    assert "--to must name a running server: http://HOST:PORT" in err


# Telling.


def test_a_reminder_is_sent_listed_revoked_and_cleared(served: Served, capsys: Captured) -> None:
    options = {"key": "build", "ttl": 2, "tag": ("ci", "red"), "mode": "interrupt_immediate", "id": "mine-1"}
    more = {"role_hint": "developer", "propagate": "none", "preserve": True}
    status, out, err = said(capsys, remind, " The build is red. ", to=served.to, json=True, **options, **more)
    answer = json.loads(out)
    assert (status, err, answer["reminder_id"], answer["deduped_count"]) == (0, "", "mine-1", 0)
    assert answer["accepted_at"].endswith("Z")
    repeated = said(capsys, remind, " The build is red. ", to=served.to, json=True, **options, **more)
    assert json.loads(repeated[1]) == answer
    rows = json.loads(said(capsys, pending, to=served.to, json=True)[1])["pending"]
    (row,) = [row for row in rows if row["id"] == "mine-1"]
    assert row["reminder"] == {
        "id": "mine-1",
        "body": "The build is red.",
        "tags": ["ci", "red"],
        "dedupe_key": "build",
        "ttl_turns": 2,
        "preserve_on_compact": True,
        "propagate": "none",
        "role_hint": "developer",
        "source": "bridge",
        "fired_at_turn": row["reminder"]["fired_at_turn"],
    }
    assert (row["trust"], row["via"], row["mode"]) == ("controller", "http", "interrupt_immediate")
    newer = said(capsys, remind, "Green.", to=served.to, key="build")
    assert ", which replaces 1 that waited" in newer[1]
    assert said(capsys, clear, key="build", to=served.to)[:2] == (0, "cleared 1 reminder of session fix-login\n")
    message = json.loads(said(capsys, inject, "On record.", mode="audit_only", to=served.to, json=True)[1])[
        "message_id"
    ]
    for word in ("revoked", "already_revoked"):
        status, out, _ = said(capsys, revoke, message, to=served.to, json=True)
        assert (status, json.loads(out)["status"]) == (0, word)


def test_another_payload_under_a_used_id_is_refused(served: Served, capsys: Captured) -> None:
    assert remind("One.", to=served.to, id="twice") == 0
    capsys.readouterr()
    status, _, err = said(capsys, remind, "Another.", to=served.to, id="twice")
    assert status == 1
    assert "was already used for another reminder" in err
    assert clear(id="twice", to=served.to) == 0


def test_a_closed_session_takes_nothing_and_can_be_read(served: Served, capsys: Captured) -> None:
    async def close(store: sb.Store) -> None:
        await (await store.begin("closed")).close()

    in_store(served.store, close)
    to = f"{served.url}#closed"
    status, _, err = said(capsys, remind, "x", to=to)
    assert status == 1
    assert "the session is closed" in err
    assert said(capsys, timeline, to=to)[:2] == (0, "session closed: closed, turn 0\n")


def test_facts_are_added_listed_and_removed(served: Served, capsys: Captured) -> None:
    status, out, _ = said(capsys, add, "decision", "Releases are cut on Tuesdays.", to=served.url, json=True)
    fact = json.loads(out)
    assert (status, fact["refreshed"]) == (0, False)
    assert json.loads(said(capsys, add, "decision", "Releases are cut on Tuesdays.", to=served.url, json=True)[1]) == {
        "id": fact["id"],
        "refreshed": True,
    }
    listed = said(capsys, list_facts, to=served.url, query="release")
    assert listed == said(capsys, list_facts, store=served.store, query="release")
    assert fact["id"] in listed[1]
    assert said(capsys, remove, fact["id"], to=served.url)[0] == 0
    status, _, err = said(capsys, remove, fact["id"], to=served.url)
    assert (status, err.partition(";")[0]) == (1, f"error: there is no fact {fact['id']}")


@pytest.mark.parametrize(
    ("kind", "claim", "options"),
    [
        ("hunch", "x", {}),
        ("decision", " ", {}),
        ("decision", "x", {"confidence": 2.0}),
    ],
)
def test_a_wrong_fact_is_refused_as_by_a_store(
    served: Served, capsys: Captured, kind: str, claim: str, options: dict[str, Any]
) -> None:
    by_server = said(capsys, add, kind, claim, to=served.url, **options)
    by_store = said(capsys, add, kind, claim, store=served.store, **options)
    assert by_server[:2] == by_store[:2] == (2, "")
    assert by_server[2].splitlines()[1:] == by_store[2].splitlines()[1:]


# Which session.


def test_several_open_sessions_are_listed(served: Served, capsys: Captured) -> None:
    status, _, err = said(capsys, pending, to=served.url)
    first, *others = err.splitlines()
    assert status == 2
    assert first == f"error: several sessions are open at {served.url}; choose one with --to {served.url}#ID:"
    assert any(line.split()[:2] == ["fix-login", "idle"] and "  Login bug " in line for line in others)


def test_an_unknown_session_is_refused_with_similar_ones(served: Served, capsys: Captured) -> None:
    for command, args in ((remind, ("x",)), (pending, ()), (timeline, ()), (events, ())):
        status, out, err = said(capsys, command, *args, to=f"{served.url}#fix-lgoin")
        first, *near = err.splitlines()
        assert (status, out) == (2, "")
        assert first == f"error: there is no session 'fix-lgoin' at {served.url}; similar ids are:"
        assert near[0].split()[0] == "fix-login"
    assert "which has:" in said(capsys, pending, to=f"{served.url}#0000")[2]


class FakeServer:
    """Answers requests with what the test has prepared, byte for byte, one connection each; keeps what it was sent.

    None resets the connection instead of an answer.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = answers
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.requests: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for answer in self._answers:
            connection, _ = self._listening.accept()
            with connection:
                self.requests.append(_read_request(connection))
                if answer is None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    continue
                connection.sendall(answer)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    # Otherwise the rest of a request would reset the connection before the answer is read.
                    connection.recv(65_536)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._thread.join(10)


def _read_request(connection: socket.socket) -> str:
    """The head of a request, and as much of its body as the head says; of another protocol, what comes first."""
    data = b""
    while part := connection.recv(65_536):
        data += part
        head, ended, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *([0-9]+)", head.lower())
        if not data[:1].isalpha() or (ended and len(body) >= (0 if length is None else int(length[1]))):
            break
    return data.decode(errors="replace")


def http(status: str, body: bytes = b"", kind: str = "application/json", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def a_list(*found: dict[str, Any]) -> bytes:
    rows = [{"state": "idle", "turn": 0, "live": 0, "queued": 0, "changedAt": 0, **row} for row in found]
    return http("200 OK", json.dumps({"sessions": rows, "next": None}).encode())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([{"id": "a"}], "a", id="one"),
        pytest.param([{"id": "a"}, {"id": "b", "state": "closed"}], "a", id="one-is-open"),
        pytest.param([{"id": "a"}, {"id": "b", "parent": "a"}], "a", id="a-sub-agent-does-not-count"),
        pytest.param([{"id": "b", "parent": "a"}], "b", id="unless-no-other-is-open"),
    ],
)
def test_the_only_open_session_is_chosen(found: list[dict[str, Any]], expected: str) -> None:
    with FakeServer(a_list(*found)) as fake:
        assert Server(fake.url).find(None).id == expected


@pytest.mark.parametrize(
    ("found", "said_of_it"),
    [
        pytest.param([], "there is no session at ", id="none"),
        pytest.param([{"id": "a", "state": "closed"}], "no session is open at ", id="only-closed-ones"),
        pytest.param([{"id": str(n)} for n in range(25)], "several sessions are open at ", id="many"),
    ],
)
def test_no_or_several_open_sessions_are_refused(found: list[dict[str, Any]], said_of_it: str) -> None:
    with FakeServer(a_list(*found)) as fake, pytest.raises(CommandError, match=said_of_it) as refused:
        Server(fake.url).find(None)
    assert len(refused.value.candidates) == min(len(found), 21)


def test_sub_agents_are_known_by_their_parent(served: Served) -> None:
    async def begin(store: sb.Store) -> None:
        await store.begin("child", attributes={WORKER_RECORD: {"parent": "fix-login", "name": "tester"}})

    in_store(served.store, begin)
    (child,) = [found for found in Server(served.url).sessions() if found.id == "child"]
    assert (child.parent, child.about) == ("fix-login", "tester")


# What cannot be reached.


def test_no_server_at_the_address(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    status, out, err = said(capsys, remind, "x", to=f"http://127.0.0.1:{port}#s")
    assert (status, out) == (2, "")
    assert err == (
        f"error: no server answers at http://127.0.0.1:{port} (Connection refused); start one with `sideband serve`, or "
        "name the address that it printed\n"
    )
    assert said(capsys, events, to=f"http://127.0.0.1:{port}", every=True, follow=True)[0] == 2


def test_a_wrong_token_and_none(
    served: Served, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "wrong-token")
    status, _, err = said(capsys, pending, to=served.to)
    assert status == 2
    assert err.startswith(f"error: the server at {served.url} refused the token in ")
    assert f"the token in ${TOKEN_VARIABLE}; correct it, or unset it to use your own" in err
    monkeypatch.delenv(TOKEN_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert "requires a token, and you have none yet" in said(capsys, pending, to=served.to)[2]
    monkeypatch.setenv(TOKEN_VARIABLE, "é")
    assert "must be a text of printable ASCII" in said(capsys, pending, to=served.to)[2]


def test_the_operators_token_is_for_this_machine_only(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(server_client, "token_for", asked.append)
    ServerClient("http://agents.example.org:8640/")
    assert asked == ["http://agents.example.org:8640"]
    monkeypatch.undo()
    assert token_for("http://agents.example.org:8640") is None
    assert token_for(served.url) == served.running.token
    assert token_for("http://[::1]:1") == served.running.token


@pytest.mark.parametrize(
    "to",
    [
        "http://me:hunter2@host:1#s",
        "http://host:1?x=1#s",
        "http://host:99999#s",
        "http://[::1#s",
        "http://:80#s",
        "http://host:1/\xe9#s",
        "http://host:1/a b#s",
        "http://\udcff:1#s",
        f"http://{'x' * 64}.org#s",
    ],
)
def test_an_address_with_more_than_a_host_is_refused(capsys: Captured, to: str) -> None:
    status, _, err = said(capsys, pending, to=to)
    assert status == 2
    assert "--to must have an address like http://HOST:PORT" in err
    assert "hunter2" not in err


@pytest.mark.parametrize(
    ("answer", "said_of_it"),
    [
        pytest.param(http("404 Not Found", b"<html>", "text/html"), "is not `sideband serve` (HTTP 404)", id="html"),
        pytest.param(http("200 OK", b"<html>", "text/html"), "its answer is not JSON", id="a-page"),
        pytest.param(http("302 Found", b"", "text/html", "Location: http://e.org"), "it redirects", id="a-redirect"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "it does not speak HTTP", id="another-protocol"),
        pytest.param(http("200 OK", b"{"), "cannot be read", id="broken-json"),
        pytest.param(http("200 OK", b'{"id": 1}'), "cannot be read", id="another-shape"),
        pytest.param(
            http("500 Internal", b'{"error": {"reason": "internal_error", "message": "It failed."}}'),
            "It failed.",
            id="a-failure",
        ),
        pytest.param(
            http("421 Misdirected", b'{"error": {"reason": "wrong_host", "message": "Not for this host."}}'),
            "Not for this host.",
            id="another-host",
        ),
        pytest.param(b"", "no server answers at http://127.0.0.1:", id="nothing"),
        pytest.param(None, "no server answers at http://127.0.0.1:", id="a-reset"),
    ],
)
def test_another_server_is_named_as_such(capsys: Captured, answer: bytes | None, said_of_it: str) -> None:
    with FakeServer(answer) as fake:
        status, out, err = said(capsys, pending, to=f"{fake.url}#s")
    assert (status, out) == (2, "")
    assert said_of_it in err


def test_control_bytes_of_a_server_do_not_reach_the_terminal(capsys: Captured) -> None:
    hostile = json.dumps({"error": {"reason": "x", "message": ESCAPE, "code": ESCAPE}}).encode()
    with FakeServer(http("409 Conflict", hostile)) as fake:
        assert "\x1b" not in said(capsys, pending, to=f"{fake.url}#s")[2]
    rows = a_list({"id": ESCAPE, "title": ESCAPE, "state": ESCAPE})
    with FakeServer(rows, rows) as fake:
        assert "\x1b" not in "".join(map(str, said(capsys, sessions, to=fake.url)))
        assert Server(fake.url).find(None).id == ESCAPE


def test_an_answer_that_is_late_or_too_large_is_given_up(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_client, "ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "has not answered in time" in said(capsys, pending, to=f"{url}#s")[2]
        with pytest.raises(ServerLost, match=r"no data for 0 seconds.*not known whether the request was accepted"):
            ServerClient(url).post("sessions", "s", "remind", body={"body": "x"})
    monkeypatch.setattr(server_client, "MAX_ANSWER_BYTES", 10)
    with FakeServer(http("200 OK", b'{"long": "answer"}')) as fake:
        assert "is larger than 10 bytes" in said(capsys, pending, to=f"{fake.url}#s")[2]


def test_a_server_with_a_certificate_that_is_not_trusted(capsys: Captured) -> None:
    with FakeServer(b"no TLS here") as fake:
        url = fake.url.replace("http://", "https://")
        assert f"no secure connection to {url}" in said(capsys, pending, to=f"{url}#s")[2]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"reason": "rate_limited", "message": "Slow down.", "retryAfterMs": 250}, RateLimited),
        ({"reason": "too_many_pending", "message": "Full.", "code": "SIDEBAND-214"}, TooManyPending),
    ],
)
def test_a_limit_of_the_server_is_the_error_of_this_process(
    fault: dict[str, Any], expected: type[ReminderError]
) -> None:
    answer = http("429 Too Many", json.dumps({"error": fault}).encode())
    with FakeServer(answer) as fake, pytest.raises(expected) as refused:
        ServerClient(fake.url).post("sessions", "s", "remind", body={})
    assert getattr(refused.value, "retry_after_ms", 250) == 250


def test_ids_are_escaped_in_paths() -> None:
    with FakeServer(http("200 OK", b"{}")) as fake:
        ServerClient(f"{fake.url}/prefix/").get("sessions", "a/b?c#d é", "pending", turns=None, kind="x y")
    assert fake.requests[0].startswith("GET /prefix/api/sessions/a%2Fb%3Fc%23d%20%C3%A9/pending?kind=x+y HTTP/1.1")


# Following.


def an_event(sequence: int, session: str = "s") -> bytes:
    record: dict[str, Any] = {
        "seq": sequence,
        "time": None,
        "kind": "transcript.reminder.fired",
        "session_id": session,
        "payload": {},
    }
    return f"id: {sequence}\nevent: event\ndata: {json.dumps(record)}\n\n".encode()


def a_stream(*parts: bytes) -> bytes:
    return http("200 OK", b"".join(parts), "text/event-stream; charset=utf-8")


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lost stream be opened again at once."""
    monkeypatch.setattr(server_client, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(server_client, "LONGEST_PAUSE", 0.02)


def followed(
    url: str, count: int, *, after: int | None = None, session: str | None = None
) -> tuple[list[int], list[str]]:
    notes: list[str] = []
    found: list[int] = []
    record: TopicRecord
    for record in Server(url).events(EventQuery(session=session, after=after, follow=True), notify=notes.append):
        found.append(record.seq)
        if len(found) == count:
            break
    return found, notes


def test_a_lost_stream_goes_on_after_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = an_event(4)[:-1]
    quick(monkeypatch)
    with (
        FakeServer(
            a_stream(b": hello\n\n", b"event: ping\ndata: {}\n\n", an_event(2), an_event(3), cut),
            http("503 Busy", b"{}"),
            a_stream(b"event: other\nretry: 1\ndata: {}\n\n"),
            a_stream(an_event(4), an_event(5)),
        ) as fake,
    ):
        found, notes = followed(fake.url, 4, after=1)
    assert found == [2, 3, 4, 5]
    assert notes == [
        f"lost {fake.url} (it ended the stream); trying again",
        f"connected to {fake.url} again",
        f"lost {fake.url} (it ended the stream); trying again",
        f"connected to {fake.url} again",
    ]
    ids = [line for request in fake.requests for line in request.splitlines() if line.startswith("Last-Event-ID")]
    assert ids == ["Last-Event-ID: 1", "Last-Event-ID: 3", "Last-Event-ID: 3", "Last-Event-ID: 3"]
    assert all("Accept: text/event-stream" in request for request in fake.requests)


def test_a_stream_that_is_refused_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = http("401 No", b'{"error": {"reason": "not_logged_in", "message": "No."}}')
    quick(monkeypatch)
    with FakeServer(a_stream(an_event(1)), denied) as fake, pytest.raises(CommandError, match="token"):
        followed(fake.url, 5)
    with FakeServer(http("200 OK", b"{}")) as fake, pytest.raises(CommandError, match="no event stream"):
        followed(fake.url, 1)


def test_events_that_are_no_longer_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    expired = a_stream(b'event: expired\ndata: {"oldest": 7}\n\n')
    quick(monkeypatch)
    with FakeServer(expired, a_stream(an_event(8))) as fake:
        found, notes = followed(fake.url, 1)
    assert (found, notes) == ([8], ["some events up to 7 have been pruned; the output begins after 7"])
    with FakeServer(expired) as fake, pytest.raises(CursorExpired) as refused:
        followed(fake.url, 1, after=3)
    assert refused.value.oldest == 7
    gone = http(
        "410 Gone", b'{"error": {"reason": "cursor_expired", "message": "Gone.", "code": "SIDEBAND-310", "oldest": 7}}'
    )
    page = http("200 OK", json.dumps({"events": [], "last": 7, "more": False}).encode())
    with FakeServer(gone, page) as fake:
        assert [*Server(fake.url).events(EventQuery(), notify=lambda _said: None)] == []
    assert "after=7" in fake.requests[-1]


def test_a_session_that_is_followed_need_not_exist_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = http("404 No", b'{"error": {"reason": "unknown_session", "message": "No.", "code": "SIDEBAND-205"}}')
    quick(monkeypatch)
    with (
        FakeServer(unknown, a_list(), a_stream(an_event(1, "other"), an_event(2, "later"))) as fake,
    ):
        found, notes = followed(fake.url, 1, session="later")
    assert (found, notes) == ([2], ["there is no session 'later' yet"])


def test_events_are_followed_from_a_real_server(served: Served) -> None:
    records = Server(served.url).events(
        EventQuery(session=served.session, kind="transcript.reminder", follow=True), notify=print
    )
    kinds: Sequence[str] = [next(records).kind for _ in range(3)]
    assert kinds[0] == "transcript.reminder.queued"
    records.close()


def test_a_record_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    answer = a_stream(b"event: event\nid: 1\ndata: {}\n\n")
    with FakeServer(answer) as fake, pytest.raises(CommandError, match="cannot be read"):
        followed(fake.url, 1)


def test_lines_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_client, "MAX_LINE_BYTES", 100)
    with FakeServer(a_stream(b"data: " + b"x" * 1_000)) as fake, pytest.raises(CommandError, match="HTTP"):
        followed(fake.url, 1)


def test_answers_have_all_that_is_told_of_a_pending_item() -> None:
    row = {"state": "live", "position": 0, "kind": "reminder", "id": "r", "sender": {"trust": "new"}}
    with FakeServer(
        http("200 OK", msgspec.json.encode({"pending": [row | {"reminder": {"id": "r", "body": "b"}}]}))
    ) as fake:
        (item,) = Server(fake.url).pending("s")
    assert (item.text, item.provenance.trust) == ("b", Trust.CONTENT)
