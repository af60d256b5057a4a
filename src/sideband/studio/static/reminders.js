// The reminders panel: what is queued, what the model sees now, and what has ended.

import { html, nothing } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { acting, backToLive, revoke, select, selectReminder } from "./actions.js";
import { TRUST, glyph, pips, spinner, STATES, stateGlyph, trustChip } from "./marks.js";
import {
  app, asOf, changed, drawnState, isLowered, isOver, keep, keyOf, nameOf, namespace, perObject, promised, requestHref,
  senderName, writerName,
} from "./state.js";
import { openDialog } from "./dialogs.js";
import { bones, folded, outcome, unfold, waitsFor } from "./transcript.js";
import { plain, safe, turnList } from "./text.js";

const ROWS = 200;
const groupOf = (row) => (isOver(row) ? "ended" : row.state);

const namesOf = ({ sender, source }) =>
  [senderName(sender), sender?.principal, sender?.trust, TRUST[sender?.trust]?.[0], sender?.via, source];
const statesOf = (row) => [row.state, groupOf(row), STATES[row.state].word.toLowerCase()];

/** The words of the filter: plain words, tag:x, from:x, state:x, key:x; all of them must match. */
function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const [, field, value] = /^(tag|from|state|key):(.+)$/.exec(word) ?? [];
    if (field === "tag") return (row) => row.tags.some((tag) => tag.toLowerCase().includes(value));
    if (field === "key") return (row) => row.dedupeKey?.toLowerCase().includes(value);
    if (field === "from") return (row) => namesOf(row).some((name) => name?.toLowerCase().includes(value));
    if (field === "state") return (row) => statesOf(row).some((state) => state.startsWith(value));
    return (row) => `${row.body} ${row.dedupeKey ?? ""} ${row.tags.join(" ")}`.toLowerCase().includes(word);
  });
  return (row) => tests.every((test) => test(row));
}

const slotOf = (row) => (row.dedupeKey === undefined ? keyOf(row) : `${namespace(row.sender)} ${row.dedupeKey}`);
const placesOf = perObject((rows) => new Map(rows.map((row, index) => [slotOf(row), index]).reverse()));

const asOfCache = perObject(() => new Map());
function rowsNow(timeline) {
  if (app.past === null) return timeline.reminders;
  const known = asOfCache(timeline);
  if (!known.has(app.past)) known.set(app.past, asOf(timeline, app.past));
  return known.get(app.past);
}

function grouped(rows) {
  const groups = { queued: [], live: [], ended: [] };
  // A row stays where it is while the pointer or the focus is on it.
  for (const row of rows) groups[app.held?.key === keyOf(row) ? app.held.group : groupOf(row)].push(row);
  // One that replaces another by its key takes its place in the list.
  const first = placesOf(rows);
  for (const name of ["queued", "live"]) groups[name].sort((a, b) => first.get(slotOf(a)) - first.get(slotOf(b)));
  groups.ended.sort((a, b) => (b.ended?.at ?? 0) - (a.ended?.at ?? 0) || b.cursor - a.cursor);
  return groups;
}

export function remindersPane() {
  const { timeline } = app;
  const rows = timeline ? rowsNow(timeline) : [];
  const groups = grouped(rows);
  const messages = timeline && app.past === null ? timeline.messages.filter((row) => row.state === "waiting") : [];
  const count = (name) => rows.filter((row) => groupOf(row) === name).length;
  const counts = { queued: count("queued") + messages.length, live: count("live"), ended: count("ended") };
  return html`<section
      class="reminders pane ${app.link.state === "lost" ? "stale" : ""}" id="reminders" aria-label="Reminders"
      tabindex="-1">
    <div class="pane-head">
      <h2>Reminders</h2>
      <span class="quiet">${timeline ? `${rows.length} in this session` : ""}</span>
    </div>
    ${filters(counts)}
    ${app.past === null ? nothing : html`<div class="banner calm">
      ${glyph("timeline")}
      <b>As of turn ${app.past}</b>
      <span class="end"><button class="btn small" @click=${backToLive}>Back to live</button></span>
    </div>`}
    <div
        class="cards" data-list="reminders" @pointerover=${hold} @pointerleave=${release} @focusin=${hold}
        @focusout=${release}>
      ${timeline ? lists(timeline, groups, messages) : app.isSlow ? bones() : nothing}
    </div>
  </section>`;
}

function filters(counts) {
  const tab = (name) => {
    const word = { all: "All", ended: "Ended" }[name] ?? STATES[name].word;
    const pick = () => { app.tab = name; changed(); };
    return html`<button aria-pressed=${app.tab === name} @click=${pick}>${word}${
      name === "all" ? nothing : html` <b>${counts[name]}</b>`}</button>`;
  };
  const type = (event) => { app.filter = event.target.value; changed(); };
  return html`<div class="filter">
    <div class="seg" role="group" aria-label="State">${["all", "queued", "live", "ended"].map(tab)}</div>
    <label class="field">
      ${glyph("search")}
      <span class="sr">Filter</span>
      <input
        id="filter" type="search" autocomplete="off" placeholder="Filter by word, tag:build, from:editor"
        .value=${app.filter} @input=${type}>
    </label>
  </div>`;
}

function lists(timeline, groups, messages) {
  const matches = matcher(app.filter);
  const show = (tab) => app.tab === "all" || app.tab === tab;
  const found = Object.fromEntries(
    Object.entries(groups).map(([name, rows]) => [name, show(name) ? rows.filter(matches) : []]));
  const outbox = app.outbox.filter((entry) => entry.sessionId === app.sessionId && entry.isReminder);
  const asks = show("queued") && !/\b(tag|state|key):/.test(app.filter);
  const waiting = asks ? messages.filter((row) => row.text.toLowerCase().includes(app.filter.toLowerCase())) : [];
  const total = Object.values(groups).flat().length + messages.length;
  const shown = Object.values(found).flat().length + waiting.length + outbox.length;
  if (!total && !outbox.length) return nothingTold();
  if (!shown) return noMatch(total);
  const queued = found.queued.length + waiting.length;
  return html`
    ${queued || outbox.length
      ? group("queued", `${queued} · ${app.past === null ? nextSeam(timeline) : `while turn ${app.past} ran`}`,
        nothing, html`
          ${outbox.map(sending)}
          ${windowed("queued", found.queued, (row) => card(timeline, row))}
          ${repeat(waiting, (row) => row.id, (row) => messageCard(timeline, row))}`)
      : nothing}
    ${found.live.length
      ? group("live", `${found.live.length} · ${requested(timeline, found.live)}`, clearButton(),
        windowed("live", found.live, (row) => card(timeline, row)))
      : nothing}
    ${found.ended.length
      ? group("ended", found.ended.length, html`<span class="cols2"><span>turn</span><span>shown</span></span>`,
        windowed("ended", found.ended, (row) => (keyOf(row) === app.selected ? card(timeline, row) : past(row))))
      : nothing}`;
}

const nothingTold = () => html`<div class="blank tight"><p>
  Nothing has been told on the side ${app.past === null ? "yet" : `up to turn ${app.past}`}. What hooks, providers,
  editors and servers say appears here: who said it, which turns showed it, and how it ended.</p></div>`;

function noMatch(total) {
  const among = app.tab === "all" ? "" : ` among the ${app.tab} ones`;
  const showAll = () => { app.filter = ""; app.tab = "all"; changed(); };
  return html`<div class="blank tight">
    <p>${app.filter
      ? html`None of ${total} matches ${safe(app.filter)}${among}.`
      : `None of ${total} is ${app.tab}.`}</p>
    <button class="link" @click=${showAll}>Show all</button>
  </div>`;
}

function nextSeam(timeline) {
  if (timeline.permissions.length) return "held until the permission is answered";
  if (!timeline.running) return "next drain when a turn starts";
  return `next drain after the tools of turn ${timeline.openTurn ?? timeline.turn}`;
}

/** How many of them a request contains: that of the past turn, the open one, or the next one. */
function requested(timeline, rows) {
  const turn = app.past ?? timeline.openTurn;
  if (turn === null) return `in the next request, turn ${timeline.turn + 1}`;
  const shown = rows.filter((row) => row.shown.some((entry) => entry.turn === turn)).length;
  return `${shown === rows.length ? "" : `${shown} `}in the request of turn ${turn}`;
}

function clearButton() {
  if (app.past !== null || app.isReadOnly) return nothing;
  return html`<span class="end"><button
    class="link" ?disabled=${app.link.state === "lost"} @click=${() => openDialog({ kind: "clear" })}
  >Clear…</button></span>`;
}

const group = (name, count, end, body) => html`<section aria-labelledby="h-${name}">
  <h3 id="h-${name}">
    ${stateGlyph(name === "ended" ? "expired" : name)}${name === "ended" ? "Ended" : STATES[name].word}
    <span class="quiet">${count}</span>${end}
  </h3>
  <ul>${body}</ul>
</section>`;

function windowed(name, rows, draw) {
  const most = app.shownRows[name] ?? app.cardRows;
  const rest = rows.length - most;
  const more = () => { app.shownRows = { ...app.shownRows, [name]: most + ROWS }; changed(); };
  const item = (row) => html`<li class=${rowClass(row, name)} data-row=${keyOf(row)} data-group=${groupOf(row)}>
    ${draw(row)}</li>`;
  return html`
    ${repeat(rows.slice(0, most), keyOf, item)}
    ${rest > 0
      ? html`<li class="pad"><button class="btn small" @click=${more}>
          Show ${Math.min(ROWS, rest)} more of ${rest}</button></li>`
      : nothing}`;
}

const rowClass = (row, group) => (keyOf(row) === app.selected ? "card sel" : group === "ended" ? "past-row" : "card");

function past(row) {
  const count = row.count ? ` ×${row.count}` : "";
  return keep([row], () => html`<button
      class="past" data-focus title=${plain(row.body || nameOf(row))} @click=${() => select(keyOf(row))}>
    ${stateGlyph(row.state)}
    <span>${STATES[row.state].word}</span>
    <span class="clip ${row.dedupeKey ? "key" : ""}">${
      row.reason ? html`<span class="t-bad">${row.reason}${count}</span> ` : nothing
    }${safe(row.dedupeKey ?? (row.body || senderName(row.sender)))}</span>
    <span class="num">${row.ended?.turn ?? ""}</span>
    <span class="num">${row.shown.length}×</span>
  </button>`);
}

// Cards.

function card(timeline, row) {
  const isChosen = keyOf(row) === app.selected;
  const isNow = app.past === null;
  const isOpen = timeline.openTurn !== null && row.shown.at(-1)?.turn === timeline.openTurn && isNow;
  const state = isNow ? drawnState(timeline, row) : drawnState({ ...timeline, permissions: [] }, row, app.past);
  const busy = acting.has(row.id);
  const on = [
    row, isChosen, isOpen, state, busy, app.past, app.isReadOnly, app.link.state, timeline.openTurn, timeline.turn,
    app.expanded,
  ];
  return keep(on, () => html`
    ${busy ? spinner("t-side") : stateGlyph(state)}
    ${cardBody(row, state, isChosen)}
    <p class="line">
      ${trustChip(row.sender)}
      <span>${safe(senderName(row.sender))}</span>
      ${row.dedupeKey ? html`<span class="key">${safe(row.dedupeKey)}</span>` : nothing}
      ${row.tags.map((tag) => html`<span class="tag">${safe(tag)}</span>`)}
      ${marks(row, state)}
      <span class="end">
        ${isLowered(row) && !isChosen ? html`<span>${isLowered(row)} lowered</span>` : nothing}
        ${remaining(row, isOpen)}
        ${isNow && !isOver(row) && !isChosen ? icons(row) : nothing}
      </span>
    </p>
    ${isChosen ? details(timeline, row) : nothing}`);
}

const SHORT = 280;
const CHOSEN = 900;

// White space counts in `.body`: no line breaks between its elements.
function cardBody(row, state, isChosen) {
  const key = `c${row.id}`;
  const text = !row.body ? html`<span class="hint">refused at the door; its text was not kept</span>`
    : isChosen ? folded(row.body, key, CHOSEN) : folded(row.body, "", SHORT);
  const more = isChosen ? unfold(row.body, key, CHOSEN) : nothing;
  return html`<p class="body"><button
    class="bare" data-focus aria-expanded=${isChosen} @click=${() => select(keyOf(row))}
  ><span class="sr">${STATES[state].word}: </span>${text}</button>${more}</p>`;
}

/** What a card says in words besides its glyph. */
const marks = (row, state) => html`
  ${row.inherited
    ? html`<span title="came from the parent session">${glyph("inherited", "t-over")} inherited</span>`
    : nothing}
  ${row.mode === "interrupt_immediate" && !isOver(row)
    ? html`<span class="t-cut">${glyph("interrupt")} interrupt</span>`
    : nothing}
  ${state === "held" ? html`<span class="t-cut">held</span>` : nothing}
  ${state === "audit_recorded" ? html`<span>audit only, never shown</span>` : nothing}
  ${state === "leftout" ? html`<span>left out of turn ${row.leftOut.at(-1)}: token budget</span>` : nothing}
  ${row.reason ? html`<span class="t-bad">${STATES[row.state].word.toLowerCase()}: ${row.reason}</span>` : nothing}`;

function remaining(row, isOpen) {
  if (isOver(row)) return html`<span>${row.shown.length}×</span>`;
  if (row.mode === "audit_only") return nothing;
  if (row.ttlTurns === undefined) return html`<span>no TTL</span>`;
  const left = row.ttlLeft ?? row.ttlTurns;
  const isLast = left === 1 && row.state === "live";
  return html`${isLast ? html`<span>last</span>` : nothing}${pips(Math.max(row.ttlTurns, left), left, isOpen)}`;
}

const icon = (name, label, act) => html`<button
  class="act" aria-label=${label} title=${label} ?disabled=${app.link.state === "lost"} @click=${act}
>${glyph(name)}</button>`;
function icons(row) {
  if (app.isReadOnly || row.state !== "queued") return nothing;
  return html`
    ${icon("edit", "Edit before it is delivered", () => edit(row))}
    ${icon("revoked", "Revoke", () => revoke(row.id))}`;
}
export const edit = (row) => openDialog({ kind: "edit", id: row.id, isReminder: true, text: row.body });
export const editMessage = (row) => openDialog({ kind: "edit", id: row.id, isReminder: false, text: row.text });

// What a chosen card adds.

function details(timeline, row) {
  const locked = app.isReadOnly || app.link.state === "lost" || app.past !== null;
  const action = (look, word, act) =>
    html`<button class="link ${look}" ?disabled=${locked} @click=${act}>${word}</button>`;
  return html`
    ${isLowered(row) ? comparison(row) : nothing}
    ${facts(row)}
    <p class="line">
      <span>${turnsOf(timeline, row)}</span>
      <span class="end">
        ${row.shown.length ? html`<a class="link" href=${requestHref(row.shown.at(-1).turn)}>Inspect</a>` : nothing}
        ${row.state === "queued" ? action("", "Edit", () => edit(row)) : nothing}
        ${row.state === "queued" ? action("warn", "Revoke", () => revoke(row.id)) : nothing}
        ${row.state === "live" ? action("warn", "Clear", () => openDialog({ kind: "clear", id: row.id })) : nothing}
      </span>
    </p>`;
}

const ASKED = {
  roleHint: ["role", (value) => value],
  ttlTurns: ["TTL", (value) => value ?? "none"],
  propagate: ["sub-agents", (value) => value],
  preserveOnCompact: ["compaction", (value) => (value ? "survives" : "ends it")],
  mode: ["mode", (value) => value],
};

/** What the sender asked for beside what it got. */
function comparison(row) {
  const line = ([field, value]) => {
    const [name, word] = ASKED[field] ?? [field, (given) => given];
    return html`<tr>
      <th scope="row">${name}</th>
      <td><s>${safe(word(value) ?? value)}</s></td>
      <td>${safe(word(row[field]) ?? row[field])}</td>
    </tr>`;
  };
  return html`<div class="got"><table>
    <caption>It asked for more than a ${row.sender.trust} may have</caption>
    <thead class="sr"><tr><th>field</th><th>requested</th><th>effective</th></tr></thead>
    <tbody>${Object.entries(row.sender.requested).map(line)}</tbody>
  </table></div>`;
}

function facts(row) {
  const by = row.sender?.via ? html` by ${safe(row.sender.via)}` : "";
  const hints = row.roleHint ? html`
    <span>role ${row.roleHint}</span>
    <span>sub-agents ${row.propagate}</span>
    <span>${row.preserveOnCompact ? "survives compaction" : "a compaction ends it"}</span>
    ${row.live?.seam ? html`<span>drained at ${row.live.seam}</span>` : nothing}
    <span>${row.source}${by}</span>` : nothing;
  return html`<p class="line quiet">
    ${hints}
    ${row.originatingAgentId ? html`<span>first told to ${safe(row.originatingAgentId)}</span>` : nothing}
    ${row.replacedBy
      ? html`<span>replaced by <button
          class="link" @click=${() => selectReminder(row.replacedBy)}>a newer one</button></span>`
      : nothing}
  </p>`;
}

/** Which turns have shown it, and which will. */
function turnsOf(timeline, row) {
  const coming = app.past === null ? turnsAhead(promised(timeline, row), row) : "";
  const shown = turnList(row.shown.map((entry) => entry.turn));
  if (shown) return `Shown in ${shown}${coming ? `; then ${coming}` : ""}.`;
  if (!coming) return "Never shown.";
  return row.state === "queued" ? `To be shown ${coming}.` : `Not shown yet; ${coming}.`;
}

function turnsAhead(ahead, row) {
  if (!ahead) return "";
  const [first, last] = ahead;
  if (last === Infinity) return `from turn ${first} until it is cleared${row.preserveOnCompact ? "" : " or compacted"}`;
  return last > first ? `in ${first} to ${last}` : `in ${first}`;
}

// Messages that wait, and what is being sent.

function messageCard(timeline, row) {
  const locked = app.isReadOnly || app.link.state === "lost";
  const isHeld = timeline.permissions.length && row.mode !== "queue";
  const change = () => { if (!locked) editMessage(row); };
  return html`<li class="card" data-row="m:${row.id}">
    ${acting.has(row.id) ? spinner("t-user") : isHeld ? stateGlyph("held") : glyph("user", "t-user")}
    <p class="body"><button class="bare" data-focus @click=${change}>${folded(row.text, "", SHORT)}</button></p>
    <p class="line">
      <b>${safe(writerName(row.sender))}</b>
      <span>${row.mode}, ${waitsFor(timeline, row)}</span>
      <span class="end">${locked ? nothing : html`
        ${icon("edit", "Edit before it is delivered", change)}
        ${icon("revoked", "Revoke", () => revoke(row.id))}`}</span>
    </p>
  </li>`;
}

const sending = (entry) => html`<li class="card" aria-busy=${entry.state === "sending"}>
  ${entry.state === "unknown" ? glyph("alert", "t-bad") : spinner("t-side")}
  <p class="body">${safe(entry.text)}</p>
  <p class="line">
    <b>You</b>
    ${entry.body.dedupeKey ? html`<span class="key">${safe(entry.body.dedupeKey)}</span>` : nothing}
    <span class="end">${outcome(entry)}</span>
  </p>
</li>`;

// The row under the pointer or the focus.

function hold(event) {
  const row = event.target.closest("[data-row]");
  const key = row?.dataset.row;
  if (key && key !== app.held?.key) app.held = { key, group: row.dataset.group };
}

function release(event) {
  if (event.relatedTarget && event.currentTarget.contains(event.relatedTarget)) return;
  app.held = null;
  changed();
}

/** The held row stays where it is: what a draw adds or removes above it is scrolled away. */
export function keepPlace(draw) {
  const find = () => app.held && document.querySelector(`.cards [data-row="${CSS.escape(app.held.key)}"]`);
  const before = find()?.getBoundingClientRect().top;
  draw();
  const row = before === undefined ? null : find();
  if (row) row.closest(".cards").scrollTop += row.getBoundingClientRect().top - before;
}
