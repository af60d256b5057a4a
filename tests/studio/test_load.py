"""A long session: 5,000 events and 200 reminders. These tests run alone, because other work on the machine blocks frames.

A long task is measured again before it counts: on two shared cores a pause may come from outside. The work of the page is
what the best of five measurements shows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.stored import a_long_session
from tests.studio.studio_page import StudioPage

EVENTS: Final = 5_000
REMINDERS: Final = 200
LONGEST_MS: Final = 200.0
LARGEST_SHIFT: Final = 0.01
MOST_BYTES: Final = 120_000
# Entries of the kind are collected from the first script on.
COLLECT: Final = """
window.longTasks = [];
window.shifts = [];
new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => [e.startTime, e.duration])))
  .observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => ({
  value: e.value, input: e.hadRecentInput, at: e.startTime,
  isList: e.sources.every((s) => (s.node?.nodeType === 1 ? s.node : s.node?.parentElement)?.closest("#reminders .cards")),
  sources: e.sources.map((s) => `${s.node?.outerHTML?.slice(0, 120) ?? s.node} ${JSON.stringify(s.previousRect)} ${JSON.stringify(s.currentRect)}`),
})))).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    a_long_session(f"sqlite:///{folder}/store.db", "long", events=EVENTS, reminders=REMINDERS)
    return folder


@pytest.fixture
def server(serve: Serve, stored: Path, tmp_path: Path) -> Served:
    (tmp_path / "copy.db").write_bytes((stored / "store.db").read_bytes())
    started: Served = serve(store=f"sqlite:///{tmp_path}/copy.db")
    return started


def opened(server: Served, visit: Visit) -> StudioPage:
    visitor = visit()
    visitor.context.add_init_script(COLLECT)
    studio = StudioPage(visitor)
    studio.page.goto(f"{server.new_link()}")
    studio.until_live()
    studio.page.goto(f"{server.url}/?again#session=long")
    studio.until_live()
    expect(studio.transcript.locator(".turn").last).to_be_visible()
    studio.page.wait_for_timeout(1_000)
    return studio


def longest(studio: StudioPage) -> float:
    tasks: list[list[float]] = studio.page.evaluate("() => window.longTasks")
    return max((duration for _, duration in tasks), default=0.0)


def best(measure: Callable[[], float]) -> float:
    """The smallest of up to five measurements; another one is made only if those before are too large."""
    found = measure()
    for _ in range(4):
        if found <= LONGEST_MS:
            break
        found = min(found, measure())
    return found


@pytest.mark.requirement("studio:page:responsive")
def test_a_long_session_is_loaded_without_a_long_task(server: Served, visit: Visit) -> None:
    assert best(lambda: longest(opened(server, visit))) <= LONGEST_MS


@pytest.mark.requirement("studio:page:responsive")
def test_live_updates_of_a_long_session_make_no_long_task_and_move_nothing(server: Served, visit: Visit) -> None:
    def measure() -> float:
        studio = opened(server, visit)
        studio.page.evaluate("() => { window.longTasks.length = 0; window.shifts.length = 0; }")
        for number in range(60):
            server.post("/sessions/long/remind", {"body": f"Something new: {number}.", "dedupeKey": f"n:{number % 20}"})
        expect(studio.section("Queued")).to_contain_text("Something new: 59.")
        studio.page.wait_for_timeout(500)
        # The list of reminders itself grows; nothing else has a reason to move.
        shifts = [each for each in studio.page.evaluate("() => window.shifts") if not (each["input"] or each["isList"])]
        assert sum(each["value"] for each in shifts) < LARGEST_SHIFT, shifts
        return longest(studio)

    assert best(measure) <= LONGEST_MS


@pytest.mark.requirement("studio:page:responsive")
def test_new_turns_of_a_long_session_make_no_long_task(
    serve: Serve, stored: Path, tmp_path: Path, visit: Visit
) -> None:
    (tmp_path / "copy.db").write_bytes((stored / "store.db").read_bytes())
    server: Served = serve("--model", "scripted:Nothing new.", store=f"sqlite:///{tmp_path}/copy.db")

    def measure() -> float:
        studio = opened(server, visit)
        studio.page.evaluate("() => { window.longTasks.length = 0; window.shifts.length = 0; }")
        for _ in range(10):
            before = server.timeline("long")["cursor"]
            server.post("/sessions/long/inject", {"content": "Anything new?", "mode": "queue"})
            studio.until_cursor(before + 4)
        studio.page.wait_for_timeout(500)
        return longest(studio)

    assert best(measure) <= LONGEST_MS


@pytest.mark.requirement("studio:page:responsive")
def test_the_static_files_are_smaller_than_120_kb(
    server: Served, visit: Visit, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    visitor = visit()
    visitor.expects("401")
    studio = StudioPage(visitor)
    # The first visit has to load everything; at the second one the browser is logged in.
    studio.open(server.link)
    sizes: dict[str, int] = studio.page.evaluate(
        """() => Object.fromEntries(performance.getEntriesByType("resource")
          .filter((entry) => entry.name.includes("/static/")).map((entry) => [entry.name, entry.encodedBodySize]))"""
    )
    size = sum(sizes.values())
    studio.page.goto(f"{server.url}/?again#session=long")
    studio.until_loaded()
    painted: float = studio.page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    drawn: float = studio.page.evaluate("() => performance.now()")
    record_property("first_contentful_paint_ms", painted)
    with capsys.disabled():
        print(  # noqa: T201 - a report
            f"\nfirst contentful paint after {painted:.0f} ms, a session of {EVENTS:,} events after {drawn:.0f} ms, "
            f"{size / 1000:.0f} KB of static files on the wire"
        )
    assert min(sizes.values()) > 0
    assert size < MOST_BYTES, sizes


@pytest.mark.requirement("studio:page:responsive")
def test_a_transcript_that_is_scrolled_away_stays_where_it_is(server: Served, visit: Visit) -> None:
    studio = opened(server, visit)
    box = studio.transcript.locator(".scroll")
    box.evaluate("(element) => { element.scrollTop = element.scrollHeight / 2; }")
    studio.page.wait_for_timeout(200)
    before: float = box.evaluate("(element) => element.scrollTop")
    for number in range(10):
        server.post("/sessions/long/remind", {"body": f"Elsewhere: {number}."})
    expect(studio.section("Queued")).to_contain_text("Elsewhere: 9.")
    assert abs(box.evaluate("(element) => element.scrollTop") - before) <= 1


@pytest.mark.requirement("studio:page:responsive")
def test_earlier_turns_can_be_reached(server: Served, visit: Visit) -> None:
    studio = opened(server, visit)
    for _ in range(20):
        button = studio.transcript.locator(".earlier button")
        if not button.count():
            break
        button.click()
        studio.page.wait_for_timeout(50)
        if studio.transcript.locator(".turn[data-row='900']").count():
            break
    expect(studio.transcript.locator(".turn[data-row='900']")).to_have_count(1)
