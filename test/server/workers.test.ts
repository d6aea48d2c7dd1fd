import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../helpers/free-port.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";
import { type Answered, answeredBy, WorkerProcesses } from "../helpers/worker-processes.ts";

// Processes are started, by an interpreter, on machines that may do other things too.

const chat = "/gateway/v1/chat/completions";
const ask = (content: string, more: object = {}) => ({
  model: "openai/x",
  messages: [{ role: "user", content }],
  ...more,
});
const completion = (content: string) =>
  jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }] });

/** Calls until both workers have answered. */
async function untilBoth(troupe: WorkerProcesses, call: () => Promise<Answered>): Promise<Map<number, Answered>> {
  const byWorker = new Map<number, Answered>();
  for (let calls = 0; byWorker.size < 2; calls += 1) {
    if (calls === 100) throw new Error("100 connections came to one worker");
    const answered = await call();
    byWorker.set(await troupe.workerOf(answered), answered);
  }
  return byWorker;
}

const countOf = (metrics: string, line: string) => Number(new RegExp(`^${line} (\\d+)$`, "m").exec(metrics)?.[1]);
const requestsCounted = (metrics: string) =>
  countOf(
    metrics,
    'http_server_request_duration_seconds_count\\{surface="orchestrator",route="/v1/models",method="GET",status="200"\\}',
  );

describe("two workers on one port and one data folder", () => {
  test("share the calls, keys and limits, and count as one", async () => {
    using folder = new TempFolder();
    await using troupe = await WorkerProcesses.start(folder.path);
    const key = await troupe.createKey();
    expect(troupe.workers).toHaveLength(2);
    expect((await troupe.call("/v1/models", undefined, { key: troupe.firstKey })).status).toBe(200);

    const calls = await Promise.all(Array.from({ length: 39 }, () => troupe.call("/v1/models", undefined, { key })));
    expect(calls.map(({ status }) => status)).toEqual(Array(39).fill(200));
    expect(new Set(await Promise.all(calls.map((one) => troupe.workerOf(one))))).toEqual(new Set([1, 2]));
    for (const { text } of (await untilBoth(troupe, () => troupe.call("/metrics"))).values()) {
      expect(requestsCounted(text)).toBe(40);
      expect(countOf(text, "troupe_workers")).toBe(2);
      expect(text.match(/^troupe_build_info/gm)).toHaveLength(1);
      expect(text.match(/^troupe_build_info.* 1$/gm)).toHaveLength(1);
    }
    const health = JSON.parse((await troupe.call("/health")).text);
    expect(health).toMatchObject({
      status: "ok",
      checks: { workers: { status: "ok", workers: 2, running: 2, restarts: 0 } },
    });

    const free = await troupe.createKey({ tier: "free", perMinute: 10 });
    const raced = await Promise.all(
      Array.from({ length: 50 }, () => troupe.call("/v1/models", undefined, { key: free })),
    );
    const allowed = raced.filter(({ status }) => status === 200);
    const refused = raced.filter(({ status }) => status === 429);
    expect([allowed.length, refused.length]).toEqual([10, 40]);
    expect(allowed.map(({ headers }) => Number(headers.get("x-ratelimit-remaining"))).sort((a, b) => a - b)).toEqual([
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    ]);
    expect(new Set(await Promise.all(refused.map((one) => troupe.workerOf(one)))).size).toBe(2);

    await untilBoth(troupe, () => troupe.call("/v1/models", undefined, { key }));
    await troupe.withKeys((keys) => keys.revoke(key.slice(0, 12)));
    for (const { status } of (await untilBoth(troupe, () => troupe.call("/v1/models", undefined, { key }))).values()) {
      expect(status).toBe(401);
    }
    const anonymous = await Promise.all(
      Array.from({ length: 20 }, () => troupe.call("/v1/models", undefined, { key })),
    );
    // Of an address without a key each worker counts its half.
    const told = anonymous.map(({ headers }) => [
      headers.get("x-ratelimit-limit"),
      Number(headers.get("x-ratelimit-remaining")),
    ]);
    expect(new Set(told.map(([limit]) => limit))).toEqual(new Set(["300"]));
    for (const [, remaining] of told) {
      expect(remaining).toBeWithin(0, 300);
      expect(told.filter(([, other]) => other === remaining).length).toBeLessThanOrEqual(2);
    }
  });

  test("call upstream once for a service-request-id, and continue each other's conversations", async () => {
    using folder = new TempFolder();
    const asked: RecordedRequest[] = [];
    using upstream = new UpstreamServer((request) => {
      asked.push(request);
      return completion(`answer ${asked.length}`);
    });
    await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
    const key = await troupe.createKey();

    const headers = { "service-request-id": "once" };
    const raced = await Promise.all(Array.from({ length: 30 }, () => troupe.call(chat, ask("hi"), { key, headers })));
    expect(raced.map(({ status }) => status)).toEqual(Array(30).fill(200));
    expect(new Set(await Promise.all(raced.map((one) => troupe.workerOf(one))))).toEqual(new Set([1, 2]));
    expect(new Set(raced.map(({ text }) => text)).size).toBe(1);
    expect(asked.length).toBe(1);

    const first = await troupe.call(chat, ask("one", { store: true }), { key });
    const { id } = JSON.parse(first.text) as { id: string };
    const more = { store: true, previous_response_id: id };
    await untilBoth(troupe, () => troupe.call(chat, ask("two", more), { key }));
    for (const { json } of asked.slice(2)) {
      expect((json as { messages: { content: string }[] }).messages.map(({ content }) => content)).toEqual([
        "one",
        "answer 2",
        "two",
      ]);
    }
    expect(asked.length).toBeGreaterThan(3);
  });

  test("outlive one of them: it is replaced, and what was counted stays counted", async () => {
    using folder = new TempFolder();
    await using troupe = await WorkerProcesses.start(folder.path);
    const key = await troupe.createKey();
    const list = () => troupe.call("/v1/models", undefined, { key });
    await Promise.all(Array.from({ length: 20 }, list));
    await untilBoth(troupe, list);
    const before = requestsCounted((await troupe.call("/metrics")).text);
    const [killed, other] = troupe.workers as [number, number];

    troupe.signal("SIGKILL", killed);
    await troupe.line(({ message }) => message === "worker exited");
    const meanwhile = await Promise.all(Array.from({ length: 10 }, list));
    expect(meanwhile.map(({ status }) => status)).toEqual(Array(10).fill(200));
    await troupe.line(({ message }) => message === "worker restarted");
    expect(troupe.workers).toHaveLength(2);
    expect(troupe.workers).toContain(other);
    await untilBoth(troupe, list);
    // A request is counted when its last byte is out, which its client may have before.
    let text = "";
    do text = (await troupe.call("/metrics")).text;
    while (requestsCounted(text) < before + 12);
    expect(countOf(text, "troupe_worker_restarts_total")).toBe(1);

    troupe.signal("SIGTERM");
    expect(await troupe.exited).toBe(0);
  });

  test("end with their supervisor, however it ends", async () => {
    using folder = new TempFolder();
    await using troupe = await WorkerProcesses.start(folder.path);
    troupe.signal("SIGKILL");
    await troupe.allEnded;
    expect(
      troupe.lines
        .filter(({ message }) => message === "stopped")
        .map(({ worker }) => worker)
        .sort(),
    ).toEqual([1, 2]);
    // What it left behind hinders no one.
    await using next = await WorkerProcesses.start(folder.path);
    expect((await next.call("/v1/models")).status).toBe(200);
  });
});

test("each of two workers shows the calls under way of both", async () => {
  using folder = new TempFolder();
  const release = Promise.withResolvers<void>();
  using upstream = new UpstreamServer(async () => {
    await release.promise;
    return completion("ok");
  });
  await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
  const key = await troupe.createKey();
  const calls = Array.from({ length: 12 }, () => troupe.call(chat, ask("hi"), { key }));
  await upstream.received(12);
  const open = "/admin/v1/calls/open?limit=3&model=";
  const shown = (model: string) => () => troupe.call(open + model, undefined, { key: troupe.firstKey });
  for (const { text } of (await untilBoth(troupe, shown("openai%2Fx"))).values()) {
    const { data, ...counted } = JSON.parse(text) as { data: { at: string; model: string }[] };
    expect(counted as object).toEqual({
      ...{ object: "list", total: 12, has_more: true, workers: { workers: 2, answered: 2 } },
    });
    expect(data.map(({ model }) => model)).toEqual(Array(3).fill("openai/x"));
    expect(data.map(({ at }) => at)).toEqual(data.map(({ at }) => at).toSorted());
  }
  expect(JSON.parse((await shown("other")()).text)).toMatchObject({ data: [], total: 0 });
  release.resolve();
  await Promise.all(calls);
  expect(new Set(await Promise.all((await Promise.all(calls)).map((one) => troupe.workerOf(one)))).size).toBe(2);
});

test("each of two workers shows which keys rest in either of them", async () => {
  using folder = new TempFolder();
  using upstream = new UpstreamServer(({ headers }) =>
    headers.get("authorization") === "Bearer bad-key"
      ? jsonResponse({ error: { message: "no" } }, 401)
      : completion("ok"),
  );
  const provider = { strategy: "first", base_url: upstream.url, api_keys: ["bad-key", "good-key"] };
  writeFileSync(join(folder.path, "troupe.yaml"), JSON.stringify({ providers: { openai: provider } }));
  await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
  const key = await troupe.createKey();
  const shown = () => troupe.call("/admin/v1/providers", undefined, { key: troupe.firstKey });
  const restIn = async () => {
    const answers = [...(await untilBoth(troupe, shown)).values()].map(({ text }) => JSON.parse(text).data[0]);
    return answers.map(({ state, workers, keys }) => [state, workers, keys[0].rests[0]?.workers, keys[1].rests]);
  };
  const asked = { workers: 2, answered: 2 };
  const first = await troupe.call(chat, ask("hi"), { key });
  expect(first.status).toBe(200);
  expect(await restIn()).toEqual(Array(2).fill(["degraded", asked, 1, []]));
  await untilBoth(troupe, () => troupe.call(chat, ask("hi"), { key }));
  expect(await restIn()).toEqual(Array(2).fill(["degraded", asked, 2, []]));
  const one = JSON.parse((await troupe.call("/admin/v1/providers/openai", undefined, { key: troupe.firstKey })).text);
  expect(one).toMatchObject({ state: "degraded", workers: asked });
});

describe("signals", () => {
  /** Streams on both workers, each with its first fragment here. */
  async function streaming(troupe: WorkerProcesses, upstream: UpstreamServer, held: readonly HeldStream[]) {
    const key = await troupe.createKey();
    const responses = await Promise.all(
      held.map(async (one, at) => {
        const opening = troupe.open(chat, ask(String(at), { stream: true }), { key });
        await upstream.received(held.length);
        one.fragment(`first ${at}`);
        return opening;
      }),
    );
    return responses;
  }

  const heldBy = (held: readonly HeldStream[]) => (request: RecordedRequest) =>
    held[Number((request.json as { messages: { content: string }[] }).messages[0]!.content)]!.response();

  test("SIGTERM lets what runs end everywhere, also where every process gets it; SIGHUP reaches all", async () => {
    using folder = new TempFolder();
    const held = Array.from({ length: 12 }, () => new HeldStream());
    using upstream = new UpstreamServer(heldBy(held));
    await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
    troupe.signal("SIGHUP");
    for (const worker of [1, 2]) {
      await troupe.line((line) => line.message === "configuration reloaded" && line.worker === worker);
    }
    const responses = await streaming(troupe, upstream, held);
    const { workers } = troupe;

    for (const id of [...workers, troupe.id]) troupe.signal("SIGTERM", id);
    for (const worker of [1, 2]) {
      await troupe.line((line) => line.message.startsWith("draining") && line.worker === worker);
    }
    for (const one of held) {
      one.fragment(" last");
      one.finish();
    }
    const answers = await Promise.all(responses.map(async (one) => answeredBy(one, await one.text())));
    for (const { text } of answers) {
      expect(text).toContain('"content":" last"');
      expect(text).toEndWith("data: [DONE]\n\n");
    }
    expect(new Set(await Promise.all(answers.map((one) => troupe.workerOf(one))))).toEqual(new Set([1, 2]));
    expect(await troupe.exited).toBe(0);
    await troupe.allEnded;
    expect(troupe.lines.filter(({ message }) => message === "stopped").map(({ aborted }) => aborted)).toEqual([0, 0]);
  });

  test("a second one cuts it short", async () => {
    using folder = new TempFolder();
    const held = [new HeldStream()];
    using upstream = new UpstreamServer(heldBy(held));
    await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
    const [response] = await streaming(troupe, upstream, held);
    troupe.signal("SIGINT");
    await troupe.line(({ message, worker }) => message.startsWith("draining") && worker !== undefined);
    troupe.signal("SIGINT");
    expect(await troupe.exited).toBe(130);
    await response!.text().catch(() => {});
  });
});

test("an upgrade in place refuses nobody, and its limits hold among the new workers", async () => {
  using folder = new TempFolder();
  const port = String(freePort());
  const held = new HeldStream();
  using upstream = new UpstreamServer(() => held.response());
  await using troupe = WorkerProcesses.run(folder.path, {
    upstream: upstream.url,
    args: ["--workers", "2", "--port", port],
  });
  await troupe.ready;
  const key = await troupe.createKey();
  const opening = troupe.open(chat, ask("hi", { stream: true }), { key });
  await upstream.received(1);
  held.fragment("before");
  const stream = await opening;
  const from = troupe.lines.length;

  troupe.signal("SIGUSR2");
  const { process: newProcess } = await troupe.line(({ message }) => message === "upgrade: new process started", from);
  const statuses: number[] = [];
  const handedOff = troupe.line(({ message }) => message.startsWith("upgrade: handing off"), from);
  let isOver = false;
  void handedOff.then(() => {
    isOver = true;
  });
  while (!isOver) statuses.push((await troupe.call("/v1/models", undefined, { key })).status);
  const after = await Promise.all(Array.from({ length: 30 }, () => troupe.call("/v1/models", undefined, { key })));
  statuses.push(...after.map(({ status }) => status));
  expect(new Set(statuses)).toEqual(new Set([200]));
  // All count in one window.
  const remaining = after.map(({ headers }) => Number(headers.get("x-ratelimit-remaining")));
  expect(new Set(remaining).size).toBe(30);
  held.fragment(" after");
  held.finish();
  expect(await stream.text()).toContain('"content":" after"');

  troupe.signal("SIGTERM", newProcess as number);
  await troupe.line(({ message, worker }) => message === "stopped" && worker !== undefined, from);
  troupe.signal("SIGTERM");
  troupe.signal("SIGTERM");
  await troupe.allEnded;
});

test("an address that is taken starts nothing", async () => {
  using folder = new TempFolder();
  using taken = new UpstreamServer(() => new Response());
  const args = ["--workers", "2", "--port", new URL(taken.url).port];
  await using troupe = WorkerProcesses.run(folder.path, { args });
  expect(await troupe.exited).toBe(1);
  await troupe.allEnded;
  expect(troupe.lines.map(({ message }) => message)).toEqual(["could not start"]);
});
