/** Versions of personas: where they are shown, pins that outlive their files, and labels. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Logger } from "../../src/lib/process/log.ts";
import { openStoreFor } from "../../src/store/open.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe, type TroupeOptions, testConfig } from "../helpers/troupe.ts";

const stack: AsyncDisposableStack[] = [];
afterEach(async () => {
  for (const one of stack.splice(0)) await one.disposeAsync();
});

const header = "x-troupe-persona-version";
const messages = [{ role: "user", content: "Hi" }];
const yaml = (system: string, rest = "") => `description: A guide.\nmodel: builtin/echo\nsystem: ${system}\n${rest}`;

async function started(files: Record<string, string>, options: TroupeOptions = {}) {
  const opened = new AsyncDisposableStack();
  stack.push(opened);
  const folder = opened.use(new TempFolder());
  const write = (written: Record<string, string>) => {
    for (const [path, text] of Object.entries(written)) {
      mkdirSync(dirname(folder.file(path)), { recursive: true });
      writeFileSync(folder.file(path), text);
    }
  };
  write(files);
  const troupe = opened.use(await Troupe.start({ personas: folder.path, ...options }));
  const { services } = troupe.server;
  await services.loading;
  await services.personaVersions.record();
  const reread = async () => {
    await services.rereadPersonas();
    await services.personaVersions.record();
  };
  return {
    troupe,
    services,
    folder,
    version: (id = "acme/guide") => services.personas.find(id)!.version,
    ask: (model: string, body: object = {}, init: Parameters<Troupe["post"]>[2] = {}) =>
      troupe.post("/v1/chat/completions", { model, messages, ...body }, init),
    change: async (written: Record<string, string>) => {
      write(written);
      await reread();
    },
    remove: async (path: string) => {
      rmSync(folder.file(path), { recursive: true });
      await reread();
    },
    /** What the call's model was sent. */
    system: (model: string) => {
      const [first] = services.personas.find(model)!.system;
      return first !== undefined && "text" in first ? first.text : undefined;
    },
    acts: async () =>
      (await services.store.audit.list({ before: null, limit: 10, actor: null, act: "persona.label", subject: null }))
        .reverse()
        .map(({ actor, subject, before, after }) => [actor, subject, before, after]),
  };
}

const logged = (lines: Record<string, unknown>[]): Logger => ({
  ...silentLogger,
  info: (_, fields = {}) => void lines.push(fields),
});

describe("the version that answers", () => {
  test("stands on whole answers and streams, errors, replays and joins; in the log, the ledger and the metrics", async () => {
    const lines: Record<string, unknown>[] = [];
    const at = await started(
      { "acme/guide.yaml": yaml("One.") },
      { log: logged(lines), config: { aliases: { guide: "acme/guide" } } },
    );
    const version = at.version();
    const headerOf = async (asking: Promise<Response>) => {
      const answer = await asking;
      await answer.text();
      return answer.headers.get(header);
    };
    expect(await headerOf(at.ask("acme/guide"))).toBe(version);
    expect(await headerOf(at.ask("guide", { stream: true }))).toBe(version);
    expect(await headerOf(at.ask("acme/nobody"))).toBeNull();
    expect(
      await headerOf(at.troupe.post("/gateway/v1/chat/completions", { model: "builtin/echo", messages })),
    ).toBeNull();
    const retried = { headers: { "service-request-id": "r1" } };
    const both = await Promise.all([
      headerOf(at.ask("acme/guide", {}, retried)),
      headerOf(at.ask("acme/guide", {}, retried)),
    ]);
    expect(both).toEqual([version, version]);
    await at.change({ "acme/guide.yaml": yaml("Two.") });
    expect(at.version()).not.toBe(version);
    expect(await headerOf(at.ask("acme/guide", {}, retried))).toBe(version);
    expect(await headerOf(at.ask("acme/guide"))).toBe(at.version());
    expect(lines.filter((line) => line["persona_version"] === version).length).toBeGreaterThanOrEqual(4);
    const { services } = at;
    await services.ledger.settleNow();
    const sums = await services.store.ledger.sums(
      { since: 0, until: Date.now() + 60_000 },
      ["persona", "persona_version"],
      { limit: 10 },
    );
    expect(Object.fromEntries(sums.map(({ group, calls }) => [group.join("@"), calls]))).toEqual({
      [`acme/guide@${version}`]: 5,
      [`acme/guide@${at.version()}`]: 1,
      "acme/nobody@": 1,
      "@": 1,
    });
    const metrics = await (await at.troupe.fetch("/metrics")).text();
    expect(metrics).toContain(
      `troupe_persona_attempts_total{persona="acme/guide",version="${version}",end="finished"} 3`,
    );
  });
});

describe("pins", () => {
  const formats: [string, (model: string) => [path: string, body: object]][] = [
    ["chat", (model) => ["/v1/chat/completions", { model, messages }]],
    ["Responses", (model) => ["/v1/responses", { model, input: "Hi" }]],
    ["Messages", (model) => ["/v1/messages", { model, messages, max_tokens: 9 }]],
    ["Gemini", (model) => [`/v1beta/models/${model}:generateContent`, { contents: [{ parts: [{ text: "Hi" }] }] }]],
    ["legacy completions", (model) => ["/v1/completions", { model, prompt: "Hi" }]],
    ["counts", (model) => ["/v1/messages/count_tokens", { model, messages }]],
  ];

  test.each(formats)("%s: answers when its file was rewritten, deleted, and after a restart", async (_, bodyOf) => {
    const at = await started({ "acme/guide.yaml": yaml("One."), "acme/other.yaml": yaml("Other.") });
    const version = at.version();
    const call = async (model: string, troupe = at.troupe) => {
      const [path, body] = bodyOf(model);
      const answer = await troupe.post(path, body);
      await answer.text();
      return [answer.status, answer.headers.get(header)];
    };
    expect(await call(`acme/guide@${version}`)).toEqual([200, version]);
    await at.change({ "acme/guide.yaml": yaml("Two.") });
    expect(await call("acme/guide")).toEqual([200, at.version()]);
    expect(await call(`acme/guide@${version}`)).toEqual([200, version]);
    expect(at.system(`acme/guide@${version}`)).toBe("One.");
    await at.remove("acme/guide.yaml");
    expect(await call("acme/guide")).toEqual([404, null]);
    expect(await call(`acme/guide@${version}`)).toEqual([200, version]);
    const [path] = bodyOf("acme/guide@0123456789ab");
    expect(path).toBeString();
    expect(await call("acme/guide@0123456789ab")).toEqual([404, null]);
    expect(await call(`acme/other@${version}`)).toEqual([404, null]);
    await using again = await Troupe.start({ personas: at.folder.path, data: at.troupe.data });
    await again.server.services.loading;
    expect(await call(`acme/guide@${version}`, again)).toEqual([200, version]);
  });

  test("are for whoever may use the persona, at the tier of the version", async () => {
    const at = await started({ "acme/guide.yaml": yaml("One.", "tier: pro\n") });
    const pro = at.version();
    await at.change({ "acme/guide.yaml": yaml("Two.") });
    const free = at.version();
    const keyOf = (models: readonly string[], tier: "free" | "pro" = "pro") =>
      at.troupe.createKey({ name: models.join(), tier, models: [...models] });
    const status = async (key: string, model: string) => (await at.ask(model, {}, { key })).status;
    const named = await keyOf(["acme/guide"]);
    expect(
      await Promise.all([
        status(named, "acme/guide"),
        status(named, `acme/guide@${pro}`),
        status(named, `acme/guide@${free}`),
      ]),
    ).toEqual([200, 200, 200]);
    const one = await keyOf([`acme/guide@${pro}`]);
    expect(
      await Promise.all([
        status(one, "acme/guide"),
        status(one, `acme/guide@${pro}`),
        status(one, `acme/guide@${free}`),
      ]),
    ).toEqual([404, 200, 404]);
    const low = await keyOf(["*"], "free");
    expect(await Promise.all([status(low, `acme/guide@${free}`), status(low, `acme/guide@${pro}`)])).toEqual([
      200, 404,
    ]);
    const other = await keyOf(["acme/other"]);
    expect(await status(other, `acme/guide@${pro}`)).toBe(404);
    const model = await at.troupe.fetch(`/v1/models/acme/guide@${pro}`);
    expect([model.status, await model.json()]).toEqual([
      200,
      expect.objectContaining({ id: `acme/guide@${pro}`, tier: "pro" }),
    ]);
    const { data } = (await (await at.troupe.fetch("/v1/models")).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["acme/guide"]);
    const listed = async (key: string, troupe = at.troupe) => {
      const { data } = (await (await troupe.fetch("/v1/models", { key })).json()) as { data: { id: string }[] };
      return data.map(({ id }) => id);
    };
    expect(await listed(one)).toEqual([`acme/guide@${pro}`]);
    expect(await listed(named)).toEqual(["acme/guide"]);
    expect(await listed(other)).toEqual([]);
  });

  test("and labels that a key is limited to are its list of models, and of tools", async () => {
    const at = await started({ "acme/guide.yaml": yaml("One."), "acme/cook.yaml": yaml("Cook.") });
    const stable = at.version();
    await at.change({
      "acme/guide.yaml": yaml("Two."),
      "labels.yaml": `acme/guide: { stable: "${stable}", next: "${stable}" }\n`,
    });
    const key = await at.troupe.createKey({ name: "stable", tier: "pro", models: ["acme/*@stable"] });
    for (const headers of [{}, { "anthropic-version": "2023-06-01" }]) {
      const { data } = (await (await at.troupe.fetch("/v1/models", { key, headers })).json()) as {
        data: { id: string }[];
      };
      expect(data.map(({ id }) => id)).toEqual(["acme/guide@stable"]);
    }
    expect((await at.ask("acme/guide@stable", {}, { key })).headers.get(header)).toBe(stable);
    expect((await at.ask("acme/guide", {}, { key })).status).toBe(404);
    const both = await at.troupe.createKey({ name: "both", tier: "pro", models: ["acme/*"] });
    const { data } = (await (await at.troupe.fetch("/v1/models", { key: both })).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["acme/cook", "acme/guide"]);
    const call = (method: string, params: object) =>
      at.troupe.post(
        "/mcp",
        { jsonrpc: "2.0", id: 1, method, params },
        { key, headers: { accept: "application/json, text/event-stream" } },
      );
    expect(await (await call("tools/list", {})).text()).toContain('"name":"ask_acme_guide_stable"');
    const asked = await call("tools/call", { name: "ask_acme_guide_stable", arguments: { message: "Hi" } });
    expect(await asked.text()).not.toContain('"isError":true');
  });

  test("an answer names the pin that it was asked by", async () => {
    const at = await started({ "acme/guide.yaml": yaml("One.") });
    const model = `acme/guide@${at.version()}`;
    expect(await (await at.ask(model)).json()).toMatchObject({ model });
  });

  test("versions count as used while they are in service or called, and others are swept in time", async () => {
    const clock = new ManualClock();
    const at = await started({ "acme/guide.yaml": yaml("One.") }, { clock });
    const versions = [at.version()];
    for (const text of ["Two.", "Three.", "Four."]) {
      await at.change({ "acme/guide.yaml": yaml(text) });
      versions.push(at.version());
    }
    await at.change({ "labels.yaml": `acme/guide: { stable: "${versions[1]}" }\n` });
    const start = clock.now();
    const { services } = at;
    clock.advance(3_600_000);
    await at.ask(`acme/guide@${versions[2]}`);
    await services.personaVersions.record();
    const used = Object.fromEntries(
      (await services.store.personaVersions.list("acme/guide")).map((row) => [row.version, row.usedAt > start]),
    );
    expect(used).toEqual({ [versions[0]!]: false, [versions[1]!]: true, [versions[2]!]: true, [versions[3]!]: true });
    expect(await services.store.maintenance.removeUnusedVersions(start + 1, 10)).toBe(1);
    expect((await at.ask(`acme/guide@${versions[0]}`)).status).toBe(404);
  });

  test("several nodes of one store see the same, and only the labels of a folder", async () => {
    const at = await started({ "acme/guide.yaml": yaml("One.") });
    const version = at.version();
    await using empty = new TempFolder();
    mkdirSync(empty.file("acme"));
    await using other = await Troupe.start({ personas: empty.path, data: at.troupe.data });
    const answer = await other.post("/v1/chat/completions", { model: `acme/guide@${version}`, messages });
    expect([answer.status, answer.headers.get(header)]).toEqual([200, version]);
  });
});

describe("labels", () => {
  test("name versions, and their moves are audit lines, once", async () => {
    const at = await started({ "acme/guide.yaml": yaml("One.") });
    const one = at.version();
    await at.change({
      "acme/guide.yaml": yaml("Two."),
      "labels.yaml": `acme/guide:\n  stable: "${one}" # Since then.\n`,
    });
    const two = at.version();
    expect((await at.ask("acme/guide@stable")).headers.get(header)).toBe(one);
    expect((await at.ask("acme/guide@next")).status).toBe(404);
    await at.change({ "labels.yaml": `acme/guide:\n  stable: "${two}"\n  next: "${two}"\n` });
    expect((await at.ask("acme/guide@stable")).headers.get(header)).toBe(two);
    await at.change({ "labels.yaml": `acme/guide:\n  stable: "${one}"\n` });
    await at.change({});
    const actor = "file:labels.yaml";
    const json = JSON.stringify;
    const expected = [
      [actor, "acme/guide@stable", null, json(one)],
      [actor, "acme/guide@next", null, json(two)],
      [actor, "acme/guide@stable", json(two), json(one)],
      [actor, "acme/guide@next", json(two), null],
      [actor, "acme/guide@stable", json(one), json(two)],
    ].sort();
    expect((await at.acts()).sort()).toEqual(expected);
    await using again = await Troupe.start({ personas: at.folder.path, data: at.troupe.data });
    await again.server.services.loading;
    await again.server.services.personaVersions.record();
    expect((await at.acts()).sort()).toEqual(expected);
    const answer = await again.post("/v1/chat/completions", { model: "acme/guide@stable", messages });
    expect(answer.headers.get(header)).toBe(one);
  });

  test("one that names an unknown version stays where it was, and the error names the place", async () => {
    const lines: string[] = [];
    const log = { ...silentLogger, error: (_: string, fields = {}) => void lines.push((fields as { at: string }).at) };
    const at = await started({ "acme/guide.yaml": yaml("One.") }, { log });
    const one = at.version();
    await at.change({ "labels.yaml": `acme/guide:\n  stable: "${one}"\n` });
    await at.change({ "labels.yaml": `acme/guide:\n  stable: "0123456789ab"\n  next: "ba9876543210"\n` });
    expect((await at.ask("acme/guide@stable")).headers.get(header)).toBe(one);
    expect((await at.ask("acme/guide@next")).status).toBe(404);
    await at.change({
      "labels.yaml": "acme/guide:\n  stable: latest\nguide: {}\nacme/other: { 0123456789ab: x }\n",
    });
    expect((await at.ask("acme/guide@stable")).headers.get(header)).toBe(one);
    const place = `${at.folder.path}/labels.yaml`;
    const unknown = "names a version that is neither in service nor kept";
    const form =
      "must be named by up to 32 lower-case letters, digits, '.', '_' and '-', beginning with a letter, and not like a version or 'current'";
    expect([...new Set(lines)].slice(0, 2)).toEqual([
      `${place}:2:11: ["acme/guide"].stable: ${unknown}`,
      `${place}:3:9: ["acme/guide"].next: ${unknown}`,
    ]);
    expect([...new Set(lines)].slice(2).sort()).toEqual([
      `${place}:2:11: ["acme/guide"].stable: must be a version of 12 hexadecimal digits, quoted where they are all digits`,
      `${place}:3:1: guide: must be a persona's <namespace>/<name>`,
      `${place}:4:15: ["acme/other"]["0123456789ab"]: ${form}`,
    ]);
  });

  test("an alias may stand for one", async () => {
    const at = await started(
      { "acme/guide.yaml": yaml("One.") },
      { config: { aliases: { guide: "acme/guide@stable" } } },
    );
    await at.change({ "labels.yaml": `acme/guide: { stable: "${at.version()}" }\n` });
    const answer = await at.ask("guide");
    expect([answer.status, ((await answer.json()) as { model: string }).model]).toEqual([200, "guide"]);
  });
});

test("a command sees what a server kept", async () => {
  const at = await started({ "acme/guide.yaml": `# Kept.\n${yaml("One.")}` });
  const store = await openStoreFor(testConfig(at.troupe.data, {}));
  const [row] = await store.personaVersions.list("acme/guide");
  expect((await store.personaVersions.get(row!.id))!.source).toStartWith("# Kept.\n");
  await store.close();
});
