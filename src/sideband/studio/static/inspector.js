// The request inspector: each request byte by byte, what the cache does with it, and what it would be elsewhere.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { get, sessionPath } from "./api.js";
import { explain } from "./actions.js";
import { glyph, stateGlyph, trustChip } from "./marks.js";
import { fateOf, lastingOf, linesOf, regionsOf, sameOf, textOf } from "./regions.js";
import { app, changed, isQuoted, keep, reminderOf, requestHref, senderName, sessionHref } from "./state.js";
import { bytes, head, number, percent, pieces, plural, quoted, safe, times, utf8Length } from "./text.js";

const NAMES = {
  head: "Head", stable: "Stable", new: "New", kept: "Kept reminder", volatile: "Volatile reminder",
  clearing: "Clearing reminder", closing: "End",
};
const DIFFERS = ["new", "kept", "volatile", "clearing"];
const OUTCOMES = {
  answered: "answered", void: "void, not answered", open: "waits for its reply", coming: "not sent yet",
};
const PATIENCE = { waitMs: 30_000 };

/** Load the request of a turn (that on the page stays until then), the one before it, and the same for other models. */
export async function inspect(turn, { model, placement } = {}) {
  const old = app.inspect;
  const it = {
    turn: String(turn), model, placement, view: old?.view ?? "readable", only: old?.only ?? false,
    doc: old?.doc ?? null, isLoading: true, before: undefined,
    compared: old?.turn === String(turn) ? old.compared : null, open: new Set(),
  };
  app.inspect = it;
  changed();
  const query = new URLSearchParams(Object.entries({ model, placement }).filter(([, value]) => value));
  const read = (which) => get(sessionPath(app.sessionId, `/requests/${which}?${query}`), PATIENCE);
  try {
    it.doc = await read(turn);
    it.isLoading = false;
    changed();
    it.before = it.doc.turn > 1 ? await read(it.doc.turn - 1).catch(() => null) : null;
    if (it === app.inspect && !it.compared && it.doc.outcome !== "coming") {
      const path = sessionPath(app.sessionId, `/requests/${it.doc.turn}/compare`);
      it.compared = (await get(path, PATIENCE)).requests;
    }
  } catch (error) {
    if (error.status === 401) explain(error);
    if (it.isLoading) Object.assign(it, { doc: null, isLoading: false, failure: error });
  }
  changed();
}

const set = (name, value) => () => { app.inspect[name] = value; changed(); };

export function inspectorView(banners) {
  const it = app.inspect;
  return html`<nav class="turnlist pane" id="sessions" aria-label="Requests" tabindex="-1">
      <div class="pane-head">
        <a class="btn small plain" href=${sessionHref(app.sessionId)}>← Session</a>
        <h2>Requests</h2>
      </div>
      <div class="caps" aria-hidden="true"><span></span><span>tokens</span><span>cached</span><span>cost</span></div>
      <ol data-list="requests">${requestList(it)}</ol>
      <p>Cost is against the same request without reminders.</p>
    </nav>
    ${banners}
    <main class="work request inspector pane" id="transcript" tabindex="-1" aria-busy=${it.isLoading}>
      ${it.doc ? request(it) : it.failure ? failure(it)
        : html`<p class="hint pad" role="status">Reading the request of turn ${it.turn}</p>`}
    </main>
    <aside class="facts pane" id="reminders" aria-label="About this request" tabindex="-1">
      ${it.doc ? facts(it) : nothing}
    </aside>`;
}

const request = (it) => html`
  ${tools(it)}
  ${ruler(it.doc)}
  <div class="code" role="group" tabindex="0" aria-label="The request, region by region">
    ${keep([it.doc, it.before, it.view, it.only, it.open.size], () => code(it))}
  </div>`;

function failure(it) {
  if (it.failure.reason === "nothing_to_answer") {
    return html`<div class="blank">
      <h2>No request is waiting</h2>
      <p>The model has answered everything. A prompt, or a reminder that reaches it, makes the next request.</p>
    </div>`;
  }
  return html`<div class="blank">
    <h2>The request cannot be shown</h2>
    <p>${safe(it.failure.message)}</p>
    <button class="btn small" @click=${() => inspect(it.turn, it)}>Try again</button>
  </div>`;
}

// The list of requests.

function requestList(it) {
  const sent = [...app.requests.values()].filter((row) => row.outcome !== "coming");
  const rows = sent.sort((a, b) => a.turn - b.turn);
  const most = Math.max(1, ...rows.map((row) => row.tokens));
  const next = (app.timeline?.openTurn ?? app.timeline?.turn ?? 0) + 1;
  const link = (turn, cells) => html`<li data-row=${turn}><a
    data-focus href=${requestHref(turn)} aria-current=${it.turn === String(turn) ? "true" : nothing}>${cells}</a></li>`;
  return html`
    ${rows.slice(-300).map((row) => html`
      ${row.compaction
        ? html`<li class="fold">${glyph("compacted_out")}Compaction <span>new window</span></li>`
        : nothing}
      ${link(row.turn, html`
        <span><span class="sr">Turn </span>${row.turn}</span>
        ${tokenBar(row, most)}
        <span>${percent(row.share)}</span>
        <span>${times(row.relative)}</span>`)}`)}
    ${link("next", html`<span>${next}</span><span class="quiet">next</span><span></span><span></span>`)}`;
}

function tokenBar(row, most) {
  let x = 0;
  const rect = (kind) => {
    const width = (row[kind] / most) * 100;
    x += width;
    return svg`<rect class=${kind} x="${x - width}%" width="${width}%" height="12"></rect>`;
  };
  return html`<svg class="bar" role="img" aria-label="${number(Math.round(row.tokens))} tokens">
    ${["read", "written", "plain"].map(rect)}</svg>`;
}

// Above the request: how it was built, and its regions by size.

function seg(label, words, chosen, act) {
  const button = ([value, word = value]) =>
    html`<button aria-pressed=${value === chosen} @click=${act(value)}>${word}</button>`;
  return html`<div class="seg" role="group" aria-label=${label}>${words.map(button)}</div>`;
}

function tools(it) {
  const { doc } = it;
  const models = app.info?.models ?? [];
  const known = models.find((each) => each.model === doc.model);
  const placements = known?.placements ?? ["native", "tail", "seed"];
  const place = (placement) => () => inspect(it.turn, { model: it.model, placement });
  const built = doc.exact ? "as it was sent" : it.model || it.placement ? "as it would be" : "rebuilt";
  const title = doc.outcome === "coming" ? "The next request" : `Request of turn ${doc.turn}`;
  return html`<div class="tools">
    <div>
      <h2>${title}</h2>
      <span class="badge">
        ${glyph(doc.exact ? "check" : "edit", doc.exact ? "t-good" : "")}${built}, ${OUTCOMES[doc.outcome]}
      </span>
      <span class="end">
        <button class="btn small" @click=${() => navigator.clipboard.writeText(textOf(doc))}>Copy</button>
        ${it.before ? html`<button class="btn small" aria-pressed=${it.only} @click=${set("only", !it.only)}>
          Compare with turn ${it.before.turn}</button>` : nothing}
      </span>
    </div>
    <div>
      <select class="pick" aria-label="Model" @change=${(event) => inspect(it.turn, { model: event.target.value })}>
        ${known ? nothing : html`<option selected>${doc.model}</option>`}
        ${models.map((each) => html`<option value=${each.model} ?selected=${each === known}>${each.model}</option>`)}
      </select>
      ${seg("Placement", placements.map((word) => [word]), doc.placement, place)}
      <span class="end">
        ${seg("View", [["readable", "Readable"], ["exact", "Exact bytes"]], it.view, (word) => set("view", word))}
      </span>
    </div>
  </div>`;
}

const sum = (regions) => regions.reduce((total, region) => total + region.size, 0);

function rulerBar(regions, name) {
  const total = sum(regions) || 1;
  const share = (size) => (size / total) * 100;
  const rects = [];
  const flags = [];
  let at = 0;
  for (const { kind, size, marks } of regions) {
    rects.push(svg`<rect
      class="z-${kind}" fill="url(#p-volatile)" x="${share(at)}%" width="${share(size)}%" height="18"></rect>`);
    for (const { place } of marks) {
      // The last flag would be out of the picture.
      const x = Math.min(share(at + place), 99.7);
      flags.push(svg`<rect class="z-flag" x="${x}%" width="2" height="18"></rect>`);
    }
    at += size;
  }
  return html`<svg class="ruler-bar" height="18" role="img" aria-label=${name}>${rects}${flags}</svg>`;
}

function ruler(doc) {
  const regions = regionsOf(doc).filter((region) => region.kind !== "closing");
  const same = sameOf(doc);
  const differs = regions.filter((region) => !same.includes(region));
  const kinds = Object.keys(NAMES).filter((kind) => differs.some((region) => region.kind === kind));
  const sizeOf = (kind) => number(sum(differs.filter((region) => region.kind === kind)));
  const legend = (kind) => html`<li><i class="z-${kind}"></i><b>${NAMES[kind].split(" ")[0]}</b> ${sizeOf(kind)}</li>`;
  return html`<div class="ruler">
    <p>
      <span><b>Stable prefix</b> ${same.length ? `${number(sum(same))} bytes` : "none"}</span>
      <span class="end">${number(doc.bytes - sum(same))} bytes differ</span>
    </p>
    ${rulerBar(regions, "Regions of the request by size")}
    ${same.length && differs.length ? rulerBar(differs, "What differs, enlarged") : nothing}
    <ul>
      ${kinds.map(legend)}
      ${regions.some((region) => region.marks.length)
        ? html`<li>${glyph("flag", "t-good")} cached up to here</li>`
        : nothing}
    </ul>
  </div>`;
}

// The request itself. White space counts in `pre`: no line breaks in what is inside it.

function code(it) {
  const before = it.only && it.before ? it.before.parts.filter((part) => part.kind === "volatile") : [];
  const gone = before.map((part) => part.text).join("");
  const shown = regionsOf(it.doc).filter((region) => !it.only || DIFFERS.includes(region.kind));
  const section = (kind, name, size, fate, body) => html`<section class="region ${kind}">
    <header><div>
      <h3>${name}</h3>
      <small>${number(size)} bytes</small>
      ${fate === undefined ? nothing : html`<small>${fate}</small>`}
    </div></header>
    <pre>${body}</pre>
  </section>`;
  return html`
    ${shown.map((region, index) =>
      section(region.kind, NAMES[region.kind], region.size, fateOf(it.doc, region), it.view === "exact"
        ? long(it, `x${index}`, textOf(it.doc).slice(region.start, region.end), 20_000)
        : lines(it, region)))}
    ${gone
      ? section("gone", `Gone since turn ${it.before.turn}`, utf8Length(gone), undefined, pieces(gone))
      : nothing}`;
}

function opener(it, key, label) {
  const open = () => { it.open.add(key); changed(); };
  return html`<button class="foldaway" @click=${open}>${label}</button>`;
}

function long(it, key, text, most) {
  if (text.length <= most * 1.3 || it.open.has(key)) return pieces(text);
  return html`${pieces(head(text, most))}${opener(it, key, `${bytes(text.length - most)} more`)}`;
}

const MOST_LINES = 40;
// What earlier requests had is shown in short, so that what is new is in view.
const MOST_OLD_LINES = 4;

function lines(it, region) {
  const text = textOf(it.doc);
  const found = linesOf(it.doc, region);
  const most = region.kind === "stable" ? MOST_OLD_LINES : MOST_LINES;
  const hidden = it.open.has(region.start) ? 0 : Math.max(0, found.length - most);
  const kept = region.kind === "head" ? found.slice(0, found.length - hidden) : found.slice(hidden);
  const label = `${plural(hidden, "line")} more, ${bytes(region.size)} in all`;
  const fold = hidden ? html`<span class="in2">${opener(it, region.start, label)}</span>` : nothing;
  const drawn = kept.map(([start, end, depth]) =>
    html`<span class="in${Math.min(depth, 6)}">${line(it, region, text, start, end)}</span>`);
  return region.kind === "head" ? html`${drawn}${fold}` : html`${fold}${drawn}`;
}

/** One line; cache marks in it become a flag, and the names of fields are quiet. */
function line(it, region, text, from, end) {
  const mark = region.marks.find((each) => each.at < end && each.end > from);
  if (!mark) return colours(it, from, text.slice(from, end));
  const before = colours(it, from, text.slice(from, Math.max(from, mark.at)));
  if (mark.end > end) return before;
  const flag = html`<span class="mark">${glyph("flag")} cached up to here</span>`;
  return html`${before}${flag}${colours(it, mark.end, text.slice(mark.end, end))}`;
}

function colours(it, key, text) {
  const isCut = text.length > 900 && !it.open.has(key);
  if (isCut && key >= 0 && /^\s*"tools":/.test(text)) {
    const count = plural((text.match(/"name":/g) ?? []).length, "tool");
    const label = `${count}, ${number(utf8Length(text))} bytes`;
    return html`<span class="pk">"tools": </span>${opener(it, key, label)}`;
  }
  if (isCut) {
    const more = opener(it, key, `${number(text.length - 500)} characters more`);
    return html`${colours(it, -1, head(text, 500))}… ${more}`;
  }
  const parts = text.split(/("(?:[^"\\]|\\.)*":)/);
  return parts.map((part, index) => (index % 2 ? html`<span class="pk">${pieces(part)} </span>` : pieces(part)));
}

// About the request.

const facts = (it) => html`
  ${cost(it.doc)}
  ${reminders(it.doc)}
  ${it.compared?.length ? comparison(it) : nothing}
  <section><h2>Prefix law</h2>${law(it.doc, it.before)}</section>`;

const TOKENS = [["read", "read from the cache"], ["written", "written to it"], ["plain", "neither"]];

function cost(doc) {
  const row = ([kind, words]) => html`<li>
    <i class=${kind}></i>
    <span>${words}</span>
    <span class="num">${number(Math.round(doc[kind]))}${kind === "read" ? " tokens" : ""}</span>
  </li>`;
  const hint = (words) => html`<p class="hint">${words}</p>`;
  return html`<section>
    <h2>Cost of this request</h2>
    <div class="big">
      <div><b>${percent(doc.share)}</b><span>from the cache</span></div>
      <div><b>${times(doc.relative)}</b><span>the cost without reminders</span></div>
    </div>
    ${tokenBar(doc, doc.tokens)}
    <ul class="key-row">${TOKENS.map(row)}</ul>
    ${doc.read ? nothing : hint(html`Nothing is read from the cache: ${safe(doc.whyNone)}.`)}
    ${doc.read && doc.broken ? hint(html`Only the head is read from the cache: ${safe(doc.broken)}.`) : nothing}
    ${doc.hasHead ? nothing : hint("The system text and the tools were not recorded.")}
    ${doc.betas.length ? hint(html`Beta header: ${safe(doc.betas.join(", "))}`) : nothing}
  </section>`;
}

const ABSENT = { "left out": "leftout", dropped: "dropped", replaced: "deduped" };
/** As in the other panes: the timeline knows a provider by name. */
const nameOfSender = (row) => senderName((app.timeline && reminderOf(app.timeline, row.id)?.sender) ?? row);

const present = (row) => html`<div class="note ${isQuoted(row) ? "quoted" : ""}">
  <p>${safe(head(row.body, 600))}</p>
  <p class="from">
    ${trustChip(row)}
    <span>${safe(nameOfSender(row))}</span>
    <span class="quiet">${[row.role && `as ${row.role}`, row.scope, row.why].filter(Boolean).join(", ")}</span>
  </p>
</div>`;

const absent = (row) => html`<li>
  ${stateGlyph(ABSENT[row.state])}
  <p>${safe(quoted(row.body, 60))} <span class="quiet">${row.state}: ${row.why}</span></p>
</li>`;

function reminders(doc) {
  const shown = doc.reminders.filter((row) => row.state === "shown");
  const others = doc.reminders.filter((row) => row.state !== "shown");
  return html`
    <section>
      <h2>Reminders in it</h2>
      ${shown.length ? shown.map(present) : html`<p class="hint">None.</p>`}
    </section>
    ${others.length
      ? html`<section><h2>Not in it</h2><ul class="absent">${others.map(absent)}</ul></section>`
      : nothing}`;
}

const shortName = (model) => (model.endsWith(":any") ? model.slice(0, -4) : model.replace(/^[^:]+:/, ""));

function comparison(it) {
  const isShown = (row) => row.model === it.doc.model && row.placement === it.doc.placement;
  const show = (row) => () => inspect(it.turn, row);
  const line = (row) => html`<tr aria-current=${isShown(row) ? "true" : nothing}>
    <td><button class="link" @click=${show(row)}>${shortName(row.model)}, ${row.placement}</button></td>
    <td>${percent(row.share)}</td>
    <td class=${row.relative > 2 ? "bad" : ""}>${times(row.relative)}</td>
  </tr>`;
  return html`<section>
    <h2>The same turn, placed otherwise</h2>
    <table>
      <thead><tr>
        <th scope="col">model and placement</th><th scope="col">cached</th><th scope="col">cost</th>
      </tr></thead>
      <tbody>${it.compared.map(line)}</tbody>
    </table>
  </section>`;
}

const verdict = (sign, tone, words) => html`<p class="verdict">${glyph(sign, tone)}<span>${words}</span></p>`;
const holds = (words) => verdict("check", "t-good", words);
const fails = (words) => verdict("alert", "t-bad", words);
const exempt = (words) => verdict("compacted_out", "t-fold", words);

/** Whether the request continues the one before it, which is what the cache needs. */
function law(doc, before) {
  if (doc.turn === 1) return holds("This is the first request; nothing comes before it.");
  if (before === undefined) return html`<p class="hint">Reading the request before it</p>`;
  if (!before) return exempt("The request before it is not kept, so there is nothing to compare with.");
  if (doc.compaction || doc.broken) {
    return exempt(`A new window begins here: ${doc.broken ?? "the conversation was compacted"}.`);
  }
  if (before.outcome === "void") {
    return exempt(`Turn ${before.turn} got no reply, so this request need not continue it.`);
  }
  const old = `Request ${before.turn} without its volatile end`;
  if (lastingOf(doc).startsWith(lastingOf(before))) {
    return holds(`${old} is a prefix of request ${doc.turn}, byte for byte. Compared in this browser.`);
  }
  const why = doc.placement === "seed" ? "; the placement seed rewrites the beginning each turn" : "";
  return fails(`${old} is not a prefix of request ${doc.turn}${why}.`);
}

// Scrolling.

let scrolledTo = null;
let scrolledIn = null;

/** After each draw, once for each request: its row is in view in the list, and so is what differs in it. */
export function settleInspector() {
  const link = document.querySelector('[data-list="requests"] [aria-current]');
  if (link && scrolledTo !== link.href) {
    scrolledTo = link.href;
    showRow(link, link.closest("ol"));
  }
  const box = document.querySelector(".code");
  if (box && scrolledIn !== app.inspect?.doc) {
    scrolledIn = app.inspect?.doc;
    showDifference(box);
  }
}

function showRow(link, list) {
  const [row, box] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  if (row.top < box.top || row.bottom > box.bottom) list.scrollTop += row.top - box.top - box.height / 2;
}

function showDifference(code) {
  code.scrollTop = 0;
  const differing = [...code.querySelectorAll(".region:not(.head, .stable, .closing)")];
  if (!differing.length) return;
  const box = code.getBoundingClientRect();
  const missing = differing.at(-1).getBoundingClientRect().bottom - box.bottom;
  // A little of what comes before stays in view.
  const room = differing[0].getBoundingClientRect().top - box.top - 40;
  code.scrollTop = Math.max(0, Math.min(missing, room));
}
