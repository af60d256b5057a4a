"""How much of a request its reminders may take."""

from typing import Final

import pytest

from sideband.core.blocks import estimated_tokens
from sideband.core.events import DropReason
from sideband.core.trust import IN_PROCESS
from tests.planned_sessions import CLAUDE, UNKNOWN, PlannedSession, a_profile, shown_ids, texts
from tests.sessions import CLIENT, PEER, SERVER

FRAME: Final = len("<system-reminder>\n\n</system-reminder>")


def a_body(tokens: int) -> str:
    """A body that takes so many tokens with the tags around it."""
    return "x" * (4 * tokens - FRAME)


def a_talk(window: int | None = 50_000) -> PlannedSession:
    """A conversation with a model whose reminders get one part in fifty of its window: a thousand tokens."""
    return PlannedSession(a_profile(CLAUDE, context_window=window))


@pytest.mark.requirement("render:budget:size")
@pytest.mark.parametrize(
    ("window", "tokens"),
    [
        pytest.param(1_000_000, 2_000, id="two-thousand-tokens"),
        pytest.param(100_000, 2_000, id="both"),
        pytest.param(50_000, 1_000, id="two-percent-of-the-window"),
        pytest.param(None, 2_000, id="unknown-window"),
    ],
)
def test_reminders_take_two_thousand_tokens_or_two_percent(window: int | None, tokens: int) -> None:
    session = a_talk(window)
    session.remind("a", a_body(tokens - 100), ttl_turns=1)
    session.remind("b", a_body(100), ttl_turns=1)
    assert session.plan().left_out == ()
    session.remind("c", a_body(10), ttl_turns=1)
    planned = session.plan()
    assert planned.left_out == ("c",)
    assert sum(map(estimated_tokens, texts(planned))) == tokens


@pytest.mark.requirement("render:budget:final-text")
@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        pytest.param("x" * 3_000, 760, id="with-the-frame"),
        pytest.param("é" * 1_500, 760, id="in-bytes"),
        pytest.param("</system-reminder>" * 150, 797, id="with-what-was-escaped"),
    ],
)
def test_the_text_is_measured_as_it_will_be_sent(body: str, tokens: int) -> None:
    session = a_talk()
    session.remind("a", body, ttl_turns=1)
    session.remind("b", a_body(1_000 - tokens), ttl_turns=1)
    fits = session.plan()
    assert (estimated_tokens(texts(fits)[0]), fits.left_out) == (tokens, ())
    session.forget("b")
    session.remind("c", a_body(1_001 - tokens), ttl_turns=1)
    assert session.plan().left_out == ("c",)


@pytest.mark.requirement("render:budget:order")
def test_the_carried_go_first_then_the_more_trusted_then_the_older() -> None:
    session = a_talk()
    session.remind("carried", a_body(900))
    session.asked_and_answered()
    session.remind("server", a_body(300), SERVER, ttl_turns=1)
    session.remind("peer", a_body(300), PEER, ttl_turns=1)
    session.remind("client", a_body(300), CLIENT, ttl_turns=1)
    session.remind("old", a_body(300), IN_PROCESS, ttl_turns=1)
    session.remind("new", a_body(300), IN_PROCESS, ttl_turns=1)
    order = []
    while session.live_ids != ["carried"]:
        planned = session.plan()
        assert shown_ids(planned)[0] == "carried"
        order.append(set(shown_ids(planned)[1:]))
        for reminder_id in order[-1]:
            session.forget(reminder_id)
    assert order == [{"old", "new", "client"}, {"peer", "server"}]


@pytest.mark.requirement("render:budget:order")
def test_what_is_carried_takes_nothing_of_the_budget() -> None:
    session = a_talk()
    session.remind("carried", a_body(1_000))
    session.asked_and_answered()
    session.remind("new", a_body(1_000), ttl_turns=1)
    planned = session.plan()
    assert (shown_ids(planned), planned.left_out) == (["carried", "new"], ())


@pytest.mark.requirement("render:budget:the-first-always-fits")
@pytest.mark.parametrize("tokens", [1_001, 5_000])
def test_the_first_is_shown_whatever_the_budget_says(tokens: int) -> None:
    session = a_talk()
    session.remind("a", a_body(tokens), ttl_turns=1)
    assert shown_ids(session.plan()) == ["a"]


@pytest.mark.requirement("render:budget:three-times-left-out-goes-first")
def test_a_reminder_left_out_three_times_in_a_row_goes_first() -> None:
    session = a_talk()
    session.remind("patient", a_body(600), PEER, ttl_turns=1)
    left_out = []
    for number in range(4):
        session.remind(f"trusted{number}", a_body(600), ttl_turns=1)
        left_out.append(session.asked_and_answered().left_out)
    assert left_out == [("patient",)] * 3 + [("trusted3",)]
    assert [event.reminder_id for event in session.fired if event.turn == 4] == ["patient"]


@pytest.mark.requirement("render:budget:three-times-left-out-goes-first")
def test_being_shown_starts_the_count_anew() -> None:
    session = a_talk()
    session.remind("patient", a_body(600), PEER, ttl_turns=9)
    shown = []
    for number in range(8):
        session.remind(f"trusted{number}", a_body(600), ttl_turns=1)
        shown.append("patient" in shown_ids(session.asked_and_answered()))
        session.forget(f"trusted{number}")
    assert shown == [False, False, False, True, False, False, False, True]


@pytest.mark.requirement("render:budget:larger-than-the-budget-goes-alone")
def test_a_reminder_larger_than_the_budget_is_shown_alone_when_its_turn_comes() -> None:
    session = a_talk()
    session.remind("small", a_body(100), ttl_turns=4)
    session.remind("large", a_body(1_001), ttl_turns=1)
    shown = [shown_ids(session.asked_and_answered()) for _ in range(5)]
    assert shown == [["small"], ["small"], ["small"], ["large"], ["small"]]


@pytest.mark.requirement("render:budget:too-large")
@pytest.mark.parametrize("preset", ["tail", "seed"])
def test_a_reminder_larger_than_a_tenth_of_the_window_is_dropped(preset: str) -> None:
    session = a_talk()
    session.remind("just", a_body(5_000), ttl_turns=1)
    session.remind("more", a_body(5_001), ttl_turns=1)
    planned = session.plan_seed() if preset == "seed" else session.ask()
    assert [(entry.reminder_id, entry.reason) for entry in planned.unusable] == [("more", DropReason.TOO_LARGE)]
    assert shown_ids(planned) == ["just"]


@pytest.mark.requirement("render:budget:too-large")
def test_it_is_dropped_for_good_and_nothing_is_where_the_window_is_unknown() -> None:
    session = a_talk()
    session.remind("more", a_body(5_001), ttl_turns=1)
    session.asked_and_answered()
    assert [(event.reminder_id, event.reason) for event in session.dropped] == [("more", DropReason.TOO_LARGE)]
    assert session.live_ids == []
    unknown = PlannedSession(UNKNOWN)
    unknown.remind("more", a_body(100_000), ttl_turns=1)
    assert shown_ids(unknown.plan()) == ["more"]


@pytest.mark.requirement("render:budget:left-out-is-reported")
def test_what_the_budget_leaves_out_is_named_in_an_event() -> None:
    session = a_talk()
    for reminder_id in "abcd":
        session.remind(reminder_id, a_body(400), ttl_turns=1)
    planned = session.asked_and_answered()
    assert planned.left_out == ("c", "d")
    assert [(event.reminder_id, event.turn) for event in session.deferred] == [("c", 1), ("d", 1)]
    assert [event.reminder_id for event in session.fired] == ["a", "b"]
