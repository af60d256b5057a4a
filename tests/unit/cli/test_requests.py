"""`remind`, `inject`, `revoke` and `clear`: what they send, what they print, and how a refusal is reported."""

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import sideband as sb
from sideband.cli import request
from sideband.cli.app import app
from sideband.cli.clear import clear
from sideband.cli.inject import inject
from sideband.cli.pending import pending
from sideband.cli.remind import remind
from sideband.cli.revoke import revoke
from sideband.core.errors import (
    AlreadyDelivered,
    IdempotencyConflict,
    NoRunningTurn,
    StoreRefused,
    UnknownReminder,
    UnknownSession,
    UnsupportedMode,
)
from sideband.testing import ScriptedModel

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one session, `s`."""
    url = f"sqlite:///{tmp_path / 'store.db'}"

    async def story() -> None:
        async with sb.open_store(url) as store:
            await store.begin("s")

    asyncio.run(story())
    return url


def inbox(url: str, capsys: Captured) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert pending(store=url, to="s", json=True) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["pending"]
    return rows


def in_session(url: str, act: Callable[[sb.Session], Awaitable[Any]]) -> None:
    async def story() -> None:
        async with sb.open_store(url) as store:
            await act(await store.session("s"))

    asyncio.run(story())


# BODY.


def test_a_body_can_come_from_standard_input(url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    given = "  Größe: 3\r\n\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="ascii"))
    assert remind("-", store=url) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="ascii"))
    assert inject("-", store=url, mode="queue") == 0
    reminder, message = inbox(url, capsys)
    assert reminder["reminder"]["body"] == "Größe: 3"
    assert message["text"] == "  Größe: 3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(io.TextIOWrapper(io.BytesIO(b"ab\xff")), "not UTF-8: invalid start byte at byte 2", id="bytes"),
        pytest.param(None, "there is no standard input", id="nothing"),
    ],
)
def test_standard_input_that_is_no_text_is_refused(
    given: object, said: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(sys, "stdin", given)
    assert remind("-", store=url) == 2
    assert said in capsys.readouterr().err
    assert inbox(url, capsys) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("remind --ky x body", "there is no option --ky; did you mean '--key'?", id="first"),
        pytest.param("remind --ky=x", "there is no option --ky; did you mean '--key'?", id="with-its-value"),
        pytest.param("inject body --moed queue", "there is no option --moed; did you mean '--mode'?", id="last"),
        pytest.param("remind --zzzzz", "there is no option --zzzzz; the options are --to, --store", id="like-no-other"),
        pytest.param("facts add claim --ky x", "there is no option --ky; the options are", id="of-a-subcommand"),
        pytest.param("remind a b", "BODY must be one argument; put it in quotes: 'a b'", id="without-quotes"),
        pytest.param("facts add claim a b", "CLAIM must be one argument", id="a-claim-without-quotes"),
        pytest.param(
            "remind -- -dash --to s", "--to follows `--`, after which there are no options", id="after-dashes"
        ),
    ],
)
def test_a_mistake_beside_the_body_is_named_and_nothing_is_sent(
    arguments: str, said: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("SIDEBAND_STORE", url)
    with pytest.raises(SystemExit) as end:
        app(arguments.split())
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert inbox(url, capsys) == []


def test_a_body_may_begin_with_hyphens(url: str, capsys: Captured) -> None:
    assert remind("--- a heading", store=url) == 0
    assert [row["reminder"]["body"] for row in inbox(url, capsys)] == ["--- a heading"]


def test_a_message_of_blocks_names_those_that_are_no_text(url: str, capsys: Captured) -> None:
    image = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    in_session(url, lambda session: session.prompt([image]))
    assert [row["text"] for row in inbox(url, capsys)] == ["[image]"]
    assert pending(store=url) == 0
    assert "[image]" in capsys.readouterr().out


# What is printed.


def test_people_get_a_line(url: str, capsys: Captured) -> None:
    assert remind("Red.", store=url, key="build", id="r1") == 0
    assert capsys.readouterr().out == "accepted r1 for session s\n"
    assert remind("Green.", store=url, key="build", id="r2") == 0
    assert capsys.readouterr().out == "accepted r2 for session s, which replaces 1 that waited\n"
    assert revoke("r2", store=url) == 0
    assert revoke("r2", store=url) == 0
    assert capsys.readouterr().out == "revoked: r2 in session s\nalready revoked: r2 in session s\n"
    assert clear(store=url, key="build") == 0
    assert remind("Again.", store=url, tag=("ci",)) == 0
    capsys.readouterr()
    assert clear(store=url, tag="ci") == 0
    assert capsys.readouterr().out == "cleared 1 reminder of session s\n"
    assert clear(store=url, id="r2") == 0
    assert capsys.readouterr().out == "cleared 0 reminders of session s\n"
    assert inject("Go on.", store=url, mode="queue") == 0
    assert capsys.readouterr().out.endswith(" for session s\n")


def test_clearing_needs_to_be_told_what(url: str, capsys: Captured) -> None:
    assert clear(store=url) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: name the reminders to clear with --key, --tag or --id"
    assert second.startswith("code: HARN-RMD-001;")


def test_what_cannot_be_revoked_is_named_with_the_next_step(url: str, capsys: Captured) -> None:
    assert remind("x", store=url, id="live") == 0
    in_session(url, lambda session: sb.agent_loop("Go.", session=session, model=ScriptedModel(["Done."])))
    for item_id, said, code in (
        ("live", "'live' was already delivered; `sideband clear --id live` ends it", AlreadyDelivered.code),
        ("other", "no reminder or message with the id 'other' is queued; `sideband pending`", UnknownReminder.code),
    ):
        assert revoke(item_id, store=url) == 1
        first, second = capsys.readouterr().err.splitlines()
        assert first.startswith(f"error: ID: {said}")
        assert second.startswith(f"code: {code};")


# Refusals.


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        ({"ttl": 0}, "--ttl: ttl_turns must be between", "HARN-RMD-001"),
        ({"tag": ("a", " ")}, "--tag: tags[1] must not be blank", "HARN-RMD-001"),
        ({"role_hint": "boss"}, "--hint: role_hint must be one of", "HARN-RMD-001"),
        ({"propagate": "x"}, "--propagate: propagate must be", "HARN-RMD-005"),
        ({"mode": "steer"}, "--mode: mode must be one of", UnsupportedMode.code),
        ({"id": "a b"}, "--id: id must", "HARN-RMD-001"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_written_with_its_code(
    options: dict[str, Any], said: str, code: str, url: str, capsys: Captured
) -> None:
    assert remind("x", store=url, **options) == 2
    complaint, explained = capsys.readouterr().err.splitlines()
    assert complaint.startswith(f"error: {said}")
    assert explained == f"code: {code}; for the cause and the remedy: sideband explain {code}"
    assert inbox(url, capsys) == []


def test_what_the_session_refuses_has_another_status(url: str, capsys: Captured) -> None:
    assert inject("x", store=url) == 1
    assert f"code: {NoRunningTurn.code};" in capsys.readouterr().err
    assert revoke("unknown", store=url) == 1
    assert f"code: {UnknownReminder.code};" in capsys.readouterr().err
    assert remind("x", store=url, id="r1") == 0
    assert remind("y", store=url, id="r1") == 1
    assert f"code: {IdempotencyConflict.code};" in capsys.readouterr().err
    in_session(url, lambda session: session.close())
    assert remind("x", store=url, to="s") == 1
    assert f"code: {UnknownSession.code};" in capsys.readouterr().err


def test_a_store_that_fails_is_reported_with_its_code(tmp_path: Path, capsys: Captured) -> None:
    assert remind("x", store=f"sqlite:///{tmp_path / 'nothing.db'}") == 2
    assert f"code: {StoreRefused.code};" in capsys.readouterr().err


def test_a_session_that_is_deleted_in_the_meantime_is_not_begun_again(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(request, "find", lambda _address: "gone")
    assert remind("x", store=url, to="gone") == 2
    assert capsys.readouterr().err == "error: session 'gone' was deleted just now\n"
