/**
 * Whether promptfoo itself comes to the same verdicts by the same file, unchanged. It takes more than a gigabyte, so it is no dependency:
 * TROUPE_TEST_PROMPTFOO holds its command, such as `node …/promptfoo/dist/src/entrypoint.js`.
 */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Console } from "../../cli/console.ts";
import { completionOf } from "../../helpers/chat-upstream.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";

const command = process.env["TROUPE_TEST_PROMPTFOO"]?.split(" ") ?? [];
const timeoutMs = 120_000;

const tool = {
  type: "function",
  function: {
    name: "track",
    description: "Finds a parcel.",
    parameters: { type: "object", required: ["id"], properties: { id: { type: "integer" } } },
  },
};

const persona = `description: Support.
model: openai/gpt-5.4
system: Help in {{language}}.
variables: {language: {default: English}}
`;

const fileFor = (url: string) => `
description: All that both know
prompts: ["{{question}}"]
providers:
  - id: openai:chat:acme/support
    config:
      apiBaseUrl: ${url}/v1
      apiKeyEnvar: TROUPE_KEY
      tools: [${JSON.stringify(tool)}]
defaultTest:
  options:
    provider: {id: "openai:chat:openai/gpt-5.4-mini", config: {apiBaseUrl: "${url}/gateway/v1", apiKeyEnvar: TROUPE_KEY}}
tests:
  - description: texts
    vars: {question: where is my parcel?, word: PARCEL}
    options: {passthrough: {variables: {language: German}}}
    assert:
      - {type: equals, value: "WHERE IS MY {{word}}?"}
      - {type: contains, value: PARCEL}
      - {type: not-contains, value: parcel}
      - {type: icontains, value: parcel}
      - {type: contains-all, value: [WHERE, "{{word}}"]}
      - {type: not-contains-all, value: [WHERE, never]}
      - {type: contains-any, value: [never, PARCEL]}
      - {type: icontains-all, value: [where, parcel]}
      - {type: icontains-any, value: [never, parcel]}
      - {type: starts-with, value: WHERE}
      - {type: not-starts-with, value: PARCEL}
      - {type: regex, value: "PARCEL.$"}
      - {type: not-regex, value: "^PARCEL"}
      - {type: finish-reason, value: stop}
      - {type: not-finish-reason, value: length}
      - {type: latency, threshold: 20000}
  - description: lists
    vars: {question: [one, two]}
    assert: [{type: equals, value: ONE}]
  - description: json
    vars: {question: json please}
    assert:
      - {type: is-json, value: {type: object, required: [lat], properties: {lat: {type: number, maximum: 90}}}}
      - {type: not-is-json, value: {type: object, required: [lon]}}
      - {type: contains-json}
      - {type: equals, value: {lat: 48}}
  - description: texts and schemas as texts
    vars: {question: json please, word: "la{{part}}", part: t, nil: null}
    assert:
      - {type: contains-all, value: '"lat", {{word}}'}
      - {type: not-contains-any, value: 'lon, "x, y"'}
      - {type: is-json, value: "type: object"}
      - {type: is-json, value: {type: object, properties: {lat: {type: number, nullable: true}}}}
      - {type: contains-json, value: '{"required": ["lat"]}'}
      - {type: not-equals, value: "{{nil}}{# hidden #}"}
      - {type: regex, value: "{{- word -}}"}
  - description: braces and backslashes
    vars: {question: 'c:\\{{dir}} {"a": {{dir}}}', dir: x}
    assert: [{type: equals, value: 'C:\\X {"A": X}'}, {type: not-contains, value: '\\{{dir}}'}]
  - description: wrong json
    vars: {question: json please}
    assert: [{type: contains-json, value: {type: object, properties: {lat: {type: string}}}}]
  - description: calls
    vars: {question: track it}
    options: {passthrough: {tools: [${JSON.stringify(tool)}]}}
    assert:
      - {type: is-valid-openai-tools-call}
      - {type: tool-call-f1, value: [track]}
      - {type: not-tool-call-f1, value: [other]}
      - {type: contains, value: '"name":"track"'}
      - {type: finish-reason, value: tool_calls}
  - description: wrong calls
    vars: {question: track wrongly}
    options: {passthrough: {tools: [${JSON.stringify(tool)}]}}
    assert: [{type: is-valid-openai-tools-call}]
  - description: weights
    threshold: 0.5
    vars: {question: hello}
    assert: [{type: equals, value: bye}, {type: contains, value: HELLO, weight: 2}, {type: equals, value: no, weight: 0}]
  - description: weights that do not hold
    threshold: 0.7
    vars: {question: hello}
    assert: [{type: equals, value: bye}, {type: contains, value: HELLO, weight: 2}]
  - description: a set
    vars: {question: hello}
    assert:
      - {type: assert-set, threshold: 0.5, assert: [{type: equals, value: bye}, {type: contains, value: HELLO}]}
  - description: a set that fails
    vars: {question: hello}
    assert: [{type: assert-set, assert: [{type: equals, value: bye}, {type: contains, value: HELLO}]}]
  - description: kind
    vars: {question: please}
    assert: [{type: llm-rubric, value: Is kind, threshold: 0.5}]
  - description: curt
    vars: {question: now}
    assert: [{type: llm-rubric, value: Is kind}]
  - description: not curt
    vars: {question: now}
    assert: [{type: not-llm-rubric, value: Is kind}]
  - description: no grader
    vars: {question: grader off}
    assert: [{type: llm-rubric, value: Is kind}]
  - description: down
    vars: {question: down}
`;

function answer(text: string): Response {
  if (text.includes("Is kind")) {
    if (text.includes("GRADER OFF")) return jsonResponse({ error: { message: "no graders today" } }, 400);
    const pass = text.includes("PLEASE");
    return jsonResponse(completionOf({ content: JSON.stringify({ pass, score: pass ? 0.9 : 0.1, reason: "so" }) }));
  }
  if (text === "down") return jsonResponse({ error: { message: "gone fishing" } }, 400);
  if (text === "json please") return jsonResponse(completionOf({ content: '{"lat": 48}' }));
  if (text.startsWith("track")) {
    const args = text === "track it" ? '{"id": 4711}' : '{"id": "4711"}';
    const call = { id: "call_1", type: "function", function: { name: "track", arguments: args } };
    return jsonResponse(completionOf({ content: null, tool_calls: [call] }, "tool_calls"));
  }
  return jsonResponse(completionOf({ content: text.toUpperCase() }));
}

type Outcome = {
  readonly testCase: { description: string };
  vars: { question: string };
  success: boolean;
  failureReason: number;
};

/** promptfoo's reasons: 0 none, 1 an assertion, 2 an error. */
const verdicts = ["pass", "fail", "error"];

test.skipIf(command.length === 0)(
  "promptfoo comes to the same verdicts by the same file (TROUPE_TEST_PROMPTFOO names it)",
  async () => {
    using folder = new TempFolder();
    using upstream = new UpstreamServer(({ json }) => {
      const { messages } = json as { messages: { content: string }[] };
      return answer(messages.at(-1)!.content);
    });
    mkdirSync(folder.file("personas/acme"), { recursive: true });
    writeFileSync(folder.file("personas/acme/support.yaml"), persona);
    await using troupe = await Troupe.start({
      personas: folder.file("personas"),
      providers: { openai: { baseUrl: upstream.url } },
    });
    await troupe.server.services.loading;
    const file = folder.file("personas/acme/support.test.yaml");
    // promptfoo checks calls by the tools of its provider's configuration, and Troupe by those of the request.
    writeFileSync(file, fileFor(troupe.url));
    const shell = new Console(folder.path, { TROUPE_KEY: troupe.key });
    const { out } = await shell.run(`personas test --url ${troupe.url} --json`);
    const own = JSON.parse(out) as { sides: [{ tests: { test: string; verdict: string }[] }] };
    const ran = Bun.spawn(
      [...command, "eval", "-c", file, "--no-cache", "--no-progress-bar", "-o", folder.file("out.json")],
      {
        cwd: folder.path,
        env: {
          ...process.env,
          TROUPE_KEY: troupe.key,
          PROMPTFOO_CONFIG_DIR: folder.file("state"),
          PROMPTFOO_DISABLE_TELEMETRY: "1",
          PROMPTFOO_DISABLE_UPDATE: "1",
          PROMPTFOO_DISABLE_REMOTE_GENERATION: "1",
        },
        stdout: "ignore",
        stderr: "inherit",
      },
    );
    await ran.exited;
    const { results } = JSON.parse(readFileSync(folder.file("out.json"), "utf8")) as {
      results: { results: Outcome[] };
    };
    const theirs = results.results.map(({ testCase, failureReason }) => [
      testCase.description,
      verdicts[failureReason],
    ]);
    const ours = own.sides[0].tests.map(({ test, verdict }) => [test.replace(/ \(question=.*\)$/, ""), verdict]);
    // A grader that is down is a failed test there, and none here.
    expect(ours.find(([name]) => name === "no grader")).toEqual(["no grader", "error"]);
    const judged = (all: unknown[][]) => all.filter(([name]) => name !== "no grader");
    expect(judged(ours)).toEqual(judged(theirs));
    expect(new Set(ours.map(([, verdict]) => verdict))).toEqual(new Set(verdicts));
  },
  timeoutMs,
);
