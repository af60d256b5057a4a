// Dialogs: edit, clear, cancel, new session, commands and help. One is open at a time.

import { html, nothing } from "./vendor/lit-html.js";
import { cancelTurn, clear, newSession, rehearse, replace, revoke, survivors } from "./actions.js";
import { choose } from "./composer.js";
import { STATES, stateGlyph, trustChip } from "./marks.js";
import { app, changed, drawnState, isOver, senderName, titleOf } from "./state.js";
import { safe } from "./text.js";

let before = null;
export function openDialog(dialog) {
  before ??= document.activeElement;
  app.dialog = dialog;
  changed();
}
export function closeDialog() {
  app.dialog = null;
  changed();
}

const close = html`<button type="button" class="btn small plain" @click=${closeDialog}>Cancel <kbd>Esc</kbd></button>`;
const set = (name) => (event) => { app.dialog[name] = event.target.value; changed(); };

const KINDS = {
  edit(dialog) {
    const row = dialog.isReminder ? app.timeline.reminders.findLast((each) => each.id === dialog.id) : app.timeline.messages.find((each) => each.id === dialog.id);
    const waits = row && (row.state === "queued" || row.state === "waiting");
    const save = async (event) => {
      event.preventDefault();
      if (dialog.text.trim() && waits && await replace(dialog.id, dialog.isReminder, dialog.text.trim())) closeDialog();
    };
    return [`Edit a queued ${dialog.isReminder ? "reminder" : "message"}`, html`<form @submit=${save}><textarea aria-label="Text" rows="4" .value=${dialog.text} @input=${set("text")}></textarea>
      <p class="hint" role="status">${waits ? "Keeps its place in the queue. The model has not seen it." : "The drain took it; the text can no longer be changed."}</p>
      <div class="row"><button type="button" class="btn small danger" ?disabled=${!waits} @click=${() => { closeDialog(); revoke(dialog.id); }}>Revoke</button><span class="end">${close}<button class="btn small primary" ?disabled=${!waits}>Replace</button></span></div></form>`];
  },
  revoke(dialog) {
    const row = [...app.timeline.reminders, ...app.timeline.messages].findLast((each) => each.id === dialog.id);
    const waits = row && (row.state === "queued" || row.state === "waiting");
    const save = (event) => { event.preventDefault(); closeDialog(); if (waits) revoke(dialog.id); };
    return ["Revoke what is queued", html`<form @submit=${save}><p>${safe(row?.body ?? row?.text ?? "")}</p>
      <p class="hint" role="status">${waits ? "The model has not seen it, and will not." : "The drain took it; it can no longer be revoked."}</p>
      <div class="row"><span class="end">${close}<button class="btn small danger" autofocus ?disabled=${!waits}>Revoke</button></span></div></form>`];
  },
  clear(dialog) {
    const { id, tag = "", key = "" } = dialog;
    const rows = app.timeline.reminders.filter((row) => !isOver(row) && (id ? row.id === id : (tag || key) && (!tag || row.tags.includes(tag)) && (!key || row.dedupeKey === key) && row.mode !== "audit_only"));
    const pending = app.timeline.reminders.filter((row) => !isOver(row));
    const values = (of) => [...new Set(pending.flatMap(of))].filter(Boolean).map((value) => html`<option value=${value}></option>`);
    const save = async (event) => {
      event.preventDefault();
      if (rows.length && await clear(id ? { id } : { ...(tag && { tag }), ...(key && { dedupeKey: key }) })) closeDialog();
    };
    return [id ? "Clear this reminder" : "Clear reminders", html`<form @submit=${save}>
      ${id ? nothing : html`<div class="row"><label class="opt">tag <input list="of-tags" placeholder="any" .value=${tag} @input=${set("tag")}></label><label class="opt">key <input class="key" list="of-keys" placeholder="any" .value=${key} @input=${set("key")}></label><datalist id="of-tags">${values((row) => row.tags)}</datalist><datalist id="of-keys">${values((row) => row.dedupeKey)}</datalist></div>`}
      <ul class="matches" tabindex="0" aria-label="What would end">${rows.slice(0, 100).map((row) => html`<li class="card">${stateGlyph(drawnState(app.timeline, row))}<p class="body">${safe(row.body)}</p><p class="line">${trustChip(row.sender)} <span>${safe(senderName(row.sender))}</span>${row.dedupeKey ? html`<span class="key">${safe(row.dedupeKey)}</span>` : nothing}</p></li>`)}</ul>
      <p class="hint" role="status">${rows.length ? `${rows.length} ${rows.length === 1 ? "matches" : "match"}. Bytes already sent stay in the history; a withdrawal line follows them.` : id ? "It has ended already." : tag || key ? "Nothing matches." : "Give a tag or a key; what matches is listed first."}</p>
      <div class="row"><span class="end">${close}<button class="btn small danger" ?disabled=${!rows.length}>Clear ${rows.length || ""}</button></span></div></form>`];
  },
  cancel() {
    return ["Cancel the turn?", html`<p>The running turn ends; nothing in it counts as shown.</p><p>${safe(survivors(app.timeline))}</p><div class="row"><span class="end">${close}<button class="btn small danger" autofocus @click=${() => { closeDialog(); cancelTurn(); }}>Cancel turn</button></span></div>`];
  },
  begin(dialog) {
    const save = async (event) => {
      event.preventDefault();
      if (await newSession(dialog.title?.trim(), dialog.prompt?.trim())) closeDialog();
    };
    return ["New session", html`<form @submit=${save}><label>Title <input class="text" @input=${set("title")}></label><label>First prompt <textarea rows="3" @input=${set("prompt")}></textarea></label>
      <p class="hint">${app.info?.model ? html`${safe(app.info.model)} answers in ${safe(app.info.workspace)}.` : "This server has no model, so a prompt is refused; another program can work on the session."}</p><div class="row"><span class="end">${close}<button class="btn small primary">Begin</button></span></div></form>`];
  },
  commands(dialog) {
    const words = (dialog.text ?? "").toLowerCase();
    const found = commands().filter(([name]) => name.toLowerCase().includes(words)).slice(0, 12);
    const at = Math.min(dialog.at ?? 0, found.length - 1);
    const run = (command) => { closeDialog(); command?.[1](); };
    const keydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); app.dialog.at = (at + step + found.length) % found.length; changed(); }
      if (event.key === "Enter") { event.preventDefault(); run(found[at]); }
    };
    return ["Commands", html`<input class="text" role="combobox" aria-label="Command" aria-expanded="true" aria-controls="commands" aria-activedescendant=${found.length ? `command-${at}` : nothing} autocomplete="off" @keydown=${keydown} @input=${(event) => { app.dialog.at = 0; set("text")(event); }}>
      <ul id="commands" class="commands" role="listbox" aria-label="Commands">${found.map((command, index) => html`<li id="command-${index}" role="option" aria-selected=${index === at} @click=${() => run(command)}>${safe(command[0])}<kbd>${command[2] ?? ""}</kbd></li>`)}</ul>${found.length ? nothing : html`<p class="hint">No command has these words.</p>`}`];
  },
  help() {
    return ["Keys and marks", html`<div class="help" tabindex="0"><dl>${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
      <table class="marks"><tbody>${Object.entries(STATES).map(([name, state]) => html`<tr><td>${stateGlyph(name)}</td><th scope="row">${state.word}</th><td>${state.means}</td></tr>`)}</tbody></table></div><div class="row"><span class="end"><button class="btn small" @click=${closeDialog}>Close</button></span></div>`];
  },
};

const KEYS = [
  ["F6", "next pane; Shift F6 the one before"], ["j k ↑ ↓", "move in a list"], ["Enter", "open"], ["e", "edit before delivery"], ["x", "revoke or clear"],
  ["i", "inspect the request"], ["/", "filter the reminders"], ["c", "write"], ["Ctrl K", "commands"], ["?", "this help"], ["Esc", "back to live"],
];

function commands() {
  const focus = (id) => () => { app.pane = id; changed(); requestAnimationFrame(() => document.querySelector(`#${id}`)?.focus()); };
  const { timeline } = app;
  return [
    ...(timeline ? [
      ["Remind", () => choose("remind"), "c"], ["Interrupt", () => choose("interrupt")], ["Steer the turn", () => choose("steer")], ["Queue a message", () => choose("queue")], ["Prompt", () => choose("prompt")],
      ...(timeline.running ? [["Cancel the turn", () => openDialog({ kind: "cancel" })]] : []),
      ["Clear reminders…", () => openDialog({ kind: "clear" })], ["Filter the reminders", () => { focus("reminders")(); requestAnimationFrame(() => document.querySelector("#filter")?.focus()); }, "/"],
      ["Inspect the last request", () => { location.hash = `session=${encodeURIComponent(app.sessionId)}&request=${timeline.openTurn ?? (timeline.turn || "next")}`; }, "i"],
      ["Timeline as table", () => { app.asTable = !app.asTable; changed(); }], ["Go to the transcript", focus("transcript"), "F6"], ["Go to the timeline", focus("timeline")], ["Go to the reminders", focus("reminders")],
    ] : []),
    ["New session", () => openDialog({ kind: "begin" })], ...(app.info?.rehearsal ? [["Start the rehearsal", rehearse]] : []), ["Change the theme", () => document.querySelector("#theme")?.click()], ["Keys and marks", () => openDialog({ kind: "help" }), "?"],
    ...[...app.sessions.values()].map((summary) => [`Session ${titleOf(summary)}`, () => { location.hash = `session=${encodeURIComponent(summary.id)}`; }]),
  ];
}

export function dialogPart() {
  if (!app.dialog) return nothing;
  const [title, body] = KINDS[app.dialog.kind](app.dialog);
  return html`<dialog class="dialog" aria-label=${title} @cancel=${closeDialog} @close=${closeDialog} @click=${(event) => { if (event.target === event.currentTarget) closeDialog(); }}><div><h2>${title}</h2>${body}</div></dialog>`;
}

export function settleDialog() {
  const dialog = document.querySelector("dialog");
  if (dialog && !dialog.open) dialog.showModal();
  if (!dialog && before) {
    if (before.isConnected) before.focus();
    before = null;
  }
}
