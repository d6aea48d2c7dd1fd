/** Python's clients as they are published, on a persona and on a model of every family: loops of tools, streams, helpers, errors. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { longTest } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { jsonResponse, type RecordedRequest } from "../helpers/upstream-server.ts";
import type { AgentFamilyName, AgentRequest, Turn } from "../helpers/upstreams/agent.ts";
import { base64Of } from "../helpers/upstreams/operations.ts";
import { clientSeconds, runClient } from "./client-process.ts";
import { describePython } from "./describe-client.ts";
import { type PythonPackage, python } from "./installed.ts";
import { familyNames, models, persona, Stage } from "./stage.ts";

const said = "sunny-in-Oslo";

/**
 * A call of the tool, then what it said; an object of JSON where there is no tool. Anthropic's own client has Anthropic keep the
 * conversation: then the tools stand in the first request alone.
 */
function forecasting({ tools, results }: AgentRequest): Turn {
  const [tool] = tools;
  if (results.length > 0) return { text: `It is ${results.at(-1)!.text.includes(said) ? said : "unclear"}.` };
  if (tool === undefined) return { text: '{"city":"Oslo"}' };
  return { calls: [{ id: "toolu_w1", name: tool.name, args: { city: "Oslo" } }] };
}

const vectorOf = (text: string) => [text.length, -0.5];

/** Counters and embeddings. */
function others({ path, json }: RecordedRequest): Response {
  const body = json as {
    input: string[];
    encoding_format?: string;
    requests: { content: { parts: { text: string }[] } }[];
  };
  if (path.endsWith("count_tokens")) return jsonResponse({ input_tokens: 7 });
  if (path.includes(":countTokens")) return jsonResponse({ totalTokens: 7 });
  if (path.endsWith("/embeddings")) {
    const data = body.input.map((text, index) => {
      const embedding = body.encoding_format === "base64" ? base64Of(vectorOf(text)) : vectorOf(text);
      return { object: "embedding", index, embedding };
    });
    return jsonResponse({ object: "list", data, model: "e", usage: { prompt_tokens: 2, total_tokens: 2 } });
  }
  if (path.includes(":batchEmbedContents")) {
    return jsonResponse({
      embeddings: body.requests.map(({ content }) => ({ values: vectorOf(content.parts[0]!.text) })),
    });
  }
  return jsonResponse({ error: { message: `no such route: ${path}` } }, 404);
}

const stage = untilEnd(await Stage.start());
stage.script = forecasting;
stage.others = others;

type Client = {
  readonly name: PythonPackage;
  readonly title: string;
  readonly script: string;
  readonly native: AgentFamilyName | undefined;
  /** Before the address. */
  readonly arguments?: readonly string[];
  /** Whether its address ends before the version. */
  readonly bare?: boolean;
};
const clients: readonly Client[] = [
  { name: "openai", title: "openai", script: "openai_sdk.py", native: "responses" },
  { name: "anthropic", title: "anthropic", script: "anthropic_sdk.py", native: "anthropic", bare: true },
  { name: "google.genai", title: "google-genai", script: "google_sdk.py", native: "google", bare: true },
  { name: "agents", title: "openai-agents", script: "agents_sdk.py", native: "responses" },
  { name: "langchain_openai", title: "by chat", script: "langchain_sdk.py", native: undefined, arguments: ["chat"] },
  {
    name: "langchain_openai",
    title: "by Responses",
    script: "langchain_sdk.py",
    native: "responses",
    arguments: ["responses"],
  },
  {
    name: "langchain_anthropic",
    title: "by Messages",
    script: "langchain_sdk.py",
    native: "anthropic",
    arguments: ["messages"],
    bare: true,
  },
];

/** Whose streams are broken, and the family whose upstream takes their requests as they come. */
const streaming: readonly (readonly [PythonPackage, AgentFamilyName | undefined])[] = [
  ["openai", "responses"],
  ["together", undefined],
  ["anthropic", "anthropic"],
  ["google.genai", "google"],
  ["agents", "responses"],
  ["langchain_openai", "responses"],
  ["langchain_anthropic", "anthropic"],
  ["pydantic_ai", "responses"],
  ["haystack", "responses"],
  ["llama_index", "responses"],
  ["litellm", undefined],
];

for (const [name, native] of streaming) {
  describePython(name, () => {
    longTest(
      "raises its own error for a stream that breaks, before its first words, behind them, and by an error",
      async () => {
        stage.native = native;
        stage.script = () => ({ text: "Hello there" });
        try {
          stage.troupe.setTargets(persona, [models.google]);
          const pairs = familyNames.flatMap((family) => [`${stage.troupe.url}/gateway`, models[family]]);
          const command = [python!, join(import.meta.dir, "python", "broken_streams.py"), name];
          const env = { TROUPE_KEY: stage.troupe.key, LANGSMITH_TRACING: "false" };
          expect(await runClient({ command: [...command, stage.troupe.url, persona, ...pairs], env })).toEndWith(
            "ok\n",
          );
        } finally {
          stage.script = forecasting;
        }
      },
      clientSeconds * 1000,
    );
  });
}

for (const { name, title, script, native, arguments: before = [], bare } of clients) {
  describePython(name, () => {
    test(
      title,
      async () => {
        stage.native = native;
        stage.asked = [];
        stage.troupe.setTargets(persona, [models.google]);
        const root = (surface: string) => `${stage.troupe.url}${surface}${bare ? "" : "/v1"}`;
        // One process for all, as these take seconds to start.
        const pairs = familyNames.flatMap((family) => [root("/gateway"), models[family]]);
        const command = [python!, join(import.meta.dir, "python", script), ...before, root(""), persona, ...pairs];
        const output = await runClient({
          command,
          env: { TROUPE_KEY: stage.troupe.key, LANGSMITH_TRACING: "false" },
        });
        expect(output.trim().split("\n")).toHaveLength(5);
        const expected = native === "responses" ? familyNames : familyNames.filter((family) => family !== "responses");
        expect([...new Set(stage.asked.map(({ family }) => family))].toSorted()).toEqual(expected.toSorted());
      },
      clientSeconds * 1000,
    );
  });
}
