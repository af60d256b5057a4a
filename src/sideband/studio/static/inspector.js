// The request inspector: each request byte by byte, what the cache does with it, and what it would be elsewhere.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { get, sessionPath } from "./api.js";
import { explain } from "./actions.js";
import { glyph, isQuoted, stateGlyph, trustChip } from "./marks.js";
import { app, changed, keep, perObject } from "./state.js";
import { bytes, head, number, percent, pieces, plural, safe, times, utf8Length } from "./text.js";

const KINDS = {
  head: ["Head", "read from cache"], stable: ["Stable", "read from cache"], new: ["New", "written to cache"], kept: ["Kept reminder", "stays from here on"],
  volatile: ["Volatile reminder", "this request only"], clearing: ["Clearing reminder", "the provider removes it"], closing: ["End", ""],
};
const DIFFERS = ["new", "kept", "volatile", "clearing"];
const OUTCOMES = { answered: "answered", void: "void, not answered", open: "waits for its reply", coming: "not sent yet" };

export const requestHref = (turn) => `#session=${encodeURIComponent(app.sessionId)}&request=${turn}`;

/** Load the request of a turn, the one before it, and the same for other models. */
export async function inspect(turn, { model, placement } = {}) {
  const old = app.inspect;
  const it = { turn: String(turn), model, placement, view: old?.view ?? "readable", only: old?.only ?? false, doc: null, before: null, compared: old?.turn === String(turn) ? old.compared : null, open: new Set() };
  app.inspect = it;
  changed();
  const query = new URLSearchParams(Object.entries({ model, placement }).filter(([, value]) => value));
  const read = (which) => get(sessionPath(app.sessionId, `/requests/${which}?${query}`), { waitMs: 30_000 });
  try {
    it.doc = await read(turn);
    changed();
    if (it.doc.turn > 1) it.before = await read(it.doc.turn - 1).catch(() => null);
    if (it === app.inspect && !it.compared && it.doc.outcome !== "coming") it.compared = (await get(sessionPath(app.sessionId, `/requests/${it.doc.turn}/compare`), { waitMs: 30_000 })).requests;
  } catch (error) {
    if (error.status === 401) explain(error);
    if (!it.doc) it.failure = error;
  }
  changed();
}

const set = (name, value) => () => { app.inspect[name] = value; changed(); };
const textOf = perObject((doc) => doc.parts.map((part) => part.text).join(""));
// What later requests of the window repeat.
const lasting = perObject((doc) => doc.parts.filter((part) => !["volatile", "marker", "closing"].includes(part.kind)).map((part) => part.text).join(""));

/** Runs of parts of one kind, with their place in the body; cache marks belong to the run around them. */
const regionsOf = perObject((doc) => {
  const regions = [];
  let at = 0;
  for (const { kind, text } of doc.parts) {
    const last = regions.at(-1);
    const end = at + text.length;
    if (kind === "marker" && last) Object.assign(last, { end, marks: [...last.marks, [at, end]], size: last.size + utf8Length(text) });
    else if (last?.kind === kind) Object.assign(last, { end, size: last.size + utf8Length(text) });
    else regions.push({ kind: kind === "marker" ? "head" : kind, start: at, end, marks: kind === "marker" ? [[at, end]] : [], size: utf8Length(text) });
    at = end;
  }
  return regions;
});

/** Where to break the lines of a JSON text: [offset, depth]. Short objects and lists stay on their line. */
const breaksOf = perObject((doc) => {
  const text = textOf(doc);
  const strings = /"(?:[^"\\]|\\.)*"|[[\]{},]/gs;
  const open = [];
  const length = new Map();
  for (const match of text.matchAll(strings)) {
    if (match[0] === "{" || match[0] === "[") open.push(match.index);
    else if (match[0] === "}" || match[0] === "]") { const from = open.pop(); length.set(from, match.index - from); }
  }
  const isTools = /"tools": ?$/;
  const breaks = [];
  const isLong = [];
  for (const { 0: sign, index } of text.matchAll(strings)) {
    if (sign === "{" || sign === "[") {
      isLong.push((length.get(index) ?? Infinity) > 100 && isLong.length < 6 && !isTools.test(text.slice(index - 10, index)) && (isLong.at(-1) ?? true));
      if (isLong.at(-1)) breaks.push([index + 1, isLong.length]);
    } else if (sign === "}" || sign === "]") {
      if (isLong.pop()) breaks.push([index, isLong.length]);
    } else if (sign === "," && isLong.at(-1)) breaks.push([index + 1, isLong.length]);
  }
  return breaks;
});

export function inspectorView() {
  const it = app.inspect;
  return html`<nav class="turnlist pane" id="sessions" aria-label="Requests" tabindex="-1">
      <div class="pane-head"><a class="btn small plain" href="#session=${encodeURIComponent(app.sessionId)}">← Session</a><h2>Requests</h2></div>
      <div class="caps" aria-hidden="true"><span></span><span>tokens</span><span>cached</span><span>cost</span></div>
      <ol data-list="requests">${requestList(it)}</ol>
      <p>Cost is against the same request without reminders.</p>
    </nav>
    <main class="work request inspector pane" id="transcript" tabindex="-1">${it.doc ? html`${tools(it)}${ruler(it.doc)}<div class="code" role="group" tabindex="0" aria-label="The request, region by region">${keep([it.doc, it.before, it.view, it.only, it.open.size], () => code(it))}</div>`
      : it.failure ? html`<div class="blank"><h2>The request cannot be shown</h2><p>${safe(it.failure.message)}</p><button class="btn small" @click=${() => inspect(it.turn, it)}>Try again</button></div>` : html`<p class="hint pad" role="status">Reading the request of turn ${it.turn}</p>`}</main>
    <aside class="facts pane" id="reminders" aria-label="About this request" tabindex="-1">${it.doc ? facts(it) : nothing}</aside>`;
}

function requestList(it) {
  const rows = [...app.requests.values()].sort((a, b) => a.turn - b.turn).filter((row) => row.outcome !== "coming");
  const most = Math.max(1, ...rows.map((row) => row.tokens));
  const current = it.doc && it.turn !== "next" ? it.doc.turn : Number(it.turn);
  return html`${rows.slice(-300).map((row) => html`${row.compaction ? html`<li class="fold">${glyph("compacted_out")}Compaction <span>new window</span></li>` : nothing}
    <li data-row=${row.turn}><a data-focus href=${requestHref(row.turn)} aria-current=${row.turn === current ? "true" : nothing}><span><span class="sr">Turn </span>${row.turn}</span>${tokenBar(row, most)}<span>${percent(row.share)}</span><span>${times(row.relative)}</span></a></li>`)}
    <li data-row="next"><a data-focus href=${requestHref("next")} aria-current=${it.turn === "next" ? "true" : nothing}><span>${(app.timeline?.openTurn ?? app.timeline?.turn ?? 0) + 1}</span><span class="quiet">next</span><span></span><span></span></a></li>`;
}

function tokenBar(row, most) {
  let x = 0;
  const rect = (kind, tokens) => { const width = (tokens / most) * 100; x += width; return svg`<rect class=${kind} x="${x - width}%" width="${width}%" height="12"></rect>`; };
  return html`<svg class="bar" role="img" aria-label="${number(Math.round(row.tokens))} tokens">${rect("read", row.read)}${rect("written", row.written)}${rect("plain", row.plain)}</svg>`;
}

function tools(it) {
  const { doc } = it;
  const models = app.info?.models ?? [];
  const known = models.find((each) => each.model === doc.model);
  const seg = (label, words, chosen, act) => html`<div class="seg" role="group" aria-label=${label}>${words.map((word) => html`<button aria-pressed=${word[0] === chosen} @click=${act(word[0])}>${word[1] ?? word[0]}</button>`)}</div>`;
  return html`<div class="tools"><div><h2>${doc.outcome === "coming" ? "The next request" : `Request of turn ${doc.turn}`}</h2><span class="badge">${glyph(doc.exact ? "check" : "edit", doc.exact ? "t-good" : "")}${doc.exact ? "as it was sent" : it.model || it.placement ? "as it would be" : "rebuilt"}, ${OUTCOMES[doc.outcome]}</span>
      <span class="end"><button class="btn small" @click=${() => navigator.clipboard.writeText(textOf(doc))}>Copy</button>${it.before ? html`<button class="btn small" aria-pressed=${it.only} @click=${set("only", !it.only)}>Compare with turn ${it.before.turn}</button>` : nothing}</span></div>
    <div><select class="pick" aria-label="Model" @change=${(event) => inspect(it.turn, { model: event.target.value })}>${known ? nothing : html`<option selected>${doc.model}</option>`}${models.map((each) => html`<option value=${each.model} ?selected=${each.model === doc.model}>${each.model}</option>`)}</select>
      ${seg("Placement", (known?.placements ?? ["native", "tail", "seed"]).map((word) => [word]), doc.placement, (word) => () => inspect(it.turn, { model: it.model, placement: word }))}
      <span class="end">${seg("View", [["readable", "Readable"], ["exact", "Exact bytes"]], it.view, (word) => set("view", word))}</span></div></div>`;
}

function ruler(doc) {
  const regions = regionsOf(doc).filter((region) => region.kind !== "closing");
  const of = (kinds) => regions.filter((region) => kinds.includes(region.kind));
  const sum = (list) => list.reduce((total, region) => total + region.size, 0);
  const bar = (list, name) => {
    let at = 0;
    const total = sum(list) || 1;
    return html`<svg class="ruler-bar" height="18" role="img" aria-label=${name}>${list.map((region) => { const width = (region.size / total) * 100; at += width; return svg`<rect class="z-${region.kind}" fill="url(#p-volatile)" x="${at - width}%" width="${width}%" height="18"></rect>${region.marks.length ? svg`<rect class="z-flag" x="${at}%" width="2" height="18"></rect>` : nothing}`; })}</svg>`;
  };
  const same = sum(of(["head", "stable"]));
  const differs = of(DIFFERS);
  return html`<div class="ruler"><p><span><b>Stable prefix</b> ${number(same)} bytes</span><span class="end">${number(doc.bytes - same)} bytes differ</span></p>${bar(regions, "Regions of the request by size")}
    ${differs.length ? html`${bar(differs, "What differs, enlarged")}<ul>${DIFFERS.filter((kind) => of([kind]).length).map((kind) => html`<li><i class="z-${kind}"></i><b>${KINDS[kind][0].split(" ")[0]}</b> ${number(sum(of([kind])))}</li>`)}<li>${glyph("flag", "t-good")} cached up to here</li></ul>` : nothing}</div>`;
}

function code(it) {
  const gone = it.only && it.before ? it.before.parts.filter((part) => part.kind === "volatile").map((part) => part.text).join("") : "";
  return html`${regionsOf(it.doc).filter((region) => !it.only || DIFFERS.includes(region.kind)).map((region, index) => html`<section class="region ${region.kind}"><header><div><h3>${KINDS[region.kind][0]}</h3><small>${number(region.size)} bytes</small><small>${KINDS[region.kind][1]}</small></div></header><pre>${it.view === "exact" ? long(it, `x${index}`, textOf(it.doc).slice(region.start, region.end), 20_000) : lines(it, region)}</pre></section>`)}
    ${gone ? html`<section class="region gone"><header><div><h3>Gone since turn ${it.before.turn}</h3><small>${number(utf8Length(gone))} bytes</small></div></header><pre>${pieces(gone)}</pre></section>` : nothing}`;
}

const opener = (it, key, label) => html`<button class="foldaway" @click=${() => { it.open.add(key); changed(); }}>${label}</button>`;
const long = (it, key, text, most) => (text.length <= most * 1.3 || it.open.has(key) ? pieces(text) : html`${pieces(head(text, most))}${opener(it, key, `${bytes(text.length - most)} more`)}`);

const MOST_LINES = 40;
function lines(it, region) {
  const text = textOf(it.doc);
  const breaks = breaksOf(it.doc);
  const first = breaks.findIndex(([at]) => at > region.start);
  const found = [];
  let from = region.start;
  let depth = first > 0 ? breaks[first - 1][1] : 0;
  for (let index = first; index >= 0 && index < breaks.length && breaks[index][0] < region.end; index += 1) {
    if (breaks[index][0] > from) found.push([from, breaks[index][0], depth]);
    [from, depth] = breaks[index];
  }
  found.push([from, region.end, depth]);
  const shown = found.filter(([a, b]) => text.slice(a, b).trim());
  const hidden = it.open.has(region.start) ? 0 : Math.max(0, shown.length - MOST_LINES);
  const kept = region.kind === "head" ? shown.slice(0, shown.length - hidden) : shown.slice(hidden);
  const fold = hidden ? html`<span class="in2">${opener(it, region.start, `${plural(hidden, "line")} more, ${bytes(region.size)} in all`)}</span>` : nothing;
  const drawn = kept.map(([a, b, deep]) => html`<span class="in${Math.min(deep, 6)}">${line(it, region, text, a, b)}</span>`);
  return region.kind === "head" ? html`${drawn}${fold}` : html`${fold}${drawn}`;
}

/** One line; cache marks in it become a flag, and the names of fields are quiet. */
function line(it, region, text, from, end) {
  const mark = region.marks.find(([a, b]) => a < end && b > from);
  if (!mark) return colours(it, from, text.slice(from, end));
  return html`${colours(it, from, text.slice(from, Math.max(from, mark[0])))}${mark[1] <= end ? html`<span class="mark">${glyph("flag")} cached up to here</span>${colours(it, mark[1], text.slice(mark[1], end))}` : nothing}`;
}

function colours(it, key, text) {
  const tools = text.length > 900 && key >= 0 && !it.open.has(key) && /^\s*"tools":/.test(text);
  if (tools) return html`<span class="pk">"tools": </span>${opener(it, key, `${plural((text.match(/"name":/g) ?? []).length, "tool")}, ${number(utf8Length(text))} bytes`)}`;
  if (text.length > 900 && !it.open.has(key)) return html`${colours(it, -1, head(text, 500))}… ${opener(it, key, `${number(text.length - 500)} characters more`)}`;
  const parts = text.split(/("(?:[^"\\]|\\.)*":)/);
  return parts.map((part, index) => (index % 2 ? html`<span class="pk">${pieces(part)} </span>` : pieces(part)));
}

function facts(it) {
  const { doc, before } = it;
  const gone = doc.reminders.filter((row) => row.state !== "shown" && row.why);
  return html`<section><h2>Cost of this request</h2><div class="big"><div><b>${percent(doc.share)}</b><span>from the cache</span></div><div><b>${times(doc.relative)}</b><span>the cost without reminders</span></div></div>${tokenBar(doc, doc.tokens)}
      <ul class="key-row">${[["read", "read from the cache"], ["written", "written to it"], ["plain", "neither"]].map(([kind, words]) => html`<li><i class=${kind}></i><span>${words}</span><span class="num">${number(Math.round(doc[kind]))}${kind === "read" ? " tokens" : ""}</span></li>`)}</ul>
      ${doc.broken || doc.whyNone ? html`<p class="hint">Nothing of the conversation is cached: ${safe(doc.broken ?? doc.whyNone)}.</p>` : nothing}${doc.hasHead ? nothing : html`<p class="hint">The system text and the tools were not recorded.</p>`}${doc.betas.length ? html`<p class="hint">Beta header: ${safe(doc.betas.join(", "))}</p>` : nothing}</section>
    <section><h2>Reminders in it</h2>${doc.reminders.length ? doc.reminders.map((row) => html`<div class="note ${isQuoted(row) ? "quoted" : ""}"><p>${safe(head(row.body, 600))}</p><p class="from">${trustChip(row)} <span>${safe(row.principal ?? (row.trust === "operator" ? "program" : row.trust))}</span> <span class="quiet">${[row.role && `as ${row.role}`, row.scope, row.state !== "shown" && row.state, row.why].filter(Boolean).join(", ")}</span></p></div>`) : html`<p class="hint">None.</p>`}${gone.length ? html`<p class="hint">${stateGlyph("leftout")} ${plural(gone.length, "reminder")} live and not in it.</p>` : nothing}</section>
    ${it.compared?.length ? html`<section><h2>The same turn, placed otherwise</h2><table><thead><tr><th scope="col">model and placement</th><th scope="col">cached</th><th scope="col">cost</th></tr></thead><tbody>${it.compared.map((row) => html`<tr aria-current=${row.model === doc.model && row.placement === doc.placement ? "true" : nothing}><td><button class="link" @click=${() => inspect(it.turn, row)}>${row.model.replace(/^[^:]+:/, "")}, ${row.placement}</button></td><td>${percent(row.share)}</td><td class=${row.relative > 2 ? "bad" : ""}>${times(row.relative)}</td></tr>`)}</tbody></table></section>` : nothing}
    <section><h2>Prefix law</h2>${law(doc, before)}</section>`;
}

function law(doc, before) {
  const verdict = (ok, words) => html`<p class="verdict">${glyph(ok === null ? "compacted_out" : ok ? "check" : "alert", ok === null ? "t-fold" : ok ? "t-good" : "t-bad")}<span>${words}</span></p>`;
  if (doc.turn === 1) return verdict(true, "This is the first request; nothing comes before it.");
  if (!before) return verdict(null, "The request before it is not kept, so there is nothing to compare with.");
  if (doc.compaction || doc.broken) return verdict(null, `A new window begins here: ${doc.broken ?? "the conversation was compacted"}.`);
  if (before.outcome === "void") return verdict(null, `Turn ${before.turn} got no reply, so this request need not continue it.`);
  return lasting(doc).startsWith(lasting(before)) ? verdict(true, `Request ${before.turn} without its volatile end is a prefix of request ${doc.turn}, byte for byte. Compared in this browser.`)
    : verdict(false, `Request ${before.turn} without its volatile end is not a prefix of request ${doc.turn}${doc.placement === "seed" ? "; the placement seed rewrites the beginning each turn" : ""}.`);
}
