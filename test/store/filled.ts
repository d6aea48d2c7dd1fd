/** A store with something of everything in it, for what carries or keeps all of it. */
import type { Store, Turn } from "../../src/store/contract/store.ts";
import type { VariantCall } from "../../src/store/contract/variants.ts";
import { reservationOf, settle } from "../helpers/budgeted-call.ts";
import { keyRow } from "../helpers/key-row.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Random } from "../helpers/random.ts";

export const start = 1_700_000_000_000;
const bytes = (text: string) => new TextEncoder().encode(text);

/** Of a variant that one failure stops. */
const failedCall = (at: number): VariantCall => ({
  ...{ persona: "troupe/guide", version: `v${at % 3}`, variant: "next", outcome: "failed" },
  rules: [
    { ...{ variant: "next", calls: 100, errors: 1 }, ...{ refusals: null, slow: null, slowMs: null, cost: null } },
  ],
});

/** Of every age. @param lines of the ledger */
export async function fill(store: Store, lines: number): Promise<void> {
  const random = new Random(7);
  for (let at = 0; at < 60; at += 1) {
    const id = `key_${at}`;
    await store.keys.insert(
      keyRow(id, { createdAt: start + at, name: `Zoë ${at}`, perMinute: at % 2 === 0 ? at : null }),
    );
    if (at % 3 === 0) await store.keys.revoke(id, start + 1_000);
    await store.audit.insert({
      id: `act_${at}`,
      at: start,
      actor: id,
      act: "key.create",
      subject: id,
      before: null,
      after: "{}",
    });
    const version = String(at).padStart(12, "0");
    await store.personaVersions.keep({
      id: `troupe/guide@${version}`,
      persona: "troupe/guide",
      version,
      createdAt: start,
      usedAt: start + at,
      content: '{"description":"Zoë"}',
      source: at % 2 === 0 ? null : "# Zoë",
    });
    const pushed = {
      ...{ label: `pr-${at}`, revision: `r${at}`, key: id, keyName: "Zoë", personas: "[]", content: '{"a":"Zoë"}' },
      ...{ pushedAt: start, endsAt: start + 1e9, bytes: at },
    };
    const push = {
      id: `push_${at}`,
      at: start,
      actor: id,
      act: "preview.push",
      subject: id,
      before: null,
      after: "{}",
    };
    await store.previews.put(pushed, 99, push);
    await store.reports.put(pushed, 99, { ...push, id: `report_${at}` });
    await store.testRuns.put({
      ...{ persona: `troupe/p${at}`, version, at: start + at, passed: at, failed: 1, errors: 0 },
      run: '{"tests":[{"name":"Zoë"}]}',
    });
    const label = { persona: "troupe/guide", label: `l${at}`, version, movedAt: start };
    const line = {
      id: `moved_${at}`,
      at: start,
      actor: id,
      act: "persona.label",
      subject: id,
      before: null,
      after: "{}",
    };
    await store.personaVersions.moveLabel(label, null, line);
    await store.alerts.begin(`cause_${at}`, { id: `alert_${at}`, body: "{}", at: start }, ["d"]);
    await store.facts.take({
      ...{ sha256: `${at}`, asOf: "2027-01-01", source: "Zoë", isForced: at % 2, takenAt: start + at },
      content: bytes("{}"),
    });
    await store.facts.tried(start + at, at % 2 === 0 ? null : "Zoë", start);
    await store.budgets.set({ scope: `key:${id}`, period: "day", limit: 2 ** 40 + at, updatedAt: start });
  }
  const spans = [{ scope: "all", span: "2023-11-14", limit: 1_000_000 }];
  const settled = reservationOf("settled", { at: start, amount: 100, budgets: spans });
  await store.budgets.reserve(settled);
  await settle(store, settled, 42);
  await store.budgets.reserve(
    reservationOf("of a process that was killed", { at: start, amount: 100, budgets: spans }),
  );
  const all = Array.from({ length: lines }, (_, at) =>
    ledgerLine(`req_${at}`, {
      at: start + random.below(10 * 86_400_000),
      keyId: `key_${at % 60}`,
      tags: at % 4 === 0 ? ["a", "b"] : [],
      persona: at % 5 === 0 ? "troupe/guide" : null,
      cost: at % 7 === 0 ? null : at,
      costs: null,
      ...(at % 5 === 0 && { variant: "next", variantCall: failedCall(at) }),
    }),
  );
  for (let at = 0; at < lines; at += 500) await store.ledger.append(all.slice(at, at + 500));
  for (let at = 0; at < 40; at += 1) {
    const call = { scope: "s", requestId: `r${at}`, fingerprint: "f", run: `run-${at}`, createdAt: start };
    const lease = (await store.runs.claim(call))!;
    const isStream = at % 2 === 0;
    for (let piece = 0; piece < at % 5; piece += 1)
      await store.runs.append(lease, isStream ? "{}" : null, {
        firstId: piece,
        data: bytes(`piece ${piece} of ${at}`),
      });
    if (at === 39) continue;
    await store.runs.finish(lease, {
      status: 200,
      headers: '{"a":"b"}',
      events: isStream ? 9 : null,
      bodyFrom: at % 5,
      body: bytes(`body ${at}`),
      bytes: 1_000 + at,
      expiresAt: start + at,
    });
  }
  for (let at = 0; at < 60; at += 1)
    await store.conversations.insert(turnOf(at), bytes("alone"), start + 1_000_000 + at);
  await store.conversations.markDeleted("holder", "turn_5", start);
}

export const turnOf = (at: number): Turn => ({
  id: `turn_${at}`,
  format: at % 3 === 0 ? "responses" : "chat",
  state: at % 9 === 3 ? "running" : "finished",
  parent: at % 4 === 0 ? null : `turn_${at - 1}`,
  keyHolder: "holder",
  model: "m/1",
  createdAt: start + at,
  metadata: JSON.stringify({ topic: `t${at % 3}`, odd: "\u0000 \ud800 ü" }),
  upstreamAccount: at % 2 === 0 ? "xai" : null,
  upstreamId: at % 2 === 0 ? "up" : null,
  request: bytes("request"),
  input: bytes(`input ${at}`),
  completion: new Uint8Array(at),
  shown: at % 3 === 0 ? bytes("shown") : null,
});
