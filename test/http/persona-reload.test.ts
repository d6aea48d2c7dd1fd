/** Reloads of a large folder while streams run: each call ends as the version says that it began with. */
import { expect, test } from "bun:test";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { contentOf } from "../../src/personas/persona.ts";
import { dataIn } from "../helpers/chat-stream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { Random } from "../helpers/random.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const count = 500;
const streams = 200;
const ids = Array.from({ length: count }, (_, at) => `acme/p${at}`);
const turn = () => new Promise((resolve) => setImmediate(resolve));

type Sent = { model: string; messages: { content: string }[] };

test("500 personas with includes reload at random moments while 200 streams run", async () => {
  using folder = new TempFolder();
  const random = Random.fromEnvironment("TROUPE_TEST_SEED");
  for (const name of ["acme/_parts", "_shared"]) mkdirSync(folder.file(name), { recursive: true });
  const place = (path: string, text: string) => {
    writeFileSync(folder.file(`${path}.tmp`), text);
    renameSync(folder.file(`${path}.tmp`), folder.file(path));
  };
  for (const [at, id] of ids.entries()) {
    const part = at % 2 === 0 ? "_parts/even" : "_parts/odd";
    place(`${id}.yaml`, `description: Of many.\nmodel: [openai/a, openai/b]\nsystem: "${id} is of {{> ${part}}}."\n`);
  }
  const write = (generation: number) => {
    place("_shared/generation.md", `generation ${generation}\n`);
    if (generation % 3 === 0)
      place("acme/_parts/even.md", `an even kind ${generation}, {{> ../../_shared/generation}}`);
    if (generation % 3 !== 1) place("acme/_parts/odd.md", `an odd kind ${generation}, {{> ../../_shared/generation}}`);
  };
  write(0);

  const released = Promise.withResolvers<void>();
  const heard: string[] = [];
  using upstream = new UpstreamServer(async ({ json }) => {
    const { model, messages } = json as Sent;
    const [system, user] = [messages[0]!.content, messages.at(-1)!.content];
    // Some first models fail late, so that the second one is asked when all of it has changed.
    if (user === "late" && model === "a") {
      await released.promise;
      return jsonResponse({ error: { message: "busy" } }, 503);
    }
    heard.push(system);
    const held = new HeldStream();
    held.fragment(system.slice(0, 10));
    void released.promise.then(() => {
      held.fragment(system.slice(10));
      held.finish();
    });
    return held.response();
  });
  await using troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } }, personas: folder.path });
  const { services } = troupe.server;
  await services.loading;

  /** The system text of every version that was ever in service. */
  const texts = new Map<string, string>();
  const learn = () => {
    for (const persona of services.personas.list())
      texts.set(`${persona.id}@${persona.version}`, (JSON.parse(contentOf(persona)) as { system: string }).system);
  };
  learn();
  expect(texts.size).toBe(count);
  // The folder is watched too, so that there are more readings than are asked for.
  const { personas } = services;
  const replace = personas.replace.bind(personas);
  personas.replace = (...all) => {
    replace(...all);
    learn();
  };

  const calls: Promise<{ id: string; version: string | null; said: string; isWhole: boolean }>[] = [];
  const reloads: Promise<unknown>[] = [];
  const ask = async (id: string, content: string) => {
    const body = { model: id, stream: true, messages: [{ role: "user", content }] };
    const answer = await troupe.post("/v1/chat/completions", body);
    const data = dataIn(await answer.text());
    const chunks = data.slice(0, -1).map((one) => JSON.parse(one) as { choices: { delta: { content?: string } }[] });
    const said = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    return { id, version: answer.headers.get("x-troupe-persona-version"), said, isWhole: data.at(-1) === "[DONE]" };
  };
  let generation = 0;
  for (let at = 0; at < streams; at += 1) {
    calls.push(ask(random.pick(ids), at % 4 === 0 ? "late" : "now"));
    if (random.below(10) === 0) {
      generation += 1;
      write(generation);
      reloads.push(services.rereadPersonas());
    }
    if (at === streams / 2) {
      // Some streams are of before and some of behind it, however fast the machine is.
      await upstream.received(at + 1);
      generation += 1;
      write(generation);
      await services.rereadPersonas();
    }
    for (let turns = random.below(4); turns > 0; turns -= 1) await turn();
  }
  await upstream.received(streams);
  await Promise.all(reloads);
  expect(generation).toBeGreaterThan(5);

  // One more, of all of them, during which the loop turns for whatever else there is: files are taken a few at a time.
  write(3 * (generation + 1));
  const reloading = { isDone: false };
  const last = services.rereadPersonas().then(() => {
    reloading.isDone = true;
  });
  let turns = 0;
  for (; !reloading.isDone; turns += 1) await turn();
  await last;
  expect(turns).toBeGreaterThan(count / 16);
  rmSync(folder.file("acme"), { recursive: true });
  mkdirSync(folder.file("acme"));
  await services.rereadPersonas();
  expect(services.personas.list()).toEqual([]);

  released.resolve();
  const answers = await Promise.all(calls);
  expect(answers).toHaveLength(streams);
  for (const { id, version, said, isWhole } of answers) {
    expect(texts.get(`${id}@${version}`)).toBe(said);
    expect(isWhole).toBe(true);
  }
  expect(new Set(answers.map(({ said }) => /generation \d+/.exec(said)![0])).size).toBeGreaterThan(1);
  expect(heard.toSorted()).toEqual(answers.map(({ said }) => said).toSorted());
  // A pin of each outlives all of it.
  await services.personaVersions.record();
  const { id, version, said } = answers.at(-1)!;
  const pinned = await ask(`${id}@${version}`, "now");
  expect([pinned.version, pinned.said]).toEqual([version, said]);
});
