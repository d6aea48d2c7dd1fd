/** The console's page of personas, in a real browser. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { menuItem, rowMenu } from "./elements.ts";

const text = "# Ours.\ndescription: Helps.\nmodel: builtin/echo\nsystem: |\n  You are plain.\n";
const button = (name: string) =>
  `[...document.querySelectorAll("main button")].find((one) => one.innerText === "${name}")`;
const editor = "document.querySelector('.editor textarea')";
const main = "document.querySelector('main').innerText";

describe.skipIf(!hasChromium)("personas in Chromium", () => {
  let folder: TempFolder;
  let troupe: Troupe;
  let page: ChromiumPage;
  const file = () => folder.file("acme/support.yaml");
  beforeAll(async () => {
    folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    writeFileSync(file(), text);
    const asserted = "messages: [{ role: user, content: blue }], assert: [{ type: contains, value:";
    writeFileSync(
      folder.file("acme/support.test.yaml"),
      `tests: [{ description: agrees, ${asserted} blue }] }, { description: differs, ${asserted} green }] }]\n`,
    );
    writeFileSync(
      folder.file("acme/canary.yaml"),
      `${text}variants: [{ name: now, weight: 9 }, { name: next, weight: 1 }]\n`,
    );
    for (let at = 0; at < 150; at += 1) writeFileSync(folder.file(`acme/p${at}.yaml`), text);
    const surfaces = ["orchestrator", "gateway", "admin"] as const;
    troupe = await Troupe.start({
      personas: folder.path,
      config: {
        listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }],
        console: { write: true },
      },
    });
    const { services } = troupe.server;
    await services.loading;
    await services.personaVersions.record();
    const version = services.personas.find("acme/support")!.version;
    const asked = { at: services.clock.now(), persona: "acme/support", ended: "finished", totalMs: 900 } as const;
    await services.store.ledger.append([
      ledgerLine("req_1", { ...asked, personaVersion: version, model: "acme/support", firstTokenMs: 250 }),
      ledgerLine("req_2", { ...asked, personaVersion: "0123456789ab", model: "acme/support@0123456789ab" }),
    ]);
    const key = await troupe.createKey({ name: "ops", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console#/personas`);
    await page.until("document.activeElement.type === 'password'");
    await page.type(key);
    await page.press("Enter");
    await page.until(`${main}.includes("acme/p0")`);
    page.errors.splice(0);
  });
  afterAll(async () => {
    await page[Symbol.asyncDispose]();
    await troupe[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));

  /** Refusals are in the browser's log, and are what some of these tests are about. */
  const faults = () => page.errors.filter((one) => !one.includes("status of 4"));
  const show = async (address: string) => void (await page.read(`location.hash = ${JSON.stringify(address)}`));
  const write = (next: string) => page.write(editor, next);

  test("the list is filtered by its address, and a persona shows what is live", async () => {
    await show("#/personas?search=supp");
    await page.until(`document.querySelectorAll("tbody tr").length === 1`);
    await page.click(`document.querySelector("tbody a")`);
    await page.until(`${main}.includes("You are plain.")`);
    expect(await page.read<string>("location.hash")).toBe("#/personas/acme%2Fsupport");
    expect(faults()).toEqual([]);
  });

  test("a fault is shown at its line and keeps the text from being saved; what is mended is saved and served", async () => {
    await show("#/personas/acme%2Fsupport/source");
    await page.until(`${editor}?.value.startsWith("# Ours.")`);
    await write(text.replace("builtin/echo", "bultin/echo"));
    await page.until(`document.querySelectorAll(".editor .line")[2]?.classList.contains("bad")`);
    expect(await page.read<string>(`document.querySelector(".findings").innerText`)).toContain(
      "did you mean 'builtin'?",
    );
    expect(await page.read<boolean>(`${button("Save")}.disabled`)).toBe(true);
    await page.click(`document.querySelector(".findings button")`);
    await page.until(`document.activeElement === ${editor} && ${editor}.selectionStart === ${text.indexOf("builtin")}`);
    // What is not saved outlives the page.
    await show("#/keys");
    await page.until(`!${editor}`);
    await show("#/personas/acme%2Fsupport/source");
    await page.until(`${editor}?.value.includes("bultin/echo")`);
    await write(text.replace("plain", "kind"));
    await page.until(`${button("Save")}?.disabled === false && !document.querySelector(".editor .line.bad")`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("Saved, and served as")`);
    expect(readFileSync(file(), "utf8")).toBe(text.replace("plain", "kind"));
    const { personas, personaVersions } = troupe.server.services;
    await personaVersions.record();
    await page.go(`${troupe.url}/console#/personas/acme%2Fsupport/versions`);
    await page.read("location.reload()");
    await page.until(`document.querySelector(".diff .added")?.innerText.includes("You are kind.")`);
    expect(await page.read<string>(`document.querySelector(".diff .removed").innerText`)).toContain("You are plain.");
    expect(await page.read<string>(main)).toContain(personas.find("acme/support")!.version);
    expect(faults()).toEqual([]);
  });

  test("the text is edited by mouse and keyboard, at the place that was clicked", async () => {
    for (const look of [
      { width: 1440, height: 900, theme: "light" as const },
      { width: 360, height: 740, theme: "light" as const },
    ]) {
      await page.look(look);
      await show("#/personas");
      await page.until(`!${editor}`);
      await show("#/personas/acme%2Fsupport/source");
      await page.until(`${editor}?.value.includes("kind")`);
      const before = await page.read<string>(`${editor}.value`);
      await page.read(`document.activeElement?.blur()`);
      // The first line is a comment: behind its end.
      const lineHeight = await page.read<number>(
        `document.querySelector(".editor .line").getBoundingClientRect().height`,
      );
      await page.click(editor, { x: 300, y: lineHeight });
      await page.until(`document.activeElement === ${editor}`);
      for (const letter of "xyz") await page.pressLetter(letter);
      const firstLine = before.split("\n")[0]!;
      await page.until(`${editor}.value === ${JSON.stringify(before.replace(firstLine, `${firstLine}xyz`))}`);
      await page.click(button("Undo all changes"));
      await page.until(`${editor}.value === ${JSON.stringify(before)}`);
    }
    await page.look({ width: 1440, height: 900, theme: "light" });
    expect(faults()).toEqual([]);
  });

  test("who saves after somebody else loses no text, and overwrites none unseen", async () => {
    await show("#/personas/acme%2Fsupport/source");
    await page.until(`${editor}?.value.includes("kind")`);
    const theirs = text.replace("plain", "theirs");
    writeFileSync(file(), theirs);
    await write(text.replace("plain", "mine"));
    await page.until(`${button("Save")}?.disabled === false`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("The file has changed since you began")`);
    expect(await page.read<string>(`document.querySelector(".diff .added").innerText`)).toContain("theirs");
    expect([await page.read<string>(`${editor}.value`), readFileSync(file(), "utf8")]).toEqual([
      text.replace("plain", "mine"),
      theirs,
    ]);
    await page.click(button("Go on with my text, in place of theirs"));
    await page.until(`${button("Save")}?.disabled === false`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("Saved, and served as")`);
    expect(readFileSync(file(), "utf8")).toBe(text.replace("plain", "mine"));
    expect(faults()).toEqual([]);
  });

  test("numbers stand by version, and old pins before other callers", async () => {
    await show("#/personas/acme%2Fsupport/numbers");
    await page.until(`${main}.includes("0123456789ab") && ${main}.includes("250 ms")`);
    await show("#/personas/acme%2Fsupport/callers");
    await page.until(`document.querySelector("tbody tr")?.innerText.includes("old pin")`);
    expect(await page.read<string>(main)).toContain("One key still asks");
    expect(faults()).toEqual([]);
  });

  test("a variant is stopped, let go on, and given all callers", async () => {
    await show("#/personas/acme%2Fcanary/numbers");
    const press = async (name: string) => {
      await page.until(`${button(name)} !== undefined && !${button(name)}.disabled`);
      await page.click(button(name));
    };
    await press("Stop next");
    await page.until(`${main}.includes("stopped by hand") && ${main}.includes("next is stopped.")`);
    await page.settle();
    await page.click(button("Undo"));
    await page.until(`!${main}.includes("stopped by hand") && ${button("Undo")} === undefined`);
    await press("Give next all callers");
    await page.until(`${main}.includes("stopped by hand") && ${main}.includes("next has all callers.")`);
    await page.settle();
    await page.click(button("Undo"));
    await page.until(`!${main}.includes("stopped by hand")`);
    expect(await troupe.server.services.store.variants.stopped()).toEqual([]);
    await press("Stop next");
    await page.until(`${main}.includes("stopped by hand")`);
    await press("Let next go on");
    await page.until(`!${main}.includes("stopped by hand")`);
    await press("Give next all callers");
    await page.until(`${main}.includes("stopped by hand")`);
    const stopped = await troupe.server.services.store.variants.stopped();
    expect(stopped.map(({ persona, variant }) => [persona, variant])).toEqual([["acme/canary", "now"]]);
    await page.until(`${button("Let now go on")} !== undefined && ${button("Give next all callers")} === undefined`);
    expect(faults()).toEqual([]);
  });

  test("tests are run, with their verdicts and reasons", async () => {
    await show("#/personas/acme%2Fsupport/tests");
    await page.until(`${main}.includes("2 calls") && ${button("Run the tests")}`);
    await page.click(button("Run the tests"));
    await page.until(`${main}.includes("1 of 2 passed")`);
    expect(await page.read<string>(`document.querySelector("tr.bad").innerText`)).toContain("contains");
    await show("#/personas?search=support");
    await page.until(`document.querySelector("tbody tr")?.innerText.includes("1 of 2 passed")`);
    expect(faults()).toEqual([]);
  });

  test("a persona's page says what is another than its label stable, and leads to the difference", async () => {
    const { services } = troupe.server;
    const first = services.personas.find("acme/p0")!.version;
    writeFileSync(folder.file("labels.yaml"), `acme/p0: { stable: "${first}" }\n`);
    writeFileSync(folder.file("acme/p0.yaml"), text.replace("builtin/echo", "builtin/eliza"));
    await services.rereadPersonas();
    await show("#/personas/acme%2Fp0");
    await page.until(`${main}.includes("asks another model first: builtin/echo → builtin/eliza")`);
    const link = `[...document.querySelectorAll("main a")].find((one) => one.innerText === "See what changed")`;
    expect(await page.read<string>(`${link}.getAttribute("href")`)).toEndWith(`/versions?from=${first}`);
    expect(faults()).toEqual([]);
    writeFileSync(folder.file("labels.yaml"), "");
    writeFileSync(folder.file("acme/p0.yaml"), text);
    await services.rereadPersonas();
  });

  test("tests are edited beside them, with faults at their lines, and two versions are tried side by side", async () => {
    const path = folder.file("acme/support.test.yaml");
    const before = readFileSync(path, "utf8");
    await show("#/personas/acme%2Fsupport/tests");
    await page.until(`${editor}?.value === ${JSON.stringify(before)}`);
    await write(before.replace("type: contains", "type: contians"));
    await page.until(`document.querySelectorAll(".editor .line")[0]?.classList.contains("bad")`);
    expect(await page.read<string>(`document.querySelector(".findings").innerText`)).toContain(
      "did you mean 'contains'?",
    );
    expect(await page.read<boolean>(`${button("Save")}.disabled`)).toBe(true);
    const next = `# Ours.\n${before.replace("value: green", "value: blue")}`;
    await write(next);
    await page.until(`${button("Save")}?.disabled === false && !document.querySelector(".editor .line.bad")`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("Saved. Run the tests")`);
    expect(readFileSync(path, "utf8")).toBe(next);
    await page.until(`${main}.includes("The persona or its tests have changed since.")`);
    await page.click(button("Run the tests"));
    await page.until(`${main}.includes("2 of 2 passed")`);
    await show("#/personas/acme%2Fp1/tests");
    await page.until(button("Write the first"));
    await page.click(button("Write the first"));
    await page.until(`${editor}?.value.includes("prompts") && ${button("Save")}?.disabled === false`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("Saved. Run the tests")`);
    expect(readFileSync(folder.file("acme/p1.test.yaml"), "utf8")).toContain("Where is my parcel?");
    await show("#/personas/acme%2Fsupport/versions");
    const link = `[...document.querySelectorAll("main a")].find((one) => one.innerText === "Ask both, side by side")`;
    await page.until(link);
    await page.click(link);
    await page.until(`document.querySelectorAll("main input[role=combobox]").length === 2`);
    const models = await page.read<string[]>(
      `[...document.querySelectorAll("main input[role=combobox]")].map((one) => one.value)`,
    );
    expect(models).toEqual([1, 2].map(() => expect.stringMatching(/^acme\/support@[0-9a-f]{12}$/)));
    expect(new Set(models).size).toBe(2);
    expect(faults()).toEqual([]);
  });

  test("a new persona is begun, mended and served", async () => {
    await show("#/personas");
    await page.until(button("New persona"));
    await page.click(button("New persona"));
    await page.until(`document.querySelector("dialog[open] input")`);
    await page.read(`document.querySelector("dialog[open] input").focus()`);
    await page.type("acme/fresh");
    await page.press("Enter");
    await page.until(button("Begin its file"));
    await page.click(button("Begin its file"));
    await page.until(`${editor}?.value.includes("You are")`);
    await write(text.replace("plain", "fresh"));
    await page.until(`${button("Save")}?.disabled === false && !document.querySelector(".editor .line.bad")`);
    await page.click(button("Save"));
    await page.until(`${main}.includes("Saved, and served as") && ${main}.includes("Helps.")`);
    expect(troupe.server.services.personas.find("acme/fresh")).toBeDefined();
    expect(faults()).toEqual([]);
  });

  test("previews of branches are listed while there are any, lead to the playground, and are dropped", async () => {
    const secret = await troupe.createKey({ name: "ci", tier: "pro", perMinute: 1000, surfaces: ["preview"] });
    const content = { description: "Helps.", model: "builtin/echo", system: "Branch." };
    const pushed = await troupe.fetch("/v1/previews/pr-12", {
      method: "PUT",
      key: secret,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ personas: [{ id: "acme/support", content }] }),
    });
    expect(pushed.status).toBe(200);
    await page.go(`${troupe.url}/console#/overview`);
    await page.go(`${troupe.url}/console#/personas`);
    await page.until(`${main}.includes("pr-12")`);
    expect(await page.read<string>(main)).toMatch(/Pushed by.*pr-12\s+acme\/support\s+ci\s/is);
    const link = "document.querySelector('main a[href*=\"pr-12\"]')";
    expect(decodeURIComponent(await page.read<string>(`${link}.href`))).toContain("model=acme/support@pr-12");
    await page.click(rowMenu("pr-12"));
    await page.click(menuItem("Drop it"));
    await page.until(`!${main}.includes("pr-12")`);
    expect(await troupe.server.services.store.previews.list(Date.now())).toEqual([]);
  });
});
