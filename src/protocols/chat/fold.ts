/** Folds the chunks of a stream into a plain answer. */
import { isObject } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { laterUsage } from "./later-usage.ts";
import { wholeDetails } from "./reasoning-details.ts";
import type {
  AnswerMessage,
  Choice,
  ChunkBody,
  ChunkChoice,
  CompletionBody,
  CustomToolCall,
  OtherToolCall,
  ToolCall,
  ToolCallDelta,
} from "./schema.ts";
import { isOtherKind } from "./tools.ts";

type AnyToolCall = ToolCall | CustomToolCall | OtherToolCall;

type Building = {
  readonly message: AnswerMessage;
  readonly calls: AnyToolCall[];
  readonly choice: Choice;
  finished: boolean;
};

/** Takes the chunks of a stream; `result` gives the equivalent plain answer. */
export class StreamFold {
  readonly #choices = new Map<number, Building>();
  readonly #body: CompletionBody = { choices: [] };

  push(bodies: readonly ChunkBody[]): void {
    for (const { choices, usage, metadata, ended_thought: _, ...rest } of bodies) {
      Object.assign(this.#body, rest);
      if (usage != null) this.#body.usage = laterUsage(this.#body.usage, usage);
      if (metadata !== undefined) this.#body.metadata = { ...this.#body.metadata, ...metadata };
      for (const choice of choices) this.#choice(choice);
    }
  }

  /** True once every choice that began has ended, and one did. */
  get complete(): boolean {
    return this.#choices.size > 0 && this.#choices.values().every(({ finished }) => finished);
  }

  result(): CompletionBody {
    const choices = [...this.#choices.values()].map(({ message, calls, choice }) => {
      if (calls.length > 0) message.tool_calls = calls.filter((call) => call !== undefined);
      const details = message["reasoning_details"];
      if (Array.isArray(details) && details.every(isObject)) message["reasoning_details"] = wholeDetails(details);
      return choice;
    });
    return { ...this.#body, choices: choices.sort((a, b) => a.index - b.index) };
  }

  #choice({ index, delta, finish_reason, logprobs, ...rest }: ChunkChoice): void {
    let building = this.#choices.get(index);
    if (building === undefined) {
      const message: AnswerMessage = { role: "assistant", content: null };
      building = { message, calls: [], choice: { index, message, finish_reason: "stop" }, finished: false };
      this.#choices.set(index, building);
    }
    const { message, choice } = building;
    Object.assign(choice, rest);
    for (const [key, value] of Object.entries(delta)) {
      if (value == null || key === "role") continue;
      // An end is the last one told.
      building.finished = false;
      if (key === "tool_calls") for (const call of value as ToolCallDelta[]) foldCall(building.calls, call);
      else if (key === "function_call") foldFunctionCall(message, value as { name?: string; arguments?: string });
      else message[key] = joined(message[key], value);
    }
    if (finish_reason !== null) {
      choice.finish_reason = finish_reason;
      building.finished = true;
    }
    if (logprobs != null) {
      choice.logprobs = {
        content: [...(choice.logprobs?.content ?? []), ...(logprobs.content ?? [])],
        ...(logprobs.refusal == null && choice.logprobs?.refusal == null
          ? {}
          : { refusal: [...(choice.logprobs?.refusal ?? []), ...(logprobs.refusal ?? [])] }),
      };
    }
  }
}

/** Joins pieces of a value that are of one kind; where the kind changes, the last piece counts. */
function joined(known: unknown, value: unknown): unknown {
  if (typeof known === "string" && typeof value === "string") return known + value;
  if (Array.isArray(known) && Array.isArray(value)) return [...known, ...value];
  return isObject(known) && isObject(value) ? { ...known, ...value } : value;
}

function foldCall(calls: AnyToolCall[], delta: ToolCallDelta): void {
  const known = calls[delta.index];
  if (known === undefined) {
    calls[delta.index] = openedCall(delta);
    return;
  }
  switch (known.type) {
    case "function":
      known.function.arguments += delta.function?.arguments ?? "";
      if (delta.extra_content !== undefined) known.extra_content = { ...known.extra_content, ...delta.extra_content };
      return;
    case "custom":
      known.custom.input += delta.custom?.input ?? "";
      return;
    default: {
      const { index: _, id: _id, type: _type, ...more } = delta;
      calls[delta.index] = grown(known, more) as OtherToolCall;
    }
  }
}

function openedCall({ index: _, ...delta }: ToolCallDelta): AnyToolCall {
  const { id = "", extra_content } = delta;
  if (delta.type === "custom") {
    return { id, type: "custom", custom: { name: delta.custom?.name ?? "", input: delta.custom?.input ?? "" } };
  }
  if (isOtherKind(delta)) return delta as OtherToolCall;
  const called = { name: delta.function?.name ?? "", arguments: delta.function?.arguments ?? "" };
  return { id, type: "function", function: called, ...(extra_content && { extra_content }) };
}

/** Joins the texts of unknown kinds of tool calls at any depth, as those of known ones are. */
function grown(known: unknown, more: unknown): unknown {
  if (!isObject(known) || !isObject(more)) return joined(known, more);
  const members = Object.keys({ ...known, ...more }).map((name) => {
    const [before, after] = [ownMember(known, name), ownMember(more, name)];
    return [name, before === undefined || after === undefined ? (before ?? after) : grown(before, after)];
  });
  return Object.fromEntries(members);
}

function foldFunctionCall(message: AnswerMessage, delta: { name?: string; arguments?: string }): void {
  const known = (message["function_call"] as { name: string; arguments: string } | undefined) ?? {
    name: "",
    arguments: "",
  };
  message["function_call"] = {
    name: known.name + (delta.name ?? ""),
    arguments: known.arguments + (delta.arguments ?? ""),
  };
}
