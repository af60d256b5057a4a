"""The client of A2A: tasks and reminders on both bindings and versions, and peers that answer wrongly, late or not at all."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from typing import Any

import httpx
import pytest
from a2a.types import Part, StreamResponse, Task
from google.protobuf.json_format import ParseDict

from sideband.core import errors
from sideband.core.errors import InvalidOption, RateLimited, ReminderError, TooManyPending
from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols.a2a import connect
from sideband.protocols.a2a.client import (
    CardPlace,
    CarriedEmitted,
    CarriedExpired,
    NotSupportedByPeer,
    PeerAgent,
    PeerArtifact,
    PeerEvent,
    PeerFailed,
    PeerNotTrusted,
    PeerNotUnderstood,
    PeerSilent,
    PeerState,
    PeerStatus,
    PeerTask,
    PeerUnreachable,
    RpcError,
    TaskReminderRoute,
    TokenRefused,
)
from sideband.protocols.a2a.client import http as client_http
from sideband.protocols.a2a.client.capabilities import read_reminders
from sideband.protocols.a2a.client.events import EventReader
from sideband.protocols.a2a.client.http import origin_of
from sideband.protocols.a2a.client.peer import MAX_RECONNECTS
from sideband.protocols.a2a.client.reminders import MAX_HELD
from sideband.runtime.producer import RevokeStatus
from tests.a2a_callers import COORDINATOR, DASHBOARD, Door, ServedTasks, in_time, on_sockets, served, some_peers
from tests.a2a_delegations import WAITS
from tests.a2a_fakes import (
    CARD,
    URI,
    FakePeer,
    Raw,
    a_card,
    a_fake_peer,
    a_task,
    error,
    error_info,
    events_of,
    json_of,
    with_extension,
)

INJECT = "tasks/inject_reminder"
ACCEPTED = {"reminderId": "r", "dedupedCount": 0, "acceptedAt": "2026-04-30T12:34:56.789Z"}
FAST = 0.001


# Against our server.


@asynccontextmanager
async def over(binding: str, version: str, tasks: ServedTasks) -> AsyncIterator[PeerAgent]:
    """A connection to the server that can use only this interface of it."""
    card = (await tasks.client.get(CARD)).json()
    interfaces = [
        one
        for one in card["supportedInterfaces"]
        if (one["protocolBinding"], one["protocolVersion"]) == (binding, version)
    ]
    async with (
        a_fake_peer(card={**card, "supportedInterfaces": interfaces}) as elsewhere,
        connect(elsewhere.url, allowed_origins=[tasks.url], poll_seconds=FAST) as peer,
    ):
        assert (peer.interface.binding, peer.interface.version) == (binding, version)
        yield peer


@pytest.mark.parametrize(
    ("binding", "version"),
    [
        pytest.param("JSONRPC", "1.0", id="json-rpc"),
        pytest.param("HTTP+JSON", "1.0", id="http"),
        pytest.param("JSONRPC", "0.3", id="json-rpc-0.3"),
    ],
)
@on_sockets
async def test_a_task_is_started_told_something_followed_and_read(binding: str, version: str) -> None:
    door = Door()
    options: Any = {"tools": [door.wait_at_the_door]}
    async with served([WAITS, "Rebased."], options=options) as tasks, over(binding, version, tasks) as peer:
        task = await peer.start("Rebase the branch.")
        assert task.state is PeerState.SUBMITTED
        following = asyncio.create_task(collected(peer, task.id))
        await in_time(door.entered.wait())
        accepted = await peer.remind(
            task.id, "Merged.", dedupe_key="k", ttl_turns=9, tags=("a",), id="mine", source="coordinator"
        )
        assert (accepted.route, accepted.reminder_id, accepted.deduped_count) == ("accepted", "mine", 0)
        assert accepted.accepted_at is not None
        assert accepted.requested == {"propagate": "session", "role_hint": "system", "ttl_turns": 9}
        assert accepted.effective == {"propagate": "none", "role_hint": "user_block", "ttl_turns": 3}
        (waiting,) = await peer.pending(task.id)
        assert (waiting.id, waiting.body, waiting.ttl_turns, waiting.source) == ("mine", "Merged.", 3, "coordinator")
        other = await peer.remind(task.id, "Another.", metadata={"origin": "x"})
        assert other.reminder_id is not None
        assert await peer.revoke(task.id, other.reminder_id) is RevokeStatus.REVOKED
        assert await peer.revoke(task.id, other.reminder_id) is RevokeStatus.ALREADY_REVOKED
        assert await peer.clear(task.id, tag="b") == 0
        with pytest.raises(errors.IdempotencyConflict) as conflict:
            await peer.remind(task.id, "Something else.", id="mine")
        assert (conflict.value.field, conflict.value.value) == ("id", "mine")
        with pytest.raises(errors.UnknownReminder):
            await peer.revoke(task.id, "none")
        with pytest.raises(errors.UnknownSession):
            await peer.remind("none", "Merged.")
        with pytest.raises(errors.UnknownSession):
            await peer.get("none")
        with pytest.raises(errors.SessionBusy):
            await peer.start("Hello?", task_id=task.id)
        door.open.set()
        ended = await in_time(peer.wait(task.id))
        assert (ended.state, ended.text, ended.artifacts[0].name) == (PeerState.COMPLETED, "Rebased.", "reply")
        with pytest.raises(errors.TaskFinished):
            await peer.remind(task.id, "Late.")
        events = await in_time(following)
        first, last = events[0], events[-1]
        assert isinstance(first, PeerTask)
        assert last == PeerStatus(task.id, PeerState.COMPLETED, None)
        assert [event.text for event in events if isinstance(event, PeerArtifact)] == ["Rebased."]
        (shown,) = (event for event in events if isinstance(event, CarriedEmitted))
        assert (shown.reminder.id, shown.reminder.body, shown.reminder.fired_at_turn) == ("mine", "Merged.", 2)
        assert type(shown.reminder.fired_at_turn) is int
        assert shown.metadata["sideband"]["turn"] == 2
        gone = {event.reminder.id: event for event in events if isinstance(event, CarriedExpired)}
        assert gone.keys() == {"mine", other.reminder_id}
        assert gone[other.reminder_id].metadata["origin"] == "x"


async def collected(peer: PeerAgent, task_id: str) -> list[PeerEvent]:
    return [event async for event in peer.follow(task_id)]


@pytest.mark.parametrize(("binding", "version"), [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")])
@on_sockets
async def test_a_message_is_sent_and_waited_for_and_a_task_is_cancelled(binding: str, version: str) -> None:
    door = Door()
    options: Any = {"tools": [door.wait_at_the_door]}
    async with served(["Rebased.", WAITS], options=options) as tasks, over(binding, version, tasks) as peer:
        done = await in_time(peer.send([Part(text="Rebase"), Part(text="the branch.")]))
        assert (done.state, done.text) == (PeerState.COMPLETED, "Rebased.")
        short = (await peer.get(done.id, history_length=1)).details
        assert isinstance(short, Task)
        assert len(short.history) == 1
        task = await peer.start("Rebase it again.", context_id=done.context_id)
        await in_time(door.entered.wait())
        assert task.context_id == done.context_id
        assert (await peer.cancel(task.id)).state is PeerState.CANCELED
        with pytest.raises(RpcError):
            await peer.cancel(task.id)
        assert (await in_time(peer.wait(task.id))).state is PeerState.CANCELED
        (ended,) = await in_time(collected(peer, task.id))
        assert isinstance(ended, PeerTask)
        assert ended.state is PeerState.CANCELED


@on_sockets
async def test_a_caller_with_a_token_is_told_what_it_may_do() -> None:
    peers = some_peers(grant={"role_hint": "developer"})
    async with served(["Rebased."], peers=peers) as tasks:
        async with connect(tasks.url, token=COORDINATOR) as peer:
            assert peer.reminders is not None
            assert RoleHint.DEVELOPER in peer.reminders.role_hints
            assert (await in_time(peer.send("Rebase."))).text == "Rebased."
        async with connect(tasks.url, token=DASHBOARD) as peer:
            assert peer.reminders is not None
            assert peer.reminders.propagate == tuple(Propagate)
        with pytest.raises(TokenRefused, match="HTTP status 401"):
            async with connect(tasks.url, token="wrong-token-0123456789"):  # noqa: S106 - no secret
                pass
        async with connect(tasks.url) as peer:
            assert peer.reminders is not None
            assert peer.reminders.role_hints == (RoleHint.USER_BLOCK,)
            with pytest.raises(TokenRefused):
                await peer.start("Rebase.")


@on_sockets
async def test_an_extended_card_that_the_peer_does_not_have_changes_nothing() -> None:
    async with a_fake_peer({}, extendedAgentCard=True, **with_extension()) as fake:
        answers: list[Any] = [error(-32601), error(-32007, "not configured"), Raw(500), {"capabilities": {}}]
        for answer in answers:
            fake.answers["GetExtendedAgentCard"] = answer
            async with connect(fake.url, token="a-token") as peer:  # noqa: S106 - no secret
                assert peer.reminders is not None
                assert peer.reminders.place is CardPlace.EXTENSION
        assert len(fake.asked("GetExtendedAgentCard")) == 4


# The card.


@pytest.mark.parametrize(
    "card",
    [
        pytest.param({"name": "x", "url": "http://here/", "skills": 7}, id="skills"),
        pytest.param({"name": "x", "supportedInterfaces": "all"}, id="interfaces"),
        pytest.param({"name": "x", "supportedInterfaces": []}, id="no-interface"),
        pytest.param({"name": ["x"], "supportedInterfaces": []}, id="name"),
    ],
)
@on_sockets
async def test_a_card_that_is_none_is_refused(card: dict[str, Any]) -> None:
    async with a_fake_peer(card=card) as fake:
        with pytest.raises(PeerNotUnderstood):
            async with connect(fake.url):
                pass


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(Raw(404), "there is no agent card at", id="none"),
        pytest.param(Raw(200, b"<html>"), "is not an agent card", id="a-page"),
        pytest.param(Raw(200, b"[]"), "is not an agent card", id="a-list"),
        pytest.param(Raw(302, headers={"location": "http://127.0.0.1:1/"}), "HTTP status 302", id="a-redirect"),
        pytest.param(Raw(418), "HTTP status 418", id="a-failure"),
        pytest.param(Raw(200, b'{"name":' + b"[" * 400 + b"]" * 400 + b"}"), "is not one of A2A", id="deep"),
        pytest.param(Raw(200, b"[" * 100_000), "is not an agent card", id="too-deep"),
        pytest.param(Raw(200, b"x", {"content-encoding": "gzip"}), "compressed", id="compressed"),
    ],
)
@on_sockets
async def test_what_is_not_a_card_is_refused(answer: Raw, failure: str) -> None:
    async with a_fake_peer({CARD: answer}) as fake:
        with pytest.raises(PeerNotUnderstood, match=failure):
            async with connect(fake.url):
                pass


@on_sockets
async def test_json_rpc_is_preferred_and_other_bindings_are_not_used() -> None:
    async with a_fake_peer() as fake:
        card = a_card(fake.url, binding="GRPC")
        fake.answers[CARD] = card
        with pytest.raises(PeerNotUnderstood, match="the peer offers GRPC"):
            async with connect(fake.url):
                pass
        card["supportedInterfaces"] = [
            {"url": fake.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": f"{fake.url}/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"},
            {"url": f"{fake.url}/new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
        ]
        async with connect(fake.url) as peer:
            assert peer.interface == (f"{fake.url}/new", "JSONRPC", "1.0", "t")


@on_sockets
async def test_a_tenant_is_named_on_both_bindings() -> None:
    path = "/acme%2F1/tasks/t%2F1:injectReminder"
    async with a_fake_peer({INJECT: ACCEPTED, path: ACCEPTED}, **with_extension()) as fake:
        for binding in ("JSONRPC", "HTTP+JSON"):
            card = a_card(fake.url, binding=binding, **with_extension())
            card["supportedInterfaces"][0]["tenant"] = "acme/1"
            fake.answers[CARD] = card
            async with connect(fake.url) as peer:
                assert (await peer.remind("t/1", "Merged.")).reminder_id == "r"
        assert fake.asked(INJECT)[0]["tenant"] == "acme/1"
        assert fake.requests[-1].path == path


# Where the token goes.


@on_sockets
async def test_no_request_leaves_for_another_origin() -> None:
    async with a_fake_peer() as other, client_http.http_client(["http://127.0.0.1:1"], token="t", local=True) as http:  # noqa: S106 - no secret
        with pytest.raises(PeerNotTrusted):
            await http.get(other.url)
        assert other.requests == []


@on_sockets
async def test_no_proxy_of_the_environment_gets_the_token_for_an_agent_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_fake_peer() as proxy, a_fake_peer() as fake:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        async with connect(fake.url, token="a-token"):  # noqa: S106 - no secret
            pass
        assert proxy.requests == []


# What cannot be an address or an option.


@pytest.mark.parametrize(
    "url",
    [
        "",
        "agents.example.org",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host#t",
        "http://host?x=1",
        7,
        None,
    ],
)
@on_sockets
async def test_what_is_not_an_address_is_refused(url: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(InvalidOption, match="url must be an address"):
        async with connect(url):
            pass


@pytest.mark.parametrize("url", ["http://me:hunter2@host", "http://me:hunter2@host#t"])
@on_sockets
async def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        async with connect(url):
            pass
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"fallback": "shout"},
        {"answer_seconds": 0},
        {"answer_seconds": "long"},
        {"answer_seconds": True},
        {"token": 7},
        {"poll_seconds": -1},
        {"token": "a\nb"},
        {"token": "é"},
        {"allowed_origins": "http://host"},
        {"allowed_origins": ["host"]},
    ],
    ids=lambda options: str(next(iter(options))),
)
@on_sockets
async def test_a_wrong_option_is_refused_before_anything_is_sent(options: dict[str, Any]) -> None:
    async with a_fake_peer() as fake:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            async with connect(fake.url, **options):
                pass
        assert fake.requests == []


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://Host/a", "http://host:80"),
        ("https://host", "https://host:443"),
        ("https://host:443/x", "https://host:443"),
        ("http://[::1]:8/", "http://[::1]:8"),
        ("http://me@host", None),
        ("host", None),
        (7, None),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: object, origin: str | None) -> None:
    assert origin_of(url) == origin


# Peers that fail.


@asynccontextmanager
async def a_peer(answers: Any, **options: Any) -> AsyncIterator[tuple[FakePeer, PeerAgent]]:  # noqa: ANN401 - of `a_fake_peer` and `connect`
    """A connection to an agent that streams, takes reminders, and answers from this table."""
    async with (
        a_fake_peer(answers, streaming=True, **with_extension()) as fake,
        connect(fake.url, **{"poll_seconds": FAST, **options}) as peer,
    ):
        yield fake, peer


@on_sockets
async def test_an_agent_that_is_not_there_is_unreachable() -> None:
    async with a_fake_peer() as fake:
        gone = fake.url
    with pytest.raises(
        PeerUnreachable, match=f"cannot connect to {gone}: .*; check the address and that the agent is running"
    ):
        async with connect(gone):
            pass


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(Raw(401), TokenRefused, id="401"),
        pytest.param(Raw(403), TokenRefused, id="403"),
        pytest.param(json_of(401, {"jsonrpc": "2.0", "id": 1, **error(-32000)}), TokenRefused, id="401-with-a-body"),
        pytest.param(Raw(400), PeerNotUnderstood, id="400"),
        pytest.param(Raw(307), PeerNotUnderstood, id="307"),
        pytest.param(Raw(408), PeerUnreachable, id="408"),
        pytest.param(Raw(500), PeerUnreachable, id="500"),
        pytest.param(Raw(429), PeerUnreachable, id="429"),
        pytest.param(Raw(503), PeerUnreachable, id="503"),
        pytest.param(Raw(200, b"hello"), PeerNotUnderstood, id="not-json"),
        pytest.param(json_of(200, [1]), PeerNotUnderstood, id="a-list"),
        pytest.param(json_of(200, {"jsonrpc": "2.0", "id": 1}), PeerNotUnderstood, id="no-result"),
        pytest.param({"dedupedCount": 0}, PeerNotUnderstood, id="no-id"),
        pytest.param(Raw(200, b" " * (1024 * 1024 + 1)), PeerNotUnderstood, id="too-large"),
        pytest.param(error(-32603, "Internal error"), RpcError, id="an-internal-error"),
        pytest.param(error(-32602, "Invalid params"), RpcError, id="invalid-params"),
        pytest.param(json_of(400, {"jsonrpc": "2.0", "id": 1, **error(-32602, "no")}), RpcError, id="with-a-status"),
    ],
)
@on_sockets
async def test_a_failure_does_not_mean_that_reminders_are_not_supported(
    answer: Any,  # noqa: ANN401 - of several kinds
    failure: type[Exception],
) -> None:
    async with a_peer({INJECT: answer}) as (fake, peer):
        with pytest.raises(failure):
            await peer.remind("t", "Merged.")
        fake.answers[INJECT] = ACCEPTED
        assert (await peer.remind("t", "Merged.")).reminder_id == "r"


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReminderError)]
)
@on_sockets
async def test_a_refusal_with_our_reason_is_our_error(kind: type[ReminderError]) -> None:
    if kind is ReminderError:
        return
    details = error_info(kind.reason.upper(), code=kind.code, field="reminder.body", retryAfterMs="250")
    async with a_peer({INJECT: error(-32000, "The peer says no.", details)}) as (_, peer):
        with pytest.raises(kind) as refused:
            await peer.remind("t", "Merged.")
        if isinstance(refused.value, RateLimited):
            assert refused.value.retry_after_ms == 250
        else:
            assert "The peer says no." in str(refused.value)
            assert refused.value.field == "body"


@on_sockets
async def test_a_delay_that_cannot_be_read_is_a_second() -> None:
    for delay in ("soon", "9" * 10, "9" * 5_000):
        details = [7, {"@type": "other"}, *error_info("RATE_LIMITED", retryAfterMs=delay)]
        async with a_peer({INJECT: error(-32000, "no", details)}) as (_, peer):
            with pytest.raises(RateLimited) as refused:
                await peer.remind("t", "Merged.")
        assert refused.value.retry_after_ms == 1_000


@on_sockets
async def test_errors_of_http_json_are_read_by_their_reason() -> None:
    info = "type.googleapis.com/google.rpc.ErrorInfo"

    def refusal(status: int, reason: str) -> Raw:
        details = [{"@type": info, "reason": reason, "domain": "a2a-protocol.org"}]
        return json_of(status, {"error": {"code": status, "message": "no", "details": details}})

    async with a_fake_peer() as fake:
        fake.answers[CARD] = a_card(fake.url, binding="HTTP+JSON", **with_extension())
        path = "/tasks/t:injectReminder"
        async with connect(fake.url) as peer:
            for answer, failure in (
                (refusal(404, "TASK_NOT_FOUND"), errors.UnknownSession),
                (refusal(400, "UNSUPPORTED_OPERATION"), errors.UnknownSession),
                (refusal(400, "INVALID_PARAMS"), RpcError),
                (Raw(404), errors.UnknownSession),
            ):
                fake.answers[path] = answer
                with pytest.raises(failure):
                    await peer.remind("t", "Merged.")
            fake.answers[path] = Raw(501)
            assert (await peer.remind("t", "Merged.")).route is TaskReminderRoute.SUPPRESSED


@on_sockets
async def test_methods_that_the_card_does_not_offer_are_not_called() -> None:
    async with a_fake_peer({INJECT: ACCEPTED}, reminders={"inject": True}) as fake, connect(fake.url) as peer:
        assert peer.offers(INJECT)
        assert not peer.offers("tasks/clear_reminders")
        for calling in (peer.pending("t"), peer.revoke("t", "r"), peer.clear("t", id="r")):
            with pytest.raises(NotSupportedByPeer, match="its card does not offer the method"):
                await calling
        with pytest.raises(InvalidOption, match="id, tag or dedupe_key"):
            await peer.clear("t")
        assert [request.method for request in fake.requests] == ["GET"]


@on_sockets
async def test_answers_that_the_extension_does_not_know_are_not_understood() -> None:
    answers = {"tasks/pending_reminders": {"reminders": 7}, "tasks/clear_reminders": {"removed": 1}}
    async with a_peer(answers) as (_, peer):
        with pytest.raises(PeerNotUnderstood, match="tasks/pending_reminders"):
            await peer.pending("t")
        with pytest.raises(PeerNotUnderstood, match="tasks/clear_reminders"):
            await peer.clear("t", id="r")


# Tasks of peers that differ from ours.


@on_sockets
async def test_a_peer_may_answer_with_a_message() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "contextId": "c", "parts": [{"text": "Hello."}]}
    for streams in (True, False):
        answers: Any = {"SendMessage": {"message": message}, "SendStreamingMessage": events_of({"message": message})}
        async with a_fake_peer(answers, streaming=streams) as fake, connect(fake.url) as peer:
            answer = await peer.send("Hi.")
            assert (answer.id, answer.context_id, answer.state, answer.text) == ("", "c", "completed", "Hello.")


@on_sockets
async def test_without_streams_a_task_is_looked_at_until_it_has_ended() -> None:
    answers: Any = {"SendMessage": {"task": a_task("working")}, "GetTask": [a_task("working"), a_task()]}
    async with a_fake_peer(answers) as fake, connect(fake.url, poll_seconds=FAST) as peer:
        assert (await in_time(peer.send("Rebase."))).state is PeerState.COMPLETED
        assert len(fake.asked("GetTask")) == 2
        with pytest.raises(NotSupportedByPeer, match="it has no event streams"):
            await anext(peer.follow("t"))


@on_sockets
async def test_a_stream_that_breaks_is_continued() -> None:
    answers: Any = {
        "SendStreamingMessage": Raw(
            200,
            events_of({"task": a_task("working")}).body,
            {"content-type": "text/event-stream", "content-length": "9999"},
        ),
        "GetTask": [*[a_task("working")] * 3, a_task()],
        "SubscribeToTask": [error(-32603), events_of({"task": a_task("working")})],
    }
    async with a_fake_peer(answers, streaming=True) as fake:
        # The connection ends before the stream does.
        fake.hangs_up.add("SendStreamingMessage")
        async with connect(fake.url, poll_seconds=FAST) as peer:
            assert (await in_time(peer.send("Rebase."))).state is PeerState.COMPLETED
        assert len(fake.asked("SubscribeToTask")) == 2


@on_sockets
async def test_a_stream_that_is_refused_for_a_task_that_goes_on_is_an_error() -> None:
    async with a_peer({"SubscribeToTask": error(-32603, "broken"), "GetTask": a_task("working")}) as (_, peer):
        with pytest.raises(RpcError, match="broken"):
            await collected(peer, "t")


@on_sockets
async def test_waiting_ends_when_the_peer_does_not_come_back() -> None:
    async with a_fake_peer({"GetTask": [a_task("working"), Raw(503)]}) as fake:
        async with connect(fake.url, poll_seconds=FAST) as peer:
            with pytest.raises(PeerUnreachable):
                await in_time(peer.wait("t"))
        assert len(fake.asked("GetTask")) == 1 + MAX_RECONNECTS + 1


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        pytest.param(events_of(), PeerNotUnderstood, id="empty"),
        pytest.param(events_of({"task": {"id": 7}}), PeerNotUnderstood, id="not-a-task"),
        pytest.param(Raw(200, b"data: {\n\n", {"content-type": "text/event-stream"}), PeerNotUnderstood, id="not-json"),
        pytest.param(error(-32001, "gone"), errors.UnknownSession, id="refused"),
        pytest.param(Raw(503), PeerUnreachable, id="a-gateway"),
        pytest.param(
            Raw(200, b'data: {"jsonrpc": "2.0", "error": {"code": -32603}}\n\n', {"content-type": "text/event-stream"}),
            RpcError,
            id="an-error-inside",
        ),
    ],
)
@on_sockets
async def test_a_stream_that_is_none_is_an_error(answer: Any, failure: type[Exception]) -> None:  # noqa: ANN401 - of several kinds
    async with a_peer({"SendStreamingMessage": answer}) as (_, peer):
        with pytest.raises(failure):
            await in_time(peer.send("Rebase.", task_id="t"))


@on_sockets
async def test_an_event_that_is_too_large_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    small = events_of({"task": a_task("working")}).body
    large = b"data: " + b"x" * 5_000
    monkeypatch.setattr(client_http, "MAX_ANSWER_BYTES", 2_000)
    answer = Raw(200, small * 30 + large, {"content-type": "text/event-stream"})
    async with a_peer({"SubscribeToTask": answer, "GetTask": a_task("working")}) as (_, peer):
        with pytest.raises(PeerNotUnderstood, match="more than 2,000 bytes"):
            await collected(peer, "t")


class Chunks(httpx.AsyncByteStream):
    """The body of an answer, in these pieces."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


@pytest.mark.parametrize(
    ("chunks", "is_too_large"),
    [
        pytest.param([b"data: 1\n\n"] * 9, False, id="small-events"),
        pytest.param([b"data: 1\n", b"\n"] * 9, False, id="a-blank-line-in-two-chunks"),
        pytest.param([b"data: 1\r\n\r", b"\n"] * 9, False, id="crlf"),
        pytest.param([b"data: 1\r\r"] * 9, False, id="cr"),
        pytest.param([b"data: 1\n"] * 9, True, id="many-lines"),
        pytest.param([b"data: 1\r\n"] * 9, True, id="many-lines-with-crlf"),
    ],
)
@on_sockets
async def test_the_limit_of_a_stream_is_that_of_an_event(chunks: list[bytes], is_too_large: bool) -> None:  # noqa: FBT001 - a column
    bounded = client_http._Bounded(Chunks(*chunks), 20, by_event=True)
    with pytest.raises(PeerNotUnderstood) if is_too_large else nullcontext():
        assert [chunk async for chunk in bounded] == chunks


@on_sockets
async def test_a_message_that_is_none_is_refused_before_it_is_sent() -> None:
    async with a_peer({}) as (fake, peer):
        for metadata in ({"x": object()}, 7):
            with pytest.raises(InvalidOption, match="metadata"):
                await peer.start("Rebase.", metadata=metadata)  # type: ignore[arg-type]
        for content in (7, ["Rebase."], None):
            with pytest.raises(InvalidOption, match="content"):
                await peer.start(content)  # type: ignore[arg-type]
        assert [request.method for request in fake.requests] == ["GET"]


# Streams that stay open, break, or cannot be used.


def open_stream(*events: dict[str, Any]) -> Raw:
    """An event stream that goes on after these events, without any more."""
    made = events_of(*events)
    return made._replace(headers={**made.headers, "content-length": "99999"})


@pytest.mark.parametrize("state", ["input_required", "auth_required", "completed"])
@on_sockets
async def test_a_stream_that_stays_open_when_the_task_is_settled_is_not_waited_for(state: str) -> None:
    events: Any = ({"task": a_task("working")}, a_status(state=state.upper()))
    answers: Any = {
        "SendStreamingMessage": open_stream(*events),
        "SubscribeToTask": open_stream(*events),
        "GetTask": [a_task(state), a_task("working"), a_task(state)],
    }
    async with a_peer(answers) as (fake, peer):
        assert (await in_time(peer.send("Rebase."))).state == state
        assert (await in_time(peer.wait("t"))).state == state
        assert [type(event) for event in await in_time(collected(peer, "t"))] == [PeerTask, PeerStatus]
        assert len(fake.asked("SubscribeToTask")) == 2


@on_sockets
async def test_a_task_begins_with_the_first_event_of_its_stream() -> None:
    working = {"task": a_task("working")}
    answers: Any = {"SendStreamingMessage": open_stream(working), "SendMessage": Raw(silent=True)}
    async with a_peer(answers) as (fake, peer):
        assert (await in_time(peer.start("Rebase."))).state is PeerState.WORKING
        fake.answers |= {"SendStreamingMessage": open_stream(a_status()), "GetTask": a_task("working")}
        assert (await in_time(peer.start("Go on.", task_id="t"))).id == "t"
        assert fake.asked("SendMessage") == []
    async with a_peer({"SendStreamingMessage": Raw(silent=True)}, answer_seconds=0.05) as (_, peer):
        with pytest.raises(PeerSilent, match="may have accepted the task; list its tasks before you send it again"):
            await peer.start("Rebase.")


@pytest.mark.parametrize("code", [-32601, -32004])
@on_sockets
async def test_a_peer_that_refuses_streams_gets_messages_and_is_polled(code: int) -> None:
    answers: Any = {
        "SendStreamingMessage": error(code),
        "SendMessage": {"task": a_task("working")},
        "GetTask": [a_task("working"), a_task()],
    }
    async with a_peer(answers) as (fake, peer):
        assert (await in_time(peer.start("Rebase."))).state is PeerState.WORKING
        assert fake.asked("SendMessage")[0]["configuration"]["returnImmediately"] is True
        assert (await in_time(peer.send("Rebase."))).state is PeerState.COMPLETED
        assert len(fake.asked("SendStreamingMessage")) == 1
        assert fake.asked("SubscribeToTask") == []


@on_sockets
async def test_a_message_that_is_refused_does_not_mean_that_there_are_no_streams() -> None:
    refused = error(-32004, "The task has ended.")
    async with a_peer({"SendStreamingMessage": refused, "SendMessage": refused}) as (fake, peer):
        for count in (1, 2):
            with pytest.raises(RpcError, match="has ended"):
                await peer.send("Rebase.", task_id="t")
            assert len(fake.asked("SendStreamingMessage")) == count


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        pytest.param(Raw(404), 1, id="404"),
        pytest.param(Raw(200, b"<html>"), 1, id="a-page"),
        pytest.param(error(-32601), 1, id="unknown-method"),
        pytest.param(error(-32004), 1, id="unsupported"),
        pytest.param(error(-32001), 2, id="unknown-task"),
        pytest.param(error(-32603), 2, id="a-failure"),
        pytest.param(Raw(503), 2, id="a-gateway"),
    ],
)
@on_sockets
async def test_a_task_whose_stream_cannot_be_read_is_looked_at(answer: Any, count: int) -> None:  # noqa: ANN401 - of two kinds
    # `wait` reads the task before and after each stream, and `follow` does when the stream is refused for good.
    working = [a_task("working")] * (2 if answer == Raw(503) else 4 if count > 1 else 3)
    async with a_peer({"SubscribeToTask": answer, "GetTask": [*working, a_task()]}) as (fake, peer):
        assert (await in_time(peer.wait("t"))).state is PeerState.COMPLETED
        assert len(fake.asked("SubscribeToTask")) == count


@on_sockets
async def test_a_task_that_ended_before_its_stream_began_is_its_only_event() -> None:
    for refusal in (error(-32001), error(-32004), error(-32601)):
        async with a_peer({"SubscribeToTask": refusal, "GetTask": a_task()}) as (_, peer):
            (ended,) = await collected(peer, "t")
            assert isinstance(ended, PeerTask)


@on_sockets
async def test_a_stream_that_breaks_each_time_does_not_end_the_waiting() -> None:
    broken = Raw(200, b"", {"content-type": "text/event-stream", "content-length": "9999"})
    times = MAX_RECONNECTS + 2
    answers: Any = {"SubscribeToTask": broken, "GetTask": [a_task("working")] * times + [a_task()]}
    async with a_peer(answers) as (fake, peer):
        fake.hangs_up.add("SubscribeToTask")
        assert (await in_time(peer.wait("t"))).state is PeerState.COMPLETED
        assert len(fake.asked("SubscribeToTask")) == times


@pytest.mark.parametrize("answer", [a_task(id="other"), a_task(id=""), {}], ids=["another", "empty", "none"])
@on_sockets
async def test_a_task_that_was_not_asked_for_is_not_understood(answer: Any) -> None:  # noqa: ANN401 - a task
    async with a_peer({"GetTask": answer, "CancelTask": answer}) as (_, peer):
        for asking in (peer.get("t"), peer.cancel("t")):
            with pytest.raises(PeerNotUnderstood, match="Task"):
                await asking


@on_sockets
async def test_streams_do_not_block_other_requests() -> None:
    answers: Any = {"SubscribeToTask": open_stream({"task": a_task("working")}), "GetTask": a_task("working")}
    async with a_peer(answers) as (_, peer), AsyncExitStack() as stack:
        for _ in range(101):
            events = await stack.enter_async_context(aclosing(peer.follow("t")))
            await in_time(anext(events))
        assert (await in_time(peer.get("t"))).state is PeerState.WORKING


@pytest.mark.parametrize(("given", "named"), [("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")])
@on_sockets
async def test_this_machine_has_several_names(given: str, named: str) -> None:
    async with a_fake_peer({"GetTask": a_task()}) as fake:
        port = fake.url.rpartition(":")[2]
        fake.answers[CARD] = a_card(f"http://{named}:{port}/a2a")
        async with connect(f"http://{given}:{port}") as peer:
            assert peer.interface.url == f"http://{given}:{port}/a2a"
            assert (await peer.get("t")).state is PeerState.COMPLETED
        for other in (f"http://{named}:1/", f"https://{named}:{port}/", f"http://me@{named}:{port}/"):
            fake.answers[CARD] = a_card(other)
            with pytest.raises(PeerNotTrusted):
                async with connect(f"http://{given}:{port}"):
                    pass


# Reminders that wait for a message.


@on_sockets
async def test_a_reminder_whose_message_was_refused_goes_with_the_next_one() -> None:
    answers: Any = {"SendMessage": [error(-32603), Raw(429), {"task": a_task("input_required")}]}
    async with a_fake_peer(answers) as fake, connect(fake.url, fallback="next_message") as peer:
        await peer.remind("t", "One.")
        await peer.remind("t", "Two.")
        for failure in (RpcError, PeerUnreachable):
            with pytest.raises(failure):
                await peer.send("Yes.", task_id="t")
        await peer.send("Yes.", task_id="t")
        await peer.send("Yes.", task_id="t")
        sent = [params["metadata"]["harn"]["reminder"] for params in fake.asked("SendMessage")]
        assert [reminder["body"] for reminder in sent] == ["One.", "One.", "One.", "Two."]
        assert sent[0]["id"] == sent[2]["id"] != sent[3]["id"]


@on_sockets
async def test_a_reminder_whose_message_may_have_arrived_is_not_sent_again() -> None:
    answers: Any = {"SendMessage": [Raw(503), Raw(silent=True), {"task": a_task("input_required")}]}
    async with (
        a_fake_peer(answers) as fake,
        connect(fake.url, fallback="next_message", answer_seconds=0.05) as peer,
    ):
        for failure in (PeerUnreachable, PeerSilent):
            await peer.remind("t", "One.")
            with pytest.raises(failure):
                await peer.start("Yes.", task_id="t")
        await peer.start("Yes.", task_id="t")
        assert "metadata" not in fake.asked("SendMessage")[-1]


@on_sockets
async def test_a_reminder_waits_if_the_message_has_no_place_for_it() -> None:
    answers: Any = {"SendMessage": {"task": a_task("input_required")}}
    async with a_fake_peer(answers) as fake, connect(fake.url, fallback="next_message") as peer:
        await peer.remind("t", "One.", id="mine")
        await peer.send("Yes.", task_id="t", metadata={"harn": "mine"})
        await peer.send("Yes.", task_id="t", metadata={"harn": {"x": "y"}})
        first, second = (params["metadata"]["harn"] for params in fake.asked("SendMessage"))
        assert first == "mine"
        assert second == {"x": "y", "reminder": {"id": "mine", "body": "One."}}


@on_sockets
async def test_reminders_of_a_task_that_is_over_are_dropped() -> None:
    answers: Any = {"SendMessage": {"task": a_task()}, "GetTask": a_task(), "CancelTask": a_task("canceled")}
    async with a_fake_peer(answers) as fake, connect(fake.url, fallback="next_message") as peer:
        for seeing in (peer.get, peer.wait, peer.cancel):
            for _ in range(MAX_HELD):
                await peer.remind("t", "One.")
            await seeing("t")
        await peer.remind("t", "One.")
        await peer.send("Yes.")
        await peer.send("Yes.", task_id="t")
        assert all("metadata" not in params for params in fake.asked("SendMessage"))


@on_sockets
async def test_only_so_many_reminders_wait() -> None:
    async with a_fake_peer() as fake, connect(fake.url, fallback="next_message") as peer:
        for number in range(MAX_HELD):
            await peer.remind(f"t{number % 2}", "Merged.", dedupe_key=f"k{number}")
        with pytest.raises(TooManyPending):
            await peer.remind("t", "Merged.")
        await peer.remind("t0", "Merged.", dedupe_key="k0")


@on_sockets
async def test_a_reminder_that_is_none_is_refused_before_it_is_sent() -> None:
    async with a_peer({INJECT: ACCEPTED}) as (fake, peer):
        for options in ({"body": " "}, {"body": "x", "ttl_turns": 0}, {"body": "x", "propagate": "far"}):
            with pytest.raises(ReminderError):
                await peer.remind("t", **options)
        assert fake.asked(INJECT) == []


# Reading.


def read(*events: dict[str, Any]) -> list[PeerEvent]:
    reader = EventReader()
    return [one for event in events for one in reader.read(ParseDict(event, StreamResponse()))]


def a_status(metadata: dict[str, Any] | None = None, *, state: str = "WORKING") -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}"}
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": status, "metadata": metadata or {}}}


NOTICE = {
    "method": "tasks/reminderEmitted",
    "taskId": "t",
    "reminder": {"id": "r", "body": "Merged.", "source": "host", "firedAtTurn": 3},
    "metadata": {"mine": [1, 2.5]},
}


def test_a_status_that_only_carries_a_notification_is_no_status() -> None:
    working, shown, done, again = read(
        a_status(), a_status({URI: NOTICE}), a_status({URI: {**NOTICE, "metadata": {}}}, state="COMPLETED")
    )
    assert working == PeerStatus("t", PeerState.WORKING, None)
    assert isinstance(shown, CarriedEmitted)
    assert (shown.reminder.fired_at_turn, shown.metadata) == (3, {"mine": [1, 2.5]})
    assert done == PeerStatus("t", PeerState.COMPLETED, None)
    assert isinstance(again, CarriedEmitted)


def test_a_record_of_an_older_agent_is_read_as_a_notification() -> None:
    record = {"id": "r", "body": "Merged.", "tags": ["a", 7], "dedupe_key": "k", "fired_at_turn": 4}
    _, shown = read(a_status({"harn": {"reminder": record}}))
    assert isinstance(shown, CarriedEmitted)
    assert (shown.task_id, shown.reminder.dedupe_key, shown.reminder.fired_at_turn) == ("t", "k", 4)
    assert shown.reminder.tags == ("a",)
    assert [type(event) for event in read(a_status({"harn": {"reminder": {"id": 7}}}), a_status({"harn": 7}))] == [
        PeerStatus
    ] * 2


def test_a_notification_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (status,) = read(a_status({URI: {"method": "tasks/reminderEaten"}}))
    assert isinstance(status, PeerStatus)
    assert "cannot be read" in caplog.text


def test_parts_of_all_kinds_have_a_text() -> None:
    parts = [
        {"text": "One."},
        {"data": {"two": 2}},
        {"url": "http://host/three", "filename": "three"},
        {"raw": "Zm91cg==", "filename": "four.txt"},
        {"raw": "Zm91cg=="},
    ]
    artifact = {"artifactId": "a", "name": "n", "parts": parts}
    (update,) = read({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": True}})
    text = 'One.\n{"two":2}\nhttp://host/three\n[file four.txt]'
    assert update == PeerArtifact("t", "a", "n", text, append=True, last_chunk=False)


def test_without_artifacts_the_text_is_what_the_agent_said_last() -> None:
    said = [{"messageId": str(n), "role": "ROLE_AGENT", "parts": [{"text": f"Said {n}."}]} for n in range(2)]
    asked = {"messageId": "u", "role": "ROLE_USER", "parts": [{"text": "Go."}]}
    (talked,) = read({"task": a_task(history=[asked, *said, asked])})
    (silent,) = read({"task": a_task(history=[asked])})
    status = {"state": "TASK_STATE_FAILED", "message": said[0]}
    (noted,) = read({"task": {"id": "t", "status": status}})
    assert isinstance(talked, PeerTask)
    assert isinstance(silent, PeerTask)
    assert isinstance(noted, PeerTask)
    assert (talked.text, silent.text, noted.text) == ("Said 1.", "", "Said 0.")


def test_an_unknown_state_is_unspecified() -> None:
    response = StreamResponse()
    response.status_update.task_id = "t"
    response.status_update.status.state = 99  # type: ignore[assignment]
    assert [*EventReader().read(response)] == [PeerStatus("t", PeerState.UNSPECIFIED, None)]
    assert [*EventReader().read(StreamResponse())] == []


def test_the_uri_of_the_extension_alone_promises_all_methods() -> None:
    found = read_reminders({"capabilities": {"extensions": [7, {"uri": URI}]}})
    assert found is not None
    assert (found.place, found.inject) == (CardPlace.EXTENSION, True)
    assert "tasks/clear_reminders" in found.methods
    some = read_reminders({"capabilities": {"extensions": [{"uri": URI, "params": {"methods": [INJECT]}}]}})
    assert some is not None
    assert some.methods == (INJECT,)
    assert read_reminders({"capabilities": {"extensions": [{"uri": URI, "params": 7}]}}) is None
    assert read_reminders({"capabilities": "all"}) is None


def test_every_failure_is_one_of_the_peer() -> None:
    for kind in (PeerUnreachable, PeerSilent, PeerNotUnderstood, PeerNotTrusted, TokenRefused):
        assert issubclass(kind, PeerFailed)
