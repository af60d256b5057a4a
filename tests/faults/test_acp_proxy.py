"""Proxies that are killed at every commit and after every frame: the next one hands over what was accepted.

The test plays the editor and the agent, and keeps what each of them got. An item that the agent gets twice must have been
on its way when the proxy was killed: if the editor has the answer to the prompt, nothing of that turn comes again.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.events import InjectDelivered, Injected, TurnCommitted
from tests.acp_agents import in_time
from tests.faults.laws import broken, journal_of
from tests.faults.witness import Witness
from tests.proxied import NAME, RunningStage, a_proxy_process, text_block, texts

SESSION: Final = f"proxy:{NAME}:s1"
# What is said before the first prompt, and while the tool of its turn runs.
IN_FRONT: Final = ("in front 1", "in front 2")
QUEUED: Final = "queued by the user"
STEERED: Final = "while the tool runs"
BY_USER: Final = "steered by the user"
LAST: Final = "before the second prompt"
WORDS: Final = (*IN_FRONT, QUEUED, STEERED, BY_USER, LAST)

# An agent cannot be sent the same request again, because it keeps the conversation itself.
OF_OUR_LOOP: Final = "a_request_is_void_only_where_it_cannot_be_repeated"

# More than a life has; a moment that never comes is one more life without a death.
COMMITS: Final = 16
FRAMES: Final = 26
MOMENTS: Final = [
    *((moment, count) for count in range(1, COMMITS + 1) for moment in ("before", "after")),
    *(("sent", count) for count in range(1, FRAMES + 1)),
]


class Life:
    """What became of the items while one proxy lived: accepted, got by the agent, and of turns that are over."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.got: list[str] = []
        self.settled: set[str] = set()

    async def play(self, stage: RunningStage) -> None:
        """Two turns; in the first one a tool runs, and the agent is steered twice."""
        await stage.begin()
        await stage.open()
        for body in IN_FRONT:
            await self.say(stage, "session/inject_reminder", body, body=body)
        await self.say(stage, "session/inject", QUEUED, mode="queue", content=[text_block(QUEUED)])
        stage.request("session/prompt", sessionId="s1", prompt=[text_block("go")])
        prompt = await self.next_prompt(stage)
        stage.agent.says("s1", "tool_call", toolCallId="t", title="run", status="in_progress")
        await stage.editor.update("tool_call")
        await self.say(stage, "session/inject_reminder", STEERED, body=STEERED)
        await self.say(stage, "session/inject", BY_USER, mode="steer", content=[text_block(BY_USER)])
        for _ in range(2):
            steer = await stage.agent.called("_session/steering")
            self.gets(texts(steer))
            stage.agent.answers(steer, {"outcome": "injected"})
        await stage.editor.update("user_message_chunk")
        await stage.end(prompt)
        self.settled |= set(self.got)
        await self.say(stage, "session/inject_reminder", LAST, body=LAST)
        await self.turn(stage)

    async def say(self, stage: RunningStage, method: str, word: str, **params: object) -> None:
        answer = await stage.ask(method, sessionId="s1", **params)
        assert "result" in answer, answer
        self.accepted.add(word)

    async def turn(self, stage: RunningStage) -> None:
        stage.request("session/prompt", sessionId="s1", prompt=[text_block("go")])
        await stage.end(await self.next_prompt(stage))
        self.settled |= set(self.got)

    async def next_prompt(self, stage: RunningStage) -> dict[str, object]:
        prompt = await stage.agent.called("session/prompt")
        self.gets(texts(prompt))
        return prompt

    def gets(self, given: list[str]) -> None:
        self.got += [word for text in given for word in WORDS if word in text]


async def killed(place: Path, moment: str, count: int) -> Life:
    life = Life()
    async with a_proxy_process(place, victim=(moment, count)) as stage:
        playing = asyncio.ensure_future(life.play(stage))
        dying = asyncio.ensure_future(stage.process.wait())
        await asyncio.wait((playing, dying), return_when=asyncio.FIRST_COMPLETED)
        # What was on its way arrives; then the streams end.
        with suppress(AssertionError, ConnectionError):
            await playing
        if stage.process.returncode is not None:
            await stage.editor.end()
        if any(update["_meta"]["harn"]["reminder"]["body"] == STEERED for update in emitted(stage)):
            # The agent's answer to the steer is on record.
            life.settled.add(STEERED)
    return life


def emitted(stage: RunningStage) -> list[dict[str, Any]]:
    return stage.editor.updates("reminder_emitted")


@pytest.mark.parametrize(("moment", "count"), MOMENTS)
@in_time
async def test_a_proxy_that_is_killed_loses_nothing_and_repeats_only_what_was_on_its_way(
    tmp_path: Path, moment: str, count: int
) -> None:
    first = await killed(tmp_path, moment, count)
    second = Life()
    async with a_proxy_process(tmp_path) as stage:
        await stage.begin()
        await stage.load("s1")
        for _ in range(2):
            await second.turn(stage)
        # The lease of the process that was killed is free at once, so no prompt went out without a turn.
        assert "hands nothing over" not in stage.stderr
        events = await journal_of(stage.store.journal, SESSION)
    given = Counter((*first.got, *second.got))
    assert first.accepted <= given.keys(), "something that was accepted was not handed over"
    assert not first.settled & set(second.got), "something of a turn that was answered was handed over again"
    assert max(Counter(first.got).values(), default=1) == 1
    assert max(Counter(second.got).values(), default=1) == 1
    delivered = Counter(
        event.message_id if isinstance(event, InjectDelivered) else event.reminder.id
        for event in events
        if isinstance(event, InjectDelivered | Injected)
    )
    assert max(delivered.values(), default=1) == 1
    turns = [event.turn for event in events if isinstance(event, TurnCommitted)]
    assert turns == list(range(1, len(turns) + 1))
    assert [law for law in broken(events, Witness()) if not law.startswith(OF_OUR_LOOP)] == []
