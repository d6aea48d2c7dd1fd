import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const asked = { messages: [{ role: "user", content: "Hi" }] };

test("while personas are read, what needs none is answered, and what needs them waits", async () => {
  await using troupe = await Troupe.start();
  await troupe.server.services.loading;
  const { promise, resolve } = Promise.withResolvers<void>();
  troupe.server.services.loading = promise;
  const answered: string[] = [];
  const status = async (name: string, answering: Promise<Response>) => {
    const response = await answering;
    answered.push(name);
    await response.text();
    return response.status;
  };
  const waiting = [
    status("list", troupe.fetch("/v1/models")),
    status("one", troupe.fetch("/v1/models/troupe/guide")),
    status("completion", troupe.post("/v1/chat/completions", { model: "troupe/guide", ...asked })),
    status("unknown", troupe.fetch("/v1/models/troupe/nobody")),
    status("health", troupe.fetch("/health")),
  ];
  for (const path of ["/healthz", "/version", "/metrics", "/gateway/v1/models"]) {
    expect(await status(path, troupe.fetch(path))).toBe(200);
  }
  const gateway = troupe.post("/gateway/v1/chat/completions", { model: "builtin/eliza", ...asked });
  expect(await status("gateway", gateway)).toBe(200);
  expect(answered).toEqual(["/healthz", "/version", "/metrics", "/gateway/v1/models", "gateway"]);
  resolve();
  expect(await Promise.all(waiting)).toEqual([200, 200, 200, 404, 200]);
});

test("a call right after the start finds every persona of the folder", async () => {
  using folder = new TempFolder();
  const names = Array.from({ length: 100 }, (_, at) => `p${String(at).padStart(2, "0")}`);
  mkdirSync(join(folder.path, "personas/a"), { recursive: true });
  for (const name of names) {
    const text = "description: d\nmodel: builtin/eliza\nsystem: You listen.\n";
    writeFileSync(join(folder.path, `personas/a/${name}.yaml`), text);
  }
  await using troupe = await Troupe.start({ personas: join(folder.path, "personas") });
  const { services } = troupe.server;
  expect(services.loading).toBeDefined();
  const [health, list, completion] = await Promise.all([
    troupe.fetch("/health"),
    troupe.fetch("/v1/models"),
    troupe.post("/v1/chat/completions", { model: "a/p99", ...asked }),
  ]);
  const { checks } = (await health.json()) as { checks: { personas: unknown } };
  expect(checks.personas).toMatchObject({ status: "ok", loaded: names.length });
  const { data } = (await list.json()) as { data: { id: string }[] };
  expect(data.map(({ id }) => id)).toEqual(names.map((name) => `a/${name}`));
  expect(completion.status).toBe(200);
  expect(services.loading).toBeUndefined();
});
