"""How a browser logs in, and what it never gets to see or to send again."""

import sqlite3
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from playwright.sync_api import Page, expect

from tests.studio.conftest import Serve, Visit
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage

UNAUTHORISED = r"401"
HINT = "Open the link that sideband serve printed"


def told_to_log_in(page: Page) -> None:
    expect(page.locator("body")).to_contain_text("sideband open")
    expect(page.locator("#reminders .card")).to_have_count(0)


@pytest.mark.requirement("studio:page:login")
def test_a_link_logs_in_once_and_leaves_no_trace_in_the_address(serve: Serve, visit: Visit) -> None:
    server = serve()
    code = urldefrag(server.link).fragment.removeprefix("login=")
    first = visit()
    asked: list[str] = []
    first.page.on("request", lambda request: asked.append(request.url))
    StudioPage(first).open(server.link)
    assert "login" not in first.page.url
    assert code not in first.page.evaluate("() => JSON.stringify([location.href, history.length, document.referrer])")
    assert all(code not in url and server.token not in url for url in asked)

    # A later visit needs no link, another browser cannot use this one.
    first.page.goto(server.url)
    StudioPage(first).until_live()
    second = visit()
    second.expects(UNAUTHORISED)
    second.page.goto(server.link)
    told_to_log_in(second.page)
    assert code not in second.page.url
    StudioPage(second).open(server.new_link())


@pytest.mark.requirement("studio:page:login")
def test_a_browser_without_the_cookie_is_told_what_to_do(serve: Serve, visit: Visit) -> None:
    visitor = visit()
    visitor.expects(UNAUTHORISED)
    visitor.page.goto(serve().url)
    told_to_log_in(visitor.page)


@pytest.mark.requirement("studio:page:login")
def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(serve: Serve, visit: Visit) -> None:
    server, visitor = serve(), visit()
    StudioPage(visitor).open(server.link)
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert cookie["value"] != server.token
    assert visitor.page.evaluate("() => document.cookie") == ""


@pytest.mark.requirement("studio:page:login")
def test_the_page_stores_no_secret(serve: Serve, visit: Visit) -> None:
    server, visitor = serve(), visit()
    StudioPage(visitor).open(server.link)
    code = urldefrag(server.link).fragment.removeprefix("login=")
    stored = visitor.page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert code not in stored
    assert server.token not in stored


@pytest.mark.requirement("studio:page:login")
def test_neither_the_token_nor_a_used_code_is_logged_or_stored(serve: Serve, visit: Visit) -> None:
    server, visitor = serve("--rehearsal", "--fast"), visit()
    StudioPage(visitor).open(server.link)
    visitor.expects("ERR_CONNECTION", "ERR_INCOMPLETE")
    (cookie,) = visitor.context.cookies()
    again = server.new_link()
    printed = server.printed
    server.stop()
    assert server.token not in printed
    assert cookie["value"] not in printed
    assert urldefrag(again).fragment not in printed
    # The printed link is the only place of its code.
    assert printed.count(urldefrag(server.link).fragment) == 1
    written = _everything_in(server)
    for secret in (server.token, cookie["value"], urldefrag(again).fragment.removeprefix("login=")):
        assert secret.encode() not in written


def _everything_in(server: Served) -> bytes:
    path = Path(server.store.removeprefix("sqlite:///"))
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.mark.requirement("studio:page:own-origin")
def test_another_site_cannot_show_the_page_in_a_frame(serve: Serve, visit: Visit) -> None:
    server, visitor = serve(), visit()
    visitor.expects("frame-ancestors", "Refused to frame", "refused to connect", "violates")
    visitor.page.route(
        "http://attacker.example/",
        lambda route: route.fulfill(
            content_type="text/html", body=f"<!doctype html><title>x</title><iframe src='{server.url}/'></iframe>"
        ),
    )
    visitor.page.goto("http://attacker.example/")
    visitor.page.wait_for_timeout(500)
    framed = [frame for frame in visitor.page.frames if frame.url.startswith(server.url)]
    assert all("Sideband" not in frame.content() for frame in framed)


@pytest.mark.requirement("studio:page:own-origin")
def test_the_page_talks_to_its_own_origin_only(serve: Serve, visit: Visit) -> None:
    server, visitor = serve("--rehearsal", "--fast"), visit()
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    StudioPage(visitor).open(server.link)
    visitor.page.wait_for_timeout(1_000)
    assert asked
    assert [url for url in asked if not url.startswith(f"{server.url}/")] == []
    visitor.expects("connect-src", "Content Security Policy", "violates")
    blocked = visitor.page.evaluate(
        "() => fetch('http://127.0.0.1:9/').then(() => 'connected', (error) => error.name + error.message)"
    )
    assert blocked.startswith("TypeError")
