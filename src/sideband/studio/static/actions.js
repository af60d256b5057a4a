// What the user can do, and what the server says about it. No reminder or message changes here: only its event does
// that.

import { get, post, sessionPath } from "./api.js";
import { apply, readTimeline } from "./reducer.js";
import { app, changed, isOver, isWaiting, keyOf, sessionHref } from "./state.js";
import { Stream } from "./stream.js";
import { head, quoted } from "./text.js";

const TURNS = 300;
// So many updates are folded per frame; a frame stays well under 200 ms.
const BATCH = 200;

// Status line and notes.

let saidAt = 0;
let saying = 0;
/** Tell screen readers, politely, at most every 5 s; the last text wins. */
export function say(text) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    saidAt = Date.now();
    app.status = text;
    changed();
  }, Math.max(0, saidAt + 5000 - Date.now()));
}

let toastId = 0;
/** A note in the corner: {tone, glyph, title, code, text, actions: [[word, act]], goes}. */
export function toast(note) {
  const id = ++toastId;
  const added = { id, tone: "bad", ...note };
  // A refusal that is no longer the last one says nothing about what is being sent now.
  const others = app.toasts.filter((each) => each.tone !== "bad" || added.tone !== "bad");
  app.toasts = [...others.slice(-3), added];
  if (note.goes) setTimeout(() => dismiss(id), note.goes);
  changed();
  return id;
}

export function dismiss(id) {
  app.toasts = app.toasts.filter((note) => note.id !== id);
  changed();
}

const REMEDIES = {
  session_busy: "A turn is running. Steer it, or queue the message for when it is idle.",
  no_running_turn: "No turn is running. Send it as a prompt, or queue it.",
  too_many_pending: "The inbox is full. Revoke or clear something, or wait for the next drain.",
  session_closed: "The session is closed and accepts nothing more.",
  store_unavailable: "Everything accepted so far is safe. Try again when the store can be written.",
  not_permitted: "You are watching this session; another client controls it.",
  idempotency_conflict: "The same key was used for another text. Send it again as a new reminder.",
};

export function explain(error, title = "Not accepted") {
  if (error.status === 401) return logOut();
  if (error.reason === "not_permitted") app.isReadOnly = true;
  if (error.retryAfterMs) {
    const seconds = Math.ceil(error.retryAfterMs / 1000);
    app.composer.waitUntil = Date.now() + error.retryAfterMs;
    const tick = setInterval(() => { changed(); if (Date.now() > app.composer.waitUntil) clearInterval(tick); }, 500);
    return toast({
      tone: "cut", glyph: "held", title: `Wait ${seconds} s`, code: error.reason, text: error.message,
      goes: error.retryAfterMs,
    });
  }
  const explained = error.code ? `Run sideband explain ${error.code} for the cause and the remedy.` : "";
  const more = REMEDIES[error.reason] ?? explained;
  return toast({ glyph: "alert", title, code: error.code || error.reason, text: error.message, more });
}

/** Run a call; a refusal becomes a note, and the result is null. */
async function attempt(calling, title) {
  try {
    return (await calling) ?? {};
  } catch (error) {
    explain(error, title);
    return null;
  }
}

export function logOut() {
  stream.close();
  app.needsLogin = true;
  changed();
}

// Sessions and the stream.

let waiting = [];
let folding = 0;
let paired = 0;
let loading = 0;
let lostAt = null;

export const stream = new Stream({
  open() {
    if (lostAt !== null) {
      app.link = { state: "back", missed: 0, from: lostAt };
      lostAt = null;
      setTimeout(() => { if (app.link.state === "back") { app.link = { state: "live" }; changed(); } }, 5000);
      say("Live again");
    } else if (app.link.state !== "back") {
      app.link = { state: "live" };
    }
    changed();
  },
  update(update) {
    waiting.push(update);
    if (app.link.state === "back") app.link.missed += 1;
    folding ||= requestAnimationFrame(fold);
  },
  session(summary) {
    noteSession(summary);
    changed();
  },
  text(piece) {
    const same = app.writing?.replyId === piece.replyId && app.writing.attempt === piece.attempt;
    app.writing = { ...piece, text: same ? app.writing.text + piece.text : piece.text };
    changed();
  },
  expired() {
    load(app.sessionId);
  },
  async lost(nextTryAt) {
    lostAt ??= stream.cursor;
    if (app.link.state !== "lost") say("Connection lost");
    app.link = { state: "lost", nextTryAt };
    changed();
    // An event source does not tell why it failed.
    try {
      await get("/info");
    } catch (error) {
      if (error.status === 401) logOut();
    }
  },
});

export function reconnect() {
  stream.connect();
}

const ENDINGS = ["run.idled", "run.cancelled", "turn.voided"];

function fold() {
  folding = 0;
  // The reminder that replaces another comes right after: drawn together, its card takes the place of the other.
  if (waiting.length === 1 && waiting[0].kind === "reminder.deduped" && !paired) {
    paired = setTimeout(fold, 80);
    return;
  }
  clearTimeout(paired);
  paired = 0;
  const batch = waiting.splice(0, BATCH);
  let { timeline } = app;
  if (!timeline) return;
  let news = false;
  for (const update of batch) {
    timeline = apply(timeline, update);
    news ||= update.kind.startsWith("reminder.") || update.kind.startsWith("turn.");
    if (update.kind === "turn.opened" || update.kind === "turn.committed" || update.kind === "turn.voided") {
      if (update.kind !== "turn.opened") app.writing = null;
      freshRequests();
    }
    if (ENDINGS.includes(update.kind)) app.cancelling = false;
  }
  app.timeline = timeline;
  settleOutbox();
  if (news) {
    const live = timeline.reminders.filter((row) => row.state === "live").length;
    const queued = timeline.reminders.filter((row) => row.state === "queued").length;
    say(`${live} live, ${queued} queued${timeline.openTurn === null ? "" : `, turn ${timeline.openTurn} is open`}`);
  }
  changed();
  if (waiting.length) folding = requestAnimationFrame(fold);
}

export async function loadList() {
  try {
    const [info, page] = await Promise.all([get("/info"), get("/sessions?limit=100")]);
    app.info = info;
    for (const summary of page.sessions) app.sessions.set(summary.id, summary);
    app.sessionsNext = page.next;
    app.isListed = true;
  } catch (error) {
    if (error.status === 401) return logOut();
    app.failure = error;
  }
  return changed();
}

export async function moreSessions() {
  const page = await attempt(get(`/sessions?limit=100&before=${app.sessionsNext}`));
  if (!page) return;
  for (const summary of page.sessions) app.sessions.set(summary.id, summary);
  app.sessionsNext = page.next;
  changed();
}

/** Show a session: its timeline first, then the stream that continues it. */
export async function load(id, turns = TURNS) {
  const turn = ++loading;
  const isOther = app.sessionId !== id;
  if (isOther) {
    Object.assign(app, {
      sessionId: id, timeline: null, selected: null, past: null, writing: null, requests: new Map(),
      expanded: new Set(), results: new Map(), isReadOnly: false, turnRows: 40, cardRows: 50, shownRows: {}, unread: 0,
      cancelling: false,
    });
  }
  app.failure = null;
  waiting = [];
  stream.close();
  const slow = setTimeout(() => { app.isSlow = true; changed(); }, 300);
  changed();
  try {
    const timeline = id === null ? null : await readSession(id, turns);
    if (turn !== loading) return;
    app.timeline = timeline;
    if (isOther && timeline && !app.composer.text) app.composer.verb = firstVerb(timeline);
    stream.follow(id, timeline?.cursor ?? 0);
    if (timeline) freshRequests();
  } catch (error) {
    if (turn !== loading) return;
    if (error.status === 401) return logOut();
    app.failure = error;
    app.timeline = null;
    stream.follow(null, 0);
  } finally {
    clearTimeout(slow);
    if (turn === loading) app.isSlow = false;
    changed();
  }
}

async function readSession(id, turns) {
  return readTimeline(await get(sessionPath(id, `/timeline?turns=${turns}`), { waitMs: 30_000 }));
}

/** A session in which nothing was said needs a prompt first; in others, reminders are what the studio is for. */
const firstVerb = (timeline) => (!timeline.running && !timeline.turns.length && app.info?.model ? "prompt" : "remind");

export const loadEarlier = () => load(app.sessionId, app.timeline.turns.length + TURNS);

// What each request cost, for the margin and the top bar.

let costing = 0;
function freshRequests() {
  clearTimeout(costing);
  costing = setTimeout(readRequests, 250);
}

async function readRequests() {
  const id = app.sessionId;
  if (!app.timeline?.turns.length) return;
  const answered = [...app.requests.values()].filter((row) => row.outcome === "answered");
  const known = Math.max(0, ...answered.map((row) => row.turn));
  let after = known || Math.max(0, app.timeline.turns[0].turn - 1);
  try {
    for (;;) {
      const { requests } = await get(sessionPath(id, `/requests?after=${after}&limit=100`), { waitMs: 30_000 });
      if (id !== app.sessionId) return;
      const rows = new Map(app.requests);
      for (const row of requests) rows.set(row.turn, row);
      app.requests = rows;
      changed();
      if (requests.length < 100) return;
      after = requests.at(-1).turn;
    }
  } catch {
    // The margin then shows no cost; the inspector tells why.
  }
}

// Selection.

export function select(key, { scroll = true, showsNote = true } = {}) {
  app.selected = app.selected === key ? null : key;
  if (app.selected && scroll) app.scrollTo = app.selected;
  app.showsNote = Boolean(app.selected) && showsNote;
  changed();
}

export function selectReminder(id) {
  const row = app.timeline.reminders.findLast((each) => each.id === id && !each.atTheDoor);
  if (row) select(keyOf(row), { showsNote: false });
}

export function backToLive() {
  app.past = null;
  changed();
}

// Sending. An entry of the outbox is only the word "sending": the event of the session replaces it.

const MODES = { remind: "finish_step", interrupt: "interrupt_immediate", steer: "steer", queue: "queue" };

export function draftOf(composer) {
  const tags = composer.tags.split(/[\s,]+/).filter(Boolean);
  return {
    body: composer.text.trim(), mode: MODES[composer.verb], roleHint: composer.role, propagate: composer.propagate,
    preserveOnCompact: composer.preserve,
    ...(composer.ttl === "" ? {} : { ttlTurns: Number(composer.ttl) }),
    ...(composer.key.trim() ? { dedupeKey: composer.key.trim() } : {}),
    ...(tags.length ? { tags } : {}),
  };
}

// One after the other: requests that are sent at once may arrive in another order.
let lastSend = Promise.resolve();

export function send() {
  const { composer } = app;
  const text = composer.text.trim();
  if (!text || app.link.state === "lost") return;
  const isReminder = composer.verb === "remind" || composer.verb === "interrupt";
  const meta = { _meta: { sideband: { idempotencyKey: crypto.randomUUID() } } };
  const [route, body] = isReminder ? ["/remind", draftOf(composer)]
    : composer.verb === "prompt" ? ["/prompt", { content: text }]
    : ["/inject", { content: text, mode: MODES[composer.verb] }];
  const entry = {
    key: meta._meta.sideband.idempotencyKey, sessionId: app.sessionId, isReminder, text, verb: composer.verb,
    draft: { ...composer }, route, body: { ...body, ...meta }, state: "sending", id: null,
  };
  // A key that stayed would replace this one with the next.
  Object.assign(composer, { text: "", key: "", tags: "", error: null });
  app.outbox = [...app.outbox, entry];
  changed();
  lastSend = lastSend.then(() => deliver(entry));
}

const withdraw = (entry) => { app.outbox = app.outbox.filter((each) => each !== entry); };

async function deliver(entry) {
  entry.state = "sending";
  changed();
  try {
    const answer = await post(sessionPath(entry.sessionId, entry.route), entry.body);
    entry.id = answer.reminderId ?? answer.messageId;
    entry.state = "accepted";
    // What was wrong is mended.
    app.toasts = app.toasts.filter((note) => note.tone !== "bad");
    settleOutbox();
    // The event may have been left out of the loaded turns; then nothing replaces the entry.
    setTimeout(() => { withdraw(entry); changed(); }, 8000);
  } catch (error) {
    if (error.isUnknown) {
      entry.state = "unknown";
    } else {
      withdraw(entry);
      if (entry.sessionId === app.sessionId) refuse(entry, error);
      else explain(error);
    }
  }
  changed();
}

/** A refusal gives the text back, names the field, and moves the focus there. */
function refuse(entry, error) {
  const { composer } = app;
  const putBack = () => { Object.assign(composer, entry.draft); changed(); };
  if (!composer.text.trim()) putBack();
  else {
    const text = head(entry.text, 200);
    toast({ tone: "cut", glyph: "edit", title: "Not sent", text, actions: [["Put it back", putBack]] });
  }
  composer.error = { field: error.field, message: error.message };
  explain(error);
  app.focusField = error.field || "text";
}

/** Find out what became of it. A reminder is sent again under its idempotency key, so it counts once; a message has no
 * such key, so the timeline is read again, which has it if it was accepted. */
export async function check(entry) {
  if (entry.isReminder) return deliver(entry);
  await load(app.sessionId);
  settleOutbox();
  changed();
}

export function giveUp(entry) {
  withdraw(entry);
  changed();
}

function settleOutbox() {
  if (!app.outbox.length || !app.timeline) return;
  const rows = [...app.timeline.reminders, ...app.timeline.messages];
  const ids = new Set(rows.flatMap((row) => [row.id, row.sender?.meta?.sideband?.idempotencyKey]));
  const isSettled = (entry) => entry.sessionId === app.sessionId && (ids.has(entry.id) || ids.has(entry.key));
  app.outbox = app.outbox.filter((entry) => !isSettled(entry));
}

// Waiting and live items.

export const acting = new Set();
async function act(id, calling, title) {
  acting.add(id);
  changed();
  const answer = await attempt(calling, title);
  acting.delete(id);
  changed();
  return answer;
}

export async function revoke(id) {
  try {
    acting.add(id);
    changed();
    await post(sessionPath(app.sessionId, "/revoke"), { id });
  } catch (error) {
    const row = app.timeline?.reminders.findLast((each) => each.id === id);
    if (error.reason === "already_delivered") {
      toast({
        tone: "cut", glyph: "revoked", title: "Already delivered", goes: 12_000,
        text: row
          ? `The drain took ${quoted(row.body)} first. It can no longer be revoked, only cleared.`
          : "The drain took the message first. The model has it.",
        actions: row && !isOver(row) ? [["Clear it", () => clear({ id })]] : [],
      });
    } else {
      explain(error, "Not revoked");
    }
  }
  acting.delete(id);
  changed();
}

export async function clear(selector) {
  const answer = await attempt(post(sessionPath(app.sessionId, "/clear"), selector), "Not cleared");
  if (answer) toast({ tone: "ok", glyph: "check", title: `Cleared ${answer.removedCount}`, goes: 4000 });
  return answer !== null;
}

export function replace(id, isReminder, text) {
  const body = isReminder ? { id, body: text } : { id, content: text };
  return act(id, post(sessionPath(app.sessionId, "/replace"), body), "Not replaced");
}

export async function cancelTurn() {
  app.cancelling = true;
  changed();
  const answer = await attempt(post(sessionPath(app.sessionId, "/cancel")), "Not cancelled");
  if (!answer?.cancelled) app.cancelling = false;
  if (!answer) return;
  const [tone, sign, title] = answer.cancelled
    ? ["ok", "check", "Turn cancelled"]
    : ["cut", "held", "No turn to cancel"];
  toast({ tone, glyph: sign, title, text: survivors(app.timeline, answer.waiting), goes: 9000 });
}

export function answerPermission(requestId, allow, always = false) {
  const path = sessionPath(app.sessionId, `/permissions/${encodeURIComponent(requestId)}`);
  return act(requestId, post(path, { allow, always }), "Not answered");
}

export async function loadResult(turn, callId) {
  const key = `${turn} ${callId}`;
  app.results.set(key, { isLoading: true });
  changed();
  const path = sessionPath(app.sessionId, `/results/${encodeURIComponent(callId)}?turn=${turn}`);
  const answer = await attempt(get(path, { waitMs: 30_000 }), "Not loaded");
  if (answer) app.results.set(key, { text: answer.text });
  else app.results.delete(key);
  changed();
}

// Sessions.

export async function rehearse() {
  const summary = await attempt(post("/rehearsal"), "The rehearsal did not start");
  if (summary) open(summary);
}

export async function newSession(title, prompt) {
  const given = { ...(title && { title }), ...(prompt && { prompt }) };
  const summary = await attempt(post("/sessions", given), "The session was not begun");
  if (summary) {
    open(summary);
    app.focusField = "text";
  }
  return summary !== null;
}

/** A session that is new comes first in the list. */
function noteSession(summary) {
  if (summary.state === "deleted") app.sessions.delete(summary.id);
  else if (app.sessions.has(summary.id)) app.sessions.set(summary.id, summary);
  else app.sessions = new Map([[summary.id, summary], ...app.sessions]);
}

function open(summary) {
  noteSession(summary);
  location.hash = sessionHref(summary.id);
}

/** What a cancel leaves in the inbox, by name. */
export function survivors(timeline, ids = null) {
  const rows = [...timeline.reminders, ...timeline.messages].filter(isWaiting);
  const found = ids ? rows.filter((row) => ids.includes(row.id)) : rows;
  const names = found.slice(0, 4).map((row) => quoted(row.body ?? row.text, 40));
  const rest = found.length - names.length;
  if (!names.length) return "Nothing waits in the inbox.";
  return `Stays in the inbox: ${names.join(", ")}${rest ? ` and ${rest} more` : ""}.`;
}
