"""What a sub-agent inherits before it begins, and the receipts of tool calls."""

import asyncio
from typing import Any, Final

import msgspec
import pytest

from sideband import spawn, with_audit_log
from sideband.core.events import Inherited, RequestCommitted
from sideband.core.reminder import Source
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_reply

BODY: Final = "The tree is frozen."
SPEC: Final[dict[str, Any]] = {
    "body": BODY,
    "tags": ["tree", "caution"],
    "dedupe_key": "tree",
    "ttl_turns": 3,
    "role_hint": "developer",
}


# Sub-agents.


@pytest.mark.requirement("loop:child:seeded-before-its-first-turn")
@awaited
async def test_a_child_has_what_it_inherits_before_its_first_turn() -> None:
    parent = AnAgent()
    await parent.session.remind(BODY, ttl_turns=5, propagate="all")
    await parent.session.remind("For the parent alone.", ttl_turns=5, propagate="none")
    await parent.play()
    child = AnAgent("Done.")
    worker = await spawn(parent.session, parent.children(), "Write the tests.", model=child.model)
    await worker.work()
    assert child.requests_with(BODY) == [1]
    assert child.requests_with("For the parent alone.") == []
    journal = [logged.event for logged in parent.recorded.journal if logged.session_id == worker.session.id]
    (inherited,) = [event for event in journal if isinstance(event, Inherited)]
    first_request = next(event for event in journal if isinstance(event, RequestCommitted))
    assert journal.index(inherited) < journal.index(first_request)
    assert (inherited.reminder.source, inherited.reminder.originating_agent_id) == (Source.INHERITED, "main")
    # The parent has shown it once.
    assert inherited.reminder.ttl_turns == 4


# Receipts.


async def an_audited_agent(*, times: int = 1) -> tuple[AnAgent, list[Any]]:
    """An agent whose hooks add a reminder before and after its tool, and the receipts of its calls."""
    agent = AnAgent(*[a_reply("work")] * times)
    agent.hooks.register_tool_hook("work", pre=lambda _: SPEC, post=lambda _: {"reminder": {"body": BODY}})
    with with_audit_log() as log:
        await agent.play()
    return agent, msgspec.json.decode(msgspec.json.encode(log.receipts))


@pytest.mark.requirement("receipts:report:fields")
@awaited
async def test_the_receipt_of_a_call_lists_the_reminders_of_its_hooks() -> None:
    agent, (receipt,) = await an_audited_agent()
    before, after = (item.reminder for item in agent.state.live)
    assert (receipt["tool_name"], receipt["tool_call_id"], receipt["status"]) == ("work", "c1", "ok")
    common = {"session_id": "main", "tool_call_id": "c1", "source": "hook", "deduped_count": 0}
    assert receipt["audit"]["reminders"] == [
        {
            **common,
            "hook_event": "pre_tool_use",
            "reminder_id": before.id,
            "tags": ["tree", "caution"],
            "dedupe_key": "tree",
            "role_hint": "developer",
            "ttl_turns": 3,
        },
        {
            **common,
            "hook_event": "post_tool_use",
            "reminder_id": after.id,
            "tags": [],
            "dedupe_key": None,
            "role_hint": "system",
            "ttl_turns": None,
        },
    ]


@pytest.mark.requirement("receipts:report:fields")
@awaited
async def test_each_receipt_counts_what_its_own_reminders_replaced() -> None:
    _, receipts = await an_audited_agent(times=3)
    counts = [[entry["deduped_count"] for entry in receipt["audit"]["reminders"]] for receipt in receipts]
    assert counts == [[0, 0], [1, 0], [1, 0]]


@pytest.mark.requirement("receipts:report:fields")
@awaited
async def test_calls_side_by_side_have_each_their_own_receipt() -> None:
    started = asyncio.Barrier(2)

    async def work(*_: object) -> str:
        await started.wait()
        return "done"

    agent = AnAgent(a_reply("work", "work"), tools=[ATool(do=work)])
    agent.hooks.register_tool_hook("work", pre=lambda ctx: {"body": BODY, "dedupe_key": ctx.tool_call_id})
    with with_audit_log() as log:
        await agent.play()
    reminded = [[entry.dedupe_key for entry in receipt.audit.reminders] for receipt in log.receipts]
    assert reminded == [["c1"], ["c2"]]


@pytest.mark.requirement("receipts:report:no-body")
@awaited
async def test_no_receipt_holds_the_body_of_a_reminder() -> None:
    agent, receipts = await an_audited_agent()
    assert agent.requests_with(BODY) == [2]
    assert receipts[0]["audit"]["reminders"]
    assert BODY not in msgspec.json.encode(receipts).decode()
