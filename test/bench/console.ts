/**
 * The console in a real Chromium with the demonstration's data: how fast it paints and follows, and the README's pictures.
 *
 *   .ci/bun test/bench/console.ts [--lines 1000000] [--personas 2000] [--command dist/troupe]
 *   .ci/bun test/bench/console.ts --pictures docs/images
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ChromiumPage } from "../helpers/chromium-page.ts";

const { values } = parseArgs({
  options: {
    lines: { type: "string", default: "1000000" },
    personas: { type: "string", default: "2000" },
    command: { type: "string" },
    pictures: { type: "string" },
  },
});

type Shown = {
  readonly url: string;
  readonly key: string;
  readonly process: Bun.Subprocess<"ignore", "pipe", "inherit">;
};

async function startDemo(...flags: string[]): Promise<Shown> {
  const program = values.command === undefined ? [process.execPath, "src/main.ts"] : [values.command];
  const child = Bun.spawn([...program, "demo", "--no-open", ...flags], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  let text = "";
  for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    const [, url] = /Console: +(\S+)/.exec(text) ?? [];
    const [, key] = /Admin key: +(\S+)\n/.exec(text) ?? [];
    if (url !== undefined && key !== undefined) return { url, key, process: child };
  }
  throw new Error("the demonstration ended");
}

async function signIn(page: ChromiumPage, { url, key }: Shown): Promise<void> {
  await page.go(url);
  await page.until("document.querySelector('dialog[open]') && document.activeElement.type === 'password'");
  await page.type(key);
  await page.press("Enter");
  await page.until("!document.querySelector('dialog[open]') && document.querySelector('.account')");
  await page.settle();
}

const quantile = (list: readonly number[], share: number) =>
  list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))]!;
const shown = (list: readonly number[]) =>
  list.length === 0
    ? "–"
    : `p50 ${quantile(list, 0.5).toFixed(0)} ms, p95 ${quantile(list, 0.95).toFixed(0)} ms, most ${Math.max(...list).toFixed(0)} ms`;

/** First paint of a page that is opened again, as somebody does who has been there. */
async function measurePaint(page: ChromiumPage, url: string): Promise<number[]> {
  const paints: number[] = [];
  for (let round = 0; round < 12; round += 1) {
    await page.go("about:blank");
    await page.go(url);
    await page.until("performance.getEntriesByName('first-contentful-paint').length > 0");
    const paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
    paints.push(await page.read<number>(paint));
    await page.settle();
  }
  return paints;
}

const watch = `if (!globalThis.delays) {
  globalThis.delays = [];
  new PerformanceObserver((list) => delays.push(...list.getEntries().filter(({ interactionId }) => interactionId > 0).map(({ duration }) => duration)))
    .observe({ type: "event", durationThreshold: 16, buffered: true });
}`;

/** What can be pressed on each page: links of the navigation, then buttons that sort and choose, and a letter into each filter. */
async function measureInteractions(page: ChromiumPage): Promise<Readonly<Record<string, readonly number[]>>> {
  const found: Record<string, number[]> = {};
  const addresses = await page.read<string[]>(
    `[...document.querySelectorAll("nav.side ul a")].map((a) => a.getAttribute("href"))`,
  );
  const act = async (kind: string, focus: string, key?: string) => {
    await page.read(`${watch}; delays.length = 0; ${focus}.focus()`);
    if (key === undefined) await page.press("Enter");
    else await page.pressLetter(key);
    await page.read("new Promise((resolve) => setTimeout(resolve, 250))");
    // Shorter ones than 16 ms are not reported.
    found[kind] = [...(found[kind] ?? []), Math.max(16, ...(await page.read<number[]>("delays")))];
  };
  for (let round = 0; round < 3; round += 1) {
    for (const address of addresses) {
      await act("navigation", `document.querySelector('nav.side ul a[href="${address}"]')`);
      await page.settle();
      const sorts = await page.read<number>("document.querySelectorAll('main th button').length");
      for (let at = 0; at < Math.min(sorts, 4); at += 1)
        await act("sorting", `document.querySelectorAll('main th button')[${at}]`);
      const fields = `[...document.querySelectorAll("main input[type=text], main input[type=search]")].filter((one) => one.checkVisibility())`;
      const filters = await page.read<number>(`${fields}.length`);
      for (let at = 0; at < Math.min(filters, 2); at += 1) await act("typing into a filter", `${fields}[${at}]`, "a");
      await page.settle();
    }
  }
  return found;
}

/** @returns how long the slowest answer of each page took */
async function measureAnswers(page: ChromiumPage): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  const addresses = await page.read<string[]>(
    `[...document.querySelectorAll("nav.side ul a")].map((a) => a.getAttribute("href"))`,
  );
  for (const address of addresses) {
    await page.read(`performance.clearResourceTimings(); location.hash = ${JSON.stringify(address)}`);
    await page.settle();
    const slowest = `performance.getEntriesByType("resource").filter(({ name }) => !name.includes("/tail")).sort((a, b) => b.duration - a.duration).slice(0, 1).map(({ name, duration }) => Math.round(duration) + " ms (" + name.replace(/^.*\\/admin\\//, "").slice(0, 60) + ")")[0] ?? "–"`;
    found[address] = await page.read<string>(slowest);
  }
  return found;
}

async function measure(): Promise<void> {
  const began = performance.now();
  const demo = await startDemo("--lines", values.lines, "--persona-count", values.personas);
  console.log(`filled in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  await using page = await ChromiumPage.open();
  await page.look({ width: 1280, height: 800, theme: "light" });
  await signIn(page, demo);
  console.log(`first contentful paint: ${shown(await measurePaint(page, demo.url))}`);
  for (const [kind, delays] of Object.entries(await measureInteractions(page)))
    console.log(`${kind} (${delays.length} times): ${shown(delays)}`);
  for (const [address, slowest] of Object.entries(await measureAnswers(page)))
    console.log(`slowest answer of ${address}: ${slowest}`);
  demo.process.kill("SIGINT");
  await demo.process.exited;
}

async function takePictures(folder: string): Promise<void> {
  const demo = await startDemo();
  await using page = await ChromiumPage.open();
  await page.look({ width: 1280, height: 820, theme: "light" });
  await signIn(page, demo);
  mkdirSync(folder, { recursive: true });
  const take = async (name: string, address: string) => {
    await page.read(`location.hash = ${JSON.stringify(address)}`);
    await page.settle();
    await Bun.sleep(1_500);
    writeFileSync(join(folder, `${name}.png`), await page.screenshot());
  };
  await take("console-overview", "#/");
  await page.look({ width: 1280, height: 820, theme: "dark" });
  await take("console-persona", "#/personas/acme/support");
  demo.process.kill("SIGINT");
  await demo.process.exited;
}

await (values.pictures === undefined ? measure() : takePictures(values.pictures));
