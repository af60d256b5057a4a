// The keyboard: panes, lists with one tab stop each, and single letters while a list has the focus.

import { app, changed, isOver, rowOf } from "./state.js";
import { select } from "./actions.js";
import { openDialog } from "./dialogs.js";
import { edit, editMessage } from "./reminders.js";

const PANES = ["top", "sessions", "timeline", "transcript", "composer", "reminders"];
const current = {};

const rowsIn = (list) => [...list.querySelectorAll("[data-row]")];
const target = (row) => (row.matches("[data-focus]") ? row : row.querySelector("[data-focus]") ?? row);

let soon = 0;
/** After a draw, when it is quiet: touching each row in each frame would cost more than the draw. */
export function roveSoon() {
  soon ||= setTimeout(() => { soon = 0; rove(); }, 120);
}

/** One row of each list is in the tab order, with the controls inside it. */
function rove() {
  for (const list of document.querySelectorAll("[data-list]")) {
    const rows = rowsIn(list);
    const name = list.dataset.list;
    const stop = rows.find((row) => row.dataset.row === current[name]) ?? rows.find((row) => row.dataset.row === app.selected || row.querySelector("[aria-current]")) ?? (name === "turns" ? rows.at(-1) : rows[0]);
    for (const row of rows) {
      const index = row === stop ? 0 : -1;
      const focus = target(row);
      if (focus.tabIndex !== index || !focus.hasAttribute("tabindex")) focus.tabIndex = index;
      for (const control of row.querySelectorAll("button, a, summary, pre")) if (control.tabIndex !== index) control.tabIndex = index;
    }
  }
}

function move(list, row, step) {
  const rows = rowsIn(list);
  const at = rows.indexOf(row);
  const next = step === Infinity ? rows.at(-1) : step === -Infinity ? rows[0] : rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  if (!next) return;
  current[list.dataset.list] = next.dataset.row;
  rove();
  target(next).focus();
  next.scrollIntoView({ block: "nearest" });
}

export function focusPane(step) {
  const panes = PANES.map((id) => document.getElementById(id)).filter((pane) => pane?.getClientRects().length);
  const at = panes.findIndex((pane) => pane.contains(document.activeElement));
  const pane = panes[(at + step + panes.length) % panes.length];
  const first = pane?.querySelector('[data-list] [tabindex="0"], textarea') ?? pane;
  first?.focus();
}

const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: -Infinity, End: Infinity };

/** What a letter does on a row of a list. */
function onRow(key, list, row) {
  const { timeline } = app;
  if (!timeline) return false;
  const id = row.dataset.row;
  if (list === "turns" || list === "requests") {
    if (key === "i" || (key === "Enter" && list === "requests")) location.hash = `session=${encodeURIComponent(app.sessionId)}&request=${id}`;
    else if (key === "Enter") { app.past = app.past === Number(id) || Number(id) > timeline.turn ? null : Number(id); changed(); }
    else return false;
    return true;
  }
  if (list !== "lanes" && list !== "reminders") return false;
  const message = id.startsWith("m:") ? timeline.messages.find((each) => each.id === id.slice(2)) : null;
  const reminder = message ? null : rowOf(timeline, id);
  if (key === "Enter" && list === "lanes") select(id);
  else if (key === "i" && reminder?.shown.length) location.hash = `session=${encodeURIComponent(app.sessionId)}&request=${reminder.shown.at(-1).turn}`;
  else if (app.isReadOnly || app.link.state === "lost") return false;
  else if (key === "e" && message) editMessage(message);
  else if (key === "e" && reminder?.state === "queued") edit(reminder);
  else if (key === "x" && (message || reminder?.state === "queued")) openDialog({ kind: "revoke", id: (message ?? reminder).id });
  else if (key === "x" && reminder && !isOver(reminder)) openDialog({ kind: "clear", id: reminder.id });
  else return false;
  return true;
}

export function onKey(event) {
  const { key, target: from } = event;
  if (key === "Tab") rove();
  if (event.defaultPrevented || event.isComposing) return;
  if (key === "F6") { event.preventDefault(); focusPane(event.shiftKey ? -1 : 1); return; }
  if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "k") { event.preventDefault(); openDialog({ kind: "commands" }); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || app.dialog) return;
  if (key === "Escape") {
    if (app.drawer) app.drawer = false;
    else if (app.past !== null) app.past = null;
    else if (app.selected) app.selected = null;
    else if (app.inspect) location.hash = `session=${encodeURIComponent(app.sessionId)}`;
    changed();
    return;
  }
  if (from.matches("input, textarea, select")) return;
  const list = from.closest("[data-list]");
  const row = from.closest("[data-row]");
  if (!list || !row) return;
  const isControl = from !== target(row) && from.matches("button, a, summary");
  if (key in STEPS) { event.preventDefault(); move(list, row, STEPS[key]); }
  else if (key === "/") { event.preventDefault(); document.querySelector("#filter")?.focus(); }
  else if (key === "c") { event.preventDefault(); document.querySelector("#say")?.focus(); }
  else if (key === "?") { event.preventDefault(); openDialog({ kind: "help" }); }
  else if ((key !== "Enter" || !isControl) && onRow(key, list.dataset.list, row)) event.preventDefault();
}

export function onFocus(event) {
  const row = event.target.closest?.("[data-row]");
  const list = event.target.closest?.("[data-list]");
  if (!row || !list || current[list.dataset.list] === row.dataset.row) return;
  current[list.dataset.list] = row.dataset.row;
  rove();
}

/** If the focused row went away in a draw, its neighbour gets the focus. */
export function keepFocus(draw) {
  const active = document.activeElement;
  const row = active?.closest?.("[data-row]");
  const list = active?.closest?.("[data-list]");
  const at = row ? rowsIn(list).indexOf(row) : -1;
  draw();
  if (at < 0 || (active.isConnected && document.activeElement === active) || !list.isConnected || app.dialog) return;
  if (document.activeElement !== document.body) return;
  const rows = rowsIn(list);
  const next = rows.find((each) => each.dataset.row === row.dataset.row) ?? rows[Math.min(at, rows.length - 1)];
  if (!next) return;
  current[list.dataset.list] = next.dataset.row;
  rove();
  target(next).focus();
}
