/** Providers' lists of models: each in its own documented form, from strict stand-ins; and what becomes of one that does not come. */
import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import type { ProviderConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { providers } from "../../src/providers/registry.ts";
import { Accounts } from "../../src/upstream/accounts.ts";
import { Upstream } from "../../src/upstream/client.ts";
import { ModelLists } from "../../src/upstream/model-lists.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { testConfig } from "../helpers/troupe.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

type Answer = (url: URL, request: Request) => Response | Promise<Response>;

/** A provider that answers questions for its list, and nothing else. */
class ListServer implements Disposable {
  readonly asked: string[] = [];
  answer: Answer;
  readonly #server: ReturnType<typeof Bun.serve>;

  constructor(answer: Answer) {
    this.answer = answer;
    this.#server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      fetch: (request) => {
        const url = new URL(request.url);
        this.asked.push(`${request.method} ${url.pathname}${url.search}`);
        return this.answer(url, request);
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  [Symbol.dispose](): void {
    this.#server.stop(true);
  }
}

const made: Disposable[] = [];
afterEach(() => {
  for (const one of made.splice(0)) one[Symbol.dispose]();
});

function serve(answer: Answer): ListServer {
  const server = new ListServer(answer);
  made.push(server);
  return server;
}

type Set = { clock?: ManualClock; data?: string; minutes?: number };

type Provider = string | (Partial<ProviderConfig> & { readonly baseUrl: string });

function listsOf(named: Readonly<Record<string, Provider>>, { clock, data, minutes = 360 }: Set = {}) {
  const folder = new TempFolder();
  made.push(folder);
  const configured = Object.fromEntries(
    Object.entries(named).map(([name, one]) => [name, typeof one === "string" ? { baseUrl: one } : one]),
  );
  const path = data ?? folder.path;
  const { providers: accounts } = testConfig(path, { providers: configured });
  const bound = new Accounts(accounts, providers);
  const log = new WatchedLog();
  const lists = new ModelLists({
    upstream: new Upstream(systemClock),
    accounts: () => bound,
    clock: clock ?? systemClock,
    log: log.log,
    data: path,
    refreshMinutes: () => minutes,
    random: () => 0,
  });
  const of = (name: string) => [...(lists.of(bound.find(name)!)?.models.values() ?? [])];
  return { lists, bound, log, of, path, failure: (name: string) => lists.failureOf(bound.find(name)!) };
}

/** What is unknown is left out: a list is compared by what it says. */
const said = (models: readonly object[]): object[] => JSON.parse(JSON.stringify(models));

const bearer = (request: Request, key: string) => request.headers.get("authorization") === `Bearer ${key}`;
const refused = () => new Response("{}", { status: 401 });

describe("a list in the form of", () => {
  test("OpenAI, with the day on which a model ends", async () => {
    const data = [
      { id: "gpt-5.5", object: "model", created: 1767225600, owned_by: "openai", shutdown_date: null },
      { id: "gpt-4o", object: "model", created: 1715367049, owned_by: "system", shutdown_date: "2027-01-14" },
    ];
    const server = serve((_, request) =>
      bearer(request, "key-of-openai") ? Response.json({ object: "list", data }) : refused(),
    );
    const { lists, of } = listsOf({ openai: `${server.url}/v1` });
    await lists.refresh();
    expect(server.asked).toEqual(["GET /v1/models"]);
    expect(said(of("openai"))).toEqual([
      { id: "gpt-5.5", created: 1767225600 },
      { id: "gpt-4o", created: 1715367049, endsOn: "2027-01-14" },
    ]);
  });

  test("Anthropic, page by page", async () => {
    const model = (id: string, more: object = {}) => ({
      type: "model",
      id,
      display_name: id,
      created_at: "2026-01-01T00:00:00Z",
      lifecycle: "active",
      deprecated_at: null,
      retires_at: null,
      capabilities: null,
      max_input_tokens: 1_000_000,
      max_tokens: 64_000,
      ...more,
    });
    const old = { lifecycle: "deprecated", retires_at: "2026-11-30T00:00:00Z", max_input_tokens: null };
    const sees = { capabilities: { image_input: { supported: true }, pdf_input: { supported: true } } };
    const server = serve((url, request) => {
      if (request.headers.get("x-api-key") !== "key-of-anthropic") return refused();
      if (request.headers.get("anthropic-version") !== "2023-06-01") return new Response("{}", { status: 400 });
      if (url.searchParams.get("after_id") === null)
        return Response.json({ data: [model("a", sees)], has_more: true, first_id: "a", last_id: "a" });
      return Response.json({ data: [model("b", old)], has_more: false, first_id: "b", last_id: "b" });
    });
    const { lists, of } = listsOf({ anthropic: server.url });
    await lists.refresh();
    expect(server.asked).toEqual(["GET /v1/models?limit=1000", "GET /v1/models?limit=1000&after_id=a"]);
    const first = { id: "a", created: 1767225600, contextLength: 1_000_000, maxOutputTokens: 64_000 };
    expect(said(of("anthropic"))).toEqual([
      { ...first, inputModalities: ["text", "image", "file"], outputModalities: ["text"] },
      { id: "b", created: 1767225600, maxOutputTokens: 64_000, endsOn: "2026-11-30", isDeprecated: true },
    ]);
  });

  test("Google, page by page", async () => {
    const server = serve((url, request) => {
      if (request.headers.get("x-goog-api-key") !== "key-of-google") return refused();
      const token = url.searchParams.get("pageToken");
      const name = token === null ? "models/gemini-3.5-flash" : "tunedModels/mine";
      const model = { name, version: "1", inputTokenLimit: 1_048_576, outputTokenLimit: 65_536 };
      return Response.json({ models: [model], ...(token === null && { nextPageToken: "a/b=" }) });
    });
    const { lists, of } = listsOf({ google: server.url });
    await lists.refresh();
    expect(server.asked).toEqual([
      "GET /v1beta/models?pageSize=1000",
      "GET /v1beta/models?pageSize=1000&pageToken=a%2Fb%3D",
    ]);
    const sizes = { contextLength: 1_048_576, maxOutputTokens: 65_536 };
    expect(said(of("google"))).toEqual([
      { id: "gemini-3.5-flash", ...sizes },
      { id: "tunedModels/mine", ...sizes },
    ]);
  });

  test.each([
    [
      "openrouter",
      {
        data: [
          {
            id: "anthropic/claude-sonnet-5",
            created: 1767225600,
            context_length: 1_000_000,
            architecture: { input_modalities: ["text", "image"], output_modalities: ["text"], tokenizer: "Claude" },
            top_provider: { context_length: 1_000_000, max_completion_tokens: 64_000, is_moderated: true },
            pricing: { prompt: "0.000003", completion: "0.000015", request: "0" },
            expiration_date: "2027-06-30",
          },
          { id: "openrouter/auto", pricing: { prompt: "-1", completion: "-1" }, expiration_date: null },
        ],
      },
      [
        {
          id: "anthropic/claude-sonnet-5",
          created: 1767225600,
          contextLength: 1_000_000,
          maxOutputTokens: 64_000,
          inputModalities: ["text", "image"],
          outputModalities: ["text"],
          price: { input: 3, output: 15 },
          endsOn: "2027-06-30",
        },
        { id: "openrouter/auto" },
      ],
    ],
    [
      "mistral",
      {
        object: "list",
        data: [
          {
            id: "mistral-medium-2508",
            capabilities: { completion_chat: true, vision: true },
            max_context_length: 131_072,
            deprecation: "2026-08-31T12:00:00Z",
          },
          { id: "codestral-2508", capabilities: { vision: false }, max_context_length: 262_144, deprecation: null },
        ],
      },
      [
        {
          id: "mistral-medium-2508",
          contextLength: 131_072,
          inputModalities: ["text", "image"],
          endsOn: "2026-08-31",
          isDeprecated: true,
        },
        { id: "codestral-2508", contextLength: 262_144, inputModalities: ["text"] },
      ],
    ],
    [
      "groq",
      {
        data: [
          { id: "openai/gpt-oss-120b", active: true, context_window: 131_072, max_completion_tokens: 65_536 },
          { id: "gone", active: false, context_window: 1 },
        ],
      },
      [{ id: "openai/gpt-oss-120b", contextLength: 131_072, maxOutputTokens: 65_536 }],
    ],
    [
      "together",
      [{ id: "openai/gpt-oss-120b", context_length: 131_072, pricing: { hourly: 0, input: 0.15, output: 0.6 } }],
      [{ id: "openai/gpt-oss-120b", contextLength: 131_072, price: { input: 0.15, output: 0.6 } }],
    ],
    [
      "moonshot",
      { data: [{ id: "kimi-k2.6", context_length: 262_144, supports_image_in: true, supports_video_in: true }] },
      [{ id: "kimi-k2.6", contextLength: 262_144, inputModalities: ["text", "image", "video"] }],
    ],
    ["vllm", { data: [{ id: "mine", max_model_len: 8192 }] }, [{ id: "mine", contextLength: 8192 }]],
  ])("%s", async (name, body, models) => {
    const server = serve((url) =>
      url.pathname === "/models" ? Response.json(body) : new Response("", { status: 404 }),
    );
    const { lists, of } = listsOf({ [name]: server.url });
    await lists.refresh();
    expect(said(of(name))).toEqual(models);
  });

  test("xAI, whose prices are cents per 100 million tokens", async () => {
    const row = {
      id: "grok-4.6",
      created: 1767225600,
      input_modalities: ["text", "image"],
      output_modalities: ["text"],
      prompt_text_token_price: 20000,
      completion_text_token_price: 60000,
    };
    const server = serve(() => Response.json({ models: [row] }));
    const { lists, of } = listsOf({ xai: server.url });
    await lists.refresh();
    expect(server.asked).toEqual(["GET /language-models"]);
    expect(said(of("xai"))).toEqual([
      {
        id: "grok-4.6",
        created: 1767225600,
        inputModalities: ["text", "image"],
        outputModalities: ["text"],
        price: { input: 2, output: 6 },
      },
    ]);
  });
});

test("providers that are not documented to have a list are not asked", async () => {
  const server = serve(() => Response.json({ data: [] }));
  const { lists } = listsOf({ perplexity: server.url, zai: server.url, azure: server.url });
  await lists.refresh();
  expect(server.asked).toEqual([]);
});

test("of several keys the first that is taken gives the list", async () => {
  const server = serve((_, request) => (bearer(request, "c") ? Response.json({ data: [model("a")] }) : refused()));
  const member = (apiKey: string) => ({ apiKey, baseUrl: server.url, weight: 1 });
  const pool = { strategy: "sticky" as const, members: ["a", "b", "c", "d"].map(member) };
  const { lists, of } = listsOf({ openai: { baseUrl: server.url, apiKey: "a", pool } });
  await lists.refresh();
  expect(of("openai").map(({ id }) => id)).toEqual(["a"]);
  expect(server.asked).toHaveLength(3);
});

const model = (id: string) => ({ id, object: "model", created: 1, owned_by: "a" });

describe("a list that can't be had", () => {
  test.each<[string, string, Answer]>([
    ["status", "it answers with the status 500", () => new Response("secret words", { status: 500 })],
    ["no JSON", "its list is no JSON", () => new Response("<html>")],
    ["cut JSON", "its list is no JSON", () => new Response('{"data":[')],
    ["no list", "it answers with something else than a list", () => Response.json({ data: { id: "a" } })],
    [
      "too many",
      "it lists more than 5000 models",
      () => Response.json({ data: Array.from({ length: 5001 }, (_, at) => model(`m${at}`)) }),
    ],
    ["too large", "its list is larger than 8 MiB", () => new Response(`{"data":["${"x".repeat(9 * 1024 ** 2)}"]}`)],
  ])("%s", async (_, reason, answer) => {
    const server = serve(answer);
    const { lists, log, of, failure } = listsOf({ openai: server.url });
    await lists.refresh();
    await lists.refresh();
    expect(of("openai")).toEqual([]);
    expect(failure("openai")).toBe(reason);
    // Once, however often it fails.
    expect(log.lines).toEqual([
      {
        message: "a provider's list of models could not be had; the models known here are listed",
        fields: { provider: "openai", reason },
      },
    ]);
    expect(server.asked).toHaveLength(2);
  });

  test("as its pages have no end", async () => {
    const looping = serve(() => Response.json({ data: [model("a")], has_more: true, last_id: "a" }));
    const endless = serve((url) => {
      const next = `${Number(url.searchParams.get("after_id") ?? 0) + 1}`;
      return Response.json({ data: [model(next)], has_more: true, last_id: next });
    });
    for (const [server, questions] of [
      [looping, 2],
      [endless, 20],
    ] as const) {
      const { lists, failure } = listsOf({ anthropic: server.url });
      await lists.refresh();
      expect(failure("anthropic")).toBe("its pages have no end");
      expect(server.asked).toHaveLength(questions);
    }
  });

  test("as it takes too long", async () => {
    const clock = new ManualClock();
    const asked = Promise.withResolvers<void>();
    const server = serve(() => {
      asked.resolve();
      return new Promise(() => {});
    });
    const { lists, failure } = listsOf({ openai: server.url }, { clock });
    const done = lists.refresh();
    await asked.promise;
    clock.advance(30_000);
    await done;
    expect(failure("openai")).toBe("it took longer than 30 s");
  });

  test("leaves the last good one, and others their own", async () => {
    const clock = new ManualClock();
    const good = serve(() => Response.json({ data: [model("a")] }));
    const bad = serve(() => Response.json({ data: [model("b")] }));
    const { lists, of, log, failure } = listsOf({ openai: good.url, groq: bad.url }, { clock });
    await lists.refresh();
    bad.answer = () => new Response("", { status: 503 });
    good.answer = () => Response.json({ data: [model("c")] });
    clock.advance(360 * 60_000);
    await lists.refresh();
    expect([of("openai"), of("groq")].map((list) => list.map(({ id }) => id))).toEqual([["c"], ["b"]]);
    expect(log.lines.map(({ message }) => message)).toEqual([
      "a provider's list of models could not be had; the last good list stays",
    ]);
    // It comes again, and a later failure is logged again.
    bad.answer = () => Response.json({ data: [model("d")] });
    await lists.refresh();
    expect([of("groq").map(({ id }) => id), failure("groq")]).toEqual([["d"], undefined]);
  });

  test("leaves out names that no id can have, and what is no model", async () => {
    const names = ["ok/a:b@1", "a b", "\u0007", "x".repeat(201), "ü", ""];
    const server = serve(() =>
      Response.json({ data: [...names.map(model), null, 1, "a", { object: "model" }, model("ok/a:b@1")] }),
    );
    const { lists, of } = listsOf({ openai: server.url });
    await lists.refresh();
    expect(of("openai").map(({ id }) => id)).toEqual(["ok/a:b@1"]);
  });
});

describe("in the background", () => {
  test("providers are asked after a while, again at each interval, and soon after a failure", async () => {
    const clock = new ManualClock();
    const server = serve(() => Response.json({ data: [model("a")] }));
    const { lists } = listsOf({ openai: server.url }, { clock, minutes: 60 });
    const settle = () => lists.refresh();
    lists.start();
    clock.advance(30_999);
    expect(server.asked).toHaveLength(0);
    clock.advance(1);
    await settle();
    expect(server.asked).toHaveLength(1);
    server.answer = () => new Response("", { status: 500 });
    await Bun.sleep(0);
    clock.advance(60 * 60_000);
    await settle();
    expect(server.asked).toHaveLength(2);
    await Bun.sleep(0);
    clock.advance(600_000);
    await settle();
    expect(server.asked).toHaveLength(3);
    await lists.close();
    clock.advance(24 * 60 * 60_000);
    expect(server.asked).toHaveLength(3);
  });

  test("never where that is switched off", async () => {
    const clock = new ManualClock();
    const server = serve(() => Response.json({ data: [model("a")] }));
    const { lists } = listsOf({ openai: server.url }, { clock, minutes: 0 });
    lists.start();
    clock.advance(7 * 24 * 60 * 60_000);
    expect(server.asked).toHaveLength(0);
  });

  test("what one process was given another reads, and so does a later start; one address's list is no other's", async () => {
    const clock = new ManualClock();
    const server = serve(() => Response.json({ data: [model("a")] }));
    const first = listsOf({ openai: server.url }, { clock });
    await first.lists.refresh();
    const second = listsOf({ openai: server.url }, { clock, data: first.path });
    await second.lists.refresh();
    expect(server.asked).toHaveLength(1);
    expect(second.of("openai").map(({ id }) => id)).toEqual(["a"]);
    const later = listsOf({ openai: server.url }, { clock, data: first.path });
    later.lists.start();
    clock.advance(1_000);
    expect(later.of("openai").map(({ id }) => id)).toEqual(["a"]);
    const moved = listsOf({ openai: `${server.url}/v1` }, { clock, data: first.path });
    moved.lists.start();
    clock.advance(1_000);
    expect(moved.of("openai")).toEqual([]);
    expect(readFileSync(`${first.path}/models.json`, "utf8")).not.toContain("key-of-openai");
    await later.lists.close();
    await moved.lists.close();
  });

  test.each([
    "",
    "{",
    "[]",
    '{"lists":[{"provider":"openai"}]}',
    '{"lists":[{"provider":"openai","baseUrl":"x","at":1,"models":[1,{}]}]}',
  ])("a stored file that says %p is no list", async (text) => {
    const clock = new ManualClock();
    const { lists, of, path } = listsOf({ openai: "http://127.0.0.1:9" }, { clock });
    writeFileSync(`${path}/models.json`, text);
    lists.start();
    clock.advance(1_000);
    expect(of("openai")).toEqual([]);
    await lists.close();
  });
});
