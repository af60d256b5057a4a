// Text that others wrote, and the numbers of the page. Everything here ends as text nodes.

import { html } from "./vendor/lit-html.js";

// C0 and C1 controls (not tab, line feed, carriage return before it), soft hyphen, zero-width, bidirectional, tag and
// variation characters: a reader cannot see them, so each is drawn as a label. Lone surrogates too.
const HIDDEN = new RegExp(
  [
    /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/u,
    /[\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180E\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF9-\uFFFB]/u,
    /[\u200B-\u200F\u2028-\u202E\u2060-\u206F]/u,
    /[\u{E0000}-\u{E0FFF}]/u,
    /[\uD800-\uDFFF]/u,
  ].map((each) => each.source).join("|"),
  "gu",
);
const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 13: "CR", 27: "ESC", 127: "DEL", 0xad: "SHY", 0xfeff: "BOM" };

function label(character) {
  const point = character.codePointAt(0);
  return NAMES[point] ?? `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Hostile text as text nodes in an isolated direction; invisible characters become labels. */
export function safe(value) {
  const text = String(value ?? "");
  return html`<bdi>${pieces(text)}</bdi>`;
}

export function pieces(text) {
  // Not `test`, which would let `matchAll` begin after the first match.
  if (text.search(HIDDEN) < 0) return text;
  const found = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    found.push(text.slice(from, match.index), html`<span class="unseen">${label(match[0])}</span>`);
    from = match.index + match[0].length;
  }
  found.push(text.slice(from));
  return found;
}

/** The same as a plain string, for titles and labels of controls. */
export function plain(value, most = 300) {
  const text = String(value ?? "").replace(HIDDEN, (character) => `[${label(character)}]`);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export const FOLD = 4096;

/** Cut at a boundary between characters, so that no half of a surrogate pair is left. */
export function head(text, most) {
  if (text.length <= most) return text;
  const end = /[\uD800-\uDBFF]/.test(text[most - 1]) ? most - 1 : most;
  return text.slice(0, end);
}

export function quoted(body, most = 34) {
  const line = plain(body.trim().split("\n", 1)[0], 400);
  return `“${line.length > most ? `${head(line, most - 1).trimEnd()}…` : line}”`;
}

const NUMBER = new Intl.NumberFormat("en-US");
export const number = (value) => NUMBER.format(value);
export const percent = (share) => `${Math.round(share * 100)} %`;
export const times = (ratio) => `${ratio.toFixed(2)}×`;
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function bytes(count) {
  if (count < 10_000) return `${number(count)} bytes`;
  return count < 1_000_000 ? `${number(Math.round(count / 1000))} KB` : `${(count / 1e6).toFixed(1)} MB`;
}

export const utf8Length = (text) => new TextEncoder().encode(text).length;

/** "9, 10 and 11", and "3 to 14" for a long run. */
export function turnList(turns) {
  const runs = [];
  for (const turn of turns) {
    const last = runs.at(-1);
    if (last && turn === last[1] + 1) last[1] = turn;
    else if (!last || turn !== last[1]) runs.push([turn, turn]);
  }
  const words = runs.flatMap(([a, b]) => (b - a > 1 ? [`${a} to ${b}`] : b > a ? [`${a}`, `${b}`] : [`${a}`]));
  const shown = words.length > 6 ? [`${words.length - 5} ranges before`, ...words.slice(-5)] : words;
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : (shown[0] ?? "");
}

const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const clock = (ms) => (ms ? CLOCK.format(ms) : "time not recorded");
