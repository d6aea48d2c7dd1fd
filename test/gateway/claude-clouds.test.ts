/** Messages clients on clouds: what Anthropic takes of their betas and versions, and a cloud does not, stays here. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest } from "../helpers/upstream-server.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

type Json = Record<string, unknown>;
const clouds = ["vertex", "bedrock", "foundry"] as const;
type Cloud = (typeof clouds)[number];

const answer = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "claude", stop_reason: "end_turn", stop_sequence: null },
  ...{ content: [{ type: "text", text: "Hello." }], usage: { input_tokens: 3, output_tokens: 2 } },
};

/**
 * What each was seen to refuse: https://github.com/anthropics/claude-code/issues/34802, https://github.com/Wei-Shaw/sub2api/issues/3358,
 * https://github.com/router-for-me/CLIProxyAPI/issues/4750, https://github.com/anthropics/claude-agent-sdk-typescript/issues/307
 */
const refusedBetas: Record<string, readonly string[]> = {
  vertex: [
    ...[
      "prompt-caching-scope-2026-01-05",
      "effort-2025-11-24",
      "advisor-tool-2026-03-01",
      "structured-outputs-2025-12-15",
    ],
    ...["redact-thinking-2026-02-12", "thinking-token-count-2026-05-13", "adaptive-thinking-2026-01-28"],
    ...["advanced-tool-use-2025-11-20", "files-api-2025-04-14", "next-month-2026-12-01"],
  ],
  bedrock: [
    ...["prompt-caching-scope-2026-01-05", "oauth-2025-04-20", "fast-mode-2026-02-01", "redact-thinking-2026-02-12"],
    ...["advisor-tool-2026-03-01", "files-api-2025-04-14", "advanced-tool-use-2025-11-20", "next-month-2026-12-01"],
  ],
  foundry: ["advisor-tool-2026-03-01", "fast-mode-2026-02-01", "redact-thinking-2026-02-12", "next-month-2026-12-01"],
  anthropic: [],
};
/** Of betas that it does not take: "Extra inputs are not permitted". */
const refusedMembers: Record<string, readonly string[]> = {
  vertex: ['"scope"', '"diagnostics"', '"fallbacks"', '"task_budget"', '"eager_input_streaming"'],
  bedrock: ['"scope"', '"diagnostics"', '"fallbacks"', '"task_budget"'],
  foundry: ['"diagnostics"', '"fallbacks"', '"task_budget"', '"eager_input_streaming"'],
  anthropic: [],
};

const cloudOf = ({ path, headers }: RecordedRequest): string => {
  if (path.includes("/publishers/anthropic/")) return "vertex";
  if (path.startsWith("/deepseek")) return "deepseek";
  if (!path.startsWith("/anthropic/")) return "anthropic";
  return headers.has("api-key") ? "foundry" : "bedrock";
};

function refusalOf(request: RecordedRequest): string | undefined {
  const cloud = cloudOf(request);
  const { path, headers, text, json } = request;
  const body = json as Json;
  const betas = (headers.get("anthropic-beta") ?? "").split(",").filter((beta) => beta !== "");
  const isCount = path.includes("count");
  const unexpected = betas.filter(
    (beta) => refusedBetas[cloud]?.includes(beta) || (isCount && cloud === "vertex" && beta.startsWith("web-search")),
  );
  if (unexpected.length > 0) return `Unexpected value(s) ${unexpected.join(", ")} for the anthropic-beta header.`;
  const extra = refusedMembers[cloud]?.find((member) => text.includes(member));
  if (extra !== undefined) return `${extra}: Extra inputs are not permitted`;
  const inBody = cloud === "vertex";
  if (inBody === headers.has("anthropic-version")) return "anthropic-version stands in the wrong place";
  const version = String(inBody ? body["anthropic_version"] : headers.get("anthropic-version"));
  const known = inBody ? ["vertex-2023-10-16", "2026-10-21"] : ["2023-06-01", "2026-10-21"];
  if (!known.includes(version)) return `anthropic-version: ${version} is not a valid version`;
  const sampled = ["temperature", "top_p", "top_k"].filter((name) => body[name] !== undefined);
  if (version === "2026-10-21" && sampled.length > 0) return `${sampled}: not permitted in this version`;
  const isOld = /claude-(?:opus|sonnet|haiku)-(?:4-[0-6]\b|4-2|3)/.test(String(body["model"]));
  return cloud === "bedrock" && isOld && version === "2026-10-21" ? "this model needs 2023-06-01" : undefined;
}

const watched = new WatchedLog();
const models: Record<string, string> = {
  vertex: "vertex/claude-sonnet-4-6",
  bedrock: "bedrock/global.anthropic.claude-sonnet-4-6",
  foundry: "foundry/claude-sonnet-4-6",
  anthropic: "anthropic/claude-sonnet-4-6",
  deepseek: "deepseek/deepseek-v4",
};

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
for (const [name, model] of Object.entries(models))
  writeFileSync(
    folder.file(`acme/${name}.yaml`),
    `description: x\nmodel: ${model}\nsystem: Help.\ndefaults: {temperature: 0.3}\n`,
  );
const answered = (request: RecordedRequest) => {
  const refusal = refusalOf(request);
  if (refusal !== undefined)
    return jsonResponse({ type: "error", error: { type: "invalid_request_error", message: refusal } }, 400);
  return jsonResponse(request.path.includes("count") ? { input_tokens: 9 } : answer);
};
const { troupe, upstream } = await served(answered, (url) => ({
  providers: {
    anthropic: { baseUrl: url },
    vertex: { baseUrl: `${url}/v1`, options: { project: "p", location: "global", bearer: true } },
    bedrock: { baseUrl: url },
    foundry: { baseUrl: `${url}/anthropic` },
    deepseek: { baseUrl: url, options: { messages_base_url: `${url}/deepseek` } },
  },
  nativeEndpoints: true,
  personas: folder.path,
  log: watched.log,
}));
await troupe.server.services.loading;
beforeEach(() => {
  upstream.requests.length = 0;
});

const plain = { max_tokens: 9, messages: [{ role: "user", content: "Hi" }] };
const post = (model: string, body: Json = {}, headers: Record<string, string> = {}, path = "/gateway/v1/messages") =>
  troupe.post(path, { model, ...plain, ...body }, { headers });
const sentBetas = () => upstream.last.headers.get("anthropic-beta");

/** As Claude Code sends them. */
const betas = [
  ...["claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27"],
  ...["prompt-caching-scope-2026-01-05", "effort-2025-11-24", "redact-thinking-2026-02-12"],
  ...[
    "thinking-token-count-2026-05-13",
    "advisor-tool-2026-03-01",
    "advanced-tool-use-2025-11-20",
    "next-month-2026-12-01",
  ],
];
const scoped = { cache_control: { type: "ephemeral", scope: "global", ttl: "1h" } };
const marked = { cache_control: { type: "ephemeral", ttl: "1h" } };
const text = (more: Json = {}) => ({ type: "text", text: "Hi", ...more });
const ofAgent = (mark: Json) => ({
  system: [text(mark)],
  messages: [
    { role: "user", content: [text()] },
    { role: "assistant", content: [{ type: "tool_use", id: "t", name: "look", input: { scope: "mine" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: [text(mark)] }] },
  ],
  tools: [{ name: "look", input_schema: { type: "object" }, ...mark }],
  context_management: { edits: [{ type: "clear_thinking_20251015" }] },
});

describe("an agent's betas", () => {
  const expected: Record<Cloud, readonly string[]> = {
    vertex: ["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "tool-search-tool-2025-10-19"],
    bedrock: [
      ...["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "effort-2025-11-24"],
      "tool-search-tool-2025-10-19",
    ],
    foundry: [
      ...["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "prompt-caching-scope-2026-01-05"],
      ...["effort-2025-11-24", "advanced-tool-use-2025-11-20"],
    ],
  };

  test.each(clouds)("go to %s as far as it takes them, and so does what belongs to them", async (cloud) => {
    // The word stands in what the caller's tool says, too, where it stays.
    const refused = refusedMembers[cloud]!;
    refusedMembers[cloud] = refused.filter((member) => member !== '"scope"');
    const response = await post(
      models[cloud]!,
      { ...ofAgent(scoped), diagnostics: { previous_message_id: null }, fallbacks: [{ model: "x" }] },
      { "anthropic-beta": betas.join(", ") },
    );
    refusedMembers[cloud] = refused;
    expect([response.status, await response.json()]).toEqual([200, answer]);
    expect(sentBetas()).toBe(expected[cloud].join(","));
    const { model: _, anthropic_version: __, max_tokens: ___, ...sent } = upstream.last.json as Json;
    expect(sent).toEqual(ofAgent(cloud === "foundry" ? scoped : marked));
  });

  test("go to Anthropic as they came", async () => {
    const body = JSON.stringify({ model: models["anthropic"], ...plain, ...ofAgent(scoped), diagnostics: {} });
    const response = await troupe.post("/gateway/v1/messages", body, {
      headers: { "anthropic-beta": betas.join(",") },
    });
    expect([response.status, sentBetas()]).toEqual([200, betas.join(",")]);
    expect(upstream.last.text).toBe(body.replace("anthropic/", ""));
  });

  test("that are left out are told once in the log, and bounded", async () => {
    const headers = { "anthropic-beta": `never-heard-of-2026-01-01,${"x".repeat(2000)}` };
    const from = watched.lines.length;
    for (let at = 0; at < 3; at += 1) await post(models["vertex"]!, { diagnostics: {} }, headers);
    const told = watched.lines.slice(from).filter(({ message }) => message.startsWith("left out of requests"));
    expect(told.map(({ fields }) => fields)).toEqual([
      { provider: "vertex", left_out: "anthropic-beta: never-heard-of-2026-01-01" },
      { provider: "vertex", left_out: expect.stringMatching(/^anthropic-beta: x+…$/) },
      ...(told.length > 2 ? [{ provider: "vertex", left_out: "diagnostics" }] : []),
    ]);
    expect(told.every(({ fields }) => String(fields["left_out"]).length <= 256)).toBe(true);
  });

  test("stay away from Vertex's counter, which takes fewer", async () => {
    const headers = { "anthropic-beta": "web-search-2025-03-05,context-1m-2025-08-07" };
    const counted = await troupe.post(
      "/gateway/v1/messages/count_tokens",
      { model: models["vertex"], messages: plain.messages, system: [text(scoped)] },
      { headers },
    );
    expect([counted.status, await counted.json(), sentBetas()]).toEqual([200, { input_tokens: 9 }, null]);
    await post(models["vertex"]!, {}, headers);
    expect(sentBetas()).toBe(headers["anthropic-beta"]);
  });

  test.each(clouds)("are not needed by a translated call to %s", async (cloud) => {
    const response = await troupe.post("/gateway/v1/chat/completions", {
      model: models[cloud],
      messages: plain.messages,
    });
    expect([response.status, sentBetas()]).toEqual([200, null]);
  });
});

describe("versions", () => {
  const newest = { "anthropic-version": "2026-10-21" };
  const sentVersion = () => {
    const { headers, json } = upstream.last;
    return headers.get("anthropic-version") ?? (json as Json)["anthropic_version"];
  };

  test.each([
    ["anthropic/claude-sonnet-4-5", "2026-10-21"],
    ["foundry/claude-sonnet-4-5", "2026-10-21"],
    ["vertex/claude-sonnet-4-5@20250929", "2026-10-21"],
    ["bedrock/us.anthropic.claude-3-7-sonnet-20250219-v1:0", "2023-06-01"],
    ["bedrock/anthropic.claude-opus-4-20250514-v1:0", "2023-06-01"],
    ["bedrock/global.anthropic.claude-opus-4-6-v1", "2023-06-01"],
    ["bedrock/global.anthropic.claude-opus-4-7", "2026-10-21"],
    ["bedrock/eu.anthropic.claude-sonnet-5-5-v1:0", "2026-10-21"],
    ["bedrock/global.anthropic.claude-opus-10-1", "2026-10-21"],
    ["bedrock/anthropic.claude-fable-next", "2026-10-21"],
    ["deepseek/deepseek-v4", "2023-06-01"],
  ])("the newest goes to %s as %s", async (model, version) => {
    const response = await post(model, {}, newest);
    expect([response.status, sentVersion()]).toEqual([200, version]);
    const older = await post(model, { temperature: 0.5 }, { "anthropic-version": "2023-06-01" });
    expect([older.status, sentVersion()]).toEqual([
      200,
      model.startsWith("vertex") ? "vertex-2023-10-16" : "2023-06-01",
    ]);
  });

  test("that are nobody's come back as the upstream's own error", async () => {
    const response = await post("anthropic/claude-sonnet-4-5", {}, { "anthropic-version": "latest" });
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("latest is not a valid")]);
  });

  test.each(Object.keys(models))(
    "a persona's sampling obeys the version that a body goes to %s with",
    async (cloud) => {
      const own = new Anthropic({ baseURL: troupe.url, authToken: troupe.key, apiKey: null, maxRetries: 0 });
      const said = await own.messages.create({ model: `acme/${cloud}`, ...plain } as never);
      expect((said as unknown as Json)["content"]).toEqual(answer.content);
      const keepsSampling = cloud === "bedrock" || cloud === "deepseek";
      expect([sentVersion(), (upstream.last.json as Json)["temperature"]]).toEqual(
        keepsSampling ? ["2023-06-01", 0.3] : ["2026-10-21", undefined],
      );
      const older = await post(`acme/${cloud}`, {}, { "anthropic-version": "2023-06-01" }, "/v1/messages");
      expect([older.status, (upstream.last.json as Json)["temperature"]]).toEqual([200, 0.3]);
    },
  );

  test("what a caller says against its version is the upstream's to refuse", async () => {
    const response = await post(models["anthropic"]!, { temperature: 0.5 }, newest);
    expect([response.status, (upstream.last.json as Json)["temperature"]]).toEqual([400, 0.5]);
  });
});
