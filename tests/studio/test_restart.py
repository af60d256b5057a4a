"""A server that ends and starts again: the page continues where it was, without a gap and without a repeat."""

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.service import MODEL, ModelService
from tests.studio.studio_page import StudioPage

# The browser says so when the server is not there.
LOST = (r"ERR_CONNECTION_REFUSED", r"ERR_INCOMPLETE_CHUNKED_ENCODING", r"ERR_CONNECTION_RESET", r"ERR_EMPTY_RESPONSE")


def remind(server: Served, session: str, *bodies: str) -> None:
    for body in bodies:
        server.post(f"/sessions/{session}/remind", {"body": body, "ttlTurns": 3})


@pytest.mark.requirement("studio:page:restart")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_page_continues_after_a_restart(serve: Serve, visit: Visit, service: ModelService, how: str) -> None:
    server = serve("--model", MODEL, env=service.env)
    session: str = server.post("/sessions", {"title": "mend"})["id"]
    visitor = visit()
    visitor.expects(*LOST)
    studio = StudioPage(visitor).open(server.link)
    studio.choose("mend")
    remind(server, session, "Before the end, one.", "Before the end, two.")
    expect(studio.section("Queued")).to_contain_text("Before the end, two.")

    if how == "kill":
        server.kill()
    else:
        assert server.stop() == 0
    expect(studio.page.locator(".banner").filter(has_text="Connection lost")).to_be_visible()
    # What was seen stays readable, and nothing can be sent.
    expect(studio.section("Queued")).to_contain_text("Before the end, two.")
    expect(studio.send_button).to_be_disabled()

    server.start()
    remind(server, session, "While the page was away, three.")
    studio.until_live()
    expect(studio.section("Queued")).to_contain_text("While the page was away, three.")
    remind(server, session, "After the return, four.")
    expect(studio.section("Queued")).to_contain_text("After the return, four.")
    studio.say("Prompt", "Mend the build.")
    said = service.request(1)
    assert all(word in said for word in ("one.", "two.", "three.", "four."))
    service.reply("Mended.")
    expect(studio.transcript).to_contain_text("Mended.")
    studio.until_equal()
    expect(studio.reminders.locator("li[data-row]")).to_have_count(len(server.timeline(session)["reminders"]))
    expect(studio.transcript.locator(".turn")).to_have_count(1)


@pytest.mark.requirement("studio:page:restart")
def test_a_turn_that_a_killed_server_had_open_is_run_by_the_next_one(
    serve: Serve, visit: Visit, service: ModelService
) -> None:
    server = serve("--model", MODEL, env=service.env)
    server.post("/sessions", {"title": "mend"})
    visitor = visit()
    visitor.expects(*LOST)
    studio = StudioPage(visitor).open(server.link)
    studio.choose("mend")
    studio.say("Prompt", "Mend the build.")
    service.request(1)
    studio.say("Steer", "Quickly, please.")
    expect(studio.section("Queued")).to_contain_text("Quickly, please.")
    server.kill()
    server.start()
    # The lease of the killed server has to lapse first.
    said = service.request(2)
    assert "Mend the build." in said
    service.reply("Mended.")
    service.reply("Mended quickly.")
    expect(studio.transcript).to_contain_text("Mended", timeout=60_000)
    studio.until_idle()
    studio.until_equal()
    expect(studio.transcript.locator(".user").filter(has_text="Quickly, please.")).to_have_count(1)
    expect(studio.transcript.locator(".user").filter(has_text="Mend the build.")).to_have_count(1)


@pytest.mark.requirement("studio:page:restart")
def test_events_that_come_while_a_page_is_offline_are_all_shown_when_it_is_back(serve: Serve, visit: Visit) -> None:
    server, visitor = serve(), visit()
    visitor.expects(*LOST, "ERR_INTERNET_DISCONNECTED", "ERR_NETWORK")
    session: str = server.post("/sessions", {"title": "quiet"})["id"]
    studio = StudioPage(visitor).open(server.link)
    studio.choose("quiet")
    visitor.context.set_offline(offline=True)
    server.stop()
    server.start()
    expect(studio.page.locator(".banner").filter(has_text="Connection lost")).to_be_visible()
    remind(server, session, *(f"Reminder {number}." for number in range(1, 41)))
    visitor.context.set_offline(offline=False)
    studio.until_live()
    expect(studio.section("Queued")).to_contain_text("Reminder 40.")
    studio.until_equal()
