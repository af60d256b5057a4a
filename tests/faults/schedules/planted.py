"""Faults planted into the code under test, one at a time: what schedules and laws must find."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.faults.schedules.broken import (
    AnswersBeforeItCommits,
    AwaitsBetweenCheckAndAct,
    CancelsInPart,
    CommitsAStalePlan,
    DeliversWhileAsking,
    DrainsAfterTheLastRequest,
    DrainsOnlyAtTheEnd,
    EmptiesTheInboxOnCancel,
    ForgetsToLog,
    GoesIdleInTwoCommits,
    KeepsEveryReminder,
    LeavesCallsOpenOnCancel,
    LeavesWhatIsOpen,
    NeverExpires,
    NeverInterrupts,
    NumbersWhatCameToNothing,
    PlansAfterTheCommit,
    RecordsTwice,
    RunsWhatWasInterrupted,
    SkipsASubscriber,
    SpeaksAfterItsEnd,
    StartsWithTheNewest,
)
from tests.faults.schedules.world import Plant


class Planted(NamedTuple):
    """A fault, a scenario that meets it, the law that it breaks, and the number of schedules that must find it."""

    plant: Plant
    scenario: str
    law: str
    within: int = 400


PLANTED: Final[Mapping[str, Planted]] = MappingProxyType(
    {
        "a-steer-between-the-last-check-and-the-exit": Planted(
            Plant(talk=GoesIdleInTwoCommits),
            "steering_at_the_exit",
            "an_idle_session_has_nothing_left_to_take",
            within=100,
        ),
        "an-await-between-check-and-act-in-revoke": Planted(
            Plant(store=AwaitsBetweenCheckAndAct),
            "taking_back_against_drains",
            "an_item_is_revoked_or_delivered",
            within=100,
        ),
        "an-await-between-check-and-act-in-drain": Planted(
            Plant(store=AwaitsBetweenCheckAndAct),
            "taking_back_against_drains",
            "an_item_ends_exactly_once",
            within=100,
        ),
        "an-await-between-check-and-act-in-replace": Planted(
            Plant(store=AwaitsBetweenCheckAndAct), "taking_back_against_drains", "a_message_has_its_last_version"
        ),
        "an-await-between-check-and-act-in-dedupe": Planted(
            Plant(store=AwaitsBetweenCheckAndAct), "interrupts_in_a_row", "a_key_is_waited_for_once"
        ),
        "an-await-between-check-and-act-in-what-is-pending": Planted(
            Plant(store=AwaitsBetweenCheckAndAct), "taking_back_against_drains", "what_has_not_ended_is_pending"
        ),
        "a-result-recorded-twice-on-cancel": Planted(
            Plant(dispatcher=RecordsTwice),
            "tools_side_by_side",
            "a_call_has_one_result",
            within=100,
        ),
        "a-result-lost-on-cancel": Planted(
            Plant(session=LeavesCallsOpenOnCancel, talk=LeavesWhatIsOpen),
            "cancelling_against_steers_and_tools",
            "a_run_leaves_nothing_open",
            within=100,
        ),
        "a-yes-before-the-commit": Planted(
            Plant(store=AnswersBeforeItCommits), "producers_in_every_mode", "a_sender_is_told_the_truth"
        ),
        "the-newest-prompt-first": Planted(
            Plant(talk=StartsWithTheNewest), "two_controllers_in_line", "delivery_is_in_order"
        ),
        "a-drain-after-the-last-request": Planted(
            Plant(talk=DrainsAfterTheLastRequest), "steering_at_the_exit", "a_message_reaches_a_request"
        ),
        "a-drain-only-at-the-end": Planted(
            Plant(talk=DrainsOnlyAtTheEnd), "two_controllers_in_line", "what_waits_is_in_the_next_request"
        ),
        "an-interrupt-that-waits": Planted(
            Plant(talk=NeverInterrupts), "interrupts_in_a_row", "an_interrupt_skips_the_batch"
        ),
        "a-skipped-batch-that-runs": Planted(
            Plant(talk=RunsWhatWasInterrupted), "interrupts_in_a_row", "a_tool_runs_at_most_once"
        ),
        "a-request-planned-before-its-commit": Planted(
            Plant(talk=CommitsAStalePlan), "producers_in_every_mode", "a_request_shows_what_is_live"
        ),
        "a-request-planned-after-its-commit": Planted(
            Plant(talk=PlansAfterTheCommit), "producers_in_every_mode", "a_request_is_what_was_committed"
        ),
        "a-ttl-that-is-ignored": Planted(
            Plant(talk=NeverExpires), "producers_in_every_mode", "a_ttl_is_a_number_of_turns"
        ),
        "a-compaction-that-keeps-everything": Planted(
            Plant(talk=KeepsEveryReminder), "compacting_between_turns", "only_the_preserved_survive_a_compaction"
        ),
        "a-cancel-that-empties-the-inbox": Planted(
            Plant(session=EmptiesTheInboxOnCancel),
            "cancelling_against_steers_and_tools",
            "a_cancel_leaves_the_inbox_alone",
        ),
        "a-run-that-leaves-its-turn-open": Planted(
            Plant(session=CancelsInPart, talk=LeavesWhatIsOpen),
            "cancelling_against_steers_and_tools",
            "a_run_leaves_nothing_open",
        ),
        "a-turn-number-that-is-skipped": Planted(
            Plant(talk=NumbersWhatCameToNothing), "cancelling_against_steers_and_tools", "turns_count_from_one"
        ),
        "a-steer-while-permission-is-asked": Planted(
            Plant(talk=DeliversWhileAsking),
            "steering_while_permission_is_asked",
            "a_steer_is_held_while_permission_is_asked",
        ),
        "a-message-after-the-end": Planted(
            Plant(session=SpeaksAfterItsEnd), "starting_and_closing", "a_closed_session_is_over"
        ),
        "an-event-that-is-not-logged": Planted(
            Plant(store=ForgetsToLog), "two_controllers_in_line", "the_journal_is_the_state"
        ),
        "a-subscriber-that-is-skipped": Planted(
            Plant(store=SkipsASubscriber), "producers_in_every_mode", "a_subscriber_sees_the_journal"
        ),
    }
)
