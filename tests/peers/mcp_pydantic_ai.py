"""Runs the program of the documentation for pydantic-ai: `python mcp_pydantic_ai.py PROGRAM FILE`, in the environment
that has it. The model edits FILE and waits for the reminder. The texts of each request are printed as JSON.
"""

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def main(program: str, file: Path) -> None:
    page = runpy.run_path(program)
    arrived = asyncio.Event()
    receive = page["Reminders"].receive
    requests: list[list[str]] = []

    async def noted(self: Any, params: Any) -> None:  # noqa: ANN401 - classes of the page
        await receive(self, params)
        arrived.set()

    async def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        requests.append([str(getattr(part, "content", "")) for message in messages for part in message.parts])
        if len(requests) == 1:
            await asyncio.to_thread(file.write_text, "two\n", encoding="utf-8")
            await arrived.wait()
        return ModelResponse(parts=[TextPart(f"Reply {len(requests)}.")])

    page["Reminders"].receive = noted
    result = await page["answer"]("Go.", FunctionModel(reply))
    sys.stdout.write(json.dumps({"requests": requests, "result": result}))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1], Path(sys.argv[2])), 50))
