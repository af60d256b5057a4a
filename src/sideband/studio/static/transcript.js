// The transcript: the conversation, and beside it what each request told on the side.

import { html, nothing } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { answerPermission, check, giveUp, loadEarlier, loadResult, selectReminder } from "./actions.js";
import { glyph, isQuoted, spinner, trustChip } from "./marks.js";
import { app, changed, drawNow, keep, keyOf, nameOf, perObject, reminderOf, senderName, writerName } from "./state.js";
import { bytes, clock, FOLD, head, number, percent, plain, plural, quoted, safe, times } from "./text.js";

const MORE_ROWS = 150;
const WINDOW = 200;
const STEP = 35;
const sentAt = (row) => row.deliveredCursor ?? (row.state === "waiting" ? Infinity : row.cursor);

/** Turns, messages and compactions in the order in which they happened; what waits is last. */
const rowsOf = perObject((timeline) => {
  const first = timeline.turns[0]?.cursor ?? 0;
  const rows = [
    ...timeline.turns.map((turn) => ({ kind: "turn", key: `t${turn.cursor}`, at: turn.cursor, turn })),
    ...timeline.messages.filter((row) => row.state !== "revoked" && !row.auditOnly).map((message) => ({ kind: "message", key: `m${message.id}`, at: sentAt(message), message })),
    ...timeline.compactions.map((row) => ({ kind: "compaction", key: `c${row.cursor}`, at: row.cursor, row })),
  ];
  // An open turn whose opening is no longer kept has no cursor, and is the first.
  return { rows: rows.sort((a, b) => a.at - b.at), first };
});

export function transcriptPane() {
  const { timeline } = app;
  return html`<section class="transcript pane" id="transcript" aria-label="Transcript" tabindex="-1">
    <div class="cols col-heads" aria-hidden="true"><span>Turn</span><span>Conversation</span><span>${glyph("told")}Told on the side</span></div>
    <div class="scroll" tabindex="-1" @scroll=${scrolled} @wheel=${touch} @touchmove=${touch} @pointerdown=${touch} @keydown=${touch}>${timeline ? list(timeline) : app.isSlow ? bones() : nothing}</div>
    ${app.unread ? html`<button class="btn small below" @click=${toEnd}>${glyph("more")}${app.unread} new below</button>` : nothing}
  </section>`;
}

export const bones = () => html`<div class="bones" role="status" aria-busy="true" aria-label="Loading">${[1, 2, 3, 4, 5, 6].map(() => html`<i></i>`)}</div>`;

function list(timeline) {
  const { rows } = rowsOf(timeline);
  const drawn = rows.slice(-app.turnRows);
  const hidden = rows.length - drawn.length;
  const outbox = app.outbox.filter((entry) => entry.sessionId === app.sessionId && !entry.isReminder);
  if (!rows.length && !outbox.length) {
    return html`<div class="blank"><h2>Nothing was said yet</h2><p>${app.info?.model || timeline.running ? "Send a prompt below. What hooks, editors and servers tell the agent on the side appears beside its replies." : "This server has no model. A program that works on this session appears here as soon as it begins."}</p></div>`;
  }
  return html`
    ${hidden || timeline.earlierTurns || timeline.since ? html`<div class="earlier">${hidden
      ? html`<button class="btn small" @click=${showEarlier}>Show ${Math.min(MORE_ROWS, hidden)} earlier of ${number(hidden)}</button>`
      : timeline.earlierTurns ? html`<button class="btn small" @click=${loadEarlier}>Load earlier turns, ${number(timeline.earlierTurns)} left</button>`
      : html`<span>Events before number ${number(timeline.since)} are no longer kept.</span>`}</div>` : nothing}
    <ol class="turns" data-list="turns" aria-label="Turns">${repeat(drawn, (row) => row.key, (row) => ROWS[row.kind](timeline, row))}
    ${outbox.map((entry) => html`<li class="cols row"><span class="no"></span><div class="talk"><div class="user waiting" aria-busy=${entry.state === "sending"}><p class="by">You <span>· ${entry.verb}, ${outcome(entry)}</span></p><p>${safe(entry.text)}</p></div></div><div class="told"></div></li>`)}</ol>`;
}

/** What is known of something that was sent: nothing more than that, until its event comes. */
export const outcome = (entry) => (entry.state !== "unknown" ? entry.state
  : html`<span class="t-bad">no answer: it may or may not have been accepted</span> <button class="link" @click=${() => check(entry)}>Check</button><button class="link" @click=${() => giveUp(entry)}>Forget</button>`);

const ROWS = {
  turn: (timeline, { turn }) => {
    const writing = turn.state === "open" && app.writing && (!turn.replyId || app.writing.replyId === turn.replyId) ? app.writing.text : null;
    // Reminders change with each turn; of what is drawn here, only their texts do.
    const rows = [...turn.told.map(({ id }) => id), ...turn.still, ...turn.leftOut].map((id) => reminderOf(timeline, id));
    const chosen = rows.find((row) => row && keyOf(row) === app.selected)?.id;
    const results = turn.calls.map((call) => app.results.get(`${turn.turn} ${call.id}`));
    const isPast = app.past === turn.turn;
    const isLast = turn === timeline.turns.at(-1);
    const cost = app.requests.get(turn.turn);
    return html`<li class="cols row turn ${turn.state} ${isPast ? "chosen" : ""}" data-row=${turn.turn} data-focus aria-label="Turn ${turn.turn}${turn.state === "void" ? ", void" : ""}">
      ${keep([turn, writing, isPast, app.expanded.size, isLast && timeline.running, isLast && timeline.permissions.length, ...results], () => talk(timeline, turn, writing))}
      <div class="told" role="note" aria-label="Told on the side in turn ${turn.turn}">${keep([turn, chosen, cost, app.expanded.size, ...rows.map((row) => row?.body)], () => told(timeline, turn, chosen, cost))}</div></li>`;
  },
  message: (timeline, { message }) => html`<li class="cols row said-by ${message.mode === "steer" ? "joined" : ""}">${keep([message, timeline.permissions.length], () => html`<span class="no"></span><div class="talk">${bubble(timeline, message)}</div><div class="told"></div>`)}</li>`,
  compaction: (_timeline, { row }) => html`<li class="fold">${glyph("compacted_out")}<b>Compaction</b><span>after turn ${row.turn}: ${plural(row.archivedMessages, "message")} archived, a new cache window begins</span></li>`,
};

function talk(timeline, turn, writing) {
  const pick = () => { app.past = app.past === turn.turn || turn.state !== "committed" ? null : turn.turn; changed(); };
  return html`<span class="no"><button class="bare" @click=${pick} title="Turn ${turn.turn}, ${plain(clock(turn.time))}. Show the reminders as of this turn." aria-pressed=${app.past === turn.turn}>${turn.turn}</button></span>
    <div class="talk">
      ${turn.state === "void" ? html`<p class="hint">${glyph("dropped")} Void: nothing in this request counts as shown; its number is used again.</p>` : nothing}
      ${turn.attempt > 1 ? html`<p class="hint">Attempt ${turn.attempt}</p>` : nothing}
      ${turn.state === "open" ? html`<div class="said"><p>${writing ? pieces(writing, `w${turn.cursor}`) : html`<span class="hint">waiting for the reply</span>`}<span class="caret" aria-hidden="true"></span></p></div>` : turn.text ? html`<div class="said"><p>${pieces(turn.text, `t${turn.cursor}`)}</p></div>` : nothing}
      ${turn.skippedBy ? skipped(timeline, turn) : turn.calls.map((call) => tool(timeline, turn, call))}
    </div>`;
}

/** Text, folded when it is long; `unfold` is the button that belongs beside it. */
const isFolded = (text, key, most) => text.length > most * 1.2 && !app.expanded.has(key);
export const folded = (text, key, most = FOLD) => (isFolded(text, key, most) ? safe(`${head(text, most)}…`) : safe(text));
export function unfold(text, key, most = FOLD) {
  if (!isFolded(text, key, most)) return nothing;
  return html` <button class="link" @click=${() => { app.expanded.add(key); changed(); }}>Show all ${bytes(text.length)}</button>`;
}
const pieces = (text, key) => html`${folded(text, key)}${unfold(text, key)}`;

const NOT_RUN = { interrupted: "not run", cancelled: "cancelled", unknown: "unknown", denied: "denied" };

function tool(timeline, turn, call) {
  const whole = app.results.get(`${turn.turn} ${call.id}`);
  const text = whole?.text ?? call.text ?? "";
  const asks = timeline.permissions.includes(call.id);
  const lines = text ? text.replace(/\n$/, "").split("\n").length : 0;
  const isCut = call.bytes > text.length * 3 || (call.text?.length === FOLD && !whole?.text);
  const ending = call.status === undefined
    ? html`${asks ? html`${glyph("held", "t-cut")}asks you` : turn === timeline.turns.at(-1) && timeline.running ? html`${spinner("t-user")}running` : "no result"}`
    : call.status === "ok" ? html`${glyph("check", "t-good")}${isCut ? bytes(call.bytes) : lines === 1 && text.length < 40 ? safe(text.trim()) : plural(lines, "line")}`
    : html`${glyph("alert")}${NOT_RUN[call.status] ?? call.status}`;
  return html`<details class="tool" data-status=${call.status ?? "open"}><summary>${glyph("tool", "quiet")}<b>${safe(call.name)}</b><span class="arg clip" title=${plain(argument(call.args))}>${safe(argument(call.args))}</span><span class="out">${ending}</span></summary>
    <pre tabindex="0">${safe(JSON.stringify(call.args, null, 2))}</pre>${call.text === undefined ? nothing : html`<pre tabindex="0">${safe(text)}</pre>`}
    ${isCut && !whole?.text ? html`<p class="pad"><button class="link" ?disabled=${whole?.isLoading} @click=${() => loadResult(turn.turn, call.id)}>${whole?.isLoading ? "Loading" : `Load all ${bytes(call.bytes)}`}</button></p>` : nothing}</details>`;
}

function argument(args) {
  const values = Object.values(args ?? {});
  const first = values.find((value) => typeof value === "string") ?? values[0];
  return plain(Array.isArray(first) ? first.join(" ") : first === undefined ? "" : typeof first === "string" ? first : JSON.stringify(first), 200).split("\n")[0];
}

function skipped(timeline, turn) {
  const by = turn.skippedBy.map((id) => reminderOf(timeline, id) ?? timeline.messages.find((row) => row.id === id)).filter(Boolean);
  const names = [...new Set(by.map((row) => senderName(row.sender)))].join(", ") || "an interrupt";
  return html`<div class="cutoff"><p>${glyph("interrupt")}Batch skipped: interrupted by ${safe(names)}</p><ul>${turn.calls.map((call) => html`<li><b>${safe(call.name)}</b><span class="mono clip">${safe(argument(call.args))}</span></li>`)}</ul></div>`;
}

const WAITS = { queue: "starts a turn when idle", steer: "reaches the model after the running tools", finish_step: "reaches the model after the running tools", interrupt_immediate: "skips the next batch of tools", audit_only: "recorded only" };

export const waitsFor = (timeline, message) => (timeline.permissions.length && message.mode !== "queue" ? "held until the permission is answered" : WAITS[message.mode] ?? "waiting");

function bubble(timeline, message) {
  const isWaiting = message.state === "waiting";
  const by = message.role === "user" ? writerName(message.sender) : message.role;
  const how = isWaiting ? `${message.mode}, ${waitsFor(timeline, message)}` : message.mode === "steer" || message.mode === "interrupt_immediate" ? `${message.mode}, after turn ${Math.floor(message.deliveredAt)}` : clock(message.time);
  return html`<div class="user ${isWaiting ? "waiting" : ""}"><p class="by">${safe(by)} <span>· ${how}</span></p><p>${pieces(message.text, `m${message.id}`)}</p>${message.otherBlocks ? html`<p class="hint">and ${plural(message.otherBlocks, "block")} that ${message.otherBlocks === 1 ? "is" : "are"} not text</p>` : nothing}</div>`;
}

// The margin.

function told(timeline, turn, chosen, cost) {
  const names = (ids) => ids.map((id) => reminderOf(timeline, id)).filter(Boolean);
  const still = names(turn.still);
  const left = names(turn.leftOut);
  return html`${turn.told.map((entry) => note(reminderOf(timeline, entry.id), entry, chosen))}
    ${still.length || left.length || turn.state !== "void" ? html`<footer>
      ${still.length ? html`<p>still shown: ${mentions(still)}</p>` : nothing}
      ${left.length ? html`<p>${glyph("leftout", "t-side")} left out, over the token budget: ${mentions(left)}</p>` : nothing}
      ${turn.state === "void" ? nothing : html`<a class="req" href="#session=${encodeURIComponent(app.sessionId)}&request=${turn.turn}" title="Inspect the request of turn ${turn.turn}">${glyph("code")}${costLine(cost, turn)}</a>`}</footer>` : nothing}`;
}

function costLine(cost, turn) {
  if (!cost) {
    const { promptTokens, cacheReadTokens = 0 } = turn.usage ?? {};
    return promptTokens ? `${percent(cacheReadTokens / promptTokens)} cached` : "request";
  }
  if (cost.compaction) return `${percent(cost.share)} cached: a new window begins`;
  return `${percent(cost.share)} cached${cost.relative > 1.005 ? ` · ${times(cost.relative)} the cost` : ""}`;
}

const mentions = (rows) => rows.map((row, index) => html`${index ? ", " : ""}<button class="mention ${row.dedupeKey ? "key" : ""}" @click=${() => selectReminder(row.id)} title=${plain(row.body)}>${safe(row.dedupeKey ?? quoted(row.body, 30))}</button>`);

/** One told reminder; the rail is solid for what may speak as the system and dotted for what is quoted. */
export function note(row, { role, via }, chosen) {
  if (!row) return html`<div class="note"><p class="hint">a reminder that is no longer kept</p></div>`;
  const how = [isQuoted(row.sender) ? "quoted" : "", via === "proxy" ? "handed to the agent" : role ? `as ${role}` : ""].filter(Boolean).join(", ");
  return html`<div class="note ${isQuoted(row.sender) ? "quoted" : ""} ${row.id === chosen ? "sel" : ""}"><button class="bare" @click=${() => selectReminder(row.id)} aria-pressed=${row.id === chosen} title=${plain(nameOf(row))}>${folded(row.body, `n${row.id}`, 240)}</button>${unfold(row.body, `n${row.id}`, 240)}<p class="from">${trustChip(row.sender)} <span>${safe(senderName(row.sender))}</span> <span class="quiet">${how}</span></p></div>`;
}

// The bar above the transcript while a permission is asked for.

export function permissionBar(timeline) {
  if (!timeline?.permissions.length) return nothing;
  const held = timeline.reminders.filter((row) => row.state === "queued" && row.mode !== "audit_only").length + timeline.messages.filter((row) => row.state === "waiting" && row.mode !== "queue").length;
  return timeline.permissions.map((id) => {
    const call = timeline.turns.flatMap((turn) => turn.calls).findLast((each) => each.id === id);
    return html`<div class="banner cut" role="group" aria-label="Permission">${glyph("held")}<b>Waiting for an answer</b><span class="clip">Allow <code>${safe(call?.name ?? id)}</code>${call && argument(call.args) ? html` with <code>${safe(argument(call.args))}</code>` : nothing}? ${held ? `${held} held.` : ""}</span><span class="end"><button class="btn small" ?disabled=${app.isReadOnly} @click=${() => answerPermission(id, false)}>Deny</button><button class="btn small" title="Do not ask for this tool again in this session" ?disabled=${app.isReadOnly} @click=${() => answerPermission(id, true, true)}>Always allow</button><button class="btn small primary" ?disabled=${app.isReadOnly} @click=${() => answerPermission(id, true)}>Allow</button></span></div>`;
  });
}

// Scrolling: stay at the end unless the user has scrolled up; then count what is new below.

let stick = true;
let touched = 0;
let seen = 0;
let seenIn = null;
const toBottom = (box) => { if (stick) box.scrollTop = box.scrollHeight; };
// Rows out of view have an estimated height, so the end moves when they are drawn.
const sizes = new ResizeObserver(() => { const box = document.querySelector(".scroll"); if (box) toBottom(box); });

const touch = () => { touched = Date.now(); };

function scrolled(event) {
  const box = event.currentTarget;
  const isEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  // Only the user's own scrolling leaves the end; a change of the layout does not.
  if (isEnd) stick = true;
  else if (Date.now() - touched < 500) stick = false;
  if (isEnd && app.unread) changed();
}

export function settleTranscript() {
  const box = document.querySelector(".scroll");
  if (!box || !app.timeline) return;
  if (seenIn !== app.sessionId) [stick, seenIn] = [true, app.sessionId];
  const list = box.querySelector(".turns");
  if (list && !list.dataset.watched) {
    list.dataset.watched = "yes";
    sizes.observe(list);
  }
  toBottom(box);
  // The first draw shows the end only; the rest of the window follows in small steps, which nobody sees at the end.
  if ((app.turnRows < WINDOW && rowsOf(app.timeline).rows.length > app.turnRows) || (app.cardRows < WINDOW && app.timeline.reminders.length > app.cardRows)) growing ||= setTimeout(grow, 60);
  const count = app.timeline.turns.length + app.timeline.messages.length;
  if (stick && box.clientHeight) seen = count;
  const unread = Math.max(0, count - seen);
  if (unread !== app.unread) {
    app.unread = unread;
    changed();
  }
}

function toEnd() {
  stick = true;
  changed();
}

/** Show more rows above; what is in view stays where it is. */
function showMore(count) {
  const box = document.querySelector(".scroll");
  if (!box) return;
  const from = box.scrollHeight - box.scrollTop;
  app.turnRows += count;
  drawNow();
  box.scrollTop = box.scrollHeight - from;
}
const showEarlier = () => showMore(MORE_ROWS);

let growing = 0;
function grow() {
  growing = 0;
  app.cardRows += STEP;
  showMore(STEP);
}
