"""A model that answers from a script: deterministic and offline, with real tool calls."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from sideband.core.blocks import estimated_tokens
from sideband.core.events import Usage
from sideband.core.messages import Message, Reply
from sideband.core.turn import Shown
from sideband.ports import ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.shapes import tagged
from sideband.render.view import RequestView

# One line of a script: a reply, an error to raise, or a function that chooses one for the request.
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
        """The system prompt, messages and reminders as one string."""
        return "\n".join([self.system, *(str(message["content"]) for message in self.messages), *self.reminders])


class ScriptedModel:
    """Answers each request with the next line of the script, and records every request in `requests`.

    After the last line it answers `the_end`. Token counts are estimated.
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
        """Show all live reminders at the end of the request."""
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
            returned = on_text(reply.text)
            if isinstance(returned, Awaitable):
                await returned
        return reply

    async def _read(self, line: Line, view: RequestView) -> Reply:
        # A real model call always suspends, so let other tasks run here as well.
        await asyncio.sleep(0)
        said: Any = line(view) if callable(line) else line
        if isinstance(said, Awaitable):
            said = await said
        if isinstance(said, ModelError):
            raise said
        reply = Reply(text=said) if isinstance(said, str) else said
        if isinstance(reply, Reply) and reply.usage == Usage():
            tokens = sum(estimated_tokens(message["content"]) for message in view.messages)
            reply = msgspec.structs.replace(
                reply, usage=Usage(prompt_tokens=tokens, output_tokens=len(reply.text) // 4)
            )
        return reply
