"""What a session is, on one page: lists, counters, and each rule once. There is no store and there are no events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

INTERRUPT, FINISH, AUDIT = "interrupt_immediate", "finish_step", "audit_only"
TAKES: Final[Mapping[str, Sequence[str]]] = {
    "iteration_start": (INTERRUPT, FINISH),
    "pre_tool_dispatch": (INTERRUPT,),
    "post_tool_dispatch": (INTERRUPT, FINISH),
    "iteration_end": (INTERRUPT, FINISH),
    "loop_exit": (AUDIT,),
}
# So many batches may be skipped in a row.
MOST_SKIPPED: Final = 3


@dataclass
class Thing:
    """A reminder or a message; `mode` None waits for the session to be idle, `left` is what remains of a TTL."""

    id: str
    text: str
    mode: str | None
    is_message: bool = False
    key: str | None = None
    ttl: int | None = None
    stays: bool = False
    left: int | None = None


@dataclass
class Request:
    turn: int
    attempt: int
    shows: list[str]
    length: int


@dataclass
class Model:
    """`said` is the conversation: who speaks, and what."""

    queue: list[Thing] = field(default_factory=list)
    live: list[Thing] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    fates: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    request: Request | None = None
    turn: int = 0
    running: bool = False
    skipped: int = 0

    # The inbox.

    def remind(self, thing: Thing) -> int:
        alike = [
            other
            for other in self.queue
            if thing.key is not None and other.key == thing.key and (other.mode == AUDIT) == (thing.mode == AUDIT)
        ]
        for other in alike:
            self._leaves(other, "already_revoked")
        self.queue.append(thing)
        return len(alike)

    def inject(self, thing: Thing) -> str:
        if not self.running and thing.mode in (INTERRUPT, FINISH):
            return "no_running_turn"
        self.queue.append(thing)
        return "accepted"

    def revoke(self, item_id: str) -> str:
        for thing in self.queue:
            if thing.id == item_id:
                self._leaves(thing, "already_revoked")
                return "revoked"
        return self.fates[item_id]

    def replace(self, item_id: str, text: str) -> str:
        for thing in self.queue:
            if thing.id == item_id:
                thing.text = text
                return "replaced"
        return self.fates[item_id]

    def _leaves(self, thing: Thing, fate: str) -> None:
        self.queue.remove(thing)
        self.fates[thing.id] = fate

    def drain(self, seam: str, *, closing: bool = False) -> list[str]:
        found = [thing for mode in TAKES[seam] for thing in self.queue if thing.mode == mode]
        if seam == "pre_tool_dispatch" and self.skipped >= MOST_SKIPPED:
            found = []
        taken = sorted(found, key=lambda thing: thing.is_message)
        if taken and seam == "pre_tool_dispatch":
            self._end_calls("interrupted")
            self.skipped += 1
        for thing in taken:
            self._deliver(thing)
        if closing and not taken:
            self.running, self.skipped = False, 0
        return [thing.id for thing in taken]

    def _deliver(self, thing: Thing) -> None:
        self._leaves(thing, "already_delivered")
        if thing.is_message and thing.mode != AUDIT:
            self.said.append(f"user {thing.text}")
        elif thing.mode == AUDIT and not thing.is_message:
            self.recorded.append(thing.id)
        elif not thing.is_message:
            self.live = [other for other in self.live if thing.key is None or other.key != thing.key]
            self.live.append(thing)

    def begin(self) -> None:
        """A run begins, with the first message that waits for one, if there is any."""
        self.running = True
        for thing in [thing for thing in self.queue if thing.mode is None][:1]:
            self._deliver(thing)

    # What is live.

    def clear(self, key: str) -> int:
        before = len(self.live)
        self.live = [thing for thing in self.live if thing.key != key]
        return before - len(self.live)

    def ask(self) -> tuple[int, int]:
        if self.request is not None and self.request.length == len(self.said):
            self.request.attempt += 1
        else:
            self.request = Request(self.turn + 1, 1, [thing.id for thing in self.live], len(self.said))
        return self.request.turn, self.request.attempt

    def answer(self, text: str, calls: Sequence[str]) -> None:
        assert self.request is not None
        self.turn = self.request.turn
        for thing in self.live:
            if thing.left is None and thing.id in self.request.shows:
                thing.left = thing.ttl
            if thing.left is not None:
                thing.left -= 1
        self.live = [thing for thing in self.live if thing.left != 0]
        self.said.append(f"assistant {text}")
        self.calls = list(calls)
        self.request = None

    def result(self, call_id: str, status: str) -> None:
        self.calls.remove(call_id)
        self.said.append(f"tool {call_id} {status}")
        if status != "interrupted":
            self.skipped = 0

    def _end_calls(self, status: str) -> None:
        for call_id in list(self.calls):
            self.result(call_id, status)

    def compact(self, keep: int) -> int:
        archived = max(0, len(self.said) - keep)
        if archived:
            self.said = self.said[archived:]
            for thing in self.live:
                if thing.left is not None:
                    thing.left -= 1
            self.live = [thing for thing in self.live if thing.stays and thing.left != 0]
        return archived

    def recover(self) -> None:
        """Another process goes on with what the last one has left."""
        self._end_calls("unknown")
        if self.running:
            self.running, self.skipped = False, 0
