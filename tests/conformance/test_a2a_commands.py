"""The commands on a task of an agent over A2A: what they ask of the agent, what they print, and which token they send."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sideband.cli.clear import clear
from sideband.cli.inject import inject
from sideband.cli.pending import pending
from sideband.cli.remind import remind
from sideband.cli.revoke import revoke
from sideband.cli.token import TOKEN_VARIABLE
from sideband.core.messages import Reply, ToolCall
from sideband.runtime.home import operator_token, token_file
from sideband.tools.function import tool
from tests.a2a_callers import COORDINATOR, Door, ServedTasks, in_time, on_sockets, served, some_peers
from tests.a2a_delegations import WAITS
from tests.a2a_fakes import CARD, Raw, a_card, a_fake_peer, error, error_info, with_extension
from tests.programs import run_sideband

Captured = pytest.CaptureFixture[str]

INJECT = "tasks/inject_reminder"
ACCEPTED = {"reminderId": "r", "dedupedCount": 1, "acceptedAt": "2026-04-30T12:34:56.789Z"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a token."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


async def run(command: Callable[..., int], *args: Any, **options: Any) -> int:  # noqa: ANN401 - those of the command
    """The exit status of a command, which has an event loop of its own."""
    return int(await in_time(asyncio.to_thread(command, *args, **options)))


@asynccontextmanager
async def a_waiting_task(token: str | None = None, **options: Any) -> AsyncIterator[tuple[ServedTasks, str, Door]]:  # noqa: ANN401 - those of the server
    """A task whose agent is waiting, and the target that names it."""
    door = Door()
    async with served([WAITS, "Rebased."], options={"tools": [door.wait_at_the_door]}, **options) as tasks:
        task = await tasks.caller(token).begin()
        await in_time(door.entered.wait())
        yield tasks, f"a2a+{tasks.url}#{task['id']}", door
        door.open.set()
        await tasks.caller(token).until_ended(task["id"])


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_a_task_is_told_something_and_what_is_pending_is_listed_revoked_and_cleared(capsys: Captured) -> None:
    async with a_waiting_task() as (_, to, _door):
        task_id = to.partition("#")[2]
        assert await run(remind, "Merged.\n", to=to, key="k", ttl=9, tag=("a",), id="one") == 0
        assert capsys.readouterr().out == (
            f"accepted one for session {task_id}, with propagate none, with role_hint user_block, with ttl_turns 3\n"
        )
        assert await run(remind, "Two.", to=to, id="two", json=True) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["session"], told["reminder_id"], told["deduped_count"]) == (task_id, "two", 0)
        assert told["accepted_at"].endswith("Z")
        assert told["requested"] == {"propagate": "session", "role_hint": "system", "ttl_turns": None}
        assert await run(pending, to=to) == 0
        _, first, second, end = capsys.readouterr().out.splitlines()
        assert first.split() == ["queued", "reminder", "one", "finish_step", "3", "k", "bridge", "Merged."]
        assert second.split()[:3] == ["queued", "reminder", "two"]
        assert end == f"session {task_id}: 2 queued, 0 live"
        assert await run(pending, to=to, json=True) == 0
        listed = json.loads(capsys.readouterr().out)
        assert [row["reminder"]["body"] for row in listed["pending"]] == ["Merged.", "Two."]
        assert [row["position"] for row in listed["pending"]] == [0, 1]
        for word in ("revoked", "already revoked"):
            assert await run(revoke, "one", to=to) == 0
            assert capsys.readouterr().out == f"{word}: one in session {task_id}\n"
        assert await run(clear, id="two", to=to) == 0
        assert capsys.readouterr().out == f"cleared 1 reminder of session {task_id}\n"


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_what_the_agent_refuses_is_an_error_with_its_code(capsys: Captured) -> None:
    async with a_waiting_task() as (tasks, to, _):
        assert await run(revoke, "none", to=to) == 1
        assert "no reminder or message with the id 'none' is queued" in capsys.readouterr().err
        assert await run(remind, "One.", to=to, id="one") == 0
        assert await run(remind, "Other.", to=to, id="one") == 1
        assert "code: SIDEBAND-202" in capsys.readouterr().err
        assert await run(remind, " ", to=to) == 2
        assert "BODY" in capsys.readouterr().err
        assert await run(remind, "x", to=to, ttl=0) == 2
        assert "--ttl" in capsys.readouterr().err
        assert await run(remind, "x", to=f"a2a+{tasks.url}#none") == 2
        assert "has no task 'none', or the task belongs to another caller" in capsys.readouterr().err
    assert await run(remind, "x", to=to) == 2
    said = capsys.readouterr().err
    assert f"cannot connect to {tasks.url}: " in said
    assert "check the address and that the agent is running" in said
    assert "code: SIDEBAND-508" in said


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_a_target_or_token_that_cannot_be_used_is_named_as_the_user_wrote_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await run(remind, "x", to="a2a+http://me:hunter2@host#t") == 2
    said = capsys.readouterr().err
    assert "--to must be like a2a+http://HOST:PORT#TASK" in said
    assert "hunter2" not in said
    async with a_fake_peer() as fake:
        fake.answers[CARD] = a_card("http://agents.example.org/")
        assert await run(remind, "x", to=f"a2a+{fake.url}#t") == 2
        said = capsys.readouterr().err
        assert "if you trust that address, name it with --to" in said
        assert "allowed_origins" not in said
    monkeypatch.setenv(TOKEN_VARIABLE, "é")
    assert await run(remind, "x", to="a2a+http://127.0.0.1:1#t") == 2
    assert f"${TOKEN_VARIABLE} must be" in capsys.readouterr().err


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_a_live_reminder_is_listed_and_a_task_that_has_ended_takes_none(capsys: Captured) -> None:
    door, again = Door(), Door()
    calls_again = Reply(text="", tool_calls=(ToolCall(id="again", name="wait_again"),))
    options: Any = {"tools": [door.wait_at_the_door, tool(again.wait_at_the_door, name="wait_again")]}
    async with served([WAITS, calls_again, "Rebased."], options=options) as tasks:
        task = await tasks.caller().begin()
        to = f"a2a+{tasks.url}#{task['id']}"
        await in_time(door.entered.wait())
        assert await run(remind, "Merged.", to=to, ttl=3) == 0
        door.open.set()
        await in_time(again.entered.wait())
        capsys.readouterr()
        assert await run(pending, to=to) == 0
        _, row, end = capsys.readouterr().out.splitlines()
        assert row.split()[0] == "live"
        assert row.split()[3] == "-"
        assert end.endswith("0 queued, 1 live")
        again.open.set()
        await tasks.caller().until_ended(task["id"])
        assert await run(remind, "Late.", to=to) == 1
        assert "code: SIDEBAND-213" in capsys.readouterr().err


@pytest.mark.requirement("cli:target:a2a-task")
def test_a_user_message_is_refused_without_a_connection(capsys: Captured) -> None:
    assert inject("x", to="a2a+http://127.0.0.1:1#t") == 2
    said = capsys.readouterr().err
    assert "takes no user message" in said
    assert "`sideband remind`" in said


# Tokens.


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_the_token_of_the_environment_is_sent(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_waiting_task(COORDINATOR, peers=some_peers()) as (_, to, _door):
        assert await run(remind, "Merged.", to=to) == 2
        assert "requires a token (HTTP 401)" in capsys.readouterr().err
        monkeypatch.setenv(TOKEN_VARIABLE, COORDINATOR)
        assert await run(remind, "Merged.", to=to) == 0
        monkeypatch.setenv(TOKEN_VARIABLE, "wrong-token-0123456789")
        assert await run(remind, "Merged.", to=to) == 2
        assert (
            f"refused the token (HTTP 401); set ${TOKEN_VARIABLE} to the token its operator gave you\ncode: SIDEBAND-512"
        ) in capsys.readouterr().err


@pytest.mark.requirement("a2a:client:operator-token")
@on_sockets
async def test_an_agent_of_this_machine_gets_the_operators_token(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = operator_token()
    async with a_waiting_task(operator_token=token) as (_, to, _door):
        assert await run(remind, "Merged.", to=to, ttl=9, role_hint="developer") == 0
        # The operator's hints are not lowered.
        assert " with " not in capsys.readouterr().out
    async with a_fake_peer({INJECT: ACCEPTED}, **with_extension()) as fake:
        assert await run(remind, "x", to=f"a2a+{fake.url}#t") == 0
        assert {request.headers["authorization"] for request in fake.requests} == {f"Bearer {token}"}
        monkeypatch.setenv(TOKEN_VARIABLE, "another-token")
        assert await run(remind, "x", to=f"a2a+{fake.url}#t") == 0
        assert fake.requests[-1].headers["authorization"] == "Bearer another-token"
    assert token_file().exists()


@pytest.mark.requirement("a2a:client:operator-token")
@on_sockets
async def test_another_machine_does_not_get_the_operators_token(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_token()
    async with a_fake_peer({INJECT: ACCEPTED}, **with_extension()) as fake:
        # The name of another machine, which a proxy leads to the agent of the test.
        monkeypatch.setenv("HTTP_PROXY", fake.url)
        card: Any = fake.answers["/.well-known/agent-card.json"]
        card["supportedInterfaces"][0]["url"] = "http://agents.example.org/"
        fake.answers |= {f"http://agents.example.org{path}": answer for path, answer in fake.answers.items()}
        assert await run(remind, "x", to="a2a+http://agents.example.org#t") == 0
        assert len(fake.requests) == 2
        assert [request.headers.get("authorization") for request in fake.requests] == [None, None]


# Agents that cannot do it.


@pytest.mark.requirement("cli:target:a2a-task")
@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        pytest.param(error(-32601), 2, "the agent takes no reminders", id="no-such-method"),
        pytest.param(error(-32603, "broken"), 2, "the agent refused: broken (-32603)", id="broken"),
        pytest.param(Raw(503), 2, "cannot answer tasks/inject_reminder now", id="a-gateway"),
        pytest.param(error(-32000, "no", error_info("TOO_MANY_PENDING")), 1, "SIDEBAND-214", id="full"),
        pytest.param({"reminderId": "r", "acceptedAt": "soon"}, 0, "accepted r for session t", id="without-a-time"),
        pytest.param({"reminderId": "r"}, 0, "accepted r for session t", id="without-a-count"),
    ],
)
@on_sockets
async def test_what_an_agent_answers_is_said(answer: Any, status: int, said: str, capsys: Captured) -> None:  # noqa: ANN401 - an answer
    async with a_fake_peer({INJECT: answer}, **with_extension()) as fake:
        assert await run(remind, "x", to=f"a2a+{fake.url}#t") == status
        printed = capsys.readouterr()
        assert said in printed.out + printed.err


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_a_method_that_the_agent_does_not_offer_is_an_error(capsys: Captured) -> None:
    async with a_fake_peer(reminders={"inject": True}) as fake:
        to = f"a2a+{fake.url}#t"
        for command, options in ((pending, {}), (clear, {"key": "k"})):
            assert await run(command, to=to, **options) == 2
            assert "the peer does not support tasks/" in capsys.readouterr().err


@pytest.mark.requirement("cli:target:a2a-task")
def test_without_the_extra_the_command_says_what_to_install(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sideband.cli.a2a_task", None)
    assert remind("x", to="a2a+http://127.0.0.1:1#t") == 2
    assert "pip install 'sideband[a2a]'" in capsys.readouterr().err


@pytest.mark.requirement("cli:target:a2a-task")
@on_sockets
async def test_the_command_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    async with a_waiting_task() as (tasks, to, door):
        answer = await asyncio.to_thread(
            run_sideband, "remind", "Merged.", "--to", to, "--json", env={"XDG_DATA_HOME": str(tmp_path)}
        )
        assert (answer.returncode, answer.stderr) == (0, "")
        assert json.loads(answer.stdout)["session"] == to.partition("#")[2]
        door.open.set()
        await tasks.caller().until_ended(to.partition("#")[2])
        assert "Merged." in tasks.requests[1].text
