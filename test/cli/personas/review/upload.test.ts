/** `troupe personas report --label`: what a branch changes, uploaded to a server that serves the personas of `main`, and kept there. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ManualClock } from "../../../helpers/manual-clock.ts";
import { Troupe } from "../../../helpers/troupe.ts";
import type { Ran } from "../../console.ts";
import { Repository } from "./workplace.ts";

const support = "personas/acme/support.yaml";
const recorded = "personas/acme/support.test.recorded.yaml";
const clock = new ManualClock(Date.parse("2026-11-29T10:00:00Z"));
const rules = { days: 7, max: 2, maxBytes: 100_000 };

type Push = { readonly label: string; readonly version: string; readonly key_name: string };
type Details = { readonly version: string; readonly reports: readonly Push[]; readonly previews: readonly Push[] };

let main: Repository;
let repo: Repository;
let troupe: Troupe;
let admin: string;

beforeAll(async () => {
  main = await Repository.begin();
  troupe = await Troupe.start({
    clock,
    personas: `${main.path}/personas`,
    providers: { openai: { baseUrl: "http://127.0.0.1:9" } },
    config: {
      previews: rules,
      listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "admin"] }],
    },
    surfaces: ["admin"],
  });
  await troupe.server.services.loading;
  admin = troupe.key;
  repo = main.copy();
  repo.branch("work");
  repo.shell.env["TROUPE_KEY"] = await pusher();
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  for (const one of [repo, main]) one[Symbol.dispose]();
});

const pusher = (models: readonly string[] = ["*"]) =>
  troupe.createKey({ name: "ci", tier: "pro", perMinute: 100_000, surfaces: ["preview"], models: [...models] });
const report = (line: string): Promise<Ran> =>
  repo.shell.run(`personas report --against main ${line} --url ${troupe.url}`);
const get = async <T>(path: string) => {
  const answer = await troupe.fetch(`/admin/v1/personas/acme/support${path}`, { key: admin });
  return { status: answer.status, body: (await answer.json()) as T };
};

test("a persona's page has the newest report of each label: what must be seen, the diff, and the tests before and after", async () => {
  const { version } = (await get<Details>("")).body;
  repo.replace(support, "polite", "kind");
  repo.write(recorded, repo.read(recorded).replaceAll("Be polite.", "Be kind.").replaceAll("polite. ", "kind. "));
  const ran = await report("--label pr-12");
  expect([ran.code, ran.err]).toEqual([0, "The console shows it as 'pr-12' until 2026-12-06T10:00:00.000Z.\n"]);
  expect(ran.out).toContain("fails 1 test that it passed before");
  const details = (await get<Details>("")).body;
  expect(details).toMatchObject({ previews: [], reports: [{ label: "pr-12", key_name: "ci" }] });
  expect(details.reports[0]!.version).not.toBe(version);
  const { status, body } = await get("/report");
  expect([status, body]).toEqual([
    200,
    {
      ...{ object: "persona.report", ...details.reports[0]! },
      against: { ref: "main", commit: repo.git("rev-parse", "main") },
      persona: {
        ...{ id: "acme/support", change: "changed", knowledge: [], same_tests: 0 },
        before: { version },
        after: { version: details.reports[0]!.version },
        summary: [
          "changed",
          `\`${version}\` → \`${details.reports[0]!.version}\``,
          "tests passed 2 of 2 → 1 of 2",
          expect.stringMatching(/^an answer \$/),
          expect.stringMatching(/^median \d+ ms$/),
          expect.stringMatching(/^a plain call at most \$/),
        ],
        must_see: ["fails 1 test that it passed before: `greets`"],
        patch: expect.stringContaining("-  Be polite.\n+  Be kind."),
        requests: [
          expect.objectContaining({ model: "openai/gpt-5.4-mini", change: "changed" }),
          expect.objectContaining({ model: "anthropic/claude-haiku-4-5", change: "changed" }),
        ],
        tests: [
          {
            ...{ name: "greets", change: "same" },
            before: expect.objectContaining({ verdict: "pass", reason: "", answer: "polite. hello" }),
            after: expect.objectContaining({ verdict: "fail", answer: "kind. hello", cost: expect.any(Number) }),
          },
          expect.objectContaining({ name: "names the product" }),
        ],
      },
    },
  ]);
  // Another label's, and the same one's again, by then without this persona.
  clock.advance(1000);
  await report("--label pr-13");
  clock.advance(1000);
  expect((await get<Details>("")).body.reports.map(({ label }) => label)).toEqual(["pr-13", "pr-12"]);
  expect((await get<Push>("/report?label=pr-12")).body.label).toBe("pr-12");
  await report("--label pr-13 team/*");
  expect((await get<Details>("")).body.reports.map(({ label }) => label)).toEqual(["pr-12"]);
  // Beyond previews.max the oldest makes room.
  clock.advance(1000);
  await report("--label pr-14");
  expect((await get<Details>("")).body.reports.map(({ label }) => label)).toEqual(["pr-14"]);
  const { audit } = troupe.server.services.store;
  const acts = (await audit.list({ before: null, limit: 50, actor: null, act: null, subject: null })).map(
    ({ act, subject }) => `${act} ${subject}`,
  );
  expect(acts.filter((one) => one.startsWith("report."))).toContain("report.drop pr-12");
  clock.advance(7 * 86_400_000);
  expect((await get<Details>("")).body.reports).toEqual([]);
  expect((await get("/report")).status).toBe(404);
});

test("what is refused is said in its own words, and the report is there all the same", async () => {
  const { env } = repo.shell;
  const key = env["TROUPE_KEY"]!;
  const refused = async (line: string) => {
    const { code, out, err } = await report(line);
    return { code, err, isWritten: out.startsWith("<!-- troupe personas report -->") };
  };
  expect(await refused("--label PR_12")).toMatchObject({
    code: 1,
    err: expect.stringContaining("A label must be named"),
  });
  expect((await refused("--label PR_12")).isWritten).toBe(true);
  expect(await refused("")).toEqual({
    ...{ code: 2, isWritten: false },
    err: expect.stringContaining("Say by --label under which name"),
  });
  env["TROUPE_KEY"] = await pusher(["team/*"]);
  expect(await refused("--label pr-15")).toMatchObject({
    code: 1,
    err: "error: This API key may not use acme/support, and so may not report on it.\n",
  });
  env["TROUPE_KEY"] = troupe.key;
  expect(await refused("--label pr-15")).toMatchObject({ code: 1, err: expect.stringContaining("'preview'") });
  env["TROUPE_KEY"] = key;
  repo.replace("personas/acme/handbook/hours.md", "from nine", `${"We sell kettles. ".repeat(9000)} from nine`);
  repo.replace(support, "Be kind.", `Be kind. ${"Sell many kettles.\n  ".repeat(1500)}`);
  expect(await refused("--label pr-15")).toMatchObject({ code: 0 });
  const { body } = await get<{ readonly persona: { patch: string } }>("/report");
  expect(body.persona.patch.length).toBeLessThan(20_000);
  expect(body.persona.patch.endsWith("\n…")).toBe(true);
});
