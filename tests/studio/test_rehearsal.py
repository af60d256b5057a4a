"""The rehearsal on the page, from its start to its end: every state of a reminder can be seen."""

from typing import Any, Final

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage

# The words of the states in which reminders of the rehearsal end.
STATES: Final = {
    "expired": "Expired",
    "cleared": "Cleared",
    "deduped": "Deduped",
    "revoked": "Revoked",
    "compacted_out": "Compacted out",
    "dropped": "Dropped",
    "audit_recorded": "Audit only",
}
# Collects the words of the states of all cards and rows, whenever the page has drawn.
SEEN: Final = """
window.seenStates = new Set();
const look = () => {
  for (const heading of document.querySelectorAll("#h-queued, #h-live")) seenStates.add(heading.textContent.trim().split(/\\s/)[0]);
  for (const word of document.querySelectorAll("#reminders .past > span:first-of-type")) seenStates.add(word.textContent.trim());
};
document.addEventListener("DOMContentLoaded", () => new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true }));
"""


class Played:
    """A rehearsal that was played to its end, before the eyes of a visitor."""

    def __init__(self, server: Served, studio: StudioPage) -> None:
        self.server = server
        self.studio = studio
        self.session = server.rehearsal
        studio.show(self.session)
        expect(studio.transcript).to_contain_text("The rehearsal ends here")


@pytest.fixture
def played(shared: Served, visit: Visit) -> Played:
    return Played(shared, StudioPage(visit()).open(shared.new_link()))


@pytest.mark.requirement("studio:page:rehearsal")
def test_the_rehearsal_is_seen_from_its_start_to_its_end(serve: Serve, visit: Visit) -> None:
    server = serve("--rehearsal", "--fast")
    visitor = visit()
    visitor.context.add_init_script(SEEN)
    studio = StudioPage(visitor).open(server.link)
    server.until_rehearsed()
    expect(studio.transcript).to_contain_text("The rehearsal ends here")
    studio.until_idle()
    studio.until_equal()
    seen: list[str] = studio.page.evaluate("() => [...window.seenStates]")
    assert {"Queued", "Live", *STATES.values()} <= set(seen)


@pytest.mark.requirement("studio:page:rehearsal")
def test_the_page_shows_the_rehearsal_as_it_was(played: Played) -> None:
    played.studio.until_equal()
    timeline = played.server.timeline(played.session)
    shown = played.studio.transcript.locator(".turn").count()
    assert shown == len(timeline["turns"])
    expect(played.studio.reminders).to_contain_text(f"{len(timeline['reminders'])} in this session")


@pytest.mark.requirement("studio:page:rehearsal")
def test_every_way_to_end_has_its_word(played: Played) -> None:
    ended = played.studio.section("Ended")
    rows: list[dict[str, Any]] = played.server.timeline(played.session)["reminders"]
    for state, word in STATES.items():
        of_state = [row for row in rows if row["state"] == state]
        assert of_state, state
        expect(ended.locator("li").filter(has_text=word)).to_have_count(len(of_state))
    # The reason of an end that was not asked for stands beside it.
    for row in rows:
        if row["state"] == "dropped":
            expect(ended).to_contain_text(row["reason"])


@pytest.mark.requirement("studio:page:rehearsal")
def test_what_is_live_stands_apart_and_says_who_said_it(played: Played) -> None:
    live = played.studio.section("Live")
    expect(live).to_contain_text("This repository blocks force-pushes to main.")
    expect(live.locator(".chip-trust").first).to_be_visible()


@pytest.mark.requirement("studio:page:rehearsal")
def test_a_past_turn_shows_what_was_queued_then(played: Played) -> None:
    studio = played.studio
    studio.turn(8).locator(".no button").click()
    expect(studio.reminders).to_contain_text("As of turn 8")
    expect(studio.section("Queued")).to_be_visible()
    expect(studio.section("Live")).to_be_visible()
    studio.reminders.get_by_role("button", name="Back to live").click()
    expect(studio.reminders).not_to_contain_text("As of turn 8")


@pytest.mark.requirement("studio:page:rehearsal")
def test_interrupts_left_out_reminders_and_compactions_are_in_the_transcript(played: Played) -> None:
    transcript = played.studio.transcript
    expect(transcript).to_contain_text("Batch skipped: interrupted by editor")
    expect(transcript).to_contain_text("left out, over the token budget")
    expect(transcript.locator(".fold")).to_contain_text("Compaction")
    expect(transcript.locator(".user").filter(has_text="Keep the signature")).to_have_count(1)
    expect(transcript).to_contain_text("still shown")


@pytest.mark.requirement("studio:page:rehearsal")
def test_the_sub_agent_has_inherited_a_reminder(played: Played) -> None:
    cards = played.server.get("/sessions")["sessions"]
    (child,) = [card["id"] for card in cards if card.get("parent") == played.session]
    played.studio.show(child)
    row = played.studio.card("This repository blocks force-pushes to main.")
    row.get_by_role("button").first.click()
    expect(row).to_contain_text("inherited")


@pytest.mark.requirement("studio:page:requested")
def test_a_lowered_request_of_a_peer_is_shown_beside_what_it_got(played: Played) -> None:
    studio = played.studio
    studio.card("review:report").first.get_by_role("button").first.click()
    expect(studio.reminders.locator(".got")).to_contain_text("than a peer may have")
    expect(studio.reminders.locator(".got s").first).to_be_visible()


@pytest.mark.requirement("studio:page:marks-agree")
def test_marks_in_lanes_margin_and_cards_agree(played: Played) -> None:
    """Each turn that showed a reminder has a dot, and a mention in the margin of the turn."""
    studio = played.studio
    rows = [row for row in played.server.timeline(played.session)["reminders"] if row.get("shown")]
    dots = studio.page.locator("#timeline .c-dot").count()
    assert 0 < dots <= sum(len(row["shown"]) for row in rows)
    studio.page.get_by_role("button", name="As table").click()
    for row in rows[:5]:
        name = row.get("dedupeKey") or row["body"][:20]
        expect(studio.page.locator("#timeline tr").filter(has_text=name).first).to_be_visible()


@pytest.mark.requirement("studio:page:marks-agree")
def test_a_reminder_that_is_sent_again_is_named_and_not_printed_again(played: Played) -> None:
    rows = [
        (row, [entry["turn"] for entry in row.get("shown", []) if not entry.get("carried")])
        for row in played.server.timeline(played.session)["reminders"]
    ]
    again = [(row, turns) for row, turns in rows if len(turns) > 1]
    assert again
    for row, (first, *later) in again:
        text = row["body"].split("\n")[0][:40]
        expect(played.studio.turn(first).locator(".note").filter(has_text=text)).to_have_count(1)
        for turn in later:
            told = played.studio.turn(turn).locator(".told")
            expect(told.locator(".note").filter(has_text=text)).to_have_count(0)
            expect(told.get_by_text("still shown:")).to_contain_text(row.get("dedupeKey") or text[:20])


@pytest.mark.requirement("studio:page:inspector")
def test_the_words_about_the_cache_agree_with_its_figures(played: Played) -> None:
    requests = played.server.get(f"/sessions/{played.session}/requests")["requests"]
    compacted = next(row["turn"] for row in requests if row.get("compaction"))
    for turn, read in ((1, []), (compacted, ["Head"]), (compacted + 1, ["Head", "Stable"])):
        played.studio.show(played.session, request=turn)
        inspector = played.studio.inspector
        expect(inspector).to_contain_text(f"Request of turn {turn}")
        expect(inspector).to_have_attribute("aria-busy", "false")
        regions = inspector.locator(".region").filter(has_text="read from cache")
        assert regions.locator("h3").all_text_contents() == read
        share = next(row["share"] for row in requests if row["turn"] == turn)
        expect(played.studio.reminders.locator(".big")).to_contain_text(f"{round(share * 100)} %")
        assert bool(share) == bool(read)
    # The placement that rewrites the beginning of the conversation.
    played.studio.inspector.get_by_role("button", name="seed", exact=True).click()
    expect(played.studio.reminders.locator(".big")).to_contain_text("0 %")
    expect(played.studio.inspector).not_to_contain_text("read from cache")


@pytest.mark.requirement("studio:page:place")
def test_the_transcript_is_where_it_was_after_a_look_at_a_request(played: Played) -> None:
    studio = played.studio
    top = "(turn) => turn.getBoundingClientRect().top"
    studio.transcript.hover()
    studio.page.mouse.wheel(0, -900)
    # The wheel scrolls smoothly: two looks at the same place mean that it has ended.
    studio.page.wait_for_function(
        """() => {
          const box = document.querySelector(".scroll");
          const before = window.scrolledTo;
          window.scrolledTo = box.scrollTop;
          return box.scrollTop === before && box.scrollTop + box.clientHeight < box.scrollHeight - 100;
        }""",
        polling=200,
    )
    seen = studio.transcript.locator(".turn:has(.req)").evaluate_all(
        """(turns) => turns.find((turn) => turn.getBoundingClientRect().top > document.querySelector(".scroll")
          .getBoundingClientRect().top).dataset.row"""
    )
    before = studio.turn(int(seen)).evaluate(top)
    studio.show(played.session, request=3)
    expect(studio.inspector).to_contain_text("Request of turn 3")
    studio.page.go_back()
    expect(studio.turn(int(seen))).to_be_in_viewport()
    assert abs(studio.turn(int(seen)).evaluate(top) - before) <= 2


@pytest.mark.requirement("studio:page:inspector")
def test_the_inspector_shows_the_exact_request(played: Played) -> None:
    played.studio.show(played.session, request=1)
    inspector = played.studio.inspector
    expect(inspector).to_contain_text("This repository blocks force-pushes to main.")
    expect(inspector).to_contain_text("as it was sent")
    inspector.get_by_role("button", name="Exact bytes").click()
    document = played.server.get(f"/sessions/{played.session}/requests/1")
    whole = "".join(part["text"] for part in document["parts"])
    assert "".join(inspector.locator("pre").all_text_contents()) == whole


@pytest.mark.requirement("studio:page:rehearsal")
def test_the_rehearsal_can_be_started_from_an_empty_store(serve: Serve, visit: Visit) -> None:
    server = serve("--fast")
    studio = StudioPage(visit()).open(server.link)
    studio.page.get_by_role("button", name="Start the rehearsal").first.click()
    expect(studio.transcript).to_contain_text("The rehearsal ends here")
