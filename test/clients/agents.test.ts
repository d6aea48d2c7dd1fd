/**
 * Coding agents as their users start them, set up as docs/clients.md says: through a loop of tools, on a model of every family
 * and on a persona. The upstreams refuse what the real ones refuse.
 */
import { expect, test } from "bun:test";
import { pageBlock } from "../helpers/page-blocks.ts";
import { untilEnd } from "../helpers/served.ts";
import type { AgentFamilyName } from "../helpers/upstreams/agent.ts";
import { seals } from "../helpers/upstreams/agent.ts";
import { type ClientRun, clientSeconds, runClient } from "./client-process.ts";
import { describeProgram } from "./describe-client.ts";
import type { Program } from "./installed.ts";
import { files, final, prompt, readingFiles } from "./script.ts";
import { familyNames, models, persona, Stage } from "./stage.ts";

type Agent = {
  readonly program: Program;
  /** The family whose format it speaks. */
  readonly format: AgentFamilyName;
  /** The families it is tried on; fewer for a slow one. */
  readonly families: readonly AgentFamilyName[];
  /** @param given the page's block, with this server's address and model in the place of its own */
  run(given: { block: Blocks; model: string }): ClientRun;
};

/** The variables that a block of shell exports. */
function exported(block: string, key: string): Record<string, string> {
  const words = [...block.matchAll(/^export (.*)$/gm)].flatMap(([, line]) => line!.split(" "));
  return Object.fromEntries(words.map((word) => word.replace("$TROUPE_KEY", key).split(/=(.*)/s) as [string, string]));
}

const pagesModel = "groq/openai/gpt-oss-120b";

const agents: readonly Agent[] = [
  {
    program: "codex",
    format: "responses",
    families: familyNames,
    run: ({ block }) => ({
      command: ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt],
      files: { ".codex/config.toml": block("Codex", "toml") },
    }),
  },
  {
    program: "claude",
    format: "anthropic",
    families: familyNames,
    run: ({ block, model }) => ({
      command: ["claude", "-p", prompt, "--model", model, "--allowedTools", "Bash"],
      env: { ...exported(block("Claude Code", "sh"), key()), CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    }),
  },
  {
    program: "gemini",
    format: "google",
    families: ["google", "chat"],
    run: ({ block, model }) => ({
      command: ["gemini", "--yolo", "--skip-trust", "--model", model, "--prompt", prompt],
      env: exported(block("Gemini CLI", "sh"), key()),
      files: { ".gemini/settings.json": block("Gemini CLI", "json") },
    }),
  },
  {
    program: "opencode",
    format: "chat",
    families: ["chat", "anthropic"],
    run: ({ block, model }) => ({
      command: ["opencode", "run", "-m", `troupe/${model}`, prompt],
      files: { ".config/opencode/opencode.json": block("opencode", "json") },
      env: { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" },
    }),
  },
];

/** How the page's blocks come to speak of this server. */
type Blocks = (section: string, language: string) => string;

const stage = untilEnd(await Stage.start());
const key = () => stage.troupe.key;

type Surface = "gateway" | "orchestrator";
const blocksFor =
  (surface: Surface, model: string): Blocks =>
  (section, language) => {
    const text = pageBlock("docs/clients.md", section, language).replaceAll(pagesModel, model);
    const here = surface === "gateway" ? text : text.replaceAll("8080/gateway", "8080");
    return here.replaceAll("http://127.0.0.1:8080", stage.troupe.url);
  };

async function converse({ format, run }: Agent, surface: Surface, model: string): Promise<string> {
  const block = blocksFor(surface, model);
  stage.script = readingFiles;
  stage.native = format === "chat" ? undefined : format;
  stage.asked = [];
  const given = run({ block, model });
  return runClient({ ...given, env: { TROUPE_KEY: key(), ...given.env }, files: { ...given.files, ...files } });
}

/** Both results came back, each to its call. */
function expectResults(family: AgentFamilyName): void {
  const loops = stage.asked.filter(({ request }) => request.tools.length > 0);
  expect(loops.map((one) => one.family)).toEqual([family, family]);
  const { results } = loops[1]!.request;
  // Some run their tools side by side and send the results as they come.
  const [first, second] = results.toSorted((one, other) => one.id!.localeCompare(other.id!));
  expect(results).toHaveLength(2);
  expect(first).toMatchObject({ id: "toolu_w1", text: expect.stringContaining(files["one.txt"]) });
  expect(second).toMatchObject({ id: "toolu_w2", text: expect.stringContaining(files["two.txt"]) });
}

for (const agent of agents) {
  describeProgram(agent.program, () => {
    test.each(agent.families)(
      "on a model that speaks %s",
      async (family) => {
        expect(await converse(agent, "gateway", models[family])).toContain(final);
        expectResults(family);
      },
      clientSeconds * 1000,
    );

    test(
      "on a persona",
      async () => {
        stage.troupe.setTargets(persona, [models.anthropic]);
        expect(await converse(agent, "orchestrator", persona)).toContain(final);
        expectResults("anthropic");
        expect(stage.last.text).toContain("tutor");
      },
      clientSeconds * 1000,
    );
  });
}

describeProgram("codex", () => {
  test.each(["anthropic", "google"] as const)(
    "brings the seals of %s back",
    async (family) => {
      await converse(agents[0]!, "gateway", models[family]);
      expect(stage.asked.at(-1)!.request.seals).toEqual([seals[family]]);
    },
    clientSeconds * 1000,
  );

  test.each([
    ["gpt-6-sol", "gateway", "chat"],
    ["gpt-6-luna", "gateway", "anthropic"],
    ["gpt-5.6-sol", "gateway", "google"],
    ["gpt-5.6-luna", "orchestrator", "anthropic"],
  ] as const)(
    "by the name %s, for which it sends its tools within the input, on the %s",
    async (name, surface, family) => {
      stage.troupe.setTargets(persona, [models.anthropic]);
      expect(await converse(agents[0]!, surface, name)).toContain(final);
      expectResults(family);
      expect(stage.asked[0]!.request.tools.map((tool) => tool.name)).toContain("functions__exec");
    },
    clientSeconds * 1000,
  );
});

describeProgram("codex", () => {
  /** The page's settings, with a WebSocket. */
  const overSocket: Agent = {
    ...agents[0]!,
    run(place) {
      const { command, files: given } = agents[0]!.run(place);
      const config = given![".codex/config.toml"]!.replace("wire_api =", "supports_websockets = true, wire_api =");
      return { command, files: { ".codex/config.toml": config } };
    },
  };

  /** Handshakes that were answered so, by the server's own metrics. */
  async function handshakes(status: number): Promise<number> {
    const metrics = await (await stage.troupe.fetch("/metrics")).text();
    const counted = metrics
      .split("\n")
      .filter((line) => line.startsWith("http_server_request_duration_seconds_count{"));
    const found = counted.filter((line) => line.includes('="GET"') && line.includes(`="${status}"`));
    return found.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  test.each(familyNames)(
    "over a WebSocket on a model that speaks %s",
    async (family) => {
      const before = await handshakes(101);
      expect(await converse(overSocket, "gateway", models[family])).toContain(final);
      expectResults(family);
      expect(await handshakes(101)).toBeGreaterThan(before);
    },
    clientSeconds * 1000,
  );

  test(
    "goes on by HTTP at once where there are no WebSockets",
    async () => {
      const { live } = stage.troupe.server.services;
      const { websockets } = live.config;
      stage.troupe.server.services.live = {
        ...live,
        config: { ...live.config, websockets: { ...websockets, enabled: false } },
      };
      try {
        const before = await handshakes(426);
        expect(await converse(overSocket, "gateway", models.chat)).toContain(final);
        expectResults("chat");
        expect(await handshakes(426)).toBe(before + 1);
      } finally {
        stage.troupe.server.services.live = live;
      }
    },
    clientSeconds * 1000,
  );
});

describeProgram("claude", () => {
  test(
    "brings Anthropic's thoughts back, where an alias names the model as Anthropic does",
    async () => {
      expect(await converse(agents[1]!, "gateway", "claude-sonnet-4-6")).toContain(final);
      expect(stage.asked.at(-1)!.request.seals).toEqual([seals.anthropic]);
    },
    clientSeconds * 1000,
  );
});

describeProgram("claude", () => {
  test(
    "asks a persona as a tool of /mcp",
    async () => {
      const name = "mcp__troupe__ask_troupe_tutor";
      stage.native = "anthropic";
      stage.troupe.setTargets(persona, [models.chat]);
      stage.script = ({ tools, results }) => {
        if (tools.length === 0) return { text: "cobalt-4711" };
        if (results.length > 0) return { text: `It says: ${results.map(({ text }) => text).join(" ")}` };
        if (!tools.some((tool) => tool.name === name)) return { text: "There is no such tool." };
        return { calls: [{ id: "toolu_w1", name, args: { message: "What is it?" } }] };
      };
      const server = { type: "http", url: `${stage.troupe.url}/mcp`, headers: { Authorization: `Bearer ${key()}` } };
      const output = await runClient({
        command: [
          ...["claude", "-p", "Ask the tutor.", "--model", models.anthropic],
          ...["--mcp-config", "mcp.json", "--strict-mcp-config", "--allowedTools", name],
        ],
        env: {
          ...exported(blocksFor("gateway", models.anthropic)("Claude Code", "sh"), key()),
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
          TROUPE_KEY: key(),
        },
        files: { "mcp.json": JSON.stringify({ mcpServers: { troupe: server } }) },
      });
      expect(output).toContain("cobalt-4711");
    },
    clientSeconds * 1000,
  );
});

/** Clients whose tools are none of a shell's. */
const others = [
  ["gateway", models.chat] as const,
  ["gateway", models.anthropic] as const,
  ["orchestrator", persona] as const,
];

describeProgram("llm", () => {
  test.each(others)(
    "on the %s, %s",
    async (surface, model) => {
      stage.native = undefined;
      stage.troupe.setTargets(persona, [models.google]);
      stage.script = ({ results: [result] }) =>
        result === undefined
          ? { calls: [{ id: "toolu_w1", name: "weather", args: { city: "Oslo" } }] }
          : { text: `It is ${result.text}` };
      const output = await runClient({
        command: ["llm", "-m", "troupe", "--key", key(), "--functions", "weather.py", "Oslo?"],
        env: { LLM_USER_PATH: "." },
        files: {
          "extra-openai-models.yaml": blocksFor(surface, model)("llm", "yaml"),
          "weather.py": "def weather(city: str) -> str:\n    return 'sunny-in-' + city\n",
        },
      });
      expect(output).toContain("sunny-in-Oslo");
    },
    clientSeconds * 1000,
  );
});

describeProgram("aider", () => {
  test.each(others)(
    "on the %s, %s",
    async (surface, model) => {
      stage.native = undefined;
      stage.troupe.setTargets(persona, [models.google]);
      stage.script = () => ({ text: "Here it is.\n\nhello.txt\n```\ncobalt-4711\n```\n" });
      const quiet = [
        "--yes-always",
        "--no-git",
        "--no-check-update",
        "--no-show-model-warnings",
        "--analytics-disable",
      ];
      const block = blocksFor(surface, model)("aider", "sh");
      const [, named] = /--model (\S+)/.exec(block)!;
      const output = await runClient({
        command: ["aider", "--model", named!, ...quiet, "--message", "Write it.", "hello.txt"],
        env: { ...exported(block, key()), LITELLM_LOCAL_MODEL_COST_MAP: "True" },
      });
      expect(output).toContain("Applied edit to hello.txt");
    },
    clientSeconds * 1000,
  );
});
