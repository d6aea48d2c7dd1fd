/**
 * The console's page of calls in a real Chromium, beside a running demonstration: how long its filters and one call take, and whether a burst of
 * calls beside the live list holds it up.
 *
 *   troupe demo --no-open --no-live --lines 1000000 --persona-count 2000
 *   bun test/bench/live-calls.ts --url http://127.0.0.1:8080 --key trp_… [--calls 10000] [--seconds 0]
 */
import { parseArgs } from "node:util";
import { ChromiumPage } from "../helpers/chromium-page.ts";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    key: { type: "string" },
    calls: { type: "string", default: "10000" },
    seconds: { type: "string", default: "0" },
  },
});
const { url = "", key = "" } = values;

const quantile = (list: readonly number[], share: number) =>
  list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] ?? 0;
const shown = (list: readonly number[]) =>
  `p50 ${quantile(list, 0.5).toFixed(0)} ms, p99 ${quantile(list, 0.99).toFixed(0)} ms, most ${Math.max(0, ...list).toFixed(0)} ms`;

async function admin<T>(method: string, path: string, body?: object): Promise<T> {
  const answer = await fetch(`${url}/admin/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

type Calls = { readonly data: readonly { readonly request_id: string }[] };

const filters = [
  ...["", "ended=refused,broken,interrupted", "min_attempt=2", "status=5xx", "error_code=overloaded_error"],
  ...["min_first_token_ms=3000", "min_total_ms=600000", "min_cost_micro_dollars=10000000"],
  ...["model=acme%2Fsupport&min_total_ms=30000", "model=nobody&min_total_ms=1", "tag=none"],
];

/** From the address to all of it, with its rows or the words that there are none. */
async function measureLists(page: ChromiumPage): Promise<void> {
  for (const query of filters) {
    const times: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      await page.read(`location.hash = "#/nowhere"`);
      await page.settle();
      times.push(
        await page.read<number>(`new Promise((resolve) => {
          const began = performance.now();
          location.hash = "#/calls?${query}";
          const ready = () => document.querySelector('[aria-label="Calls"] tbody tr') || /No call fits|None so far/.test(document.body.innerText);
          const look = () => (ready() ? resolve(performance.now() - began) : requestAnimationFrame(look));
          requestAnimationFrame(look);
        })`),
      );
    }
    console.log(`list ${query || "of all"}: ${shown(times)}`);
  }
  const { data } = await admin<Calls>("GET", "calls?min_attempt=2&limit=5");
  const times: number[] = [];
  for (const { request_id: id } of data) {
    times.push(
      await page.read<number>(`new Promise((resolve) => {
        const began = performance.now();
        location.hash = "#/calls/${id}";
        const look = () => (document.querySelector('[aria-label="Calls just before and after"]') && document.querySelector("main code")?.innerText === "${id}" ? resolve(performance.now() - began) : requestAnimationFrame(look));
        requestAnimationFrame(look);
      })`),
    );
    await page.settle();
  }
  console.log(`one call, its neighbours too: ${shown(times)}`);
}

async function measureBurst(page: ChromiumPage): Promise<void> {
  await page.read(`location.hash = "#/calls?live=1"`);
  await page.until(`document.body.innerText.includes("Live: calls appear as they end.")`);
  await page.settle();
  await page.read(`{
    globalThis.gaps = [];
    globalThis.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
    let last = performance.now();
    const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
  }`);
  const heap = () => page.read<number>("performance.memory.usedJSHeapSize");
  const before = await heap();
  const made = await admin<{ readonly key: string }>("POST", "keys", {
    ...{ name: `burst ${crypto.randomUUID()}`, tier: "enterprise", per_minute: 1_000_000, surfaces: ["gateway"] },
  });
  const total = Number(values.calls);
  const pace = (Number(values.seconds) * 1000) / total;
  const began = performance.now();
  let begun = 0;
  const caller = async () => {
    while (begun < total) {
      const at = begun++;
      const early = began + at * pace - performance.now();
      if (early > 0) await Bun.sleep(early);
      const answer = await fetch(`${url}/gateway/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${made.key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "x" }] }),
      });
      await answer.bytes();
      if (answer.status !== 200) throw new Error(`a call was answered ${answer.status}`);
    }
  };
  let isOver = false;
  const calls = Promise.all(Array.from({ length: 16 }, caller)).finally(() => {
    isOver = true;
  });
  const presses: number[] = [];
  while (!isOver) {
    const at = performance.now();
    await page.read(
      `new Promise((resolve) => { document.querySelector(".columns-choice summary").click(); requestAnimationFrame(() => setTimeout(resolve)); })`,
    );
    presses.push(performance.now() - at);
    await Bun.sleep(100);
  }
  await calls;
  const seconds = (performance.now() - began) / 1000;
  await Bun.sleep(2_000);
  const tasks = await page.read<number[]>("tasks");
  console.log(`burst of ${total} calls in ${seconds.toFixed(1)} s beside the live list`);
  console.log(`  between frames: ${shown(await page.read<number[]>("gaps"))}`);
  console.log(`  long tasks: ${tasks.length}, the longest ${Math.max(0, ...tasks).toFixed(0)} ms`);
  console.log(`  press to paint, over DevTools: ${shown(presses)}`);
  const count = (selector: string) =>
    page.read<number>(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
  console.log(
    `  rows ${await count('[aria-label="Calls"] tbody tr')}, elements ${await count("*")}, heap ${(before / 1e6).toFixed(1)} to ${((await heap()) / 1e6).toFixed(1)} MB`,
  );
}

await using page = await ChromiumPage.open();
await page.look({ width: 1280, height: 900, theme: "light" });
await page.go(`${url}/console`);
await page.until("document.querySelector('dialog[open]') && document.activeElement.type === 'password'");
await page.type(key);
await page.press("Enter");
await page.until("!document.querySelector('dialog[open]') && document.querySelector('.account')");
await page.settle();
await measureLists(page);
await measureBurst(page);
