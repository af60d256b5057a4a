"""One turn: planned, sent, streamed, retried, and sent again by another process."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from sideband.core.accept import Selector, clear
from sideband.core.events import (
    DropReason,
    Event,
    Fired,
    InjectAccepted,
    InjectDelivered,
    Injected,
    QueuedMessage,
    RequestCommitted,
    Started,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.core.messages import Reply, ToolCall
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode
from sideband.core.state import Decision
from sideband.core.trust import IN_PROCESS
from sideband.core.turn import OpenedTurn, Shown, Unusable, close
from sideband.loop.cancel import CancelScope
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem
from sideband.loop.run import LoopResult, LoopStatus
from sideband.loop.turn import MAX_ATTEMPTS, RequestSender, TurnRunner
from sideband.models.scripted import Line
from sideband.ports import Lease, ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView, SystemText
from sideband.testing import CountingIds, FakeClock, MemoryStore, ScriptedModel, run_schedule
from tests.decisions import deciding, saying
from tests.loop_builders import AScene, ATool, a_call, a_reply, hang, same_state, unanswered_calls

_Value = TypeVar("_Value")


def raising(error: Exception) -> Line:
    def line(_view: RequestView) -> str:
        raise error

    return line


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelError("lost", retryable=True), id="what-says-so-itself"),
        *(
            pytest.param(ModelError("no", status=status), id=str(status))
            for status in (408, 409, 429, 500, 503, 529, 599)
        ),
        pytest.param(ConnectionResetError("by peer"), id="a-lost-connection"),
        pytest.param(TimeoutError("slow"), id="a-time-out"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    scene = AScene()
    scene.says(raising(error), "Done.")
    result = asyncio.run(scene.play())
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "Done.", 1)
    assert len(scene.model.requests) == 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelError("no", retryable=False, status=503), id="what-says-so-itself"),
        *(pytest.param(ModelError("no", status=status), id=str(status)) for status in (400, 401, 404, 413, 422, 600)),
        pytest.param(ModelError("no"), id="without-a-status"),
        pytest.param(KeyError("choices"), id="a-bug-of-the-adapter"),
        pytest.param(asyncio.CancelledError(), id="a-cancellation-of-its-own"),
    ],
)
def test_what_will_not_pass_fails_at_once(error: Exception) -> None:
    scene = AScene()
    scene.says(raising(error), "never said")
    result = asyncio.run(scene.play())
    assert (result.status, result.turns, len(scene.model.requests)) == (LoopStatus.FAILED, 0, 1)
    assert result.error


def test_a_request_is_sent_at_most_five_times_with_longer_and_longer_pauses() -> None:
    scene = AScene()
    scene.says(*[ModelError("busy", status=503)] * 10)
    result = asyncio.run(scene.play())
    assert (result.status, result.error) == (LoopStatus.FAILED, "busy")
    assert len(scene.model.requests) == MAX_ATTEMPTS == 5
    assert scene.clock.monotonic() == 0.5 + 1 + 2 + 4


@pytest.mark.parametrize(
    ("retry_after", "pauses"),
    [
        pytest.param(20, 20 + 20, id="as-long-as-it-wants"),
        pytest.param(0.75, 0.75 + 1, id="but-no-shorter-than-without"),
        pytest.param(3_600, 60 + 60, id="and-no-longer-than-a-minute"),
    ],
)
def test_a_service_that_wants_to_be_left_alone_is(retry_after: float, pauses: float) -> None:
    scene = AScene()
    scene.says(*[ModelError("busy", status=429, retry_after=retry_after)] * 2, "Done.")
    result = asyncio.run(scene.play())
    assert (result.text, scene.clock.monotonic()) == ("Done.", pauses)


def test_every_attempt_is_on_record_under_one_turn_and_what_it_shows_fires_once() -> None:
    scene = AScene()
    scene.says(ModelError("busy", status=503), ModelError("busy", status=503), "Done.")

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=1)
        await scene.play()

    asyncio.run(main())
    assert [(event.turn, event.attempt) for event in scene.events(RequestCommitted)] == [(1, 1), (1, 2), (1, 3)]
    assert [event.turn for event in scene.events(Fired)] == [1]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert scene.requests_with("a fact") == [1, 2, 3]


def test_a_retry_sends_what_was_planned_whatever_came_since() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.remind("too late for this one", mode="interrupt_immediate")
        raise ModelError("busy", status=503)

    scene.says(line, "Done.")
    asyncio.run(scene.play())
    assert scene.requests_with("too late for this one") == [3]


class StoreWithRival(MemoryStore):
    """A store in which another process commits first, once `rival` is set."""

    rival: Decision[tuple[Event, ...]] | None = None

    def awaits_a_chance(self) -> bool:
        return self.rival is not None

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        if self.rival is not None:
            events = await super().commit(session_id, self.rival, lease=lease, receipts=receipts)
            if events:
                self.rival = None
        return await super().commit(session_id, decide, lease=lease, receipts=receipts)


def test_a_request_is_planned_again_if_its_session_changed_before_the_commit() -> None:
    store = StoreWithRival()
    store.rival = deciding(lambda state: clear(state, Selector(tag="t"), IN_PROCESS).events)
    scene = AScene(store=store)

    async def main() -> None:
        await scene.session.remind("cleared just in time", tags=["t"])
        await scene.play()

    asyncio.run(main())
    assert not store.awaits_a_chance()
    assert (scene.requests_with("cleared just in time"), scene.events(Fired)) == ([], [])


def test_a_slow_model_is_a_time_out() -> None:
    scene = AScene()
    scene.says(lambda _view: hang(), "Done.")
    result = run_schedule(1, lambda: scene.play(model_seconds=60))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_turn_that_somebody_else_has_ended_is_not_revived_by_trying_again(how: str) -> None:
    tool, heard = ATool(), list[int]()
    scene = AScene(tool)
    scene.says(ModelError("busy", status=503), a_reply("work"), "never said")

    class Meanwhile(FakeClock):
        async def sleep(self, _seconds: float) -> None:
            if how == "cancelled":
                await scene.session.talk.cancel()
            else:
                await scene.store.commit("main", close)

    def restarted(attempt: int, _error: ModelError) -> None:
        heard.append(attempt)

    result = asyncio.run(scene.play(clock=Meanwhile(), on_restart=restarted))
    assert (result.status, result.turns, len(scene.model.requests)) == (LoopStatus.CANCELLED, 0, 1)
    assert (tool.calls, heard) == ([], [])
    assert [event.attempt for event in scene.events(RequestCommitted)] == [1]
    assert same_state(scene)


# Failing for good.


def test_a_turn_that_failed_for_good_never_happened_and_a_later_run_works() -> None:
    scene = AScene()
    scene.says(ModelError("bad request", status=400), "Done.")
    errors: list[str] = []

    async def hook(context: dict[str, str]) -> dict[str, str]:
        errors.append(context["error"])
        return {"body": "the last request failed"}

    scene.hooks.register_session_hook("session_error", hook)

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=1)
        result = await scene.play()
        assert (result.status, result.error, result.turns) == (LoopStatus.FAILED, "bad request", 0)
        assert (scene.state.running, scene.state.request) == (False, None)
        assert (await scene.play("Again.")).status is LoopStatus.COMPLETED

    asyncio.run(main())
    assert errors == ["bad request"]
    assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert scene.requests_with("a fact") == [1, 2]
    assert scene.requests_with("the last request failed") == [2]


def test_a_request_that_cannot_be_built_is_not_on_record() -> None:
    class Broken:
        context_window = None

        def plan(self, _view: RequestView) -> Plan:
            raise ValueError("no such role")

        async def complete(self, _plan: Plan, _on_text: OnText | None = None) -> Reply:
            raise AssertionError("nothing to send")

    scene = AScene()
    result = asyncio.run(scene.play(model=Broken()))
    assert (result.status, result.error) == (
        LoopStatus.FAILED,
        "no request could be built: ValueError: no such role",
    )
    assert scene.events(RequestCommitted) == []


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param(None, "returned NoneType instead of a Reply", id="nothing"),
        pytest.param({"text": "hi"}, "returned dict instead of a Reply", id="a-mapping"),
        pytest.param(Reply(text=None, usage=Usage(prompt_tokens=1)), "cannot be stored", id="text-that-is-none"),  # type: ignore[arg-type]
        pytest.param(
            Reply(tool_calls=(ToolCall(id="1", name="work", args=None),)),  # type: ignore[arg-type]
            "cannot be stored",
            id="arguments-that-are-none",
        ),
        pytest.param(
            Reply(tool_calls=(ToolCall(id="1", name="work", args={"at": object()}),)),
            "cannot be stored",
            id="arguments-no-journal-can-hold",
        ),
        pytest.param(Reply(text="x" * 10_000_001), "10,000,131 bytes", id="far-too-long"),
        pytest.param(a_reply(a_call(text="x" * 10_000_001)), "bytes", id="arguments-that-are-far-too-long"),
        pytest.param(a_reply(a_call(call_id="x" * 1_025)), "a name of 4 and an id of 1,025 characters", id="a-long-id"),
        pytest.param(a_reply(a_call("x" * 257)), "a name of 257 and an id of 2 characters", id="a-long-name"),
        pytest.param(a_reply(*["work"] * 257), "257 calls at once", id="far-too-many-calls"),
        pytest.param(
            Reply(usage=Usage(prompt_tokens=1, written_tokens=-5)),
            "a negative number of tokens",
            id="a-negative-number-of-tokens",
        ),
    ],
)
def test_a_reply_that_cannot_be_kept_is_a_failure(answer: object, complaint: str) -> None:
    scene = AScene()
    scene.says(lambda _view: answer)  # type: ignore[arg-type, return-value]  # nonsense is the point
    result = asyncio.run(scene.play())
    assert result.status is LoopStatus.FAILED
    assert complaint in str(result.error)


def test_what_no_json_can_hold_of_a_call_is_replaced() -> None:
    scene = AScene(ATool("work"))
    scene.says(a_reply(a_call("work", "a\ud800", **{"\ud800": ["\ud800", 1]})))
    asyncio.run(scene.play())
    assert scene.tools[0].calls == [{"?": ["?", 1]}]
    assert scene.results() == [("a?", "ok")]
    assert msgspec.json.encode(scene.state.messages)


class Planning(ScriptedModel):
    """Plans nonsense."""

    def __init__(self, planned: Any) -> None:  # noqa: ANN401 - nonsense is the point
        super().__init__()
        self._planned = planned

    def plan(self, _view: RequestView) -> Plan:
        if isinstance(self._planned, BaseException):
            raise self._planned
        plan: Plan = self._planned
        return plan


@pytest.mark.parametrize(
    ("planned", "complaint"),
    [
        pytest.param(None, "returned NoneType, not a Plan", id="nothing"),
        pytest.param(Plan(shown=None), "shown must be a tuple, not None", id="nothing-that-it-shows"),  # type: ignore[arg-type]
        pytest.param(Plan(left_out=iter(())), "left_out must be a tuple", id="an-iterator"),  # type: ignore[arg-type]
        pytest.param(Plan(route=None), "route must be a string, not None", id="no-route"),  # type: ignore[arg-type]
        pytest.param(Plan(shown=(1,)), "the plan shows 1, which is not live", id="a-number-that-it-shows"),  # type: ignore[arg-type]
        pytest.param(Plan(shown=(Shown("gone", "user"),)), "not live", id="what-is-not-there"),
        pytest.param(Plan(left_out=("gone",)), "not live", id="leaves-out-what-is-not-there"),
        pytest.param(Plan(unusable=(Unusable("gone", DropReason.INVALID),)), "not live", id="drops-what-is-not-there"),
        pytest.param(Plan(unusable=("gone",)), "Unusables", id="what-is-no-reason"),  # type: ignore[arg-type]
        pytest.param(Plan(fragments=("text",)), "Fragments", id="what-is-no-fragment"),  # type: ignore[arg-type]
        pytest.param(Plan(advice=("003",)), "Advices", id="what-is-no-advice"),  # type: ignore[arg-type]
        pytest.param(Plan(head="anthropic"), "a RequestHead", id="what-is-no-head"),  # type: ignore[arg-type]
        pytest.param(SystemExit(3), "SystemExit: 3", id="an-exit"),
    ],
)
def test_a_plan_that_is_none_is_a_failure_before_anything_is_on_record(planned: object, complaint: str) -> None:
    scene = AScene()

    async def main() -> LoopResult:
        await scene.session.remind("a fact")
        return await scene.play(model=Planning(planned))

    result = asyncio.run(main())
    assert result.status is LoopStatus.FAILED
    assert str(result.error).startswith("no request could be built")
    assert complaint in str(result.error)
    assert scene.events(RequestCommitted) == []


def test_calls_with_the_same_id_get_a_result_each() -> None:
    scene = AScene()
    calls = [a_call(call_id=call_id) for call_id in ("a", "a", "a'", "a", "b")]
    scene.says(a_reply(*calls))
    asyncio.run(scene.play())
    assert [call_id for call_id, _ in scene.results()] == ["a", "a'", "a''", "a'''", "b"]
    assert unanswered_calls(scene.state.messages) == []


def test_text_that_no_journal_can_hold_is_replaced() -> None:
    scene = AScene()
    scene.says("half a \ud83d character, a whole 日本 one")
    asyncio.run(scene.play())
    assert scene.state.messages[-1]["content"] == "half a ? character, a whole 日本 one"


# Listening.


@pytest.mark.parametrize("awaits", [False, True], ids=["a-function", "a-coroutine"])
def test_text_is_streamed_as_it_arrives(awaits: bool) -> None:  # noqa: FBT001 - a parameter of the table
    heard: list[str] = []

    async def slowly(text: str) -> None:
        heard.append(text)

    scene = AScene()
    scene.says(a_reply("work", text="I work."), "Done.")
    asyncio.run(scene.play(on_text=slowly if awaits else heard.append))
    assert heard == ["I work.", "Done."]


class Stuttering:
    """Streams its reply in two pieces; the first time it breaks off between them."""

    context_window = None

    def __init__(self) -> None:
        self.attempts = 0

    def plan(self, _view: RequestView) -> Plan:
        return Plan()

    async def complete(self, _plan: Plan, on_text: OnText | None = None) -> Reply:
        self.attempts += 1
        for piece in ("Do", "ne."):
            told = None if on_text is None else on_text(piece)
            if told is not None:
                await told
            if self.attempts == 1:
                raise ModelError("connection lost", retryable=True)
        return Reply(text="Done.", usage=Usage(prompt_tokens=1))


def test_a_listener_that_fails_is_reported_once_and_costs_no_reply() -> None:
    heard: list[str] = []

    def fail(*what: object) -> None:
        heard.append(str(what[0]))
        raise BrokenPipeError("nobody there")

    def fail_at_the_second(text: str) -> None:
        if heard:
            fail(text)
        heard.append(text)

    scene = AScene()
    result = asyncio.run(scene.play(model=Stuttering(), on_text=fail_at_the_second, on_restart=fail))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")
    assert heard == ["Do", "2", "Do"]
    assert result.problems == (
        Problem("on_restart", "BrokenPipeError: nobody there"),
        Problem("on_text", "BrokenPipeError: nobody there"),
    )


@pytest.mark.parametrize("model_seconds", [600, 1], ids=["a-patient-run", "a-run-in-a-hurry"])
def test_a_listener_that_hangs_is_reported_and_nobody_takes_it_for_a_slow_model(model_seconds: float) -> None:
    scene = AScene()
    scene.says("Hello.", "never said")
    result = run_schedule(1, lambda: scene.play(on_text=hang, model_seconds=model_seconds))
    assert (result.status, result.text, len(scene.model.requests)) == (LoopStatus.COMPLETED, "Hello.", 1)
    assert result.problems == (Problem("on_text", f"hang took longer than {min(5, model_seconds / 2):g} s"),)


def test_a_coroutine_that_is_told_of_a_restart_is_awaited() -> None:
    heard: list[int] = []

    async def restarted(attempt: int, _error: ModelError) -> None:
        await asyncio.sleep(0)
        heard.append(attempt)

    scene = AScene()
    scene.says(ModelError("busy", status=503), "Done.")
    asyncio.run(scene.play(on_restart=restarted))
    assert heard == [2]


# Sending a request again that a dead process left open.


NOTE = Reminder(id=ReminderId("r"), body="note")
FRAGMENT = Fragment(anchor=1, form=Form.TEXT, role="user", scope=Lifetime.VOLATILE, text="note", reminders=("r",))


def a_conversation() -> Conversation:
    return Conversation(MemoryStore(), "main", new_id=CountingIds("id"))


def told(text: str) -> Iterable[Event]:
    """A user message that starts a turn."""
    message = QueuedMessage(message_id=text, content=(), mode=InjectMode.QUEUE, provenance=IN_PROCESS)
    return (InjectAccepted(item=message), Started(), InjectDelivered(message_id=text, content=()))


class ARoute:
    """A model that plans requests for one route, and remembers what it was asked to send again."""

    def __init__(self, route: str) -> None:
        self.route = route
        self.asked: list[tuple[Fragment, ...] | None] = []

    @property
    def context_window(self) -> None:
        return None

    def plan(self, view: RequestView) -> Plan:
        self.asked.append(view.again)
        shown = tuple(Shown(item.id, "user") for item in view.live)
        return Plan(shown=shown, route=self.route, fragments=(FRAGMENT,) if view.again is None else view.again)

    async def complete(self, plan: Plan, on_text: object = None) -> Reply:
        """Never reached: the process dies first."""
        raise NotImplementedError


async def opened(talk: Conversation, model: ARoute) -> tuple[OpenedTurn, Plan]:
    """Open the next request, as a turn does."""
    sender = RequestSender(model, FakeClock(), CancelScope(), print, seconds=1, listener_seconds=1)
    runner = TurnRunner(talk, model, sender, print, system=SystemText())
    return await talk.open_request(runner._plan)


async def left_open(*, route: str = "here") -> tuple[Conversation, OpenedTurn]:
    talk = a_conversation()
    await talk.commit(saying(*told("hello"), Injected(reminder=NOTE, provenance=IN_PROCESS)))
    first, _ = await opened(talk, ARoute(route))
    return talk, first


def written(talk: Conversation) -> list[Event]:
    assert isinstance(talk.journal, MemoryStore)
    return [logged.event for logged in talk.journal.journal]


def test_with_nothing_said_since_the_same_request_leaves_again() -> None:
    async def scene() -> None:
        talk, first = await left_open()
        await talk.recover()
        await talk.commit(saying(Started()))
        model = ARoute("here")
        again, plan = await opened(talk, model)
        assert model.asked == [(FRAGMENT,)]
        assert (again.turn, again.attempt, plan.fragments) == (first.turn, 2, (FRAGMENT,))
        assert written(talk)[-1] == RequestCommitted(turn=1, attempt=2)
        assert sum(isinstance(event, Fired) for event in written(talk)) == 1

    asyncio.run(scene())


def test_after_a_word_of_the_user_it_is_void_and_planned_again() -> None:
    async def scene() -> None:
        talk, _ = await left_open()
        await talk.recover()
        await talk.commit(saying(Started()))
        await talk.commit(saying(*told("and another thing")))
        model = ARoute("here")
        again, _ = await opened(talk, model)
        assert model.asked == [None]
        assert (again.turn, again.attempt) == (1, 1)
        assert TurnVoided(turn=1) in written(talk)
        assert sum(isinstance(event, Fired) for event in written(talk)) == 2

    asyncio.run(scene())


def test_on_another_route_it_is_void_and_planned_again() -> None:
    async def scene() -> None:
        talk, _ = await left_open()
        model = ARoute("there")
        again, _ = await opened(talk, model)
        assert model.asked == [(FRAGMENT,), None]
        assert (again.turn, again.attempt) == (1, 1)
        assert TurnVoided(turn=1) in written(talk)

    asyncio.run(scene())


def test_a_model_without_routes_is_never_asked_to_repeat_itself() -> None:
    async def scene() -> None:
        talk, _ = await left_open(route="")
        model = ARoute("")
        await opened(talk, model)
        assert model.asked == [None]

    asyncio.run(scene())
