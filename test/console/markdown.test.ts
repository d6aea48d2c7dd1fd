/** What models write, shown under the console's own policy in a real browser. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { consolePolicy } from "../../src/admin/console/page.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { hostile } from "./hostile-markdown.ts";

const source = (file: string) => JSON.stringify(resolve(import.meta.dir, "../../src/console", file));
const entry = `
import { h, render } from ${JSON.stringify(Bun.resolveSync("preact", import.meta.dir))};
import ${source("style.css")};
import { Markdown } from ${source("ui/markdown.tsx")};
const out = document.getElementById("out");
globalThis.ran = 0;
globalThis.pwn = () => { ran += 1; };
globalThis.violations = [];
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) => violations.push([violatedDirective, blockedURI, sample].join(" ")));
globalThis.frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
let key = 0;
globalThis.show = (text) => { render(h(Markdown, { text, key: key += 1 }), out); };
globalThis.grow = (text) => { render(h(Markdown, { text, growing: true, key }), out); };
`;

const allowed: Readonly<Record<string, readonly string[]>> = {
  a: ["href", "target", "rel", "title"],
  img: ["src", "alt"],
  ol: ["start"],
  pre: ["tabindex", "class"],
  table: ["tabindex"],
  th: ["class"],
  td: ["class"],
  div: ["class"],
  span: ["class"],
  ...Object.fromEntries(
    "p br hr h3 h4 h5 h6 strong b em i del s sub sup kbd code blockquote ul li thead tbody tr"
      .split(" ")
      .map((name) => [name, []]),
  ),
};
const classes = ["", "markdown", "plain", "code", "end"];
/** Whatever of the answer is more than text of a few kinds. */
const odd = `(() => {
  const allowed = ${JSON.stringify(allowed)};
  const found = [];
  for (const one of document.querySelectorAll("#out *")) {
    const name = one.localName;
    if (one.namespaceURI !== "http://www.w3.org/1999/xhtml" || !Object.hasOwn(allowed, name)) { found.push(name); continue; }
    for (const { name: attribute, value } of one.attributes) if (!allowed[name].includes(attribute)) found.push(name + " " + attribute + "=" + value);
    if (!${JSON.stringify(classes)}.includes(one.className) && !/^t-[a-z-]+$/.test(one.className)) found.push("class " + one.className);
    if (name === "a" && one.hasAttribute("href") && (!/^(https?|mailto):/.test(one.href) || one.rel !== "noopener noreferrer" || one.target !== "_blank")) found.push(one.outerHTML);
    if (name === "img" && !/^data:image\\/(png|jpeg|gif|webp|avif);base64,/.test(one.getAttribute("src"))) found.push(one.outerHTML);
  }
  return found;
})()`;

describe.skipIf(!hasChromium)("Markdown in Chromium", () => {
  let folder: TempFolder;
  let server: Bun.Server<undefined>;
  let page: ChromiumPage;
  beforeAll(async () => {
    folder = new TempFolder();
    await Bun.write(folder.file("entry.ts"), entry);
    const built = await Bun.build({ entrypoints: [join(folder.path, "entry.ts")], target: "browser", minify: true });
    const textOf = async (ending: string) => await built.outputs.find(({ path }) => path.endsWith(ending))!.text();
    const [script, style] = [await textOf(".js"), await textOf(".css")];
    const headers = { "content-type": "text/html; charset=utf-8", "content-security-policy": consolePolicy };
    const html = `<!doctype html><html lang="en"><title>x</title><link rel="stylesheet" href="x.css"><link rel="icon" href="data:,"><main id="out"></main><script type="module" src="x.js"></script>`;
    server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      routes: {
        "/": () => new Response(html, { headers }),
        "/x.js": () => new Response(script, { headers: { "content-type": "text/javascript" } }),
        "/x.css": () => new Response(style, { headers: { "content-type": "text/css" } }),
      },
      fetch: () => new Response("", { status: 404 }),
    });
    page = await ChromiumPage.open();
    await page.go(server.url.href);
    await page.until("globalThis.show !== undefined");
    await page.settle();
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await server?.stop(true);
    folder?.[Symbol.dispose]();
  });
  beforeEach(() => {
    page.errors.splice(0);
    page.requests.splice(0);
  });

  const html = async (text: string) =>
    page.read<string>(
      `(async () => { show(${JSON.stringify(text)}); await frame(); return out.querySelector(".markdown").innerHTML; })()`,
    );

  /** What an answer did beside being shown. */
  const harm = async () => ({
    ran: await page.read<number>("ran"),
    violations: await page.read<string[]>("violations"),
    requests: page.requests.filter((url) => !url.startsWith("data:image/")),
    errors: page.errors,
    place: await page.read<string>("location.href"),
    title: await page.read<string>("document.title"),
  });
  const none = () => ({ ran: 0, violations: [], requests: [], errors: [], place: server.url.href, title: "x" });

  test(`${hostile.small.length} hostile answers do nothing, and leave nothing but text`, async () => {
    const faults: string[] = [];
    for (const text of hostile.small) {
      // Alone, and amid other text.
      for (const whole of [text, `Well:\n\n${text}\n\nAfter it.`]) {
        await html(whole);
        const found = await page.read<string[]>(odd);
        faults.push(...found.map((one) => `${JSON.stringify(whole)}: ${one}`));
        // What answers to a pointer or the keyboard does no more.
        await page.read(
          `for (const one of out.querySelectorAll("*")) for (const type of ["mouseover", "focus", "toggle", "animationstart", "error", "load"]) one.dispatchEvent(new Event(type))`,
        );
      }
    }
    await page.settle();
    expect(faults).toEqual([]);
    expect(await harm()).toEqual(none());
  });

  test("the same as they come, character by character", async () => {
    for (const text of hostile.small.filter((_, at) => at % 6 === 0)) {
      await page.read(
        `(async () => { const text = ${JSON.stringify(text)}; show(""); for (let at = 1; at <= text.length; at += 1) grow(text.slice(0, at)); await frame(); })()`,
      );
      expect(await page.read<string[]>(odd)).toEqual([]);
    }
    expect(await harm()).toEqual(none());
  });

  test("nothing of what takes time or room is lost, and what is longer than a part may be stands as text", async () => {
    for (const text of hostile.heavy) {
      await html(text);
      expect(await page.read<string[]>(odd)).toEqual([]);
      // What is not shown as Markdown is there as text.
      const [all, longest] = await page.read<[number, number]>(`(() => {
        const longest = Math.max(0, ...[...out.querySelectorAll(".markdown > div:not(.plain)")].map((one) => one.textContent.length));
        return [out.textContent.length, longest];
      })()`);
      expect(all > 0 || text.trim() === "" || text.startsWith("```\n")).toBe(true);
      expect(longest).toBeLessThanOrEqual(8_000);
    }
    expect(await harm()).toEqual(none());
  });

  test("no answer holds the page: what takes a tenth of a second goes on in the page's next task", async () => {
    const paragraph = `${"Some **bold** words. ".repeat(60)}\n\n`;
    const drawn = `[out.querySelectorAll(".markdown > div").length, out.querySelectorAll(".markdown > div:not(.plain)").length]`;
    // Each look at the clock is 15 ms after the last, so each part takes 15.
    const steps = await page.read<number[][]>(`(async () => {
      let ms = 0;
      performance.now = () => { ms += 15; return ms; };
      show(${JSON.stringify(paragraph.repeat(20))});
      const steps = [${drawn}];
      for (let tasks = 0; tasks < 50 && steps.at(-1)[0] !== steps.at(-1)[1]; tasks += 1) {
        await new Promise((resolve) => setTimeout(resolve));
        if (steps.at(-1)[1] !== ${drawn}[1]) steps.push(${drawn});
      }
      delete performance.now;
      return steps;
    })()`);
    expect(steps).toEqual([
      [20, 7],
      [20, 14],
      [20, 20],
    ]);
    expect(await page.read<number>(`out.querySelectorAll("strong").length`)).toBe(20 * 60);
    // Parts of 215 ms each: slow ones are Markdown until they took 600 ms more than others.
    const slow = await page.read<number[]>(`(async () => {
      let ms = 0;
      performance.now = () => { ms += 215; return ms; };
      show(${JSON.stringify(paragraph.repeat(20))});
      for (let tasks = 0; tasks < 50; tasks += 1) await new Promise((resolve) => setTimeout(resolve));
      delete performance.now;
      return ${drawn};
    })()`);
    expect(slow).toEqual([20, 4]);
    expect(await page.read<number>("out.textContent.length")).toBeGreaterThan(20 * 60 * "Some bold words. ".length);
  });

  test("an answer of 200 KB that comes bit by bit costs about as much at its end as at its beginning", async () => {
    const paragraph =
      'Some **bold** text with `code`, [a link](https://ok.example) and more.\n\n- one\n- two\n\n```json\n{"a": 1}\n```\n\n';
    const whole = paragraph.repeat(Math.ceil(200_000 / paragraph.length));
    // Nodes that are made anew, which the browser lays out and paints: the same on every machine.
    const [early, late] = await page.read<[number, number]>(`(async () => {
      const whole = ${JSON.stringify(whole)};
      const made = async (from) => {
        let nodes = 0;
        const count = (changes) => {
          for (const { addedNodes } of changes)
            for (const node of addedNodes) nodes += 1 + (node.querySelectorAll?.("*").length ?? 0);
        };
        const observer = new MutationObserver(count);
        observer.observe(out, { subtree: true, childList: true });
        for (let at = from; at < from + 50 * 40; at += 40) { grow(whole.slice(0, at)); await frame(); }
        count(observer.takeRecords());
        observer.disconnect();
        return nodes;
      };
      show("");
      grow(whole.slice(0, 4960));
      await frame();
      const early = await made(5000);
      grow(whole.slice(0, 194960));
      while (out.querySelector(".markdown > .plain") !== null) await frame();
      return [early, await made(195000)];
    })()`);
    expect(early).toBeGreaterThan(50);
    expect(late).toBeLessThan(2 * early);
    expect(await page.read<number>(`out.querySelectorAll("a").length`)).toBeGreaterThan(1_000);
  });

  test("good Markdown is shown as it is meant", async () => {
    expect(await html("# One\n\nA *b* **c** ~~d~~ `e`  \nf <kbd>g</kbd> H<sub>2</sub>O<br>x")).toBe(
      "<div><h3>One</h3>\n<p>A <em>b</em> <strong>c</strong> <del>d</del> <code>e</code><br>f <kbd>g</kbd> H<sub>2</sub>O<br>x</p>\n</div>",
    );
    expect(await html("| a | b |\n| - | -: |\n| 1 | 2 |")).toMatch(
      /<table tabindex="0">\s*<thead>\s*<tr>\s*<th>a<\/th>\s*<th class="end">b<\/th>[\s\S]*<td>1<\/td>\s*<td class="end">2<\/td>/,
    );
    expect(await html("1. a\n\n2. b\n   - c\n\n     d\n\n3. e")).toMatch(
      /^<div><ol>[\s\S]*<ul>[\s\S]*e[\s\S]*<\/ol>\s*<\/div>$/,
    );
    const item = "- an item with some more words in it, to have some length\n";
    expect(await html(item.repeat(400))).not.toContain("- an item");
    expect(await html("3. c\n- [x] done\n- [ ] open")).toMatch(/<ol start="3">[\s\S]*☑ done[\s\S]*☐ open/);
    expect(await html('```json\n{"a": 1}\n```\ntext\n```\n<b>\n\n  x\n```')).toBe(
      '<pre class="code" tabindex="0"><code><span class="t-punctuation">{</span><span class="t-property">"a"</span><span class="t-operator">:</span> <span class="t-number">1</span><span class="t-punctuation">}</span></code></pre>' +
        '<div><p>text</p>\n</div><pre class="code" tabindex="0"><code>&lt;b&gt;\n\n  x</code></pre>',
    );
    expect(await html("an unclosed one:\n````yaml\na: 1\n```\nb: 2")).toContain("<code>a: 1\n```\nb: 2</code>");
    const link = (href: string, text: string): string =>
      `<a href="${href}" target="_blank" rel="noopener noreferrer" title="${href}">${text}</a>`;
    const linked = await html(
      "[a](https://ok.example/x?a=1) <b@ok.example> https://bare.example [d][1]\n\ne\n\n[1]: https://ref.example",
    );
    for (const one of [
      ["https://ok.example/x?a=1", "a"],
      ["mailto:b@ok.example", "b@ok.example"],
      ["https://bare.example/", "https://bare.example"],
      ["https://ref.example/", "d"],
    ] as const)
      expect(linked).toContain(link(one[0], one[1]));
    const pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
    expect(await html(`![own](${pixel})`)).toContain(`<img src="${pixel}" alt="own">`);
    expect(await html("![a cat](https://far.example/cat.png)")).toContain(
      link("https://far.example/cat.png", "[picture: a cat, at far.example]"),
    );
    expect(await html("2 < 3 & 4 > 1; a_b_c; <think>hm</think>")).toContain(
      "2 &lt; 3 &amp; 4 &gt; 1; a_b_c; &lt;think&gt;hm&lt;/think&gt;",
    );
    expect(await harm()).toEqual(none());
  });
});
