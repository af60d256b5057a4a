"""What a migration finds in the rows of earlier versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.sets(st.integers(1, 60)), st.randoms(use_true_random=False))
def test_every_session_counts_as_begun_at_a_sequence_of_its_own_that_is_not_later(first: set[int], rng: object) -> None:
    # What is known of a pruned session is a sequence that is not before its first one, perhaps that of another session.
    known = {f"s{begun}": begun + rng.randrange(5) for begun in first}
    oldest = sorted(known.items(), key=lambda entry: entry[1], reverse=True)
    begun = [*first_sequences(oldest)]
    assert [name for name, _ in begun] == [name for name, _ in oldest]
    sequences = [sequence for _, sequence in begun]
    assert sequences == sorted(set(sequences), reverse=True)
    assert all(1 <= sequence <= known[name] for name, sequence in begun)
