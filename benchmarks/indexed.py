"""The engine itself: each operation is a decision, and its events applied."""

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Final

from sideband.core.accept import Selector, accept, clear, revoke_reminder
from sideband.core.apply import fold
from sideband.core.events import Event, QueuedReminder, Started
from sideband.core.lifecycle import go_live
from sideband.core.limits import Limits
from sideband.core.reminder import Draft, Reminder
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.core.turn import PlannedRequest, Shown, close_turn, open_request

# A session refuses far fewer than are measured here.
NO_LIMITS: Final = Limits(pending_per_session=10**9, pending_per_source=MappingProxyType({}))
EDITOR: Final = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")


class Indexed:
    """One session of ours."""

    def __init__(self) -> None:
        self._state = SessionState()
        self._apply([Started()])

    def __len__(self) -> int:
        return len(self._state.inbox) + len(self._state.live)

    # What is timed.

    def inject(self, reminder: Reminder) -> int:
        return self._apply(go_live(self._state, reminder, IN_PROCESS)) - 1

    def accept(self, draft: Draft, new_id: str) -> int:
        events, accepted = accept(self._state, draft, EDITOR, new_id=new_id, limits=NO_LIMITS)
        self._apply(events)
        return accepted.deduped_count

    def end_turn(self) -> int:
        return self._apply(close_turn(self._state, reply=None, usage=None).events) - 1

    def clear(self, tag: str) -> int:
        return self._apply(clear(self._state, Selector(tag=tag), IN_PROCESS).events)

    def revoke(self, reminder_id: str) -> int:
        return self._apply(revoke_reminder(self._state, reminder_id, EDITOR).events)

    def listing(self) -> Sequence[Reminder]:
        live = self._state.live
        return [live.current(item) for item in live]

    def _apply(self, events: Sequence[Event]) -> int:
        fold(events, self._state)
        return len(events)

    # What is not.

    def load(self, reminders: Iterable[Reminder]) -> None:
        """Live and shown in one turn."""
        shown = []
        for reminder in reminders:
            self.inject(reminder)
            shown.append(Shown(reminder.id, "system"))
        self._open(PlannedRequest(shown=tuple(shown)))
        self.end_turn()

    def enqueue(self, drafts: Iterable[Draft], new_id: Callable[[], str]) -> None:
        for draft in drafts:
            self.accept(draft, new_id())

    def begin_turn(self) -> None:
        """A request that shows nothing for the first time."""
        self._open(PlannedRequest())

    def _open(self, planned: PlannedRequest) -> None:
        self._apply(open_request(self._state, self._state.basis, planned, repeats=False).events)

    def withdraw(self, reminder_id: str) -> None:
        self._apply(clear(self._state, Selector(id=reminder_id), IN_PROCESS).events)

    def ids_by_key(self) -> dict[str | None, str]:
        waiting = (item.reminder for item in self._state.inbox.items() if isinstance(item, QueuedReminder))
        live = (item.reminder for item in self._state.live)
        return {reminder.dedupe_key: reminder.id for reminder in (*waiting, *live)}
