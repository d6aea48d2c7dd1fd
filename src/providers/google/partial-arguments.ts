/**
 * A call's arguments put together from pieces that each name their place.
 * Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc
 */
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import { InvalidAnswer } from "../../protocols/errors.ts";
import { textIn } from "../reading.ts";

type Step = string | number;
type Container = JsonObject | unknown[];

/** `$.name`, `$['name']`, `$[0]` and what follows from them. */
const pathStep = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/g;

/** The most levels of one place: what is deeper could not be written as JSON. */
const maxSteps = 500;

export class PartialArguments {
  readonly value: JsonObject = {};
  empty = true;
  /** The place of a text that is to go on. */
  #unfinished: string | undefined;

  /** Texts at one place are joined. @throws InvalidAnswer for a piece without a place, or where another one was to follow */
  add(piece: JsonObject): void {
    const path = textIn(piece, "jsonPath") ?? "";
    if (this.#unfinished !== undefined && this.#unfinished !== path) this.end();
    this.#unfinished = piece["willContinue"] === true ? path : undefined;
    const value = pieceValue(piece);
    if (value === undefined) return;
    const steps = stepsOf(path);
    this.empty = false;
    if (steps.length === 0 || steps.length > maxSteps || !set(this.value, steps, value)) {
      throw new InvalidAnswer("a part of a call that has no place in it");
    }
  }

  /** @throws InvalidAnswer where a text was to go on */
  end(): void {
    if (this.#unfinished !== undefined) throw new InvalidAnswer("a call of which a part is missing");
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

/** @returns false where there is no such place */
function set(root: JsonObject, steps: readonly Step[], value: unknown): boolean {
  let container: Container = root;
  for (const [at, step] of steps.entries()) {
    // A list grows by one at a time; a place further off would make up the ones between.
    if (Array.isArray(container) && (typeof step !== "number" || step > container.length)) return false;
    const known = valueAt(container, step);
    if (at === steps.length - 1) {
      const joined = typeof known === "string" && typeof value === "string" ? known + value : value;
      put(container, step, joined);
      return true;
    }
    const inner = Array.isArray(known) ? known : objectOf(known);
    const next: Container = inner ?? (typeof steps[at + 1] === "number" ? [] : {});
    if (inner === undefined) put(container, step, next);
    container = next;
  }
  return false;
}

function valueAt(container: Container, step: Step): unknown {
  return Object.hasOwn(container, step) ? (container as JsonObject)[step] : undefined;
}

/** Sets a key of its own, whatever its name. */
function put(container: Container, step: Step, value: unknown): void {
  Object.defineProperty(container, step, { value, writable: true, enumerable: true, configurable: true });
}
