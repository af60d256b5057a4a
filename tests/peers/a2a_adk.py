"""A client on the Agent Development Kit that follows the order `stream` of `a2a_orders.py`: `python a2a_adk.py URL
EXTENSION`, in the environment that has it. All messages belong to one session.

Events have the members `content` and `custom_metadata` of the ADK. The result is the text of the last reply.
"""

import asyncio
import sys

import httpx
from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import Message
from google.adk.a2a.agent.config import A2aRemoteAgentConfig, ParametersConfig, RequestInterceptor
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part

from tests.peers.a2a_orders import Json, serve, tell


def activating(extension: str) -> RequestInterceptor:
    """Activates an extension in each request."""

    async def activate(
        _: InvocationContext, message: Message, parameters: ParametersConfig
    ) -> tuple[Message, ParametersConfig]:
        headers = ServiceParametersFactory.create([with_a2a_extensions([extension])])
        parameters.client_call_context = ClientCallContext(service_parameters=headers)
        return message, parameters

    return RequestInterceptor(before_request=activate)


async def follow(runner: InMemoryRunner, session_id: str, order: Json) -> str:
    message = Content(role="user", parts=[Part(text=order["stream"])])
    said = ""
    async for event in runner.run_async(user_id="user", session_id=session_id, new_message=message):
        if event.error_message:
            raise RuntimeError(event.error_message)
        words = "".join(part.text or "" for part in (event.content and event.content.parts) or [])
        said = words or said
        tell(of=order["as"], event={"content": words, "custom_metadata": event.custom_metadata})
    return said


async def main(url: str, extension: str) -> None:
    async with httpx.AsyncClient(timeout=50) as http:
        agent = RemoteA2aAgent(
            name="remote",
            agent_card=f"{url}/.well-known/agent-card.json",
            a2a_client_factory=ClientFactory(ClientConfig(httpx_client=http)),
            config=A2aRemoteAgentConfig(request_interceptors=[activating(extension)]),
        )
        runner = InMemoryRunner(agent, app_name="peer")
        session = await runner.session_service.create_session(app_name="peer", user_id="user")
        await serve(lambda order: follow(runner, session.id, order))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
