/**
 * What holds for every provider of the registry, through the gateway as clients use it:
 * whatever an upstream sends, and however it is cut, the caller gets a legal answer or an error object, and never waits.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import type { ChunkBody } from "../../src/protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import type { AnsweredCall } from "../../src/providers/provider.ts";
import { dataIn } from "../helpers/chat-stream.ts";
import { decodeStream } from "../helpers/decode-stream.ts";
import { answeredCases, callOf, type Family, fixtureFamilies } from "../helpers/fixtures.ts";
import { runs } from "../helpers/long-form.ts";
import { served } from "../helpers/served.ts";
import { sseResponse } from "../helpers/upstream-server.ts";

const encoder = new TextEncoder();
const families = fixtureFamilies();

type Decoded = { bodies: ChunkBody[]; fault?: { status: number; payload?: string } };

/** All bodies until the end or the fault. */
function decode({ provider }: Family, call: AnsweredCall, pieces: readonly Uint8Array[]): Decoded {
  const bodies: ChunkBody[] = [];
  try {
    for (const some of decodeStream(provider.streamDecoder(call), pieces)) bodies.push(...some);
    return { bodies };
  } catch (error) {
    if (error instanceof InvalidAnswer) return { bodies, fault: { status: 503 } };
    if (!(error instanceof UpstreamFault)) throw error;
    return { bodies, fault: { status: error.status, payload: error.payload } };
  }
}

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [...new Set([0, ...places.map((place) => place % (bytes.length + 1)), bytes.length])].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => bytes.subarray(at[index]!, end));
}

describe.each(families.map((family) => [family.folder, family] as const))("%s", (folder, family) => {
  const streams = answeredCases(folder, "sse");

  test.skipIf(streams.length === 0)("any cutting of any example stream gives the same", () => {
    const places = fc.array(fc.nat(1_000_000), { maxLength: 40 });
    fc.assert(
      fc.property(fc.constantFrom(...streams), places, fc.boolean(), (example, where, withReturns) => {
        const call = callOf(example, family);
        const whole = decode(family, call, [encoder.encode(example.upstream)]);
        const text = withReturns ? example.upstream.replace(/\r?\n/g, "\r\n") : example.upstream;
        const pieces = decode(family, call, cut(encoder.encode(text), where));
        if (whole.fault !== undefined) expect(pieces.fault?.status).toBe(whole.fault.status);
        expect(pieces.bodies).toEqual(whole.bodies);
      }),
      { numRuns: runs(150) },
    );
  });

  test.skipIf(streams.length === 0)("an example stream that is cut short never gives more, and never breaks", () => {
    fc.assert(
      fc.property(fc.constantFrom(...streams), fc.nat(1_000_000), (example, length) => {
        const call = callOf(example, family);
        const bytes = encoder.encode(example.upstream);
        const text = ({ bodies }: Decoded) =>
          bodies.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("");
        const all = text(decode(family, call, [bytes]));
        expect(all.startsWith(text(decode(family, call, [bytes.subarray(0, length % bytes.length)])))).toBe(true);
      }),
      { numRuns: runs(100) },
    );
  });
});

/** Pairs of examples whose words differ. */
const unlike = new Set([
  ...["openai-responses/refusal", "anthropic/refusal-explained", "anthropic/server-tools", "google/blocked-prompt"],
  "google/thinking",
  // The reason of its end is missing: a plain answer is whole without one, a stream may have been cut.
  "anthropic/stop-none",
  ...["xai/repetition", "xai-responses/cut-short", "xai-responses/filtered"],
]);

describe("an example with both forms of answer is the same message, streamed and plain", () => {
  const pairs = families.flatMap((family) =>
    answeredCases(family.folder, "sse").flatMap((streamed) => {
      const plain = streamed.path.replace(/-stream$|(?<=\/)stream-/, "");
      const sibling = answeredCases(family.folder, "json").find(({ path }) => path === plain);
      return sibling === undefined || unlike.has(plain) ? [] : [[plain, family, streamed, sibling] as const];
    }),
  );

  test("there are many", () => expect(pairs.length).toBeGreaterThan(20));

  test.each(pairs)("%s", (_, family, streamed, plain) => {
    const decodePlain = () => family.provider.decode(JSON.parse(plain.upstream), plain.upstream, callOf(plain, family));
    const whole = decode(family, callOf(streamed, family), [encoder.encode(streamed.upstream)]);
    if (whole.fault !== undefined) {
      expect(decodePlain).toThrow(UpstreamFault);
      return;
    }
    const fold = new StreamFold();
    fold.push(whole.bodies);
    const given = decodePlain();
    const asJson = (value: unknown) => JSON.parse(JSON.stringify(value));
    expect(asJson(fold.result().choices)).toEqual(asJson(given.choices));
  });
});

/** JSON of any form, and of forms that upstreams nearly send. */
const scrap = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown[]>(...wholeOnes()).chain((whole) => mutated(whole)),
);

function wholeOnes(): unknown[] {
  return families.flatMap(({ folder }) => [
    ...answeredCases(folder, "json").map(({ upstream }) => JSON.parse(upstream)),
    ...answeredCases(folder, "sse").flatMap(({ upstream }) =>
      [...upstream.matchAll(/^data: ?(\{.*\})\s*$/gm)].flatMap(([, data]) => {
        try {
          return [JSON.parse(data!)];
        } catch {
          return [];
        }
      }),
    ),
  ]);
}

/** One value somewhere inside is another, or gone. */
function mutated(value: unknown): fc.Arbitrary<unknown> {
  const strange = fc.constantFrom<unknown>(undefined, null, 0, -1, "", "x", true, [], {}, [null], [[]], { a: 1 }, 1e30);
  return fc.tuple(fc.nat(10_000), strange).map(([at, other]) => {
    let left = at % Math.max(1, count(value));
    const copy = (one: unknown): unknown => {
      if (left-- === 0) return other;
      if (Array.isArray(one)) return one.map(copy);
      if (typeof one !== "object" || one === null) return one;
      return Object.fromEntries(Object.entries(one).map(([key, inner]) => [key, copy(inner)]));
    };
    return copy(value);
  });
}

function count(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return 1 + Object.values(value).reduce((sum: number, inner) => sum + count(inner), 0);
}

const events = fc.array(
  fc.oneof(
    scrap.map((data) => `data: ${JSON.stringify(data) ?? "undefined"}\n\n`),
    fc.string({ maxLength: 20 }).map((text) => `data: ${text.replace(/[\r\n]/g, "")}\n\n`),
    fc.constantFrom(
      "data: [DONE]\n\n",
      ": ping\n\n",
      "event: error\n",
      "event: ping\ndata: {}\n\n",
      "\n",
      "{\n",
      "}\n",
    ),
  ),
  { maxLength: 8 },
);

let next: () => Response;
const { troupe } = await served(
  () => next(),
  (baseUrl) => ({ providers: Object.fromEntries(families.map(({ provider }) => [provider.name, { baseUrl }])) }),
);

describe("through the gateway, whatever an upstream sends", () => {
  const ask = ({ provider, extras }: Family, stream: boolean) =>
    troupe.post("/gateway/v1/chat/completions", {
      model: `${provider.name}/some-model`,
      messages: [{ role: "user", content: "Hi" }],
      stream,
      ...extras,
    });

  async function expectLegal(response: Response): Promise<void> {
    const text = await response.text();
    if (response.status !== 200) {
      expect(response.status).toBeGreaterThanOrEqual(400);
      expect(response.status).toBeLessThan(600);
      if (response.headers.get("x-troupe-error-source") === null) {
        expect(Object.keys(JSON.parse(text).error)).toEqual(["message", "type", "param", "code"]);
      }
    } else if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      expectLegalStream(text);
    } else {
      const { object, choices, usage } = JSON.parse(text);
      expect([object, typeof usage.total_tokens]).toEqual(["chat.completion", "number"]);
      expect(choices.length).toBeGreaterThan(0);
      for (const { message, finish_reason } of choices) {
        expect(message.role).toBe("assistant");
        expect(["stop", "length", "tool_calls", "content_filter", "function_call"]).toContain(finish_reason);
      }
    }
  }

  function expectLegalStream(text: string): void {
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    const chunks = dataIn(text)
      .slice(0, -1)
      .map((data) => JSON.parse(data));
    const last = chunks.at(-1);
    if (last.error !== undefined) expect([typeof last.error.message, last.choices]).toEqual(["string", undefined]);
    else expect(chunks.findLast(({ choices }) => choices.length > 0).choices[0].finish_reason).not.toBeNull();
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  }

  test.each(families.map((family) => [family.folder, family] as const))(
    "%s: a legal answer or an error",
    async (_, family) => {
      await fc.assert(
        fc.asyncProperty(scrap, events, fc.boolean(), async (body, sent, stream) => {
          next = () => new Response(JSON.stringify(body) ?? "", { headers: { "content-type": "application/json" } });
          await expectLegal(await ask(family, stream));
          next = () => sseResponse(sent.length === 0 ? [""] : sent);
          await expectLegal(await ask(family, stream));
        }),
        { numRuns: runs(60) },
      );
    },
  );

  test.each(families.map((family) => [family.folder, family] as const))(
    "%s: a refusal, byte for byte",
    async (_, family) => {
      const anyBytes = fc.uint8Array({ maxLength: 60 });
      const status = fc.constantFrom(
        400,
        401,
        402,
        403,
        404,
        408,
        409,
        413,
        422,
        429,
        498,
        499,
        500,
        502,
        503,
        504,
        529,
      );
      const type = fc.constantFrom("application/json", "text/html; charset=utf-8", "text/event-stream", "text/plain");
      await fc.assert(
        fc.asyncProperty(anyBytes, status, type, fc.boolean(), async (bytes, code, named, stream) => {
          next = () => new Response(bytes, { status: code, headers: { "content-type": named } });
          const response = await ask(family, stream);
          expect([response.status, response.headers.get("content-type")]).toEqual([code, named]);
          expect(new Uint8Array(await response.arrayBuffer())).toEqual(bytes);
        }),
        { numRuns: runs(25) },
      );
    },
  );
});
