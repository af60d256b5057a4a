// A client on one of the official TypeScript SDKs of MCP that follows orders: `node mcp_typescript.mjs PACKAGES CLIENT CAPABILITIES TARGET...`.
//
// PACKAGES is the folder with the packages. CLIENT is `v1` (SDK 1.x), `legacy` or `auto` (client 2.x, by its version negotiation). CAPABILITIES is what the client declares, as JSON. TARGET is a URL, or the command of a server.
// The script reads orders from standard input, one JSON object per line, and tells the result of each as {"answers": N, "result" or "error"}:
//   {"as": N, "connect": true}                        the version and the capabilities of the server, as the SDK exposes them and as the server sent them
//   {"as": N, "call": TOOL, "arguments": {...}}       call a tool
//   {"as": N, "listen": FILTER}                       open a listen stream (client 2.x)
//   {"as": N, "unlisten": true}                       close it
// It tells {"notified": {method, params}} for each notification that the SDK has no handler for, {"streaming": true} when the server has accepted a standalone stream, and {"console": ...} for what the SDK logs.
// It ends when standard input ends.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, kind, capabilities, target, ...args] = process.argv.slice(2);
const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
for (const level of ["log", "warn", "error", "debug", "info"]) {
  console[level] = (...words) => tell({ console: words.map((word) => word?.stack ?? JSON.stringify(word)).join(" ") });
}

const load = async (name, entry) => {
  const folder = join(packages, "@modelcontextprotocol", name);
  const { exports } = JSON.parse(await readFile(join(folder, "package.json"), "utf-8"));
  const found = exports[entry]?.import ?? exports["./*"].import.replace("*", entry.slice(2));
  return import(pathToFileURL(join(folder, found.default ?? found)));
};

const modules = kind === "v1"
  ? await Promise.all(["./client/index.js", "./client/stdio.js", "./client/streamableHttp.js"].map((entry) => load("sdk", entry)))
  : await Promise.all([".", "./stdio"].map((entry) => load("client", entry)));
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = Object.assign({}, ...modules);

const watched = async (url, init) => {
  const response = await fetch(url, init);
  if (init?.method === "GET" && response.ok) tell({ streaming: true });
  return response;
};
const client = new Client(
  { name: "peer", version: "1.0" },
  { capabilities: JSON.parse(capabilities), ...(kind === "v1" ? {} : { versionNegotiation: { mode: kind } }) },
);
client.fallbackNotificationHandler = async ({ method, params }) => tell({ notified: { method, params } });
client.onerror = (error) => tell({ console: `${error.stack ?? error}` });

// What the server declares before the SDK removes members that it does not know.
const rawCapabilities = (transport) => {
  let found = null;
  let handler;
  Object.defineProperty(transport, "onmessage", {
    get: () => handler,
    set: (given) => {
      handler = given && ((message, ...rest) => {
        found ??= message.result?.capabilities ?? null;
        return given(message, ...rest);
      });
    },
  });
  return () => found;
};

let subscription;
const follow = async (order) => {
  if (order.connect) {
    const transport = target.startsWith("http:")
      ? new StreamableHTTPClientTransport(new URL(target), { fetch: watched })
      : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });
    const declared = rawCapabilities(transport);
    await client.connect(transport);
    return { version: client.getNegotiatedProtocolVersion?.() ?? null, capabilities: client.getServerCapabilities(), raw: declared() };
  }
  if (order.call) return client.callTool({ name: order.call, arguments: order.arguments });
  if (order.listen) {
    subscription = await client.listen(order.listen);
    return {};
  }
  await subscription.close();
  return {};
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  follow(order).then(
    // The SDK may call the handlers of earlier notifications after it has delivered a response.
    (result) => setImmediate(() => tell({ answers: order.as, result })),
    (error) => tell({ answers: order.as, error: { code: error.code ?? 0, message: error.message } }),
  );
}
client.onerror = undefined;
await client.close();
