"""The review agent: a peer that reaches the session over A2A, through a server on a socket of this machine."""

import asyncio
import secrets
import socket
from typing import Any, Final

import uvicorn  # noqa: F401 - if it is missing, that is noticed before the agent is started

from sideband.core.reminder import Propagate, RoleHint
from sideband.core.topic import TASK_RECORD
from sideband.core.trust import Trust
from sideband.logs import LOG, quieten
from sideband.protocols.a2a import A2aServer
from sideband.protocols.a2a.auth import Caller, KnownPeer
from sideband.protocols.a2a.client import PeerFailed, connect
from sideband.protocols.a2a.tasks import CONTEXT_RECORD, KIND, KIND_RECORD, OWNER_RECORD, SERVICE_RECORD, STATE_RECORD
from sideband.protocols.http import serve_app
from sideband.runtime.session import Session
from sideband.runtime.store import Store

PEER: Final = "review-agent"
SERVICE: Final = "sideband-rehearsal"
# The peer sends no messages, so that the server has nothing to run.
MODEL: Final = "scripted:This agent takes no tasks."


class ReviewAgent:
    """A peer with a token of its own, and the server that it speaks to. Sessions are its tasks after `adopt`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._token = secrets.token_urlsafe(24)
        self._url = ""
        self._stopping = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._server: A2aServer | None = None

    async def start(self) -> None:
        # The log of the SDK would stand between the lines of a terminal.
        quieten("a2a")
        listening = socket.create_server(("127.0.0.1", 0))
        self._url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        peer = KnownPeer(caller=Caller(name=PEER, trust=Trust.PEER), token=self._token)
        self._server = A2aServer(
            self._store, model=MODEL, url=self._url, name="rehearsal", service=SERVICE, peers=[peer], push=None
        )
        await self._server.__aenter__()
        serving = serve_app(self._server.app, listening, stopping=self._stopping, stop=self._server.stop)
        self._serving = asyncio.create_task(serving, name="sideband-rehearsal-a2a")

    async def close(self) -> None:
        self._stopping.set()
        if self._serving is not None:
            await asyncio.wait((self._serving,))
        if self._server is not None:
            await self._server.__aexit__(None, None, None)

    async def adopt(self, session: Session) -> None:
        """Make a session a task of this peer. The rehearsal runs it; for the server, the task waits for input."""
        await session.record(
            {
                KIND_RECORD: KIND,
                SERVICE_RECORD: SERVICE,
                OWNER_RECORD: PEER,
                TASK_RECORD: session.id,
                CONTEXT_RECORD: session.id,
                STATE_RECORD: "TASK_STATE_INPUT_REQUIRED",
            }
        )

    async def remind(self, session: Session, body: str, **wanted: Any) -> None:  # noqa: ANN401 - those of `PeerAgent.remind`
        """Send a reminder that asks for more than a peer may have."""
        try:
            async with connect(self._url, token=self._token) as agent:
                if agent.reminders is not None:
                    # Our own client lowers hints to what the card allows. Others send them as they are.
                    agent.reminders = agent.reminders._replace(propagate=tuple(Propagate), role_hints=tuple(RoleHint))
                await agent.remind(session.id, body, **wanted)
        except PeerFailed as error:
            LOG.warning("the rehearsal goes on without the review agent: %s", error)
