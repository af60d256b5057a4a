// The transcript: the conversation, and beside it what each request told on the side.

import { html, nothing } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { answerPermission, check, giveUp, loadEarlier, loadResult, selectReminder } from "./actions.js";
import { glyph, spinner, trustChip } from "./marks.js";
import {
  app, changed, drawNow, isQuoted, keep, keyOf, nameOf, perObject, reminderOf, requestHref, senderName, writerName,
} from "./state.js";
import { bytes, clock, FOLD, head, number, percent, plain, plural, quoted, safe, times } from "./text.js";

const MORE_ROWS = 150;
const WINDOW = 200;
const STEP = 35;
const sentAt = (row) => row.deliveredCursor ?? (row.state === "waiting" ? Infinity : row.cursor);

/** Turns, messages and compactions in the order in which they happened; what waits is last. */
const rowsOf = perObject((timeline) => {
  const said = timeline.messages.filter((row) => row.state !== "revoked" && !row.auditOnly);
  const rows = [
    ...timeline.turns.map((turn) => ({ kind: "turn", key: `t${turn.cursor}`, at: turn.cursor, turn })),
    ...said.map((message) => ({ kind: "message", key: `m${message.id}`, at: sentAt(message), message })),
    ...timeline.compactions.map((row) => ({ kind: "compaction", key: `c${row.cursor}`, at: row.cursor, row })),
  ];
  // An open turn whose opening is no longer kept has no cursor, and is the first.
  return rows.sort((a, b) => a.at - b.at);
});

export function transcriptPane() {
  const { timeline } = app;
  return html`<section class="transcript pane" id="transcript" aria-label="Transcript" tabindex="-1">
    <div class="cols col-heads" aria-hidden="true">
      <span>Turn</span><span>Conversation</span><span>${glyph("told")}Told on the side</span>
    </div>
    <div
      class="scroll" tabindex="-1" @scroll=${scrolled} @wheel=${touch} @touchmove=${touch} @pointerdown=${touch}
      @keydown=${touch}
    >${timeline ? list(timeline) : app.isSlow ? bones() : nothing}</div>
    ${app.unread
      ? html`<button class="btn small below" @click=${toEnd}>${glyph("more")}${app.unread} new below</button>`
      : nothing}
  </section>`;
}

export const bones = () => html`<div class="bones" role="status" aria-busy="true" aria-label="Loading">
  ${[1, 2, 3, 4, 5, 6].map(() => html`<i></i>`)}</div>`;

function list(timeline) {
  const rows = rowsOf(timeline);
  const drawn = rows.slice(-app.turnRows);
  const outbox = app.outbox.filter((entry) => entry.sessionId === app.sessionId && !entry.isReminder);
  if (!rows.length && !outbox.length) return nothingSaid(timeline);
  return html`
    ${earlier(timeline, rows.length - drawn.length)}
    <ol class="turns" data-list="turns" aria-label="Turns">
      ${repeat(drawn, (row) => row.key, (row) => ROWS[row.kind](timeline, row))}
      ${outbox.map(sending)}
    </ol>`;
}

const nothingSaid = (timeline) => html`<div class="blank">
  <h2>Nothing was said yet</h2>
  <p>${app.info?.model || timeline.running
    ? "Send a prompt below. What hooks, editors and servers tell the agent on the side appears beside its replies."
    : "This server has no model. A program that works on this session appears here as soon as it begins."}</p>
</div>`;

function earlier(timeline, hidden) {
  if (!hidden && !timeline.earlierTurns && !timeline.since) return nothing;
  const more = (act, words) => html`<button class="btn small" @click=${act}>${words}</button>`;
  return html`<div class="earlier">${hidden
    ? more(showEarlier, `Show ${Math.min(MORE_ROWS, hidden)} earlier of ${number(hidden)}`)
    : timeline.earlierTurns ? more(loadEarlier, `Load earlier turns, ${number(timeline.earlierTurns)} left`)
    : html`<span>Events before number ${number(timeline.since)} are no longer kept.</span>`}</div>`;
}

// White space counts in `.user`, `.said p` and `.note .bare`: no line breaks between their elements.

const sending = (entry) => html`<li class="cols row">
  <span class="no"></span>
  <div class="talk">
    <div class="user waiting" aria-busy=${entry.state === "sending"}><p
      class="by">You <span>· ${entry.verb}, ${outcome(entry)}</span></p><p>${safe(entry.text)}</p></div>
  </div>
  <div class="told"></div>
</li>`;

/** What is known of something that was sent: nothing more than that, until its event comes. */
export function outcome(entry) {
  if (entry.state !== "unknown") return entry.state;
  return html`<span class="t-bad">no answer: it may or may not have been accepted</span> <button
    class="link" @click=${() => check(entry)}>Check</button><button
    class="link" @click=${() => giveUp(entry)}>Forget</button>`;
}

const ROWS = {
  turn: (timeline, { turn }) => turnRow(timeline, turn),
  message: (timeline, { message }) => html`<li class="cols row said-by ${message.mode === "steer" ? "joined" : ""}">
    ${keep([message, timeline.permissions.length], () => html`
      <span class="no"></span>
      <div class="talk">${bubble(timeline, message)}</div>
      <div class="told"></div>`)}
  </li>`,
  compaction: (_timeline, { row }) => html`<li class="fold">
    ${glyph("compacted_out")}
    <b>Compaction</b>
    <span>after turn ${row.turn}: ${plural(row.archivedMessages, "message")} archived, a new cache window begins</span>
  </li>`,
};

function turnRow(timeline, turn) {
  const isWritten = turn.state === "open" && app.writing && (!turn.replyId || app.writing.replyId === turn.replyId);
  const writing = isWritten ? app.writing.text : null;
  // Reminders change with each turn; of what is drawn here, only their texts do.
  const ids = [...turn.told.map(({ id }) => id), ...turn.still, ...turn.leftOut];
  const rows = ids.map((id) => reminderOf(timeline, id));
  const chosen = rows.find((row) => row && keyOf(row) === app.selected)?.id;
  const results = turn.calls.map((call) => app.results.get(`${turn.turn} ${call.id}`));
  const isPast = app.past === turn.turn;
  const isLast = turn === timeline.turns.at(-1);
  const asks = isLast && timeline.permissions.length;
  const cost = app.requests.get(turn.turn);
  return html`<li
      class="cols row turn ${turn.state} ${isPast ? "chosen" : ""}" data-row=${turn.turn} data-focus
      aria-label="Turn ${turn.turn}${turn.state === "void" ? ", void" : ""}">
    ${keep([turn, writing, isPast, app.expanded, isLast && timeline.running, asks, ...results],
      () => talk(timeline, turn, writing))}
    <div class="told" role="note" aria-label="Told on the side in turn ${turn.turn}">${
      keep([turn, chosen, cost, app.expanded, ...rows.map((row) => row?.body)],
        () => told(timeline, turn, chosen, cost))
    }</div>
  </li>`;
}

function talk(timeline, turn, writing) {
  const pick = () => {
    app.past = app.past === turn.turn || turn.state !== "committed" ? null : turn.turn;
    changed();
  };
  const title = `Turn ${turn.turn}, ${plain(clock(turn.time))}. Show the reminders as of this turn.`;
  return html`
    <span class="no"><button class="bare" @click=${pick} title=${title} aria-pressed=${app.past === turn.turn}>
      ${turn.turn}</button></span>
    <div class="talk">
      ${turn.state === "void"
        ? html`<p class="hint">${glyph("dropped")} Void: nothing in this request counts as shown; its number is used
            again.</p>`
        : nothing}
      ${turn.attempt > 1 ? html`<p class="hint">Attempt ${turn.attempt}</p>` : nothing}
      ${reply(turn, writing)}
      ${turn.skippedBy ? skipped(timeline, turn) : turn.calls.map((call) => tool(timeline, turn, call))}
    </div>`;
}

function reply(turn, writing) {
  if (turn.state === "open") {
    const text = writing ? pieces(writing, `w${turn.cursor}`) : html`<span class="hint">waiting for the reply</span>`;
    return html`<div class="said"><p>${text}<span class="caret" aria-hidden="true"></span></p></div>`;
  }
  return turn.text ? html`<div class="said"><p>${pieces(turn.text, `t${turn.cursor}`)}</p></div>` : nothing;
}

// Long texts are folded; `unfold` is the button that belongs beside them.

const isLong = (text, most) => text.length > most * 1.2;
export const folded = (text, key, most = FOLD) =>
  safe(isLong(text, most) && !app.expanded.has(key) ? `${head(text, most)}…` : text);
export function unfold(text, key, most = FOLD) {
  if (!isLong(text, most)) return nothing;
  const word = app.expanded.has(key) ? "Show less" : `Show all ${bytes(text.length)}`;
  return html` <button class="link" @click=${() => toggle(key)}>${word}</button>`;
}
function toggle(key) {
  app.expanded = new Set(app.expanded);
  if (!app.expanded.delete(key)) app.expanded.add(key);
  changed();
}
const pieces = (text, key) => html`${folded(text, key)}${unfold(text, key)}`;

// Tool calls.

const NOT_RUN = { interrupted: "not run", cancelled: "cancelled", unknown: "unknown", denied: "denied" };

function tool(timeline, turn, call) {
  const whole = app.results.get(`${turn.turn} ${call.id}`);
  const text = whole?.text ?? call.text ?? "";
  const isCut = call.bytes > text.length * 3 || (call.text?.length === FOLD && !whole?.text);
  const load = () => loadResult(turn.turn, call.id);
  return html`<details class="tool" data-status=${call.status ?? "open"}>
    <summary>
      ${glyph("tool", "quiet")}
      <b>${safe(call.name)}</b>
      <span class="arg clip" title=${plain(argument(call.args))}>${safe(argument(call.args))}</span>
      <span class="out">${ending(timeline, turn, call, text, isCut)}</span>
    </summary>
    <pre tabindex="0">${safe(JSON.stringify(call.args, null, 2))}</pre>
    ${call.text === undefined ? nothing : html`<pre tabindex="0">${safe(text)}</pre>`}
    ${isCut && !whole?.text
      ? html`<p class="pad"><button class="link" ?disabled=${whole?.isLoading} @click=${load}>${
          whole?.isLoading ? "Loading" : `Load all ${bytes(call.bytes)}`}</button></p>`
      : nothing}
  </details>`;
}

function ending(timeline, turn, call, text, isCut) {
  if (call.status === undefined) {
    if (timeline.permissions.includes(call.id)) return html`${glyph("held", "t-cut")}asks you`;
    const runs = turn === timeline.turns.at(-1) && timeline.running;
    return runs ? html`${spinner("t-user")}running` : "no result";
  }
  if (call.status !== "ok") return html`${glyph("alert")}${NOT_RUN[call.status] ?? call.status}`;
  const lines = text ? text.replace(/\n$/, "").split("\n").length : 0;
  const isShort = lines === 1 && text.length < 40;
  return html`${glyph("check", "t-good")}${isCut ? bytes(call.bytes)
    : isShort ? safe(text.trim()) : plural(lines, "line")}`;
}

function argument(args) {
  const values = Object.values(args ?? {});
  const first = values.find((value) => typeof value === "string") ?? values[0] ?? "";
  const text = Array.isArray(first) ? first.join(" ") : typeof first === "string" ? first : JSON.stringify(first);
  return plain(text, 200).split("\n")[0];
}

function skipped(timeline, turn) {
  const found = (id) => reminderOf(timeline, id) ?? timeline.messages.find((row) => row.id === id);
  const by = turn.skippedBy.map(found).filter(Boolean).map((row) => senderName(row.sender).replace(/^You$/, "you"));
  const names = [...new Set(by)].join(", ") || "an interrupt";
  return html`<div class="cutoff">
    <p>${glyph("interrupt")}Batch skipped: interrupted by ${safe(names)}</p>
    <ul>${turn.calls.map((call) => html`<li>
      <b>${safe(call.name)}</b>
      <span class="mono clip">${safe(argument(call.args))}</span>
    </li>`)}</ul>
  </div>`;
}

// Messages.

const WAITS = {
  queue: "starts a turn when idle",
  steer: "reaches the model after the running tools",
  finish_step: "reaches the model after the running tools",
  interrupt_immediate: "skips the next batch of tools",
  audit_only: "recorded only",
};

export function waitsFor(timeline, message) {
  if (timeline.permissions.length && message.mode !== "queue") return "held until the permission is answered";
  return WAITS[message.mode] ?? "waiting";
}

function bubble(timeline, message) {
  const isWaiting = message.state === "waiting";
  const by = message.role === "user" ? writerName(message.sender) : message.role;
  const isLate = message.mode === "steer" || message.mode === "interrupt_immediate";
  const how = isWaiting ? `${message.mode}, ${waitsFor(timeline, message)}`
    : isLate ? `${message.mode}, after turn ${Math.floor(message.deliveredAt)}`
    : clock(message.time);
  const others = message.otherBlocks;
  return html`<div class="user ${isWaiting ? "waiting" : ""}"><p
    class="by">${safe(by)} <span>· ${how}</span></p><p>${pieces(message.text, `m${message.id}`)}</p>${others
    ? html`<p class="hint">and ${plural(others, "block")} that ${others === 1 ? "is" : "are"} not text</p>`
    : nothing}</div>`;
}

// The margin.

function told(timeline, turn, chosen, cost) {
  const names = (ids) => ids.map((id) => reminderOf(timeline, id)).filter(Boolean);
  // A provider's slot may need the text anew in each request; for the reader it is the same reminder.
  const isAgain = ({ id }) => reminderOf(timeline, id)?.shown.some((entry) => entry.turn < turn.turn);
  const still = names([...turn.told.filter(isAgain).map((entry) => entry.id), ...turn.still]);
  const left = names(turn.leftOut);
  const anew = turn.told.filter((entry) => !isAgain(entry));
  const isVoid = turn.state === "void";
  const footer = html`<footer>
    ${still.length ? html`<p>still shown: ${mentions(still, chosen)}</p>` : nothing}
    ${left.length
      ? html`<p>${glyph("leftout", "t-side")} left out, over the token budget: ${mentions(left, chosen)}</p>`
      : nothing}
    ${isVoid ? nothing : html`<a
      class="req" href=${requestHref(turn.turn)} title="Inspect the request of turn ${turn.turn}">
      ${glyph("code")}${costLine(cost, turn)}</a>`}
  </footer>`;
  return html`${anew.map((entry) => note(reminderOf(timeline, entry.id), entry, chosen))}${
    still.length || left.length || !isVoid ? footer : nothing}`;
}

function costLine(cost, turn) {
  if (!cost) {
    const { promptTokens, cacheReadTokens = 0 } = turn.usage ?? {};
    return promptTokens ? `${percent(cacheReadTokens / promptTokens)} cached` : "request";
  }
  if (cost.compaction) return `${percent(cost.share)} cached: a new window begins`;
  return `${percent(cost.share)} cached${cost.relative > 1.005 ? ` · ${times(cost.relative)} the cost` : ""}`;
}

function mentions(rows, chosen) {
  const mention = (row) => html`<button
    class="mention ${row.dedupeKey ? "key" : ""} ${row.id === chosen ? "sel" : ""}" aria-pressed=${row.id === chosen}
    title=${plain(row.body)} @click=${() => selectReminder(row.id)}
  >${safe(row.dedupeKey ?? quoted(row.body, 30))}</button>`;
  return rows.map((row, index) => html`${index ? ", " : ""}${mention(row)}`);
}

/** One told reminder; the rail is solid for what may speak as the system and dotted for what is quoted. */
function note(row, { role, via }, chosen) {
  if (!row) return html`<div class="note"><p class="hint">a reminder that is no longer kept</p></div>`;
  const key = `n${row.id}`;
  const place = via === "proxy" ? "handed to the agent" : role ? `as ${role}` : "";
  const how = [isQuoted(row.sender) ? "quoted" : "", place].filter(Boolean).join(", ");
  return html`<div class="note ${isQuoted(row.sender) ? "quoted" : ""} ${row.id === chosen ? "sel" : ""}"><button
      class="bare" @click=${() => selectReminder(row.id)} aria-pressed=${row.id === chosen} title=${plain(nameOf(row))}
    >${folded(row.body, key, 240)}</button>${unfold(row.body, key, 240)}
    <p class="from">
      ${trustChip(row.sender)} <span>${safe(senderName(row.sender))}</span> <span class="quiet">${how}</span>
    </p>
  </div>`;
}

// The bar while a permission is asked for.

export function permissionBar(timeline) {
  if (!timeline?.permissions.length) return nothing;
  const reminders = timeline.reminders.filter((row) => row.state === "queued" && row.mode !== "audit_only");
  const messages = timeline.messages.filter((row) => row.state === "waiting" && row.mode !== "queue");
  const held = reminders.length + messages.length;
  return timeline.permissions.map((id) => permission(timeline, id, held));
}

function permission(timeline, id, held) {
  const call = timeline.turns.flatMap((turn) => turn.calls).findLast((each) => each.id === id);
  const answer = (look, word, allow, always, title = nothing) => html`<button
    class="btn small ${look}" title=${title} ?disabled=${app.isReadOnly}
    @click=${() => answerPermission(id, allow, always)}>${word}</button>`;
  const given = call && argument(call.args) ? html` with <code>${safe(argument(call.args))}</code>` : nothing;
  return html`<div class="banner cut" role="group" aria-label="Permission">
    ${glyph("held")}
    <b>Waiting for an answer</b>
    <span class="ask">Allow <code>${safe(call?.name ?? id)}</code>${given}? ${held ? `${held} held.` : ""}</span>
    <span class="end">
      ${answer("", "Deny", false, false)}
      ${answer("", "Always allow", true, true, "Do not ask for this tool again in this session")}
      ${answer("primary", "Allow", true, false)}
    </span>
  </div>`;
}

// Scrolling: stay at the end unless the user has scrolled up; then count what is new below.

let stick = true;
let touched = 0;
let seen = 0;
let seenIn = null;
let seenBox = null;
// Where each session was scrolled to: a turn, and how far it is below the top. Rows out of view have no exact height.
const places = new Map();
let isReturning = false;
const toBottom = (box) => { if (stick) box.scrollTop = box.scrollHeight; };
// Rows out of view have an estimated height, so the end and each place move when they are drawn.
const sizes = new ResizeObserver(() => {
  const box = document.querySelector(".scroll");
  if (!box) return;
  toBottom(box);
  if (isReturning) toPlace(box);
});

function touch() {
  touched = Date.now();
  isReturning = false;
}

function scrolled(event) {
  const box = event.currentTarget;
  const isEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  // Only the user's own scrolling leaves the end; a change of the layout does not.
  if (isEnd) stick = true;
  else if (Date.now() - touched < 500) stick = false;
  if (stick) places.delete(app.sessionId);
  else if (!isReturning) notePlace(box);
  if (isEnd && app.unread) changed();
}

const topIn = (box, row) => row.getBoundingClientRect().top - box.getBoundingClientRect().top;

function notePlace(box) {
  const row = [...box.querySelectorAll(".turn")].find((each) => topIn(box, each) + each.offsetHeight > 0);
  if (row) places.set(app.sessionId, { turn: row.dataset.row, top: topIn(box, row) });
}

/** Scroll to where this session was left; false if it was at the end, or if that turn is not drawn. */
function toPlace(box) {
  const place = places.get(app.sessionId);
  const row = place && box.querySelector(`.turn[data-row="${place.turn}"]`);
  if (row) box.scrollTop += topIn(box, row) - place.top;
  return Boolean(row);
}

/** Show where the chosen reminder was told, unless a reply is being written: that stays in view. */
function showNote(box) {
  app.showsNote = false;
  const found = box.querySelector(".note.sel") ?? box.querySelector(".mention.sel");
  if (!found || app.writing) return;
  stick = isReturning = false;
  found.scrollIntoView({ block: "nearest" });
}

export function settleTranscript() {
  const box = document.querySelector(".scroll");
  if (!box || !app.timeline) return;
  if (seenIn !== app.sessionId || seenBox !== box) {
    [seenIn, seenBox, isReturning] = [app.sessionId, box, toPlace(box)];
    stick = !isReturning;
  }
  const turns = box.querySelector(".turns");
  if (turns && !turns.dataset.watched) {
    turns.dataset.watched = "yes";
    sizes.observe(turns);
  }
  if (app.showsNote) showNote(box);
  toBottom(box);
  // The first draw shows the end only; the rest of the window follows in small steps, out of view above it.
  const hasMoreTurns = app.turnRows < WINDOW && rowsOf(app.timeline).length > app.turnRows;
  const hasMoreCards = app.cardRows < WINDOW && app.timeline.reminders.length > app.cardRows;
  if (hasMoreTurns || hasMoreCards) growing ||= setTimeout(grow, 60);
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
  isReturning = false;
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
