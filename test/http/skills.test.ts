/** Skills: what a model is told of them, and what it reads by its tool, with each family of upstreams, plain and streamed, in each client format. */
import { beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";
import { agentFamilies, agentFamilyOf, type Turn } from "../helpers/upstreams/agent.ts";
import {
  type Answering,
  bedrockKey,
  converseAnswer,
  converseStream,
  strictBedrock,
  textEvents,
} from "../helpers/upstreams/bedrock.ts";
import { strictResponses } from "../helpers/upstreams/responses.ts";

const instructions = "Ask for the order's number.";
const models = {
  openai: "openai/gpt-5.4",
  anthropic: "anthropic/claude-haiku-4-5",
  google: "google/gemini-2.5-flash",
  responses: "responses/gpt-5.6-sol",
  bedrock: "bedrock/amazon.nova-pro-v1:0",
};
const folder = untilEnd(new TempFolder());

const asked = { skill: "refunds" };
const words = "The number, please?";
const turnOf = (isRead: boolean): Turn =>
  isRead ? { text: words } : { calls: [{ id: "call_0", name: "read_skill", args: asked }] };

/** What Converse answers: first a call of the tool, then words. */
function converse({ body, isStream }: Parameters<Answering>[0]): Response {
  const isRead = wasRead(body);
  if (isRead) return isStream ? converseStream(textEvents(words)) : converseAnswer([{ text: words }]);
  const toolUse = { toolUseId: "tooluse_0", name: "read_skill" };
  if (!isStream) return converseAnswer([{ toolUse: { ...toolUse, input: asked } }], "tool_use");
  const [, , ...ending] = textEvents("", "tool_use");
  return converseStream([
    ["messageStart", { role: "assistant" }],
    ["contentBlockStart", { contentBlockIndex: 0, start: { toolUse } }],
    ["contentBlockDelta", { contentBlockIndex: 0, delta: { toolUse: { input: JSON.stringify(asked) } } }],
    ["contentBlockStop", { contentBlockIndex: 0 }],
    ...ending,
  ]);
}
function agentAnswer(body: unknown, request: RecordedRequest): Response {
  const family = agentFamilies[agentFamilyOf(request)!];
  return family.answer(turnOf(wasRead(body)), family.read(request));
}
const wasRead = (body: unknown) => JSON.stringify(body).includes(instructions);

mkdirSync(folder.file("acme/skills/refunds/scripts"), { recursive: true });
const head = "---\nname: refunds\ndescription: Handles refunds.\n---\n\n";
writeFileSync(folder.file("acme/skills/refunds/SKILL.md"), `${head}${instructions}\n`);
writeFileSync(folder.file("acme/skills/refunds/scripts/pay.sh"), "touch /tmp/ran\n");
for (const [name, model] of Object.entries(models))
  writeFileSync(
    folder.file(`acme/${name}.yaml`),
    `description: Helps.\nmodel: ${model}\nsystem: Help.\nskills: [skills/*]\n`,
  );
const bedrock = strictBedrock(converse, "us-east-1");
const responses = strictResponses("openai", "key-of-responses", (body, request) => agentAnswer(body, request));
const upstream = untilEnd(
  new UpstreamServer((request) => {
    if (request.path.startsWith("/model/")) return bedrock(request);
    if (request.path.endsWith("/responses")) return responses(request);
    return agentAnswer(request.json, request);
  }),
);
const provider = { baseUrl: upstream.url };
const troupe = untilEnd(
  await Troupe.start({
    personas: folder.path,
    providers: {
      openai: { ...provider, dialect: "openrouter" },
      responses: { baseUrl: `${upstream.url}/v1`, dialect: "openai" },
      bedrock: { ...provider, apiKey: bedrockKey, options: { region: "us-east-1" } },
      anthropic: provider,
      google: provider,
    },
  }),
);
await troupe.server.services.loading;
beforeEach(() => void upstream.requests.splice(0));

const messages = [{ role: "user", content: "A refund!" }];
const formats = {
  chat: ["/v1/chat/completions", { messages }],
  messages: ["/v1/messages", { messages, max_tokens: 100 }],
  responses: ["/v1/responses", { input: "A refund!" }],
} as const;

describe.each(Object.keys(models) as (keyof typeof models)[])("with %s's models", (name) => {
  test.each(
    Object.entries(formats).flatMap(([format, [path, body]]) =>
      [false, true].map((stream) => [format, stream ? "streamed" : "whole", path, { ...body, stream }] as const),
    ),
  )("in %s, %s", async (_format, _how, path, body) => {
    const response = await troupe.post(path, { model: `acme/${name}`, ...body });
    const text = await response.text();
    expect({ status: response.status, text }).toMatchObject({ status: 200, text: expect.stringContaining("se?") });
    // The call of the tool is nobody's but ours.
    expect(text).not.toMatch(/"type":"(?:tool_use|function_call)"|"tool_calls":\[/);
    expect(upstream.requests).toHaveLength(2);
    const [first, second] = upstream.requests.map(({ json }) => JSON.stringify(json));
    expect(first).toContain("- refunds: Handles refunds.");
    expect(first).toContain('"enum":["refunds"]');
    expect(first).not.toContain(instructions);
    expect(second).toContain(`${instructions}\\n\\nFiles of this skill, for read_skill:\\n- scripts/pay.sh (a program`);
  });
});

test("is said in the answer's metadata, and costs no line of the ledger beside the model's own", async () => {
  const response = await troupe.post("/v1/chat/completions", { model: "acme/openai", messages });
  const { metadata } = (await response.json()) as { metadata: Record<string, string> };
  expect(JSON.parse(metadata["mcp_calls"]!)).toMatchObject([
    { server: "skills", tool: "read_skill", arguments: '{"skill":"refunds"}', is_error: false },
  ]);
});

test("a caller's tool of that name is refused, and one of another stands beside it", async () => {
  const tool = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
  const refused = await troupe.post("/v1/chat/completions", {
    ...{ model: "acme/openai", messages, tools: [tool("read_skill")] },
  });
  expect([refused.status, await refused.json()]).toMatchObject([
    400,
    { error: { param: "tools", message: "tools: this persona has a tool 'read_skill' already." } },
  ]);
  await troupe.post("/v1/chat/completions", { model: "acme/openai", messages, tools: [tool("mine")] });
  const { tools } = upstream.requests[0]!.json as { tools: { function: { name: string } }[] };
  expect(tools.map((one) => one.function.name)).toEqual(["mine", "read_skill"]);
});
