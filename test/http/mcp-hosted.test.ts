/** Tools that clients expect a provider to run, where the provider has none: an MCP server's tool stands in. */
import { beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { completionOf } from "../helpers/chat-upstream.ts";
import { testServer } from "../helpers/mcp.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const folder = untilEnd(new TempFolder());
const calls = folder.file("calls");

const { troupe, upstream } = await served(
  ({ path, json }) => {
    if (path.endsWith("/responses"))
      return jsonResponse({ id: "resp_1", object: "response", output: [], status: "completed" });
    const { messages, tools = [] } = json as { messages: { role: string }[]; tools?: { function: { name: string } }[] };
    const [tool] = tools;
    const isFirst = !messages.some(({ role }) => role === "tool");
    if (tool === undefined || !isFirst) return jsonResponse(completionOf({ content: "Found." }));
    const called = { name: tool.function.name, arguments: '{"repo":"a","q":"b"}' };
    return jsonResponse(
      completionOf({ content: null, tool_calls: [{ id: "c1", type: "function", function: called }] }, "tool_calls"),
    );
  },
  (url) => ({
    providers: {
      openrouter: { baseUrl: url },
      dropping: { dialect: "openrouter", baseUrl: url, unsupportedTools: "drop" },
      openai: { baseUrl: url },
    },
    config: {
      mcpServers: { desk: testServer({ CALLS: calls }), vault: testServer({}, { tags: ["inside"] }) },
      hostedTools: { web_search: "desk.search" },
    },
  }),
);
await troupe.server.services.mcp.find("desk")!.tools();
beforeEach(() => {
  writeFileSync(calls, "");
  upstream.requests.splice(0);
});

const made = () => readFileSync(calls, "utf8").trim();
const toolsSent = (at = 0) =>
  ((upstream.requests[at]!.json as { tools?: { function: { name: string } }[] }).tools ?? []).map(
    (one) => one.function.name,
  );
const responses = (tools: object[], model = "openrouter/gpt") =>
  troupe.post("/gateway/v1/responses", { model, input: "hi", tools });
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { param: string; message: string } };
  return [response.status, error.param, error.message] as const;
};

describe("a hosted tool", () => {
  const messages = [{ role: "user", content: "hi" }];
  test.each([
    ["/gateway/v1/responses", { model: "openrouter/gpt", input: "hi", tools: [{ type: "web_search" }] }],
    ["/gateway/v1/responses", { model: "openrouter/gpt", input: "hi", tools: [{ type: "web_search_preview" }] }],
    [
      "/gateway/v1/messages",
      {
        model: "openrouter/gpt",
        max_tokens: 9,
        messages,
        tools: [{ type: "web_search_20250305", name: "web_search" }],
      },
    ],
    [
      "/gateway/v1beta/models/openrouter/gpt:generateContent",
      { contents: [{ parts: [{ text: "hi" }] }], tools: [{ googleSearch: {} }] },
    ],
  ])("of %s is called here", async (path, body) => {
    const response = await troupe.post(path, body);
    const text = await response.text();
    expect([response.status, text]).toEqual([200, expect.stringContaining("Found.")]);
    expect(toolsSent()).toEqual(["web_search"]);
    expect(made()).toBe('search {"repo":"a","q":"b"}');
  });

  test("that nothing stands in for is refused as before, beside one that is called here too", async () => {
    for (const tools of [[{ type: "image_generation" }], [{ type: "web_search" }, { type: "image_generation" }]]) {
      const [status, param] = await errorOf(await responses(tools));
      expect([status, param]).toEqual([400, `tools[${tools.length - 1}].type`]);
    }
    expect((await responses([{ type: "web_search" }, { type: "image_generation" }], "dropping/gpt")).status).toBe(200);
    expect(made()).not.toBe("");
  });

  test("goes to an upstream that has it", async () => {
    await responses([{ type: "web_search" }], "openai/gpt-5.9");
    expect(upstream.requests[0]!.json).toMatchObject({ tools: [{ type: "web_search" }] });
    expect(made()).toBe("");
  });
});

describe("Responses' mcp", () => {
  const mcp = (more: object) => ({ type: "mcp", server_label: "desk", ...more });

  test("calls the configured server of its label, on every upstream, and the tools that it allows", async () => {
    const allowed = [
      { allowed_tools: ["search"] },
      { allowed_tools: { tool_names: ["search"] }, require_approval: "never" },
    ];
    for (const more of allowed) {
      upstream.requests.splice(0);
      expect(await (await responses([mcp(more)])).text()).toContain("Found.");
      expect(toolsSent()).toEqual(["desk__search"]);
      await responses([mcp(more)], "openai/gpt-5.9");
      const { tools } = upstream.last.json as { tools: object[] };
      expect(tools).toMatchObject([{ type: "function", name: "desk__search" }]);
    }
    await (await responses([mcp({})])).text();
    expect(made()).not.toBe("");
  });

  test.each([
    [{ server_url: "https://evil.example/mcp" }, "tools[0].server_url"],
    [{ connector_id: "connector_gmail" }, "tools[0].connector_id"],
    [{ headers: { authorization: "x" } }, "tools[0].headers"],
    [{ authorization: "x" }, "tools[0].authorization"],
    [{ server_label: "other" }, "tools[0].server_label"],
    [{ server_label: "vault" }, "tools[0].server_label"],
    [{ require_approval: "always" }, "tools[0].require_approval"],
  ])("with %p is refused, naming the field", async (more, param) => {
    const [status, named, message] = await errorOf(await responses([mcp(more)]));
    expect([status, named]).toEqual([400, param]);
    expect(message).toStartWith(param);
    expect(upstream.requests).toEqual([]);
  });

  test("with a server's address goes untouched to OpenAI, which calls it", async () => {
    const tool = mcp({ server_url: "https://mcp.example/mcp" });
    await responses([tool], "openai/gpt-5.9");
    expect(upstream.requests[0]!.json).toMatchObject({ tools: [tool] });
  });
});
