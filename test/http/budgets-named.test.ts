/**
 * What a body only refers to is billed like what it says: files, images and tools, wherever a format lets them be named, are reserved
 * before, or the call is refused where nobody here can say how much they hold.
 */
import { beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { camelCase } from "../../src/protocols/generate-content/spelling.ts";
import { Random } from "../helpers/random.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type Place, typedPlaces } from "../helpers/typed-places/places.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const budgets: Config["budgets"] = {
  all: { prepaid: 1_000_000 },
  tiers: { free: {}, pro: {}, enterprise: {} },
  keys: {},
  tags: {},
  unknownPrice: "refuse",
  assumedOutputTokens: 16,
  assumedToolUses: 5,
  estimateFactor: 1,
};
/** A micro-dollar for each token, and ten for the dearer one's. */
const prices: Config["prices"] = [
  {
    match: "*/m",
    input: 1,
    output: 1,
    tools: { image_generation: 0.01 },
    service_tiers: { priority: 2, speed_fast: 3 },
  },
  { match: "*/dear", input: 10, output: 10 },
];

let answer: () => Response;
const amounts: number[] = [];
const refusing = () => Response.json({ error: { message: "no", type: "invalid" } }, { status: 400 });

const upstream = untilEnd(new UpstreamServer(() => answer()));
const account = { baseUrl: upstream.url, apiKey: "k" };
const troupe = untilEnd(
  await Troupe.start({
    surfaces: ["orchestrator", "gateway", "raw"],
    providers: { openai: account, anthropic: account, google: account, openrouter: account, groq: account },
    config: { budgets, prices },
  }),
);
const { budgets: store } = troupe.server.services.store;
const { reserve } = store;
store.reserve = (reservation) => {
  amounts.push(reservation.amount);
  return reserve(reservation);
};
beforeEach(() => {
  answer = refusing;
  amounts.length = 0;
});

type Reserved = { readonly status: number; readonly said: string; readonly beyond: number };

/** @returns how the call was answered, and what was reserved beyond its text and the longest answer; -1: nothing was */
async function ask(path: string, body: object): Promise<Reserved> {
  amounts.length = 0;
  const answered = await troupe.post(`/gateway${path}`, body);
  const { error } = (await answered.json()) as { error?: { message?: string } };
  const text = Math.ceil(Buffer.byteLength(JSON.stringify(body)) / 3) + 16;
  return {
    status: answered.status,
    said: error?.message ?? "",
    beyond: amounts.length === 0 ? -1 : amounts[0]! - text,
  };
}

const gemini = (fields: object) => ({ generationConfig: { maxOutputTokens: 16 }, ...fields });
const parts = (...all: object[]) => gemini({ contents: [{ role: "user", parts: [{ text: "Hello" }, ...all] }] });
const messages = (...content: object[]) => ({ max_tokens: 16, messages: [{ role: "user", content }] });
const items = (...input: object[]) => ({ max_output_tokens: 16, input: [{ role: "user", content: "a" }, ...input] });

/** Each by the gateway's route, and the provider's own. */
const roads = {
  gemini: ["/v1beta/models/google/m:generateContent", "/providers/google/v1beta/models/m:generateContent"],
  messages: ["/v1/messages", "/providers/anthropic/v1/messages"],
  responses: ["/v1/responses", "/providers/openai/v1/responses"],
} as const;
const accounts = { gemini: "google", messages: "anthropic", responses: "openai" } as const;
const named = (format: keyof typeof roads, at: number, body: object) =>
  format === "gemini" ? body : { model: at === 0 ? `${accounts[format]}/m` : "m", ...body };

const fileUri = "https://generativelanguage.googleapis.com/v1beta/files/a";
const file = { type: "input_file", file_id: "file-a" };
const perUse = 20_000;
const cent = 10_000;

describe("is reserved, on the gateway and by the provider's own API", () => {
  const linked = 100_000;
  const image = 5_000;
  const cases: readonly [what: string, format: keyof typeof roads, body: object, tokens: number][] = [
    ["a file of Google's store", "gemini", parts({ fileData: { fileUri, mimeType: "video/mp4" } }), linked],
    [
      "two in the other spelling",
      "gemini",
      parts({ file_data: { file_uri: fileUri } }, { fileData: { fileUri } }),
      2 * linked,
    ],
    ["a video", "gemini", parts({ fileData: { fileUri: "https://www.youtube.com/watch?v=a" } }), linked],
    [
      "a file in what the system says",
      "gemini",
      { ...parts(), systemInstruction: { parts: [{ fileData: { fileUri, mimeType: "application/pdf" } }] } },
      linked,
    ],
    [
      "a file that a function answered",
      "gemini",
      parts({ functionResponse: { name: "f", response: {}, parts: [{ fileData: { fileUri } }] } }),
      linked,
    ],
    ["a file for a container", "messages", messages({ type: "container_upload", file_id: "file_a" }), linked],
    ["a document", "messages", messages({ type: "document", source: { type: "file", file_id: "file_a" } }), linked],
    ["an image", "messages", messages({ type: "image", source: { type: "file", file_id: "file_a" } }), image],
    [
      "a document by its address",
      "messages",
      messages({ type: "document", source: { type: "url", url: "https://a/b" } }),
      linked,
    ],
    ["an input file", "responses", items({ role: "user", content: [file] }), linked],
    [
      "a file of a tool's result",
      "responses",
      items({ type: "function_call_output", call_id: "c", output: [file, file] }),
      2 * linked,
    ],
    [
      "the image of a screen",
      "responses",
      items({ type: "computer_call_output", call_id: "c", output: { type: "computer_screenshot", file_id: "f" } }),
      image,
    ],
    [
      "a tool of an item",
      "responses",
      items({ type: "additional_tools", role: "developer", tools: [{ type: "image_generation" }] }),
      5 * (perUse + cent),
    ],
  ];
  test.each(cases)("%s (%s)", async (_, format, body, tokens) => {
    for (const [at, path] of roads[format].entries()) {
      const { status, beyond } = await ask(path, named(format, at, body));
      expect([path, status, beyond]).toEqual([path, 400, tokens]);
    }
  });

  test("a cached content, as long as a model can read", async () => {
    const body = { ...parts(), cachedContent: "cachedContents/a" };
    expect(await ask(roads.gemini[0], body)).toMatchObject({ status: 400, beyond: 1_000_000 });
    const chat = { model: "google/m", max_tokens: 16, messages: [{ role: "user", content: "a" }], cached_content: "a" };
    expect((await ask("/v1/chat/completions", chat)).beyond).toBe(1_000_000);
  });

  test("the dearest of the models that may answer", async () => {
    const body = messages({ type: "text", text: "Hello" });
    const fallbacks = [{ model: "dear" }, { model: "m" }];
    const alone = Math.ceil(Buffer.byteLength(JSON.stringify({ model: "anthropic/m", ...body, fallbacks })) / 3) + 16;
    expect((await ask(roads.messages[0], { model: "anthropic/m", ...body, fallbacks })).beyond).toBe(9 * alone);
    const unknown = await ask(roads.messages[0], { model: "anthropic/m", ...body, fallbacks: [{ model: "nobody" }] });
    expect(unknown).toMatchObject({
      status: 403,
      said: expect.stringContaining("What this call may cost is not known"),
    });
    expect((await ask(roads.messages[0], { model: "anthropic/m", ...body, fallbacks: "default" })).status).toBe(400);
    const chat = {
      model: "openrouter/m",
      max_tokens: 16,
      messages: [{ role: "user", content: "a" }],
      models: ["dear"],
    };
    expect((await ask("/v1/chat/completions", chat)).beyond).toBeGreaterThan(300);
  });
});

describe("the longest and dearest answer is reserved", () => {
  const hello = [{ role: "user", content: "Hello" }];
  const longest = {
    model: "anthropic/m",
    max_tokens: 16,
    messages: hello,
    fallbacks: [{ model: "m", max_tokens: 1016 }],
  };
  const cases: readonly [what: string, path: string, body: object, beyond: number][] = [
    ["of a model that answers in place of another", "/v1/messages", longest, 1000],
    [
      "of two names",
      "/v1/chat/completions",
      { model: "groq/m", messages: hello, max_completion_tokens: 16, max_tokens: 1016 },
      1000,
    ],
    [
      "in the other spelling",
      "/providers/google/v1beta/models/m:generateContent",
      { contents: [], generation_config: { max_output_tokens: 508, candidate_count: 2 } },
      1000,
    ],
    [
      "the best of several",
      "/v1/completions",
      { model: "openrouter/m", prompt: "a", max_tokens: 254, best_of: 4 },
      1000,
    ],
    ["of several prompts", "/v1/completions", { model: "openrouter/m", prompt: ["a", "b"], max_tokens: 508 }, 1000],
    ["of tokens", "/v1/completions", { model: "openrouter/m", prompt: [1, 2, 3], max_tokens: 16 }, 0],
    [
      "of several texts of tokens",
      "/providers/openrouter/v1/completions",
      { model: "m", prompt: [[1], [2]], max_tokens: 508 },
      1000,
    ],
    [
      "however few uses of tools another format says",
      "/v1/messages",
      { ...longest, fallbacks: [], tools: [{ type: "web_fetch_20260318", name: "f" }], max_tool_calls: 0 },
      5 * perUse,
    ],
    [
      "however few uses a format says that goes up as another",
      "/v1/chat/completions",
      {
        ...{ model: "openai/m", max_tokens: 16, messages: hello, use_responses_api: true, max_tool_calls: 0 },
        server_tools: [{ type: "mcp", server_label: "a", server_url: "https://a" }],
      },
      5 * perUse,
    ],
    [
      "however few uses a tool of another says",
      "/v1/responses",
      {
        model: "openai/m",
        input: "a",
        max_output_tokens: 16,
        tools: [{ type: "mcp", server_label: "a", server_url: "https://a", max_uses: 0 }],
      },
      5 * perUse,
    ],
    [
      "of servers without a set of tools",
      "/v1/messages",
      { ...longest, fallbacks: [], mcp_servers: [{ type: "url", name: "a", url: "https://a" }] },
      5 * perUse,
    ],
  ];
  test.each(cases)("%s", async (_, path, body, beyond) => {
    const { status, said, beyond: reserved } = await ask(path, body);
    expect([status, reserved, said]).toEqual([400, beyond, expect.any(String)]);
  });

  test("of Gemini's dear tier, and a fallback's dear speed", async () => {
    const tiered = await ask(roads.gemini[0], { ...parts(), serviceTier: "PRIORITY" });
    const usual = await ask(roads.gemini[0], { ...parts(), serviceTier: "STANDARD" });
    expect(tiered.beyond).toBeGreaterThan(usual.beyond);
    const fast = await ask(roads.messages[0], { ...longest, fallbacks: [{ model: "m", speed: "fast" }] });
    const slow = await ask(roads.messages[0], { ...longest, fallbacks: [{ model: "m", speed: "slow" }] });
    expect(fast.beyond).toBeGreaterThan(slow.beyond);
  });
});

describe("what an upstream holds of earlier turns is reserved again", () => {
  /** @returns what a second turn reserves beyond its own text */
  const second = async (first: object, input_tokens: number) => {
    const usage = { input_tokens, output_tokens: 10, total_tokens: input_tokens + 10 };
    const id = `resp_${crypto.randomUUID()}`;
    answer = () => Response.json({ id, object: "response", status: "completed", model: "m", output: [], usage });
    expect((await troupe.post("/gateway/v1/responses", { model: "openai/m", ...first })).status).toBe(200);
    answer = refusing;
    return (await ask("/v1/responses", { model: "openai/m", ...items(), previous_response_id: id })).beyond;
  };

  test("by the files that it refers to", async () => {
    expect(await second(items({ role: "user", content: [file] }), 1)).toBeWithin(100_000, 100_100);
  });

  test("by what the upstream told of it, as its tools may have found more", async () => {
    expect(await second(items(), 400_000)).toBe(400_010);
  });
});

describe("is refused where nobody can say how much it holds", () => {
  const cases: readonly [place: string, format: keyof typeof roads, body: object, roads?: readonly number[]][] = [
    ["prompt", "responses", { ...items(), prompt: { id: "pmpt_a" } }],
    ["container", "messages", { ...messages({ type: "text", text: "a" }), container: "container_a" }],
    ["container", "messages", { ...messages({ type: "text", text: "a" }), container: { id: "container_a" } }],
    [
      "thread",
      "messages",
      { ...messages({ type: "text", text: "a" }), thread: { type: "continue", previous_message_id: "m" } },
    ],
    ["input[1].id", "responses", items({ type: "item_reference", id: "msg_a" }), [1]],
    ["input[1].id", "responses", items({ id: "msg_a" }), [1]],
    ["previous_response_id", "responses", { ...items(), previous_response_id: "resp_a" }, [1]],
    ["conversation", "responses", { ...items(), conversation: { id: "conv_a" } }, [1]],
    ["cachedContent", "gemini", { ...parts(), cachedContent: "cachedContents/a" }, [1]],
  ];
  test.each(cases)("%s (%s)", async (place, format, body, at = [0, 1]) => {
    const before = upstream.requests.length;
    for (const road of at) {
      const refused = await ask(roads[format][road]!, named(format, road, body));
      expect(refused).toEqual({
        status: 403,
        said: expect.stringContaining(`${place}: how much it holds is known to the provider alone`),
        beyond: -1,
      });
    }
    expect(upstream.requests.length).toBe(before);
  });

  test("a tool that is nobody's in tools, and has no price", async () => {
    const advisor = { type: "advisor_20260301", name: "advisor", model: "claude-opus-5-5" };
    const added = { type: "tool_addition", tool: { type: "tool_definition", definition: advisor } };
    const body = {
      max_tokens: 16,
      messages: [
        { role: "user", content: "a" },
        { role: "system", content: [added] },
      ],
    };
    for (const [at, path] of roads.messages.entries()) {
      const answered = await troupe.post(`/gateway${path}`, named("messages", at, body));
      const { error } = (await answered.json()) as { error: { message: string } };
      expect([answered.status, error.message]).toEqual([
        403,
        expect.stringContaining("one for each use of its tools (advisor)"),
      ]);
    }
    const found = { type: "tool_search_output", call_id: "c", tools: [{ type: "code_interpreter", container: "c" }] };
    for (const [at, path] of roads.responses.entries())
      expect((await ask(path, named("responses", at, items(found)))).status).toBe(403);
  });

  test("a file of a form that is elsewhere", async () => {
    const send = async (...fields: [string, string][]) => {
      const form = new FormData();
      for (const [name, value] of fields) form.set(name, value);
      const answered = await troupe.fetch("/gateway/v1/audio/transcriptions", { method: "POST", body: form });
      const { error } = (await answered.json()) as { error: { code: string; param: string } };
      return [answered.status, error.code, error.param];
    };
    const model = ["model", "groq/m"] as [string, string];
    expect(await send(["url", "https://a/long.mp3"], model)).toEqual([403, "model_without_price", "url"]);
    expect(await send(model, ["file_id", "a"])).toEqual([400, "invalid_value", "file_id"]);
    expect((await send(model, ["language", "en"]))[0]).toBe(400);
  });

  test("what can be read in two ways", async () => {
    const body =
      '{"model":"anthropic/m","max_tokens":16,"messages":[],"tools":[{"type":"custom","type":"web_search_20250305","name":"a"}]}';
    const init = { method: "POST", body, headers: { "content-type": "application/json" } };
    for (const path of roads.messages) {
      const answered = await troupe.fetch(`/gateway${path}`, init);
      const { error } = (await answered.json()) as { error: { message: string } };
      expect([answered.status, error.message]).toEqual([400, expect.stringContaining("tools[0].type")]);
    }
  });
});

/** Where a request can refer to something, what the cost of it is on top. */
const refers =
  /(?:\bfile_id|file_ids\[\]|fileUri|file_url|image_url|source\.url|cachedContent|thread\.previous_message_id|^container|^prompt\.id)$/;
const tells = /annotations|results|\.content\.content\[\]\.file_id/;

test("no place at which a client's types name a file or an image lets a call go up for its text alone", async () => {
  const formats = ["BetaMessages", "Responses", "GenerateContent"] as const;
  const places = await typedPlaces(formats, (member) =>
    /_id|_ids|[Uu]ri|[Uu]rl|cachedContent|container|^id$/.test(member),
  );
  const roadOf = { BetaMessages: "messages", Responses: "responses", GenerateContent: "gemini" } as const;
  const base = { messages: messages({ type: "text", text: "a" }), responses: items(), gemini: parts() };
  let asked = 0;
  const passed: string[] = [];
  const check = async (format: (typeof formats)[number], { path, body }: Place) => {
    const road = roadOf[format];
    for (const at of [0, 1]) {
      const planted = { ...base[road], ...body("https://a.example/planted") };
      const { status, beyond } = await ask(roads[road][at]!, {
        ...planted,
        ...named(road, at, {}),
        fallbacks: undefined,
      });
      asked += 1;
      // Refused by our schema, by its budget, or reserved as an image at least.
      if (beyond >= 0 && beyond < 4_900) passed.push(`${path} ${at}: ${status} ${beyond}`);
    }
  };
  for (const format of formats)
    for (const place of places[format])
      if (refers.test(place.path) && !tells.test(place.path)) await check(format, place);
  expect(asked).toBeGreaterThan(80);
  expect(passed).toEqual([]);
});

describe("a dollar lets no more through than the calls under way could be underestimated", () => {
  const usage = (tokens: number) => ({
    promptTokenCount: tokens,
    candidatesTokenCount: 10,
    totalTokenCount: tokens + 10,
  });
  /** Answers of 0.6 dollars each, of which the tokens of a file are a small part. */
  const told = () =>
    Response.json({
      candidates: [{ content: { role: "model", parts: [{ text: "a" }] }, finishReason: "STOP" }],
      usageMetadata: usage(600_000),
    });

  test.each([
    ["a file of Google's store", parts(...Array.from({ length: 6 }, () => ({ fileData: { fileUri } })))],
    ["cached content", { ...parts(), cachedContent: "cachedContents/a" }],
  ])("forty calls at once with %s", async (_, body) => {
    answer = told;
    await using poor = await Troupe.start({
      surfaces: ["gateway", "raw"],
      providers: { google: { baseUrl: upstream.url, apiKey: "k" } },
      config: { budgets: { ...budgets, all: { prepaid: 1 } }, prices },
    });
    const before = upstream.requests.length;
    const all = await Promise.all(
      Array.from({ length: 40 }, (_, at) => poor.post(`/gateway${roads.gemini[at % 2]}`, body)),
    );
    // The second begins where the first is over, and takes what is left.
    expect(all.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(2);
    expect(upstream.requests.length - before).toBeLessThanOrEqual(2);
  });
});

/** What each place costs, where the client's types name an image or a file: as docs/budgets.md has it. */
const costOf = ({ owner, path }: Place) => (/image|screenshot/i.test(`${owner} ${path}`) ? 5_000 : 100_000);

test.each([0, 1] as const)("what Google can read in two ways is refused, on road %d", async (at) => {
  const said = parts();
  const ways: readonly [object, string | undefined][] = [
    [{ generation_config: { max_output_tokens: 9_000 } }, "generationConfig"],
    [{ generationConfig: { maxOutputTokens: 16, max_output_tokens: 9_000 } }, "generationConfig.maxOutputTokens"],
    [{ generationConfig: { candidateCount: 1, candidate_count: 8 } }, "generationConfig.candidateCount"],
    [{ serviceTier: "flex", service_tier: "priority" }, "serviceTier"],
    [{ serviceTier: "flex", service_tier: "flex" }, undefined],
  ];
  for (const [more, place] of ways) {
    const { status, said: words } = await ask(roads.gemini[at], { ...said, ...more });
    const told = place === undefined ? "no" : `${place} stands twice in one object.`;
    // Who speaks Gemini is told of a place in its usual spelling.
    expect([more, status, camelCase(words)]).toEqual([more, 400, told]);
    expect([more, amounts.length]).toEqual([more, place === undefined ? 1 : 0]);
  }
});

describe("whatever a body refers to, a dollar is not overspent", () => {
  const answers = {
    messages: (tokens: number) => ({
      ...{ id: "m", type: "message", role: "assistant", model: "m", stop_reason: "end_turn", stop_sequence: null },
      content: [{ type: "text", text: "a" }],
      usage: { input_tokens: tokens, output_tokens: 1 },
    }),
    responses: (tokens: number) => ({
      ...{ id: `resp_${crypto.randomUUID()}`, object: "response", status: "completed", model: "m", output: [] },
      usage: { input_tokens: tokens, output_tokens: 1, total_tokens: tokens + 1 },
    }),
    gemini: (tokens: number) => ({
      candidates: [{ content: { role: "model", parts: [{ text: "a" }] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: tokens, candidatesTokenCount: 1, totalTokenCount: tokens + 1 },
    }),
  };
  /** The elements of the lists that hold a conversation. */
  const lists = { messages: "messages", responses: "input", gemini: "contents" } as const;
  const roadOf = { BetaMessages: "messages", Responses: "responses", GenerateContent: "gemini" } as const;

  test("by forty calls at once, in each format and by each road", async () => {
    const formats = ["BetaMessages", "Responses", "GenerateContent"] as const;
    const places = await typedPlaces(formats, (member) => /_id|_ids|[Uu]ri|[Uu]rl|^id$/.test(member));
    const random = new Random(20_261_128);
    for (const format of formats) {
      const road = roadOf[format];
      const list = lists[road];
      const within = places[format].filter(
        ({ path }) =>
          path.startsWith(`${list}[].`) && refers.test(path) && !tells.test(path) && !/container|tools/.test(path),
      );
      expect(within.length).toBeGreaterThan(1);
      const atFirst = upstream.requests.length;
      for (let round = 0; round < 3; round += 1) {
        const chosen = Array.from({ length: 1 + random.below(6) }, () => random.pick(within));
        const base = { messages: messages({ type: "text", text: "a" }), responses: items(), gemini: parts() }[
          road
        ] as Record<string, unknown>;
        const turns = chosen.flatMap(({ body }) => body("https://a.example/planted")[list] as object[]);
        const body = { ...base, [list]: [...(base[list] as object[]), ...turns] };
        const tokens = chosen.reduce((sum, place) => sum + costOf(place), 0);
        answer = () => Response.json(answers[road](tokens));
        await using poor = await Troupe.start({
          surfaces: ["gateway", "raw"],
          providers: { [accounts[road]]: { baseUrl: upstream.url, apiKey: "k" } },
          config: { budgets: { ...budgets, all: { prepaid: 1 } }, prices },
        });
        const before = upstream.requests.length;
        await Promise.all(
          Array.from({ length: 40 }, (_, at) => poor.post(`/gateway${roads[road][at % 2]}`, named(road, at % 2, body))),
        );
        const billed = (upstream.requests.length - before) * (tokens + 1);
        const what = chosen.map(({ path }) => path);
        expect([what, billed <= 1_000_000]).toEqual([what, true]);
      }
      expect(upstream.requests.length).toBeGreaterThan(atFirst);
    }
  });
});
