"""A session as a program holds it: send it reminders and messages, list what is pending, withdraw it."""

import itertools
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Literal, Never, Unpack, cast

from sideband.core import accept, drain, turn
from sideband.core.accept import Accepted, RevokeStatus
from sideband.core.errors import InvalidOption, SessionBusy, shown
from sideband.core.events import Closing
from sideband.core.hookevents import SessionEvent
from sideband.core.limits import Limits
from sideband.core.parse import read_item_id
from sideband.core.reminder import Propagate, PropagateWord, RoleHint, RoleHintWord, Source, Tags
from sideband.core.seams import InjectMode, InjectModeWord, Mode, ModeWord
from sideband.core.state import Decided, Pending, SessionState, Waiting
from sideband.core.surfaces import Surface
from sideband.core.topic import TopicRecord
from sideband.core.transcript import Transcript, transcript_of
from sideband.core.trust import IN_PROCESS, Grant, GrantField, GrantFieldWord, Trust
from sideband.core.updates import OPERATOR, Update, Viewer
from sideband.loop.conversation import Conversation, HomeLoop
from sideband.loop.guard import Problem
from sideband.loop.hooks import HookRunner
from sideband.loop.lease import HeldLease, acquire_lease
from sideband.ports import Journal
from sideband.runtime.producer import Intake, Producer
from sideband.runtime.records import read_records
from sideband.runtime.registries import HOOKS
from sideband.runtime.system import SystemClock
from sideband.runtime.updates import Sync, topic, updates, view

if TYPE_CHECKING:
    from sideband.loop.agent import AgentRun
    from sideband.runtime.chat import Chat
    from sideband.runtime.options import AgentOptions

# Each handle on a session holds leases of its own, so that two handles of one process exclude each other.
_HANDLES: Final = itertools.count(1)


class Session:
    """One conversation of one agent. What a method has accepted or changed is durable when it returns."""

    def __init__(
        self,
        journal: Journal,
        session_id: str,
        *,
        new_id: Callable[[], str],
        limits: Limits,
        intake: Intake | None = None,
        home: HomeLoop | None = None,
    ) -> None:
        self.id = session_id
        self.talk = Conversation(journal, session_id, new_id=new_id, limits=limits, home=home)
        self.run: AgentRun | None = None
        self._calling = False
        self._handle = next(_HANDLES)
        self.intake = intake or Intake(limits, SystemClock())
        self._producer = Producer(self, IN_PROCESS, surface=Surface.SESSION, source=Source.IN_PIPELINE)

    @property
    def busy(self) -> bool:
        """Whether a loop or a call of this process runs on the session."""
        return self._calling or (self.run is not None and not self.run.over)

    def refuse_busy(self) -> None:
        """Raise `SessionBusy` if a loop or a call of this process runs on the session."""
        if self.busy:
            raise SessionBusy(
                f"session {shown(self.id)} is in use by a loop or a call; await it to its end, or leave it with "
                "`async with run:` or `await run.aclose()`",
                field="session",
                value=self.id,
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Exclude other calls and loops of this process for the duration of the block."""
        self.refuse_busy()
        self._calling = True
        try:
            yield
        finally:
            self._calling = False

    async def attend(self) -> HeldLease:
        """Take the session's lease, for a run or a call; `SessionBusy` if another process or handle holds it."""
        self.talk.home.check()
        return await acquire_lease(self.talk, f"{socket.gethostname()}:{os.getpid()}:{self._handle}")

    # The producer of this process; `Producer` describes the methods.

    async def remind(
        self,
        body: str,
        *,
        tags: Tags = (),
        dedupe_key: str | None = None,
        ttl_turns: int | None = None,
        preserve_on_compact: bool = False,
        propagate: PropagateWord = Propagate.SESSION,
        role_hint: RoleHintWord = RoleHint.SYSTEM,
        mode: ModeWord = Mode.FINISH_STEP,
        **unknown: Never,
    ) -> Accepted:
        """Accept a reminder into the inbox; the next seam that drains its mode makes it live.

        A reminder with `ttl_turns` is shown in so many turns; without, it lives until it is cleared or compacted away. A
        newer reminder with the same `dedupe_key` replaces it. A wrong or unknown option raises `ReminderError`.
        """
        return await self._producer.remind(
            {
                "body": body,
                "tags": tags,
                "dedupe_key": dedupe_key,
                "ttl_turns": ttl_turns,
                "preserve_on_compact": preserve_on_compact,
                "propagate": propagate,
                "role_hint": role_hint,
                "mode": mode,
                **unknown,
            }
        )

    async def inject(
        self, content: str | Sequence[Mapping[str, Any]], *, mode: InjectModeWord = InjectMode.STEER
    ) -> str:
        """Accept a user message and return its id. `steer` reaches the running turn, `queue` starts the next one."""
        return await self._producer.inject(content, mode=mode)

    async def prompt(self, content: str | Sequence[Mapping[str, Any]]) -> str:
        """Queue the user's next message and return its id; it starts a turn when the session is idle."""
        return await self._producer.inject(content, mode=InjectMode.QUEUE)

    def chat(self, **options: Unpack["AgentOptions"]) -> "Chat":
        """A chat, which answers the prompts of this session: `async with session.chat(model=…) as chat:`.

        The options are those of `agent_loop`, without `wake_seconds`; budgets are per prompt.
        """
        from sideband.runtime.chat import Chat  # noqa: PLC0415 - the chat imports this module

        return Chat(self, **options)

    async def pending(self) -> tuple[Pending, ...]:
        """Every queued and every live reminder."""
        return await self._producer.pending()

    async def waiting(self) -> tuple[Waiting, ...]:
        """The inbox in acceptance order: reminders and user messages that no seam has drained."""
        return await self._producer.waiting()

    async def revoke(self, item_id: str) -> RevokeStatus:
        """Withdraw a queued reminder or message; `AlreadyDelivered` if it was drained."""
        return await self._producer.revoke(item_id)

    async def replace_reminder(self, reminder_id: str, body: str) -> None:
        """Replace the body of a queued reminder; its id, mode and position stay."""
        await self._producer.replace_reminder(reminder_id, body)

    async def replace_message(self, message_id: str, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Replace the content of a queued message; its id, mode and position stay."""
        await self._producer.replace_message(message_id, content)

    async def clear(
        self,
        *,
        id: str | None = None,
        tag: str | None = None,
        dedupe_key: str | None = None,
    ) -> int:
        """End every queued and live reminder that matches all given selectors; return how many.

        An `audit_only` reminder is selected by its id only.
        """
        return await self._producer.clear(id=id, tag=tag, dedupe_key=dedupe_key)

    # What only the operator may do.

    async def grant(
        self,
        principal: str,
        *,
        trust: Literal["peer", "server"],
        field: GrantFieldWord,
        value: str | int | bool | None,
        until: int | None = None,
    ) -> None:
        """Raise the ceiling of one field for one producer, by its name and its level (`peer` or `server`).

        `value=None` is a grant of any TTL. `until` is the end of the grant in milliseconds since the epoch; None never
        ends.
        """
        grant = Grant(
            trust=_read_level(trust), principal=principal, field=cast("GrantField", field), value=value, until=until
        )
        await self.talk.write(lambda state: accept.issue_grant(state, grant, IN_PROCESS))

    async def records(self) -> dict[str, Any]:
        """The named records as they are now, in whichever process they were set."""
        self.talk.home.check()
        return (await self.talk.journal.read(self.id, lambda state: deepcopy(state.records))).value

    async def record(self, records: Mapping[str, Any], *, only_new: bool = False) -> None:
        """Set named records of the session; None removes one. With `only_new`, raise `SessionBusy` if one is set already.

        The store lists them with the session and finds sessions by them. `agent` and `task_id` appear in published
        events, and a session with `owner` is unknown to every peer of another name.
        """
        kept = read_records(records, field="records")
        await self.talk.write(lambda state: turn.record(state, kept, only_new=only_new))

    async def cancel(
        self, message_id: str | None = None, *, hold_queue: bool | None = None, or_next: bool = False
    ) -> bool:
        """End the turn, whichever process runs it; the inbox stays as it is. Return False if there is nothing to end.

        With `message_id`, only if this message started the turn or has not started one yet: such a message never starts
        a turn later. With `or_next`, the turn that is about to begin is ended if none runs. `hold_queue` lets queued messages wait for the next prompt (None: as `queue_after_cancel` of the run
        says). The turn is over when this returns. Its run ends soon after; a run of this handle that no task is driving
        is over when this returns.
        """
        if message_id is not None:
            message_id = read_item_id(message_id, "message_id")
        run = None if self.run is None or self.run.over else self.run
        results = {} if run is None else run.unfinished_results()
        prompt = None if run is None else run.prompt_id

        def decide(state: SessionState) -> Decided[bool]:
            if message_id is not None:
                return turn.cancel(state, message_id=message_id, hold_queue=hold_queue, results=results)
            first = drain.startable(state) if or_next else None
            return turn.cancel_run(
                state, prompt=prompt if first is None else first.id, hold_queue=hold_queue, results=results
            )

        cancelled = await self.talk.write(decide)
        if run is None or not (message_id is None or run.was_cancelled()):
            return cancelled
        run.cancel()
        if not run.driven:
            await run.finish()
        return True

    async def finish(self, records: Mapping[str, Any]) -> bool:
        """End the session for good and set these named records in the same commit; return False if it is over already.

        Unlike `close`, this ends a turn that runs, in whichever process. What is still queued is dropped with the reason
        `task_finished`, and later requests are refused with it.
        """
        closing = Closing(records=read_records(records, field="records"))
        run = None if self.run is None or self.run.over else self.run
        results = {} if run is None else run.unfinished_results()
        finished = await self.talk.write(lambda state: turn.finish(state, closing=closing, results=results))
        if finished and run is not None:
            run.cancel()
        return finished

    def events(self, *, kind_prefix: str = "", after: int = 0) -> AsyncGenerator[TopicRecord, None]:
        """The records of the topic of this session after a sequence number, past and future."""
        return topic(self.talk.journal, session_id=self.id, kind_prefix=kind_prefix, after=after)

    def updates(
        self, viewer: Viewer = OPERATOR, *, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[Update, None]:
        """One update per event of this session after a cursor; with `follow`, of future events too."""
        return updates(self, viewer, after=after, follow=follow)

    async def view(self, viewer: Viewer = OPERATOR) -> Sync:
        """What the viewer may see of this session now, and the cursor that `updates` continue from."""
        self.talk.home.check()
        return await view(self, viewer)

    async def transcript(self) -> Transcript:
        """The conversation and its reminders as they stand now."""
        self.talk.home.check()
        return (await self.talk.journal.read(self.id, transcript_of)).value

    async def close(self) -> tuple[Problem, ...]:
        """End the session and everything it still has; return the problems of hooks on `session_end`.

        `SessionBusy`, and nothing changes, while a loop or a call runs on the session, in this process or another one.
        """
        problems: list[Problem] = []
        # Hooks may take a while; no run may begin until the end is committed.
        with self.calling():
            lease = await self.attend()
            try:
                lease.keep(lambda _lost: None)
                if not self.talk.state.closed:
                    await self._end_hooks(problems).notify(SessionEvent.SESSION_END, {})
                    await self.talk.write_notes()
                await self.intake.write()
                await self.talk.commit(turn.close)
            finally:
                await lease.release()
        return tuple(problems)

    def _end_hooks(self, problems: list[Problem]) -> HookRunner:
        """The hooks and providers of the last run; for a session that never ran, the hooks of the process."""
        if self.run is None:
            return HookRunner(self.talk, HOOKS, problems.append)
        self.run.hooks.report = problems.append
        return self.run.hooks


def _read_level(trust: object) -> Trust:
    levels = {level.name.lower(): level for level in (Trust.PEER, Trust.SERVER)}
    if not isinstance(trust, str) or trust not in levels:
        raise InvalidOption(f"trust must be 'peer' or 'server', not {shown(trust)}", field="trust", value=trust)
    return levels[trust]
