// One glyph, one word and one colour for each state. The words are those of the event log.

import { html, nothing } from "./vendor/lit-html.js";

/** A glyph. Without a label it is decoration beside its word. */
export const glyph = (name, tone = "", label = "") => html`<svg
  class="g ${tone}" role=${label ? "img" : nothing} aria-label=${label || nothing}
  aria-hidden=${label ? nothing : "true"}
><use href="#g-${name}"></use></svg>`;

export const STATES = {
  queued: { word: "Queued", tone: "t-side", means: "accepted and safe; waits for its seam" },
  live: { word: "Live", tone: "t-side", means: "in each request until it ends; a dot marks a turn that showed it" },
  held: { word: "Held", tone: "t-cut", means: "waits because a permission is asked for" },
  leftout: { word: "Left out", tone: "t-side", means: "live, but over the token budget of this turn" },
  inherited: { word: "Inherited", tone: "t-over", means: "came from the parent session" },
  expired: { word: "Expired", tone: "t-over", means: "its TTL ran out" },
  cleared: { word: "Cleared", tone: "t-over", means: "ended on request" },
  deduped: { word: "Deduped", tone: "t-over", means: "replaced by a newer one with its key" },
  revoked: { word: "Revoked", tone: "t-over", means: "withdrawn before a drain took it" },
  compacted_out: { word: "Compacted out", tone: "t-fold", means: "went with the old transcript" },
  audit_recorded: { word: "Audit only", tone: "t-over", means: "recorded, never shown to the model" },
  dropped: { word: "Dropped", tone: "t-bad", means: "could not be shown; the reason stands beside it" },
  interrupt: { word: "Interrupt", tone: "t-cut", means: "skipped a batch of tool calls" },
};

export const stateGlyph = (state) => glyph(state, STATES[state].tone);

export const TRUST = {
  operator: ["T0", "operator: this machine's own programs"],
  controller: ["T1", "controller: a client of this session"],
  peer: ["T2", "peer: another agent; quoted"],
  server: ["T3", "server: a tool server; quoted"],
};

export function trustChip(sender) {
  const [word, title] = TRUST[sender?.trust] ?? ["T?", "the sender was not recorded"];
  return html`<span class="chip-trust ${word.toLowerCase()}" title=${title}>${word}</span>`;
}

/** TTL as pips: hollow is spent, half is being spent in the open turn, full is left. */
export function pips(total, left, isOpen) {
  const turns = total === 1 ? "turn" : "turns";
  const words = `${left} of ${total} ${turns} left${isOpen ? ", one of them in the open turn" : ""}`;
  if (total > 8) return html`<span class="t-side num" title=${words}>${left} of ${total}</span>`;
  const kinds = Array.from({ length: total }, (_, index) => {
    const spent = total - left;
    return index < spent ? "spent" : index === spent && isOpen ? "now" : "left";
  });
  return html`<span class="pips t-side" role="img" aria-label=${words} title=${words}>
    ${kinds.map((kind) => html`<i class=${kind}></i>`)}</span>`;
}

export const spinner = (tone = "") => html`<span class="spin ${tone}" aria-hidden="true"></span>`;
