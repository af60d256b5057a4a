"""What holds for every request of every journal: it can be built again, to the byte, and for any other route too."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption, NothingToAnswer
from sideband.core.events import Event, RequestCommitted
from sideband.core.ledger import RequestHead
from sideband.inspect.saved import Making, RequestOutcome, Saved, recorded_making, saved_request
from sideband.store.codec import encode_event
from sideband.store.inspector import JournalEntry, KeptReceipt, KeptRecords, KeptSnapshot, Missing, StoredSession
from sideband.testing.oracle import violations
from tests.rendering_sessions import ROUTES, STEPS, SYSTEM, SYSTEM_AFTER, TOOLS, RenderedSession, Route, Step, take

SESSION: Final = "session-1"
ANY_ROUTE: Final = st.sampled_from(sorted(ROUTES)).map(ROUTES.__getitem__)


class OneJournal:
    """A store with one session, of which nothing was pruned."""

    place = "here"

    def __init__(self, events: Sequence[Event]) -> None:
        self._records = [encode_event(event) for event in events]

    def facts(self) -> dict[str, int | str]:
        return {}

    def faults(self) -> list[str]:
        return []

    def missing(self) -> list[Missing]:
        return []

    def sessions(self) -> list[StoredSession]:
        return [StoredSession(SESSION, len(self._records), len(self._records))]

    def kept(self, session_id: str) -> KeptSnapshot | None:
        raise AssertionError(session_id)

    def entries(self, session_id: str, *, after: int = 0) -> Iterator[JournalEntry]:
        assert session_id == SESSION
        for sequence, row in enumerate(self._records[after:], start=after + 1):
            yield JournalEntry(sequence, row.word, row.body, is_whole=True)

    def records(self, _session_id: str) -> KeptRecords:
        return KeptRecords("{}", {})

    def receipts(self, _session_id: str) -> dict[str, KeptReceipt]:
        return {}

    def close(self) -> None: ...


def played(route: Route, steps: Sequence[Step]) -> RenderedSession:
    talk = RenderedSession(route)
    talk.user_says("Begin.")
    for step in steps:
        take(talk, step)
    return talk


def journal(talk: RenderedSession) -> Iterator[Event]:
    """What the session has logged, with what its route is in the first request, as a model would tell it."""
    known = ""
    for event in talk.journal:
        if isinstance(event, RequestCommitted) and event.attempt == 1 and event.route != known:
            known = event.route
            yield msgspec.structs.replace(event, head=head_of(talk.route, known))
        else:
            yield event


def head_of(route: Route, name: str) -> RequestHead:
    head = {
        "route": name,
        "model": "x:model-1",
        "rendering": {"profile": route.profile, "placement": route.placement},
        "system": SYSTEM,
        "system_after": SYSTEM_AFTER,
        "tools": TOOLS,
    }
    return msgspec.json.decode(msgspec.json.encode(head), type=RequestHead)


def own(head: RequestHead | None) -> Making:
    assert head is not None
    making = recorded_making(head)
    assert making is not None
    return making


def body_of(saved: Saved) -> bytes:
    body: bytes = saved.making.renderer.render(saved.subject.view).request.body
    return body


@given(route=ANY_ROUTE, steps=STEPS)
def test_every_request_on_record_is_built_again_to_the_byte(route: Route, steps: list[Step]) -> None:
    talk = played(route, steps)
    store = OneJournal([*journal(talk)])
    # A turn that was void and used again is its last request.
    for turn, sent in {sent.view.turn: sent for sent in talk.sent}.items():
        saved = saved_request(store, own, session=SESSION, turn=turn, coming=False)
        assert body_of(saved) == sent.rendered.request.body
        assert saved.exact
        assert saved.outcome is (RequestOutcome.ANSWERED if sent.answered else RequestOutcome.VOID)
        assert {told.reminder.id for told in saved.subject.told} == {item.id for item in sent.live}


@given(route=ANY_ROUTE, other=ANY_ROUTE, steps=STEPS)
def test_any_session_can_be_shown_for_any_other_route(route: Route, other: Route, steps: list[Step]) -> None:
    store = OneJournal([*journal(played(route, steps))])
    making = Making("x:model-1", other.renderer())
    try:
        saved = saved_request(store, lambda _head: making, session=SESSION, turn=None, coming=False)
    except NothingToAnswer:
        # The request only had reminders that this route has said already, or cannot show.
        return
    rendered = saved.making.renderer.render(saved.subject.view)
    assert violations(other.profile, json.loads(rendered.request.body), rendered.request.betas) == []


@given(route=ANY_ROUTE, steps=STEPS)
def test_what_would_come_next_is_what_comes(route: Route, steps: list[Step]) -> None:
    talk = played(route, steps)
    # While calls have no result, it is not known what comes next.
    assume(not talk.state.open_calls)
    store = OneJournal([*journal(talk)])
    try:
        coming = talk.ask().rendered.request.body
    except NothingToAnswer:
        with pytest.raises((NothingToAnswer, InvalidOption), match="no message"):
            saved_request(store, own, session=SESSION, turn=None, coming=True)
        return
    assert body_of(saved_request(store, own, session=SESSION, turn=None, coming=True)) == coming
