// The composer: what to say, as whom, and what will become of it.

import { html, nothing } from "./vendor/lit-html.js";
import { send } from "./actions.js";
import { glyph } from "./marks.js";
import { app, changed, isOver, namespace, nextTurn } from "./state.js";
import { plural, quoted, safe } from "./text.js";

const VERBS = {
  remind: ["Remind", "A fact the agent should know"],
  interrupt: ["Interrupt", "A fact that must stop the agent's tools"],
  steer: ["Steer", "A message into the running turn"],
  queue: ["Queue", "A message for when the session is idle"],
  prompt: ["Prompt", "A message that starts a turn"],
};
const LOOKS = { remind: "side", interrupt: "cut" };
const RARE = ["roleHint", "propagate", "preserveOnCompact"];
const isSide = (verb) => verb === "remind" || verb === "interrupt";

/** Why a verb cannot be used now; empty if it can. */
export function obstacle(verb, timeline) {
  if (verb === "prompt" && timeline.running) return "A turn is running: steer it, or queue this for when it is idle";
  if (verb === "steer" && !timeline.running) return "No turn is running: prompt, or queue";
  return "";
}

/** Why nothing can be sent now; empty if it can. */
function hindrance(timeline) {
  if (app.link.state === "lost") return "Not connected; send it when the page is live again";
  if (app.composer.waitUntil > Date.now()) return "Wait a moment";
  return obstacle(app.composer.verb, timeline);
}

/** Which seam takes it, which turns show it, and what it replaces. */
function foretell(timeline) {
  const { verb, key } = app.composer;
  const next = nextTurn(timeline);
  const waiting = timeline.messages.filter((row) => row.state === "waiting" && row.mode === "queue").length;
  if (waiting && (verb === "prompt" || verb === "queue")) {
    return html`After ${plural(waiting, "message")} that ${waiting === 1 ? "waits" : "wait"}.`;
  }
  if (verb === "prompt" || (verb === "queue" && !timeline.running)) return html`Starts turn <b>${next}</b>.`;
  if (verb === "queue") return html`Starts a turn when the session is idle.`;
  if (timeline.permissions.length) return html`Held until the permission is answered.`;
  const seam = seamOf(timeline, verb);
  if (verb === "steer") return html`${seam}; read in turn <b>${next}</b>.`;
  const rival = key.trim() && timeline.reminders.findLast(
    (row) => row.dedupeKey === key.trim() && !isOver(row) && namespace(row.sender) === "own");
  const replaces = rival ? html` Replaces ${safe(quoted(rival.body, 24))}.` : nothing;
  return html`${seam}; shown ${turnsAhead(next)}.${replaces}`;
}

function seamOf(timeline, verb) {
  if (!timeline.running) return "With the next turn";
  const now = timeline.openTurn ?? timeline.turn;
  if (verb === "interrupt") return `Before the tools of turn ${now} run, which skips them`;
  return `After the tools of turn ${now}`;
}

function turnsAhead(next) {
  const { ttl } = app.composer;
  if (ttl === "") return html`from turn <b>${next}</b> on`;
  if (Number(ttl) <= 1) return html`in turn <b>${next}</b>`;
  return html`in turns <b>${next} ${Number(ttl) > 2 ? "to" : "and"} ${next + Number(ttl) - 1}</b>`;
}

export function composerPane() {
  const { timeline, composer } = app;
  if (!timeline) return html`<div class="composer pane" id="composer"></div>`;
  if (timeline.closed) return shut("This session is closed; it accepts nothing more.");
  if (app.isReadOnly) return shut("Reading only. Ask for control in the program that owns the session.");
  const why = hindrance(timeline);
  return html`<form
      class="composer pane" id="composer" aria-label="Say something to this session" tabindex="-1" novalidate
      @submit=${submit}>
    <div class="verbs">
      ${verbs(0, "On the side", ["remind", "interrupt"])}
      ${verbs(1, "as the user", ["steer", "queue", "prompt"])}
      <p class="foretell" id="foretell">${why || foretell(timeline)}</p>
    </div>
    ${field(why)}
    ${composer.error
      ? html`<p class="err bad" id="refused">${glyph("alert")}<span>${safe(composer.error.message)}</span></p>`
      : nothing}
    ${warns() ? warning() : nothing}
    ${isSide(composer.verb) ? options() : nothing}
  </form>`;
}

const shut = (why) => html`<div class="composer shut pane" id="composer" tabindex="-1">
  ${glyph("lock", "quiet")}<span>${why}</span></div>`;

function verbs(index, label, names) {
  const button = (verb) => {
    const why = obstacle(verb, app.timeline);
    return html`<button
      type="button" aria-pressed=${app.composer.verb === verb} aria-disabled=${why ? "true" : nothing}
      title=${why || VERBS[verb][1]} @click=${() => choose(verb)}>${VERBS[verb][0]}</button>`;
  };
  return html`<div><span id="v${index}">${label}</span>
    <div class="seg ${index ? "" : "side"}" role="group" aria-labelledby="v${index}">${names.map(button)}</div></div>`;
}

const isBad = (name) => (app.composer.error?.field === name ? "true" : nothing);

function field(why) {
  const { verb, text, error } = app.composer;
  const [word, means] = VERBS[verb];
  const isWrong = error?.field === "body" || error?.field === "content";
  const type = (event) => { app.composer.text = event.target.value; changed(); };
  return html`<div class="write">
    <label class="sr" for="say">${means}</label>
    <textarea
      id="say" data-field="text" rows="1" placeholder=${means} aria-invalid=${isWrong ? "true" : nothing}
      aria-describedby="foretell${warns() ? " warned" : ""}${error ? " refused" : ""}" .value=${text}
      @input=${type} @keydown=${keydown}></textarea>
    <button
      class="btn ${LOOKS[verb] ?? "primary"}" aria-disabled=${why || !text.trim() ? "true" : nothing}
      title=${why || nothing}>${word} <kbd aria-hidden="true">↵</kbd></button>
  </div>`;
}

const warns = () => isSide(app.composer.verb) && app.composer.ttl === "" && !app.composer.preserve;

const warning = () => html`<p class="err" id="warned">
  ${glyph("leftout")}
  <span><b>Warning HARN-RMD-004</b> Without a TTL only a compaction ends it.</span>
  <button type="button" class="opt" @click=${() => set("ttl", "2")}>Give it a TTL of <b>2 turns</b></button>
  <button type="button" class="opt" @click=${() => set("preserve", true)}>Let it <b>survive compaction</b></button>
</p>`;

function options() {
  const { composer } = app;
  // Where there is little room, options that are as usual are folded.
  const isUsual = composer.role === "system" && composer.propagate === "session" && !composer.preserve;
  const isAll = composer.more || !isUsual || RARE.includes(composer.error?.field);
  const more = () => { composer.more = !composer.more; changed(); };
  const given = (name) => (event) => set(name, event.target.value);
  return html`<div class="opts ${isAll ? "all" : ""}" role="group" aria-label="Options of the reminder">
    <label class="opt">TTL <input
      data-field="ttlTurns" type="number" min="1" max="1000000" placeholder="none" aria-invalid=${isBad("ttlTurns")}
      .value=${composer.ttl} @input=${given("ttl")}> turns</label>
    <label class="opt">key <input
      class="key" data-field="dedupeKey" placeholder="none" spellcheck="false" aria-invalid=${isBad("dedupeKey")}
      .value=${composer.key} @input=${given("key")}></label>
    <label class="opt">tags <input
      data-field="tags" placeholder="none" spellcheck="false" aria-invalid=${isBad("tags")}
      .value=${composer.tags} @input=${given("tags")}></label>
    ${pick("role", "roleHint", "role", ["system", "developer", "user_block", "ephemeral_cache"])}
    ${pick("sub-agents", "propagate", "propagate", ["session", "all", "none"])}
    <label class="opt rare"><input
      type="checkbox" data-field="preserveOnCompact" .checked=${composer.preserve}
      @change=${(event) => set("preserve", event.target.checked)}> survives compaction</label>
    <button type="button" class="opt fewer" aria-expanded=${isAll} @click=${more}>${isAll ? "less" : "more"}</button>
  </div>`;
}

function pick(label, name, option, words) {
  const chosen = app.composer[option];
  const change = (event) => set(option, event.target.value);
  return html`<label class="opt rare">${label} <select
    data-field=${name} aria-invalid=${isBad(name)} .value=${chosen} @change=${change}>
    ${words.map((word) => html`<option value=${word} ?selected=${chosen === word}>${word}</option>`)}
  </select></label>`;
}

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
  if (app.focusField && field) {
    (document.querySelector(`[data-field="${CSS.escape(app.focusField)}"]`) ?? field).focus();
    app.focusField = "";
  }
}
