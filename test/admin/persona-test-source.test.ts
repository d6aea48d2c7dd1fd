/** The admin API's routes of personas' test files. */
import { expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;

const listen = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
] as const;
const persona =
  "description: Helps.\nmodel: builtin/echo\nsystem: In {{language}}.\nvariables: {language: {required: true}}\n";
const tests = `# Ours.
tests:
  - description: says it again   # always
    vars: { language: German, prompt: blue }
    assert: [{ type: contains, value: blue }]
`;
const hashOf = (of: string) => Bun.SHA256.hash(of, "hex");

async function open({
  write = true,
  personas,
}: {
  write?: boolean;
  personas?: { folder: string; isNamed: boolean };
} = {}) {
  const folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  writeFileSync(folder.file("acme/x.yaml"), persona);
  writeFileSync(folder.file("acme/x.test.yaml"), tests);
  writeFileSync(folder.file("acme/bare.yaml"), persona);
  const troupe = await Troupe.start({
    ...(personas === undefined && { personas: folder.path }),
    config: { listen, console: { write }, ...(personas !== undefined && { personas }) },
  });
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
  return {
    folder,
    troupe,
    ask,
    of: (id: string, part: string, method = "GET", body?: unknown) =>
      ask(`/personas/${id}/tests/${part}`, method, body),
    async [Symbol.asyncDispose]() {
      await troupe[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

const errorOf = ({ json }: { json: Json }) => json["error"] as Json | undefined;

test("a test file is read, saved whole with its mode, and its tests are those that run; the audit has the hashes", async () => {
  await using opened = await open();
  const { folder, ask, of } = opened;
  const file = folder.file("acme/x.test.yaml");
  chmodSync(file, 0o640);
  const common = { object: "persona.test_source", id: "acme/x", file, read_only: null, findings: [] };
  expect(await of("acme/x", "source")).toEqual({ status: 200, json: { ...common, text: tests, hash: hashOf(tests) } });
  const next = tests.replace("value: blue", "value: green");
  const saved = await of("acme/x", "source", "PUT", { text: next, if_hash: hashOf(tests) });
  expect(saved).toEqual({ status: 200, json: { ...common, text: next, hash: hashOf(next) } });
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual([next, 0o640]);
  expect(readdirSync(folder.file("acme")).toSorted()).toEqual(["bare.yaml", "x.test.yaml", "x.yaml"]);
  expect((await of("acme/x", "run", "POST", {})).json).toMatchObject({ failed: 1 });
  const audit = (await ask("/audit?act=persona.save_tests")).json;
  expect(audit["data"]).toMatchObject([
    { subject: "acme/x", before: { hash: hashOf(tests) }, after: { hash: hashOf(next) } },
  ]);
  expect(JSON.stringify(audit)).not.toContain("green");
  // Somebody else's change stays, and so does a file that another made.
  expect((await of("acme/x", "source", "PUT", { text: tests, if_hash: hashOf(tests) })).status).toBe(409);
  expect((await of("acme/x", "source", "PUT", { text: tests, if_hash: null })).status).toBe(409);
  expect(readFileSync(file, "utf8")).toBe(next);
});

test("faults keep it from being saved, each with its place; what the persona would refuse is a warning", async () => {
  await using opened = await open();
  const { folder, of } = opened;
  const faulty = tests.replace("type: contains", "type: contians").replace("German", "[");
  const check = (text: string, id = "acme/x") => of(id, "check", "POST", { text });
  const misspelt = tests.replace("type: contains", "type: contians");
  const finding = { severity: "error", line: 5, path: "tests[0].assert[0].type" };
  expect((await check(misspelt)).json).toMatchObject({ object: "persona.test_check", tests: [], findings: [finding] });
  const refused = await of("acme/x", "source", "PUT", { text: misspelt, if_hash: hashOf(tests) });
  expect([refused.status, errorOf(refused)!["code"], refused.json["findings"]]).toEqual([
    422,
    "persona_invalid",
    [expect.objectContaining({ ...finding, message: expect.stringContaining("did you mean 'contains'?") })],
  ]);
  expect(readFileSync(folder.file("acme/x.test.yaml"), "utf8")).toBe(tests);
  expect((await check(faulty)).json).toMatchObject({ findings: [{ severity: "error", path: "" }] });
  expect((await check("x".repeat(300_000))).status).toBe(400);
  expect((await check("é".repeat(140_000))).json).toMatchObject({
    findings: [{ message: "This is larger than 256 KiB" }],
  });
  const { json } = await check(tests.replace("language: German, ", ""));
  expect(json).toMatchObject({
    tests: [{ name: "says it again", line: 3 }],
    findings: [{ severity: "warning", line: 3, message: expect.stringContaining("language") }],
  });
  expect((await check(tests, "acme/none")).status).toBe(404);
});

test("a request becomes one more test below the others, and the first of a new file", async () => {
  await using opened = await open();
  const { folder, of } = opened;
  const request = {
    messages: [{ role: "user", content: "What is {{red}}?" }],
    variables: { language: "German" },
    fields: { temperature: 0.5, stream: true },
    assert: [
      { type: "contains", value: "red" },
      { type: "latency", threshold: 20_000 },
    ],
  };
  const drafted = await of("acme/x", "draft", "POST", request);
  const text = drafted.json["text"] as string;
  expect(drafted).toMatchObject({
    status: 200,
    json: { object: "persona.test_draft", id: "acme/x", hash: hashOf(tests), findings: [] },
  });
  expect(text).toStartWith(tests);
  expect(readFileSync(folder.file("acme/x.test.yaml"), "utf8")).toBe(tests);
  const saved = await of("acme/x", "source", "PUT", { text, if_hash: drafted.json["hash"] });
  expect(saved).toMatchObject({ status: 200, json: { findings: [] } });
  expect((await of("acme/x", "run", "POST", {})).json).toMatchObject({
    passed: 2,
    tests: [
      { name: "says it again" },
      { name: "What is {{red}}?", output: expect.stringContaining("What is {{red}}?") },
    ],
  });
  // In a text that is being edited.
  const more = await of("acme/x", "draft", "POST", { ...request, text: `${text}# more\n`, description: "again" });
  expect(more.json["text"] as string).toContain("- description: again\n");
  expect(more.json).toMatchObject({ hash: hashOf(text), findings: [] });
  const first = await of("acme/bare", "draft", "POST", request);
  expect(first.json).toMatchObject({ hash: null, findings: [] });
  expect(first.json["text"]).toStartWith('prompts: ["{{question}}"]\ntests:\n');
  const made = await of("acme/bare", "source", "PUT", { text: first.json["text"], if_hash: null });
  expect([made.status, readFileSync(folder.file("acme/bare.test.yaml"), "utf8")]).toEqual([
    200,
    first.json["text"] as string,
  ]);
  // An assertion that is none is found where it stands in the file.
  const wrong = await of("acme/bare", "draft", "POST", { ...request, assert: [{ type: "contains" }] });
  expect(wrong.json).toMatchObject({ findings: [{ severity: "error", path: "tests[1].assert[0].value" }] });
  const broken = await of("acme/x", "draft", "POST", { ...request, text: "tests: 3\n" });
  expect([broken.status, broken.json["findings"]]).toMatchObject([422, [{ line: 1, path: "tests" }]]);
  expect((await of("acme/x", "draft", "POST", { messages: [] })).status).toBe(400);
  expect((await of("acme/none", "draft", "POST", request)).status).toBe(404);
});

test("nothing is saved where the configuration does not say so, outside of the folder, or beside no persona", async () => {
  using outside = new TempFolder();
  writeFileSync(outside.file("y.test.yaml"), tests);
  await using opened = await open();
  const { folder, of } = opened;
  symlinkSync(outside.file("y.test.yaml"), folder.file("acme/bare.test.yaml"));
  const body = { text: `${tests}# more\n`, if_hash: hashOf(tests) };
  const linked = await of("acme/bare", "source", "PUT", body);
  expect([linked.status, errorOf(linked)!["code"]]).toEqual([403, "persona_not_writable"]);
  expect(readFileSync(outside.file("y.test.yaml"), "utf8")).toBe(tests);
  expect((await of("acme/none", "source", "PUT", { ...body, if_hash: null })).status).toBe(404);
  expect((await of("acme/none", "source")).status).toBe(404);
  expect((await of("acme/..%2Fx", "source")).status).toBe(404);
  await using closed = await open({ write: false });
  expect((await closed.of("acme/x", "source")).json).toMatchObject({ read_only: "write_off", hash: hashOf(tests) });
  const refused = await closed.of("acme/x", "source", "PUT", body);
  expect([refused.status, errorOf(refused)!["code"]]).toEqual([403, "persona_not_writable"]);
  // What can't be saved can be copied.
  const request = { messages: [{ role: "user", content: "Hi" }], variables: { language: "German" }, assert: [] };
  expect((await closed.of("acme/x", "draft", "POST", request)).status).toBe(200);
});

test("the first tests of a persona in the executable bring its file along", async () => {
  using folder = new TempFolder();
  await using opened = await open({ personas: { folder: folder.file("own"), isNamed: false } });
  const { of, troupe } = opened;
  const file = folder.file("own/troupe/guide.test.yaml");
  expect((await of("troupe/guide", "source")).json).toMatchObject({ file, text: "", hash: null, read_only: null });
  const request = { messages: [{ role: "user", content: "Hi" }], assert: [{ type: "contains", value: "i" }] };
  const { json } = await of("troupe/guide", "draft", "POST", request);
  const saved = await of("troupe/guide", "source", "PUT", { text: json["text"], if_hash: null });
  expect([saved.status, readdirSync(folder.file("own/troupe"))]).toEqual([
    200,
    expect.arrayContaining(["guide.test.yaml", "guide.yaml"]),
  ]);
  expect(troupe.server.services.personas.labels).toBeDefined();
  expect((await of("troupe/guide", "run", "POST", {})).json).toMatchObject({ tests: [{ name: "Hi" }] });
});
