"""The page as a person uses it; all knowledge of its markup is here."""

import time
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect

from tests.studio.visitor import Visitor

# How long the page may take to catch up.
SECONDS: Final = 20.0
PANES: Final = (".top", "#sessions", "#timeline", "#transcript", "#composer", "#reminders", ".tabs")
# The modules of the page are loaded once, so this is the state that it draws.
_STATE: Final = "async () => JSON.parse(JSON.stringify((await import('/static/state.js')).app.timeline))"
# What the server says of the same session to the same viewer.
_TRUTH: Final = """async () => {
  const { app } = await import("/static/state.js");
  return (await fetch(`/api/sessions/${encodeURIComponent(app.sessionId)}/timeline?turns=300`)).json();
}"""


class StudioPage:
    """The page of a visitor."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.page: Page = visitor.page

    # Coming and going.

    def open(self, link: str) -> "StudioPage":
        """Log in with this link, and wait until the stream is open."""
        self.page.goto(link)
        self.until_live()
        return self

    def until_live(self) -> None:
        expect(self.page.locator(".top")).to_contain_text("Live")

    def choose(self, name: str) -> None:
        """Select a session by its title or id."""
        self.page.locator("#sessions").get_by_text(name, exact=True).first.click()
        expect(self.page.locator("h1")).to_have_text(name)
        self.until_loaded()

    def show(self, session: str, request: int | str | None = None) -> None:
        """Go to a session, or to one of its requests, by the address."""
        place = f"session={session}" if request is None else f"session={session}&request={request}"
        self.page.evaluate("(place) => { location.hash = place; }", place)
        if request is None:
            self.until_loaded()

    def until_loaded(self) -> None:
        self.page.wait_for_function("async () => (await import('/static/state.js')).app.timeline !== null")

    # Reading.

    @property
    def timeline(self) -> dict[str, Any]:
        """What the page knows of the session."""
        found: dict[str, Any] = self.page.evaluate(_STATE)
        return found

    def until_cursor(self, cursor: int) -> None:
        """Wait until the page has seen this event."""
        self.page.wait_for_function(
            "async (least) => (await import('/static/state.js')).app.timeline?.cursor >= least", arg=cursor
        )

    def until_equal(self) -> None:
        """Wait until the page knows the same of the session as its server, to the last field."""
        until = time.monotonic() + SECONDS
        while differing := differences(plain(self.page.evaluate(_TRUTH)), plain(self.timeline)):
            assert time.monotonic() < until, differing[:10]
            self.page.wait_for_timeout(50)

    @property
    def reminders(self) -> Locator:
        return self.page.locator("#reminders")

    @property
    def transcript(self) -> Locator:
        return self.page.locator("#transcript")

    @property
    def composer(self) -> Locator:
        return self.page.locator("#composer")

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def inspector(self) -> Locator:
        return self.page.locator(".inspector")

    def card(self, text: str) -> Locator:
        """The card of a reminder or a waiting message with this text."""
        return self.reminders.locator("li").filter(has_text=text)

    def section(self, name: str) -> Locator:
        """A group of cards: Queued, Live or Ended."""
        return self.reminders.locator(f"section:has(#h-{name.lower()})")

    def turn(self, number: int) -> Locator:
        return self.transcript.locator(f".turn[data-row='{number}']")

    # Acting.

    def away(self) -> None:
        """Take pointer and focus off the list: a card stays where it is as long as they are on it."""
        self.page.mouse.move(1, 1)
        self.page.evaluate("() => document.activeElement?.blur()")

    def say(self, verb: str, text: str) -> None:
        """Send this text with one of the verbs of the composer."""
        self.composer.locator(".verbs").get_by_role("button", name=verb, exact=True).click()
        self.composer.locator("#say").fill(text)
        self.composer.locator("#say").press("Enter")

    @property
    def send_button(self) -> Locator:
        return self.composer.locator(".write button")

    @property
    def field(self) -> Locator:
        """Where the text to send is written."""
        return self.composer.locator("#say")

    def until_idle(self) -> None:
        prompt = self.composer.locator(".verbs").get_by_role("button", name="Prompt", exact=True)
        expect(prompt).not_to_have_attribute("aria-disabled", "true")

    def act(self, text: str, action: str) -> None:
        """Press a button on the card with this text."""
        card = self.card(text).first
        card.hover()
        card.get_by_role("button", name=action).first.click()
        self.away()

    def open_edit(self, text: str) -> None:
        self.act(text, "Edit before it is delivered")
        expect(self.dialog).to_be_visible()

    def edit(self, text: str, other: str) -> None:
        """Replace the text of something that waits."""
        self.open_edit(text)
        self.dialog.get_by_role("textbox").fill(other)
        self.dialog.get_by_role("button", name="Replace").click()
        expect(self.dialog).to_have_count(0)
        self.away()

    def clear(self, text: str) -> None:
        """End a live reminder."""
        self.card(text).first.locator("[data-focus]").click()
        self.card(text).first.get_by_role("button", name="Clear", exact=True).click()
        self.dialog.get_by_role("button", name="Clear 1").click()
        expect(self.dialog).to_have_count(0)
        self.away()

    def at_hand(self, control: Locator) -> bool:
        """Whether a click would reach it; Playwright's own would first scroll what a person cannot scroll."""
        return bool(
            control.evaluate(
                """(element) => {
                  const box = element.getBoundingClientRect();
                  const corners = [[box.left + 2, box.top + 2], [box.right - 2, box.bottom - 2]];
                  return corners.every(([x, y]) => element.contains(document.elementFromPoint(x, y)));
                }"""
            )
        )

    def cancel_turn(self) -> None:
        self.page.locator(".top").get_by_role("button", name="Cancel turn").click()
        self.dialog.get_by_role("button", name="Cancel turn").click()

    # Measuring.

    def boxes(self) -> dict[str, dict[str, float]]:
        """The boxes of the panes that can be seen."""
        boxes: dict[str, dict[str, float]] = self.page.evaluate(
            """(selectors) => Object.fromEntries(selectors
              .map((selector) => [selector, document.querySelector(selector)])
              .filter(([, element]) => element?.checkVisibility({ visibilityProperty: true }))
              .map(([selector, element]) => [selector, element.getBoundingClientRect().toJSON()]))""",
            PANES,
        )
        return boxes


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """The same without what is empty, which the server leaves out and the page does not."""
    if isinstance(value, dict):
        found = {name: plain(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value or None


def differences(one: Any, other: Any, path: str = "$") -> list[str]:  # noqa: ANN401 - any values of JSON
    """Where two values differ, one line for each place."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return [line for name in names for line in differences(one.get(name), other.get(name), f"{path}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for index, pair in enumerate(zip(one, other)) for line in differences(*pair, f"{path}[{index}]")]  # noqa: B905 - of the same length
    return [] if one == other else [f"{path}: server {one!r:.300}, page {other!r:.300}"]
