"""The journal of a store and the topic that observers see of it."""

import ast
import asyncio
import json
import stat
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

import sideband as sb
from sideband.core.accept import accept
from sideband.core.apply import fold
from sideband.core.errors import CursorExpired, CursorLost, ReminderError
from sideband.core.events import Begun, Deleted, Dropped, DropReason, Event, Injected, Queued, Recorded
from sideband.core.lifecycle import go_live
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.topic import KINDS, TopicRecord
from sideband.core.trust import IN_PROCESS
from sideband.runtime.system import moment
from sideband.store.feed import SUBSCRIBER_EVENTS
from sideband.store.postgres import PostgresSettings
from sideband.store.sqlite import SqliteSettings
from sideband.testing import MemoryStore, ScriptedModel
from tests.builders import a_draft, a_reminder
from tests.decisions import deciding, saying, whole
from tests.programs import ROOT, run_sideband
from tests.sessions import CLIENT
from tests.stored_agents import a_session, address, run
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import (
    PostgresTwin,
    Sender,
    SqliteTwin,
    Twin,
    a_start,
    is_followed,
    played,
    so_many,
    told,
    took,
    written_at,
)
from tests.waiting import until

# Put together here, so that no scanner takes this file for a leak.
SECRET: Final = "ghp_" + "a1B2" * 8
REFUSED: Final = (Dropped(reminder_id="r", reason=DropReason.RATE_LIMITED, at_the_door=True),)


# Subscribing.


@pytest.mark.requirement("events:subscribe:kind-prefix")
@pytest.mark.parametrize(
    "kind_prefix", ["transcript.", "transcript.reminder.", "transcript.reminder.fired", "nothing."]
)
def test_a_subscriber_gets_the_kinds_that_begin_so_and_no_others(twin: Twin, kind_prefix: str) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await session.remind("a fact", ttl_turns=1)
            await run(session)
            entries = await told(store)
            expected = [
                entry.sequence
                for entry in entries
                if (kind := KINDS.get(type(entry.event))) is not None and kind.startswith(kind_prefix)
            ]
            assert [entry.sequence for entry in await told(store, kind_prefix=kind_prefix)] == expected
            source = store.subscribe(kind_prefix=kind_prefix)
            assert [entry.sequence for entry in await took(source, len(expected))] == expected
            await source.aclose()
            assert len(expected) < len(entries)

    played(story)


@pytest.mark.requirement("events:subscribe:after")
@pytest.mark.parametrize("after", [0, 1, 7, 10])
def test_a_subscriber_begins_behind_its_position_and_goes_on_with_what_comes(twin: Twin, after: int) -> None:
    async def story() -> None:
        async with twin.open() as store:
            await store.commit("s", so_many(10))
            source = store.subscribe(after=after)
            past = await took(source, 10 - after)
            following = asyncio.ensure_future(anext(source))
            await asyncio.sleep(0)
            await store.commit("s", a_start)
            assert [entry.sequence for entry in (*past, await following)] == list(range(after + 1, 12))
            await source.aclose()

    played(story)


@pytest.mark.requirement("events:subscribe:slow-subscriber")
def test_a_subscriber_that_is_too_far_behind_is_disconnected_with_its_cursor(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            source = store.subscribe()
            waiting = asyncio.ensure_future(anext(source))
            await is_followed(store)
            await store.commit("s", a_start)
            assert (await waiting).sequence == 1
            await store.commit("s", so_many(SUBSCRIBER_EVENTS))
            assert len(await took(source, SUBSCRIBER_EVENTS)) == 1_000
            await store.commit("s", so_many(SUBSCRIBER_EVENTS + 1))
            assert len(await took(source, SUBSCRIBER_EVENTS)) == 1_000
            with pytest.raises(CursorLost) as lost:
                await anext(source)
            assert (lost.value.reason, lost.value.seen) == ("cursor_lost", 2_001)
            again = store.subscribe(after=lost.value.seen)
            assert (await anext(again)).sequence == 2_002
            await again.aclose()

    played(story)


@pytest.mark.requirement("events:subscribe:cursor-expired")
def test_a_cursor_before_pruned_events_is_expired(durable: Twin) -> None:
    async def story() -> None:
        assert isinstance(durable, SqliteTwin | PostgresTwin)
        async with durable.open() as store:
            await store.commit("s", so_many(10))
            await store.prune("s", keep_events=4)
            for after in (0, 5):
                with pytest.raises(CursorExpired) as expired:
                    await told(store, after=after)
                assert (expired.value.reason, expired.value.oldest) == ("cursor_expired", 6)
                with pytest.raises(CursorExpired):
                    await anext(store.subscribe(after=after))
            assert [entry.sequence for entry in await told(store, after=6)] == [7, 8, 9, 10]

    played(story)


@pytest.mark.requirement("events:log:absent-log-changes-nothing")
def test_without_a_log_everything_works_and_nothing_is_emitted() -> None:
    def work() -> tuple[object, ...]:
        transcript = sb.Transcript(messages=({"role": "user", "content": "Fix it"},))
        first = sb.inject_reminder(transcript, body="one", dedupe_key="k", ttl_turns=2)
        second = sb.inject_reminder(first.transcript, body="two", dedupe_key="k", ttl_turns=2)
        ended = sb.end_turn(second.transcript, turn=1)
        cleared = sb.clear_reminders(ended.transcript, dedupe_key="k")
        compacted = sb.transcript_compact(cleared.transcript, strategy="keep_last")
        bodies = [reminder.body for reminder in ended.transcript.reminders]
        return second.deduped_count, bodies, cleared.removed_count, compacted.transcript.messages

    with sb.EventLog() as log:
        told_of = work()
    records = log.records()
    assert records
    assert work() == told_of
    with pytest.raises(ReminderError):
        sb.inject_reminder(sb.Transcript(), body="")
    assert log.records() == records, "the subscription had ended"


@pytest.mark.requirement("events:log:absent-log-changes-nothing")
def test_a_session_without_subscribers_behaves_like_one_with_subscribers(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            sender = Sender(store)
            await sender.send(a_draft(), session_id="alone")
            source = store.subscribe(session_id="followed")
            await sender.send(a_draft(), session_id="followed")
            assert isinstance((await anext(source)).event, Queued)
            await source.aclose()
            alone, followed = (store.state(name).inbox.items() for name in ("alone", "followed"))
            assert [item.waits_in for item in alone] == [item.waits_in for item in followed]

    played(story)


# The topic of sessions.


async def taken(source: AsyncGenerator[TopicRecord, None], count: int) -> list[TopicRecord]:
    async with aclosing(source):
        return [await anext(source) for _ in range(count)]


@pytest.mark.requirement("events:session:topic-records", "events:payload:session-task-agent", "events:record:fields")
def test_a_session_yields_records_of_its_topic_with_task_agent_and_time(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await store.commit("s", saying(Recorded(name="task_id", value="t"), Recorded(name="agent", value="mender")))
            await session.remind("a fact", ttl_turns=1)
            await run(session, name="mender")
            public = [entry for entry in await told(store) if type(entry.event) in KINDS]
            records = await taken(session.events(), len(public))
            assert [(record.seq, record.kind) for record in records] == [
                (entry.sequence, KINDS[type(entry.event)]) for entry in public
            ]
            for record, entry in zip(records, public, strict=True):
                assert (record.session_id, record.time) == ("s", moment(entry.time))
                assert (record.payload["task_id"], record.payload["agent_id"]) == ("t", "mender")
            (fired,) = await taken(session.events(kind_prefix="transcript.reminder.fired"), 1)
            assert fired in records
            (expired,) = await taken(session.events(after=fired.seq), 1)
            assert expired.kind == "transcript.reminder.expired"

    played(story)


@pytest.mark.requirement("events:record:fields")
def test_the_time_of_a_row_of_an_earlier_version_is_null() -> None:
    async def story() -> None:
        session = await a_session(MemoryStore(now_ms=lambda: 0))
        await session.remind("a fact")
        (record,) = await taken(session.events(), 1)
        assert record.time is None

    played(story)


@pytest.mark.requirement("events:payload:session-task-agent")
def test_records_follow_what_a_session_records_of_its_agent(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            source = session.events()
            agents = []
            changes = (
                Begun(attributes={"agent": "first"}),
                Recorded(name="agent", value="second"),
                Recorded(name="title", value="third"),
                Recorded(name="agent"),
                Recorded(name="agent", value="fourth"),
                Deleted(),
            )
            for change in changes:
                await store.commit("s", saying(change, *REFUSED))
                agents.append((await anext(source)).payload["agent_id"])
            await source.aclose()
            assert agents == ["first", "second", "second", None, "fourth", None]

    played(story)


@pytest.mark.requirement("events:log:sessions")
def test_an_active_log_gets_what_its_task_does_to_a_session_and_nothing_else(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session, other = await a_session(store), await a_session(store, "other")
            await store.commit("s", saying(Recorded(name="agent", value="mender")))
            await session.remind("before")
            after = len(await told(store))
            with sb.EventLog(task_id="t", now_ms=lambda: 1_000) as log:
                reminder_id = (await session.remind("a fact", ttl_turns=1)).reminder_id
                await session.revoke(reminder_id)
                await run(session, "Done.", name="mender")
                await session.close()
                sb.inject_reminder(sb.Transcript(), body="of no session")
            await other.remind("afterwards")
            entries = await told(store, session_id="s", after=after)
            expected = [KINDS[type(entry.event)] for entry in entries if type(entry.event) in KINDS]
            *of_session, pure = log.records()
            assert [record.kind for record in of_session] == expected
            assert {"transcript.reminder.queued", "transcript.reminder.fired", "transcript.inject.delivered"} <= {
                *expected
            }
            for record in of_session:
                assert (record.session_id, record.time) == ("s", "1970-01-01T00:00:01.000Z")
                assert (record.payload["task_id"], record.payload["agent_id"]) == ("t", "mender")
            assert (pure.kind, pure.session_id, pure.payload["task_id"]) == ("transcript.reminder.injected", None, "t")
            assert [record.seq for record in log.records()] == list(range(1, len(expected) + 2))

    played(story)


@pytest.mark.requirement("events:log:sessions")
def test_a_log_gets_what_was_committed_after_its_task_was_cancelled(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            with sb.EventLog() as log:
                reminding = asyncio.ensure_future(session.remind("a fact"))
                await asyncio.sleep(0)
                reminding.cancel()
                await asyncio.gather(reminding, return_exceptions=True)
                await until(log.records)
            assert len(await session.pending()) == len(log.records()) == 1

    played(story)


@pytest.mark.requirement("events:log:subscribe")
def test_a_log_yields_past_and_future_records_by_kind_and_position() -> None:
    async def story() -> None:
        with sb.EventLog() as log:
            first = sb.inject_reminder(sb.Transcript(), body="one", tags=["t"])
            queued = log.subscribe(kind_prefix="transcript.reminder.injected")
            rest = log.subscribe(after=1)
            assert (await anext(queued)).seq == 1
            following = asyncio.ensure_future(anext(queued))
            await asyncio.sleep(0)
            sb.clear_reminders(first.transcript, tag="t")
            await asyncio.to_thread(sb.inject_reminder, sb.Transcript(), body="two")
            assert (await following).seq == 3
            assert [(await anext(rest)).seq for _ in range(2)] == [2, 3]
            await queued.aclose()
            await rest.aclose()

    played(story)


# The journal.


@pytest.mark.requirement("events:sequence:gap-free")
def test_all_sessions_of_a_store_share_one_sequence_without_gaps(twin: Twin) -> None:
    def fail(_state: object) -> tuple[()]:
        raise LookupError

    async def story() -> None:
        async with twin.open() as store:
            asked = [store.commit(f"s{number % 4}", a_start if number % 5 else deciding(fail)) for number in range(40)]
            await asyncio.gather(*asked, return_exceptions=True)
        async with twin.open() as store:
            assert await written_at(store, "s0", a_start) == 33
            assert [entry.sequence for entry in await told(store)] == list(range(1, 34))

    played(story)


@pytest.mark.requirement("events:journal:private-file")
def test_the_file_of_a_journal_is_its_owners_alone(sqlite: SqliteTwin) -> None:
    async def story() -> dict[str, int]:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
            return {path.name: stat.S_IMODE(path.stat().st_mode) for path in sqlite.path.parent.iterdir()}

    modes = played(story)
    assert modes["store.db"] == modes["store.db-wal"] == modes["store.db-shm"] == 0o600
    assert all(not mode & 0o077 for mode in modes.values())
    sqlite.path.chmod(0o644)
    played(story)
    assert stat.S_IMODE(sqlite.path.stat().st_mode) == 0o600


def numbers(twin: Twin, query: str) -> list[int]:
    """What a query finds in the tables of a store."""
    if isinstance(twin, PostgresTwin):
        return [row[0] for row in twin.execute(query.format(store="sideband."))]
    assert isinstance(twin, SqliteTwin)
    connection = apsw.Connection(str(twin.path))
    found: list[Any] = [row[0] for row in connection.execute(query.format(store=""))]
    connection.close()
    return found


@pytest.mark.requirement("events:journal:pruned-behind-a-snapshot")
def test_a_pruned_journal_is_covered_by_a_snapshot_and_nothing_is_forgotten(durable: Twin) -> None:
    small = (
        SqliteSettings(snapshot_events=20, kept_events=5)
        if isinstance(durable, SqliteTwin)
        else PostgresSettings(snapshot_events=20, kept_events=5)
    )

    async def story() -> None:
        assert isinstance(durable, SqliteTwin | PostgresTwin)
        async with durable.open(small) as store:  # type: ignore[arg-type]  # its own
            events: list[Event] = []
            for number in range(40):
                draft, new_id = a_draft(dedupe_key=f"k{number % 3}"), f"r{number}"
                decide = partial(accept, draft=draft, provenance=CLIENT, new_id=new_id, limits=DEFAULT_LIMITS)
                events += (await store.commit("s", whole(decide))).events
            expected = facts(store.state("s"))
            assert expected == facts(fold(events))
        async with durable.open() as store:
            await store.open("s")
            assert facts(store.state("s")) == expected
            assert 0 < len(numbers(durable, "SELECT sequence FROM {store}journal")) < len(events)

    played(story)
    (snapshot,) = numbers(durable, "SELECT sequence FROM {store}snapshot")
    assert 1 < min(numbers(durable, "SELECT sequence FROM {store}journal")) <= snapshot


# Secrets.


async def tell_secrets(twin: Twin) -> None:
    async with twin.open() as store:
        session = await a_session(store)
        await session.remind(f"The token is {SECRET}.", dedupe_key=f"token:{SECRET}", tags=[SECRET], ttl_turns=1)
        await store.commit(
            "s", deciding(lambda state: go_live(state, a_reminder("live", dedupe_key=SECRET), IN_PROCESS))
        )
        await run(session)
        events = [entry.event for entry in await told(store)]
        assert any(isinstance(event, Injected) and SECRET in event.reminder.body for event in events), "kept in full"


@pytest.mark.requirement("events:masking:exports")
def test_an_export_masks_secrets_and_holds_no_body(durable: Twin, tmp_path: Path) -> None:
    played(lambda: tell_secrets(durable))
    path = tmp_path / "events.jsonl"
    answer = run_sideband("events", "--store", address(durable), "--all", "--export", str(path))
    assert answer.returncode == 0, answer.stderr
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"transcript.reminder.queued", "transcript.reminder.fired", "transcript.reminder.expired"} <= {
        line["kind"] for line in lines
    }
    for told_to_others in (text, answer.stdout, answer.stderr):
        assert SECRET not in told_to_others
        assert "The token is" not in told_to_others
    assert "[masked]" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.requirement("events:masking:exports")
def test_a_log_masks_secrets() -> None:
    with sb.EventLog(session_id="s") as log:
        sb.inject_reminder(sb.Transcript(), body=f"The token is {SECRET}.", dedupe_key=SECRET, tags=[SECRET])
    assert log.records()
    assert SECRET not in str(log.records())


@pytest.mark.requirement("events:masking:exports")
def test_what_is_logged_of_a_failure_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    def fail(text: str) -> None:
        raise RuntimeError(f"cannot show {text}")

    reply = asyncio.run(sb.llm_call("Say it.", model=ScriptedModel([f"It is {SECRET}."]), on_text=fail))
    assert SECRET in reply.text
    assert "cannot show It is [masked]" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.requirement("events:masking:exports")
def test_code_that_writes_to_a_logger_or_a_trace_masks_secrets() -> None:
    writers = {"logging", "opentelemetry", "structlog"}
    for path in (ROOT / "src").rglob("*.py"):
        imported = {name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for name in _imported(node)}
        if writers & {name.partition(".")[0] for name in imported}:
            assert "sideband.core.masking" in imported, f"{path.name} tells what it has not masked"


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []
