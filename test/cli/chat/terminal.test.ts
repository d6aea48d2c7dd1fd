/** The chat in a real terminal. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { hasTmux, TmuxTerminal } from "../../helpers/tmux.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

const encoder = new TextEncoder();

/** An upstream whose answers a test writes piece by piece. */
class Pieces implements Disposable {
  readonly upstream: UpstreamServer;
  readonly #streams: ReadableStreamDefaultController<Uint8Array>[] = [];

  constructor() {
    this.upstream = new UpstreamServer(
      () =>
        new Response(new ReadableStream({ start: (controller) => void this.#streams.push(controller) }), {
          headers: { "content-type": "text/event-stream" },
        }),
    );
  }

  /** The request of a call, once it is there. */
  async call(number: number): Promise<RecordedRequest> {
    await this.upstream.received(number);
    return this.upstream.requests[number - 1]!;
  }

  say(number: number, delta: Json, finish: string | null = null): void {
    const chunk = { id: "c1", choices: [{ index: 0, delta, finish_reason: finish }] };
    this.#streams[number - 1]!.enqueue(encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`));
  }

  end(number: number, finish = "stop"): void {
    this.say(number, {}, finish);
    this.#streams[number - 1]!.enqueue(encoder.encode("data: [DONE]\n\n"));
    this.#streams[number - 1]!.close();
  }

  [Symbol.dispose](): void {
    this.upstream[Symbol.dispose]();
  }
}

function folderFor(upstream: UpstreamServer): TempFolder {
  const folder = new TempFolder();
  writeFileSync(
    folder.file("troupe.yaml"),
    `listen: ["127.0.0.1:0"]\nproviders: {openai: {base_url: "${upstream.url}", api_key: k}}\n`,
  );
  return folder;
}

const open = (folder: TempFolder, words: readonly string[], size = {}) =>
  TmuxTerminal.open(["chat", ...words], { cwd: folder.path, env: { HOME: folder.path }, ...size });

/** The screen while the next line is awaited. */
const prompt = /\n>\s*$/;

const messagesOf = ({ json }: RecordedRequest) => (json as { messages: Json[] }).messages;

describe.skipIf(!hasTmux)(hasTmux ? "in tmux" : "tmux is not installed", () => {
  test("types, streams Markdown with dimmed thinking, shows tool calls, and ends an answer by Ctrl-C", async () => {
    using pieces = new Pieces();
    using folder = folderFor(pieces.upstream);
    await using terminal = await open(folder, ["openai/gpt-5.4-mini"]);
    await terminal.seen(prompt);
    await terminal.type("Hello 学校");
    await terminal.press("Enter");
    const first = await pieces.call(1);
    expect(messagesOf(first)).toEqual([{ role: "user", content: "Hello 学校" }]);
    pieces.say(1, { reasoning_content: "Let me think." });
    await terminal.seen("Let me think.");
    pieces.say(1, { content: "# Über 学\n\nSome **bo" });
    await terminal.seen("Some **bo");
    pieces.say(1, { content: "ld** text, \u001b[2Jand `code`.\n\n- one\n- two" });
    await terminal.seen("• two");
    const call = { index: 0, id: "t1", type: "function", function: { name: "look", arguments: '{"a":1}' } };
    pieces.say(1, { tool_calls: [call] });
    pieces.end(1, "tool_calls");
    const screen = await terminal.seen(/→ look[\s\S]*\n>\s*$/);
    expect(
      screen
        .slice(screen.indexOf("> Hello"))
        .trimEnd()
        .split("\n")
        .map((line) => line.trimEnd()),
    ).toEqual([
      "> Hello 学校",
      "Let me think.",
      "",
      "Über 学",
      "═══════",
      "",
      "Some bold text, ␛[2Jand code.",
      "",
      "  • one",
      "  • two",
      "",
      '→ look({"a":1})',
      "",
      ">",
    ]);
    expect(await terminal.screen(true)).toContain("\x1b[2mLet me think.");
    await terminal.type("/clear");
    await terminal.press("Enter");
    await terminal.seen("Forgotten.");

    await terminal.type("Go on");
    await terminal.press("Enter");
    const second = await pieces.call(2);
    pieces.say(2, { content: "An answer that " });
    await terminal.seen("An answer that");
    await terminal.press("C-c");
    await terminal.seen(/\(ended here\)[\s\S]*\n>\s*$/);
    // The upstream's call is over too.
    await new Promise<void>((resolve) => {
      if (second.signal.aborted) resolve();
      else second.signal.addEventListener("abort", () => resolve());
    });
    await terminal.type("Again");
    await terminal.press("Enter");
    expect(messagesOf(await pieces.call(3))).toEqual([
      { role: "user", content: "Go on" },
      { role: "assistant", content: "An answer that " },
      { role: "user", content: "Again" },
    ]);
    pieces.say(3, { content: "Done." });
    pieces.end(3);
    await terminal.seen("Done.");
    await terminal.press("C-d");
    await terminal.seen("ended: 0");
  });

  test("keeps the last answer as a test of the persona", async () => {
    const message = { role: "assistant", content: "14 days." };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    using upstream = new UpstreamServer(() => jsonResponse({ id: "c1", choices }));
    using folder = folderFor(upstream);
    mkdirSync(folder.file("personas/acme"), { recursive: true });
    writeFileSync(
      folder.file("personas/acme/help.yaml"),
      "description: Helps.\nmodel: openai/gpt-5.4-mini\nsystem: Help.\n",
    );
    await using terminal = await open(folder, ["acme/help", "--no-stream", "--set", "temperature=0"], { columns: 200 });
    const says = async (line: string, answer: string | RegExp) => {
      await terminal.type(line);
      await terminal.press("Enter");
      await terminal.seen(answer);
    };
    await terminal.seen(prompt);
    await says("/test", "There is no answer to be kept.");
    await says("how long?", /14 days\.[\s\S]*\n>\s*$/);
    await says("/test 14 DAYS", "as 'how long?' (icontains).");
    await says("/test 14 DAYS", "asks the same; nothing was written.");
    await says("/model openai/gpt-5.4", "Now openai/gpt-5.4.");
    await says("/test", "only a persona has");
    expect(readFileSync(folder.file("personas/acme/help.test.yaml"), "utf8")).toBe(
      'prompts: ["{{question}}"]\ntests:\n  - description: how long?\n    vars:\n      question: how long?\n' +
        "    options:\n      passthrough:\n        temperature: 0\n    assert:\n      - type: icontains\n        value: 14 DAYS\n",
    );
  });

  test("keeps history, takes many lines at once, saves, loads, asks again and leaves", async () => {
    const message = { role: "assistant", content: "Noted." };
    using upstream = new UpstreamServer(() =>
      jsonResponse({
        id: "c1",
        choices: [{ index: 0, message, finish_reason: "stop" }],
        usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
      }),
    );
    using folder = folderFor(upstream);
    {
      await using terminal = await open(folder, ["openai/gpt-5.4-mini", "--no-stream"]);
      await terminal.seen(prompt);
      await terminal.paste("line one\nline two\n\nline four");
      await terminal.seen("line four");
      await terminal.type(" end");
      await terminal.press("Enter");
      await upstream.received(1);
      expect(messagesOf(upstream.last)).toEqual([{ role: "user", content: "line one\nline two\n\nline four end" }]);
      await terminal.seen(/Noted\.[\s\S]*\n>\s*$/);
      await terminal.type("first \\");
      await terminal.press("Enter");
      await terminal.type("second");
      await terminal.press("Enter");
      await upstream.received(2);
      expect(messagesOf(upstream.last).at(-1)).toEqual({ role: "user", content: "first \nsecond" });
      await terminal.seen(/second\nNoted\.[\s\S]*\n>\s*$/);
      for (const line of ['"""', "a", "/b", '"""']) {
        await terminal.type(line);
        await terminal.press("Enter");
      }
      await upstream.received(3);
      expect(messagesOf(upstream.last).at(-1)).toEqual({ role: "user", content: "a\n/b" });
      await terminal.seen(/\/b\n… """\nNoted\.[\s\S]*\n>\s*$/);
      for (const [line, answer] of [
        ["/system Be kind.", "Be kind."],
        ["/set temperature=0.5", '{"temperature":0.5}'],
        ["/usage", "3 answers: 15 tokens in, 6 out"],
        ["/save talk.json", "Kept in talk.json."],
        ["/nothing", "There is no /nothing"],
        ["/model builtin/echo", "Now builtin/echo."],
        ["/load talk.json", "6 messages, with openai/gpt-5.4-mini."],
      ] as const) {
        await terminal.type(line);
        await terminal.press("Enter");
        await terminal.seen(`${line}\n${line === "/nothing" ? "error: " : ""}${answer}`);
      }
      await terminal.type("/retry");
      await terminal.press("Enter");
      await upstream.received(4);
      expect(messagesOf(upstream.last)[0]).toEqual({ role: "system", content: "Be kind." });
      expect([upstream.last.json, messagesOf(upstream.last).at(-1)]).toMatchObject([
        { temperature: 0.5 },
        { content: "a\n/b" },
      ]);
      await terminal.seen(/\/retry\nNoted\.[\s\S]*\n>\s*$/);
      await terminal.press("Up", "Up", "Up");
      await terminal.seen(/> \/model builtin\/echo\s*$/);
      await terminal.press("C-c", "C-c", "C-c");
      await terminal.seen("ended: 0");
    }
    const saved = JSON.parse(readFileSync(folder.file("talk.json"), "utf8"));
    expect(saved).toMatchObject({ model: "openai/gpt-5.4-mini", system: "Be kind.", fields: { temperature: 0.5 } });
    await using terminal = await open(folder, ["builtin/echo"]);
    await terminal.seen(prompt);
    await terminal.press("Up", "Up");
    await terminal.seen("> /load talk.json");
    await terminal.press("C-c");
    await terminal.type("/quit");
    await terminal.press("Enter");
    await terminal.seen("ended: 0");
  });

  test("draws anew in another width, and an answer that is longer than the screen once", async () => {
    using pieces = new Pieces();
    using folder = folderFor(pieces.upstream);
    await using terminal = await open(folder, ["openai/gpt-5.4-mini", "--set", "n=1"], { columns: 60, rows: 12 });
    await terminal.seen(prompt);
    await terminal.type("Count");
    await terminal.press("Enter");
    await pieces.call(1);
    const words = Array.from({ length: 120 }, (_, at) => `w${at}`);
    pieces.say(1, { content: words.slice(0, 60).join(" ") });
    await terminal.seen("w59");
    await terminal.resize(40, 12);
    await terminal.seen("w59");
    pieces.say(1, { content: ` ${words.slice(60).join(" ")}` });
    await terminal.seen("w119");
    pieces.say(1, { content: "\n\nThe end." });
    pieces.end(1);
    const screen = await terminal.seen(/The end\.\s+>\s*$/);
    const answer = screen.slice(screen.indexOf("> Count") + 7, screen.indexOf("The end."));
    const last = answer.lastIndexOf("w0 ");
    expect(answer.slice(last).trim().split(/\s+/)).toEqual(words);
  });

  test("shows the greeting of a persona, and what is typed while an answer comes is asked next", async () => {
    using pieces = new Pieces();
    using folder = folderFor(pieces.upstream);
    const personas = folder.file("personas/acme");
    mkdirSync(personas, { recursive: true });
    writeFileSync(
      `${personas}/host.yaml`,
      'description: A host.\nmodel: openai/gpt-5.4-mini\nsystem: Be a host.\ngreeting: "Welcome, **dear** guest."\n',
    );
    await using terminal = await open(folder, ["acme/host"]);
    await terminal.seen("Welcome, dear guest.");
    await terminal.type("One");
    await terminal.press("Enter");
    await pieces.call(1);
    await terminal.type("Two");
    await terminal.press("Enter");
    pieces.say(1, { content: "First." });
    pieces.end(1);
    expect(messagesOf(await pieces.call(2)).map(({ content }) => content)).toEqual([
      "Be a host.",
      "One",
      "First.",
      "Two",
    ]);
    pieces.end(2);
    await terminal.seen(/First\.\n\n> Two/);
  });
});
