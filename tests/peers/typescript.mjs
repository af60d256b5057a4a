// A client on the official TypeScript SDK that follows orders: `node typescript.mjs SDK ENTRY COMMAND...`.
//
// SDK is the folder of the package and ENTRY one of its exports. The script starts the agent COMMAND and reads orders from standard input, one JSON object per line:
//   {"as": N, "request": METHOD, "params": {...}}   send a request; told as {"answers": N, "result" or "error"}
//   {"as": N, "notify": METHOD, "params": {...}}    send a notification
//   {"answer": N, "result" or "error": {...}}       answer the question that was told as {"asked": METHOD, "params": ..., "as": N}
// It tells what its handlers get: {"update": ...} for each session/update, and {"console": ...} for what the SDK logs.
// It ends when standard input ends.

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, entry, command, ...args] = process.argv.slice(2);
const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
for (const level of ["log", "warn", "error"]) {
  console[level] = (...words) => tell({ console: words.map((word) => word?.stack ?? JSON.stringify(word)).join(" ") });
}

const { exports } = JSON.parse(await readFile(join(sdk, "package.json"), "utf-8"));
const acp = await import(pathToFileURL(join(sdk, exports[entry].import)));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const questions = new Map();
const client = acp.client({ name: "peer" }).onNotification("session/update", ({ params }) => tell({ update: params.update }));
const { session, fs, terminal } = acp.methods.client;
for (const method of [session.requestPermission, ...Object.values(fs ?? {}), ...Object.values(terminal ?? {})]) {
  client.onRequest(method, ({ params }) => {
    const number = questions.size;
    const answer = new Promise((resolve, reject) => questions.set(number, { resolve, reject }));
    tell({ asked: method, params, as: number });
    return answer;
  });
}
const connection = client.connect(stream);

const follow = async ({ as, request, notify, params }) => {
  try {
    if (notify !== undefined) {
      await connection.agent.notify(notify, params);
      return { answers: as, result: null };
    }
    const result = await connection.agent.request(request, params);
    // The SDK may call the handlers of earlier notifications after it has delivered a response.
    await new Promise(setImmediate);
    return { answers: as, result: result ?? null };
  } catch (error) {
    return { answers: as, error: { code: error.code ?? 0, message: error.message, data: error.data ?? null } };
  }
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (!("answer" in order)) follow(order).then(tell);
  else if ("result" in order) questions.get(order.answer).resolve(order.result);
  else questions.get(order.answer).reject(new acp.RequestError(order.error.code, order.error.message));
}
const ended = new Promise((resolve) => agent.on("exit", resolve));
agent.stdin.end();
process.exitCode = await ended;
