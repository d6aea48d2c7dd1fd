/** Alerts as their receivers see them: what is told, how often, how it is signed, and what becomes of it when nobody takes it. */
import { expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { Alerts } from "../../../src/observability/alerts/alerts.ts";
import {
  AlertWatch,
  type StoppedVariant,
  type Watched,
  type WatchedBudget,
  type WatchedModel,
} from "../../../src/observability/alerts/watch.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import type { AlertRepository } from "../../../src/store/contract/store.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { type RecordedRequest, UpstreamServer } from "../../helpers/upstream-server.ts";

const secret = `whsec_${Buffer.from("a key of some length").toString("base64")}`;

type Received = { readonly id: string; readonly type: string; readonly data: Record<string, unknown> };

/** Who takes alerts: each is checked as Standard Webhooks says. */
class Receiver {
  readonly server: UpstreamServer;
  readonly received: Received[] = [];
  readonly tries: string[] = [];
  status = 200;

  constructor() {
    this.server = new UpstreamServer((request) => this.#take(request));
  }

  get url(): string {
    return `${this.server.url}/hook`;
  }

  get types(): string[] {
    return this.received.map(({ type }) => type);
  }

  #take({ headers, text }: RecordedRequest): Response {
    const [id, at, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
      (name) => headers.get(name)!,
    );
    const key = Buffer.from(secret.slice("whsec_".length), "base64");
    const expected = createHmac("sha256", key).update(`${id}.${at}.${text}`).digest("base64");
    expect([signature, headers.get("content-type")]).toEqual([`v1,${expected}`, "application/json"]);
    this.tries.push(id!);
    if (this.status < 300) this.received.push({ id: id!, ...(JSON.parse(text) as Omit<Received, "id">) });
    return new Response(null, { status: this.status });
  }

  [Symbol.dispose](): void {
    this.server[Symbol.dispose]();
  }
}

class Scene implements Disposable {
  readonly clock = new ManualClock();
  readonly folder = new TempFolder();
  readonly receiver = new Receiver();
  readonly store = openStore(this.folder.path);
  budgets: WatchedBudget[] = [];
  variants: StoppedVariant[] = [];
  served: string | undefined | null = null;
  retiring: WatchedModel[] = [];
  unpriced: { provider: string; model: string }[] = [];
  isPriced = false;
  ends: string | undefined;
  lag = 0;
  clockState: ReturnType<Watched["clockState"]>;
  storageError: Error | undefined;

  /** One node. @param store another store than the scene's */
  node(store: AlertRepository = this.store.alerts) {
    const alerts = new Alerts({
      store,
      clock: this.clock,
      log: silentLogger,
      settings: () => ({ urls: [this.receiver.url], secret }),
    });
    const watch = new AlertWatch(
      alerts,
      {
        budgets: async () => this.budgets,
        variants: async () => this.variants,
        servedVersion: () => this.served,
        ledgerLagSeconds: () => this.lag,
        clockState: () => this.clockState,
        retiring: () => this.retiring,
        unpriced: () => this.unpriced,
        isPriced: () => this.isPriced,
        endOf: () => this.ends,
        checkStorage: async () => {
          if (this.storageError !== undefined) throw this.storageError;
        },
      },
      this.clock,
    );
    return {
      alerts,
      watch,
      /** Looks once, as it does every five seconds. */
      look: async (ms = 0) => {
        this.clock.advance(ms);
        const next = new AlertLook(watch);
        await next.done;
      },
    };
  }

  budget(spent: number, limit = 10): void {
    this.budgets = [{ scope: "tag:a", period: "month", limit, spent, resetsAt: null }];
  }

  [Symbol.dispose](): void {
    void this.store.close();
    this.receiver[Symbol.dispose]();
    this.folder[Symbol.dispose]();
  }
}

/** A look from its beginning to its end. */
class AlertLook {
  readonly done: Promise<void>;
  constructor(watch: AlertWatch) {
    watch.start();
    this.done = watch.close();
  }
}

test("a model that is called and ends is reported once 30 days before, and when that is over", async () => {
  using scene = new Scene();
  const [first, second] = [scene.node(), scene.node()];
  const at = (days: number) => new Date(scene.clock.now() + days * 86_400_000).toISOString().slice(0, 10);
  const look = async () => {
    for (const node of [first, second]) await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }): Record<string, unknown> => ({ type, ...data }));
  };
  const retire = (ends: string | undefined) => {
    scene.ends = ends;
    scene.retiring = ends === undefined ? [] : [{ provider: "openai", model: "a/b", ends }];
  };
  const model = { provider: "openai", model: "a/b" };
  retire(at(32));
  expect(await look()).toEqual([]);
  const ends = at(29);
  retire(ends);
  expect(await look()).toEqual([{ type: "model.retiring", ...model, ends_on: ends }]);
  // Not called since a restart: it is no news that it ends.
  scene.retiring = [];
  expect(await look()).toEqual([]);
  retire(undefined);
  expect(await look()).toEqual([{ type: "model.retirement_over", ...model, ends_on: null }]);
});

test("a model that a budget refused for want of a price is reported once, and when it has one", async () => {
  using scene = new Scene();
  const [first, second] = [scene.node(), scene.node()];
  const look = async () => {
    for (const node of [first, second]) await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }): Record<string, unknown> => ({ type, ...data }));
  };
  const model = { provider: "openai", model: "a/b" };
  expect(await look()).toEqual([]);
  scene.unpriced = [model];
  expect(await look()).toEqual([{ type: "model.without_price", ...model }]);
  // Not refused since a restart: it has no price all the same.
  scene.unpriced = [];
  expect(await look()).toEqual([]);
  scene.isPriced = true;
  expect(await look()).toEqual([{ type: "model.priced", ...model }]);
  expect(await look()).toEqual([]);
});

test("a variant that stopped is reported once, by one of two nodes, and when it goes on or its persona is another", async () => {
  using scene = new Scene();
  const nodes = [scene.node(), scene.node()];
  const look = async () => {
    for (const node of nodes) await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }) => [type, data["variant"]]);
  };
  const stop = (version: string): StoppedVariant => ({
    ...{ persona: "acme/x", version, variant: "next" },
    fields: {
      persona: "acme/x",
      persona_version: version,
      variant: "next",
      reason: "error_rate",
      calls: 30,
      errors: 22,
    },
  });
  scene.variants = [stop("3f2a91c07b1e")];
  expect(await look()).toEqual([]);
  scene.served = "3f2a91c07b1e";
  expect(await look()).toEqual([["variant.stopped", "next"]]);
  expect(await look()).toEqual([]);
  nodes.push(scene.node());
  expect(await look()).toEqual([]);
  scene.variants = [];
  expect(await look()).toEqual([["variant.resumed", "next"]]);
  scene.variants = [stop("3f2a91c07b1e")];
  expect(await look()).toEqual([["variant.stopped", "next"]]);
  scene.served = "000000000000";
  expect(await look()).toEqual([["variant.replaced", "next"]]);
  // Served again by a node that has not reported it: no other does.
  scene.served = "3f2a91c07b1e";
  expect(await look()).toEqual([]);
});

test("a budget is told of once at 50, 80 and 100 %, by one of two nodes, and once when it is below again", async () => {
  using scene = new Scene();
  const nodes = [scene.node(), scene.node()];
  const look = async () => {
    for (const node of nodes) await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }) => [type, data["percent"]]);
  };
  scene.budget(4.99);
  expect(await look()).toEqual([]);
  scene.budget(5);
  expect(await look()).toEqual([["budget.reached", 50]]);
  scene.budget(6);
  expect(await look()).toEqual([]);
  scene.budget(12);
  expect(await look()).toEqual([
    ["budget.reached", 80],
    ["budget.reached", 100],
  ]);
  scene.budget(12, 20);
  expect(await look()).toEqual([
    ["budget.below", 80],
    ["budget.below", 100],
  ]);
  nodes.push(scene.node());
  expect(await look()).toEqual([]);
  scene.budgets = [];
  expect(await look()).toEqual([["budget.removed", 50]]);
});

test("what nobody takes is tried again, later and later, also by the next process, and given up in the end", async () => {
  using scene = new Scene();
  scene.receiver.status = 500;
  scene.budget(5);
  const first = scene.node();
  await first.look();
  await first.look(4_999);
  expect(scene.receiver.tries).toHaveLength(1);
  const second = scene.node();
  for (const seconds of [1, 30, 120, 600, 1_800, 3_600, 7_200, 18_000, 36_000, 50_400, 1_000_000])
    await second.look(seconds * 1_000);
  expect(scene.receiver.tries).toHaveLength(11);
  expect(new Set(scene.receiver.tries).size).toBe(1);
  expect([first.alerts.counts, second.alerts.counts]).toEqual([
    { delivered: 0, failed: 1, lost: 0 },
    { delivered: 0, failed: 10, lost: 1 },
  ]);
  expect(await scene.store.alerts.waiting()).toBe(0);
});

test("a message that was not taken is taken later, once", async () => {
  using scene = new Scene();
  scene.receiver.status = 503;
  scene.budget(5);
  const node = scene.node();
  await node.look();
  expect(node.alerts.waiting).toBe(1);
  scene.receiver.status = 204;
  await node.look(5_000);
  await node.look(600_000);
  expect(scene.receiver.types).toEqual(["budget.reached"]);
  expect([node.alerts.waiting, node.alerts.counts]).toEqual([0, { delivered: 1, failed: 1, lost: 0 }]);
});

test("a provider that fails, and a key that is refused, are told of once, and when a call succeeds again", async () => {
  using scene = new Scene();
  const [node, other] = [scene.node(), scene.node()];
  const attempted = (times: number, ended: "broken" | "refused" | "finished", status: number) => {
    for (let at = 0; at < times; at += 1)
      node.watch.attempted({ provider: "openai", ended, status, at: scene.clock.now() });
  };
  const look = async () => {
    for (const one of [node, other]) await one.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }) => [type, data]);
  };
  attempted(4, "broken", 500);
  expect(await look()).toEqual([]);
  attempted(1, "broken", 502);
  expect(await look()).toEqual([["provider.down", { provider: "openai", status: 502 }]]);
  attempted(9, "broken", 500);
  expect(await look()).toEqual([]);
  attempted(1, "finished", 200);
  expect(await look()).toEqual([["provider.up", { provider: "openai" }]]);
  attempted(2, "refused", 400);
  attempted(3, "refused", 401);
  expect(await look()).toEqual([["provider.key_refused", { provider: "openai", status: 401 }]]);
  // Another node finds it back: that is told once, and this one's failures are not told again.
  other.watch.attempted({ provider: "openai", ended: "finished", status: 200, at: scene.clock.now() });
  expect(await look()).toEqual([["provider.key_accepted", { provider: "openai" }]]);
  attempted(3, "refused", 401);
  expect(await look()).toEqual([]);
});

test("a ledger that is behind, and has caught up", async () => {
  using scene = new Scene();
  const node = scene.node();
  const typesAt = async (lag: number) => {
    scene.lag = lag;
    await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type }) => type);
  };
  expect(await typesAt(30)).toEqual([]);
  expect(await typesAt(31)).toEqual(["ledger.behind"]);
  expect(await typesAt(9)).toEqual([]);
  expect(await typesAt(0)).toEqual(["ledger.caught_up"]);
});

test("a machine whose clock is wrong, until it is right or serves no more", async () => {
  using scene = new Scene();
  const node = scene.node();
  const at = async (machine: string, aheadMs: number, machines = ["a", "b"]) => {
    scene.clockState = { machine, aheadMs, machines };
    await node.look(5_000);
    return scene.receiver.received.splice(0).map(({ type, data }) => [type, data]);
  };
  expect(await at("a", 1_999)).toEqual([]);
  expect(await at("a", -61_234)).toEqual([["clock.wrong", { machine: "a", database_ahead_seconds: -61.2 }]]);
  expect(await at("b", 0)).toEqual([]);
  expect(await at("a", 100)).toEqual([["clock.right", { machine: "a" }]]);
  expect(await at("b", 2_000)).toEqual([["clock.wrong", { machine: "b", database_ahead_seconds: 2 }]]);
  expect(await at("a", 0, ["a"])).toEqual([["clock.right", { machine: "b" }]]);
});

test("a storage that is away is told of without it, by all nodes under one id, and when it is back", async () => {
  using scene = new Scene();
  const away = new StorageError("unusable", "the database", "It is away.");
  let isAway = true;
  const flaky = new Proxy(scene.store.alerts, {
    get: (target, name: keyof AlertRepository) =>
      isAway ? () => Promise.reject(away) : (target[name] as () => unknown).bind(target),
  });
  const nodes = [scene.node(flaky), scene.node(flaky)];
  scene.storageError = away;
  for (let looks = 0; looks < 4; looks += 1) for (const node of nodes) await node.look(5_000);
  expect(scene.receiver.types).toEqual(["storage.down", "storage.down"]);
  expect(new Set(scene.receiver.tries).size).toBe(1);
  isAway = false;
  scene.storageError = undefined;
  for (const node of nodes) await node.look(5_000);
  expect(scene.receiver.types.slice(2)).toEqual(["storage.up", "storage.up"]);
  expect(new Set(scene.receiver.tries).size).toBe(2);
});

test("a server tells of its budgets and providers, after a restart too, and counts what it told", async () => {
  using receiver = new Receiver();
  using folder = new TempFolder();
  let status = 200;
  using upstream = new UpstreamServer(() =>
    Response.json(
      {
        id: "c",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1_000_000, completion_tokens: 0, total_tokens: 1_000_000 },
      },
      { status },
    ),
  );
  const clock = new ManualClock();
  const start = () =>
    Troupe.start({
      data: folder.path,
      clock,
      providers: { openai: { baseUrl: upstream.url } },
      config: {
        alerts: { urls: [receiver.url], secret },
        prices: [{ match: "*", input: 4, output: 0 }],
        budgets: {
          all: {},
          tiers: { free: {}, pro: {}, enterprise: {} },
          keys: { prepaid: 8 },
          tags: {},
          unknownPrice: "refuse",
          assumedOutputTokens: 1,
          assumedToolUses: 1,
          estimateFactor: 1,
        },
      },
    });
  const told = async (troupe: Troupe, count: number) => {
    while (receiver.received.length < count) {
      await clock.advanceSlowly(5_000);
      await troupe.server.services.ledger.flush();
    }
    return receiver.received.splice(0).map(({ type, data }) => [type, data["percent"] ?? data["provider"]]);
  };
  const ask = async (troupe: Troupe) => {
    const body = { model: "openai/m", messages: [{ role: "user", content: "hi" }] };
    await (await troupe.post("/gateway/v1/chat/completions", body)).text();
  };
  {
    await using troupe = await start();
    await ask(troupe);
    expect(await told(troupe, 1)).toEqual([["budget.reached", 50]]);
    await ask(troupe);
    expect(await told(troupe, 2)).toEqual([
      ["budget.reached", 80],
      ["budget.reached", 100],
    ]);
    // The receiver knows of a message before the sender knows that it was taken.
    const delivered = async () =>
      /^troupe_alerts_delivered_total (\d+)$/m.exec(await (await troupe.fetch("/metrics")).text())?.[1];
    while ((await delivered()) !== "3") await clock.advanceSlowly(10);
  }
  await using troupe = await start();
  status = 500;
  for (let at = 0; at < 5; at += 1) await ask(troupe);
  expect(await told(troupe, 1)).toEqual([["provider.down", "openai"]]);
});
