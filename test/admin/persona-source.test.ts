/** The admin API's routes of personas' files. */
import { expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;

const listen = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
] as const;
const text = "# Ours.\ndescription: Helps.\nmodel: builtin/echo\nsystem: Plain.\n";
const hashOf = (of: string) => Bun.SHA256.hash(of, "hex");

async function open({ write = true } = {}) {
  const folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), text);
  const troupe = await Troupe.start({ personas: folder.path, config: { listen, console: { write } } });
  await troupe.server.services.loading;
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
  const ask = async (path: string, method = "GET", body?: unknown) => {
    const answer = await troupe.fetch(`/admin/v1${path}`, {
      key,
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  const save = (body: unknown, id = "acme/x") => ask(`/personas/${id}/source`, "PUT", body);
  const versionOf = (id = "acme/x") => troupe.server.services.personas.find(id)?.version;
  return {
    folder,
    troupe,
    ask,
    save,
    versionOf,
    async [Symbol.asyncDispose]() {
      await troupe[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

const codeOf = ({ json }: { json: Json }) => (json["error"] as Json | undefined)?.["code"];

test("a file is read with its hash, and saved whole, with its mode, served at once and with a line of the audit", async () => {
  await using opened = await open();
  const { folder, troupe, ask, save, versionOf } = opened;
  const path = folder.file("acme/x.yaml");
  chmodSync(path, 0o640);
  const before = versionOf();
  const read = await ask("/personas/acme/x/source");
  const common = { object: "persona.source", id: "acme/x", file: path, read_only: null, is_served: true, findings: [] };
  expect(read).toEqual({ status: 200, json: { ...common, text, hash: hashOf(text), version: before } });
  const next = text.replace("Plain.", "Kind.");
  const saved = await save({ text: next, if_hash: hashOf(text) });
  expect(saved).toEqual({ status: 200, json: { ...common, text: next, hash: hashOf(next), version: versionOf() } });
  expect([versionOf() === before, readFileSync(path, "utf8"), statSync(path).mode & 0o777]).toEqual([
    false,
    next,
    0o640,
  ]);
  expect(readdirSync(folder.file("acme"))).toEqual(["x.yaml"]);
  const { json } = await ask("/audit?act=persona.save");
  expect(json["data"]).toMatchObject([
    {
      subject: "acme/x",
      before: { version: before, hash: hashOf(text) },
      after: { version: versionOf(), hash: hashOf(next) },
    },
  ]);
  expect(JSON.stringify(json)).not.toContain("Kind.");
  expect(troupe.server.services.personas.list()).toHaveLength(1);
});

test("a file that has changed meanwhile stays as it is, also by its comments alone", async () => {
  await using opened = await open();
  const { folder, save, versionOf } = opened;
  const before = versionOf();
  const theirs = text.replace("Ours", "Theirs");
  writeFileSync(folder.file("acme/x.yaml"), theirs);
  const refused = await save({ text: text.replace("Plain.", "Kind."), if_hash: hashOf(text) });
  expect([refused.status, codeOf(refused)]).toEqual([409, "persona_changed"]);
  expect([readFileSync(folder.file("acme/x.yaml"), "utf8"), versionOf()]).toEqual([theirs, before]);
  expect([(await save({ text, if_hash: null })).status, readdirSync(folder.file("acme"))]).toEqual([409, ["x.yaml"]]);
});

test("of many who save at once one does", async () => {
  await using opened = await open();
  const { folder, save } = opened;
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, at) => save({ text: text.replace("Plain", `Number ${at}`), if_hash: hashOf(text) })),
  );
  const statuses = answers.map(({ status }) => status).toSorted();
  expect(statuses).toEqual([200, ...Array.from({ length: 11 }, () => 409)]);
  const winner = answers.findIndex(({ status }) => status === 200);
  expect(readFileSync(folder.file("acme/x.yaml"), "utf8")).toContain(`Number ${winner}.`);
});

test("what another process left unfinished is in the way of nobody", async () => {
  await using opened = await open();
  const { folder, save } = opened;
  const unfinished = folder.file("acme/.x.yaml.saving");
  writeFileSync(unfinished, "half");
  const next = { text: text.replace("Plain.", "Kind."), if_hash: hashOf(text) };
  expect((await save(next)).status).toBe(409);
  utimesSync(unfinished, 1, 1);
  expect((await save(next)).status).toBe(200);
});

test("faults keep a text from being saved, each with its place", async () => {
  await using opened = await open();
  const { folder, ask, save } = opened;
  const faulty = "description: Helps.\nmodel: [builtin/echo, opnai/gpt-x]\nsystem: Plain.\n";
  const file = folder.file("acme/x.yaml");
  const finding = {
    ...{ severity: "error", file, line: 2, column: 23, path: "model[1]" },
    message: "'opnai' is no provider; did you mean 'openai'?",
  };
  const refused = await save({ text: faulty, if_hash: hashOf(text) });
  expect([refused.status, codeOf(refused), refused.json["findings"]]).toEqual([422, "persona_invalid", [finding]]);
  expect((refused.json["error"] as Json)["message"]).toStartWith("x.yaml:2:23: model[1]: 'opnai' is no provider");
  expect(readFileSync(file, "utf8")).toBe(text);
  const check = (of: string, id = "acme/x") => ask("/personas/check", "POST", { id, text: of });
  expect((await check(faulty)).json).toMatchObject({ object: "persona.check", findings: [finding] });
  expect((await check("description: [\n")).json).toMatchObject({ version: null, findings: [{ line: 1, column: 14 }] });
  expect((await check(text)).json).toMatchObject({ version: expect.stringMatching(/^[0-9a-f]{12}$/), findings: [] });
  const retired = await check("description: Helps.\nmodel: openai/gpt-5.5\nsystem: Plain.\nknowledge: [docs/*.md]\n");
  expect((retired.json["findings"] as Json[]).map(({ severity, message }) => [severity, message])).toEqual([
    ["warning", "acme/x: knowledge: no file is named by docs/*.md"],
    ["warning", "none of its models has a provider that is set up"],
  ]);
  expect((await check(text, "acme/../x")).status).toBe(400);
  expect((await check("x".repeat(300_000))).status).toBe(400);
  // What stands in the file with faults is shown with them, beside the version that is served.
  writeFileSync(file, faulty.replace("opnai", "[opnai"));
  expect((await ask("/personas/acme/x/source")).json).toMatchObject({
    is_served: false,
    findings: [{ severity: "error", line: 2 }],
  });
});

test("nothing is saved where the configuration does not say so", async () => {
  await using opened = await open({ write: false });
  const { folder, ask, save } = opened;
  expect((await ask("/personas/acme/x/source")).json).toMatchObject({ read_only: "write_off" });
  expect((await ask("/session")).json).toMatchObject({ write: false });
  const refused = await save({ text: text.replace("Plain.", "Kind."), if_hash: hashOf(text) });
  expect([refused.status, codeOf(refused)]).toEqual([403, "persona_not_writable"]);
  expect(readFileSync(folder.file("acme/x.yaml"), "utf8")).toBe(text);
});

test("nothing is written outside of the folder, by no name and no link; links within it are followed", async () => {
  using outside = new TempFolder();
  writeFileSync(outside.file("y.yaml"), text);
  await using opened = await open();
  const { folder, ask, save } = opened;
  const body = { text: text.replace("Plain.", "Kind."), if_hash: hashOf(text) };
  symlinkSync(outside.path, folder.file("away"));
  symlinkSync(outside.file("y.yaml"), folder.file("acme/y.yaml"));
  for (const id of ["away/y", "acme/y", "away/new"]) {
    const refused = await save({ ...body, if_hash: id === "away/new" ? null : body.if_hash }, id);
    expect([id, refused.status, codeOf(refused)]).toEqual([id, 403, "persona_not_writable"]);
  }
  for (const id of ["acme/..%2F..%2Fx", "..%2Facme/x", "acme/x.test", "acme/.x", "_acme/x"])
    expect([id, (await save(body, id)).status]).toEqual([id, 400]);
  expect((await ask("/personas/acme/..%2Fx/source")).status).toBe(404);
  expect([readFileSync(outside.file("y.yaml"), "utf8"), readdirSync(outside.path)]).toEqual([text, ["y.yaml"]]);
  mkdirSync(folder.file("_held"));
  writeFileSync(folder.file("_held/z.yaml"), text);
  symlinkSync(folder.file("_held/z.yaml"), folder.file("acme/z.yaml"));
  expect((await save(body, "acme/z")).status).toBe(200);
  expect(readFileSync(folder.file("_held/z.yaml"), "utf8")).toBe(body.text);
});

test("a new persona gets a file", async () => {
  await using opened = await open();
  const { folder, save, versionOf } = opened;
  const made = await save({ text, if_hash: null }, "other/new");
  expect([made.status, readFileSync(folder.file("other/new.yaml"), "utf8")]).toEqual([200, text]);
  expect(versionOf("other/new")).toBeDefined();
});

test("the first file that is saved has those of the executable beside it, so that none of them goes out of service", async () => {
  using folder = new TempFolder();
  const personas = { folder: folder.file("own"), isNamed: false };
  await using troupe = await Troupe.start({ config: { listen, personas, console: { write: true } } });
  const { services } = troupe.server;
  const versions = () => services.personas.list().map(({ id, version }) => [id, version]);
  const before = versions();
  const key = await troupe.createKey({ name: "admin", tier: "pro", surfaces: ["admin"] });
  const path = "/admin/v1/personas/troupe/guide/source";
  const read = (await (await troupe.fetch(path, { key })).json()) as Json;
  expect(read).toMatchObject({ read_only: null, is_served: true, file: "personas/troupe/guide.yaml" });
  const headers = { "content-type": "application/json" };
  const save = async (body: Json) => {
    const answer = await troupe.fetch(path, { key, method: "PUT", headers, body: JSON.stringify(body) });
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  expect((await save({ text, if_hash: hashOf(text) })).status).toBe(409);
  expect(versions()).toEqual(before);
  const saved = await save({ text: `${read["text"]}\n# Ours.\n`, if_hash: read["hash"] });
  expect([saved.status, saved.json["file"], versions()]).toEqual([200, folder.file("own/troupe/guide.yaml"), before]);
  expect(services.personas.labels).toBeDefined();
});
