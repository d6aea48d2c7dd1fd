/** `troupe personas log`, `diff` and `rollback`: on what a server kept, in a folder that is a git checkout. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { Console } from "./console.ts";

const stack: AsyncDisposableStack[] = [];
afterEach(async () => {
  for (const one of stack.splice(0)) await one.disposeAsync();
});

const messages = [{ role: "user", content: "Hi" }];
const yaml = (text: string, rest = "") =>
  `# Kept.\ndescription: A guide.\nmodel: builtin/echo\nsystem: |\n  ${text}\n  {{> tone}}\n${rest}`;

async function started() {
  const opened = new AsyncDisposableStack();
  stack.push(opened);
  const folder = opened.use(new TempFolder());
  mkdirSync(folder.file("data"));
  const git = (...parts: string[]) => {
    const of = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"];
    const { success, stdout, stderr } = Bun.spawnSync(["git", ...of, "-C", folder.path, ...parts]);
    if (!success) throw new Error(stderr.toString());
    return stdout.toString().trim();
  };
  git("init", "-q");
  const troupe = opened.use(
    await (async () => {
      mkdirSync(folder.file("personas/acme"), { recursive: true });
      return Troupe.start({ personas: folder.file("personas"), data: folder.file("data") });
    })(),
  );
  const { services } = troupe.server;
  const write = async (files: Record<string, string>) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(folder.file(`personas/${path}`)), { recursive: true });
      writeFileSync(folder.file(`personas/${path}`), text);
    }
    await services.rereadPersonas();
    await services.personaVersions.record();
    return services.personas.find("acme/guide")?.version ?? "";
  };
  const commit = (subject: string) => {
    git("add", "-A", "personas");
    git("commit", "-q", "-m", subject);
    return git("rev-parse", "--short", "HEAD");
  };
  return {
    folder,
    troupe,
    services,
    write,
    commit,
    read: (path: string) => readFileSync(folder.file(`personas/${path}`), "utf8"),
    run: (line: string) => new Console(folder.path).run(`--data data --personas personas personas ${line}`),
    ask: async (model: string) => void (await (await troupe.post("/v1/chat/completions", { model, messages })).text()),
    acts: async (act: string) =>
      (await services.store.audit.list({ before: null, limit: 10, actor: null, act, subject: null })).map(
        ({ actor, subject, before, after }) => [actor.split(":")[0], subject, before, after],
      ),
  };
}

test("show prints a version as it was written, and resolved with its includes in place", async () => {
  const at = await started();
  const one = await at.write({ "acme/guide.yaml": yaml("One."), "acme/tone.md": "Be brief." });
  const two = await at.write({ "acme/guide.yaml": yaml("Two."), "labels.yaml": `acme/guide: { stable: "${one}" }\n` });
  expect(two).not.toBe(one);
  const shown = async (line: string) => {
    const { code, out, err } = await at.run(`show ${line}`);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    return out;
  };
  expect(await shown("acme/guide")).toBe(yaml("Two."));
  expect(await shown(`acme/guide@${one}`)).toBe(yaml("One."));
  expect(await shown("acme/guide@stable")).toBe(yaml("One."));
  const resolved = (text: string) =>
    `description: A guide.\n\nmodel: builtin/echo\n\nsystem: |-\n  ${text}\n  Be brief.\n`;
  expect(await shown("acme/guide --resolved")).toBe(resolved("Two."));
  expect(await shown(`acme/guide@${one.slice(0, 6)} --resolved`)).toBe(resolved("One."));
  expect(JSON.parse(await shown("acme/guide@stable --json"))).toMatchObject({
    id: "acme/guide",
    models: ["builtin/echo"],
  });
  expect(await at.run("show acme/guide@0123456789ab")).toMatchObject({ code: 1, out: "" });
});

describe("personas log", () => {
  test("lists versions with their commits, labels and numbers", async () => {
    const at = await started();
    const one = await at.write({ "acme/guide.yaml": yaml("One."), "acme/tone.md": "Brief." });
    const first = at.commit("begin");
    const two = await at.write({ "acme/tone.md": "Kind." });
    const second = at.commit("be kind");
    const three = await at.write({
      "acme/guide.yaml": yaml("Three."),
      "labels.yaml": `acme/guide: { stable: "${one}" }\n`,
    });
    for (const model of ["acme/guide", `acme/guide@${one}`, "acme/guide@stable"]) await at.ask(model);
    await at.services.ledger.flush();
    const { code, out } = await at.run("log acme/guide --json");
    expect(code).toBe(0);
    const rows = JSON.parse(out) as Record<string, unknown>[];
    const told = (version: string) => {
      const { since: _, used: __, id, p95_seconds, ...rest } = rows.find((row) => row["version"] === version)!;
      expect(id).toBe(`acme/guide@${version}`);
      return { ...rest, p95_seconds: p95_seconds === null ? null : "a number" };
    };
    expect(rows.map(({ version }) => version).sort()).toEqual([one, two, three].sort());
    const numbers = { errors: 0, cost_micro_dollars: 0, unknown_cost_calls: 0 };
    expect(told(one)).toEqual({
      ...{ version: one, in_service: false, labels: ["stable"], commit: { hash: first, subject: "begin" } },
      ...{ ...numbers, calls: 2, p95_seconds: "a number" },
    });
    expect(told(two)).toEqual({
      ...{ version: two, in_service: false, labels: [], commit: { hash: second, subject: "be kind" } },
      ...{ ...numbers, calls: 0, p95_seconds: null },
    });
    expect(told(three)).toMatchObject({ in_service: true, commit: null, calls: 1 });
    const text = (await at.run("log acme/guide")).out;
    expect(text.split("\n")[0]).toMatch(/^VERSION +SINCE +LAST USED +NAMES +COMMIT +CALLS +ERRORS +COST +P95$/);
    expect(text).toMatch(new RegExp(`${three} .* in service +- +1 +0 `));
    expect(text).toMatch(new RegExp(`${one} .* stable +${first} +2 +0 `));
    expect(await at.run("log acme/nobody")).toMatchObject({
      code: 1,
      err: "error: No version of a persona 'acme/nobody' is kept.\n",
    });
  });
});

describe("personas render", () => {
  test("shows what an earlier version sends, by version and by label", async () => {
    const at = await started();
    const one = await at.write({ "acme/guide.yaml": yaml("One.").replace("echo", "eliza"), "acme/tone.md": "Brief." });
    const two = await at.write({
      "acme/guide.yaml": yaml("Two."),
      "labels.yaml": `acme/guide: { stable: "${one}" }\n`,
    });
    const systemOf = async (name: string) => {
      const { code, out } = await at.run(`render ${name} --json`);
      const { composed } = JSON.parse(out) as { composed: { messages: { content: string }[] } };
      return [code, composed.messages[0]!.content];
    };
    for (const name of [`acme/guide@${one}`, "acme/guide@stable"])
      expect(await systemOf(name)).toEqual([0, "One.\nBrief."]);
    for (const name of [`acme/guide@${two}`, "acme/guide"]) expect(await systemOf(name)).toEqual([0, "Two.\nBrief."]);
    expect(await at.run("render acme/guide@next")).toMatchObject({
      code: 1,
      err: expect.stringContaining("has no version or label 'next' that is kept"),
    });
  });
});

describe("personas diff", () => {
  test("shows what differs, includes in place, by version, prefix, label or what is there now", async () => {
    const at = await started();
    const one = await at.write({ "acme/guide.yaml": yaml("One."), "acme/tone.md": "Brief." });
    const two = await at.write({ "acme/tone.md": "Kind.", "labels.yaml": `acme/guide: { stable: "${one}" }\n` });
    const expected = `--- acme/guide@${one}\n+++ acme/guide@${two}\n@@ -4,4 +4,4 @@\n \n system: |-\n   One.\n-  Brief.\n+  Kind.\n`;
    for (const names of [
      `acme/guide@${one}`,
      `acme/guide@${one.slice(0, 8)} acme/guide@${two}`,
      "acme/guide@stable acme/guide",
    ])
      expect(await at.run(`diff ${names}`)).toMatchObject({ code: 0, out: expected });
    expect(await at.run("diff acme/guide")).toMatchObject({
      code: 0,
      out: "",
      err: expect.stringContaining("say the same"),
    });
    expect(await at.run("diff acme/guide@0123456789ab")).toMatchObject({
      code: 1,
      err: expect.stringContaining("has no version or label '0123456789ab' that is kept"),
    });
  });
});

describe("personas rollback", () => {
  test("writes the file as it was, comments too, and says what it did", async () => {
    const at = await started();
    const one = await at.write({
      "acme/guide.yaml": yaml("One.", "prompt_ids: { pmpt_1: { '1': current } }\n"),
      "acme/tone.md": "Brief.",
    });
    const prompts = "prompt_ids:\n  pmpt_2:\n    default: current\n";
    const two = await at.write({ "acme/guide.yaml": yaml("Two.", prompts) });
    const path = at.folder.file("personas/acme/guide.yaml");
    expect(await at.run(`rollback acme/guide ${one.slice(0, 9)}`)).toMatchObject({
      code: 0,
      out: `acme/guide: ${two} → ${one}. Written: ${path}\n`,
    });
    expect(at.read("acme/guide.yaml")).toBe(yaml("One.", prompts));
    expect(await at.write({})).toBe(one);
    expect(await at.acts("persona.rollback")).toEqual([
      ["cli", "acme/guide", JSON.stringify(two), JSON.stringify(one)],
    ]);
    expect((await at.run(`rollback acme/guide ${one}`)).out).toEndWith("already; nothing was written.\n");
  });

  test("writes includes out where they have changed since, and brings back what was deleted", async () => {
    const at = await started();
    const one = await at.write({ "acme/guide.yaml": yaml("One."), "acme/tone.md": "Brief." });
    await at.write({ "acme/tone.md": "Kind." });
    expect((await at.run(`rollback acme/guide ${one}`)).out).toEndWith(
      "with its includes written out, as what it included has changed since\n",
    );
    expect(at.read("acme/guide.yaml")).toContain("One.\n  Brief.");
    expect(await at.write({})).toBe(one);
    rmSync(at.folder.file("personas/acme/guide.yaml"));
    await at.write({ "acme/other.yaml": yaml("Other.") });
    expect((await at.run(`rollback acme/guide ${one}`)).out).toStartWith(`acme/guide: nothing → ${one}. Written: `);
    expect(await at.write({})).toBe(one);
  });

  test("moves a label, keeps the file's comments, and one line says who did it", async () => {
    const at = await started();
    const one = await at.write({ "acme/guide.yaml": yaml("One."), "acme/tone.md": "Brief." });
    const two = await at.write({ "acme/guide.yaml": yaml("Two.") });
    const path = at.folder.file("personas/labels.yaml");
    expect(await at.run(`rollback acme/guide ${two} --label stable`)).toMatchObject({
      code: 0,
      out: `acme/guide@stable: nothing → ${two}. Written: ${path}\n`,
    });
    expect(at.read("labels.yaml")).toBe(`acme/guide:\n  stable: "${two}"\n`);
    await at.write({ "labels.yaml": `# Ours.\nacme/guide:\n  stable: "${two}" # Since May.\n` });
    expect((await at.run(`rollback acme/guide ${one} --label stable`)).code).toBe(0);
    expect(at.read("labels.yaml")).toBe(`# Ours.\nacme/guide:\n  stable: "${one}" # Since May.\n`);
    await at.write({});
    expect(at.services.personas.find("acme/guide@stable")!.version).toBe(one);
    const json = JSON.stringify;
    expect(await at.acts("persona.label")).toEqual([
      ["cli", "acme/guide@stable", json(two), json(one)],
      ["cli", "acme/guide@stable", null, json(two)],
    ]);
    expect((await at.run(`rollback acme/guide ${one} --label stable`)).out).toEndWith(
      "already; nothing was written.\n",
    );
    expect(await at.run(`rollback acme/guide ${one} --label Stable`)).toMatchObject({
      code: 1,
      err: expect.stringContaining("would not be valid"),
    });
  });

  test("leaves those in the executable", async () => {
    const at = await started();
    const shell = new Console(at.folder.path);
    expect(await shell.run("--data data personas rollback troupe/guide 0123456789ab")).toMatchObject({
      code: 1,
      err: expect.stringContaining("is in the executable"),
    });
  });
});
