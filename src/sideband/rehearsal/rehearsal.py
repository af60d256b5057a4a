"""Rehearsals: a scripted model mends a real bug, while real producers tell it things on the side."""

import asyncio
from types import TracebackType
from typing import Final, Self

from sideband.core.errors import InvalidOption
from sideband.core.topic import AGENT_RECORD
from sideband.rehearsal.pace import FAST, NORMAL
from sideband.rehearsal.play import (
    NAME,
    REHEARSAL_RECORD,
    TITLE_RECORD,
    AdoptingPeer,
    MissingProducers,
    OnReply,
    Play,
    optional_module,
)
from sideband.runtime.options import AgentOptions
from sideband.runtime.store import Store

TITLE: Final = "Rehearsal"


class Rehearsal:
    """Plays rehearsals on sessions of a store; write `async with Rehearsal(store) as rehearsal:`.

    It needs no key: the model is a script. Its requests, its tools and everything it is told are real: a file watcher in this
    process, an MCP server in a process of its own, and an A2A peer on a socket. With `fast`, there are no pauses for people.
    `on_reply` is called with each piece of a reply: the ids of the session and the reply, the attempt, the text.

    `left_out` lists the producers that are missing because their packages are not installed, each in a sentence.
    """

    def __init__(self, store: Store, *, fast: bool = False, on_reply: OnReply | None = None) -> None:
        self.left_out = MissingProducers()
        self._store = store
        self._pace = FAST if fast else NORMAL
        self._on_reply = on_reply
        self._plays: dict[str, Play] = {}
        # Protects the start of the review agent, which all rehearsals share.
        self._peer_lock = asyncio.Lock()
        self._peer: AdoptingPeer | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> str:
        """Begin a rehearsal, and return the id of its session. It is played in the background.

        What rehearsals that have ended still hold is released; their sessions stay.
        """
        await asyncio.gather(*(play.close() for play in self._plays.values() if play.is_over))
        if self._is_closed:
            raise InvalidOption("the rehearsal is closed; make another one", field="rehearsal")
        session = await self._store.begin(attributes={TITLE_RECORD: TITLE, REHEARSAL_RECORD: True, AGENT_RECORD: NAME})
        play = Play(
            self._store,
            session,
            pace=self._pace,
            find_peer=self._find_peer,
            left_out=self.left_out,
            on_reply=self._on_reply,
        )
        self._plays[session.id] = play
        play.start()
        return session.id

    async def wait(self) -> None:
        """Return when all rehearsals have been played to the end."""
        for play in tuple(self._plays.values()):
            await play.wait()

    async def aclose(self) -> None:
        """End everything: scripts, processes, sockets and temporary folders. The sessions stay in the store."""
        self._is_closed = True
        try:
            await asyncio.gather(*(play.close() for play in self._plays.values()))
        finally:
            peer, self._peer = self._peer, None
            if peer is not None:
                await peer.close()

    def options_for(self, session_id: str) -> AgentOptions | None:
        """The options with which a later prompt of this session is run; None if the session is not one of a rehearsal."""
        play = self._plays.get(session_id)
        return None if play is None else play.options

    async def _find_peer(self) -> AdoptingPeer | None:
        async with self._peer_lock:
            if self._peer is None:
                module = await optional_module(
                    "peer", without="the review agent over A2A", extras="a2a,serve", left_out=self.left_out
                )
                if module is None:
                    return None
                peer: AdoptingPeer = module.ReviewAgent(self._store)
                try:
                    await peer.start()
                except OSError as error:
                    self.left_out.add(f"the review agent over A2A: {error}")
                    return None
                self._peer = peer
        return self._peer
