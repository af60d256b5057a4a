"""One rehearsal: its session, its workspace, everything that speaks to it, and the runner that plays the script."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

from sideband.core.errors import ReminderError
from sideband.logs import LOG
from sideband.loop.hooks import Hooks
from sideband.providers.registry import Registry
from sideband.rehearsal.model import NextLine, RehearsedModel, ScriptedReply, call
from sideband.rehearsal.observer import Observer
from sideband.rehearsal.pace import Pace
from sideband.rehearsal.sample import SampleWorkspace
from sideband.rehearsal.script import BUILD_KEY, SYSTEM, ReminderPeer, Script
from sideband.render.view import RequestView
from sideband.runtime.options import AgentOptions, RemindersOption
from sideband.runtime.runner import Runner, TurnStatus
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.runtime.workers import Worker, spawn

NAME: Final = "rehearsal"
REVIEWER: Final = "reviewer"
TITLE_RECORD: Final = "title"
REHEARSAL_RECORD: Final = "rehearsal"

# Recalled facts belong to the user's own work, and an idle session should not be nudged.
_REMINDERS: Final[RemindersOption] = {"providers": ["-project_facts", "-idle_nudge"]}
_READING_TOOLS: Final = frozenset({"read_file", "search", "list_dir"})

# Called with the id of the session, the id of the reply, the number of the attempt, and a piece of the text.
OnReply: TypeAlias = Callable[[str, str, int, str], None]


class AdoptingPeer(ReminderPeer, Protocol):
    """The review agent, which can reach a session after it has adopted it."""

    async def start(self) -> None: ...

    async def adopt(self, session: Session) -> None: ...

    async def close(self) -> None: ...


# Starts the review agent, or returns the one that runs; None if it cannot be used.
FindPeer: TypeAlias = Callable[[], Awaitable[AdoptingPeer | None]]


class MissingProducers(list[str]):
    """The producers that are missing in a rehearsal, each in a sentence that says why."""

    def add(self, sentence: str) -> None:
        if sentence not in self:
            self.append(sentence)
            LOG.info("rehearsal: %s", sentence)


async def optional_module(name: str, *, without: str, extras: str, left_out: MissingProducers) -> Any | None:  # noqa: ANN401 - a module
    """A module of this package that needs `extras`, imported in a thread; None if they are not installed.

    `without` is what is missing then.
    """
    try:
        return await asyncio.to_thread(import_module, f"sideband.rehearsal.{name}")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("sideband"):
            raise
        package = (missing.name or "a package").partition(".")[0]
        left_out.add(f"{without}: {package} is not installed: pip install 'sideband[{extras}]'")
        return None


class Play:
    """Plays the script on one session, in a task of its own."""

    def __init__(
        self,
        store: Store,
        session: Session,
        *,
        pace: Pace,
        find_peer: FindPeer,
        left_out: MissingProducers,
        on_reply: OnReply | None,
    ) -> None:
        self.session = session
        self._store = store
        self._pace = pace
        self._find_peer = find_peer
        self._left_out = left_out
        self._on_reply = on_reply
        self._workspace = SampleWorkspace()
        self._observer = Observer(session)
        self._script = Script(session, self._workspace, self._observer, pace)
        # What ends the producers, in the order in which they were started.
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._options: AgentOptions = {
            **self._common(self._script.next_line),
            "name": NAME,
            "tools": [*self._workspace.tools, self.ask_reviewer],
            "compactor": "summarize",
        }
        self._task: asyncio.Task[None] | None = None

    @property
    def options(self) -> AgentOptions:
        """The options of a run that answers a later prompt; without tools after the end, when their folder is gone."""
        return {**self._options, "tools": []} if self._workspace.is_removed else self._options

    @property
    def is_over(self) -> bool:
        """Whether the script has ended."""
        return self._task is not None and self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._play(), name="sideband-rehearsal")

    async def wait(self) -> None:
        """Return when the script has ended; raise what it failed with."""
        if self._task is not None:
            await asyncio.wait((self._task,))
            if not self._task.cancelled():
                self._task.result()

    async def close(self) -> None:
        """End the script and all producers, and remove the workspace. The session stays as it is."""
        try:
            if self._task is not None and not self._task.done():
                self._task.cancel()
                await asyncio.wait((self._task,))
            for error in await asyncio.gather(*(close() for close in reversed(self._closers)), return_exceptions=True):
                if isinstance(error, Exception):
                    LOG.error("a producer of the rehearsal was not ended in order", exc_info=error)
        finally:
            self._closers.clear()
            self._workspace.remove()

    # Playing.

    async def _play(self) -> None:
        try:
            await self._script.tell_policy()
            await self._set_up()
            first = await self._script.begin()
            async with Runner(self.session, on_reply=self._pass_text, **self._options) as runner:
                status = (await runner.outcome(first)).status
                for later in self._script.later_prompts if status is TurnStatus.COMPLETED else ():
                    await runner.outcome(later)
        except ReminderError as error:
            # The session was closed or deleted in the middle.
            LOG.info("the rehearsal of session %s has ended early: %s", self.session.id, error)

    async def _set_up(self) -> None:
        """Start what speaks to the session; what cannot be started is left out."""
        self._observer.start()
        self._closers.append(self._observer.close)
        await asyncio.gather(self._watch_files(), self._watch_build(), self._start_peer())

    async def _watch_files(self) -> None:
        module = await optional_module("files", without="the file watcher", extras="watch", left_out=self._left_out)
        if module is not None:
            relay = module.FileRelay(self.session, self._workspace)
            self._closers.append(relay.close)
            await relay.start()
            self._script.watches_files = True

    async def _watch_build(self) -> None:
        module = await optional_module(
            "build", without="the build watcher over MCP", extras="mcp,watch", left_out=self._left_out
        )
        if module is None:
            return
        watcher = module.BuildWatcher(self.session, self._workspace)
        self._closers.append(watcher.close)
        await watcher.start()
        if watcher.failure is not None:
            self._left_out.add(f"the build watcher over MCP: {watcher.failure}")
        elif await self._observer.until_queued(BUILD_KEY):
            self._script.watches_build = True
        else:
            self._left_out.add("the build watcher over MCP: it has told nothing")

    async def _start_peer(self) -> None:
        peer = await self._find_peer()
        if peer is not None:
            await peer.adopt(self.session)
            self._script.peer = peer

    # Runs.

    def _common(self, next_line: NextLine) -> AgentOptions:
        return {
            "model": RehearsedModel(next_line, pace=self._pace),
            "system": SYSTEM,
            "reminders": _REMINDERS,
            "hooks": Hooks(),
            "providers": Registry(),
        }

    def _pass_text(self, _reply_id: str, text: str) -> None:
        self._tell(self.session, text)

    def _tell(self, session: Session, text: str) -> None:
        request = session.talk.state.request
        if self._on_reply is not None and request is not None:
            self._on_reply(session.id, request.reply_id, request.attempt, text)

    async def ask_reviewer(self, question: str) -> str:
        """Ask a reviewer, a sub-agent that reads this workspace with fresh eyes.

        Args:
            question: What the reviewer has to find out.
        """
        lines = _review()

        async def next_line(_view: RequestView) -> ScriptedReply:
            await self._pace.rest()
            return await anext(lines, ScriptedReply("I have nothing to add."))

        worker: Worker
        options: AgentOptions = {
            **self._common(next_line),
            "name": REVIEWER,
            "tools": [tool for tool in self._workspace.tools if tool.name in _READING_TOOLS],
            "on_text": lambda text: self._tell(worker.session, text),
        }
        worker = await spawn(self.session, self._store, question, **options)
        await worker.session.record({TITLE_RECORD: REVIEWER, REHEARSAL_RECORD: True})
        result = await worker.work()
        await worker.session.close()
        return result.text


async def _review() -> AsyncGenerator[ScriptedReply, None]:
    """The lines of the reviewer."""
    yield ScriptedReply("I search for the calls.", (call("search", pattern="discounted("),))
    yield ScriptedReply("Two files call it. cart.py passes percents. report.py passes the share 0.1 where 10 is meant.")
