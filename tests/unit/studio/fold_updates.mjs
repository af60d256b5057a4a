// Folds updates with the reducer of the page. Each line of the input is {"from": timeline or null, "updates": [...]};
// each line of the output is the timeline after them. Frozen input proves that the reducer changes nothing it is given.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { apply, emptyTimeline, readTimeline } = await import(pathToFileURL(process.argv[2]));

function frozen(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { from, updates } = JSON.parse(line);
  let timeline = from ? readTimeline(from) : emptyTimeline("main");
  for (const update of updates) timeline = apply(frozen(timeline), frozen(update));
  process.stdout.write(`${JSON.stringify(timeline)}\n`);
}
