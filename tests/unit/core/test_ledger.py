"""The ledger: what joins the history, what stands, and what ends a window."""

import pytest

from sideband.core.apply import fold
from sideband.core.events import Compacted, RequestCommitted, TurnCommitted, TurnVoided
from sideband.core.ledger import Form, Fragment, Ledger, Lifetime
from sideband.core.state import SessionState


def a_fragment(
    text: str = "note",
    *,
    scope: Lifetime = Lifetime.KEPT,
    reminders: tuple[str, ...] = ("r1",),
    handle: int | None = None,
    withdraws: tuple[int, ...] = (),
) -> Fragment:
    return Fragment(
        anchor=1,
        form=Form.TEXT,
        role="user",
        scope=scope,
        text=text,
        reminders=reminders,
        handle=handle,
        withdraws=withdraws,
    )


def a_ledger(*fragments: Fragment, route: str = "here") -> Ledger:
    ledger = Ledger()
    ledger.join(route, fragments, 1)
    return ledger


@pytest.mark.parametrize(
    ("scope", "joins"),
    [
        pytest.param(Lifetime.KEPT, True, id="kept-text-is-history"),
        pytest.param(Lifetime.CLEARING, True, id="self-clearing-text-is-history-too"),
        pytest.param(Lifetime.VOLATILE, False, id="volatile-text-leaves-no-trace"),
    ],
)
def test_what_an_answered_request_carried_for_good_is_history(scope: Lifetime, *, joins: bool) -> None:
    fragment = a_fragment(scope=scope)
    assert a_ledger(fragment).fragments == ([fragment] if joins else [])


def test_a_kept_fragment_stands_until_a_later_line_withdraws_it() -> None:
    one, two = a_fragment(handle=1), a_fragment(reminders=("r2",), handle=2)
    ledger = a_ledger(one, two)
    assert ledger.standing == {"r1": one, "r2": two}
    gone = a_fragment("Withdrawn: 1.", reminders=(), withdraws=(1,))
    ledger.join("here", [gone], 3)
    assert ledger.standing == {"r2": two}
    assert ledger.fragments == [one, two, gone]


def test_handles_are_used_once() -> None:
    ledger = a_ledger(a_fragment(handle=1), a_fragment(handle=2), a_fragment(reminders=(), withdraws=(2,)))
    assert ledger.next_handle == 3


def test_another_route_begins_a_window_of_its_own() -> None:
    ledger = a_ledger(a_fragment(handle=1))
    assert ledger.on("here") is ledger
    assert ledger.on("there") == Ledger(route="there")
    elsewhere = a_fragment("elsewhere", handle=1)
    ledger.join("there", [elsewhere], 3)
    assert (ledger.route, ledger.fragments, ledger.next_handle) == ("there", [elsewhere], 2)


def test_a_window_begins_behind_the_messages_of_its_first_answered_request() -> None:
    ledger = a_ledger()
    assert (Ledger().since, ledger.since) == (None, 1)
    ledger.join("here", [], 3)
    assert ledger.since == 1
    ledger.join("there", [], 5)
    assert ledger.since == 5
    assert ledger.on("here").since is None
    ledger.clear()
    assert ledger.since is None


def answered(turn: int, *fragments: Fragment) -> tuple[RequestCommitted, TurnCommitted]:
    return RequestCommitted(turn=turn, route="here", fragments=fragments), TurnCommitted(turn=turn)


def test_fragments_join_when_their_request_is_answered_and_not_before() -> None:
    asked, answer = answered(1, a_fragment(handle=1))
    state = fold([asked])
    assert state.ledger == Ledger()
    assert state.request is not None
    assert state.request.fragments == asked.fragments
    assert fold([answer], state).ledger.fragments == list(asked.fragments)


def test_the_fragments_of_a_void_turn_never_were() -> None:
    asked, _ = answered(1, a_fragment(handle=1))
    state = fold([asked, TurnVoided(turn=1)])
    assert (state.ledger, state.request) == (Ledger(), None)


def test_a_further_attempt_has_the_fragments_of_the_first() -> None:
    asked, answer = answered(1, a_fragment(handle=1))
    state = fold([asked, RequestCommitted(turn=1, attempt=2), answer])
    assert state.ledger.fragments == list(asked.fragments)


def test_a_compaction_begins_a_window() -> None:
    state: SessionState = fold([*answered(1, a_fragment(handle=1)), Compacted(turn=1, archived_messages=1)])
    assert (state.ledger, state.window) == (Ledger(), 1)
