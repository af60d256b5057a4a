// The reminders panel: what is queued, what the model sees now, and what has ended.

import { html, nothing } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { acting, backToLive, revoke, select } from "./actions.js";
import { TRUST, glyph, pips, spinner, STATES, stateGlyph, trustChip } from "./marks.js";
import { app, asOf, changed, drawnState, isLowered, isOver, keep, keyOf, nameOf, namespace, perObject, promised, senderName, writerName } from "./state.js";
import { openDialog } from "./dialogs.js";
import { bones, folded, outcome, unfold, waitsFor } from "./transcript.js";
import { plain, safe, turnList } from "./text.js";

const ROWS = 200;
const groupOf = (row) => (isOver(row) ? "ended" : row.state);

/** The words of the filter: plain words, tag:x, from:x, state:x, key:x; all of them must match. */
function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const [, field, value] = /^(tag|from|state|key):(.+)$/.exec(word) ?? [];
    if (field === "tag") return (row) => row.tags.some((tag) => tag.toLowerCase().includes(value));
    if (field === "key") return (row) => row.dedupeKey?.toLowerCase().includes(value);
    if (field === "from") return ({ sender, source }) => [senderName(sender), sender?.principal, sender?.trust, TRUST[sender?.trust]?.[0], sender?.via, source].some((name) => name?.toLowerCase().includes(value));
    if (field === "state") return (row) => row.state.startsWith(value) || groupOf(row).startsWith(value) || STATES[row.state].word.toLowerCase().startsWith(value);
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

export function remindersPane() {
  const { timeline } = app;
  const rows = timeline ? rowsNow(timeline) : [];
  const groups = { queued: [], live: [], ended: [] };
  // A row stays where it is while the pointer or the focus is on it.
  for (const row of rows) groups[app.held?.key === keyOf(row) ? app.held.group : groupOf(row)].push(row);
  // One that replaces another by its key takes its place in the list.
  const first = placesOf(rows);
  for (const name of ["queued", "live"]) groups[name].sort((a, b) => first.get(slotOf(a)) - first.get(slotOf(b)));
  groups.ended.sort((a, b) => (b.ended?.at ?? 0) - (a.ended?.at ?? 0) || b.cursor - a.cursor);
  const messages = timeline && app.past === null ? timeline.messages.filter((row) => row.state === "waiting") : [];
  const counts = { all: rows.length, queued: groups.queued.length + messages.length, live: groups.live.length, ended: groups.ended.length };
  return html`<section class="reminders pane ${app.link.state === "lost" ? "stale" : ""}" id="reminders" aria-label="Reminders" tabindex="-1">
    <div class="pane-head"><h2>Reminders</h2><span class="quiet">${timeline ? `${rows.length} in this session` : ""}</span></div>
    <div class="filter">
      <div class="seg" role="group" aria-label="State">${["all", "queued", "live", "ended"].map((tab) => html`<button aria-pressed=${app.tab === tab} @click=${() => { app.tab = tab; changed(); }}>${tab === "all" ? "All" : STATES[tab]?.word ?? "Ended"}${tab === "all" ? nothing : html` <b>${counts[tab]}</b>`}</button>`)}</div>
      <label class="field">${glyph("search")}<span class="sr">Filter</span><input id="filter" type="search" autocomplete="off" placeholder="Filter by word, tag:build, from:editor" .value=${app.filter} @input=${(event) => { app.filter = event.target.value; changed(); }}></label>
    </div>
    ${app.past === null ? nothing : html`<div class="banner calm">${glyph("timeline")}<b>As of turn ${app.past}</b><span class="end"><button class="btn small" @click=${backToLive}>Back to live</button></span></div>`}
    <div class="cards" data-list="reminders" @pointerover=${hold} @pointerleave=${release} @focusin=${hold} @focusout=${release}>
      ${timeline ? lists(timeline, groups, messages) : app.isSlow ? bones() : nothing}
    </div>
  </section>`;
}

function lists(timeline, groups, messages) {
  const matches = matcher(app.filter);
  const show = (tab) => app.tab === "all" || app.tab === tab;
  const found = Object.fromEntries(Object.entries(groups).map(([name, rows]) => [name, show(name) ? rows.filter(matches) : []]));
  const outbox = app.outbox.filter((entry) => entry.sessionId === app.sessionId && entry.isReminder);
  const waiting = show("queued") && !/\b(tag|state|key):/.test(app.filter) ? messages.filter((row) => row.text.toLowerCase().includes(app.filter.toLowerCase())) : [];
  const total = Object.values(groups).flat().length + messages.length;
  const shown = Object.values(found).flat().length + waiting.length + outbox.length;
  if (!total && !outbox.length) return html`<div class="blank tight"><p>Nothing has been told on the side ${app.past === null ? "yet" : `up to turn ${app.past}`}. What hooks, providers, editors and servers say appears here: who said it, which turns showed it, and how it ended.</p></div>`;
  if (!shown) return html`<div class="blank tight"><p>${app.filter ? html`None of ${total} matches ${safe(app.filter)}${app.tab === "all" ? "" : ` among the ${app.tab} ones`}.` : `None of ${total} is ${app.tab}.`}</p><button class="link" @click=${() => { app.filter = ""; app.tab = "all"; changed(); }}>Show all</button></div>`;
  const queued = found.queued.length + waiting.length;
  const seam = timeline.permissions.length ? "held until the permission is answered" : timeline.running ? `next drain after the tools of turn ${timeline.openTurn ?? timeline.turn}` : "next drain when a turn starts";
  return html`
    ${queued || outbox.length ? group("queued", html`${queued} · ${app.past === null ? seam : `while turn ${app.past} ran`}`, nothing, html`
      ${outbox.map((entry) => sending(entry))}
      ${windowed("queued", found.queued, (row) => card(timeline, row))}
      ${repeat(waiting, (row) => row.id, (row) => messageCard(timeline, row))}`) : nothing}
    ${found.live.length ? group("live", html`${found.live.length} · ${requested(timeline, found.live)}`,
      app.past === null && !app.isReadOnly ? html`<span class="end"><button class="link" @click=${() => openDialog({ kind: "clear" })}>Clear…</button></span>` : nothing,
      windowed("live", found.live, (row) => card(timeline, row))) : nothing}
    ${found.ended.length ? group("ended", html`${found.ended.length}`, html`<span class="cols2"><span>turn</span><span>shown</span></span>`,
      windowed("ended", found.ended, (row) => (keyOf(row) === app.selected ? card(timeline, row) : past(row)))) : nothing}`;
}

/** How many of them a request contains: that of the past turn, the open one, or the next one. */
function requested(timeline, rows) {
  const turn = app.past ?? timeline.openTurn;
  if (turn === null) return `in the next request, turn ${timeline.turn + 1}`;
  const shown = rows.filter((row) => row.shown.some((entry) => entry.turn === turn)).length;
  return `${shown === rows.length ? "" : `${shown} `}in the request of turn ${turn}`;
}

const group = (name, count, end, body) => html`<section aria-labelledby="h-${name}"><h3 id="h-${name}">${stateGlyph(name === "ended" ? "expired" : name)}${name === "ended" ? "Ended" : STATES[name].word} <span class="quiet">${count}</span>${end}</h3><ul>${body}</ul></section>`;

function windowed(name, rows, draw) {
  const most = app.shownRows[name] ?? app.cardRows;
  return html`${repeat(rows.slice(0, most), keyOf, (row) => html`<li class=${rowClass(row)} data-row=${keyOf(row)} data-group=${groupOf(row)}>${draw(row)}</li>`)}
    ${rows.length > most ? html`<li class="pad"><button class="btn small" @click=${() => { app.shownRows = { ...app.shownRows, [name]: most + ROWS }; changed(); }}>Show ${Math.min(ROWS, rows.length - most)} more of ${rows.length - most}</button></li>` : nothing}`;
}

const rowClass = (row) => (keyOf(row) === app.selected ? "card sel" : isOver(row) ? "past-row" : "card");

function past(row) {
  return keep([row], () => html`<button class="past" data-focus @click=${() => select(keyOf(row))} title=${plain(row.body || nameOf(row))}>${stateGlyph(row.state)}<span>${STATES[row.state].word}</span><span class="clip ${row.dedupeKey ? "key" : ""}">${row.reason ? html`<span class="t-bad">${row.reason}${row.count ? ` ×${row.count}` : ""}</span> ` : nothing}${safe(row.dedupeKey ?? (row.body || senderName(row.sender)))}</span><span class="num">${row.ended?.turn ?? ""}</span><span class="num">${row.shown.length}×</span></button>`);
}

function card(timeline, row) {
  const isChosen = keyOf(row) === app.selected;
  const isOpen = timeline.openTurn !== null && row.shown.at(-1)?.turn === timeline.openTurn && app.past === null;
  const state = app.past === null ? drawnState(timeline, row) : drawnState({ ...timeline, permissions: [] }, row, app.past);
  const busy = acting.has(row.id);
  const most = isChosen ? 900 : 280;
  return keep([row, isChosen, isOpen, state, busy, app.past, app.isReadOnly, app.link.state, timeline.openTurn, timeline.turn, app.expanded.size], () => html`
    ${busy ? spinner("t-side") : stateGlyph(state)}
    <p class="body"><button class="bare" data-focus aria-expanded=${isChosen} @click=${() => select(keyOf(row))}><span class="sr">${STATES[state].word}: </span>${row.body ? folded(row.body, `n${row.id}`, most) : html`<span class="hint">refused at the door; its text was not kept</span>`}</button>${isChosen ? unfold(row.body, `n${row.id}`, most) : nothing}</p>
    <p class="line">${trustChip(row.sender)} <span>${safe(senderName(row.sender))}</span>
      ${row.dedupeKey ? html`<span class="key">${safe(row.dedupeKey)}</span>` : nothing}${row.tags.map((tag) => html`<span class="tag">${safe(tag)}</span>`)}
      ${row.inherited ? html`<span title="came from the parent session">${glyph("inherited", "t-over")} inherited</span>` : nothing}
      ${row.mode === "interrupt_immediate" && !isOver(row) ? html`<span class="t-cut">${glyph("interrupt")} interrupt</span>` : nothing}
      ${state === "leftout" ? html`<span>left out of turn ${row.leftOut.at(-1)}: token budget</span>` : nothing}
      ${row.reason ? html`<span class="t-bad">${STATES[row.state].word.toLowerCase()}: ${row.reason}</span>` : nothing}
      <span class="end">${isLowered(row) && !isChosen ? html`<span>${isLowered(row)} lowered</span>` : nothing}${remaining(row, isOpen)}${app.past === null && !isOver(row) && !isChosen ? icons(row) : nothing}</span></p>
    ${isChosen ? details(timeline, row) : nothing}`);
}

function remaining(row, isOpen) {
  if (isOver(row)) return html`<span>${row.shown.length}×</span>`;
  if (row.mode === "audit_only") return html`<span>never shown</span>`;
  if (row.ttlTurns === undefined) return html`<span>no TTL</span>`;
  const left = row.ttlLeft ?? row.ttlTurns;
  return html`${left === 1 && row.state === "live" ? html`<span>last</span>` : nothing}${pips(Math.max(row.ttlTurns, left), left, isOpen)}`;
}

const icon = (name, label, act) => html`<button class="act" aria-label=${label} title=${label} ?disabled=${app.link.state === "lost"} @click=${act}>${glyph(name)}</button>`;
function icons(row) {
  if (app.isReadOnly || row.state !== "queued") return nothing;
  return html`${icon("edit", "Edit before it is delivered", () => edit(row))}${icon("revoked", "Revoke", () => revoke(row.id))}`;
}
export const edit = (row) => openDialog({ kind: "edit", id: row.id, isReminder: true, text: row.body });
export const editMessage = (row) => openDialog({ kind: "edit", id: row.id, isReminder: false, text: row.text });

const ASKED = {
  roleHint: ["role", (value) => value], ttlTurns: ["TTL", (value) => value ?? "none"], propagate: ["sub-agents", (value) => value],
  preserveOnCompact: ["compaction", (value) => (value ? "survives" : "ends it")], mode: ["mode", (value) => value],
};

function details(timeline, row) {
  const asked = Object.entries(row.sender?.requested ?? {});
  const ahead = app.past === null ? promised(timeline, row) : null;
  const coming = !ahead ? "" : ahead[1] === Infinity ? `from turn ${ahead[0]} until it is cleared or compacted` : ahead[1] > ahead[0] ? `in ${ahead[0]} to ${ahead[1]}` : `in ${ahead[0]}`;
  const shown = row.shown.length ? `Shown in ${turnList(row.shown.map((entry) => entry.turn))}${coming ? `; then ${coming}` : ""}.` : row.state === "queued" && coming ? `To be shown ${coming}.` : coming ? `Not shown yet; ${coming}.` : "Never shown.";
  const locked = app.isReadOnly || app.link.state === "lost" || app.past !== null;
  return html`${asked.length ? html`<div class="got"><table><caption>It asked for more than a ${row.sender.trust} may have</caption><thead class="sr"><tr><th>field</th><th>requested</th><th>effective</th></tr></thead><tbody>${asked.map(([field, value]) => html`<tr><th scope="row">${ASKED[field]?.[0] ?? field}</th><td><s>${safe(ASKED[field]?.[1](value) ?? value)}</s></td><td>${safe(ASKED[field]?.[1](row[field]) ?? row[field])}</td></tr>`)}</tbody></table></div>` : nothing}
    <p class="line quiet">${row.roleHint ? html`<span>role ${row.roleHint}</span><span>sub-agents ${row.propagate}</span><span>${row.preserveOnCompact ? "survives compaction" : "a compaction ends it"}</span>${row.live?.seam ? html`<span>drained at ${row.live.seam}</span>` : nothing}<span>${row.source}${row.sender?.via ? html` by ${safe(row.sender.via)}` : ""}</span>` : nothing}${row.originatingAgentId ? html`<span>first told to ${safe(row.originatingAgentId)}</span>` : nothing}${row.replacedBy ? html`<span>replaced by <button class="link" @click=${() => selectId(timeline, row.replacedBy)}>a newer one</button></span>` : nothing}</p>
    <p class="line"><span>${shown}</span><span class="end">
      ${row.shown.length ? html`<a class="link" href="#session=${encodeURIComponent(app.sessionId)}&request=${row.shown.at(-1).turn}">Inspect</a>` : nothing}
      ${row.state === "queued" ? html`<button class="link" ?disabled=${locked} @click=${() => edit(row)}>Edit</button><button class="link warn" ?disabled=${locked} @click=${() => revoke(row.id)}>Revoke</button>` : nothing}
      ${row.state === "live" ? html`<button class="link warn" ?disabled=${locked} @click=${() => openDialog({ kind: "clear", id: row.id })}>Clear</button>` : nothing}</span></p>`;
}

function selectId(timeline, id) {
  const row = timeline.reminders.findLast((each) => each.id === id);
  if (row) select(keyOf(row));
}

function messageCard(timeline, row) {
  const locked = app.isReadOnly || app.link.state === "lost";
  const held = timeline.permissions.length && row.mode !== "queue";
  return html`<li class="card" data-row="m:${row.id}">${acting.has(row.id) ? spinner("t-user") : held ? stateGlyph("held") : glyph("user", "t-user")}
    <p class="body"><button class="bare" data-focus @click=${() => { if (!locked) editMessage(row); }}>${folded(row.text, `m${row.id}`, 280)}</button></p>
    <p class="line"><b>${safe(writerName(row.sender))}</b> <span>${row.mode}, ${waitsFor(timeline, row)}</span><span class="end">${locked ? nothing : html`${icon("edit", "Edit before it is delivered", () => editMessage(row))}${icon("revoked", "Revoke", () => revoke(row.id))}`}</span></p></li>`;
}

const sending = (entry) => html`<li class="card" aria-busy=${entry.state === "sending"}>${entry.state === "unknown" ? glyph("alert", "t-bad") : spinner("t-side")}<p class="body">${safe(entry.text)}</p><p class="line"><b>You</b>${entry.body.dedupeKey ? html`<span class="key">${safe(entry.body.dedupeKey)}</span>` : nothing}<span class="end">${outcome(entry)}</span></p></li>`;

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
