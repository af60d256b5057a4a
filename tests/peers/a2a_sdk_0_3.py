"""A client on the official Python SDK 0.3 that follows the orders of `a2a_orders.py`: `python a2a_sdk_0_3.py URL BINDING`,
in the environment that has it.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any
from uuid import uuid4

import httpx

from tests.peers.a2a_orders import Json, serve, tell

# Imported by name, because mypy reads them from version 1 of the SDK, where they are different.
a2a: Any = import_module("a2a.client")
types: Any = import_module("a2a.types")

BINDINGS = {"JSONRPC": types.TransportProtocol.jsonrpc, "HTTP+JSON": types.TransportProtocol.http_json}
UPDATES = {types.TaskStatusUpdateEvent: "statusUpdate", types.TaskArtifactUpdateEvent: "artifactUpdate"}


def encoded(value: Any) -> Json:  # noqa: ANN401 - a model of the SDK
    dumped: Json = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def as_response(task: Any, update: Any) -> Json:  # noqa: ANN401 - models of the SDK
    """An event in the form of A2A 1.0; an update of None stands for the task itself."""
    return {"task": encoded(task)} if update is None else {UPDATES[type(update)]: encoded(update)}


def a_message(words: str) -> Any:  # noqa: ANN401 - a model of the SDK
    part = types.Part(root=types.TextPart(text=words))
    return types.Message(message_id=str(uuid4()), role=types.Role.user, parts=[part])


async def follow(client: Any, blocking: Any, order: Json) -> Any:  # noqa: ANN401 - classes of the SDK
    extensions = order.get("extensions", [])
    match order:
        case {"stream": words}:
            events = client.send_message(a_message(words), extensions=extensions)
        case {"subscribe": task_id}:
            events = client.resubscribe(types.TaskIdParams(id=task_id), extensions=extensions)
        case {"send": words}:
            [(task, _)] = [one async for one in blocking.send_message(a_message(words), extensions=extensions)]
            return encoded(task)
        case {"get": task_id}:
            return encoded(await client.get_task(types.TaskQueryParams(id=task_id)))
        case {"cancel": task_id}:
            return encoded(await client.cancel_task(types.TaskIdParams(id=task_id)))
    async for task, update in events:
        tell(of=order["as"], event=as_response(task, update))
    return None


async def main(url: str, binding: str) -> None:
    async with httpx.AsyncClient(timeout=50) as http:
        card = await a2a.A2ACardResolver(http, url).get_agent_card()

        def a_client(*, streaming: bool) -> Any:  # noqa: ANN401 - a class of the SDK
            config = a2a.ClientConfig(
                httpx_client=http,
                streaming=streaming,
                supported_transports=[BINDINGS[binding]],
                use_client_preference=True,
            )
            return a2a.ClientFactory(config).create(card)

        client, blocking = a_client(streaming=True), a_client(streaming=False)

        async def answer(order: Json) -> object:
            return encoded(card) if "card" in order else await follow(client, blocking, order)

        await serve(answer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
