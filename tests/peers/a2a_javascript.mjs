// A client on the official JavaScript SDK of A2A that follows the orders of `a2a_orders.py`: `node a2a_javascript.mjs PACKAGES URL BINDING`.
//
// PACKAGES is the folder with the packages.
// It also tells {"console": ...} for what the SDK logs.

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, url, binding] = process.argv.slice(2);
const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
for (const level of ["log", "warn", "error", "debug", "info"]) {
  console[level] = (...words) => tell({ console: words.map((word) => word?.stack ?? JSON.stringify(word)).join(" ") });
}

const folder = join(packages, "@a2a-js", "sdk");
const { exports } = JSON.parse(await readFile(join(folder, "package.json"), "utf-8"));
const load = (entry) => import(pathToFileURL(join(folder, exports[entry].import)));
const { AgentCard, Role, StreamResponse, Task } = await load(".");
const { ClientFactory, ClientFactoryOptions, ServiceParameters, withA2AExtensions } = await load("./client");

const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] }));
const client = await factory.createFromUrl(url);

const message = (words) => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: words }, metadata: undefined, filename: "", mediaType: "text/plain" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  },
  configuration: undefined,
  metadata: undefined,
});

const follow = async (order) => {
  const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(...(order.extensions ?? []))) };
  const about = (id) => ({ tenant: "", id, metadata: undefined });
  if (order.card) return AgentCard.toJSON(await client.getAgentCard());
  if (order.send) return Task.toJSON(await client.sendMessage(message(order.send), options));
  if (order.get) return Task.toJSON(await client.getTask(about(order.get), options));
  if (order.cancel) return Task.toJSON(await client.cancelTask(about(order.cancel), options));
  const events = order.stream
    ? client.sendMessageStream(message(order.stream), options)
    : client.resubscribeTask(about(order.subscribe), options);
  for await (const event of events) tell({ of: order.as, event: StreamResponse.toJSON(event) });
  return null;
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  follow(order).then(
    (result) => tell({ answers: order.as, result }),
    (error) => tell({ answers: order.as, error: `${error.name}: ${error.message}` }),
  );
}
process.exit(0);
