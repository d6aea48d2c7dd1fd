import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { VariantCall } from "../../../src/store/contract/variants.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const file = `description: Helps.
model: builtin/echo
system: Plain.
variants:
  - name: now
    weight: 90
  - name: next
    weight: 10
    until: { calls: 100, error_rate: 0.05, p95_seconds: 2, cost: 0.01 }
`;

test("variants are shown with their numbers, and a stopped one is resumed with an audit line", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/x.yaml"), file);
  const shell = new Console(folder.path, { TROUPE_PERSONAS: folder.file("personas") });
  await shell.run("keys create alice");
  const none = JSON.parse((await shell.run("personas variants acme/x --json")).out);
  const version: string = none.version;
  expect(version).toMatch(/^[0-9a-f]{12}$/);
  expect(none).toMatchObject({
    persona: "acme/x",
    variants: [
      { name: "now", weight: 90, share: 0.9, state: "serving", calls: 0, window: null },
      {
        ...{ name: "next", weight: 10, share: 0.1, state: "serving", stopped_at: null, reason: null, calls: 0 },
        window: {
          ...{ calls: 0, of: 100, other_calls: 0, windows: 0 },
          errors: { count: 0, stops_at: 14, others: 0 },
          refusals: { count: 0, stops_at: null, others: 0 },
          slow: { count: 0, stops_at: 14, others: 0 },
          cost_micro_dollars: { count: 0, stops_at: 1_000_000, others: 0 },
        },
      },
    ],
  });
  const store = openStore(folder.file("data"));
  const rules = [{ variant: "next", calls: 100, errors: 14, refusals: null, slow: 14, slowMs: 2_000, cost: 1_000_000 }];
  const lineOf = (at: number, variant: string, outcome: VariantCall["outcome"]) =>
    ledgerLine(`req_${String(at).padStart(3, "0")}`, {
      ...{ at: Date.now() - 60_000, persona: "acme/x", variant, ended: outcome === "failed" ? "broken" : "finished" },
      ...{ cost: 1_000, costs: null },
      variantCall: { persona: "acme/x", version, variant, outcome, rules },
    });
  await store.ledger.append([
    ...Array.from({ length: 50 }, (_, at) => lineOf(at, "now", "answered")),
    ...Array.from({ length: 14 }, (_, at) => lineOf(100 + at, "next", "failed")),
  ]);
  await store.close();
  const { out } = await shell.run("personas variants acme/x --since 1d");
  const [head, now, next, ...rest] = out.split("\n");
  expect(head).toBe("VARIANT  SHARE   STATE    CALLS  BROKEN  COST       WINDOW     ERRORS    REFUSALS  SLOW");
  expect([now, next].map((row) => row!.split(/ {2,}/))).toEqual([
    ["now", "90.0 %", "serving", "50", "0", "$0.050000", "-", "-", "-", "-"],
    ["next", "10.0 %", "stopped", "14", "14", "$0.014000", "14 of 100", "14 of 14", "-", "0 of 14"],
  ]);
  expect(rest.join("\n")).toMatch(
    /^\nnext stopped itself at 20\S+Z by error_rate: 14 of its 14 calls failed, and 0 of the others' 50\.\nTo let it go on: troupe personas resume acme\/x next\n$/,
  );
  expect(await shell.run("personas resume acme/x now")).toMatchObject({
    code: 1,
    err: expect.stringContaining("acme/x has no variant now that is stopped"),
  });
  expect(await shell.run("personas resume acme/x next")).toMatchObject({
    code: 0,
    err: "next of acme/x goes on, with a new window.\n",
  });
  const again = JSON.parse((await shell.run("personas variants acme/x --json")).out);
  expect(again.variants[1]).toMatchObject({ state: "serving", calls: 14, window: { calls: 0, errors: { count: 0 } } });
  const reopened = openStore(folder.file("data"));
  const page = { before: null, limit: 5, actor: null, act: "variant.resume", subject: null };
  expect(await reopened.audit.list(page)).toMatchObject([
    { subject: "acme/x next", actor: expect.stringMatching(/^cli/) },
  ]);
  await reopened.close();
  writeFileSync(folder.file("personas/acme/y.yaml"), "description: d\nmodel: builtin/echo\nsystem: s\n");
  expect(await shell.run("personas variants acme/y")).toMatchObject({
    code: 1,
    err: expect.stringContaining("no variants"),
  });
});

test("a variant is stopped by hand, and one gets all callers", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/x.yaml"), `${file}  - { name: third, weight: 1 }\n`);
  const shell = new Console(folder.path, { TROUPE_PERSONAS: folder.file("personas") });
  await shell.run("keys create alice");
  const stop = "personas stop acme/x next";
  expect(await shell.run(stop)).toEqual({
    ...{ code: 0, out: "" },
    err: "next of acme/x is stopped: its callers go to now, third.\nTo let it go on: troupe personas resume acme/x next\n",
  });
  expect(await shell.run(stop)).toMatchObject({ code: 1, err: "error: next of acme/x is stopped already.\n" });
  expect((await shell.run("personas promote acme/y next")).err).toContain("There is no persona 'acme/y'");
  const promoted = await shell.run("personas promote acme/x next --json");
  expect(JSON.parse(promoted.out)).toEqual({
    ...{ persona: "acme/x", version: expect.stringMatching(/^[0-9a-f]{12}$/), variant: "next" },
    ...{ stopped: ["now", "third"], resumed: true },
  });
  expect((await shell.run("personas variants acme/x")).out).toContain("now was stopped by hand at");
  expect((await shell.run("personas stop acme/x next")).err).toContain(
    "its callers go to the persona without variants",
  );
});
