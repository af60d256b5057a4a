"""What holds for the rows and documents of every journal."""

from typing import Final

from hypothesis import example, given

from sideband.core.events import Begun, Deleted
from sideband.inspect.requests import RequestRow, compared_requests, request_document, request_rows
from tests.rendering_sessions import ROUTES, STEPS, Ask, Compact, End, Route, Step
from tests.unit.inspect.test_saved_laws import ANY_ROUTE, SESSION, OneJournal, journal
from tests.unit.inspect.test_saved_laws import played as talked

AN_ASK: Final = Ask(End.ANSWERED, "Done.", (), native=False)


@given(route=ANY_ROUTE, steps=STEPS)
def test_every_row_is_that_of_its_request_whose_parts_are_its_bytes(route: Route, steps: list[Step]) -> None:
    talk = talked(route, steps)
    store = OneJournal([*journal(talk)])
    last = {sent.view.turn: sent for sent in talk.sent}
    rows = request_rows(store, session=SESSION)
    assert [row.turn for row in rows] == [*last]
    for row, sent in zip(rows, last.values(), strict=True):
        shown = request_document(store, session=SESSION, turn=row.turn)
        assert "".join(part.text for part in shown.parts).encode() == sent.rendered.request.body
        assert all(getattr(shown, name) == getattr(row, name) for name in RequestRow.__struct_fields__)
        assert [(told.id, told.trust, told.principal) for told in shown.reminders] == [
            (item.id, item.provenance.trust.name.lower(), item.provenance.principal) for item in sent.live
        ]


@given(route=ANY_ROUTE, before=STEPS, steps=STEPS)
@example(route=next(iter(ROUTES.values())), before=[AN_ASK, Compact(0, "Done so far.", parting=False)], steps=[AN_ASK])
def test_a_session_begun_again_shows_nothing_of_the_deleted_one(
    route: Route, before: list[Step], steps: list[Step]
) -> None:
    mine = [*journal(talked(route, steps))]
    alone, after = OneJournal(mine), OneJournal([*journal(talked(route, before)), Deleted(), Begun(), *mine])
    rows = request_rows(alone, session=SESSION)
    assert request_rows(after, session=SESSION) == rows
    for row in rows[-1:]:
        assert compared_requests(after, session=SESSION, turn=row.turn) == compared_requests(
            alone, session=SESSION, turn=row.turn
        )
