/** A folder with a persona, its tests and a stand-in of its provider. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { completionOf } from "../../helpers/chat-upstream.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

export type Body = { model: string; messages: { role: string; content: string }[] };

export const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
export const keyOfProvider = "sk-stand-in-0123456789";
const lastOf = ({ json }: RecordedRequest) => (json as Body).messages.at(-1)!.content;

/** Answers with the question in capitals, grades what is polite, and fails on request. */
export function answer(request: RecordedRequest): Response {
  const text = lastOf(request);
  const { model } = request.json as Body;
  if (text.includes("<rubric>")) {
    if (text.includes("GRADER OFF")) return jsonResponse({ error: { message: "no graders today" } }, 500);
    const pass = text.includes("PLEASE");
    const grade = { pass, score: pass ? 0.9 : 0.1, reason: pass ? "it is polite" : "it is curt" };
    return jsonResponse(completionOf({ content: JSON.stringify(grade) }, "stop", usage));
  }
  if (text.includes("down")) return jsonResponse({ error: { message: "gone fishing" } }, 400);
  if (text.includes("leak")) return jsonResponse(completionOf({ content: `my key is ${keyOfProvider}` }));
  return jsonResponse(completionOf({ content: `${text.toUpperCase()} by ${model}` }, "stop", usage));
}

export const persona = `description: Support.
model: openai/gpt-5.4
system: Help in {{language}}.
variables: {language: {default: English}}
defaults: {max_tokens: 200}
`;

export class Workplace implements Disposable {
  readonly folder = new TempFolder();
  readonly upstream: UpstreamServer;
  readonly shell: Console;

  constructor(files: Record<string, string>, handler = answer) {
    this.upstream = new UpstreamServer(handler);
    const config = `providers: {openai: {base_url: ${this.upstream.url}, api_key: ${keyOfProvider}}}\n`;
    this.write("troupe.yaml", config);
    for (const [name, text] of Object.entries({ "personas/acme/support.yaml": persona, ...files }))
      this.write(name, text);
    this.shell = new Console(this.folder.path);
  }

  write(name: string, text: string): void {
    mkdirSync(join(this.folder.path, name, ".."), { recursive: true });
    writeFileSync(this.folder.file(name), text);
  }

  read(name: string): string {
    return readFileSync(this.folder.file(name), "utf8");
  }

  [Symbol.dispose](): void {
    this.upstream[Symbol.dispose]();
    this.folder[Symbol.dispose]();
  }
}

export const testFile = "personas/acme/support.test.yaml";
export const recorded = "personas/acme/support.test.recorded.yaml";
export const tests = `prompts: "{{question}}"
tests:
  - description: names the parcel
    vars: {question: where is my parcel?, language: German}
    assert:
      - {type: contains, value: PARCEL}
      - {type: cost, threshold: 0.01}
  - description: is polite
    vars: {question: please help}
    assert:
      - {type: llm-rubric, value: "Is polite", provider: "openai:chat:gpt-5.4-mini", threshold: 0.5}
`;
