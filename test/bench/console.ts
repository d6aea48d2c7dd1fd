/**
 * The console in a real Chromium with the demonstration's data: how fast it paints and follows, and the README's pictures.
 *
 *   bun test/bench/console.ts [--lines 1000000] [--personas 2000] [--command dist/troupe]
 *   bun test/bench/console.ts --pictures docs/images
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
/** Median and longest, in milliseconds. */
const shown = (list: readonly number[]) =>
  list.length === 0 ? "–" : `${quantile(list, 0.5).toFixed(0)}, ${Math.max(...list).toFixed(0)}`;

/** Notes in the page when its heading stood there, when nothing was loading any more, long tasks, and from a press to the next paint. */
const watch = `
  globalThis.noted = {};
  globalThis.delays = [];
  globalThis.tasks = [];
  const look = () => {
    const isHeaded = document.querySelector("main h1") !== null;
    if (isHeaded) noted.heading ??= performance.now();
    if (isHeaded && document.querySelector("main .soon, dialog[open]") === null) noted.whole ??= performance.now();
    if (noted.whole === undefined) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask", buffered: true });
  new PerformanceObserver((list) => delays.push(...list.getEntries().filter(({ interactionId }) => interactionId > 0).map(({ duration }) => duration)))
    .observe({ type: "event", durationThreshold: 16, buffered: true });
`;

type Measured = Readonly<
  Record<"paint" | "heading" | "whole" | "going" | "sorting" | "typing" | "task" | "answer", number[]>
>;

const openings = 8;

/** The page's address opened anew, by somebody who has been there. */
async function measureOpening(page: ChromiumPage, url: string, found: Measured): Promise<void> {
  for (let round = 0; round < openings; round += 1) {
    await page.go("about:blank");
    await page.go(url);
    await page.until("noted.whole && performance.getEntriesByName('first-contentful-paint').length > 0");
    found.paint.push(await page.read<number>("performance.getEntriesByName('first-contentful-paint')[0].startTime"));
    found.heading.push(await page.read<number>("noted.heading"));
    found.whole.push(await page.read<number>("noted.whole"));
    await page.settle();
  }
}

/** What can be pressed: the page's link, then buttons that sort and choose, and a letter into each filter. Each from the press to the paint. */
async function measureInteractions(page: ChromiumPage, address: string, found: Measured): Promise<void> {
  const act = async (kind: "going" | "sorting" | "typing", focus: string) => {
    await page.read(`delays.length = 0; tasks.length = 0; ${focus}.focus()`);
    if (kind === "typing") await page.pressLetter("a");
    else await page.press("Enter");
    await page.read("new Promise((resolve) => setTimeout(resolve, 250))");
    // Shorter ones than 16 ms are not reported.
    found[kind].push(Math.max(16, ...(await page.read<number[]>("delays"))));
    await page.settle();
    found.task.push(...(await page.read<number[]>("tasks")));
  };
  for (let round = 0; round < 3; round += 1) {
    await page.read(`location.hash = "#/nowhere"`);
    await page.settle();
    await page.read("performance.clearResourceTimings()");
    await act("going", `document.querySelector('nav.side ul a[href="${address}"]')`);
    const took = `performance.getEntriesByType("resource").filter(({ name }) => !name.includes("/stream")).map(({ duration }) => duration)`;
    found.answer.push(...(await page.read<number[]>(took)));
    const sorts = await page.read<number>("document.querySelectorAll('main th button').length");
    for (let at = 0; at < Math.min(sorts, 4); at += 1)
      await act("sorting", `document.querySelectorAll('main th button')[${at}]`);
    const fields = `[...document.querySelectorAll("main input[type=text], main input[type=search]")].filter((one) => one.checkVisibility())`;
    const filters = await page.read<number>(`${fields}.length`);
    for (let at = 0; at < Math.min(filters, 2); at += 1) await act("typing", `${fields}[${at}]`);
  }
}

async function measure(): Promise<void> {
  const began = performance.now();
  const demo = await startDemo("--lines", values.lines, "--persona-count", values.personas);
  console.log(`filled in ${((performance.now() - began) / 1000).toFixed(1)} s; milliseconds: median, longest\n`);
  await using page = await ChromiumPage.open();
  await page.look({ width: 1280, height: 800, theme: "light" });
  await page.beforeEachPage(watch);
  await signIn(page, demo);
  const links = await page.read<[address: string, title: string][]>(
    `[...document.querySelectorAll("nav.side ul a")].map((a) => [a.getAttribute("href"), a.textContent])`,
  );
  console.log(
    "| page | first paint | heading | all of it | going there | sorting | typing | longest task | slowest answer |",
  );
  console.log(`|${" --- |".repeat(9)}`);
  for (const [address, title] of links) {
    const found: Measured = {
      paint: [],
      heading: [],
      whole: [],
      going: [],
      sorting: [],
      typing: [],
      task: [],
      answer: [],
    };
    await measureOpening(page, `${demo.url}${address}`, found);
    await measureInteractions(page, address, found);
    const { task, answer, ...times } = found;
    const most = [task, answer].map((list) =>
      Math.max(0, ...list)
        .toFixed(0)
        .replace(/^0$/, "below 50"),
    );
    console.log(`| ${[title, ...Object.values(times).map(shown), ...most].join(" | ")} |`);
  }
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
