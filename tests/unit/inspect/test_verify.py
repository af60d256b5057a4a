"""`sideband doctor --verify`: what it says of a store in order, and of one that is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from sideband.cli.doctor import doctor
from tests.unit.cli.stores import address, fill, prune
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import PostgresTwin, SqliteTwin, Twin, played

Captured = pytest.CaptureFixture[str]


def report(twin: Twin, capsys: Captured, *, status: int, session: str | None = None) -> dict[str, Any]:
    """What is found, as JSON."""
    assert doctor(verify=True, store=address(twin), to=session, json=True) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def problems(twin: Twin, capsys: Captured) -> list[str]:
    return [entry["problem"] for entry in report(twin, capsys, status=1)["problems"]]


def test_a_store_in_order_is_reported_group_by_group(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable, session_id="a"))
    played(lambda: fill(durable, session_id="b"))
    played(lambda: prune(durable, keep=1, session_id="a"))
    assert doctor(verify=True, store=address(durable)) == 0
    text = capsys.readouterr().out
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings == ["store", "sessions", "No problems found."]
    found = report(durable, capsys, status=0)
    assert (found["store"]["last sequence"], found["store"]["sequence"]) == (10, "without gaps")
    assert found["sessions"] == {
        "rebuilt from the first event": 1,
        "rebuilt from a snapshot, the rest pruned": 1,
    }
    assert found["problems"] == []


def test_leases_are_listed(durable: Twin, capsys: Captured) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await store.acquire("s", "worker-7")
            found = report(durable, capsys, status=0)
            assert found["leases"]["s"].startswith("worker-7, token 1, ")

    played(story)


@pytest.mark.parametrize(("now", "word"), [(0, "lapsed"), (2**42, "until"), (2**52, "until 9999-12-31T23:59:59Z")])
def test_a_lease_says_until_when_it_holds_or_that_it_has_lapsed(
    sqlite: SqliteTwin, now: int, word: str, capsys: Captured
) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.acquire("s", "w")
            assert f"token 1, {word}" in report(sqlite, capsys, status=0)["leases"]["s"]

    sqlite.now_ms = lambda: now
    played(story)


def test_a_row_that_was_changed_is_found_and_named_with_its_session(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    change(durable, "UPDATE {store}journal SET body = %s WHERE sequence = 3", b"{}")
    assert problems(durable, capsys) == ["row 3 was changed (session 's')"]


def test_rows_that_are_gone_are_named(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    change(durable, "DELETE FROM {store}journal WHERE sequence IN (1, 3, 4)")
    assert problems(durable, capsys) == [
        "row 1 is missing from the journal, although nothing was pruned there",
        "rows 3 to 4 are missing from the journal, although nothing was pruned there",
        (
            "the list of sessions says that it was begun with row 1 at 1700000000000 ms, "
            "and its first row is 2 at 1700000000000 ms (session 's')"
        ),
    ]


def test_a_snapshot_that_was_changed_is_found(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=100))
    change(durable, "UPDATE {store}snapshot SET checksum = 0")
    (problem,) = problems(durable, capsys)
    assert problem == "its snapshot at 5 was changed (session 's')"


def test_one_session_can_be_rebuilt_alone(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable, session_id="a"))
    played(lambda: fill(durable, session_id="b"))
    change(durable, "UPDATE {store}journal SET checksum = 0 WHERE sequence = 3")
    assert report(durable, capsys, status=1)["sessions"]["rebuilt from the first event"] == 1
    assert report(durable, capsys, status=0, session="b")["sessions"]["rebuilt from the first event"] == 1
    assert report(durable, capsys, status=1, session="a")["sessions"]["a"] == "differs"


def test_a_session_that_is_not_there_cannot_be_rebuilt(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert doctor(verify=True, store=address(durable), to="unknown") == 2
    assert "there is no session 'unknown'" in capsys.readouterr().err


def test_a_file_that_is_damaged_is_a_finding_not_a_failure(sqlite: SqliteTwin, capsys: Captured) -> None:
    played(lambda: fill(sqlite, reminders=60))
    data = bytearray(sqlite.path.read_bytes())
    for start in range(4_096, len(data), 4_096):
        data[start : start + 16] = b"\xff" * 16
    sqlite.path.write_bytes(bytes(data))
    found = problems(sqlite, capsys)
    assert found
    assert all(str(sqlite.path) in problem and "from a backup" in problem for problem in found)
    sqlite.path.write_bytes(b"")
    (problem,) = problems(sqlite, capsys)
    assert "is an empty file and not a store" in problem


def test_a_counter_that_is_wrong_is_a_finding(postgres: PostgresTwin, capsys: Captured) -> None:
    played(lambda: fill(postgres))
    postgres.execute("UPDATE sideband.counter SET last = 99")
    (problem,) = problems(postgres, capsys)
    assert problem.startswith("its counter says 99, and the last row of the journal is 5; restore ")


def test_where_there_is_no_store_it_says_so(tmp_path: Path, capsys: Captured) -> None:
    assert doctor(verify=True, store=f"sqlite:///{tmp_path / 'nothing.db'}") == 2
    assert "there is no store" in capsys.readouterr().err


def test_a_session_without_a_store_makes_no_sense(capsys: Captured) -> None:
    assert doctor(to="s") == 2
    assert capsys.readouterr() == ("", "error: --store and --to need --verify, which checks a store\n")


def test_nothing_in_the_report_is_an_order_to_the_terminal(sqlite: SqliteTwin, capsys: Captured) -> None:
    name = "s\x1b[31m"
    played(lambda: fill(sqlite, session_id=name))
    change(sqlite, "UPDATE journal SET checksum = 0 WHERE sequence = 3")
    assert doctor(verify=True, store=address(sqlite)) == 1
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert r"s\x1b[31m" in text
