/**
 * Makes docs/matrix.md: what can be asked of the newest models of each line, in each client format, and by which road it goes; played against
 * upstreams that refuse what the real ones are documented to refuse.
 */
import { writeFileSync } from "node:fs";
import { factsAsOf, factsOf } from "../../src/facts/facts.ts";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "./client-formats.ts";
import { Troupe } from "./troupe.ts";
import { jsonResponse, type RecordedRequest, type UpstreamHandler, UpstreamServer } from "./upstream-server.ts";
import { agentFamilies, agentFamilyOf } from "./upstreams/agent.ts";
import { anthropicKey, anthropicUpstream } from "./upstreams/anthropic.ts";
import { bedrockKey } from "./upstreams/bedrock.ts";
import { clouds, gptRefusal } from "./upstreams/clouds.ts";
import { basePath } from "./upstreams/compatible.ts";
import { googleKey, strictGemini } from "./upstreams/google.ts";
import { strictEndpoints } from "./upstreams/native-endpoints.ts";
import { strictResponses } from "./upstreams/responses.ts";

type Json = Record<string, unknown>;
export const matrixPath = "docs/matrix.md";

/** Of each line the newest that the stand-ins know; of OpenAI also the last that took tools by chat completions. */
const lines: readonly (readonly [provider: string, ...models: string[]])[] = [
  ["openai", "gpt-6.1-sol", "gpt-6-luna", "gpt-5.4"],
  ["anthropic", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"],
  ["google", "gemini-3.8-flash"],
  ["xai", "grok-4.6"],
  ["mistral", "mistral-medium-latest"],
  ["deepseek", "deepseek-v4-pro"],
  ["moonshot", "kimi-k3", "kimi-k2.6"],
  ["zai", "glm-5.3"],
  ["groq", "openai/gpt-oss-120b", "qwen/qwen3.8-27b"],
  ["cerebras", "gpt-oss-120b"],
  ["together", "openai/gpt-oss-120b"],
  ["fireworks", "accounts/fireworks/models/glm-5p3"],
  ["deepinfra", "openai/gpt-oss-120b"],
  ["azure", "gpt-6.1-sol", "gpt-5.4"],
  ["foundry", "claude-opus-5-5"],
  ["vertex", "gemini-3.8-flash", "claude-opus-5-5"],
  ["bedrock", "us.anthropic.claude-opus-5-5", "us.openai.gpt-6-luna", "us.amazon.nova-2-lite-v1:0"],
];

const text: Asked = {
  ...{ system: "Help.", turns: [{ kind: "user", parts: [{ kind: "text", text: "Hi" }] }], tools: [], choice: "auto" },
  ...{ oneAtATime: false, schema: undefined, temperature: undefined, maxTokens: 4000, stop: [] },
};
const object = (properties: Json) => ({
  ...{ type: "object", properties, required: Object.keys(properties), additionalProperties: false },
});
const tools = [{ name: "look_up", description: "Looks up.", parameters: object({ q: { type: "string" } }) }];
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const picture: Asked = {
  ...text,
  turns: [
    {
      kind: "user",
      parts: [
        { kind: "text", text: "What is it?" },
        { kind: "image", data: pixel },
      ],
    },
  ],
};

const thinking: Readonly<Record<FormatName, readonly [on: Json, off: Json]>> = {
  chat: [{ reasoning_effort: "high" }, { reasoning_effort: "none" }],
  responses: [{ reasoning: { effort: "high" } }, { reasoning: { effort: "none" } }],
  messages: [{ thinking: { type: "adaptive" }, output_config: { effort: "high" } }, { thinking: { type: "disabled" } }],
  "generate-content": [
    { generationConfig: { thinkingConfig: { thinkingLevel: "HIGH" } } },
    { generationConfig: { thinkingConfig: { thinkingLevel: "LOW" } } },
  ],
};
type Wish = readonly [name: string, asked: Asked, more: (format: FormatName) => Json];
const none = () => ({});
const wishes: readonly Wish[] = [
  ["plain", text, none],
  ["stream", text, (format) => (format === "generate-content" ? {} : { stream: true })],
  ["tools", { ...text, tools }, none],
  ["forced tool", { ...text, tools, choice: "required" }, none],
  ["structured", { ...text, schema: object({ a: { type: "string" } }) }, none],
  ["thinking", text, (format) => thinking[format][0]],
  ["little or none", text, (format) => thinking[format][1]],
  ["image", picture, none],
];
const formatTitles: Readonly<Record<FormatName, string>> = {
  chat: "Chat completions",
  responses: "Responses",
  messages: "Messages",
  "generate-content": "generateContent",
};

const answered = (_: unknown, request: RecordedRequest): Response => {
  // Other makers have Anthropic's format below a path of their own.
  const path = request.path.replace(/^.*(?=\/v1\/messages)/, "");
  const family = agentFamilies[agentFamilyOf({ ...request, path })!];
  return family.answer({ text: '{"a":"Hello"}' }, family.read(request));
};

/** https://platform.openai.com/docs/api-reference/completions */
function legacyAnswer(isStream: boolean): Response {
  const choices = [{ index: 0, text: "Hello", finish_reason: "stop", logprobs: null }];
  const answer = { id: "cmpl-1", object: "text_completion", created: 1, model: "m", choices };
  const events = `data: ${JSON.stringify(answer)}\n\ndata: [DONE]\n\n`;
  return isStream ? new Response(events, { headers: { "content-type": "text/event-stream" } }) : jsonResponse(answer);
}

const ownFormats: Readonly<Record<string, UpstreamHandler>> = {
  anthropic: anthropicUpstream(answered),
  google: strictGemini(answered),
  ...Object.fromEntries(Object.entries(clouds).map(([name, cloud]) => [name, cloud(answered)])),
};
/** Those that speak Responses beside chat completions. */
const responses: Readonly<Record<string, UpstreamHandler>> = {
  openai: strictResponses("openai", "key-of-openai", answered),
  xai: strictResponses("xai", "key-of-xai", answered),
};
const keys: Readonly<Record<string, string>> = { anthropic: anthropicKey, google: googleKey, bedrock: bedrockKey };
const options: Readonly<Record<string, Json>> = { vertex: { project: "p", bearer: true } };
const bases: Readonly<Record<string, string>> = {
  ...{ anthropic: "", google: "/v1beta", azure: "", bedrock: "", foundry: "/anthropic", vertex: "" },
};

function standIn(provider: string): UpstreamHandler {
  return (request) => {
    // Those that are known to have legacy completions alone are asked there.
    if (/(?<!\/chat)\/completions$/.test(request.path)) return legacyAnswer((request.json as Json)["stream"] === true);
    const own = ownFormats[provider] ?? (request.path.endsWith("/responses") ? responses[provider] : undefined);
    if (own !== undefined) return own(request);
    const answer = () => answered(undefined, request);
    const strict = strictEndpoints(provider, `key-of-${provider}`, {
      chat: answer,
      messages: answer,
      responses: answer,
    });
    return gptRefusal(request) ?? strict(request);
  };
}

/** `isLeft`: the model is not made to call, as it can't be. */
type Cell = "none" | { readonly road: string; readonly isLeft: boolean } | { readonly refused: string };
type Row = { readonly format: FormatName | "completions"; readonly model: string; readonly cells: readonly Cell[] };

/** Plays every wish; the road is the format in which the upstream was asked. */
export async function playMatrix(): Promise<Row[]> {
  const upstreams = new Map(lines.map(([provider]) => [provider, new UpstreamServer(standIn(provider))]));
  try {
    const accountOf = (provider: string, url: string) => ({
      baseUrl: url + (bases[provider] ?? basePath(provider)),
      ...(keys[provider] !== undefined && { apiKey: keys[provider] }),
      ...(options[provider] !== undefined && { options: options[provider] }),
    });
    await using troupe = await Troupe.start({
      nativeEndpoints: true,
      providers: Object.fromEntries([...upstreams].map(([name, { url }]) => [name, accountOf(name, url)])),
    });
    const rows: Row[] = [];
    for (const format of formatNames)
      for (const [provider, ...models] of lines)
        for (const model of models.map((name) => `${provider}/${name}`)) {
          const cells: Cell[] = [];
          for (const wish of wishes) {
            const isAble = !lacks(provider, model.slice(provider.length + 1), wish[0]);
            cells.push(isAble ? await cellOf(troupe, upstreams.get(provider)!, format, model, wish) : "none");
          }
          rows.push({ format, model, cells });
        }
    for (const model of lines.flatMap(([provider, ...models]) => models.map((name) => `${provider}/${name}`))) {
      const asked = { model, prompt: "Hi", max_tokens: 4000 };
      const cells: Cell[] = [];
      for (const body of [asked, { ...asked, stream: true }])
        cells.push(await cellIn(await troupe.post("/gateway/v1/completions", body)));
      rows.push({ format: "completions", model, cells });
    }
    return rows;
  } finally {
    for (const upstream of upstreams.values()) upstream[Symbol.dispose]();
  }
}

function lacks(provider: string, model: string, wish: string): boolean {
  const { input_modalities: reads, tools: calls, reasoning } = factsOf(provider, model);
  if (wish === "image") return reads?.includes("image") === false;
  if (wish.endsWith("tool") || wish === "tools") return calls === false;
  return reasoning === false && wish === "thinking";
}

/** True for a body that demands a call, in any format. */
const demands = ({ tool_choice, toolConfig }: Json) =>
  /"(?:required|any|ANY)"/.test(JSON.stringify([tool_choice, toolConfig]));

/** Messages with blocks alone, which the stand-in reads. */
function inBlocks(body: Json, format: FormatName): Json {
  if (format !== "messages") return body;
  const blocks = (content: unknown) => (typeof content === "string" ? [{ type: "text", text: content }] : content);
  const messages = (body["messages"] as Json[]).map((turn) => ({ ...turn, content: blocks(turn["content"]) }));
  return { ...body, system: blocks(body["system"]), messages };
}

async function cellOf(
  troupe: Troupe,
  upstream: UpstreamServer,
  format: FormatName,
  model: string,
  [name, asked, more]: Wish,
): Promise<Cell> {
  const path = pathOf("gateway", format, model);
  const isStream = name === "stream" && format === "generate-content";
  const response = await troupe.post(
    isStream ? path.replace(/:generateContent$/, ":streamGenerateContent?alt=sse") : path,
    { ...inBlocks(bodyFor(format, asked, model), format), ...more(format) },
  );
  // Read first: what the upstream got is known once it has answered.
  const cell = await cellIn(response);
  const isLeft = name === "forced tool" && !demands(upstream.last.json as Json);
  return typeof cell === "object" && "road" in cell ? { ...cell, isLeft } : cell;
}

async function cellIn(response: Response): Promise<Cell> {
  const body = await response.text();
  if (response.status === 200) return { road: response.headers.get("x-troupe-upstream-format") ?? "", isLeft: false };
  const { error } = JSON.parse(body) as { error: { message: string } };
  return { refused: error.message };
}

export function renderMatrix(rows: readonly Row[]): string {
  const refusals = [
    ...new Set(
      rows.flatMap(({ cells }) =>
        cells.flatMap((cell) => (typeof cell === "object" && "refused" in cell ? [cell.refused] : [])),
      ),
    ),
  ];
  const shown = (cell: Cell, format: Row["format"]) => {
    if (cell === "none") return "–";
    if ("refused" in cell) return `[${refusals.indexOf(cell.refused) + 1}](#refused)`;
    return ["✓", ...(cell.road === format ? [] : [cell.road]), ...(cell.isLeft ? ["(may)"] : [])].join(" ");
  };
  const table = (format: Row["format"], title: string, names: readonly string[]) => [
    `## ${title}`,
    "",
    `| ${["model", ...names].join(" | ")} |`,
    `|${" --- |".repeat(names.length + 1)}`,
    ...rows
      .filter((row) => row.format === format)
      .map(({ model, cells }) => `| ${model} | ${cells.map((cell) => shown(cell, format)).join(" | ")} |`),
    "",
  ];
  const names = wishes.map(([name]) => name);
  const tables = [
    ...formatNames.flatMap((format) => table(format, formatTitles[format], names)),
    ...table("completions", "Legacy completions", ["plain", "stream"]),
  ];
  return [
    "# What goes where",
    "",
    `By client format: what can be asked of the newest models of each line, as of ${factsAsOf}. ✓ alone goes in the client's own format, else the format is named`,
    "in which the upstream is asked; a number is the sentence that one gets. (may): the model can't be made to call, and is left to choose. –: it can't do that,",
    "by its facts. A model that came later is asked as the newest of its line",
    "([providers](providers.md#configuration)). This page is made by a test, which plays each cell against an upstream that refuses what the real one is",
    "documented to refuse.",
    "",
    ...tables,
    "## Refused",
    "",
    ...(refusals.length === 0 ? ["Nothing."] : refusals.map((text, at) => `${at + 1}. ${text}`)),
    "",
  ].join("\n");
}

if (import.meta.main) writeFileSync(matrixPath, renderMatrix(await playMatrix()));
