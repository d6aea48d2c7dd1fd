/** Acts are done once: the admin API and the command line leave the same lines in the audit, and refuse in the same words. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { compiledAsOf, goBackToCompiled } from "../../src/facts/in-force.ts";
import { Console } from "../cli/console.ts";
import { dayOf, factsKeys, factsText, published, sha256 } from "../helpers/facts-files.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const persona = `description: x
model: builtin/eliza
system: Hi.
variants:
  - { name: now, weight: 1 }
  - { name: next, weight: 1 }
  - { name: third, weight: 1 }
`;

const folder = untilEnd(new TempFolder());
for (const name of ["api", "cli"]) {
  mkdirSync(folder.file(`personas/${name}`), { recursive: true });
  writeFileSync(folder.file(`personas/${name}/x.yaml`), persona);
}
const keys = factsKeys();
const today = dayOf(Date.now());
const newer = factsText(today);
mkdirSync(folder.file("facts"));
for (const [name, text] of Object.entries(published(newer, keys, today, Date.now())))
  writeFileSync(folder.file(`facts/${name}`), text);
// Facts count for the whole process.
afterAll(goBackToCompiled);
const troupe = untilEnd(
  await Troupe.start({
    factsKeys: [keys.publicKey],
    data: folder.file("data"),
    personas: folder.file("personas"),
    config: {
      listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "admin"] }],
      facts: { update: "off", from: folder.file("facts") },
    },
  }),
);
await troupe.server.services.loading;
const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 1_000, surfaces: ["admin"] });
const shell = new Console(folder.path, { SUDO_USER: "ann" });

async function ask(method: string, path: string, body?: unknown) {
  const answer = await troupe.fetch(`/admin/v1/${path}`, {
    ...{ method, key, headers: { "content-type": "application/json" } },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, json: (await answer.json()) as Record<string, never> };
}

/** What a front end's own acts were, the earliest first; names, ids and times of what was done are each one's own. */
async function linesOf(actor: string, own: Readonly<Record<string, string>>) {
  const page = { before: null, limit: 100, actor, act: null, subject: null };
  const rows = await troupe.server.services.store.audit.list(page);
  const text = JSON.stringify(
    rows
      .toReversed()
      .map(({ act, subject, before, after }) => [
        act,
        subject,
        JSON.parse(before ?? "null"),
        JSON.parse(after ?? "null"),
      ]),
  );
  return Object.entries(own)
    .reduce((told, [value, name]) => told.replaceAll(value, name), text)
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/(?<="(?:stoppedAt|updatedAt)":)\d+/g, "0")
    .replace(/(?<="prefix":")[^"]+/g, "PREFIX");
}

test("each leaves one line, the same by whichever front end", async () => {
  const adminId = (await troupe.server.services.keys.show(key)).id;
  const made = (await ask("POST", "keys", { name: "of-api", tags: ["a"] })).json;
  const own = `keys/${made["id"]}`;
  const secrets: string[] = [made["key"]!];
  const budget = `budgets/key:${made["id"]}/prepaid`;
  const variant = (name: string, act: string) => ask("POST", `personas/api/x/variants/${name}/${act}`);
  const answers = [
    await ask("PATCH", own, { tags: ["b"], per_minute: 9, expires_at: "2099-01-01" }),
    await ask("PUT", budget, { dollars: 5 }),
    await ask("POST", `${budget}/top-up`, { dollars: 2 }),
    await ask("DELETE", budget),
    await ask("POST", `${own}/rotate`, { grace_seconds: 3600 }),
    await ask("POST", `${own}/revoke`),
    await variant("next", "stop"),
    await variant("next", "promote"),
    await variant("now", "resume"),
  ];
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  secrets.push(answers[4]!.json["key"]!);

  for (const line of [
    "keys create of-cli --tags a",
    "keys update of-cli --tags b --per-minute 9 --expires 2099-01-01",
    "budgets set of-cli prepaid 5",
    "budgets top-up of-cli prepaid 2",
    "budgets remove of-cli prepaid",
    "keys rotate of-cli --grace 1h",
    "keys revoke of-cli",
    "personas stop cli/x next",
    "personas promote cli/x next",
    "personas resume cli/x now",
  ]) {
    const ran = await shell.run(line);
    expect([line, ran.code, ran.code === 0 ? "" : ran.err]).toEqual([line, 0, ""]);
    if (/^keys (?:create|rotate)/.test(line)) secrets.push(ran.out.trim());
  }
  const { id } = JSON.parse((await shell.run("keys show of-cli --json")).out);

  const lines = await linesOf("cli:ann", { [id]: "ID", "of-cli": "NAME", "cli/x": "PERSONA" });
  expect(lines).toBe(await linesOf(adminId, { [made["id"]!]: "ID", "of-api": "NAME", "api/x": "PERSONA" }));
  const told = JSON.parse(lines) as [string, string, Record<string, unknown> | null, Record<string, unknown> | null][];
  expect(told.map(([act, subject]) => `${act} ${subject}`)).toEqual([
    ...["key.create ID", "key.update ID", "budget.set key:ID/prepaid", "budget.top-up key:ID/prepaid"],
    ...["budget.remove key:ID/prepaid", "key.rotate ID", "key.revoke ID"],
    ...["variant.stop PERSONA next", "variant.promote PERSONA next", "variant.resume PERSONA now"],
  ]);
  const [create, update, set, topUp, remove, rotate, revoke, stop, promote, resume] = told;
  expect(create!.slice(2)).toMatchObject([null, { object: "key", name: "NAME", tags: ["a"] }]);
  expect(update!.slice(2)).toMatchObject([{ tags: ["a"] }, { tags: ["b"], per_minute: 9, expires_at: "TIME" }]);
  const budgetOf = (dollars: number) => ({ object: "budget", name: "NAME", dollars, state: "ok", runs_out_at: null });
  expect(set!.slice(2)).toMatchObject([null, budgetOf(5)]);
  expect(topUp!.slice(2)).toMatchObject([budgetOf(5), budgetOf(7)]);
  expect(remove!.slice(2)).toMatchObject([budgetOf(7), null]);
  expect(rotate!.slice(2)).toMatchObject([{ old_key_expires_at: null }, { old_key_expires_at: "TIME" }]);
  expect(revoke!.slice(2)).toMatchObject([{ state: "active" }, { state: "revoked" }]);
  const version = expect.stringMatching(/^[0-9a-f]{12}$/);
  expect(stop!.slice(2)).toEqual([null, { version }]);
  expect(promote!.slice(2)).toEqual([null, { version, stopped: ["now", "third"], resumed: true }]);
  expect(resume!.slice(2)).toMatchObject([[{ variant: "now", reason: "operator" }], null]);
  expect(secrets).toHaveLength(4);
  for (const secret of secrets) expect(lines).not.toContain(secret);
});

test("newer facts leave the same line, be they published or carried by hand, and going back from them too", async () => {
  const adminId = (await troupe.server.services.keys.show(key)).id;
  const ofFacts = async (actor: string) =>
    (JSON.parse(await linesOf(actor, {})) as [string, ...unknown[]][]).filter(([act]) => act.startsWith("facts."));
  for (const act of ["update", "rollback", "update", "rollback"])
    expect((await ask("POST", `facts/${act}`)).status).toBe(200);
  const file = folder.file(`facts/facts-${sha256(newer)}.json`);
  for (const line of ["update", "rollback", "update", "update", "rollback"]) {
    const ran = await shell.run(`facts ${line}${line === "update" ? ` --from ${file} --sha256 ${sha256(newer)}` : ""}`);
    expect([line, ran.code, ran.code === 0 ? "" : ran.err]).toEqual([line, 0, ""]);
  }
  const executable = { sha256: null, as_of: compiledAsOf, source: null };
  const renewed = { sha256: sha256(newer), as_of: today, source: file };
  const both: [string, ...unknown[]][] = [
    ["facts.update", "facts", executable, renewed],
    ["facts.rollback", "facts", renewed, executable],
  ];
  expect(await ofFacts(adminId)).toEqual([...both, ...both]);
  expect(await ofFacts("cli:ann")).toEqual([...both, ...both]);
});

test.each<[string, string, string, unknown, string]>([
  [
    "keys create none --models openai",
    ...(["POST", "keys", { name: "none", models: ["openai"] }] as const),
    "models: 'openai' fits no model, as models are named <provider>/<model> and personas <namespace>/<name>; did you mean 'openai/*'?",
  ],
  ["keys create none --tags -", "POST", "keys", { name: "none", tags: ["-"] }, "The tags must be at most 16"],
  ["budgets set tier:gold day 1", "PUT", "budgets/tier:gold/day", { dollars: 1 }, "'tier:gold' names no tier."],
  ["budgets set tag:a,b day 1", "PUT", "budgets/tag:a,b/day", { dollars: 1 }, "'tag:a,b' names no tag."],
  [
    "budgets set all model:opnai/* day 1",
    ...(["PUT", `budgets/${encodeURIComponent("all model:opnai/*")}/day`, { dollars: 1 }] as const),
    "model: 'opnai/*' fits no model",
  ],
  [
    "budgets top-up all day 1",
    "POST",
    "budgets/all/day/top-up",
    { dollars: 1 },
    "No budget all day was set: set it first.",
  ],
  [
    "budgets remove all day",
    ...(["DELETE", "budgets/all/day", undefined] as const),
    "No budget all day was set; what the configuration says is changed there.",
  ],
  [
    "personas stop api/x nxt",
    ...(["POST", "personas/api/x/variants/nxt/stop", undefined] as const),
    "api/x has no variant 'nxt': now, next, third. Did you mean 'next'?",
  ],
  [
    "personas resume api/x third2",
    ...(["POST", "personas/api/x/variants/third2/resume", undefined] as const),
    "api/x has no variant third2 that is stopped.",
  ],
])("%s is refused in the same words", async (line, method, path, body, words) => {
  const { audit } = troupe.server.services.store;
  const page = { before: null, limit: 100, actor: null, act: null, subject: null };
  const before = (await audit.list(page)).length;
  const { status, json } = await ask(method, path, body);
  const { message } = json["error"] as unknown as { message: string };
  expect(message).toStartWith(words);
  const { code, err } = await shell.run(line);
  // A field of the body is a flag there.
  expect(err).toStartWith(`error: ${message.startsWith("models: ") ? "--" : ""}${message}\n`);
  expect(code).toBe(status === 400 ? 2 : 1);
  expect(await audit.list(page)).toHaveLength(before);
});
