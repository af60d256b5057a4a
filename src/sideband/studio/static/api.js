// Calls of the HTTP API. Every failure is a Refusal with the fields of the error object.

export class Refusal extends Error {
  constructor(status, error) {
    super(error.message ?? "The server gave no reason.");
    this.status = status;
    this.reason = error.reason ?? "";
    this.code = error.code ?? "";
    this.field = error.field ?? "";
    this.retryAfterMs = error.retryAfterMs ?? 0;
  }

  /** Whether the request may have been carried out although no answer came. */
  get isUnknown() {
    return this.status === 0 || this.status >= 502;
  }
}

const WAIT_MS = 10_000;

export async function call(method, path, body, { waitMs = WAIT_MS } = {}) {
  const headers = { Accept: "application/json" };
  const options = { method, headers, signal: AbortSignal.timeout(waitMs), credentials: "same-origin" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  let text;
  try {
    response = await fetch(`/api${path}`, options);
    text = await response.text();
  } catch (error) {
    const message = error.name === "TimeoutError" ? "No answer in time." : "The server cannot be reached.";
    throw new Refusal(0, { reason: "no_answer", message });
  }
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    // A proxy in between answers with a page of its own.
  }
  if (!response.ok) {
    throw new Refusal(response.status, answer?.error ?? { message: `The server answered ${response.status}.` });
  }
  return answer;
}

export const get = (path, options) => call("GET", path, undefined, options);
export const post = (path, body = {}, options) => call("POST", path, body, options);
export const sessionPath = (id, rest = "") => `/sessions/${encodeURIComponent(id)}${rest}`;
