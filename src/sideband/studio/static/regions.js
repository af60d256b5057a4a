// The body of a request, taken apart: regions by what the prompt cache does with them, and lines to read.

import { perObject } from "./state.js";
import { utf8Length } from "./text.js";

export const textOf = perObject((doc) => doc.parts.map((part) => part.text).join(""));

const PASSING = ["volatile", "marker", "closing"];
/** What later requests of the window repeat. */
export const lastingOf = perObject((doc) =>
  doc.parts.filter((part) => !PASSING.includes(part.kind)).map((part) => part.text).join(""));

/** Runs of parts of one kind, with their place in the body; cache marks belong to the run around them. */
export const regionsOf = perObject((doc) => {
  const regions = [];
  let at = 0;
  for (const { kind, text } of doc.parts) {
    const size = utf8Length(text);
    const end = at + text.length;
    const isMark = kind === "marker";
    let region = regions.at(-1);
    if (!region || (!isMark && region.kind !== kind)) {
      region = { kind: isMark ? "head" : kind, start: at, end, marks: [], size: 0 };
      regions.push(region);
    }
    // `place` counts bytes from the start of the region.
    if (isMark) region.marks.push({ at, end, place: region.size });
    region.end = end;
    region.size += size;
    at = end;
  }
  return regions;
});

/** The regions at the beginning that the request before has had, too. */
export const sameOf = perObject((doc) => {
  const regions = regionsOf(doc);
  // Only what follows an answered request has a stable part.
  if (!regions.some((region) => region.kind === "stable") || (doc.broken && !doc.read)) return [];
  const first = regions.slice(0, regions.findIndex((region) => region.kind !== "head" && region.kind !== "stable"));
  // After a compaction that request had only the head.
  return doc.broken ? first.filter((region) => region.kind === "head") : first;
});

const FATES = {
  kept: "stays from here on", volatile: "this request only", clearing: "the provider removes it", closing: "",
};

/** What the cache does with a region, in agreement with the figures of the request. */
export function fateOf(doc, region) {
  if (region.kind in FATES) return FATES[region.kind];
  if (doc.read && sameOf(doc).includes(region)) return "read from cache";
  return doc.written ? "written to cache" : "not in the cache";
}

const SIGNS = /"(?:[^"\\]|\\.)*"|[[\]{},]/gs;
const isOpening = (sign) => sign === "{" || sign === "[";
const isClosing = (sign) => sign === "}" || sign === "]";

/** The lengths of the objects and lists in a JSON text, by where they begin. */
function lengthsOf(text) {
  const open = [];
  const lengths = new Map();
  for (const { 0: sign, index } of text.matchAll(SIGNS)) {
    if (isOpening(sign)) open.push(index);
    else if (isClosing(sign)) {
      const from = open.pop();
      lengths.set(from, index - from);
    }
  }
  return lengths;
}

/** Where to break the lines of a JSON text: [offset, depth]. Short objects and lists stay on their line. */
const breaksOf = perObject((doc) => {
  const text = textOf(doc);
  const lengths = lengthsOf(text);
  const isTools = (index) => /"tools": ?$/.test(text.slice(index - 10, index));
  const breaks = [];
  const isLong = [];
  for (const { 0: sign, index } of text.matchAll(SIGNS)) {
    if (isOpening(sign)) {
      const length = lengths.get(index) ?? Infinity;
      isLong.push(length > 100 && isLong.length < 6 && !isTools(index) && (isLong.at(-1) ?? true));
      if (isLong.at(-1)) breaks.push([index + 1, isLong.length]);
    } else if (isClosing(sign)) {
      if (isLong.pop()) breaks.push([index, isLong.length]);
    } else if (sign === "," && isLong.at(-1)) {
      breaks.push([index + 1, isLong.length]);
    }
  }
  return breaks;
});

/** The lines of a region: [start, end, depth]. */
export function linesOf(doc, region) {
  const text = textOf(doc);
  const breaks = breaksOf(doc);
  const first = breaks.findIndex(([at]) => at > region.start);
  const found = [];
  let from = region.start;
  let depth = first > 0 ? breaks[first - 1][1] : 0;
  for (let index = first; index >= 0 && index < breaks.length && breaks[index][0] < region.end; index += 1) {
    if (breaks[index][0] > from) found.push([from, breaks[index][0], depth]);
    [from, depth] = breaks[index];
  }
  found.push([from, region.end, depth]);
  return found.filter(([start, end]) => text.slice(start, end).trim());
}
