/** Members that others name like members of every object: all reach their end, through the program as it is started, and none acts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];
const members = (value: string) => names.map((name) => `"${name}":${value}`).join(",");
const parameters = `{"type":"object","properties":{${members('{"type":"string"}')}},"required":${JSON.stringify(names)}}`;
const input = `{${members("1")}}`;
const written = JSON.stringify(input);
const fields = members('{"temperature":1,"choices":[]}');
const call = `"tool_calls":[{"id":"constructor","type":"function","function":{"name":"f","arguments":${written}}}]`;

const json = (text: string) => new Response(text, { headers: { "content-type": "application/json" } });
const chat = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi",${call},${fields}},"finish_reason":"tool_calls",${fields}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},${fields}}`;
const chunk = (delta: string, finish: string) =>
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{${delta},${fields}},"finish_reason":${finish}}],${fields}}\n\n`;
const stream = [
  chunk('"role":"assistant","content":"a"', "null"),
  chunk('"content":"b"', "null"),
  chunk(`"content":"c"`, '"stop"'),
  "data: [DONE]\n\n",
];
const message = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"toString","name":"f","input":${input}}],"stop_reason":"constructor","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`;
const generated = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":${input}}}]},"finishReason":"constructor"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`;

const answers: readonly [string, (asked: string) => Response][] = [
  ["/chat/completions", (asked) => (asked.includes('"stream":true') ? sseResponse(stream) : json(chat))],
  ["/messages", () => json(message)],
  ["generateContent", () => json(generated)],
];

describe("members named like those of every object", () => {
  let upstream: UpstreamServer;
  let folder: TempFolder;
  let troupe: TroupeProcess;
  beforeAll(async () => {
    upstream = new UpstreamServer(({ path, text }) => answers.find(([end]) => path.includes(end))![1](text));
    folder = new TempFolder();
    const { url } = upstream;
    const env = { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: url, GEMINI_API_KEY: "k", GEMINI_BASE_URL: url };
    troupe = await TroupeProcess.start(folder.path, url, { env });
  });
  afterAll(async () => {
    await troupe[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
    folder[Symbol.dispose]();
  });

  /** @returns what reached the upstream, and what came back */
  async function ask(path: string, body: string): Promise<{ up: string; down: string }> {
    const answer = await fetch(`${troupe.url}/gateway${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${troupe.key}`, "content-type": "application/json" },
      body,
    });
    const down = await answer.text();
    expect(`${answer.status} ${down.slice(0, 300)}`).toStartWith("200 ");
    return { up: upstream.last.text, down };
  }
  const asChat = (model: string, more: string) =>
    `{"model":"${model}","messages":[{"role":"user","content":"hi"},{"role":"assistant",${call}},{"role":"tool","tool_call_id":"constructor","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":${parameters}}}]${more}}`;

  test("in a chat: body, extra_body, schemas and both answers", async () => {
    for (const more of [`,${fields}`, `,"extra_body":{${fields}}`]) {
      const { up, down } = await ask("/v1/chat/completions", asChat("openai/m", more));
      for (const part of [parameters, fields, written]) expect(up).toContain(part);
      expect((JSON.parse(up) as { temperature?: number }).temperature).toBeUndefined();
      expect(down.split(fields)).toHaveLength(4);
      expect(down).toContain(written);
    }
    const { down } = await ask("/v1/chat/completions", asChat("openai/m", ',"stream":true'));
    // In the delta of each of the three chunks, and once beside choices.
    for (const text of ["a", "b", "c"]) expect(down).toContain(`${fields},"content":"${text}"`);
    expect(down.split(fields).length).toBeGreaterThan(4);
  });

  test.each([
    ["openai/m", "/v1/messages"],
    ["google/m", "/v1/chat/completions"],
    ["anthropic/m", "/v1/chat/completions"],
    ["openai/m", "/v1beta/models/openai/m:generateContent"],
  ])("in what is translated between %s and %s", async (model, path) => {
    const bodies: readonly [string, string][] = [
      ["/chat/completions", asChat(model, "")],
      [
        "/messages",
        `{"model":"${model}","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"constructor","name":"f","input":${input}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"constructor","content":"x"}]}],"tools":[{"name":"f","input_schema":${parameters}}]}`,
      ],
      [
        "generateContent",
        `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":${input}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":${input}}}]}],"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":${parameters}}]}]}`,
      ],
    ];
    const { up, down } = await ask(path, bodies.find(([end]) => path.includes(end))![1]);
    expect(up).toContain(parameters);
    expect(up.includes(input) || up.includes(written)).toBe(true);
    expect(down.includes(input) || down.includes(written)).toBe(true);
  });
});
