/** `troupe doctor --call --models`: what the facts say of the models in use, held against upstreams that say otherwise. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../../helpers/upstream-server.ts";
import { agentFamilies, agentFamilyOf } from "../../helpers/upstreams/agent.ts";
import { Console } from "../console.ts";

type Json = Record<string, unknown>;
type Check = { what: string; state: string; found: string; advice?: string };

/** True for a body that demands a call, in any format. */
const demands = ({ tool_choice }: Json) => /"?(?:required|any)"?/.test(JSON.stringify(tool_choice ?? ""));

/** Does what it is asked, in the format in which it is. */
function obliging(request: RecordedRequest): Response {
  const family = agentFamilies[agentFamilyOf(request)!];
  const calls = [{ id: "call_1", name: "look_up", args: { word: "ok" } }];
  return family.answer(demands(request.json as Json) ? { calls } : { text: '{"ok":true}' }, family.read(request));
}

const refused = (message: string, param: string) =>
  jsonResponse({ error: { message, type: "invalid_request_error", param } }, 400);

/** Refuses what OpenAI's newest refuse: function tools on chat completions, and sampling. */
function asTheFactsSay(request: RecordedRequest): Response {
  const { tools, temperature, reasoning_effort: effort } = request.json as Json;
  if (request.path.endsWith("/chat/completions") && tools !== undefined && effort !== "none")
    return refused("Function tools are not supported here. Use /v1/responses.", "reasoning_effort");
  if (temperature !== undefined) return refused("Unsupported parameter: 'temperature'.", "temperature");
  return obliging(request);
}

async function diagnose(upstream: UpstreamServer, name: string, persona: string, line: string) {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/team"), { recursive: true });
  writeFileSync(folder.file("personas/team/one.yaml"), `model: ${persona}\ndescription: One.\nsystem: Hi.\n`);
  const key = name.toUpperCase();
  const shell = new Console(folder.path, { [`${key}_API_KEY`]: "sk-a-secret", [`${key}_BASE_URL`]: upstream.url });
  const { code, out, err } = await shell.run(`--port 0 --personas personas doctor --json ${line}`);
  expect(out).not.toContain("sk-a-secret");
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  const of = (what: string) => checks.filter((check) => check.what === what && !/^\d+ in /.test(check.found));
  return { code, err, of, checks };
}

describe("troupe doctor --call --models", () => {
  test("finds nothing where upstream and facts agree, and says what it costs before and after", async () => {
    using upstream = new UpstreamServer(asTheFactsSay);
    const { code, err, of } = await diagnose(upstream, "openai", "openai/gpt-6-luna", "--call --models used");
    const model = of("model openai/gpt-6-luna");
    expect(model.map(({ state }) => state)).toEqual(["ok"]);
    expect(model[0]!.found).toMatch(
      /^9 calls, \$0\.\d{6}.*; it takes: plain, stream, tools, forced tool, structured, thinking, image$/,
    );
    expect(err).toMatch(/^Calls 1 model, at most 9 calls and \$0\.\d{6}\.\n$/);
    expect(code).toBe(0);
    // One for the provider, as ever; then the set, and tools and temperature as if the facts did not refuse them.
    expect(upstream.requests).toHaveLength(10);
    const asked = upstream.requests.slice(1).map(({ path, json }) => {
      const { tools, temperature } = json as Json;
      return `${path}${tools === undefined ? "" : " tools"}${temperature === undefined ? "" : " temperature"}`;
    });
    expect(asked).toContain("/v1/chat/completions tools");
    expect(asked).toContain("/v1/responses tools");
    expect(asked).toContain("/v1/chat/completions temperature");
  });

  test("names what an upstream refuses that the facts allow, and takes that they refuse, each with its fact", async () => {
    using upstream = new UpstreamServer((request) => {
      const { response_format: format } = request.json as Json;
      return format === undefined
        ? obliging(request)
        : refused(`Invalid parameter: ${"x".repeat(2000)}`, "response_format");
    });
    const { code, of } = await diagnose(upstream, "openai", "openai/gpt-6-luna", "--call --models used");
    expect(code).toBe(1);
    const [summary, ...findings] = of("model openai/gpt-6-luna");
    expect(summary!.found).toContain("it takes: plain, stream, tools, forced tool, thinking, image");
    expect(findings.map(({ state, found }) => [state, found.slice(0, 40)])).toEqual([
      ["error", 'structured: refused with 400, {"error":{'],
      ["warning", "it takes tools by chat completions; the "],
      ["warning", "it takes temperature; the facts say: sam"],
    ]);
    expect(findings[0]!.found.length).toBeLessThan(600);
    expect(findings[1]!.found).toContain('tools_road: "responses" by gpt-* from 5.6 on (openai, chat) (https://');
    for (const { advice } of findings) expect(advice).toContain("model_rules");
  });

  test("plays Anthropic's own: a model that now takes forced tools and temperature", async () => {
    using upstream = new UpstreamServer(obliging);
    const { of } = await diagnose(upstream, "anthropic", "anthropic/claude-opus-5-5", "--call --models used");
    const [, ...findings] = of("model anthropic/claude-opus-5-5");
    expect(findings.map(({ found }) => found.replace(/; the facts say: (\w+): .*/, " | $1"))).toEqual([
      "it takes a forced tool | forced_tools",
      "it takes temperature | sampling",
    ]);
  });

  test("a model that is not there, or a key that is refused, costs one call each", async () => {
    using upstream = new UpstreamServer(() =>
      jsonResponse({ error: { message: "The model does not exist", code: "model_not_found" } }, 404),
    );
    const line = "--call --models openai/gpt-9,openai/gpt-9-mini,nobody/x,builtin/echo";
    const { code, of, err } = await diagnose(upstream, "openai", "openai/gpt-6-luna", line);
    expect(code).toBe(1);
    expect(upstream.requests).toHaveLength(3);
    expect(of("model openai/gpt-9").map(({ state }) => state)).toEqual(["ok", "error"]);
    expect(of("model openai/gpt-9")[1]!.found).toContain("plain: answered 404");
    expect(err).toContain("without 2 that have no price");
    expect(of("models").some(({ found }) => found.includes("nobody/x"))).toBe(true);
    expect(of("models").filter(({ found }) => found.includes("builtin/echo"))).toMatchObject([
      { state: "ok", found: "not called, as this program answers itself: builtin/echo" },
    ]);
  });

  test("what a host says of all models is not asked of Claude there, and what its maker says is", async () => {
    using upstream = new UpstreamServer(() => jsonResponse({ message: "no such model" }, 404));
    using folder = new TempFolder();
    const env = {
      AWS_BEARER_TOKEN_BEDROCK: "sk-a-secret",
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: upstream.url,
      AWS_REGION: "us-east-1",
    };
    const shell = new Console(folder.path, env);
    const line = "--port 0 doctor --call --models bedrock/us.anthropic.claude-haiku-5-5-v1:0";
    // Seven, and a temperature; it takes forced tools.
    expect((await shell.run(line)).err).toContain("Calls 1 model, at most 8 calls");
    expect(upstream.requests.length).toBeGreaterThan(0);
  });

  test("calls no more than twenty models, and names some of the others", async () => {
    using upstream = new UpstreamServer(() => jsonResponse({ error: { message: "busy" } }, 429));
    const names = Array.from({ length: 23 }, (_, at) => `openai/gpt-${at + 100}`).join(",");
    const { of } = await diagnose(upstream, "openai", "openai/gpt-6-luna", `--call --models ${names}`);
    expect(upstream.requests).toHaveLength(21);
    expect(of("models").some(({ found }) => found.startsWith("3 more are in use and were not called"))).toBe(true);
  });

  test("wants --call, and names that can be models", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect(await shell.run("doctor --models used")).toMatchObject({ code: 2, err: expect.stringContaining("--call") });
    expect(await shell.run("doctor --call --models all")).toMatchObject({
      code: 2,
      err: expect.stringContaining("'used'"),
    });
  });
});
