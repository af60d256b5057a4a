// Dialogs: edit, clear, cancel, new session, commands and help. One is open at a time.

import { html, nothing } from "./vendor/lit-html.js";
import { cancelTurn, clear, newSession, rehearse, replace, revoke, survivors } from "./actions.js";
import { choose, obstacle } from "./composer.js";
import { canFocus, home } from "./focus.js";
import { STATES, TRUST, pips, stateGlyph, trustChip } from "./marks.js";
import { app, changed, drawnState, isOver, isWaiting, requestHref, senderName, sessionHref, titleOf } from "./state.js";
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

const closer = (word) => html`<button type="button" class="btn small plain" @click=${closeDialog}>
  ${word} <kbd>Esc</kbd></button>`;
const close = closer("Cancel");
const buttons = (body) => html`<div class="row"><span class="end">${body}</span></div>`;
const set = (name) => (event) => { app.dialog[name] = event.target.value; changed(); };
const find = (id) => [...app.timeline.reminders, ...app.timeline.messages].findLast(
  (each) => each.id === id && !each.atTheDoor);

/** Each kind gives its title and its content. */
const KINDS = {
  edit(dialog) {
    const row = find(dialog.id);
    const waits = row && isWaiting(row);
    const save = async (event) => {
      event.preventDefault();
      const text = dialog.text.trim();
      if (text && waits && await replace(dialog.id, dialog.isReminder, text)) closeDialog();
    };
    const withdraw = () => { closeDialog(); revoke(dialog.id); };
    const hint = waits
      ? "Keeps its place in the queue. The model has not seen it."
      : "The drain took it; the text can no longer be changed.";
    return [`Edit a queued ${dialog.isReminder ? "reminder" : "message"}`, html`<form @submit=${save}>
      <textarea aria-label="Text" rows="4" .value=${dialog.text} @input=${set("text")}></textarea>
      <p class="hint" role="status">${hint}</p>
      <div class="row">
        <button type="button" class="btn small danger" ?disabled=${!waits} @click=${withdraw}>Revoke</button>
        <span class="end">${close}<button class="btn small primary" ?disabled=${!waits}>Replace</button></span>
      </div>
    </form>`];
  },
  revoke(dialog) {
    const row = find(dialog.id);
    const waits = row && isWaiting(row);
    const save = (event) => {
      event.preventDefault();
      closeDialog();
      if (waits) revoke(dialog.id);
    };
    const hint = waits
      ? "The model has not seen it, and will not."
      : "The drain took it; it can no longer be revoked.";
    return ["Revoke what is queued", html`<form @submit=${save}>
      <p>${safe(row?.body ?? row?.text ?? "")}</p>
      <p class="hint" role="status">${hint}</p>
      ${buttons(html`${close}<button class="btn small danger" autofocus ?disabled=${!waits}>Revoke</button>`)}
    </form>`];
  },
  clear(dialog) {
    const { id } = dialog;
    const rows = matching(dialog);
    const save = async (event) => {
      event.preventDefault();
      if (rows.length && await clear(selectorOf(dialog))) closeDialog();
    };
    const remove = html`<button
      class="btn small danger" ?autofocus=${Boolean(id)} ?disabled=${!rows.length}>Clear ${rows.length || ""}</button>`;
    return [id ? "Clear this reminder" : "Clear reminders", html`<form @submit=${save}>
      ${id ? nothing : selectorFields(dialog)}
      <ul class="matches" tabindex="0" aria-label="What would end">${rows.slice(0, 100).map(match)}</ul>
      <p class="hint" role="status">${clearHint(dialog, rows)}</p>
      ${buttons(html`${close}${remove}`)}
    </form>`];
  },
  cancel() {
    const confirm = () => { closeDialog(); cancelTurn(); };
    return ["Cancel the turn?", html`
      <p>The running turn ends; nothing in it counts as shown.</p>
      <p>${safe(survivors(app.timeline))}</p>
      ${buttons(html`${closer("Keep it running")}
        <button class="btn small danger" autofocus @click=${confirm}>Cancel turn</button>`)}`];
  },
  begin(dialog) {
    const save = async (event) => {
      event.preventDefault();
      if (await newSession(dialog.title?.trim(), dialog.prompt?.trim())) closeDialog();
    };
    const hint = app.info?.model
      ? html`${safe(app.info.model)} answers in ${safe(app.info.workspace)}.`
      : "This server has no model, so a prompt is refused; another program can work on the session.";
    return ["New session", html`<form @submit=${save}>
      <label>Title <input class="text" @input=${set("title")}></label>
      <label>First prompt <textarea rows="3" @input=${set("prompt")}></textarea></label>
      <p class="hint">${hint}</p>
      ${buttons(html`${close}<button class="btn small primary">Begin</button>`)}
    </form>`];
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
    const type = (event) => { app.dialog.at = 0; set("text")(event); };
    const option = (command, index) => html`<li
      id="command-${index}" role="option" aria-selected=${index === at} @click=${() => run(command)}>
      ${safe(command[0])}<kbd>${command[2] ?? ""}</kbd></li>`;
    return ["Commands", html`
      <input
        class="text" role="combobox" aria-label="Command" aria-expanded="true" aria-controls="commands"
        aria-activedescendant=${found.length ? `command-${at}` : nothing} autocomplete="off"
        @keydown=${keydown} @input=${type}>
      <ul id="commands" class="commands" role="listbox" aria-label="Commands">${found.map(option)}</ul>
      ${found.length ? nothing : html`<p class="hint">No command has these words.</p>`}`];
  },
  help() {
    const keys = KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`);
    const trust = Object.entries(TRUST).map(
      ([name, [, means]]) => mark(trustChip({ trust: name }), ...means.split(": ")));
    const states = Object.entries(STATES).map(([name, state]) => mark(stateGlyph(name), state.word, state.means));
    return ["Keys and marks", html`<div class="help" tabindex="0">
        <div>
          <dl>${keys}</dl>
          <table class="marks"><tbody>
            ${trust}${mark(pips(3, 2, true), "TTL", "spent, being spent in the open turn, left")}
          </tbody></table>
        </div>
        <table class="marks"><tbody>${states}</tbody></table>
      </div>
      ${buttons(html`<button class="btn small" @click=${closeDialog}>Close</button>`)}`];
  },
};

// Clearing.

const selectorOf = ({ id, tag, key }) => (id ? { id } : { ...(tag && { tag }), ...(key && { dedupeKey: key }) });

function matching({ id, tag, key }) {
  const pending = app.timeline.reminders.filter((row) => !isOver(row));
  if (id) return pending.filter((row) => row.id === id);
  if (!tag && !key) return [];
  const has = (row) => (!tag || row.tags.includes(tag)) && (!key || row.dedupeKey === key);
  return pending.filter((row) => row.mode !== "audit_only" && has(row));
}

function selectorFields({ tag = "", key = "" }) {
  const pending = app.timeline.reminders.filter((row) => !isOver(row));
  const values = (of) => [...new Set(pending.flatMap(of))].filter(Boolean)
    .map((value) => html`<option value=${value}></option>`);
  return html`<div class="row">
    <label class="opt">tag <input list="of-tags" placeholder="any" .value=${tag} @input=${set("tag")}></label>
    <label class="opt">key <input
      class="key" list="of-keys" placeholder="any" .value=${key} @input=${set("key")}></label>
    <datalist id="of-tags">${values((row) => row.tags)}</datalist>
    <datalist id="of-keys">${values((row) => row.dedupeKey)}</datalist>
  </div>`;
}

const match = (row) => html`<li class="card">
  ${stateGlyph(drawnState(app.timeline, row))}
  <p class="body">${safe(row.body)}</p>
  <p class="line">
    ${trustChip(row.sender)}
    <span>${safe(senderName(row.sender))}</span>
    ${row.dedupeKey ? html`<span class="key">${safe(row.dedupeKey)}</span>` : nothing}
  </p>
</li>`;

function clearHint({ id, tag, key }, rows) {
  const matches = `${rows.length} ${rows.length === 1 ? "matches" : "match"}`;
  if (rows.length) return `${matches}. Bytes already sent stay in the history; a withdrawal line follows them.`;
  if (id) return "It has ended already.";
  return tag || key ? "Nothing matches." : "Give a tag or a key; what matches is listed first.";
}

// Commands and help.

const KEYS = [
  ["F6", "next pane; Shift F6 the one before"], ["j k ↑ ↓", "move in a list"], ["Enter", "open"],
  ["e", "edit before delivery"], ["x", "revoke or clear"], ["i", "inspect the request"],
  ["/", "filter the reminders"], ["c", "write"], ["Ctrl K", "commands"], ["?", "this help"], ["Esc", "back to live"],
];

const mark = (sign, word, means) => html`<tr><td>${sign}</td><th scope="row">${word}</th><td>${means}</td></tr>`;

const SAY = [
  ["Remind", "remind", "c"], ["Interrupt", "interrupt"], ["Steer the turn", "steer"], ["Queue a message", "queue"],
  ["Prompt", "prompt"],
];

const focusOn = (selector) => requestAnimationFrame(() => document.querySelector(selector)?.focus());
const goTo = (id, selector = `#${id}`) => () => { app.pane = id; changed(); focusOn(selector); };

/** What the commands of a session are: [name, act, key]. */
function sessionCommands(timeline) {
  const last = timeline.openTurn ?? (timeline.turn || "next");
  return [
    ...SAY.filter(([, verb]) => !obstacle(verb, timeline)).map(([name, verb, key]) => [name, () => choose(verb), key]),
    ...(timeline.running ? [["Cancel the turn", () => openDialog({ kind: "cancel" })]] : []),
    ["Clear reminders…", () => openDialog({ kind: "clear" })],
    ["Filter the reminders", goTo("reminders", "#filter"), "/"],
    ["Inspect the last request", () => { location.hash = requestHref(last); }, "i"],
    ["Timeline as table", () => { app.asTable = !app.asTable; changed(); }],
    ["Go to the transcript", goTo("transcript"), "F6"],
    ["Go to the timeline", goTo("timeline")],
    ["Go to the reminders", goTo("reminders")],
  ];
}

function commands() {
  const open = (summary) => () => { location.hash = sessionHref(summary.id); };
  return [
    ...(app.timeline ? sessionCommands(app.timeline) : []),
    ["New session", () => openDialog({ kind: "begin" })],
    ...(app.info?.rehearsal ? [["Start the rehearsal", rehearse]] : []),
    ["Change the theme", () => document.querySelector("#theme")?.click()],
    ["Keys and marks", () => openDialog({ kind: "help" }), "?"],
    ...[...app.sessions.values()].map((summary) => [`Session ${titleOf(summary)}`, open(summary)]),
  ];
}

// Drawing.

export function dialogPart() {
  if (!app.dialog) return nothing;
  const [title, body] = KINDS[app.dialog.kind](app.dialog);
  const outside = (event) => { if (event.target === event.currentTarget) closeDialog(); };
  return html`<dialog
    class="dialog ${app.dialog.kind}" aria-label=${title} @cancel=${closeDialog} @close=${closeDialog} @click=${outside}
  ><div><h2>${title}</h2>${body}</div></dialog>`;
}

export function settleDialog() {
  const dialog = document.querySelector("dialog");
  if (dialog && !dialog.open) dialog.showModal();
  // One dialog may have followed another, which had the focus.
  if (dialog && !dialog.contains(document.activeElement)) {
    dialog.querySelector("[autofocus], input, textarea, button").focus();
  }
  if (!dialog && before) {
    if (before !== document.body) (canFocus(before) ? before : home())?.focus();
    before = null;
  }
}
