// The composer: what to say, as whom, and what will become of it.

import { html, nothing } from "./vendor/lit-html.js";
import { send } from "./actions.js";
import { glyph } from "./marks.js";
import { app, changed, namespace, nextTurn } from "./state.js";
import { plural, quoted, safe } from "./text.js";

const VERBS = {
  remind: ["Remind", "A fact the agent should know"], interrupt: ["Interrupt", "A fact that must stop the agent's tools"],
  steer: ["Steer", "A message into the running turn"], queue: ["Queue", "A message for when the session is idle"],
  prompt: ["Prompt", "A message that starts a turn"],
};
const isSide = (verb) => verb === "remind" || verb === "interrupt";

/** Why a verb cannot be used now; empty if it can. */
function obstacle(verb, timeline) {
  if (verb === "prompt" && timeline.running) return "A turn is running: steer it, or queue this for when it is idle";
  if (verb === "steer" && !timeline.running) return "No turn is running: prompt, or queue";
  return "";
}

/** Which seam takes it, which turns show it, and what it replaces. */
function foretell(timeline) {
  const { verb, ttl, key } = app.composer;
  const next = nextTurn(timeline);
  const now = timeline.openTurn ?? timeline.turn;
  const waiting = timeline.messages.filter((row) => row.state === "waiting" && row.mode === "queue").length;
  if (waiting && (verb === "prompt" || verb === "queue")) return html`After ${plural(waiting, "message")} that ${waiting === 1 ? "waits" : "wait"}.`;
  if (verb === "prompt" || (verb === "queue" && !timeline.running)) return html`Starts turn <b>${next}</b>.`;
  if (verb === "queue") return html`Starts a turn when the session is idle.`;
  if (timeline.permissions.length) return html`Held until the permission is answered.`;
  const seam = !timeline.running ? (verb === "interrupt" ? "Wakes the session at once" : "With the next turn") : verb === "interrupt" ? `Before the tools of turn ${now} run, which skips them` : `After the tools of turn ${now}`;
  if (verb === "steer") return html`${seam}; read in turn <b>${next}</b>.`;
  const turns = ttl === "" ? html`from turn <b>${next}</b> on` : Number(ttl) > 1 ? html`in turns <b>${next} ${Number(ttl) > 2 ? "to" : "and"} ${next + Number(ttl) - 1}</b>` : html`in turn <b>${next}</b>`;
  const rival = key.trim() && timeline.reminders.findLast((row) => row.dedupeKey === key.trim() && (row.state === "queued" || row.state === "live") && namespace(row.sender) === "own");
  return html`${seam}; shown ${turns}.${rival ? html` Replaces ${safe(quoted(rival.body, 24))}.` : nothing}`;
}

export function composerPane() {
  const { timeline, composer } = app;
  if (!timeline) return html`<div class="composer pane" id="composer"></div>`;
  const shut = timeline.closed ? "This session is closed; it accepts nothing more." : app.isReadOnly ? "Reading only. Ask for control in the program that owns the session." : "";
  if (shut) return html`<div class="composer shut pane" id="composer" tabindex="-1">${glyph("lock", "quiet")}<span>${shut}</span></div>`;
  const { verb } = composer;
  const why = app.link.state === "lost" ? "Not connected; send it when the page is live again" : composer.waitUntil > Date.now() ? "Wait a moment" : obstacle(verb, timeline);
  const bad = (field) => (composer.error?.field === field ? "true" : nothing);
  const warns = isSide(verb) && composer.ttl === "" && !composer.preserve;
  return html`<form class="composer pane" id="composer" aria-label="Say something to this session" tabindex="-1" @submit=${submit}>
    <div class="verbs">
      ${[["On the side", ["remind", "interrupt"]], ["as the user", ["steer", "queue", "prompt"]]].map(([label, verbs], index) => html`<div><span id="v${index}">${label}</span><div class="seg ${index ? "" : "side"}" role="group" aria-labelledby="v${index}">${verbs.map((each) => html`<button type="button" aria-pressed=${verb === each} aria-disabled=${obstacle(each, timeline) ? "true" : nothing} title=${obstacle(each, timeline) || VERBS[each][1]} @click=${() => choose(each)}>${VERBS[each][0]}</button>`)}</div></div>`)}
      <p class="foretell" id="foretell">${why || foretell(timeline)}</p>
    </div>
    <div class="write"><label class="sr" for="say">${VERBS[verb][1]}</label><textarea id="say" data-field="text" rows="1" placeholder=${VERBS[verb][1]} aria-invalid=${bad("body") === "true" || bad("content") === "true" ? "true" : nothing} aria-describedby="foretell${warns ? " warned" : ""}${composer.error ? " refused" : ""}" .value=${composer.text} @input=${(event) => { composer.text = event.target.value; changed(); }} @keydown=${keydown}></textarea>
      <button class="btn ${isSide(verb) ? "side" : "primary"}" aria-disabled=${why || !composer.text.trim() ? "true" : nothing} title=${why || nothing}>${VERBS[verb][0]} <kbd aria-hidden="true">↵</kbd></button></div>
    ${composer.error ? html`<p class="err bad" id="refused">${glyph("alert")}<span>${safe(composer.error.message)}</span></p>` : nothing}
    ${warns ? html`<p class="err" id="warned">${glyph("leftout")}<span><b>Warning HARN-RMD-004</b> Without a TTL only a compaction ends it.</span> <button type="button" class="opt" @click=${() => set("ttl", "2")}>Give it a TTL of <b>2 turns</b></button><button type="button" class="opt" @click=${() => set("preserve", true)}>Let it <b>survive compaction</b></button></p>` : nothing}
    ${isSide(verb) ? html`<div class="opts" role="group" aria-label="Options of the reminder">
      <label class="opt">TTL <input data-field="ttlTurns" type="number" min="1" max="1000000" placeholder="none" aria-invalid=${bad("ttlTurns")} .value=${composer.ttl} @input=${(event) => set("ttl", event.target.value)}> turns</label>
      <label class="opt">key <input class="key" data-field="dedupeKey" placeholder="none" spellcheck="false" aria-invalid=${bad("dedupeKey")} .value=${composer.key} @input=${(event) => set("key", event.target.value)}></label>
      <label class="opt">tags <input data-field="tags" placeholder="none" spellcheck="false" aria-invalid=${bad("tags")} .value=${composer.tags} @input=${(event) => set("tags", event.target.value)}></label>
      ${pick("role", "roleHint", "role", ["system", "developer", "user_block", "ephemeral_cache"], bad)}
      ${pick("sub-agents", "propagate", "propagate", ["session", "all", "none"], bad)}
      <label class="opt"><input type="checkbox" data-field="preserveOnCompact" .checked=${composer.preserve} @change=${(event) => set("preserve", event.target.checked)}> survives compaction</label>
    </div>` : nothing}
  </form>`;
}

const pick = (label, field, name, words, bad) => html`<label class="opt">${label} <select data-field=${field} aria-invalid=${bad(field)} .value=${app.composer[name]} @change=${(event) => set(name, event.target.value)}>${words.map((word) => html`<option value=${word} ?selected=${app.composer[name] === word}>${word}</option>`)}</select></label>`;

function set(name, value) {
  app.composer[name] = value;
  app.composer.error = null;
  changed();
}

export function choose(verb) {
  if (app.timeline && obstacle(verb, app.timeline)) return;
  // The composer is part of this pane where panes are shown one at a time.
  app.pane = "transcript";
  set("verb", verb);
  requestAnimationFrame(() => document.querySelector("#say")?.focus());
}

function submit(event) {
  event.preventDefault();
  if (app.composer.waitUntil > Date.now() || obstacle(app.composer.verb, app.timeline)) return;
  send();
}

function keydown(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  event.target.form.requestSubmit();
}

/** After each draw: the field grows with its text, and a refusal moves the focus to the field it names. */
export function settleComposer() {
  const field = document.querySelector("#say");
  // Text that was typed and sent between two draws is no change to lit, which then leaves it in the field.
  if (field && field.value !== app.composer.text) field.value = app.composer.text;
  if (field && field.dataset.of !== field.value) {
    field.dataset.of = field.value;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 160)}px`;
  }
  const line = document.querySelector("#foretell");
  if (line && line.title !== line.textContent) line.title = line.textContent;
  if (app.focusField) {
    (document.querySelector(`[data-field="${CSS.escape(app.focusField)}"]`) ?? field)?.focus();
    app.focusField = "";
  }
}
