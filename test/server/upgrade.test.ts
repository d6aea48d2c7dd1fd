import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { canShare } from "../../src/lib/linux/reuse-port.ts";
import { testExecutable } from "../helpers/executable.ts";
import { freePort } from "../helpers/free-port.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

/** `troupe serve` in a process of its own, with the new processes of its upgrades. */
const executable = await testExecutable();

class Program implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"ignore", "ignore", "pipe">;
  readonly url: string;
  readonly #folder: TempFolder;
  readonly newProcesses: number[] = [];
  #log = "";
  #wake = () => {};

  private constructor(folder: TempFolder, port: number) {
    this.#folder = folder;
    this.url = `http://127.0.0.1:${port}`;
    this.#process = Bun.spawn([executable, "serve", "--port", String(port)], {
      cwd: folder.path,
      stdio: ["ignore", "ignore", "pipe"],
    });
    void this.#read();
  }

  static async start(folder: TempFolder): Promise<Program> {
    const program = new Program(folder, freePort());
    await program.said(/"message":"listening"/);
    return program;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const part of this.#process.stderr) {
      this.#log += decoder.decode(part, { stream: true });
      this.#wake();
    }
  }

  async said(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.#log);
      if (found !== null) return found;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  /** @returns the id of the process that serves now */
  get serving(): number {
    return this.newProcesses.at(-1) ?? this.#process.pid;
  }

  async upgrade(): Promise<void> {
    process.kill(this.serving, "SIGUSR2");
    const [, id] = await this.said(/"upgrade: handing off[^}]*"process":(\d+)/);
    this.#log = "";
    this.newProcesses.push(Number(id));
  }

  get key(): string {
    return readFileSync(this.#folder.file("data/first-key"), "utf8").trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const id of [...this.newProcesses, this.#process.pid]) {
      try {
        process.kill(id, "SIGTERM");
      } catch {
        // It has ended.
      }
    }
    await this.#process.exited;
  }
}

function echo(program: Program, agent: Agent): Promise<string> {
  const body = JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "hi" }] });
  const headers = {
    authorization: `Bearer ${program.key}`,
    "content-type": "application/json",
    "content-length": body.length,
  };
  return new Promise((resolve, reject) => {
    const sending = request(
      `${program.url}/gateway/v1/chat/completions`,
      { method: "POST", agent, headers },
      (answer) => {
        let text = "";
        answer.on("data", (part) => {
          text += part;
        });
        answer.on("end", () => resolve(`${answer.statusCode} ${text}`));
        answer.on("error", reject);
      },
    );
    sending.on("error", reject);
    sending.end(body);
  });
}

describe.skipIf(!canShare())("an upgrade in place", () => {
  test("hands off under load without losing a request, twice", async () => {
    using folder = new TempFolder();
    // The key's plan has a limit on the orchestrator only; the gateway has none.
    await using program = await Program.start(folder);
    const agents = [new Agent({ keepAlive: true }), new Agent({ keepAlive: false })];
    const outcomes = { answered: 0, faults: [] as unknown[] };
    let over = false;
    const client = async (agent: Agent) => {
      while (!over) {
        const text = await echo(program, agent).catch(String);
        if (text.startsWith("200 ")) outcomes.answered += 1;
        else outcomes.faults.push(text);
      }
    };
    const clients = agents.flatMap((agent) => Array.from({ length: 4 }, () => client(agent)));
    const answered = async (more: number) => {
      const goal = outcomes.answered + more;
      while (outcomes.answered < goal && outcomes.faults.length === 0)
        await new Promise((resolve) => setImmediate(resolve));
    };
    await answered(100);
    for (let time = 0; time < 2; time += 1) {
      await program.upgrade();
      await answered(200);
    }
    over = true;
    await Promise.all(clients);
    for (const agent of agents) agent.destroy();
    expect(outcomes.faults).toEqual([]);
    expect(program.newProcesses).toHaveLength(2);
    // The newest answers alone: the others were only to finish what they had.
    process.kill(program.serving, "SIGTERM");
    await program.said(/"message":"stopped"/);
  });

  test("that can't start leaves the one that serves in its place", async () => {
    using folder = new TempFolder();
    await using program = await Program.start(folder);
    writeFileSync(folder.file("troupe.yaml"), "limits: {json_depth: none}\n");
    process.kill(program.serving, "SIGUSR2");
    await program.said(/upgrade: the new process exited before the handoff; this process goes on","code":1/);
    expect(await echo(program, new Agent())).toStartWith("200 ");
  });
});
