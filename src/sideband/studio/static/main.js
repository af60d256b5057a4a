// The page: login, address, top bar, session list, and the loop that draws.

import { html, nothing, render } from "./vendor/lit-html.js";
import { repeat } from "./vendor/directives/repeat.js";
import { dismiss, load, loadList, moreSessions, reconnect, rehearse } from "./actions.js";
import { call } from "./api.js";
import { composerPane, settleComposer } from "./composer.js";
import { dialogPart, openDialog, settleDialog } from "./dialogs.js";
import { inspect, inspectorView, requestHref } from "./inspector.js";
import { keepFocus, onFocus, onKey, roveSoon } from "./keys.js";
import { glyph, spinner } from "./marks.js";
import { remindersPane } from "./reminders.js";
import { app, changed, onChange, titleOf } from "./state.js";
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

function doing(timeline) {
  if (!timeline) return nothing;
  if (timeline.closed) return html`${glyph("closed", "t-over")}closed`;
  if (timeline.permissions.length) return html`${glyph("held", "t-cut")}asks you`;
  if (app.cancelling) return html`${spinner("t-cut")}cancelling`;
  if (timeline.openTurn !== null) return html`${spinner("t-user")}replying, turn ${timeline.openTurn}`;
  if (timeline.running) return html`${spinner("t-user")}running tools, turn ${timeline.turn}`;
  return app.sessions.get(app.sessionId)?.state === "left" ? html`${glyph("left", "t-bad")}its process died` : html`${glyph("idle", "t-over")}idle`;
}

function meter() {
  const row = [...app.requests.values()].filter((each) => each.outcome !== "coming").sort((a, b) => a.turn - b.turn).at(-1);
  if (!row) return nothing;
  return html`<a class="meter" href=${requestHref(row.turn)} title="Inspect the request of turn ${row.turn}"><span><b>${number(Math.round(row.tokens))}</b> tokens</span><span><b>${percent(row.share)}</b> cached</span><span><b>${times(row.relative)}</b> cost</span></a>`;
}

function pill() {
  const { state } = app.link;
  const cursor = app.timeline?.cursor;
  const [name, tone, word] = state === "lost" ? ["plug", "t-cut", "Lost"] : state === "connecting" ? ["queued", "t-over", "Connecting"] : ["live", "t-good", "Live"];
  return html`<span class="pill">${glyph(name, tone)}<b>${word}</b>${cursor ? html`<span class="num">event ${number(cursor)}</span>` : nothing}</span>`;
}

const button = (name, label, act, id = nothing) => html`<button class="btn icon plain small" id=${id} aria-label=${label} title=${label} @click=${act}>${glyph(name)}</button>`;

function topBar() {
  const { timeline } = app;
  const summary = app.sessions.get(app.sessionId);
  return html`<header class="top" id="top" tabindex="-1">
    ${button("menu", "Sessions", () => { app.drawer = !app.drawer; changed(); }, "drawer")}
    <a class="brand" href="#" aria-label="Sideband studio"><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 2v16"></path><path class="b" d="M4.4 8v10M15.6 8v10"></path></svg><span>Sideband <small>studio</small></span></a>
    <div class="crumb">${app.sessionId ? html`<h1 class="clip" title=${plain(summary ? titleOf(summary) : app.sessionId)}>${safe(summary ? titleOf(summary) : app.sessionId)}</h1><span class="doing">${doing(timeline)}</span>` : html`<h1 class="sr">Sideband studio</h1>`}</div>
    <div class="end">${timeline && !app.isReadOnly ? html`<button class="btn small cancel ${timeline.running ? "" : "away"}" ?disabled=${app.cancelling || app.link.state === "lost"} @click=${() => openDialog({ kind: "cancel" })}>${glyph("closed")}${app.cancelling ? "Cancelling" : "Cancel turn"}</button>` : nothing}${timeline ? meter() : nothing}${pill()}
      ${button("search", "Commands (Ctrl K)", () => openDialog({ kind: "commands" }))}${button("help", "Keys and marks (?)", () => openDialog({ kind: "help" }))}
      ${button("theme", `Theme: ${theme}`, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]), "theme")}</div>
  </header>`;
}

// Sessions.

const LOOKS = { running: null, asking: ["held", "t-cut"], idle: ["idle", "t-over"], left: ["left", "t-bad"], closed: ["closed", "t-over"] };

/** Newest first, each followed by its sub-agents. */
function ordered() {
  const all = [...app.sessions.values()];
  const children = Map.groupBy(all, (each) => (app.sessions.has(each.parent) ? each.parent : null));
  const walk = (parent, depth) => (children.get(parent) ?? []).flatMap((each) => [{ ...each, depth }, ...walk(each.id, Math.min(depth + 1, 3))]);
  return walk(null, 0);
}

function sessionsPane() {
  const rows = ordered();
  return html`<nav class="sessions pane ${app.drawer ? "drawn" : ""}" id="sessions" aria-label="Sessions" tabindex="-1">
    <div class="pane-head"><h2>Sessions</h2><span class="quiet">${rows.length || ""}${app.sessionsNext ? "+" : ""}</span><span class="end"><button class="btn small plain" @click=${() => openDialog({ kind: "begin" })}>New</button></span></div>
    <ol data-list="sessions">${repeat(rows, (row) => row.id, (row) => {
      const look = LOOKS[row.state];
      const counts = [row.live && `${row.live} live`, row.queued && `${row.queued} queued`].filter(Boolean).join(", ");
      const word = { running: counts || "running", asking: `asks you${counts && `, ${counts}`}`, idle: `idle${counts && `, ${counts}`}`, left: "its process died", closed: "closed" }[row.state];
      return html`<li data-row=${row.id}><a class="sess depth-${row.depth}" data-focus href="#session=${encodeURIComponent(row.id)}" aria-current=${row.id === app.sessionId ? "page" : nothing} title=${plain(titleOf(row))}>${row.depth && row.state !== "running" && row.state !== "asking" ? glyph("inherited", "quiet") : look ? glyph(...look) : spinner("t-user")}<b class="clip">${safe(titleOf(row))}</b><small>turn ${row.turn} · ${word}</small></a></li>`;
    })}</ol>
    ${app.sessionsNext ? html`<button class="btn small more" @click=${moreSessions}>Older sessions</button>` : nothing}
    <footer>${app.info ? html`<p>${app.info.model ? html`${safe(app.info.model)} answers.` : "No model is set: sessions of other programs are shown."}</p>${app.info.rehearsal ? html`<button class="btn small" @click=${rehearse}>${rows.some((row) => row.rehearsal) ? "Rehearse again" : "Start the rehearsal"}</button>` : nothing}` : nothing}</footer>
  </nav>`;
}

// The middle.

function banners() {
  const { link, timeline } = app;
  const wait = Math.max(0, Math.ceil((link.nextTryAt - Date.now()) / 1000));
  return html`<div class="banners">
    ${link.state === "lost" ? html`<div class="banner cut" role="alert">${glyph("plug")}<b>Connection lost</b><span>${timeline ? `Shown up to event ${number(timeline.cursor)}. ` : ""}<span aria-hidden="true">Next try in ${wait} s.</span></span><span class="end"><button class="btn small" @click=${reconnect}>Try now</button></span></div>` : nothing}
    ${link.state === "back" ? html`<div class="banner calm">${glyph("check", "t-good")}<b>Live again</b><span>${link.missed ? `${plural(link.missed, "event")} came meanwhile, none is missing.` : "Nothing happened meanwhile."}</span></div>` : nothing}
    ${app.isReadOnly ? html`<div class="banner calm">${glyph("lock")}<b>You are watching</b><span>Another client controls this session.</span></div>` : nothing}
    ${permissionBar(timeline)}</div>`;
}

const failed = (title, error, again) => html`<div class="blank" role="alert"><h2>${title}</h2><p>${safe(error.message)} <code>${error.code || error.reason}</code></p><p>What the store holds is safe.</p><button class="btn small" @click=${again}>Try again</button></div>`;

function welcome() {
  if (app.failure) return failed("The sessions cannot be read", app.failure, () => { app.failure = null; start(); });
  if (!app.isListed) return nothing;
  if (app.sessions.size) return html`<div class="blank"><h2>Choose a session</h2><p>${plural(app.sessions.size, "session")} in <code>${safe(app.info?.store ?? "this store")}</code>.</p></div>`;
  return html`<div class="blank"><h2>No sessions yet</h2>
    ${app.info?.model ? html`<p>Begin a session with ${safe(app.info.model)}.</p><button class="btn primary" @click=${() => openDialog({ kind: "begin" })}>New session</button>` : nothing}
    ${app.info?.rehearsal ? html`<p>Watch a scripted model fix a bug while it is told things on the side. It needs no key and takes a minute and a half.</p><button class="btn side" @click=${rehearse}>Start the rehearsal</button>` : nothing}
    <p>${app.info?.rehearsal ? "Or let" : "Let"} a program work on the store <code>${safe(app.info?.store ?? "")}</code>:</p><pre tabindex="0">import sideband as sb

async with sb.open_store("sqlite:///sideband.db") as store:  # the address of the store
    session = await store.session("fix-login")
    await session.remind("CI is red.", ttl_turns=2)</pre></div>`;
}

const TABS = [["transcript", "told", "Transcript"], ["reminders", "live", "Reminders"], ["timeline", "timeline", "Timeline"], ["sessions", "menu", "Sessions"]];
function tabs() {
  const pending = app.timeline ? app.timeline.reminders.filter((row) => row.state === "live" || row.state === "queued").length : 0;
  return html`<nav class="tabs" aria-label="Panes">${TABS.map(([id, name, word]) => html`<button aria-current=${app.pane === id ? "true" : nothing} @click=${() => { app.pane = id; changed(); }}>${glyph(name)}${word}${id === "reminders" && pending ? html`<b>${pending}</b>` : nothing}</button>`)}</nav>`;
}

const toasts = () => html`<div class="toasts">${repeat(app.toasts, (note) => note.id, (note) => html`<div class="toast ${note.tone}" role=${note.tone === "bad" ? "alert" : "status"}>${glyph(note.glyph, `t-${note.tone === "ok" ? "good" : note.tone}`)}<p class="head">${note.title} ${note.code ? html`<code>${note.code}</code>` : nothing}</p><button class="act" aria-label="Dismiss" @click=${() => dismiss(note.id)}>${glyph("cleared")}</button>
  ${note.text ? html`<p>${safe(note.text)}</p>` : nothing}${note.more ? html`<p>${note.more}</p>` : nothing}${note.actions?.length ? html`<div class="do">${note.actions.map(([word, act]) => html`<button class="btn small" @click=${() => { dismiss(note.id); act(); }}>${word}</button>`)}</div>` : nothing}</div>`)}</div>`;

const login = () => html`<main class="login"><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 2v16"></path><path class="b" d="M4.4 8v10M15.6 8v10"></path></svg><h1>Sideband studio</h1><p>This page needs the one-time link of its server.</p><p>Open the link that <code>sideband serve</code> printed, or run <code>sideband open ${location.origin}</code>.</p></main>`;

function page() {
  if (app.needsLogin) return login();
  const inspecting = app.inspect && app.sessionId;
  const body = inspecting ? inspectorView() : html`${sessionsPane()}<main class="desk">${app.sessionId
    ? html`<div class="work">${app.failure ? failed("This session cannot be shown", app.failure, () => load(app.sessionId)) : html`${banners()}${timelinePane()}${transcriptPane()}${composerPane()}`}</div>${remindersPane()}`
    : html`<div class="work welcome">${banners()}${welcome()}</div>`}</main>`;
  return html`<a class="skip" href="#transcript" @click=${(event) => { event.preventDefault(); document.querySelector("#transcript")?.focus(); }}>Skip to the transcript</a>
    <div class="studio ${inspecting ? "inspect" : app.sessionId ? "" : "bare"} at-${app.sessionId && !inspecting ? app.pane : "transcript"} ${app.link.state === "lost" ? "lost" : ""}">${topBar()}${body}${tabs()}</div>
    ${toasts()}${dialogPart()}<p class="sr status" role="status">${app.status}</p>`;
}

// Drawing.

const root = document.querySelector("#studio");
function draw() {
  const summary = app.sessions.get(app.sessionId);
  document.title = summary ? `${plain(titleOf(summary), 60)} · Sideband studio` : "Sideband studio";
  keepFocus(() => {
    render(page(), root);
    settleDialog();
  });
  if (settleTimeline()) changed();
  settleTranscript();
  settleComposer();
  roveSoon();
  if (app.scrollTo) {
    for (const row of document.querySelectorAll(`[data-row="${CSS.escape(app.scrollTo)}"]`)) row.scrollIntoView({ block: "nearest" });
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
  if (only) history.replaceState(null, "", `#session=${encodeURIComponent(only.id)}`);
  if (!only && !location.hash) load(null);
  route();
}

addEventListener("hashchange", route);
addEventListener("keydown", onKey);
addEventListener("focusin", onFocus);
setInterval(() => { if (app.link.state === "lost") changed(); }, 1000);
setTheme(theme);
if (location.hash.includes("login=")) route();
else start();
