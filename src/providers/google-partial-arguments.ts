/**
 * A call's arguments put together from pieces that each name their place.
 * Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc
 */
import { type JsonObject, objectOf, textOf } from "../lib/json.ts";

type Step = string | number;
type Holder = JsonObject | unknown[];

/** `$.name`, `$['name']`, `$[0]` and what follows from them. */
const pathStep = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/g;

export class PartialArguments {
  readonly value: JsonObject = {};
  empty = true;

  /** Texts at one place are joined; what names no place is ignored. */
  add(piece: JsonObject): void {
    const steps = stepsOf(textOf(piece["jsonPath"]) ?? "");
    const value = pieceValue(piece);
    if (steps.length === 0 || value === undefined) return;
    this.empty = false;
    set(this.value, steps, value);
  }
}

function stepsOf(path: string): Step[] {
  return [...path.matchAll(pathStep)].map(([, name, index, single, double]) =>
    index === undefined ? (name ?? (single ?? double ?? "").replace(/\\(.)/g, "$1")) : Number(index),
  );
}

function pieceValue({ stringValue, numberValue, boolValue, nullValue }: JsonObject): unknown {
  return nullValue === undefined ? (stringValue ?? numberValue ?? boolValue) : null;
}

function set(root: JsonObject, steps: readonly Step[], value: unknown): void {
  let holder: Holder = root;
  for (const [at, step] of steps.entries()) {
    // A list grows by one at a time; a place further off would make up the ones between.
    if (Array.isArray(holder) && (typeof step !== "number" || step > holder.length)) return;
    const known = valueAt(holder, step);
    if (at === steps.length - 1) {
      const joined = typeof known === "string" && typeof value === "string" ? known + value : value;
      put(holder, step, joined);
      return;
    }
    const inner = Array.isArray(known) ? known : objectOf(known);
    const next: Holder = inner ?? (typeof steps[at + 1] === "number" ? [] : {});
    if (inner === undefined) put(holder, step, next);
    holder = next;
  }
}

function valueAt(holder: Holder, step: Step): unknown {
  return Object.hasOwn(holder, step) ? (holder as JsonObject)[step] : undefined;
}

/** As a key of its own, whatever its name. */
function put(holder: Holder, step: Step, value: unknown): void {
  Object.defineProperty(holder, step, { value, writable: true, enumerable: true, configurable: true });
}
