// The timeline pane: one lane per key over the turns, or the same rows as a table.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { glyph, STATES, stateGlyph } from "./marks.js";
import { app, changed, drawnState, here, isOver, keep, keyOf, nameOf, namespace, perObject, promised, senderName } from "./state.js";
import { select } from "./actions.js";
import { plain, plural, quoted, safe, turnList } from "./text.js";

// As in inspect/lanes.py.
const HASHED = /(?<![0-9A-Za-z])[0-9a-f]{12,}(?![0-9A-Za-z])/;
const MOST_LANES = 200;
const COLUMN = 46;
const TOP = 38;
const AHEAD = 2;
// The height of the axis above the lanes.
const AXIS = 36;
const NARROW = matchMedia("(max-width: 759px)");

// What is in view of the scrolled chart; only that is drawn.
const view = { width: 0, height: 0, left: 0, top: 0, names: 196, lane: 15, atEnd: true, atBottom: true };

/** The lane of a reminder: its key, its provider where keys carry a hash, or itself. */
function laneOf(row) {
  if (row.dedupeKey === undefined) return { id: keyOf(row), name: quoted(row.body, 60), isKey: false };
  const name = HASHED.test(row.dedupeKey) ? row.sender?.providerId ?? row.dedupeKey.replace(HASHED, "*") : row.dedupeKey;
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
      <div class="legend" aria-hidden="true">${LEGEND.map(([state, word]) => html`<span>${stateGlyph(state)}${word}</span>`)}</div>
      <span class="end"><button class="btn small plain" aria-pressed=${app.asTable} @click=${toggleTable}>As table</button></span>
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
  const every = lanesOf(timeline.reminders);
  // If not all fit, those that are still told stand last, where they are seen.
  const isPending = (lane) => lane.rows.some((row) => !isOver(row));
  const fits = every.length * view.lane <= view.height - AXIS;
  const all = fits ? every : [...every.filter((lane) => !isPending(lane)), ...every.filter(isPending)];
  const drawn = all.length > MOST_LANES ? all.slice(-MOST_LANES) : all;
  const chosen = app.selected;
  return html`<div class="lanes" @scroll=${scrolled}>
    ${all.length ? nothing : html`<p class="lanes-empty">One lane per reminder key appears here when something is told on the side.</p>`}
    <div class="lane-names"><div class="corner"></div>
      <ul role="listbox" aria-label="Lanes" data-list="lanes">
        ${repeat(drawn, (lane) => lane.id, (lane) => {
          const row = lane.rows.findLast((each) => keyOf(each) === chosen) ?? lane.rows.at(-1);
          const isChosen = keyOf(row) === chosen;
          const state = drawnState(timeline, row);
          return keep([lane.rows.length, row, isChosen, state], () => html`<li
            role="option" data-row=${keyOf(row)} data-focus aria-selected=${isChosen} class=${isOver(row) ? "over" : ""}
            title=${plain(`${lane.name}: ${row.body}`)} @click=${() => select(keyOf(row))}
          >${stateGlyph(state)}<span class="clip">${safe(lane.name)}</span><span class="sr">, ${STATES[state].word}${row.shown.length ? `, shown in turn ${turnList(row.shown.map((entry) => entry.turn))}` : ""}</span></li>`);
        })}
      </ul>
    </div>
    ${chart(timeline, drawn, all.length - drawn.length)}
  </div>`;
}

function chart(timeline, drawn, hidden) {
  const columns = columnsOf(timeline);
  const { x, width, first, last, current } = columns;
  const from = Math.max(first, first + Math.floor(view.left / width) - 1);
  const until = Math.min(last, first + Math.ceil((view.left + view.width) / width) + 1);
  const height = Math.max(drawn.length * view.lane + 4, view.height - TOP);
  const firstLane = Math.max(0, Math.floor(view.top / view.lane) - 2);
  const lastLane = Math.ceil((view.top + (view.height || 400)) / view.lane) + 2;
  const turns = Array.from({ length: Math.max(until - from + 1, 0) }, (_, index) => from + index);
  const inView = (at) => at >= from - 1 && at <= until + 1;
  const chosen = drawn.findIndex((lane) => lane.rows.some((row) => keyOf(row) === app.selected));
  const marker = app.past ?? current;
  const label = `Timeline, turns ${first} to ${Math.max(current, first)}, ${plural(drawn.length, "lane")}${hidden ? `, ${hidden} older ones not drawn` : ""}. The list beside it and the table view have the same as text.`;
  const marks = [
    ...timeline.compactions.filter((row) => inView(row.at)).map((row) => ({ x: x(row.at) + width * 0.12, name: "compacted_out", tone: "t-fold", title: `Compaction after turn ${row.turn}: ${plural(row.archivedMessages, "message")} archived` })),
    ...timeline.turns.filter((row) => row.skippedBy && inView(row.turn)).map((row) => ({ x: x(row.turn + 0.66), name: "interrupt", tone: "t-cut", title: `Interrupt in turn ${row.turn}: ${plural(row.calls.length, "call")} skipped` })),
  ];
  const said = timeline.messages.filter((row) => row.role === "user" && row.state === "delivered" && inView(row.deliveredAt)).map((row) => ({ x: Math.max(x(row.deliveredAt), 7), name: "user", tone: "t-user", title: plain(`Message: ${row.text}`) }));
  const column = (y, tall) => html`${marker >= first ? svg`<rect class="c-now" x=${x(marker) - 3} y=${y} width=${width} height=${tall}></rect>` : nothing}`;
  return html`<div class="chart" @click=${(event) => pickTurn(event, columns)}>
    <svg class="axis" width=${columns.total} height=${TOP} aria-hidden="true">${column(0, TOP)}
      ${turns.map((turn) => svg`<text x=${x(turn) + 3} y="14" class=${turn === marker ? "now" : turn > current ? "next" : ""}>${turn}</text>`)}
      ${[...marks, ...said].map((mark) => svg`<g class=${mark.tone}><title>${mark.title}</title><use class="u" href="#g-${mark.name}" x=${mark.x - 6} y="22" width="12" height="12"></use></g>`)}</svg>
    <svg width=${columns.total} height=${height} role="img" aria-label=${label}>${column(0, height)}
      <rect fill="url(#p-ahead)" x=${x(current + 1) - 3} y="0" width=${AHEAD * width} height=${height}></rect>
      ${chosen >= 0 ? svg`<rect class="c-row" x="0" y=${chosen * view.lane} width=${columns.total} height=${view.lane}></rect>` : nothing}
      ${turns.map((turn) => svg`<line class="c-grid" x1=${x(turn) - 3} x2=${x(turn) - 3} y1="0" y2=${height}></line>`)}
      ${marks.map((mark) => svg`<line class="c-mark ${mark.name} ${mark.tone}" x1=${mark.x} x2=${mark.x} y1="0" y2=${height}></line>`)}
      ${timeline.running || timeline.turn ? svg`<line class="c-edge" x1=${x(columns.now)} x2=${x(columns.now)} y1="0" y2=${height}></line>` : nothing}
      ${drawn.map((lane, index) => index < firstLane || index > lastLane ? nothing : svg`<g>${lane.rows.map((row) => bar(timeline, row, columns, (index + 0.5) * view.lane, from, until))}</g>`)}
    </svg></div>`;
}

/** One reminder in its lane: dashed while queued, solid while live, a dot per turn shown, a glyph where it ended. */
function bar(timeline, row, columns, y, from, until) {
  const { x, now, last } = columns;
  const end = row.ended?.at ?? now;
  const begin = row.queued?.at ?? row.live?.at ?? row.shown[0]?.turn ?? end;
  if (begin > until + 1) return nothing;
  const ahead = promised(timeline, row);
  if (end < from - 1 && !ahead) return nothing;
  const liveFrom = row.live?.at ?? (row.shown.length || row.state === "live" ? (row.shown[0]?.turn ?? begin) : null);
  const on = isOver(row) ? "" : "on";
  const state = drawnState(timeline, row);
  const span = (kind, a, b, least) => svg`<rect class=${kind} x=${x(a)} width=${Math.max(x(b) - x(a), least)} y=${y - 3} height="6" rx="2"></rect>`;
  const queuedEnd = liveFrom ?? end;
  const tail = Math.max(x(end), liveFrom === null ? x(begin) + 5 : x(liveFrom) + 5);
  return svg`<g><title>${plain(`${nameOf(row)} from ${senderName(row.sender)}: ${row.body}`)}</title>
    ${row.queued && (liveFrom === null || x(queuedEnd) > x(row.queued.at)) ? span(`c-wait ${on}`, row.queued.at, queuedEnd, 5) : nothing}
    ${liveFrom === null ? nothing : span(`c-live ${on}`, liveFrom, end, 5)}
    ${row.shown.map((entry) => entry.turn >= from && entry.turn <= until ? svg`<circle class="c-dot ${on}" cx=${x(entry.turn + 0.3)} cy=${y} r="2.8"></circle>` : nothing)}
    ${row.leftOut.map((turn) => turn >= from && turn <= until ? svg`<use class="u t-side" href="#g-leftout" x=${x(turn + 0.3) - 4.5} y=${y - 4.5} width="9" height="9"></use>` : nothing)}
    ${ahead ? svg`<line class="c-promise" x1=${x(end) + 4} x2=${x(Math.min(ahead[1], last) + (ahead[1] > last ? 1 : 0.5))} y1=${y} y2=${y}></line>` : nothing}
    ${row.ended ? svg`<g class=${STATES[state].tone}>${row.state === "deduped" ? svg`<circle class="c-halo" cx=${tail} cy=${y} r="7"></circle>` : nothing}<use class="u" href="#g-${state}" x=${row.state === "deduped" ? tail - 5 : tail + 2} y=${y - 5.5} width="11" height="11"></use></g>` : nothing}
  </g>`;
}

function pickTurn(event, columns) {
  const turn = columns.first + Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left) / columns.width);
  app.past = turn >= 1 && turn < columns.current + (app.timeline.openTurn === null ? 1 : 0) && turn !== app.past ? turn : null;
  changed();
}

function table(timeline) {
  const rows = timeline.reminders.filter((row) => !row.atTheDoor);
  const drawn = rows.slice(-MOST_LANES);
  const at = (moment) => (moment ? (moment.turn || "before 1") : "");
  return html`<div class="as-table" tabindex="0" role="group" aria-label="Timeline as a table"><table>
    <thead><tr><th scope="col">reminder</th><th scope="col">state</th><th scope="col">from</th><th scope="col">queued in</th><th scope="col">live in</th><th scope="col">shown in</th><th scope="col">ended in</th></tr></thead>
    <tbody>${repeat(drawn, keyOf, (row) => html`<tr aria-current=${keyOf(row) === app.selected ? "true" : nothing}>
      <th scope="row"><button class="link clip" @click=${() => select(keyOf(row))}>${safe(nameOf(row))}</button></th>
      <td>${stateGlyph(drawnState(timeline, row))} ${STATES[drawnState(timeline, row)].word}</td><td>${safe(senderName(row.sender))}</td>
      <td>${at(row.queued)}</td><td>${at(row.live)}</td><td>${turnList(row.shown.map((entry) => entry.turn))}</td><td>${at(row.ended)}</td></tr>`)}</tbody>
  </table>
  ${rows.length > drawn.length ? html`<p class="hint">${plural(rows.length - drawn.length, "older reminder")} not listed.</p>` : nothing}
  ${timeline.compactions.map((row) => html`<p class="hint">${glyph("compacted_out", "t-fold")} Compaction after turn ${row.turn}: ${plural(row.archivedMessages, "message")} archived.</p>`)}</div>`;
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

/** After each draw: measure, and stay at the newest end unless the user scrolled away. Returns whether to draw again. */
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
  const seen = { width: box.clientWidth, height: box.clientHeight, left: box.scrollLeft, top: box.scrollTop, names: names?.offsetWidth ?? 196, lane };
  const differs = Object.entries(seen).some(([name, value]) => view[name] !== value);
  Object.assign(view, seen);
  return differs;
}
