"""The page at every width: nothing scrolls sideways, nothing overlaps, and nothing is cut off without a title."""

from itertools import combinations
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage

WIDTHS: Final = (380, 768, 1024, 1440, 2000)
LONG: Final = "a-key-that-is-much-longer-than-any-column-" * 3
# Sizes are fractions of pixels, so that neighbours may share part of one.
SLACK: Final = 1.0

_WIDER: Final = """() => {
  const root = document.scrollingElement;
  const isCut = (element) => element && element !== document.body && (getComputedStyle(element).overflowX !== "visible" || isCut(element.parentElement));
  const wide = [...document.querySelectorAll("body *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.right > innerWidth + 1 && box.width > 0 && !element.closest("svg, .sr") && !isCut(element.parentElement);
  });
  const low = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().bottom > innerHeight + 0.5 && !isCut(element.parentElement));
  return { over: root.scrollWidth - root.clientWidth, tall: root.scrollHeight - root.clientHeight,
    wide: wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 150)), low: low.slice(0, 3).map((element) => element.outerHTML.slice(0, 150)) };
}"""
_CUT: Final = """() => [...document.querySelectorAll(".clip, .chip-trust, button, h1, h2, h3, .tag, .key")].filter((element) => {
  const style = getComputedStyle(element);
  return element.checkVisibility() && element.scrollWidth > element.clientWidth + 1 && style.overflowX !== "visible"
    && style.overflowX !== "auto" && !element.closest("[title]") && !element.querySelector("[title]");
}).map((element) => element.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def long_session(shared: Served) -> str:
    """A session whose texts are longer than any column."""
    session: str = shared.post("/sessions", {"title": f"a title {LONG}"[:120]})["id"]
    for number in range(12):
        shared.post(
            f"/sessions/{session}/remind",
            {
                "body": "word " * 80 + "x" * 400,
                "dedupeKey": f"{LONG}{number}"[:120],
                "tags": [LONG[:60], "b"],
                "ttlTurns": 40,
            },
        )
    return session


def overlapping(boxes: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    return [
        (one, other)
        for one, other in combinations(boxes, 2)
        if min(boxes[one]["right"], boxes[other]["right"]) - max(boxes[one]["left"], boxes[other]["left"]) > SLACK
        and min(boxes[one]["bottom"], boxes[other]["bottom"]) - max(boxes[one]["top"], boxes[other]["top"]) > SLACK
    ]


def check(studio: StudioPage, width: int) -> None:
    measured: dict[str, Any] = studio.page.evaluate(_WIDER)
    assert measured["over"] <= 0, measured
    assert measured["tall"] <= 0, measured
    assert measured["wide"] == []
    boxes = studio.boxes()
    assert {".top", "#transcript"} <= boxes.keys() or width < 760
    assert overlapping(boxes) == []
    for name, box in boxes.items():
        assert box["width"] > 0, name
        assert box["right"] <= width + SLACK, name
    assert studio.page.evaluate(_CUT) == []


@pytest.mark.requirement("studio:page:layout")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits(shared: Served, long_session: str, visit: Visit, width: int, scheme: str) -> None:
    visitor = visit(viewport={"width": width, "height": 900}, color_scheme=scheme)
    studio = StudioPage(visitor)
    studio.page.goto(shared.new_link())
    expect(studio.page.locator("#transcript, .tabs").first).to_be_visible()
    studio.until_loaded()
    studio.show(shared.rehearsal)
    studio.page.wait_for_timeout(300)
    check(studio, width)
    studio.show(long_session)
    studio.page.wait_for_timeout(300)
    check(studio, width)
    if studio.page.locator(".tabs").is_visible():
        for tab in studio.page.locator(".tabs a, .tabs button").all():
            tab.click()
            studio.page.wait_for_timeout(100)
            check(studio, width)


@pytest.mark.requirement("studio:page:layout")
def test_the_columns_are_as_wide_as_they_should_be(shared: Served, visit: Visit) -> None:
    for width, sessions, reminders in ((1440, 212, 376), (2000, 248, 440)):
        studio = StudioPage(visit(viewport={"width": width, "height": 900})).open(shared.new_link())
        studio.until_loaded()
        boxes = studio.boxes()
        assert abs(boxes["#sessions"]["width"] - sessions) <= 2
        assert abs(boxes["#reminders"]["width"] - reminders) <= 2
        assert abs(boxes[".top"]["height"] - 48) <= 2


@pytest.mark.requirement("studio:page:layout")
def test_the_page_can_be_zoomed_to_200_percent(shared: Served, visit: Visit) -> None:
    studio = StudioPage(visit(viewport={"width": 720, "height": 450}, device_scale_factor=2)).open(shared.new_link())
    studio.until_loaded()
    studio.page.wait_for_timeout(200)
    assert studio.page.evaluate(_WIDER)["over"] <= 0
