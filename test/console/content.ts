/** Something for every page of the console to show. */
import { ledgerLine } from "../helpers/ledger-line.ts";
import type { Troupe } from "../helpers/troupe.ts";

const hour = 3_600_000;

/** Two keys with budgets, and calls of three days: finished, refused, moved to a second model, broken, and one of unknown cost. */
export async function fillConsole(troupe: Troupe): Promise<void> {
  const { store, keys } = troupe.server.services;
  const now = Date.now();
  const made = [
    await keys.create({ name: "website", tier: "pro", tags: ["shop"] }),
    await keys.create({ name: "nightly jobs", tier: "enterprise", perMinute: 500, models: ["openai/*"] }),
  ];
  const ids = made.map(({ key }) => key.id);
  await store.budgets.set({ scope: `key:${ids[0]}`, period: "month", limit: 40_000, updatedAt: now });
  await store.budgets.set({ scope: "all", period: "day", limit: 5_000_000, updatedAt: now });
  const lines = Array.from({ length: 240 }, (_, at) =>
    ledgerLine(`req_${at}`, {
      at: now - at * 0.3 * hour,
      keyId: ids[at % 2]!,
      tags: at % 2 === 0 ? ["shop"] : [],
      client: at % 3 === 0 ? "openai-python/2.1" : "curl/8.1",
      ...(at % 5 === 0 && { persona: "troupe/minutes", model: "troupe/minutes", surface: "orchestrator" as const }),
      ...(at % 17 === 0 && { cost: null, costs: null }),
      ...(at % 23 === 0 && { ended: "broken" as const, failure: "broken" as const, status: 503 }),
      ...(at % 29 === 0 && { ended: "refused" as const, failure: "rate_limit" as const, status: 429, cost: 0 }),
    }),
  );
  const second = ledgerLine("req_0", {
    attempt: 2,
    at: now,
    keyId: ids[0]!,
    provider: "anthropic",
    upstreamModel: "claude-sonnet-4-5",
  });
  await store.ledger.append([...lines, second]);
}
