"""An agent on the official Python SDK: `python tests/sdk_agent.py [reminders]`.

It reads a file through its client, asks for permission and streams text. With `reminders`, it also has the reminder and
inject capabilities at the places and under the names of the proposals, and keeps what it is told.
"""

import asyncio
import functools
import sys
from typing import Any

from acp.agent.router import build_agent_router
from acp.connection import Connection
from acp.router import Route
from acp.schema import (
    AgentCapabilities,
    PermissionOption,
    SessionCapabilities,
    SessionListCapabilities,
    ToolCallUpdate,
)
from acp.stdio import stdio_streams

import acp

PERMISSIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class SdkAgent:
    """The methods that the SDK calls."""

    def __init__(self) -> None:
        self.connection: Connection
        self.cancelled = asyncio.Event()
        self.told: list[dict[str, Any]] = []

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:  # noqa: ANN401 - of the SDK
        capabilities = AgentCapabilities(
            load_session=True, session_capabilities=SessionCapabilities(list=SessionListCapabilities())
        )
        return acp.InitializeResponse(protocol_version=min(protocol_version, 1), agent_capabilities=capabilities)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:  # noqa: ANN401 - of the SDK
        return acp.NewSessionResponse(session_id=f"s:{cwd}")

    async def load_session(self, session_id: str, **_: Any) -> acp.LoadSessionResponse | None:  # noqa: ANN401 - of the SDK
        if session_id == "lost":
            raise acp.RequestError.resource_not_found(session_id)
        await self._say(session_id, "what was said before")
        return acp.LoadSessionResponse()

    async def list_sessions(self, cursor: str | None = None, **_: Any) -> dict[str, Any]:  # noqa: ANN401 - of the SDK
        page = 0 if cursor is None else int(cursor)
        listed = {"sessions": [{"sessionId": f"listed-{page}", "cwd": "/", "title": f"Title {page}"}]}
        return listed if page else {**listed, "nextCursor": "1"}

    async def cancel(self, **_: Any) -> None:  # noqa: ANN401 - of the SDK
        self.cancelled.set()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:  # noqa: ANN401 - of the SDK
        texts = [block.text for block in prompt]
        match texts[-1].split(maxsplit=1):
            case ["wait"]:
                await self._say(session_id, "waiting")
                await self.cancelled.wait()
                return acp.PromptResponse(stop_reason="cancelled")
            case ["read", path]:
                read = await self.connection.send_request("fs/read_text_file", {"sessionId": session_id, "path": path})
                await self._say(session_id, read["content"])
            case ["ask"]:
                asked = await self.connection.send_request(
                    "session/request_permission",
                    {
                        "sessionId": session_id,
                        "toolCall": ToolCallUpdate(tool_call_id="c-1", title="Delete").model_dump(by_alias=True),
                        "options": [option.model_dump(by_alias=True) for option in PERMISSIONS],
                    },
                )
                await self._say(session_id, asked["outcome"].get("optionId", asked["outcome"]["outcome"]))
            case _:
                for text in texts:
                    await self._say(session_id, text)
        return acp.PromptResponse(stop_reason="end_turn")

    async def _say(self, session_id: str, text: str) -> None:
        update = acp.update_agent_message_text(text)
        notification = {"sessionId": session_id, "update": update.model_dump(by_alias=True, exclude_none=True)}
        await self.connection.send_notification("session/update", notification)


async def inject_reminder(agent: SdkAgent, params: dict[str, Any]) -> dict[str, Any]:
    agent.told.append(params)
    update = {
        "sessionUpdate": "reminder_emitted",
        "reminderId": f"r-{len(agent.told)}",
        "body": params["body"],
        "source": "host",
    }
    await agent.connection.send_notification("session/update", {"sessionId": params["sessionId"], "update": update})
    return {"reminderId": update["reminderId"]}


async def inject(_agent: SdkAgent, params: dict[str, Any]) -> dict[str, Any]:
    if params["mode"] == "steer":
        raise acp.RequestError(-32010, "Inject precondition failed", {"reason": "no_running_turn"})
    return {"messageId": "m-1"}


async def initialize(agent: SdkAgent, params: dict[str, Any]) -> dict[str, Any]:
    """The reply with the capabilities of the proposals, for which the models of the SDK have no place."""
    reply = (await agent.initialize(params["protocolVersion"])).model_dump(by_alias=True, exclude_none=True)
    inject_capability = {"modes": ["queue", "steer"], "steer_in_stream": ["finish"]}
    reply["agentCapabilities"] |= {
        "reminders": {"inject": True, "emit": True},
        "session": {"inject": inject_capability},
    }
    return dict(reply)


ROUTES = {"initialize": initialize, "session/inject_reminder": inject_reminder, "session/inject": inject}


async def main() -> None:
    agent = SdkAgent()
    router = build_agent_router(agent, use_unstable_protocol=True)  # type: ignore[arg-type]  # not all methods are there
    for method, function in ROUTES.items() if "reminders" in sys.argv else ():
        router.add_route(Route(method, functools.partial(function, agent), "request"))
    reader, writer = await stdio_streams()
    agent.connection = Connection(router, writer, reader, listening=False)
    await agent.connection.main_loop()


if __name__ == "__main__":
    asyncio.run(main())
