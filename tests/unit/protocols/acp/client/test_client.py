"""The ACP client at its edges: wrong options, wrong answers, slow readers, and requests of the agent that go wrong."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sideband.core.errors import (
    BodyTooLarge,
    InvalidOption,
    NoRunningTurn,
    TooManyPending,
    UnknownSession,
    UnsupportedMode,
)
from sideband.core.seams import InjectMode
from sideband.protocols.acp.client import (
    AgentClient,
    AgentEnded,
    AgentFailed,
    AgentNotUnderstood,
    AgentSession,
    AgentSilent,
    InjectRoute,
    LoginRequired,
    MessageSent,
    NotSupportedByAgent,
    PermissionRequest,
    UpdatesLost,
    connect,
)
from sideband.protocols.acp.client import requests as agent_requests
from sideband.protocols.acp.client import session as client_session
from sideband.protocols.acp.client import updates as peer_updates
from sideband.protocols.acp.messages import PendingMessage, PendingReminder
from sideband.protocols.frames import Transport
from sideband.protocols.jsonrpc import RpcError
from sideband.runtime.producer import RevokeStatus
from tests.acp_agents import a_connection, in_time
from tests.piped import piped
from tests.waiting import until

REMINDERS = {"inject": True, "emit": True}
OURS = {"_meta": {"sideband": {"reminders": REMINDERS, "inject": {"modes": ["queue", "steer"]}}}}
QUEUE_ONLY = {"session": {"inject": {"modes": ["queue", "steer"]}}}
TERMINAL = ("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")
ALLOW = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "No", "kind": "reject_once"}
QUESTION = {"sessionId": "s", "toolCall": {"title": "Delete"}, "options": [ALLOW, REJECT]}


async def nothing(_params: dict[str, Any]) -> dict[str, Any]:
    return {}


async def show(_session: AgentSession, _reminder: object) -> None:
    pass


# Options.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"fallback": "shout"}, "fallback must be one of 'suppress', 'show', 'marked_message'", id="word"),
        pytest.param({"fallback": "show"}, "fallback='show' and show= belong together", id="without-a-function"),
        pytest.param({"show": show}, "fallback='show' and show= belong together", id="without-the-fallback"),
        pytest.param({"answers": {"fs/read_file": nothing}}, "did you mean 'fs/read_text_file'", id="method"),
        pytest.param({"answers": {"terminal/create": nothing}}, "missing: terminal/kill", id="half-a-terminal"),
        pytest.param({"answer_seconds": 0}, "answer_seconds must be more than 0, not 0", id="no-time"),
        pytest.param({"agent": ""}, "the command of the agent is empty", id="no-command"),
        pytest.param({"agent": []}, "the command of the agent is empty", id="no-arguments"),
        pytest.param({"agent": "cat 'x"}, "cannot be read: No closing quotation", id="quotes"),
    ],
)
@in_time
async def test_a_wrong_option_is_refused_before_anything_is_started(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        async with connect(**{"agent": "no-such-agent", **options}):
            pass


@in_time
async def test_a_connection_has_no_folder_and_no_environment() -> None:
    async with piped() as (transport, _):
        with pytest.raises(InvalidOption, match="cwd and env belong to a command"):
            async with connect(transport, cwd="."):
                pass
        with pytest.raises(InvalidOption, match="cwd and env belong to a command"):
            async with connect(transport, env={}):
                pass


@in_time
async def test_what_is_answered_is_advertised() -> None:
    offers = dict.fromkeys(("fs/read_text_file", "_vendor/ask", *TERMINAL), nothing)
    async with a_connection(offers=offers, client_info={"name": "ed", "version": "1"}) as (_, agent):
        [params] = agent.sent("initialize")
        assert (await agent.ask("_vendor/ask", {}))["result"] == {}
    assert params["clientInfo"] == {"name": "ed", "version": "1"}
    assert params["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": False}
    assert params["clientCapabilities"]["terminal"] is True


# Answers of the agent.


@pytest.mark.parametrize(
    ("call", "method", "answer", "expected"),
    [
        pytest.param(lambda c: c.new_session(), "session/new", {}, AgentNotUnderstood, id="no-session-id"),
        pytest.param(lambda c: c.new_session(), "session/new", RpcError(-32000, "log in"), LoginRequired, id="login"),
        pytest.param(
            lambda c: c.session("s").prompt("x"), "session/prompt", [], AgentNotUnderstood, id="no-stop-reason"
        ),
        pytest.param(
            lambda c: c.session("s").prompt("x"), "session/prompt", RpcError(-32002, "gone"), UnknownSession, id="gone"
        ),
        pytest.param(
            lambda c: c.session("s").prompt("x"), "session/prompt", RpcError(-32603, "broken"), RpcError, id="model"
        ),
        pytest.param(
            lambda c: c.session("s").remind("x"),
            "_sideband/session/inject_reminder",
            {"reminderId": 7},
            AgentNotUnderstood,
            id="no-reminder-id",
        ),
        pytest.param(
            lambda c: c.session("s").remind("x"),
            "_sideband/session/inject_reminder",
            RpcError(-32010, "no", {"reason": "body_too_large", "detail": "too long"}),
            BodyTooLarge,
            id="too-large",
        ),
        pytest.param(
            lambda c: c.session("s").inject("x"), "_sideband/session/inject", {}, AgentNotUnderstood, id="no-message-id"
        ),
        pytest.param(
            lambda c: c.session("s").pending(),
            "_sideband/session/pending_injections",
            {"pendingCount": 1, "injections": [{"kind": "other"}]},
            AgentNotUnderstood,
            id="pending",
        ),
        pytest.param(
            lambda c: c.session("s").clear(tag="x"),
            "_sideband/session/clear_reminders",
            {},
            AgentNotUnderstood,
            id="no-count",
        ),
        pytest.param(lambda c: c.request("_x/y", {}), "_x/z", {}, NotSupportedByAgent, id="unknown-method"),
    ],
)
@in_time
async def test_a_wrong_answer_is_an_error_that_names_the_method(
    call: Callable[[AgentClient], Any], method: str, answer: object, expected: type[Exception]
) -> None:
    async with a_connection(OURS, {method: answer}) as (client, _):
        with pytest.raises(expected):
            await call(client)


@in_time
async def test_the_details_of_an_error_are_part_of_it() -> None:
    told = RpcError(-32603, "Internal error", {"details": "cannot be used as root"})
    async with a_connection(answers={"session/new": told}) as (client, _):
        with pytest.raises(RpcError, match="Internal error: cannot be used as root") as raised:
            await client.new_session()
        assert (raised.value.code, raised.value.data) == (told.code, told.data)


@in_time
async def test_a_login_is_by_one_of_the_methods_of_the_agent() -> None:
    answers = {
        "initialize": {"protocolVersion": 1, "authMethods": [{"id": "key"}, 7], "agentInfo": {"name": "x"}},
        "authenticate": {},
        "session/new": RpcError(-32000, "Authentication required"),
    }
    async with a_connection(answers=answers) as (client, agent):
        assert (client.auth_methods, client.info, client.stderr) == (({"id": "key"},), {"name": "x"}, "")
        with pytest.raises(LoginRequired, match=r"log in with its own command, or by one of its methods: 'key'"):
            await client.new_session()
        await client.authenticate("key")
        assert agent.sent("authenticate") == [{"methodId": "key"}]


@in_time
async def test_a_connection_that_is_closed_is_told() -> None:
    async def connecting(transport: Transport) -> None:
        async with connect(transport):
            pass

    async with piped() as (transport, far):
        task = asyncio.ensure_future(connecting(transport))
        await far.receive()
        await far.hang_up()
        with pytest.raises(AgentEnded, match="the agent closed the connection before it answered initialize"):
            await task


@in_time
async def test_a_request_that_is_not_answered_ends_in_time() -> None:
    answers = {"session/new": lambda _params: asyncio.Event().wait()}
    async with a_connection(answers=answers, answer_seconds=0.05) as (client, agent):
        with pytest.raises(AgentSilent, match=r"did not answer session/new within 0\.05 s"):
            await client.new_session()
        await until(lambda: agent.sent("$/cancel_request"))


@in_time
async def test_a_list_of_sessions_that_repeats_itself_ends() -> None:
    page = {"sessions": [{"sessionId": "a"}, {"cwd": "/"}, 7], "nextCursor": "again"}
    async with a_connection({"sessionCapabilities": {"list": {}}}, {"session/list": page}) as (client, agent):
        assert [listed.session_id async for listed in client.list_sessions("/")] == ["a", "a"]
        assert agent.sent("session/list") == [{"cwd": "/"}, {"cwd": "/", "cursor": "again"}]
    async with a_connection() as (client, _):
        with pytest.raises(NotSupportedByAgent):
            await anext(client.list_sessions())
        with pytest.raises(NotSupportedByAgent):
            await client.load_session("s")


# Turns and updates.


@in_time
async def test_the_updates_before_the_answer_are_read_before_the_end() -> None:
    async with a_connection() as (client, agent):

        def answer(_params: object) -> dict[str, str]:
            for number in range(500):
                agent.update("s", n=number)
            agent.update("other", n=-1)
            return {"stopReason": "max_tokens"}

        agent.answers["session/prompt"] = answer
        turn = client.session("s").prompt([{"type": "text", "text": "x"}])
        assert [update["n"] async for update in turn] == [*range(500)]
        assert turn.stop_reason == "max_tokens"


@in_time
async def test_a_failed_turn_is_told_to_the_reader_of_its_updates() -> None:
    async with a_connection(answers={"session/prompt": RpcError(-32603, "The model failed")}) as (client, _):
        with pytest.raises(RpcError, match="The model failed"):
            async for _update in client.session("s").prompt("x"):
                pass


@in_time
async def test_cancelling_the_wait_for_a_turn_cancels_the_turn() -> None:
    async with a_connection(answers={"session/prompt": lambda _params: asyncio.Event().wait()}) as (client, agent):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.session("s").prompt("x")
        await until(lambda: agent.sent("session/cancel"))


@in_time
async def test_what_follows_a_prompt_is_sent_after_it() -> None:
    answers = {"session/prompt": lambda _params: asyncio.Event().wait(), "session/inject": {"messageId": "m"}}
    async with a_connection(QUEUE_ONLY, answers) as (client, agent):
        session = client.session("s")
        session.prompt("x")
        await session.inject("y")
        session.prompt("z")
        session.cancel()
        await until(lambda: agent.sent("session/cancel"))
        assert agent.methods() == ["session/prompt", "session/inject", "session/prompt", "session/cancel"]


@in_time
async def test_a_turn_that_is_cancelled_before_it_begins_is_cancelled_at_the_agent() -> None:
    async with a_connection(answers={"session/prompt": lambda _params: asyncio.Event().wait()}) as (client, agent):
        turn = client.session("s").prompt("x")
        turn._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await until(lambda: agent.sent("session/cancel") and agent.sent("$/cancel_request"))
        assert agent.methods()[0] == "session/prompt"


@in_time
async def test_leaving_the_connection_ends_what_is_open() -> None:
    async with a_connection(answers={"session/prompt": lambda _params: asyncio.Event().wait()}) as (client, agent):
        turn, stream = client.session("s").prompt("x"), client.updates()
        await until(lambda: agent.sent("session/prompt"))
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert [update async for update in stream] == []
    assert [update async for update in client.updates()] == []
    with pytest.raises(AgentEnded, match="the connection was closed before session/new was answered"):
        await client.new_session()
    with pytest.raises(AgentEnded, match="the connection was closed before session/prompt was answered"):
        await client.session("s").prompt("x")


@in_time
async def test_a_slow_reader_is_cut_off_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_updates, "MAX_KEPT_UPDATES", 3)
    monkeypatch.setattr(peer_updates, "MAX_KEPT_BYTES", 1_000)
    async with a_connection(answers={"ping": {}}) as (client, agent):
        many, large, closed = client.session("s").updates(), client.session("t").updates(), client.updates()
        closed.close()
        for number in range(5):
            agent.update("s", n=number)
        agent.update("t", text="x" * 5_000)
        agent.update("t", text="y")
        await client.request("ping", {})
        assert [(await anext(many))["n"] for _ in range(3)] == [0, 1, 2]
        with pytest.raises(UpdatesLost, match="load the session again"):
            await anext(many)
        with pytest.raises(StopAsyncIteration):
            await anext(many)
        assert len((await anext(large))["text"]) == 5_000
        with pytest.raises(UpdatesLost):
            await anext(large)
        assert [update async for update in closed] == []


@in_time
async def test_a_malformed_update_is_skipped() -> None:
    async with a_connection(answers={"ping": {}}) as (client, agent):
        stream = client.updates()
        for params in ({}, {"sessionId": 7, "update": {}}, {"sessionId": "s", "update": []}, {"sessionId": "s"}):
            agent._far.call("session/update", params)
            agent._far.call("_vendor/news", params)
        reminders = client.reminder_updates()
        agent.update("s", _meta={"harn": {"reminder": {"id": "r"}}})
        agent.update("s", _meta={"harn": {"reminder": {"id": "r", "body": "x", "source": 7, "tags": 7}}})
        found = (await anext(reminders))[1]
        assert (found.reminder_id, len([await anext(stream), await anext(stream)])) == ("r", 2)


def test_reminders_on_other_updates_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_updates, "_REMEMBERED", 2)
    reader = peer_updates.ReminderReader()

    def read(name: str) -> bool:
        return reader.read("s", {"_meta": {"harn": {"reminder": {"id": name, "body": "x"}}}}) is not None

    assert [read(name) for name in ("a", "a", "b", "c", "c", "a")] == [True, False, True, True, False, True]


# Requests of the agent.


@in_time
async def test_a_permission_is_what_the_callback_says() -> None:
    chosen: list[str | None] = ["yes", None, "maybe"]

    async def ask(request: PermissionRequest) -> str | None:
        assert request == ("s", {"title": "Delete"}, [ALLOW, REJECT])
        return chosen.pop(0)

    async with a_connection(ask_permission=ask) as (_, agent):
        answers = [await agent.ask("session/request_permission", QUESTION) for _ in range(3)]
    outcomes = [answer.get("result", {}).get("outcome") for answer in answers]
    assert outcomes[:2] == [{"outcome": "selected", "optionId": name} for name in ("yes", "no")]
    assert answers[2]["error"] == {"code": -32603, "message": "Internal error"}


@in_time
async def test_a_question_that_the_agent_withdraws_ends_the_callback() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def ask(_request: PermissionRequest) -> str | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with a_connection(ask_permission=ask) as (_, agent):
        question = asyncio.ensure_future(agent.ask("session/request_permission", QUESTION))
        await asked.wait()
        agent._far.call("$/cancel_request", {"requestId": "ask-0"})
        assert (await question)["error"]["code"] == -32800
        await ended.wait()


@in_time
async def test_an_agent_that_asks_too_much_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_requests, "MAX_OPEN_REQUESTS", 2)
    release = asyncio.Event()

    async def read(params: dict[str, Any]) -> dict[str, Any]:
        await release.wait()
        return {"content": params["path"]}

    async with a_connection(offers={"fs/read_text_file": read}) as (_, agent):
        asked = [asyncio.ensure_future(agent.ask("fs/read_text_file", {"path": str(n)})) for n in range(3)]
        refused = await asked[2]
        assert refused["error"]["message"] == "At most 2 requests may be open at once"
        release.set()
        assert [(await answer)["result"]["content"] for answer in asked[:2]] == ["0", "1"]


# Reminders and messages.


@in_time
async def test_an_idempotency_key_is_only_sent_to_sideband() -> None:
    method = "_sideband/session/inject_reminder"
    async with a_connection(OURS, {method: {"reminderId": "k"}}) as (client, agent):
        await client.session("s").remind(
            "x", idempotency_key="k", meta={"origin": "ci", "sideband": {"a": 1}}, mode="audit_only"
        )
        [params] = agent.sent(method)
        assert params["_meta"] == {"origin": "ci", "sideband": {"a": 1, "idempotencyKey": "k"}}
        assert params["mode"] == "audit_only"
    async with a_connection({"reminders": REMINDERS}) as (client, agent):
        with pytest.raises(NotSupportedByAgent, match="idempotency keys"):
            await client.session("s").remind("x", idempotency_key="k")
        with pytest.raises(InvalidOption, match="ttl_turns"):
            await client.session("s").remind("x", ttl_turns=0)
        assert agent.methods() == []


@in_time
async def test_reminders_for_the_next_prompt_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "MAX_HELD", 2)
    async with a_connection(fallback="marked_message") as (client, _):
        session = client.session("s")
        await session.remind("a", dedupe_key="k")
        await session.remind("b")
        await session.remind("c", dedupe_key="k")
        with pytest.raises(TooManyPending, match="send a prompt first"):
            await session.remind("d")


@in_time
async def test_what_waits_is_listed_replaced_and_withdrawn() -> None:
    reminder = {
        "kind": "reminder",
        "position": 0,
        "mode": "finish_step",
        "reminderId": "r",
        "body": "x",
        "tags": [],
        "roleHint": "system",
        "source": "host",
    }
    message = {
        "kind": "user",
        "position": 1,
        "mode": "queue",
        "messageId": "m",
        "content": [{"type": "text", "text": "y"}],
    }
    answers = {
        "_sideband/session/pending_injections": {"pendingCount": 2, "injections": [reminder, message]},
        "_sideband/session/revoke_reminder": {"status": "already_revoked"},
        "_sideband/session/replace_reminder": {"reminderId": "r", "status": "replaced"},
        "_sideband/session/clear_reminders": {"removedCount": 3},
    }
    async with a_connection(OURS, answers) as (client, agent):
        session = client.session("s")
        first, second = await session.pending()
        assert isinstance(first, PendingReminder)
        assert isinstance(second, PendingMessage)
        assert (first.reminder_id, second.message_id) == ("r", "m")
        assert await session.revoke_reminder("r") is RevokeStatus.ALREADY_REVOKED
        await session.replace_reminder("r", "z")
        assert await session.clear(id="r", tag="t", dedupe_key="k") == 3
        assert agent.sent("_sideband/session/clear_reminders") == [
            {"sessionId": "s", "id": "r", "tag": "t", "dedupeKey": "k"}
        ]
        with pytest.raises(InvalidOption, match="id, tag or dedupe_key"):
            await session.clear()
    async with a_connection({"reminders": REMINDERS}) as (client, agent):
        session = client.session("s")
        for refused in (session.clear(id="r"), session.replace_reminder("r", "z")):
            with pytest.raises(NotSupportedByAgent, match=r"only agents that advertise `_meta\.sideband` do"):
                await refused
    async with a_connection() as (client, _):
        with pytest.raises(NotSupportedByAgent, match="it takes no reminders"):
            await client.session("s").revoke_reminder("r")


@in_time
async def test_a_mode_is_sent_as_the_agent_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "_REMEMBERED", 1)
    ids = iter("abcdef")
    answers: dict[str, Any] = {"session/inject": lambda _: {"messageId": next(ids)}, "session/revoke_inject": {}}
    async with a_connection(QUEUE_ONLY, answers) as (client, agent):
        session = client.session("s")
        for mode in (InjectMode.FINISH_STEP, InjectMode.QUEUE):
            await session.inject("x", mode=mode)
        assert [params["mode"] for params in agent.sent("session/inject")] == ["steer", "queue"]
        with pytest.raises(InvalidOption, match="name the mode of a message"):
            await session.replace_message("a", "y")
        assert (await session.replace_message("a", "y", mode="queue")).message_id == "c"
        agent.answers["session/inject"] = RpcError(-32010, "no", {"reason": "no_running_turn"})
        with pytest.raises(NoRunningTurn) as raised:
            await session.replace_message("c", "z")
        assert raised.value.__notes__ == ["message c was revoked before, and is not sent anew"]
        with pytest.raises(UnsupportedMode):
            await session.inject("x", mode="later")  # type: ignore[arg-type]  # a wrong word
    async with a_connection({"session": {"inject": {}}}, {"session/inject": {"messageId": "m"}}) as (client, _):
        sent = await client.session("s").inject("x", mode="queue")
        assert sent == MessageSent(InjectRoute.ACCEPTED, "m")


@in_time
async def test_a_session_is_closed_only_if_the_agent_supports_it() -> None:
    closing: dict[str, Any] = {"sessionCapabilities": {"close": {}}}
    for capabilities, methods in (({}, []), (closing, ["session/close"])):
        async with a_connection(capabilities, {"session/close": {}}) as (client, agent):
            await client.session("s").close()
            assert agent.methods() == methods


def test_every_failure_of_an_agent_is_one_family() -> None:
    for kind in (AgentEnded, AgentSilent, AgentNotUnderstood, LoginRequired):
        assert issubclass(kind, AgentFailed)
        assert str(kind("why", stderr="a\nb")) == "why\nThe end of its standard error:\na\nb"
        assert str(kind("why")) == "why"
