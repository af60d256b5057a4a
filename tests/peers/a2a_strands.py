"""A client on Strands Agents that follows the order `stream` of `a2a_orders.py`: `python a2a_strands.py URL`, in the
environment that has it. The result is the text of the reply.
"""

import asyncio
import sys
from typing import Any

import httpx
from strands.agent.a2a_agent import A2AAgent

from tests.peers.a2a_orders import Json, serve, tell
from tests.peers.a2a_sdk_0_3 import a2a, as_response


async def follow(url: str, order: Json) -> str:
    async with httpx.AsyncClient(timeout=50) as http:
        config = a2a.ClientConfig(httpx_client=http, extensions=order["extensions"])
        result: Any = None
        async for event in A2AAgent(url, client_config=config).stream_async(order["stream"]):
            if "result" in event:
                result = event["result"]
            else:
                tell(of=order["as"], event=as_response(*event["event"]))
        return "".join(part["text"] for part in result.message["content"])


if __name__ == "__main__":
    asyncio.run(serve(lambda order: follow(sys.argv[1], order)))
