/** The admin API's routes of variants. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { attemptVariant } from "../../src/usage/variants/stops.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const file = `description: Helps.
model: builtin/echo
system: Plain.
variants:
  - name: now
    weight: 50
  - name: next
    weight: 50
    until: { calls: 100, refusals: 0.05 }
`;

test("variants are listed with their numbers, and a stopped one is resumed", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), file);
  await using troupe = await Troupe.start({
    personas: folder.path,
    config: {
      listen: [
        { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
      ],
    },
  });
  const { services } = troupe.server;
  await services.loading;
  const { secret: key } = await services.keys.create({
    name: "admin",
    tier: "pro",
    perMinute: 1_000,
    surfaces: ["admin"],
  });
  const ask = async (path: string, method = "GET") => {
    const answer = await troupe.fetch(`/admin/v1/personas/${path}`, { key, method });
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
  };
  const persona = services.personas.find("acme/x")!;
  const { calls } = attemptVariant(persona, persona.variants![1]!);
  const lines = Array.from({ length: 14 }, (_, at) =>
    ledgerLine(`req_${at + 10}`, {
      at: services.clock.now(),
      persona: "acme/x",
      variant: "next",
      variantCall: calls!.refused,
    }),
  );
  await services.store.ledger.append(lines);
  expect(await ask("acme/x/variants")).toEqual({
    status: 200,
    json: {
      ...{ object: "list", persona: "acme/x", version: persona.version },
      data: [
        expect.objectContaining({ object: "persona.variant", name: "now", share: 0.5, state: "serving", window: null }),
        expect.objectContaining({
          ...{ name: "next", state: "stopped", reason: "refusals", stopped_at: expect.any(String), calls: 14 },
          window: expect.objectContaining({ calls: 14, of: 100, refusals: { count: 14, stops_at: 14, others: 0 } }),
        }),
      ],
    },
  });
  const stoppedOnes = async () => {
    const answer = await troupe.fetch("/admin/v1/personas?stopped=true", { key });
    return ((await answer.json()) as { data: object[] }).data;
  };
  expect(await stoppedOnes()).toEqual([expect.objectContaining({ id: "acme/x", stopped_variants: ["next"] })]);
  expect((await ask("acme/x/variants?since=never")).status).toBe(400);
  expect((await ask("acme/none/variants")).status).toBe(404);
  expect((await ask("acme/x/variants/now/resume", "POST")).status).toBe(404);
  expect(await ask("acme/x/variants/next/resume", "POST")).toEqual({
    status: 200,
    json: { object: "persona.variant.resumed", persona: "acme/x", variant: "next", resumed: true },
  });
  expect(await services.store.variants.stopped()).toEqual([]);
  expect(await stoppedOnes()).toEqual([]);
  const page = { before: null, limit: 5, actor: null, act: "variant.resume", subject: null };
  expect(await services.store.audit.list(page)).toMatchObject([{ subject: "acme/x next" }]);
});

test("a variant is stopped by hand, and one gets all callers, until they are resumed", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), `${file}  - { name: third, weight: 1 }\n`);
  await using troupe = await Troupe.start({
    personas: folder.path,
    config: {
      listen: [
        { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
      ],
    },
  });
  const { services } = troupe.server;
  await services.loading;
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 1_000, surfaces: ["admin"] });
  const act = async (path: string) => {
    const answer = await troupe.fetch(`/admin/v1/personas/acme/${path}`, { key, method: "POST" });
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
  };
  const { version } = services.personas.find("acme/x")!;
  const answering = async () => {
    const names = new Set<string | null>();
    for (let user = 0; user < 40; user += 1) {
      const body = { model: "acme/x", user: `u-${user}`, messages: [{ role: "user", content: "Hi" }] };
      names.add((await troupe.post("/v1/chat/completions", body)).headers.get("x-troupe-persona-variant"));
    }
    return [...names].sort();
  };
  expect(await answering()).toContain("now");
  const of = { persona: "acme/x", version };
  expect(await act("x/variants/now/stop")).toEqual({
    status: 200,
    json: { object: "persona.variant.stopped", ...of, variant: "now", serving: ["next", "third"] },
  });
  expect(await answering()).not.toContain("now");
  expect((await act("x/variants/now/stop")).status).toBe(404);
  expect((await act("x/variants/none/stop")).json).toMatchObject({ error: { code: "not_found", param: "variant" } });
  expect((await act("none/variants/now/promote")).status).toBe(404);
  expect(await act("x/variants/now/promote")).toEqual({
    status: 200,
    json: { object: "persona.variant.promoted", ...of, variant: "now", stopped: ["next", "third"], resumed: true },
  });
  expect(await answering()).toEqual(["now"]);
  expect((await act("x/variants/now/stop")).json).toMatchObject({ serving: [] });
  expect(await answering()).toEqual([null]);
  expect(await services.store.variants.stopped()).toMatchObject(
    ["next", "now", "third"].map((variant) => ({ variant, reason: "operator" })),
  );
  for (const name of ["now", "next", "third"]) expect((await act(`x/variants/${name}/resume`)).status).toBe(200);
  expect((await answering()).length).toBeGreaterThan(1);
});
