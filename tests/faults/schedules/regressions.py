"""Known faults of other agents that accept messages while they run, and the scenarios that provoke each here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

MESSAGES: Final = "tests/conformance/test_inject_messages.py"
PROMISES: Final = "tests/conformance/test_promises.py"
PLANNING: Final = "tests/conformance/test_rendering_planning.py"
REQUESTS: Final = "tests/conformance/test_rendering_requests.py"
SEAMS: Final = "tests/conformance/test_seams.py"
DURABILITY: Final = "tests/conformance/test_store_durability.py"
TURN: Final = "tests/unit/loop/test_turn.py"
COMPACTION: Final = "tests/unit/loop/test_compaction.py"
SESSIONS: Final = "tests/unit/loop/test_many_sessions.py"
RENDERING: Final = "tests/unit/render/test_laws.py"
TEMPLATES: Final = "tests/unit/render/test_templates.py"


class Regression(NamedTuple):
    """A failure, the scenarios that play it, the laws that it would break, and tests of it alone, by file and name."""

    failure: str
    scenarios: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    tests: tuple[tuple[str, str], ...] = ()


REGRESSIONS: Final[Mapping[str, Regression]] = MappingProxyType(
    {
        "R1": Regression(
            "A steer that arrives after the last drain is recorded, but no request ever shows it.",
            ("steering_at_the_exit",),
            ("an_idle_session_has_nothing_left_to_take", "a_message_reaches_a_request"),
            ((SEAMS, "test_a_message_before_the_closing_drain_is_taken_by_it_and_one_after_it_is_told"),),
        ),
        "R2": Regression(
            "A sender that got no answer in time assumes a failure and sends again, and the request is executed twice.",
            ("producers_in_every_mode",),
            ("a_sender_is_told_the_truth", "an_item_ends_exactly_once"),
            (
                (PROMISES, "test_a_repeat_gets_the_reply_of_the_first_and_adds_nothing"),
                (DURABILITY, "test_a_repeat_after_a_restart_gets_the_reply_of_the_first"),
            ),
        ),
        "R3": Regression(
            "A cancel overtakes a steer, and the steer then restarts the turn that was just cancelled.",
            ("cancelling_against_steers_and_tools", "steering_while_permission_is_asked"),
            ("a_cancel_leaves_the_inbox_alone", "a_steer_is_held_while_permission_is_asked"),
            (
                (MESSAGES, "test_a_steer_whose_turn_ended_before_its_drain_waits_and_starts_nothing"),
                (MESSAGES, "test_after_a_cancel_queued_messages_wait_for_the_next_word_of_the_client"),
            ),
        ),
        "R4": Regression(
            "An interrupt that arrives after the turn it was meant for interrupts the next turn.",
            ("cancelling_against_steers_and_tools", "interrupts_in_a_row"),
            ("an_interrupt_skips_the_batch", "a_run_leaves_nothing_open"),
            (
                (SEAMS, "test_an_interrupt_at_any_other_seam_skips_nothing"),
                (SESSIONS, "test_a_cancel_where_nothing_runs_says_so_and_changes_nothing"),
            ),
        ),
        "R5": Regression(
            "A message that is sent while the agent works is neither delivered in the turn nor kept for the next one.",
            ("producers_in_every_mode", "two_controllers_in_line", "compacting_between_turns"),
            ("a_message_reaches_a_request", "what_waits_is_in_the_next_request", "what_has_not_ended_is_pending"),
        ),
        "R6": Regression(
            "A steer is accepted while its turn ends, and waits for ever in a queue that is never drained.",
            ("steering_at_the_exit", "runs_that_end_early", "starting_and_closing"),
            ("an_item_ends_exactly_once", "an_idle_session_has_nothing_left_to_take"),
            ((MESSAGES, "test_a_steer_left_over_is_delivered_at_the_first_break_of_the_next_turn"),),
        ),
        "R7": Regression(
            "A clean-up of the history that should run once runs in every turn, and removes the model's thinking too.",
            ("compacting_between_turns",),
            ("only_the_preserved_survive_a_compaction",),
            (
                (COMPACTION, "test_a_run_compacts_by_itself_when_nine_tenths_of_the_window_are_full"),
                (REQUESTS, "test_a_bound_thought_is_sent_back_until_its_window_ends"),
                (RENDERING, "test_inside_a_window_what_was_sent_only_grows"),
            ),
        ),
        "R8": Regression(
            "A server fails on a system message in the middle of a conversation, and the request is retried without end.",
            ("runs_that_end_early",),
            ("a_run_leaves_nothing_open",),
            (
                (TURN, "test_a_request_is_sent_at_most_five_times_with_longer_and_longer_pauses"),
                (PLANNING, "test_native_is_tail_where_the_slot_is_not_verified"),
                (TEMPLATES, "test_the_model_reads_every_reminder"),
            ),
        ),
        "R9": Regression(
            "A server refuses the whole request because it does not support the role of the first message.",
            tests=(
                (RENDERING, "test_no_provider_complains_and_nothing_is_lost"),
                (TEMPLATES, "test_the_model_reads_every_reminder"),
            ),
        ),
    }
)
