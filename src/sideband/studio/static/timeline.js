// The timeline pane: one lane per key over the turns, or the same rows as a table.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { glyph, STATES, stateGlyph } from "./marks.js";
import {
  app, changed, drawnState, here, isOver, keep, keyOf, nameOf, namespace, perObject, promised, senderName,
} from "./state.js";
import { select } from "./actions.js";
import { plain, plural, quoted, safe, turnList } from "./text.js";

// As in inspect/lanes.py.
const HASHED = /(?<![0-9A-Za-z])[0-9a-f]{12,}(?![0-9A-Za-z])/;
const MOST_LANES = 200;
// At 1440 pixels the 15 turns of the rehearsal and the two ahead fit.
const COLUMN = 36;
const TOP = 38;
const AHEAD = 2;
const NARROW = matchMedia("(max-width: 759px)");

// What is in view of the scrolled chart; only that is drawn.
const view = { width: 0, height: 0, left: 0, top: 0, names: 196, lane: 15, atEnd: true, atBottom: true };

/** The lane of a reminder: its key, its provider where keys carry a hash, or itself. */
function laneOf(row) {
  if (row.dedupeKey === undefined) return { id: keyOf(row), name: quoted(row.body, 60), isKey: false };
  const isHashed = HASHED.test(row.dedupeKey);
  const name = isHashed ? row.sender?.providerId ?? row.dedupeKey.replace(HASHED, "*") : row.dedupeKey;
  return { id: `${namespace(row.sender)} ${name}`, name, isKey: true };
}

const lanesOf = perObject((rows) => {
  const lanes = new Map();
  for (const row of rows) {
    if (row.atTheDoor) continue;
    const lane = laneOf(row);
    if (!lanes.has(lane.id)) lanes.set(lane.id, { ...lane, rows: [] });
    lanes.get(lane.id).rows.push(row);
  }
  return [...lanes.values()];
});

const LEGEND = [
  ["queued", "queued"], ["live", "live, a dot where shown"], ["expired", "expired"], ["revoked", "revoked"],
  ["deduped", "deduped"], ["compacted_out", "compacted out"], ["interrupt", "interrupt"],
];

export function timelinePane() {
  const { timeline } = app;
  return html`<section class="timeline pane" id="timeline" aria-label="Timeline" tabindex="-1">
    <div class="pane-head">
      <h2>Timeline</h2>
      <div class="legend" aria-hidden="true">
        ${LEGEND.map(([state, word]) => html`<span>${stateGlyph(state)}${word}</span>`)}
      </div>
      <span class="end">
        <button class="btn small plain" aria-pressed=${app.asTable} @click=${toggleTable}>As table</button>
      </span>
    </div>
    ${timeline ? (app.asTable ? table(timeline) : lanes(timeline)) : html`<div class="lanes"></div>`}
  </section>`;
}

function toggleTable() {
  app.asTable = !app.asTable;
  changed();
}

function columnsOf(timeline) {
  const first = timeline.turns[0]?.turn ?? Math.max(timeline.turn, 1);
  const now = here(timeline);
  const current = timeline.openTurn ?? timeline.turn;
  const last = Math.max(current, first - 1) + AHEAD;
  const count = last - first + 1;
  const width = Math.max(COLUMN, Math.floor((view.width - view.names - 2) / count));
  const x = (at) => Math.max(0, at - first) * width + 3;
  return { first, last, now, current, width, total: count * width, x };
}

function lanes(timeline) {
  const all = lanesOf(timeline.reminders);
  const drawn = all.slice(-MOST_LANES);
  return html`<div class="lanes" @scroll=${scrolled}>
    ${all.length ? nothing : html`<p class="lanes-empty">
      One lane per reminder key appears here when something is told on the side.</p>`}
    <div class="lane-names"><div class="corner"></div>
      <ul role="listbox" aria-label="Lanes" data-list="lanes">
        ${repeat(drawn, (lane) => lane.id, (lane) => laneName(timeline, lane))}
      </ul>
    </div>
    ${chart(timeline, drawn, all.length - drawn.length)}
  </div>`;
}

function laneName(timeline, lane) {
  const row = lane.rows.findLast((each) => keyOf(each) === app.selected) ?? lane.rows.at(-1);
  const isChosen = keyOf(row) === app.selected;
  const state = drawnState(timeline, row);
  const turns = row.shown.length ? `, shown in turn ${turnList(row.shown.map((entry) => entry.turn))}` : "";
  return keep([lane.rows.length, row, isChosen, state], () => html`<li
    role="option" data-row=${keyOf(row)} data-focus aria-selected=${isChosen} class=${isOver(row) ? "over" : ""}
    title=${plain(`${lane.name}: ${row.body}`)} @click=${() => select(keyOf(row))}
  >${stateGlyph(state)}<span class="clip">${safe(lane.name)}</span><span
    class="sr">, ${STATES[state].word}${turns}</span></li>`);
}

/** What happened to the whole session: compactions and skipped batches, as lines across all lanes. */
function crossings(timeline, { x, width }, inView) {
  const compactions = timeline.compactions.filter((row) => inView(row.at)).map((row) => ({
    x: x(row.at) + width * 0.12, name: "compacted_out", tone: "t-fold",
    title: `Compaction after turn ${row.turn}: ${plural(row.archivedMessages, "message")} archived`,
  }));
  const interrupts = timeline.turns.filter((row) => row.skippedBy && inView(row.turn)).map((row) => ({
    x: x(row.turn + 0.66), name: "interrupt", tone: "t-cut",
    title: `Interrupt in turn ${row.turn}: ${plural(row.calls.length, "call")} skipped`,
  }));
  return [...compactions, ...interrupts];
}

function messageMarks(timeline, { x, now }, inView) {
  const said = timeline.messages.filter((row) => row.role === "user" && row.state === "delivered");
  return said.filter((row) => inView(row.deliveredAt)).map((row) => ({
    x: Math.max(x(Math.min(row.deliveredAt, now)), 7), name: "user", tone: "t-user",
    title: plain(`Message: ${row.text}`),
  }));
}

function chart(timeline, drawn, hidden) {
  const columns = columnsOf(timeline);
  const { x, width, first, last, current } = columns;
  const from = Math.max(first, first + Math.floor(view.left / width) - 1);
  const until = Math.min(last, first + Math.ceil((view.left + view.width) / width) + 1);
  const turns = Array.from({ length: Math.max(until - from + 1, 0) }, (_, index) => from + index);
  const inView = (at) => at >= from - 1 && at <= until + 1;
  const lines = crossings(timeline, columns, inView);
  const marker = app.past ?? current;
  const column = (tall) => (marker >= first
    ? svg`<rect class="c-now" x=${x(marker) - 3} y="0" width=${width} height=${tall}></rect>`
    : nothing);
  return html`<div class="chart" @click=${(event) => pickTurn(event, columns)}>
    <svg class="axis" width=${columns.total} height=${TOP} aria-hidden="true">
      ${column(TOP)}
      ${turns.map((turn) => tick(turn, columns, marker))}
      ${[...lines, ...messageMarks(timeline, columns, inView)].map(axisMark)}
    </svg>
    ${plot(timeline, drawn, hidden, { columns, turns, lines, column, from, until })}
  </div>`;
}

const tick = (turn, { x, current }, marker) => svg`<text
  x=${x(turn) + 3} y="14" class=${turn === marker ? "now" : turn > current ? "next" : ""}>${turn}</text>`;

const axisMark = (mark) => svg`<g class=${mark.tone}>
  <title>${mark.title}</title>
  <use class="u" href="#g-${mark.name}" x=${mark.x - 6} y="22" width="12" height="12"></use>
</g>`;

function plot(timeline, drawn, hidden, { columns, turns, lines, column, from, until }) {
  const { x, first, current, now, width, total } = columns;
  const height = Math.max(drawn.length * view.lane + 4, view.height - TOP);
  const firstLane = Math.max(0, Math.floor(view.top / view.lane) - 2);
  const lastLane = Math.ceil((view.top + (view.height || 400)) / view.lane) + 2;
  const chosen = drawn.findIndex((lane) => lane.rows.some((row) => keyOf(row) === app.selected));
  const upright = (kind, at) => svg`<line class=${kind} x1=${at} x2=${at} y1="0" y2=${height}></line>`;
  const older = hidden ? `, ${hidden} older ones not drawn` : "";
  const label = `Timeline, turns ${first} to ${Math.max(current, first)}, ${plural(drawn.length, "lane")}${older}. `
    + "The list beside it and the table view have the same as text.";
  return html`<svg width=${total} height=${height} role="img" aria-label=${label}>
    ${column(height)}
    <rect fill="url(#p-ahead)" x=${x(current + 1) - 3} y="0" width=${AHEAD * width} height=${height}></rect>
    ${chosen < 0
      ? nothing
      : svg`<rect class="c-row" x="0" y=${chosen * view.lane} width=${total} height=${view.lane}></rect>`}
    ${turns.map((turn) => upright("c-grid", x(turn) - 3))}
    ${lines.map((mark) => upright(`c-mark ${mark.name} ${mark.tone}`, mark.x))}
    ${timeline.running || timeline.turn ? upright("c-edge", x(now)) : nothing}
    ${drawn.map((lane, index) => (index < firstLane || index > lastLane
      ? nothing
      : laneMarks(timeline, lane, columns, (index + 0.5) * view.lane, from, until)))}
  </svg>`;
}

/** The bars of a lane, then the glyphs where they end: the next bar must not cover the glyph of the one before. */
function laneMarks(timeline, lane, columns, y, from, until) {
  const spans = lane.rows.map((row) => spanOf(timeline, row, columns))
    .filter(({ begin, end, ahead }) => begin <= until + 1 && (end >= from - 1 || ahead));
  return svg`<g>
    ${spans.map((span) => bar(span, columns, y, from, until))}
    ${spans.map((span) => ending(timeline, span, y))}
  </g>`;
}

const LEAST = 5;

/** Where the bar of a reminder begins, becomes solid and ends. */
function spanOf(timeline, row, { x, now }) {
  // A cancelled turn takes its place on the axis back, so what happened in it may be later than now.
  const past = (at) => (at === undefined ? undefined : Math.min(at, now));
  const end = past(row.ended?.at) ?? now;
  const begin = past(row.queued?.at ?? row.live?.at ?? row.shown[0]?.turn) ?? end;
  const wasLive = row.shown.length || row.state === "live";
  const liveFrom = past(row.live?.at) ?? (wasLive ? past(row.shown[0]?.turn) ?? begin : null);
  const left = (at) => Math.min(x(at), x(now) - LEAST);
  const tail = Math.max(x(end), left(liveFrom ?? begin) + LEAST);
  const name = plain(`${nameOf(row)} from ${senderName(row.sender)}: ${row.body}`);
  return { row, name, begin, liveFrom, end, left, tail, ahead: promised(timeline, row) };
}

/** One reminder in its lane: dashed while queued, solid while live, a dot per turn shown. */
function bar({ row, name, begin, liveFrom, end, left, ahead }, { x, last }, y, from, until) {
  const on = isOver(row) ? "" : "on";
  const inView = (turn) => turn >= from && turn <= until;
  const span = (kind, a, b) => svg`<rect
    class=${kind} x=${left(a)} width=${Math.max(x(b) - left(a), LEAST)} y=${y - 3} height="6" rx="2"></rect>`;
  const dot = ({ turn }) => svg`<circle class="c-dot ${on}" cx=${x(turn + 0.3)} cy=${y} r="2.8"></circle>`;
  const half = (turn) => svg`<use
    class="u t-side" href="#g-leftout" x=${x(turn + 0.3) - 4.5} y=${y - 4.5} width="9" height="9"></use>`;
  const queuedEnd = liveFrom ?? end;
  return svg`<g><title>${name}</title>
    ${row.queued && (liveFrom === null || x(queuedEnd) > x(begin)) ? span(`c-wait ${on}`, begin, queuedEnd) : nothing}
    ${liveFrom === null ? nothing : span(`c-live ${on}`, liveFrom, end)}
    ${row.shown.filter((entry) => inView(entry.turn)).map(dot)}
    ${row.leftOut.filter(inView).map(half)}
    ${ahead ? svg`<line
      class="c-promise" x1=${x(end) + 4} x2=${x(Math.min(ahead[1], last) + (ahead[1] > last ? 1 : 0.5))} y1=${y} y2=${y}
    ></line>` : nothing}
  </g>`;
}

function ending(timeline, { row, name, tail }, y) {
  if (!row.ended) return nothing;
  const state = drawnState(timeline, row);
  const isReplaced = row.state === "deduped";
  return svg`<g class=${STATES[state].tone}>
    <title>${name}</title>
    ${isReplaced ? svg`<circle class="c-halo" cx=${tail} cy=${y} r="7"></circle>` : nothing}
    <use class="u" href="#g-${state}" x=${isReplaced ? tail - 5 : tail + 2} y=${y - 5.5} width="11" height="11"></use>
  </g>`;
}

function pickTurn(event, { first, width, current }) {
  const from = event.currentTarget.getBoundingClientRect().left;
  const turn = first + Math.floor((event.clientX - from) / width);
  const last = app.timeline.openTurn === null ? current : current - 1;
  app.past = turn >= 1 && turn <= last && turn !== app.past ? turn : null;
  changed();
}

const HEADS = ["reminder", "state", "from", "queued in", "live in", "shown in", "ended in"];

function table(timeline) {
  const rows = timeline.reminders.filter((row) => !row.atTheDoor);
  const drawn = rows.slice(-MOST_LANES);
  const older = rows.length - drawn.length;
  return html`<div class="as-table" tabindex="0" role="group" aria-label="Timeline as a table">
    <table>
      <thead><tr>${HEADS.map((word) => html`<th scope="col">${word}</th>`)}</tr></thead>
      <tbody>${repeat(drawn, keyOf, (row) => tableRow(timeline, row))}</tbody>
    </table>
    ${older ? html`<p class="hint">${plural(older, "older reminder")} not listed.</p>` : nothing}
    ${timeline.compactions.map((row) => html`<p class="hint">
      ${glyph("compacted_out", "t-fold")} Compaction after turn ${row.turn}: ${plural(row.archivedMessages, "message")}
      archived.</p>`)}
  </div>`;
}

function tableRow(timeline, row) {
  const at = (moment) => (moment ? (moment.turn || "before 1") : "");
  const state = drawnState(timeline, row);
  return html`<tr aria-current=${keyOf(row) === app.selected ? "true" : nothing}>
    <th scope="row"><button class="link clip" @click=${() => select(keyOf(row))}>${safe(nameOf(row))}</button></th>
    <td>${stateGlyph(state)} ${STATES[state].word}</td>
    <td>${safe(senderName(row.sender))}</td>
    <td>${at(row.queued)}</td>
    <td>${at(row.live)}</td>
    <td>${turnList(row.shown.map((entry) => entry.turn))}</td>
    <td>${at(row.ended)}</td>
  </tr>`;
}

// Scrolling and sizes.

let watched = null;
const sizes = new ResizeObserver(() => changed());

function scrolled(event) {
  const box = event.currentTarget;
  view.left = box.scrollLeft;
  view.top = box.scrollTop;
  view.atEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 12;
  view.atBottom = box.scrollTop + box.clientHeight >= box.scrollHeight - 12;
  changed();
}

/** After each draw: measure, and stay at the newest end unless the user scrolled away. True if to be drawn again. */
export function settleTimeline() {
  const box = document.querySelector(".lanes");
  if (!box) return false;
  if (box !== watched) {
    sizes.disconnect();
    sizes.observe(box);
    watched = box;
  }
  const names = box.querySelector(".lane-names");
  const lane = NARROW.matches ? 24 : 15;
  if (view.atEnd) box.scrollLeft = box.scrollWidth;
  if (view.atBottom) box.scrollTop = box.scrollHeight;
  const seen = {
    width: box.clientWidth, height: box.clientHeight, left: box.scrollLeft, top: box.scrollTop,
    names: names?.offsetWidth ?? 196, lane,
  };
  const differs = Object.entries(seen).some(([name, value]) => view[name] !== value);
  Object.assign(view, seen);
  return differs;
}
