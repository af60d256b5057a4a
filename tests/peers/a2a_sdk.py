"""A client on the official Python SDK 1.x that follows the orders of `a2a_orders.py`: `python a2a_sdk.py URL BINDING`."""

import asyncio
import sys
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from google.protobuf.json_format import MessageToDict

from tests.peers.a2a_orders import Json, serve, tell


def a_message(words: str) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=words)]))


async def follow(client: Client, blocking: Client, order: Json) -> Any:  # noqa: ANN401 - any JSON value
    extensions = with_a2a_extensions(order.get("extensions", []))
    context = ClientCallContext(service_parameters=ServiceParametersFactory.create([extensions]))
    match order:
        case {"stream": words}:
            events = client.send_message(a_message(words), context=context)
        case {"subscribe": task_id}:
            events = client.subscribe(SubscribeToTaskRequest(id=task_id), context=context)
        case {"send": words}:
            [sent] = [one async for one in blocking.send_message(a_message(words), context=context)]
            return MessageToDict(sent.task)
        case {"get": task_id}:
            return MessageToDict(await client.get_task(GetTaskRequest(id=task_id), context=context))
        case {"cancel": task_id}:
            return MessageToDict(await client.cancel_task(CancelTaskRequest(id=task_id), context=context))
    async for event in events:
        tell(of=order["as"], event=MessageToDict(event))
    return None


async def main(url: str, binding: str) -> None:
    async with httpx.AsyncClient(timeout=50) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def a_client(*, streaming: bool) -> Client:
            config = ClientConfig(
                httpx_client=http,
                streaming=streaming,
                supported_protocol_bindings=[binding],
            )
            return ClientFactory(config).create(card)

        client, blocking = a_client(streaming=True), a_client(streaming=False)

        async def answer(order: Json) -> object:
            return MessageToDict(card) if "card" in order else await follow(client, blocking, order)

        await serve(answer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
