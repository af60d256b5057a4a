"""A session the slow way: plain lists and dicts, every rule as a sentence of its own.

Written from the described behaviour alone, so that it can disagree with the core: there are no indexes, no events and
no derived values, and what remains of a TTL is a counter that goes down.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Who(NamedTuple):
    """A level from 0 (operator) to 3 (server), and a name; this process has none."""

    level: int
    name: str | None

    @property
    def space(self) -> object:
        return "own" if self.level <= 1 else self

    def may_touch(self, other: "Who") -> bool:
        return self.space in ("own", other.space)


class NaiveSession:
    def __init__(
        self, *, most: int, most_from: Mapping[int, int], longest_body: Mapping[int, int], for_interrupts: int
    ) -> None:
        self.most, self.most_from, self.longest_body = most, most_from, longest_body
        self.for_interrupts = for_interrupts
        self.queued: list[Note] = []
        self.live: list[Note] = []
        self.audit: list[Note] = []
        self.said: list[str] = []
        self.known: dict[str, Note] = {}
        self.delivered: set[str] = set()
        self.answers: dict[str | None, tuple[object, tuple[str, int, Note]]] = {}
        self.fates: dict[str, str] = {}
        self.fired: list[tuple[int, str]] = []
        self.turn, self.windows, self.skipped = 0, 0, 0
        self.request: tuple[list[str], list[str]] | None = None
        self.running = self.held = self.asking = self.closed = False

    # The inbox.

    def accept(self, ask: Note, who: Who, *, new_id: str, caller_id: str | None = None) -> tuple[str, int, Note]:
        if self.closed:
            raise Refused("unknown_session")
        if len(ask["body"].encode()) > self.longest_body[who.level]:
            raise Refused("body_too_large")
        question = (who, sorted(ask.items()))
        if caller_id in self.answers and self.answers[caller_id][0] == question:
            return self.answers[caller_id][1]
        if caller_id in self.known:
            raise Refused("idempotency_conflict")
        got = clamped(ask, who)
        note = {**got, "kind": "reminder", "id": caller_id or new_id, "who": who, "hops": 0, "origin": None}
        note |= {"source": "bridge", "fired_at_turn": 0}
        replaced = [
            other
            for other in self.queued
            if other["kind"] == "reminder"
            and same_key(other, note)
            and (other["mode"] == AUDIT) == (note["mode"] == AUDIT)
        ]
        self._check_room(note, replaced)
        for other in replaced:
            self._withdraw(other, "deduped")
        self._take_in(note)
        answer = (note["id"], len(replaced), {name: ask[name] for name in ask if ask[name] != got[name]})
        if caller_id is not None:
            self.answers[caller_id] = (question, answer)
        return answer

    def accept_message(self, text: str, mode: str, who: Who, *, new_id: str) -> None:
        if self.closed or who.level > 1:
            raise Refused("unknown_session")
        if not self.running and mode not in (QUEUE, AUDIT):
            raise Refused("no_running_turn")
        note = {"kind": "user", "id": new_id, "who": who, "text": text, "mode": mode, "revision": 1}
        self._check_room(note, [])
        self._take_in(note)
        self.held = False

    def _check_room(self, note: Note, leaving: list[Note]) -> None:
        """Messages, what is for the record, and all other reminders are counted apart; what lives is a reminder."""
        staying = [item for item in self.queued if item not in leaving and room(item) == room(note)]
        own = [item for item in staying if item["who"] == note["who"]]
        live = len(self.live) if room(note) == "reminders" else 0
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
        for item in taken:
            self._deliver(item)
        self.skipped += bool(taken) and seam == "pre_tool_dispatch"
        if closing and not taken:
            self.running, self.skipped = False, 0
        return [item["id"] for item in taken]

    def _deliver(self, item: Note) -> None:
        self.queued.remove(item)
        self.delivered.add(item["id"])
        if item["kind"] == "user":
            self.fates[item["id"]] = "delivered"
            self.said += [] if item["mode"] == AUDIT else [item["text"]]
        elif item["mode"] == AUDIT:
            self.fates[item["id"]] = "audit_recorded"
            self.audit.append(item)
        else:
            self.go_live(item)

    def start(self) -> None:
        queue = [item for item in self.queued if item["mode"] == QUEUE]
        if queue and not self.running and not self.held:
            self._deliver(queue[0])
            self.running = True

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
        for other in [other for other in self.live if same_key(other, note)]:
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
        chosen = [
            n for n in self.live if who.may_touch(n["who"]) and all(matches(n, *part) for part in selector.items())
        ]
        for note in chosen:
            self._end(note, "expired:cleared")
        return len(chosen)

    # Turns and compactions.

    def open_request(self, shown: Sequence[str], left_out: Sequence[str]) -> None:
        self.request = (list(shown), list(left_out))
        self.fired += [(self.turn + 1, reminder_id) for reminder_id in shown]

    def void_turn(self) -> None:
        self.request = None

    def commit_turn(self) -> None:
        shown, left_out = self.request or ([], [])
        self.request = None
        self.turn += 1
        for note in self.live:
            note["missed"] = 0 if note["id"] in shown else note["missed"] + (note["id"] in left_out)
        for note in [note for note in self.live if note["id"] in shown]:
            note["seen"] = True
            self._age(note)

    def compact(self) -> None:
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

    def close(self) -> None:
        for item in list(self.queued):
            self._withdraw(item, "dropped:session_closed" if item["kind"] == "reminder" else "revoked")
        for note in list(self.live):
            self._end(note, "expired:cleared")
        self.closed, self.running, self.request = True, False, None


def clamped(ask: Note, who: Who) -> Note:
    """What a source gets of what it asks for."""
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


def room(item: Note) -> str:
    """What an item shares its bound with."""
    if item["mode"] == AUDIT:
        return "record"
    return "messages" if item["kind"] == "user" else "reminders"


def same_key(one: Note, other: Note) -> bool:
    return (
        one["dedupe_key"] is not None
        and one["dedupe_key"] == other["dedupe_key"]
        and one["who"].space == other["who"].space
    )


def is_steer_or_interrupt(item: Note) -> bool:
    steers: bool = item["kind"] == "user" and item["mode"] != AUDIT
    return steers or item["mode"] == INTERRUPT


def matches(note: Note, part: str, wanted: str) -> bool:
    values: Sequence[str] = note["tags"] if part == "tag" else [note[part]]
    return wanted in values
