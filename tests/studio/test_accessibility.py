"""axe-core on every view, in light and dark: no serious or critical finding."""

from typing import Any, Final

import pytest
from playwright.sync_api import expect

from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage
from tests.studio.visitor import AXE, DESKTOP

GRAVE: Final = frozenset({"serious", "critical"})
NARROW: Final = {"width": 390, "height": 844}
TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def findings(studio: StudioPage) -> list[str]:
    """The grave findings of the page as it is now, one line for each element."""
    studio.page.wait_for_timeout(150)
    result: dict[str, Any] = studio.page.evaluate(
        "(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] })", TAGS
    )
    return [
        f"{found['impact']} {found['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for found in result["violations"]
        if found["impact"] in GRAVE
        for node in found["nodes"][:3]
    ]


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(server: Served, visit: Visit, scheme: str, viewport: Any = DESKTOP) -> tuple[StudioPage, str]:  # noqa: ANN401 - a mapping
    studio = StudioPage(visit(script=AXE, color_scheme=scheme, viewport=dict(viewport)))
    studio.page.goto(server.new_link())
    studio.until_loaded()
    session = server.rehearsal
    studio.show(session)
    server.post(
        f"/sessions/{session}/remind", {"body": "This waits.", "dedupeKey": "a:key", "tags": ["a"], "ttlTurns": 3}
    )
    return studio, session


@pytest.mark.requirement("studio:page:accessible")
def test_the_main_view(shared: Served, visit: Visit, scheme: str) -> None:
    studio, _ = opened(shared, visit, scheme)
    assert findings(studio) == []
    studio.turn(9).locator(".no button").click()
    studio.reminders.locator("[data-focus]").first.click()
    studio.transcript.locator("summary").first.click()
    assert findings(studio) == []
    studio.page.get_by_role("button", name="As table").click()
    assert findings(studio) == []


@pytest.mark.requirement("studio:page:accessible")
def test_the_inspector(shared: Served, visit: Visit, scheme: str) -> None:
    studio, session = opened(shared, visit, scheme)
    studio.show(session, request=9)
    expect(studio.inspector).to_be_visible()
    studio.page.wait_for_timeout(500)
    assert findings(studio) == []


@pytest.mark.requirement("studio:page:accessible")
def test_the_dialogs(shared: Served, visit: Visit, scheme: str) -> None:
    studio, _ = opened(shared, visit, scheme)
    studio.open_edit("This waits.")
    assert findings(studio) == []
    studio.page.keyboard.press("Escape")
    for keys in ("Control+k", "?"):
        studio.away()
        if keys == "?":
            studio.reminders.locator("[data-focus]").first.focus()
        studio.page.keyboard.press(keys)
        expect(studio.dialog).to_be_visible()
        assert findings(studio) == []
        studio.page.keyboard.press("Escape")
        expect(studio.dialog).to_have_count(0)
    studio.page.locator("#sessions").get_by_role("button", name="New").click()
    assert findings(studio) == []


@pytest.mark.requirement("studio:page:accessible")
def test_the_narrow_view(shared: Served, visit: Visit, scheme: str) -> None:
    studio, session = opened(shared, visit, scheme, NARROW)
    for tab in studio.page.locator(".tabs a, .tabs button").all():
        tab.click()
        assert findings(studio) == []
    studio.show(session, request=9)
    expect(studio.inspector).to_be_visible()
    assert findings(studio) == []


@pytest.mark.requirement("studio:page:accessible")
def test_the_login_page_and_the_empty_store(serve: Serve, visit: Visit, scheme: str) -> None:
    server = serve()
    stranger = visit(script=AXE, color_scheme=scheme)
    stranger.expects("401")
    stranger.page.goto(server.url)
    expect(stranger.page.locator("body")).to_contain_text("sideband open")
    assert findings(StudioPage(stranger)) == []
    studio = StudioPage(visit(script=AXE, color_scheme=scheme)).open(server.link)
    assert findings(studio) == []


@pytest.mark.requirement("studio:page:accessible")
def test_a_lost_connection_and_a_refusal(serve: Serve, visit: Visit, scheme: str) -> None:
    server = serve()
    server.post("/sessions", {"title": "quiet"})
    studio = StudioPage(visit(script=AXE, color_scheme=scheme)).open(server.link)
    studio.visitor.expects("400", "413", "422", "ERR_")
    studio.choose("quiet")
    studio.say("Remind", "x" * 20_000)
    expect(studio.page.get_by_role("alert").first).to_be_visible()
    assert findings(studio) == []
    server.stop()
    expect(studio.page.locator(".banner").first).to_be_visible()
    assert findings(studio) == []
