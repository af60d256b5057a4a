"""What a person does on the page, and what the model then reads: the bytes of its requests are looked at."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from sideband.core.messages import ToolCall
from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.service import MODEL, ModelService
from tests.studio.studio_page import StudioPage

CALL = ToolCall(id="c-1", name="list_dir", args={})
WRITE = ToolCall(id="c-2", name="write_file", args={"path": "new.txt", "content": "green"})
LONG_PATH = "packages/billing/src/exporters/monthly/a_directory_with_a_long_name/report_writer.py"


class Desk:
    """A session in the studio whose model is this test."""

    def __init__(self, server: Served, studio: StudioPage, service: ModelService) -> None:
        self.server = server
        self.studio = studio
        self.service = service
        self.session: str = server.post("/sessions", {"title": "mend"})["id"]
        studio.choose("mend")

    def prompt(self, text: str = "Mend the build.") -> None:
        """Prompt it, and wait for the request to the model, which is not answered yet."""
        asked = len(self.service.bodies)
        self.studio.say("Prompt", text)
        self.service.request(asked + 1)

    def until_idle(self) -> None:
        self.studio.until_idle()

    def reminder(self, body: str) -> dict[str, object]:
        rows = self.server.timeline(self.session)["reminders"]
        found: dict[str, object] = next(row for row in rows if row["body"] == body)
        return found


@pytest.fixture
def desk(serve: Serve, visit: Visit, service: ModelService, tmp_path: Path) -> Desk:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "build.txt").write_text("red", encoding="utf-8")
    server = serve("--model", MODEL, "--workspace", str(workspace), env=service.env)
    return Desk(server, StudioPage(visit()).open(server.link), service)


@pytest.mark.requirement("studio:page:told")
def test_a_prompt_reaches_the_model_and_its_answer_the_page(desk: Desk) -> None:
    desk.prompt("Mend the build.")
    assert "Mend the build." in desk.service.request(1)
    desk.service.reply("The build is mended.")
    expect(desk.studio.transcript).to_contain_text("The build is mended.")
    expect(desk.studio.transcript).to_contain_text("Mend the build.")
    assert len(desk.service.bodies) == 1


@pytest.mark.requirement("studio:page:told")
def test_a_reminder_waits_for_its_seam_and_is_in_the_next_request(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Remind", "CI is red since noon.")
    expect(desk.studio.section("Queued")).to_contain_text("CI is red since noon.")
    assert len(desk.service.bodies) == 1
    desk.service.reply("I look.", CALL)
    assert "CI is red since noon." in desk.service.request(2)
    expect(desk.studio.section("Live")).to_contain_text("CI is red since noon.")
    expect(desk.studio.turn(2).locator(".told")).to_contain_text("CI is red since noon.")
    # Beside the conversation, never in it.
    expect(desk.studio.turn(2).locator(".talk")).not_to_contain_text("CI is red since noon.")
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:edited")
def test_an_edited_reminder_is_told_as_it_was_edited(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Remind", "Deploys are frozen.")
    desk.studio.edit("Deploys are frozen.", "Deploys are frozen until Monday.")
    expect(desk.studio.section("Queued")).to_contain_text("Deploys are frozen until Monday.")
    desk.service.reply("I look.", CALL)
    assert "Deploys are frozen until Monday." in desk.service.request(2)
    assert "Deploys are frozen." not in desk.service.request(2)
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:edited")
def test_a_revoked_reminder_never_reaches_the_model(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Remind", "This was a mistake.")
    desk.studio.act("This was a mistake.", "Revoke")
    expect(desk.studio.section("Ended")).to_contain_text("Revoked")
    desk.service.reply("I look.", CALL)
    desk.service.request(2)
    desk.service.reply("Done.")
    desk.until_idle()
    assert all(b"This was a mistake." not in body for body in desk.service.bodies)
    assert desk.reminder("This was a mistake.")["state"] == "revoked"


@pytest.mark.requirement("studio:page:told")
def test_a_steer_reaches_the_running_turn(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Steer", "Keep the signature, please.")
    expect(desk.studio.section("Queued")).to_contain_text("Keep the signature, please.")
    desk.service.reply("I look.", CALL)
    assert "Keep the signature, please." in desk.service.said(2)[-1]
    expect(desk.studio.transcript.locator(".user").filter(has_text="Keep the signature")).to_have_count(1)
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:told")
def test_a_queued_message_starts_a_turn_when_the_session_is_idle(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Queue", "Then write the changelog.")
    expect(desk.studio.section("Queued")).to_contain_text("Then write the changelog.")
    desk.service.reply("I look.", CALL)
    assert "Then write the changelog." not in desk.service.request(2)
    desk.service.reply("Done.")
    assert "Then write the changelog." in desk.service.said(3)[-1]
    desk.service.reply("Written.")


@pytest.mark.requirement("studio:page:edited")
def test_an_edited_message_is_delivered_as_it_was_edited_and_a_revoked_one_is_not(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Steer", "Use tabs.")
    desk.studio.edit("Use tabs.", "Use four spaces.")
    expect(desk.studio.section("Queued")).to_contain_text("Use four spaces.")
    desk.studio.say("Queue", "Then sing.")
    desk.studio.act("Then sing.", "Revoke")
    expect(desk.studio.card("Then sing.")).to_have_count(0)
    desk.service.reply("I look.", CALL)
    assert "Use four spaces." in desk.service.request(2)
    desk.service.reply("Done.")
    desk.until_idle()
    assert all(b"Use tabs." not in body and b"Then sing." not in body for body in desk.service.bodies)


@pytest.mark.requirement("studio:page:told")
def test_an_interrupt_skips_the_tools_of_the_reply(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Interrupt", "Do not touch the files now.")
    expect(desk.studio.section("Queued")).to_contain_text("Do not touch the files now.")
    desk.service.reply("I look.", CALL)
    request = desk.service.request(2)
    assert "Do not touch the files now." in request
    assert "build.txt" not in request
    expect(desk.studio.turn(1)).to_contain_text("skipped")
    desk.service.reply("I wait.")


@pytest.mark.requirement("studio:page:edited")
def test_a_cleared_reminder_is_not_told_any_more(desk: Desk) -> None:
    desk.studio.say("Remind", "The database is read-only.")
    expect(desk.studio.section("Queued")).to_contain_text("The database is read-only.")
    desk.prompt()
    assert "The database is read-only." in desk.service.request(1)
    desk.studio.clear("The database is read-only.")
    expect(desk.studio.section("Ended")).to_contain_text("Cleared")
    desk.service.reply("Done.")
    desk.until_idle()
    assert desk.reminder("The database is read-only.")["state"] == "cleared"


@pytest.mark.requirement("studio:page:cancel")
def test_cancelling_a_turn_leaves_the_inbox_alone(desk: Desk) -> None:
    desk.prompt()
    desk.studio.say("Remind", "This survives the turn.")
    expect(desk.studio.section("Queued")).to_contain_text("This survives the turn.")
    desk.studio.cancel_turn()
    desk.until_idle()
    expect(desk.studio.section("Queued")).to_contain_text("This survives the turn.")
    # The button that was pressed is gone.
    expect(desk.studio.field).to_be_focused()
    desk.prompt("Go on.")
    assert "This survives the turn." in desk.service.request(2)
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:marks-agree")
def test_what_happened_in_a_cancelled_turn_is_not_drawn_in_the_future(desk: Desk) -> None:
    desk.studio.say("Remind", "The database is read-only.")
    expect(desk.studio.section("Queued")).to_contain_text("The database is read-only.")
    desk.prompt()
    desk.service.reply("I look.", CALL)
    desk.service.request(2)
    desk.studio.say("Remind", "This survives the turn.")
    expect(desk.studio.section("Queued")).to_contain_text("This survives the turn.")
    desk.studio.clear("The database is read-only.")
    expect(desk.studio.section("Ended")).to_contain_text("Cleared")
    desk.studio.cancel_turn()
    expect(desk.studio.transcript.locator(".turn.void")).to_have_count(1)
    desk.until_idle()
    later: list[str] = desk.studio.page.evaluate(
        """() => {
          const now = document.querySelector("#timeline .c-edge").getBoundingClientRect();
          return [...document.querySelectorAll("#timeline :is(.c-live, .c-wait, .c-dot)")]
            .filter((mark) => mark.getBoundingClientRect().right > now.right + 1).map((mark) => mark.outerHTML);
        }"""
    )
    assert later == []


@pytest.mark.requirement("studio:page:refused")
def test_a_refusal_keeps_the_text_and_names_the_code_and_the_field(desk: Desk) -> None:
    desk.studio.visitor.expects(r"40[09]|422|413")
    desk.studio.say("Remind", "x" * 20_000)
    alert = desk.studio.page.get_by_role("alert")
    expect(alert).to_contain_text("Not accepted")
    expect(alert).to_contain_text("SIDEBAND-106")
    expect(desk.studio.page.locator("#say")).to_have_value("x" * 20_000)
    assert desk.server.timeline(desk.session)["reminders"] == []


# Answers that do not arrive.


class Lossy:
    """Loses the first request of a route, or its answer."""

    def __init__(self, desk: Desk, route: str, *, arrives: bool) -> None:
        self.bodies: list[Any] = []
        self._arrives = arrives
        desk.studio.visitor.expects("Failed to load resource")
        desk.studio.page.route(f"**/{route}", self._lose)

    def _lose(self, route: Route) -> None:
        self.bodies.append(route.request.post_data_json)
        if len(self.bodies) > 1:
            route.continue_()
            return
        if self._arrives:
            route.fetch()
        route.abort()

    @property
    def keys(self) -> set[str]:
        return {body["_meta"]["sideband"]["idempotencyKey"] for body in self.bodies}


@pytest.mark.requirement("studio:page:lost-answer")
def test_a_reminder_whose_answer_was_lost_is_settled_by_its_event(desk: Desk) -> None:
    Lossy(desk, "remind", arrives=True)
    desk.studio.say("Remind", "Said exactly once.")
    expect(desk.studio.section("Queued").locator("li[data-row]").filter(has_text="Said exactly once.")).to_have_count(1)
    expect(desk.studio.card("Said exactly once.")).to_have_count(1)
    assert len(desk.server.timeline(desk.session)["reminders"]) == 1


@pytest.mark.requirement("studio:page:lost-answer")
def test_a_reminder_that_was_lost_on_its_way_is_sent_again_with_the_same_key(desk: Desk) -> None:
    lossy = Lossy(desk, "remind", arrives=False)
    desk.studio.say("Remind", "Said exactly once.")
    card = desk.studio.card("Said exactly once.")
    expect(card).to_contain_text("may or may not have been accepted")
    card.get_by_role("button", name="Check").click()
    expect(desk.studio.section("Queued").locator("li[data-row]").filter(has_text="Said exactly once.")).to_have_count(1)
    expect(card).to_have_count(1)
    assert len(desk.server.timeline(desk.session)["reminders"]) == 1
    assert (len(lossy.bodies), len(lossy.keys)) == (2, 1)


@pytest.mark.requirement("studio:page:lost-answer")
def test_a_message_whose_answer_was_lost_is_not_shown_twice(desk: Desk) -> None:
    desk.prompt()
    Lossy(desk, "inject", arrives=True)
    desk.studio.say("Steer", "Said once, please.")
    expect(desk.studio.section("Queued")).to_contain_text("Said once, please.")
    expect(desk.studio.transcript.locator(".user").filter(has_text="Said once, please.")).to_have_count(1)
    texts = [row["text"] for row in desk.server.timeline(desk.session)["messages"]]
    assert texts.count("Said once, please.") == 1
    desk.service.reply("Done.")
    desk.service.reply("Done.")


# Permissions.


@pytest.mark.requirement("studio:page:permission")
def test_while_a_permission_is_asked_what_waits_is_held_and_allowing_it_runs_the_tool(
    desk: Desk, tmp_path: Path
) -> None:
    desk.prompt()
    desk.service.reply("I write.", WRITE)
    bar = desk.studio.page.get_by_role("group", name="Permission")
    expect(bar).to_contain_text("write_file")
    desk.studio.say("Remind", "Keep the files small.")
    expect(desk.studio.card("Keep the files small.")).to_contain_text("Held")
    expect(bar).to_contain_text("1 held")
    assert not (tmp_path / "workspace" / "new.txt").exists()
    bar.get_by_role("button", name="Allow", exact=True).click()
    assert "Keep the files small." in desk.service.request(2)
    assert (tmp_path / "workspace" / "new.txt").read_text(encoding="utf-8") == "green"
    expect(bar).to_have_count(0)
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:permission")
@pytest.mark.parametrize("width", [380, 768])
def test_a_permission_can_be_given_at_every_width(desk: Desk, tmp_path: Path, width: int) -> None:
    desk.studio.page.set_viewport_size({"width": width, "height": 800})
    desk.prompt()
    desk.service.reply("I write.", ToolCall(id="c-3", name="write_file", args={"path": LONG_PATH, "content": "green"}))
    bar = desk.studio.page.get_by_role("group", name="Permission")
    expect(bar).to_contain_text(LONG_PATH)
    if width < 760:
        desk.studio.page.locator(".tabs").get_by_role("button", name="Reminders").click()
        expect(desk.studio.reminders).to_be_visible()
        expect(bar).to_be_visible()
    allow = bar.get_by_role("button", name="Allow", exact=True)
    assert desk.studio.at_hand(allow)
    allow.click()
    desk.service.request(2)
    assert (tmp_path / "workspace" / LONG_PATH).read_text(encoding="utf-8") == "green"
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:place")
def test_the_focus_goes_on_when_a_permission_was_given(desk: Desk) -> None:
    desk.prompt()
    desk.service.reply("I write.", WRITE)
    bar = desk.studio.page.get_by_role("group", name="Permission")
    bar.get_by_role("button", name="Allow", exact=True).press("Enter")
    desk.service.request(2)
    expect(bar).to_have_count(0)
    expect(desk.studio.field).to_be_focused()
    desk.service.reply("Done.")


@pytest.mark.requirement("studio:page:permission")
def test_denying_a_permission_does_not_run_the_tool(desk: Desk, tmp_path: Path) -> None:
    desk.prompt()
    desk.service.reply("I write.", WRITE)
    desk.studio.page.get_by_role("group", name="Permission").get_by_role("button", name="Deny").click()
    desk.service.request(2)
    assert not (tmp_path / "workspace" / "new.txt").exists()
    expect(desk.studio.turn(1)).to_contain_text("denied")
    desk.service.reply("I do not write, then.")


@pytest.mark.requirement("studio:page:begin")
def test_a_new_session_is_begun_on_the_page(desk: Desk) -> None:
    desk.studio.page.locator("#sessions").get_by_role("button", name="New").click()
    desk.studio.dialog.get_by_label("Title").fill("from the page")
    desk.studio.dialog.get_by_label("First prompt").fill("Say hello.")
    desk.studio.dialog.get_by_role("button", name="Begin").click()
    assert "Say hello." in desk.service.request(1)
    desk.service.reply("Hello.")
    expect(desk.studio.page.locator("h1")).to_have_text("from the page")
    expect(desk.studio.transcript).to_contain_text("Hello.")
    expect(desk.studio.field).to_be_focused()


@pytest.mark.requirement("studio:page:begin")
def test_what_is_written_first_into_a_new_session_is_its_prompt(desk: Desk) -> None:
    desk.studio.field.fill("Say hello.")
    desk.studio.field.press("Enter")
    assert "Say hello." in desk.service.said(1)[-1]
    desk.service.reply("Hello.")
    expect(desk.studio.transcript).to_contain_text("Hello.")


@pytest.mark.requirement("studio:page:told")
def test_a_reminder_has_the_options_that_were_chosen(desk: Desk) -> None:
    desk.studio.composer.get_by_role("button", name="Remind", exact=True).click()
    options = desk.studio.composer.locator(".opts")
    options.get_by_label("TTL").fill("7")
    options.get_by_label("key").fill("ci:main")
    options.get_by_label("tags").fill("ci, main")
    options.get_by_label("role").select_option("user_block")
    options.get_by_label("sub-agents").select_option("none")
    options.get_by_label("survives compaction").check()
    desk.studio.say("Remind", "CI is red.")
    expect(desk.studio.section("Queued")).to_contain_text("CI is red.")
    row = desk.reminder("CI is red.")
    assert (row["ttlTurns"], row["dedupeKey"], row["tags"]) == (7, "ci:main", ["ci", "main"])
    assert (row["roleHint"], row["propagate"], row["preserveOnCompact"]) == ("user_block", "none", True)


@pytest.mark.requirement("studio:page:told")
def test_what_was_sent_leaves_the_field_at_once(desk: Desk) -> None:
    desk.studio.say("Remind", "Sent in one go.")
    expect(desk.studio.page.locator("#say")).to_have_value("")


@pytest.mark.requirement("studio:page:told")
def test_what_is_sent_while_the_answer_to_the_last_is_awaited_stays_after_it(desk: Desk) -> None:
    held: list[Route] = []
    desk.studio.page.route("**/remind", lambda route: route.continue_() if held else held.append(route))
    desk.studio.say("Remind", "Sent first.")
    desk.studio.say("Remind", "Sent second.")
    expect(desk.studio.card("Sent second.")).to_contain_text("sending")
    held[0].continue_()
    queued = desk.studio.section("Queued").locator("li[data-row]")
    expect(queued).to_have_count(2)
    expect(queued.nth(0)).to_contain_text("Sent first.")
    expect(queued.nth(1)).to_contain_text("Sent second.")
    bodies = [row["body"] for row in desk.server.timeline(desk.session)["reminders"]]
    assert bodies == ["Sent first.", "Sent second."]


@pytest.mark.requirement("studio:page:refused")
def test_a_wrong_option_is_refused_by_the_server_and_gets_the_focus(desk: Desk) -> None:
    desk.studio.visitor.expects(r"40[09]|422|413")
    desk.studio.composer.get_by_role("button", name="Remind", exact=True).click()
    ttl = desk.studio.composer.get_by_label("TTL")
    ttl.fill("0")
    desk.studio.say("Remind", "Shown in no turn.")
    expect(desk.studio.page.get_by_role("alert")).to_contain_text("HARN-RMD-002")
    expect(ttl).to_be_focused()
    expect(desk.studio.field).to_have_value("Shown in no turn.")
