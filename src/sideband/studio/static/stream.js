// The event stream of the page. It reconnects by itself and continues after the last update it has seen.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
// The server sends a ping every 15 s; after three silent ones the connection is taken for lost.
const SILENCE_MS = 50_000;

export class Stream {
  #source = null;
  #wait = FIRST_WAIT_MS;
  #retry = 0;
  #watchdog = 0;
  #handlers;

  /** `handlers`: open, update, session, text, expired, lost(nextTryAt). `cursor` is the last update seen. */
  constructor(handlers) {
    this.#handlers = handlers;
    this.sessionId = null;
    this.cursor = 0;
  }

  follow(sessionId, cursor) {
    this.sessionId = sessionId;
    this.cursor = cursor;
    this.#wait = FIRST_WAIT_MS;
    this.connect();
  }

  connect() {
    this.close();
    const query = this.sessionId === null ? "" : `?session=${encodeURIComponent(this.sessionId)}&after=${this.cursor}`;
    const source = new EventSource(`/api/stream${query}`);
    this.#source = source;
    const on = (name, act) =>
      source.addEventListener(name, (event) => {
        if (source !== this.#source) return;
        this.#alive();
        act(JSON.parse(event.data));
      });
    source.addEventListener("open", () => {
      if (source !== this.#source) return;
      this.#wait = FIRST_WAIT_MS;
      this.#alive();
      this.#handlers.open();
    });
    on("update", (update) => {
      if (update.cursor <= this.cursor) return;
      this.cursor = update.cursor;
      this.#handlers.update(update);
    });
    on("session", (summary) => this.#handlers.session(summary));
    on("text", (piece) => this.#handlers.text(piece));
    on("expired", () => {
      this.close();
      this.#handlers.expired();
    });
    on("ping", () => {});
    source.addEventListener("error", () => {
      if (source === this.#source) this.#lose();
    });
    this.#alive();
  }

  close() {
    clearTimeout(this.#retry);
    clearTimeout(this.#watchdog);
    this.#source?.close();
    this.#source = null;
  }

  #alive() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lose(), SILENCE_MS);
  }

  #lose() {
    this.close();
    // Some spread, so that the pages of a server that restarts do not return all at once.
    const wait = this.#wait * (0.85 + Math.random() * 0.3);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
    this.#retry = setTimeout(() => this.connect(), wait);
    this.#handlers.lost(Date.now() + wait);
  }
}
