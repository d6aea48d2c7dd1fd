/** The admin API's routes of personas' versions. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;

const text = "# Ours.\ndescription: Helps.\nmodel: builtin/echo\nsystem: Plain.\n";

test("versions have their texts and labels, and their numbers are the ledger's", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), text);
  const surfaces = ["orchestrator", "gateway", "admin"] as const;
  await using troupe = await Troupe.start({
    personas: folder.path,
    config: { listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }] },
  });
  const { services } = troupe.server;
  await services.loading;
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
  const ask = async (path: string) => {
    const answer = await troupe.fetch(`/admin/v1/personas/acme/${path}`, { key });
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  const served = () => services.personas.find("acme/x")!.version;
  const first = served();
  await services.personaVersions.record();
  writeFileSync(folder.file("acme/x.yaml"), text.replace("Plain.", "Kind."));
  writeFileSync(folder.file("labels.yaml"), `acme/x: { stable: "${first}" }\n`);
  await services.rereadPersonas();
  await services.personaVersions.record();
  await services.personaVersions.record();
  const common = { object: "persona.version", persona: "acme/x" };
  const list = await ask("x/versions");
  expect([list.status, list.json["data"]]).toEqual([
    200,
    expect.arrayContaining([
      {
        ...{ ...common, id: served(), in_service: true, labels: [] },
        ...{ created_at: expect.any(String), used_at: expect.any(String) },
      },
      expect.objectContaining({ ...common, id: first, in_service: false, labels: ["stable"] }),
    ]),
  ]);
  expect(list.json["data"]).toHaveLength(2);
  expect((await ask(`x/versions/${first}`)).json).toMatchObject({
    ...{ id: first, in_service: false, source: text },
    resolved: expect.stringContaining("system: Plain."),
  });
  expect((await ask(`x/versions/${served()}`)).json).toMatchObject({ source: text.replace("Plain.", "Kind.") });
  expect((await ask("x")).json["since_stable"]).toEqual({ version: first, must_see: [] });
  const wider = text.replace("Plain.", "Kind.").replace("builtin/echo", "builtin/eliza");
  writeFileSync(folder.file("acme/x.yaml"), wider);
  await services.rereadPersonas();
  expect((await ask("x")).json["since_stable"]).toEqual({
    version: first,
    must_see: ["asks another model first: `builtin/echo` → `builtin/eliza`"],
  });
  writeFileSync(folder.file("labels.yaml"), `acme/x: { stable: "${served()}" }\n`);
  await services.rereadPersonas();
  expect((await ask("x")).json["since_stable"]).toBeNull();
  writeFileSync(folder.file("labels.yaml"), `acme/x: { stable: "${first}" }\n`);
  writeFileSync(folder.file("acme/x.yaml"), text.replace("Plain.", "Kind."));
  await services.rereadPersonas();
  expect((await ask("x/versions/000000000000")).status).toBe(404);
  expect((await ask("none/versions")).status).toBe(404);
  const at = services.clock.now();
  const lineOf = (number: number, version: string, firstTokenMs: number, more = {}) =>
    ledgerLine(`req_${number}`, {
      ...{ at, persona: "acme/x", personaVersion: version, variant: null, ended: "finished" },
      ...{ cost: 1_000, firstTokenMs, totalMs: 10 * firstTokenMs, ...more },
    });
  await services.store.ledger.append([
    ...Array.from({ length: 20 }, (_, index) => lineOf(index, first, index + 1)),
    lineOf(20, first, 500, { ended: "broken", cost: null }),
    lineOf(21, first, 0, { ended: "replayed", cost: 0 }),
    lineOf(22, served(), 7, { variant: "next" }),
  ]);
  const { json } = await ask("x/numbers?since=7d");
  expect(json).toMatchObject({ object: "list", persona: "acme/x" });
  expect((json["data"] as Json[]).toSorted((a, b) => Number(b["calls"]) - Number(a["calls"]))).toEqual([
    {
      ...{ version: first, variant: "", calls: 21, errors: 1, cost_micro_dollars: 20_000, unknown_cost_calls: 1 },
      ...{ first_token_ms: { p50: 10, p95: 19 }, total_ms: { p50: 100, p95: 190 }, timed_calls: 20 },
    },
    expect.objectContaining({ version: served(), variant: "next", calls: 1, first_token_ms: { p50: 7, p95: 7 } }),
  ]);
  expect((await ask("x/numbers?since=never")).status).toBe(400);
});
