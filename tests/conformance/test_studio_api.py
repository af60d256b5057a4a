"""The HTTP API of the studio."""

import asyncio
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema
import msgspec
import pytest
from starlette.types import Message

from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Reply, ToolCall
from sideband.core.trust import Trust
from sideband.inspect.requests import RequestRow
from sideband.models.scripted import Line
from sideband.studio import api
from sideband.studio.routes import OPERATIONS
from sideband.testing import ScriptedModel
from tests.a2a_callers import Door, in_time
from tests.acp_editor import SECONDS
from tests.studios import TOKEN, ServedStudio, a_studio, on_sockets
from tests.unit.store.twins import Twin

BODY: Final = "The build is red."


def _calls(name: str, **args: object) -> Reply:
    return Reply(text="I call a tool.", tool_calls=(ToolCall(id=f"call-{name}", name=name, args=args),))


async def _running(studio: ServedStudio, door: Door) -> str:
    """A session with a turn that waits in a tool."""
    begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
    await in_time(door.entered.wait())
    return f"/api/sessions/{begun['id']}"


def _with_door(door: Door) -> tuple[ScriptedModel, dict[str, Any]]:
    model = ScriptedModel([_calls("wait_at_the_door"), "Done."])
    return model, {"tools": [door.wait_at_the_door], "permission": None}


@pytest.mark.requirement("studio:api:verbs")
@on_sockets
async def test_every_verb_reaches_the_session_as_a_controller(twin: Twin) -> None:
    door = Door()
    model, options = _with_door(door)
    async with twin.open() as journal, a_studio(model, journal=journal, options=options) as studio:
        path = await _running(studio, door)
        visitor = studio.visitor
        spec = {"body": f" {BODY} ", "dedupeKey": "build", "ttlTurns": 2, "roleHint": "system", "tags": ["ci"]}
        accepted = await visitor.post(f"{path}/remind", spec)
        steered = await visitor.post(f"{path}/inject", {"content": "Keep the API.", "mode": "steer"})
        queued = await visitor.post(f"{path}/inject", {"content": "Then the docs.", "mode": "queue"})
        rows = {row["id"]: row for row in (await visitor.get(f"{path}/pending"))["pending"]}
        reminder = rows[accepted["reminderId"]]
        assert reminder["sender"] == {"trust": "controller", "principal": "http", "via": "http"}
        assert (reminder["reminder"]["body"], reminder["reminder"]["ttlTurns"]) == (BODY, 2)
        assert rows[steered["messageId"]]["mode"] == "steer"
        assert await visitor.post(f"{path}/replace", {"id": accepted["reminderId"], "body": "Green."}) == {
            "status": "replaced"
        }
        assert await visitor.post(f"{path}/replace", {"id": queued["messageId"], "content": "Then the tests."}) == {
            "status": "replaced"
        }
        assert await visitor.post(f"{path}/revoke", {"id": steered["messageId"]}) == {"status": "revoked"}
        assert await visitor.post(f"{path}/revoke", {"id": steered["messageId"]}) == {"status": "already_revoked"}
        texts = {
            row["id"]: row.get("text") or row["reminder"]["body"]
            for row in (await visitor.get(f"{path}/pending"))["pending"]
        }
        assert texts[accepted["reminderId"]] == "Green."
        assert texts[queued["messageId"]] == "Then the tests."
        assert await visitor.post(f"{path}/clear", {"tag": "ci"}) == {"removedCount": 1}
        door.open.set()
        await _until_idle(studio, path, turns=3)
        assert ["Keep the API." in request.text for request in studio.requests] == [False, False, False]
        assert "Then the tests." in studio.requests[-1].text


async def _until_idle(studio: ServedStudio, path: str, *, turns: int) -> None:
    session_id = path.rpartition("/")[2]
    async with studio.visitor.stream(session_id) as events:
        committed = 0
        while committed < turns:
            await in_time(events.update("turn.committed"))
            committed += 1
        await in_time(events.update("run.idled"))


@pytest.mark.requirement("studio:api:refusals")
@on_sockets
async def test_a_refusal_says_what_was_wrong_and_changes_nothing() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, body_bytes={**DEFAULT_LIMITS.body_bytes, Trust.CONTROLLER: 100})
    async with a_studio(limits=limits) as studio:
        session = await studio.begin()
        path, visitor = f"/api/sessions/{session.id}", studio.visitor
        cases: list[tuple[str, Any, int, str, str | None]] = [
            ("remind", {"body": BODY, "color": "red"}, 400, "unknown_option", "color"),
            ("remind", {"body": ""}, 400, "invalid_reminder", "body"),
            ("remind", {"body": BODY, "propagate": "children"}, 400, "unknown_propagate", "propagate"),
            ("remind", {"body": BODY, "mode": "later"}, 400, "unsupported_mode", "mode"),
            ("remind", {"body": "x" * 101}, 413, "body_too_large", "body"),
            ("inject", {"content": "Hi", "mode": "steer"}, 409, "no_running_turn", "mode"),
            ("inject", {"content": "Hi", "mode": "later"}, 400, "unsupported_mode", "mode"),
            ("revoke", {"id": "nothing"}, 404, "unknown_reminder_id", "id"),
            ("replace", {"id": "nothing", "body": BODY}, 404, "unknown_reminder_id", "id"),
            ("replace", {"id": "nothing"}, 400, "invalid_option", "body"),
            ("clear", {}, 400, "invalid_option", "id"),
        ]
        sessions = await visitor.get("/api/sessions")
        for begun, wrong in [
            ({"prompt": " "}, "prompt"),
            ({"title": "a\u202eb"}, "title"),
            ({"title": "a" * 201}, "title"),
        ]:
            status, error = await visitor.refusal("POST", "/api/sessions", begun)
            assert (status, error["reason"], error["field"]) == (400, "invalid_option", wrong)
        assert await visitor.get("/api/sessions") == sessions
        before = (await session.view()).cursor
        for verb, body, status, reason, field in cases:
            answered, error = await visitor.refusal("POST", f"{path}/{verb}", body)
            assert (verb, answered, error["reason"], error.get("field")) == (verb, status, reason, field)
            assert error["code"]
        assert (await session.view()).cursor == before
        for method, place in [("GET", ""), ("GET", "/timeline"), ("POST", "/remind"), ("POST", "/cancel")]:
            body = {"body": BODY} if place == "/remind" else {} if method == "POST" else None
            status, error = await visitor.refusal(method, f"/api/sessions/nobody{place}", body)
            assert (status, error["reason"]) == (404, "unknown_session")
        status, error = await visitor.refusal("GET", "/api/nothing")
        assert (status, error["reason"]) == (404, "not_found")
        response = await visitor.send("DELETE", path)
        assert (response.status_code, response.headers["allow"]) == (405, "GET")


@pytest.mark.requirement("studio:api:malformed")
@on_sockets
async def test_malformed_requests_are_refused() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, frame_bytes=1_000)
    async with a_studio(limits=limits) as studio:
        session = await studio.begin()
        path, client = f"/api/sessions/{session.id}", studio.visitor.client

        async def posted(verb: str, body: bytes) -> tuple[int, str, str | None]:
            response = await client.post(
                f"{path}/{verb}", content=body, headers={"Content-Type": "application/json; charset=utf-8"}
            )
            error = response.json()["error"]
            return response.status_code, error["reason"], error.get("field")

        assert await posted("clear", b"{") == (400, "invalid_option", None)
        assert await posted("clear", b"[]") == (400, "invalid_option", None)
        assert await posted("clear", b"\xff") == (400, "invalid_option", None)
        assert await posted("clear", b'{"tag": "a", "tag": "b"}') == (400, "invalid_option", "tag")
        assert await posted("clear", b'{"tag": 1}') == (400, "invalid_option", "tag")
        assert (await posted("clear", b'{"colour": "red"}'))[:2] == (400, "invalid_option")
        assert await posted("clear", b" " * 1_001) == (413, "body_too_large", "body")
        assert (await posted("remind", b'{"body": ' + b"[" * 400 + b"]" * 400 + b"}"))[0] == 400
        assert (await posted("clear", b'{"tag": ' + b"[" * 400 + b"]" * 400 + b"}"))[0] == 400
        for query, field in [("?limit=0", "limit"), ("?limit=x", "limit"), ("?colour=red", "colour"), ("/x?a=1", "a")]:
            status, error = await studio.visitor.refusal("GET", f"/api/sessions{query}")
            assert (status, error["field"]) == (400, field)
        status, error = await studio.visitor.refusal("GET", "/api/sessions?limit=1&limit=2")
        assert (status, error["field"]) == (400, "limit")


@pytest.mark.requirement("studio:api:complete")
@on_sockets
async def test_a_request_that_does_not_arrive_completely_does_nothing() -> None:
    door = Door()
    model, options = _with_door(door)
    async with a_studio(model, options=options) as studio:
        path = await _running(studio, door)
        before = (await studio.visitor.get("/api/sessions"))["sessions"]
        for where, body in [
            (f"{path}/cancel", b'{"messageId": "an'),
            ("/api/sessions", b'{"title": "h'),
            ("/api/sessions", b""),
        ]:
            address = urlsplit(studio.url)
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            head = f"POST {where} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 60\r\n\r\n".encode() + body)
            writer.write_eof()
            # The server closes the connection when it has given the request up.
            assert await in_time(reader.read()) == b""
            writer.close()
        assert (await studio.visitor.get("/api/sessions"))["sessions"] == before
        assert (await studio.visitor.get(path))["state"] == "running"
        door.open.set()


@pytest.mark.requirement("studio:api:reads-end-with-their-client")
@on_sockets
async def test_a_read_whose_client_has_gone_does_not_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, begun, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow(*_args: object, **_options: object) -> list[RequestRow]:
        loop.call_soon_threadsafe(begun.set)
        assert release.wait(SECONDS)
        return []

    monkeypatch.setattr(api, "request_rows", slow)
    async with a_studio(["One."]) as studio:
        path = f"/api/sessions/{(await studio.begin()).id}/requests"
        first = asyncio.create_task(studio.visitor.get(path))
        await in_time(begun.wait())
        sent: list[Message] = []
        arriving: list[Message] = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]

        async def receive() -> Message:
            return arriving.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        host = urlsplit(studio.url).netloc
        headers = [(b"host", host.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
        }
        await in_time(studio.studio.app(scope, receive, send))
        assert (sent, first.done()) == ([], False)
        release.set()
        assert await in_time(first) == {"requests": []}


@pytest.mark.requirement("studio:api:idempotency")
@on_sockets
async def test_the_same_idempotency_key_gets_the_same_answer(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        session = await studio.begin()
        path = f"/api/sessions/{session.id}/remind"
        spec = {"body": BODY, "_meta": {"sideband": {"idempotencyKey": "build-7"}}}
        first = await studio.visitor.post(path, spec)
        assert await studio.visitor.post(path, spec) == first
        assert len(await session.pending()) == 1
        status, error = await studio.visitor.refusal("POST", path, {**spec, "body": "Other."})
        assert (status, error["reason"], error["id"]) == (409, "idempotency_conflict", "build-7")


@pytest.mark.requirement("studio:api:begin")
@on_sockets
async def test_a_session_is_begun_listed_and_prompted(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(["Hello!"], journal=journal) as studio:
        quiet = await studio.visitor.post("/api/sessions", {"title": "Quiet"})
        assert (quiet["title"], quiet["state"], quiet["turn"]) == ("Quiet", "idle", 0)
        loud = await studio.visitor.post("/api/sessions", {"prompt": "Say hello."})
        listed = await studio.visitor.get("/api/sessions?limit=1")
        assert [card["id"] for card in listed["sessions"]] == [loud["id"]]
        rest = await studio.visitor.get(f"/api/sessions?before={listed['next']}")
        assert ([card["id"] for card in rest["sessions"]], rest["next"]) == ([quiet["id"]], None)
        await _until_idle(studio, f"/api/sessions/{loud['id']}", turns=1)
        assert (await studio.visitor.get(f"/api/sessions/{loud['id']}"))["turn"] == 1


@pytest.mark.requirement("studio:api:prompt-needs-idle")
@on_sockets
async def test_a_prompt_is_refused_while_a_turn_runs() -> None:
    door = Door()
    model, options = _with_door(door)
    async with a_studio(model, options=options) as studio:
        path = await _running(studio, door)
        status, error = await studio.visitor.refusal("POST", f"{path}/prompt", {"content": "And now?"})
        assert (status, error["reason"]) == (409, "session_busy")
        door.open.set()
        await _until_idle(studio, path, turns=2)
        assert "messageId" in await studio.visitor.post(f"{path}/prompt", {"content": "And now?"})


@pytest.mark.requirement("studio:api:prompt-after-cancel")
@on_sockets
async def test_a_prompt_after_a_cancel_releases_what_was_held(twin: Twin) -> None:
    door = Door()
    model, options = _with_door(door)
    async with twin.open() as journal, a_studio(model, journal=journal, options=options) as studio:
        path = await _running(studio, door)
        queued = await studio.visitor.post(f"{path}/inject", {"content": "First.", "mode": "queue"})
        answer = await studio.visitor.post(f"{path}/cancel", {})
        assert answer == {"cancelled": True, "waiting": [queued["messageId"]]}
        await studio.visitor.post(f"{path}/prompt", {"content": "Second."})
        async with studio.visitor.stream(path.rpartition("/")[2]) as events:
            for text in ("Go.", "First.", "Second."):
                assert (await in_time(events.update("message.delivered")))["text"] == text


@pytest.mark.requirement("studio:api:no-model")
@on_sockets
async def test_without_a_model_sessions_can_still_be_told_something() -> None:
    async with a_studio(None) as studio:
        session = await studio.begin()
        path = f"/api/sessions/{session.id}"
        for where, body in [(f"{path}/prompt", {"content": "Go."}), ("/api/sessions", {"prompt": "Go."})]:
            status, error = await studio.visitor.refusal("POST", where, body)
            assert (status, error["reason"]) == (409, "no_model")
            assert "--model" in error["message"]
        assert len((await studio.visitor.get("/api/sessions"))["sessions"]) == 1
        await studio.visitor.post(f"{path}/remind", {"body": BODY})
        # A process that runs the session may take it.
        await studio.visitor.post(f"{path}/inject", {"content": "Later.", "mode": "queue"})
        assert len((await studio.visitor.get(f"{path}/pending"))["pending"]) == 2


@pytest.mark.requirement("studio:api:cancel")
@on_sockets
async def test_cancelling_names_what_stays(twin: Twin) -> None:
    door = Door()
    model, options = _with_door(door)
    async with twin.open() as journal, a_studio(model, journal=journal, options=options) as studio:
        path = await _running(studio, door)
        accepted = await studio.visitor.post(f"{path}/remind", {"body": BODY})
        answer = await studio.visitor.post(f"{path}/cancel", {})
        assert answer == {"cancelled": True, "waiting": [accepted["reminderId"]]}
        assert (await studio.visitor.get(path))["state"] == "idle"


@pytest.mark.requirement("studio:api:permission")
@on_sockets
async def test_a_tool_waits_for_the_answer_that_any_server_takes(durable: Twin) -> None:
    ran: list[str] = []

    def deploy() -> str:
        """Deploy the service."""
        ran.append("deploy")
        return "deployed"

    script: list[Line] = [_calls("deploy"), _calls("deploy"), _calls("deploy"), "Done."]
    async with (
        durable.open() as first,
        durable.open() as second,
        a_studio(script, journal=first, options={"tools": [deploy]}) as studio,
        a_studio(None, journal=second) as other,
    ):
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Deploy."})
        path = f"/api/sessions/{begun['id']}"
        async with studio.visitor.stream(begun["id"]) as events:
            asked = await in_time(events.update("permission.asked"))
            assert (await studio.visitor.get(path))["state"] == "asking"
            question = f"{path}/permissions/{asked['requestId']}"
            await other.visitor.post(question, {"allow": False})
            # The first answer counts: it is taken, or the question is over.
            status, error = await studio.visitor.refusal("POST", question, {"allow": True})
            assert (status, error["reason"]) in [(409, "already_answered"), (404, "not_found")]
            refused = await in_time(events.update("result.recorded"))
            assert "the user refused it" in refused["text"]
            asked = await in_time(events.update("permission.asked"))
            # Also for good, although another server runs the session.
            await other.visitor.post(f"{path}/permissions/{asked['requestId']}", {"allow": True, "always": True})
            assert (await in_time(events.update("result.recorded")))["text"] == "deployed"
            await in_time(events.update("run.idled"))
        # The last call was made without a question.
        assert ran == ["deploy", "deploy"]
        status, error = await studio.visitor.refusal("POST", f"{path}/permissions/none", {"allow": True})
        assert (status, error["reason"]) == (404, "not_found")


@pytest.mark.requirement("studio:api:reads")
@on_sockets
async def test_what_is_read_is_what_the_session_has(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(["One.", "Two."], journal=journal) as studio:
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        path = f"/api/sessions/{begun['id']}"
        await _until_idle(studio, path, turns=1)
        await studio.visitor.post(f"{path}/remind", {"body": BODY, "ttlTurns": 3})
        await studio.visitor.post(f"{path}/prompt", {"content": "Again."})
        await _until_idle(studio, path, turns=2)
        session = await studio.store.find(begun["id"])
        assert session is not None
        transcript = await studio.visitor.get(f"{path}/transcript")
        assert transcript == msgspec.json.decode((await session.transcript()).to_json())
        timeline = await studio.visitor.get(f"{path}/timeline")
        assert timeline["cursor"] == (await session.view()).cursor
        assert [turn["text"] for turn in timeline["turns"]] == ["One.", "Two."]
        shown = next(row for row in timeline["reminders"] if row["body"] == BODY)
        assert (shown["state"], [at["turn"] for at in shown["shown"]]) == ("live", [2])
        assert [row["id"] for row in (await studio.visitor.get(f"{path}/pending"))["pending"]] == [shown["id"]]
        await studio.store.begin("feature/login é")
        assert (await studio.visitor.get("/api/sessions/feature%2Flogin%20%C3%A9/timeline"))["turns"] == []
        last = await studio.visitor.get(f"{path}/timeline?turns=1")
        assert ([turn["turn"] for turn in last["turns"]], last["earlierTurns"]) == ([2], 1)


@pytest.mark.requirement("studio:api:results")
@on_sockets
async def test_long_tool_output_can_be_read_in_full() -> None:
    def shout() -> str:
        """Say much."""
        return "é" * 20_000

    async with a_studio([_calls("shout"), "Done."], options={"tools": [shout], "permission": None}) as studio:
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        path = f"/api/sessions/{begun['id']}"
        async with studio.visitor.stream(begun["id"]) as events:
            told = await in_time(events.update("result.recorded"))
        assert (len(told["text"]), told["bytes"]) == (4_096, 40_000)
        for query in ("", "?turn=1"):
            assert len((await studio.visitor.get(f"{path}/results/call-shout{query}"))["text"]) == 20_000
        status, _ = await studio.visitor.refusal("GET", f"{path}/results/call-shout?turn=2")
        assert status == 404


@pytest.mark.requirement("studio:api:events")
@on_sockets
async def test_events_are_read_page_by_page_and_without_bodies(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        session, other = await studio.begin(), await studio.begin()
        for number in range(3):
            await session.remind(f"{BODY} {number}")
        await other.remind(BODY)
        path = f"/api/sessions/{session.id}/events"
        first = await studio.visitor.get(f"{path}?limit=2")
        assert (len(first["events"]), first["more"]) == (2, True)
        rest = await studio.visitor.get(f"{path}?after={first['last']}")
        assert (len(rest["events"]), rest["more"]) == (1, False)
        every = (await studio.visitor.get("/api/events?kind=transcript.reminder.queued"))["events"]
        assert [event["session_id"] for event in every] == [session.id] * 3 + [other.id]
        assert BODY not in str(first) + str(rest) + str(every)
        status, error = await studio.visitor.refusal("GET", "/api/events?kind=nothing")
        assert (status, error["field"]) == (400, "kind")


@pytest.mark.requirement("studio:api:facts")
@on_sockets
async def test_facts_are_kept_over_http(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        visitor = studio.visitor
        claim = {"kind": "decision", "claim": "Releases are cut on Tuesdays.", "confidence": 0.9}
        stored = await visitor.post("/api/facts", claim)
        assert stored["refreshed"] is False
        assert (await visitor.post("/api/facts", claim))["refreshed"] is True
        for query in ("", "?query=releases", "?namespace=project/facts"):
            assert [fact["id"] for fact in (await visitor.get(f"/api/facts{query}"))["facts"]] == [stored["id"]]
        status, error = await visitor.refusal("POST", "/api/facts", {**claim, "kind": "rumour"})
        assert (status, error["code"]) == (400, "HARN-FACT-002")
        assert await visitor.call("DELETE", f"/api/facts/{stored['id']}") == {"removed": True}
        assert await visitor.call("DELETE", f"/api/facts/{stored['id']}") == {"removed": False}


@pytest.mark.requirement("studio:api:requests")
@on_sockets
async def test_requests_are_inspected(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with a_studio(["One.", "Two."], store_url=url) as studio:
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        path = f"/api/sessions/{begun['id']}"
        await _until_idle(studio, path, turns=1)
        await studio.visitor.post(f"{path}/remind", {"body": BODY, "ttlTurns": 3})
        await studio.visitor.post(f"{path}/prompt", {"content": "Again."})
        await _until_idle(studio, path, turns=2)
        rows = (await studio.visitor.get(f"{path}/requests"))["requests"]
        assert [row["turn"] for row in rows] == [1, 2]
        assert (await studio.visitor.get(f"{path}/requests?after=1"))["requests"] == rows[1:]
        document = await studio.visitor.get(f"{path}/requests/2?model=anthropic:claude-opus-5-5&placement=tail")
        body = "".join(part["text"] for part in document["parts"])
        assert len(body.encode()) == document["bytes"]
        assert BODY in str(msgspec.json.decode(body)["messages"])
        assert [row["state"] for row in document["reminders"]] == ["shown"]
        assert (await studio.visitor.get(f"{path}/requests/next"))["outcome"] == "coming"
        compared = (await studio.visitor.get(f"{path}/requests/2/compare"))["requests"]
        assert len({(row["model"], row["placement"]) for row in compared}) == len(compared) > 3
        for wrong in ("requests/x", "requests/0", "requests/next/compare", "requests/1?placement=sideways"):
            assert (await studio.visitor.refusal("GET", f"{path}/{wrong}"))[0] == 400
        for missing in ("requests/9", "requests/9/compare"):
            assert (await studio.visitor.refusal("GET", f"{path}/{missing}"))[0] == 404
    # The first request of a session is built for the model of the server.
    async with a_studio([], store_url=url, model="openai:gpt-5.6") as studio:
        fresh = (await studio.begin()).id
        await studio.visitor.post(f"/api/sessions/{fresh}/remind", {"body": BODY})
        assert (await studio.visitor.get(f"/api/sessions/{fresh}/requests/next"))["model"] == "openai:gpt-5.6"


@pytest.mark.requirement("studio:api:openapi")
@on_sockets
async def test_the_document_describes_every_operation(tmp_path: Path) -> None:
    async with a_studio(["One."], store_url=f"sqlite:///{tmp_path}/store.db") as studio:
        document = await studio.visitor.get("/openapi.json")
        described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
        assert described == {(operation.method, operation.path) for operation in OPERATIONS}
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        await _until_idle(studio, f"/api/sessions/{begun['id']}", turns=1)
        await studio.visitor.post(f"/api/sessions/{begun['id']}/remind", {"body": BODY})
        for path in ("", "/timeline", "/transcript", "/pending", "/events", "/requests", "/requests/1"):
            answer = await studio.visitor.get(f"/api/sessions/{begun['id']}{path}")
            pattern = "/api/sessions/{id}" + path.replace("/1", "/{turn}")
            given = document["paths"][pattern]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer, {**given, "components": document["components"]})
