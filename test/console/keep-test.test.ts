/** What the console's playground does beside asking: tools that are answered, pictures, names found among many, and answers kept as tests. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { button, chunk, labelled } from "./elements.ts";

type Json = Record<string, unknown>;

const says = (...deltas: Json[]) => {
  const finish = deltas.some((one) => "tool_calls" in one) ? "tool_calls" : "stop";
  const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
  const ending = [chunk({}, finish), chunk({}, null, { choices: [], usage }), "data: [DONE]\n\n"];
  return sseResponse([...deltas.map((delta) => chunk(delta)), ...ending]);
};
const calls = (id: string, city: string) => ({
  tool_calls: [{ index: 0, id, type: "function", function: { name: "weather", arguments: JSON.stringify({ city }) } }],
});
const persona = (model: string) =>
  `description: Helps.\nmodel: ${model}\nsystem: Help in {{language}}.\nvariables: {language: {default: English}}\n`;
const tests = "# Ours.\ntests:\n  - vars: { prompt: blue }   # always\n    assert: [{ type: contains, value: blue }]\n";
const axe = readFileSync(new URL(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const weather = { type: "function", function: { name: "weather", parameters: { type: "object" } } };
const openDetails = `[...document.querySelectorAll("summary")].find((one) => one.innerText.startsWith("System")).parentElement.open = true`;

const dialog = "document.querySelector('dialog[open]')?.innerText ?? ''";
const said = "[...document.querySelectorAll('.said')]";

describe.skipIf(!hasChromium)("the playground beside asking, in Chromium", () => {
  let folder: TempFolder;
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let answer: (request: RecordedRequest) => Response;
  const asked: Json[] = [];
  const testFile = (name: string) => folder.file(`acme/${name}.test.yaml`);
  beforeAll(async () => {
    folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    for (const name of ["help", "bare"])
      writeFileSync(folder.file(`acme/${name}.yaml`), persona("openai/gpt-5.4-mini"));
    writeFileSync(folder.file("acme/thinker.yaml"), persona("anthropic/claude-haiku-4-5"));
    for (let at = 0; at < 300; at += 1) writeFileSync(folder.file(`acme/bulk-${at}.yaml`), persona("builtin/echo"));
    upstream = new UpstreamServer((request) => {
      asked.push(request.json as Json);
      return answer(request);
    });
    const surfaces = ["orchestrator", "gateway", "admin"] as const;
    const anthropic = { baseUrl: upstream.url, models: ["claude-haiku-4-5"] };
    const models = ["gpt-5.4-mini", "gpt-5.4", ...Array.from({ length: 3_000 }, (_, at) => `open-${at}`)];
    troupe = await Troupe.start({
      personas: folder.path,
      providers: { anthropic, openai: { baseUrl: upstream.url, models } },
      config: {
        listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }],
        console: { write: true },
      },
    });
    await troupe.server.services.loading;
    const key = await troupe.createKey({ name: "ops", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console#/playground`);
    await page.until("document.activeElement.type === 'password'");
    await page.type(key);
    await page.press("Enter");
    await page.until(`document.querySelector("main").innerText.includes("Choose a model")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
    folder?.[Symbol.dispose]();
  });
  beforeEach(async () => {
    page.errors.splice(0);
    asked.splice(0);
    await page.read(`document.querySelector("dialog[open]")?.close()`);
    if (await page.read<boolean>(`Boolean(${button("Start anew")})`)) await page.click(button("Start anew"));
  });

  const show = async (address: string) => {
    await page.read(`location.hash = ${JSON.stringify(address)}`);
    await page.until(button("Send"));
    if (await page.read<boolean>(`Boolean(${button("Start anew")})`)) await page.click(button("Start anew"));
    await page.until(labelled("Your question"));
  };
  const write = async (field: string, text: string) => {
    await page.until(field);
    await page.write(field, text);
  };
  const press = async (name: string) => {
    await page.until(`${button(name)} !== undefined && !${button(name)}.disabled`);
    await page.click(button(name));
  };
  const ask = async (text: string, answers = 1) => {
    await write(labelled((await page.read<boolean>(`${said}.length === 0`)) ? "Your question" : "And next"), text);
    await press("Send");
    await page.until(
      `${said}.slice(-${answers}).length === ${answers} && ${said}.slice(-${answers}).every((one) => one.querySelector("dl"))`,
    );
  };
  /** @returns what a tool for accessibility finds at fault */
  const barriers = () =>
    page.readApart<string[]>(
      axe,
      `axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] } }).then(({ violations }) =>
        violations.map(({ id, nodes }) => id + " at " + nodes.map(({ target }) => target.join(" "))))`,
    );
  const modelOf = (column: number) => `[...document.querySelectorAll("main input[role=combobox]")][${column}]`;

  test("a tool that is defined is called, answered, and the answer goes to whoever called, with its thoughts", async () => {
    const ofModel = (json: Json) => asked.filter(({ model }) => model === json["model"]).length;
    answer = ({ json }) => {
      const isLarge = (json as Json)["model"] === "gpt-5.4";
      if (ofModel(json as Json) > 1) return says({ content: isLarge ? "Unasked." : "It is 7 °C." });
      return isLarge ? says({ content: "No tool." }) : says({ reasoning_content: "Ask it." }, calls("call_1", "Bern"));
    };
    await show("#/playground?model=acme/help&b=openai/gpt-5.4");
    await page.read(openDetails);
    await write(labelled("tools, as JSON"), JSON.stringify([weather]));
    await ask("How warm is it?", 2);
    expect(asked.map(({ tools }) => tools)).toMatchObject([[weather], [weather]]);
    expect(await page.read<string>(`${said}[0].innerText`)).toContain("weather");
    await write(labelled("What weather gives to acme/help"), '{"celsius": 7}');
    expect(await barriers()).toEqual([]);
    asked.splice(0);
    answer = () => says({ content: "It is 7 °C." });
    await press("Answer the tool calls");
    await page.until(`${said}.at(-1).innerText.includes("It is 7 °C.") && ${said}.at(-1).querySelector("dl")`);
    expect(await page.read<number>(`${said}.length`)).toBe(3);
    const called = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } };
    expect(asked).toMatchObject([
      {
        model: "gpt-5.4-mini",
        messages: [
          { content: "Help in English." },
          { role: "user", content: "How warm is it?" },
          { role: "assistant", tool_calls: [called] },
          { role: "tool", tool_call_id: "call_1", content: '{"celsius": 7}' },
        ],
      },
    ]);
    // The next question has both conversations, each its own.
    asked.splice(0);
    await ask("And now?", 2);
    const roles = (model: string) =>
      (asked.find((one) => one["model"] === model)!["messages"] as Json[]).map(({ role }) => role);
    expect(roles("gpt-5.4-mini").slice(1)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
    expect(roles("gpt-5.4")).toEqual(["user", "assistant", "user"]);
    await write(labelled("tools, as JSON"), "");
    expect(page.errors).toEqual([]);
  });

  test("a thought that a provider signed goes back with the answer of the tool that it called, for a model and a persona", async () => {
    const event = (type: string, data: Json) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
    const block = (index: number, content_block: Json, ...deltas: Json[]) => [
      event("content_block_start", { index, content_block }),
      ...deltas.map((delta) => event("content_block_delta", { index, delta })),
      event("content_block_stop", { index }),
    ];
    const message = { id: "m", type: "message", role: "assistant", model: "claude-haiku-4-5", content: [] };
    const events = (stop_reason: string, ...blocks: string[][]) =>
      sseResponse([
        event("message_start", { message: { ...message, usage: { input_tokens: 11, output_tokens: 1 } } }),
        ...blocks.flat(),
        event("message_delta", { delta: { stop_reason }, usage: { output_tokens: 7 } }),
        event("message_stop", {}),
      ]);
    const thinking = { type: "thinking", thinking: "", signature: "" };
    const called = { type: "tool_use", id: "toolu_1", name: "weather", input: {} };
    answer = () =>
      events(
        "tool_use",
        block(
          0,
          thinking,
          { type: "thinking_delta", thinking: "Ask." },
          { type: "signature_delta", signature: "c2ln" },
        ),
        block(1, called, { type: "input_json_delta", partial_json: '{"city": "Bern"}' }),
      );
    await show("#/playground?model=acme/thinker&b=anthropic/claude-haiku-4-5");
    await page.read(openDetails);
    await write(labelled("thinking_budget"), "2000");
    await write(labelled("tools, as JSON"), JSON.stringify([weather]));
    await ask("How warm is it?", 2);
    expect(await page.read<string[]>(`${said}.map((one) => one.querySelector(".thinking").innerText)`)).toEqual([
      "Ask.",
      "Ask.",
    ]);
    for (const name of ["acme/thinker", "anthropic/claude-haiku-4-5"])
      await write(labelled(`What weather gives to ${name}`), "7");
    asked.splice(0);
    answer = () =>
      events("end_turn", block(0, { type: "text", text: "" }, { type: "text_delta", text: "It is 7 °C." }));
    await press("Answer the tool calls");
    await page.until(`${said}.slice(2).filter((one) => one.innerText.includes("It is 7 °C.")).length === 2`);
    expect(asked.length).toBe(2);
    for (const { messages } of asked)
      expect((messages as Json[]).slice(-2)).toMatchObject([
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Ask.", signature: "c2ln" },
            { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
          ],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "7" }] },
      ]);
    await write(labelled("tools, as JSON"), "");
    await write(labelled("thinking_budget"), "");
    expect(page.errors).toEqual([]);
  });

  test("pictures go along to a model and a persona and come back; which is cheaper and faster is said", async () => {
    answer = ({ json }) =>
      says({
        content: (json as Json)["model"] === "gpt-5.4" ? "Large." : "Small.",
        images: [{ type: "image_url", image_url: { url: pixel } }],
      });
    await show("#/playground?model=acme/help&b=openai/gpt-5.4");
    await page.read(`(async () => {
      const field = document.querySelector("input[type=file]");
      const picked = new DataTransfer();
      picked.items.add(new File([await (await (async () => new Blob([Uint8Array.from(atob(${JSON.stringify(pixel.split(",")[1])}), (one) => one.charCodeAt(0))]))()).arrayBuffer()], "p.png", { type: "image/png" }));
      field.files = picked.files;
      field.dispatchEvent(new Event("change", { bubbles: true }));
    })()`);
    await page.until(`document.querySelector("img.chosen")`);
    await ask("What is it?", 2);
    for (const { messages } of asked)
      expect((messages as Json[]).at(-1)).toEqual({
        role: "user",
        content: [
          { type: "text", text: "What is it?" },
          { type: "image_url", image_url: { url: pixel } },
        ],
      });
    expect(
      await page.read<number>(`${said}.filter((one) => one.querySelector("img")?.naturalWidth === 1).length`),
    ).toBe(2);
    expect(await page.read<string>(`${said}[0].innerText`)).toMatch(/cheaper \d+\.\d×/);
    expect(await page.read<string>(`${said}[1].innerText`)).not.toContain("cheaper");
    expect(page.errors).toEqual([]);
  });

  test("names are found among thousands as they are typed, and a persona's versions and labels are chosen", async () => {
    await show("#/playground");
    await write(modelOf(0), "open-29");
    const shown = `[...document.querySelectorAll('[aria-label="Models and personas that fit"]:not([hidden]) [role=option]')]`;
    const options = `${shown}.map((one) => one.querySelector("span").innerText)`;
    await page.until(`${options}.includes("openai/open-299") && ${options}.every((one) => one.includes("open-29"))`);
    expect(await page.read<number>(`${options}.length`)).toBeLessThanOrEqual(30);
    await write(modelOf(0), "acme bulk-29");
    await page.until(`${options}[0] === "acme/bulk-29"`);
    const { services } = troupe.server;
    await services.personaVersions.record();
    const { version } = services.personas.find("acme/help")!;
    const line = { id: "m", at: 1, actor: "t", act: "persona.label", subject: "s", before: null, after: null };
    const label = { persona: "acme/help", label: "stable", version, movedAt: 1 };
    await services.store.personaVersions.moveLabel(label, null, line);
    await show("#/playground?model=acme/help");
    await page.until(`${labelled("Version")} && !${labelled("Version")}.disabled`);
    const values = `[...${labelled("Version")}.options].map((one) => one.value)`;
    await page.until(`${values}.length === 3`);
    expect(await page.read<string[]>(values)).toEqual(["acme/help", "acme/help@stable", `acme/help@${version}`]);
    expect(page.errors).toEqual([]);
  });

  test("the list opens with the field, those that were asked last first, with prices; by keys and by the mouse", async () => {
    answer = () => says({ content: "Hello." });
    await page.look({ width: 1440, height: 900, theme: "light" });
    for (const model of ["acme/help", "openai/gpt-5.4"]) {
      await show(`#/playground?model=${model}`);
      await ask("Hi");
    }
    await show("#/playground");
    const list = `document.querySelector('[aria-label="Models and personas that fit"]:not([hidden])')`;
    const rows = `[...(${list}?.querySelectorAll("[role=option]") ?? [])].map((one) => one.innerText.replaceAll("\\n", " "))`;
    expect(await page.read<boolean>(`Boolean(${list})`)).toBe(false);
    await page.click(modelOf(0));
    await page.until(`${rows}.length > 2`);
    expect((await page.read<string[]>(rows)).slice(0, 2)).toEqual([
      expect.stringMatching(/^openai\/gpt-5\.4 recent · \$[\d.]+ in, \$[\d.]+ out a million$/),
      "acme/help recent · persona: Helps.",
    ]);
    await page.press("Escape");
    await page.until(`!${list}`);
    // What is typed is not changed by an arrow that only opens the list.
    await page.press("ArrowDown");
    await page.until(`${rows}.length > 2`);
    await page.press("ArrowDown");
    await page.until(
      `document.getElementById(${modelOf(0)}.getAttribute("aria-activedescendant"))?.ariaSelected === "true"`,
    );
    await page.press("Enter");
    await page.until(
      `!${list} && decodeURIComponent(location.hash) === "#/playground?model=openai/gpt-5.4" && ${modelOf(0)}.value === "openai/gpt-5.4"`,
    );
    // A persona's versions come later than its name: nothing moves for them.
    await page.until(labelled("Version"));
    const top = `document.querySelector(".composer").getBoundingClientRect().top + scrollY`;
    const before = await page.read<number>(top);
    await page.write(modelOf(0), "acme/help");
    await page.until(`${rows}[0]?.startsWith("acme/help")`);
    await page.click(`${list}.querySelector("[role=option]")`);
    await page.until(`!${list} && ${labelled("Version")}?.options.length > 1`);
    expect(await page.read<number>(top)).toBe(before);
    expect(page.errors).toEqual([]);
  });

  test("an answer is kept as a test, below those that the file has, and the test runs", async () => {
    writeFileSync(testFile("help"), tests);
    answer = () => says({ content: "Your {{parcel}} is in Bern." });
    await show("#/playground?model=acme/help");
    await write(labelled("language"), "German");
    await ask("Where is my {{parcel}}?");
    await press("Keep as a test");
    await page.until(`(${dialog}).includes("+  - description: Where is my {{parcel}}?")`);
    expect(await page.read<string>(`document.querySelector("dialog .diff .added").innerText`)).toContain("Where is my");
    await write(`document.querySelector('dialog[open] textarea[aria-label="icontains: value"]')`, "Bern");
    await page.click(labelled("latency", "dialog[open]"));
    await page.until(`(${dialog}).includes("value: Bern") && (${dialog}).includes("type: latency")`);
    expect(readFileSync(testFile("help"), "utf8")).toBe(tests);
    expect(await barriers()).toEqual([]);
    // Somebody else is quicker: their change stays, and the test is put into it.
    writeFileSync(testFile("help"), `# Theirs.\n${tests}`);
    await press("Save");
    await page.until(`(${dialog}).includes("Somebody has changed the file meanwhile")`);
    expect(readFileSync(testFile("help"), "utf8")).toBe(`# Theirs.\n${tests}`);
    await page.until(`(${dialog}).includes("The checker finds nothing.")`);
    await press("Save");
    await page.until(`(${dialog}).includes("Kept.")`);
    const kept = readFileSync(testFile("help"), "utf8");
    expect(kept).toStartWith(`# Theirs.\n${tests}`);
    expect(kept).toContain("      language: German\n");
    expect(await page.read<string>(`document.querySelector("dialog a").getAttribute("href")`)).toBe(
      "#/personas/acme%2Fhelp/tests",
    );
    await page.click(`document.querySelector("dialog a")`);
    answer = ({ json }) => says({ content: `blue, Bern: ${JSON.stringify((json as Json)["messages"])}` });
    await press("Run the tests");
    await page.until(`document.querySelector("main").innerText.includes("2 of 2 passed")`);
    expect(asked.at(-1)).toMatchObject({
      messages: [{ content: "Help in German." }, { content: "Where is my {{parcel}}?" }],
    });
    expect(page.errors.filter((one) => !one.includes("409"))).toEqual([]);
  });

  test("an answer of a model becomes the first test of a persona", async () => {
    rmSync(testFile("bare"), { force: true });
    answer = () => says({ content: '{"city": "Bern"}' });
    await show("#/playground?model=openai/gpt-5.4");
    await page.read(openDetails);
    await write(labelled("System text"), "You are plain.");
    await ask("Which city?");
    await press("Keep as a test");
    await write(`document.querySelector("dialog[open] input[role=combobox]")`, "acme/bare");
    await page.press("Tab");
    await page.until(`(${dialog}).includes("city: Bern") && (${dialog}).includes('prompts: ["{{question}}"]')`);
    await press("Save");
    await page.until(`(${dialog}).includes("Kept.")`);
    expect(readFileSync(testFile("bare"), "utf8")).toBe(
      'prompts: ["{{question}}"]\ntests:\n  - description: Which city?\n    vars:\n      question: Which city?\n    assert:\n      - type: equals\n        value:\n          city: Bern\n',
    );
    await write(labelled("System text"), "");
    expect(page.errors).toEqual([]);
  });

  test("a test is edited before it is saved, and put beside what was written there; where nothing can be saved it is copied", async () => {
    rmSync(testFile("bare"), { force: true });
    answer = () => says({ content: "It is in Bern." });
    await show("#/playground?model=acme/bare");
    await ask("Where is it?");
    await press("Keep as a test");
    await page.until(`(${dialog}).includes("+  - description: Where is it?")`);
    await press("Edit it in the file");
    const editor = "document.querySelector('.editor textarea')";
    await page.until(`${editor}?.value.includes("- description: Where is it?")`);
    expect(await page.read<string>("document.querySelector('main').innerText")).toContain("not saved");
    await page.read("history.back()");
    await press("Keep as a test");
    await page.until(`(${dialog}).includes("It is put into what you have written in that file")`);
    await page.until(`(${dialog}).includes("+  - description: Where is it?")`);
    const { live } = troupe.server.services;
    const isWritable = live.config.console;
    Object.assign(live.config, { console: { ...isWritable, write: false } });
    await write(labelled("What it tests", "dialog[open]"), "finds it");
    await page.until(`(${dialog}).includes("Read-only") && ${button("Save")} === undefined`);
    await page.read(
      `navigator.clipboard.writeText = (text) => { globalThis.copied = text; return Promise.resolve(); }`,
    );
    await press("Copy the file");
    await page.until(`globalThis.copied?.includes("- description: finds it")`);
    Object.assign(live.config, { console: isWritable });
    await write(labelled("What it tests", "dialog[open]"), "finds it again");
    await page.until(`(${dialog}).includes("finds it again")`);
    await press("Save");
    await page.until(`(${dialog}).includes("Kept.")`);
    expect(readFileSync(testFile("bare"), "utf8").match(/description: .*/g)).toEqual([
      "description: Where is it?",
      "description: finds it again",
    ]);
    expect(page.errors).toEqual([]);
  });
});
