"""A naive session, the reference model for the core and for the stores: plain lists and dicts, each rule written once.

It is written from the specification alone, so that it can disagree with the core. It has no indexes, no events and no
derived values, and the remainder of a TTL is a counter that goes down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sideband.core.limits import Limits

INTERRUPT, FINISH, AUDIT, QUEUE = "interrupt_immediate", "finish_step", "audit_only", "queue"
WAITS_IN = {"steer": FINISH}
SEAMS: dict[str, list[str]] = {
    "iteration_start": [INTERRUPT, FINISH],
    "pre_tool_dispatch": [INTERRUPT],
    "post_tool_dispatch": [INTERRUPT, FINISH],
    "iteration_end": [INTERRUPT, FINISH],
    "daemon_idle_pre": [INTERRUPT],
    "daemon_idle_post": [INTERRUPT],
    "pre_compact": [],
    "post_compact": [],
    "loop_exit": [AUDIT],
}
LONGEST_TTL = {2: 3, 3: 2}

Note = dict[str, Any]


class Refused(Exception):
    """`reason` is that of the error that the core raises."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Who(NamedTuple):
    """A sender: its trust level from 0 (operator) to 3 (server), and its name. This process has no name."""

    level: int
    name: str | None

    @property
    def space(self) -> object:
        return "own" if self.level <= 1 else self

    def may_touch(self, other: "Who") -> bool:
        return self.space in ("own", other.space)


class Reply(NamedTuple):
    """The reply to an accepted reminder; `is_free` if it costs its sender no token."""

    id: str
    deduped_count: int
    requested: Note
    accepted_at: int = 0
    version: int = 1
    is_free: bool = False


class Receipt(NamedTuple):
    """The newest request under a caller's id, and the reply to it."""

    who: Who
    ask: Note
    reply: Reply


@dataclass
class Request:
    """An open request; `messages` is the length of the conversation it was sent with."""

    turn: int
    attempt: int
    shown: Sequence[str]
    left_out: Sequence[str]
    messages: int


class NaiveSession:
    """`messages` is the conversation: the role, then the text, or the call and its status."""

    def __init__(self, limits: Limits) -> None:
        self.most, self.for_interrupts = limits.pending_per_session, limits.reserved_for_interrupts
        self.most_from = {level.value: most for level, most in limits.pending_per_source.items()}
        self.longest_body = {level.value: longest for level, longest in limits.body_bytes.items()}
        self.queued: list[Note] = []
        self.live: list[Note] = []
        self.audit: list[Note] = []
        self.messages: list[str] = []
        self.calls: list[str] = []
        self.known: dict[str, Note] = {}
        self.delivered: set[str] = set()
        self.receipts: dict[str, Receipt] = {}
        self.records: Note = {}
        self.fates: dict[str, str] = {}
        self.fired: list[tuple[int, str]] = []
        self.turn, self.windows, self.skipped = 0, 0, 0
        self.request: Request | None = None
        self.running = self.held = self.asking = self.deleted = False
        self.ended: str | None = None

    # The inbox.

    def accept(
        self,
        ask: Note,
        who: Who,
        *,
        new_id: str,
        caller_id: str | None = None,
        source: str = "bridge",
        versioned: bool = False,
        now: int = 0,
        has_token: bool = True,
    ) -> Reply:
        if who.level == 2 and self.records.get("owner", who.name) != who.name:
            raise Refused("unknown_session")
        earlier = None if caller_id is None else self._earlier(caller_id, who)
        if earlier is not None and earlier.ask == ask:
            return earlier.reply._replace(is_free=True)
        if earlier is not None and not versioned:
            raise Refused("idempotency_conflict")
        self.refuse_after_the_end()
        if len(ask["body"].encode()) > self.longest_body[who.level]:
            raise Refused("body_too_large")
        got = clamped(ask, who)
        version = 1 if earlier is None else earlier.reply.version + 1
        chosen_id = caller_id if version == 1 else f"{caller_id}~{version}"
        note = {**got, "kind": "reminder", "id": chosen_id or new_id, "who": who, "hops": 0, "origin": None}
        note |= {"source": source, "fired_at_turn": 0, "line": caller_id, "version": version, "accepted_at": now}
        replaced = [
            other
            for other in self.queued
            if other["kind"] == "reminder"
            and (
                same_line(other, note)
                or (same_key(other, note) and (other["mode"] == AUDIT) == (note["mode"] == AUDIT))
            )
        ]
        if not replaced and not has_token:
            raise Refused("rate_limited")
        self._check_capacity(note, replaced)
        for other in replaced:
            self._withdraw(other, "deduped")
        self._take_in(note)
        requested = {name: ask[name] for name in ask if ask[name] != got[name]}
        reply = Reply(note["id"], len(replaced), requested, now, version, is_free=bool(replaced))
        if caller_id is not None:
            self.receipts[caller_id] = Receipt(who, ask, reply)
        return reply

    def _earlier(self, caller_id: str, who: Who) -> Receipt | None:
        """What this sender has sent under the id; the id may be taken."""
        earlier = self.receipts.get(caller_id)
        if caller_id in self.known if earlier is None else earlier.who != who:
            raise Refused("idempotency_conflict")
        return earlier

    def refuse_after_the_end(self) -> None:
        if self.ended is not None or self.deleted:
            raise Refused("task_finished" if self.ended == "task_finished" else "unknown_session")

    def accept_message(self, text: str, mode: str, who: Who, *, new_id: str, has_token: bool = True) -> None:
        if who.level > 1:
            raise Refused("not_permitted")
        self.refuse_after_the_end()
        if not has_token:
            raise Refused("rate_limited")
        will_run = self.running or (self._queue() and not self.held)
        if not will_run and mode not in (QUEUE, AUDIT):
            raise Refused("no_running_turn")
        note = {"kind": "user", "id": new_id, "who": who, "text": text, "mode": mode, "revision": 1}
        self._check_capacity(note, [])
        self._take_in(note)
        self.held = False

    def _queue(self) -> list[Note]:
        return [item for item in self.queued if item["mode"] == QUEUE]

    def _check_capacity(self, note: Note, leaving: list[Note]) -> None:
        """Messages, audit records and other reminders are counted separately; live reminders count as reminders."""
        staying = [item for item in self.queued if item not in leaving and quota(item) == quota(note)]
        own = [item for item in staying if item["who"] == note["who"]]
        live = len([other for other in self.live if not replaces(note, other)]) if quota(note) == "reminders" else 0
        more = self.for_interrupts if note["mode"] == INTERRUPT else 0
        unbounded = self.most + self.for_interrupts
        if (
            len(staying) + live >= self.most + more
            or len(own) >= self.most_from.get(note["who"].level, unbounded) + more
        ):
            raise Refused("too_many_pending")

    def _take_in(self, item: Note) -> None:
        self.queued.append(item)
        self.known[item["id"]] = item

    def _withdraw(self, item: Note, fate: str) -> None:
        self.queued.remove(item)
        self.fates[item["id"]] = fate

    def revoke(self, item_id: str, kind: str, who: Who) -> str:
        item = self._waiting(item_id, kind, who)
        if item is None:
            return "already_revoked"
        self._withdraw(item, "revoked")
        return "revoked"

    def replace(self, message_id: str, text: str, who: Who) -> None:
        item = self._waiting(message_id, "user", who)
        if item is None:
            raise Refused("already_revoked")
        item["text"], item["revision"] = text, item["revision"] + 1

    def replace_reminder(self, reminder_id: str, body: str, who: Who) -> None:
        item = self._waiting(reminder_id, "reminder", who)
        if item is None:
            raise Refused("already_revoked")
        item["body"] = body

    def _waiting(self, item_id: str, kind: str, who: Who) -> Note | None:
        item = self.known.get(item_id)
        if item is None or item["kind"] != kind or not who.may_touch(item["who"]):
            raise Refused("unknown_reminder_id" if kind == "reminder" else "unknown_message_id")
        if item_id in self.delivered:
            raise Refused("already_delivered")
        return item if item in self.queued else None

    def drain(self, seam: str, *, closing: bool = False) -> list[str]:
        modes = SEAMS[seam]
        if seam == "pre_tool_dispatch" and self.skipped >= 3:
            modes = []
        found = [item for mode in modes for item in self.queued if WAITS_IN.get(item["mode"], item["mode"]) == mode]
        if self.asking:
            found = [item for item in found if not is_steer_or_interrupt(item)]
        taken = [item for kind in ("reminder", "user") for item in found if item["kind"] == kind]
        if taken and seam == "pre_tool_dispatch":
            self._end_calls("interrupted")
            self.skipped += 1
        for item in taken:
            self._deliver(item)
        if closing and not taken:
            self.running, self.skipped = False, 0
        return [item["id"] for item in taken]

    def _deliver(self, item: Note) -> None:
        self.queued.remove(item)
        self.delivered.add(item["id"])
        if item["kind"] == "user":
            self.fates[item["id"]] = "delivered"
            self.messages += [] if item["mode"] == AUDIT else [f"user {item['text']}"]
        elif item["mode"] == AUDIT:
            self.fates[item["id"]] = "audit_recorded"
            self.audit.append(item)
        else:
            self.go_live(item)

    def start(self, *, even_held: bool = False) -> bool:
        """The first queued message starts a run, if there is one and the session is idle."""
        queue = self._queue()
        if not queue or self.running or (self.held and not even_held):
            return False
        self._deliver(queue[0])
        self.begin()
        return True

    def begin(self) -> None:
        """A run begins without a message."""
        self.running, self.held = True, False

    # What is live.

    def inherit(self, handed: Iterable[Note], *, hop: int) -> None:
        copies = [
            {**note, "source": "inherited", "who": Who(max(note["who"].level, hop), note["who"].name)}
            for note in handed
            if note["id"] not in self.known
        ]
        for place, copy in enumerate(copies):
            if not any(same_key(copy, newer) for newer in copies[place + 1 :]):
                self.go_live({**copy, "hops": copy["hops"] + 1})

    def handoff(self, agent: str) -> list[Note]:
        travels = [
            note
            for note in self.live
            if note["propagate"] == "all" or (note["propagate"] == "session" and note["source"] != "inherited")
        ]
        return [{**note, "origin": note["origin"] or agent} for note in travels if note["hops"] < 8]

    def go_live(self, note: Note) -> None:
        for other in [other for other in self.live if replaces(note, other)]:
            self._end(other, "deduped")
        note |= {"fired_at_turn": self.turn + 1 + (self.request is not None), "seen": False, "missed": 0}
        self.live.append(note)
        self.known[note["id"]] = note
        self.delivered.add(note["id"])

    def _end(self, note: Note, fate: str) -> None:
        self.live.remove(note)
        self.fates[note["id"]] = fate

    def drop(self, reminder_id: str, reason: str) -> None:
        for note in [note for note in self.live if note["id"] == reminder_id]:
            self._end(note, f"dropped:{reason}")

    def clear(self, selector: Mapping[str, str], who: Who) -> int:
        """End the matching reminders, queued and live; an audit record is selected by its id only."""
        chosen = [
            note
            for note in [*self.queued, *self.live]
            if note["kind"] == "reminder"
            and who.may_touch(note["who"])
            and all(matches(note, *part) for part in selector.items())
            and ("id" in selector or note in self.live or note["mode"] != AUDIT)
        ]
        for note in chosen:
            if note in self.queued:
                self._withdraw(note, "expired:cleared")
            else:
                self._end(note, "expired:cleared")
        return len(chosen)

    # Turns and compactions.

    def ask(self) -> tuple[int, int]:
        """Send a request that shows every live reminder, or send the open one again if no message was added since."""
        if self.request is not None and self.request.messages == len(self.messages):
            self.retry()
        else:
            self.open_request([note["id"] for note in self.live], [])
        assert self.request is not None
        return self.request.turn, self.request.attempt

    def open_request(self, shown: Sequence[str], left_out: Sequence[str]) -> None:
        self.request = Request(self.turn + 1, 1, shown, left_out, len(self.messages))
        self.fired += [(self.turn + 1, reminder_id) for reminder_id in shown]

    def retry(self) -> None:
        assert self.request is not None
        self.request.attempt += 1

    def void_turn(self) -> None:
        self.request = None

    def commit_turn(self, text: str | None = None, calls: Sequence[str] = ()) -> None:
        """The reply to the open request; without a `text` it adds no message."""
        assert self.request is not None
        shown, left_out = self.request.shown, self.request.left_out
        self.request = None
        self.turn += 1
        for note in self.live:
            note["missed"] = 0 if note["id"] in shown else note["missed"] + (note["id"] in left_out)
        for note in [note for note in self.live if note["id"] in shown]:
            note["seen"] = True
            self._age(note)
        self.messages += [] if text is None else [f"assistant {text}"]
        self.calls = list(calls)

    def record_result(self, call_id: str, status: str) -> None:
        if call_id in self.calls:
            self.calls.remove(call_id)
        self.messages.append(f"tool {call_id} {status}")
        if status != "interrupted":
            self.skipped = 0

    def _end_calls(self, status: str) -> None:
        for call_id in list(self.calls):
            self.record_result(call_id, status)

    def compact_to(self, keep: int) -> int:
        """Keep the last messages; return the number of those that were archived."""
        archived = max(0, len(self.messages) - keep)
        if archived:
            self.messages = self.messages[archived:]
            self.compact()
        return archived

    def compact(self) -> None:
        """What a compaction does to reminders."""
        self.request = None
        self.windows += 1
        for note in [note for note in self.live if note["seen"]]:
            self._age(note)
        for note in list(self.live):
            if not note["preserve_on_compact"]:
                self._end(note, "expired:compaction")

    def _age(self, note: Note) -> None:
        if note["ttl_turns"] is not None:
            note["ttl_turns"] -= 1
            if note["ttl_turns"] == 0:
                self._end(note, "expired:ttl")

    # The run.

    def cancel(self, *, hold: bool) -> None:
        self.request = None
        self.running, self.asking, self.held, self.skipped = False, False, hold, 0

    def recover(self) -> None:
        """Another process takes over the session of one that died. The open request stays: it may be sent again."""
        self._end_calls("unknown")
        self.asking = False
        if self.running:
            self.running, self.skipped = False, 0

    def close(self, reason: str = "session_closed") -> None:
        for item in list(self.queued):
            self._withdraw(item, f"dropped:{reason}" if item["kind"] == "reminder" else "revoked")
        for note in list(self.live):
            self._end(note, "expired:cleared")
        self.ended, self.running, self.request = reason, False, None

    # The session.

    def begin_session(self, records: Note, messages: Iterable[str]) -> None:
        self.deleted, self.records, self.messages = False, dict(records), list(messages)

    def record(self, name: str, value: object) -> None:
        self.refuse_after_the_end()
        self.records = {**self.records, name: value}
        if value is None:
            del self.records[name]


def clamped(ask: Note, who: Who) -> Note:
    """A reminder as it is accepted from a sender of this trust level."""
    if who.level <= 1:
        return dict(ask)
    longest = LONGEST_TTL[who.level]
    return {
        **ask,
        "role_hint": "user_block",
        "mode": FINISH if ask["mode"] == INTERRUPT else ask["mode"],
        "propagate": "none",
        "preserve_on_compact": False,
        "ttl_turns": longest if ask["ttl_turns"] is None else min(longest, ask["ttl_turns"]),
    }


def quota(item: Note) -> str:
    """The limit that an item counts towards."""
    if item["mode"] == AUDIT:
        return "record"
    return "messages" if item["kind"] == "user" else "reminders"


def same_key(one: Note, other: Note) -> bool:
    return (
        one["dedupe_key"] is not None
        and one["dedupe_key"] == other["dedupe_key"]
        and one["who"].space == other["who"].space
    )


def same_line(one: Note, other: Note) -> bool:
    """Whether both are versions of what one sender has sent under one id."""
    return one.get("line") is not None and (one["line"], one["who"]) == (other.get("line"), other["who"])


def replaces(new: Note, old: Note) -> bool:
    """Whether a reminder that becomes live ends this live one."""
    return same_key(new, old) or same_line(new, old)


def is_steer_or_interrupt(item: Note) -> bool:
    steers: bool = item["kind"] == "user" and item["mode"] != AUDIT
    return steers or item["mode"] == INTERRUPT


def matches(note: Note, part: str, wanted: str) -> bool:
    values: Sequence[str] = note["tags"] if part == "tag" else [note[part]]
    return wanted in values
