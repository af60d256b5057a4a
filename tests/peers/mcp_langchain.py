"""Runs the program of the documentation for LangChain: `python mcp_langchain.py PROGRAM FILE`, in the environment that
has it. The model edits FILE and calls a tool until the reminder is in a request. The texts of each request are printed
as JSON.
"""

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

# A watcher reports a change after 100 ms.
ATTEMPTS = 50


async def pause() -> str:
    """Wait."""
    await asyncio.sleep(0.1)
    return "Paused."


class Scripted(BaseChatModel):  # type: ignore[misc]  # the environment of mypy does not have LangChain
    file: Path
    requests: list[list[str]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: object, **__: object) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        self.requests.append([str(message.content) for message in messages])
        number = len(self.requests)
        if number == 1:
            self.file.write_text("two\n", encoding="utf-8")
        is_told = any(self.file.name in text for request in self.requests for text in request)
        # One more request after the notice shows that it is not repeated.
        was_told = any(self.file.name in text for request in self.requests[:-1] for text in request)
        calls: list[Any] = [{"name": "pause", "args": {}, "id": f"call_{number}"}]
        if was_told or (number > ATTEMPTS and not is_told):
            calls = []
        reply = AIMessage(f"Reply {number}.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def main(program: str, file: Path) -> None:
    model = Scripted(file=file, requests=[])
    result = await runpy.run_path(program)["answer"]("Go.", model, [StructuredTool.from_function(coroutine=pause)])
    sys.stdout.write(json.dumps({"requests": model.requests, "result": result}))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1], Path(sys.argv[2])), 50))
