/** The gateway's lists of models, as providers gave them, read by the official clients of three formats. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { ModelPages } from "../../src/call/model-pages.ts";
import { Troupe } from "../helpers/troupe.ts";

const listed = {
  object: "list",
  data: [
    { id: "gpt-5.5", object: "model", created: 1767225600, owned_by: "openai", shutdown_date: null },
    { id: "gpt-4o", object: "model", created: 1715367049, owned_by: "system", shutdown_date: "2027-01-14" },
  ],
};
const router = {
  data: [
    {
      id: "vendor/model",
      context_length: 262144,
      architecture: { input_modalities: ["text", "image"], output_modalities: ["text"] },
      top_provider: { max_completion_tokens: 32768 },
      pricing: { prompt: "0.0000005", completion: "0.000002" },
    },
  ],
};

let asked = 0;
const upstream = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  development: false,
  fetch: (request) => {
    asked += 1;
    const { pathname } = new URL(request.url);
    return pathname === "/openai/models"
      ? Response.json(listed)
      : pathname === "/router/models"
        ? Response.json(router)
        : new Response("", { status: 404 });
  },
});
const root = `http://127.0.0.1:${upstream.port}`;

let troupe: Troupe;
beforeAll(async () => {
  troupe = await Troupe.start({
    providers: {
      openai: { baseUrl: `${root}/openai` },
      mine: { dialect: "openai", baseUrl: `${root}/openai`, models: ["gpt-5.5", "own"] },
      openrouter: { baseUrl: `${root}/router` },
      gone: { dialect: "anthropic", baseUrl: `${root}/gone`, models: ["claude-opus-5"] },
    },
    config: { aliases: { ours: "openrouter/vendor/model" } },
  });
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  await upstream.stop(true);
});

const list = async (key = troupe.key) => {
  const { data } = await troupe.client("gateway", { apiKey: key }).models.list();
  return data.filter(({ id }) => !id.startsWith("builtin/"));
};

test("before a list came, what is named or well known is listed, and nobody waits", async () => {
  const before = await list();
  expect(asked).toBe(0);
  expect(before.map(({ id }) => id)).toContain("openai/gpt-6-sol");
  expect(before.map(({ id }) => id)).toContain("openrouter/openrouter/auto");
});

test("then providers' own lists are, with what is known of each model", async () => {
  await troupe.server.services.modelLists.refresh();
  const [first, ...rest] = await list();
  expect(first).toEqual({
    id: "openai/gpt-5.5",
    object: "model",
    created: 1767225600,
    owned_by: "openai",
    name: "gpt-5.5 (openai)",
    // OpenAI's own list has no limits: the facts do.
    context_length: 1_050_000,
    max_output_tokens: 128_000,
    input_modalities: ["text", "image", "file"],
    output_modalities: ["text"],
    capabilities: ["vision", "files", "tools", "structured_output", "reasoning"],
    pricing: { input: 5, output: 30 },
    formats: ["chat", "responses"],
  } as never);
  expect(rest).toMatchObject([
    { id: "openai/gpt-4o", shutdown_date: "2027-01-14", pricing: { input: 2.5, output: 10 } },
    // What the operator named, and no more of it.
    { id: "mine/gpt-5.5", created: 1767225600 },
    { id: "mine/own" },
    {
      id: "openrouter/vendor/model",
      context_length: 262144,
      max_output_tokens: 32768,
      input_modalities: ["text", "image"],
      output_modalities: ["text"],
      pricing: { input: 0.5, output: 2 },
    },
    { id: "gone/claude-opus-5", formats: ["messages"] },
    { id: "ours", context_length: 262144 },
  ]);
  expect(await troupe.client("gateway").models.retrieve("openrouter/vendor/model")).toMatchObject({
    context_length: 262144,
  });
  // Its table says so where no list came.
  const old = await troupe.client("gateway").models.retrieve("gone/claude-sonnet-4-5-20250929");
  expect(old).toMatchObject({ shutdown_date: "2026-11-30" });
});

test("for Anthropic's clients, with limits and the end", async () => {
  const client = new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, authToken: null });
  const found: Record<string, unknown>[] = [];
  for await (const one of client.models.list({ limit: 2 })) found.push(one as unknown as Record<string, unknown>);
  expect(found.find(({ id }) => id === "openrouter/vendor/model")).toMatchObject({
    lifecycle: "active",
    max_input_tokens: 262144,
    max_tokens: 32768,
    retires_at: null,
  });
  expect(found.find(({ id }) => id === "openai/gpt-4o")).toMatchObject({
    lifecycle: "deprecated",
    retires_at: "2027-01-14T00:00:00Z",
    max_tokens: 16_384,
  });
});

test("for Google's clients, with limits", async () => {
  const client = new GoogleGenAI({
    apiKey: troupe.key,
    httpOptions: { baseUrl: `${troupe.url}/gateway`, apiVersion: "v1beta" },
  });
  const found = [];
  for await (const one of await client.models.list({ config: { pageSize: 2, queryBase: true } })) found.push(one);
  expect(found.find(({ name }) => name === "models/openrouter/vendor/model")).toMatchObject({
    inputTokenLimit: 262144,
    outputTokenLimit: 32768,
  });
});

test("a key sees the models that it may use", async () => {
  const key = await troupe.createKey({ name: "few", tier: "pro", models: ["openai/gpt-4*", "ours"] });
  expect((await list(key)).map(({ id }) => id)).toEqual(["openai/gpt-4o", "ours"]);
});

test("nobody's own limits are those of its line's newest, and say so; a price and an end are nobody's but its own", async () => {
  const found = await troupe.client("gateway").models.retrieve("openai/gpt-4o-2024-08-06");
  expect(found).toMatchObject({ context_length: 128_000, shutdown_date: "2027-01-14" });
  const next = { ...(await troupe.client("gateway").models.retrieve("openai/gpt-8.5-sol")) } as Record<string, unknown>;
  expect(next).toMatchObject({ context_length: 1_050_000, max_output_tokens: 128_000, assumed: "gpt-6.1-sol" });
  expect([next["pricing"], next["shutdown_date"]]).toEqual([undefined, undefined]);
});

describe("has", () => {
  const ids = async (query: string, surface: "/gateway" | "" = "/gateway") => {
    const headers = { authorization: `Bearer ${troupe.key}` };
    const response = await fetch(`${troupe.url}${surface}/v1/models?${query}`, { headers });
    const body = (await response.json()) as { data?: { id: string }[]; error?: { param: string; message: string } };
    return body.data?.map(({ id }) => id) ?? [response.status, body.error?.param, body.error?.message];
  };

  test("leaves the models that are known to have all of it", async () => {
    expect(await ids("has=reasoning")).toEqual(["openai/gpt-5.5", "mine/gpt-5.5", "gone/claude-opus-5"]);
    expect(await ids("has=vision,%20tools")).toEqual([
      ...["openai/gpt-5.5", "openai/gpt-4o", "mine/gpt-5.5", "gone/claude-opus-5"],
    ]);
    // By what its provider's list says; nothing says that it has tools.
    expect(await ids("has=vision")).toContain("ours");
    expect(await ids("has=video")).toEqual([]);
  });

  test("takes personas by their first model", async () => {
    const all = await ids("", "");
    const able = await ids("has=tools", "");
    expect(all).toContain("troupe/guide");
    expect(able.filter((id) => !all.includes(String(id)))).toEqual([]);
    troupe.setTargets("troupe/guide", ["openai/gpt-5.5", "builtin/eliza"]);
    troupe.setTargets("troupe/tutor", ["builtin/eliza", "openai/gpt-5.5"]);
    const after = await ids("has=tools", "");
    expect([after.includes("troupe/guide"), after.includes("troupe/tutor")]).toEqual([true, false]);
  });

  test.each(["has=", "has=vision,wings", "has=__proto__", `has=${"x".repeat(5000)}`])(
    "%s is refused",
    async (query) => {
      const words =
        "vision, audio_input, video, files, image_output, audio_output, tools, structured_output, reasoning";
      expect(await ids(query)).toEqual([400, "has", `has must be words of ${words}, with commas between.`]);
    },
  );

  test("goes before the pages of Anthropic's clients", async () => {
    const client = new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, authToken: null });
    const found: string[] = [];
    for await (const one of client.models.list({ limit: 1 }, { query: { has: "reasoning", limit: 1 } }))
      found.push(one.id);
    expect(found.slice(0, 2)).toEqual(["openai/gpt-5.5", "mine/gpt-5.5"]);
  });
});

describe("a list", () => {
  const get = (path: string, headers: Record<string, string> = {}, key = troupe.key) =>
    fetch(`${troupe.url}${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } });
  const tagOf = async (path: string, headers: Record<string, string> = {}, key = troupe.key) => {
    const response = await get(path, headers, key);
    await response.arrayBuffer();
    return response.headers.get("etag")!;
  };

  test("has a tag, by which a client is told that it has not changed", async () => {
    const first = await get("/gateway/v1/models");
    const tag = first.headers.get("etag")!;
    expect(tag).toMatch(/^"[0-9a-z]+"$/);
    expect(first.headers.get("cache-control")).toBe("private, no-cache");
    expect(first.headers.get("vary")).toContain("authorization");
    expect(first.headers.get("content-type")).toBe("application/json; charset=utf-8");
    for (const asked of [tag, `W/${tag}`, `"other", ${tag}`]) {
      const again = await get("/gateway/v1/models", { "if-none-match": asked });
      expect([again.status, await again.text(), again.headers.get("etag")]).toEqual([304, "", tag]);
    }
    expect((await get("/gateway/v1/models", { "if-none-match": '"other"' })).status).toBe(200);
    // Nobody is told so without a key.
    expect((await get("/gateway/v1/models", { "if-none-match": tag }, "none")).status).toBe(401);
  });

  test("differs by what the key may see, the client's format, the query and the surface", async () => {
    const few = await troupe.createKey({ name: "less", tier: "pro", models: ["openai/gpt-4*"] });
    const tags = [
      await tagOf("/gateway/v1/models"),
      await tagOf("/v1/models"),
      await tagOf("/gateway/v1/models", {}, few),
      await tagOf("/gateway/v1/models?has=reasoning"),
      await tagOf("/gateway/v1/models", { "anthropic-version": "2023-06-01" }),
      await tagOf("/gateway/v1/models", { "x-goog-api-client": "genai" }),
    ];
    expect(new Set(tags).size).toBe(tags.length);
    const alike = await troupe.createKey({ name: "alike", tier: "pro" });
    expect(await tagOf("/gateway/v1/models", {}, alike)).toBe(tags[0]!);
  });

  test("of personas changes when they do", async () => {
    const before = await tagOf("/v1/models");
    expect((await get("/v1/models", { "if-none-match": before })).status).toBe(304);
    const { personas } = troupe.server.services;
    personas.replace(personas.list().map((one, at) => (at === 0 ? { ...one, description: "Another one." } : one)));
    expect((await get("/v1/models", { "if-none-match": before })).status).toBe(200);
  });

  test("is made once for all who see the same, and kept within a bound", () => {
    const pages = new ModelPages<undefined>();
    let edition: object[] = [pages];
    const counts = { models: 0, bodies: 0 };
    const models = () => pages.models(edition, () => [...Array(++counts.models)]);
    const page = (view: string, bytes = 10) =>
      pages.page(edition, [view], () => {
        counts.bodies += 1;
        return "x".repeat(bytes);
      });
    for (let time = 0; time < 5; time += 1) {
      models();
      page("a");
      page("b");
    }
    expect(counts).toEqual({ models: 1, bodies: 2 });
    for (let at = 0; at < 20; at += 1) page(`large ${at}`, 1_000_000);
    expect(counts.bodies).toBe(22);
    page("large 19", 1_000_000);
    expect(counts.bodies).toBe(22);
    page("a");
    expect(counts.bodies).toBe(23);
    edition = [{}];
    models();
    page("a");
    expect(counts).toEqual({ models: 2, bodies: 24 });
  });
});
