"""A server on the Agent Development Kit whose model always answers the same: `python a2a_adk_server.py`, in the environment
that has it.

It prints its URL and ends when standard input ends.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator

import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai.types import Content, Part

from tests.peers.a2a_orders import lines


class Scripted(BaseLlm):  # type: ignore[misc]  # the environment of mypy does not have the ADK
    async def generate_content_async(self, *_: object, **__: object) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=Content(role="model", parts=[Part(text="The ADK has answered.")]))


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        app = to_a2a(LlmAgent(name="adk", model=Scripted(model="scripted")), host="127.0.0.1", port=port)
        web = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        serving = asyncio.ensure_future(web.serve(sockets=[listening]))
        sys.stdout.write(f"http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        async for _ in lines():
            pass
        web.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
