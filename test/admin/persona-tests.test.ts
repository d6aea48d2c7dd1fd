/** The admin API's routes of personas' tests. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;

const persona = `description: Helps.
model: builtin/echo
tier: enterprise
system: Plain.
variants:
  - { name: now, weight: 90 }
  - { name: loud, weight: 10, system: Loud. }
`;
const tests = `tests:
  - description: says it again
    messages: [{ role: user, content: The sky is blue. }]
    assert: [{ type: contains, value: blue }]
  - description: says what it was not asked
    messages: [{ role: user, content: The sky is blue. }]
    assert: [{ type: contains, value: green }]
`;

async function open() {
  const folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), persona);
  writeFileSync(folder.file("acme/bare.yaml"), persona);
  writeFileSync(folder.file("acme/x.test.yaml"), tests);
  const surfaces = ["orchestrator", "gateway", "admin"] as const;
  const troupe = await Troupe.start({
    personas: folder.path,
    config: { listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces }] },
  });
  await troupe.server.services.loading;
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
  const ask = async (path: string, body?: unknown) => {
    const answer = await (body === undefined
      ? troupe.fetch(`/admin/v1${path}`, { key })
      : troupe.post(`/admin/v1${path}`, body, { key }));
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  return {
    folder,
    troupe,
    ask,
    async [Symbol.asyncDispose]() {
      await troupe[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

test("tests are listed with what a run may cost, and run as calls of the key that asks", async () => {
  await using opened = await open();
  const { folder, troupe, ask } = opened;
  const { services } = troupe.server;
  const file = folder.file("acme/x.test.yaml");
  const listed = await ask("/personas/acme/x/tests");
  expect(listed).toEqual({
    status: 200,
    json: {
      ...{ object: "persona.tests", persona: "acme/x", file, findings: [], last_run: null },
      tests: [
        { name: "says it again", line: 2, assertions: 1 },
        { name: "says what it was not asked", line: 5, assertions: 1 },
      ],
      estimate: { calls: 2, most_micro_dollars: 0, unknown_cost_calls: 0 },
    },
  });
  const run = await ask("/personas/acme/x/tests/run", {});
  const { version } = services.personas.find("acme/x")!;
  expect(run).toMatchObject({
    status: 200,
    json: {
      ...{ object: "persona.test_run", persona: "acme/x", version, variant: null },
      ...{ passed: 1, failed: 1, errors: 0, cost_micro_dollars: 0, unknown_cost_calls: 0 },
      tests: [
        { name: "says it again", verdict: "pass", reason: "", output: expect.stringContaining("blue"), runs: 1 },
        { verdict: "fail", reason: expect.stringContaining("contains") },
      ],
    },
  });
  expect((await ask("/personas/acme/x/tests")).json["last_run"]).toEqual(run.json);
  const { started_at } = run.json;
  const counts = { version, started_at, passed: 1, failed: 1, errors: 0 };
  expect((await ask("/personas?name=acme/")).json["data"]).toMatchObject([
    { id: "acme/bare", last_test_run: null },
    { id: "acme/x", last_test_run: counts },
  ]);
  const { json: usage } = await ask("/usage?by=client,persona_version,variant&persona=acme/x");
  expect(usage["data"]).toMatchObject([
    { client: "troupe-tests", persona_version: version, variant: "", calls: 2, ended: { finished: 2 } },
  ]);
  const { json: audit } = await ask("/audit?act=persona.test");
  expect(audit["data"]).toMatchObject([
    { subject: "acme/x", after: { version, variant: null, whole: true, passed: 1, failed: 1, errors: 0 } },
  ]);
  expect(services.running).toBe(0);
});

test("a part of them is run, or a variant; what can't be run is refused by its name", async () => {
  await using opened = await open();
  const { folder, ask } = opened;
  const run = (body: Json, id = "acme/x") => ask(`/personas/${id}/tests/run`, body);
  const part = await run({ names: ["says it again"], variant: "loud" });
  expect(part.json).toMatchObject({ variant: "loud", passed: 1, failed: 0, tests: [{ name: "says it again" }] });
  expect((await ask("/personas/acme/x/tests")).json["last_run"]).toBeNull();
  const paramOf = async (body: Json) => {
    const { status, json } = await run(body);
    return [status, (json["error"] as Json)["param"]];
  };
  expect(await paramOf({ names: ["none"] })).toEqual([400, "names"]);
  expect(await paramOf({ variant: "none" })).toEqual([400, "variant"]);
  expect((await run({}, "acme/bare")).status).toBe(404);
  expect((await run({}, "acme/none")).status).toBe(404);
  expect((await ask("/personas/acme/bare/tests")).json).toMatchObject({ file: null, tests: [] });
  writeFileSync(folder.file("acme/x.test.yaml"), "tests: [{ messages: 3 }]\n");
  expect((await ask("/personas/acme/x/tests")).json).toMatchObject({
    tests: [],
    findings: [{ severity: "error", line: 1 }],
  });
  expect((await run({})).status).toBe(422);
});

test("somebody whom a proxy names runs them without a key", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), persona);
  writeFileSync(folder.file("acme/x.test.yaml"), tests);
  await using troupe = await Troupe.start({
    personas: folder.path,
    config: {
      listen: [
        { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
      ],
      ...{ admin: { trustedUserHeader: "x-forwarded-user" }, trustedProxies: ["127.0.0.1"] },
    },
  });
  await troupe.server.services.loading;
  const headers = { "x-forwarded-user": "alice", "x-forwarded-for": "10.1.2.3" };
  const answer = await troupe.post("/admin/v1/personas/acme/x/tests/run", {}, { key: null, headers });
  expect([answer.status, await answer.json()]).toEqual([
    200,
    expect.objectContaining({ actor: "user:alice", passed: 1, failed: 1 }),
  ]);
  const usage = await troupe.fetch("/admin/v1/usage?by=key&persona=acme/x", { key: null, headers });
  expect(((await usage.json()) as Json)["data"]).toMatchObject([{ key: "user:alice", calls: 2 }]);
});
