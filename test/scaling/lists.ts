/**
 * Measures what long lists cost, in this process and its client together: `bun test/scaling/lists.ts`. Not part of the suite. 2,000 personas in
 * `/v1/models`, and all of them rewritten at once; the first call of a key with a million a minute; pages of 20 of 10,000 keys. A turn is
 * the most CPU for which the event loop did nothing else.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

async function measured(what: string, times: number, run: () => Promise<unknown>): Promise<void> {
  let [most, last, isDone] = [0, cpuMs(), false];
  const tick = () => {
    most = Math.max(most, cpuMs() - last);
    last = cpuMs();
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  const from = cpuMs();
  for (let time = 0; time < times; time += 1) await run();
  isDone = true;
  most = Math.max(most, cpuMs() - last);
  console.log(`${what}: ${((cpuMs() - from) / times).toFixed(2)} ms of CPU, a turn of ${most.toFixed(0)} ms at most`);
}

using folder = new TempFolder();
mkdirSync(folder.file("acme"));
const write = (generation: number) => {
  for (let at = 0; at < 2_000; at += 1)
    writeFileSync(
      folder.file(`acme/p${at}.yaml`),
      `description: Persona ${at}.\nmodel: openai/a\nsystem: "Generation ${generation}. You answer in few words."\n`,
    );
};
write(0);
const providers = { openai: { baseUrl: "http://127.0.0.1:1" } };
await using troupe = await Troupe.start({ providers, personas: folder.path });
const { services } = troupe.server;
await services.loading;
await services.personaVersions.record();

const models = (headers: Record<string, string> = {}) => troupe.fetch("/v1/models", { headers });
const tag = (await models()).headers.get("etag")!;
await measured("/healthz", 500, async () => (await troupe.fetch("/healthz")).bytes());
await measured("/v1/models of 2,000, made before", 300, async () => (await models()).bytes());
await measured("/v1/models, as the ETag says unchanged", 300, () => models({ "if-none-match": tag }));
for (const generation of [1, 2]) {
  write(generation);
  await measured("2,000 personas rewritten", 1, async () => {
    await services.rereadPersonas();
    await services.personaVersions.record();
  });
  await measured("/v1/models, made anew", 1, async () => (await models()).bytes());
}

for (const perMinute of [600, 1_000_000]) {
  const key = await troupe.createKey({ name: "wide", tier: "enterprise", perMinute });
  await measured(`the first call of a key with ${perMinute} a minute`, 1, () => troupe.fetch("/v1/models", { key }));
}

for (let at = 0; at < 10_000; at += 100)
  await Promise.all(
    Array.from({ length: 100 }, (_, place) => services.keys.create({ name: `key ${at + place}`, tier: "pro" })),
  );
const now = Date.now();
await services.store.keys.touch(new Map((await services.keys.list()).map(({ id }, at) => [id, now - at * 1_000])));
const page = { order: "desc", state: undefined, tier: undefined, surface: undefined, tag: undefined } as const;
const pages = [
  ["by age", { sort: "created_at" }],
  ["by a search", { sort: "created_at", search: "key 99" }],
  ["by last use", { sort: "last_used_at" }],
] as const;
for (const [how, query] of pages) {
  const found = () => services.keys.found({ ...page, name: undefined, search: undefined, ...query });
  await found();
  await measured(`20 of 10,000 keys ${how}`, 100, async () => services.keys.shown((await found()).slice(0, 20)));
}
