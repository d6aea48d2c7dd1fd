/** A real git repository with a folder of personas, whose tests are recorded by a stand-in of OpenAI. */
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { completionOf } from "../../../helpers/chat-upstream.ts";
import { TempFolder } from "../../../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../../../helpers/upstream-server.ts";
import { Console } from "../../console.ts";

type Body = { model: string; messages: { role: string; content: string }[] };

/** Answers with the last words of the system text and the question. */
function answer({ json }: RecordedRequest): Response {
  const { messages } = json as Body;
  const [system, question] = [messages[0]!.content, messages.at(-1)!.content];
  const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
  const content = `${system.trim().split(" ").at(-1)} ${question.split("\n").at(-1)}`;
  return jsonResponse(completionOf({ content }, "stop", usage));
}

const support = `# Who answers the shop's customers.
description: Support.
model: [openai/gpt-5.4-mini, anthropic/claude-haiku-4-5]
system: |
  Answer questions about {{product}}.
  Be polite.
variables: {product: {default: kettles}}
mcp: [{server: orders, allow: [find_*], arguments: {shop: 7}, optional: true}]
limits: {max_tokens: 400}
`;
const supportTests = `prompts: "{{question}}"
tests:
  - description: greets
    vars: {question: hello}
    assert: [{type: contains, value: polite}]
  - description: names the product
    vars: {question: what is it, product: pots}
    assert: [{type: contains, value: what is it}]
`;
const clerk = `description: Clerk.
model: openai/gpt-5.4-mini
system: Answer from the files.
knowledge: [handbook/*.md]
`;
const writer = (name: string) => `description: Writer ${name}.
model: openai/gpt-5.4-mini
system: |
  You write ${name}.
  {{> ../_shared/tone}}
`;
export const names = ["ads", "blogs", "cards", "docs", "essays", "faqs", "guides", "hints", "ideas"];

const files: Readonly<Record<string, string>> = {
  "personas/acme/support.yaml": support,
  "personas/acme/support.test.yaml": supportTests,
  "personas/acme/clerk.yaml": clerk,
  "personas/acme/handbook/refunds.md": "# Refunds\n\nA refund takes 14 days.\n",
  "personas/acme/handbook/hours.md": "# Hours\n\nWe are open from nine to five.\n",
  "personas/_shared/tone.md": "Write short sentences.\n",
  ...Object.fromEntries(names.map((name) => [`personas/team/${name}.yaml`, writer(name)])),
};

export class Repository implements Disposable {
  readonly #folder = new TempFolder();
  readonly path: string;
  readonly shell: Console;
  readonly #upstream: UpstreamServer | undefined;

  private constructor(from: string | undefined, upstream?: UpstreamServer) {
    this.path = this.#folder.file("checkout");
    this.#upstream = upstream;
    if (from === undefined) mkdirSync(this.path);
    else cpSync(from, this.path, { recursive: true });
    this.shell = new Console(this.path);
  }

  /** One commit on `main`, with its recordings. */
  static async begin(more: Readonly<Record<string, string>> = {}): Promise<Repository> {
    const upstream = new UpstreamServer(answer);
    const made = new Repository(undefined, upstream);
    made.git("init", "-q", "-b", "main");
    // Only the address is the stand-in's: a checkout elsewhere asks nobody.
    const servers = "mcp_servers: {orders: {url: http://127.0.0.1:9/mcp}}\n";
    made.write("troupe.yaml", servers);
    for (const [file, text] of Object.entries({ ...files, ...more })) made.write(file, text);
    made.write(
      "recording.yaml",
      `${servers}providers: {openai: {base_url: ${upstream.url}, api_key: sk-0123456789}}\n`,
    );
    made.write(".gitignore", "recording.yaml\ndata\n");
    await made.record();
    made.commit("begin");
    return made;
  }

  copy(): Repository {
    return new Repository(this.path);
  }

  async record(): Promise<void> {
    const { code, err } = await this.shell.run("--config recording.yaml personas test --record --yes");
    if (code === 2) throw new Error(err);
  }

  git(...parts: string[]): string {
    const who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"];
    const { success, stdout, stderr } = Bun.spawnSync(["git", ...who, "-C", this.path, ...parts]);
    if (!success) throw new Error(`git ${parts.join(" ")}: ${stderr}`);
    return stdout.toString().trim();
  }

  commit(subject: string): void {
    this.git("add", "-A");
    this.git("commit", "-q", "--allow-empty", "-m", subject);
  }

  branch(name: string): void {
    this.git("checkout", "-q", "-b", name);
  }

  write(file: string, text: string): void {
    const path = `${this.path}/${file}`;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }

  read(file: string): string {
    return readFileSync(`${this.path}/${file}`, "utf8");
  }

  /** @throws where the text is not there */
  replace(file: string, from: string, to: string): void {
    const text = this.read(file);
    if (!text.includes(from)) throw new Error(`${file} has no '${from}'`);
    this.write(file, text.replace(from, to));
  }

  move(from: string, to: string): void {
    mkdirSync(dirname(`${this.path}/${to}`), { recursive: true });
    renameSync(`${this.path}/${from}`, `${this.path}/${to}`);
  }

  remove(file: string): void {
    rmSync(`${this.path}/${file}`, { recursive: true });
  }

  [Symbol.dispose](): void {
    this.#upstream?.[Symbol.dispose]();
    this.#folder[Symbol.dispose]();
  }
}
