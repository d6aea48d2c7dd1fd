/** The admin API's routes of facts, and of how the ledger compared with bills. */
import { afterEach, expect, test } from "bun:test";
import type { Facts, ReconciliationList } from "../../src/api/facts.ts";
import { compiledAsOf, goBackToCompiled } from "../../src/facts/in-force.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { recordReconciled } from "../../src/operate/reconciliations.ts";
import { auditRow } from "../../src/store/contract/audit.ts";
import { dayOf, factsKeys, factsText, published, sha256 } from "../helpers/facts-files.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";

const listen = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 } as const, surfaces: ["gateway", "admin"] as const },
];

// Facts count for the whole process.
afterEach(goBackToCompiled);

async function startAsked(config: object, factsPublicKeys: readonly string[] = []) {
  const troupe = await Troupe.start({
    providers: { openai: { baseUrl: "http://127.0.0.1:9" } },
    config: { listen, ...config },
    factsKeys: factsPublicKeys,
  });
  const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
  const ask = async <T>(path: string, method = "GET") => {
    const answer = await troupe.fetch(`/admin/v1/${path}`, { key, method });
    return { status: answer.status, json: (await answer.json()) as T };
  };
  return { troupe, ask };
}

test("facts say of when they are, and which models in use have no price, are assumed or end", async () => {
  const { troupe, ask } = await startAsked({ facts: { update: "off" } });
  await using _ = troupe;
  await troupe.server.services.store.ledger.append(
    ["gpt-4o-mini", "nobody-knows", "gpt-5.4-mini"].map((upstreamModel, at) =>
      ledgerLine(`req_${at}`, { at: Date.now() - 1_000, provider: "openai", upstreamModel }),
    ),
  );
  const { json } = await ask<Facts>("facts");
  expect(json).toMatchObject({
    ...{ object: "facts", as_of: compiledAsOf, source: null, sha256: null },
    update: { mode: "off", from: null, keys: 0, awaited: null },
    last_look: { at: null, failure: null },
  });
  expect(json.models_in_use).toBeGreaterThanOrEqual(3);
  const of = (id: string) => json.models.find((one) => one.id === id);
  expect(of("openai/nobody-knows")).toEqual({
    ...{ id: "openai/nobody-knows", price: null, price_change: null, assumed: null },
    ...{ shutdown_date: null, end_state: null },
  });
  expect(of("openai/gpt-4o-mini")).toMatchObject({ shutdown_date: expect.stringMatching(/^20\d\d-/) });
  expect((await ask("facts/update", "POST")).json).toMatchObject({
    error: { code: "invalid_value", param: "facts.from" },
  });
  expect((await ask("facts/rollback", "POST")).status).toBe(404);
});

test("newer facts are taken where they are proved, and those before count again, with a line of the audit each", async () => {
  const keys = factsKeys();
  const today = dayOf(Date.now());
  const text = factsText(today);
  let files: Readonly<Record<string, string>> = { "facts.json": "{}" };
  using place = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: ({ url }) => {
      const file = files[new URL(url).pathname.slice(1)];
      return new Response(file ?? "not here", { status: file === undefined ? 404 : 200 });
    },
  });
  const from = `http://127.0.0.1:${place.port}/facts.json`;
  const { troupe, ask } = await startAsked({ facts: { update: "off", from } }, [keys.publicKey]);
  await using _ = troupe;
  const failed = await ask<{ error: { message: string } }>("facts/update", "POST");
  expect([failed.status, failed.json.error.message]).toEqual([400, expect.stringContaining("facts.json")]);
  files = published(text, keys, today, Date.now());
  const taken = await ask<Facts>("facts/update", "POST");
  expect([taken.status, taken.json.sha256, taken.json.as_of]).toEqual([200, sha256(text), today]);
  const back = await ask<Facts>("facts/rollback", "POST");
  expect([back.status, back.json.sha256, back.json.as_of]).toEqual([200, null, compiledAsOf]);
  // Who asks for them has them again.
  expect((await ask<Facts>("facts/update", "POST")).json.sha256).toBe(sha256(text));
  const acts = (await ask<{ data: { act: string; before: unknown; after: unknown }[] }>("audit")).json.data;
  const executable = { sha256: null, as_of: compiledAsOf, source: null };
  const newer = { sha256: sha256(text), as_of: today, source: expect.stringContaining("facts-") };
  expect(
    acts.filter(({ act }) => act.startsWith("facts.")).map(({ act, before, after }) => [act, before, after]),
  ).toEqual([
    ["facts.update", executable, newer],
    ["facts.rollback", newer, executable],
    ["facts.update", executable, newer],
  ]);
});

test("the last reconciliation of each account is listed, and the doctor says it", async () => {
  const { troupe, ask } = await startAsked({});
  await using _ = troupe;
  const { audit } = troupe.server.services.store;
  expect((await ask<ReconciliationList>("reconciliations")).json).toEqual({ object: "list", data: [] });
  const record = (act: Parameters<Parameters<typeof recordReconciled>[0]["record"]>[0]) =>
    audit.insert(auditRow(systemClock, "cli:ben", act));
  const days = { since: "2026-11-15", until: "2026-11-22", tolerance: 0.005 };
  const sums = (ledger: number, reported: number | null) => ({
    ledger_micro_dollars: ledger,
    reported_micro_dollars: reported,
  });
  const early = { ...days, ...sums(1, 2_000_000), within: false, rows_that_differ: 3 };
  await recordReconciled({ record }, { account: "openai", ...early });
  await recordReconciled(
    { record },
    { account: "anthropic", ...days, ...sums(5, null), within: true, rows_that_differ: 0 },
  );
  const late = { ...days, ...sums(1_000_000, 2_000_000), within: false, rows_that_differ: 4 };
  await recordReconciled({ record }, { account: "openai", ...late });
  const { data } = (await ask<ReconciliationList>("reconciliations")).json;
  expect(data.map(({ account, rows_that_differ: rows }) => [account, rows])).toEqual([
    ["openai", 4],
    ["anthropic", 0],
  ]);
  expect(data[0]).toMatchObject({ object: "reconciliation", at: expect.any(String), ...late });
  const { findings } = (await ask<{ findings: { level: string; place: string; message: string }[] }>("doctor")).json;
  expect(
    findings.filter(({ place }) => place === "bills").map(({ level, message }) => [level, message.split(";")[0]]),
  ).toEqual([
    ["warning", "openai reported $2.000000, the ledger had $1.000000, from 2026-11-15 until 2026-11-22"],
    ["ok", "anthropic reported no cost, the ledger had $0.000005, from 2026-11-15 until 2026-11-22"],
  ]);
});
