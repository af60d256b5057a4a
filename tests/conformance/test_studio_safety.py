"""What a server refuses before it does anything, sent as bytes over a socket: other hosts, other sites, missing tokens."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.unit.studio.raw_http import RawAnswer, raw_request, request_bytes
from tests.unit.studio.studio_thread import StudioThread, a_studio_thread

Header = tuple[str, str]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html"
)
BEARER: Final[Header] = ("Authorization", "Bearer TOKEN")
JSON: Final[Header] = ("Content-Type", "application/json")
PAGE: Final = "/"
DATA: Final = "/api/info"
STATIC: Final = "/static/reducer.js"
EVERY_PATH: Final = (PAGE, STATIC, "/openapi.json", DATA, "/api/stream", "/api/nothing", "/nothing")
# What would tell a stranger about the inside of the server.
INTERNALS: Final = re.compile(
    rb"Traceback|File \"|\.py\b|site-packages|object at 0x|Exception|/home/|/tmp/|uvicorn|starlette"
)
BODY_LIMIT: Final = 1024 * 1024
_WORD: Final = re.compile("PORT|TOKEN|SHORTER|COOKIE")


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioThread]:
    with a_studio_thread(tmp_path_factory.mktemp("studio")) as running:
        yield running


def ask(
    studio: StudioThread,
    method: str,
    path: str,
    *headers: Header,
    host: str | None = "127.0.0.1:PORT",
    body: bytes = b"",
) -> RawAnswer:
    """The answer to a request; `host=None` sends no Host.

    In headers, PORT stands for the port of the server, TOKEN for the token, SHORTER for all but its last character, and
    COOKIE for the cookie of a browser that has logged in.
    """
    given = (*((("Host", host),) if host is not None else ()), *headers)
    words = {
        "PORT": str(studio.port),
        "TOKEN": studio.token,
        "SHORTER": studio.token[:-1],
        "COOKIE": studio.cookie[1],
    }
    named = tuple((name, _WORD.sub(lambda found: words[found[0]], value)) for name, value in given)
    answer = raw_request(studio.port, request_bytes(method, path, named, body))
    assert answer.status < 400 or not INTERNALS.search(answer.body), answer.body
    assert answer.status < 500, answer
    return answer


def remind(studio: StudioThread, *headers: Header, body: bytes | None = None) -> RawAnswer:
    given = json.dumps({"body": "The build is red."}).encode() if body is None else body
    return ask(studio, "POST", f"/api/sessions/{studio.session}/remind", *headers, body=given)


# Hosts.

OWN_HOSTS: Final = ("127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT", "[::1]:PORT")
OTHER_HOSTS: Final = (
    "attacker.example",
    "attacker.example:PORT",
    "127.0.0.1.attacker.example:PORT",
    "localhost.attacker.example:PORT",
    "localhost.:PORT",
    "127.0.0.1.:PORT",
    "a/?x=",
    "a/?x=127.0.0.1:PORT",
    "127.0.0.1:PORT/?x=",
    "127.0.0.1:PORT#",
    "localhost:PORT@attacker.example",
    "attacker.example@localhost:PORT",
    "127.0.0.1:PORT, attacker.example",
    "127.0.0.1 attacker.example",
    "localhost:PORT:PORT",
    "localhost:port",
    "localhost:",
    "0.0.0.0:PORT",
    "127.0.0.2:PORT",
    "127.1:PORT",
    "2130706433:PORT",
    "0x7f000001:PORT",
    "[::]:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[::1%lo]:PORT",
    "::1",
    "*",
    "",
)


@pytest.mark.requirement("studio:safety:host")
@pytest.mark.parametrize("host", OWN_HOSTS)
def test_the_server_answers_for_its_own_names(studio: StudioThread, host: str) -> None:
    assert ask(studio, "GET", PAGE, host=host).status == 200
    assert ask(studio, "GET", DATA, BEARER, host=host).status == 200


@pytest.mark.requirement("studio:safety:host")
@pytest.mark.parametrize("host", OTHER_HOSTS)
@pytest.mark.parametrize("path", EVERY_PATH)
def test_a_request_for_another_host_is_refused(studio: StudioThread, host: str, path: str) -> None:
    answer = ask(studio, "GET", path, BEARER, host=host)
    assert (answer.status, answer.reason) == (421, "wrong_host")


@pytest.mark.requirement("studio:safety:host")
@pytest.mark.parametrize("path", EVERY_PATH)
def test_a_request_without_a_host_is_refused(studio: StudioThread, path: str) -> None:
    # The HTTP library may refuse it before the application does.
    assert ask(studio, "GET", path, BEARER, host=None).status in (400, 421)


@pytest.mark.requirement("studio:safety:host")
def test_a_request_of_http_1_0_without_a_host_is_refused(studio: StudioThread) -> None:
    answer = raw_request(studio.port, b"GET / HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.reason) == (421, "wrong_host")


@pytest.mark.requirement("studio:safety:host")
@pytest.mark.parametrize("second", ["127.0.0.1:PORT", "attacker.example"])
@pytest.mark.parametrize("path", EVERY_PATH)
def test_a_request_with_two_hosts_is_refused(studio: StudioThread, second: str, path: str) -> None:
    assert ask(studio, "GET", path, BEARER, ("Host", second)).status in (400, 421)


@pytest.mark.requirement("studio:safety:host")
@pytest.mark.parametrize(
    "target", ["http://attacker.example/api/info", "http://127.0.0.1:PORT/api/info", "*", "//api/info"]
)
def test_only_the_host_header_says_which_host_is_meant(studio: StudioThread, target: str) -> None:
    answer = ask(studio, "GET", target.replace("PORT", str(studio.port)), BEARER, host="attacker.example")
    assert answer.status in (400, 421)


# Origins.

OTHER_ORIGINS: Final = (
    "null",
    "https://attacker.example",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.attacker.example",
    "http://127.0.0.1:PORT/",
    "http://attacker.example:PORT",
    "http://127.0.0.1:PORT http://127.0.0.1:PORT",
    "file://",
    "",
)


@pytest.mark.requirement("studio:safety:origin")
@pytest.mark.parametrize("origin", OTHER_ORIGINS)
def test_a_request_from_a_page_of_another_origin_is_refused(studio: StudioThread, origin: str) -> None:
    before = studio.reminders()
    for cookie in (BEARER, studio.cookie):
        answer = remind(studio, cookie, JSON, ("Origin", origin))
        assert (answer.status, answer.reason) == (403, "wrong_origin")
        read = ask(studio, "GET", DATA, cookie, ("Origin", origin))
        assert (read.status, read.reason) == (403, "wrong_origin")
    assert studio.reminders() == before


@pytest.mark.requirement("studio:safety:origin")
@pytest.mark.parametrize("origin", ["http://127.0.0.1:PORT", "https://attacker.example"])
def test_a_request_with_two_origins_is_refused(studio: StudioThread, origin: str) -> None:
    answer = remind(studio, BEARER, JSON, ("Origin", "http://127.0.0.1:PORT"), ("Origin", origin))
    assert (answer.status, answer.reason) == (403, "wrong_origin")


@pytest.mark.requirement("studio:safety:origin")
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:PORT"])
def test_its_own_page_and_programs_may_send(studio: StudioThread, origin: str | None) -> None:
    given = () if origin is None else (("Origin", origin),)
    assert remind(studio, studio.cookie, JSON, *given).status == 200
    assert remind(studio, BEARER, JSON, *given).status == 200


@pytest.mark.requirement("studio:safety:origin")
@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_a_browser_says_which_site_a_request_comes_from(studio: StudioThread, site: str, status: int) -> None:
    fetched = ("Sec-Fetch-Site", site)
    assert remind(studio, studio.cookie, JSON, fetched).status == status
    assert ask(studio, "GET", DATA, studio.cookie, fetched).status == status
    assert ask(studio, "GET", "/api/sessions", studio.cookie, fetched).status == status
    # Links from other sites to the page work, because there is no data in it.
    assert ask(studio, "GET", PAGE, fetched).status == 200


@pytest.mark.requirement("studio:safety:origin")
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:PORT", "https://attacker.example"])
@pytest.mark.parametrize("path", EVERY_PATH)
def test_no_other_origin_is_given_leave_to_read(studio: StudioThread, path: str, origin: str | None) -> None:
    given = () if origin is None else (("Origin", origin),)
    preflight = (("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization"))
    for answer in (
        ask(studio, "OPTIONS", path, *preflight, *given),
        # Without a token, because a stream would not end.
        ask(studio, "GET", path, *given),
    ):
        assert [name for name, _ in answer.headers if name.startswith("access-control-")] == []


# Who asks.


def some_routes(studio: StudioThread) -> list[tuple[str, str]]:
    session = f"/api/sessions/{studio.session}"
    return [
        *(
            ("GET", path)
            for path in ("/api/info", "/api/sessions", "/api/stream", "/api/events", "/api/facts", session)
        ),
        *(("GET", f"{session}/{name}") for name in ("timeline", "transcript", "pending", "events", "requests")),
        *(("GET", f"{session}/{name}") for name in ("results/c-1", "requests/next", "requests/1/compare")),
        *(
            ("POST", f"{session}/{name}")
            for name in ("prompt", "inject", "remind", "revoke", "replace", "clear", "cancel")
        ),
        *(("POST", path) for path in ("/api/sessions", "/api/facts", "/api/links", "/api/rehearsal")),
        ("POST", f"{session}/permissions/p-1"),
        ("DELETE", "/api/facts/f-1"),
    ]


@pytest.mark.requirement("studio:safety:login")
@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param((), id="none"),
        pytest.param((("Authorization", "Bearer wrong"),), id="wrong-token"),
        pytest.param((("Authorization", "Bearer "),), id="empty-token"),
        pytest.param((("Authorization", "Basic TOKEN"),), id="another-scheme"),
        pytest.param((("Authorization", "TOKEN"),), id="no-scheme"),
        pytest.param((("Authorization", "Bearer TOKENx"),), id="longer-token"),
        pytest.param((("Authorization", "Bearer SHORTER"),), id="shorter-token"),
        pytest.param((("Authorization", "Bearer \xe9\xff"),), id="token-that-is-not-ascii"),
        pytest.param((("Cookie", "sideband_studio=wrong"),), id="wrong-cookie"),
        pytest.param((("Cookie", "sideband_studio=TOKEN"),), id="the-token-as-a-cookie"),
        pytest.param((("Cookie", "sideband_studio="),), id="empty-cookie"),
        pytest.param((("X-Token", "TOKEN"),), id="another-header"),
    ],
)
def test_everything_under_api_needs_the_token_or_the_cookie(
    studio: StudioThread, credentials: tuple[Header, ...]
) -> None:
    before = studio.reminders()
    for method, path in some_routes(studio):
        answer = ask(studio, method, path, *credentials, JSON, body=b"{}" if method == "POST" else b"")
        assert (path, answer.status, answer.reason) == (path, 401, "not_logged_in")
        assert studio.token.encode() not in answer.body
    assert studio.reminders() == before


@pytest.mark.requirement("studio:safety:login")
def test_the_token_is_not_read_from_the_address(studio: StudioThread) -> None:
    for name in ("token", "access_token", "code", "login", "bearer", "sideband_studio"):
        assert ask(studio, "GET", f"{DATA}?{name}={studio.token}").status == 401


@pytest.mark.requirement("studio:safety:login")
def test_a_wrong_token_is_not_made_good_by_the_cookie(studio: StudioThread) -> None:
    assert ask(studio, "GET", DATA, ("Authorization", "Bearer wrong"), studio.cookie).status == 401


@pytest.mark.requirement("studio:safety:login")
def test_the_token_and_the_cookie_are_accepted(studio: StudioThread) -> None:
    name, value = studio.cookie
    for credentials in (BEARER, ("authorization", "bearer TOKEN"), (name, value), (name, f"theme=dark; {value}")):
        assert ask(studio, "GET", DATA, credentials).status == 200


@pytest.mark.requirement("studio:safety:login")
def test_what_anybody_may_read_has_no_data_in_it(studio: StudioThread) -> None:
    for path in (PAGE, "/openapi.json"):
        answer = ask(studio, "GET", path)
        assert answer.status == 200
        for secret in (studio.token, studio.session, studio.cookie[1], str(studio.folder)):
            assert secret.encode() not in answer.body


@pytest.mark.requirement("studio:safety:login")
def test_refusals_come_in_the_order_host_origin_login_content_type_body(studio: StudioThread) -> None:
    wrong = (("Origin", "null"), ("Content-Type", "text/plain"))
    path = f"/api/sessions/{studio.session}/remind"
    assert ask(studio, "POST", path, *wrong, host="attacker.example", body=b"{").status == 421
    assert ask(studio, "POST", path, *wrong, body=b"{").status == 403
    assert ask(studio, "POST", path, wrong[1], body=b"{").status == 401
    assert ask(studio, "POST", path, wrong[1], BEARER, body=b"{").status == 415
    assert ask(studio, "POST", path, JSON, BEARER, body=b"{").status == 400


# Logging in.


def log_in(studio: StudioThread, code: object, *headers: Header) -> RawAnswer:
    return ask(studio, "POST", "/api/login", JSON, *headers, body=json.dumps({"code": code}).encode())


@pytest.mark.requirement("studio:safety:link")
def test_a_code_logs_in_once_and_sets_a_cookie_that_scripts_and_other_sites_cannot_use(studio: StudioThread) -> None:
    code = studio.new_code()
    first = log_in(studio, code)
    assert (first.status, first.body) == (204, b"")
    name, _, attributes = (first.header("set-cookie") or "").partition(";")
    assert {word.strip().lower() for word in attributes.split(";")} >= {"httponly", "samesite=strict", "path=/"}
    assert "domain" not in attributes.lower()
    assert ask(studio, "GET", DATA, ("Cookie", name)).status == 200
    again = log_in(studio, code)
    assert (again.status, again.reason, again.header("set-cookie")) == (401, "not_logged_in", None)
    assert code.encode() not in again.body


@pytest.mark.requirement("studio:safety:link")
@pytest.mark.parametrize("code", ["", "wrong", "x" * 10_000, None, 5, ["a"], {"a": 1}, "\x00", "é"])
def test_a_wrong_code_sets_no_cookie(studio: StudioThread, code: object) -> None:
    answer = log_in(studio, code)
    assert answer.status in (400, 401)
    assert answer.header("set-cookie") is None


@pytest.mark.requirement("studio:safety:link")
@pytest.mark.parametrize("headers", [(("Origin", "https://attacker.example"),), (("Sec-Fetch-Site", "cross-site"),)])
def test_another_site_cannot_use_a_code_up(studio: StudioThread, headers: tuple[Header, ...]) -> None:
    code = studio.new_code()
    assert log_in(studio, code, *headers).status == 403
    assert log_in(studio, code).status == 204


# Bodies.


@pytest.mark.requirement("studio:safety:json-only")
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("application/json-seq", 415),
        ("text/json", 415),
        ("application/json, text/plain", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_a_body_must_be_json(studio: StudioThread, content_type: str | None, status: int) -> None:
    given = () if content_type is None else (("Content-Type", content_type),)
    before = studio.reminders()
    answer = remind(studio, BEARER, *given)
    assert answer.status == status
    if status != 200:
        assert answer.reason == "wrong_content_type"
        assert studio.reminders() == before


@pytest.mark.requirement("studio:safety:json-only")
def test_two_content_types_are_refused(studio: StudioThread) -> None:
    assert remind(studio, BEARER, ("Content-Type", "text/plain"), JSON).status == 415


@pytest.mark.requirement("studio:safety:json-only")
@pytest.mark.parametrize("path", ["/api/login", "/api/sessions", "/api/sessions/SESSION/remind"])
def test_a_body_over_the_limit_is_refused(studio: StudioThread, path: str) -> None:
    path = path.replace("SESSION", studio.session)
    body = b'{"body": "' + b"x" * BODY_LIMIT + b'"}'
    announced = ask(studio, "POST", path, BEARER, JSON, body=body)
    assert (announced.status, announced.reason) == (413, "body_too_large")
    pieces = b"".join(b"10000\r\n" + b" " * 0x10000 + b"\r\n" for _ in range(20)) + b"0\r\n\r\n"
    chunked = ask(studio, "POST", path, BEARER, JSON, ("Transfer-Encoding", "chunked"), body=pieces)
    assert (chunked.status, chunked.reason) == (413, "body_too_large")


@pytest.mark.requirement("studio:safety:json-only")
def test_a_body_that_is_announced_as_too_long_is_refused_before_it_is_sent(studio: StudioThread) -> None:
    answer = ask(studio, "POST", "/api/sessions", BEARER, JSON, ("Content-Length", str(10**12)))
    assert (answer.status, answer.reason) == (413, "body_too_large")


@pytest.mark.requirement("studio:safety:malformed")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="cut-off"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[" * 100_000, id="deep-lists"),
        pytest.param(b'{"a":' * 100_000, id="deep-objects"),
        pytest.param(b'{"body": "\xff\xfe"}', id="no-utf-8"),
        pytest.param(b'{"body": "\\ud800"}', id="half-a-surrogate-pair"),
        pytest.param(b'{"body": NaN}', id="nan"),
        pytest.param(b'{"body": ' + b"9" * 10_000 + b"}", id="a-long-number"),
        pytest.param(b'{"body": 1e999}', id="infinity"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"body"', id="string"),
        pytest.param(b"\x00", id="nul"),
        pytest.param(b"PK\x03\x04", id="binary"),
        pytest.param(b'{"body": {"body": "x"}}', id="another-type"),
        pytest.param(b'{"body": "x", "ttlTurns": "two"}', id="another-type-of-an-option"),
        pytest.param(b'{"body": "x", "ttlTurns": -1}', id="out-of-range"),
        pytest.param(b'{"body": "x", "unknown": 1}', id="unknown-field"),
    ],
)
def test_a_body_that_cannot_be_understood_is_refused_and_changes_nothing(studio: StudioThread, body: bytes) -> None:
    before = studio.reminders()
    answer = remind(studio, BEARER, JSON, body=body)
    assert answer.status in (400, 422)
    error = json.loads(answer.body)["error"]
    assert error["reason"]
    assert error["message"]
    assert studio.reminders() == before


# Addresses and methods.


@pytest.mark.requirement("studio:safety:addresses")
@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions/../../etc/passwd",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/vendor",
        "/static/",
        "/static/reducer.js%00.css",
        "/static/..\\app.py",
        "/static/con",
        "/.git/config",
        "/api",
        "/api/",
        "/api/sessions/%00",
        "/api/sessions/nothing",
        "/api/sessions/" + "x" * 5_000,
        "/api/sessions/%ff%fe",
        "/api/sessions/nothing/timeline",
        "/docs",
        "/index.html/",
    ],
)
def test_an_address_that_does_not_exist_is_not_found(studio: StudioThread, path: str) -> None:
    answer = ask(studio, "GET", path, BEARER)
    assert answer.status in (400, 404), answer
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


@pytest.mark.requirement("studio:safety:addresses")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "BREW"])
def test_no_other_method_changes_anything(studio: StudioThread, method: str) -> None:
    before = studio.reminders()
    path = f"/api/sessions/{studio.session}/remind"
    answer = ask(studio, method, path, BEARER, JSON, body=b'{"body": "x"}' if method != "GET" else b"")
    assert answer.status in (400, 405)
    assert studio.reminders() == before


@pytest.mark.requirement("studio:safety:addresses")
@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"])
def test_no_header_changes_the_method(studio: StudioThread, header: str) -> None:
    before = studio.reminders()
    assert ask(studio, "GET", f"/api/sessions/{studio.session}/remind", BEARER, (header, "POST")).status == 405
    assert studio.reminders() == before


@pytest.mark.requirement("studio:safety:addresses")
@pytest.mark.parametrize("path", [PAGE, STATIC, "/openapi.json"])
def test_pages_can_be_asked_for_without_their_content(studio: StudioThread, path: str) -> None:
    assert ask(studio, "HEAD", path).status == 200


# Headers of answers.


@pytest.mark.requirement("studio:safety:headers")
def test_every_answer_has_the_headers_of_safety(studio: StudioThread) -> None:
    path = f"/api/sessions/{studio.session}/remind"
    answers = {
        "page": ask(studio, "GET", PAGE),
        "static": ask(studio, "GET", STATIC),
        "schema": ask(studio, "GET", "/openapi.json"),
        "data": ask(studio, "GET", DATA, BEARER),
        "accepted": remind(studio, BEARER, JSON),
        "login": log_in(studio, studio.new_code()),
        "wrong code": log_in(studio, "wrong"),
        "host": ask(studio, "GET", PAGE, host="attacker.example"),
        "origin": remind(studio, BEARER, JSON, ("Origin", "null")),
        "login needed": ask(studio, "GET", DATA),
        "content type": remind(studio, BEARER),
        "body": remind(studio, BEARER, JSON, body=b"{"),
        "too large": ask(studio, "POST", path, BEARER, JSON, ("Content-Length", str(10**12))),
        "not found": ask(studio, "GET", "/nothing"),
        "no session": ask(studio, "GET", "/api/sessions/nothing", BEARER),
        "method": ask(studio, "DELETE", PAGE),
        "stream": ask(studio, "GET", "/api/stream", BEARER),
    }
    for name, answer in answers.items():
        assert (name, answer.header("content-security-policy")) == (name, POLICY)
        assert (name, answer.header("x-content-type-options")) == (name, "nosniff")
        assert (name, answer.header("referrer-policy")) == (name, "no-referrer")
        assert (name, answer.header("cross-origin-resource-policy")) == (name, "same-origin")
        assert (name, answer.header("server")) == (name, None)
        if name not in ("page", "static", "schema", "login"):
            assert (name, answer.header("cache-control")) == (name, "no-store")


@pytest.mark.requirement("studio:safety:headers")
def test_refusals_are_json_for_programs(studio: StudioThread) -> None:
    answer = ask(studio, "GET", "/api/nothing", BEARER)
    assert (answer.status, answer.reason) == (404, "not_found")
    assert (answer.header("content-type") or "").startswith("application/json")


# WebSockets.

UPGRADE: Final[tuple[Header, ...]] = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


@pytest.mark.requirement("studio:safety:websocket")
@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        pytest.param("127.0.0.1:PORT", (BEARER,), 101, id="program-with-the-token"),
        pytest.param(
            "127.0.0.1:PORT", (BEARER, ("Origin", "http://127.0.0.1:PORT")), 101, id="own-page-with-the-token"
        ),
        pytest.param(
            "127.0.0.1:PORT", (("Cookie", "COOKIE"), ("Origin", "http://127.0.0.1:PORT")), 101, id="own-page-logged-in"
        ),
        pytest.param(
            "127.0.0.1:PORT", (("Cookie", "COOKIE"), ("Origin", "null")), 403, id="the-cookie-and-origin-null"
        ),
        pytest.param("127.0.0.1:PORT", (), 401, id="program-without-a-token"),
        pytest.param("127.0.0.1:PORT", (("Authorization", "Bearer wrong"),), 401, id="wrong-token"),
        pytest.param("127.0.0.1:PORT", (("Origin", "http://127.0.0.1:PORT"),), 401, id="own-page-without-a-token"),
        pytest.param("127.0.0.1:PORT", (BEARER, ("Origin", "null")), 403, id="origin-null"),
        pytest.param("127.0.0.1:PORT", (BEARER, ("Origin", "https://attacker.example")), 403, id="another-origin"),
        pytest.param("127.0.0.1:PORT", (BEARER, ("Origin", "http://127.0.0.1:1")), 403, id="another-port"),
        pytest.param(
            "127.0.0.1:PORT",
            (BEARER, ("Origin", "http://127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:PORT")),
            # The WebSocket library refuses it by itself.
            400,
            id="two-origins",
        ),
        pytest.param("attacker.example", (BEARER,), 421, id="another-host"),
        pytest.param("localhost.:PORT", (BEARER,), 421, id="trailing-dot"),
        pytest.param("a/?x=127.0.0.1:PORT", (BEARER,), 421, id="path-in-the-host"),
    ],
)
def test_a_websocket_is_checked_before_it_is_accepted(
    studio: StudioThread, host: str, headers: tuple[Header, ...], status: int
) -> None:
    assert ask(studio, "GET", "/acp", *UPGRADE, *headers, host=host).status == status


@pytest.mark.requirement("studio:safety:websocket")
@pytest.mark.parametrize("origin", ["https://attacker.example", "null"])
def test_a_page_of_another_site_cannot_use_the_cookie_for_a_websocket(studio: StudioThread, origin: str) -> None:
    assert ask(studio, "GET", "/acp", *UPGRADE, studio.cookie, ("Origin", origin)).status == 403


@pytest.mark.requirement("studio:safety:websocket")
@pytest.mark.parametrize("path", [PAGE, "/api/stream", "/api/info", "/nothing", "/static/reducer.js"])
def test_no_other_address_accepts_websockets(studio: StudioThread, path: str) -> None:
    assert ask(studio, "GET", path, *UPGRADE, BEARER).status in (403, 404)


# What is written down.


@pytest.mark.requirement("studio:safety:no-leak")
def test_neither_the_token_nor_a_code_is_logged(
    studio: StudioThread, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = studio.new_code()
    log_in(studio, code)
    log_in(studio, code)
    ask(studio, "GET", f"{DATA}?token={studio.token}", BEARER)
    remind(studio, BEARER, JSON, ("Origin", "null"))
    written = caplog.text + "".join(capfd.readouterr())
    for secret in (code, studio.token, studio.cookie[1].partition("=")[2]):
        assert secret not in written


@pytest.mark.requirement("studio:safety:no-leak")
def test_the_file_with_the_token_can_be_read_by_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sideband.runtime.home import operator_token, token_file  # noqa: PLC0415 - after the home is set

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    operator_token()
    assert token_file().stat().st_mode & 0o777 == 0o600
