"""Model calls and tools for the tests of the ACP agent."""

import asyncio
from typing import Any

from sideband.core.messages import Reply, ToolCall
from sideband.models.scripted import Said
from sideband.render.view import RequestView


class Held:
    """A model call that tells when it has begun, and answers when it is released."""

    def __init__(self, then: Said = "Done.") -> None:
        self.begun = asyncio.Event()
        self._released = asyncio.Event()
        self._then = then

    async def line(self, _view: RequestView) -> Said:
        self.begun.set()
        await self._released.wait()
        return self._then

    def release(self) -> None:
        self._released.set()


def calling(name: str, call_id: str = "c-1", **args: Any) -> Reply:  # noqa: ANN401 - arguments of any tool
    """A reply that calls a tool."""
    return Reply(tool_calls=(ToolCall(id=call_id, name=name, args=args),))
