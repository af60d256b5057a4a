// A server on the official TypeScript SDK 1.x that sends reminders as the proposal says: `node mcp_typescript_server.mjs PACKAGES stdio|http`.
//
// PACKAGES is the folder with the packages. Over HTTP it prints its URL. It declares `capabilities.reminders` at the place of the proposal and nowhere else.
// Its tools: `remind` sends a reminder inside the request, `remind_later` one after the response, `grow` adds a tool and `shrink` removes it.
// It ends when standard input ends.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, transport] = process.argv.slice(2);
const load = (entry) => import(pathToFileURL(join(packages, "@modelcontextprotocol", "sdk", "dist", "esm", "server", entry)));
const { McpServer } = await load("mcp.js");

const reminder = (body) => ({
  method: "notifications/reminder",
  params: { reminder: { id: randomUUID(), body, dedupeKey: body, ttlTurns: 2, roleHint: "system", propagate: "session" } },
});
const said = (text) => ({ content: [{ type: "text", text }] });

// Over HTTP, what belongs to no request travels on a stream that the client opens, and is lost before that.
const made = (streaming) => {
  const server = new McpServer({ name: "typescript", version: "1.0" }, { capabilities: { reminders: { emit: true, propagate: ["session"], roleHints: ["system"] } } });
  let grown;
  server.registerTool("remind", { description: "Sends a reminder." }, async ({ sendNotification }) => {
    await sendNotification(reminder("Sent inside the request."));
    return said("It is sent.");
  });
  server.registerTool("remind_later", { description: "Sends a reminder after the response." }, async () => {
    setTimeout(() => streaming.then(() => server.server.notification(reminder("Sent after the response."))), 50);
    return said("It will be sent.");
  });
  server.registerTool("grow", { description: "Adds a tool." }, async () => {
    grown = server.registerTool("grown", { description: "Was added." }, async () => said("It has grown."));
    return said("A tool was added.");
  });
  server.registerTool("shrink", { description: "Removes the tool." }, async () => {
    grown.remove();
    return said("A tool was removed.");
  });
  return server;
};

if (transport === "stdio") {
  const { StdioServerTransport } = await load("stdio.js");
  await made(Promise.resolve()).connect(new StdioServerTransport());
  process.stdin.on("end", () => process.exit(0));
} else {
  const { StreamableHTTPServerTransport } = await load("streamableHttp.js");
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (session === undefined) {
      session = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, session) });
      await made(new Promise((resolve) => { session.opened = resolve; })).connect(session);
    }
    if (request.method === "GET") {
      // The stream is open when its head is written; the call below lasts as long as the stream.
      const { writeHead } = response;
      response.writeHead = (...head) => {
        setImmediate(session.opened);
        return writeHead.apply(response, head);
      };
    }
    await session.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${http.address().port}/mcp\n`));
  process.stdin.on("end", () => process.exit(0)).resume();
}
