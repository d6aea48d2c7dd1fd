/** Personas as tools at /mcp, by the official clients of both lines. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { Client, StreamableHTTPClientTransport, type Transport } from "@modelcontextprotocol/client";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { completionOf } from "../helpers/chat-upstream.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const folder = untilEnd(new TempFolder());
let answer: () => Response | Promise<Response>;

mkdirSync(folder.file("house"));
const head = "model: openrouter/gpt\n";
const files = {
  cook: `description: Cooks.\n${head}system: You cook for {{guest}}.\nvariables: { guest: { description: Who eats., required: true } }\n`,
  "a.b": `description: Has a dot.\n${head}system: You are.\n`,
  a_b: `description: Has none.\n${head}system: You are.\n`,
  chef: `description: For some.\ntier: enterprise\n${head}system: You cook.\n`,
};
for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(`house/${name}.yaml`), text);
const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    personas: folder.path,
    providers: { openrouter: { baseUrl: url } },
    config: { cors: { origins: ["https://app.example.com"] } },
  }),
);

const endpoint = () => new URL(`${troupe.url}/mcp`);
const headersOf = (key: string, more: object = {}) => ({
  requestInit: { headers: { authorization: `Bearer ${key}`, ...more } },
});

async function connect(mode: "auto" | "legacy", key = troupe.key, more: object = {}): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(endpoint(), headersOf(key, more)) as Transport);
  return client;
}

type Called = { content: { type: string; text?: string }[]; isError?: boolean };

describe.each([
  ["auto", "2026-07-28"],
  ["legacy", "2025-11-25"],
] as const)("the official client, %s", (mode, revision) => {
  test("lists and asks personas", async () => {
    answer = () => jsonResponse(completionOf({ content: "Leek soup." }));
    const client = await connect(mode);
    expect(client.getNegotiatedProtocolVersion()).toBe(revision);
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toContain("ask_house_cook");
    expect(names.filter((name) => name.startsWith("ask_house_a_b"))).toHaveLength(2);
    const cook = tools.find(({ name }) => name === "ask_house_cook")!;
    expect(cook).toMatchObject({ title: "house/cook", description: "Cooks." });
    expect(cook.inputSchema.required).toEqual(["message", "variables"]);
    const args = { message: "Soup?", variables: { guest: "the queen" } };
    const called = (await client.callTool({ name: "ask_house_cook", arguments: args })) as Called;
    expect(called.content).toEqual([{ type: "text", text: "Leek soup." }]);
    const { messages } = upstream.last.json as { messages: object[] };
    expect(messages).toEqual([
      { role: "system", content: "You cook for the queen." },
      { role: "user", content: "Soup?" },
    ]);
    await client.close();
  });

  test("gets errors of a call as its result, and of the request as errors", async () => {
    answer = () => jsonResponse({ error: { message: "openrouter is down" } }, 500);
    const client = await connect(mode);
    const call = (name: string, args: object) =>
      client.callTool({ name, arguments: args as Record<string, unknown> }) as Promise<Called>;
    const failed = await call("ask_house_cook", { message: "x", variables: { guest: "y" } });
    expect(failed.isError).toBe(true);
    expect(failed.content[0]!.text).toBe(
      "The model is not available at the moment. Try again later. (upstream_unavailable)",
    );
    expect((await call("ask_house_cook", { message: "x" })).content[0]!.text).toContain("guest");
    expect((await call("ask_house_cook", {})).content[0]!.text).toContain("(missing_field)");
    for (const message of [7, ["x"], { text: "x" }, true])
      expect((await call("ask_house_cook", { message })).content[0]!.text).toBe(
        "message must be a string. (invalid_value)",
      );
    expect((await call("ask_house_cook", { message: "x", variables: "y" })).content[0]!.text).toMatch(
      /^variables must be an object/,
    );
    await expect(call("ask_nobody", { message: "x" })).rejects.toThrow(/no tool 'ask_nobody'/);
    await client.close();
  });

  test("sees the personas of its key's plan alone, and none without a key", async () => {
    const key = await troupe.createKey({ name: "free", tier: "pro" });
    const client = await connect(mode, key);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).not.toContain("ask_house_chef");
    await expect(client.callTool({ name: "ask_house_chef", arguments: { message: "x" } })).rejects.toThrow(/no tool/);
    await client.close();
    await expect(connect(mode, "sk-none")).rejects.toThrow();
  });
});

test("the first line of the official client asks too", async () => {
  answer = () => jsonResponse(completionOf({ content: "Soup." }));
  const client = new FirstClient({ name: "test", version: "1" });
  await client.connect(new FirstTransport(endpoint(), headersOf(troupe.key)) as never);
  const called = (await client.callTool({
    name: "ask_house_cook",
    arguments: { message: "x", variables: { guest: "y" } },
  })) as Called;
  expect(called.content[0]!.text).toBe("Soup.");
  await client.close();
});

test("calls are in the ledger and the log as every call, and a retry is replayed", async () => {
  let asked = 0;
  answer = () => {
    asked += 1;
    return jsonResponse(
      completionOf({ content: "Soup." }, "stop", { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }),
    );
  };
  const since = Date.now();
  for (let time = 0; time < 2; time += 1) {
    const client = await connect("auto", troupe.key, { "service-request-id": "one" });
    await client.callTool({ name: "ask_house_cook", arguments: { message: "x", variables: { guest: "y" } } });
    await client.close();
  }
  expect(asked).toBe(1);
  const { services } = troupe.server;
  while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
  await services.usage.close();
  await services.ledger.flush();
  const lines = await services.store.ledger.lines({ since, until: Number.MAX_SAFE_INTEGER, limit: 10 });
  expect(lines.map(({ persona, ended, tokens: { output } }) => [persona, ended, output])).toEqual([
    ["house/cook", "replayed", 0],
    ["house/cook", "finished", 2],
  ]);
});

test("a client that leaves ends the call", async () => {
  const held = Promise.withResolvers<Response>();
  answer = () => held.promise;
  const before = upstream.requests.length;
  const client = await connect("auto");
  const leave = new AbortController();
  const calling = client.callTool(
    { name: "ask_house_cook", arguments: { message: "x", variables: { guest: "y" } } },
    { signal: leave.signal },
  );
  await upstream.received(before + 1);
  leave.abort();
  await expect(calling).rejects.toThrow();
  await client.close();
  const { signal } = upstream.last;
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  held.resolve(new Response());
  while (troupe.server.services.running > 0) await new Promise((resolve) => setImmediate(resolve));
});

describe("what is no request of this protocol", () => {
  const json = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };

  test("pages of other origins are refused, those that cors.origins has are not", async () => {
    const from = (origin: string) => troupe.post("/mcp", list, { headers: { ...json, origin } });
    expect((await from("https://evil.example")).status).toBe(403);
    expect((await from("null")).status).toBe(403);
    expect((await from("https://app.example.com")).status).toBe(200);
    expect((await from(troupe.url)).status).toBe(200);
  });

  test("lists of requests, other methods, no key and no JSON are refused", async () => {
    expect((await troupe.post("/mcp", [list, list], { headers: json })).status).toBe(400);
    expect((await troupe.fetch("/mcp")).status).toBe(405);
    expect((await troupe.fetch("/mcp", { method: "DELETE" })).status).toBe(405);
    expect((await troupe.post("/mcp", list, { headers: json, key: null })).status).toBe(401);
    expect((await troupe.post("/mcp", "{", { headers: json })).status).toBe(400);
    expect((await troupe.post("/mcp", "null", { headers: json })).status).toBe(400);
    const { services } = troupe.server;
    while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(services.running).toBe(0);
  });

  test("each request counts against the key's rate", async () => {
    const key = await troupe.createKey({ name: "slow", tier: "free" });
    const statuses: number[] = [];
    for (let time = 0; time < 12; time += 1)
      statuses.push((await troupe.post("/mcp", list, { headers: json, key })).status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(10);
    expect(statuses.slice(10)).toEqual([429, 429]);
  });

  test("a page of methods and of arguments that are not there", async () => {
    const call = async (body: object) =>
      (await troupe.post("/mcp", { jsonrpc: "2.0", id: 1, ...body }, { headers: json })).text();
    expect(await call({ method: "resources/list" })).toContain("-32601");
    expect(await call({ method: "tools/call", params: { name: 7 } })).toContain("error");
    expect(
      await call({ method: "tools/call", params: { name: "ask_house_a_b", arguments: { message: "x", more: 1 } } }),
    ).toContain("more");
  });
});
