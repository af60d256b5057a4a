"""A tool of the workspace: it checks its arguments, and what it refuses is an answer, not a failure of the loop."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic

import msgspec

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.arguments import ArgumentsT, decode, schema_of
from sideband.tools.refusal import Refused


class WorkspaceTool(msgspec.Struct, Generic[ArgumentsT], frozen=True, kw_only=True):
    """One tool; `perform` gets arguments that are known to fit.

    `seconds` is when even its longest call has ended by itself, with what it has found until then (None: it sets itself
    no limit). Who ends it earlier loses that.
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    idempotent: bool
    perform: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutput]]
    seconds: float | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        return schema_of(self.arguments)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            return await self.perform(decode(self.name, self.arguments, args), context)
        except Refused as refusal:
            return ToolOutput(text=str(refusal), is_error=True)
