"""Several people and several servers at one store: all see the same, in the same order."""

from itertools import chain
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.postgres import the_server
from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage


def write(server: Served, session: str, name: str, count: int) -> None:
    for number in range(1, count + 1):
        server.post(f"/sessions/{session}/remind", {"body": f"{name} says {number}."})


def at_the_same_time(*writers: Thread) -> None:
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def until_queued(studio: StudioPage, *bodies: str) -> None:
    for body in bodies:
        row = studio.section("Queued").locator("li[data-row]").filter(has_text=body)
        expect(row).to_have_count(1)


def order(studio: StudioPage) -> list[str]:
    found: list[str] = studio.section("Queued").locator("li .body").all_inner_texts()
    return [text.removeprefix("Queued:").strip() for text in found]


@pytest.mark.requirement("studio:page:same-order")
def test_two_browsers_see_the_same_order(serve: Serve, visit: Visit) -> None:
    server = serve()
    session: str = server.post("/sessions", {"title": "shared"})["id"]
    here, there = StudioPage(visit()).open(server.link), StudioPage(visit()).open(server.new_link())
    for studio in (here, there):
        studio.choose("shared")
    at_the_same_time(
        *(Thread(target=write, args=(server, session, name, 8)) for name in ("Ann", "Ben")),
    )
    here.say("Remind", "From this page.")
    there.say("Remind", "From that page.")
    for studio in (here, there):
        until_queued(studio, "From this page.", "From that page.")
        studio.until_equal()
    assert order(here) == order(there)
    assert len(order(here)) == 18
    assert order(here) == [row["body"] for row in server.timeline(session)["reminders"]]


@pytest.mark.requirement("studio:page:same-order")
def test_what_one_browser_does_the_other_one_sees(serve: Serve, visit: Visit) -> None:
    server = serve()
    here, there = StudioPage(visit()).open(server.link), StudioPage(visit()).open(server.new_link())
    server.post("/sessions", {"title": "shared"})
    for studio in (here, there):
        studio.choose("shared")
    here.say("Remind", "Seen by both.")
    expect(there.section("Queued")).to_contain_text("Seen by both.")
    there.act("Seen by both.", "Revoke")
    expect(here.section("Ended")).to_contain_text("Revoked")


@pytest.mark.requirement("studio:page:place")
def test_a_card_under_the_pointer_stays_there_while_others_and_it_itself_end(serve: Serve, visit: Visit) -> None:
    server = serve()
    session: str = server.post("/sessions", {"title": "shared"})["id"]
    ids = [
        server.post(f"/sessions/{session}/remind", {"body": f"Number {number:02}."})["reminderId"]
        for number in range(1, 41)
    ]
    studio = StudioPage(visit()).open(server.link)
    studio.choose("shared")
    card = studio.card("Number 20.")
    card.scroll_into_view_if_needed()
    card.hover()
    before = card.bounding_box()
    for number in (1, 2, 3, 20):
        server.post(f"/sessions/{session}/revoke", {"id": ids[number - 1]})
    expect(studio.section("Ended")).to_contain_text("Number 03.")
    expect(card).to_contain_text("Revoked")
    expect(studio.section("Queued")).to_contain_text("Number 20.")
    after = card.bounding_box()
    assert before is not None
    assert after is not None
    # A scroll position is rounded in each draw; each card that ended is more than 40 pixels high.
    assert abs(after["y"] - before["y"]) < 4
    assert abs(after["height"] - before["height"]) < 4
    studio.away()
    expect(studio.section("Queued")).not_to_contain_text("Number 20.")


@pytest.mark.requirement("studio:page:same-order")
def test_two_servers_on_one_postgresql_share_their_sessions(serve: Serve, visit: Visit) -> None:
    postgres = the_server()
    database = postgres.take()
    url = postgres.url(database)
    first, second = serve(store=url), serve(store=url)
    session: str = first.post("/sessions", {"title": "shared"})["id"]
    here, there = StudioPage(visit()).open(first.link), StudioPage(visit()).open(second.link)
    try:
        for studio in (here, there):
            studio.choose("shared")
        at_the_same_time(
            Thread(target=write, args=(first, session, "Ann", 8)),
            Thread(target=write, args=(second, session, "Ben", 8)),
        )
        here.say("Remind", "From the first server.")
        there.say("Remind", "From the second server.")
        for studio in (here, there):
            until_queued(studio, "From the first server.", "From the second server.")
            studio.until_equal()
        assert order(here) == order(there)
        expected = chain((f"Ann says {n}." for n in range(1, 9)), (f"Ben says {n}." for n in range(1, 9)))
        assert set(order(here)) == {*expected, "From the first server.", "From the second server."}
        # Each sender's own order is kept.
        assert [text for text in order(here) if text.startswith("Ann")] == [f"Ann says {n}." for n in range(1, 9)]
        # A session that is begun at one server appears at the other.
        second.post("/sessions", {"title": "begun elsewhere"})
        expect(here.page.locator("#sessions")).to_contain_text("begun elsewhere")
    finally:
        # Otherwise its connections could not be used for another test.
        for studio in (here, there):
            studio.page.close()
        for server in (first, second):
            server.stop()
        postgres.give_back(database)
