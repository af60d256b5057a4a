"""Opening a store file: created if it is missing, migrated if it is old, refused if it is damaged."""

import asyncio
import os
import random
import stat
from pathlib import Path

import apsw
import pytest

from sideband.core.errors import StoreClosed, StoreDamaged, StoreError, StoreNewer, StoreRefused, StoreUnavailable
from sideband.core.events import Started
from sideband.core.state import Decided
from sideband.inspect.sessions import inspect_store
from sideband.store.codec import checksum, encode_event
from sideband.store.sqlite import file, schema
from tests.builders import a_draft
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, SqliteTwin, a_start, played, so_many, told, written_at


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


async def fill(sqlite: SqliteTwin) -> None:
    async with sqlite.open() as store:
        for number in range(30):
            await Sender(store, name=f"n{number}").send(
                a_draft(dedupe_key=f"k{number % 7}"), session_id=f"s{number % 3}"
            )
        await store.prune("s0", keep_events=3)


def an_old_store(path: Path, version: int) -> None:
    """A file as this version of the tables was, with two events where there was a journal."""
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("journal_mode", "wal")
    for script in schema.migrations()[:version]:
        connection.execute(script)
    if version:
        for sequence in (1, 2):
            entry = encode_event(Started())
            connection.execute(
                "INSERT INTO journal (sequence, session_id, word, checksum, body) VALUES (?, 's', ?, ?, ?)",
                (sequence, entry.word, checksum(sequence, "s", entry.body), entry.body),
            )
    connection.pragma("user_version", version)
    connection.close()


# Making one.


@pytest.mark.requirement("events:journal:private-file")
def test_a_new_store_is_its_owners_alone(sqlite: SqliteTwin) -> None:
    async def story() -> dict[str, str]:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
            return {path.name: mode_of(path) for path in sqlite.path.parent.rglob("*") if not path.is_socket()}

    before = os.umask(0)
    try:
        modes = played(story)
    finally:
        os.umask(before)
    assert modes == {
        "store.db": "0o600",
        "store.db-wal": "0o600",
        "store.db-shm": "0o600",
        "store.db-wake": "0o700",
    }
    assert [path.name for path in sqlite.path.parent.iterdir()] == ["store.db"], "nothing else stays when it is closed"


def test_a_file_that_others_could_read_is_made_private(sqlite: SqliteTwin) -> None:
    played(lambda: fill(sqlite))
    sqlite.path.chmod(0o644)
    played(lambda: fill(sqlite))
    assert mode_of(sqlite.path) == "0o600"


def test_many_who_make_it_at_once_have_one_store(sqlite: SqliteTwin) -> None:
    async def one(number: int) -> None:
        async with sqlite.open() as store:
            await store.commit(f"s{number}", a_start)

    async def story() -> None:
        await asyncio.gather(*map(one, range(6)))
        async with sqlite.open() as store:
            assert sorted(entry.session_id for entry in await told(store)) == [f"s{number}" for number in range(6)]

    played(story)


@pytest.mark.parametrize("version", range(schema.latest() + 1))
def test_a_store_of_every_earlier_version_is_brought_forward(sqlite: SqliteTwin, version: int) -> None:
    an_old_store(sqlite.path, version)

    async def story() -> None:
        async with sqlite.open() as store:
            events = 2 if version else 0
            assert [entry.sequence for entry in await told(store)] == list(range(1, events + 1))
            lease = await store.acquire("s", "me")
            assert await written_at(store, "s", a_start, lease=lease) == events + 1
            assert await store.prune("s") == events

    played(story)
    connection = apsw.Connection(str(sqlite.path))
    assert connection.pragma("user_version") == schema.latest()
    connection.close()


def test_bringing_it_forward_is_all_or_nothing(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    an_old_store(sqlite.path, 1)
    good = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: (*good, "CREATE TABLE half (a); CREATE TABLE broken ("))
    with pytest.raises(StoreError):
        played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert (tables, connection.pragma("user_version")) == ({"journal"}, 1)
    connection.close()


def test_a_file_whose_log_was_taken_away_is_shared_as_before(sqlite: SqliteTwin) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    assert connection.pragma("journal_mode", "delete") == "delete"
    connection.close()

    async def story() -> None:
        async with sqlite.open() as one, sqlite.open() as other:
            await asyncio.gather(one.commit("s", a_start), other.commit("s", a_start))

    played(story)
    connection = apsw.Connection(str(sqlite.path))
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


# Refusing one.


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_newer_store_is_refused_and_left_as_it_is(sqlite: SqliteTwin) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.pragma("user_version", 99)
    connection.close()
    before = sqlite.path.read_bytes()
    with pytest.raises(StoreNewer, match=r"store.db was written by a newer Sideband \(version 99 .* upgrade sideband"):
        played(lambda: fill(sqlite))
    assert sqlite.path.read_bytes() == before


def test_a_store_that_becomes_newer_while_it_is_open_is_let_alone(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            source = store.subscribe()
            following = asyncio.ensure_future(anext(source))
            await store.commit("s", a_start)
            await following
            connection = apsw.Connection(str(sqlite.path))
            connection.pragma("user_version", 99)
            connection.close()
            with pytest.raises(StoreNewer):
                await store.commit("s", a_start)
            with pytest.raises(StoreNewer):
                await anext(source)

    played(story)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        pytest.param(b"", StoreDamaged, "is an empty file and not a store", id="empty"),
        pytest.param(b"x" * 5_000, StoreDamaged, "is damaged .* restore it from a backup", id="something-else"),
        pytest.param(b"SQLite format 3\x00", StoreDamaged, "is damaged", id="a-beginning"),
    ],
)
def test_what_is_no_store_is_refused_and_left_as_it_is(
    sqlite: SqliteTwin, content: bytes, kind: type[StoreRefused], message: str
) -> None:
    sqlite.path.write_bytes(content)
    with pytest.raises(kind, match=message):
        played(lambda: fill(sqlite))
    assert sqlite.path.read_bytes() == content
    assert [path.name for path in sqlite.path.parent.iterdir()] == ["store.db"]


def test_the_database_of_another_program_is_refused(sqlite: SqliteTwin) -> None:
    connection = apsw.Connection(str(sqlite.path))
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreRefused, match="not a store of Sideband; choose another path"):
        played(lambda: fill(sqlite))


def test_a_part_without_its_file_is_refused(sqlite: SqliteTwin) -> None:
    Path(f"{sqlite.path}-wal").write_bytes(b"acknowledged")
    with pytest.raises(StoreDamaged, match=r"its log store\.db-wal is there and may hold committed data"):
        played(lambda: fill(sqlite))
    assert not sqlite.path.exists()


def test_a_directory_and_a_place_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="is not a file"):
        file.check_place(tmp_path)
    with pytest.raises(StoreRefused, match="there is no directory"):
        file.check_place(tmp_path / "nowhere" / "store.db")


def test_a_file_system_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"network file system \(nfs4\).*local disk, or use postgresql"):
        file.check_place(tmp_path / "store.db", filesystem=lambda _path: "nfs4")
    with pytest.raises(StoreRefused, match=r"shared with the host \(vboxsf\).*local disk, or use postgresql"):
        file.check_place(tmp_path / "store.db", filesystem=lambda _path: "vboxsf")
    file.check_place(tmp_path / "store.db", filesystem=lambda _path: "ext4")
    file.check_place(tmp_path / "store.db", filesystem=lambda _path: None)


MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /mnt rw - nfs4 server:/export rw,vers=4.2
31 30 0:31 / /mnt/local rw - xfs /dev/sdb1 rw
32 22 0:32 / /with\040space rw master:2 - fuse.sshfs me@there rw
33 22 0:33 / /twice rw - ext4 /dev/sdc1 rw
34 22 0:34 / /twice rw - cifs //nas/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/store.db", "ext4"),
        ("/mnt/store.db", "nfs4"),
        ("/mnt/deep/er/store.db", "nfs4"),
        ("/mnt/local/store.db", "xfs"),
        ("/mntx/store.db", "ext4"),
        ("/with space/store.db", "fuse.sshfs"),
        ("/twice/store.db", "cifs"),
    ],
)
def test_a_path_is_on_the_file_system_that_is_mounted_nearest(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip(), encoding="utf-8")
    assert file.filesystem_of(Path(path), mounts) == kind
    assert file.filesystem_of(Path(path), tmp_path / "absent") is None


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize("seed", range(4))
def test_every_changed_bit_that_matters_is_noticed_when_it_is_read_or_by_the_whole_check(
    sqlite: SqliteTwin, seed: int
) -> None:
    async def all_of_it() -> object:
        async with sqlite.open() as store:
            journal = await told(store, session_id="s1"), await told(store, session_id="s2")
            for session in ("s0", "s1", "s2"):
                await store.open(session)
            return journal, [facts(store.state(session)) for session in ("s0", "s1", "s2")]

    def whole_check_finds_it() -> bool:
        with inspect_store(f"sqlite:///{sqlite.path}") as store:
            return bool([*store.faults()])

    played(lambda: fill(sqlite))
    whole, sound = sqlite.path.read_bytes(), played(all_of_it)
    chosen = random.Random(seed)  # noqa: S311 - the same in every run
    noticed = 0
    for _ in range(40):
        place, bit = chosen.randrange(len(whole)), 1 << chosen.randrange(8)
        changed = bytearray(whole)
        changed[place] ^= bit
        sqlite.path.write_bytes(changed)
        try:
            found = played(all_of_it)
        except StoreError:
            noticed += 1
        else:
            assert found == sound or whole_check_finds_it(), f"byte {place}, bit {bit}"
        for leftover in sqlite.path.parent.iterdir():
            if leftover != sqlite.path:
                leftover.unlink()
    assert noticed


def test_one_session_that_is_damaged_fails_alone(sqlite: SqliteTwin) -> None:
    played(lambda: fill(sqlite))
    connection = apsw.Connection(str(sqlite.path))
    connection.execute("UPDATE journal SET body = CAST(replace(body, 'red', 'dead') AS BLOB) WHERE session_id = 's1'")
    connection.execute("UPDATE snapshot SET sequence = sequence - 1 WHERE session_id = 's0'")
    connection.close()

    async def story() -> None:
        async with sqlite.open() as store:
            for session in ("s0", "s1"):
                with pytest.raises(StoreDamaged, match="was changed"):
                    await store.open(session)
            bad, good = await asyncio.gather(
                store.commit("s1", a_start), store.commit("s2", a_start), return_exceptions=True
            )
            assert isinstance(bad, StoreDamaged)
            assert not isinstance(good, BaseException)

    played(story)


def test_a_journal_with_a_missing_row_is_refused(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
            connection = apsw.Connection(str(sqlite.path))
            entry = encode_event(Started())
            connection.execute(
                "INSERT INTO journal (sequence, session_id, word, checksum, body) VALUES (3, 's', ?, ?, ?)",
                (entry.word, checksum(3, "s", entry.body), entry.body),
            )
            connection.close()
            with pytest.raises(StoreDamaged, match="row 2 of the journal is missing"):
                await store.commit("s", a_start)

    played(story)


def test_a_place_where_nothing_can_be_written_is_told(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        played(lambda: fill(sqlite))


# Closing it.


def test_a_closed_store_says_so_and_can_be_closed_again(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.open("s")
            finished: list[int] = []

            async def commit(number: int) -> None:
                finished.append(await store.commit("s", lambda _: Decided((Started(),), number)))

            asked = [asyncio.ensure_future(commit(number)) for number in range(5)]
            await asyncio.sleep(0)
            await store.close()
            await asyncio.gather(*asked)
            assert finished == [0, 1, 2, 3, 4]
            await store.close()
            with pytest.raises(StoreClosed, match="the store is closed; open it again"):
                await store.commit("s", a_start)
            with pytest.raises(StoreClosed):
                await store.open("t")
            with pytest.raises(StoreClosed):
                await store.acquire("s", "me")
            assert store.state("s").running, "what was known stays known"
        async with sqlite.open() as store:
            assert [entry.sequence for entry in await told(store)] == [1, 2, 3, 4, 5]

    played(story)


def test_giving_up_while_it_opens_leaves_nothing_running(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        opening = asyncio.ensure_future(sqlite.open().__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with sqlite.open() as store:
            await store.commit("s", so_many(2))

    played(story)
