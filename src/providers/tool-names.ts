/** Names of tools in the form that an upstream takes: those of another form are replaced, in declarations and replays alike, and restored in answers. */
import { type JsonObject, textOf } from "../lib/json/json.ts";
import type { ChatRequest, ChunkBody, CompletionBody, Message, Tool, ToolChoice } from "../protocols/chat/schema.ts";
import { calledIn, toolName } from "../protocols/chat/tools.ts";
import { MappedDecoder } from "./mapped-answers.ts";
import type { AnsweredCall, Call, RemoteProvider } from "./provider.ts";

export type NameForm = {
  readonly legal: RegExp;
  readonly maxLength: number;
  /** @returns a legal name, as like this one as can be; it may be too long */
  fitting(name: string): string;
};

type Coder = Pick<RemoteProvider, "encode" | "decode" | "streamDecoder" | "counter">;

/** The same, for names of any form. */
export function withToolNames<C extends Coder>(coder: C, form: NameForm): C {
  const { counter } = coder;
  const here = <K extends Call>(call: K): K => {
    const names = namesOf(call.request, form);
    return names === undefined ? call : { ...call, request: renamed(call.request, names) };
  };
  return {
    ...coder,
    encode: (call) => coder.encode(here(call)),
    ...(counter && { counter: (call: Call) => counter(here(call)) }),
    decode(body, text, call: AnsweredCall) {
      const answer = coder.decode(body, text, here(call));
      const own = namesOf(call.request, form)?.own;
      return own === undefined ? answer : restoredAnswer(answer, own);
    },
    streamDecoder(call: AnsweredCall) {
      const decoder = coder.streamDecoder(here(call));
      const own = namesOf(call.request, form)?.own;
      return own === undefined
        ? decoder
        : new MappedDecoder(decoder, (bodies) => bodies.map((body) => restored(body, own)));
    },
  };
}

type Names = {
  readonly there: ReadonlyMap<string, string>;
  /** The caller's names of declared tools, by those that go up. */
  readonly own: ReadonlyMap<string, string>;
};

/** Declared names come first, so that an answer is read alike when the conversation has been dropped. @returns undefined where all are legal */
function namesOf({ tools, messages }: ChatRequest, form: NameForm): Names | undefined {
  const declared = (tools ?? []).flatMap((tool) => toolName(tool) ?? []);
  const called = messages.flatMap((message) => callsIn(message).flatMap((call) => toolName(call) ?? []));
  if (declared.every((name) => form.legal.test(name)) && called.every((name) => form.legal.test(name)))
    return undefined;
  const taken = new Set(declared.filter((name) => form.legal.test(name)));
  const there = new Map<string, string>();
  for (const name of [...declared, ...called]) {
    if (there.has(name) || form.legal.test(name)) continue;
    const fitting = form.fitting(name);
    let one = fitting.slice(0, form.maxLength);
    for (let copy = 2; taken.has(one); copy += 1) one = `${fitting.slice(0, form.maxLength - 5)}_${copy}`;
    taken.add(one);
    there.set(name, one);
  }
  const own = declared.flatMap((name) => (there.has(name) ? [[there.get(name)!, name] as const] : []));
  return { there, own: new Map(own) };
}

const callsIn = (message: Message): readonly JsonObject[] =>
  message.role === "assistant" ? ((message.tool_calls ?? []) as readonly JsonObject[]) : [];

function renamed(request: ChatRequest, { there }: Names): ChatRequest {
  const { tools, messages, tool_choice } = request;
  return {
    ...request,
    messages: messages.map((message) => {
      const calls = callsIn(message);
      return calls.length === 0
        ? message
        : ({ ...message, tool_calls: calls.map((call) => named(call, there)) } as Message);
    }),
    ...(tools !== undefined && { tools: tools.map((tool) => named(tool as JsonObject, there) as Tool) }),
    ...(tool_choice !== undefined && { tool_choice: chosen(tool_choice, there) }),
  };
}

/** A tool, a call or an entry of a choice by its other name. */
function named<T extends JsonObject>(entry: T, names: ReadonlyMap<string, string>): T {
  const called = calledIn(entry);
  const said = called?.said ?? entry;
  const name = names.get(textOf(said["name"]) ?? "");
  if (name === undefined) return entry;
  return called === undefined ? { ...entry, name } : { ...entry, [called.kind]: { ...said, name } };
}

function chosen(choice: ToolChoice, there: ReadonlyMap<string, string>): ToolChoice {
  if (typeof choice === "string") return choice;
  if (choice.type !== "allowed_tools") return named(choice as JsonObject, there) as ToolChoice;
  const { tools, ...mode } = choice.allowed_tools;
  return { ...choice, allowed_tools: { ...mode, tools: tools.map((tool) => named(tool, there)) } };
}

function restored(body: ChunkBody, own: ReadonlyMap<string, string>): ChunkBody {
  if (!body.choices.some(({ delta }) => delta.tool_calls !== undefined)) return body;
  const choices = body.choices.map((choice) => {
    const calls = choice.delta.tool_calls;
    if (calls === undefined) return choice;
    return { ...choice, delta: { ...choice.delta, tool_calls: calls.map((call) => named(call, own)) } };
  });
  return { ...body, choices };
}

function restoredAnswer(answer: CompletionBody, own: ReadonlyMap<string, string>): CompletionBody {
  const choices = answer.choices.map((choice) => {
    const calls = choice.message.tool_calls;
    if (calls === undefined) return choice;
    return { ...choice, message: { ...choice.message, tool_calls: calls.map((call) => named(call, own)) } };
  });
  return { ...answer, choices };
}
