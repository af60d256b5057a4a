"""Who may call an A2A server, what it advertises to whom, and what it refuses before it reads a request."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from a2a.client import A2ACardResolver
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from sideband.cli.a2a import a2a
from sideband.core.errors import InvalidOption
from sideband.protocols.a2a.auth import read_peers, read_peers_file
from sideband.protocols.a2a.reminders import RAW_URI, URI
from tests.a2a_callers import COORDINATOR, DASHBOARD, REVIEWER, message, on_sockets, served, some_peers
from tests.unit.protocols.schemas import validator

CARD: Final = "/.well-known/agent-card.json"
OPERATOR: Final = "the-operators-own-token"
SEED_CARD: Final = "/.well-known/a2a-agent"


def params_of(card: dict[str, Any]) -> dict[str, Any]:
    """The params of the extension on a card."""
    (ours,) = [entry for entry in card["capabilities"]["extensions"] if entry["uri"] == URI]
    validator("a2a/agent_card").validate(ours)
    params: dict[str, Any] = ours["params"]
    return params


# Cards.


@pytest.mark.requirement("a2a:card:one-extension", "a2a:card:valid")
@on_sockets
async def test_the_card_is_valid_and_has_the_extension() -> None:
    async with served(name="worker", skills=["rebase"]) as tasks:
        response = await tasks.client.get(CARD)
        kept = await tasks.client.get(CARD, headers={"If-None-Match": response.headers["etag"]})
        resolved = await A2ACardResolver(tasks.client, tasks.url).get_agent_card()
    card = response.json()
    strict = {
        name: value
        for name, value in card.items()
        if name
        not in (
            "url",
            "protocolVersion",
            "preferredTransport",
            "supportsAuthenticatedExtendedCard",
            "additionalInterfaces",
        )
    }
    ParseDict(strict, AgentCard())
    assert (resolved.name, [skill.id for skill in resolved.skills]) == ("worker", ["rebase"])
    assert [(entry["protocolBinding"], entry["protocolVersion"]) for entry in card["supportedInterfaces"]] == [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
    ]
    assert all(entry["url"].startswith(tasks.url) for entry in card["supportedInterfaces"])
    assert (response.headers["cache-control"], kept.status_code) == ("max-age=60", 304)
    assert params_of(card)["inject"] is True
    assert "reminders" not in card["capabilities"]
    assert "securitySchemes" not in card


@pytest.mark.requirement("a2a:card:public-is-for-peers", "a2a:card:seed-card")
@on_sockets
async def test_the_public_cards_say_what_a_peer_gets() -> None:
    async with served(peers=some_peers(grant={"role_hint": "system"})) as tasks:
        card = (await tasks.client.get(CARD)).json()
        literal = (await tasks.client.get(SEED_CARD)).json()
    assert (params_of(card)["roleHints"], params_of(card)["propagate"]) == (["user_block"], ["none"])
    assert params_of(card)["modes"] == ["finish_step", "audit_only"]
    assert literal["capabilities"] == {
        "reminders": {"inject": True, "emit": True, "propagate": ["none"], "roleHints": ["user_block"]}
    }
    assert (literal["name"], literal["skills"]) == ("sideband", ["agent"])
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"


@pytest.mark.requirement("a2a:card:extended-is-for-the-caller")
@on_sockets
async def test_the_extended_card_says_what_the_caller_gets() -> None:
    async with served(peers=some_peers(grant={"role_hint": "developer", "propagate": "session"})) as tasks:
        granted = await tasks.caller(COORDINATOR).call("GetExtendedAgentCard", {})
        operator = await tasks.caller(DASHBOARD).call("GetExtendedAgentCard", {})
        ordinary = await tasks.caller(REVIEWER).raw("", "/extendedAgentCard", "GET")
    assert params_of(granted)["roleHints"] == ["developer", "user_block", "ephemeral_cache"]
    assert params_of(granted)["propagate"] == ["session", "none"]
    assert params_of(operator)["modes"] == ["interrupt_immediate", "finish_step", "audit_only"]
    assert params_of(ordinary.json())["roleHints"] == ["user_block"]


@pytest.mark.requirement("a2a:card:trust-seed")
@on_sockets
async def test_with_the_trust_of_the_proposal_peers_get_everything() -> None:
    async with served(["Rebased."], trust="seed") as tasks:
        caller = tasks.caller()
        card = (await tasks.client.get(CARD)).json()
        reminder = {"body": "Rebase first.", "roleHint": "system", "ttlTurns": 9, "preserveOnCompact": True}
        await caller.call("SendMessage", message(metadata={"harn": {"reminder": reminder}}))
        (entry,) = (await tasks.store.sessions()).sessions
        session = await tasks.store.find(entry.session_id)
        assert session is not None
        queued = [update async for update in session.updates(follow=False) if update.kind == "reminder.queued"]
    assert params_of(card)["propagate"] == ["all", "session", "none"]
    (update,) = queued
    assert update.reminder.role_hint == "system"  # type: ignore[attr-defined]
    assert update.reminder.ttl_turns == 9  # type: ignore[attr-defined]


@pytest.mark.requirement("a2a:extension:activation")
@pytest.mark.parametrize("header", ["A2A-Extensions", "X-A2A-Extensions"])
@on_sockets
async def test_activated_extensions_are_named_in_the_answer(header: str) -> None:
    async with served(["Rebased."]) as tasks:
        caller = tasks.caller()
        given = {header.replace("-", "_"): f"{URI}, urn:unknown:v1 ,{RAW_URI}"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()})
        response = await caller.raw(body, **given)
        without = await caller.raw(body)
    for name in ("a2a-extensions", "x-a2a-extensions"):
        assert response.headers[name].split(", ") == [RAW_URI, URI]
        assert name not in without.headers


# Callers.


@pytest.mark.requirement("a2a:callers:peers-file")
@on_sockets
async def test_only_callers_of_the_file_are_answered() -> None:
    async with served(peers=some_peers(), operator_token=OPERATOR) as tasks:
        statuses = {}
        for token in (COORDINATOR, DASHBOARD, OPERATOR, "wrong", None):
            response = await tasks.caller(token).raw('{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}')
            statuses[token] = response.status_code, response.headers.get("www-authenticate")
        cards = [(await tasks.client.get(path)).status_code for path in (CARD, SEED_CARD)]
    refused = (401, "Bearer")
    assert statuses == {
        COORDINATOR: (200, None),
        DASHBOARD: (200, None),
        OPERATOR: (200, None),
        "wrong": refused,
        None: refused,
    }
    assert cards == [200, 200]


@pytest.mark.requirement("a2a:callers:local", "a2a:callers:operator")
@on_sockets
async def test_without_a_file_callers_are_local_and_the_operator_sees_all() -> None:
    async with served(["Rebased."] * 3, operator_token=OPERATOR) as tasks:
        first = (await tasks.caller().call("SendMessage", message()))["task"]
        await tasks.caller("some-other-token").call("GetTask", {"id": first["id"]})
        own = (await tasks.caller(OPERATOR).call("SendMessage", message()))["task"]
        everything = await tasks.caller(OPERATOR).call("ListTasks", {})
        hidden = await tasks.caller().refusal("GetTask", {"id": own["id"]})
        entries = {entry.session_id: entry.records for entry in (await tasks.store.sessions()).sessions}
    assert entries[first["id"]]["owner"] == "local"
    assert entries[own["id"]]["owner"] == "operator"
    assert {task["id"] for task in everything["tasks"]} == {first["id"], own["id"]}
    assert hidden["code"] == -32001


WRONG_FILES: Final = [
    pytest.param({}, "peers", id="no-peers"),
    pytest.param({"peers": {"a b": {"token": "x" * 16}}}, "a b", id="bad-name"),
    pytest.param({"peers": {"operator": {"token": "x" * 16}}}, "operator", id="reserved-name"),
    pytest.param({"peers": {"a": "x"}}, "peers.a must be a table", id="no-table"),
    pytest.param({"peers": {"a": {"token": "short"}}}, "at least 16", id="short-token"),
    pytest.param({"peers": {"a": {}}}, "either token or token_env", id="no-token"),
    pytest.param({"peers": {"a": {"token": "x" * 16, "token_env": "T"}}}, "either token or token_env", id="two-tokens"),
    pytest.param({"peers": {"a": {"token_env": "SIDEBAND_NO_SUCH"}}}, "not set", id="unset-variable"),
    pytest.param({"peers": {"a": {"token": "x" * 16, "trust": "god"}}}, "'peer' or 'controller'", id="bad-trust"),
    pytest.param({"peers": {"a": {"token": "x" * 16, "emits": "all"}}}, "did you mean 'emit'", id="unknown-key"),
    pytest.param({"peers": {"a": {"token": "x" * 16, "emit": "some"}}}, "'own' or 'all'", id="bad-emit"),
    pytest.param({"peers": {"a": {"token": "x" * 16, "grant": {"color": 1}}}}, "field must be one of", id="bad-grant"),
    pytest.param(
        {"peers": {"a": {"token": "x" * 16, "trust": "controller", "grant": {"ttl_turns": 1}}}},
        "a controller may use everything",
        id="grant-for-a-controller",
    ),
    pytest.param({"peers": {"a": {"token": "x" * 16}, "b": {"token": "x" * 16}}}, "the same token", id="shared-token"),
]


@pytest.mark.requirement("a2a:callers:peers-file")
@pytest.mark.parametrize(("config", "says"), WRONG_FILES)
def test_a_wrong_file_of_callers_is_refused_without_its_tokens(config: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as refused:
        read_peers(config)
    assert "x" * 16 not in str(refused.value)


@pytest.mark.requirement("a2a:callers:peers-file", "a2a:callers:file-is-private")
def test_a_file_of_callers_is_read_if_only_its_owner_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_TOKEN", COORDINATOR)
    file = tmp_path / "peers.toml"
    file.write_text('[peers.coordinator]\ntoken_env = "COORDINATOR_TOKEN"\nemit = "all"\n', encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(InvalidOption, match="chmod 600"):
        read_peers_file(file)
    file.chmod(0o600)
    (peer,) = read_peers_file(file)
    assert (peer.caller.name, peer.token, peer.caller.sees_all) == ("coordinator", COORDINATOR, True)
    assert COORDINATOR not in repr(peer)
    file.write_text("[peers", encoding="utf-8")
    with pytest.raises(InvalidOption, match="not TOML"):
        read_peers_file(file)
    with pytest.raises(InvalidOption, match="cannot be read"):
        read_peers_file(tmp_path / "missing.toml")


# Before a request is read.


@pytest.mark.requirement("a2a:http:host")
@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example", "a/?x=127.0.0.1", "", "localhost."])
@pytest.mark.parametrize("path", ["/", CARD, "/tasks/t"])
@on_sockets
async def test_a_request_for_another_host_is_refused(host: str, path: str) -> None:
    async with served() as tasks:
        response = await tasks.client.get(path, headers={"Host": host})
    assert response.status_code == 421


@pytest.mark.requirement("a2a:http:origin")
@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1:1"])
@on_sockets
async def test_a_request_from_a_page_is_refused(origin: str) -> None:
    async with served() as tasks:
        response = await tasks.caller().raw('{"jsonrpc":"2.0","id":1,"method":"ListTasks"}', Origin=origin)
    assert response.status_code == 403


@pytest.mark.requirement("a2a:http:content-type")
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
        ("application/json", 200),
        ("application/a2a+json; charset=utf-8", 200),
    ],
)
@on_sockets
async def test_a_body_must_be_json(content_type: str, status: int) -> None:
    async with served() as tasks:
        body = '{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}'
        response = await tasks.caller().raw(body, Content_Type=content_type)
    assert response.status_code == status


@pytest.mark.requirement("wire:limit:frame")
@pytest.mark.parametrize("announced", [True, False])
@on_sockets
async def test_a_body_over_the_limit_is_refused_before_it_is_read(announced: bool) -> None:  # noqa: FBT001 - a table
    async def pieces() -> Any:  # noqa: ANN401 - an iterator
        for _ in range(20):
            yield b" " * 100_000

    async with served() as tasks:
        given: Any = b" " * 2_000_000 if announced else pieces()
        headers = {"Content-Type": "application/json"}
        over_rpc = await tasks.client.post("/", content=given, headers=headers)
        given = b" " * 2_000_000 if announced else pieces()
        over_http = await tasks.client.post("/message:send", content=given, headers=headers)
        alive = await tasks.client.get(CARD)
    assert (over_rpc.status_code, over_rpc.json()["error"]["code"]) == (413, -32000)
    assert (over_http.status_code, over_http.json()["error"]["status"]) == (413, "RESOURCE_EXHAUSTED")
    assert alive.status_code == 200


@pytest.mark.requirement("a2a:http:malformed")
@pytest.mark.parametrize(
    "body",
    ["{", "", "[" * 100_000, '{"a": "\\ud800"}', "\xff", "NaN"],
    ids=["open", "empty", "deep", "surrogate", "bytes", "nan"],
)
@on_sockets
async def test_a_body_that_is_not_json_is_refused(body: str) -> None:
    async with served() as tasks:
        caller = tasks.caller()
        rpc = await caller.raw(body.encode("latin-1"))
        http = await caller.raw(body.encode("latin-1"), "/tasks/t:injectReminder")
        alive = await caller.call("ListTasks", {})
    assert (rpc.status_code, rpc.json()["error"]["code"]) == (200, -32700)
    assert http.status_code == (404 if body == "" else 400)
    assert alive["totalSize"] == 0


@pytest.mark.requirement("a2a:http:malformed")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("[]", -32600),
        ("42", -32600),
        ('{"jsonrpc":"1.0","id":1,"method":"tasks/inject_reminder"}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"tasks/unknown"}', -32601),
        ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":7}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"tasks/inject_reminder","params":[]}', -32602),
    ],
)
@on_sockets
async def test_a_request_that_is_none_is_refused(body: str, code: int) -> None:
    async with served() as tasks:
        answer = (await tasks.caller().raw(body)).json()
    assert answer["error"]["code"] == code


@pytest.mark.requirement("a2a:http:no-websocket")
@on_sockets
async def test_a_websocket_is_not_accepted() -> None:
    async with served() as tasks:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        response = await tasks.client.get("/", headers={**headers, **key})
    assert response.status_code == 403


@pytest.mark.requirement("a2a:callers:loopback-only")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "192.0.2.7"}, "needs --peers FILE"),
        ({"host": "0.0.0.0"}, "needs --peers FILE"),  # noqa: S104 - refused
        ({"host": "0.0.0.0", "peers": True}, "name one with --url"),  # noqa: S104 - refused
    ],
)
def test_an_address_for_other_machines_needs_a_file_of_callers(
    tmp_path: Path, options: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if options.pop("peers", None):
        file = tmp_path / "peers.toml"
        file.write_text(f'[peers.coordinator]\ntoken = "{COORDINATOR}"\n', encoding="utf-8")
        file.chmod(0o600)
        options["peers"] = str(file)
    assert a2a(model="scripted:x", port=0, store=f"sqlite:///{tmp_path}/store.db", **options) == 2
    assert says in capsys.readouterr().err


@pytest.mark.requirement("a2a:http:values")
@pytest.mark.parametrize(
    "message_field",
    [{"metadata": {"a": [1] * 20_000}}, {"parts": [{"data": {}}] * 20_000}, {"referenceTaskIds": ["t"] * 20_000}],
    ids=["metadata", "parts", "references"],
)
@on_sockets
async def test_a_body_with_too_many_values_is_refused(message_field: dict[str, Any]) -> None:
    async with served() as tasks:
        caller = tasks.caller()
        params = message(**message_field)
        error = await caller.refusal("SendMessage", params)
        http = await caller.raw(json.dumps(params), "/message:send")
    assert (error["code"], http.status_code) == (-32602, 400)
    assert "10,000 values" in error["message"]


@pytest.mark.requirement("a2a:http:malformed", "a2a:version:unsupported")
@on_sockets
async def test_the_http_binding_refuses_what_it_cannot_read() -> None:
    async with served() as tasks:
        caller = tasks.caller()
        bad = [
            await caller.raw(body, "/message:send")
            for body in (b"{", b"\xff\xfe", b'{"message": {"metadata": {"a": NaN}}}')
        ]
        version = await caller.raw("", "/tasks/t:pendingReminders", "GET", A2A_Version="9.9")
    assert [answer.status_code for answer in bad] == [400, 400, 400]
    assert (version.status_code, "VERSION_NOT_SUPPORTED" in version.text) == (400, True)
