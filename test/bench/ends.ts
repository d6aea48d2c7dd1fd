/** Both ends of calls in C (the sources are in `ends/`): what they are to say is written into files, once for a kind of call. */
import { globSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { clientFormats } from "../helpers/client-formats.ts";
import { expectedText, expectedTexts } from "./answer-check.ts";
import { cachedTokens, parseAnswerShape, plainCompletionTokens, promptOf, promptTokens } from "./answer-shape.ts";
import { type CallSpec, fieldsOf, mockModel } from "./calls.ts";
import { type Family, families, plainText } from "./mock-families.ts";
import type { Processes } from "./processes.ts";
import { type Address, firstLine, ignoreOutput } from "./subjects.ts";

/** What the callers tell; seconds. */
export type EndsResult = {
  readonly calls: number;
  readonly fragments: number;
  readonly wrong: number;
  /** Calls at a rate that had no answer ten seconds after the last was due. */
  readonly unanswered: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Of calls at a rate from the time at which they were due; of other streams to the first fragment. */
  readonly p50: number;
  readonly p99: number;
  /** What was wrong with the first wrong answer. */
  readonly fault: string;
};

export type EndsLoad = {
  /** That call again as soon as they are answered. */
  readonly callers?: number;
  /** Within so many seconds they begin. */
  readonly ramp?: number;
  /** Instead: calls a second. */
  readonly rate?: number;
  /** In which calls are begun. */
  readonly seconds: number;
  /** At most. */
  readonly calls?: number;
};

/** @throws where there is no C compiler, or it finds fault */
export function buildEnds(folder: string): string {
  const compiler = Bun.which("cc") ?? Bun.which("gcc") ?? Bun.which("clang");
  if (compiler === null) throw new Error("a C compiler (cc, gcc or clang) is needed for the ends");
  const file = join(folder, "ends");
  const sources = globSync(join(import.meta.dir, "ends/*.c"));
  const built = Bun.spawnSync([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", file, ...sources]);
  if (built.exitCode !== 0) throw new Error(`the ends can't be built: ${built.stderr}`);
  return file;
}

/** A file of texts, as `ends` without arguments describes it. */
const textsOf = (told: readonly (number | string)[], texts: readonly string[]) =>
  `${[...told, texts.length, ...texts.map((text) => Buffer.byteLength(text))].join(" ")}\n${texts.join("")}`;

const headOf = (family: Family, more: Record<string, string | number>) => {
  const headers = { date: "Fri, 27 Nov 2026 10:00:00 GMT", ...family.headers, ...more };
  return `HTTP/1.1 200 OK\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`;
};

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

function plainAnswer(family: Family, model: string): string {
  const body = family.plain(model, plainText(parseAnswerShape(model)));
  const head = headOf(family, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  return textsOf([0], [head + body]);
}

function streamedAnswer(family: Family, model: string, includeUsage: boolean): string {
  const shape = parseAnswerShape(model);
  const { opening, fragments, closing } = family.stream(model, shape, includeUsage);
  const head = headOf(family, {
    "content-type": "text/event-stream; charset=utf-8",
    "transfer-encoding": "chunked",
  });
  const last = fragments.length - 1;
  const pieces = fragments.map((text, at) => {
    const events = chunk((at === 0 ? opening : "") + text + (at === last ? closing : ""));
    return (at === 0 ? head : "") + events + (at === last ? "0\r\n\r\n" : "");
  });
  return textsOf([shape.intervalMs / 1e3], pieces);
}

/** Starts a provider that answers every call in the shape of this one, in the format and form in which it is asked. */
export async function startEndsMock(processes: Processes, ends: string, folder: string, call: CallSpec) {
  const { openai, anthropic } = families;
  const model = mockModel(call);
  const answers = [
    plainAnswer(openai, model),
    streamedAnswer(openai, model, false),
    streamedAnswer(openai, model, true),
    plainAnswer(anthropic, model),
    streamedAnswer(anthropic, model, false),
  ];
  const file = join(folder, "answers");
  writeFileSync(file, answers.join(""));
  const child = processes.start({ role: "mock", command: [ends, "mock", file] });
  const port = Number(await firstLine(child));
  ignoreOutput(child);
  return { port, pids: [child.pid], stop: () => processes.stop(child) };
}

const idDigits = 12;
let loads = 0;

/** The bytes of a call's request, and where its number goes. */
function requestOf(call: CallSpec, { port, path, headers, model, fields }: Address) {
  const body = JSON.stringify({
    model,
    ...clientFormats[call.format].body(promptOf(call.promptKind, call.promptChars)),
    ...(call.streamed && { stream: true }),
    ...fieldsOf(call),
    ...fields,
  });
  const id = `bench-${process.pid}-${Date.now()}-${loads++}-`;
  const all = {
    host: `127.0.0.1:${port}`,
    ...(call.identified && { "service-request-id": id + "0".repeat(idDigits) }),
    ...headers,
    "content-type": "application/json",
    accept: call.streamed ? "text/event-stream" : "application/json",
    "user-agent": "OpenAI/JS 7.55.0",
    "content-length": Buffer.byteLength(body),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const text = `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
  return { text, idAt: call.identified ? text.indexOf(id) + id.length : undefined };
}

/** Makes calls by a load generator of their own. @param whileHeld instead of calls to their end: what to do while each caller's stream is open */
export async function performLoad(
  processes: Processes,
  ends: string,
  folder: string,
  call: CallSpec,
  address: Address,
  load: EndsLoad,
  whileHeld?: () => Promise<void>,
): Promise<EndsResult> {
  const [request, expectation] = [join(folder, "request"), join(folder, "expectation")];
  const { text, idAt } = requestOf(call, address);
  const shape = parseAnswerShape(mockModel(call));
  const texts = call.streamed ? expectedTexts(shape) : [expectedText({ shape, streamed: false, includeUsage: false })];
  writeFileSync(request, text);
  const cached = call.family === "anthropic" ? cachedTokens : 0;
  const told = [Number(call.streamed), promptTokens, cached, plainCompletionTokens];
  writeFileSync(expectation, textsOf(told, texts));
  const numbers = { port: address.port, "id-at": idAt, ...load };
  const options = Object.entries(numbers).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  );
  const files = ["--request", request, "--expect", expectation, ...(whileHeld === undefined ? [] : ["--hold"])];
  const child = processes.start({ role: "load", command: [ends, "load", ...files, ...options] });
  const errors = new Response(child.stderr).text();
  let output = "";
  for await (const part of child.stdout) {
    output += new TextDecoder().decode(part);
    if (output !== "held\n") continue;
    await whileHeld?.();
    child.stdin.end();
  }
  if ((await child.exited) !== 0) throw new Error((await errors).trim());
  return JSON.parse(output.replace("held\n", ""));
}
