"""An editor, an agent and other producers at once, each at its own pace: the agent takes everything exactly once."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from sideband.core.seams import Mode
from sideband.protocols.acp.proxy import session as proxy_session
from tests.acp_agents import in_time
from tests.proxied import Frame, Stage, an_open_session, text_block, texts

ITEMS = 30
OUTCOMES = ("injected", "injected", "injected", "promptRequired", "failed")
MODES = (Mode.FINISH_STEP, Mode.FINISH_STEP, Mode.INTERRUPT_IMMEDIATE)


class MoodyAgent:
    """Runs tools, refuses prompts and steers, and answers when it pleases. `took` are the texts in its conversation."""

    def __init__(self, stage: Stage, dice: random.Random) -> None:
        self._stage = stage
        self._dice = dice
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs = False
        self.took: Counter[str] = Counter()

    async def live(self) -> None:
        while True:
            frame = await self._stage.agent.receive()
            task = asyncio.create_task(self._react(frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def pause(self) -> None:
        await asyncio.sleep(self._dice.choice((0, 0, 0.001, 0.003)))

    async def _react(self, frame: Frame) -> None:
        agent = self._stage.agent
        await self.pause()
        if frame["method"] == "_session/steering":
            outcome = self._dice.choice(OUTCOMES) if self._runs else "promptRequired"
            if outcome == "injected":
                self.took.update(texts(frame))
            agent.answers(frame, {"outcome": outcome})
        elif self._dice.random() < 0.2:
            agent.answers(frame, code=-32000, message="not now")
        else:
            self.took.update(texts(frame))
            await self._run(frame)

    async def _run(self, prompt: Frame) -> None:
        agent = self._stage.agent
        self._runs = True
        agent.says("s1", "agent_message_chunk", content=text_block("I will look."))
        for number in range(self._dice.randint(0, 3)):
            call_id = f"{prompt['id']}-{number}"
            agent.says("s1", "tool_call", toolCallId=call_id, title="run", status="in_progress")
            await self.pause()
            await self.pause()
            agent.says("s1", "tool_call_update", toolCallId=call_id, status="completed")
            await self.pause()
        self._runs = False
        agent.answers(prompt, {"stopReason": "end_turn"})


async def say(stage: Stage, dice: random.Random, bodies: list[str]) -> None:
    session = await stage.session()
    for body in bodies:
        await session.remind(body, mode=dice.choice(MODES))
        await asyncio.sleep(dice.choice((0, 0.001, 0.004)))


@pytest.mark.parametrize("seed", range(8))
@in_time
async def test_whatever_overlaps_the_agent_takes_each_reminder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(proxy_session, "SETTLED_SECONDS", 0.0)
    dice = random.Random(seed)  # noqa: S311 - a schedule that can be repeated
    bodies = [f"fact {number};" for number in range(ITEMS)]
    async with an_open_session(tmp_path) as stage:
        agent = MoodyAgent(stage, dice)
        living = asyncio.ensure_future(agent.live())
        saying = asyncio.ensure_future(say(stage, dice, bodies))
        while not saying.done() or await (await stage.session()).waiting():
            await stage.editor.answer_to(stage.request("session/prompt", sessionId="s1", prompt=[text_block("go")]))
        # What the agent did not take is owed; a prompt that it runs takes the rest.
        for _ in range(10):
            await stage.editor.answer_to(stage.request("session/prompt", sessionId="s1", prompt=[text_block("go")]))
        living.cancel()
        records = (await stage.session()).talk.state.records
    taken = Counter(body for text, times in agent.took.items() for body in bodies if body in text for _ in range(times))
    assert taken == Counter(bodies)
    assert "handover" not in records
