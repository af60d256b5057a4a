"""What a migration finds in the rows of earlier versions."""

import pytest

from sideband.core.events import Event, Queued, QueuedReminder, Replaced, Started
from sideband.core.seams import Mode
from sideband.core.trust import IN_PROCESS
from sideband.store.backfill import first_sequences, receipt_in_row, receipts_in_snapshot
from sideband.store.codec import encode_event
from tests.builders import a_reminder


def an_item(*, fingerprint: str | None = None) -> QueuedReminder:
    return QueuedReminder(
        reminder=a_reminder("r"),
        mode=Mode.FINISH_STEP,
        provenance=IN_PROCESS,
        caller_id="r",
        fingerprint=fingerprint,
    )


@pytest.mark.parametrize(
    ("event", "has_one"),
    [
        pytest.param(Queued(item=an_item(fingerprint="f")), True, id="with-a-fingerprint"),
        pytest.param(Queued(item=an_item()), False, id="without-a-fingerprint"),
        pytest.param(Replaced(item=an_item(fingerprint="f")), False, id="another-event"),
        pytest.param(Started(), False, id="an-event-without-an-item"),
    ],
)
def test_a_receipt_is_found_in_the_row_of_an_accept(event: Event, *, has_one: bool) -> None:
    assert (receipt_in_row(encode_event(event).body) is not None) is has_one


def test_what_cannot_be_read_has_no_receipt() -> None:
    assert receipt_in_row(b'{"caller_id": ') is None
    assert receipts_in_snapshot(b"[]") == {}


@pytest.mark.parametrize(
    ("oldest", "pruned", "begun"),
    [
        pytest.param({"a": 1, "b": 4}, {}, {"a": 1, "b": 4}, id="with-its-oldest-row"),
        pytest.param({"a": 1}, {"b": 4}, {"a": 1, "b": 4}, id="without-rows-with-the-last-that-it-lost"),
        pytest.param({"a": 4, "b": 3}, {"c": 4}, {"a": 4, "b": 3, "c": 2}, id="not-with-the-row-of-another-session"),
        pytest.param(
            {"a": 4}, {"b": 4, "c": 4}, {"a": 4, "b": 3, "c": 2}, id="not-with-that-of-another-pruned-session"
        ),
    ],
)
def test_a_session_counts_as_begun(oldest: dict[str, int], pruned: dict[str, int], begun: dict[str, int]) -> None:
    assert dict(first_sequences(oldest.items(), pruned.items())) == begun
