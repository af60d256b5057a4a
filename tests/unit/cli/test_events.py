"""`sideband events`: what it shows, where it begins, and what it never tells."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import apsw
import pytest

from sideband.cli import eventreading
from sideband.cli.eventlines import HEADING, as_row, line_of
from sideband.cli.eventreading import Wanted
from sideband.cli.events import events
from sideband.core.events import Event, InjectAccepted, InjectDelivered, Injected, Queued, Started
from sideband.core.items import QueuedMessage, QueuedReminder
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.topic import KINDS
from sideband.ports import Logged
from sideband.runtime.inspecting import inspect_store
from sideband.store.sqlite import schema
from sideband.testing import MemoryStore
from tests.builders import a_draft, a_reminder, a_text
from tests.programs import ROOT
from tests.sessions import CLIENT
from tests.unit.cli.stores import BODY, SECRET, address, fill, prune
from tests.unit.store.twins import PATIENCE, Sender, SqliteTwin, Twin, played

Captured = pytest.CaptureFixture[str]
MINTED = "0190a1b2-c3d4-7abc-8def-0123456789ab"


def lines(capsys: Captured) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# What is shown.


def test_a_program_gets_a_line_of_json_for_each_public_event(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(address(durable), json=True) == 0
    shown = lines(capsys)
    assert [(line["sequence"], line["session"], line["kind"]) for line in shown] == [
        (number, "s", "transcript.reminder.queued") for number in (2, 3, 4)
    ]
    assert all(line.keys() == {"sequence", "session", "kind", "time", "payload"} for line in shown)
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in shown)
    assert shown[0]["payload"]["session_id"] == "s"
    assert shown[0]["payload"]["dedupe_key"] == "token:[masked]"


def test_people_get_a_table(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(address(durable)) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading == HEADING
    assert [row.split()[0] for row in rows] == ["2", "3", "4"]
    assert all("reminder.queued" in row and "dedupe_key=token:[masked]" in row for row in rows)


def test_no_body_and_no_secret_is_ever_shown_or_written(durable: Twin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(durable))
    exported = tmp_path / "events.jsonl"
    assert events(address(durable)) == 0
    assert events(address(durable), json=True) == 0
    assert events(address(durable), export=exported) == 0
    told = capsys.readouterr()
    for text in (told.out, told.err, exported.read_text(encoding="utf-8")):
        assert text
        assert SECRET not in text
        assert BODY not in text
        assert "deploy" not in text


def test_one_session_one_kind_and_what_comes_behind_a_place(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable, session_id="a"))
    played(lambda: fill(durable, session_id="b"))
    for options, expected in (
        ({"session": "b"}, [7, 8, 9]),
        ({"after": 4}, [7, 8, 9]),
        ({"after": 8}, [9]),
        ({"kind": "transcript.reminder.q"}, [2, 3, 4, 7, 8, 9]),
        ({"kind": "transcript.inject."}, []),
        ({"kind": "transcript.reminder.queued", "session": "a", "after": 3}, [4]),
    ):
        assert events(address(durable), json=True, **options) == 0
        assert [line["sequence"] for line in lines(capsys)] == expected


def test_nothing_in_a_row_is_an_order_to_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[31m"
    queued = Queued(item=an_item("r", dedupe_key=hostile))
    line = line_of(Logged(sequence=1, session_id=f"s{hostile}", event=queued))
    assert line is not None
    assert as_row(line).isprintable()
    assert r"\x1b]0;owned\x07" in as_row(line)


def test_an_empty_store_has_nothing_to_show(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable, reminders=0))
    assert events(address(durable)) == 0
    assert capsys.readouterr() == ("", "")


def test_a_session_that_there_is_not_is_refused_with_those_that_there_are(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(address(durable), session="nobody") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: there is no session 'nobody' in ")
    assert told.err.endswith(", which holds 's'\n")


def test_whoever_follows_may_wait_for_a_session_to_begin(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    wanted = Wanted(session="later", follow=True)

    async def story() -> str:
        async with aclosing(eventreading._lines(address(durable), wanted)) as source, asyncio.timeout(PATIENCE):
            coming = asyncio.ensure_future(anext(source))
            # It looks before it waits for anything.
            await asyncio.sleep(0)
            told = capsys.readouterr().err
            await fill(durable, session_id="later")
            assert (await coming).session == "later"
            return told

    assert played(story) == "there is no session 'later' yet\n"


def test_where_nothing_has_happened_since_it_says_so(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    for json_too in (False, True):
        assert events(address(durable), after=99_999, json=json_too) == 0
        assert capsys.readouterr() == ("", "there is nothing behind 99999 yet\n")


def test_where_only_other_things_have_happened_since_it_does_not_say_that_nothing_has(
    durable: Twin, capsys: Captured
) -> None:
    played(lambda: fill(durable, session_id="a"))
    played(lambda: fill(durable, session_id="b"))
    elsewhere: list[dict[str, Any]] = [{"session": "a"}, {"kind": "transcript.inject."}]
    for options in elsewhere:
        assert events(address(durable), after=5, **options) == 0
        assert capsys.readouterr() == ("", "nothing that is asked for is behind 5 yet\n")


def test_to_find_a_session_the_others_are_not_gone_through(durable: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    played(lambda: fill(durable))
    with inspect_store(address(durable)) as found:
        monkeypatch.setattr(found, "shelves", lambda: pytest.fail("all sessions were counted"))
        eventreading._find(found, "s", follow=False)


# When it was.


def an_item(reminder_id: str, *, caller_id: str | None = None, **fields: object) -> QueuedReminder:
    return QueuedReminder(
        reminder=a_reminder(reminder_id, **fields), mode=Mode.FINISH_STEP, provenance=CLIENT, caller_id=caller_id
    )


@pytest.mark.parametrize(
    ("event", "is_known"),
    [
        pytest.param(Queued(item=an_item(MINTED)), True, id="accepted"),
        pytest.param(Queued(item=an_item(MINTED, caller_id=MINTED)), False, id="under-an-id-of-the-callers"),
        pytest.param(Queued(item=an_item("r1")), False, id="under-an-id-without-a-time"),
        pytest.param(
            InjectAccepted(
                item=QueuedMessage(message_id=MINTED, content=tuple(a_text()), mode=InjectMode.QUEUE, provenance=CLIENT)
            ),
            True,
            id="a-message-accepted",
        ),
        pytest.param(
            Injected(reminder=Reminder(id=ReminderId(MINTED), body="x"), provenance=CLIENT), True, id="live-at-once"
        ),
        pytest.param(
            Injected(reminder=Reminder(id=ReminderId(MINTED), body="x"), provenance=CLIENT, seam=Seam.ITERATION_END),
            False,
            id="drained-some-time-later",
        ),
        pytest.param(InjectDelivered(message_id=MINTED, content=()), False, id="delivered-some-time-later"),
    ],
)
def test_a_time_is_told_where_an_id_was_minted_for_the_event(event: Event, is_known: bool) -> None:  # noqa: FBT001 - a row
    line = line_of(Logged(sequence=1, session_id="s", event=event))
    assert line is not None
    assert line.time == ("2024-07-11T12:09:25.716Z" if is_known else None)


def test_what_only_recovery_needs_is_not_told() -> None:
    assert line_of(Logged(sequence=1, session_id="s", event=Started())) is None


# Exports.


def test_an_export_is_complete_and_its_owners_alone(durable: Twin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(durable))
    path = tmp_path / "events.jsonl"
    path.write_text("what was there before", encoding="utf-8")
    path.chmod(0o644)
    assert events(address(durable), export=path, kind="transcript.reminder.") == 0
    assert capsys.readouterr() == ("", f"3 events are in {path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert events(address(durable), json=True) == 0
    assert lines(capsys) == written
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".new")] == []


def test_a_long_export_says_how_far_it_is(
    sqlite: SqliteTwin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    played(lambda: fill(sqlite, reminders=5))
    monkeypatch.setattr(eventreading, "PROGRESS_EVENTS", 2)
    assert events(address(sqlite), export=tmp_path / "out") == 0
    assert capsys.readouterr().err.splitlines() == [
        "2 events ...",
        "4 events ...",
        f"5 events are in {tmp_path / 'out'}",
    ]


def test_an_export_that_fails_leaves_what_was_there(sqlite: SqliteTwin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.execute("UPDATE journal SET body = x'7b7d' WHERE sequence = 4")
    connection.close()
    path = tmp_path / "events.jsonl"
    path.write_text("what was there before", encoding="utf-8")
    assert events(address(sqlite), export=path) == 2
    assert "row 4 of the journal was changed" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "what was there before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["events.jsonl", "store.db"]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_an_export_never_takes_the_place_of_the_store(sqlite: SqliteTwin, suffix: str, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    before = sqlite.path.read_bytes()
    assert events(address(sqlite), export=Path(f"{sqlite.path}{suffix}")) == 2
    assert "belongs to the store; export to another file" in capsys.readouterr().err
    assert sqlite.path.read_bytes() == before


def test_an_export_to_where_nothing_can_be_written_is_refused(
    sqlite: SqliteTwin, tmp_path: Path, capsys: Captured
) -> None:
    played(lambda: fill(sqlite))
    away = tmp_path / "nowhere" / "out"
    assert events(address(sqlite), export=away) == 2
    assert capsys.readouterr().err == f"error: {away} cannot be written: No such file or directory\n"
    for folder in (tmp_path, Path()):
        assert events(address(sqlite), export=folder) == 2
        assert capsys.readouterr().err == f"error: {folder} cannot be written: it is a folder\n"


# What is no longer there, or not there at all.


def test_what_is_no_longer_kept_is_left_out_and_that_is_said(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=2))
    assert events(address(durable), json=True) == 0
    told = capsys.readouterr()
    assert [json.loads(line)["sequence"] for line in told.out.splitlines()] == [4]
    assert told.err == "events up to 3 are no longer all kept; what follows begins behind it\n"


def test_whoever_asks_for_it_by_number_is_told_where_to_go_on(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=2))
    for follow in (False, True):
        assert events(address(durable), after=1, follow=follow) == 2
        assert capsys.readouterr() == ("", "error: events up to 3 are no longer all kept; go on with --after 3\n")
    assert events(address(durable), after=3, json=True) == 0
    assert [line["sequence"] for line in lines(capsys)] == [4]


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "nothing.db"
    for options in ({}, {"follow": True}, {"export": tmp_path / "out"}):
        assert events(f"sqlite:///{path}", **options) == 2
        assert capsys.readouterr() == ("", f"error: there is no store: {path} does not exist\n")
    assert [*tmp_path.iterdir()] == []


def test_a_store_of_a_newer_version_is_refused(sqlite: SqliteTwin, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.pragma("user_version", schema.latest() + 1)
    connection.close()
    assert events(address(sqlite)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sqlite.path} was written by a newer Sideband")
    assert "upgrade sideband" in error


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delitem(sys.modules, "sideband.store.postgres.inspection", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert events("postgresql://host/name") == 2
    assert "pip install 'sideband[postgres]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        pytest.param("memory:", {}, "a store in memory is gone with its process", id="memory"),
        pytest.param("sideband.db", {}, "write 'sqlite:///sideband.db'", id="a-plain-path"),
        pytest.param("sqlite:///x", {"kind": "fired"}, "there is transcript.reminder.fired\n", id="half-a-kind"),
        pytest.param("sqlite:///x", {"kind": "zzz"}, ", ".join(sorted(KINDS.values())), id="an-unknown-kind"),
        pytest.param("sqlite:///x", {"after": -1}, "after must be a sequence number, not -1", id="a-negative-place"),
        pytest.param(
            "sqlite:///x", {"follow": True, "export": Path("out")}, "--follow has no end", id="an-export-without-end"
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    url: str, options: dict[str, Any], error: str, capsys: Captured
) -> None:
    assert events(url, **options) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert error in told.err
    assert "HARN" not in told.err


# Following.


def test_following_tells_what_another_process_does_until_it_is_interrupted(durable: Twin) -> None:
    played(lambda: fill(durable, reminders=1))
    program = [sys.executable, "-m", "sideband.cli", "events", address(durable), "--follow", "--json"]
    with subprocess.Popen(
        program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["sequence"] == 2

        async def story() -> None:
            assert following.stdout is not None
            async with durable.open() as store:
                for number in range(3):
                    sent = await Sender(store, name=f"n{number}").send(a_draft())
                    line = await asyncio.to_thread(following.stdout.readline)
                    assert json.loads(line)["payload"]["reminder_id"] == sent.reminder_id

        try:
            played(story)
            os.kill(following.pid, signal.SIGINT)
            rest, errors = following.communicate(timeout=PATIENCE)
        finally:
            following.kill()
    assert (following.returncode, rest, errors) == (0, "", "")


def test_a_reader_who_is_slower_than_those_who_write_misses_nothing() -> None:
    async def story() -> list[int]:
        store = MemoryStore(subscriber_events=2)
        sender = Sender(store)
        await sender.send(a_draft())
        async with aclosing(eventreading._entries(store, Wanted(follow=True))) as source:
            seen = [(await anext(source)).sequence]
            for _ in range(3):
                waiting = asyncio.ensure_future(anext(source))
                await asyncio.sleep(0)
                for _ in range(10):
                    await sender.send(a_draft())
                seen.append((await waiting).sequence)
                seen.extend([(await anext(source)).sequence for _ in range(9)])
        return seen

    assert played(story) == list(range(1, 32))


def test_an_interrupted_listing_says_so_by_its_status(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(eventreading, "show", interrupted)
    assert events(address(sqlite)) == 130
    assert events(address(sqlite), follow=True) == 0


def test_a_reader_who_leaves_is_not_complained_about(durable: Twin) -> None:
    played(lambda: fill(durable))
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "sideband.cli", "events", address(durable), "--json"]
    answer = subprocess.run(program, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (0, b"")
