// A server on the official JavaScript SDK of A2A, with JSON-RPC and HTTP+JSON: `node a2a_javascript_server.mjs PACKAGES`.
//
// PACKAGES is the folder with the packages. It knows nothing of reminders. Each message is a task: the agent works, gives the words back as an artifact, and completes it. The words `wait` make it work until the task is cancelled.
// It prints its URL and ends when standard input ends.

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [packages] = process.argv.slice(2);
const folder = join(packages, "@a2a-js", "sdk");
const { exports } = JSON.parse(await readFile(join(folder, "package.json"), "utf-8"));
const load = (entry) => import(pathToFileURL(join(folder, exports[entry].import)));
const { AgentCard, TaskState } = await load(".");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await load("./server");
const { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } = await load("./server/express");
const express = createRequire(join(folder, "package.json"))("express");

class Agent {
  waiting = new Map();

  execute = async ({ taskId, contextId, userMessage }, bus) => {
    const words = userMessage.parts.map(({ content }) => content.value).join(" ");
    const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });
    const update = (state) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: undefined }));
    bus.publish(AgentEvent.task({ id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: undefined }));
    update(TaskState.TASK_STATE_WORKING);
    if (words === "wait") {
      await new Promise((resolve) => this.waiting.set(taskId, resolve));
      update(TaskState.TASK_STATE_CANCELED);
    } else {
      const part = { content: { $case: "text", value: `You said: ${words}` }, metadata: undefined, filename: "", mediaType: "text/plain" };
      const artifact = { artifactId: randomUUID(), name: "reply", description: "", parts: [part], metadata: undefined, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }));
      update(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  };

  cancelTask = async (taskId) => this.waiting.get(taskId)?.();
}

const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = AgentCard.fromJSON({
    name: "JavaScript",
    description: "Repeats what it is told.",
    version: "1.0",
    supportedInterfaces: ["JSONRPC", "HTTP+JSON"].map((protocolBinding) => ({ url, protocolBinding, protocolVersion: "1.0" })),
    capabilities: { streaming: true },
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    skills: [{ id: "repeat", name: "Repeat", description: "Repeats what it is told.", tags: ["test"] }],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.post("/", jsonRpcHandler(options));
  app.use(restHandler(options));
  process.stdout.write(`${url}\n`);
});
process.stdin.on("end", () => process.exit(0)).resume();
