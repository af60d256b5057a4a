"""Sessions that are begun, found, listed and deleted, with their records and receipts, on every kind of store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from sideband.core import snapshot, turn
from sideband.core.accept import accept
from sideband.core.errors import (
    CursorExpired,
    IdempotencyConflict,
    InvalidOption,
    SessionBusy,
    StoreDamaged,
    UnknownSession,
)
from sideband.core.events import Begun, Deleted, Recorded, Started
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft
from sideband.core.state import Decided, SessionState
from sideband.inspect.sessions import inspect_store, summaries
from sideband.ports import INDEXED_BYTES, Journal
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.store.inspector import verify
from sideband.store.memory import MemoryStore
from tests.builders import a_draft
from tests.conformance.test_store_topic import numbers
from tests.decisions import saying
from tests.sessions import CLIENT, PEER
from tests.stored_agents import address
from tests.unit.store.old_stores import IN_JOURNAL, IN_SNAPSHOT, OLD_VERSIONS, make_old
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import (
    MemoryTwin,
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
    two_of,
)

PRIVATE = "the sum is 4711"


@asynccontextmanager
async def stores(twin: Twin) -> AsyncIterator[tuple[Store, Store]]:
    """The stores of two processes."""
    async with two_of(twin) as (here, there):
        yield Store(here), Store(there)


async def listed(store: Store, **wanted: Any) -> list[str]:  # noqa: ANN401 - those of sessions
    return [entry.session_id for entry in (await store.sessions(**wanted)).sessions]


# Beginning and finding.


@pytest.mark.requirement("store:sessions:begin-is-durable")
def test_a_session_is_begun_once_with_its_records_and_messages(twin: Twin) -> None:
    message = {"role": "user", "content": "Go on.", "id": "m1"}

    async def story() -> None:
        async with stores(twin) as (here, there):
            session = await here.begin(
                "s", attributes={"cwd": "/work", "size": [1, 2.5], "none": None}, messages=[message]
            )
            assert session is await here.session("s")
            found = await there.find("s")
            assert found is not None
            transcript = await found.transcript()
            assert [*transcript.messages] == [message]
            (entry,) = (await there.sessions()).sessions
            assert entry.records == {"cwd": "/work", "size": [1, 2.5]}
            for store in (here, there):
                with pytest.raises(InvalidOption, match=r"there is a session 's' already; .* find\(\)"):
                    await store.begin("s", attributes={"cwd": "/other"})
            (entry,) = (await there.sessions()).sessions
            assert entry.records["cwd"] == "/work"
            named = await here.begin(messages=[{"role": "user", "content": "Without an id."}])
            assert named.talk.state.messages[0]["id"]
            assert await listed(there) == [named.id, "s"]

    played(story)


@pytest.mark.requirement("store:sessions:wrong-values-are-named")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"attributes": ["cwd"]}, r"attributes must be a mapping.*\['cwd'\]", id="attributes-no-mapping"),
        pytest.param({"attributes": {" ": 1}}, "the name of a record .* not blank .* not ' '", id="blank-name"),
        pytest.param({"attributes": {5: 1}}, "the name of a record must be a string .* not 5", id="name-no-string"),
        pytest.param({"attributes": {"x" * 300: 1}}, "at most 256 bytes", id="long-name"),
        pytest.param({"attributes": {"\ud800": 1}}, "no lone surrogate", id="name-with-a-surrogate"),
        pytest.param({"attributes": {"a": object()}}, "the record 'a' cannot be written as JSON", id="no-json"),
        pytest.param({"messages": "hello"}, "messages must be a list of messages, not 'hello'", id="messages-no-list"),
        pytest.param({"messages": [{"role": "user"}]}, "message 0 must be an object with 'role'", id="no-content"),
        pytest.param(
            {"messages": [{"role": "user", "content": "a", "id": 5}]}, "the id of message 0 .* not 5", id="no-id"
        ),
        pytest.param({"messages": [{1, object()}]}, "message 0 cannot be written as JSON", id="message-no-json"),
    ],
)
def test_what_cannot_be_stored_is_named_before_anything_is_written(values: Mapping[str, Any], message: str) -> None:
    async def story() -> None:
        store = Store(MemoryTwin(None).store)  # type: ignore[arg-type]  # it has no place
        with pytest.raises(InvalidOption, match=message) as refused:
            await store.begin("s", **values)
        assert refused.value.field in values
        assert await store.find("s") is None

    played(story)


@pytest.mark.requirement("store:sessions:wrong-values-are-named")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"records": ["cwd"]}, r"records must be a mapping of names to strings, not \['cwd'\]", id="list"),
        pytest.param({"records": {"n": 3}}, "looked up by strings; the record 'n' cannot be 3", id="number"),
        pytest.param({"records": {"": "a"}}, "the name of a record", id="blank-name"),
        pytest.param({"records": {"\ud800": "a"}}, "no lone surrogate", id="name-with-a-surrogate"),
        pytest.param({"limit": 0}, "limit must be a whole number of at least 1, not 0", id="limit"),
        pytest.param({"before": "x"}, "before must be a whole number .*, not 'x'", id="before"),
    ],
)
def test_what_cannot_be_looked_up_is_named(values: Mapping[str, Any], message: str) -> None:
    async def story() -> None:
        with pytest.raises(InvalidOption, match=message) as refused:
            await Store(MemoryTwin(None).store).sessions(**values)  # type: ignore[arg-type]  # it has no place
        assert refused.value.field in values

    played(story)


@pytest.mark.requirement("store:sessions:find-creates-nothing")
def test_looking_for_a_session_leaves_no_trace_of_it(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, _):
            assert await here.find("s") is None
            assert await here.journal.entry("s") is None
            assert not await here.delete("s")
            # A name alone is nothing yet, either.
            session = await here.session("s")
            assert await here.find("s") is None
            await session.remind("Now it is.")
            assert await here.find("s") is session
            assert await here.find("t") is None
        if isinstance(twin, PostgresTwin):
            assert twin.execute("SELECT session_id FROM sideband.session") == [("s",)]

    played(story)


# The list.


@pytest.mark.requirement("store:sessions:listed-from-its-first-event", "store:events:have-a-time")
def test_a_listed_session_has_the_times_of_its_first_and_last_event(twin: Twin) -> None:
    clock = twin.clock  # type: ignore[attr-defined]  # each of them has one
    start = clock.now_ms()

    async def story() -> None:
        async with stores(twin) as (here, there):
            await here.journal.commit("s", so_many(2))
            clock.advance(5)
            await there.journal.commit("other", a_start)
            clock.advance(5)
            await there.journal.commit("s", so_many(2))
            assert [entry.time - start for entry in await told(here.journal)] == [0, 0, 5_000, 10_000, 10_000]
            expected = [("other", 3, 5_000, 5_000), ("s", 1, 0, 10_000)]
            for prune in (False, True):
                if prune:
                    await here.journal.commit("last", a_start)
                    await here.journal.prune("s")
                    await here.delete("last")
                found = [
                    (entry.session_id, entry.begun, entry.begun_at - start, entry.changed_at - start)
                    for entry in (await there.sessions()).sessions
                ]
                assert found == expected

    played(story)


@pytest.mark.requirement("store:events:have-a-time")
def test_a_changed_time_is_damage(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await store.commit("s", a_start)
        change(durable, "UPDATE {store}journal SET time = time + 1")
        async with durable.open() as store:
            with pytest.raises(StoreDamaged, match="row 1 of the journal was changed"):
                await store.open("s")

    played(story)
    with inspect_store(address(durable)) as store:
        assert verify(store, store.sessions()[0]).faults == ("row 1 was changed",)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_changed_row_of_the_list_is_damage(durable: Twin) -> None:
    async def story() -> None:
        async with stores(durable) as (here, _):
            await here.begin("s", attributes={"title": "a"})
            change(durable, "UPDATE {store}session SET records = '{{'")
            for read in (here.find("s"), here.sessions()):
                with pytest.raises(StoreDamaged, match="a row of the table session was changed"):
                    await read

    played(story)


@pytest.mark.requirement("store:sessions:newest-first-in-pages")
def test_the_pages_of_a_list_hold_every_session_once_newest_first(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            for number in range(7):
                await (here, there)[number % 2].begin(f"s{number}")
                # What happens later does not move a session.
                await here.journal.commit("s0", saying(Recorded(name="n", value=number)))
            pages, before = [], None
            while True:
                page = await there.sessions(before=before, limit=3)
                pages.append([entry.session_id for entry in page.sessions])
                before = page.next_before
                if before is None:
                    break
                # A session that is begun meanwhile is not on a later page.
                await here.begin(f"new {len(pages)}")
            assert pages == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]
            assert (await here.sessions(limit=9)).next_before is None

    played(story)


@pytest.mark.requirement("store:sessions:looked-up-by-records")
def test_sessions_are_looked_up_by_all_given_records(twin: Twin) -> None:
    long = "x" * INDEXED_BYTES

    async def story() -> None:
        async with stores(twin) as (here, there):
            await here.begin("a", attributes={"cwd": "/x", "owner": "me"})
            await here.begin("b", attributes={"cwd": "/x", "owner": "you", "n": 5})
            await there.begin("c", attributes={"cwd": "/y", "long": long, "longer": long + "x", "nul": "\x00"})
            for wanted, names in (
                ({}, ["c", "b", "a"]),
                ({"cwd": "/x"}, ["b", "a"]),
                ({"cwd": "/x", "owner": "me"}, ["a"]),
                ({"cwd": "/z"}, []),
                ({"n": "5"}, []),
                ({"long": long}, ["c"]),
                ({"longer": long + "x"}, []),
                ({"nul": "\x00"}, []),
                ({"cwd": "\ud800"}, []),
            ):
                assert await listed(there, records=wanted) == names
            assert await listed(there, records={"cwd": "/x"}, limit=1) == ["b"]
            (entry,) = (await here.sessions(records={"cwd": "/y"})).sessions
            assert entry.records == {"cwd": "/y", "long": long, "longer": long + "x", "nul": "\x00"}

    played(story)


@pytest.mark.requirement("store:sessions:records-change-with-their-commit")
def test_records_change_together_with_everything_else(twin: Twin) -> None:
    def fail_after(_state: SessionState) -> Decided[None]:
        return Decided((Recorded(name="title", value="never"), Recorded(name=" ", value="x")), None)

    async def story() -> None:
        async with stores(twin) as (here, there):
            await here.begin("s", attributes={"title": "first", "cwd": "/x"})
            await there.journal.commit("s", partial(turn.record, records={"title": "second", "task": {"n": [1]}}))
            await here.journal.commit("s", partial(turn.record, records={"cwd": None}))
            if not isinstance(twin, MemoryTwin):
                with pytest.raises(Exception, match="the name of a record"):
                    await here.journal.commit("s", fail_after)
            entry = await there.journal.entry("s")
            assert entry is not None
            assert entry.records == {"title": "second", "task": {"n": [1]}}
            assert (await there.journal.read("s", lambda state: dict(state.records))).value == entry.records
            entry.records["task"]["n"].append(2)
            again = await there.journal.entry("s")
            assert again is not None
            assert again.records["task"] == {"n": [1]}
            assert await listed(here, records={"title": "second"}) == ["s"]
            assert await listed(here, records={"title": "first"}) == []

    played(story)


# Deleting.


async def a_full_session(store: Store, name: str = "s") -> None:
    session = await store.begin(
        name, attributes={"title": PRIVATE}, messages=[{"role": "user", "content": PRIVATE, "id": "m"}]
    )
    await session.remind(PRIVATE, dedupe_key=PRIVATE)
    await session.prompt(PRIVATE)
    await Sender(store.journal).send(a_draft(body=PRIVATE, caller_id="once"), session_id=name)


def rows_of(twin: Twin) -> str:
    """Everything that the rows of a store hold."""
    if isinstance(twin, PostgresTwin):
        tables = ("journal", "session", "snapshot", "record", "receipt")
        queries = (
            "SELECT row_to_json(held)::text || convert_from(body, 'UTF8') FROM sideband.{} AS held"
            if table in ("journal", "snapshot", "receipt")
            else "SELECT row_to_json(held)::text FROM sideband.{} AS held"
            for table in tables
        )
        return repr([twin.execute(query.format(table)) for query, table in zip(queries, tables, strict=True)])
    return repr(
        [
            numbers(twin, query)
            for query in (
                "SELECT word || CAST(body AS TEXT) FROM journal",
                "SELECT CAST(body AS TEXT) FROM snapshot",
                "SELECT session_id || records FROM session",
                "SELECT name || key FROM record",
                "SELECT caller_id || CAST(body AS TEXT) FROM receipt",
            )
        ]
    )


@pytest.mark.requirement("store:sessions:delete-leaves-no-content")
@pytest.mark.parametrize("dies", [False, True], ids=["at-once", "after-a-process-died-before-it-pruned"])
def test_nothing_is_left_of_a_deleted_session(
    durable: Twin,
    dies: bool,  # noqa: FBT001 - a row
) -> None:
    async def story() -> None:
        async with stores(durable) as (here, there):
            await a_full_session(here)
            await here.begin("other", attributes={"title": "kept"})
            assert PRIVATE in rows_of(durable)
            if dies:
                await here.journal.commit("s", turn.delete)
                assert PRIVATE in rows_of(durable)
            assert await there.delete("s") is not dies
            assert PRIVATE not in rows_of(durable)
            for store in (here, there):
                assert await listed(store) == ["other"]
                assert await store.find("s") is None
                assert not await store.delete("s")
            await here.journal.commit("other", a_start)

    played(story)
    assert "once" not in rows_of(durable)
    assert [summary.session for summary in summaries(address(durable))] == ["other"]
    with inspect_store(address(durable)) as store:
        assert [*store.faults(), *store.missing()] == []
        assert [verify(store, stored).faults for stored in store.sessions()] == [(), ()]


@pytest.mark.requirement("store:sessions:delete-leaves-no-content")
def test_nothing_is_left_in_memory_of_a_deleted_session() -> None:
    async def story() -> None:
        journal = MemoryStore()
        store = Store(journal)
        await a_full_session(store)
        assert PRIVATE in repr(journal.journal)
        assert await store.delete("s")
        assert PRIVATE not in repr([vars(journal), vars(journal.state("s"))])
        assert await listed(store) == []

    played(story)


@pytest.mark.requirement("store:sessions:delete-refuses-a-run")
def test_a_session_that_is_run_is_not_deleted(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            await here.begin("s")
            lease = await here.journal.acquire("s", "a run")
            await here.journal.commit("s", a_start, lease=lease)
            for store in (here, there):
                with pytest.raises(SessionBusy, match="session 's' is being run; cancel the run"):
                    await store.delete("s")
            assert await listed(there) == ["s"]
            await here.journal.commit("s", a_start, lease=lease)
            await here.journal.release(lease)
            assert await there.delete("s")

    played(story)


@pytest.mark.requirement("store:sessions:deleted-is-begun-again")
def test_a_deleted_session_accepts_nothing_until_it_is_begun_again(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            await a_full_session(here)
            old = await here.session("s")
            first = await here.journal.entry("s")
            assert await there.delete("s")
            await here.journal.open("s")
            with pytest.raises(UnknownSession, match="was deleted"):
                await old.remind("Too late.")
            # What a process writes that has not noticed the end does not bring the session back.
            await here.journal.commit("s", saying(Started()))
            assert await there.find("s") is None
            again = await here.session("s")
            assert (await again.pending(), [*(await again.transcript()).messages]) == ((), [])
            entry = await there.journal.entry("s")
            assert first is not None
            assert entry is not None
            assert (entry.records, entry.begun > first.begun) == ({}, True)
            # Nor are its receipts known.
            sent = await Sender(there.journal, PEER).send(a_draft(body="Another.", caller_id="once"))
            assert sent.deduped_count == 0
            assert await there.delete("s")
            begun = await there.begin("s", attributes={"title": "new"})
            await begun.remind("Now.")
            found = await here.find("s")
            assert found is not None
            assert [entry.reminder.body for entry in await found.pending()] == ["Now."]

    played(story)


@pytest.mark.requirement("store:sessions:deleted-is-begun-again")
def test_a_program_begins_a_session_again_that_another_process_deleted_just_now(durable: Twin) -> None:
    async def story() -> None:
        async with stores(durable) as (here, there):
            for _ in range(5):
                await (await here.session("s")).remind("Hello.")
                await (await there.session("s")).remind("Hello.")
                assert await here.delete("s")
                await (await there.session("s")).remind("Hello again.")
                assert await there.delete("s")

    played(story)


@pytest.mark.requirement("store:sessions:deleted-is-begun-again")
@pytest.mark.parametrize("begin", [Store.begin, Store.session])
def test_a_session_begun_again_shows_no_events_that_a_deletion_left_behind(
    twin: Twin, begin: Callable[[Store, str], Awaitable[Session]]
) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            await (await here.begin("s")).remind(PRIVATE)
            # The process dies before it prunes the journal.
            await here.journal.commit("s", turn.delete)
            await begin(there, "s")
            with pytest.raises(CursorExpired) as pruned:
                await told(there.journal, session_id="s")
            left = await told(there.journal, session_id="s", after=pruned.value.oldest)
            assert [type(entry.event) for entry in left] == [Deleted, Begun]

    played(story)


@pytest.mark.requirement("store:sessions:deletion-reaches-other-processes")
def test_other_processes_see_that_a_session_was_deleted_and_go_on(durable: Twin) -> None:
    async def story() -> None:
        async with stores(durable) as (here, there), AsyncExitStack() as stack:
            await a_full_session(here)
            await here.begin("other")
            watched = await there.find("s")
            other = await there.find("other")
            assert watched is not None
            assert other is not None
            after = (await there.journal.read("other", lambda _: None)).at
            source = await stack.enter_async_context(aclosing(there.journal.subscribe(session_id="other", after=after)))
            waiting = asyncio.ensure_future(took(source, 2))
            await is_followed(there.journal)
            wake = there.journal.wake("s")
            wake.clear()
            assert await here.delete("s")
            await wake.wait()
            await here.journal.commit("other", so_many(2))
            assert [entry.event for entry in await waiting] == [Started(), Started()]
            seen = await there.journal.read("s", lambda state: (state.exists, state.deleted, len(state.inbox)))
            assert seen.value == (False, True, 0)
            assert there.journal.state("s").deleted
            with pytest.raises(UnknownSession):
                await watched.remind("Too late.")
            await other.remind("Here it goes on.")

    played(story)


# Receipts.


async def sent(store: Journal, draft: Draft, **options: Any) -> object:  # noqa: ANN401 - those of accept
    decide = partial(accept, draft=draft, provenance=CLIENT, new_id="x", limits=DEFAULT_LIMITS, **options)
    accepted = await store.commit("s", decide, receipts=(draft.caller_id,) if draft.caller_id else ())
    return accepted.reminder_id, accepted.deduped_count, accepted.accepted_at, accepted.version


@pytest.mark.requirement("store:receipts:live-as-long-as-the-session")
def test_a_receipt_is_kept_when_the_journal_is_pruned(twin: Twin) -> None:
    once, twice = a_draft(caller_id="once", dedupe_key="k"), a_draft(caller_id="twice", dedupe_key="k")

    async def story() -> None:
        async with stores(twin) as (here, there):
            first = await sent(here.journal, once, now=1)
            second = await sent(here.journal, twice, now=2)
            assert second == ("twice", 1, 2, 1)
            version = await sent(here.journal, a_draft(caller_id="twice", body="Green."), now=3, versioned=True)
            assert version == ("twice~2", 1, 3, 2)
            await here.journal.commit("other", a_start)
            await there.journal.prune("s")
            for store in (here, there):
                assert await sent(store.journal, once, now=9) == first
                assert await sent(store.journal, a_draft(caller_id="twice", body="Green."), now=9) == version
                with pytest.raises(IdempotencyConflict):
                    await sent(store.journal, a_draft(caller_id="once", body="Other."))
            taken = await here.journal.read("s", snapshot.encode)
            assert b"receipt" not in taken.value
            assert b"fingerprint" not in msgspec.json.encode(msgspec.json.decode(taken.value)["inbox"]["tombstones"])

    played(story)


@pytest.mark.requirement("store:receipts:requests-at-once-are-one")
def test_requests_with_one_id_that_are_sent_at_once_get_one_reply(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            for number in range(10):
                draft = a_draft(caller_id=f"id-{number}")
                replies = await asyncio.gather(
                    *(sent(store.journal, draft, now=at) for at, store in enumerate((here, here, there, there, here)))
                )
                assert len(set(replies)) == 1
            assert len(await told(here.journal)) == 10

    played(story)


@pytest.mark.requirement("store:receipts:live-as-long-as-the-session")
def test_a_changed_receipt_is_damage_to_its_request_alone(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            for name in ("a", "b"):
                await sent(store, a_draft(caller_id=name))
            change(durable, "UPDATE {store}receipt SET checksum = checksum + 1 WHERE caller_id = 'a'")
            damaged, sound, new = await asyncio.gather(
                *(sent(store, a_draft(caller_id=name)) for name in ("a", "b", "c")), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert "the receipt 'a' of session 's' was changed" in str(damaged)
            assert (sound, new) == (("b", 0, 0, 1), ("c", 0, 0, 1))

    played(story)


@pytest.mark.requirement("store:bounded:many-accepts-a-small-snapshot")
def test_the_snapshot_of_many_accepts_is_small(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            for start in range(0, 15_000, 500):
                await asyncio.gather(
                    *(
                        store.commit(
                            "s",
                            partial(
                                accept,
                                draft=a_draft(dedupe_key="build", caller_id=f"watcher-{number:032}"),
                                provenance=CLIENT,
                                new_id="",
                                limits=DEFAULT_LIMITS,
                            ),
                            receipts=(f"watcher-{number:032}",),
                        )
                        for number in range(start, start + 500)
                    )
                )
            await store.prune("s")

    played(story)
    (size,) = numbers(sqlite, "SELECT length(body) FROM snapshot")
    assert size < 400_000
    assert numbers(sqlite, "SELECT count(*) FROM receipt") == [15_000]
    assert numbers(sqlite, "SELECT instr(body, 'receipts') FROM snapshot") == [0]


# Reading.


@pytest.mark.requirement("store:read:state-and-cursor-of-one-moment")
def test_a_state_and_the_events_after_it_are_the_whole(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            ids = iter(range(10_000))
            over = asyncio.Event()

            async def write(store: Store) -> None:
                while not over.is_set():
                    await store.journal.commit("s", saying(Recorded(name="n", value=next(ids))))
                    await store.journal.commit("other", a_start)
                    await asyncio.sleep(0)

            writers = [asyncio.ensure_future(write(store)) for store in (here, there)]
            try:
                for _ in range(20):
                    value, at = await here.journal.read("s", lambda state: state.records.get("n"))
                    async with aclosing(here.journal.subscribe(session_id="s", after=at)) as source:
                        following = await took(source, 3)
                    logged = await told(here.journal, session_id="s")
                    before = [entry for entry in logged if entry.sequence <= at]
                    if before:
                        assert before[-1].event == Recorded(name="n", value=value)
                    after = [entry for entry in logged if entry.sequence > at]
                    assert following == after[:3]
                    if len(logged) > 100:
                        await there.journal.prune("s", keep_events=10)
                        break
            finally:
                over.set()
                await asyncio.gather(*writers)
            # Also if the process has not read what was pruned.
            newest = await here.journal.read("s", lambda state: state.records["n"])
            assert newest.value == (await there.journal.read("s", lambda state: state.records["n"])).value

    played(story)


# Migration.


@pytest.mark.requirement("store:open:earlier-versions-are-brought-forward")
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_a_store_of_an_earlier_version_lists_its_sessions_and_knows_its_receipts(durable: Twin, version: int) -> None:
    make_old(durable, version)

    async def story() -> None:
        for attempt in range(2):
            async with stores(durable) as (here, there):
                page = await there.sessions()
                assert sorted(entry.session_id for entry in page.sessions) == ["gone", "plain", "ran", "saved"]
                begun = [entry.begun for entry in page.sessions]
                assert begun == sorted(set(begun), reverse=True)
                ran = await here.find("ran")
                assert ran is not None
                assert [message["id"] for message in (await ran.transcript()).messages] == ["said"]
                # Nothing has changed yet that an earlier version wrote.
                with inspect_store(address(durable)) as kept:
                    assert {fault for stored in kept.sessions() for fault in verify(kept, stored).faults} == set()
                if not attempt:
                    assert {(entry.begun_at, entry.changed_at) for entry in page.sessions} == {(0, 0)}
                for name, draft in (("plain", IN_JOURNAL), ("saved", IN_SNAPSHOT)):
                    session = await here.find(name)
                    assert session is not None
                    assert session.talk.state.running
                    assert [entry.reminder.body for entry in await session.pending()] == [draft.body]
                    for store in (here, there):
                        again = await Sender(store.journal).send(draft, session_id=name)
                        assert (again.reminder_id, again.is_free) == (draft.caller_id, True)
                    with pytest.raises(IdempotencyConflict):
                        await Sender(here.journal).send(
                            a_draft(caller_id=draft.caller_id, body="Other."), session_id=name
                        )
                    await here.journal.commit(name, so_many(2))
                    await there.journal.prune(name, keep_events=1)
                assert await there.find("blank") is None
                assert await there.find("leased") is None
                await (await there.session("gone")).remind("It goes on.")
                entry = await here.journal.entry("gone")
                assert entry is not None
                assert entry.changed_at

    played(story)
    with inspect_store(address(durable)) as store:
        assert [*store.faults(), *store.missing()] == []
        assert {fault for stored in store.sessions() for fault in verify(store, stored).faults} == set()


@pytest.mark.requirement("store:open:earlier-versions-are-brought-forward")
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_an_empty_store_of_an_earlier_version_is_used_like_a_new_one(durable: Twin, version: int) -> None:
    make_old(durable, version, rows=False)

    async def story() -> None:
        async with stores(durable) as (here, there):
            assert await listed(here) == []
            await a_full_session(here)
            assert await listed(there) == ["s"]
            assert await there.delete("s")

    played(story)


@pytest.mark.requirement("store:open:earlier-versions-are-brought-forward")
def test_damaged_rows_of_an_earlier_version_keep_no_other_session_from_being_brought_forward(durable: Twin) -> None:
    make_old(durable, OLD_VERSIONS[-1])
    change(durable, "UPDATE {store}journal SET checksum = checksum + 1 WHERE word = 'queued'")
    change(durable, "UPDATE {store}snapshot SET checksum = checksum + 1 WHERE session_id = 'gone'")

    async def story() -> None:
        async with stores(durable) as (here, _):
            assert len(await listed(here)) == 4
            for name in ("gone", "plain"):
                with pytest.raises(StoreDamaged):
                    await here.find(name)
            again = await Sender(here.journal).send(IN_SNAPSHOT, session_id="saved")
            assert again.is_free

    played(story)
