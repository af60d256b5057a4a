"""A session as a program holds it: tell it things, ask what waits, take things back."""

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from sideband.core import drain, inbox, lifecycle
from sideband.core.content import as_blocks
from sideband.core.errors import SessionBusy, UnknownMessage, shown
from sideband.core.events import Event
from sideband.core.fields import read_inject_mode
from sideband.core.hookevents import SessionEvent
from sideband.core.inbox import RevokeStatus
from sideband.core.limits import Limits
from sideband.core.parse import parse
from sideband.core.pending import Pending, Waiting, live_beside, pending, waiting
from sideband.core.reminder import ReminderId, Source
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.surfaces import Surface
from sideband.core.throttle import Throttle
from sideband.core.transcript import Transcript, Visibility, reminder_event
from sideband.core.trust import IN_PROCESS, Trust
from sideband.loop.conversation import Conversation
from sideband.loop.problems import Problem
from sideband.loop.telling import Surroundings, Teller
from sideband.loop.tenure import Tenure, take
from sideband.ports import Decision, Journal, Logged
from sideband.runtime.registries import HOOKS

if TYPE_CHECKING:
    from sideband.loop.agent import AgentRun


class Accepted(NamedTuple):
    """A reminder waits; its id, and how many waiting ones of its key it displaced."""

    reminder_id: ReminderId
    deduped_count: int


_Seen = TypeVar("_Seen")

# Handles on sessions, counted: each holds its leases for itself, and none takes them from another.
_HANDLES: Final = itertools.count(1)


class Session:
    """One conversation of one agent. Every method is one commit; what it answers is so from then on."""

    def __init__(self, journal: Journal, session_id: str, *, new_id: Callable[[], str], limits: Limits) -> None:
        self.id = session_id
        self.talk = Conversation(journal, session_id, new_id=new_id, limits=limits)
        self.run: AgentRun | None = None
        self._calling = False
        self._handle = next(_HANDLES)
        # None where this process has no rate: then nothing is counted.
        self._throttle = Throttle(limits) if Trust.OPERATOR in limits.accept_rate else None

    @property
    def busy(self) -> bool:
        """Whether a loop or a call of this process runs on it."""
        return self._calling or (self.run is not None and not self.run.over)

    def refuse_busy(self) -> None:
        """Raise where something runs on it already."""
        if self.busy:
            raise SessionBusy(
                f"session {shown(self.id)} is in use by a loop or a call; await it to its end, or leave it with "
                "`async with run:` or `await run.aclose()`",
                field="session",
                value=self.id,
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """One call at a time, and none beside a loop."""
        self.refuse_busy()
        self._calling = True
        try:
            yield
        finally:
            self._calling = False

    async def attend(self) -> Tenure:
        """Take the session on lease, for a run or a call; `SessionBusy` where another process or handle has it."""
        return await take(self.talk, f"{socket.gethostname()}:{os.getpid()}:{self._handle}")

    async def remind(self, body: str, **options: Any) -> Accepted:  # noqa: ANN401 - checked by the parser
        """Accept a reminder; the next seam that takes its mode makes it live.

        Options: `tags`, `dedupe_key`, `ttl_turns`, `preserve_on_compact`, `propagate`, `role_hint`, `mode`.
        """
        talk = self.talk
        draft = parse({"body": body, **options}, Surface.SESSION, limits=talk.limits)
        answers: list[inbox.Accepted] = []

        def decide(state: SessionState) -> Iterable[Event]:
            accepted = inbox.accept(
                state.inbox,
                draft,
                IN_PROCESS,
                new_id=talk.new_id(),
                source=Source.IN_PIPELINE,
                closed=state.closed,
                live=live_beside(state.live, IN_PROCESS, draft.dedupe_key),
                limits=talk.limits,
            )
            answers.append(accepted)
            return accepted.events

        if self._throttle is None:
            # The same as below, with two coroutines fewer on the way that everything that is accepted takes.
            await talk.journal.commit(talk.session_id, decide)
        else:
            self._admit()
            await self._commit(decide)
        accepted = answers[-1]
        return Accepted(accepted.reminder_id, accepted.deduped_count)

    async def inject(self, content: str | Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        """Accept a user message and return its id. `steer` reaches the running turn, `queue` starts the next one."""
        blocks = as_blocks(content)
        wanted = read_inject_mode(mode)
        self._admit()
        message_id = self.talk.new_id()
        await self._commit(
            lambda state: inbox.accept_message(
                state.inbox,
                blocks,
                wanted,
                IN_PROCESS,
                new_id=message_id,
                # What a process that died has left running reaches nobody.
                running=state.running and state.attended,
                closed=state.closed,
                limits=self.talk.limits,
            )
        )
        return message_id

    async def prompt(self, content: str | Sequence[Mapping[str, Any]]) -> str:
        """The user's next message: starts a turn when the session is idle, waits for that where it is not."""
        return await self.inject(content, mode=InjectMode.QUEUE)

    async def pending(self) -> tuple[Pending, ...]:
        """Every reminder that is queued or live, with its state."""
        return await self._seen(lambda state: pending(state.inbox.items(), state.live))

    async def waiting(self) -> tuple[Waiting, ...]:
        """The inbox in acceptance order: reminders and user messages that no seam has taken yet."""
        return await self._seen(lambda state: waiting(state.inbox.items()))

    async def _seen(self, look: Callable[[SessionState], _Seen]) -> _Seen:
        """What the session shows at this moment, whichever process has changed it last."""
        answers: list[_Seen] = []

        def decide(state: SessionState) -> Iterable[Event]:
            answers.append(look(state))
            return ()

        await self.talk.accept(decide)
        return answers[-1]

    async def revoke(self, item_id: str) -> RevokeStatus:
        """Withdraw what still waits, a reminder or a message; what a drain has taken is `AlreadyDelivered`."""
        answers: list[RevokeStatus] = []

        def decide(state: SessionState) -> Iterable[Event]:
            try:
                revocation = inbox.revoke_message(state.inbox, item_id, IN_PROCESS)
            except UnknownMessage:
                revocation = inbox.revoke_reminder(state.inbox, item_id, IN_PROCESS)
            answers.append(revocation.status)
            return revocation.events

        await self.talk.accept(decide)
        return answers[-1]

    async def replace(self, message_id: str, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Exchange the content of a waiting message; its id, mode and place stay."""
        blocks = as_blocks(content)
        self._admit()
        await self._commit(
            lambda state: inbox.replace_message(state.inbox, message_id, blocks, IN_PROCESS, limits=self.talk.limits)
        )

    def _admit(self) -> None:
        """Refuse what comes faster than it may, if this process has a rate."""
        if self._throttle is not None:
            self._throttle.admit(IN_PROCESS, now=asyncio.get_running_loop().time())

    async def _commit(self, decide: Decision) -> None:
        """Decide and apply; how many were refused since the last time because they came too fast is told with it."""
        throttle = self._throttle
        if throttle is None:
            await self.talk.accept(decide)
            return
        told = throttle.told(self.talk.new_id)
        try:
            await self.talk.accept(lambda state: (*(() if state.closed else told), *decide(state)))
        except Exception:
            # Not where the sender was cancelled: what was handed in is committed without them.
            throttle.untell(told)
            raise

    async def clear(
        self,
        *,
        id: str | None = None,
        tag: str | None = None,
        dedupe_key: str | None = None,
    ) -> int:
        """End every live reminder that matches all that is given; how many those were."""
        selector = lifecycle.Selector(id=id, tag=tag, dedupe_key=dedupe_key)
        return len(await self.talk.accept(lambda state: lifecycle.clear(state.live, selector)))

    async def cancel(self) -> bool:
        """End the turn that runs on this handle; the inbox stays as it is. False where nothing runs.

        A run that nobody drives at the moment is over when this returns; any other soon after. `SessionBusy` where it
        is another process or handle that runs the session: only that one can cancel it.
        """
        run = self.run
        if run is None or run.over:
            if not self._calling and await self._seen(lambda state: state.running and state.attended):
                raise SessionBusy(
                    f"session {shown(self.id)} is held by another process or another handle on it, or by a run that "
                    "could not give it back; cancel it there, or wait for the lease to lapse",
                    field="session",
                    value=self.id,
                )
            return False
        run.cancel()
        if not run.driven:
            await run.finish()
        return True

    async def events(self, *, kind_prefix: str = "", after: int = 0) -> AsyncGenerator[Logged, None]:
        """What has happened and will happen in this session."""
        logged = self.talk.journal.subscribe(session_id=self.id, kind_prefix=kind_prefix, after=after)
        async with aclosing(logged):
            async for entry in logged:
                yield entry

    async def transcript(self) -> Transcript:
        """The conversation and its reminders as they stand now."""
        return await self._seen(_transcript)

    async def close(self) -> tuple[Problem, ...]:
        """End the session, and with it all that it still has; what hooks on `session_end` did wrong is returned.

        A loop that runs on it has to be cancelled first.
        """
        problems: list[Problem] = []
        # Hooks may take their time: until the end is on record nobody begins a run.
        with self.calling():
            if not self.talk.state.closed:
                await self._farewell(problems).tell(SessionEvent.SESSION_END)
                await self.talk.write_notes()
            await self._commit(
                lambda state: () if state.closed else drain.close(state.inbox, state.live, request=state.request)
            )
        return tuple(problems)

    def _farewell(self, problems: list[Problem]) -> Teller:
        """The hooks and providers of the last run; for a session that never ran, the hooks of the process."""
        if self.run is None:
            around = Surroundings(options={}, config_for=lambda _id: {})
            return Teller(self.talk, HOOKS, (), around, problems.append)
        self.run.teller.report = problems.append
        return self.run.teller


def _transcript(state: SessionState) -> Transcript:
    live = [
        reminder_event(state.live.current(item), event_id=f"{item.id}/live", visibility=Visibility.PUBLIC)
        for item in state.live
    ]
    audit = [
        reminder_event(entry.reminder, event_id=f"{entry.reminder.id}/audit", visibility=Visibility.INTERNAL)
        for entry in state.audit
    ]
    return Transcript(messages=tuple(state.messages), events=(*live, *audit))
