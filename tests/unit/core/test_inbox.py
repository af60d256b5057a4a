"""The inbox: its indexes agree with its items, and each item counts towards one quota."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.events import InboxItem, Queued, QueuedMessage, QueuedReminder
from sideband.core.inbox import Fate, Inbox, Quota, Receipt, Slot, Tombstone, quota_of, receipt_in
from sideband.core.seams import InjectMode, Mode
from sideband.core.trust import IN_PROCESS, Provenance
from tests.builders import a_reminder, a_text
from tests.sessions import CLIENT, PEER, SERVER

SENDERS = (IN_PROCESS, CLIENT, PEER, SERVER)


def a_queued_message() -> QueuedMessage:
    return QueuedMessage(message_id="m1", content=tuple(a_text()), mode=InjectMode.STEER, provenance=CLIENT)


def check(inbox: Inbox, items: list[InboxItem]) -> None:
    """Compare every index with the items."""
    assert list(inbox.items()) == items
    assert len(inbox) == len(items)
    assert [inbox.get(item.id) for item in items] == items
    for mode in (*Mode, None):
        assert inbox.waiting(mode) == [item for item in items if item.waits_in is mode]
    counts = Counter((item.provenance.sender, quota_of(item)) for item in items)
    for quota in Quota:
        assert [inbox.count_from(who.sender, quota) for who in SENDERS] == [
            counts[who.sender, quota] for who in SENDERS
        ]
        assert inbox.count_in(quota) == sum(quota_of(item) is quota for item in items)
    for sender in SENDERS:
        for audit_only in (False, True):
            holders = [
                item
                for item in items
                if isinstance(item, QueuedReminder)
                and item.reminder.dedupe_key == "k"
                and item.provenance.namespace == sender.namespace
                and (item.mode is Mode.AUDIT_ONLY) is audit_only
            ]
            assert inbox.in_slot(Slot(sender.namespace, "k", audit_only)) == next(iter(holders), None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reminder", "keyed", "message", "remove", "exchange"]),
            st.sampled_from(SENDERS),
            st.sampled_from(Mode),
            st.sampled_from(InjectMode),
            st.integers(0, 100),
        ),
        max_size=30,
    )
)
def test_every_index_agrees_with_the_items(
    steps: list[tuple[str, Provenance, Mode, InjectMode, int]],
) -> None:
    inbox = Inbox()
    items: list[InboxItem] = []
    for number, (step, sender, mode, inject_mode, pick) in enumerate(steps):
        item_id = f"id-{number}"
        chosen = items[pick % len(items)] if items else None
        match step:
            case "reminder" | "keyed":
                item = QueuedReminder(
                    reminder=a_reminder(item_id, dedupe_key="k" if step == "keyed" else None),
                    mode=mode,
                    provenance=sender,
                )
                taken = inbox.in_slot(Slot(sender.namespace, "k", mode is Mode.AUDIT_ONLY))
                if step == "reminder" or taken is None:
                    inbox.add(item)
                    items.append(item)
            case "message":
                message = QueuedMessage(
                    message_id=item_id, content=tuple(a_text()), mode=inject_mode, provenance=sender
                )
                inbox.add(message)
                items.append(message)
            case "remove" if chosen is not None:
                inbox.remove(chosen.id, Fate.WITHDRAWN)
                items.remove(chosen)
                assert inbox.tombstone(chosen.id) == Tombstone(
                    type(chosen), Fate.WITHDRAWN, chosen.provenance.namespace
                )
            case "exchange" if isinstance(chosen, QueuedMessage):
                newer = QueuedMessage(
                    message_id=chosen.message_id,
                    content=tuple(a_text(f"version {number}")),
                    mode=chosen.mode,
                    provenance=chosen.provenance,
                )
                inbox.exchange(newer)
                items[items.index(chosen)] = newer
        check(inbox, items)


def test_an_id_that_was_never_queued_is_unknown() -> None:
    inbox = Inbox()
    assert (inbox.get("r1"), inbox.tombstone("r1")) == (None, None)


def test_a_queued_reminder_that_becomes_live_leaves_a_tombstone() -> None:
    inbox = Inbox()
    inbox.add(QueuedReminder(reminder=a_reminder("r1"), mode=Mode.FINISH_STEP, provenance=PEER))
    inbox.deliver("r1", PEER)
    assert inbox.tombstone("r1") == Tombstone(QueuedReminder, Fate.DELIVERED, PEER.namespace)
    check(inbox, [])


def test_a_reminder_that_becomes_live_without_being_queued_leaves_a_tombstone() -> None:
    inbox = Inbox()
    inbox.add(a_queued_message())
    inbox.deliver("r1", IN_PROCESS)
    assert inbox.tombstone("r1") == Tombstone(QueuedReminder, Fate.DELIVERED, "own")
    check(inbox, [a_queued_message()])


def test_a_slot_belongs_to_the_newer_reminder_even_if_the_older_one_leaves_later() -> None:
    inbox = Inbox()
    older, newer = (
        QueuedReminder(reminder=a_reminder(name, dedupe_key="k"), mode=Mode.FINISH_STEP, provenance=CLIENT)
        for name in ("older", "newer")
    )
    inbox.add(older)
    inbox.add(newer)
    inbox.remove("older", Fate.WITHDRAWN)
    assert inbox.in_slot(Slot("own", "k", audit_only=False)) == newer


def test_the_inbox_remembers_the_newest_of_the_items_that_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sideband.core.inbox.MAX_TOMBSTONES", 2)
    inbox = Inbox()
    for name in ("first", "second", "third"):
        inbox.deliver(name, PEER)
    assert [inbox.tombstone(name) is not None for name in ("first", "second", "third")] == [False, True, True]
    loaded = Inbox()
    monkeypatch.setattr("sideband.core.inbox.MAX_TOMBSTONES", 1)
    loaded.load(inbox.dump())
    assert [loaded.tombstone(name) is not None for name in ("second", "third")] == [False, True]


# Receipts.


def test_the_receipt_of_a_reminder_repeats_the_reply_to_its_sender() -> None:
    provenance = msgspec.structs.replace(PEER, requested={"ttl_turns": 9, "mode": "interrupt_immediate"})
    item = QueuedReminder(
        reminder=a_reminder("mine~2", ttl_turns=3),
        mode=Mode.FINISH_STEP,
        provenance=provenance,
        caller_id="mine",
        fingerprint="f",
        deduped_count=1,
        accepted_at=7,
        version=2,
    )
    receipt = Receipt(
        sender=PEER.sender,
        fingerprint="f",
        reminder_id="mine~2",
        deduped_count=1,
        requested={"ttl_turns": 9, "mode": "interrupt_immediate"},
        effective={"ttl_turns": 3, "mode": Mode.FINISH_STEP},
        accepted_at=7,
        version=2,
    )
    assert receipt_in(Queued(item=item)) == ("mine", receipt)


def test_a_reminder_whose_id_the_session_chose_has_no_receipt() -> None:
    assert receipt_in(Queued(item=a_waiting(Mode.FINISH_STEP))) is None


# Quotas.


def a_waiting(mode: Mode) -> QueuedReminder:
    return QueuedReminder(reminder=a_reminder("r1"), mode=mode, provenance=CLIENT)


def a_message(mode: InjectMode) -> QueuedMessage:
    return QueuedMessage(message_id="m1", content=tuple(a_text()), mode=mode, provenance=CLIENT)


@pytest.mark.parametrize(
    ("item", "quota"),
    [
        pytest.param(a_waiting(Mode.FINISH_STEP), Quota.REMINDERS, id="a-reminder"),
        pytest.param(a_waiting(Mode.INTERRUPT_IMMEDIATE), Quota.REMINDERS, id="an-interrupt"),
        pytest.param(a_waiting(Mode.AUDIT_ONLY), Quota.AUDIT, id="an-audit-only-reminder"),
        pytest.param(a_message(InjectMode.QUEUE), Quota.MESSAGES, id="a-message"),
        pytest.param(a_message(InjectMode.STEER), Quota.MESSAGES, id="a-steer"),
        pytest.param(a_message(InjectMode.INTERRUPT_IMMEDIATE), Quota.MESSAGES, id="a-message-that-interrupts"),
        pytest.param(a_message(InjectMode.AUDIT_ONLY), Quota.AUDIT, id="an-audit-only-message"),
    ],
)
def test_every_item_counts_towards_one_quota(item: InboxItem, quota: Quota) -> None:
    assert quota_of(item) is quota
