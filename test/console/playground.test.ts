/** The console's playground, in a real browser against stand-in upstreams. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { button, chunk, labelled } from "./elements.ts";
import { hostile } from "./hostile-markdown.ts";

type Json = Record<string, unknown>;

const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
const ending = [chunk({}, "stop"), chunk({}, null, { choices: [], usage }), "data: [DONE]\n\n"];
const says = (text: string) =>
  sseResponse([chunk({ content: text.slice(0, 3) }), chunk({ content: text.slice(3) }), ...ending]);
const persona =
  "description: Helps.\nmodel: openai/gpt-5.4-mini\nsystem: Help in {{language}}.\nvariables: {language: {default: English}}\n";

const main = "document.querySelector('main').innerText";
const said = "[...document.querySelectorAll('.said')]";

describe.skipIf(!hasChromium)("the playground in Chromium", () => {
  let folder: TempFolder;
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let answer: (request: RecordedRequest) => Response;
  const asked: Json[] = [];
  beforeAll(async () => {
    folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    writeFileSync(folder.file("acme/help.yaml"), persona);
    upstream = new UpstreamServer((request) => {
      asked.push(request.json as Json);
      return answer(request);
    });
    const surfaces = ["orchestrator", "gateway", "admin"] as const;
    troupe = await Troupe.start({
      personas: folder.path,
      providers: { openai: { baseUrl: upstream.url, models: ["gpt-5.4-mini", "gpt-5.4"] } },
      config: {
        listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }],
        console: { write: true },
      },
    });
    await troupe.server.services.loading;
    const key = await troupe.createKey({ name: "ops", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.beforeEachPage(
      `globalThis.ran = 0; globalThis.pwn = () => { ran += 1; }; globalThis.violations = [];
       addEventListener("securitypolicyviolation", ({ violatedDirective, sample }) => violations.push(violatedDirective + " " + sample));`,
    );
    await page.go(`${troupe.url}/console#/playground`);
    await page.until("document.activeElement.type === 'password'");
    await page.type(key);
    await page.press("Enter");
    await page.until(`${main}.includes("Choose a model")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
    folder?.[Symbol.dispose]();
  });
  beforeEach(async () => {
    page.errors.splice(0);
    page.requests.splice(0);
    asked.splice(0);
    if (await page.read<boolean>(`Boolean(${button("Start anew")})`)) await page.click(button("Start anew"));
  });

  const faults = () => page.errors.filter((one) => !one.includes("status of 4"));
  const show = async (address: string) => {
    await page.read(`location.hash = ${JSON.stringify(address)}`);
    await page.until(labelled("Your question"));
  };
  const write = async (field: string, text: string) => page.write(labelled(field), text);
  const press = async (name: string) => {
    await page.until(`${button(name)} !== undefined && !${button(name)}.disabled`);
    await page.click(button(name));
  };

  test("two models answer side by side, each with its time, tokens, cost and call", async () => {
    answer = ({ json }) => says((json as Json)["model"] === "gpt-5.4" ? "I am **large**." : "I am **small**.");
    await show("#/playground?model=acme/help&b=openai/gpt-5.4");
    await page.until(labelled("language"));
    await write("language", "German");
    await write("temperature", "0.5");
    await write("Your question", "Who are you?");
    await press("Send");
    await page.until(
      `${said}.length === 2 && ${said}.every((one) => one.innerText.includes("answered") && one.querySelector("dl"))`,
    );
    expect(await page.read<string[]>(`${said}.map((one) => one.querySelector(".markdown").innerHTML)`)).toEqual([
      "<div><p>I am <strong>small</strong>.</p>\n</div>",
      "<div><p>I am <strong>large</strong>.</p>\n</div>",
    ]);
    const [small, large] = await page.read<string[]>(`${said}.map((one) => one.innerText)`);
    // They end together, with their numbers in line.
    await page.look({ width: 1440, height: 900, theme: "light" });
    const places = `[${said}, ${said}.map((one) => one.querySelector("dl"))].map((both) => both.map((one) => Math.round(one.getBoundingClientRect().bottom)))`;
    for (const [first, second] of await page.read<number[][]>(places)) expect(first).toBe(second);
    expect(small).toMatch(/11 in, 7 out[\s\S]*\$0\.0[\s\S]*openai\/gpt-5\.4-mini[\s\S]*Persona version/);
    expect(large).not.toContain("Persona version");
    const calls = await page.read<string[]>(`${said}.map((one) => one.querySelector("a[href^='#/calls/']").innerText)`);
    expect(calls).toEqual([expect.stringMatching(/^req_/), expect.stringMatching(/^req_/)]);
    expect(asked.find(({ model }) => model === "gpt-5.4-mini")).toMatchObject({
      temperature: 0.5,
      messages: [{ content: "Help in German." }, { role: "user", content: "Who are you?" }],
    });
    expect(asked.find(({ model }) => model === "gpt-5.4")).toMatchObject({
      messages: [{ role: "user", content: "Who are you?" }],
    });
    expect(asked[0]).not.toHaveProperty("variables");
    // The next turn has each column's own answer.
    asked.splice(0);
    await page.click(labelled("And next"));
    await page.type("And now?");
    await page.press("Enter", "Control");
    await page.until(`${said}.length === 4 && ${said}.every((one) => one.innerText.includes("answered"))`);
    expect(asked.find(({ model }) => model === "gpt-5.4")).toMatchObject({
      messages: [
        { content: "Who are you?" },
        { role: "assistant", content: "I am **large**." },
        { content: "And now?" },
      ],
    });
    expect(await page.read<string>("location.hash")).toBe("#/playground?model=acme/help&b=openai/gpt-5.4");
    expect(faults()).toEqual([]);
  });

  test("what is previewed is what is sent", async () => {
    answer = () => says("Hi there.");
    await show("#/playground?model=acme/help");
    await page.until(labelled("language"));
    await write("Your question", "Preview me");
    await press("Show it");
    const body = "document.querySelector('.code[aria-label=Body]')";
    await page.until(body);
    const previewed = JSON.parse(await page.read<string>(`${body}.innerText`)) as Json;
    expect(await page.read<string>(main)).toMatch(/POST http:\/\/127\.0\.0\.1[\s\S]*\*\*\*/);
    expect(asked).toEqual([]);
    await press("Send");
    await page.until(`${said}.length === 1 && ${said}[0].innerText.includes("answered")`);
    expect(asked).toEqual([previewed]);
    expect(faults()).toEqual([]);
  });

  test("Stop ends the call, keeps what came, and the conversation goes on", async () => {
    let isCancelled = false;
    answer = () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode(chunk({ content: "So far" }))),
          cancel: () => {
            isCancelled = true;
          },
        }),
        { headers: { "content-type": "text/event-stream" } },
      );
    await show("#/playground?model=openai/gpt-5.4");
    await write("Your question", "Talk");
    await press("Send");
    await page.until(`${said}[0]?.innerText.includes("So far")`);
    await press("Stop");
    await page.until(`${said}[0].innerText.includes("stopped")`);
    while (!isCancelled) await Bun.sleep(20);
    answer = () => says("Again.");
    await write("And next", "Go on");
    await press("Send");
    await page.until(`${said}[1]?.innerText.includes("Again.")`);
    expect(asked[1]).toMatchObject({ messages: [{ content: "Talk" }, { content: "So far" }, { content: "Go on" }] });
    expect(faults()).toEqual([]);
  });

  test("an error stands where its cause is, as text, and the page stays signed in", async () => {
    await show("#/playground?model=openai/gpt-5.4");
    await page.click("document.querySelector('details details summary')");
    // What can't be sent says why.
    const why = `document.querySelector(".why-not")?.innerText`;
    await page.until(`${why} === "Write a question first."`);
    await write("tools, as JSON", "[{]");
    await write("Your question", "Hello");
    await page.until(`${why} === "Mend the tools first: they are no JSON list."`);
    await page.until(`document.querySelector(".field .error")?.innerText.includes("no JSON")`);
    expect(await page.read<boolean>(`${button("Send")}.disabled`)).toBe(true);
    await write("tools, as JSON", '[{"type": "function"}]');
    await press("Send");
    await page.until(`${said}[0]?.innerText.includes("failed")`);
    await page.until(`${labelled("tools, as JSON")}.getAttribute("aria-invalid") === "true"`);
    expect(asked).toEqual([]);
    await write("tools, as JSON", "");
    answer = () =>
      jsonResponse({ error: { message: "<img src=x onerror=pwn()>", type: "auth", code: "bad_key" } }, 401);
    await write("And next", "Hello");
    await press("Send");
    await page.until(`${said}[1]?.innerText.includes("failed")`);
    expect(await page.read<boolean>("document.querySelector('dialog[open]') === null")).toBe(true);
    expect(await page.read<number>("ran")).toBe(0);
    expect(faults()).toEqual([]);
  });

  test("thinking, tool calls and hostile answers are shown and do nothing", async () => {
    const deep = Array.from({ length: 90 }, (_, depth) => `${"  ".repeat(depth)}- deep`).join("\n");
    const text = [deep, `${"> ".repeat(90)}deep`, ...hostile.small].join("\n\n");
    answer = () =>
      sseResponse([
        chunk({ reasoning_content: "Hm <b>hm</b>." }),
        chunk({ content: text }),
        chunk({
          tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "<b>w</b>", arguments: '{"a":' } }],
        }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: '"<script>pwn()</script>"}' } }] }),
        ...ending,
      ]);
    await show("#/playground?model=openai/gpt-5.4");
    await write("Your question", "Hurt me");
    await press("Send");
    await page.until(`${said}[0]?.innerText.includes("answered")`);
    await page.settle();
    expect(await page.read<string>(`${said}[0].querySelector("details").textContent`)).toBe("ThinkingHm <b>hm</b>.");
    expect(await page.read<string>(`${said}[0].innerText`)).toContain('"a": "<script>pwn()</script>"');
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    expect(await page.read<number>("ran")).toBe(0);
    expect(await page.read<string[]>("violations")).toEqual([]);
    expect(page.requests.filter((url) => !url.startsWith(troupe.url) && !url.startsWith("data:image/"))).toEqual([]);
    expect(faults()).toEqual([]);
  });

  test("the command that is shown makes the call", async () => {
    answer = () =>
      jsonResponse({
        ...JSON.parse(chunk({}).slice(6)),
        object: "chat.completion",
        choices: [{ index: 0, message: { role: "assistant", content: "By curl." }, finish_reason: "stop" }],
        usage,
      });
    for (const [model, field] of [
      ["acme/help", "variables"],
      ["openai/gpt-5.4", "temperature"],
    ] as const) {
      await show(`#/playground?model=${model}`);
      await page.until(model === "acme/help" ? labelled("language") : `!${labelled("language")}`);
      await write("Your question", 'It\'s me: "$HOME"\n`x`');
      const shown = "document.querySelector('.code[aria-label=\"The call\"]')?.innerText";
      await page.until(`${shown}?.includes(${JSON.stringify(field)}) && ${shown}.includes("It'")`);
      const command = await page.read<string>(shown);
      expect(command).toContain("$TROUPE_KEY");
      const ran = Bun.spawn(["sh", "-c", command], { env: { ...process.env, TROUPE_KEY: troupe.key } });
      expect(await new Response(ran.stdout).text()).toContain("By curl.");
      expect(JSON.stringify(asked.at(-1))).toContain(JSON.stringify('It\'s me: "$HOME"\n`x`'));
    }
    expect(faults()).toEqual([]);
  });
});
