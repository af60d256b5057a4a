"""The wire recorder records every request and reply, and changes nothing."""

import asyncio
from typing import NamedTuple

import pytest

from sideband.core.messages import Reply
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.ports import Model, ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.agents import llm_call
from sideband.testing import Exchange, ScriptedModel, WireRecorder
from tests.loop_builders import AScene, a_reply, hang, others


class Sent(NamedTuple):
    """A request with a body, as the models of a wire make it."""

    body: bytes


class AWireModel(ScriptedModel):
    """A scripted model that has a wire."""

    def plan(self, view: RequestView) -> Plan:
        self.planned = super().plan(view)
        return Plan(shown=self.planned.shown, request=Sent(b'{"turn":%d}' % view.turn))

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        assert isinstance(plan.request, Sent)
        return await super().complete(self.planned, on_text)


def recorded(model: Model, scene: AScene | None = None) -> WireRecorder:
    """The record of a run on that model."""
    recorder = WireRecorder(model)
    asyncio.run((scene or AScene()).play(model=recorder))
    return recorder


def test_every_request_is_recorded_with_its_reply() -> None:
    recorder = recorded(ScriptedModel([a_reply("work", text="First."), "Then."]))
    first, then = recorder.exchanges
    assert [exchange.reply.text for exchange in (first, then) if exchange.reply] == ["First.", "Then."]
    assert (first.error, then.error) == (None, None)
    assert (first.view.turn, then.view.turn) == (1, 2)


def test_a_view_is_kept_as_it_was() -> None:
    scene = AScene()

    async def main() -> WireRecorder:
        await scene.session.remind("once", ttl_turns=1)
        recorder = WireRecorder(ScriptedModel([a_reply("work"), "Done."]))
        await scene.play(model=recorder)
        await scene.session.remind("later")
        return recorder

    first, then = asyncio.run(main()).exchanges
    assert [len(exchange.view.messages) for exchange in (first, then)] == [1, 3]
    assert [[item.reminder.body for item in exchange.view.live] for exchange in (first, then)] == [["once"], []]
    assert (len(first.shown), then.shown) == (1, ())


def test_a_body_is_kept_byte_for_byte() -> None:
    recorder = recorded(AWireModel([a_reply("work"), "Done."]))
    assert [exchange.body for exchange in recorder.exchanges] == [b'{"turn":1}', b'{"turn":2}']
    assert recorder.bodies == [{"turn": 1}, {"turn": 2}]


def test_a_model_without_a_wire_has_no_bodies() -> None:
    recorder = recorded(ScriptedModel())
    assert recorder.bodies == [None]


def test_a_request_that_is_sent_again_is_recorded_again() -> None:
    broken = ModelError("busy", status=503)
    recorder = recorded(ScriptedModel([broken, "Done."]))
    first, again = recorder.exchanges
    assert first.plan is again.plan
    assert (first.error, first.reply) == (broken, None)
    assert (again.error, again.reply and again.reply.text) == (None, "Done.")


def test_a_reply_that_was_not_waited_for_is_recorded_as_such() -> None:
    scene = AScene()

    async def main() -> Exchange:
        recorder = WireRecorder(ScriptedModel([lambda _view: hang()]))
        run = await scene.begin(model=recorder)
        driving = asyncio.create_task(run.finish())
        await others()
        run.cancel()
        assert (await driving).status is LoopStatus.CANCELLED
        return recorder.exchanges[0]

    exchange = asyncio.run(main())
    assert isinstance(exchange.error, asyncio.CancelledError)
    assert exchange.reply is None


@pytest.mark.parametrize("script", [["Done."], [a_reply("work"), "Done."], [ModelError("no")]])
def test_a_run_is_the_same_with_a_recorder_and_without(script: list[Line]) -> None:
    watched, alone = AScene(), AScene()
    recorder = recorded(ScriptedModel(script, context_window=100), watched)
    asyncio.run(alone.play(model=ScriptedModel(script, context_window=100)))
    assert watched.journal == alone.journal
    assert recorder.context_window == 100


def test_text_arrives_while_it_is_recorded() -> None:
    heard: list[str] = []
    reply = asyncio.run(llm_call("Hello?", model=WireRecorder(ScriptedModel(["Hello."])), on_text=heard.append))
    assert (heard, reply.text) == (["Hello."], "Hello.")


def test_several_calls_at_once_are_not_mixed_up() -> None:
    async def main() -> list[tuple[str, str]]:
        recorder = WireRecorder(ScriptedModel([lambda view: str(view.messages[0]["content"])] * 3))
        await asyncio.gather(*(llm_call(word, model=recorder) for word in ("one", "two", "three")))
        return [
            (str(exchange.view.messages[0]["content"]), exchange.reply.text if exchange.reply else "")
            for exchange in recorder.exchanges
        ]

    assert asyncio.run(main()) == [("one", "one"), ("two", "two"), ("three", "three")]
