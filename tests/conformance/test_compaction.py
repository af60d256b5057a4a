"""What a compaction does to reminders: in the pure transform, and in a live session."""

import re
from collections.abc import Callable, Sequence

import pytest

from sideband.core.accept import Selector
from sideband.core.apply import apply
from sideband.core.errors import InvalidOption
from sideband.core.events import Boundary, Compacted, Deduped, Expired, ExpiryReason
from sideband.core.lifecycle import compact, plan_compaction
from sideband.core.messages import Message
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode
from sideband.core.state import Decided, SessionState
from sideband.core.transcript import (
    CompactedTranscript,
    Transcript,
    TranscriptEvent,
    Visibility,
    reminder_event,
    transcript_compact,
)
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.sessions import Session

MESSAGES: tuple[Message, ...] = tuple(
    {"role": role, "content": f"message {number}"}
    for number, role in enumerate(("user", "assistant", "user", "assistant"), 1)
)
SUMMARY: Message = {"role": "system", "content": "What came before, in short."}


def a_transcript(*reminders: Reminder, messages: Sequence[Message] = MESSAGES) -> Transcript:
    events = tuple(reminder_event(reminder, event_id=f"e-{reminder.id}") for reminder in reminders)
    return Transcript(messages=tuple(messages), events=events)


def compacted(*reminders: Reminder) -> Decided[CompactedTranscript]:
    """What is left of these reminders when all but the last message is thrown away."""
    return transcript_compact(a_transcript(*reminders), strategy="keep_last", keep_last=1)


def left(result: Decided[CompactedTranscript]) -> list[tuple[str, int | None]]:
    return [(reminder.id, reminder.ttl_turns) for reminder in result.value.transcript.reminders]


@pytest.mark.requirement("core:compaction:ages-finite-reminders-first", "core:compaction:preserved-are-copied")
def test_preserved_reminders_are_copied_one_turn_older() -> None:
    result = compacted(
        a_reminder("three", ttl_turns=3, preserve_on_compact=True),
        a_reminder("ever", preserve_on_compact=True),
        a_reminder("later", ttl_turns=2, preserve_on_compact=True, fired_at_turn=99),
    )
    assert left(result) == [("three", 2), ("ever", None), ("later", 1)]
    assert result.events == (Compacted(turn=0, archived_messages=3),)


@pytest.mark.requirement("core:compaction:expired-there-end-by-ttl")
def test_what_has_one_turn_left_ends_there_by_ttl() -> None:
    result = compacted(a_reminder("a", ttl_turns=1, preserve_on_compact=True))
    assert left(result) == []
    assert result.events[0] == Expired(
        reminder_id="a", reason=ExpiryReason.TTL, turn=0, boundary=Boundary.PRE_COMPACT, provenance=IN_PROCESS
    )


@pytest.mark.requirement("core:compaction:others-are-compacted-out")
@pytest.mark.parametrize("ttl", [None, 3])
def test_what_did_not_ask_to_be_preserved_is_compacted_out(ttl: int | None) -> None:
    result = compacted(a_reminder("a", ttl_turns=ttl))
    assert left(result) == []
    assert result.events[0] == Expired(
        reminder_id="a", reason=ExpiryReason.COMPACTION, turn=0, boundary=Boundary.PRE_COMPACT, provenance=IN_PROCESS
    )


@pytest.mark.requirement("core:compaction:newest-of-a-key-wins")
def test_of_one_key_only_the_newest_is_left() -> None:
    result = compacted(
        a_reminder("old", dedupe_key="k", preserve_on_compact=True),
        a_reminder("other", dedupe_key="K", preserve_on_compact=True),
        a_reminder("older", dedupe_key="k", preserve_on_compact=True),
        a_reminder("new", dedupe_key="k", preserve_on_compact=True),
    )
    assert left(result) == [("other", None), ("new", None)]
    assert result.events[:2] == (
        Deduped(
            replaced_id="old", replacing_id="new", dedupe_key="k", boundary=Boundary.PRE_COMPACT, provenance=IN_PROCESS
        ),
        Deduped(
            replaced_id="older",
            replacing_id="new",
            dedupe_key="k",
            boundary=Boundary.PRE_COMPACT,
            provenance=IN_PROCESS,
        ),
    )


@pytest.mark.requirement("core:compaction:newest-of-a-key-wins")
def test_the_newest_of_a_key_displaces_the_others_even_if_it_is_not_preserved_itself() -> None:
    result = compacted(a_reminder("old", dedupe_key="k", preserve_on_compact=True), a_reminder("new", dedupe_key="k"))
    assert left(result) == []
    assert [type(event) for event in result.events] == [Deduped, Expired, Compacted]


@pytest.mark.requirement("core:compaction:newest-of-a-key-wins")
def test_keys_of_different_namespaces_are_different_keys() -> None:
    session = Session()
    peer = Provenance(trust=Trust.PEER, principal="coordinator")
    session.inject(a_reminder("ours", dedupe_key="k", preserve_on_compact=True))
    session.inject(a_reminder("theirs", dedupe_key="k", preserve_on_compact=True), peer)
    session.compact()
    assert session.live_ids == ["ours", "theirs"]


@pytest.mark.requirement("core:compaction:expiry-comes-before-dedupe")
def test_one_that_runs_out_displaces_no_older_one_of_its_key() -> None:
    result = compacted(
        a_reminder("old", dedupe_key="k", preserve_on_compact=True), a_reminder("new", dedupe_key="k", ttl_turns=1)
    )
    assert left(result) == [("old", None)]
    assert [event for event in result.events if isinstance(event, Deduped)] == []


@pytest.mark.requirement(
    "core:compaction:custom-compactor-gets-messages-and-survivors",
    "core:compaction:survivors-include-those-about-to-go",
)
def test_a_custom_compactor_is_given_messages_and_survivors() -> None:
    given: list[object] = []

    def compactor(messages: Sequence[Message], reminders: Sequence[Reminder]) -> list[Message]:
        given.extend((messages, [(reminder.id, reminder.ttl_turns) for reminder in reminders]))
        return [SUMMARY]

    transcript = a_transcript(
        a_reminder("gone", ttl_turns=1),
        a_reminder("old", dedupe_key="k"),
        a_reminder("new", dedupe_key="k"),
        a_reminder("preserved", ttl_turns=3, preserve_on_compact=True),
    )
    result = transcript_compact(transcript, strategy="custom", custom_compactor=compactor)
    assert given == [MESSAGES, [("new", None), ("preserved", 2)]]
    assert result.value.transcript.messages == (SUMMARY,)
    assert left(result) == [("preserved", 2)]


@pytest.mark.requirement("core:compaction:reminders-in-a-result-are-ignored")
@pytest.mark.parametrize(
    "result",
    [
        pytest.param(a_transcript(a_reminder("smuggled"), messages=[SUMMARY]), id="a-transcript"),
        pytest.param({"messages": [SUMMARY], "events": [{"kind": "system_reminder"}]}, id="a-mapping"),
        pytest.param((SUMMARY,), id="messages-alone"),
    ],
)
def test_of_what_a_custom_compactor_returns_only_the_messages_count(result: object) -> None:
    after = transcript_compact(
        a_transcript(a_reminder("a", preserve_on_compact=True)),
        strategy="custom",
        custom_compactor=lambda _messages, _reminders: result,
    )
    assert after.value.transcript.messages == (SUMMARY,)
    assert left(after) == [("a", None)]


@pytest.mark.requirement("core:compaction:custom-compactor-gets-messages-and-survivors")
@pytest.mark.parametrize("result", [None, 5, "", "text", ["text"], {"messages": None}, {}], ids=repr)
def test_a_custom_compactor_must_return_messages(result: object) -> None:
    with pytest.raises(InvalidOption, match="custom compactor must return") as refused:
        transcript_compact(a_transcript(), strategy="custom", custom_compactor=lambda _messages, _reminders: result)
    assert refused.value.field == "custom_compactor"


CALL: Message = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "read", "args": {}}]}
RESULT: Message = {"role": "tool", "tool_call_id": "c1", "content": "done"}
ASKED: Message = {"role": "user", "content": "And now?"}


@pytest.mark.requirement("core:compaction:custom-result-is-checked")
@pytest.mark.parametrize(
    ("result", "words"),
    [
        pytest.param([], "returned no message", id="nothing"),
        pytest.param([{"role": "oracle", "content": "?"}, ASKED], "the role 'oracle'", id="an-unknown-role"),
        pytest.param([{"role": "system", "content": 5}, ASKED], "the content 5", id="content-of-no-kind"),
        pytest.param([{"role": "system", "content": " "}, ASKED], "blank content", id="a-blank-text"),
        pytest.param([{"role": "user", "content": [{"text": ""}]}, ASKED], "blank content", id="a-blank-block"),
        pytest.param(
            [{"role": "user", "content": [{"type": "imge"}]}, ASKED],
            "not 'imge'; did you mean 'image'?",
            id="a-block-of-no-kind",
        ),
        pytest.param([{**CALL, "tool_calls": [{"id": "c2"}]}, ASKED], "needs an id, a name and args", id="half-a-call"),
        pytest.param([SUMMARY, RESULT, ASKED], "the result of call 'c1' without its call", id="an-orphan-result"),
        pytest.param([SUMMARY, CALL, ASKED, RESULT], "the call 'c1' without its result", id="a-result-that-is-late"),
        pytest.param([SUMMARY, CALL], "the call 'c1' without its result", id="a-call-at-the-end"),
    ],
)
def test_a_custom_compactor_cannot_break_a_conversation(result: list[Message], words: str) -> None:
    before = a_transcript(messages=[*MESSAGES, CALL, RESULT, ASKED])
    with pytest.raises(InvalidOption, match=re.escape(words)) as refused:
        transcript_compact(before, strategy="custom", custom_compactor=lambda *_: result)
    assert refused.value.field == "custom_compactor"


@pytest.mark.requirement("core:compaction:custom-result-is-checked")
def test_messages_that_a_compactor_kept_are_not_its_fault() -> None:
    odd: tuple[Message, ...] = ({"role": "oracle", "content": ""}, CALL, {**ASKED, "id": "m1"})
    before = a_transcript(messages=[*MESSAGES, *odd])
    result = transcript_compact(before, strategy="custom", custom_compactor=lambda *_: [*odd[:2], ASKED])
    assert result.value.transcript.messages == (*odd[:2], ASKED)


NOTHING_TO_COMPACT = a_transcript(
    a_reminder("one", ttl_turns=1), a_reminder("a", dedupe_key="k"), a_reminder("b", dedupe_key="k")
)


@pytest.mark.requirement("core:compaction:nothing-to-compact-changes-nothing")
@pytest.mark.parametrize(
    "compaction",
    [
        pytest.param(lambda given: transcript_compact(given, summarizer=lambda _messages: "unused"), id="summarize"),
        pytest.param(lambda given: transcript_compact(given, strategy="keep_last", keep_last=4), id="keep-last"),
        pytest.param(
            lambda given: transcript_compact(given, strategy="custom", custom_compactor=lambda messages, _: messages),
            id="custom",
        ),
    ],
)
def test_where_there_is_nothing_to_compact_nothing_happens(
    compaction: Callable[[Transcript], Decided[CompactedTranscript]],
) -> None:
    assert compaction(NOTHING_TO_COMPACT) == ((), (NOTHING_TO_COMPACT, 0))


@pytest.mark.requirement("core:compaction:nothing-to-compact-changes-nothing")
def test_where_there_is_nothing_to_compact_a_session_stays_as_it_is() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=2))
    session.turn()
    assert session.compact(archived_messages=0) == ()
    assert session.turn() == ["a"]


@pytest.mark.requirement("core:compaction:order-of-the-new-transcript", "core:compaction:summarize")
def test_the_summary_comes_first_then_the_tail_then_the_preserved() -> None:
    asked: list[Sequence[Message]] = []

    def summarizer(archived: Sequence[Message]) -> str:
        asked.append(archived)
        return "In short."

    result = transcript_compact(
        a_transcript(
            a_reminder("a", preserve_on_compact=True), a_reminder("b"), a_reminder("c", preserve_on_compact=True)
        ),
        keep_last=2,
        summarizer=summarizer,
    )
    assert asked == [MESSAGES[:2]]
    assert result.value.transcript.messages == ({"role": "system", "content": "In short."}, *MESSAGES[2:])
    assert [event.id for event in result.value.transcript.events] == ["e-a", "e-c"]
    assert result.value.archived_messages == 2


@pytest.mark.requirement("core:compaction:keep-last")
@pytest.mark.parametrize(("keep_last", "archived"), [(0, 4), (1, 3), (3, 1)])
def test_keep_last_keeps_so_many_messages_as_they_are(keep_last: int, archived: int) -> None:
    result = transcript_compact(a_transcript(), strategy="keep_last", keep_last=keep_last)
    assert (result.value.transcript.messages, result.value.archived_messages) == (MESSAGES[archived:], archived)


@pytest.mark.requirement("core:compaction:keep-last")
def test_the_tail_never_begins_with_the_result_of_a_call_that_is_gone() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "2"}]},
        {"role": "tool", "tool_call_id": "1"},
        {"role": "tool", "tool_call_id": "2"},
    ]
    result = transcript_compact(a_transcript(messages=messages), strategy="keep_last", keep_last=1)
    assert result.value.transcript.messages == tuple(messages[1:])


@pytest.mark.requirement("core:compaction:keep-last")
def test_a_negative_number_of_messages_cannot_be_kept() -> None:
    with pytest.raises(InvalidOption, match="-1"):
        transcript_compact(a_transcript(), strategy="keep_last", keep_last=-1)


@pytest.mark.requirement("core:compaction:strategy-words")
@pytest.mark.parametrize("word", ["", "Summarize", "truncate"])
def test_another_word_is_no_strategy(word: str) -> None:
    with pytest.raises(InvalidOption, match="'summarize', 'keep_last', 'custom'") as refused:
        transcript_compact(a_transcript(), strategy=word)
    assert (refused.value.field, refused.value.value) == ("strategy", word)


@pytest.mark.requirement("core:compaction:strategy-words")
@pytest.mark.parametrize(("strategy", "missing"), [("summarize", "summarizer"), ("custom", "custom_compactor")])
def test_a_strategy_that_needs_a_function_says_which(strategy: str, missing: str) -> None:
    with pytest.raises(InvalidOption, match=f"strategy '{strategy}' needs a .*{missing}") as refused:
        transcript_compact(a_transcript(), strategy=strategy, keep_last=1)
    assert refused.value.field == missing


@pytest.mark.requirement("core:compaction:input-is-unchanged")
def test_a_compaction_leaves_its_input_as_it_was() -> None:
    reminders = (a_reminder("a", ttl_turns=3, preserve_on_compact=True), a_reminder("b"))
    before = a_transcript(*reminders)
    transcript_compact(before, strategy="keep_last", keep_last=1)
    assert before == a_transcript(*reminders)


@pytest.mark.requirement("core:compaction:preserved-are-copied")
def test_what_is_no_live_reminder_is_carried_along() -> None:
    note = TranscriptEvent(id="n1", kind="note", role="system", text="not a reminder")
    recorded = reminder_event(a_reminder("audit", ttl_turns=1), event_id="e1", visibility=Visibility.INTERNAL)
    before = Transcript(messages=MESSAGES, events=(note, recorded))
    assert transcript_compact(before, strategy="keep_last", keep_last=1).value.transcript.events == (note, recorded)


# In a live session.


@pytest.mark.requirement("core:compaction:live-session-ages-only-the-shown")
def test_a_session_takes_a_turn_only_from_what_was_shown() -> None:
    session = Session()
    session.inject(a_reminder("shown", ttl_turns=3, preserve_on_compact=True))
    session.turn()
    session.inject(a_reminder("unseen", ttl_turns=1, preserve_on_compact=True))
    session.compact()
    remaining = {item.id: session.state.live.remaining(item) for item in session.state.live}
    assert remaining == {"shown": 1, "unseen": 1}


@pytest.mark.requirement("core:compaction:survivors-include-those-about-to-go")
def test_the_survivors_of_a_session_are_as_they_will_stand() -> None:
    session = Session()
    session.inject(a_reminder("shown", ttl_turns=3))
    session.turn()
    session.inject(a_reminder("unseen", ttl_turns=1))
    survivors = plan_compaction(session.state).survivors
    assert [(reminder.id, reminder.ttl_turns) for reminder in survivors] == [("shown", 1), ("unseen", 1)]


@pytest.mark.requirement("core:compaction:one-decision")
def test_all_a_compaction_does_is_in_the_events_of_one_decision() -> None:
    session = Session()
    session.inject(a_reminder("out", ttl_turns=2))
    session.inject(a_reminder("kept", ttl_turns=3, preserve_on_compact=True))
    session.inject(a_reminder("away"))
    session.turn()
    before = list(session.journal)
    plan = plan_compaction(session.state)
    assert (session.live_ids, session.journal) == (["out", "kept", "away"], before)
    events = session.compact(archived_messages=4)
    assert events == (*plan.events, Compacted(turn=1, archived_messages=4))
    assert session.live_ids == ["kept"]
    elsewhere = SessionState()
    for event in session.journal:
        apply(elsewhere, event)
    assert list(elsewhere.live) == list(session.state.live)


@pytest.mark.requirement("core:compaction:one-decision")
def test_what_ends_or_goes_live_while_the_compactor_works_is_left_alone() -> None:
    session = Session()
    session.state.messages.append({"role": "user", "content": "Begin."})
    for name in ("cleared", "new", "away"):
        session.inject(a_reminder(name, preserve_on_compact=name == "new"))
    before, begun_at = tuple(session.state.messages), session.state.live.next_place
    session.clear(Selector(id="cleared"))
    session.inject(a_reminder("since"))
    assert session.decide(compact(session.state, before, [], begun_at=begun_at)) == 1
    assert session.live_ids == ["new", "since"]


@pytest.mark.requirement("core:compaction:inbox-is-untouched")
def test_a_compaction_leaves_the_inbox_alone() -> None:
    session = Session()
    for mode in Mode:
        session.accept(a_draft(ttl_turns=1, dedupe_key="k", mode=mode))
        session.accept(a_draft(ttl_turns=1, mode=mode))
    session.inject(a_reminder("live", dedupe_key="k", preserve_on_compact=True))
    session.turn()
    before = list(session.state.inbox.items())
    session.compact()
    assert list(session.state.inbox.items()) == before
    assert session.live_ids == ["live"]
