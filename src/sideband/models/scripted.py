"""A model that plays a script: deterministic, offline, and as demanding of tools as a real one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from sideband.core.lifecycle import Shown
from sideband.core.usage import Usage
from sideband.ports import Message, ModelError, OnText, Plan, Reply
from sideband.render.shapes import tagged
from sideband.render.view import RequestView

# One line of a script: what to answer, how to fail, or a function of the request that decides.
Said: TypeAlias = Reply | str | ModelError
Line: TypeAlias = Said | Callable[[RequestView], Said | Awaitable[Said]]


class ScriptedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as this model received it."""

    turn: int
    system: str
    messages: tuple[Message, ...]
    reminders: tuple[str, ...]
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        """All that a reader of the request could read."""
        return "\n".join([self.system, *(str(message["content"]) for message in self.messages), *self.reminders])


class ScriptedModel:
    """Answers with one line of the script after the other, and remembers every request it was sent.

    At the end of the script it answers `the_end`. Tokens are estimated, four characters each.
    """

    def __init__(
        self, script: Sequence[Line] = (), *, the_end: str = "Done.", context_window: int | None = None
    ) -> None:
        self._script = list(script)
        self._next = 0
        self._the_end = the_end
        self._context_window = context_window
        self.requests: list[ScriptedRequest] = []

    @property
    def context_window(self) -> int | None:
        return self._context_window

    def plan(self, view: RequestView) -> Plan:
        """All live reminders, at the end of the request."""
        reminders = tuple(tagged(item.reminder, item.provenance) for item in view.live)
        request = ScriptedRequest(
            turn=view.turn,
            system="\n\n".join(filter(None, (view.system, view.system_after))),
            messages=tuple(view.messages),
            reminders=reminders,
            tools=tuple(tool["name"] for tool in view.tools),
        )
        return Plan(shown=tuple(Shown(item.id, "user") for item in view.live), request=(view, request))

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        view, request = plan.request
        self.requests.append(request)
        line = self._script[self._next] if self._next < len(self._script) else self._the_end
        self._next += 1
        reply = await self._read(line, view)
        if on_text is not None and reply.text:
            told = on_text(reply.text)
            if isinstance(told, Awaitable):
                await told
        return reply

    async def _read(self, line: Line, view: RequestView) -> Reply:
        # A model call is never over at once: whatever waits for the loop gets its turn here.
        await asyncio.sleep(0)
        said: Any = line(view) if callable(line) else line
        if isinstance(said, Awaitable):
            said = await said
        if isinstance(said, ModelError):
            raise said
        reply = Reply(text=said) if isinstance(said, str) else said
        if isinstance(reply, Reply) and reply.usage == Usage():
            tokens = sum(len(str(message["content"])) for message in view.messages) // 4
            reply = msgspec.structs.replace(
                reply, usage=Usage(prompt_tokens=tokens, output_tokens=len(reply.text) // 4)
            )
        return reply
