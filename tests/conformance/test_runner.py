"""The runner: which run a queued message gets, in which process, and how its turn ended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from sideband.core.events import Idled, InjectDelivered, RequestCommitted, Started, TurnCommitted
from sideband.core.messages import Reply
from sideband.loop.cancel import GRACE_SECONDS
from sideband.loop.run import LoopResult, LoopStatus
from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.render.view import RequestView
from sideband.runtime.runner import RETRY_SECONDS, Outcome, Runner, TurnStatus
from sideband.runtime.session import Session
from sideband.testing import MemoryStore
from tests.agents import awaited
from tests.decisions import saying
from tests.loop_builders import AScene, ATool, a_reply, a_session, hang, others
from tests.waiting import until

LEASE_SECONDS: Final = 30.0


class Office(AScene):
    """A scene whose prompts are run by runners."""

    def __init__(self, *script: Line, tools: tuple[ATool, ...] = (), store: MemoryStore | None = None) -> None:
        super().__init__(*tools, store=store)
        self.says(*script)
        self.told: list[tuple[str | None, LoopResult]] = []

    def runner(self, session: Session | None = None, **options: Any) -> Runner:  # noqa: ANN401 - those of a runner
        defaults: dict[str, Any] = {
            "model": self.model,
            "tools": self.tools,
            "hooks": self.hooks,
            "providers": self.providers,
            "reminders": False,
            "on_result": lambda message_id, result: self.told.append((message_id, result)),
        }
        return Runner(session or self.session, **(defaults | options))

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Runner]:  # noqa: ANN401 - those of a runner
        async with self.runner(**options) as runner:
            yield runner

    async def answered(self, runner: Runner, *texts: str) -> list[Outcome]:
        """Send these prompts and wait for the outcome of each."""
        ids = [await self.session.prompt(text) for text in texts]
        return [await runner.outcome(message_id) for message_id in ids]


def waiting(scene: AScene) -> tuple[Line, asyncio.Event, asyncio.Event]:
    """A model call that tells when it has begun, and answers when it is released."""
    begun, released = asyncio.Event(), asyncio.Event()

    async def line(_view: RequestView) -> str:
        begun.set()
        await released.wait()
        return f"Done with {scene.state.prompt}."

    return line, begun, released


# Prompts.


@pytest.mark.requirement("runner:prompt:one-run-each")
@awaited
async def test_every_queued_message_has_a_run_of_its_own_in_order() -> None:
    office = Office(a_reply("work"), "One.", a_reply("work"), "Two.")
    async with office.open(max_turns=2) as runner:
        outcomes = await office.answered(runner, "first", "second")
        await others()
    assert [outcome.status for outcome in outcomes] == ["completed", "completed"]
    assert [(result.status, result.turns, result.text) for _, result in office.told] == [
        (LoopStatus.COMPLETED, 2, "One."),
        (LoopStatus.COMPLETED, 2, "Two."),
    ]
    started = [event.message_id for event in office.events(Started)]
    assert [message_id for message_id, _ in office.told] == started
    assert (office.requests_with("first")[0], office.requests_with("second")[0]) == (1, 3)


@pytest.mark.requirement("runner:prompt:content-blocks")
@awaited
async def test_a_prompt_of_several_blocks_reaches_the_model_whole() -> None:
    blocks = [{"type": "text", "text": "Look at this."}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    office = Office("I see.")
    async with office.open() as runner:
        message_id = await office.session.prompt(blocks)
        assert (await runner.outcome(message_id)).status == "completed"
    (request,) = office.model.requests
    assert request.messages[0] == {"role": "user", "id": message_id, "content": blocks}


@pytest.mark.requirement("runner:prompt:withdrawn-costs-no-request")
@pytest.mark.parametrize("how", ["before-the-runner", "while-its-run-begins"])
@awaited
async def test_a_withdrawn_prompt_causes_no_request(how: str) -> None:
    office = Office()

    async def revoke(_context: object) -> None:
        await office.session.revoke(message_id)

    if how == "while-its-run-begins":
        office.hooks.register_session_hook("session_start", revoke)
    message_id = await office.session.prompt("Never mind.")
    if how == "before-the-runner":
        await office.session.revoke(message_id)
    async with office.open() as runner:
        assert await runner.outcome(message_id) == Outcome(TurnStatus.CANCELLED)
        await others()
    assert (office.model.requests, office.events(Started), office.events(InjectDelivered)) == ([], [], [])
    assert not office.state.running


@pytest.mark.requirement("runner:prompt:steer-waits-for-its-turn")
@awaited
async def test_a_steer_right_after_a_prompt_is_in_the_first_request_of_its_turn() -> None:
    office = Office("Both.")
    message_id = await office.session.prompt("Mend it.")
    await office.session.inject("Quickly.", mode="steer")
    async with office.open() as runner:
        await runner.outcome(message_id)
    assert (office.requests_with("Mend it."), office.requests_with("Quickly.")) == ([1], [1])


# After a cancel.


@pytest.mark.requirement("runner:hold:waits-for-the-next-message")
@awaited
async def test_after_a_cancel_the_queue_waits_for_the_next_message() -> None:
    office = Office()
    line, begun, _ = waiting(office)
    office.says(line)
    async with office.open() as runner:
        first = await office.session.prompt("first")
        second = await office.session.prompt("second")
        await begun.wait()
        assert await office.session.cancel()
        assert (await runner.outcome(first)).status == "cancelled"
        await asyncio.sleep(10 * RETRY_SECONDS)
        assert office.requests_with("second") == []
        third = await office.session.prompt("third")
        assert [(await runner.outcome(prompt)).status for prompt in (second, third)] == ["completed"] * 2
    assert [event.message_id for event in office.events(Started)] == [first, second, third]


@pytest.mark.requirement("runner:hold:deliver-starts-what-is-left")
@awaited
async def test_with_deliver_everything_left_over_starts_a_turn() -> None:
    office = Office()
    line, begun, _ = waiting(office)
    office.says(line)
    async with office.open(queue_after_cancel="deliver") as runner:
        await office.session.prompt("first")
        await begun.wait()
        steer = await office.session.inject("left over", mode="steer")
        second = await office.session.prompt("second")
        # Another handle cancels: what the run was begun with applies.
        assert await a_session(store=office.store).cancel()
        assert [(await runner.outcome(message)).status for message in (second, steer)] == ["completed"] * 2
    assert office.requests_with("left over")


# Leases.


@pytest.mark.requirement("runner:lease:one-of-them-runs-it")
@awaited
async def test_of_two_runners_one_runs_a_prompt_and_once() -> None:
    office = Office()
    async with office.open() as here, office.open(session=a_session(store=office.store)) as there:
        message_id = await office.session.prompt("Mend it.")
        assert await here.outcome(message_id) == await there.outcome(message_id) == Outcome(TurnStatus.COMPLETED)
        await asyncio.sleep(2 * RETRY_SECONDS)
    assert (len(office.model.requests), len(office.told), len(office.events(Started))) == (1, 1, 1)


class LoopTime:
    """Milliseconds of the running event loop, by which leases lapse."""

    def __call__(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)


@pytest.mark.requirement("runner:lease:refused-runner-retries")
@pytest.mark.parametrize("how", ["released", "lapsed"])
@awaited
async def test_a_refused_runner_runs_the_prompt_when_the_lease_is_free(how: str) -> None:
    office = Office("Now.", store=MemoryStore(lease_seconds=LEASE_SECONDS, now_ms=LoopTime()))
    lease = await office.store.acquire("main", "another process")
    async with office.open() as runner:
        message_id = await office.session.prompt("Mend it.")
        await asyncio.sleep(5)
        assert office.model.requests == []
        if how == "released":
            await office.store.release(lease)
        assert (await runner.outcome(message_id)).status == "completed"


@pytest.mark.requirement("runner:lease:looks-again-after-release")
@pytest.mark.parametrize("event", ["pre_finish", "post_finish"])
@awaited
async def test_a_prompt_sent_when_the_session_becomes_idle_finds_a_runner(event: str) -> None:
    office = Office()
    sent: list[str] = []

    async def prompt(_context: object) -> None:
        if not sent:
            sent.append(await a_session(store=office.store).prompt("One more thing."))

    office.hooks.register_session_hook(event, prompt)
    async with office.open() as runner:
        await office.answered(runner, "Mend it.")
        await until(lambda: sent)
        assert (await runner.outcome(sent[0])).status == "completed"


# Failures and the end.


@pytest.mark.requirement("runner:failure:next-prompt-runs")
@awaited
async def test_a_failed_run_does_not_end_its_runner() -> None:
    office = Office(ModelError("the key is wrong", status=401), "Fine.")
    async with office.open() as runner:
        failed, fine = await office.answered(runner, "first", "second")
    assert (failed, fine) == (Outcome(TurnStatus.FAILED, "the key is wrong"), Outcome(TurnStatus.COMPLETED))


@pytest.mark.requirement("runner:close:within-two-seconds")
@awaited
async def test_closing_a_runner_takes_two_seconds_at_most_and_leaves_an_idle_session() -> None:
    async def stubborn(*_: object) -> str:
        while True:
            try:
                await hang()
            except asyncio.CancelledError:
                continue

    office = Office(a_reply("work"), tools=(ATool(do=stubborn),))
    runner = office.runner()
    runner.start()
    await office.session.prompt("Mend it.")
    await until(lambda: office.tools[0].calls)
    before = asyncio.get_running_loop().time()
    await runner.aclose()
    # The tool is given up at the end of the grace period, and the clock of the loop has ticks of its own.
    assert asyncio.get_running_loop().time() - before < GRACE_SECONDS + 0.5
    assert (office.state.running, office.state.open_calls, office.session.busy) == (False, {}, False)
    await office.store.acquire("main", "another process")


@pytest.mark.requirement("runner:close:leaves-the-queue-to-others")
@pytest.mark.parametrize("during", ["model", "tool"])
@awaited
async def test_what_is_queued_when_a_runner_is_closed_runs_elsewhere(during: str) -> None:
    tool = ATool(do=lambda *_: hang())
    office = Office(a_reply("work") if during == "tool" else lambda _view: hang(), tools=(tool,))
    runner, elsewhere = office.runner(), office.runner(a_session(store=office.store))
    runner.start()
    first, second = [await office.session.prompt(text) for text in ("first", "second")]
    await until(lambda: tool.calls if during == "tool" else office.model.requests)
    await runner.aclose()
    async with elsewhere:
        outcomes = [await elsewhere.outcome(message_id) for message_id in (first, second)]
    assert outcomes == [Outcome(TurnStatus.CANCELLED), Outcome(TurnStatus.COMPLETED)]


# Outcomes.


def suspending(runner: Callable[[], Runner]) -> Line:
    async def line(_view: RequestView) -> Reply:
        run = runner().run
        assert run is not None
        run.suspend()
        return a_reply("work")

    return line


@pytest.mark.requirement("runner:outcome:of-every-end")
@pytest.mark.requirement("runner:outcome:from-any-process")
@pytest.mark.parametrize(
    ("status", "options"),
    [
        ("completed", {}),
        ("max_turns", {"max_turns": 1}),
        ("max_tokens", {"max_tokens": 1}),
        ("failed", {}),
        ("suspended", {}),
        ("cancelled", {}),
    ],
)
@awaited
async def test_the_outcome_of_a_message_is_how_its_turn_ended(status: str, options: dict[str, Any]) -> None:
    office = Office()

    async def cancelling(_view: RequestView) -> str:
        await office.session.cancel()
        return "too late"

    lines: dict[str, Line] = {
        "max_turns": a_reply("work"),
        "max_tokens": a_reply("work"),
        "failed": ModelError("no", status=400),
        "suspended": suspending(lambda: runner),
        "cancelled": cancelling,
    }
    office.says(lines.get(status, "Done."))
    async with office.open(**options) as runner:
        elsewhere = office.runner(a_session(store=office.store))
        message_id = await office.session.prompt("Mend it.")
        told = asyncio.ensure_future(elsewhere.outcome(message_id))
        here = await runner.outcome(message_id)
        assert (here.status, (await told).status) == (status, status)
        # Long after the end, too.
        assert (await elsewhere.outcome(message_id)).status == status


@pytest.mark.requirement("runner:outcome:of-every-end")
@awaited
async def test_a_prompt_of_a_closed_session_ends_as_closed() -> None:
    office = Office()
    message_id = await office.session.prompt("Mend it.")
    await office.session.close()
    runner = office.runner()
    assert await runner.outcome(message_id) == Outcome(TurnStatus.CLOSED)
    async with runner:
        await others()
    assert office.model.requests == []


@pytest.mark.requirement("runner:text:with-the-reply-id")
@awaited
async def test_streamed_text_comes_with_the_id_of_its_reply() -> None:
    heard: list[tuple[str, str]] = []
    texts: list[str] = []
    office = Office(Reply(text="Hello."), "Bye.")

    async def listen(reply_id: str, text: str) -> None:
        heard.append((reply_id, text))

    async with office.open(on_reply=listen, on_text=texts.append) as runner:
        await office.answered(runner, "first", "second")
    replies = [event.reply for event in office.events(TurnCommitted)]
    assert heard == [(reply["id"], reply["content"]) for reply in replies if reply is not None]
    assert texts == ["Hello.", "Bye."]


# What a dead process left.


async def left_open(office: Office) -> str:
    """A process dies while the model answers its prompt; its lease is free again."""
    message_id = await office.session.prompt("Mend it.")
    await office.store.commit(
        "main",
        lambda state: saying(
            Started(message_id=message_id),
            InjectDelivered(message_id=message_id, content=state.inbox.get(message_id).content),  # type: ignore[union-attr]  # it waits
            RequestCommitted(turn=1, reply_id="r"),
        )(state),
    )
    return message_id


@pytest.mark.requirement("runner:dead:open-turn-is-ended")
@awaited
async def test_a_turn_that_a_dead_process_left_open_is_ended() -> None:
    office = Office()
    message_id = await left_open(office)
    async with office.open() as runner:
        assert (await runner.outcome(message_id)).status == TurnStatus.LEASE_LOST
    assert (office.model.requests, office.events(Idled)) == ([], [Idled()])


@pytest.mark.requirement("runner:dead:resume-continues-it")
@awaited
async def test_with_resume_a_turn_that_was_open_when_the_runner_started_is_continued() -> None:
    office = Office("Mended.")
    message_id = await left_open(office)
    async with office.open(resume=True) as runner:
        assert (await runner.outcome(message_id)).status == "completed"
        more = await office.session.prompt("More.")
        assert (await runner.outcome(more)).status == "completed"
        await others()
    assert office.requests_with("Mend it.") == [1, 2]
    assert [prompt for prompt, _ in office.told] == [message_id, more]
    assert [event.status for event in office.events(Idled)] == ["completed", "completed"]


@pytest.mark.requirement("runner:daemon:interrupt-starts-a-run")
@pytest.mark.parametrize("daemon", [True, False])
@awaited
async def test_an_interrupt_starts_a_run_of_a_daemon_only(daemon: bool) -> None:  # noqa: FBT001 - a column
    office = Office()
    async with office.open(daemon=daemon):
        await office.session.remind("The build is red.", mode="interrupt_immediate")
        await asyncio.sleep(2 * RETRY_SECONDS)
    assert office.requests_with("The build is red.") == [1] * daemon
