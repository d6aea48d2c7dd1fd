/**
 * Providers of four families in one process: every answer is built once per model name and then only copied out.
 * Usage: `bun test/bench/mock.ts`; it prints its port and lives until its input closes.
 */
import { type AnswerShape, noTime, parseAnswerShape, timeDigits, writeDigits } from "./answer-shape.ts";
import { type FamilyName, families, plainText } from "./mock-families.ts";
import { endWithInput } from "./processes.ts";
import { sinceBootMicroseconds } from "./system-clock.ts";

type Bytes = Uint8Array<ArrayBuffer>;
/** One write of a stream. */
type Piece = {
  readonly bytes: Bytes;
  /** Where its time of sending goes. */
  readonly timeAt: number;
  /** Where the times of all fragments stand again, in an end that repeats the text. */
  readonly repeatsAt: readonly number[];
};
type Prepared = {
  readonly family: FamilyName;
  readonly model: string;
  readonly shape: AnswerShape;
  readonly plain: Bytes;
  readonly pieces: readonly Piece[];
  /** The whole stream in blocks, for answers without intervals. */
  readonly blocks: readonly Bytes[];
  readonly plainHeaders: Headers;
  readonly streamHeaders: Headers;
};

const encoder = new TextEncoder();
const blockBytes = 16_384;
const prepared = new Map<string, Prepared>();

function prepare(family: FamilyName, model: string, includeUsage: boolean): Prepared {
  const key = `${family} ${model} ${includeUsage}`;
  let found = prepared.get(key);
  if (found === undefined) {
    const shape = parseAnswerShape(model);
    const { plain, stream, headers } = families[family];
    const { opening, fragments, closing } = stream(model, shape, includeUsage);
    const last = fragments.length - 1;
    const texts = fragments.map((text, at) => (at === 0 ? opening : "") + text + (at === last ? closing : ""));
    found = {
      family,
      model,
      shape,
      plain: encoder.encode(plain(model, plainText(shape))),
      pieces: texts.map((text) => {
        const bytes = encoder.encode(text);
        const [timeAt = 0, ...repeatsAt] = placesOf(noTime, bytes);
        return { bytes, timeAt, repeatsAt };
      }),
      blocks: inBlocks(encoder.encode(texts.join(""))),
      plainHeaders: new Headers({ ...headers, "content-type": "application/json" }),
      streamHeaders: new Headers({ ...headers, "content-type": "text/event-stream; charset=utf-8" }),
    };
    prepared.set(key, found);
  }
  return found;
}

function placesOf(text: string, bytes: Bytes): number[] {
  const buffer = Buffer.from(bytes.buffer);
  const places: number[] = [];
  for (let at = buffer.indexOf(text); at >= 0; at = buffer.indexOf(text, at + text.length)) places.push(at);
  return places;
}

function inBlocks(bytes: Bytes): Bytes[] {
  const blocks: Bytes[] = [];
  for (let at = 0; at < bytes.length; at += blockBytes) blocks.push(bytes.slice(at, at + blockBytes));
  return blocks;
}

/** Fast as the reader takes it: each pull hands out a block. */
function burst(answer: Prepared): ReadableStream<Uint8Array> {
  let next = 0;
  return new ReadableStream({
    pull(controller) {
      const block = answer.blocks[next++];
      if (block !== undefined) controller.enqueue(block);
      if (next >= answer.blocks.length) controller.close();
    },
  });
}

/** One fragment at each beat, each stamped with the time at which it was sent. */
function paced(answer: Prepared): ReadableStream<Uint8Array> {
  const times: number[] = [];
  let next = 0;
  let timer: Timer | undefined;
  return new ReadableStream({
    start(controller) {
      const beat = () => {
        const { bytes, timeAt, repeatsAt } = answer.pieces[next++]!;
        const stamped = bytes.slice();
        times.push(sinceBootMicroseconds(performance.now()));
        writeDigits(stamped, timeAt, timeDigits, times.at(-1)!);
        for (const [at, place] of repeatsAt.entries())
          writeDigits(stamped, place, timeDigits, times[at % times.length]!);
        controller.enqueue(stamped);
        if (next < answer.pieces.length) return;
        clearInterval(timer);
        controller.close();
      };
      timer = setInterval(beat, answer.shape.intervalMs);
      beat();
    },
    cancel: () => clearInterval(timer),
  });
}

function streamed(answer: Prepared): Response {
  const body = answer.shape.intervalMs > 0 ? paced(answer) : burst(answer);
  return new Response(body, { headers: answer.streamHeaders });
}

async function plain(answer: Prepared, text: () => string): Promise<Response> {
  if (!answer.shape.echoesChecksum) return new Response(answer.plain, { headers: answer.plainHeaders });
  const checksum = String(Bun.hash.crc32(maxText(JSON.parse(text()))));
  return new Response(families[answer.family].plain(answer.model, checksum), { headers: answer.plainHeaders });
}

function maxText(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return "";
  return Object.values(value).reduce((longest: string, inner) => {
    const text = maxText(inner);
    return text.length > longest.length ? text : longest;
  }, "");
}

/** What of a request decides the answer; large bodies are searched, not parsed. */
type Asked = { model: string; stream: boolean; includeUsage: boolean; text: () => string };
const searchedFrom = 65_536;

async function read(request: Request): Promise<Asked> {
  const body = Buffer.from(await request.arrayBuffer());
  const text = () => body.toString("utf8");
  if (body.length < searchedFrom) {
    const { model, stream, stream_options } = JSON.parse(text());
    return { model, stream: stream === true, includeUsage: stream_options?.include_usage === true, text };
  }
  const modelAt = body.indexOf('"model":"') + 9;
  const model = modelAt < 9 ? "" : body.toString("utf8", modelAt, body.indexOf('"', modelAt));
  return { model, stream: body.includes('"stream":true'), includeUsage: body.includes('"include_usage":true'), text };
}

/** Refuses, as the family would, a call that lacks what it insists on. */
const refuse = (status: number, type: string, message: string) =>
  Response.json({ error: { type, message, param: null, code: null } }, { status });

async function answerBody(family: FamilyName, request: Request): Promise<Response> {
  const { model, stream, includeUsage, text } = await read(request);
  if (!model) return refuse(400, "invalid_request_error", "you must provide a model parameter");
  const answer = prepare(family, model, includeUsage);
  return stream ? streamed(answer) : plain(answer, text);
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  development: false,
  idleTimeout: 0,
  maxRequestBodySize: 64 * 1024 * 1024,
  routes: {
    "/v1/chat/completions": (request) =>
      request.headers.get("authorization")?.startsWith("Bearer ")
        ? answerBody("openai", request)
        : refuse(401, "invalid_request_error", "You didn't provide an API key."),
    "/v1/responses": (request) => answerBody("xai", request),
    "/v1/messages": (request) =>
      request.headers.has("x-api-key") && request.headers.has("anthropic-version")
        ? answerBody("anthropic", request)
        : refuse(401, "authentication_error", "x-api-key and anthropic-version headers are required"),
    "/v1beta/models/:call": async (request) => {
      const [model = "", method] = request.params.call.split(":");
      if (!request.headers.has("x-goog-api-key")) return refuse(403, "PERMISSION_DENIED", "Method needs an API key.");
      const text = Buffer.from(await request.arrayBuffer());
      const answer = prepare("google", model, false);
      return method === "streamGenerateContent" ? streamed(answer) : plain(answer, () => text.toString("utf8"));
    },
  },
  fetch: () => refuse(404, "invalid_request_error", "Unknown request URL."),
});

console.log(server.port);
endWithInput();
