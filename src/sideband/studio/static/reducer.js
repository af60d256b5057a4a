// The timeline of a session as a fold of its updates; sideband/inspect/timeline_fold.py computes the same.
// Pure: `apply` never changes what it is given, and rows that did not change keep their identity.

export function emptyTimeline(sessionId = "") {
  return {
    sessionId, cursor: 0, since: 0, earlierTurns: 0, running: false, closed: false, turn: 0, openTurn: null,
    turns: [], messages: [], reminders: [], compactions: [], permissions: [], records: {},
  };
}

const TURN = { attempt: 1, text: "", calls: [], told: [], still: [], leftOut: [] };
const REMINDER = { body: "", tags: [], shown: [], leftOut: [] };

/** A timeline as the server sends it, with the fields that the JSON leaves out. */
export function readTimeline(json) {
  return {
    ...emptyTimeline(json.sessionId), ...json,
    turns: (json.turns ?? []).map((row) => ({ ...TURN, ...row })),
    messages: (json.messages ?? []).map((row) => ({ text: "", ...row })),
    reminders: (json.reminders ?? []).map((row) => ({ ...REMINDER, ...row })),
  };
}

/** The place on the axis where the session is now; turn n covers the places from n up to n + 1. */
export function place(timeline) {
  const last = timeline.turns.at(-1);
  if (!last) return timeline.turn ? timeline.turn + 0.6 : 0.9;
  if (last.state === "open") return last.turn + 0.4;
  if (last.state === "void") return last.turn > 1 ? last.turn - 1 + 0.8 : 0.9;
  return last.turn + (last.calls.some((call) => call.status !== undefined) ? 0.8 : 0.6);
}

/** The timeline after one more update; an update that it holds already changes nothing. */
export function apply(timeline, update) {
  if (update.cursor <= timeline.cursor) return timeline;
  const next = { ...timeline };
  FOLDS[update.kind]?.(next, update);
  next.cursor = update.cursor;
  return next;
}

// Each fold gets a shallow copy of the timeline and replaces the lists that it changes.

const PHASES = { ttl_expired: "expired", cleared: "cleared", compacted_out: "compacted_out" };
const isPending = (row) => row.state === "queued" || row.state === "live";

function present(entries) {
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined && value !== null));
}

function moment(timeline, update, more) {
  const at = place(timeline);
  return present({ at, turn: Math.floor(at), time: update.time, ...more });
}

// Reminders.

const ARRIVALS = new Set(["reminder.queued", "reminder.injected", "reminder.inherited"]);

/** Change the row of a reminder; it is made if an earlier update of it is not kept. */
function change(timeline, update, id, state, fields = () => ({})) {
  const at = timeline.reminders.findLastIndex((row) => row.id === id && !row.atTheDoor);
  const known = timeline.reminders[at];
  if (!known || (ARRIVALS.has(update.kind) && !isPending(known))) {
    const row = { ...REMINDER, id, cursor: update.cursor, state };
    timeline.reminders = [...timeline.reminders, { ...row, ...fields(row) }];
  } else {
    timeline.reminders = timeline.reminders.with(at, { ...known, state, ...fields(known) });
  }
}

/** What an update tells of the record and of its sender. */
function described(row, update) {
  const sender = row.sender ?? update.sender;
  const record = update.reminder;
  if (!record) return { sender };
  const first = row.ttlTurns === undefined && row.propagate === undefined;
  return {
    sender, ttlTurns: first ? record.ttlTurns : row.ttlTurns, ttlLeft: record.ttlTurns, body: record.body,
    tags: record.tags ?? [], dedupeKey: record.dedupeKey, preserveOnCompact: record.preserveOnCompact,
    propagate: record.propagate, roleHint: record.roleHint, source: record.source,
    originatingAgentId: record.originatingAgentId,
  };
}

function queue(timeline, update) {
  const queued = update.kind === "reminder.queued" ? moment(timeline, update) : undefined;
  change(timeline, update, update.reminderId, "queued", (row) => ({
    ...described(row, update), mode: update.mode ?? row.mode, queued: row.queued ?? queued,
  }));
}

function inject(timeline, update) {
  const live = moment(timeline, update, { seam: update.seam });
  change(timeline, update, update.reminderId, "live", (row) => ({
    ...described(row, update), live, ...(update.kind === "reminder.inherited" ? { inherited: true } : {}),
  }));
}

function end(timeline, update, id, state, more = () => ({})) {
  const ended = moment(timeline, update, { boundary: update.boundary });
  change(timeline, update, id, state, (row) => ({
    ended, dedupeKey: row.dedupeKey ?? update.dedupeKey, ...more(row),
  }));
}

const isCarried = (row, turn) => row.shown.at(-1)?.turn === turn && row.shown.at(-1).carried === true;

function changeOpen(timeline, turn, fields) {
  const last = timeline.turns.at(-1);
  if (last?.state !== "open" || (turn !== undefined && last.turn !== turn)) return;
  timeline.turns = timeline.turns.with(-1, { ...last, ...fields(last) });
}

/** Take back that a request carries the reminder: its text is new in it, or left out. */
function uncarried(timeline, row, turn) {
  if (!isCarried(row, turn)) return row.shown;
  changeOpen(timeline, turn, (open) => ({ still: open.still.filter((id) => id !== row.id) }));
  return row.shown.slice(0, -1);
}

function emit(timeline, update) {
  const { reminderId: id, turn = 0 } = update;
  const entry = present({ role: update.renderedRole ?? "", via: update.via });
  change(timeline, update, id, "live", (row) => ({
    ...described(row, update), shown: [...uncarried(timeline, row, turn), { turn, ...entry }],
  }));
  changeOpen(timeline, turn, (open) => ({ told: [...open.told, { id, ...entry }] }));
}

function defer(timeline, update) {
  const { reminderId: id, turn = 0 } = update;
  change(timeline, update, id, "live", (row) => ({
    ...described(row, update), shown: uncarried(timeline, row, turn), leftOut: [...row.leftOut, turn],
  }));
  changeOpen(timeline, turn, (open) => ({ leftOut: [...open.leftOut, id] }));
}

function drop(timeline, update) {
  if (update.atTheDoor) {
    // It was never part of the session, and its id may be that of a reminder which is.
    const row = present({
      ...REMINDER, id: update.reminderId, cursor: update.cursor, state: "dropped", dedupeKey: update.dedupeKey,
      sender: update.sender, atTheDoor: true, count: update.count, reason: update.reason,
      ended: moment(timeline, update),
    });
    timeline.reminders = [...timeline.reminders, row];
    return;
  }
  end(timeline, update, update.reminderId, "dropped", (row) => ({
    ...described(row, update), reason: update.reason,
    shown: timeline.openTurn === null ? row.shown : uncarried(timeline, row, timeline.openTurn),
  }));
}

const aged = (row) => (row.ttlLeft === undefined ? row : { ...row, ttlLeft: row.ttlLeft - 1 });

function mapLive(timeline, map) {
  timeline.reminders = timeline.reminders.map((row) => (row.state === "live" ? map(row) : row));
}

// Messages.

function message(timeline, update, fields) {
  const at = timeline.messages.findLastIndex((row) => row.id === update.messageId);
  const known = timeline.messages[at] ?? present({
    id: update.messageId, cursor: update.cursor, role: "user", state: "waiting", at: place(timeline), text: "",
    time: update.time,
  });
  const row = { ...known, revision: update.revision ?? known.revision, sender: known.sender ?? update.sender };
  if (update.text !== undefined) Object.assign(row, { text: update.text, otherBlocks: update.otherBlocks ?? 0 });
  Object.assign(row, fields);
  timeline.messages = at < 0 ? [...timeline.messages, row] : timeline.messages.with(at, row);
}

// Turns.

function open(timeline, update) {
  const last = timeline.turns.at(-1);
  if (last?.state !== "open" || last.turn !== update.turn) {
    const still = [];
    const { turn } = update;
    // There is no update for a carried reminder. If its text is new in this request, or it is left out or ended, an
    // update of the same commit says so.
    mapLive(timeline, (row) => {
      if (!row.shown.length && row.cursor) return row;
      still.push(row.id);
      return { ...row, shown: [...row.shown, { turn, role: row.shown.at(-1)?.role ?? "", carried: true }] };
    });
    const row = present({ ...TURN, turn, cursor: update.cursor, state: "open", time: update.time, still });
    timeline.turns = [...timeline.turns, row];
    timeline.openTurn = turn;
  }
  changeOpen(timeline, update.turn, (row) => ({
    attempt: update.attempt ?? 1, ...present({ replyId: update.replyId ?? row.replyId }),
  }));
}

/** The rows with the open one changed, or with one that ends a request whose opening is not kept. */
function closed(timeline, update, fields) {
  const last = timeline.turns.at(-1);
  const isOpen = last?.state === "open" && last.turn === update.turn;
  const row = isOpen ? last : present({ ...TURN, turn: update.turn, cursor: update.cursor, time: update.time });
  timeline.openTurn = null;
  timeline.turns = [...(isOpen ? timeline.turns.slice(0, -1) : timeline.turns), { ...row, ...fields }];
  return row;
}

function commit(timeline, update) {
  const fields = present({ replyId: update.replyId, text: update.text, usage: update.usage });
  closed(timeline, update, { ...fields, calls: update.calls ?? [], state: "committed" });
  timeline.turn = update.turn;
  mapLive(timeline, (row) => (row.shown.at(-1)?.turn === update.turn ? aged(row) : row));
}

function voidTurn(timeline, update) {
  const { turn } = update;
  const row = closed(timeline, update, { state: "void" });
  const ids = new Set([...row.told.map((told) => told.id), ...row.still, ...row.leftOut]);
  timeline.reminders = timeline.reminders.map((known) =>
    ids.has(known.id)
      ? {
          ...known, shown: known.shown.filter((entry) => entry.turn !== turn),
          leftOut: known.leftOut.filter((other) => other !== turn),
        }
      : known,
  );
}

function changeCommitted(timeline, fields) {
  const last = timeline.turns.at(-1);
  if (last?.state === "committed") timeline.turns = timeline.turns.with(-1, { ...last, ...fields(last) });
}

function result(timeline, update) {
  const { callId, status, text, bytes } = update;
  changeCommitted(timeline, (row) => {
    const at = row.calls.findIndex((call) => call.id === callId && call.status === undefined);
    return at < 0 ? {} : { calls: row.calls.with(at, { ...row.calls[at], status, text, bytes }) };
  });
}

function compact(timeline, update) {
  const { cursor, turn, archivedMessages, time } = update;
  const row = present({ cursor, turn, archivedMessages, time, at: place(timeline) });
  timeline.compactions = [...timeline.compactions, row];
  mapLive(timeline, (known) => (known.shown.some((entry) => entry.turn <= timeline.turn) ? aged(known) : known));
}

// The session.

const empty = (timeline) => Object.assign(timeline, emptyTimeline(timeline.sessionId));

function begin(timeline, update) {
  empty(timeline);
  const at = place(timeline);
  timeline.records = { ...update.records };
  timeline.messages = (update.messages ?? []).map((given) => ({
    ...given, cursor: update.cursor, state: "delivered", at, deliveredAt: at, deliveredCursor: update.cursor,
    ...present({ time: update.time }),
  }));
}

const FOLDS = {
  "reminder.queued": queue,
  "reminder.replaced": queue,
  "reminder.injected": inject,
  "reminder.inherited": inject,
  "reminder.emitted": emit,
  "reminder.deferred": defer,
  "reminder.deduped": (timeline, update) => {
    for (const id of update.droppedIds ?? []) {
      end(timeline, update, id, "deduped", () => ({ replacedBy: update.reminderId }));
    }
  },
  "reminder.expired": (timeline, update) =>
    end(timeline, update, update.reminderId, PHASES[update.phase ?? "cleared"], (row) => described(row, update)),
  "reminder.revoked": (timeline, update) =>
    end(timeline, update, update.reminderId, "revoked", (row) => described(row, update)),
  "reminder.dropped": drop,
  "reminder.audit_recorded": (timeline, update) =>
    end(timeline, update, update.reminderId, "audit_recorded", (row) => described(row, update)),
  "message.accepted": (timeline, update) => message(timeline, update, present({ state: "waiting", mode: update.mode })),
  "message.replaced": (timeline, update) => message(timeline, update, {}),
  "message.delivered": (timeline, update) =>
    message(timeline, update, {
      state: "delivered", auditOnly: update.auditOnly ?? false, deliveredAt: place(timeline),
      deliveredCursor: update.cursor,
    }),
  "message.revoked": (timeline, update) =>
    message(timeline, update, present({ state: "revoked", reason: update.reason })),
  "turn.opened": open,
  "turn.committed": commit,
  "turn.voided": voidTurn,
  "result.recorded": result,
  compacted: compact,
  checkpoint: (timeline, update) => {
    if (update.dispatchSkipped) changeCommitted(timeline, () => ({ skippedBy: update.ids }));
  },
  "run.started": (timeline) => Object.assign(timeline, { running: true }),
  "run.idled": (timeline) => Object.assign(timeline, { running: false }),
  "run.cancelled": (timeline) => Object.assign(timeline, { running: false, permissions: [] }),
  "permission.asked": (timeline, update) => {
    // A process that continues the turn of a dead one asks again.
    timeline.permissions = [...new Set([...timeline.permissions, update.requestId])];
  },
  "permission.replied": (timeline, update) => {
    timeline.permissions = timeline.permissions.filter((id) => id !== update.requestId);
  },
  "session.begun": begin,
  "session.recorded": (timeline, update) => {
    timeline.records = present({ ...timeline.records, ...update.records });
  },
  "session.closed": (timeline) => Object.assign(timeline, { running: false, closed: true }),
  "session.deleted": empty,
};
