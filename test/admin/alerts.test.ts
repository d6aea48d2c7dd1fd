/** The admin API's list of alerts: what is on, what was sent, and what waits for whom. */
import { expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];

type Delivery = {
  target: string | null;
  state: string;
  attempts: number;
  failure: string | null;
  next_at: string | null;
};
type Alert = { id: string; kind: string; subject: string | null; data: object; deliveries: Delivery[] };
type Alerts = {
  data: Alert[];
  active: { kind: string }[];
  counts: Record<string, number>;
  has_more: boolean;
  last_id: string | null;
};

async function asker(troupe: Troupe): Promise<(path: string) => Promise<Response>> {
  const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
  return (path) => fetch(`${troupe.url}/admin/v1/${path}`, { headers: { authorization: `Bearer ${key}` } });
}

test("without a configured address nothing is watched", async () => {
  await using troupe = await Troupe.start({ config: { listen } });
  const ask = await asker(troupe);
  expect(await (await ask("alerts")).json()).toEqual({
    object: "list",
    configured: false,
    targets: [],
    remembered_since: expect.stringMatching(/Z$/),
    counts: { delivered: 0, failed_tries: 0, lost: 0, waiting: 0 },
    active: [],
    data: [],
    has_more: false,
    last_id: null,
  });
  const wrong = await ask("alerts?limit=201");
  expect([wrong.status, await wrong.json()]).toEqual([
    400,
    { error: expect.objectContaining({ param: "limit", code: expect.any(String) }) },
  ]);
  const lost = await ask("alerts?after=alert_x");
  expect([lost.status, await lost.json()]).toEqual([404, { error: expect.objectContaining({ param: "after" }) }]);
  expect((await fetch(`${troupe.url}/admin/v1/alerts`)).status).toBe(401);
});

test("each message stands there with its deliveries, those that wait and those that are done, without an address's secret", async () => {
  const received: string[] = [];
  using takes = new UpstreamServer(({ headers }) => {
    received.push(headers.get("webhook-id")!);
    return new Response();
  });
  using fails = new UpstreamServer(() => new Response(null, { status: 500 }));
  const urls = [`${takes.url}/hook?token=hush`, `${fails.url}/secret-path`];
  await using troupe = await Troupe.start({ config: { listen, alerts: { urls, secret: "a text of some length" } } });
  const ask = await asker(troupe);
  const { budgets, ledger } = troupe.server.services.store;
  await budgets.set({ scope: "tag:team-a", period: "month", limit: 1_000_000, updatedAt: Date.now() });
  await ledger.append([ledgerLine("req_1", { at: Date.now(), tags: ["team-a"], cost: 850_000 })]);
  await troupe.server.services.budgets.load();
  let text = "";
  let found: Alerts;
  do {
    await Bun.sleep(50);
    text = await (await ask("alerts")).text();
    found = JSON.parse(text) as Alerts;
  } while (found.counts["delivered"] !== 2 || found.counts["failed_tries"] !== 2);
  for (const secret of ["hush", "secret-path", "a text of some length"]) expect(text).not.toContain(secret);
  expect(found).toMatchObject({
    configured: true,
    targets: [takes.url, fails.url],
    counts: { delivered: 2, failed_tries: 2, lost: 0, waiting: 2 },
    has_more: false,
  });
  const active = (percent: number) => ({
    cause: `budget:tag:team-a:month:${percent}`,
    kind: "budget.reached",
    subject: "tag:team-a",
    since: expect.stringMatching(/Z$/),
  });
  expect(found.active).toHaveLength(2);
  expect(found.active).toEqual(expect.arrayContaining([active(50), active(80)]));
  expect(found.data.map(({ id }) => id).toSorted()).toEqual(received.toSorted());
  for (const one of found.data) {
    expect(one).toMatchObject({
      object: "alert",
      at: expect.stringMatching(/Z$/),
      kind: "budget.reached",
      subject: "tag:team-a",
      data: { scope: "tag:team-a", period: "month", limit_dollars: 1, spent_dollars: 0.85 },
    });
    expect(one.deliveries.toSorted((a, b) => (a.state < b.state ? -1 : 1))).toEqual([
      { target: takes.url, state: "delivered", attempts: 1, failure: null, at: expect.any(String), next_at: null },
      {
        ...{ target: fails.url, state: "waiting", attempts: 1, failure: "it answered with the status 500" },
        ...{ at: expect.any(String), next_at: expect.any(String) },
      },
    ] as never);
  }
  const first = (await (await ask("alerts?limit=1")).json()) as Alerts;
  expect([first.data.length, first.has_more, first.last_id]).toEqual([1, true, first.data[0]!.id]);
  const second = (await (await ask(`alerts?limit=1&after=${first.last_id}`)).json()) as Alerts;
  expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(found.data.map(({ id }) => id));
  expect(second.has_more).toBe(false);
});
