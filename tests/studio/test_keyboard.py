"""Everything with the keyboard alone: the pointer is never used after the page was opened."""

from typing import Final

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage

# The order in which the panes come with F6 and with Tab.
ORDER: Final = ("top", "sessions", "timeline", "transcript", "composer", "reminders")
_PANE: Final = """() => {
  const pane = document.activeElement?.closest(".top, #sessions, #timeline, #transcript, #composer, #reminders, .tabs");
  return pane ? (pane.id || pane.classList[0]) : document.activeElement?.tagName.toLowerCase() ?? "";
}"""
_FOCUSED: Final = "() => document.activeElement?.closest('[data-row]')?.dataset.row ?? ''"


class Keys:
    """A page whose pointer is not touched."""

    def __init__(self, studio: StudioPage) -> None:
        self.studio = studio
        self.page = studio.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(40)

    @property
    def pane(self) -> str:
        found: str = self.page.evaluate(_PANE)
        return found

    @property
    def row(self) -> str:
        found: str = self.page.evaluate(_FOCUSED)
        return found

    def go_to(self, pane: str) -> None:
        for _ in range(10):
            if self.pane == pane:
                return
            self.press("F6")
        raise AssertionError(f"F6 does not reach {pane}")

    def go_to_row(self, text: str) -> None:
        """Move down in the list of reminders until the row with this text has the focus."""
        self.go_to("reminders")
        for key in ["Home", *["j"] * 40]:
            self.press(key)
            focused = self.page.evaluate("() => document.activeElement?.closest('[data-row]')?.innerText ?? ''")
            if text in focused:
                return
        raise AssertionError(f"no row has the text {text}")


@pytest.fixture
def keys(rehearsed: Served, visit: Visit) -> Keys:
    studio = StudioPage(visit()).open(rehearsed.link)
    studio.show(rehearsed.rehearsal)
    return Keys(studio)


@pytest.mark.requirement("studio:page:keyboard")
def test_f6_goes_through_the_panes_and_back(keys: Keys) -> None:
    keys.go_to("sessions")
    seen = [keys.pane]
    for _ in range(len(ORDER)):
        keys.press("F6")
        seen.append(keys.pane)
    around = [pane for pane in seen if pane != "top"]
    start = around.index("sessions")
    assert around[start : start + 5] == list(ORDER[1:])
    keys.press("Shift+F6")
    assert keys.pane != seen[-1]


@pytest.mark.requirement("studio:page:keyboard")
def test_tab_reaches_every_pane_in_order_and_each_stop_shows_its_focus(keys: Keys) -> None:
    keys.page.evaluate(
        "() => { document.activeElement?.blur(); getSelection().removeAllRanges(); window.scrollTo(0, 0); }"
    )
    seen: list[str] = []
    for _ in range(80):
        keys.page.keyboard.press("Tab")
        pane = keys.pane
        if pane in ("body", "html", "") and seen:
            break
        if not seen or seen[-1] != pane:
            seen.append(pane)
        outline = keys.page.evaluate(
            """() => {
              const parts = [document.activeElement, document.activeElement.closest(".write, .field, label")];
              const rings = parts.filter(Boolean).map((part) => getComputedStyle(part))
                .filter((style) => (style.outlineStyle !== "none" && style.outlineWidth !== "0px") || style.boxShadow !== "none");
              return rings.length ? "" : document.activeElement.outerHTML.slice(0, 200);
            }"""
        )
        assert outline == ""
    panes = [pane for pane in seen if pane in ORDER]
    assert panes == list(ORDER)


@pytest.mark.requirement("studio:page:keyboard")
def test_a_list_is_one_stop(keys: Keys) -> None:
    stops = keys.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-list]")].map((list) =>
          [list.dataset.list, [...list.querySelectorAll("[data-focus]")].filter((row) => row.tabIndex >= 0).length]))"""
    )
    assert stops
    assert {name: count for name, count in stops.items() if count > 1} == {}


@pytest.mark.requirement("studio:page:keyboard")
@pytest.mark.parametrize(("down", "up"), [("j", "k"), ("ArrowDown", "ArrowUp")])
@pytest.mark.parametrize("pane", ["sessions", "timeline", "transcript", "reminders"])
def test_rows_are_reached_inside_a_pane(keys: Keys, pane: str, down: str, up: str) -> None:
    keys.go_to(pane)
    keys.press("Home")
    first = keys.row
    keys.press(down)
    second = keys.row
    assert second != first
    assert keys.pane == pane
    keys.press(up)
    assert keys.row == first


@pytest.mark.requirement("studio:page:keyboard")
def test_enter_opens_a_session(keys: Keys, rehearsed: Served) -> None:
    rehearsed.post("/sessions", {"title": "another"})
    expect(keys.page.locator("#sessions")).to_contain_text("another")
    keys.go_to("sessions")
    keys.press("Home", "Enter")
    expect(keys.page.locator("h1")).not_to_have_text("")
    keys.press("j", "Enter")
    expect(keys.page.locator("#sessions [aria-current]")).to_have_count(1)


@pytest.mark.requirement("studio:page:keyboard")
def test_enter_opens_a_reminder_and_marks_it_everywhere(keys: Keys) -> None:
    keys.go_to_row("This repository blocks")
    keys.press("Enter")
    expect(keys.studio.reminders.locator(".card.sel")).to_contain_text("This repository blocks")
    expect(keys.page.locator("#timeline [aria-selected=true]")).to_have_count(1)
    expect(keys.studio.transcript.locator(".note.sel").first).to_be_visible()


@pytest.mark.requirement("studio:page:keyboard")
def test_a_reminder_is_written_sent_edited_and_revoked(keys: Keys) -> None:
    keys.go_to("reminders")
    keys.press("c")
    assert keys.pane == "composer"
    keys.page.keyboard.type("Written with keys.")
    keys.press("Shift+Enter")
    keys.page.keyboard.type("Second line.")
    keys.press("Enter")
    expect(keys.studio.section("Queued")).to_contain_text("Written with keys.")
    keys.go_to_row("Written with keys.")
    keys.press("e")
    expect(keys.studio.dialog).to_be_visible()
    keys.press("Control+a")
    keys.page.keyboard.type("Edited with keys.")
    keys.press("Tab")
    for _ in range(6):
        if keys.page.evaluate("() => document.activeElement.textContent").startswith("Replace"):
            break
        keys.press("Tab")
    keys.press("Enter")
    expect(keys.studio.dialog).to_have_count(0)
    expect(keys.studio.section("Queued")).to_contain_text("Edited with keys.")
    keys.go_to_row("Edited with keys.")
    keys.press("x")
    expect(keys.studio.dialog).to_contain_text("Revoke")
    keys.press("Enter")
    expect(keys.studio.card("Edited with keys.")).to_contain_text("Revoked")


@pytest.mark.requirement("studio:page:keyboard")
def test_x_asks_before_it_clears(keys: Keys) -> None:
    keys.go_to_row("This repository blocks")
    keys.press("x")
    expect(keys.studio.dialog).to_contain_text("Clear")
    keys.press("Escape")
    expect(keys.studio.dialog).to_have_count(0)
    expect(keys.studio.section("Live")).to_contain_text("This repository blocks")
    # The focus is where it was.
    assert keys.pane == "reminders"
    keys.press("x")
    expect(keys.studio.dialog.get_by_role("button", name="Clear 1")).to_be_focused()
    keys.press("Enter")
    expect(keys.studio.dialog).to_have_count(0)
    expect(keys.studio.reminders.locator("li").filter(has_text="This repository blocks").first).to_contain_text(
        "Cleared"
    )


@pytest.mark.requirement("studio:page:keyboard")
def test_i_inspects_and_escape_returns(keys: Keys) -> None:
    keys.go_to("transcript")
    keys.press("Home", "j", "j")
    turn = keys.row
    keys.press("i")
    expect(keys.studio.inspector).to_contain_text(f"Request of turn {turn}")
    expect(keys.page.locator("#sessions [aria-current]")).to_be_focused()
    keys.press("Escape")
    expect(keys.studio.inspector).to_have_count(0)
    expect(keys.studio.turn(int(turn))).to_be_focused()


@pytest.mark.requirement("studio:page:place")
def test_a_control_of_the_inspector_keeps_the_focus_while_another_request_is_loaded(keys: Keys) -> None:
    keys.studio.show(keys.studio.timeline["sessionId"], request=9)
    seed = keys.studio.inspector.get_by_role("button", name="seed", exact=True)
    seed.press("Enter")
    expect(keys.studio.inspector).to_contain_text("as it would be")
    expect(seed).to_have_attribute("aria-pressed", "true")
    expect(seed).to_be_focused()


@pytest.mark.requirement("studio:page:keyboard")
def test_commands_that_cannot_be_used_now_are_not_offered(keys: Keys) -> None:
    keys.press("Control+k")
    expect(keys.studio.dialog).to_contain_text("Queue a message")
    expect(keys.studio.dialog).not_to_contain_text("Steer the turn")
    keys.page.keyboard.type("new session")
    keys.press("Enter")
    # One dialog follows the other.
    expect(keys.studio.dialog.get_by_label("Title")).to_be_focused()


@pytest.mark.requirement("studio:page:keyboard")
def test_slash_filters_and_escape_returns_to_live(keys: Keys) -> None:
    keys.go_to("reminders")
    keys.press("/")
    assert keys.page.evaluate("() => document.activeElement.id") == "filter"
    keys.page.keyboard.type("force-pushes")
    expect(keys.studio.reminders.locator("li[data-row]")).to_have_count(1)
    keys.page.locator("#filter").fill("")
    keys.go_to("transcript")
    keys.press("Home", "Enter")
    expect(keys.studio.reminders).to_contain_text("As of turn")
    keys.press("Escape")
    expect(keys.studio.reminders).not_to_contain_text("As of turn")


@pytest.mark.requirement("studio:page:keyboard")
def test_commands_and_help(keys: Keys) -> None:
    keys.press("Control+k")
    expect(keys.studio.dialog).to_contain_text("Remind")
    keys.page.keyboard.type("timeline as table")
    keys.press("Enter")
    expect(keys.studio.dialog).to_have_count(0)
    expect(keys.page.locator("#timeline table")).to_be_visible()
    keys.go_to("reminders")
    keys.press("?")
    expect(keys.studio.dialog).to_contain_text("Keys")
    expect(keys.studio.dialog).to_contain_text("Compacted out")
    keys.press("Escape")
    expect(keys.studio.dialog).to_have_count(0)


@pytest.mark.requirement("studio:page:keyboard")
def test_single_letters_are_text_in_a_field(keys: Keys) -> None:
    keys.go_to("composer")
    keys.page.locator("#say").focus()
    keys.page.keyboard.type("exit /jk? ic")
    expect(keys.page.locator("#say")).to_have_value("exit /jk? ic")
    expect(keys.studio.dialog).to_have_count(0)


@pytest.mark.requirement("studio:page:keyboard")
def test_a_dialog_keeps_the_focus_inside(keys: Keys) -> None:
    keys.press("Control+k")
    expect(keys.studio.dialog).to_be_visible()
    for _ in range(6):
        keys.press("Tab")
        assert keys.page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )


@pytest.mark.requirement("studio:page:keyboard")
def test_when_the_focused_item_goes_its_neighbour_gets_the_focus(keys: Keys, rehearsed: Served) -> None:
    session = keys.studio.timeline["sessionId"]
    for number in (1, 2, 3):
        rehearsed.post(f"/sessions/{session}/remind", {"body": f"Waiting {number}."})
    expect(keys.studio.section("Queued")).to_contain_text("Waiting 3.")
    keys.go_to_row("Waiting 2.")
    keys.press("x")
    expect(keys.studio.dialog).to_contain_text("Revoke")
    keys.press("Enter")
    expect(keys.studio.card("Waiting 2.")).to_contain_text("Revoked")
    expect(keys.studio.reminders.locator("[data-row] :focus, [data-row]:focus")).to_have_count(1)
