"""A deterministic model, its tools, and a sender that talks to the session meanwhile."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sideband.core.accept import RevokeStatus, accept
from sideband.core.errors import ReminderError
from sideband.core.events import Usage
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Message, Reply, ToolCall
from sideband.core.reminder import Draft, Reminder
from sideband.core.seams import InjectMode, Mode
from sideband.core.trust import IN_PROCESS
from sideband.loop.compaction import KeepLast
from sideband.ports import OnText, ToolContext, ToolOutput
from sideband.render.plan import Plan
from sideband.render.renderer import Rendered, Renderer
from sideband.render.view import RequestView
from sideband.runtime.session import Session
from tests.planned_sessions import CLAUDE

Say: TypeAlias = Callable[..., None]
"""Reports to the witness."""

# So small that a conversation of a few turns is compacted.
WINDOW: Final = 600
KEPT_MESSAGES: Final = 4
# Each of so many turns is the last of its run.
TURNS: Final = 4


async def nothing_happens(_moment: str) -> None:
    """No process is stopped."""


class RehearsedModel:
    """Renders requests like a real model and sends none. The last of `turns` calls no tools."""

    def __init__(
        self, session: Session, say: Say, at: Callable[[str], Any] = nothing_happens, *, turns: int = TURNS
    ) -> None:
        self._session = session
        self._say = say
        self._at = at
        self._turns = turns
        self._renderer = Renderer(CLAUDE, model="claude")
        self.context_window: int | None = WINDOW

    def plan(self, view: RequestView) -> Plan:
        plan = self._renderer.render(view)
        return msgspec.structs.replace(plan, request=(plan.request, view.turn))

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:  # noqa: ARG002 - unused
        rendered: Rendered
        rendered, turn = plan.request
        request = self._session.talk.state.request
        assert request is not None, "a request leaves that is not on record"
        self._say(
            "asked",
            turn,
            request.attempt,
            _digest(msgspec.json.encode(request.fragments)),
            request.messages,
            _digest(rendered.body),
            request.fragments == plan.fragments,
        )
        await self._at("answer")
        usage = Usage(prompt_tokens=len(rendered.body) // 4)
        if turn % self._turns == 0:
            return Reply(text=f"That was turn {turn}.", usage=usage)
        calls = [ToolCall(id=f"t{turn}-{n}", name="work", args={"id": f"t{turn}-{n}"}) for n in (1, 2)]
        return Reply(tool_calls=tuple(calls), usage=usage)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class WorkTool:
    """Finishes at once; the second call of a batch waits until the result of the first is committed."""

    name = "work"
    description = "Does some work."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}}
    idempotent = False

    def __init__(self, session: Session, say: Say, at: Callable[[str], Any] = nothing_happens) -> None:
        self._session = session
        self._say = say
        self._at = at

    async def call(self, args: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
        call_id = args["id"]
        self._say("ran", call_id)
        if call_id.endswith("-2"):
            await self._is_recorded(call_id.replace("-2", "-1"))
            await self._at("results")
        return ToolOutput(text=f"did {call_id}")

    async def _is_recorded(self, call_id: str) -> None:
        talk = self._session.talk
        wake = talk.journal.wake(talk.session_id)
        while call_id in talk.state.open_calls:
            wake.clear()
            await wake.wait()


class WatchedCompactor:
    """Keeps the last messages."""

    def __init__(self, at: Callable[[str], Any] = nothing_happens) -> None:
        self._at = at
        self._keeping = KeepLast(KEPT_MESSAGES)

    async def compact(self, messages: Sequence[Message], reminders: Sequence[Reminder]) -> Sequence[Message]:
        await self._at("compactor")
        return (await self._keeping.compact(messages, reminders)).messages


class Talker:
    """Sends and takes back; what it says under a number is always the same, so that it can be said again.

    A `hasty` one is a planted fault: it says yes before it knows.
    """

    def __init__(self, session: Session, say: Say, seed: int, *, hasty: bool = False) -> None:
        self._session = session
        self._say = say
        self._seed = seed
        self._is_hasty = hasty

    def rng(self, what: str) -> random.Random:
        return random.Random(f"{self._seed}/{what}")  # noqa: S311 - a choice, no secret

    async def remind(self, number: int) -> None:
        """A reminder under an id of ours: a sender without a reply repeats it and gets the same reply."""
        rng = self.rng(f"reminder {number}")
        draft = Draft(
            body=f"Fact {number}.",
            caller_id=f"n{number}",
            dedupe_key=rng.choice([None, "k1", "k2"]),
            ttl_turns=rng.choice([None, 1, 2, 3]),
            preserve_on_compact=rng.random() < 0.5,
            mode=rng.choice([*Mode, Mode.FINISH_STEP]),
        )

        if self._is_hasty:
            self._say("accepted", f"n{number}", draft.body)
        await self._session.talk.journal.commit(
            self._session.talk.session_id,
            lambda state: accept(state, draft, IN_PROCESS, new_id="never used", limits=DEFAULT_LIMITS),
            receipts=(f"n{number}",),
        )
        self._say("accepted", f"n{number}", draft.body)

    async def inject(self, number: int) -> None:
        """A user message, and perhaps another text for it."""
        rng = self.rng(f"message {number}")
        text = f"Message {number}."
        try:
            message_id = await self._session.inject(text, mode=rng.choice([InjectMode.STEER, InjectMode.QUEUE]))
        except ReminderError as refusal:
            self._say("refused", refusal.reason)
            return
        self._say("accepted", message_id, text)
        if rng.random() < 0.5:
            await self._replace(message_id, f"Message {number}, mended.")

    async def _replace(self, message_id: str, text: str) -> None:
        try:
            await self._session.replace_message(message_id, text)
        except ReminderError as refusal:
            self._say("refused", refusal.reason)
        else:
            self._say("replaced", message_id, text)

    async def revoke(self, number: int) -> None:
        try:
            status = await self._session.revoke(f"n{number}")
        except ReminderError as refusal:
            self._say("delivered" if refusal.reason == "already_delivered" else "refused", f"n{number}")
        else:
            if status == RevokeStatus.REVOKED:
                self._say("revoked", f"n{number}")

    async def clear(self, number: int) -> None:
        self._say("cleared", await self._session.clear(dedupe_key=f"k{number % 2 + 1}"))

    async def say_something(self, number: int) -> None:
        """What belongs to a number: a reminder, and something else."""
        await self.remind(number)
        rng = self.rng(f"deed {number}")
        # Where messages are rare, a request that was left open can be sent again as it was.
        deed = rng.choice([self.revoke, self.clear, None, *([] if self._seed % 2 else [self.inject])])
        if deed is not None:
            await deed(number if deed == self.inject else rng.randint(max(1, number - 3), number))
