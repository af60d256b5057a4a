"""The end of a run: what comes late buys another iteration, what comes too late waits, what is for the record is kept."""

import asyncio
from typing import Any

import pytest

from sideband.core.errors import NoRunningTurn
from sideband.core.events import AuditRecorded, Idled
from sideband.core.messages import Reply
from sideband.core.seams import MAX_CLOSING_ITERATIONS
from sideband.core.transcript import Visibility
from sideband.loop.run import LoopStatus
from sideband.render.view import RequestView
from tests.loop_builders import AScene, a_reply


def test_what_comes_with_the_last_answer_is_answered_too() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.inject("And the tests?", mode="steer")
        return "Mended."

    scene.says(line, "They pass.")
    result = asyncio.run(scene.play())
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "They pass.", 2)
    assert scene.requests_with("And the tests?") == [2]


def test_a_batch_of_tools_makes_the_count_of_closing_iterations_begin_anew() -> None:
    scene = AScene()

    def late(text: str, *calls: str) -> object:
        async def line(_view: RequestView) -> Reply:
            await scene.session.remind(text)
            return a_reply(*calls)

        return line

    script = [late("a") for _ in range(6)] + [late("b", "work")] + [late("c") for _ in range(20)]
    scene.says(*script)  # type: ignore[arg-type]  # a list of lines
    result = asyncio.run(scene.play())
    assert result.turns == 6 + 1 + 1 + MAX_CLOSING_ITERATIONS


def test_what_was_left_is_shown_by_the_next_run() -> None:
    scene = AScene()

    async def too_late(_context: object) -> None:
        await scene.session.remind("the disk is full")

    scene.hooks.register_session_hook("post_finish", too_late)
    first = asyncio.run(scene.play())
    assert len(first.undelivered) == 1
    scene.hooks.clear()
    asyncio.run(scene.play("Go on."))
    assert scene.requests_with("the disk is full") == [2]


def test_the_closing_drain_that_takes_nothing_makes_the_session_idle_in_its_commit() -> None:
    scene = AScene()
    refused: list[str] = []

    async def hook(_context: object) -> None:
        # The journal says idle, and so does every later call.
        assert isinstance(scene.journal[-1], Idled)
        with pytest.raises(NoRunningTurn) as refusal:
            await scene.session.inject("too late", mode="steer")
        refused.append(refusal.value.reason)

    scene.hooks.register_session_hook("post_finish", hook)
    result = asyncio.run(scene.play())
    assert (refused, result.problems) == (["no_running_turn"], ())
    assert scene.kinds.count("Idled") == 1


@pytest.mark.parametrize("budget", [{"max_turns": 1}, {"max_tokens": 10}], ids=["turns", "tokens"])
def test_what_no_request_of_the_run_can_show_any_more_stays_in_the_inbox(budget: dict[str, Any]) -> None:
    scene = AScene()

    async def line(_view: RequestView) -> Reply:
        await scene.session.remind("nobody will read this now")
        return a_reply("work", tokens=10)

    scene.says(line)
    result = asyncio.run(scene.play(**budget))
    (left,) = result.undelivered
    assert asyncio.run(scene.session.revoke(left.id)) == "revoked"


def test_a_run_that_is_through_when_its_budget_is_spent_has_completed() -> None:
    scene = AScene()
    scene.says("Done.")
    assert asyncio.run(scene.play(max_turns=1)).status is LoopStatus.COMPLETED


def test_a_queued_message_for_which_there_is_no_budget_waits_for_the_next_run() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.prompt("And then this.")
        return "Done."

    scene.says(line, "Also done.")
    result = asyncio.run(scene.play(max_turns=1))
    assert (result.status, len(result.undelivered)) == (LoopStatus.MAX_TURNS, 1)
    assert asyncio.run(scene.play(None, max_turns=1)).text == "Also done."
    assert scene.requests_with("And then this.") == [2]


def test_queued_messages_start_a_turn_each_in_their_order() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.prompt("second")
        await scene.session.prompt("third")
        return "One."

    scene.says(line, "Two.", "Three.")
    result = asyncio.run(scene.play("first"))
    assert result.text == "Three."
    assert [scene.requests_with(text)[0] for text in ("first", "second", "third")] == [1, 2, 3]


# For the record only.


def test_what_is_only_for_the_audit_is_in_no_prompt_and_in_the_record() -> None:
    scene = AScene()
    scene.says(a_reply("work"), "Done.")

    async def main() -> None:
        await scene.session.remind("reviewed by a person", mode="audit_only", ttl_turns=1)
        await scene.session.inject("for the file", mode="audit_only")
        result = await scene.play()
        assert result.undelivered == ()
        transcript = await scene.session.transcript()
        (event,) = transcript.events
        assert (event.kind, event.visibility, event.text) == (
            "system_reminder",
            Visibility.INTERNAL,
            "reviewed by a person",
        )
        assert "for the file" not in str(transcript.messages)

    asyncio.run(main())
    assert scene.requests_with("reviewed by a person") == scene.requests_with("for the file") == []
    assert len(scene.events(AuditRecorded)) == 1


def test_what_was_recorded_outlives_turns_clearing_and_compaction() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.remind("kept", mode="audit_only", tags=["t"], dedupe_key="k", ttl_turns=1)
        await scene.play()
        assert await scene.session.clear(tag="t") == 0
        await scene.session.remind("another", dedupe_key="k")
        await scene.play("Again.")
        await scene.session.talk.compact(tuple(scene.state.messages), (), begun_at=99)
        events = (await scene.session.transcript()).events
        assert [event.text for event in events if event.visibility is Visibility.INTERNAL] == ["kept"]

    asyncio.run(main())


def test_an_audit_is_recorded_even_when_the_run_fails() -> None:
    scene = AScene()
    scene.says("", lambda _view: 42)  # type: ignore[arg-type, return-value]  # no reply at all

    async def main() -> None:
        await scene.play()
        await scene.session.remind("kept", mode="audit_only")
        assert (await scene.play("Again.")).status is LoopStatus.FAILED

    asyncio.run(main())
    assert len(scene.events(AuditRecorded)) == 1
