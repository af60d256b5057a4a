"""What a store keeps through kills, power cuts, restarts and damage."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw
import pytest

from sideband.core.apply import fold
from sideband.core.errors import StoreDamaged, StoreNewer, StoreRefused
from sideband.core.events import InjectDelivered, Injected
from sideband.core.reminder import Draft
from sideband.core.state import SessionState
from sideband.loop.run import LoopStatus
from sideband.ports import Journal, ModelError
from sideband.runtime.store import open_store
from sideband.store.postgres import schema as postgres_schema
from sideband.store.sqlite import SqliteSettings, open_sqlite, schema
from tests.builders import a_draft
from tests.decisions import deciding
from tests.faults.power.images import Disk
from tests.faults.power.recording import RecordingDisk
from tests.stored_agents import Victim, a_victim, address, is_shown, run
from tests.stored_victim import tidied
from tests.unit.core.test_snapshot import facts
from tests.unit.store.sqlite.test_wal import LENGTH, left_behind, put
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin, a_start, played, told

POWER_CUTS: Final = 25


async def is_whole(store: Journal, session_id: str = "s") -> SessionState:
    """The state of a session, which is what its journal says, in a sequence without gaps."""
    entries = await told(store)
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    await store.open(session_id)
    assert facts(store.state(session_id)) == facts(
        fold(entry.event for entry in entries if entry.session_id == session_id)
    )
    return store.state(session_id)


# Kills and power cuts.


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_what_was_acknowledged_survives_the_death_of_the_process(durable: Twin) -> None:
    async def story() -> None:
        acked: list[str] = []
        for heard in (1, 4, 9):
            async with a_victim(durable, "send") as victim:
                acked += [await victim.line() for _ in range(heard)]
                acked += await victim.kill()
        async with open_store(address(durable)) as store:
            waiting = [item.id for item in (await is_whole(store.journal)).inbox.items()]
            assert [item for item in waiting if item in acked] == acked

    played(story)


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(sqlite: SqliteTwin, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.mkdir()
    disk = RecordingDisk(sqlite.path.parent)
    acked: list[tuple[int, str]] = []

    async def live() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name, snapshot_events=5)) as store:
            sender = Sender(store)
            for number in range(12):
                sent = await sender.send(a_draft(dedupe_key=f"k{number}"))
                acked.append((len(disk.done), sent.reminder_id))

    async def look() -> list[str]:
        store = await open_sqlite(image / sqlite.path.name)
        try:
            return [item.id for item in (await is_whole(store)).inbox.items()]
        finally:
            await store.close()

    with disk.watching_directories():
        played(live)
    disk.unregister()
    rng = random.Random(7)  # noqa: S311 - the same in every run
    first = acked[0][0]
    for moment in sorted(rng.sample(range(first, len(disk.done) + 1), POWER_CUTS)):
        cut = Disk()
        cut.move_on(disk.done, moment)
        cut.cut_power(image, rng)
        promised = [reminder_id for at, reminder_id in acked if at <= moment]
        assert played(look)[: len(promised)] == promised


@pytest.mark.requirement("store:durable:delivered-once")
def test_a_session_whose_process_was_killed_delivers_each_item_once(durable: Twin) -> None:
    async def story() -> None:
        async with open_store(address(durable)) as store:
            session = await store.session("s")
            reminded = [(await session.remind(f"fact {number}")).reminder_id for number in range(3)]
        async with a_victim(durable, "ask") as victim:
            assert await victim.line() == "asked"
            await victim.kill()
        async with open_store(address(durable)) as store:
            session = await store.session("s")
            _, model = await run(session, task="Go on.")
            events = [entry.event for entry in await told(store.journal, session_id="s")]
            drained = [event.reminder.id for event in events if isinstance(event, Injected)]
            assert drained == reminded
            delivered = [event.message_id for event in events if isinstance(event, InjectDelivered)]
            assert len(delivered) == len(set(delivered)) == 2
            said = [str(message["content"]) for message in (await session.transcript()).messages]
            for text in ("Mend the build.", "Go on."):
                assert len([content for content in said if text in content]) == 1
            assert all(is_shown(model, f"fact {number}") for number in range(3))
            await is_whole(store.journal)

    played(story)


@pytest.mark.requirement("store:durable:compaction-is-atomic")
def test_a_process_that_is_killed_while_it_compacts_leaves_the_old_or_the_new_transcript(durable: Twin) -> None:
    async def last_of(victim: Victim, heard: int) -> str:
        lines = [await victim.line() for _ in range(heard)]
        return [*lines, *await victim.kill()][-1]

    async def story() -> None:
        for heard in (1, 2, 3, 6):
            async with a_victim(durable, "tidy") as victim:
                last = await last_of(victim, heard)
            async with durable.open() as store:
                state = await is_whole(store)
                turn, said = state.live.turn, [message["content"] for message in state.messages]
                live = [item.id for item in state.live]
                before = [f"summary {turn - 1}"] if turn > 1 else []
                old = ([*before, f"reply {turn}"], [f"goes-{turn}", f"stays-{turn}"])
                new = ([f"summary {turn}"], [f"stays-{turn}"])
                assert (said, live) in (old, new)
                assert int(last.split()[1]) <= turn
                if last == f"tidied {turn}":
                    assert (said, live) == new
                # The next one begins with a tidy conversation, whatever this one has left.
                if (said, live) == old:
                    await store.commit("s", deciding(tidied(turn)))

    played(story)


# Turns, retries and restarts.


@pytest.mark.requirement("store:durable:ttl-is-monotone")
def test_no_crash_retry_or_restart_raises_a_ttl_or_lowers_it_twice(durable: Twin) -> None:
    busy = ModelError("busy", status=503)
    left: list[int | None] = []

    async def note() -> None:
        async with open_store(address(durable)) as store:
            pending = await (await store.session("s")).pending()
            left.append(pending[0].reminder.ttl_turns if pending else None)

    async def turn(*script: ModelError | str) -> None:
        async with open_store(address(durable)) as store:
            result, _ = await run(await store.session("s"), *script)
            assert result.status is LoopStatus.COMPLETED

    async def crash() -> None:
        async with a_victim(durable, "ask") as victim:
            assert await victim.line() == "asked"
            await victim.kill()

    async def story() -> None:
        async with open_store(address(durable)) as store:
            await (await store.session("s")).remind("a fact", ttl_turns=4)
        await note()
        for step in (
            crash(),
            turn("one"),
            crash(),
            crash(),
            turn(busy, busy, "two"),
            turn("three"),
            crash(),
            turn("four"),
        ):
            await step
            await note()

    played(story)
    assert left == [4, 4, 3, 3, 3, 2, 1, 1, None]


@pytest.mark.requirement("store:durable:idempotency-outlives-a-restart")
def test_a_repeat_after_a_restart_gets_the_reply_of_the_first(twin: Twin) -> None:
    draft = Draft(body="The build is red.", dedupe_key="build", caller_id="once")

    async def story() -> None:
        async with twin.open() as store:
            await Sender(store, name="other").send(a_draft(dedupe_key="build"))
            first = await Sender(store).send(draft)
            assert (first.reminder_id, first.deduped_count) == ("once", 1)
            count = len(await told(store))
        for _ in range(3):
            async with twin.open() as store:
                again = await Sender(store).send(draft)
                assert (again.reminder_id, again.deduped_count) == ("once", 1)
                assert (again.requested, again.effective) == (first.requested, first.effective)
                assert len(await told(store)) == count

    played(story)


# Damage.


@pytest.mark.requirement("store:durable:torn-tail-is-detected")
def test_a_torn_commit_at_the_end_is_dropped_whole_and_one_before_others_is_refused(sqlite: SqliteTwin) -> None:
    left = played(lambda: left_behind(sqlite))

    async def look() -> int:
        async with sqlite.open() as store:
            return len((await is_whole(store)).inbox)

    put(sqlite, left.file, left.log)
    every = played(look)
    for cut in range(left.last, len(left.log), LENGTH // 3):
        put(sqlite, left.file, left.log[:cut])
        assert played(look) == every - 1
    damaged = bytearray(left.log)
    damaged[LENGTH * 2] ^= 0xFF
    put(sqlite, left.file, bytes(damaged))
    with pytest.raises(StoreDamaged, match="cannot be read, and later commits follow it"):
        played(look)


@pytest.mark.requirement("store:durable:torn-tail-is-detected")
def test_a_journal_that_lost_its_end_is_refused(postgres: PostgresTwin) -> None:
    async def fill() -> None:
        async with postgres.open() as store:
            for _ in range(3):
                await store.commit("s", a_start)

    async def look() -> None:
        async with postgres.open():
            pass

    played(fill)
    postgres.execute("DELETE FROM sideband.journal WHERE sequence = 3")
    with pytest.raises(StoreDamaged, match="its counter says 3, and the last row of the journal is 2"):
        played(look)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_damaged_store_is_refused_or_says_so_and_never_begins_empty(sqlite: SqliteTwin) -> None:
    async def fill() -> None:
        async with sqlite.open() as store:
            sender = Sender(store)
            for _ in range(40):
                await sender.send(a_draft(body="The build is red. " * 50))

    async def look() -> int:
        async with sqlite.open() as store:
            await store.open("s")
            return len(await told(store))

    played(fill)
    sound = sqlite.path.read_bytes()
    rng = random.Random(3)  # noqa: S311 - the same in every run
    refusals: list[str] = []
    for _ in range(30):
        spoilt = bytearray(sound)
        start = rng.randrange(len(spoilt))
        spoilt[start : start + 64] = rng.randbytes(len(spoilt[start : start + 64]))
        sqlite.path.write_bytes(bytes(spoilt))
        try:
            # Not every byte of a file means something.
            assert played(look) == 40
        except StoreRefused as error:
            refusals.append(str(error))
        for leftover in sqlite.path.parent.glob("store.db-*"):
            with suppress(FileNotFoundError, IsADirectoryError):
                leftover.unlink()
    assert len(refusals) > 5
    assert all("store.db is damaged" in refusal and "restore it" in refusal for refusal in refusals)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_store_of_a_newer_version_is_refused_with_what_to_do(durable: Twin) -> None:
    async def fill() -> None:
        async with durable.open() as store:
            await store.commit("s", a_start)

    played(fill)
    if isinstance(durable, PostgresTwin):
        durable.execute("UPDATE sideband.version SET version = %s", postgres_schema.latest() + 1)
    else:
        assert isinstance(durable, SqliteTwin)
        connection = apsw.Connection(str(durable.path))
        connection.pragma("user_version", schema.latest() + 1)
        connection.close()
    with pytest.raises(StoreNewer, match="upgrade sideband"):
        played(fill)
