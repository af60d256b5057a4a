// The state of the page, and what the views derive from a timeline.

import { noChange } from "./vendor/lit-html.js";
import { directive, Directive } from "./vendor/directive.js";
import { place } from "./reducer.js";
import { quoted } from "./text.js";

export const app = {
  info: null, sessions: new Map(), sessionsNext: null, isListed: false, needsLogin: false,
  sessionId: null, timeline: null, isSlow: false, failure: null, isReadOnly: false,
  link: { state: "connecting", nextTryAt: 0, missed: 0 },
  selected: null, past: null, held: null,
  tab: "all", filter: "", shownRows: {}, expanded: new Set(), results: new Map(),
  pane: "transcript", drawer: false, asTable: false,
  writing: null, requests: new Map(), unread: 0, turnRows: 40, cardRows: 50,
  outbox: [], toasts: [], dialog: null, cancelling: false, inspect: null, status: "",
  composer: {
    verb: "remind", text: "", ttl: "2", key: "", tags: "", role: "system", propagate: "session", preserve: false,
    more: false, error: null,
  },
};

let draw = () => {};
let frame = 0;
export const onChange = (act) => { draw = act; };
/** Draw once in the next animation frame, however often this is called before it. */
export function changed() {
  frame ||= requestAnimationFrame(drawNow);
}
export function drawNow() {
  cancelAnimationFrame(frame);
  frame = 0;
  draw();
}

/** Skips a part of the page while everything it depends on is the same. */
export const keep = directive(class extends Directive {
  #seen;
  render(_on, make) { return make(); }
  update(_part, [on, make]) {
    if (this.#seen?.length === on.length && on.every((value, index) => value === this.#seen[index])) return noChange;
    this.#seen = on;
    return make();
  }
});

/** A function of one object, computed once for each object. */
export function perObject(compute) {
  const known = new WeakMap();
  return (object) => {
    if (!known.has(object)) known.set(object, compute(object));
    return known.get(object);
  };
}

// Rows of reminders. An id may occur twice, because a refused one keeps the id its sender gave it.

export const keyOf = (row) => `${row.id}@${row.cursor}`;
const indexOf = perObject((rows) => new Map(rows.filter((row) => !row.atTheDoor).map((row) => [row.id, row])));
const keyIndexOf = perObject((rows) => new Map(rows.map((row) => [keyOf(row), row])));
export const reminderOf = (timeline, id) => indexOf(timeline.reminders).get(id);
export const rowOf = (timeline, key) => keyIndexOf(timeline.reminders).get(key);

/** Whether a reminder or a message is still in the inbox. */
export const isWaiting = (row) => row.state === "queued" || row.state === "waiting";
export const isOver = (row) => row.state !== "queued" && row.state !== "live";
/** Who has written a message: the person at a page of the studio is "You". */
export const writerName = (sender) => (sender?.principal === "studio" ? "You" : sender?.principal ?? "User");

export function senderName(sender) {
  if (sender?.principal === "studio") return "You";
  const unnamed = sender?.trust === "operator" ? "program" : sender?.trust ?? "unknown";
  return sender?.principal ?? sender?.providerId ?? unnamed;
}
export const nameOf = (row) => row.dedupeKey ?? (row.body ? quoted(row.body) : row.id);
export const isQuoted = (sender) => sender?.trust === "peer" || sender?.trust === "server";
export const namespace = (sender) => (isQuoted(sender) ? `${sender.trust}:${sender.principal}` : "own");
export const isLowered = (row) => Object.keys(row.sender?.requested ?? {}).length;

/** The state to draw: a queued one is held while a permission is asked for; a live one may be left out of a turn. */
export function drawnState(timeline, row, turn = timeline.openTurn ?? timeline.turn) {
  if (row.state === "queued" && row.mode === "audit_only") return "audit_recorded";
  if (row.state === "queued") return timeline.permissions.length ? "held" : "queued";
  if (row.state === "live" && row.leftOut.length && row.leftOut.at(-1) === turn) return "leftout";
  return row.state;
}

export const nextTurn = (timeline) => (timeline.openTurn ?? timeline.turn) + 1;

/** The turns in which a pending reminder is still to be shown: [first, last]; last is Infinity without a TTL. */
export function promised(timeline, row) {
  if (row.state === "queued") {
    if (row.mode === "audit_only") return null;
    const first = nextTurn(timeline);
    return [first, first + (row.ttlTurns ?? Infinity) - 1];
  }
  if (row.state !== "live") return null;
  const isOpen = timeline.openTurn !== null && row.shown.at(-1)?.turn === timeline.openTurn;
  const first = nextTurn(timeline);
  const left = (row.ttlLeft ?? Infinity) - (isOpen ? 1 : 0);
  return left > 0 ? [first, first + left - 1] : null;
}

/** The reminders as they stood while the reply of a past turn was awaited. */
export function asOf(timeline, turn) {
  const at = turn + 0.5;
  return timeline.reminders.flatMap((row) => {
    const begun = row.queued ?? row.live ?? row.ended;
    if (begun && begun.at > at) return [];
    if (row.ended && row.ended.at <= at) return [row];
    const shown = row.shown.filter((entry) => entry.turn <= turn);
    // One that was never live, such as an audit record, waited until it ended.
    const isLive = row.live ? row.live.at <= at : shown.length > 0;
    const ttlLeft = row.ttlTurns === undefined ? undefined : Math.max(row.ttlTurns - shown.length + 1, 0);
    return [{
      ...row, state: isLive ? "live" : "queued", ended: undefined, reason: undefined, shown,
      leftOut: row.leftOut.filter((left) => left <= turn), ttlLeft: isLive ? ttlLeft : row.ttlTurns,
    }];
  });
}

export const here = place;
export const sessionHref = (id) => `#session=${encodeURIComponent(id)}`;
export const requestHref = (turn) => `${sessionHref(app.sessionId)}&request=${turn}`;
export const titleOf = (summary) => summary.title || summary.id;
