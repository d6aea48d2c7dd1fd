/** Providers that answer over HTTP on this machine, in the formats of OpenAI and Anthropic: as much of them as a demonstration asks for. */
import { endingExample, exampleModels } from "../../facts/examples.ts";
import { pause, systemClock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { doneData } from "../../protocols/chat/stream.ts";

type FakeProviders = AsyncDisposable & {
  /** Without a trailing slash; each provider is below its name. */
  readonly url: string;
};

type Asked = {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages?: readonly { readonly role: string; readonly content: unknown }[];
  readonly response_format?: unknown;
};

/** The key of an account without money. */
export const spentKey = "demo-key-without-credit";

const dayAfter = (days: number) => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

const models: Readonly<Record<string, () => readonly object[]>> = {
  openai: () => [
    { id: exampleModels.openai, object: "model" },
    { id: exampleModels.openaiSmall, object: "model" },
    { id: endingExample, object: "model", shutdown_date: dayAfter(12) },
  ],
  anthropic: () => [
    { id: exampleModels.anthropic, type: "model", display_name: "Claude Sonnet" },
    { id: exampleModels.anthropicSmall, type: "model", display_name: "Claude Haiku" },
  ],
  mistral: () => [{ id: "mistral-medium-latest", object: "model" }],
};

const answers = [
  "Your order left our warehouse yesterday and should reach you within **two working days**. You will get a message with the tracking number as soon as the carrier has scanned it.",
  "I have checked the three options:\n\n1. Keep the plan you have; nothing changes.\n2. Move to the yearly plan and save 15 %.\n3. Pause for up to three months.\n\nMost customers in your position take the second.",
  "The shortest way is a single query:\n\n```sql\nselect customer, sum(total) as spent\nfrom orders\ngroup by customer\norder by spent desc\nlimit 10;\n```\n\nAn index on `orders(customer)` keeps it fast.",
  "Thank you for the report. The export fails when a name holds a line break; the fix is in version 4.2.1, which goes out on Thursday. Until then, please leave that column out.",
  "| plan | seats | price |\n| --- | --- | --- |\n| Team | 10 | $90 |\n| Business | 50 | $380 |\n\nBoth can be changed or ended at any time.",
];
const asJson = JSON.stringify({
  category: "delivery",
  urgency: "normal",
  summary: "The customer asks where the order is.",
});

export function startFakeProviders(): FakeProviders {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: async (request) => {
      const [, provider = "", ...rest] = new URL(request.url).pathname.split("/");
      if (rest.at(-1) === "models")
        return Response.json({ object: "list", data: models[provider]?.() ?? [], has_more: false });
      if (request.headers.get("authorization") === `Bearer ${spentKey}`) {
        const error = {
          message: "You exceeded your current quota, please check your plan.",
          code: "insufficient_quota",
        };
        return Response.json({ error: { ...error, type: "insufficient_quota", param: null } }, { status: 429 });
      }
      const asked = (await request.json()) as Asked;
      const answer = new Answer(asked);
      if (rest.at(-1) === "messages") return answer.respond(answer.asMessages());
      if (rest.slice(-2).join("/") === "chat/completions") return answer.respond(answer.asChat());
      return Response.json(
        { error: { message: "This provider does not have that.", type: "not_found" } },
        { status: 404 },
      );
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop(true) };
}

type Body = { readonly whole: object; readonly events: (text: string) => Iterable<string> | AsyncIterable<string> };

/** The same question gets the same answer. */
class Answer {
  readonly #asked: Asked;
  readonly #text: string;
  readonly #input: number;
  readonly #output: number;

  constructor(asked: Asked) {
    this.#asked = asked;
    const question = JSON.stringify(asked.messages?.at(-1) ?? "");
    const hash = Bun.hash.xxHash32(question);
    this.#text = asked.response_format === undefined ? answers[hash % answers.length]! : asJson;
    this.#input = Math.ceil(JSON.stringify(asked.messages ?? []).length / 4);
    this.#output = Math.ceil(this.#text.length / 4);
  }

  respond({ whole, events }: Body): Response {
    if (this.#asked.stream !== true) return Response.json(whole);
    const text = this.#text;
    const stream = async function* () {
      await pause(systemClock, 180);
      yield* events(text);
    };
    return new Response(stream() as unknown as ReadableStream, { headers: { "content-type": "text/event-stream" } });
  }

  asChat(): Body {
    const { model } = this.#asked;
    const [prompt, completion] = [this.#input, this.#output];
    const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
    const head = { id: "chatcmpl-demo", created: Math.floor(Date.now() / 1000), model };
    const message = { role: "assistant", content: this.#text };
    const event = (body: object) =>
      `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...body })}\n\n`;
    const choice = (delta: object, reason: string | null = null) =>
      event({ choices: [{ index: 0, delta, finish_reason: reason }] });
    return {
      whole: { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }], usage },
      events: async function* (text) {
        yield choice({ role: "assistant", content: "" });
        for await (const piece of pieces(text)) yield choice({ content: piece });
        yield choice({}, "stop");
        yield event({ choices: [], usage });
        yield `data: ${doneData}\n\n`;
      },
    };
  }

  asMessages(): Body {
    const { model } = this.#asked;
    const usage = { input_tokens: this.#input, output_tokens: this.#output };
    const message = { id: "msg_demo", type: "message", role: "assistant", model, stop_sequence: null };
    const event = (body: { readonly type: string; readonly [member: string]: unknown }) =>
      `event: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`;
    return {
      whole: { ...message, content: [{ type: "text", text: this.#text }], stop_reason: "end_turn", usage },
      events: async function* (text) {
        const begun = { ...usage, output_tokens: 1 };
        yield event({ type: "message_start", message: { ...message, content: [], stop_reason: null, usage: begun } });
        yield event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
        for await (const piece of pieces(text))
          yield event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: piece } });
        yield event({ type: "content_block_stop", index: 0 });
        yield event({ type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage });
        yield event({ type: "message_stop" });
      },
    };
  }
}

/** Words in the pace of a model. */
async function* pieces(text: string): AsyncGenerator<string> {
  for (const piece of text.match(/\S+\s*|\s+/g) ?? []) {
    await pause(systemClock, 12);
    yield piece;
  }
}
