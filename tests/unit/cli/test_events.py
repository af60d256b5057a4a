"""`sideband events`: what it shows, where it begins, and what it never tells."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from sideband.cli import events as command
from sideband.cli.events import events
from sideband.inspect.events import HEADING
from sideband.store.sqlite import schema
from tests.builders import a_draft
from tests.programs import ROOT
from tests.unit.cli.stores import BODY, SECRET, address, fill, prune
from tests.unit.store.twins import PATIENCE, Sender, SqliteTwin, Twin, played

Captured = pytest.CaptureFixture[str]


def lines(capsys: Captured) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# What is shown.


def test_a_program_gets_a_line_of_json_for_each_public_event(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(store=address(durable), every=True, json=True) == 0
    shown = lines(capsys)
    assert [(line["seq"], line["session_id"], line["kind"]) for line in shown] == [
        (number, "s", "transcript.reminder.queued") for number in (2, 3, 4)
    ]
    assert all(line.keys() == {"seq", "time", "kind", "session_id", "payload"} for line in shown)
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in shown)
    assert shown[0]["payload"]["session_id"] == "s"
    assert shown[0]["payload"]["dedupe_key"] == "token:[masked]"


def test_people_get_a_table(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(store=address(durable), every=True) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading == HEADING
    assert [row.split()[0] for row in rows] == ["2", "3", "4"]
    assert all("reminder.queued" in row and "dedupe_key=token:[masked]" in row for row in rows)


def test_no_body_and_no_secret_is_ever_shown_or_written(durable: Twin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(durable))
    exported = tmp_path / "events.jsonl"
    assert events(store=address(durable), every=True) == 0
    assert events(store=address(durable), every=True, json=True) == 0
    assert events(store=address(durable), every=True, export=exported) == 0
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
        ({"to": "b"}, [7, 8, 9]),
        ({"after": 4}, [7, 8, 9]),
        ({"after": 8}, [9]),
        ({"kind": "transcript.reminder.q"}, [2, 3, 4, 7, 8, 9]),
        ({"kind": "transcript.inject."}, []),
        ({"kind": "transcript.reminder.queued", "to": "a", "after": 3}, [4]),
    ):
        assert events(store=address(durable), every="to" not in options, json=True, **options) == 0
        assert [line["seq"] for line in lines(capsys)] == expected


def test_an_empty_store_has_nothing_to_show(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable, reminders=0))
    assert events(store=address(durable), every=True) == 0
    assert capsys.readouterr() == ("", "")


def test_a_session_that_there_is_not_is_refused_with_those_that_there_are(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(store=address(durable), to="unknown") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: there is no session 'unknown' in ")
    assert told.err.splitlines()[0].endswith(", which has:")
    assert told.err.splitlines()[1].startswith("  s  idle  changed 20")


def test_where_nothing_has_happened_since_it_says_so(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    for json_too in (False, True):
        assert events(store=address(durable), every=True, after=99_999, json=json_too) == 0
        assert capsys.readouterr() == ("", "there are no events after 99999 yet\n")


def test_where_only_other_things_have_happened_since_it_does_not_say_that_nothing_has(
    durable: Twin, capsys: Captured
) -> None:
    played(lambda: fill(durable, session_id="a"))
    played(lambda: fill(durable, session_id="b"))
    elsewhere: list[dict[str, Any]] = [{"to": "a"}, {"kind": "transcript.inject."}]
    for options in elsewhere:
        assert events(store=address(durable), every="to" not in options, after=5, **options) == 0
        assert capsys.readouterr() == ("", "there are no matching events after 5 yet\n")


# Exports.


def test_an_export_is_complete_and_its_owners_alone(durable: Twin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(durable))
    path = tmp_path / "events.jsonl"
    path.write_text("what was there before", encoding="utf-8")
    path.chmod(0o644)
    assert events(store=address(durable), every=True, export=path, kind="transcript.reminder.") == 0
    assert capsys.readouterr() == ("", f"wrote 3 events to {path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert events(store=address(durable), every=True, json=True) == 0
    assert lines(capsys) == written
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".new")] == []


def test_a_long_export_says_how_far_it_is(
    sqlite: SqliteTwin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    played(lambda: fill(sqlite, reminders=5))
    monkeypatch.setattr(command, "PROGRESS_EVENTS", 2)
    assert events(store=address(sqlite), every=True, export=tmp_path / "out") == 0
    assert capsys.readouterr().err.splitlines() == [
        "2 events ...",
        "4 events ...",
        f"wrote 5 events to {tmp_path / 'out'}",
    ]


def test_an_export_that_fails_leaves_what_was_there(sqlite: SqliteTwin, tmp_path: Path, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.execute("UPDATE journal SET body = x'7b7d' WHERE sequence = 4")
    connection.close()
    path = tmp_path / "events.jsonl"
    path.write_text("what was there before", encoding="utf-8")
    assert events(store=address(sqlite), every=True, export=path) == 2
    assert "row 4 of the journal was changed" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "what was there before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["events.jsonl", "store.db"]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_an_export_never_takes_the_place_of_the_store(sqlite: SqliteTwin, suffix: str, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    before = sqlite.path.read_bytes()
    assert events(store=address(sqlite), every=True, export=Path(f"{sqlite.path}{suffix}")) == 2
    assert "belongs to a store; export to another file" in capsys.readouterr().err
    assert sqlite.path.read_bytes() == before


def test_an_export_to_where_nothing_can_be_written_is_refused(
    sqlite: SqliteTwin, tmp_path: Path, capsys: Captured
) -> None:
    played(lambda: fill(sqlite))
    away = tmp_path / "nowhere" / "out"
    assert events(store=address(sqlite), every=True, export=away) == 2
    assert capsys.readouterr().err == f"error: {away} cannot be written: No such file or directory\n"
    for folder in (tmp_path, Path()):
        assert events(store=address(sqlite), every=True, export=folder) == 2
        assert capsys.readouterr().err == f"error: {folder} cannot be written: it is a folder\n"


# What is no longer there, or not there at all.


def test_what_is_no_longer_kept_is_left_out_and_that_is_said(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=2))
    assert events(store=address(durable), every=True, json=True) == 0
    told = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in told.out.splitlines()] == [4]
    assert told.err == "some events up to 3 have been pruned; the output begins after 3\n"


def test_a_pruned_sequence_number_is_refused_with_the_one_to_continue_from(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=2))
    for follow in (False, True):
        assert events(store=address(durable), every=True, after=1, follow=follow) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.splitlines()[0] == "error: some events up to 3 have been pruned; continue with --after 3"
    assert events(store=address(durable), every=True, after=3, json=True) == 0
    assert [line["seq"] for line in lines(capsys)] == [4]


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "nothing.db"
    for options in ({}, {"follow": True}, {"export": tmp_path / "out"}):
        assert events(store=f"sqlite:///{path}", every=True, **options) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith(f"error: there is no store: {path} does not exist. ")
    assert [*tmp_path.iterdir()] == []


def test_a_store_of_a_newer_version_is_refused(sqlite: SqliteTwin, capsys: Captured) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.pragma("user_version", schema.latest() + 1)
    connection.close()
    assert events(store=address(sqlite), every=True) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {sqlite.path} was written by a newer Sideband")
    assert "upgrade sideband" in error


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delitem(sys.modules, "sideband.store.postgres.inspector", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert events(store="postgresql://host/name", every=True) == 2
    assert "pip install 'sideband[postgres]'" in capsys.readouterr().err


def test_one_session_and_all_of_them_are_one_too_many(capsys: Captured) -> None:
    assert events(store="sqlite:///x", to="s", every=True) == 2
    assert "--all shows every session, and --to names one; use one of them" in capsys.readouterr().err


def test_without_a_name_the_only_open_session_is_shown(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert events(store=address(durable), json=True) == 0
    assert [line["seq"] for line in lines(capsys)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        pytest.param("memory:", {}, "a store in memory cannot be inspected", id="memory"),
        pytest.param("sideband.db", {}, "write 'sqlite:///sideband.db'", id="a-plain-path"),
        pytest.param("sqlite:///x", {"kind": "fired"}, "use transcript.reminder.fired\n", id="half-a-kind"),
        pytest.param("sqlite:///x", {"kind": "zzz"}, ", .replaced, .revoked\n", id="an-unknown-kind"),
        pytest.param("sqlite:///x", {"after": -1}, "after must be a sequence number, not -1", id="a-negative-place"),
        pytest.param(
            "sqlite:///x",
            {"follow": True, "export": Path("out")},
            "--follow never completes",
            id="an-export-without-end",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    url: str, options: dict[str, Any], error: str, capsys: Captured
) -> None:
    assert events(store=url, every=True, **options) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert error in told.err


# Following.


def test_following_tells_what_another_process_does_until_it_is_interrupted(durable: Twin) -> None:
    played(lambda: fill(durable, reminders=1))
    program = [
        sys.executable,
        "-m",
        "sideband.cli",
        "events",
        "--all",
        "--store",
        address(durable),
        "--follow",
        "--json",
    ]
    with subprocess.Popen(
        program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["seq"] == 2

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


def test_an_interrupted_listing_says_so_by_its_status(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "read_topic", interrupted)
    assert events(store=address(sqlite), every=True) == 130
    assert events(store=address(sqlite), every=True, follow=True) == 0


def test_a_reader_who_leaves_is_not_complained_about(durable: Twin) -> None:
    played(lambda: fill(durable))
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "sideband.cli", "events", "--all", "--store", address(durable), "--json"]
    answer = subprocess.run(program, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (0, b"")
