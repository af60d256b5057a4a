// The keyboard: panes, lists with one tab stop each, and single letters while a list has the focus.

import { app, changed, isOver, requestHref, rowOf, sessionHref } from "./state.js";
import { select } from "./actions.js";
import { openDialog } from "./dialogs.js";
import { canFocus, home } from "./focus.js";
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
    const stop = rows.find((row) => row.dataset.row === current[name])
      ?? rows.find((row) => row.dataset.row === app.selected || row.querySelector("[aria-current]"))
      ?? (name === "turns" ? rows.at(-1) : rows[0]);
    for (const row of rows) {
      const index = row === stop ? 0 : -1;
      const focus = target(row);
      if (focus.tabIndex !== index || !focus.hasAttribute("tabindex")) focus.tabIndex = index;
      for (const control of row.querySelectorAll("button, a, summary, pre")) {
        if (control.tabIndex !== index) control.tabIndex = index;
      }
    }
  }
}

function move(list, row, step) {
  const rows = rowsIn(list);
  const at = rows.indexOf(row);
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
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

function pickPast(turn, timeline) {
  app.past = app.past === turn || turn > timeline.turn ? null : turn;
  changed();
}

/** What a letter does on a row of a list. */
function onRow(key, list, row) {
  const { timeline } = app;
  if (!timeline) return false;
  const id = row.dataset.row;
  if (list === "turns" || list === "requests") {
    if (key === "i" || (key === "Enter" && list === "requests")) location.hash = requestHref(id);
    else if (key === "Enter") pickPast(Number(id), timeline);
    else return false;
    return true;
  }
  if (list !== "lanes" && list !== "reminders") return false;
  const message = id.startsWith("m:") ? timeline.messages.find((each) => each.id === id.slice(2)) : null;
  const reminder = message ? null : rowOf(timeline, id);
  if (key === "Enter" && list === "lanes") select(id);
  else if (key === "i" && reminder?.shown.length) location.hash = requestHref(reminder.shown.at(-1).turn);
  else if (app.isReadOnly || app.link.state === "lost") return false;
  else if (key === "e" && message) editMessage(message);
  else if (key === "e" && reminder?.state === "queued") edit(reminder);
  else if (key === "x" && message) openDialog({ kind: "revoke", id: message.id });
  else if (key === "x" && reminder?.state === "queued") openDialog({ kind: "revoke", id: reminder.id });
  else if (key === "x" && reminder && !isOver(reminder)) openDialog({ kind: "clear", id: reminder.id });
  else return false;
  return true;
}

export function onKey(event) {
  const { key, target: from } = event;
  if (key === "Tab") rove();
  if (event.defaultPrevented || event.isComposing) return;
  if (key === "F6") {
    event.preventDefault();
    focusPane(event.shiftKey ? -1 : 1);
    return;
  }
  const isCommand = event.ctrlKey || event.metaKey;
  if (isCommand && key.toLowerCase() === "k") {
    event.preventDefault();
    openDialog({ kind: "commands" });
    return;
  }
  if (isCommand || event.altKey || app.dialog) return;
  if (key === "Escape") {
    if (app.drawer) {
      app.drawer = false;
      document.querySelector("#drawer").focus();
    } else if (app.past !== null) app.past = null;
    else if (app.selected) app.selected = null;
    else if (app.inspect) location.hash = sessionHref(app.sessionId);
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

let inspected = "";

/** If what had the focus went away in a draw, its neighbour in the list gets it, or the nearest place that is left. */
export function keepFocus(draw) {
  const active = document.activeElement;
  const row = active?.closest?.("[data-row]");
  const list = active?.closest?.("[data-list]");
  const at = row ? rowsIn(list).indexOf(row) : -1;
  const left = app.inspect ? "" : inspected;
  inspected = app.inspect?.turn ?? "";
  draw();
  const now = document.activeElement;
  if (app.dialog || (now === active ? canFocus(active) : now !== document.body)) return;
  rove();
  const rows = at >= 0 && list.isConnected ? rowsIn(list) : [];
  const next = rows.find((each) => each.dataset.row === row.dataset.row) ?? rows[Math.min(at, rows.length - 1)];
  const place = next ? target(next) : canFocus(active) ? active : home(left && `.turn[data-row="${left}"]`);
  // The transcript is then scrolled to where it was.
  place?.focus({ preventScroll: !next });
}
