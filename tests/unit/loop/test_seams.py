"""At which seam, and in which request, an item appears that is accepted at some moment of a run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from sideband.core.errors import NoRunningTurn
from sideband.core.events import Checkpoint, InjectDelivered
from sideband.core.messages import Reply, ToolCall
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.loop.run import LoopResult, Step
from sideband.render.view import RequestView
from tests.loop_builders import AScene, ATool, a_reply, others, same_state, unanswered_calls, until

BODY = "The deploy is frozen."
Accept = Callable[[], Awaitable[None]]


class Fate(NamedTuple):
    """What became of the item: the seam that took it, the first request that has it (0: none), and whether tools ran."""

    seam: Seam | str | None
    request: int
    tool_ran: bool = True


STAYS = Fate(None, 0)
REFUSED = Fate("refused", 0)
AUDITED = Fate(Seam.LOOP_EXIT, 0)
ITS_OWN_TURN = "starts a turn"

# A run of two turns: the first calls a tool, the second is the end. A queued message is answered in a third.
REMINDERS = {
    "before-the-loop": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.ITERATION_START, 1),
        Mode.FINISH_STEP: Fate(Seam.ITERATION_START, 1),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "while-the-model-answers": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.PRE_TOOL_DISPATCH, 2, tool_ran=False),
        Mode.FINISH_STEP: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "in-a-hook-before-the-tools": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.PRE_TOOL_DISPATCH, 2, tool_ran=False),
        Mode.FINISH_STEP: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "during-a-permission-wait": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.FINISH_STEP: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "while-a-tool-runs": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.FINISH_STEP: Fate(Seam.POST_TOOL_DISPATCH, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "in-a-hook-after-the-tools": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.ITERATION_END, 2),
        Mode.FINISH_STEP: Fate(Seam.ITERATION_END, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "in-a-hook-between-turns": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.ITERATION_START, 2),
        Mode.FINISH_STEP: Fate(Seam.ITERATION_START, 2),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "while-the-model-gives-its-last-answer": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.ITERATION_END, 3),
        Mode.FINISH_STEP: Fate(Seam.ITERATION_END, 3),
        Mode.AUDIT_ONLY: AUDITED,
    },
    "before-the-daemon-idles": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.DAEMON_IDLE_PRE, 3),
        Mode.FINISH_STEP: STAYS,
        Mode.AUDIT_ONLY: AUDITED,
    },
    "while-the-daemon-idles": {
        Mode.INTERRUPT_IMMEDIATE: Fate(Seam.DAEMON_IDLE_POST, 3),
        Mode.FINISH_STEP: STAYS,
        Mode.AUDIT_ONLY: AUDITED,
    },
    "after-the-last-check": {
        Mode.INTERRUPT_IMMEDIATE: STAYS,
        Mode.FINISH_STEP: STAYS,
        Mode.AUDIT_ONLY: STAYS,
    },
}

# Where no turn runs, a message that wants one is refused.
IDLE = frozenset({"before-the-loop", "before-the-daemon-idles", "while-the-daemon-idles", "after-the-last-check"})
QUEUED = {"before-the-loop": Fate(ITS_OWN_TURN, 1), "after-the-last-check": STAYS}
MESSAGES = {
    moment: {
        InjectMode.STEER: REFUSED if moment in IDLE else fates[Mode.FINISH_STEP],
        InjectMode.FINISH_STEP: REFUSED if moment in IDLE else fates[Mode.FINISH_STEP],
        InjectMode.INTERRUPT_IMMEDIATE: REFUSED if moment in IDLE else fates[Mode.INTERRUPT_IMMEDIATE],
        InjectMode.AUDIT_ONLY: fates[Mode.AUDIT_ONLY],
        InjectMode.QUEUE: QUEUED.get(moment, Fate(ITS_OWN_TURN, 3)),
    }
    for moment, fates in REMINDERS.items()
}


class Moment:
    """A scene in which something is accepted at one moment, once."""

    def __init__(self, moment: str) -> None:
        self.moment = moment
        self.tool = ATool(do=self._in_the_tool)
        self.scene = AScene(self.tool)
        self.accept: Accept | None = None
        self.scene.says(self._first_answer, self._last_answer)
        for name, event in (
            ("in-a-hook-before-the-tools", "post_turn"),
            ("in-a-hook-after-the-tools", "post_step"),
            ("after-the-last-check", "post_finish"),
        ):
            self.scene.hooks.register_session_hook(event, self._hook(name))
        self.scene.hooks.register_step_hook(pre=self._between_turns)

    async def play(self, accept: Accept) -> LoopResult:
        self.accept = accept
        await self._at("before-the-loop")
        daemon = self.moment.endswith("the-daemon-idles")
        run = await self.scene.begin(permission=self, daemon=daemon)
        if not daemon:
            return await run.finish()
        if self.moment == "before-the-daemon-idles":
            await until(run, Step.IDLE)
            await self._at("before-the-daemon-idles")
        driving = asyncio.create_task(run.finish())
        await others()
        await self._at("while-the-daemon-idles")
        await others()
        run.stop()
        return await driving

    async def _at(self, moment: str) -> None:
        if moment == self.moment and self.accept is not None:
            accept, self.accept = self.accept, None
            await accept()

    async def _first_answer(self, _view: RequestView) -> Reply:
        await self._at("while-the-model-answers")
        return a_reply("work")

    async def _last_answer(self, _view: RequestView) -> str:
        await self._at("while-the-model-gives-its-last-answer")
        return "It is mended."

    async def _in_the_tool(self, *_: object) -> str:
        await self._at("while-a-tool-runs")
        return "done"

    async def ask(self, _call: ToolCall) -> None:
        """Grant the permission after a while."""
        await self._at("during-a-permission-wait")

    def _hook(self, moment: str) -> Callable[[object], Awaitable[None]]:
        async def hook(_context: object) -> None:
            await self._at(moment)

        return hook

    async def _between_turns(self, _context: object) -> None:
        if self.scene.model.requests:
            await self._at("in-a-hook-between-turns")


def _rows(table: Mapping[str, Mapping[Any, Fate]]) -> list[Any]:
    return [
        pytest.param(moment, mode, fate, id=f"{mode}-{moment}")
        for moment, fates in table.items()
        for mode, fate in fates.items()
    ]


def _became_of(moment: Moment, item_id: str) -> Fate:
    scene = moment.scene
    seam: Seam | str | None = scene.seam_of(item_id)
    if seam is None and any(event.message_id == item_id for event in scene.events(InjectDelivered)):
        seam = ITS_OWN_TURN
    shown = scene.requests_with(BODY)
    return Fate(seam, shown[0] if shown else 0, bool(moment.tool.calls))


@pytest.mark.parametrize(("when", "mode", "fate"), _rows(REMINDERS))
def test_a_reminder_is_drained_at_the_first_seam_that_takes_its_mode(when: str, mode: Mode, fate: Fate) -> None:
    moment, ids = Moment(when), []

    async def accept() -> None:
        ids.append((await moment.scene.session.remind(BODY, mode=mode)).reminder_id)

    result = asyncio.run(moment.play(accept))
    assert _became_of(moment, ids[0]) == fate
    assert [item.id for item in result.undelivered] == (ids if fate == STAYS else [])
    assert unanswered_calls(moment.scene.state.messages) == []
    assert same_state(moment.scene)


@pytest.mark.parametrize(("when", "mode", "fate"), _rows(MESSAGES))
def test_a_message_is_drained_where_its_mode_says(when: str, mode: InjectMode, fate: Fate) -> None:
    moment, ids = Moment(when), []

    async def accept() -> None:
        try:
            ids.append(await moment.scene.session.inject(BODY, mode=mode))
        except NoRunningTurn:
            ids.append("refused")

    result = asyncio.run(moment.play(accept))
    assert (REFUSED if ids == ["refused"] else _became_of(moment, ids[0])) == fate
    assert [item.id for item in result.undelivered] == (ids if fate == STAYS else [])
    assert unanswered_calls(moment.scene.state.messages) == []
    assert same_state(moment.scene)


def test_both_tables_are_total() -> None:
    assert all(set(row) == set(Mode) for row in REMINDERS.values())
    assert all(set(row) == set(InjectMode) for row in MESSAGES.values())
    drained = {fate.seam for table in (REMINDERS, MESSAGES) for row in table.values() for fate in row.values()}
    assert drained >= set(Seam) - {Seam.PRE_COMPACT, Seam.POST_COMPACT}


def test_inside_one_drain_interrupts_come_first_and_what_a_person_wrote_last() -> None:
    scene = AScene()

    async def answer(_view: RequestView) -> Reply:
        await scene.session.inject("steered", mode="steer")
        await scene.session.remind("first fact", mode="finish_step")
        await scene.session.remind("second fact", mode="finish_step")
        return a_reply("work")

    async def tool(*_: object) -> str:
        await scene.session.remind("urgent fact", mode="interrupt_immediate")
        return "done"

    scene.tools = (ATool(do=tool),)
    scene.says(answer)
    asyncio.run(scene.play())
    checkpoint = next(event for event in scene.events(Checkpoint) if event.seam is Seam.POST_TOOL_DISPATCH)
    assert len(checkpoint.ids) == 4
    text = scene.model.requests[1].text
    reminders = [text.index(body) for body in ("urgent fact", "first fact", "second fact")]
    assert reminders == sorted(reminders)
    assert scene.state.messages[-2]["content"] == [{"type": "text", "text": "steered"}]
