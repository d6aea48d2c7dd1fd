/** What a persona's page in the console shows of branches, in a real browser: its previews, and the last report of each. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { type ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import type { Troupe } from "../helpers/troupe.ts";
import { openConsole, startWithConsole } from "./open-console.ts";

const persona = { description: "Helps.", model: "builtin/echo" };
const panel = (title: string) =>
  `[...document.querySelectorAll("main .panel")].find((one) => one.querySelector("h2").innerText === "${title}")`;
const opened = (summary: string) =>
  `[...${panel("Last report")}.querySelectorAll("summary")].find((one) => one.innerText.startsWith("${summary}"))`;

const report = (patch: string, reason: string) => ({
  against: { ref: "main", commit: "0123456789abcdef0123456789abcdef01234567" },
  personas: [
    {
      ...{
        id: "acme/support",
        change: "changed",
        before: { version: "a".repeat(12) },
        after: { version: "b".repeat(12) },
      },
      summary: ["changed", "tests passed 2 of 2 → 1 of 2"],
      must_see: ["fails 1 test that it passed before: `greets <b>`", "asks another model first: `a` → `b`"],
      ...{ patch, knowledge: [], same_tests: 1 },
      requests: [{ model: "openai/gpt-5.4", change: "changed", changes: ["messages[0]"] }],
      tests: [
        {
          ...{ name: "greets", change: "same" },
          before: { verdict: "pass", reason: "", answer: "polite. hello", cost: 0.0012, latency_ms: 53 },
          after: { verdict: "fail", reason, answer: "<img src=x onerror=pwn()>", cost: 0.0024, latency_ms: 106 },
        },
      ],
    },
  ],
});

describe.skipIf(!hasChromium)("in Chromium", () => {
  let folder: TempFolder;
  let troupe: Troupe;
  let page: ChromiumPage;
  let pusher: string;
  const put = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const init = { method: "PUT", key: pusher, headers, body: JSON.stringify(body) };
    const answer = await troupe.fetch(`/v1/previews/${path}`, init);
    expect([path, answer.status, await answer.text()]).toEqual([path, 200, expect.anything()]);
  };
  beforeAll(async () => {
    folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    for (const name of ["support", "clerk"])
      writeFileSync(folder.file(`acme/${name}.yaml`), "description: Helps.\nmodel: builtin/echo\nsystem: Served.\n");
    troupe = await startWithConsole({ personas: folder.path });
    pusher = await troupe.createKey({ name: "ci", tier: "pro", perMinute: 10_000, surfaces: ["preview"] });
    await put("pr-12", { personas: [{ id: "acme/support", content: { ...persona, system: "Reviewed." } }] });
    await put("pr-7/report", report("@@ -1 +1 @@\n-  Be polite.\n+  Be short.", "too short"));
    await put("pr-12/report", report("@@ -1 +1 @@\n-  Be polite.\n+  Be kind.", "not kind"));
    ({ page } = await openConsole(troupe, "/personas/acme%2Fsupport"));
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    folder?.[Symbol.dispose]();
  });

  test("its previews lead to the playground, beside what is in service", async () => {
    await page.until(`${panel("Previews")}?.innerText.includes("pr-12")`);
    await page.click(`${panel("Previews")}.querySelector("tbody a")`);
    await page.until(`location.hash.startsWith("#/playground")`);
    const asked = await page.read<string>("decodeURIComponent(location.hash)");
    expect(Object.fromEntries(new URLSearchParams(asked.split("?")[1]))).toEqual({
      ...{ model: "acme/support@pr-12", b: "acme/support" },
    });
    await page.read(`location.hash = "#/personas/acme%2Fclerk"`);
    await page.until(`document.querySelector("main h1").innerText === "acme/clerk" && ${panel("What is sent")}`);
    expect(await page.read<boolean>(`Boolean(${panel("Previews")} ?? ${panel("Last report")})`)).toBe(false);
    expect(page.errors).toEqual([]);
  });

  test("the last report says what must be seen first, and folds the rest; another label's is a choice away", async () => {
    await page.read(`location.hash = "#/personas/acme%2Fsupport"`);
    const text = `${panel("Last report")}?.innerText`;
    await page.until(`${text}?.includes("asks another model first: a → b")`);
    const seen = await page.read<string>(text);
    expect(seen).toContain("pr-12, by ci");
    expect(seen).toContain("fails 1 test that it passed before: greets <b>");
    expect(seen).toContain("Against main at 0123456789ab: changed · tests passed 2 of 2 → 1 of 2");
    expect(seen).not.toContain("Be kind.");
    await page.click(opened("Its content"));
    await page.until(`${panel("Last report")}.querySelector(".diff .added")?.innerText.includes("Be kind.")`);
    await page.click(opened("Tests: 1 to look at, 1 as before"));
    await page.until(`${text}.includes("polite. hello")`);
    const tests = (await page.read<string>(text)).replaceAll(/\s+/g, " ");
    expect(tests).toContain("before pass 53 ms, $0.0012 polite. hello after fail 106 ms, $0.0024 not kind <img src=x");
    expect(await page.read<number>(`${panel("Last report")}.querySelectorAll("img").length`)).toBe(0);
    await page.choose(`${panel("Last report")}.querySelector("select")`, "pr-7");
    await page.until(`${text}?.startsWith("Last report\\nof pr-7") && ${opened("Its content")}`);
    await page.click(opened("Its content"));
    await page.until(`${panel("Last report")}?.querySelector(".diff .added")?.innerText.includes("Be short.")`);
    expect(page.errors).toEqual([]);
  });
});
