"""An ACP agent on standard input and output whose model follows a script: `scripted_agent.py STORE_URL SCRIPT`.

The script is a JSON list with one entry per request of the model:

    "Hello there."                                 a reply; its words are streamed one by one
    {"call": "write_file", "args": {...}}          a tool call; "say" is the text before it
    {"fail": "no such model"}                      the model fails
    {"cut": "Hello th"}                            the connection to the model is lost after these words
    {"until": "/path/to/file", "say": "Done."}     a reply that begins when the file exists

`SIDEBAND_TEST_WINDOW` is the number of tokens of the model's context window.
"""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from sideband.core.messages import Reply, ToolCall
from sideband.ports import ModelError, OnText
from sideband.protocols.acp.agent import AcpAgent
from sideband.protocols.frames import standard_streams
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel

_POLL_SECONDS = 0.01
# The end of a reply after which the connection is lost.
_CUT = "\x00"


class StreamingModel(ScriptedModel):
    """Streams its replies word by word, as the services do."""

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        reply = await super().complete(plan)
        lost = reply.text.endswith(_CUT)
        if on_text is not None:
            for word in re.findall(r"\S+\s*", reply.text.removesuffix(_CUT)):
                told = on_text(word)
                if isinstance(told, Awaitable):
                    await told
                await asyncio.sleep(0)
        if lost:
            raise ModelError("the connection was lost", retryable=True)
        return reply


def line(number: int, entry: str | dict[str, Any]) -> Callable[[RequestView], Awaitable[Reply | ModelError]]:
    """An entry as a line of a script."""

    async def say(_view: RequestView) -> Reply | ModelError:
        if isinstance(entry, str):
            return Reply(text=entry)
        if "until" in entry:
            while not await asyncio.to_thread(Path(entry["until"]).exists):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(_POLL_SECONDS)
        if "cut" in entry:
            return Reply(text=f"{entry['cut']}{_CUT}")
        if "fail" in entry:
            return ModelError(entry["fail"])
        calls = [ToolCall(id=f"call-{number}", name=entry["call"], args=entry["args"])] if "call" in entry else []
        return Reply(text=entry.get("say", ""), tool_calls=tuple(calls))

    return say


async def main(store_url: str, script: str) -> None:
    lines = [line(number, entry) for number, entry in enumerate(msgspec.json.decode(script), start=1)]
    window = int(os.environ["SIDEBAND_TEST_WINDOW"]) if "SIDEBAND_TEST_WINDOW" in os.environ else None
    async with (
        standard_streams() as streams,
        open_store(store_url) as store,
        AcpAgent(store, model=StreamingModel(lines, context_window=window)) as agent,
    ):
        await agent.serve(streams)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
