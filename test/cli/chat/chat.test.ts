import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

type Json = Record<string, unknown>;

const event = (value: Json) => `data: ${JSON.stringify({ id: "c1", ...value })}\n\n`;
const chunk = (delta: Json, finish: string | null = null) =>
  event({ choices: [{ index: 0, delta, finish_reason: finish }] });
// What the upstream counts no thread is started for.
const usage = event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 } });
const answering = (...deltas: Json[]) =>
  sseResponse([...deltas.map((delta) => chunk(delta)), chunk({}, "stop"), usage, "data: [DONE]\n\n"]);

/** A folder whose configuration has one provider. */
function withProvider(upstream: UpstreamServer): { folder: TempFolder; shell: Console } {
  const folder = new TempFolder();
  writeFileSync(
    folder.file("troupe.yaml"),
    `listen: ["127.0.0.1:0"]\nproviders: {openai: {base_url: "${upstream.url}", api_key: k}}\n`,
  );
  return { folder, shell: new Console(folder.path) };
}

describe("one question", () => {
  test("is answered by a persona of the executable, without a server, as plain text", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect(await shell.run("chat builtin/echo **Hello** there")).toEqual({
      code: 0,
      out: "**Hello** there\n",
      err: "",
    });
    const { code, out } = await shell.run("chat troupe/guide hello");
    expect([code, out]).toEqual([0, "Hello. What would you like to talk about?\n"]);
  });

  test("is what the standard input holds, with the words as the instruction", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    shell.input = "Line 1\nLine 2\n";
    expect((await shell.run("chat builtin/echo")).out).toBe("Line 1\nLine 2\n");
    expect((await shell.run("chat builtin/echo Only decisions:")).out).toBe("Only decisions:\n\nLine 1\nLine 2\n");
  });

  test("has the system text, the variables and the fields that are given", async () => {
    using upstream = new UpstreamServer(() => answering({ content: "Bonjour" }));
    const { folder, shell } = withProvider(upstream);
    using _ = folder;
    writeFileSync(folder.file("extra.md"), "Be brief.");
    const words =
      "chat troupe/translator Hello --system @extra.md --variables language=French --set temperature=0.5 --set stop=X";
    expect(await shell.run(words)).toEqual({ code: 0, out: "Bonjour\n", err: "" });
    expect(upstream.last.json).toMatchObject({
      stream: true,
      temperature: 0.5,
      stop: ["X"],
      messages: [{ content: expect.stringContaining("into French") }, { content: "Be brief." }, { content: "Hello" }],
    });
  });

  test("is answered whole, or in JSON, which no terminal acts on", async () => {
    const message = { role: "assistant", content: "Hi \u009b31m\u001b[31m" };
    using upstream = new UpstreamServer(() =>
      jsonResponse({ id: "c1", choices: [{ index: 0, message, finish_reason: "stop" }] }),
    );
    const { folder, shell } = withProvider(upstream);
    using _ = folder;
    const { out } = await shell.run("chat openai/gpt-5.4-mini Hello --json");
    expect(JSON.parse(out).choices[0].message.content).toBe(message.content);
    expect(out).not.toMatch(/[\u001b\u0080-\u009f]/);
    expect((await shell.run("chat openai/gpt-5.4-mini Hello --no-stream")).out).toBe("Hi \ufffd31m␛[31m\n");
    expect(upstream.requests.map(({ json }) => (json as Json)["stream"])).toEqual([undefined, undefined]);
  });

  test("writes the answer alone: no thinking, no tool calls", async () => {
    const call = { index: 0, id: "t1", type: "function", function: { name: "look", arguments: "{}" } };
    using upstream = new UpstreamServer(() =>
      answering({ reasoning_content: "Hm." }, { content: "Let me look." }, { tool_calls: [call] }),
    );
    const { folder, shell } = withProvider(upstream);
    using _ = folder;
    expect((await shell.run("chat openai/gpt-5.4-mini Hello")).out).toBe("Let me look.\n");
  });

  test("ends with what had come when it is interrupted", async () => {
    const held = Promise.withResolvers<void>();
    const encoder = new TextEncoder();
    using upstream = new UpstreamServer(
      () =>
        new Response(
          new ReadableStream({
            async start(controller) {
              controller.enqueue(encoder.encode(chunk({ content: "One" })));
              await held.promise;
            },
          }),
          { headers: { "content-type": "text/event-stream" } },
        ),
    );
    const { folder, shell } = withProvider(upstream);
    using _ = folder;
    const running = shell.run("chat openai/gpt-5.4-mini Hello");
    while (shell.out === "") await new Promise(setImmediate);
    shell.signal("SIGINT");
    expect(await running).toEqual({ code: 130, out: "One\n", err: "(ended here)\n" });
    held.resolve();
  });
});

describe("a running server", () => {
  test("is called by its address and key", async () => {
    await using troupe = await Troupe.start();
    using folder = new TempFolder();
    for (const path of ["", "/", "/v1", "/gateway/v1/"]) {
      const shell = new Console(folder.path, { TROUPE_KEY: troupe.key });
      expect((await shell.run(`chat builtin/echo Hi --url ${troupe.url}${path}`)).out).toBe("Hi\n");
    }
  });

  test("is the one of the configuration, with the first key", async () => {
    await using troupe = await Troupe.start();
    using folder = new TempFolder();
    const { host } = new URL(troupe.url);
    writeFileSync(folder.file("troupe.yaml"), `listen: ["${host}"]\ndata: ${troupe.data}\n`);
    const { id } = troupe.server.services.firstKey!.key;
    const shell = new Console(folder.path);
    expect((await shell.run("chat builtin/echo Hi")).out).toBe("Hi\n");
    const key = (await troupe.server.services.keys.list()).find((one) => one.id === id);
    expect(key?.lastUsedAt).toBeDefined();
  });
});

describe("an error is one line", () => {
  const lineOf = async (shell: Console, words: string) => {
    const { code, out, err } = await shell.run(words);
    expect([code, out, err.split("\n").length]).toEqual([1, "", 2]);
    return err;
  };

  test("of a wrong key, a used-up limit, an unknown model and a server that is not there", async () => {
    await using troupe = await Troupe.start();
    using folder = new TempFolder();
    const { url } = troupe;
    const shell = new Console(folder.path);
    expect(await lineOf(shell, `chat builtin/echo Hi --url ${url} --key trp_wrong`)).toEndWith(
      "Give a key by --key or TROUPE_KEY.\n",
    );
    const key = await troupe.createKey({ name: "slow", tier: "enterprise", perMinute: 2, surfaces: ["orchestrator"] });
    const persona = `chat troupe/guide Hi --url ${url} --key ${key}`;
    const lines = [];
    for (let again = 0; again < 3 && lines.length === 0; again += 1) {
      const { err } = await shell.run(persona);
      if (err !== "") lines.push(err);
    }
    expect(lines).toEqual([expect.stringMatching(/^error: .* Try again in \d+ s\.\n$/)]);
    expect(await lineOf(shell, `chat troupe/giude Hi --url ${url} --key ${troupe.key}`)).toEndWith(
      "Did you mean 'troupe/guide'?\n",
    );
    expect(await lineOf(shell, `chat openai/gpt-5.4 Hi --url ${url} --key ${troupe.key}`)).toContain(
      "its provider is not set up",
    );
    expect(await lineOf(shell, "chat troupe/guide Hi --url http://127.0.0.1:1 --key k")).toContain("can't be reached");
  });

  test("of the provider, and of an answer that breaks off", async () => {
    const answers = [
      () =>
        jsonResponse({ error: { message: "Slow\ndown", code: "rate_limit_exceeded" } }, 429, { "retry-after": "7" }),
      () => sseResponse([chunk({ content: "One" }), `data: {"error": {"message": "overloaded", "code": "x"}}\n\n`]),
    ];
    using upstream = new UpstreamServer(() => answers.shift()!());
    const { folder, shell } = withProvider(upstream);
    using _ = folder;
    expect(await lineOf(shell, "chat openai/gpt-5.4-mini Hi")).toBe("error: Slow down Try again in 7 s.\n");
    const { code, out, err } = await shell.run("chat openai/gpt-5.4-mini Hi");
    expect([code, out]).toEqual([1, "One\n"]);
    expect(err).toMatch(/^error: The answer broke off: .*\n$/);
  });

  test("of a command line without a question", async () => {
    using folder = new TempFolder();
    const { code, err } = await new Console(folder.path).run("chat builtin/echo");
    expect([code, err]).toEqual([2, expect.stringContaining("There is nothing to say")]);
    expect((await new Console(folder.path).run("chat builtin/echo Hi --url http://127.0.0.1:1")).err).toContain(
      "TROUPE_KEY",
    );
  });
});
