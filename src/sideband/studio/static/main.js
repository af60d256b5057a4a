// The page: login, address, top bar, session list, and the loop that draws.

import { html, nothing, render } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { dismiss, load, loadList, moreSessions, reconnect, rehearse } from "./actions.js";
import { call } from "./api.js";
import { composerPane, settleComposer } from "./composer.js";
import { dialogPart, openDialog, settleDialog } from "./dialogs.js";
import { inspect, inspectorView, settleInspector } from "./inspector.js";
import { keepFocus, onFocus, onKey, roveSoon } from "./keys.js";
import { glyph, spinner } from "./marks.js";
import { keepPlace, remindersPane } from "./reminders.js";
import { app, changed, drawNow, isOver, onChange, requestHref, sessionHref, titleOf } from "./state.js";
import { settleTimeline, timelinePane } from "./timeline.js";
import { permissionBar, settleTranscript, transcriptPane } from "./transcript.js";
import { number, percent, plain, plural, safe, times } from "./text.js";

// Top bar.

const THEMES = ["system", "light", "dark"];
let theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "system";
function setTheme(next) {
  theme = next;
  localStorage.setItem("theme", theme);
  document.documentElement.dataset.theme = theme;
  changed();
}
const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]);

function doing(timeline) {
  if (!timeline) return nothing;
  if (timeline.closed) return html`${glyph("closed", "t-over")}closed`;
  if (timeline.permissions.length) return html`${glyph("held", "t-cut")}asks you`;
  if (app.cancelling) return html`${spinner("t-cut")}cancelling`;
  if (timeline.openTurn !== null) return html`${spinner("t-user")}replying, turn ${timeline.openTurn}`;
  if (timeline.running) return html`${spinner("t-user")}running tools, turn ${timeline.turn}`;
  const isLeft = app.sessions.get(app.sessionId)?.state === "left";
  return isLeft ? html`${glyph("left", "t-bad")}its process died` : html`${glyph("idle", "t-over")}idle`;
}

function meter() {
  const sent = [...app.requests.values()].filter((each) => each.outcome !== "coming");
  const row = sent.sort((a, b) => a.turn - b.turn).at(-1);
  if (!row) return nothing;
  return html`<a class="meter" href=${requestHref(row.turn)} title="Inspect the request of turn ${row.turn}">
    <span><b>${number(Math.round(row.tokens))}</b> tokens</span>
    <span><b>${percent(row.share)}</b> cached</span>
    <span><b>${times(row.relative)}</b> cost</span>
  </a>`;
}

const LINKS = { lost: ["plug", "t-cut", "Lost"], connecting: ["queued", "t-over", "Connecting"] };

function pill() {
  const cursor = app.timeline?.cursor;
  const [name, tone, word] = LINKS[app.link.state] ?? ["live", "t-good", "Live"];
  return html`<span class="pill">
    ${glyph(name, tone)}
    <b>${word}</b>
    ${cursor ? html`<span class="num">event ${number(cursor)}</span>` : nothing}
  </span>`;
}

const button = (name, label, act, id = nothing) => html`<button
  class="btn icon plain small" id=${id} aria-label=${label} title=${label} @click=${act}>${glyph(name)}</button>`;

function toggleDrawer() {
  app.drawer = !app.drawer;
  drawNow();
  if (app.drawer) document.querySelector("#sessions :is([aria-current], [data-focus], button)").focus();
}

function closeDrawer(event) {
  if (!app.drawer || event.target.closest("#sessions, #drawer")) return;
  app.drawer = false;
  changed();
}

const logo = html`<svg viewBox="0 0 20 20" aria-hidden="true">
  <path d="M10 2v16"></path>
  <path class="b" d="M4.4 8v10M15.6 8v10"></path>
</svg>`;

function crumb() {
  const { timeline } = app;
  if (!app.sessionId) return html`<h1 class="sr">Sideband studio</h1>`;
  const summary = app.sessions.get(app.sessionId);
  const title = summary ? titleOf(summary) : app.sessionId;
  return html`
    <h1 class="clip" title=${plain(title)}>${safe(title)}</h1>
    <span class="doing ${timeline?.permissions.length ? "asks" : ""}">${doing(timeline)}</span>`;
}

const cancelButton = () => html`<button
    class="btn small cancel ${app.timeline.running ? "" : "away"}" title="Cancel turn"
    ?disabled=${app.cancelling || app.link.state === "lost"} @click=${() => openDialog({ kind: "cancel" })}>
  ${glyph("closed")}
  <span>${app.cancelling ? "Cancelling" : "Cancel turn"}</span>
</button>`;

const topBar = () => html`<header class="top" id="top" tabindex="-1">
  ${button("menu", "Sessions", toggleDrawer, "drawer")}
  <a class="brand" href="#" aria-label="Sideband studio">${logo}<span>Sideband <small>studio</small></span></a>
  <div class="crumb">${crumb()}</div>
  <div class="end">
    ${app.timeline && !app.isReadOnly ? cancelButton() : nothing}
    ${app.timeline ? meter() : nothing}
    ${pill()}
    ${button("search", "Commands (Ctrl K)", () => openDialog({ kind: "commands" }))}
    ${button("help", "Keys and marks (?)", () => openDialog({ kind: "help" }))}
    ${button("theme", `Theme: ${theme}`, nextTheme, "theme")}
  </div>
</header>`;

// Sessions.

const LOOKS = {
  running: null, asking: ["held", "t-cut"], idle: ["idle", "t-over"], left: ["left", "t-bad"],
  closed: ["closed", "t-over"],
};

/** Newest first, each followed by its sub-agents. */
function ordered() {
  const all = [...app.sessions.values()];
  const children = Map.groupBy(all, (each) => (app.sessions.has(each.parent) ? each.parent : null));
  const walk = (parent, depth) => (children.get(parent) ?? []).flatMap(
    (each) => [{ ...each, depth }, ...walk(each.id, Math.min(depth + 1, 3))]);
  return walk(null, 0);
}

function wordOf(row) {
  const counts = [row.live && `${row.live} live`, row.queued && `${row.queued} queued`].filter(Boolean).join(", ");
  if (row.state === "running") return counts || "running";
  if (row.state === "left") return "its process died";
  if (row.state === "closed") return "closed";
  return `${row.state === "asking" ? "asks you" : "idle"}${counts && `, ${counts}`}`;
}

function sessionRow(row) {
  // The summary of the open session may come later than the update that the other panes show.
  const turn = (row.id === app.sessionId && app.timeline?.openTurn) || row.openTurn || row.turn;
  const word = wordOf(row);
  const isBusy = row.state === "running" || row.state === "asking";
  const sign = row.depth && !isBusy ? glyph("inherited", "quiet")
    : LOOKS[row.state] ? glyph(...LOOKS[row.state]) : spinner("t-user");
  const title = plain(`${titleOf(row)}: turn ${turn}, ${word}`);
  return html`<li data-row=${row.id}><a
      class="sess depth-${row.depth}" data-focus href=${sessionHref(row.id)} title=${title}
      aria-current=${row.id === app.sessionId ? "page" : nothing}>
    ${sign}
    <b class="clip">${safe(titleOf(row))}</b>
    <small>turn ${turn} · ${word}</small>
  </a></li>`;
}

function answerer() {
  const { model } = app.info;
  const isRehearsal = app.sessions.get(app.sessionId)?.rehearsal;
  if (isRehearsal) return `A scripted model plays this session${model ? "" : ": no key is set"}.`;
  return model ? html`${safe(model)} answers.` : "No model is set: sessions of other programs are shown.";
}

function sessionsPane() {
  const rows = ordered();
  const again = rows.some((row) => row.rehearsal) ? "Rehearse again" : "Start the rehearsal";
  return html`<nav class="sessions pane ${app.drawer ? "drawn" : ""}" id="sessions" aria-label="Sessions" tabindex="-1">
    <div class="pane-head">
      <h2>Sessions</h2>
      <span class="quiet">${rows.length || ""}${app.sessionsNext ? "+" : ""}</span>
      <span class="end">
        <button class="btn small plain" @click=${() => openDialog({ kind: "begin" })}>New</button>
      </span>
    </div>
    <ol data-list="sessions">${repeat(rows, (row) => row.id, sessionRow)}</ol>
    ${app.sessionsNext ? html`<button class="btn small more" @click=${moreSessions}>Older sessions</button>` : nothing}
    <footer>
      ${app.info ? html`<p>${answerer()}</p>` : nothing}
      ${app.info?.rehearsal ? html`<button class="btn small" @click=${rehearse}>${again}</button>` : nothing}
    </footer>
  </nav>`;
}

// Banners.

function lostBanner() {
  const wait = Math.max(0, Math.ceil((app.link.nextTryAt - Date.now()) / 1000));
  const known = app.timeline ? `Shown up to event ${number(app.timeline.cursor)}. ` : "";
  return html`<div class="banner cut" role="alert">
    ${glyph("plug")}
    <b>Connection lost</b>
    <span>${known}<span aria-hidden="true">Next try in ${wait} s.</span></span>
    <span class="end"><button class="btn small" @click=${reconnect}>Try now</button></span>
  </div>`;
}

function backBanner() {
  const { missed } = app.link;
  const words = missed ? `${plural(missed, "event")} came meanwhile, none is missing.` : "Nothing happened meanwhile.";
  return html`<div class="banner calm">${glyph("check", "t-good")}<b>Live again</b><span>${words}</span></div>`;
}

const watching = html`<div class="banner calm">
  ${glyph("lock")}
  <b>You are watching</b>
  <span>Another client controls this session.</span>
</div>`;

function banners() {
  const parts = [
    app.link.state === "lost" ? lostBanner() : nothing,
    app.link.state === "back" ? backBanner() : nothing,
    app.isReadOnly ? watching : nothing,
    permissionBar(app.timeline),
  ];
  // Without white space, so that CSS can tell when it is empty.
  return html`<div class="banners">${parts}</div>`;
}

// The middle.

const failed = (title, error, again) => html`<div class="blank" role="alert">
  <h2>${title}</h2>
  <p>${safe(error.message)} <code>${error.code || error.reason}</code></p>
  <p>What the store holds is safe.</p>
  <button class="btn small" @click=${again}>Try again</button>
</div>`;

function startAgain() {
  app.failure = null;
  start();
}

function welcome() {
  if (app.failure) return failed("The sessions cannot be read", app.failure, startAgain);
  if (!app.isListed) return nothing;
  const store = app.info?.store ?? "";
  if (app.sessions.size) {
    return html`<div class="blank">
      <h2>Choose a session</h2>
      <p>${plural(app.sessions.size, "session")} in <code>${safe(store)}</code>.</p>
    </div>`;
  }
  return html`<div class="blank">
    <h2>No sessions yet</h2>
    ${app.info?.model ? html`
      <p>Begin a session with ${safe(app.info.model)}.</p>
      <button class="btn primary" @click=${() => openDialog({ kind: "begin" })}>New session</button>` : nothing}
    ${app.info?.rehearsal ? html`
      <p>Watch a scripted model fix a bug while it is told things on the side. It needs no key and takes a minute and a
        half.</p>
      <button class="btn side" @click=${rehearse}>Start the rehearsal</button>` : nothing}
    <p>${app.info?.rehearsal ? "Or let" : "Let"} a program work on this store:</p>
    <pre tabindex="0">import sideband as sb

async with sb.open_store(${safe(JSON.stringify(store))}) as store:
    session = await store.session("fix-login")
    await session.remind("CI is red.", ttl_turns=2)</pre>
  </div>`;
}

function desk() {
  if (!app.sessionId) return html`<div class="work welcome">${welcome()}</div>`;
  const middle = app.failure
    ? failed("This session cannot be shown", app.failure, () => load(app.sessionId))
    : html`${timelinePane()}${transcriptPane()}${composerPane()}`;
  return html`<div class="work">${middle}</div>${remindersPane()}`;
}

const TABS = [
  ["transcript", "told", "Transcript"], ["reminders", "live", "Reminders"], ["timeline", "timeline", "Timeline"],
  ["sessions", "menu", "Sessions"],
];
function tabs() {
  const pending = app.timeline?.reminders.filter((row) => !isOver(row)).length;
  const tab = ([id, name, word]) => html`<button
      aria-current=${app.pane === id ? "true" : nothing} @click=${() => { app.pane = id; changed(); }}>
    ${glyph(name)}${word}${id === "reminders" && pending ? html`<b>${pending}</b>` : nothing}</button>`;
  return html`<nav class="tabs" aria-label="Panes">${TABS.map(tab)}</nav>`;
}

function toast(note) {
  const tone = note.tone === "ok" ? "good" : note.tone;
  const act = (run) => () => { dismiss(note.id); run(); };
  const action = ([word, run]) => html`<button class="btn small" @click=${act(run)}>${word}</button>`;
  return html`<div class="toast ${note.tone}" role=${note.tone === "bad" ? "alert" : "status"}>
    ${glyph(note.glyph, `t-${tone}`)}
    <p class="head">${note.title} ${note.code ? html`<code>${note.code}</code>` : nothing}</p>
    <button class="act" aria-label="Dismiss" @click=${() => dismiss(note.id)}>${glyph("cleared")}</button>
    ${note.text ? html`<p>${safe(note.text)}</p>` : nothing}
    ${note.more ? html`<p>${note.more}</p>` : nothing}
    ${note.actions?.length ? html`<div class="do">${note.actions.map(action)}</div>` : nothing}
  </div>`;
}

const login = () => html`<main class="login">
  ${logo}
  <h1>Sideband studio</h1>
  <p>This page needs the one-time link of its server.</p>
  <p>Open the link that <code>sideband serve</code> printed, or run <code>sideband open ${location.origin}</code>.</p>
</main>`;

function skip(event) {
  event.preventDefault();
  document.querySelector("#transcript")?.focus();
}

function page() {
  if (app.needsLogin) return login();
  const inspecting = app.inspect && app.sessionId;
  const view = inspecting ? "inspect" : app.sessionId ? "" : "bare";
  const pane = app.sessionId && !inspecting ? app.pane : "transcript";
  return html`
    <a class="skip" href="#transcript" @click=${skip}>Skip to the transcript</a>
    <div class="studio ${view} at-${pane} ${app.link.state === "lost" ? "lost" : ""}">
      ${topBar()}
      ${inspecting ? inspectorView(banners()) : html`${sessionsPane()}<main class="desk">${banners()}${desk()}</main>`}
      ${tabs()}
    </div>
    <div class="toasts">${repeat(app.toasts, (note) => note.id, toast)}</div>
    ${dialogPart()}
    <p class="sr status" role="status">${app.status}</p>`;
}

// Drawing.

const root = document.querySelector("#studio");
function draw() {
  const summary = app.sessions.get(app.sessionId);
  document.title = summary ? `${plain(titleOf(summary), 60)} · Sideband studio` : "Sideband studio";
  keepPlace(() => keepFocus(() => {
    render(page(), root);
    settleDialog();
  }));
  if (settleTimeline()) changed();
  settleInspector();
  settleTranscript();
  settleComposer();
  roveSoon();
  if (app.scrollTo) {
    const rows = document.querySelectorAll(`[data-row="${CSS.escape(app.scrollTo)}"]`);
    for (const row of rows) row.scrollIntoView({ block: "nearest" });
    app.scrollTo = null;
  }
}
onChange(draw);

// The address: #session=ID, and &request=TURN for the inspector.

async function route() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("login")) {
    history.replaceState(null, "", location.pathname);
    await call("POST", "/login", { code: given.get("login") }).catch(() => { /* /api/info tells whether we are in */ });
    await start();
    return;
  }
  const id = given.get("session");
  const request = given.get("request");
  app.drawer = false;
  if (id !== app.sessionId) {
    app.pane = "transcript";
    app.inspect = null;
    load(id);
  }
  if (request) inspect(/^\d+$/.test(request) ? request : "next");
  else app.inspect = null;
  changed();
}

async function start() {
  app.needsLogin = false;
  await loadList();
  if (app.needsLogin) return;
  const only = new URLSearchParams(location.hash.slice(1)).has("session") ? null : ordered()[0];
  if (only) history.replaceState(null, "", sessionHref(only.id));
  if (!only && !location.hash) load(null);
  route();
}

addEventListener("hashchange", route);
addEventListener("keydown", onKey);
addEventListener("focusin", onFocus);
addEventListener("pointerdown", closeDrawer);
setInterval(() => { if (app.link.state === "lost") changed(); }, 1000);
setTheme(theme);
if (location.hash.includes("login=")) route();
else start();
